//! What each thread holds, in debug builds.

use core::marker::PhantomData;

/// A lock that this thread holds. It can't leave the thread.
#[must_use = "the lock counts as held only as long as this lives"]
pub struct Entered {
    #[cfg(debug_assertions)]
    rank: crate::Rank,
    not_send: PhantomData<*const ()>,
}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) const fn enter() -> Entered {
    Entered { not_send: PhantomData }
}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) const fn enter_unchecked() -> Entered {
    Entered { not_send: PhantomData }
}

#[cfg(debug_assertions)]
pub(crate) use checked::{enter, enter_unchecked};

#[cfg(debug_assertions)]
mod checked {
    use core::cell::Cell;
    use core::marker::PhantomData;
    use core::panic::Location;

    use super::Entered;
    use crate::Rank;

    /// Locks of one rank.
    struct Held {
        rank: Cell<Option<Rank>>,
        count: Cell<u32>,
        taken_at: Cell<Option<&'static Location<'static>>>,
    }

    thread_local! {
        // Of fixed size, and without a destructor: the data path allocates nothing in debug builds either.
        static HELD: [Held; Rank::COUNT] = const {
            [const { Held { rank: Cell::new(None), count: Cell::new(0), taken_at: Cell::new(None) } }; Rank::COUNT]
        };
    }

    #[track_caller]
    pub(crate) fn enter(rank: Rank) -> Entered {
        let here = Location::caller();
        HELD.with(|all| {
            let held = all.iter().rev().filter(|held| held.count.get() > 0);
            for (other, held) in held.filter_map(|held| held.rank.get().map(|other| (other, held))) {
                if other >= rank || other.is_leaf() {
                    refuse(rank, here, other, held.taken_at.get());
                }
            }
        });
        enter_unchecked(rank)
    }

    #[track_caller]
    pub(crate) fn enter_unchecked(rank: Rank) -> Entered {
        let here = Location::caller();
        HELD.with(|all| {
            let held = &all[rank as usize];
            held.rank.set(Some(rank));
            held.count.set(held.count.get() + 1);
            held.taken_at.set(Some(here));
        });
        Entered { rank, not_send: PhantomData }
    }

    #[cold]
    fn refuse(rank: Rank, here: &Location<'_>, other: Rank, there: Option<&Location<'_>>) -> ! {
        let there = there.map_or_else(String::new, |there| format!(" at {there}"));
        let why = if other == rank {
            "no thread holds two of a rank".to_owned()
        } else if other.is_leaf() {
            format!("nothing is taken under {other:?}, which is a leaf")
        } else {
            format!("{rank:?} comes before {other:?}")
        };
        panic!(
            "lock order: {rank:?} is taken at {here} while this thread holds {other:?}, taken{there}: {why} \
             (weft_lock::Rank)"
        );
    }

    impl Drop for Entered {
        fn drop(&mut self) {
            HELD.with(|all| {
                let held = &all[self.rank as usize];
                held.count.set(held.count.get() - 1);
            });
        }
    }
}
