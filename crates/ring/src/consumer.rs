//! The end that reads.

use crate::{BROKEN, Capacity, END, POSITION, Spans, Violation, Word, Words};

/// What comes behind the bytes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Not known yet.
    Open,
    /// Nothing.
    End,
    /// The producer has given up. What was not read does not count.
    Broken,
}

/// What is there to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes.
    pub bytes: usize,
    /// What comes behind them.
    pub rest: Rest,
}

/// The end of a ring that reads. Made over words that are all zero, and only once.
///
/// To read: [`Consumer::poll`], copy out of [`Consumer::spans`], [`Consumer::consume`], and only then check what was
/// copied.
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    capacity: Capacity,
    /// The next byte to read. Never read back from the shared word.
    consumed: u64,
    /// The position of which the other side was notified last.
    told: u64,
    /// The last position of the other side that was found good.
    produced: u64,
    rest: Rest,
}

impl<W: Words> Consumer<W> {
    /// The reading end of an empty ring.
    pub const fn new(words: W, capacity: Capacity) -> Self {
        Self { words, capacity, consumed: 0, told: 0, produced: 0, rest: Rest::Open }
    }

    /// What is there now.
    ///
    /// # Errors
    /// The other side says that it has written what the ring can't hold, or takes something back.
    #[inline]
    pub fn poll(&mut self) -> Result<Available, Violation> {
        let word = self.words.load(Word::Produced);
        if word != self.produced || self.rest != Rest::Open {
            self.judge(word)?;
        }
        Ok(self.known())
    }

    /// Whether [`Consumer::poll`] would find what it has found before, and nothing of that is left to be read.
    #[inline]
    #[must_use]
    pub fn is_still(&self) -> bool {
        self.produced == self.consumed && self.rest == Rest::Open && self.words.load(Word::Produced) == self.produced
    }

    /// What was there when it was last looked.
    #[inline]
    #[must_use]
    pub const fn known(&self) -> Available {
        Available { bytes: (self.produced - self.consumed) as usize, rest: self.rest }
    }

    fn judge(&mut self, word: u64) -> Result<(), Violation> {
        if self.rest == Rest::Broken || word & BROKEN != 0 {
            // Nothing else counts any more.
            self.rest = Rest::Broken;
            return Ok(());
        }
        let said = word & POSITION;
        if self.rest == Rest::End {
            return if word == self.produced | END {
                Ok(())
            } else {
                Err(Violation::AfterEnd { said, end: self.produced })
            };
        }
        let (least, most) = (self.produced, self.consumed + self.capacity.wide());
        if said < least || said > most {
            return Err(Violation::Produced { said, least, most });
        }
        self.produced = said;
        if word & END != 0 {
            self.rest = Rest::End;
        }
        Ok(())
    }

    /// Where the next `bytes` bytes are. The other side can still change them: copy them, then judge the copy.
    ///
    /// # Panics
    /// There are fewer.
    #[inline]
    #[must_use]
    pub fn spans(&self, bytes: usize) -> Spans {
        assert!(bytes <= self.known().bytes, "{bytes} bytes where {} are", self.known().bytes);
        Spans::at(self.consumed, bytes, self.capacity)
    }

    /// The next `bytes` bytes are copied: the other side may write over them. Returns whether it is to be woken.
    ///
    /// # Panics
    /// There were fewer.
    #[inline]
    #[must_use = "the other side may sleep"]
    pub fn consume(&mut self, bytes: usize) -> bool {
        self.pass(bytes);
        self.tell()
    }

    /// As [`Consumer::consume`], but the other side is notified only when an eighth of the ring was read: a
    /// notification costs a fence, and the other side a miss. [`Consumer::settle`] must come before
    /// [`Consumer::sleep`].
    ///
    /// # Panics
    /// There were fewer.
    #[inline]
    #[must_use = "the other side may sleep"]
    pub fn consume_quietly(&mut self, bytes: usize) -> bool {
        self.pass(bytes);
        self.consumed - self.told >= self.capacity.wide() / 8 && self.tell()
    }

    /// Tells the other side of all that was read. Returns whether it is to be woken.
    #[must_use = "the other side may sleep"]
    pub fn settle(&mut self) -> bool {
        self.consumed > self.told && self.tell()
    }

    #[inline]
    fn pass(&mut self, bytes: usize) {
        assert!(bytes <= self.known().bytes, "{bytes} bytes where {} are", self.known().bytes);
        self.consumed += bytes as u64;
    }

    #[inline]
    fn tell(&mut self) -> bool {
        self.told = self.consumed;
        self.words.store(Word::Consumed, self.consumed);
        self.words.fence();
        let mark = self.words.load(Word::ProducerAwaits);
        let due = mark != 0 && self.consumed >= mark;
        if due {
            // Before the signal; see the crate's documentation.
            self.words.store(Word::ProducerAwaits, 0);
        }
        due
    }

    /// Asks to be woken when `least` bytes are there (at least 1, at most [`Capacity::half`]), or none will come any
    /// more. Returns whether there is something to wait for; if not, they are there already.
    ///
    /// # Errors
    /// As [`Consumer::poll`].
    ///
    /// # Panics
    /// The other side was not notified of what was read ([`Consumer::settle`]): both sides could sleep then.
    pub fn sleep(&mut self, least: usize) -> Result<bool, Violation> {
        assert_eq!(self.told, self.consumed, "the other side is told before this one sleeps");
        let least = least.clamp(1, self.capacity.half());
        self.words.store(Word::ConsumerAwaits, self.consumed + least as u64);
        self.words.fence();
        let outcome = self.poll();
        let waits = matches!(outcome, Ok(Available { bytes, rest: Rest::Open }) if bytes < least);
        if !waits {
            self.rise();
        }
        outcome.map(|_| waits)
    }

    /// Is awake: need not be woken.
    pub fn rise(&mut self) {
        self.words.store(Word::ConsumerAwaits, 0);
    }
}
