//! Where the bytes of an operation lie when they do not lie in one piece.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Bytes in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first, from the base of the layout on.
    pub offset: u64,
    /// How many.
    pub length: u32,
}

/// Blocks of bytes, in an order. Those that follow each other without a gap are one. Clones share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    blocks: Arc<[Block]>,
    /// Bytes of all blocks.
    length: u32,
    first: u64,
    end: u64,
}

/// A gap of this many bytes costs as much to read as a read of its own: one takes about 1 us, in which 1 KiB comes.
const GAP_OF_A_READ: u64 = 1024;

impl Layout {
    /// The most blocks of a layout.
    pub const MOST_BLOCKS: usize = 1 << 18;

    /// One block at the base.
    #[must_use]
    pub fn contiguous(length: u32) -> Self {
        Self::of(vec![Block { offset: 0, length }]).unwrap_or_else(|_| unreachable!("one block that fits"))
    }

    /// `count` blocks of `block` bytes, of which each begins `stride` bytes after the one before: MPI's vector.
    ///
    /// # Errors
    /// More than [`Layout::MOST_BLOCKS`], or more bytes than an operation can have.
    pub fn strided(count: u32, block: u32, stride: u64) -> Result<Self, LayoutError> {
        Self::contiguous(block).repeated(count, stride)
    }

    /// These blocks, in this order. They may overlap: of puts and gets the later one wins.
    ///
    /// # Errors
    /// As [`Layout::strided`].
    pub fn indexed(blocks: &[Block]) -> Result<Self, LayoutError> {
        Self::of(blocks.to_vec())
    }

    /// This layout `count` times, each time `stride` bytes further on: faces of blocks with more dimensions.
    ///
    /// # Errors
    /// As [`Layout::strided`].
    pub fn repeated(&self, count: u32, stride: u64) -> Result<Self, LayoutError> {
        let blocks = self.blocks.len().saturating_mul(count as usize);
        if blocks > Self::MOST_BLOCKS && (self.blocks.len() > 1 || stride != u64::from(self.length)) {
            return Err(LayoutError::Blocks(blocks));
        }
        let mut all = Vec::with_capacity(blocks.min(Self::MOST_BLOCKS));
        for time in 0..u64::from(count) {
            let shift = time.checked_mul(stride).ok_or(LayoutError::Long)?;
            for block in self.blocks.iter() {
                let offset = block.offset.checked_add(shift).ok_or(LayoutError::Long)?;
                push(&mut all, Block { offset, ..*block })?;
            }
        }
        Self::of(all)
    }

    fn of(given: Vec<Block>) -> Result<Self, LayoutError> {
        let (mut blocks, mut length, mut end) = (Vec::with_capacity(given.len().min(Self::MOST_BLOCKS)), 0u32, 0);
        for block in given {
            length = length.checked_add(block.length).ok_or(LayoutError::Long)?;
            end = block.offset.checked_add(block.length.into()).ok_or(LayoutError::Long)?.max(end);
            push(&mut blocks, block)?;
        }
        let first = blocks.iter().map(|block| block.offset).min().unwrap_or(0);
        match u32::try_from(end) {
            _ if blocks.len() > Self::MOST_BLOCKS => Err(LayoutError::Blocks(blocks.len())),
            Ok(_) => Ok(Self { blocks: blocks.into(), length, first, end }),
            Err(_) => Err(LayoutError::Long),
        }
    }

    /// Its blocks; none is empty.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Bytes of all blocks.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Bytes from the base to the end of the last block.
    #[must_use]
    pub fn extent(&self) -> u32 {
        // The constructors see to it.
        self.end as u32
    }

    /// The first byte that belongs to a block.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.first as u32
    }

    /// Whether all blocks are whole elements of this many bytes, at multiples of that.
    #[must_use]
    pub fn is_whole(&self, size: u32) -> bool {
        self.blocks.iter().all(|block| block.offset.is_multiple_of(size.into()) && block.length.is_multiple_of(size))
    }

    /// Whether its blocks have fewer bytes than this, on average, and are several.
    #[must_use]
    pub fn is_finer_than(&self, bytes: u32) -> bool {
        self.blocks.len() > 1 && u64::from(self.length) < self.blocks.len() as u64 * u64::from(bytes)
    }

    /// Whether reading the gaps, too, is cheaper than a read for each block.
    #[must_use]
    pub fn reads_gaps(&self) -> bool {
        let gaps = (self.end - self.first).saturating_sub(self.length.into());
        gaps <= (self.blocks.len() as u64).saturating_sub(1) * GAP_OF_A_READ
    }

    /// Its bytes in `memory`, one block behind the other. `None`: some lie beyond.
    #[must_use]
    pub fn pack(&self, memory: &[u8]) -> Option<Vec<u8>> {
        let mut packed = Vec::new();
        self.pack_into(memory, 0, &mut packed)?;
        Some(packed)
    }

    /// As [`Layout::pack`], where `memory` begins `skipped` bytes after the base. What `packed` had is lost.
    pub fn pack_into(&self, memory: &[u8], skipped: u64, packed: &mut Vec<u8>) -> Option<()> {
        packed.clear();
        packed.reserve(self.length as usize);
        for block in self.blocks.iter() {
            let start = usize::try_from(block.offset.checked_sub(skipped)?).ok()?;
            packed.extend_from_slice(memory.get(start..start.checked_add(block.length as usize)?)?);
        }
        Some(())
    }

    /// Writes packed bytes to where they belong in `memory`. `None`: they are not as many, or some belong beyond; some
    /// may be written then.
    pub fn unpack(&self, packed: &[u8], memory: &mut [u8]) -> Option<()> {
        let mut rest = (packed.len() == self.length as usize).then_some(packed)?;
        for block in self.blocks.iter() {
            let (now, later) = rest.split_at_checked(block.length as usize)?;
            let start = usize::try_from(block.offset).ok()?;
            memory.get_mut(start..start.checked_add(now.len())?)?.copy_from_slice(now);
            rest = later;
        }
        Some(())
    }
}

