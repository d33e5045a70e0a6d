//! Byte vectors that are used again, by size, so that keeping a message allocates nothing once there was one of its size.

/// Vectors of powers of two from 2^6 to 2^(6 + CLASSES - 1) bytes are kept.
const SMALLEST_SHIFT: u32 = 6;
const CLASSES: usize = 15;
/// The most bytes that are kept of one class.
const KEPT_BYTES: usize = 1 << 20;

/// Vectors that are not in use.
#[derive(Default)]
pub(crate) struct Pool {
    classes: [Vec<Vec<u8>>; CLASSES],
}

/// The class whose vectors hold so many bytes, and how many they hold.
const fn class(length: usize) -> (usize, usize) {
    let capacity = if length < 1 << SMALLEST_SHIFT { 1 << SMALLEST_SHIFT } else { length.next_power_of_two() };
    ((capacity.trailing_zeros() - SMALLEST_SHIFT) as usize, capacity)
}

impl Pool {
    /// A vector with these bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        if bytes.is_empty() {
            return Vec::new();
        }
        let (class, capacity) = class(bytes.len());
        let kept = self.classes.get_mut(class).and_then(Vec::pop);
        let mut vector = kept.unwrap_or_else(|| Vec::with_capacity(capacity));
        vector.extend_from_slice(bytes);
        vector
    }

    /// It is not in use any more.
    pub(crate) fn give_back(&mut self, mut vector: Vec<u8>) {
        let (class, capacity) = class(vector.capacity());
        if vector.capacity() != capacity {
            return;
        }
        if let Some(kept) = self.classes.get_mut(class).filter(|kept| (kept.len() + 1) * capacity <= KEPT_BYTES) {
            vector.clear();
            kept.push(vector);
        }
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
    fn it_keeps_no_more_than_it_may() {
        let mut pool = Pool::default();
        let many: Vec<_> = (0..20_000).map(|_| pool.take(&[0; 64])).collect();
        many.into_iter().for_each(|vector| pool.give_back(vector));
        assert_eq!(pool.classes[0].len(), KEPT_BYTES / 64);
        let large = pool.take(&[0; 4 << 20]);
        pool.give_back(large);
        pool.give_back(Vec::new());
    }
}
