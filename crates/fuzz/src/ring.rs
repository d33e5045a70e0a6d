//! `weft-ring` beside another side that does anything.

use std::cell::Cell;

use weft_ring::{Capacity, Consumer, Producer, Violation, Word, Words};

/// Words that both sides write.
#[derive(Default)]
struct Memory([Cell<u64>; 4]);

impl Words for Memory {
    fn load(&self, word: Word) -> u64 {
        self.0[word as usize].get()
    }

    fn store(&self, word: Word, value: u64) {
        self.0[word as usize].set(value);
    }

    fn fence(&self) {}
}

/// The first byte chooses how large the ring is; then three bytes each are a step of one of the ends, or of an attacker
/// that writes to a shared word. What an end calls its own must lie in the ring, and an end that received nothing wrong
/// finds nothing wrong.
pub fn ring(data: &[u8]) {
    let [size, steps @ ..] = data else { return };
    let Some(capacity) = Capacity::new(Capacity::LEAST << (size % 19)) else { return };
    let memory = Memory::default();
    let mut ends = Ends {
        producer: Producer::new(&memory, capacity),
        consumer: Consumer::new(&memory, capacity),
        capacity,
        is_honest: true,
    };
    for step in steps.chunks_exact(3) {
        let amount = usize::from(u16::from_be_bytes([step[1], step[2]]));
        match step[0] % 16 {
            choice @ 0..=2 => {
                ends.is_honest = false;
                scribble(&memory, choice, step[0] >> 4, amount as u64);
            }
            choice => match ends.step(choice, amount) {
                Ok(()) => {}
                Err(violation) => {
                    assert!(!ends.is_honest, "{violation}");
                    return;
                }
            },
        }
    }
}

fn scribble(memory: &Memory, choice: u8, which: u8, amount: u64) {
    let word = Word::ALL[usize::from(which % 4)];
    let now = memory.load(word);
    let value = match choice {
        0 => now.wrapping_add(amount),
        1 => now.wrapping_sub(amount),
        _ => now ^ amount << (48 * u64::from(which / 4 % 2)),
    };
    memory.store(word, value);
}

struct Ends<'a> {
    producer: Producer<&'a Memory>,
    consumer: Consumer<&'a Memory>,
    capacity: Capacity,
    /// Only the two ends have written.
    is_honest: bool,
}

impl Ends<'_> {
    fn step(&mut self, choice: u8, amount: usize) -> Result<(), Violation> {
        match choice {
            3..=6 => {
                let bytes = self.producer.room(amount)?.min(amount);
                self.inside(self.producer.spans(bytes), bytes);
                let _ = self.producer.publish(bytes);
            }
            7..=10 => {
                let bytes = self.consumer.poll()?.bytes.min(amount);
                self.inside(self.consumer.spans(bytes), bytes);
                let _ = self.consumer.consume(bytes);
            }
            11 => drop(self.producer.sleep(amount)?),
            12 => drop(self.consumer.sleep(amount)?),
            13 => self.consumer.rise(),
            14 => self.producer.rise(),
            _ if amount.is_multiple_of(16) => drop(self.producer.end()),
            _ if amount % 16 == 1 => drop(self.producer.abort()),
            _ => {}
        }
        Ok(())
    }

    fn inside(&self, spans: weft_ring::Spans, bytes: usize) {
        assert_eq!(spans.0.iter().map(|span| span.length).sum::<usize>(), bytes);
        assert!(spans.0.iter().all(|span| span.offset + span.length <= self.capacity.bytes()));
    }
}

/// Streams that are written and read, with an attacker that scribbles late, or not at all.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut honest = vec![2];
    for turn in 0..40u8 {
        honest.extend([3, 0, turn * 5, 12, 0, 1, 7, 0, turn * 3, 11, 0, 60]);
    }
    let mut ended = honest.clone();
    ended.extend([15, 0, 16, 7, 255, 255, 15, 0, 17, 7, 0, 1]);
    let scribbled = (0..48u8).map(|how| {
        let mut seed = honest.clone();
        seed.extend([how % 3 + how / 3 * 16, how, 255, 7, 255, 255, 3, 255, 255]);
        seed
    });
    [honest.clone(), ended].into_iter().chain(scribbled).collect()
}
