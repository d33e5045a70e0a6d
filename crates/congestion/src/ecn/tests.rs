use core::iter::once;

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// This number of packets was sent, all at time 0.
fn sent(packets: u32) -> EcnValidation {
    let mut ecn = EcnValidation::default();
    send(&mut ecn, packets);
    ecn
}

fn send(ecn: &mut EcnValidation, packets: u32) {
    (0..packets).for_each(|_| ecn.on_sent(10 * MS, at(0)));
}

fn counts(ect0: u32, ect1: u32, ce: u32) -> EcnCounts {
    EcnCounts { ect0, ect1, ce }
}

#[test]
fn ten_packets_and_then_it_waits_for_a_word() {
    let mut ecn = sent(9);
    assert!(ecn.marks(at(0)));
    ecn.on_sent(10 * MS, at(0));
    assert_eq!((ecn.state(), ecn.marks(at(0))), (EcnState::Unknown, false));
    assert_eq!(ecn.on_ack(0, counts(1, 0, 0), once(0..1)), 0);
    assert_eq!((ecn.state(), ecn.marks(at(0))), (EcnState::Capable, true));
}

#[test]
fn three_time_outs_and_then_it_waits_for_a_word() {
    for lost in [false, true] {
        let mut ecn = sent(2);
        assert!(ecn.marks(at(29)));
        if lost {
            (0..2).for_each(|number| ecn.on_lost(number));
            assert_eq!(ecn.state(), EcnState::Testing, "more may leave");
        }
        assert!(!ecn.marks(at(30)));
        let expected = if lost { EcnState::Failed(EcnFault::Lost) } else { EcnState::Unknown };
        assert_eq!(ecn.state(), expected);
    }
}

#[test]
fn marks_of_congestion_are_given_once() {
    let mut ecn = sent(10);
    assert_eq!(ecn.on_ack(4, counts(3, 0, 2), once(0..5)), 2);
    assert_eq!(ecn.on_ack(4, counts(3, 0, 2), once(0..0)), 0, "again");
    assert_eq!(ecn.on_ack(9, counts(7, 0, 3), once(5..10)), 1);
    assert_eq!(ecn.on_ack(6, counts(5, 0, 2), once(0..0)), 0, "overtaken by the one before");
    assert_eq!(ecn.state(), EcnState::Capable);
}

#[test]
fn bleached_at_once_or_later() {
    let mut ecn = sent(10);
    assert_eq!(ecn.on_ack(4, counts(0, 0, 0), once(0..5)), 0);
    assert_eq!((ecn.state(), ecn.marks(at(0))), (EcnState::Failed(EcnFault::Bleached), false));
    let mut ecn = sent(10);
    ecn.on_ack(4, counts(5, 0, 0), once(0..5));
    ecn.on_ack(9, counts(9, 0, 0), once(5..10));
    assert_eq!(ecn.state(), EcnState::Failed(EcnFault::Bleached), "one of five came without");
    assert_eq!(ecn.on_ack(10, counts(9, 0, 900), once(0..0)), 0, "it is not heard any more");
}

#[test]
fn marks_that_nobody_sent() {
    for false_counts in [counts(5, 1, 0), counts(11, 0, 0), counts(5, 0, 6), counts(u32::MAX, 0, u32::MAX)] {
        let mut ecn = sent(10);
        ecn.on_ack(4, false_counts, once(0..5));
        assert_eq!(ecn.state(), EcnState::Failed(EcnFault::Invented), "{false_counts:?}");
    }
}

#[test]
fn counts_that_go_back() {
    let mut ecn = sent(10);
    ecn.on_ack(4, counts(5, 0, 0), once(0..5));
    ecn.on_ack(5, counts(4, 0, 0), once(0..0));
    assert_eq!(ecn.state(), EcnState::Failed(EcnFault::Invented));
}

#[test]
fn all_of_the_first_are_lost() {
    let mut ecn = sent(10);
    (0..9).for_each(|number| ecn.on_lost(number));
    assert_eq!(ecn.state(), EcnState::Unknown);
    ecn.on_lost(9);
    assert_eq!(ecn.state(), EcnState::Failed(EcnFault::Lost));
}

#[test]
fn silence_stops_marks_and_who_answers_says_why() {
    // Something marked is answered, nothing marked is after marks had arrived, and none has ever arrived.
    let (proved, all) = (counts(10, 0, 0), 0..10);
    let mut ecn = sent(10);
    ecn.on_ack(9, proved, once(all.clone()));
    send(&mut ecn, 2);
    ecn.on_silence();
    assert_eq!((ecn.state(), ecn.marks(at(0))), (EcnState::Silent, false));
    let mut other = ecn.clone();
    ecn.on_ack(12, counts(12, 0, 0), once(10..12));
    ecn.on_answered(13);
    assert_eq!(ecn.state(), EcnState::Capable);
    other.on_ack(12, proved, once(0..0));
    other.on_answered(13);
    assert_eq!((other.state(), other.marks(at(0))), (EcnState::Testing, true), "it may have been a mere pause");
    send(&mut other, 1);
    other.on_silence();
    other.on_ack(14, proved, once(0..0));
    other.on_answered(15);
    assert_eq!(other.state(), EcnState::Failed(EcnFault::Lost), "and again");
    let mut never = sent(2);
    never.on_silence();
    never.on_ack(2, counts(0, 0, 0), once(0..0));
    never.on_answered(3);
    assert_eq!((never.state(), never.marks(at(0))), (EcnState::Failed(EcnFault::Lost), false));
}

#[test]
fn another_path_is_validated_anew_whatever_the_old_one_did() {
    for old in [counts(0, 0, 0), counts(10, 0, 0), counts(400, 3, 0)] {
        let mut ecn = sent(10);
        ecn.on_ack(4, old, once(0..5));
        ecn.restart(12);
        assert_eq!((ecn.state(), ecn.marks(at(100))), (EcnState::Testing, true));
        // Two that were under way on the old one come without their marks.
        ecn.on_ack(6, old, once(5..7));
        assert_eq!(ecn.state(), EcnState::Testing, "{old:?}");
        send(&mut ecn, 2);
        ecn.on_lost(8);
        let new = EcnCounts { ect0: old.ect0 + 2, ..old };
        ecn.on_ack(13, new, once(12..14));
        assert_eq!(ecn.state(), EcnState::Capable, "{old:?}");
    }
}

proptest! {
    /// Whatever a peer says, no more marks of congestion come out than packets were sent.
    #[test]
    fn a_peer_that_lies(
        steps in proptest::collection::vec((any::<[u32; 3]>(), 0u64..20, any::<bool>(), 0u8..8), 1..60)
    ) {
        let mut ecn = EcnValidation::default();
        let (mut marked, mut all) = (0u64, 0u64);
        for (number, (said, acked, small, then)) in (0u64..).zip(steps) {
            if ecn.marks(at(number)) {
                ecn.on_sent(MS, at(number));
                marked += 1;
            }
            let [ect0, ect1, ce] = if small { said.map(|count| count % 4) } else { said };
            all += u64::from(ecn.on_ack(number, counts(ect0, ect1, ce), once(number..number + acked)));
            match then {
                0 => ecn.restart(number + 1),
                1 => ecn.on_silence(),
                2 => ecn.on_answered(number + 1),
                _ => {}
            }
            prop_assert!(all <= marked);
        }
    }
}
