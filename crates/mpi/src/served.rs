//! A window that Weft serves: its epochs. What is done in them is in `operation`.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::collections::VecDeque;

use weft::window::{Asserts, Request, Team, Window};

use crate::abi::{Handle, abi};
use crate::fault::Fault;
use crate::library;
use crate::operation::{Scratch, UnderWay};
use crate::report::COUNTS;

/// MPI has no limits of time: a rank that does not come is waited for, as long as it lives.
pub(crate) const FOREVER: Duration = Duration::from_secs(1 << 30);

/// One rank's part, as all know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: u64,
    /// Bytes of a displacement of 1.
    pub(crate) unit: u64,
}

/// Which of Weft's two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Its epochs are fences.
    Fences,
    /// Locks; post, start, complete and wait.
    Between,
}

/// A window that Weft serves.
pub(crate) struct Served {
    // Before the team, whose they are.
    pub(crate) fences: Window,
    pub(crate) between: Window,
    pub(crate) team: Team,
    /// This library's own, with the ranks of the window.
    pub(crate) comm: Handle,
    pub(crate) parts: Vec<Part>,
    /// By rank: whether this one has locked it, or has started to access it.
    pub(crate) locked: Vec<bool>,
    pub(crate) started: Vec<bool>,
    pub(crate) has_posted: bool,
    pub(crate) has_all: bool,
    /// What may not be over yet, in the order in which it was begun.
    pub(crate) under_way: VecDeque<UnderWay>,
    pub(crate) scratch: Scratch,
}

impl Served {
    pub(crate) fn window(&mut self, side: Side) -> &mut Window {
        match side {
            Side::Fences => &mut self.fences,
            Side::Between => &mut self.between,
        }
    }

    /// In which kind of epoch an operation at a rank is.
    pub(crate) fn side_of(&self, rank: usize) -> Side {
        if self.locked[rank] || self.started[rank] { Side::Between } else { Side::Fences }
    }

    /// The rank that a call names; `None`: MPI_PROC_NULL.
    pub(crate) fn rank(&self, rank: c_int) -> Result<Option<usize>, Fault> {
        if rank == abi().proc_null {
            return Ok(None);
        }
        let known = usize::try_from(rank).ok().filter(|rank| *rank < self.parts.len());
        let words = || format!("rank {rank} in a window of {} ranks: there is none", self.parts.len());
        known.map(Some).ok_or_else(|| Fault { code: abi().classes.rank, words: words() })
    }

    pub(crate) fn fence(&mut self, assert: c_int) -> Result<(), Fault> {
        if self.has_posted || self.locked.iter().chain(&self.started).any(|is| *is) {
            return Err(Fault::sync("a lock, or an epoch of post or start, is open: end it before the fence"));
        }
        let abi = abi();
        let has = |bit: c_int| assert & bit != 0;
        let asserts = Asserts { no_precede: has(abi.no_precede), no_succeed: has(abi.no_succeed) };
        self.fences.fence(asserts)?;
        COUNTS.fences.fetch_add(1, Relaxed);
        self.settle(|one| one.side == Side::Fences)
    }

    pub(crate) fn post(&mut self, group: Handle, win: Handle) -> Result<(), Fault> {
        let origins = ranks_of(group, win)?;
        self.between.post(&origins)?;
        self.has_posted = true;
        Ok(())
    }

    /// MPI_Win_start. Returns whether it is over: without `waits`, [`Served::has_started`] says when.
    pub(crate) fn start(&mut self, group: Handle, win: Handle, waits: bool) -> Result<bool, Fault> {
        let targets = ranks_of(group, win)?;
        match waits {
            true => self.between.start(&targets, FOREVER)?,
            false => self.between.begin_start(&targets)?,
        }
        targets.into_iter().for_each(|rank| self.started[rank] = true);
        Ok(waits)
    }

    pub(crate) fn has_started(&mut self) -> Result<bool, Fault> {
        Ok(self.between.test_started()?)
    }

    pub(crate) fn complete(&mut self) -> Result<(), Fault> {
        self.between.complete()?;
        self.settle(|one| one.side == Side::Between)?;
        self.started.fill(false);
        Ok(())
    }

    /// MPI_Win_wait. Returns whether it is over: without `waits`, [`Served::test`] says when.
    pub(crate) fn wait(&mut self, waits: bool) -> Result<bool, Fault> {
        if !waits {
            return self.test();
        }
        self.between.wait_exposed(FOREVER)?;
        self.has_posted = false;
        Ok(true)
    }

    /// MPI_Win_test.
    pub(crate) fn test(&mut self) -> Result<bool, Fault> {
        let has_ended = self.between.test_exposed()?;
        self.has_posted &= !has_ended;
        Ok(has_ended)
    }

    /// MPI_Win_lock. Returns whether it is over: without `waits`, [`Served::has_lock`] says when.
    pub(crate) fn lock(&mut self, kind: c_int, rank: c_int, waits: bool) -> Result<bool, Fault> {
        let abi = abi();
        if kind != abi.lock_exclusive && kind != abi.lock_shared {
            let words = format!("lock type {kind}: it is MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED");
            return Err(Fault { code: abi.classes.argument, words });
        }
        let (Some(rank), exclusive) = (self.rank(rank)?, kind == abi.lock_exclusive) else { return Ok(true) };
        match waits {
            true => self.between.lock(rank, exclusive, FOREVER)?,
            false => self.between.begin_lock(rank, exclusive)?,
        }
        self.locked[rank] = true;
        Ok(waits)
    }

