//! A pool of byte vectors, by size, so that keeping a message allocates nothing once there was one of its size.

/// Vectors of powers of two from 2^6 to 2^(6 + CLASSES - 1) bytes are kept.
const SMALLEST_SHIFT: u32 = 6;
const CLASSES: usize = 15;
/// The maximum number of bytes kept, of all classes together.
pub(crate) const KEPT_BYTES: usize = 2 << 20;

/// Unused vectors.
#[derive(Default)]
pub(crate) struct Pool {
    classes: [Vec<Vec<u8>>; CLASSES],
    kept: usize,
}

/// The class whose vectors hold this many bytes, and their capacity.
const fn class(length: usize) -> (usize, usize) {
    let capacity = capacity(length as u64);
    // There is no class for 0 bytes.
    (capacity.trailing_zeros().wrapping_sub(SMALLEST_SHIFT) as usize, capacity as usize)
}

/// The capacity of a vector for this many bytes.
pub(crate) const fn capacity(length: u64) -> u64 {
    match length.checked_next_power_of_two() {
        None => u64::MAX,
        Some(_) if length == 0 => 0,
        Some(power) if power < 1 << SMALLEST_SHIFT => 1 << SMALLEST_SHIFT,
        Some(power) => power,
    }
}

impl Pool {
    /// An empty vector with room for this many bytes.
    pub(crate) fn reserve(&mut self, length: usize) -> Vec<u8> {
        let (class, capacity) = class(length);
        match self.classes.get_mut(class).and_then(Vec::pop) {
            Some(vector) => {
                self.kept -= capacity;
                vector
            }
            None => Vec::with_capacity(capacity),
        }
    }

    /// A vector with these bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut vector = self.reserve(bytes.len());
        vector.extend_from_slice(bytes);
        vector
    }

    /// Appends these bytes to a vector.
    pub(crate) fn append(&mut self, vector: &mut Vec<u8>, bytes: &[u8]) {
        if vector.capacity() - vector.len() < bytes.len() {
            let mut larger = self.reserve(vector.len() + bytes.len());
            larger.extend_from_slice(vector);
            self.give_back(core::mem::replace(vector, larger));
        }
        vector.extend_from_slice(bytes);
    }

    /// Returns a vector to the pool.
    pub(crate) fn give_back(&mut self, mut vector: Vec<u8>) {
        let (class, capacity) = class(vector.capacity());
        if vector.capacity() != capacity {
            return;
        }
        if class >= CLASSES || capacity > KEPT_BYTES || !self.make_room(class, capacity) {
            return;
        }
        vector.clear();
        self.kept += capacity;
        self.classes[class].push(vector);
    }

    /// Makes room for one more of a class, at the cost of the class with most bytes. Returns whether that was another
    /// one.
    fn make_room(&mut self, class: usize, capacity: usize) -> bool {
        while self.kept + capacity > KEPT_BYTES {
            let bytes = |class: usize| self.classes[class].len() << (class as u32 + SMALLEST_SHIFT);
            let Some(largest) = (0..CLASSES).max_by_key(|class| bytes(*class)).filter(|largest| *largest != class)
            else {
                return false;
            };
            self.classes[largest].pop();
            self.kept -= 1 << (largest as u32 + SMALLEST_SHIFT);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_for_bytes_of_its_class_only() {
        let mut pool = Pool::default();
        let vector = pool.take(&[1; 100]);
        assert_eq!((vector.as_slice(), vector.capacity()), ([1; 100].as_slice(), 128));
        let address = vector.as_ptr();
        pool.give_back(vector);
        let other = pool.take(&[2; 64]);
        assert_ne!(other.as_ptr(), address);
        let again = pool.take(&[3; 65]);
        assert_eq!((again.as_slice(), again.as_ptr()), ([3; 65].as_slice(), address));
    }

    #[test]
    fn what_is_appended_moves_to_a_larger_one_when_it_must() {
        let mut pool = Pool::default();
        let mut vector = pool.reserve(65);
        pool.append(&mut vector, &[1; 128]);
        assert_eq!(vector.capacity(), 128);
        let address = vector.as_ptr();
        pool.append(&mut vector, &[2]);
        assert_eq!((vector.capacity(), vector[127], vector[128]), (256, 1, 2));
        let again = pool.take(&[3; 100]);
        assert_eq!(again.as_ptr(), address, "the old one is free");
        let mut empty = Vec::new();
        pool.append(&mut empty, &[]);
        assert_eq!(empty.capacity(), 0);
    }

    #[test]
    fn capacities_are_those_of_the_vectors() {
        let mut pool = Pool::default();
        for length in [0, 1, 63, 64, 65, 1000, 1024, 1025, 5 << 20] {
            assert_eq!(capacity(length), pool.reserve(length as usize).capacity() as u64, "{length}");
        }
        assert_eq!(capacity(u64::MAX), u64::MAX);
    }

    #[test]
    fn it_keeps_no_more_than_it_may_of_all_sizes_together() {
        let kept = |pool: &Pool| -> usize {
            pool.classes
                .iter()
                .flatten()
                .map(|vector| {
                    assert!(vector.is_empty());
                    vector.capacity()
                })
                .sum()
        };
        let mut pool = Pool::default();
        for shift in 6..22 {
            let many: Vec<_> = (0..(3 << 20) >> shift).map(|_| pool.reserve(1 << shift)).collect();
            many.into_iter().for_each(|vector| pool.give_back(vector));
            assert!(kept(&pool) <= KEPT_BYTES && kept(&pool) == pool.kept, "{shift}");
            // Recently used sizes are kept, however few they are.
            let one = pool.reserve(1 << shift);
            let address = one.as_ptr();
            pool.give_back(one);
            let again = pool.reserve(1 << shift);
            assert!(shift > 20 || again.as_ptr() == address, "{shift}");
        }
        pool.give_back(Vec::new());
        pool.give_back(Vec::with_capacity(100));
        assert_eq!(kept(&pool), pool.kept);
    }

    #[test]
    fn it_keeps_as_much_as_it_may_and_for_no_bytes_nothing() {
        assert_eq!((capacity(0), capacity(1)), (0, 64));
        let mut pool = Pool::default();
        let many: Vec<_> = (0..KEPT_BYTES >> 16).map(|_| pool.reserve(1 << 16)).collect();
        many.into_iter().for_each(|vector| pool.give_back(vector));
        assert_eq!(pool.kept, KEPT_BYTES);
    }
}