/// Adds a block, or makes the last one longer.
fn push(blocks: &mut Vec<Block>, block: Block) -> Result<(), LayoutError> {
    if block.length == 0 {
        return Ok(());
    }
    match blocks.last_mut() {
        Some(last) if last.offset.checked_add(last.length.into()) == Some(block.offset) => {
            last.length = last.length.checked_add(block.length).ok_or(LayoutError::Long)?;
        }
        _ => blocks.push(block),
    }
    Ok(())
}

/// A layout that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// This many blocks.
    Blocks(usize),
    /// It has, or reaches to, more than 2^32 - 1 bytes.
    Long,
    /// Those of an operation have not the same length.
    Unlike {
        /// Bytes of that of this rank's memory.
        here: u32,
        /// Bytes of that of the target's.
        there: u32,
    },
    /// It reaches beyond the memory that is given.
    Beyond {
        /// Bytes to its end.
        extent: u32,
        /// Bytes of the memory.
        length: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks(blocks) => {
                write!(f, "{blocks} blocks: a layout has at most {}, make several operations", Layout::MOST_BLOCKS)
            }
            Self::Unlike { here, there } => {
                write!(f, "{here} bytes here for {there} bytes at the target: the layouts must have the same length")
            }
            Self::Beyond { extent, length } => {
                write!(f, "the layout reaches to byte {extent} of memory of {length} bytes")
            }
            Self::Long => write!(f, "the layout reaches beyond 4 GiB: make several operations"),
        }
    }
}

impl Error for LayoutError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: u64, length: u32) -> Block {
        Block { offset, length }
    }

    #[test]
    fn blocks_without_a_gap_are_one_and_empty_ones_none() {
        let layout = Layout::strided(3, 8, 32).unwrap();
        assert_eq!(layout.blocks(), [block(0, 8), block(32, 8), block(64, 8)]);
        assert_eq!((layout.length(), layout.extent(), layout.first()), (24, 72, 0));
        assert_eq!(Layout::strided(3, 8, 8).unwrap(), Layout::contiguous(24));
        assert_eq!(Layout::strided(1 << 20, 8, 8).unwrap(), Layout::contiguous(1 << 23));
        let plane = layout.repeated(2, 1000).unwrap();
        assert_eq!(plane.blocks()[3..], [block(1000, 8), block(1032, 8), block(1064, 8)]);
        let indexed = Layout::indexed(&[block(9, 3), block(12, 1), block(4, 0), block(2, 2)]).unwrap();
        assert_eq!(indexed.blocks(), [block(9, 4), block(2, 2)]);
        assert_eq!((indexed.length(), indexed.extent(), indexed.first()), (6, 13, 2));
        assert!(Layout::contiguous(0).blocks().is_empty() && Layout::strided(0, 8, 9).unwrap().length() == 0);
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let most = Layout::MOST_BLOCKS as u32;
        assert!(Layout::strided(most, 1, 2).is_ok());
        assert_eq!(Layout::strided(most + 1, 1, 2), Err(LayoutError::Blocks(most as usize + 1)));
        assert_eq!(Layout::strided(2, 8, u64::MAX), Err(LayoutError::Long));
        assert_eq!(Layout::strided(3, 8, u64::MAX / 2 + 1), Err(LayoutError::Long));
        assert_eq!(Layout::indexed(&[block(u64::MAX, 1)]), Err(LayoutError::Long));
        assert_eq!(Layout::indexed(&[block(0, u32::MAX), block(0, 1)]), Err(LayoutError::Long));
        assert_eq!(Layout::strided(2, u32::MAX, u32::MAX.into()), Err(LayoutError::Long));
    }

    #[test]
    fn what_is_packed_comes_back() {
        let memory: Vec<u8> = (0..100).collect();
        let layout = Layout::indexed(&[block(50, 3), block(7, 2), block(90, 10)]).unwrap();
        let packed = layout.pack(&memory).unwrap();
        assert_eq!(packed[..6], [50, 51, 52, 7, 8, 90]);
        let mut again = Vec::new();
        layout.pack_into(&memory[7..], 7, &mut again).unwrap();
        assert_eq!(again, packed);
        let mut other = vec![0; 100];
        layout.unpack(&packed, &mut other).unwrap();
        assert_eq!(layout.pack(&other).unwrap(), packed);
        assert_eq!(other.iter().filter(|byte| **byte != 0).count(), 15);
        assert!(layout.pack(&memory[..99]).is_none() && layout.unpack(&packed, &mut other[..99]).is_none());
        assert!(layout.unpack(&packed[1..], &mut other).is_none());
        assert!(layout.pack_into(&memory, 8, &mut again).is_none());
    }

    #[test]
    fn gaps_are_read_while_that_is_cheaper() {
        assert!(Layout::contiguous(1).reads_gaps());
        assert!(Layout::strided(1000, 8, 1032).unwrap().reads_gaps());
        assert!(!Layout::strided(1000, 8, 1040).unwrap().reads_gaps());
        assert!(!Layout::contiguous(8).is_finer_than(512));
        assert!(Layout::strided(9, 511, 1000).unwrap().is_finer_than(512));
        assert!(!Layout::strided(9, 512, 1000).unwrap().is_finer_than(512));
        assert!(Layout::strided(9, 16, 80).unwrap().is_whole(16) && !Layout::strided(9, 16, 40).unwrap().is_whole(16));
    }
}
