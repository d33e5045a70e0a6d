//! Datagrams as they go over the wire: headers and short payload are laid out behind each other, long payload is summed
//! up and sent from where it is, or copied and summed up in one pass.

use core::ops::Range;

use arrayvec::ArrayVec;
use weft_base::{Digest as _, Gather, NoDigest, Piece, Slice};
use weft_edge::Datagram;
use weft_memory::{MemoryError, Registry};
use weft_wire::Crc32c;
use weft_wire::edge::frame::CRC_LENGTH;
use weft_wire::edge::run::{TAGGED_HEAD, UNTAGGED_HEAD};

use super::outbox::{GsoBatch, TxKey};

/// A threshold that lets nothing be sent from where it is.
pub(super) const COPY_ALL: u32 = u32::MAX;
/// Slices of memory in a run, which one call sends.
const MOST_SLICES: usize = 48;
/// Each has bytes before it, and there are some behind the last.
const MOST_PIECES: usize = 2 * MOST_SLICES + 1;

/// What was laid out. What was there before is written over: nothing is set to zero first.
#[derive(Debug, Default)]
pub(super) struct Wire {
    bytes: Vec<u8>,
    used: usize,
    memory: Vec<Inset>,
    gathered: u64,
    copied: u64,
}

/// Memory that goes out behind the first `at` bytes.
#[derive(Clone, Copy, Debug)]
struct Inset {
    at: usize,
    slice: Slice,
}

impl Wire {
    /// All of it.
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts { bytes: &self.bytes[..self.used], start: 0, memory: &self.memory, skip: 0 }
    }

    /// The bytes alone.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Room for `length` more bytes, to be written over.
    fn room(&mut self, length: usize) -> &mut [u8] {
        let start = self.used;
        self.used += length;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used, 0);
        }
        &mut self.bytes[start..self.used]
    }

    pub(super) fn clear(&mut self) {
        self.memory.clear();
        (self.used, self.gathered, self.copied) = (0, 0, 0);
    }

    /// Bytes that are laid out.
    pub(super) const fn length(&self) -> usize {
        self.used
    }

    /// Bytes of payload that are sent from where they are.
    pub(super) const fn gathered_bytes(&self) -> u64 {
        self.gathered
    }

    /// Bytes of payload that were copied from memory.
    pub(super) const fn copied_bytes(&self) -> u64 {
        self.copied
    }

    /// Leaves out what was laid out behind this.
    pub(super) fn truncate(&mut self, length: usize) {
        self.used = length;
        self.memory.retain(|inset| inset.at <= length);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }
}

/// Writes a datagram, or a row of them, behind what is there, and adds it to a run. Payload of `threshold` bytes and
/// more stays where it is, if it may.
pub(super) fn lay(
    wire: &mut Wire,
    runs: &mut Vec<GsoBatch>,
    datagram: &Datagram,
    (pieces, bytes): (&[weft_edge::Piece], &[u8]),
    registry: &Registry,
    threshold: u32,
) -> Result<(), MemoryError> {
    if let [row @ weft_edge::Piece::Row { part, in_place, .. }] = pieces {
        if *in_place && *part >= threshold {
            let apart = Datagram { count: 1, ..datagram.clone() };
            let mut each = (0..datagram.count).filter_map(|index| row.of_row(index));
            return each.try_for_each(|pieces| lay(wire, runs, &apart, (&pieces, bytes), registry, threshold));
        }
        return lay_row(wire, runs, datagram, (row, bytes), registry);
    }
    let (start, memory, gathered) = (wire.used, wire.memory.len(), wire.gathered);
    for piece in pieces {
        let is_full = wire.memory.len() - memory >= MOST_SLICES - weft_base::MAX_GATHER;
        put(wire, piece, bytes, registry, if is_full { COPY_ALL } else { threshold })?;
    }
    let length = wire.used - start + (wire.gathered - gathered) as usize;
    debug_assert_eq!(length, datagram.length);
    let Datagram { to, local, rail, ecn, .. } = *datagram;
    let laid = Laid { bytes: start..wire.used, memory: memory..wire.memory.len(), length: length as u32, count: 1 };
    add(runs, laid, TxKey { to, local, rail, ecn });
    Ok(())
}

