//! Receives of many messages: data for their completions that has no room in a context.

use weft_lock::{Mutex, Rank};

/// A receive of many messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    /// The application's context.
    pub(super) context: usize,
    /// The start of its memory.
    pub(super) start: usize,
}

/// The receives of many messages of one endpoint, each under a key that differs from all contexts of an application.
pub(super) struct Many {
    places: Mutex<Places>,
}

impl Default for Many {
    fn default() -> Self {
        Self { places: Mutex::new(Rank::MultiReceives, Places::default()) }
    }
}

#[derive(Default)]
struct Places {
    buffers: Vec<Option<Buffer>>,
    free: Vec<usize>,
}

/// Contexts are addresses, or small numbers. No address of an application has these bits.
const KEY: u64 = 0x5745_4654 << 32;

impl Many {
    /// Returns its key.
    pub(super) fn add(&self, buffer: Buffer) -> u64 {
        let mut places = self.places.lock();
        let place = places.free.pop().unwrap_or_else(|| {
            places.buffers.push(None);
            places.buffers.len() - 1
        });
        places.buffers[place] = Some(buffer);
        KEY | place as u64
    }

    /// The one with this key.
    pub(super) fn get(&self, key: u64) -> Option<Buffer> {
        *self.places.lock().buffers.get(place(key)?)?
    }

    /// Removes one that is complete.
    pub(super) fn remove(&self, key: u64) -> Option<Buffer> {
        let place = place(key)?;
        let mut places = self.places.lock();
        let buffer = places.buffers.get_mut(place)?.take()?;
        places.free.push(place);
        Some(buffer)
    }

    /// The keys of those with this context.
    pub(super) fn keys(&self, context: usize) -> Vec<u64> {
        let places = self.places.lock();
        let with_context = |buffer: &Option<Buffer>| buffer.is_some_and(|buffer| buffer.context == context);
        let keys = places.buffers.iter().enumerate().filter(|(_, buffer)| with_context(buffer));
        keys.map(|(place, _)| KEY | place as u64).collect()
    }
}

fn place(key: u64) -> Option<usize> {
    (key & KEY == KEY).then_some((key & !KEY) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_to_buffers_until_they_are_over() {
        let many = Many::default();
        let (one, two) = (Buffer { context: 7, start: 100 }, Buffer { context: 7, start: 200 });
        let (first, second) = (many.add(one), many.add(two));
        assert_eq!((many.get(first), many.get(second)), (Some(one), Some(two)));
        assert_eq!(many.keys(7), [first, second]);
        assert_eq!(many.remove(first), Some(one));
        assert_eq!((many.get(first), many.remove(first), many.get(3)), (None, None, None));
        assert_eq!(many.add(two), first);
        assert!(many.keys(8).is_empty());
    }
}