    pub(crate) fn has_lock(&mut self, rank: c_int) -> Result<bool, Fault> {
        let Some(rank) = self.rank(rank)? else { return Ok(true) };
        Ok(self.between.test_lock(rank)?)
    }

    pub(crate) fn unlock(&mut self, rank: c_int) -> Result<(), Fault> {
        let Some(rank) = self.rank(rank)? else { return Ok(()) };
        if self.has_all {
            return Err(Fault::sync("all ranks are locked: MPI_Win_unlock_all gives that back"));
        }
        self.between.unlock(rank)?;
        self.settle(|one| one.side == Side::Between && one.rank == rank)?;
        self.locked[rank] = false;
        Ok(())
    }

    /// MPI_Win_lock_all. Returns whether it is over: without `waits`, [`Served::has_all_locks`] says when.
    pub(crate) fn lock_all(&mut self, waits: bool) -> Result<bool, Fault> {
        if self.locked.contains(&true) {
            return Err(Fault::sync("a rank is locked already: unlock it first"));
        }
        match waits {
            true => self.between.lock_all(FOREVER)?,
            false => (0..self.parts.len()).try_for_each(|rank| self.between.begin_lock(rank, false))?,
        }
        self.locked.fill(true);
        self.has_all = true;
        Ok(waits)
    }

    pub(crate) fn has_all_locks(&mut self) -> Result<bool, Fault> {
        for rank in 0..self.parts.len() {
            if !self.between.test_lock(rank)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn unlock_all(&mut self) -> Result<(), Fault> {
        if !self.has_all {
            return Err(Fault::sync("MPI_Win_lock_all was not called"));
        }
        self.between.unlock_all()?;
        self.settle(|one| one.side == Side::Between)?;
        self.locked.fill(false);
        self.has_all = false;
        Ok(())
    }

    pub(crate) fn flush(&mut self, rank: c_int) -> Result<(), Fault> {
        let Some(rank) = self.rank(rank)? else { return Ok(()) };
        self.between.flush(rank)?;
        self.settle(|one| one.side == Side::Between && one.rank == rank)
    }

    pub(crate) fn flush_all(&mut self) -> Result<(), Fault> {
        if !self.locked.contains(&true) {
            return Err(Fault::sync("no rank is locked"));
        }
        self.between.flush_all()?;
        self.settle(|one| one.side == Side::Between)
    }

    /// Takes arrived messages, and makes what other ranks have placed visible.
    pub(crate) fn sync(&mut self) -> Result<(), Fault> {
        self.team.progress();
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    /// Ends the window, with all ranks.
    pub(crate) fn free(mut self) -> Result<(), Fault> {
        if self.has_posted || self.locked.iter().chain(&self.started).any(|is| *is) {
            return Err(Fault::sync(
                "a lock, or an epoch of post or start, is open: end it before the window is freed",
            ));
        }
        self.settle(|_| true)?;
        self.meet()?;
        self.fences.free()?;
        self.between.free()?;
        drop(self.team);
        let mut comm = self.comm;
        // SAFETY: It is this library's own.
        match unsafe { library::Comm_free(&raw mut comm) } {
            0 => Ok(()),
            code => Err(Fault::library(code)),
        }
    }

    /// Waits for all ranks, however late: Weft's own waiting has a limit. Meanwhile it does what others wait for.
    fn meet(&self) -> Result<(), Fault> {
        let (mut request, mut flag, mut status) = (0, 0, [0_u64; 8]);
        // SAFETY: It can be written; a handle of 4 bytes takes its lower half.
        let mut code = unsafe { library::Ibarrier(self.comm, &raw mut request) };
        while code == 0 && flag == 0 {
            self.team.progress();
            // SAFETY: All can be written, and a status has at most 40 bytes.
            code = unsafe { library::Test(&raw mut request, &raw mut flag, status.as_mut_ptr().cast()) };
            std::thread::yield_now();
        }
        if code == 0 { Ok(()) } else { Err(Fault::library(code)) }
    }
}

impl UnderWay {
    pub(crate) fn request(&self) -> Request {
        self.request
    }
}

/// The ranks, in the window, of the members of a group.
fn ranks_of(group: Handle, win: Handle) -> Result<Vec<usize>, Fault> {
    let (mut size, mut of_window) = (0, 0);
    let check = |code| if code == 0 { Ok(()) } else { Err(Fault::library(code)) };
    // SAFETY: All can be written; a handle of 4 bytes takes its lower half.
    unsafe {
        check(library::Group_size(group, &raw mut size))?;
        check(library::Win_get_group(win, &raw mut of_window))?;
    }
    let own: Vec<c_int> = (0..size).collect();
    let mut there = vec![0; own.len()];
    // SAFETY: Both have `size` numbers. The group is this library's own.
    unsafe {
        let code = library::Group_translate_ranks(group, size, own.as_ptr(), of_window, there.as_mut_ptr());
        library::Group_free(&raw mut of_window);
        check(code)?;
    }
    let not_there = || Fault { code: abi().classes.rank, words: "the group has a rank that the window has not".into() };
    there.into_iter().map(|rank| usize::try_from(rank).map_err(|_| not_there())).collect()
}