fn put(
    wire: &mut Wire,
    piece: &weft_edge::Piece,
    bytes: &[u8],
    registry: &Registry,
    threshold: u32,
) -> Result<(), MemoryError> {
    match piece {
        weft_edge::Piece::Bytes { start, length } => {
            wire.put(&bytes[*start as usize..(*start + *length) as usize]);
        }
        weft_edge::Piece::Payload { start, length, gather, in_place } => {
            let mut crc = Crc32c::new();
            let inline = &bytes[*start as usize..(*start + *length) as usize];
            crc.update(inline);
            wire.put(inline);
            // The pieces of a list are short, or a datagram has few of them.
            if *in_place && gather.length() >= threshold && !gather.is_listed() {
                for slice in gather.slices() {
                    registry.digest(slice, &mut crc)?;
                    wire.memory.push(Inset { at: wire.used, slice: *slice });
                }
                wire.gathered += u64::from(gather.length());
            } else {
                registry.copy_out_gather(gather, 0, wire.room(gather.length() as usize), &mut crc)?;
                wire.copied += u64::from(gather.length());
            }
            wire.put(&crc.value().to_be_bytes());
        }
        weft_edge::Piece::Row { .. } => debug_assert!(false, "a row is the only piece of its datagrams"),
    }
    Ok(())
}

/// Writes a row: heads, payload that is copied, and its checks, in one pass.
fn lay_row(
    wire: &mut Wire,
    runs: &mut Vec<GsoBatch>,
    datagram: &Datagram,
    (row, bytes): (&weft_edge::Piece, &[u8]),
    registry: &Registry,
) -> Result<(), MemoryError> {
    let weft_edge::Piece::Row { start: heads, length, head, gather, .. } = *row else { return Ok(()) };
    let heads = &bytes[heads as usize..(heads + length) as usize];
    let (start, memory) = (wire.used, wire.memory.len());
    copy_row(wire.room(datagram.count as usize * datagram.length), heads, head as usize, &gather, registry)?;
    wire.copied += u64::from(gather.length());
    let Datagram { to, local, rail, ecn, length, count, .. } = *datagram;
    let laid = Laid { bytes: start..wire.used, memory: memory..memory, length: length as u32, count };
    add(runs, laid, TxKey { to, local, rail, ecn });
    Ok(())
}

/// Fills the datagrams of a row, of equal length, that lie behind each other in `room`.
fn copy_row(
    room: &mut [u8],
    heads: &[u8],
    head: usize,
    gather: &Gather,
    registry: &Registry,
) -> Result<(), MemoryError> {
    match head {
        TAGGED_HEAD => fill_row(room, (heads, head), put_known::<TAGGED_HEAD>, gather, registry),
        UNTAGGED_HEAD => fill_row(room, (heads, head), put_known::<UNTAGGED_HEAD>, gather, registry),
        _ => fill_row(room, (heads, head), <[u8]>::copy_from_slice, gather, registry),
    }
}

/// Copies as many bytes as are known to be there, without a call.
#[inline]
fn put_known<const HEAD: usize>(to: &mut [u8], head: &[u8]) {
    const FITS: &str = "the head has this length";
    *to.first_chunk_mut::<HEAD>().expect(FITS) = *head.first_chunk().expect(FITS);
}

#[inline]
fn fill_row(
    room: &mut [u8],
    (heads, head): (&[u8], usize),
    put_head: impl Fn(&mut [u8], &[u8]),
    gather: &Gather,
    registry: &Registry,
) -> Result<(), MemoryError> {
    let length = room.len() * head / heads.len();
    let datagrams = room.chunks_exact_mut(length).zip(heads.chunks_exact(head)).map(|(datagram, bytes)| {
        let (to, rest) = datagram.split_at_mut(head);
        put_head(to, bytes);
        rest.split_last_chunk_mut().expect("a datagram of a row ends with a CRC")
    });
    let put = |check: &mut [u8; CRC_LENGTH], crc: Crc32c| *check = crc.value().to_be_bytes();
    if let [slice] = gather.slices() {
        return registry.copy_out_parts(slice, datagrams, put);
    }
    let mut skip = 0;
    for (payload, check) in datagrams {
        let mut crc = Crc32c::new();
        registry.copy_out_gather(gather, skip, payload, &mut crc)?;
        skip += payload.len() as u32;
        put(check, crc);
    }
    Ok(())
}

/// A datagram that was laid out, or several of one length.
struct Laid {
    bytes: Range<usize>,
    memory: Range<usize>,
    length: u32,
    count: u32,
}

/// Adds datagrams to the run before them, if all of that have their size.
fn add(runs: &mut Vec<GsoBatch>, laid: Laid, tx_key: TxKey) {
    let Laid { bytes, memory, length, count } = laid;
    if let Some(run) = runs.last_mut()
        && run.tx_key == tx_key
        && run.last == run.segment
        // A shorter one is the last.
        && (length == run.segment || length < run.segment && count == 1)
        && memory.end - run.memory.start <= MOST_SLICES
    {
        (run.bytes.end, run.memory.end) = (bytes.end, memory.end);
        run.last = length;
        return;
    }
    runs.push(GsoBatch { bytes, memory, segment: length, tx_key, last: length });
}

