//! The detector packet by packet, and against any order of acknowledgements.

use proptest::prelude::*;

use super::*;
use crate::reordering::PACKET_THRESHOLD;

const BYTES: u32 = 1000;

#[derive(Default, Debug, PartialEq)]
struct Seen {
    acked: Vec<u64>,
    lost: Vec<u64>,
    late: Vec<u64>,
}

impl Fate<u64> for Seen {
    fn acked(&mut self, number: u64, packet: u64) {
        assert_eq!(number, packet);
        self.acked.push(number);
    }

    fn lost(&mut self, number: u64, packet: &mut u64) {
        assert_eq!(number, *packet);
        self.lost.push(number);
    }

    fn late(&mut self, number: u64, packet: u64) {
        assert_eq!(number, packet);
        self.late.push(number);
    }
}

fn us(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// `count` packets, one every microsecond from `from` on.
fn send(sent: &mut SentPackets<u64>, count: u64, from: u64) {
    for index in 0..count {
        let number = sent.next_number();
        sent.on_sent(number, BYTES, false, number, us(from + index)).unwrap();
    }
}

fn with(count: u64) -> SentPackets<u64> {
    let mut sent = SentPackets::new(0, 4096, RoundTripSettings::default());
    send(&mut sent, count, 0);
    sent
}

fn ack(sent: &mut SentPackets<u64>, ranges: &[RangeInclusive<u64>], at: u64) -> (Feedback, Seen) {
    let mut seen = Seen::default();
    let feedback = sent.on_ack(ranges.iter().cloned(), Duration::ZERO, us(at), &mut seen).unwrap();
    (feedback, seen)
}

#[test]
fn in_order_everything_is_acknowledged_once_and_nothing_is_kept() {
    let mut sent = with(10);
    assert_eq!(sent.in_flight(), 10_000);
    let (feedback, seen) = ack(&mut sent, &[0..=4], 1004);
    assert_eq!(seen.acked, [0, 1, 2, 3, 4]);
    assert_eq!((feedback.acked_bytes, feedback.in_flight_before, feedback.in_flight), (5000, 10_000, 5000));
    assert_eq!(feedback.rtt, Some(Duration::from_millis(1)));
    let (feedback, seen) = ack(&mut sent, &[0..=9], 1009);
    assert_eq!((seen.acked.as_slice(), feedback.acked_packets), ([5, 6, 7, 8, 9].as_slice(), 5));
    assert_eq!((sent.ring.len(), sent.in_flight(), sent.next_timeout()), (0, 0, None));
    let (again, seen) = ack(&mut sent, &[3..=9, 0..=1], 1010);
    assert_eq!((again.acked_packets, again.rtt, seen), (0, None, Seen::default()));
}

#[test]
fn three_packets_later_is_lost_and_starts_one_episode() {
    let mut sent = with(10);
    let (feedback, seen) = ack(&mut sent, &[2..=3], 1003);
    assert_eq!((seen.lost.as_slice(), feedback.congested), ([0].as_slice(), true));
    let (feedback, seen) = ack(&mut sent, &[2..=4], 1004);
    assert_eq!((seen.lost.as_slice(), feedback.congested), ([1].as_slice(), false), "the same episode");
    assert_eq!((feedback.lost_bytes, sent.in_flight()), (1000, 5000));
}

#[test]
fn a_packet_is_given_up_by_time_when_none_comes_to_say_so() {
    let mut sent = with(3);
    let (_, seen) = ack(&mut sent, &[2..=2], 8002);
    assert_eq!(seen.lost, []);
    let due = sent.next_timeout().unwrap();
    assert_eq!(due, us(9000), "9/8 of the round trip after the oldest was sent");
    let mut seen = Seen::default();
    assert_eq!(sent.on_timeout(us(8999), &mut seen), Timeout::Early);
    let Timeout::Losses(feedback) = sent.on_timeout(due, &mut seen) else { panic!("a loss is due") };
    assert_eq!((seen.lost.as_slice(), feedback.congested), ([0].as_slice(), true));
    assert_eq!(sent.next_timeout(), Some(us(9001)), "and the next a microsecond later");
}

#[test]
fn silence_asks_for_probes_ever_more_rarely_and_loses_nothing() {
    let mut sent = with(1);
    let mut seen = Seen::default();
    let mut last = Time::ZERO;
    let mut waits = Vec::new();
    for count in 1..=8 {
        let due = sent.next_timeout().unwrap();
        waits.push(due.since(last));
        assert_eq!(sent.on_timeout(due, &mut seen), Timeout::Probe { count });
        last = due;
    }
    assert_eq!(waits[1], 2 * waits[0]);
    assert_eq!(waits[7], MAX_PROBE_INTERVAL);
    assert_eq!((seen, sent.in_flight()), (Seen::default(), 1000));
    let at = last.as_nanos() / 1000 + 10;
    send(&mut sent, 1, at);
    ack(&mut sent, &[1..=1], at + 1000);
    assert_eq!(sent.backoff, 0);
}

#[test]
fn a_late_packet_takes_the_cut_back_and_teaches_the_thresholds() {
    let mut sent = with(30);
    let (feedback, seen) = ack(&mut sent, &[1..=20], 1020);
    assert_eq!((seen.lost.as_slice(), feedback.congested), ([0].as_slice(), true));
    let (feedback, seen) = ack(&mut sent, &[0..=21], 1100);
    assert_eq!((seen.late.as_slice(), feedback.undo, feedback.late_packets), ([0].as_slice(), true, 1));
    assert_eq!(sent.thresholds().0, 21);
    send(&mut sent, 30, 2000);
    let (_, seen) = ack(&mut sent, &[31..=50, 0..=29], 3020);
    assert_eq!(seen.lost, [], "as late as before is not lost now");
    let (_, seen) = ack(&mut sent, &[31..=51, 0..=29], 3021);
    assert_eq!(seen.lost, [30]);
}

#[test]
fn an_episode_with_a_true_loss_is_not_taken_back() {
    let mut sent = with(30);
    ack(&mut sent, &[2..=20], 1020);
    let (feedback, _) = ack(&mut sent, &[1..=20], 1030);
    assert!(!feedback.undo);
}

#[test]
fn quiet_rounds_bring_the_threshold_back() {
    let mut sent = with(30);
    ack(&mut sent, &[1..=20], 1020);
    ack(&mut sent, &[0..=29], 1100);
    assert!(sent.thresholds().0 > PACKET_THRESHOLD);
    for round in 0..80u64 {
        let first = sent.next_number();
        send(&mut sent, 4, 2000 + round * 1100);
        ack(&mut sent, &[first..=first + 3], 3000 + round * 1100);
    }
    assert_eq!(sent.thresholds().0, PACKET_THRESHOLD);
}

#[test]
fn a_true_loss_is_forgotten_in_time() {
    let mut sent = with(10);
    ack(&mut sent, &[1..=9], 1009);
    assert_eq!(sent.ring.len(), 10);
    send(&mut sent, 1, 200_000);
    ack(&mut sent, &[10..=10], 201_000);
    assert_eq!(sent.ring.len(), 0);
    let (feedback, seen) = ack(&mut sent, &[0..=10], 201_001);
    assert_eq!((feedback.late_packets, seen), (0, Seen::default()), "too late to mean anything");
}

#[test]
fn what_was_never_sent_and_what_is_no_list_of_ranges_is_refused_and_changes_nothing() {
    let mut sent = with(10);
    let mut refuse = |ranges: &[RangeInclusive<u64>]| {
        let mut seen = Seen::default();
        let error = sent.on_ack(ranges.iter().cloned(), Duration::ZERO, us(1000), &mut seen).unwrap_err();
        assert_eq!((seen, sent.in_flight()), (Seen::default(), 10_000));
        error
    };
    assert_eq!(refuse(&[]), AckError::Empty);
    let error = refuse(&[0..=10]);
    assert_eq!(error, AckError::NeverSent { number: 10, next: 10 });
    assert_eq!(error.to_string(), "packet 10 is acknowledged but was never sent (the next number is 10); drop it");
    assert_eq!(refuse(&[5..=u64::MAX]), AckError::NeverSent { number: u64::MAX, next: 10 });
    assert_eq!(refuse(&[2..=3, 5..=6]), AckError::Disorder { start: 5, end: 6 });
    assert_eq!(refuse(&[5..=6, 3..=5]), AckError::Disorder { start: 3, end: 5 });
    assert_eq!(refuse(&[RangeInclusive::new(6, 5)]), AckError::Disorder { start: 6, end: 5 });
}

#[test]
fn the_limit_holds_and_lost_packets_make_room() {
    let mut sent = SentPackets::new(7, 4, RoundTripSettings::default());
    send(&mut sent, 4, 0);
    assert_eq!(sent.next_number(), 11);
    assert!(!sent.has_room());
    assert_eq!(sent.on_sent(11, BYTES, false, 11, us(9)), Err(SendError::Full { limit: 4 }));
    assert_eq!(sent.on_sent(10, BYTES, false, 10, us(9)), Err(SendError::Number { number: 10, expected: 11 }));
    ack(&mut sent, &[8..=10], 1000);
    assert!(sent.has_room(), "packet 7 is lost");
    send(&mut sent, 1, 1001);
    assert_eq!((sent.ring.len(), sent.first), (1 + 3, 8));
}

#[test]
fn packets_that_ask_for_nothing_are_neither_under_way_nor_lost() {
    let mut sent = with(0);
    sent.on_sent_unasked(0, us(0)).unwrap();
    assert_eq!((sent.ring.len(), sent.next_timeout()), (0, None));
    send(&mut sent, 1, 1);
    for number in 2..5 {
        sent.on_sent_unasked(number, us(2)).unwrap();
    }
    send(&mut sent, 1, 3);
    let (feedback, seen) = ack(&mut sent, &[5..=5], 1003);
    assert_eq!((seen.acked.as_slice(), seen.lost.as_slice()), ([5].as_slice(), [1].as_slice()));
    assert_eq!((feedback.lost_packets, sent.in_flight()), (1, 0));
    ack(&mut sent, &[0..=5], 1004);
    assert_eq!(sent.ring.len(), 0);
}

#[test]
fn long_silence_between_losses_is_persistent_congestion() {
    let mut sent = with(1);
    ack(&mut sent, &[0..=0], 1000);
    let long = 2 * sent.memory().as_micros() as u64;
    send(&mut sent, 1, 2000);
    send(&mut sent, 1, 2000 + long);
    send(&mut sent, 3, 2010 + long);
    let (feedback, seen) = ack(&mut sent, &[5..=5], 4000 + long);
    assert_eq!(seen.lost, [1, 2], "3 and 4 are not three packets before 5");
    assert!(feedback.persistent);
}

#[test]
fn a_mark_starts_an_episode_once() {
    let mut sent = with(10);
    let (mut feedback, _) = ack(&mut sent, &[0..=1], 1001);
    sent.on_marked(1, &mut feedback);
    assert!(feedback.congested && feedback.ce == 1);
    let (mut feedback, _) = ack(&mut sent, &[0..=5], 1005);
    sent.on_marked(2, &mut feedback);
    assert!(!feedback.congested, "sent before the cut");
}

#[test]
fn a_dead_rail_gives_back_what_was_under_way() {
    let mut sent = with(6);
    ack(&mut sent, &[4..=4, 2..=2], 1004);
    let back: Vec<_> = sent.abandon().map(|(number, _)| number).collect();
    assert_eq!(back, [3, 5], "0 and 1 were given up before");
    assert_eq!((sent.in_flight(), sent.next_number(), sent.next_timeout()), (0, 6, None));
    send(&mut sent, 1, 2000);
    assert_eq!(ack(&mut sent, &[6..=6, 0..=5], 3000).1.acked, [6]);
}

#[test]
fn the_rate_is_that_of_the_path() {
    // A packet of 1000 bytes each 10 us, a round trip of 1 ms.
    let mut sent = with(0);
    let mut rate = None;
    for tick in 0..1000u64 {
        send(&mut sent, 1, tick * 10);
        if tick >= 100 {
            rate = ack(&mut sent, &[0..=tick - 100], tick * 10).0.rate.or(rate);
        }
    }
    let rate = rate.unwrap();
    assert!((98_000_000..=102_000_000).contains(&rate.bytes_per_s), "{rate:?}");
    assert!(!rate.app_limited);
    sent.on_app_limited();
    send(&mut sent, 1, 10_000);
    let last = sent.next_number() - 1;
    assert!(ack(&mut sent, &[0..=last], 11_000).0.rate.unwrap().app_limited);
}

/// A step of a run: send so many, acknowledge these ranges of what is sent (in thousandths), or let time pass.
#[derive(Clone, Debug)]
enum Step {
    Send(u64),
    Ack(Vec<(u64, u64)>),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..40u64).prop_map(Step::Send),
        prop::collection::vec((0..1000u64, 0..20u64), 1..5).prop_map(Step::Ack),
        (1..20_000u64).prop_map(Step::Wait),
    ]
}

