//! Immediate data: alone, behind a Write, and with a Send.

use crate::pair::{Pair, Rights, gather, inline, send, target};
use weft_rdmap::{CompletionKind, Operation, Status};

#[test]
fn immediate_data_uses_up_a_receive_and_leaves_its_buffer() {
    let mut pair = Pair::new();
    let (window, buffer) = (pair.area(64, Rights::Write), pair.area(64, Rights::Local));
    pair.b.post_receive(7, buffer.whole());
    pair.b.post_receive(8, buffer.whole());
    let write = target(window.stag, window.base);
    let payload = inline(b"abc");
    pair.a.post(1, Operation::WriteImmediate { payload, target: write, immediate: 1 << 60, solicited: true });
    pair.a.post(2, Operation::Immediate { immediate: 5, solicited: false });
    pair.run(1500);
    assert_eq!(&window.bytes()[..3], b"abc");
    assert_eq!(buffer.bytes(), [0; 64]);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::Success)]);
    let received: Vec<_> = pair.b.received.iter().map(|c| (c.id, c.kind, c.length, c.immediate, c.solicited)).collect();
    let kind = CompletionKind::ReceiveImmediate;
    assert_eq!(received, [(7, kind, 3, Some(1 << 60), true), (8, kind, 0, Some(5), false)]);
}

#[test]
fn a_send_with_immediate_data_is_a_message_of_any_length() {
    let mut pair = Pair::new();
    let (from, to) = (pair.area(300, Rights::Local), pair.area(300, Rights::Local));
    from.fill(3);
    (7..10).for_each(|id| pair.b.post_receive(id, to.whole()));
    let whole = gather(from.whole());
    pair.a.post(1, Operation::SendImmediate { payload: whole, immediate: 0xfedc_ba98, solicited: true });
    pair.a.post(2, Operation::SendImmediate { payload: inline(b""), immediate: 0, solicited: false });
    pair.a.post(3, send(inline(b"plain")));
    pair.run(128);
    assert_eq!(pair.a.given, 5, "the first is three segments");
    let sent: Vec<_> = pair.a.sent.iter().map(|c| (c.id, c.kind, c.status, c.length)).collect();
    let kind = CompletionKind::Send;
    assert_eq!(sent, [(1, kind, Status::Success, 300), (2, kind, Status::Success, 0), (3, kind, Status::Success, 5)]);
    let received: Vec<_> = pair.b.received.iter().map(|c| (c.id, c.kind, c.length, c.immediate, c.solicited)).collect();
    let kind = CompletionKind::Receive;
    let (first, second) = ((7, kind, 300, Some(0xfedc_ba98), true), (8, kind, 0, Some(0), false));
    assert_eq!(received, [first, second, (9, kind, 5, None, false)]);
    assert_eq!(to.bytes()[5..], from.bytes()[5..]);
}
