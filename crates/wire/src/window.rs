//! What ranks of a window tell each other: the head of their messages, and the immediate data of what they write.
//!
//! ```text
//! message:        | kind u8 | part u8 | window u16 | number u32 | value u32 | u64, u64, ... |
//! immediate data: | window u16 | epoch, low half u16 | count u32 |
//! ```
//! What the fields of a message mean depends on its kind; `docs/wire.md` has the table.

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageKind {
    /// A round of a collective operation: `part` says which, `number` is its sequence number, `value` the round.
    Round = 1,
    /// The last for the receiver in epoch `number`, which had `value` updates.
    Finish = 2,
    /// All that was for the sender in epoch `number` has come.
    Ready = 3,
    /// Was epoch `number` fenced?
    Ask = 4,
    /// The answer: `value` is 1 if it was, else 0.
    Answer = 5,
    /// The sender's window has failed, because of rank `value`.
    Abort = 6,
    /// This many (`value`) updates of epoch `number` that bring no notice of their own were placed at the receiver.
    Placed = 7,
    /// Nothing: it shows its sender whether the receiver can be reached.
    Probe = 8,
    /// The sender's part is exposed to the receiver.
    Post = 9,
    /// The sender's access to the receiver's part has ended, with `value` updates.
    Complete = 10,
    /// Bytes for many places ([`Packed`]), in epoch `number`; `value` is the number of runs. `part` is 1 with the last
    /// of a put that is counted.
    Packed = 11,
}

impl MessageKind {
    /// The kind with this number.
    #[must_use]
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Round),
            2 => Some(Self::Finish),
            3 => Some(Self::Ready),
            4 => Some(Self::Ask),
            5 => Some(Self::Answer),
            6 => Some(Self::Abort),
            7 => Some(Self::Placed),
            8 => Some(Self::Probe),
            9 => Some(Self::Post),
            10 => Some(Self::Complete),
            11 => Some(Self::Packed),
            _ => None,
        }
    }
}

/// The head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// What it is.
    pub kind: MessageKind,
    /// Which collective operation, for a round; else 0.
    pub part: u8,
    /// The window; 0 for what belongs to none.
    pub window: u16,
    /// See [`MessageKind`].
    pub number: u32,
    /// See [`MessageKind`].
    pub value: u32,
}

impl MessageHead {
    /// Bytes.
    pub const LENGTH: usize = 12;

    /// The bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = self.kind as u8;
        bytes[1] = self.part;
        bytes[2..4].copy_from_slice(&self.window.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.value.to_be_bytes());
        bytes
    }

    /// The head, and the values that follow it. `None`: too short, no such kind, or not whole values.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[[u8; 8]])> {
        let (head, rest) = Self::split(bytes)?;
        let (values, odd) = rest.as_chunks::<8>();
        (odd.is_empty() && head.kind != MessageKind::Packed).then_some((head, values))
    }

    /// The head, and what follows it. `None`: too short, or no such kind.
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<{ Self::LENGTH }>()?;
        let [kind, part, w0, w1, n0, n1, n2, n3, v0, v1, v2, v3] = *head;
        let head = Self {
            kind: MessageKind::of(kind)?,
            part,
            window: u16::from_be_bytes([w0, w1]),
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            value: u32::from_be_bytes([v0, v1, v2, v3]),
        };
        Some((head, rest))
    }
}

/// Blocks of the same length, at the same distance from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first byte of the first, from the start of the window on.
    pub offset: u64,
    /// From the start of one to the start of the next.
    pub stride: u64,
    /// Bytes of each.
    pub length: u32,
    /// How many there are.
    pub count: u32,
}

impl Run {
    /// Bytes.
    pub const LENGTH: usize = 24;

    /// The bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.offset.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.stride.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.length.to_be_bytes());
        bytes[20..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        let [o0, o1, o2, o3, o4, o5, o6, o7, s0, s1, s2, s3, s4, s5, s6, s7, l0, l1, l2, l3, c0, c1, c2, c3] = *bytes;
        Self {
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            stride: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
            count: u32::from_be_bytes([c0, c1, c2, c3]),
        }
    }

    /// Bytes of all its blocks.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.length as u64 * self.count as u64
    }

    /// Where each block begins. `None` where that is no number of 64 bits.
    pub fn offsets(self) -> impl Iterator<Item = Option<u64>> {
        (0..u64::from(self.count)).map(move |at| self.stride.checked_mul(at)?.checked_add(self.offset))
    }
}

