use core::time::Duration;

use proptest::prelude::*;
use weft_base::{Ecn, Random, Time};

use super::*;

const ALWAYS: Delayed = Delayed { chance: Chance::ALWAYS, by: Duration::ZERO };

fn link(settings: Settings) -> Link<usize> {
    Link::new(settings, Random::new(7))
}

fn packet(tag: usize, length: usize) -> Packet<usize> {
    Packet { bytes: vec![0x5a; length], ecn: Ecn::Capable0, tag }
}

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

/// All that comes, with when it does.
fn drain(link: &mut Link<usize>) -> Vec<(Time, Packet<usize>)> {
    let mut all = Vec::new();
    while let Some(now) = link.next_time() {
        all.extend(link.deliver_timed(now));
    }
    all
}

fn tags(link: &mut Link<usize>) -> Vec<usize> {
    drain(link).into_iter().map(|(_, packet)| packet.tag).collect()
}

#[test]
fn a_perfect_link_brings_all_at_once() {
    let mut link = link(Settings::default());
    assert_eq!((link.next_time(), link.deliver(at(9))), (None, None));
    for tag in 0..3 {
        assert_eq!(link.send(packet(tag, 100), at(5)), Admission::Taken);
    }
    assert_eq!(link.deliver(at(4)), None, "not before it was sent");
    assert_eq!(link.deliver(at(5)), Some(packet(0, 100)));
    assert_eq!(tags(&mut link), [1, 2]);
}

#[test]
fn delay_and_jitter_keep_the_order() {
    let (delay, jitter) = (Duration::from_micros(100), Duration::from_micros(50));
    let mut link = link(Settings { delay, jitter, ..Settings::default() });
    for tag in 0..100 {
        link.send(packet(tag, 1), at(tag as u64));
    }
    let came = drain(&mut link);
    assert!(came.iter().map(|(_, packet)| packet.tag).eq(0..100));
    let took: Vec<_> = came.iter().map(|(when, packet)| when.since(at(packet.tag as u64))).collect();
    assert!(took.iter().all(|took| *took >= delay && *took <= delay + jitter), "{took:?}");
    assert!(took.iter().any(|first| *first != took[0]), "{took:?}");
}

#[test]
fn the_rate_is_kept_and_the_queue_is_bounded() {
    // 8 Mb/s is a byte in a microsecond; 28 and 38 bytes go with each packet.
    let queue = Queue { bytes: 5000, mark_at: Some(3000) };
    let mut link = link(Settings { rate_bits_per_s: Some(8_000_000), queue, ..Settings::default() });
    for tag in 0..8 {
        link.send(packet(tag, 972), at(0));
    }
    let came = drain(&mut link);
    let times: Vec<_> = came.iter().map(|(when, _)| *when).collect();
    assert_eq!(times, [1038, 2076, 3114, 4152, 5190].map(at), "five of 1000 bytes fit");
    let marks: Vec<_> = came.iter().map(|(_, packet)| packet.ecn == Ecn::Congested).collect();
    assert_eq!(marks, [false, false, false, true, true]);
    let statistics = link.statistics();
    assert_eq!((statistics.overflowed, statistics.marked), (3, 2));
    // What has left makes room.
    link.send(packet(9, 972), at(1038));
    assert_eq!(link.in_flight(), 1);
}

#[test]
fn only_what_is_capable_is_marked_and_a_bleached_way_clears_it() {
    let queue = Queue { bytes: 5000, mark_at: Some(0) };
    let mut settings = Settings { rate_bits_per_s: Some(1_000_000), queue, ..Settings::default() };
    let mut way = link(settings);
    let marks = |way: &mut Link<usize>| {
        for ecn in [Ecn::NotCapable, Ecn::Capable0, Ecn::Capable1, Ecn::Congested] {
            way.send(Packet { ecn, ..packet(0, 1) }, at(0));
        }
        drain(way).into_iter().map(|(_, packet)| packet.ecn).collect::<Vec<_>>()
    };
    assert_eq!(marks(&mut way), [Ecn::NotCapable, Ecn::Congested, Ecn::Congested, Ecn::Congested]);
    settings.clears_ecn = true;
    assert_eq!(marks(&mut link(settings)), [Ecn::NotCapable; 4]);
}

