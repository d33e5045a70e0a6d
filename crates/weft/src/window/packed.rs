//! Bytes for many places in one message, which the target's own thread puts there: what fine layouts go as.
//!
//! A write for each block costs both NICs some hundred nanoseconds, whatever its length; in a message a block costs a
//! copy. But the target must take part: it does in the fence that ends the epoch, at the latest. Under a lock, and
//! between post and wait, blocks go one by one. So does what accumulates: it must keep its order with what the target's
//! NIC accumulates.

use weft_base::{NoDigest, Slice};
use weft_memory::Registry;
use weft_window::{Layout, PeerError};
use weft_wire::window::{MessageHead, MessageKind, Packed, Run};

/// Bytes of a message, at most.
pub(super) const MOST_BYTES: usize = 4096;
/// Messages end between what may be elements.
const UNIT: usize = 16;

/// Makes messages of the bytes of a layout from `base` on. `give` takes each: its runs and bytes, and whether it is the
/// last.
pub(super) fn messages(base: u64, layout: &Layout, bytes: &[u8], mut give: impl FnMut(&[Run], &[u8], bool)) {
    let mut message = Message::default();
    let mut rest = bytes;
    let mut finish = |message: &mut Message, rest: &mut &[u8], is_last| {
        let (now, later) = rest.split_at(message.bytes);
        give(&message.runs, now, is_last);
        (message.bytes, *rest) = (0, later);
        message.runs.clear();
    };
    for block in layout.blocks() {
        let (mut offset, mut left) = (base.wrapping_add(block.offset), block.length as usize);
        while left > 0 {
            let now = message.room_for(offset, left);
            if now == 0 {
                finish(&mut message, &mut rest, false);
                continue;
            }
            message.add(offset, now as u32);
            (offset, left) = (offset.wrapping_add(now as u64), left - now);
        }
    }
    finish(&mut message, &mut rest, true);
}

/// How many messages the bytes of a layout become, at most.
pub(super) fn most_messages(layout: &Layout) -> u32 {
    // One that is not the last has no room for the head of a run and a unit of its block; a block that is cut has a run
    // in each.
    let full = MOST_BYTES - MessageHead::LENGTH - 2 * Run::LENGTH - UNIT;
    let all = layout.length() as usize + layout.blocks().len() * Run::LENGTH;
    u32::try_from(all / full + 2).unwrap_or(u32::MAX)
}

/// A message that is being made.
#[derive(Default)]
struct Message {
    runs: Vec<Run>,
    bytes: usize,
}

impl Message {
    /// Whether a block continues where the last run ends, and how that run is then.
    fn longer(&self, offset: u64, length: u32) -> Option<Run> {
        let last = *self.runs.last()?;
        let distance = offset.wrapping_sub(last.offset);
        let fits =
            length == last.length && (last.count == 1 || distance == last.stride.wrapping_mul(last.count.into()));
        let stride = if last.count == 1 { distance } else { last.stride };
        (fits && offset > last.offset).then_some(Run { stride, count: last.count + 1, ..last })
    }

    /// Bytes of this block that fit.
    fn room_for(&self, offset: u64, length: usize) -> usize {
        let room = MOST_BYTES.saturating_sub(MessageHead::LENGTH + self.runs.len() * Run::LENGTH + self.bytes);
        if room >= length && self.longer(offset, length as u32).is_some() {
            return length;
        }
        // A part of it does not continue as the last run does.
        match room.saturating_sub(Run::LENGTH) {
            room if room >= length => length,
            room => room / UNIT * UNIT,
        }
    }

    fn add(&mut self, offset: u64, length: u32) {
        self.bytes += length as usize;
        match self.longer(offset, length) {
            Some(longer) => *self.runs.last_mut().expect("it is longer than one that is there") = longer,
            None => self.runs.push(Run { offset, stride: 0, length, count: 1 }),
        }
    }
}

/// Writes a message of packed bytes.
pub(super) fn emit((window, epoch): (u16, u32), runs: &[Run], bytes: &[u8], is_counted: bool, message: &mut Vec<u8>) {
    let (kind, part) = (MessageKind::Packed, is_counted.into());
    // There are fewer than 200.
    let head = MessageHead { kind, part, window, number: epoch, value: runs.len() as u32 };
    message.clear();
    message.extend(head.emit());
    runs.iter().for_each(|run| message.extend(run.emit()));
    message.extend(bytes);
}

