//! The contents of an address vector.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;

use weft::endpoint::Address;
use weft_libfabric::abi::fi_addr_t;

/// Addresses by index, and indices by address.
#[derive(Default)]
pub(super) struct Entries {
    addresses: Vec<Option<Address>>,
    free: Vec<usize>,
    /// An address may have several indices: the oldest one is used.
    by_id: HashMap<u64, Vec<usize>>,
    by_path: HashMap<SocketAddr, Vec<usize>>,
}

impl Entries {
    /// The address at an index.
    pub(super) fn get(&self, index: fi_addr_t) -> Option<&Address> {
        self.addresses.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// The index of an address: see [`super::vector::AddressVector::index_of`].
    pub(super) fn find(&self, address: &Address) -> Option<fi_addr_t> {
        if let Some(index) = self.by_id.get(&address.id).and_then(|places| places.first()) {
            return Some(*index as fi_addr_t);
        }
        let same = |index: &&usize| {
            let id = self.addresses[**index].as_ref().map_or(0, |entry| entry.id);
            id == 0 || address.id == 0 || id == address.id
        };
        let index = address.paths.iter().filter_map(|path| self.by_path.get(path)).flatten().find(same)?;
        Some(*index as fi_addr_t)
    }

    /// An index for an address: the one that was freed last, if there is one.
    pub(super) fn insert(&mut self, address: Address) -> fi_addr_t {
        let index = self.free.pop().unwrap_or_else(|| {
            self.addresses.push(None);
            self.addresses.len() - 1
        });
        if address.id != 0 {
            self.by_id.entry(address.id).or_default().push(index);
        }
        for path in &address.paths {
            self.by_path.entry(*path).or_default().push(index);
        }
        self.addresses[index] = Some(address);
        index as fi_addr_t
    }

    /// Frees an index.
    pub(super) fn remove(&mut self, index: fi_addr_t) -> Option<Address> {
        let index = usize::try_from(index).ok()?;
        let address = self.addresses.get_mut(index)?.take()?;
        forget(&mut self.by_id, &address.id, index);
        for path in &address.paths {
            forget(&mut self.by_path, path, index);
        }
        self.free.push(index);
        Some(address)
    }
}

/// Removes an index of a key.
fn forget<K: Eq + Hash>(places: &mut HashMap<K, Vec<usize>>, key: &K, index: usize) {
    if let Some(of_key) = places.get_mut(key) {
        of_key.retain(|place| *place != index);
        if of_key.is_empty() {
            places.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_libfabric::abi::FI_ADDR_NOTAVAIL;

    use super::*;

    fn address(id: u64, paths: &[&str]) -> Address {
        Address { id, paths: paths.iter().map(|path| path.parse().unwrap()).collect(), transport: None }
    }

    #[test]
    fn places_are_counted_and_used_again() {
        let mut entries = Entries::default();
        let [one, two] = [address(0, &["192.0.2.1:1"]), address(0, &["192.0.2.1:2"])];
        assert_eq!((entries.insert(one.clone()), entries.insert(two.clone())), (0, 1));
        assert_eq!(entries.get(1), Some(&two));
        assert_eq!(entries.remove(0), Some(one.clone()));
        assert_eq!((entries.get(0), entries.find(&one)), (None, None));
        assert_eq!(entries.remove(0), None);
        assert_eq!(entries.insert(one.clone()), 0);
        assert_eq!(entries.find(&one), Some(0));
        assert_eq!(entries.get(FI_ADDR_NOTAVAIL), None);
    }

    #[test]
    fn an_address_that_is_there_twice_stays_when_one_place_is_given_up() {
        for given_up in [0, 1] {
            let mut entries = Entries::default();
            let both = address(1, &["192.0.2.1:7"]);
            assert_eq!((entries.insert(both.clone()), entries.insert(both.clone())), (0, 1));
            assert_eq!(entries.find(&both), Some(0));
            entries.remove(given_up);
            assert_eq!(entries.find(&both), Some(1 - given_up));
            assert_eq!(entries.find(&address(0, &["192.0.2.1:7"])), Some(1 - given_up));
            entries.remove(1 - given_up);
            assert_eq!(entries.find(&both), None);
        }
    }

    #[test]
    fn the_id_takes_precedence_over_the_path() {
        let mut entries = Entries::default();
        let bridge = "172.17.0.1:7";
        entries.insert(address(1, &["192.0.2.1:7", bridge]));
        entries.insert(address(2, &["192.0.2.2:7", bridge]));
        entries.insert(address(0, &["192.0.2.3:7"]));
        assert_eq!(entries.find(&address(2, &[bridge])), Some(1));
        assert_eq!(entries.find(&address(0, &["192.0.2.2:7"])), Some(1));
        assert_eq!(entries.find(&address(3, &["192.0.2.3:7"])), Some(2), "who it is was not known");
        assert_eq!(entries.find(&address(3, &["192.0.2.1:7"])), None, "somebody else at that address");
    }
}
