//! What must hold, known from the requests and not from what the windows believe.

/// A stamp has its epoch in its upper half. Memory begins with zeros, of epoch 0.
fn epoch_of(stamp: u64) -> u32 {
    (stamp >> 32) as u32
}

struct Put {
    cell: usize,
    stamp: u64,
    placed: bool,
}

#[derive(Default)]
struct Rank {
    memory: Vec<u64>,
    /// What was begun towards this rank, in the order of beginning.
    puts: Vec<Put>,
    /// Fences that it has called.
    fences: u32,
    /// Fences that have ended here.
    left: u32,
}

impl Rank {
    /// What a cell must have when all epochs up to this one have ended.
    fn settled(&self, cell: usize, epoch: u32) -> u64 {
        let puts = self.puts.iter().filter(|put| put.cell == cell && epoch_of(put.stamp) <= epoch);
        puts.map(|put| put.stamp).max_by_key(|&stamp| epoch_of(stamp)).unwrap_or(0)
    }
}

pub(super) struct Checker {
    ranks: Vec<Rank>,
}

impl Checker {
    pub(super) fn new(ranks: usize, cells: usize) -> Self {
        let rank = || Rank { memory: vec![0; cells], ..Rank::default() };
        Self { ranks: (0..ranks).map(|_| rank()).collect() }
    }

    pub(super) fn begin(&mut self, target: usize, cell: usize, stamp: u64) {
        self.ranks[target].puts.push(Put { cell, stamp, placed: false });
    }

    pub(super) fn fence(&mut self, rank: usize) {
        self.ranks[rank].fences += 1;
    }

    /// A put may be placed only where all epochs before its own have ended: the target has called their fences, and has
    /// all that was for it.
    pub(super) fn place(&mut self, target: usize, cell: usize, stamp: u64) -> Result<(), String> {
        let (rank, epoch) = (&mut self.ranks[target], epoch_of(stamp));
        if rank.fences < epoch {
            return Err(format!("a put of epoch {epoch} is too early at rank {target}: it has not fenced"));
        }
        if let Some(put) = rank.puts.iter().find(|put| !put.placed && epoch_of(put.stamp) < epoch) {
            return Err(format!("a put of epoch {epoch} is too early at rank {target}: {:#x} is to come", put.stamp));
        }
        let put = rank.puts.iter_mut().find(|put| put.cell == cell && put.stamp == stamp && !put.placed);
        put.ok_or_else(|| format!("{stamp:#x} came twice, or from nowhere"))?.placed = true;
        rank.memory[cell] = stamp;
        Ok(())
    }

    /// A get sees what its epoch began with, or what is done in it; when its target continues, that may change its
    /// memory.
    pub(super) fn read(&self, target: usize, cell: usize, epoch: u32) -> Result<(), String> {
        if self.ranks[target].left > epoch {
            return Err(format!("a get of epoch {epoch} is too late at rank {target}: it has gone on"));
        }
        self.judge(target, cell, epoch.wrapping_sub(1)).map_err(|error| format!("a get of epoch {epoch}: {error}"))
    }

    /// A rank continues after the fence that ended `epoch`.
    pub(super) fn leave(&mut self, rank: usize, epoch: u32) -> Result<(), String> {
        self.ranks[rank].left += 1;
        (0..self.ranks[rank].memory.len()).try_for_each(|cell| self.judge(rank, cell, epoch))
    }

    /// The cell has what all epochs up to this one made of it; only the next one may have begun to change it.
    fn judge(&self, rank: usize, cell: usize, epoch: u32) -> Result<(), String> {
        let rank_of = &self.ranks[rank];
        let (found, settled) = (rank_of.memory[cell], rank_of.settled(cell, epoch));
        if found == settled || epoch_of(found) == epoch.wrapping_add(1) {
            return Ok(());
        }
        Err(format!("{settled:#x} is not there after epoch {epoch}, cell {cell} of rank {rank}: it has {found:#x}"))
    }
}
