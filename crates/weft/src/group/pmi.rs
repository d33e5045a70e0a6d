//! PMI-1, by which Hydra and Slurm tell processes who they are: lines of `key=value` over a descriptor that the process
//! inherits (MPICH's "PMI version 1", `src/pmi`).

use core::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

use super::error::GroupError;
use super::limits::MOST_BYTES;

/// The longest line, in bytes.
const LONGEST: u64 = 64 * 1024;
/// The most pieces that a rank's bytes come in.
const MOST_PIECES: usize = 2 * MOST_BYTES;

/// What is spoken with the launcher.
pub(super) struct Pmi {
    lines: BufReader<UnixStream>,
    rank: usize,
    size: usize,
    store: String,
    /// Characters of a value, at most.
    longest_value: usize,
    exchanges: u64,
}

impl Pmi {
    pub(super) fn open(descriptor: RawFd, rank: usize, size: usize) -> Result<Self, GroupError> {
        let failed = |error| GroupError::Io { what: "use the descriptor that PMI_FD names", address: None, error };
        let stream = UnixStream::from(weft_driver::take_inherited(descriptor).map_err(failed)?);
        Self::over(stream, rank, size)
    }

    fn over(stream: UnixStream, rank: usize, size: usize) -> Result<Self, GroupError> {
        let (lines, store) = (BufReader::new(stream), String::new());
        let mut pmi = Self { lines, rank, size, store, longest_value: 0, exchanges: 0 };
        pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let most = pmi.ask("cmd=get_maxes", "maxes")?;
        let most = value(&most, "vallen_max").and_then(|text| text.parse::<usize>().ok());
        // The terminating zero counts, and so does the number of pieces.
        let too_short = || GroupError::Protocol("the launcher keeps no values of 64 characters".into());
        pmi.longest_value =
            most.and_then(|most| most.min(4096).checked_sub(17)).filter(|most| *most >= 47).ok_or_else(too_short)?;
        let name = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
        pmi.store = value(&name, "kvsname").unwrap_or_default().to_owned();
        Ok(pmi)
    }

    pub(super) fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        let number = self.exchanges;
        self.exchanges += 1;
        let text = hexadecimal(bytes);
        let pieces: Vec<&str> = match text.is_empty() {
            true => vec![""],
            false => text
                .as_bytes()
                .chunks(self.longest_value)
                .map(|piece| core::str::from_utf8(piece).unwrap_or(""))
                .collect(),
        };
        for (piece, text) in pieces.iter().enumerate() {
            let (store, rank, count) = (&self.store, self.rank, pieces.len());
            let line = format!("cmd=put kvsname={store} key=weft-{number}-{rank}-{piece} value={count}.{text}");
            self.ask(&line, "put_result")?;
        }
        self.ask("cmd=barrier_in", "barrier_out")?;
        (0..self.size).map(|rank| self.get(number, rank)).collect()
    }

    fn get(&mut self, number: u64, rank: usize) -> Result<Vec<u8>, GroupError> {
        let (mut text, mut count) = (String::new(), 1);
        let mut piece = 0;
        while piece < count {
            let line = format!("cmd=get kvsname={} key=weft-{number}-{rank}-{piece}", self.store);
            let answer = self.ask(&line, "get_result")?;
            let wrong = || GroupError::Protocol(format!("rank {rank} has left `{answer}` with the launcher"));
            let (all, part) = value(&answer, "value").and_then(|value| value.split_once('.')).ok_or_else(wrong)?;
            count = all.parse().ok().filter(|count| (1..=MOST_PIECES).contains(count)).ok_or_else(wrong)?;
            text.push_str(part);
            piece += 1;
        }
        let wrong = || GroupError::Protocol(format!("what rank {rank} has left with the launcher is no bytes"));
        from_hexadecimal(&text).filter(|bytes| bytes.len() <= MOST_BYTES).ok_or_else(wrong)
    }

    /// Sends a line and returns the answer, which must be of that kind and a success.
    fn ask(&mut self, line: &str, kind: &str) -> Result<String, GroupError> {
        let failed = |error| GroupError::Io { what: "speak with the launcher (PMI)", address: None, error };
        self.lines.get_mut().write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        io::Read::take(&mut self.lines, LONGEST).read_line(&mut answer).map_err(failed)?;
        if !answer.ends_with('\n') {
            let error = io::Error::new(io::ErrorKind::UnexpectedEof, "it has gone");
            return Err(failed(error));
        }
        let is_good = value(&answer, "rc").is_none_or(|code| code == "0");
        match value(&answer, "cmd") == Some(kind) && is_good {
            true => Ok(answer),
            false => Err(GroupError::Protocol(format!("the launcher answers `{line}` with `{}`", answer.trim_end()))),
        }
    }
}

impl Drop for Pmi {
    fn drop(&mut self) {
        // A launcher takes it for a crash when a process leaves without a word.
        let _ = self.ask("cmd=finalize", "finalize_ack");
    }
}

fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect::<Option<_>>()
        .filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests;
