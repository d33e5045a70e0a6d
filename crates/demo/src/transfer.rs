//! The main job: the file goes into the peer's memory by RDMA Write and comes back by RDMA Read, as many bytes at a
//! time as the peer's windows hold. Hashing and reading the file are not part of the times.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};
use weft::verbs::{Access, MemoryRegion, WorkRequest};

use crate::size::Bytes;
use crate::source::Source;
use crate::talk::{Answer, Ask, Windows, ask, demand, unexpected};
use weft_command::connection::{Link, LinkError, failed};
use weft_command::failure::Failure;
use weft_command::output::complain;

/// Bytes of a work request.
const PIECE: u64 = 1 << 20;

/// Work requests in flight.
const DEPTH: usize = 16;

/// What is in a buffer before something comes: not zero, so that it shows.
pub(crate) const UNTOUCHED: u8 = 0xa5;

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    pub(crate) write: Duration,
    pub(crate) read: Duration,
    /// SHA-256, in hexadecimal, of the source, of what the peer has, of what was read back.
    pub(crate) here: String,
    pub(crate) there: String,
    pub(crate) back: String,
}

/// How often the progress of a transfer is reported, where no bar can be drawn.
const BETWEEN_WORDS: Duration = Duration::from_secs(10);

/// Moves everything there and back.
pub(crate) fn run(link: &Link, windows: &Windows, source: &mut Source) -> Result<Moved, Failure> {
    let mut job = Job::new(link, windows, source.length())?;
    let mut buffer = vec![0; PIECE as usize];
    let (began, mut said) = (Instant::now(), Instant::now());
    loop {
        let length = job.load(source, &mut buffer)?;
        job.exchange(length).map_err(|error| error.during("transfer"))?;
        job.absorb(length, &mut buffer)?;
        if length < job.capacity() {
            break;
        }
        if job.bar.is_hidden() && said.elapsed() >= BETWEEN_WORDS {
            said = Instant::now();
            let (done, all) = (job.bar.position() / 2, source.length());
            complain(format_args!("weft: {}", how_far(done, all, began.elapsed())));
        }
    }
    job.finish()
}

struct Job<'a> {
    link: &'a Link,
    windows: &'a Windows,
    sources: Vec<MemoryRegion>,
    sinks: Vec<MemoryRegion>,
    here: Sha256,
    back: Sha256,
    write: Duration,
    read: Duration,
    bar: ProgressBar,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Write,
    Read,
}

impl<'a> Job<'a> {
    fn new(link: &'a Link, windows: &'a Windows, length: u64) -> Result<Self, Failure> {
        let regions = |access| {
            let one = |_| link.domain.register(vec![UNTOUCHED; windows.bytes() as usize], access);
            (0..windows.count()).map(one).collect::<Result<Vec<_>, _>>().map_err(failed("cannot register memory"))
        };
        Ok(Self {
            link,
            windows,
            sources: regions(Access::LOCAL_READ)?,
            sinks: regions(Access::LOCAL_WRITE | Access::REMOTE_WRITE)?,
            here: Sha256::new(),
            back: Sha256::new(),
            write: Duration::ZERO,
            read: Duration::ZERO,
            bar: bar(2 * length),
        })
    }

    /// Bytes that fit at a time.
    fn capacity(&self) -> u64 {
        self.windows.bytes() * self.windows.count() as u64
    }

    /// Fills the sources; returns how many bytes there were.
    fn load(&mut self, source: &mut Source, buffer: &mut [u8]) -> Result<u64, Failure> {
        let mut loaded = 0;
        for (window, at, length) in pieces(self.windows.bytes(), self.capacity()) {
            let taken = source.take(&mut buffer[..length as usize])?;
            self.here.update(&buffer[..taken]);
            let written = self.sources[window].write(at, &buffer[..taken]);
            written.map_err(|error| Failure::Runtime(error.to_string()))?;
            loaded += taken as u64;
            if (taken as u64) < length {
                break;
            }
        }
        Ok(loaded)
    }

    /// Writes, waits until the peer has it all, and reads it back.
    fn exchange(&mut self, length: u64) -> Result<(), LinkError> {
        self.bar.set_message("RDMA write");
        let start = Instant::now();
        self.post(Direction::Write, length)?;
        demand(self.link, &Ask::Fence)?;
        self.write += start.elapsed();
        self.bar.set_message("RDMA read");
        let start = Instant::now();
        self.post(Direction::Read, length)?;
        self.read += start.elapsed();
        Ok(())
    }

