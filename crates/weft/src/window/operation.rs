//! Operations, from their beginning to their end, and the posts that they become.

use weft_base::PeerId;
use weft_memory::{Buffer, Combine, Element, IoBuffer};
use weft_nic::{AtomicPost, Level, RemotePlace, SendPost, TransferPost};
use weft_window::{Layout, Load, Request, Update};

use super::packed;

/// A requested operation.
pub(super) enum Operation {
    Put(Buffer),
    /// A put that goes as a message which the target places.
    Message(Vec<u8>),
    Get(u32),
    Accumulate {
        element: Element,
        combine: Combine,
        operands: Vec<u8>,
    },
    Fetch {
        element: Element,
        combine: Combine,
        operands: Vec<u8>,
        compare: Vec<u8>,
    },
    /// On many blocks of the target.
    Strided(Strided),
}

/// An operation on many blocks of the target: its bytes here are one behind the other.
pub(super) struct Strided {
    pub(super) layout: Layout,
    pub(super) op: StridedOp,
    /// It goes as messages that the target unpacks.
    pub(super) packed: bool,
}

/// What is done to the blocks.
pub(super) enum StridedOp {
    Put(Vec<u8>),
    Get,
    Accumulate { element: Element, combine: Combine, operands: Vec<u8> },
}

impl Operation {
    /// Bytes of the target that it touches. `None`: more than an operation can.
    pub(super) fn length(&self) -> Option<u32> {
        let length = match self {
            Self::Put(bytes) => bytes.len(),
            Self::Message(bytes) => bytes.len(),
            Self::Get(length) => *length as usize,
            Self::Accumulate { operands, .. } | Self::Fetch { operands, .. } => operands.len(),
            Self::Strided(strided) => strided.layout.extent() as usize,
        };
        u32::try_from(length).ok()
    }

    /// What becomes of the bytes at their target; nothing for a get.
    pub(super) fn update(&self) -> Option<Update> {
        match *self {
            Self::Put(_) | Self::Message(_) => Some(Update::Replace),
            Self::Get(_) => None,
            Self::Accumulate { element, combine, .. } => Some(Update::Combine { element, combine }),
            Self::Fetch { element, combine, .. } => Some(Update::Fetch { element, combine }),
            Self::Strided(Strided { op: StridedOp::Put(_), .. }) => Some(Update::Replace),
            Self::Strided(Strided { op: StridedOp::Get, .. }) => None,
            Self::Strided(Strided { op: StridedOp::Accumulate { element, combine, .. }, .. }) => {
                Some(Update::Combine { element, combine })
            }
        }
    }

    /// Without elements an accumulate is a put of nothing, and a fetch a get of nothing.
    pub(super) fn unless_empty(self) -> Self {
        match self {
            Self::Accumulate { operands, .. } if operands.is_empty() => Self::Put(operands.into()),
            Self::Fetch { operands, .. } if operands.is_empty() => Self::Get(0),
            Self::Strided(strided) if strided.layout.length() == 0 => match strided.op {
                StridedOp::Get => Self::Get(0),
                StridedOp::Put(bytes) | StridedOp::Accumulate { operands: bytes, .. } => Self::Put(bytes.into()),
            },
            other => other,
        }
    }

    /// Whether all of it is atomics, of which the target is notified when they have completed.
    pub(super) fn is_atomic(&self) -> bool {
        match self {
            Self::Accumulate { .. } | Self::Fetch { .. } => true,
            Self::Strided(strided) => matches!(strided.op, StridedOp::Accumulate { .. }),
            Self::Put(_) | Self::Message(_) | Self::Get(_) => false,
        }
    }

    /// Whether it goes as messages.
    pub(super) fn is_message(&self) -> bool {
        matches!(self, Self::Message(_)) || matches!(self, Self::Strided(strided) if strided.packed)
    }

    /// What its messages weigh, if it goes as messages.
    pub(super) fn load(&self) -> Load {
        match self {
            Self::Message(bytes) => Load::message(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            Self::Strided(strided) if strided.packed => {
                Load { messages: packed::most_messages(&strided.layout), bytes: strided.layout.length() }
            }
            _ => Load::default(),
        }
    }

    /// Whether its last write brings the target what there is to say of it.
    pub(super) fn is_write(&self) -> bool {
        match self {
            Self::Put(_) => true,
            Self::Strided(strided) => !strided.packed && matches!(strided.op, StridedOp::Put(_)),
            _ => false,
        }
    }

    /// Whether the values to compare with are as many as the operands, if there must be any, and blocks have whole
    /// elements.
    pub(super) fn compares_well(&self) -> bool {
        if let Self::Strided(Strided { layout, op: StridedOp::Accumulate { element, .. }, .. }) = self {
            return layout.is_whole(element.size() as u32);
        }
        let Self::Fetch { combine, operands, compare, .. } = self else { return true };
        compare.len() == if combine.compares() { operands.len() } else { 0 }
    }
}

/// An operation that was begun.
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) epoch: u32,
    pub(super) target: usize,
    /// What it is, until it is posted.
    pub(super) operation: Option<Operation>,
    /// Posts that have not completed.
    pub(super) parts: u32,
    pub(super) is_atomic: bool,
    /// It is an atomic that the target counts when it has completed.
    pub(super) tells: bool,
    /// What it has got.
    pub(super) result: Option<Vec<u8>>,
    /// How a get of many blocks puts it together.
    pub(super) gather: Option<Gather>,
}

