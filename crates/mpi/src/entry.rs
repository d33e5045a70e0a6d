//! The C functions that programs call. They convert, and call inward; what is of a window that Weft does not serve goes
//! to the MPI library.
//!
//! MPICH's bindings for Fortran call these for `include 'mpif.h'` and `use mpi` (`mpi_win_fence_` calls
//! `MPI_Win_fence`); those of `use mpi_f08` call the library's inner functions, `PMPI_Win_fence` among them, past any
//! profiling library.
#![allow(non_snake_case, reason = "MPI's names")]
#![allow(unused_unsafe, reason = "some calls name no memory")]
#![allow(clippy::too_many_arguments, clippy::useless_conversion, reason = "MPI's functions")]

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::abi::{Aint, Count, Handle, abi};
use crate::fault::Fault;
use crate::library;
use crate::operation::{Origin, Target};
use crate::setup::Offer;
use crate::windows;

type In = *const c_void;
type Out = *mut c_void;

fn origin(base: *const c_void, count: Count, kind: Handle) -> Origin {
    Origin { base: base.cast_mut().cast(), count, kind }
}

const fn target(rank: c_int, at: Aint, count: Count, kind: Handle) -> Target {
    Target { rank, at, count, kind }
}

/// A request that is over: of a send to no rank.
unsafe fn over(request: Out) -> Result<(), Fault> {
    let abi = abi();
    // SAFETY: Nothing is sent; the caller says that the request can be written.
    match unsafe { library::Isend(ptr::null(), 0, abi.byte, abi.proc_null, 0, abi.comm_self, request) } {
        0 => Ok(()),
        code => Err(Fault::library(code)),
    }
}

/// Declares functions on a window: what Weft does with one that it serves.
macro_rules! on_window {
    ($($name:ident = $library:ident($($argument:ident: $kind:ty),*) on $win:ident => |$served:ident| $act:expr;)*) => {
        $(
            /// MPI's function of this name.
            ///
            /// # Safety
            /// As MPI says for it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                windows::with(
                    $win,
                    stringify!($name),
                    // SAFETY: The program's arguments, as they are.
                    || unsafe { library::$library($($argument),*) },
                    // SAFETY: MPI's rules for the memory that a program names are those that are required.
                    |$served| unsafe { $act },
                )
            }
        )*
    };
}

/// As `on_window`, for what waits for calls of other ranks: how it begins, and whether it is over.
macro_rules! waits_on_window {
    ($($name:ident = $library:ident($($argument:ident: $kind:ty),*) on $win:ident
        => |$served:ident, $waits:ident| $begin:expr, then $test:expr;)*) => {
        $(
            /// MPI's function of this name.
            ///
            /// # Safety
            /// As MPI says for it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                windows::with_waiting(
                    $win,
                    stringify!($name),
                    // SAFETY: The program's arguments, as they are.
                    || unsafe { library::$library($($argument),*) },
                    |$served, $waits| $begin,
                    |$served| $test,
                )
            }
        )*
    };
}

waits_on_window! {
    MPI_Win_start = Win_start(group: Handle, assert: c_int, win: Handle) on win
        => |s, waits| s.start(group, win, waits), then s.has_started();
    MPI_Win_wait = Win_wait(win: Handle) on win => |s, waits| s.wait(waits), then s.test();
    MPI_Win_lock = Win_lock(kind: c_int, rank: c_int, assert: c_int, win: Handle) on win
        => |s, waits| s.lock(kind, rank, waits), then s.has_lock(rank);
    MPI_Win_lock_all = Win_lock_all(assert: c_int, win: Handle) on win
        => |s, waits| s.lock_all(waits), then s.has_all_locks();
}

on_window! {
    MPI_Win_fence = Win_fence(assert: c_int, win: Handle) on win => |s| s.fence(assert);
    MPI_Win_post = Win_post(group: Handle, assert: c_int, win: Handle) on win => |s| s.post(group, win);
    MPI_Win_complete = Win_complete(win: Handle) on win => |s| s.complete();
    MPI_Win_test = Win_test(win: Handle, flag: *mut c_int) on win
        => |s| s.test().map(|is| flag.write(c_int::from(is)));
    MPI_Win_unlock = Win_unlock(rank: c_int, win: Handle) on win => |s| s.unlock(rank);
    MPI_Win_unlock_all = Win_unlock_all(win: Handle) on win => |s| s.unlock_all();
    MPI_Win_flush = Win_flush(rank: c_int, win: Handle) on win => |s| s.flush(rank);
    MPI_Win_flush_local = Win_flush_local(rank: c_int, win: Handle) on win => |s| s.flush(rank);
    MPI_Win_flush_all = Win_flush_all(win: Handle) on win => |s| s.flush_all();
    MPI_Win_flush_local_all = Win_flush_local_all(win: Handle) on win => |s| s.flush_all();
    MPI_Win_sync = Win_sync(win: Handle) on win => |s| s.sync();
    MPI_Fetch_and_op = Fetch_and_op(o: In, r: Out, k: Handle, rank: c_int, at: Aint, op: Handle, win: Handle) on win
        => |s| s.fetch(origin(o, 1, k), origin(r, 1, k), target(rank, at, 1, k), op);
    MPI_Compare_and_swap = Compare_and_swap(
        o: In, c: In, r: Out, k: Handle, rank: c_int, at: Aint, win: Handle
    ) on win => |s| s.compare_and_swap((o.cast(), c.cast(), r.cast()), target(rank, at, 1, k));
}

