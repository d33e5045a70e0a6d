//! A board's table: rows of numbers for short-lived things, after the counts.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `weftrows` |
//! | 8..12 | the format of the rows: a number chosen by the writer |
//! | 12..16, 16..20 | rows of each engine, words of each row |
//! | from 64 | the rows, by engine: a stamp, the words, the stamp again, 8 bytes each |
//!
//! A stamp of 0 is an unused row. While a row is written its stamps differ: the last one is stored first and the first
//! one last, and readers load from the first to the last.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use super::flaw::Flaw;
use super::limits::{MAX_ROWS, MAX_WORDS};

const MAGIC: [u8; 8] = *b"weftrows";
const HEADING: usize = 64;
const WORD: usize = size_of::<u64>();
const STAMPS: usize = 2;

/// The dimensions of a board's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The format of the rows: readers ignore the table if they do not know this number.
    pub format: u32,
    /// Rows of each engine, at most [`MAX_ROWS`]; 0 for no table.
    pub rows: usize,
    /// Words of each row, at most [`MAX_WORDS`].
    pub words: usize,
}

impl Shape {
    /// Bytes of the largest table.
    pub(super) const fn largest(engines: usize) -> usize {
        Self { format: 0, rows: MAX_ROWS, words: MAX_WORDS }.bytes(engines)
    }

    const fn row(&self) -> usize {
        self.words + STAMPS
    }

    /// Words of all rows of an engine.
    pub(super) const fn part(&self) -> usize {
        self.rows * self.row()
    }

    /// The offset of an engine's rows from the table's beginning.
    pub(super) const fn offset_of(&self, engine: usize) -> usize {
        HEADING + engine * self.part() * WORD
    }

    /// Bytes of the table.
    pub(super) const fn bytes(&self, engines: usize) -> usize {
        if self.rows == 0 { 0 } else { self.offset_of(engines) }
    }

    fn is_possible(&self) -> bool {
        self.rows <= MAX_ROWS && (1..=MAX_WORDS).contains(&self.words)
    }

    /// The table, with all rows unused.
    pub(super) fn encode(&self, engines: usize) -> Result<Vec<u8>, Flaw> {
        if self.rows == 0 {
            return Ok(Vec::new());
        }
        if !self.is_possible() {
            return Err(Flaw::Table { rows: self.rows, words: self.words });
        }
        let mut image = vec![0; self.bytes(engines)];
        image[..8].copy_from_slice(&MAGIC);
        for (at, number) in [(8, self.format), (12, self.rows as u32), (16, self.words as u32)] {
            image[at..][..4].copy_from_slice(&number.to_ne_bytes());
        }
        Ok(image)
    }

    /// Stores an engine's rows. Excess is ignored.
    pub(super) fn store<R: AsRef<[u64]>>(&self, places: &[AtomicU64], rows: &[R]) {
        if self.rows == 0 {
            return;
        }
        let mut rows = rows.iter();
        for place in places.chunks_exact(self.row()) {
            let (Some(first), Some(last)) = (place.first(), place.last()) else { return };
            let stamp = first.load(Ordering::Relaxed);
            let Some(row) = rows.next() else {
                // No row after an unused one is used.
                if stamp == 0 {
                    return;
                }
                last.store(0, Ordering::Relaxed);
                first.store(0, Ordering::Release);
                continue;
            };
            let stamp = stamp.wrapping_add(1).max(1);
            last.store(stamp, Ordering::Relaxed);
            fence(Ordering::Release);
            place[1..].iter().zip(row.as_ref().iter().take(self.words)).for_each(|(at, word)| {
                at.store(*word, Ordering::Relaxed);
            });
            first.store(stamp, Ordering::Release);
        }
    }
}

/// The rows of all engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The format of the rows.
    pub format: u32,
    /// The used rows, by engine.
    pub engines: Vec<Vec<Vec<u64>>>,
}

/// Parses the bytes after the counts: no table where there is nothing, or an unknown one. Second: whether a row was
/// just being written, and is left out.
pub(super) fn decode(image: &[u8], engines: usize) -> Result<(Table, bool), Flaw> {
    if !image.starts_with(&MAGIC) || image.len() < HEADING {
        return Ok((Table::default(), false));
    }
    let number = |at: usize| u32::from_ne_bytes([image[at], image[at + 1], image[at + 2], image[at + 3]]);
    let shape = Shape { format: number(8), rows: number(12) as usize, words: number(16) as usize };
    if !shape.is_possible() {
        return Err(Flaw::Table { rows: shape.rows, words: shape.words });
    }
    let must = shape.bytes(engines);
    if image.len() < must {
        return Err(Flaw::Short { is: image.len(), must });
    }
    let mut is_torn = false;
    let mut part = |engine: usize| {
        let bytes = &image[shape.offset_of(engine)..][..shape.part() * WORD];
        let words: Vec<_> = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let rows = words.chunks_exact(shape.row()).filter_map(|row| {
            let (first, last) = (row[0], row[shape.words + 1]);
            is_torn |= first != last;
            (first == last && first != 0).then(|| row[1..=shape.words].to_vec())
        });
        rows.collect()
    };
    let engines = (0..engines).map(&mut part).collect();
    Ok((Table { format: shape.format, engines }, is_torn))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { format: 7, rows: 3, words: 2 };

    fn places() -> Vec<AtomicU64> {
        (0..SHAPE.part()).map(|_| AtomicU64::new(0)).collect()
    }

    fn image(places: &[AtomicU64]) -> Vec<u8> {
        let mut image = SHAPE.encode(1).unwrap();
        for (at, word) in image[HEADING..].chunks_exact_mut(WORD).zip(places) {
            at.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        image
    }

    #[test]
    fn rows_come_and_go() {
        let places = places();
        let rows = |places: &[AtomicU64]| decode(&image(places), 1).unwrap().0.engines.remove(0);
        SHAPE.store(&places, &[[1, 2], [3, 4], [5, 6], [7, 8]]);
        assert_eq!(rows(&places), [[1, 2], [3, 4], [5, 6]]);
        SHAPE.store(&places, &[[9, 9]]);
        assert_eq!(rows(&places), [[9, 9]]);
        SHAPE.store::<[u64; 2]>(&places, &[]);
        assert!(rows(&places).is_empty());
        assert_eq!(decode(b"", 1).unwrap(), (Table::default(), false));
    }

    #[test]
    fn a_row_that_is_being_written_is_left_out() {
        let places = places();
        SHAPE.store(&places, &[[1, 2], [3, 4]]);
        places[3].store(9, Ordering::Relaxed);
        let (table, is_torn) = decode(&image(&places), 1).unwrap();
        assert!(is_torn);
        assert_eq!(table.engines, [[[3, 4]]]);
    }

    #[test]
    fn sizes_are_not_believed() {
        let good = image(&places());
        assert!(matches!(decode(&good, 2), Err(Flaw::Short { .. })));
        for (at, number) in [(12, u32::MAX), (12, 257), (16, 0), (16, 33)] {
            let mut bad = good.clone();
            bad[at..][..4].copy_from_slice(&number.to_ne_bytes());
            assert!(matches!(decode(&bad, 1), Err(Flaw::Table { .. })), "{at} {number}");
        }
        assert!(Shape { rows: 257, ..SHAPE }.encode(1).is_err());
    }
}
