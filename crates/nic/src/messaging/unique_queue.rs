//! Queues of peers or of links in which each has one place at most. Each operation but a walk takes the same number of
//! steps whatever number of them is in the queue.

use weft_base::PeerId;

use crate::ids::LinkKey;

/// What has a place of its own among its kind. Places are dense, so that a queue's memory is that of the largest
/// number of entries that there ever was.
pub(super) trait Placed: Copy + Eq {
    fn place(self) -> usize;
}

impl Placed for PeerId {
    fn place(self) -> usize {
        Self::place(self)
    }
}

impl Placed for LinkKey {
    fn place(self) -> usize {
        self.0 as usize
    }
}

/// No place.
const NONE: u32 = u32::MAX;

/// A place, and those of its neighbours in the queue.
struct Node<T> {
    entry: Option<T>,
    previous: u32,
    next: u32,
}

/// A first-in, first-out queue without duplicates: a doubly linked list through the places of its entries.
pub(super) struct UniqueQueue<T> {
    nodes: Vec<Node<T>>,
    first: u32,
    last: u32,
    length: usize,
    #[cfg(test)]
    steps: core::cell::Cell<usize>,
}

impl<T> Default for UniqueQueue<T> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            first: NONE,
            last: NONE,
            length: 0,
            #[cfg(test)]
            steps: core::cell::Cell::new(0),
        }
    }
}

