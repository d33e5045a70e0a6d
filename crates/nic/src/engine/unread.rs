//! While all threads sleep, the datagram ports are mostly watched. Where one connection alone uses them and says that
//! what arrives for it may wait ([`Datagrams::unread_until`](crate::lower::Datagrams::unread_until)), they are left
//! unread until then: the thread sleeps once for many datagrams, and nothing is armed.

use slotmap::DefaultKey;
use weft_base::Time;

use crate::policy::constants::ALONE_AFTER;

/// Which connection alone uses the ports, and until when they are left unread.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// The connection that something was last done for, and since when it was no other.
    user: Option<DefaultKey>,
    since: Time,
    pub(super) until: Option<Time>,
}

impl Unread {
    /// Something is done for a connection, or for a caller that none knows.
    #[inline]
    pub(super) fn note(&mut self, user: Option<DefaultKey>, now: Time) {
        if self.user != user {
            (self.user, self.since) = (user, now);
        }
    }

    /// The connection that is alone, if one has been for some time.
    pub(super) fn alone(&self, now: Time) -> Option<DefaultKey> {
        self.user.filter(|_| now.since(self.since) >= ALONE_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn a_connection_is_alone_when_no_other_was_used_for_some_time() {
        let mut keys = SlotMap::new();
        let (one, other): (DefaultKey, DefaultKey) = (keys.insert(()), keys.insert(()));
        let mut unread = Unread::default();
        let start = Time::ZERO + Duration::from_secs(1);
        unread.note(Some(one), start);
        assert_eq!(unread.alone(start), None);
        unread.note(Some(one), start + ALONE_AFTER / 2);
        assert_eq!(unread.alone(start + ALONE_AFTER), Some(one));
        for user in [Some(other), None] {
            unread.note(user, start + ALONE_AFTER);
            assert_eq!(unread.alone(start + ALONE_AFTER), None);
            unread.note(Some(one), start + ALONE_AFTER);
        }
        assert_eq!(unread.alone(start + 2 * ALONE_AFTER), Some(one));
    }
}
