//! The end that writes.

use crate::{BROKEN, Capacity, END, POSITION, Spans, Violation, Word, Words};

/// The end of a ring that writes. Made over words that are all zero, and only once.
///
/// To write: [`Producer::room`], copy into [`Producer::spans`], [`Producer::publish`].
#[derive(Debug)]
pub struct Producer<W> {
    words: W,
    capacity: Capacity,
    /// Where the next byte goes. Never read back from the shared word.
    produced: u64,
    /// The last position of the other side that was found good.
    consumed: u64,
    /// The top bits: [`END`] and [`BROKEN`].
    ended: u64,
}

impl<W: Words> Producer<W> {
    /// The writing end of an empty ring.
    pub const fn new(words: W, capacity: Capacity) -> Self {
        Self { words, capacity, produced: 0, consumed: 0, ended: 0 }
    }

    /// How many bytes can be written. Where `wanted` are known to fit, the other side's cache line is left alone.
    ///
    /// # Errors
    /// The other side says that it has read what was never written.
    #[inline]
    pub fn room(&mut self, wanted: usize) -> Result<usize, Violation> {
        if self.ended != 0 {
            return Ok(0);
        }
        if self.known_room() < wanted {
            self.refresh()?;
        }
        Ok(self.known_room())
    }

    fn known_room(&self) -> usize {
        self.capacity.bytes() - (self.produced - self.consumed) as usize
    }

    fn refresh(&mut self) -> Result<(), Violation> {
        let said = self.words.load(Word::Consumed);
        let (least, most) = (self.consumed, self.produced);
        if said < least || said > most {
            return Err(Violation::Consumed { said, least, most });
        }
        self.consumed = said;
        Ok(())
    }

    /// Bytes that the other side has not read, as far as its position was read last.
    #[must_use]
    pub const fn unread(&self) -> usize {
        (self.produced - self.consumed) as usize
    }

    /// Bytes that the other side has not read, as it says now.
    ///
    /// # Errors
    /// As [`Producer::room`].
    #[inline]
    pub fn ask_unread(&mut self) -> Result<usize, Violation> {
        self.refresh()?;
        Ok(self.unread())
    }

    /// Where the next `bytes` bytes go.
    ///
    /// # Panics
    /// Fewer are free: [`Producer::room`] was not called.
    #[inline]
    #[must_use]
    pub fn spans(&self, bytes: usize) -> Spans {
        assert!(bytes <= self.known_room(), "{bytes} bytes where {} fit", self.known_room());
        Spans::at(self.produced, bytes, self.capacity)
    }

    /// The next `bytes` bytes are written: the other side may read them. Returns whether it is to be woken.
    ///
    /// # Panics
    /// Fewer were free.
    #[inline]
    #[must_use = "the other side may sleep"]
    pub fn publish(&mut self, bytes: usize) -> bool {
        assert!(bytes <= self.known_room(), "{bytes} bytes where {} fit", self.known_room());
        self.produced += bytes as u64;
        assert!(self.produced <= POSITION, "more bytes than a ring can count");
        self.tell()
    }

    /// Nothing more will come. Returns whether the other side is to be woken.
    #[must_use = "the other side may sleep"]
    pub fn end(&mut self) -> bool {
        self.ended |= END;
        self.tell()
    }

    /// Gives up: what the other side has not read does not count. Returns whether the other side is to be woken.
    #[must_use = "the other side may sleep"]
    pub fn abort(&mut self) -> bool {
        self.ended |= BROKEN;
        self.tell()
    }

    /// Whether [`Producer::end`] or [`Producer::abort`] was called.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended != 0
    }

    fn tell(&self) -> bool {
        self.words.store(Word::Produced, self.produced | self.ended);
        self.words.fence();
        let mark = self.words.load(Word::ConsumerAwaits);
        let due = mark != 0 && (self.produced >= mark || self.ended != 0);
        if due {
            // Before the signal; see the crate's documentation.
            self.words.store(Word::ConsumerAwaits, 0);
        }
        due
    }

    /// Requests to be woken when `least` bytes fit (at least 1, at most [`Capacity::half`]). Returns whether there is
    /// something to wait for; if not, this many fit already.
    ///
    /// # Errors
    /// As [`Producer::room`].
    pub fn sleep(&mut self, least: usize) -> Result<bool, Violation> {
        let least = least.clamp(1, self.capacity.half());
        // Where the other side is when this many fit. It is ahead of all that is known, unless they fit now.
        self.await_position((self.produced + least as u64).saturating_sub(self.capacity.wide()))
    }

    /// Requests to be woken when the other side has read anything that is unread as far as is known
    /// ([`Producer::unread`]). Returns whether there is something to wait for; if not, something is read already, or
    /// nothing was unread. For a writer that needs what it has written until it is read: never while the other end may
    /// wait for bytes that are not written yet.
    ///
    /// # Errors
    /// As [`Producer::room`].
    pub fn sleep_until_read(&mut self) -> Result<bool, Violation> {
        self.await_position(if self.unread() == 0 { 0 } else { self.consumed + 1 })
    }

    fn await_position(&mut self, mark: u64) -> Result<bool, Violation> {
        if self.ended != 0 || mark <= self.consumed {
            return Ok(false);
        }
        self.words.store(Word::ProducerAwaits, mark);
        self.words.fence();
        let outcome = self.refresh();
        let waits = outcome.is_ok() && self.consumed < mark;
        if !waits {
            self.rise();
        }
        outcome.map(|()| waits)
    }

    /// Is awake: need not be woken.
    pub fn rise(&mut self) {
        self.words.store(Word::ProducerAwaits, 0);
    }
}
