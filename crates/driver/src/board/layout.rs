//! The byte layout of a board's file. Byte order is the machine's: a board is not for other machines.
//!
//! The first 32 bytes are the same in every layout, so that files of dead processes can be recognised.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `weftstat` |
//! | 8..12 | the number of this layout |
//! | 12..16 | process id |
//! | 16..24 | when the process started, in clock ticks since boot in the first time namespace |
//! | 24..32 | the inode of its pid namespace |
//! | 32..36, 36..40 | engines, counters of each |
//! | 40..44, 44..48, 48..52 | bytes of process name, title and names |
//! | 52.. | these, the names separated by line feeds |
//! | from the next multiple of 64 | 8 bytes per counter, by engine, each from a multiple of 64 (a cache line of its
//! own) |
//! | after that, if present | a table, as in `table` |

use core::ops::Range;
use std::io;

use super::flaw::Flaw;
use super::limits::{LAYOUT, MAX_COUNTERS, MAX_ENGINES, MAX_TEXT};
use super::process;
use super::table::{self, Shape, Table};

const MAGIC: [u8; 8] = *b"weftstat";

const LINE: usize = 64;
const WORD: usize = size_of::<u64>();

const LAYOUT_AT: Range<usize> = 8..12;
const PID_AT: Range<usize> = 12..16;
const START_AT: Range<usize> = 16..24;
const NAMESPACE_AT: Range<usize> = 24..32;
const ENGINES_AT: Range<usize> = 32..36;
const COUNTERS_AT: Range<usize> = 36..40;
const PROCESS_LENGTH_AT: Range<usize> = 40..44;
const TITLE_LENGTH_AT: Range<usize> = 44..48;
const NAMES_LENGTH_AT: Range<usize> = 48..52;
const TEXT: usize = 52;

/// Bytes of the largest valid board file.
pub(super) const MAX_FILE: usize =
    (TEXT + MAX_TEXT).next_multiple_of(LINE) + MAX_ENGINES * MAX_COUNTERS * WORD + Shape::largest(MAX_ENGINES);

/// The owner of a board. A process id is reused, but not together with its start time; in another pid namespace it
/// means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) namespace: u64,
}

impl Owner {
    pub(super) fn this_process() -> io::Result<Self> {
        let pid = process::own_pid()?;
        let start = process::start(pid)?.ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        Ok(Self { pid, start, namespace: process::namespace()? })
    }
}

/// Everything but the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) owner: Owner,
    pub(super) process: String,
    pub(super) title: String,
    pub(super) names: Vec<String>,
    pub(super) engines: usize,
    /// The table after the counts. Not read.
    pub(super) shape: Shape,
}

/// The contents of a board: with the counts of each engine, the table, and whether a row of it was just being written.
pub(super) type Content = (Heading, Vec<Vec<u64>>, (Table, bool));

/// Offsets of the counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) offset: usize,
    pub(super) engines: usize,
    pub(super) counters: usize,
    pub(super) shape: Shape,
}

impl Rows {
    const fn new(text: usize, engines: usize, counters: usize, shape: Shape) -> Self {
        Self { offset: (TEXT + text).next_multiple_of(LINE), engines, counters, shape }
    }

    pub(super) const fn offset_of(&self, engine: usize) -> usize {
        self.offset + engine * (self.counters * WORD).next_multiple_of(LINE)
    }

    /// The offset of the table, or the end of the file.
    pub(super) const fn counts_end(&self) -> usize {
        self.offset_of(self.engines)
    }

    /// The offset of an engine's rows of the table.
    pub(super) const fn table_of(&self, engine: usize) -> usize {
        self.counts_end() + self.shape.offset_of(engine)
    }

    /// The end of the file.
    pub(super) const fn end(&self) -> usize {
        self.counts_end() + self.shape.bytes(self.engines)
    }
}

impl Heading {
    pub(super) fn rows(&self) -> Rows {
        let text = self.process.len() + self.title.len() + self.names_length();
        Rows::new(text, self.engines, self.names.len(), self.shape)
    }

    fn names_length(&self) -> usize {
        self.names.iter().map(String::len).sum::<usize>() + self.names.len().saturating_sub(1)
    }

