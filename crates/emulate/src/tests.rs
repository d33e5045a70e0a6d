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
    core::iter::from_fn(|| link.next_time().map(|now| (now, link.deliver(now).expect("it is there by then")))).collect()
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

prop_compose! {
    fn settings()(
        (delay, jitter, rate) in (duration(), duration(), proptest::option::of(1..10_000_000_000u64)),
        (bytes, mark_at) in (0..100_000u64, proptest::option::of(0..100_000u64)),
        (loss, reordering, duplication, corruption) in (loss(), delayed(), delayed(), chance()),
        (mtu, tells, in_flight) in (proptest::option::of(0..3000u32), any::<bool>(), 0..200usize),
    ) -> Settings {
        Settings {
            delay,
            jitter,
            rate_bits_per_s: rate,
            queue: Queue { bytes, mark_at },
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
                let gone = s.delivered + s.lost + s.overflowed + s.cut + s.too_large;
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
            prop_assert!(*when >= at(sent[packet.tag]) + settings.delay);
            prop_assert_eq!(packet.bytes.len(), sends[packet.tag].1);
        }
        prop_assert!(times.iter().all(|times| *times <= 2));
        prop_assert_eq!(times.iter().filter(|times| **times == 2).count() as u64, statistics.duplicated);
        runs[0].0.clear();
    }
}
