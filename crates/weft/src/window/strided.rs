//! Operations on many blocks of a target: what they become, and how they are begun.

use weft_nic::{RemotePiece, RemotePlace, SendPost, TransferPost};
use weft_window::{Access, Block, Request};
use weft_wire::window::Notice;

use super::operation::{Context, Gather, Operation, Post, Strided, StridedOp, atomics};
use super::packed;
use super::side::PostBuilder;
use super::{Combine, Element, Error, Layout, LayoutError, Window};

/// Blocks that are written by one request to the endpoint: it keeps its room for requests, and completes once.
const PIECES: usize = 64;

impl PostBuilder<'_, '_> {
    /// Posts what an update of many blocks becomes. With a `notice` the target counts it, once.
    pub(super) fn update_laid(
        &mut self,
        request: Request,
        access: Access,
        strided: Strided,
        notice: Option<u32>,
        count: u32,
    ) {
        let before = self.posting.outbox.len();
        let Strided { layout, op, packed } = strided;
        match op {
            StridedOp::Put(bytes) if packed => self.pack(request, access, &layout, &bytes, notice),
            StridedOp::Put(bytes) => self.write_blocks(request, access, &layout, &bytes, (notice, count)),
            StridedOp::Accumulate { element, combine, operands } => {
                self.combine_blocks(request, access, &layout, &operands, (element, combine));
            }
            StridedOp::Get => {}
        }
        let parts = (self.posting.outbox.len() - before) as u32;
        let Some(pending) = self.pending[request.index()].as_mut() else { return };
        pending.parts = parts;
        if pending.is_atomic {
            pending.tells = notice.is_some();
            self.told[access.rank].under_way += 1;
        }
    }

    /// Messages that the target unpacks. The last one is counted.
    fn pack(&mut self, request: Request, access: Access, layout: &Layout, bytes: &[u8], notice: Option<u32>) {
        let (id, context, peer) = (self.id, self.context(request).number(), self.posting.peers[access.rank]);
        let epoch = self.pending[request.index()].as_ref().map_or(0, |pending| pending.epoch);
        packed::messages(access.offset, layout, bytes, |runs, bytes, is_last| {
            let mut message = self.posting.spare.pop().unwrap_or_default();
            packed::emit((id, epoch), runs, bytes, is_last && notice.is_some(), &mut message);
            self.posting.outbox.push_back(Post::Send(SendPost::new(peer, message).context(context)));
        });
    }

    /// Writes of up to [`PIECES`] blocks each. They are placed in order, so the last one's notice counts for all.
    fn write_blocks(
        &mut self,
        request: Request,
        access: Access,
        layout: &Layout,
        bytes: &[u8],
        (notice, count): (Option<u32>, u32),
    ) {
        let (id, context, peer) = (self.id, self.context(request).number(), self.posting.peers[access.rank]);
        let mut rest = bytes;
        let mut left = layout.blocks();
        while let Some((first, _)) = left.split_first() {
            let (blocks, further) = left.split_at(left.len().min(PIECES));
            let (now, later) = rest.split_at(blocks.iter().map(|block| block.length as usize).sum());
            let post = TransferPost::new(peer, now.to_vec(), self.place_at(access, first.offset)).context(context);
            let piece =
                |block: &Block| RemotePiece { place: self.place_at(access, block.offset), length: block.length.into() };
            let pieces = if blocks.len() > 1 { blocks.iter().map(piece).collect() } else { Vec::new() };
            let notice = notice.filter(|_| further.is_empty());
            let data = notice.map(|epoch| Notice { window: id, epoch: epoch as u16, count }.data());
            self.posting.outbox.push_back(Post::Write(TransferPost { data, pieces, ..post }));
            (rest, left) = (later, further);
        }
    }

    /// Atomics for each block.
    fn combine_blocks(
        &mut self,
        request: Request,
        access: Access,
        layout: &Layout,
        operands: &[u8],
        (element, combine): (Element, Combine),
    ) {
        let (context, peer) = (self.context(request), self.posting.peers[access.rank]);
        let mut rest = operands;
        for block in layout.blocks() {
            let (now, later) = rest.split_at(block.length as usize);
            let operation = Operation::Accumulate { element, combine, operands: now.to_vec() };
            let place = self.place_at(access, block.offset);
            self.posting.outbox.extend(atomics(peer, place, operation, self.posting.atomic_bytes, context));
            rest = later;
        }
    }

