#![allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]

use super::*;

const NOW: Time = Time::ZERO;

fn receiver(policy: ReceivePolicy) -> Receiver {
    let settings = Settings { policy, receive_window: 100, ranges: 2, ..Settings::default() };
    let mut receiver = Receiver::new(&settings);
    receiver.synchronise(1000);
    receiver
}

/// The byte at each position is the position.
fn bytes(range: Range<u64>) -> Vec<u8> {
    range.map(|position| position as u8).collect()
}

/// Gives it a segment, and returns what was shown of it.
fn take(receiver: &mut Receiver, range: Range<u64>, fin: bool) -> Vec<Range<u64>> {
    let mut shown = Vec::new();
    let mut sink = |position: StreamPosition, shows: &[u8]| {
        let range = position.0 + 1..position.0 + 1 + shows.len() as u64;
        assert_eq!(shows, bytes(range.clone()));
        shown.push(range);
        true
    };
    let payload = bytes(range.clone());
    receiver.take(&Incoming { start: range.start, payload: &payload, fin }, &mut sink, NOW);
    shown
}

fn blocks(receiver: &mut Receiver) -> Vec<(u32, u32)> {
    receiver.sack_blocks(4).iter().map(|(start, end)| (start - 1000, end - 1000)).collect()
}

#[test]
fn every_byte_is_shown_once_at_any_place() {
    let mut receiver = receiver(ReceivePolicy::Place);
    assert_eq!(take(&mut receiver, 11..21, false), [11..21]);
    assert_eq!(take(&mut receiver, 5..25, false), [5..11, 21..25]);
    assert_eq!(take(&mut receiver, 11..21, false), []);
    assert_eq!((receiver.next(), receiver.early_bytes()), (1, 20));
    assert_eq!(take(&mut receiver, 1..6, false), [1..5]);
    assert_eq!((receiver.next(), receiver.in_order(), receiver.early_bytes()), (25, 24, 0));
}

#[test]
fn what_is_not_kept_has_not_come() {
    let mut receiver = receiver(ReceivePolicy::Place);
    let payload = bytes(5..9);
    receiver.take(&Incoming { start: 5, payload: &payload, fin: true }, &mut |_: StreamPosition, _: &[u8]| false, NOW);
    assert_eq!((receiver.early_bytes(), receiver.dropped, receiver.fin), (0, 1, None));
    assert_eq!(take(&mut receiver, 5..9, false), [5..9]);
}

#[test]
fn what_is_buffered_is_read_in_order() {
    let mut receiver = receiver(ReceivePolicy::Buffer);
    take(&mut receiver, 5..9, true);
    let mut out = [0; 20];
    assert_eq!(receiver.read(&mut out), 0);
    take(&mut receiver, 1..5, false);
    assert_eq!((receiver.read(&mut out), receiver.is_finished()), (8, true));
    assert_eq!(out[..8], bytes(1..9));
}

#[test]
fn without_a_buffer_what_comes_early_comes_again() {
    let mut receiver = receiver(ReceivePolicy::Drop);
    take(&mut receiver, 5..9, false);
    assert_eq!((receiver.early_bytes(), receiver.dropped, receiver.owes(NOW)), (0, 1, true));
    take(&mut receiver, 1..5, false);
    assert_eq!(receiver.next(), 5);
}

#[test]
fn ranges_are_bounded_and_the_gap_can_always_be_filled() {
    let mut receiver = receiver(ReceivePolicy::Place);
    for start in [10, 20, 30] {
        take(&mut receiver, start..start + 2, false);
    }
    assert_eq!((receiver.early_bytes(), receiver.dropped), (4, 1));
    assert_eq!(take(&mut receiver, 1..5, false), [1..5]);
    assert_eq!(take(&mut receiver, 5..40, false), [5..10, 12..20, 22..40]);
    assert_eq!(receiver.next(), 40);
}

