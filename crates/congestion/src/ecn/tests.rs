use proptest::prelude::*;

use super::*;

fn sent(packets: u32) -> EcnValidation {
    let mut ecn = EcnValidation::default();
    (0..packets).for_each(|_| ecn.on_sent());
    ecn
}

fn counts(ect0: u32, ect1: u32, ce: u32) -> EcnCounts {
    EcnCounts { ect0, ect1, ce }
}

#[test]
fn ten_packets_and_then_it_waits_for_a_word() {
    let mut ecn = sent(9);
    assert!(ecn.marks());
    ecn.on_sent();
    assert_eq!((ecn.state(), ecn.marks()), (EcnState::Unknown, false));
    assert_eq!(ecn.on_ack(0, counts(1, 0, 0), 1), 0);
    assert_eq!((ecn.state(), ecn.marks()), (EcnState::Capable, true));
}

#[test]
fn marks_of_congestion_are_given_once() {
    let mut ecn = sent(10);
    assert_eq!(ecn.on_ack(4, counts(3, 0, 2), 5), 2);
    assert_eq!(ecn.on_ack(4, counts(3, 0, 2), 0), 0, "again");
    assert_eq!(ecn.on_ack(9, counts(7, 0, 3), 5), 1);
    assert_eq!(ecn.on_ack(6, counts(5, 0, 2), 0), 0, "overtaken by the one before");
    assert_eq!(ecn.state(), EcnState::Capable);
}

#[test]
fn bleached_at_once_or_later() {
    let mut ecn = sent(10);
    assert_eq!(ecn.on_ack(4, counts(0, 0, 0), 5), 0);
    assert_eq!((ecn.state(), ecn.marks()), (EcnState::Failed(EcnFault::Bleached), false));
    let mut ecn = sent(10);
    ecn.on_ack(4, counts(5, 0, 0), 5);
    ecn.on_ack(9, counts(9, 0, 0), 5);
    assert_eq!(ecn.state(), EcnState::Failed(EcnFault::Bleached), "one of five came without");
    assert_eq!(ecn.on_ack(10, counts(9, 0, 900), 0), 0, "it is not heard any more");
}

#[test]
fn marks_that_nobody_sent() {
    for false_counts in [counts(5, 1, 0), counts(11, 0, 0), counts(5, 0, 6), counts(u32::MAX, 0, u32::MAX)] {
        let mut ecn = sent(10);
        ecn.on_ack(4, false_counts, 5);
        assert_eq!(ecn.state(), EcnState::Failed(EcnFault::Invented), "{false_counts:?}");
    }
}

#[test]
fn counts_that_go_back() {
    let mut ecn = sent(10);
    ecn.on_ack(4, counts(5, 0, 0), 5);
    ecn.on_ack(5, counts(4, 0, 0), 0);
    assert_eq!(ecn.state(), EcnState::Failed(EcnFault::Invented));
}

#[test]
fn all_of_the_first_are_lost() {
    let mut ecn = sent(10);
    (0..9).for_each(|_| ecn.on_lost());
    assert_eq!(ecn.state(), EcnState::Unknown);
    ecn.on_lost();
    assert_eq!(ecn.state(), EcnState::Failed(EcnFault::Lost));
}

proptest! {
    /// Whatever a peer says, no more marks of congestion come out than packets were sent.
    #[test]
    fn a_peer_that_lies(steps in proptest::collection::vec((any::<[u32; 3]>(), 0u32..20, any::<bool>()), 1..60)) {
        let mut ecn = EcnValidation::default();
        let (mut marked, mut all) = (0u64, 0u64);
        for (number, (said, acked, small)) in steps.into_iter().enumerate() {
            if ecn.marks() {
                ecn.on_sent();
                marked += 1;
            }
            let [ect0, ect1, ce] = if small { said.map(|count| count % 4) } else { said };
            all += u64::from(ecn.on_ack(number as u64, counts(ect0, ect1, ce), acked));
            prop_assert!(all <= marked);
        }
    }
}