/// Puts packed bytes where they belong in `memory`, this rank's part of the window. Calls `check` before each block. Of
/// a wrong message, the blocks before the wrong one may be in place.
pub(super) fn place(
    registry: &Registry,
    memory: Slice,
    packed: &Packed<'_>,
    check: impl Fn(u64, u32) -> Result<(), PeerError>,
) -> Result<(), Wrong> {
    let mut rest = packed.bytes;
    for run in packed.runs() {
        for offset in run.offsets() {
            let (now, later) = rest.split_at(run.length as usize);
            let offset = offset.ok_or(Wrong::Place)?;
            check(offset, run.length).map_err(Wrong::Window)?;
            let slice = Slice { offset: memory.offset.wrapping_add(offset), length: run.length, ..memory };
            let placed = registry.copy_in(&slice, now, &mut NoDigest);
            placed.map_err(Wrong::Memory)?;
            rest = later;
        }
    }
    Ok(())
}

/// What is wrong with packed bytes.
#[derive(Debug)]
pub(super) enum Wrong {
    Place,
    Window(PeerError),
    Memory(weft_memory::MemoryError),
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Place => write!(f, "packed bytes for a place beyond 2^64"),
            Self::Window(error) => write!(f, "{error}"),
            Self::Memory(error) => write!(f, "packed bytes can't be placed: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_window::Block;

    use super::*;

    /// What a reader makes of the messages.
    fn read(layout: &Layout, bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, usize, usize) {
        let (mut found, mut count, mut runs) = (Vec::new(), 0, 0);
        let most = most_messages(layout) as usize;
        messages(1000, layout, bytes, |parts, bytes, is_last| {
            let mut message = Vec::new();
            emit((1, 2), parts, bytes, is_last, &mut message);
            assert!(message.len() <= MOST_BYTES);
            let (_, packed) = Packed::parse(&message).expect("it is a message");
            let mut rest = packed.bytes;
            for run in packed.runs() {
                runs += 1;
                for offset in run.offsets() {
                    let (now, later) = rest.split_at(run.length as usize);
                    found.push((offset.unwrap(), now.to_vec()));
                    rest = later;
                }
            }
            count += 1;
        });
        assert!(count <= most, "{count} messages, at most {most} were told");
        (found, count, runs)
    }

    #[test]
    fn a_stride_is_one_run_and_all_bytes_come_in_order() {
        let layout = Layout::strided(300, 8, 1000).unwrap();
        let bytes: Vec<u8> = (0..2400u32).map(|at| at as u8).collect();
        let (found, count, runs) = read(&layout, &bytes);
        assert_eq!((count, runs, found.len()), (1, 1, 300));
        assert!(found.iter().enumerate().all(|(at, (offset, _))| *offset == 1000 + at as u64 * 1000));
        assert_eq!(found.concat_bytes(), bytes);
    }

    #[test]
    fn what_is_long_goes_in_parts_of_whole_elements() {
        let blocks = [(0, 5000), (9000, 1600), (20_000, 4096), (8000, 16), (7000, 32)];
        let blocks = blocks.map(|(offset, length)| Block { offset, length });
        let layout = Layout::indexed(&blocks).unwrap();
        let bytes: Vec<u8> = (0..layout.length()).map(|at| (at * 7) as u8).collect();
        let (found, count, _) = read(&layout, &bytes);
        assert!((3..=5).contains(&count), "{count}");
        assert_eq!(found.concat_bytes(), bytes);
        assert!(found.iter().all(|(offset, part)| offset % 8 == 0 && part.len() % 8 == 0));
        let mut memory = vec![0; 30_000];
        layout.unpack(&bytes, &mut memory).unwrap();
        for (offset, part) in &found {
            assert_eq!(memory[*offset as usize - 1000..][..part.len()], part[..]);
        }
    }

    #[test]
    fn every_message_has_room_for_what_is_in_it() {
        for length in 1..300 {
            for stride in [length + 1, length + 7] {
                let layout = Layout::strided(9000 / length, length, stride.into()).unwrap();
                let bytes: Vec<u8> = (0..layout.length()).map(|at| at as u8).collect();
                assert_eq!(read(&layout, &bytes).0.concat_bytes(), bytes);
            }
        }
    }

    trait Concat {
        fn concat_bytes(&self) -> Vec<u8>;
    }

    impl Concat for Vec<(u64, Vec<u8>)> {
        fn concat_bytes(&self) -> Vec<u8> {
            self.iter().flat_map(|(_, part)| part.clone()).collect()
        }
    }
}