impl<T: Placed> UniqueQueue<T> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn contains(&self, entry: T) -> bool {
        self.length > 0 && self.node(entry.place()).is_some_and(|node| node.entry == Some(entry))
    }

    /// Appends it, unless it is in the queue already.
    pub(super) fn push(&mut self, entry: T) {
        if self.contains(entry) {
            return;
        }
        let place = entry.place();
        while self.nodes.len() <= place {
            self.nodes.push(Node { entry: None, previous: NONE, next: NONE });
        }
        if let Some(former) = self.nodes[place].entry {
            // Its place is another one's by now.
            self.remove(former);
        }
        let last = core::mem::replace(&mut self.last, place as u32);
        match self.node_mut(last) {
            Some(node) => node.next = place as u32,
            None => self.first = place as u32,
        }
        if let Some(node) = self.node_mut(place as u32) {
            *node = Node { entry: Some(entry), previous: last, next: NONE };
        }
        self.length += 1;
    }

    /// Takes the first one.
    pub(super) fn pop(&mut self) -> Option<T> {
        let entry = self.node(self.first as usize)?.entry?;
        self.remove(entry);
        Some(entry)
    }

    /// Takes it out. Returns whether it was in the queue.
    pub(super) fn remove(&mut self, entry: T) -> bool {
        if !self.contains(entry) {
            return false;
        }
        let Some(node) = self.node_mut(entry.place() as u32) else { return false };
        let Node { previous, next, .. } = core::mem::replace(node, Node { entry: None, previous: NONE, next: NONE });
        match self.node_mut(previous) {
            Some(node) => node.next = next,
            None => self.first = next,
        }
        match self.node_mut(next) {
            Some(node) => node.previous = previous,
            None => self.last = previous,
        }
        self.length -= 1;
        true
    }

    /// Appends all of another queue, which is empty then.
    pub(super) fn append(&mut self, other: &mut Self) {
        while let Some(entry) = other.pop() {
            self.push(entry);
        }
    }

    /// All of them, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        let mut at = self.first;
        core::iter::from_fn(move || {
            let node = self.node(at as usize)?;
            at = node.next;
            node.entry
        })
    }

    /// Places that were visited so far.
    #[cfg(test)]
    pub(super) fn steps(&self) -> usize {
        self.steps.get()
    }

    #[inline]
    fn node(&self, place: usize) -> Option<&Node<T>> {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
        self.nodes.get(place)
    }

    #[inline]
    fn node_mut(&mut self, place: u32) -> Option<&mut Node<T>> {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
        self.nodes.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use weft_base::Random;

    use super::*;

    fn all(queue: &UniqueQueue<PeerId>) -> Vec<u32> {
        queue.iter().map(|peer| peer.0).collect()
    }

    #[test]
    fn each_stands_in_it_once_in_the_order_in_which_they_came() {
        let mut queue = UniqueQueue::default();
        for peer in [3, 1, 3, 7, 1] {
            queue.push(PeerId(peer));
        }
        assert_eq!((all(&queue), queue.len()), (vec![3, 1, 7], 3));
        assert!(queue.remove(PeerId(1)) && !queue.remove(PeerId(1)) && !queue.contains(PeerId(1)));
        assert_eq!(queue.pop(), Some(PeerId(3)));
        queue.push(PeerId(3));
        let mut other = UniqueQueue::default();
        for peer in [9, 7, 0] {
            other.push(PeerId(peer));
        }
        queue.append(&mut other);
        assert!(other.is_empty() && other.iter().next().is_none());
        assert_eq!(all(&queue), [7, 3, 9, 0]);
        while queue.pop().is_some() {}
        assert!(queue.is_empty() && !queue.contains(PeerId(7)));
    }

    #[test]
    fn a_peer_whose_place_is_another_ones_by_now_makes_way() {
        let (old, new) = (PeerId(5), PeerId(5).next());
        assert_eq!(old.place(), new.place());
        let mut queue = UniqueQueue::default();
        for peer in [PeerId(1), old, PeerId(2)] {
            queue.push(peer);
        }
        assert!(!queue.contains(new) && !queue.remove(new));
        queue.push(new);
        assert!(queue.contains(new) && !queue.contains(old) && queue.len() == 3);
        assert_eq!(all(&queue), [1, 2, new.0]);
    }

    #[test]
    fn it_does_what_a_list_that_is_searched_does() {
        let mut random = Random::new(42);
        let (mut queue, mut model) = (UniqueQueue::default(), VecDeque::new());
        for _ in 0..10_000 {
            let peer = PeerId(random.below(40) as u32);
            match random.below(5) {
                0 | 1 => {
                    queue.push(peer);
                    if !model.contains(&peer) {
                        model.push_back(peer);
                    }
                }
                2 => assert_eq!(queue.pop(), model.pop_front()),
                3 => {
                    let at = model.iter().position(|other| *other == peer);
                    assert_eq!(queue.remove(peer), at.is_some());
                    at.map(|at| model.remove(at));
                }
                _ => assert_eq!(queue.contains(peer), model.contains(&peer)),
            }
            assert_eq!(queue.len(), model.len());
        }
        assert!(queue.iter().eq(model.iter().copied()));
    }

    /// Steps for each of what is done with one of this many peers: the most, not the mean.
    fn most_steps(peers: u32) -> [usize; 5] {
        let mut queue = UniqueQueue::default();
        let mut most = [0; 5];
        let count = |queue: &mut UniqueQueue<PeerId>, what: usize, most: &mut [usize; 5]| {
            most[what] = most[what].max(queue.steps.replace(0));
        };
        for peer in 0..peers {
            queue.push(PeerId(peer));
            count(&mut queue, 0, &mut most);
            queue.push(PeerId(peer / 2));
            count(&mut queue, 1, &mut most);
        }
        for peer in (0..peers).step_by(3) {
            queue.contains(PeerId(peer));
            count(&mut queue, 2, &mut most);
            queue.remove(PeerId(peer));
            count(&mut queue, 3, &mut most);
        }
        while queue.pop().is_some() {
            count(&mut queue, 4, &mut most);
        }
        most
    }

    #[test]
    fn nothing_takes_more_steps_with_more_peers() {
        let few = most_steps(10);
        assert!(few.iter().all(|steps| (1..=6).contains(steps)), "{few:?}");
        for peers in [1000, 100_000] {
            assert_eq!(most_steps(peers), few, "{peers} peers");
        }
    }
}
