use super::*;

const LIFE: Duration = Duration::from_secs(10);
const FIN: Flags = Flags { fin: true, ack: true, syn: false, rst: false, psh: false };
const SYN: Flags = Flags { syn: true, ack: false, fin: false, rst: false, psh: false };
const ACK: Flags = Flags { ack: true, syn: false, fin: false, rst: false, psh: false };

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn flow(caller: u16) -> Flow {
    Flow { local: ([10, 0, 0, 1], 80).into(), remote: ([10, 0, 0, 2], caller).into() }
}

fn record(caller: u16, stamps: Option<(u32, u32)>) -> TimeWait {
    TimeWait {
        flow: flow(caller),
        next: 1000,
        expected: 7000,
        window: 500,
        stamps,
        offers_stamps: true,
        challenges: Challenges::new(1000),
        until: at(0) + LIFE,
        life: LIFE,
    }
}

fn waits(stamps: Option<(u32, u32)>) -> TimeWaits {
    let mut waits = TimeWaits::new(4);
    waits.insert(record(1, stamps));
    waits
}

fn segment(sequence: u32, flags: Flags, stamp: Option<u32>) -> Segment {
    let timestamps = stamp.map(|value| Timestamps { value, echo: 0 });
    let options = Options { timestamps, ..Options::default() };
    Segment { sequence, acknowledgement: 1000, flags, options, ..Segment::default() }
}

fn handle(waits: &mut TimeWaits, segment: &Segment, now: Time) -> Waiting {
    waits.handle(&flow(1), segment, 0, true, now).unwrap()
}

/// RFC 6191 section 2, each of its cases.
#[test]
fn a_newer_syn_ends_it_and_an_old_one_is_challenged() {
    let renewed = Waiting::Renewed(1000 + BEYOND);
    for (stamps, sequence, stamp, is_newer) in [
        // By clock, wherever the number is; at one time, by number.
        (Some((0, 50)), 3, Some(51), true),
        (Some((0, 50)), 9000, Some(49), false),
        (Some((0, 50)), 7000, Some(50), true),
        (Some((0, 50)), 6999, Some(50), false),
        (Some((0, u32::MAX)), 3, Some(4), true),
        // One that has no clock any more, and one that has one now.
        (Some((0, 50)), 7000, None, true),
        (Some((0, 50)), 6999, None, false),
        (None, 3, Some(51), true),
        (None, 7000, None, true),
        (None, 6999, None, false),
    ] {
        let mut waits = waits(stamps);
        let answer = handle(&mut waits, &segment(sequence, SYN, stamp), at(1));
        assert_eq!(answer == renewed, is_newer, "{stamps:?} {sequence} {stamp:?}: {answer:?}");
        assert_eq!(waits.contains(&flow(1)), !is_newer);
        if !is_newer {
            assert!(matches!(answer, Waiting::Reply(reply) if reply.flags == ACK && reply.acknowledgement == 7000));
        }
    }
    let mut waits = waits(None);
    let nobody_listens = waits.handle(&flow(1), &segment(9000, SYN, None), 0, false, at(1));
    assert!(matches!(nobody_listens, Some(Waiting::Reply(_))) && waits.len() == 1);
    assert_eq!(waits.handle(&flow(2), &segment(9000, SYN, None), 0, true, at(1)), None);
}

#[test]
fn only_its_own_fin_begins_the_time_anew() {
    let over_at = |sent: &Segment, payload: usize| {
        let mut waits = waits(Some((0, 50)));
        waits.handle(&flow(1), sent, payload, true, at(6));
        waits.handle_timeout(at(10));
        waits.handle_timeout(at(15));
        assert!(waits.next_timeout().is_none_or(|next| next == at(16)));
        if waits.contains(&flow(1)) { 16 } else { 10 }
    };
    assert_eq!(over_at(&segment(6999, FIN, Some(50)), 0), 16);
    assert_eq!(over_at(&segment(6899, FIN, Some(60)), 100), 16, "behind data, as it was sent");
    for (sent, payload) in [
        (segment(6998, FIN, Some(50)), 0),
        (segment(7000, FIN, Some(50)), 0),
        (segment(6999, FIN, Some(49)), 0),
        (segment(6999, FIN, None), 0),
        (segment(6999, ACK, Some(50)), 1),
        (segment(123_456, ACK, Some(50)), 1400),
        (Segment { acknowledgement: 999, ..segment(6999, FIN, Some(50)) }, 0),
        (segment(6999, SYN, Some(50)), 0),
        (segment(6999, Flags { rst: true, ..FIN }, Some(50)), 0),
    ] {
        assert_eq!(over_at(&sent, payload), 10, "{sent:?}");
    }
}

#[test]
fn resets_and_acknowledgements_are_not_answered_and_what_is_wrong_is() {
    let mut waits = waits(Some((7, 50)));
    let reset = segment(7000, Flags { rst: true, ..Flags::default() }, None);
    assert_eq!(handle(&mut waits, &reset, at(1)), Waiting::Nothing);
    assert_eq!(handle(&mut waits, &segment(7000, ACK, Some(50)), at(1)), Waiting::Nothing);
    let Waiting::Reply(reply) = handle(&mut waits, &segment(6000, ACK, Some(50)), at(1)) else { panic!("no answer") };
    let stamps = Timestamps { value: 1007, echo: 50 };
    let expected = (1000, 7000, 500, Some(stamps), 80, 1);
    let Segment { sequence, acknowledgement, window, source, destination, options, .. } = reply;
    assert_eq!((sequence, acknowledgement, window, options.timestamps, source, destination), expected);
    // This often in a second, whichever peer asks.
    let answers = (0..2000).filter(|_| handle(&mut waits, &segment(1, FIN, Some(1)), at(1)) != Waiting::Nothing);
    assert_eq!(answers.count(), 999);
}

#[test]
fn one_too_many_pushes_out_the_oldest() {
    let mut waits = TimeWaits::new(100);
    let later = |caller: u16| TimeWait { until: at(0) + LIFE * u32::from(caller) / 1000, ..record(caller, None) };
    (0..1000).for_each(|caller| waits.insert(later(caller)));
    assert_eq!((waits.len(), waits.evicted()), (100, 900));
    assert!((900..1000).all(|caller| waits.contains(&flow(caller))));
    // Used anew and shut anew, again and again: the order stays bounded.
    for _ in 0..10_000 {
        waits.handle(&flow(950), &segment(9000, SYN, None), 0, true, at(1));
        waits.insert(record(950, None));
    }
    assert_eq!((waits.len(), waits.evicted()), (100, 900));
    assert!(waits.order.len() <= 200);
    waits.handle_timeout(at(100));
    assert!(waits.is_empty() && waits.next_timeout().is_none());
}