#[test]
fn loss_is_as_frequent_as_asked_for() {
    let count = 100_000;
    let lost = |loss| {
        let mut link = link(Settings { loss, in_flight: count, ..Settings::default() });
        for tag in 0..count {
            link.send(packet(tag, 0), at(0));
        }
        let came = tags(&mut link);
        let gaps = came.windows(2).filter(|pair| pair[1] > pair[0] + 1).count();
        (link.statistics().lost as usize, gaps)
    };
    assert_eq!(lost(Loss::None), (0, 0));
    assert_eq!(lost(Loss::Independent(Chance::ALWAYS)).0, count);
    let (independent, gaps) = lost(Loss::Independent(Chance::percent(2)));
    assert!((1800..2200).contains(&independent), "{independent}");
    assert!(gaps * 20 > independent * 18, "{gaps} gaps, {independent} lost: hardly two in a row");
    let (bursts, gaps) = lost(Loss::bursts(Chance::percent(2), 5));
    assert!((1600..2400).contains(&bursts), "{bursts}");
    assert!(gaps * 4 < bursts && gaps * 6 > bursts, "{gaps} gaps, {bursts} lost: five in a row");
}

#[test]
fn what_is_held_back_is_overtaken() {
    let reordering = Delayed { chance: Chance::percent(20), by: Duration::from_micros(50) };
    let mut link = link(Settings { reordering, ..Settings::default() });
    for tag in 0..200 {
        link.send(packet(tag, 1), at(tag as u64));
    }
    let came = tags(&mut link);
    let overtaken = came.iter().enumerate().filter(|(index, tag)| came[index + 1..].iter().any(|later| later < tag));
    assert!(overtaken.count() > 20);
    assert!(link.statistics().held_back > 20);
}

#[test]
fn a_copy_comes_later_and_each_may_be_damaged() {
    let duplication = Delayed { chance: Chance::ALWAYS, by: Duration::from_micros(9) };
    let mut way = link(Settings { duplication, ..Settings::default() });
    way.send(packet(3, 10), at(0));
    let came = drain(&mut way);
    assert!(came.len() == 2 && came.iter().all(|(when, each)| *when <= at(9) && *each == packet(3, 10)));

    let mut way = link(Settings { corruption: Chance::ALWAYS, duplication: ALWAYS, ..Settings::default() });
    for tag in 0..500 {
        way.send(packet(tag, 1 + tag % 50), at(0));
    }
    for (_, damaged) in drain(&mut way) {
        let flipped: u32 = damaged.bytes.iter().map(|byte| (byte ^ 0x5a).count_ones()).sum();
        assert!((1..=4).contains(&flipped) && damaged.bytes.len() == 1 + damaged.tag % 50, "{damaged:?}");
    }
    way.send(packet(0, 0), at(0));
    assert_eq!(drain(&mut way).len(), 2, "of nothing, nothing is damaged");
}

#[test]
fn a_partition_takes_what_leaves_in_it() {
    let mut link = link(Settings { delay: Duration::from_micros(10), ..Settings::default() });
    link.cut(at(20)..at(30));
    for tag in [19, 20, 29, 30] {
        link.send(packet(tag, 1), at(tag as u64));
    }
    assert!(link.is_cut(at(20)) && !link.is_cut(at(30)));
    assert_eq!((tags(&mut link), link.statistics().cut), (vec![19, 30], 2), "what had left arrives");
    link.cut(at(30)..Time::from_nanos(u64::MAX));
    link.mend();
    link.send(packet(31, 1), at(31));
    assert_eq!(tags(&mut link), [31]);
}

#[test]
fn an_mtu_is_told_or_is_a_black_hole() {
    let mut mtu = Mtu { bytes: 1500, tells: true };
    let mut way = link(Settings { mtu: Some(mtu), ..Settings::default() });
    assert_eq!(way.send(packet(0, 1473), at(0)), Admission::TooLarge(1472));
    assert_eq!(way.send(packet(1, 1472), at(0)), Admission::Taken);
    assert_eq!((tags(&mut way), way.statistics().too_large), (vec![1], 1));
    mtu.tells = false;
    let mut way = link(Settings { mtu: Some(mtu), ..Settings::default() });
    assert_eq!(way.send(packet(0, 1473), at(0)), Admission::Taken);
    assert_eq!(way.in_flight(), 0);
}

#[test]
fn so_many_may_be_on_the_way() {
    let mut link = link(Settings { in_flight: 2, ..Settings::default() });
    for tag in 0..3 {
        link.send(packet(tag, 1), at(0));
    }
    assert_eq!((tags(&mut link), link.statistics().overflowed), (vec![0, 1], 1));
}