/// What a get of many blocks reads: all from the first byte to the last, or each block.
pub(super) enum Gather {
    Span(Layout),
    /// Where in the result each block begins.
    Blocks(Vec<u32>),
}

impl Pending {
    /// Takes what a part has brought; `step`: bytes of a result that each part has, but the last.
    pub(super) fn take_part(&mut self, part: usize, bytes: Vec<u8>, step: usize) {
        let start = match &self.gather {
            Some(Gather::Span(layout)) => {
                let mut packed = Vec::new();
                // What was read reaches from the first block to the last.
                let _ = layout.pack_into(&bytes, layout.first().into(), &mut packed);
                self.result = Some(packed);
                return;
            }
            Some(Gather::Blocks(starts)) => starts[part] as usize,
            None => part * step,
        };
        match &mut self.result {
            Some(all) => all[start..start + bytes.len()].copy_from_slice(&bytes),
            None => self.result = Some(bytes),
        }
    }
}

/// Something for the endpoint.
pub(super) enum Post {
    Send(SendPost),
    Write(TransferPost),
    Read(TransferPost),
    Atomic(Box<AtomicPost>),
}

/// The kind of a post, in its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Receive = 0,
    Send = 1,
    Operation = 2,
    Flush = 3,
    /// Of a lock; `part` is 0 for an attempt, 1 when a failed shared attempt is taken back, 2 when the lock is given
    /// back.
    Lock = 4,
}

/// What a completion is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) kind: Kind,
    pub(super) window: u16,
    /// Which of an operation's posts.
    pub(super) part: u32,
    /// Of the request.
    pub(super) index: usize,
}

impl Context {
    const INDEX_BITS: u32 = 24;
    const PART_BITS: u32 = 20;

    pub(super) const fn of(kind: Kind, window: u16) -> Self {
        Self { kind, window, part: 0, index: 0 }
    }

    pub(super) fn number(self) -> u64 {
        let (kind, window) = (self.kind as u64, u64::from(self.window));
        (kind << 16 | window) << (Self::INDEX_BITS + Self::PART_BITS)
            | u64::from(self.part) << Self::INDEX_BITS
            | self.index as u64
    }

    pub(super) fn parse(number: u64) -> Self {
        let window = (number >> (Self::INDEX_BITS + Self::PART_BITS)) as u16;
        let kind = match number >> (16 + Self::INDEX_BITS + Self::PART_BITS) {
            0 => Kind::Receive,
            1 => Kind::Send,
            2 => Kind::Operation,
            3 => Kind::Flush,
            _ => Kind::Lock,
        };
        let part = (number >> Self::INDEX_BITS) as u32 & ((1 << Self::PART_BITS) - 1);
        Self { kind, window, part, index: number as usize & ((1 << Self::INDEX_BITS) - 1) }
    }
}

/// The atomics that an accumulate or fetch becomes: as many elements in each as an endpoint takes at a time.
pub(super) fn atomics(
    peer: PeerId,
    place: RemotePlace,
    operation: Operation,
    most: usize,
    context: Context,
) -> impl Iterator<Item = Post> {
    let fetches = matches!(operation, Operation::Fetch { .. });
    let (element, combine, operands, compare) = match operation {
        Operation::Accumulate { element, combine, operands } => (element, combine, operands, Vec::new()),
        Operation::Fetch { element, combine, operands, compare } => (element, combine, operands, compare),
        Operation::Put(_) | Operation::Message(_) | Operation::Get(_) | Operation::Strided(_) => {
            (Element::U8, Combine::Write, Vec::new(), Vec::new())
        }
    };
    let step = most / element.size() * element.size();
    (0..operands.len().div_ceil(step)).map(move |part| {
        let range = part * step..operands.len().min((part + 1) * step);
        let offset = place.offset.wrapping_add(range.start as u64);
        let operand = if combine.has_operand() { operands[range.clone()].to_vec() } else { Vec::new() };
        let compare = if compare.is_empty() { Vec::new() } else { compare[range.clone()].to_vec() };
        let result = fetches.then(|| IoBuffer::from(vec![0; range.len()]));
        let count = (range.len() / element.size()) as u32;
        let context = Context { part: part as u32, ..context }.number();
        let place = RemotePlace { offset, ..place };
        let level = Level::Delivered;
        let (operation, fence, op_flags) = (combine, false, 0);
        let post = AtomicPost {
            peer,
            place,
            element,
            operation,
            count,
            operand,
            compare,
            result,
            level,
            fence,
            context,
            op_flags,
        };
        Post::Atomic(Box::new(post))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_comes_back_as_itself() {
        for kind in [Kind::Receive, Kind::Send, Kind::Operation, Kind::Flush, Kind::Lock] {
            for window in [0, 1, u16::MAX] {
                for (part, index) in [(0, 0), (1, 2), ((1 << 20) - 1, (1 << 24) - 1)] {
                    let context = Context { kind, window, part, index };
                    assert_eq!(Context::parse(context.number()), context);
                }
            }
        }
    }
}