    fn post(&self, direction: Direction, length: u64) -> Result<(), LinkError> {
        let mut under_way = 0;
        for (window, at, length) in pieces(self.windows.bytes(), length) {
            if under_way == DEPTH {
                self.reap()?;
                under_way -= 1;
            }
            let local = if direction == Direction::Write { &self.sources } else { &self.sinks };
            let slice = local[window].slice(at..at + length).map_err(|error| LinkError::Broken(error.to_string()))?;
            let remote = self.windows.at(window).at(at);
            self.link.post(match direction {
                Direction::Write => WorkRequest::write(slice, remote),
                Direction::Read => WorkRequest::read(slice, remote),
            })?;
            under_way += 1;
        }
        (0..under_way).try_for_each(|_| self.reap())
    }

    fn reap(&self) -> Result<(), LinkError> {
        let completion = self.link.finish()?;
        self.bar.inc(u64::from(completion.length));
        Ok(())
    }

    /// Both sides add what they have to their digests.
    fn absorb(&mut self, length: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        demand(self.link, &Ask::Digest(length)).map_err(|error| error.during("digest"))?;
        digest_regions(&self.sinks, length, &mut self.back, buffer)
    }

    fn finish(self) -> Result<Moved, Failure> {
        self.bar.finish_and_clear();
        let there = match ask(self.link, &Ask::Finish) {
            Ok(Answer::Digest(there)) => Ok(there),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error),
        };
        let there = there.map_err(|error| error.during("digest"))?;
        Ok(Moved {
            write: self.write,
            read: self.read,
            here: hexadecimal(self.here),
            there,
            back: hexadecimal(self.back),
        })
    }
}

/// What has been moved there and back, and how long the rest will take.
fn how_far(done: u64, all: u64, took: Duration) -> String {
    let left = took.mul_f64(all.saturating_sub(done) as f64 / done.max(1) as f64).as_secs();
    let left = if left < 120 { format!("{left} s") } else { format!("{} minutes", left / 60) };
    format!("{} of {} moved there and back, about {left} to go", Bytes(done), Bytes(all))
}

/// A bar on standard error, when that is a terminal.
fn bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:10} {bar:40} {bytes:>10} of {total_bytes}");
    ProgressBar::new(bytes).with_style(style.expect("the template is well formed"))
}

/// Adds the first `length` bytes that lie in regions of the same size.
pub(crate) fn digest_regions(
    regions: &[MemoryRegion],
    length: u64,
    digest: &mut Sha256,
    buffer: &mut [u8],
) -> Result<(), Failure> {
    let Some(first) = regions.first() else { return Ok(()) };
    for (region, at, length) in pieces(first.length(), length) {
        let Some(region) = regions.get(region) else { break };
        let piece = &mut buffer[..length as usize];
        region.read(at, piece).map_err(|error| Failure::Runtime(error.to_string()))?;
        digest.update(piece);
    }
    Ok(())
}

pub(crate) fn hexadecimal(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `length` bytes in regions of `region` bytes each, cut into pieces of at most [`PIECE`]: index of the region, offset
/// in it, bytes.
fn pieces(region: u64, length: u64) -> impl Iterator<Item = (usize, u64, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = done % region;
        let piece = PIECE.min(region - at).min(length - done);
        let index = (done / region) as usize;
        done += piece;
        (piece > 0).then_some((index, at, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        let mib = 1 << 20;
        let cut = |region, length| pieces(region, length).collect::<Vec<_>>();
        assert_eq!(cut(mib, 0), []);
        assert_eq!(cut(mib, 5), [(0, 0, 5)]);
        assert_eq!(cut(3 * mib / 2, 3 * mib), [(0, 0, mib), (0, mib, mib / 2), (1, 0, mib), (1, mib, mib / 2),]);
    }

    #[test]
    fn a_long_transfer_says_how_far_it_is() {
        let said = how_far(1 << 30, 10 << 30, Duration::from_secs(10));
        assert_eq!(said, "1 GiB of 10 GiB moved there and back, about 90 s to go");
        let said = how_far(1 << 30, 900 << 30, Duration::from_secs(10));
        assert_eq!(said, "1 GiB of 900 GiB moved there and back, about 149 minutes to go");
    }

    #[test]
    fn digests_are_sha_256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hexadecimal(Sha256::new()), empty);
    }
}