#[test]
fn chances() {
    let mut random = Random::new(3);
    assert!((0..1000).all(|_| Chance::ALWAYS.happens(&mut random) && !Chance::NEVER.happens(&mut random)));
    assert_eq!(Chance::one_in(4), Chance::percent(25));
    assert_eq!((Chance::one_in(0), Chance::percent(101)), (Chance::NEVER, Chance::ALWAYS));
    assert_eq!(Loss::bursts(Chance::ALWAYS, 0), Loss::bursts(Chance::percent(200), 1));
}

/// Sends packets of 1000 bytes this often, and takes what comes when it does.
fn stream(way: &mut Link<usize>, count: usize, every_us: u64) -> Vec<(Time, usize)> {
    let mut came = Vec::new();
    for tag in 0..count {
        let now = at(tag as u64 * every_us);
        came.extend(core::iter::from_fn(|| way.deliver_timed(now)).map(|(when, packet)| (when, packet.tag)));
        way.send(Packet { ecn: Ecn::NotCapable, ..packet(tag, 1000) }, now);
    }
    came.extend(drain(way).into_iter().map(|(when, packet)| (when, packet.tag)));
    came
}

const BARE: Settings = Settings {
    delay: Duration::ZERO,
    jitter: Duration::ZERO,
    spread: Spread::None,
    correlation: Chance::NEVER,
    overtakes: false,
    rate_bits_per_s: None,
    queue: Queue { bytes: 1_000_000, mark_at: None },
    codel: None,
    loss: Loss::None,
    reordering: Delayed { chance: Chance::NEVER, by: Duration::ZERO },
    duplication: Delayed { chance: Chance::NEVER, by: Duration::ZERO },
    corruption: Chance::NEVER,
    most_flips: 4,
    clears_ecn: false,
    mtu: None,
    header_bytes: 0,
    frame_bytes: 0,
    in_flight: 1 << 16,
};

#[test]
fn codel_keeps_the_wait_short_and_the_link_busy() {
    // 8 Mb/s sends 1000 bytes in 1 ms; a tenth more comes than leaves.
    let waits = |codel| {
        let mut way = link(Settings { rate_bits_per_s: Some(8_000_000), codel, ..BARE });
        let came = stream(&mut way, 10_000, 909);
        let tail = &came[came.len() / 2..];
        let waits: Vec<_> = tail.iter().map(|(when, tag)| when.since(at(*tag as u64 * 909)).as_millis()).collect();
        assert_eq!(way.statistics().codel_dropped > 0, codel.is_some(), "{:?}", way.statistics());
        assert!(tail.windows(2).all(|pair| pair[1].0.since(pair[0].0) == Duration::from_millis(1)), "it is busy");
        waits.iter().sum::<u128>() / waits.len() as u128
    };
    let (without, with) = (waits(None), waits(Some(CoDel::default())));
    assert!(without > 500 && with < 100, "{without} and {with} ms");
}

#[test]
fn codel_marks_what_can_be_marked_and_decides_whenever_it_is_asked() {
    let settings = Settings { rate_bits_per_s: Some(8_000_000), codel: Some(CoDel::default()), ..BARE };
    let run = |ecn, is_polled: bool| {
        let mut way = link(settings);
        for tag in 0..400 {
            let now = at(tag as u64 * 500);
            if is_polled {
                way.next_time().filter(|next| *next <= now).map(|next| way.deliver(next));
            }
            way.send(Packet { ecn, ..packet(tag, 1000) }, now);
        }
        let rest = drain(&mut way).last().map(|(when, _)| *when);
        let mut all = way.statistics();
        all.delivered = 0;
        (all, rest)
    };
    let (dropped, last) = run(Ecn::NotCapable, false);
    assert!(dropped.codel_dropped > 2 && dropped.marked == 0, "{dropped:?}");
    assert_eq!(run(Ecn::NotCapable, true), (dropped, last), "when somebody asks is of no matter");
    let (marked, _) = run(Ecn::Capable0, false);
    assert!(marked.codel_dropped == 0 && marked.marked > 2, "{marked:?}");
}

#[test]
fn a_trace_says_when_packets_leave() {
    let trace = RateTrace::parse("1\n4\n4\n10\n").unwrap();
    for codel in [None, Some(CoDel::default())] {
        let profile = Profile { trace: Some(trace.clone().into()), ..Settings { codel, ..BARE }.into() };
        let mut way = Link::new(profile, Random::new(1));
        for tag in 0..6 {
            way.send(packet(tag, 1500), at(0));
        }
        let times: Vec<_> = drain(&mut way).into_iter().map(|(when, _)| when).collect();
        assert_eq!(times, [1000, 4000, 4000, 10_000, 11_000, 14_000].map(at), "{codel:?}");
    }
}