    /// Reads many blocks: all from the first to the last in one, or each.
    pub(super) fn read_laid(&mut self, request: Request, access: Access, layout: &Layout) {
        let (context, peer) = (self.context(request), self.posting.peers[access.rank]);
        let read = |place: RemotePlace, length: u32, part: usize| {
            let context = Context { part: part as u32, ..context }.number();
            Post::Read(TransferPost::new(peer, vec![0; length as usize], place).context(context))
        };
        let first = self.place_at(access, layout.first().into());
        let (gather, parts) = if layout.reads_gaps() {
            self.posting.outbox.push_back(read(first, layout.extent() - layout.first(), 0));
            (Gather::Span(layout.clone()), 1)
        } else {
            let mut start = 0;
            let mut starts = Vec::with_capacity(layout.blocks().len());
            for (part, block) in layout.blocks().iter().enumerate() {
                let post = read(self.place_at(access, block.offset), block.length, part);
                self.posting.outbox.push_back(post);
                starts.push(start);
                start += block.length;
            }
            (Gather::Blocks(starts), layout.blocks().len() as u32)
        };
        let Some(pending) = self.pending[request.index()].as_mut() else { return };
        pending.result = Some(vec![0; layout.length() as usize]);
        (pending.gather, pending.parts) = (Some(gather), parts);
    }

    fn place_at(&self, access: Access, further: u64) -> RemotePlace {
        let place = self.place(access);
        RemotePlace { offset: place.offset.wrapping_add(further), ..place }
    }
}

/// Operations whose bytes do not lie in one piece, here or there. How they go is chosen for each: in an epoch of
/// fences, what is put to blocks that have fewer bytes than
/// [`WindowOptions::pack_below`](super::WindowOptions::pack_below) on the average is packed into messages, which the
/// target unpacks, in its fence at the latest; else there is a write for each block. What accumulates is atomics for
/// each block, in order with all others. A get reads from the first byte to the last, or each block where the gaps are
/// long. Each is one operation.
impl Window {
    /// Puts bytes at the blocks of `to` from byte `offset` of the window of `rank` on: those that lie at the blocks of
    /// `from` in `memory`. They are copied now.
    ///
    /// # Errors
    /// As [`Window::put`]; or the layouts have not the same length, or `from` reaches beyond `memory`.
    pub fn put_layout(
        &mut self,
        rank: usize,
        offset: u64,
        to: &Layout,
        memory: &[u8],
        from: &Layout,
    ) -> Result<Request, Error> {
        let bytes = packed_from(to, memory, from)?;
        match to.blocks() {
            [block] if bytes.len() <= Self::MESSAGE_BYTES && self.sends_messages() => {
                let (core, id) = (self.place.core.enter(), &self.place.id);
                core.begin(*id, rank, offset.wrapping_add(block.offset), Operation::Message(bytes))
            }
            _ => self.begin_strided(rank, offset, to, StridedOp::Put(bytes)),
        }
    }

    /// Gets the bytes at the blocks of `from`, from byte `offset` of the window of `rank` on: [`Window::take`] gives
    /// them one behind the other, and [`Layout::unpack`] puts them where they belong.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn get_layout(&mut self, rank: usize, offset: u64, from: &Layout) -> Result<Request, Error> {
        self.begin_strided(rank, offset, from, StridedOp::Get)
    }

    /// Combines the elements at the blocks of `from` in `operands` with those at the blocks of `to`, from byte `offset`
    /// of the window of `rank` on. All blocks are whole elements, at multiples of their size.
    ///
    /// # Errors
    /// As [`Window::accumulate`] and [`Window::put_layout`].
    #[expect(clippy::too_many_arguments, reason = "MPI_Accumulate has as many, and each is of its own type")]
    pub fn accumulate_layout(
        &mut self,
        rank: usize,
        offset: u64,
        element: Element,
        combine: Combine,
        to: &Layout,
        operands: &[u8],
        from: &Layout,
    ) -> Result<Request, Error> {
        let operands = packed_from(to, operands, from)?;
        self.begin_strided(rank, offset, to, StridedOp::Accumulate { element, combine, operands })
    }

    fn begin_strided(&mut self, rank: usize, offset: u64, layout: &Layout, op: StridedOp) -> Result<Request, Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        let packs = core.with(*id, |side| side.machine.is_open() && layout.is_finer_than(side.pack_below));
        let packed = packs && matches!(op, StridedOp::Put(_));
        let strided = Strided { layout: layout.clone(), op, packed };
        core.begin(*id, rank, offset, Operation::Strided(strided))
    }
}

fn packed_from(to: &Layout, memory: &[u8], from: &Layout) -> Result<Vec<u8>, Error> {
    if to.length() != from.length() {
        return Err(Error::Layout(LayoutError::Unlike { here: from.length(), there: to.length() }));
    }
    let beyond = LayoutError::Beyond { extent: from.extent(), length: memory.len() };
    from.pack(memory).ok_or(Error::Layout(beyond))
}
