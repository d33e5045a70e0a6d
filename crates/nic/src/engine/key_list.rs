//! A list of connections, as of those that are polled in every turn.

use slotmap::{DefaultKey, SecondaryMap};

/// Keys, each once. Adding and removing one takes the same time whatever their number.
#[derive(Default)]
pub(super) struct KeyList {
    list: Vec<DefaultKey>,
    /// Where each of them is in the list.
    places: SecondaryMap<DefaultKey, u32>,
    /// Keys that were moved or searched.
    #[cfg(test)]
    steps: usize,
}

impl KeyList {
    /// With memory for this many.
    pub(super) fn with_capacity(count: usize) -> Self {
        let mut empty = Self::default();
        empty.list.reserve(count);
        empty.places.set_capacity(count);
        empty
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The one at this place. Whenever one is removed, the last one takes its place.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<DefaultKey> {
        self.list.get(at).copied()
    }

    /// Adds one, unless it is there.
    pub(super) fn push(&mut self, key: DefaultKey) {
        self.count_step();
        if !self.places.contains_key(key) {
            self.places.insert(key, self.list.len() as u32);
            self.list.push(key);
        }
    }

    /// Removes the last one.
    pub(super) fn pop(&mut self) -> Option<DefaultKey> {
        let key = self.list.pop()?;
        self.places.remove(key);
        Some(key)
    }

    /// Removes one. Returns whether it was there.
    pub(super) fn remove(&mut self, key: DefaultKey) -> bool {
        self.count_step();
        let Some(at) = self.places.remove(key) else { return false };
        self.list.swap_remove(at as usize);
        if let Some(moved) = self.get(at as usize) {
            self.count_step();
            self.places.insert(moved, at);
        }
        true
    }

    /// Removes all, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.places.clear();
    }

    #[inline]
    fn count_step(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;
    use weft_base::Random;

    use super::*;

    fn keys(count: usize) -> Vec<DefaultKey> {
        let mut map = SlotMap::new();
        (0..count).map(|_| map.insert(())).collect()
    }

    #[test]
    fn it_does_what_a_list_that_is_searched_does() {
        let (keys, mut random) = (keys(40), Random::new(42));
        let (mut list, mut model) = (KeyList::with_capacity(4), Vec::new());
        for _ in 0..10_000 {
            let key = keys[random.below(40) as usize];
            let at = model.iter().position(|other| *other == key);
            match random.below(8) {
                0..=2 => {
                    list.push(key);
                    if at.is_none() {
                        model.push(key);
                    }
                }
                3..=5 => {
                    assert_eq!(list.remove(key), at.is_some());
                    at.map(|at| model.swap_remove(at));
                }
                6 => assert_eq!(list.pop(), model.pop()),
                _ => {
                    let at = random.below(40) as usize;
                    assert_eq!(list.get(at), model.get(at).copied());
                }
            }
            assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
        }
        list.clear();
        assert!(list.is_empty() && !list.remove(keys[0]));
    }

    /// A key of a connection that has ended may come back for another one.
    #[test]
    fn a_key_that_was_used_before_is_another_one() {
        let mut map = SlotMap::new();
        let old = map.insert(());
        let mut list = KeyList::default();
        list.push(old);
        assert!(list.remove(old));
        map.remove(old);
        let new = map.insert(());
        list.push(new);
        assert!(!list.remove(old) && list.remove(new));
    }

    #[test]
    fn one_is_removed_in_as_many_steps_whatever_their_number() {
        for count in [10, 1000] {
            let keys = keys(count);
            let mut list = KeyList::default();
            keys.iter().for_each(|key| list.push(*key));
            for key in keys.iter().skip(1).step_by(2).chain(keys.iter().step_by(2)) {
                list.steps = 0;
                assert!(list.remove(*key) && list.steps <= 2, "{} steps, {count} keys", list.steps);
            }
            assert!(list.is_empty());
        }
    }
}