/// Ranges that go down and do not touch, out of any pairs of (place in thousandths, length).
fn ranges(pairs: &[(u64, u64)], next: u64) -> Vec<RangeInclusive<u64>> {
    let mut named: Vec<u64> =
        pairs.iter().flat_map(|(at, length)| (0..=*length).map(move |i| at * next / 1000 + i)).collect();
    named.retain(|number| *number < next);
    named.sort_unstable();
    named.dedup();
    let mut list: Vec<RangeInclusive<u64>> = Vec::new();
    for number in named {
        match list.last_mut() {
            Some(last) if *last.end() + 1 == number => *last = *last.start()..=number,
            _ => list.push(number..=number),
        }
    }
    list.reverse();
    list
}

proptest! {
    #[test]
    fn every_packet_has_one_fate_in_any_order(steps in prop::collection::vec(step(), 1..80)) {
        let mut sent = SentPackets::new(0, 4096, RoundTripSettings::default());
        let mut seen = Seen::default();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Send(count) => send(&mut sent, count, now),
                Step::Ack(pairs) => {
                    let list = ranges(&pairs, sent.next_number());
                    if list.is_empty() { continue; }
                    sent.on_ack(list.iter().cloned(), Duration::ZERO, us(now), &mut seen).unwrap();
                    let twice = sent.on_ack(list.iter().cloned(), Duration::ZERO, us(now), &mut seen).unwrap();
                    prop_assert_eq!((twice.acked_packets, twice.late_packets), (0, 0));
                }
                Step::Wait(time) => now += time,
            }
            now += 40;
            sent.on_timeout(us(now), &mut seen);
            check_against_all(&sent, &seen)?;
        }
        let last = sent.next_number();
        if last > 0 {
            sent.on_ack([0..=last - 1].into_iter(), Duration::ZERO, us(now + 10), &mut seen).unwrap();
            prop_assert_eq!((sent.in_flight(), sent.next_timeout()), (0, None));
        }
    }
}

/// Counted anew from every fate that was told: who is under way, and that nobody had two fates.
fn check_against_all(sent: &SentPackets<u64>, seen: &Seen) -> Result<(), TestCaseError> {
    let mut ended: Vec<u64> = seen.acked.iter().chain(&seen.lost).copied().collect();
    ended.sort_unstable();
    let count = ended.len();
    ended.dedup();
    prop_assert_eq!(ended.len(), count, "a packet had two fates");
    prop_assert!(seen.late.iter().all(|number| seen.lost.contains(number)));
    let open = sent.next_number() - count as u64;
    prop_assert_eq!((sent.in_flight_packets(), sent.in_flight()), (open, open * u64::from(BYTES)));
    let held = sent.ring.iter().filter(|record| record.state == State::InFlight).count() as u64;
    prop_assert_eq!(held, open);
    Ok(())
}