/// Bytes, and memory between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    bytes: &'a [u8],
    /// Where the bytes begin, as the memory's places count.
    start: usize,
    memory: &'a [Inset],
    /// So much of the first memory has gone out.
    skip: u32,
}

impl<'a> Parts<'a> {
    /// Bytes alone.
    pub(super) const fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0, memory: &[], skip: 0 }
    }

    /// Those of a run.
    pub(super) fn of_run(self, run: &GsoBatch) -> Self {
        let (bytes, memory) = (&self.bytes[run.bytes.clone()], self.memory.get(run.memory.clone()).unwrap_or_default());
        Self { bytes, start: run.bytes.start, memory, skip: 0 }
    }

    /// All bytes, those of the memory as well.
    pub(super) fn length(self) -> usize {
        self.bytes.len() + self.memory.iter().map(|inset| inset.slice.length as usize).sum::<usize>()
            - self.skip as usize
    }

    /// The next part, and what is behind it.
    fn split(self) -> Option<(Piece<'a>, Self)> {
        let Some((inset, others)) = self.memory.split_first() else {
            return (!self.bytes.is_empty()).then_some((Piece::Bytes(self.bytes), Self::of(&[])));
        };
        let before = inset.at - self.start;
        if before > 0 {
            let (bytes, rest) = self.bytes.split_at(before);
            return Some((Piece::Bytes(bytes), Self { bytes: rest, start: inset.at, ..self }));
        }
        let left = inset.slice.part(self.skip, inset.slice.length - self.skip);
        Some((Piece::Memory(left), Self { memory: others, skip: 0, ..self }))
    }

    /// What is left behind the first `bytes` bytes.
    pub(super) fn behind(self, bytes: usize) -> Self {
        if let Some(plain) = self.plain() {
            return Self::of(plain.get(bytes..).unwrap_or_default());
        }
        let (mut rest, mut skip) = (self, bytes);
        while skip > 0 {
            let Some((piece, behind)) = rest.split() else { return Self::of(&[]) };
            let length = length_of(&piece);
            if skip < length {
                return match piece {
                    Piece::Bytes(_) => Self { bytes: &rest.bytes[skip..], start: rest.start + skip, ..rest },
                    Piece::Memory(_) => Self { skip: rest.skip + skip as u32, ..rest },
                };
            }
            (rest, skip) = (behind, skip - length);
        }
        rest
    }

    /// Whether nothing is left.
    pub(super) const fn is_empty(self) -> bool {
        self.bytes.is_empty() && self.memory.is_empty()
    }

    /// The bytes, if there is no memory between them.
    #[inline]
    pub(super) fn plain(self) -> Option<&'a [u8]> {
        self.memory.is_empty().then_some(self.bytes)
    }

    /// Puts the pieces of one call, with at most `most` bytes, into `pieces`, and says how many bytes those are.
    pub(super) fn pieces(self, most: usize, pieces: &mut ArrayVec<Piece<'a>, MOST_PIECES>) -> usize {
        let (mut rest, mut length) = (self, 0);
        while length < most && !pieces.is_full() {
            let Some((piece, behind)) = rest.split() else { break };
            let piece = first_of(piece, most - length);
            length += length_of(&piece);
            pieces.push(piece);
            rest = behind;
        }
        length
    }

    /// All bytes, copied.
    ///
    /// # Errors
    /// Memory is gone.
    pub(super) fn copied(self, registry: &Registry) -> Result<Vec<u8>, MemoryError> {
        let (mut copy, mut rest) = (Vec::with_capacity(self.length()), self);
        while let Some((piece, behind)) = rest.split() {
            match piece {
                Piece::Bytes(bytes) => copy.extend_from_slice(bytes),
                Piece::Memory(slice) => {
                    let start = copy.len();
                    copy.resize(start + slice.length as usize, 0);
                    registry.copy_out(&slice, &mut copy[start..], &mut NoDigest)?;
                }
            }
            rest = behind;
        }
        Ok(copy)
    }
}

fn length_of(piece: &Piece<'_>) -> usize {
    match piece {
        Piece::Bytes(bytes) => bytes.len(),
        Piece::Memory(slice) => slice.length as usize,
    }
}