#[test]
fn delays_are_spread_and_may_overtake() {
    let delay = Duration::from_millis(10);
    let spread = Spread::Normal { deviation: Duration::from_millis(1) };
    let run = |overtakes| {
        let mut way = link(Settings { delay, spread, overtakes, ..BARE });
        stream(&mut way, 5000, 100)
    };
    assert!(run(false).iter().map(|(_, tag)| *tag).eq(0..5000), "in order");
    let came = run(true);
    let took: Vec<_> = came.iter().map(|(when, tag)| when.since(at(*tag as u64 * 100)).as_secs_f64() * 1e3).collect();
    let mean = took.iter().sum::<f64>() / took.len() as f64;
    let deviation = (took.iter().map(|took| (took - mean).powi(2)).sum::<f64>() / took.len() as f64).sqrt();
    assert!((mean - 10.0).abs() < 0.1 && (deviation - 1.0).abs() < 0.05, "{mean} {deviation}");
    assert!(came.windows(2).any(|pair| pair[0].1 > pair[1].1));
    let delays = Some(DelayTable::parse("3\n3\n").unwrap().into());
    let mut way = Link::new(Profile { delays, ..BARE.into() }, Random::new(1));
    assert_eq!(stream(&mut way, 1, 0), [(at(3000), 0)]);
}

#[test]
fn changes_come_at_their_time() {
    let with_delay = |micros| Profile::from(Settings { delay: Duration::from_micros(micros), ..BARE });
    let mut way = Link::new(with_delay(100), Random::new(1));
    // They may be given in any order.
    way.set_changes([(at(3000), with_delay(50)), (at(1000), with_delay(500))]);
    for (tag, now) in [999, 1000, 2999, 3500].into_iter().enumerate() {
        way.send(packet(tag, 1), at(now));
    }
    let came: Vec<_> = core::iter::from_fn(|| way.deliver_timed(at(9000))).map(|(when, _)| when).collect();
    assert_eq!(came, [1099, 1500, 3499, 3550].map(at));
}

#[test]
fn a_rate_that_changes_holds_for_what_stands_in_the_queue() {
    let with_rate = |rate| Settings { rate_bits_per_s: Some(rate), codel: Some(CoDel::default()), ..BARE };
    let mut way = link(with_rate(8_000_000));
    way.set_changes([(at(1500), with_rate(80_000_000).into()), (at(2050), Settings { codel: None, ..BARE }.into())]);
    (0..5).for_each(|tag| _ = way.send(packet(tag, 1000), at(0)));
    let times: Vec<_> = drain(&mut way).into_iter().map(|(when, _)| when).collect();
    assert_eq!(times, [1000, 2000, 2100, 2100, 2100].map(at));
}

#[test]
fn lateness_does_not_add_up_along_a_chain() {
    let delay = Duration::from_micros(100);
    let mut chain = [0, 1, 2].map(|_| link(Settings { delay, ..BARE }));
    chain[0].send(packet(0, 1), at(0));
    // Its carrier comes late each time.
    let (when, packet) = chain[0].deliver_timed(at(170)).unwrap();
    chain[1].send(packet, when);
    let (when, packet) = chain[1].deliver_timed(at(270)).unwrap();
    chain[2].send(packet, when);
    assert_eq!(chain[2].next_time(), Some(at(300)));
}

#[test]
fn only_the_beginning_of_a_packet_may_be_at_hand() {
    let mut way = link(Settings { rate_bits_per_s: Some(8_000_000), ..BARE });
    way.send_part(packet(0, 20), 1000, at(0));
    assert_eq!(way.next_time(), Some(at(1000)));
}

#[test]
fn what_a_profile_needs() {
    let needs = |settings: Settings| {
        let profile = Profile::from(settings);
        (profile.needs_single_packets(), profile.changes_packets())
    };
    let delay = Duration::from_millis(4);
    assert_eq!(needs(Settings { delay, jitter: delay, ..BARE }), (false, false));
    assert_eq!(needs(Settings { rate_bits_per_s: Some(1), ..BARE }), (true, false));
    assert_eq!(needs(Settings { rate_bits_per_s: Some(1), codel: Some(CoDel::default()), ..BARE }), (true, true));
    assert_eq!(needs(Settings { loss: Loss::Independent(Chance::ALWAYS), ..BARE }), (true, false));
    assert_eq!(needs(Settings { corruption: Chance::ALWAYS, ..BARE }), (true, true));
}