/// Declares the functions that have counts, for one type of those.
macro_rules! with_counts {
    (
        $count:ty: $put:ident $lput:ident $get:ident $lget:ident $accumulate:ident $laccumulate:ident
        $rput:ident $lrput:ident $rget:ident $lrget:ident $raccumulate:ident $lraccumulate:ident
        $fetch:ident $lfetch:ident $rfetch:ident $lrfetch:ident
    ) => {
        on_window! {
            $put = $lput(
                o: In, n: $count, k: Handle, rank: c_int, at: Aint, m: $count, l: Handle, win: Handle
            ) on win => |s| s.put(origin(o, n.into(), k), target(rank, at, m.into(), l), false);
            $get = $lget(
                o: Out, n: $count, k: Handle, rank: c_int, at: Aint, m: $count, l: Handle, win: Handle
            ) on win => |s| s.get(origin(o, n.into(), k), target(rank, at, m.into(), l));
            $accumulate = $laccumulate(
                o: In, n: $count, k: Handle, rank: c_int, at: Aint, m: $count, l: Handle, op: Handle, win: Handle
            ) on win => |s| s.accumulate(origin(o, n.into(), k), target(rank, at, m.into(), l), op);
            $rput = $lrput(
                o: In, n: $count, k: Handle, rank: c_int, at: Aint, m: $count, l: Handle, win: Handle, q: Out
            ) on win => |s| {
                s.put(origin(o, n.into(), k), target(rank, at, m.into(), l), true)?;
                over(q)
            };
            $rget = $lrget(
                o: Out, n: $count, k: Handle, rank: c_int, at: Aint, m: $count, l: Handle, win: Handle, q: Out
            ) on win => |s| {
                s.get(origin(o, n.into(), k), target(rank, at, m.into(), l))?;
                s.finish(rank)?;
                over(q)
            };
            $raccumulate = $lraccumulate(
                o: In, n: $count, k: Handle, rank: c_int, at: Aint, m: $count, l: Handle, op: Handle, win: Handle,
                q: Out
            ) on win => |s| {
                s.accumulate(origin(o, n.into(), k), target(rank, at, m.into(), l), op)?;
                over(q)
            };
            $fetch = $lfetch(
                o: In, n: $count, k: Handle, r: Out, p: $count, j: Handle, rank: c_int, at: Aint, m: $count,
                l: Handle, op: Handle, win: Handle
            ) on win => |s| s.fetch(origin(o, n.into(), k), origin(r, p.into(), j), target(rank, at, m.into(), l), op);
            $rfetch = $lrfetch(
                o: In, n: $count, k: Handle, r: Out, p: $count, j: Handle, rank: c_int, at: Aint, m: $count,
                l: Handle, op: Handle, win: Handle, q: Out
            ) on win => |s| {
                s.fetch(origin(o, n.into(), k), origin(r, p.into(), j), target(rank, at, m.into(), l), op)?;
                s.finish(rank)?;
                over(q)
            };
        }
    };
}

with_counts! {
    c_int: MPI_Put Put MPI_Get Get MPI_Accumulate Accumulate MPI_Rput Rput MPI_Rget Rget
    MPI_Raccumulate Raccumulate MPI_Get_accumulate Get_accumulate MPI_Rget_accumulate Rget_accumulate
}

with_counts! {
    Count: MPI_Put_c Put_c MPI_Get_c Get_c MPI_Accumulate_c Accumulate_c MPI_Rput_c Rput_c MPI_Rget_c Rget_c
    MPI_Raccumulate_c Raccumulate_c MPI_Get_accumulate_c Get_accumulate_c MPI_Rget_accumulate_c Rget_accumulate_c
}

/// Declares the functions that make windows, for one type of displacement units.
macro_rules! makers {
    ($unit:ty: $create:ident $lcreate:ident $allocate:ident $lallocate:ident) => {
        /// MPI's function of this name.
        ///
        /// # Safety
        /// As MPI says for it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(
            base: Out,
            size: Aint,
            unit: $unit,
            info: Handle,
            comm: Handle,
            win: Out,
        ) -> c_int {
            // SAFETY: The program's arguments, as they are. Then the library has put a handle there.
            unsafe {
                let code = library::$lcreate(base, size, unit, info, comm, win);
                if code == 0 {
                    let bytes = size.max(0).unsigned_abs();
                    let unit = unit.max(0) as u64;
                    windows::offer(&Offer { base: base.cast(), bytes, unit, info, comm }, win);
                }
                code
            }
        }

        /// MPI's function of this name.
        ///
        /// # Safety
        /// As MPI says for it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $allocate(
            size: Aint,
            unit: $unit,
            info: Handle,
            comm: Handle,
            base: Out,
            win: Out,
        ) -> c_int {
            // SAFETY: As above; and it has put the address of its memory where `base` points.
            unsafe {
                let code = library::$lallocate(size, unit, info, comm, base, win);
                if code == 0 {
                    let (base, bytes) = (base.cast::<*mut u8>().read(), size.max(0).unsigned_abs());
                    windows::offer(&Offer { base, bytes, unit: unit.max(0) as u64, info, comm }, win);
                }
                code
            }
        }
    };
}

makers!(c_int: MPI_Win_create Win_create MPI_Win_allocate Win_allocate);
// A displacement unit is an MPI_Aint there, which is as wide as a count.
makers!(Count: MPI_Win_create_c Win_create_c MPI_Win_allocate_c Win_allocate_c);

/// MPI's function of this name.
///
/// # Safety
/// As MPI says for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_free(win: Out) -> c_int {
    // SAFETY: The program says that there is a handle.
    unsafe { windows::free(win) }
}

/// MPI's function of this name.
///
/// # Safety
/// As MPI says for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Finalize() -> c_int {
    windows::finish();
    // SAFETY: The program's call, as it is.
    unsafe { library::Finalize() }
}