    /// The file, with all counts 0.
    pub(super) fn encode(&self) -> Result<Vec<u8>, Flaw> {
        let lengths = [self.process.len(), self.title.len(), self.names_length()];
        check_limits(self.engines, self.names.len(), lengths)?;
        if self.names.iter().any(|name| name.contains('\n')) {
            return Err(Flaw::Names);
        }
        let mut image = vec![0; self.rows().counts_end()];
        let [process, title, names] = lengths;
        image[..MAGIC.len()].copy_from_slice(&MAGIC);
        image[LAYOUT_AT].copy_from_slice(&LAYOUT.to_ne_bytes());
        image[PID_AT].copy_from_slice(&self.owner.pid.to_ne_bytes());
        image[START_AT].copy_from_slice(&self.owner.start.to_ne_bytes());
        image[NAMESPACE_AT].copy_from_slice(&self.owner.namespace.to_ne_bytes());
        image[ENGINES_AT].copy_from_slice(&(self.engines as u32).to_ne_bytes());
        image[COUNTERS_AT].copy_from_slice(&(self.names.len() as u32).to_ne_bytes());
        image[PROCESS_LENGTH_AT].copy_from_slice(&(process as u32).to_ne_bytes());
        image[TITLE_LENGTH_AT].copy_from_slice(&(title as u32).to_ne_bytes());
        image[NAMES_LENGTH_AT].copy_from_slice(&(names as u32).to_ne_bytes());
        let text = [&self.process, &self.title, &self.names.join("\n")].map(String::as_str).concat();
        image[TEXT..][..text.len()].copy_from_slice(text.as_bytes());
        image.extend(self.shape.encode(self.engines)?);
        Ok(image)
    }
}

/// Parses an untrusted file. Control characters of its text become `?`, since a terminal would interpret them.
pub(super) fn decode(image: &[u8]) -> Result<Content, Flaw> {
    let owner = decode_owner(image)?;
    match word(image, LAYOUT_AT)? {
        LAYOUT => {}
        other => return Err(Flaw::Layout(other)),
    }
    let number = |at| word(image, at).map(|number| number as usize);
    let (engines, counters) = (number(ENGINES_AT)?, number(COUNTERS_AT)?);
    let lengths = [number(PROCESS_LENGTH_AT)?, number(TITLE_LENGTH_AT)?, number(NAMES_LENGTH_AT)?];
    check_limits(engines, counters, lengths)?;
    let [process, title, names] = lengths;
    let rows = Rows::new(process + title + names, engines, counters, Shape::default());
    if image.len() < rows.end() {
        return Err(Flaw::Short { is: image.len(), must: rows.end() });
    }
    let (head, names) = image[TEXT..][..process + title + names].split_at(process + title);
    let (process, title) = head.split_at(process);
    let names: Vec<_> = names.split(|byte| *byte == b'\n').map(printable).collect();
    if names.len() != counters {
        return Err(Flaw::Names);
    }
    let counts = (0..engines).map(|engine| {
        let row = &image[rows.offset_of(engine)..][..counters * WORD];
        row.as_chunks().0.iter().map(|count| u64::from_ne_bytes(*count)).collect()
    });
    let counts = counts.collect();
    let table = table::decode(&image[rows.counts_end()..], engines)?;
    let (process, title) = (printable(process), printable(title));
    Ok((Heading { owner, process, title, names, engines, shape: Shape::default() }, counts, table))
}

/// The owner of a file of any layout; the rest may be missing.
pub(super) fn decode_owner(image: &[u8]) -> Result<Owner, Flaw> {
    if !image.starts_with(&MAGIC) {
        return Err(Flaw::Foreign);
    }
    Ok(Owner { pid: word(image, PID_AT)?, start: long(image, START_AT)?, namespace: long(image, NAMESPACE_AT)? })
}

fn word(image: &[u8], at: Range<usize>) -> Result<u32, Flaw> {
    bytes(image, at).map(u32::from_ne_bytes)
}

fn long(image: &[u8], at: Range<usize>) -> Result<u64, Flaw> {
    bytes(image, at).map(u64::from_ne_bytes)
}

fn bytes<const N: usize>(image: &[u8], at: Range<usize>) -> Result<[u8; N], Flaw> {
    let short = Flaw::Short { is: image.len(), must: at.end };
    image.get(at).and_then(|bytes| bytes.try_into().ok()).ok_or(short)
}

fn check_limits(engines: usize, counters: usize, lengths: [usize; 3]) -> Result<(), Flaw> {
    // Each is below 2^32, so the sum cannot overflow.
    let text = lengths.into_iter().sum();
    let fits = (1..=MAX_ENGINES).contains(&engines) && (1..=MAX_COUNTERS).contains(&counters) && text <= MAX_TEXT;
    if fits { Ok(()) } else { Err(Flaw::Limit { engines, counters, text }) }
}

fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .chars()
        .map(|character| if character.is_control() { '?' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn heading(engines: usize, names: &[&str]) -> Heading {
        Heading {
            owner: Owner { pid: 7, start: 8, namespace: 9 },
            process: "process".into(),
            title: "a title".into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            engines,
            shape: Shape::default(),
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn bytes_of_a_board() {
        let image = heading(2, &["one", "two"]).encode().unwrap();
        assert_eq!(image.len(), 128 + 2 * 64);
        assert_eq!(&image[..8], b"weftstat");
        assert_eq!(&image[52..80], b"processa titleone\ntwo\0\0\0\0\0\0\0");
        let numbers: Vec<_> = image[8..52].as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)).collect();
        assert_eq!(numbers, [1, 7, 8, 0, 9, 0, 2, 2, 7, 7, 7]);
    }

    #[test]
    fn each_flaw_is_named() {
        let good = heading(1, &["one"]).encode().unwrap();
        let with = |at: Range<usize>, number: u32| {
            let mut image = good.clone();
            image[at].copy_from_slice(&number.to_ne_bytes());
            decode(&image).unwrap_err()
        };
        assert_eq!(decode(b""), Err(Flaw::Foreign));
        assert_eq!(with(0..4, 0), Flaw::Foreign);
        assert_eq!(with(LAYOUT_AT, 2), Flaw::Layout(2));
        for (engines, counters) in [(0, 1), (257, 1), (u32::MAX, 1)] {
            assert!(matches!(with(ENGINES_AT, engines), Flaw::Limit { .. }), "{engines} {counters}");
        }
        for counters in [0, 1025, u32::MAX] {
            assert!(matches!(with(COUNTERS_AT, counters), Flaw::Limit { .. }), "{counters}");
        }
        assert_eq!(with(COUNTERS_AT, 2), Flaw::Names);
        assert!(matches!(with(TITLE_LENGTH_AT, u32::MAX), Flaw::Limit { .. }));
        assert_eq!(with(ENGINES_AT, 256), Flaw::Short { is: 192, must: 128 + 256 * 64 });
        for cut in 8..good.len() {
            assert!(matches!(decode(&good[..cut]), Err(Flaw::Short { .. })), "cut at {cut}");
        }
        assert_eq!(heading(1, &["one\n"]).encode(), Err(Flaw::Names));
        assert!(matches!(heading(1, &[]).encode(), Err(Flaw::Limit { .. })));
        assert!(matches!(heading(MAX_ENGINES + 1, &["one"]).encode(), Err(Flaw::Limit { .. })));
        assert!(matches!(heading(1, &["x".repeat(MAX_TEXT).as_str()]).encode(), Err(Flaw::Limit { .. })));
    }

    #[test]
    fn a_terminal_is_not_told_what_to_do() {
        let mut board = heading(1, &["one"]);
        board.title = "\x1b[2J".into();
        assert_eq!(decode(&board.encode().unwrap()).unwrap().0.title, "?[2J");
    }

    proptest! {
        #[test]
        fn there_and_back(engines in 1usize..5, names in vec("[a-z_]{0,9}", 1..40), process in "\\PC{0,20}") {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let board = Heading { process, ..heading(engines, &names) };
            let mut image = board.encode().unwrap();
            let rows = board.rows();
            for engine in 0..engines {
                for counter in 0..names.len() {
                    let count = (engine * 1000 + counter) as u64;
                    image[rows.offset_of(engine) + counter * WORD..][..WORD].copy_from_slice(&count.to_ne_bytes());
                }
            }
            let (heading, counts, _) = decode(&image).unwrap();
            prop_assert_eq!(heading, board);
            for (engine, counts) in counts.iter().enumerate() {
                let expected = (0..names.len()).map(|counter| (engine * 1000 + counter) as u64);
                prop_assert!(counts.iter().copied().eq(expected));
            }
        }

        #[test]
        fn nothing_in_a_file_is_trusted(
            changes in vec((0usize..256, any::<u8>()), 0..8),
            length in 0usize..300,
        ) {
            let mut image = heading(2, &["one", "two"]).encode().unwrap();
            for (at, byte) in changes {
                image[at] = byte;
            }
            image.resize(length, 0xa5);
            if let Ok((heading, counts, _)) = decode(&image) {
                prop_assert_eq!(counts.len(), heading.engines);
                prop_assert!(counts.iter().all(|counts| counts.len() == heading.names.len()));
            }
        }
    }
}