/// At most `most` bytes of a piece.
fn first_of(piece: Piece<'_>, most: usize) -> Piece<'_> {
    match piece {
        Piece::Bytes(bytes) => Piece::Bytes(&bytes[..bytes.len().min(most)]),
        Piece::Memory(slice) => Piece::Memory(slice.part(0, slice.length.min(u32::try_from(most).unwrap_or(u32::MAX)))),
    }
}

#[cfg(test)]
mod tests {
    use weft_base::Gather;
    use weft_memory::{Access, Limits, Region};

    use super::*;

    const TO: ([u8; 4], u16) = ([127, 0, 0, 1], 7);

    struct Memory {
        registry: Registry,
        region: Region,
    }

    fn memory() -> Memory {
        let registry = Registry::new(7, Limits::default());
        let domain = registry.allocate_domain().unwrap();
        let region = registry.register_zeroed(domain, 40_000, Access::LOCAL_WRITE, 0).unwrap();
        let memory = Memory { registry, region };
        memory.fill(0);
        memory
    }

    impl Memory {
        fn fill(&self, with: u8) {
            let bytes: Vec<u8> = (0..40_000_u32).map(|at| (at % 251) as u8 ^ with).collect();
            self.registry.copy_in(&self.slice(0, 40_000), &bytes, &mut NoDigest).unwrap();
        }

        fn slice(&self, offset: u64, length: u32) -> Slice {
            Slice { region: self.region.id(), offset, length }
        }
    }

    /// Datagrams of one path with a header of 9 bytes and these slices as payload, laid out.
    fn lay_out(memory: &Memory, datagrams: &[&[Slice]], threshold: u32) -> (Wire, Vec<GsoBatch>) {
        let (mut wire, mut runs) = (Wire::default(), Vec::new());
        let bytes = *b"a header;inline";
        for slices in datagrams {
            let gather = Gather::new(slices).unwrap();
            let pieces = [
                weft_edge::Piece::Bytes { start: 0, length: 9 },
                weft_edge::Piece::Payload { start: 9, length: 6, gather, in_place: true },
            ];
            let length = 9 + 6 + gather.length() as usize + 4;
            let datagram = Datagram { to: TO.into(), local: 0, pieces: 0..2, length, count: 1, ecn: 0, rail: 0 };
            lay(&mut wire, &mut runs, &datagram, (&pieces, &bytes), &memory.registry, threshold).unwrap();
        }
        (wire, runs)
    }

    fn is_good(datagram: &[u8]) -> bool {
        let (covered, crc) = datagram[9..].split_last_chunk().unwrap();
        Crc32c::of(covered).to_be_bytes() == *crc
    }

    #[test]
    fn the_same_bytes_go_out_from_memory_and_from_a_copy() {
        let memory = memory();
        let long = [memory.slice(100, 5000), memory.slice(9000, 3000)];
        let datagrams: [&[Slice]; 3] = [&long, &long, &[memory.slice(7, 60)]];
        let (copied, copies) = lay_out(&memory, &datagrams, COPY_ALL);
        let (wire, runs) = lay_out(&memory, &datagrams, 2048);
        assert_eq!((copied.copied_bytes(), copied.gathered_bytes()), (16_060, 0));
        assert_eq!((wire.copied_bytes(), wire.gathered_bytes()), (60, 16_000));
        assert_eq!((runs.len(), runs[0].segment, runs[0].last), (1, 8019, 79), "all three go as one");
        assert_eq!((copies.len(), copies[0].segment, copies[0].last), (1, 8019, 79));
        let [from_memory, from_copy] = [wire.parts().of_run(&runs[0]), copied.parts().of_run(&copies[0])]
            .map(|parts| parts.copied(&memory.registry).unwrap());
        assert_eq!(from_memory, from_copy);
        assert!(from_memory.chunks(8019).all(is_good));
    }

    /// The same payload in a row of datagrams, and datagram by datagram.
    #[test]
    fn a_row_is_what_its_datagrams_are() {
        let memory = memory();
        let heads = *b"head1head2head3head4head5";
        for (slices, in_place, threshold) in [
            (&[memory.slice(300, 5000)][..], false, 0),
            (&[memory.slice(300, 1700), memory.slice(9000, 3300)][..], true, COPY_ALL),
            (&[memory.slice(300, 5000)][..], true, 500),
        ] {
            let gather = Gather::new(slices).unwrap();
            let row = weft_edge::Piece::Row { start: 0, length: 25, head: 5, gather, part: 1000, in_place };
            let (to, length) = (TO.into(), 5 + 1000 + 4);
            let datagram = Datagram { to, local: 0, pieces: 0..1, length, count: 5, ecn: 0, rail: 0 };
            let (mut wire, mut runs) = (Wire::default(), Vec::new());
            lay(&mut wire, &mut runs, &datagram, (&[row], &heads), &memory.registry, threshold).unwrap();
            let (mut apart, mut each) = (Wire::default(), Vec::new());
            for index in 0..5 {
                let (datagram, pieces) = (Datagram { count: 1, ..datagram.clone() }, row.of_row(index).unwrap());
                lay(&mut apart, &mut each, &datagram, (&pieces, &heads), &memory.registry, COPY_ALL).unwrap();
            }
            assert!(row.of_row(5).is_none());
            assert_eq!([runs.len(), each.len()], [1, 1]);
            assert_eq!((runs[0].segment, runs[0].last), (1009, 1009));
            let [one, other] = [wire.parts().of_run(&runs[0]), apart.parts().of_run(&each[0])];
            assert_eq!(one.copied(&memory.registry).unwrap(), other.copied(&memory.registry).unwrap());
            assert_eq!(wire.gathered_bytes() > 0, in_place && threshold < 1000);
            assert_eq!(wire.gathered_bytes() + wire.copied_bytes(), 5000);
        }
    }

    /// The kernel cuts what it gets into equal datagrams, of which the last may be shorter.
    #[test]
    fn a_shorter_datagram_ends_a_run_and_a_row_of_shorter_ones_begins_one() {
        let memory = memory();
        let heads = *b"head1head2head3head4head5";
        let (mut wire, mut runs) = (Wire::default(), Vec::new());
        for (count, part) in [(3, 1400), (5, 1000), (2, 1000), (1, 500), (1, 500)] {
            let gather = memory.slice(300, count * part).into();
            let row = weft_edge::Piece::Row { start: 0, length: count * 5, head: 5, gather, part, in_place: false };
            let length = 5 + part as usize + 4;
            let datagram = Datagram { to: TO.into(), local: 0, pieces: 0..1, length, count, ecn: 0, rail: 0 };
            lay(&mut wire, &mut runs, &datagram, (&[row], &heads), &memory.registry, COPY_ALL).unwrap();
        }
        let seen: Vec<_> = runs.iter().map(|run| (run.bytes.len(), run.segment, run.last)).collect();
        assert_eq!(seen, [(3 * 1409, 1409, 1409), (7 * 1009 + 509, 1009, 509), (509, 509, 509)]);
    }

    #[test]
    fn what_a_call_takes_and_what_is_left_are_all_of_it() {
        let memory = memory();
        let long = [memory.slice(100, 5000), memory.slice(9000, 3000)];
        let (wire, runs) = lay_out(&memory, &[&long, &long], 2048);
        let parts = wire.parts().of_run(&runs[0]);
        let whole = parts.copied(&memory.registry).unwrap();
        assert_eq!(parts.length(), whole.len());
        for at in [0, 1, 8, 9, 15, 16, 5014, 5015, 5016, 8014, 8015, 8019, 8020, 16_037, 16_038] {
            let mut pieces = ArrayVec::new();
            assert_eq!(parts.pieces(at, &mut pieces), at);
            assert_eq!(pieces.iter().map(length_of).sum::<usize>(), at);
            let rest = parts.behind(at);
            assert_eq!(rest.length(), whole.len() - at, "{at}");
            assert!(rest.copied(&memory.registry).unwrap() == whole[at..], "{at}");
            assert!(
                rest.behind(5000.min(rest.length())).copied(&memory.registry).unwrap()
                    == whole[(at + 5000).min(16_038)..]
            );
        }
        assert_eq!(parts.pieces(usize::MAX, &mut ArrayVec::new()), 16_038);
    }

    #[test]
    fn what_changes_meanwhile_goes_out_damaged() {
        let memory = memory();
        let (wire, runs) = lay_out(&memory, &[&[memory.slice(0, 8000)]], 2048);
        memory.fill(0x55);
        assert!(!is_good(&wire.parts().of_run(&runs[0]).copied(&memory.registry).unwrap()));
    }

    #[test]
    fn no_run_has_more_pieces_than_a_call_takes() {
        let memory = memory();
        let short = [memory.slice(0, 100); 4];
        let datagrams = [&short[..]; 40];
        let (wire, runs) = lay_out(&memory, &datagrams, 1);
        assert!(runs.len() > 1 && runs.iter().all(|run| run.memory.len() <= MOST_SLICES));
        for run in &runs {
            let parts = wire.parts().of_run(run);
            assert_eq!(parts.pieces(usize::MAX, &mut ArrayVec::new()), parts.length());
        }
    }
}