#[test]
fn blocks_say_what_came_last_first_and_what_came_twice_once() {
    let mut receiver = receiver(ReceivePolicy::Place);
    take(&mut receiver, 10..20, false);
    take(&mut receiver, 40..50, false);
    assert_eq!(blocks(&mut receiver), [(40, 50), (10, 20)]);
    take(&mut receiver, 20..22, false);
    assert_eq!(blocks(&mut receiver), [(10, 22), (40, 50)]);
    take(&mut receiver, 12..16, false);
    assert_eq!(blocks(&mut receiver)[0], (12, 16));
    take(&mut receiver, 1..10, false);
    take(&mut receiver, 5..9, false);
    assert_eq!(blocks(&mut receiver), [(5, 9), (40, 50)]);
    assert_eq!(blocks(&mut receiver), [(40, 50)]);
}

#[test]
fn a_fin_is_believed_where_nothing_contradicts_it() {
    let mut receiver = receiver(ReceivePolicy::Place);
    take(&mut receiver, 10..20, false);
    take(&mut receiver, 1..5, true);
    assert_eq!(receiver.fin, None, "bytes came from behind it");
    take(&mut receiver, 20..30, true);
    take(&mut receiver, 30..40, true);
    assert_eq!(receiver.fin, Some(30));
    assert_eq!(take(&mut receiver, 5..50, false), [5..10], "nothing stands behind it");
    assert_eq!((receiver.next(), receiver.in_order(), receiver.is_finished()), (31, 29, true));
}

#[test]
fn windows_only_open_in_steps_and_never_shut_again() {
    let mut receiver = receiver(ReceivePolicy::Buffer);
    assert_eq!(receiver.window(false), 100);
    take(&mut receiver, 1..101, false);
    assert_eq!(receiver.window(false), 0);
    assert!(!receiver.accepts(101, 1) && receiver.accepts(101, 0));
    receiver.handle_acknowledged();
    receiver.read(&mut [0; 20]);
    assert_eq!((receiver.window(false), receiver.owes(NOW)), (0, false));
    receiver.read(&mut [0; 30]);
    assert!(receiver.owes(NOW));
    assert_eq!(receiver.window(false), 50);
    let mut placed = self::receiver(ReceivePolicy::Place);
    placed.set_room(10);
    assert_eq!(placed.window(false), 100);
}

#[test]
fn every_second_segment_is_acknowledged_at_once() {
    let mut receiver = receiver(ReceivePolicy::Place);
    take(&mut receiver, 1..11, false);
    assert!(!receiver.owes(NOW) && receiver.owes(receiver.ack_due().unwrap()));
    take(&mut receiver, 11..21, false);
    assert!(receiver.owes(NOW));
    receiver.handle_acknowledged();
    take(&mut receiver, 11..21, false);
    assert!(receiver.owes(NOW), "a duplicate says that an acknowledgement was lost");
}

#[test]
fn stamps_that_go_back_are_old() {
    let mut receiver = receiver(ReceivePolicy::Place);
    let stamps = |value| Timestamps { value, echo: 0 };
    assert!(!receiver.is_old(stamps(5), NOW));
    receiver.note_stamp(stamps(u32::MAX), 1, NOW);
    assert!(receiver.is_old(stamps(u32::MAX - 1), NOW) && !receiver.is_old(stamps(3), NOW));
    receiver.note_stamp(stamps(3), 9, NOW);
    assert_eq!(receiver.echo(), u32::MAX, "that of the segment before a gap counts");
    assert!(!receiver.is_old(stamps(u32::MAX - 1), NOW + STAMP_LIFE));
}

#[test]
fn what_was_kept_is_shown_when_from_then_on_all_is() {
    let mut receiver = receiver(ReceivePolicy::Buffer);
    take(&mut receiver, 1..9, false);
    take(&mut receiver, 20..30, false);
    let mut out = [0; 3];
    assert_eq!(receiver.read(&mut out), 3);
    let mut shown = Vec::new();
    receiver.place(&mut |position: StreamPosition, shows: &[u8]| {
        let range = position.0 + 1..position.0 + 1 + shows.len() as u64;
        assert_eq!(shows, bytes(range.clone()));
        shown.push(range);
        true
    });
    assert_eq!(shown, [4..9, 20..30]);
    assert_eq!((receiver.readable(), receiver.ring.capacity()), (0, 0));
    assert_eq!(take(&mut receiver, 5..35, false), [9..20, 30..35], "each byte once");
    assert_eq!((receiver.next(), receiver.early_bytes()), (35, 0));
    receiver.place(&mut |_: StreamPosition, _: &[u8]| panic!("again"));
}
