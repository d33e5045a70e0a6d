//! What names things between the rooms, and the states that several of them read. It uses nothing of the others.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use slotmap::{DefaultKey, Key, KeyData};

/// Where a queue pair is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Made. Receives may be posted.
    Idle = 0,
    /// A connection is being set up: a peer is called, or was accepted and has not confirmed yet.
    Connecting = 1,
    /// Connected: everything may be posted.
    Ready = 2,
    /// Closing: what was posted still goes out.
    Closing = 3,
    /// Ended as it should: one side closed, nothing was lost.
    Closed = 4,
    /// Ended by an error, which [`crate::QueuePair::error`] returns.
    Failed = 5,
}

impl State {
    pub(crate) const ALL: [Self; 6] =
        [Self::Idle, Self::Connecting, Self::Ready, Self::Closing, Self::Closed, Self::Failed];

    /// Whether the connection is over.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Closed | Self::Failed)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Closing => "closing",
            Self::Closed => "closed",
            Self::Failed => "failed",
        })
    }
}

/// A connection: whose engine has it, under which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionHandle {
    pub(crate) worker: usize,
    pub(crate) key: DefaultKey,
}

/// A [`ConnectionHandle`] that is read without a lock: worker, version and index of the key in one word, if they fit.
#[derive(Debug, Default)]
pub(crate) struct HandleCell(AtomicU64);

impl HandleCell {
    const INDEX_BITS: u32 = 24;
    const VERSION_BITS: u32 = 32;
    /// It does not fit. Versions of keys in use are odd, so none that fits equals this value.
    const ELSEWHERE: u64 = u64::MAX;

    /// Shows another one.
    pub(crate) fn set(&self, handle: Option<ConnectionHandle>) {
        self.0.store(handle.map_or(0, Self::pack), Ordering::Release);
    }

    fn pack(handle: ConnectionHandle) -> u64 {
        let key = handle.key.data().as_ffi();
        let (version, index) = (key >> 32, key & u64::from(u32::MAX));
        match u8::try_from(handle.worker) {
            Ok(worker) if index >> Self::INDEX_BITS == 0 => {
                u64::from(worker) << (Self::INDEX_BITS + Self::VERSION_BITS) | version << Self::INDEX_BITS | index
            }
            _ => Self::ELSEWHERE,
        }
    }

    /// The one that is shown, if there is one. An error: that does not fit, and is to be had from where it is kept.
    #[inline]
    pub(crate) fn get(&self) -> Result<Option<ConnectionHandle>, Elsewhere> {
        let word = self.0.load(Ordering::Acquire);
        if word == 0 {
            return Ok(None);
        }
        if word == Self::ELSEWHERE {
            return Err(Elsewhere);
        }
        let index = word & ((1 << Self::INDEX_BITS) - 1);
        let version = word >> Self::INDEX_BITS & u64::from(u32::MAX);
        let worker = (word >> (Self::INDEX_BITS + Self::VERSION_BITS)) as usize;
        Ok(Some(ConnectionHandle { worker, key: KeyData::from_ffi(version << 32 | index).into() }))
    }
}

/// A [`HandleCell`] does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere;

/// Which thread runs an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// A calling thread, for a moment.
    Visitor,
    /// A calling thread, for as long as it waits.
    Waiter,
    /// The NIC's thread.
    Thread,
}

/// ConnectionIds a connection of an endpoint: its place in the list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LinkKey(pub(crate) u32);

/// Whose queue pair it is: the endpoint, by its number in the engine, and its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpperId {
    pub(crate) endpoint: usize,
    pub(crate) link: LinkKey,
    /// The id in the endpoint's address.
    pub(crate) id: u64,
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn a_handle_is_read_as_it_was_shown_or_not_at_all() {
        let cell = HandleCell::default();
        assert_eq!(cell.get(), Ok(None));
        let mut map = SlotMap::<DefaultKey, ()>::new();
        for worker in [0, 1, 255, 256] {
            let gone = map.insert(());
            let key = map.insert(());
            map.remove(gone);
            let handle = ConnectionHandle { worker, key };
            cell.set(Some(handle));
            let expected = if worker < 256 { Ok(Some(handle)) } else { Err(Elsewhere) };
            assert_eq!(cell.get(), expected);
        }
        let far = KeyData::from_ffi(1 << 32 | 1 << HandleCell::INDEX_BITS).into();
        cell.set(Some(ConnectionHandle { worker: 0, key: far }));
        assert_eq!(cell.get(), Err(Elsewhere));
        cell.set(None);
        assert_eq!(cell.get(), Ok(None));
    }
}
