//! Ports apart from connections: what the network reports on has a key of its own, so that a connection may have
//! several ports, and come and go without them.

use arrayvec::ArrayVec;
use slotmap::{DefaultKey, Key, KeyData, SlotMap};
use weft_base::Token;

/// The most ports of one connection: rails of a link.
pub(super) const MOST_PORTS: usize = 16;

/// Whose port it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A connection's: the port with this index of its lower layer.
    Connection(DefaultKey, usize),
    /// A listener's.
    Listener(DefaultKey),
    /// A plain stream's.
    Stream(DefaultKey),
    /// A listener's for plain streams.
    StreamListener(DefaultKey),
    /// A datagram port, which connections share.
    Datagram(DefaultKey),
    /// A datagram port of another engine, which this one serves.
    Served(DefaultKey),
}

/// The keys of one connection's ports, by their indices.
pub(super) type PortKeys = ArrayVec<DefaultKey, MOST_PORTS>;

/// All ports that the network may report on.
#[derive(Debug, Default)]
pub(super) struct Ports(SlotMap<DefaultKey, Owner>);

impl Ports {
    /// Adds the ports of a connection.
    pub(super) fn add_connection(&mut self, connection: DefaultKey, count: usize) -> PortKeys {
        let count = count.min(MOST_PORTS);
        (0..count).map(|index| self.0.insert(Owner::Connection(connection, index))).collect()
    }

    /// Adds the port of a listener.
    pub(super) fn add_listener(&mut self, listener: DefaultKey) -> DefaultKey {
        self.0.insert(Owner::Listener(listener))
    }

    /// Adds a port that is no connection's.
    pub(super) fn add(&mut self, owner: Owner) -> DefaultKey {
        self.0.insert(owner)
    }

    /// Adds a datagram port, whose owner [`Ports::set_datagram`] sets.
    pub(super) fn add_datagram(&mut self) -> DefaultKey {
        self.0.insert(Owner::Datagram(DefaultKey::default()))
    }

    /// Sets the datagram port of this key.
    pub(super) fn set_datagram(&mut self, token: DefaultKey, datagram: DefaultKey) {
        if let Some(owner) = self.0.get_mut(token) {
            *owner = Owner::Datagram(datagram);
        }
    }

    /// Sets which of the ports that this engine serves has this key.
    pub(super) fn set_served(&mut self, token: DefaultKey, served: DefaultKey) {
        if let Some(owner) = self.0.get_mut(token) {
            *owner = Owner::Served(served);
        }
    }

    /// Takes ports away: whatever is still reported for them means nothing any more.
    pub(super) fn remove(&mut self, keys: &[DefaultKey]) {
        for key in keys {
            self.0.remove(*key);
        }
    }

    /// What this port is of, if it is still of anything.
    pub(super) fn owner(&self, token: Token) -> Option<Owner> {
        self.0.get(DefaultKey::from(KeyData::from_ffi(token.0))).copied()
    }
}

/// How the network names a port.
pub(super) fn token(key: DefaultKey) -> Token {
    Token(key.data().as_ffi())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_port_that_is_gone_means_nothing() {
        let mut connections = SlotMap::new();
        let [one, other]: [DefaultKey; 2] = core::array::from_fn(|_| connections.insert(()));
        let mut ports = Ports::default();
        let keys = ports.add_connection(one, 2);
        assert_eq!(ports.owner(token(keys[1])), Some(Owner::Connection(one, 1)));
        ports.remove(&keys);
        let again = ports.add_connection(other, 1);
        assert_eq!(keys.iter().map(|key| ports.owner(token(*key))).collect::<Vec<_>>(), [None, None]);
        assert_eq!(ports.owner(token(again[0])), Some(Owner::Connection(other, 0)));
    }
}
