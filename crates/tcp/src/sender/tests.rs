#![allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]

use super::timers::Timer;
use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// A sender that has its handshake behind it, with round trips of 10 ms.
fn sender(sack: bool) -> Sender {
    let mut sender = Sender::new(&Settings { mss: 1000, send_buffer: 200_000, ..Settings::default() }, 77, at(0));
    assert!(sender.next_segment(false, at(0)).unwrap().syn);
    sender.agree(1000, sack, 0, at(0));
    ack(&mut sender, 1, &[], 10);
    sender
}

fn ack(sender: &mut Sender, position: u64, blocks: &[Range<u64>], millis: u64) {
    window(sender, position, 60_000, blocks, millis);
}

fn window(sender: &mut Sender, position: u64, window: u16, blocks: &[Range<u64>], millis: u64) {
    let sack = blocks.iter().map(|block| (sender.number(block.start), sender.number(block.end))).collect();
    let ack = Ack { start: 1, position, window, sack, echo: None, is_pure: true };
    sender.handle_ack(&ack, at(millis));
}

/// Where the segments start that leave now.
fn sends(sender: &mut Sender, millis: u64) -> Vec<u64> {
    core::iter::from_fn(|| sender.next_segment(true, at(millis))).map(|plan| plan.range.start).collect()
}

fn fire(sender: &mut Sender) -> (u64, Timer) {
    let (time, timer) = sender.timer().expect("a timer runs");
    sender.handle_timeout(time);
    (time.as_nanos() / 1_000_000, timer)
}

#[test]
fn ten_segments_leave_and_then_as_many_as_arrive() {
    let mut sender = sender(true);
    assert_eq!(sender.write(&[7; 50_000]), 50_000);
    assert_eq!(sends(&mut sender, 10).len(), 10);
    ack(&mut sender, 2001, &[], 20);
    assert_eq!(sends(&mut sender, 20).len(), 4, "slow start");
}

#[test]
fn three_segments_beyond_a_gap_bring_it_again_and_cut_the_window() {
    let mut sender = sender(true);
    sender.write(&[7; 10_000]);
    sends(&mut sender, 10);
    ack(&mut sender, 1, &[1001..3001], 20);
    assert_eq!(sends(&mut sender, 20), []);
    ack(&mut sender, 1, &[1001..4001], 20);
    assert_eq!((sends(&mut sender, 20), sender.congestion.bytes()), (vec![1], 7000));
    ack(&mut sender, 4001, &[], 30);
    assert!(sender.recovery.is_some());
    ack(&mut sender, 10_001, &[], 31);
    assert_eq!((sender.recovery, sender.retransmitted), (None, 1));
}

#[test]
fn a_segment_that_is_only_late_is_not_sent_again() {
    let mut sender = sender(true);
    sender.write(&[7; 10_000]);
    sends(&mut sender, 10);
    ack(&mut sender, 1, &[1001..2001], 20);
    assert_eq!(sender.timer(), Some((at(22) + MS / 2, Timer::Reorder)), "a quarter of a round trip");
    ack(&mut sender, 2001, &[], 22);
    assert_eq!(fire(&mut sender).1, Timer::Tail);
    assert_eq!(sender.congestion.bytes(), 11_000);
}

#[test]
fn a_cut_is_taken_back_when_the_lost_turns_out_to_have_been_late() {
    let mut sender = sender(true);
    sender.write(&[7; 10_000]);
    sends(&mut sender, 10);
    ack(&mut sender, 1, &[2001..4001], 20);
    ack(&mut sender, 1, &[2001..8001], 20);
    assert_eq!(sends(&mut sender, 20), [1, 1001]);
    let cut = sender.congestion.bytes();
    // The first ones come; what was retransmitted comes after them, and the peer says so (RFC 2883).
    ack(&mut sender, 10_001, &[], 21);
    ack(&mut sender, 10_001, &[1..1001], 30);
    assert_eq!((sender.undone, sender.congestion.bytes()), (0, cut), "one may have been lost");
    ack(&mut sender, 10_001, &[1001..2001], 30);
    assert_eq!(sender.undone, 1);
    assert!(sender.congestion.bytes() * 7 / 10 >= cut);
}

#[test]
fn a_cut_is_taken_back_when_nothing_had_to_be_sent_again() {
    let mut sender = sender(true);
    sender.write(&[7; 10_000]);
    sends(&mut sender, 10);
    ack(&mut sender, 1, &[1001..4001], 20);
    ack(&mut sender, 10_001, &[], 20);
    assert_eq!((sender.undone, sender.recovery, sender.retransmitted), (1, None, 0));
}

#[test]
fn the_cut_for_a_true_loss_stays() {
    let mut sender = sender(true);
    sender.write(&[7; 10_000]);
    sends(&mut sender, 10);
    ack(&mut sender, 1, &[1001..4001], 20);
    assert_eq!(sends(&mut sender, 20), [1]);
    ack(&mut sender, 10_001, &[], 30);
    ack(&mut sender, 10_001, &[4001..5001], 31);
    assert_eq!((sender.undone, sender.recovery), (0, None), "another segment came twice");
}

#[test]
fn what_waited_behind_a_gap_says_nothing_of_the_round_trip() {
    for sack in [false, true] {
        let mut sender = sender(sack);
        sender.write(&[7; 3000]);
        sends(&mut sender, 10);
        let mut now = 10;
        while sender.retransmitted == 0 || sender.board.iter().next().is_some_and(|first| first.times == 1) {
            now = fire(&mut sender).0;
            sends(&mut sender, now);
        }
        ack(&mut sender, 3001, &[], now + 10);
        assert_eq!(sender.round_trip().smoothed(), 10 * MS, "{now} ms are no round trip");
    }
}