fn chance() -> impl Strategy<Value = Chance> {
    prop_oneof![Just(Chance::NEVER), (0..=1_000_000u32).prop_map(Chance::per_million)]
}

fn duration() -> impl Strategy<Value = Duration> {
    (0..5000u64).prop_map(Duration::from_micros)
}

fn delayed() -> impl Strategy<Value = Delayed> {
    (chance(), duration()).prop_map(|(chance, by)| Delayed { chance, by })
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        chance().prop_map(Loss::Independent),
        (chance(), chance(), chance(), chance()).prop_map(|(worsens, mends, in_good, in_bad)| Loss::Bursts {
            worsens,
            mends,
            in_good,
            in_bad
        }),
    ]
}

fn spread() -> impl Strategy<Value = Spread> {
    prop_oneof![
        Just(Spread::None),
        duration().prop_map(|deviation| Spread::Normal { deviation }),
        (duration(), 1..5000u32).prop_map(|(scale, shape_thousandths)| Spread::Pareto { scale, shape_thousandths }),
    ]
}

fn codel() -> impl Strategy<Value = Option<CoDel>> {
    proptest::option::of((duration(), duration()).prop_map(|(target, interval)| CoDel { target, interval }))
}

prop_compose! {
    fn settings()(
        (delay, jitter, rate) in (duration(), duration(), proptest::option::of(1..10_000_000_000u64)),
        (bytes, mark_at) in (0..100_000u64, proptest::option::of(0..100_000u64)),
        (loss, reordering, duplication, corruption) in (loss(), delayed(), delayed(), chance()),
        (mtu, tells, in_flight) in (proptest::option::of(0..3000u32), any::<bool>(), 0..200usize),
        (spread, correlation, overtakes, codel) in (spread(), chance(), any::<bool>(), codel()),
    ) -> Settings {
        Settings {
            delay,
            jitter,
            spread,
            correlation,
            overtakes,
            rate_bits_per_s: rate,
            queue: Queue { bytes, mark_at },
            codel,
            loss,
            reordering,
            duplication,
            corruption,
            mtu: mtu.map(|bytes| Mtu { bytes, tells }),
            in_flight,
            ..Settings::default()
        }
    }
}

proptest! {
    /// Every packet comes once for itself and once for each copy, or is accounted for; none comes early, none from
    /// nowhere.
    #[test]
    fn nothing_is_lost_without_a_cause(
        settings in settings(),
        seed: u64,
        sends in proptest::collection::vec((0..2000u64, 0..3000usize), 1..200),
        cut in (0..100_000u64, 0..100_000u64),
    ) {
        let mut runs = [0, 1].map(|_| {
            let mut link = Link::new(settings, Random::new(seed));
            link.cut(at(cut.0)..at(cut.0 + cut.1));
            let (mut now, mut came) = (0, Vec::new());
            let mut sent = Vec::new();
            for (tag, (pause, length)) in sends.iter().enumerate() {
                now += pause;
                sent.push(now);
                link.send(packet(tag, *length), at(now));
                if tag % 3 == 0 {
                    came.extend(core::iter::from_fn(|| link.deliver(at(now))).map(|packet| (at(now), packet)));
                }
                let on_the_way = link.in_flight() as u64;
                let s = link.statistics();
                let gone = s.delivered + s.lost + s.overflowed + s.codel_dropped + s.cut + s.too_large;
                assert_eq!(s.sent + s.duplicated, gone + on_the_way, "{s:?}");
            }
            came.extend(drain(&mut link));
            (came, sent, link.statistics())
        });
        let (came, sent, statistics) = &runs[0];
        prop_assert_eq!(came, &runs[1].0, "the same seed is the same run");
        prop_assert_eq!(statistics.delivered, came.len() as u64);
        let mut times = vec![0u64; sends.len()];
        for (when, packet) in came {
            times[packet.tag] += 1;
            let may_hurry = matches!(settings.spread, Spread::Normal { .. });
            let least = if may_hurry { Duration::ZERO } else { settings.delay };
            prop_assert!(*when >= at(sent[packet.tag]) + least);
            prop_assert_eq!(packet.bytes.len(), sends[packet.tag].1);
        }
        prop_assert!(times.iter().all(|times| *times <= 2));
        prop_assert_eq!(times.iter().filter(|times| **times == 2).count() as u64, statistics.duplicated);
        runs[0].0.clear();
    }
}
