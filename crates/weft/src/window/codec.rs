//! The machine's messages, as bytes.

use weft_window::{Message, Part};
use weft_wire::window::{MessageHead, MessageKind, Packed};

/// Bytes of a message of a collective operation with this many values.
pub(super) const fn length(values: usize) -> usize {
    MessageHead::LENGTH + 8 * values
}

/// Writes a message of a window (0: of the team) into `bytes`.
pub(super) fn emit(window: u16, message: Message<'_>, bytes: &mut Vec<u8>) {
    let head = |kind, number, value| MessageHead { kind, part: 0, window, number, value };
    let mut values: &[u64] = &[];
    let head = match message {
        Message::Round { part, sequence, round, values: carried } => {
            values = carried;
            MessageHead { part: part as u8, ..head(MessageKind::Round, sequence, round) }
        }
        Message::Finish { epoch, count } => head(MessageKind::Finish, epoch, count),
        Message::Ready { epoch } => head(MessageKind::Ready, epoch, 0),
        Message::Ask { epoch } => head(MessageKind::Ask, epoch, 0),
        Message::Answer { epoch, fenced } => head(MessageKind::Answer, epoch, u32::from(fenced)),
        Message::Post => head(MessageKind::Post, 0, 0),
        Message::Complete { count } => head(MessageKind::Complete, 0, count),
        Message::Abort { rank } => head(MessageKind::Abort, 0, rank),
    };
    bytes.extend_from_slice(&head.emit());
    values.iter().for_each(|value| bytes.extend_from_slice(&value.to_be_bytes()));
}

/// Tells a window of updates that were placed without a notice of their own.
pub(super) fn emit_placed(window: u16, epoch: u32, count: u32, bytes: &mut Vec<u8>) {
    let head = MessageHead { kind: MessageKind::Placed, part: 0, window, number: epoch, value: count };
    bytes.extend_from_slice(&head.emit());
}

/// Shows its sender whether the receiver can be reached.
pub(super) fn emit_probe(bytes: &mut Vec<u8>) {
    let head = MessageHead { kind: MessageKind::Probe, part: 0, window: 0, number: 0, value: 0 };
    bytes.extend_from_slice(&head.emit());
}

/// What a message says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    Message(Message<'a>),
    Placed { epoch: u32, count: u32 },
    Packed { epoch: u32, is_counted: bool, packed: Packed<'a> },
    Nothing,
}

/// Reads a message: the window that it is for, and what it says. `values` holds what it carries. `None`: it is none.
pub(super) fn parse<'a>(bytes: &'a [u8], values: &'a mut Vec<u64>) -> Option<(u16, Said<'a>)> {
    if bytes.first() == Some(&(MessageKind::Packed as u8)) {
        let (head, packed) = Packed::parse(bytes)?;
        return Some((head.window, Said::Packed { epoch: head.number, is_counted: head.part == 1, packed }));
    }
    let (head, carried) = MessageHead::parse(bytes)?;
    let MessageHead { kind, part, window, number, value } = head;
    values.clear();
    values.extend(carried.iter().map(|bytes| u64::from_be_bytes(*bytes)));
    let message = match kind {
        MessageKind::Round => {
            let part = [Part::Create, Part::Agree, Part::Barrier].into_iter().find(|known| *known as u8 == part)?;
            Message::Round { part, sequence: number, round: value, values }
        }
        MessageKind::Finish => Message::Finish { epoch: number, count: value },
        MessageKind::Ready => Message::Ready { epoch: number },
        MessageKind::Ask => Message::Ask { epoch: number },
        MessageKind::Answer => Message::Answer { epoch: number, fenced: value != 0 },
        MessageKind::Post => Message::Post,
        MessageKind::Complete => Message::Complete { count: value },
        MessageKind::Abort => Message::Abort { rank: value },
        // It was looked for first.
        MessageKind::Packed => return None,
        MessageKind::Probe => return Some((window, Said::Nothing)),
        MessageKind::Placed => return Some((window, Said::Placed { epoch: number, count: value })),
    };
    Some((window, Said::Message(message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_comes_back_as_itself() {
        let messages = [
            Message::Round { part: Part::Create, sequence: 1, round: 2, values: &[3, u64::MAX] },
            Message::Round { part: Part::Agree, sequence: 0, round: 0, values: &[0] },
            Message::Round { part: Part::Barrier, sequence: u32::MAX, round: 6, values: &[] },
            Message::Finish { epoch: 7, count: 8 },
            Message::Ready { epoch: 9 },
            Message::Ask { epoch: 10 },
            Message::Answer { epoch: 11, fenced: true },
            Message::Answer { epoch: 11, fenced: false },
            Message::Abort { rank: 12 },
            Message::Post,
            Message::Complete { count: 13 },
        ];
        let mut values = Vec::new();
        for message in messages {
            let mut bytes = Vec::new();
            emit(0x1234, message, &mut bytes);
            assert_eq!(parse(&bytes, &mut values), Some((0x1234, Said::Message(message))));
        }
        let mut bytes = Vec::new();
        emit_placed(5, 6, 7, &mut bytes);
        assert_eq!(parse(&bytes, &mut values), Some((5, Said::Placed { epoch: 6, count: 7 })));
        bytes[0] = 1;
        bytes[1] = 3;
        assert_eq!(parse(&bytes, &mut values), None);
    }
}