#[test]
fn without_sack_three_duplicates_do() {
    let mut sender = sender(false);
    sender.write(&[7; 10_000]);
    sends(&mut sender, 10);
    ack(&mut sender, 1, &[1001..9001], 20);
    ack(&mut sender, 1, &[], 20);
    assert_eq!(sends(&mut sender, 20), []);
    ack(&mut sender, 1, &[], 20);
    assert_eq!(sends(&mut sender, 20), [1]);
    ack(&mut sender, 4001, &[], 30);
    assert_eq!(sends(&mut sender, 30), [4001], "a partial acknowledgement (RFC 6582)");
}

#[test]
fn blocks_of_what_was_never_sent_are_not_believed() {
    let mut sender = sender(true);
    sender.write(&[7; 10_000]);
    sends(&mut sender, 10);
    for (start, end) in [(2001, 50_000), (9001, 11_001), (5001, 5001), (9001, 3001)] {
        ack(&mut sender, 1, &[Range { start, end }], 20);
    }
    assert_eq!((sender.board.sacked(), sends(&mut sender, 20)), (0, vec![]));
    assert_eq!(sender.ack_position(sender.number(10_002)), None);
    assert_eq!(sender.ack_position(sender.number(10_001)), Some(10_001));
}

#[test]
fn the_tail_is_probed_before_the_timeout() {
    let mut sender = sender(true);
    sender.write(&[7; 3000]);
    assert_eq!(sends(&mut sender, 10).len(), 3);
    assert_eq!(fire(&mut sender), (30, Timer::Tail));
    assert_eq!(sends(&mut sender, 30), [2001]);
    assert_eq!(fire(&mut sender).1, Timer::Retransmit, "one probe, not more");
    assert_eq!(sender.congestion.bytes(), 1000);
}

#[test]
fn timeouts_back_off_and_begin_again_with_news() {
    let mut sender = sender(true);
    sender.write(&[7; 1000]);
    sends(&mut sender, 10);
    let mut waits = Vec::new();
    let mut last = 10;
    for _ in 0..5 {
        let (time, timer) = fire(&mut sender);
        sends(&mut sender, time);
        if timer == Timer::Retransmit {
            waits.push(time - last);
            last = time;
        }
    }
    assert_eq!(waits, [200, 400, 800, 1600, 3200], "no probe: it would be later than the time-out");
    ack(&mut sender, 1001, &[], last + 1);
    sender.write(&[7; 1000]);
    sends(&mut sender, last + 1);
    // Which copy has arrived is unknown (RFC 6298 section 5).
    assert_eq!(fire(&mut sender), (last + 221, Timer::Tail));
    let _ = sends(&mut sender, last + 221);
    assert_eq!(sender.timer(), Some((at(last + 221 + 6400), Timer::Retransmit)));
    ack(&mut sender, 2001, &[], last + 230);
    sender.write(&[7; 2000]);
    sends(&mut sender, last + 230);
    ack(&mut sender, 3001, &[], last + 240);
    assert_eq!(sender.timers.rto(&sender.round_trip), 200 * MS);
    assert_eq!(fire(&mut sender), (last + 240 + 200, Timer::Retransmit));
}

#[test]
fn a_shut_window_is_probed_for_ever_and_is_no_congestion() {
    let mut sender = sender(true);
    window(&mut sender, 1, 0, &[], 11);
    sender.write(&[7; 5000]);
    assert_eq!(sends(&mut sender, 11), []);
    let mut now = 0;
    for _ in 0..20 {
        now = fire(&mut sender).0;
        assert_eq!(sends(&mut sender, now), [1]);
        window(&mut sender, 1, 0, &[], now);
        assert_eq!(sender.waiting_since(), Some(at(now)));
    }
    window(&mut sender, 1, 60_000, &[], now + 5);
    assert_eq!(sends(&mut sender, now + 5), [1, 2, 1002, 2002, 3002, 4002]);
    assert_eq!(sender.congestion.bytes(), 10_000);
}

#[test]
fn silly_windows_wait() {
    let mut sender = sender(true);
    window(&mut sender, 1, 50, &[], 11);
    sender.write(&[7; 5000]);
    assert_eq!(sends(&mut sender, 11), []);
    let (now, timer) = fire(&mut sender);
    assert_eq!((sends(&mut sender, now), timer), (vec![1], Timer::Persist));
    assert_eq!(sender.next(), 51);
}

#[test]
fn units_stay_whole_where_they_fit() {
    let mut sender = sender(true);
    for length in [600, 300, 600, 2500, 400] {
        assert!(sender.write_unit(&vec![7; length]));
    }
    assert_eq!(sends(&mut sender, 10), [1, 901, 1501, 2501, 3501], "600+300, 600, 1000, 1000, 500+400");
    assert!(!sender.write_unit(&vec![7; 200_000]));
}

#[test]
fn a_smaller_path_gets_smaller_segments_again() {
    let mut sender = sender(true);
    sender.write(&[7; 1000]);
    sends(&mut sender, 10);
    sender.set_mss(400);
    let (now, _) = fire(&mut sender);
    assert_eq!(sends(&mut sender, now), [1]);
    ack(&mut sender, 401, &[], now + 10);
    assert_eq!(sends(&mut sender, now + 10), [401, 801]);
    ack(&mut sender, 1001, &[], now + 20);
    assert_eq!(sender.timer(), None);
}

#[test]
fn what_is_written_in_parts_is_a_unit_when_it_is_ended() {
    let mut sender = sender(true);
    for parts in [[500, 100], [200, 100], [590, 10]] {
        for length in parts {
            assert_eq!(sender.write(&vec![7; length]), length);
        }
        sender.end_unit();
    }
    assert_eq!(sends(&mut sender, 10), [1, 901], "600+300, 600");
}