/// Bytes for many places: a message of kind [`MessageKind::Packed`], whose `value` is the number of its runs.
///
/// ```text
/// | head | run, run, ... | bytes of all blocks |
/// run: | offset u64 | stride u64 | length u32 | count u32 |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    runs: &'a [[u8; Run::LENGTH]],
    /// The bytes of all blocks, one behind the other.
    pub bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// The head, and what follows it. `None`: it is no such message, or has not as many bytes as its blocks.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<(MessageHead, Self)> {
        let (head, rest) = MessageHead::split(bytes)?;
        let (runs, bytes) = rest.split_at_checked((head.value as usize).checked_mul(Run::LENGTH)?)?;
        let this = Self { runs: runs.as_chunks().0, bytes };
        // No block is empty, so the bytes bound their number.
        let add = |all: u64, run: Run| all.checked_add(run.bytes()).filter(|_| run.length > 0);
        let all = this.runs().try_fold(0, add);
        (head.kind == MessageKind::Packed && all == Some(bytes.len() as u64)).then_some((head, this))
    }

    /// Its runs of blocks.
    pub fn runs(&self) -> impl Iterator<Item = Run> + 'a {
        self.runs.iter().map(Run::parse)
    }
}

/// The immediate data of a write into a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The window.
    pub window: u16,
    /// The low half of the epoch's number.
    pub epoch: u16,
    /// With the last of an epoch to this target, where the fence wants that: how many there were. Else 0.
    pub count: u32,
}

impl Notice {
    /// As immediate data.
    #[must_use]
    pub const fn data(self) -> u64 {
        (self.window as u64) << 48 | (self.epoch as u64) << 32 | self.count as u64
    }

    /// From immediate data.
    #[must_use]
    pub const fn of(data: u64) -> Self {
        Self { window: (data >> 48) as u16, epoch: (data >> 32) as u16, count: data as u32 }
    }

    /// The number of the epoch, which is near `here`.
    #[must_use]
    pub const fn epoch_near(self, here: u32) -> u32 {
        let ahead = self.epoch.wrapping_sub(here as u16).cast_signed();
        here.wrapping_add_signed(ahead as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_these_bytes() {
        let head = MessageHead { kind: MessageKind::Round, part: 2, window: 0x0304, number: 0x0506_0708, value: 9 };
        let mut bytes = head.emit().to_vec();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9]);
        assert_eq!(MessageHead::parse(&bytes), Some((head, &[][..])));
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(MessageHead::parse(&bytes), Some((head, &[7u64.to_be_bytes()][..])));
        assert_eq!(MessageHead::parse(&bytes[..19]), None);
        assert_eq!(MessageHead::parse(&bytes[..11]), None);
        for code in 0..=255 {
            bytes[0] = code;
            let kind = MessageHead::parse(&bytes).map(|(head, _)| head.kind as u8);
            assert_eq!(kind, (1..=10).contains(&code).then_some(code));
        }
    }

    #[test]
    fn packed_bytes_are_these_and_no_others() {
        let head = MessageHead { kind: MessageKind::Packed, part: 1, window: 2, number: 3, value: 1 };
        let run = Run { offset: 0x0102, stride: 0x0304, length: 2, count: 3 };
        let mut bytes = head.emit().to_vec();
        bytes.extend(run.emit());
        assert_eq!(bytes[12..], [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 2, 0, 0, 0, 3]);
        bytes.extend(*b"abcdef");
        let (found, packed) = Packed::parse(&bytes).unwrap();
        assert_eq!((found, packed.bytes), (head, &b"abcdef"[..]));
        assert_eq!(packed.runs().collect::<Vec<_>>(), [run]);
        assert_eq!(run.offsets().collect::<Vec<_>>(), [Some(0x102), Some(0x406), Some(0x70a)]);
        assert_eq!(Run { stride: u64::MAX, ..run }.offsets().nth(1), Some(None));
        assert_eq!(MessageHead::parse(&bytes), None, "it has no values");
        for length in 0..bytes.len() {
            assert_eq!(Packed::parse(&bytes[..length]), None);
        }
        let mut many = bytes.clone();
        many[28..36].fill(0xff);
        assert_eq!(Packed::parse(&many), None);
        many[28..32].fill(0);
        assert_eq!(Packed::parse(&many[..36]), None, "blocks of nothing are not counted through");
        bytes[0] = 1;
        assert_eq!(Packed::parse(&bytes), None);
    }

    #[test]
    fn a_notice_is_this_number_and_knows_its_epoch() {
        let notice = Notice { window: 0x1122, epoch: 0x3344, count: 0x5566_7788 };
        assert_eq!(notice.data(), 0x1122_3344_5566_7788);
        assert_eq!(Notice::of(notice.data()), notice);
        for (here, epoch, expected) in [
            (5, 5, 5),
            (5, 6, 6),
            (0xffff, 0, 0x1_0000),
            (0x1_0000, 0xffff, 0xffff),
            (u32::MAX, 0, 0),
            (0, 0xffff, u32::MAX),
        ] {
            assert_eq!(Notice { epoch, ..notice }.epoch_near(here), expected, "{here:#x} {epoch:#x}");
        }
    }
}
