//! When messages were delivered in order, to the microsecond, as the receiving process notes it and the measuring one
//! reads it while the stream runs.
//!
//! On the wire, a pipe: blocks of a count (4 bytes) and as many times since the delivery before (4 bytes each, in
//! microseconds; the first since the machine's start, in 8 bytes more); a count of 0 ends it. What follows is text.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

/// How often what was noted is passed on.
const EVERY: Duration = Duration::from_millis(20);

/// Deliveries of one block at most: far more than come in the time between two.
const MOST: usize = 1 << 22;

/// Now, in microseconds of the clock that all processes of a machine share and no program sets.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| time.num_microseconds());
    u64::try_from(now).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panicked has noted is as good.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes deliveries and passes them on by a thread of its own, so that the delivering thread never waits.
#[derive(Debug)]
pub(crate) struct Recorder {
    noted: Arc<Mutex<Noted>>,
    passing: JoinHandle<io::Result<()>>,
}

#[derive(Debug, Default)]
struct Noted {
    times_us: Vec<u64>,
    is_over: bool,
}

impl Recorder {
    /// Passes on to `out`.
    pub(crate) fn start(out: impl Write + Send + 'static) -> Self {
        let noted = Arc::<Mutex<Noted>>::default();
        let passing = {
            let noted = Arc::clone(&noted);
            thread::spawn(move || pass_on(&noted, out))
        };
        Self { noted, passing }
    }

    /// A message was delivered.
    pub(crate) fn note(&self, time_us: u64) {
        lock(&self.noted).times_us.push(time_us);
    }

    /// All is noted: returns when all was passed on.
    pub(crate) fn finish(self) -> io::Result<()> {
        lock(&self.noted).is_over = true;
        self.passing.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

fn pass_on(noted: &Mutex<Noted>, mut out: impl Write) -> io::Result<()> {
    let mut before_us = None;
    loop {
        thread::sleep(EVERY);
        let (times, is_over) = {
            let mut noted = lock(noted);
            (std::mem::take(&mut noted.times_us), noted.is_over)
        };
        write_block(&mut out, &times, &mut before_us)?;
        if is_over {
            out.write_all(&0_u32.to_le_bytes())?;
            return out.flush();
        }
    }
}

fn write_block(out: &mut impl Write, times_us: &[u64], before_us: &mut Option<u64>) -> io::Result<()> {
    if times_us.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(12 + 4 * times_us.len());
    bytes.extend((times_us.len() as u32).to_le_bytes());
    for time in times_us {
        let Some(before) = before_us.replace(*time) else {
            bytes.extend(time.to_le_bytes());
            continue;
        };
        bytes.extend(u32::try_from(time.saturating_sub(before)).unwrap_or(u32::MAX).to_le_bytes());
    }
    out.write_all(&bytes)?;
    out.flush()
}

/// All deliveries so far, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    /// Reads what a [`Recorder`] writes, to its end.
    ///
    /// # Errors
    /// It ends before its end, or is no log.
    pub(crate) fn read(&self, from: &mut impl Read) -> io::Result<()> {
        let mut before_us = None;
        loop {
            let count = u32::from_le_bytes(next(from)?) as usize;
            if count == 0 {
                return Ok(());
            }
            if count > MOST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a block of {count} deliveries")));
            }
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let time = match before_us {
                    None => u64::from_le_bytes(next(from)?),
                    Some(before) => before + u64::from(u32::from_le_bytes(next(from)?)),
                };
                before_us = Some(time);
                times.push(time);
            }
            lock(&self.0).append(&mut times);
        }
    }

    /// Calls `read` with the deliveries.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&[u64]) -> R) -> R {
        read(&lock(&self.0))
    }

    /// Takes them.
    pub(crate) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.0))
    }
}

fn next<const BYTES: usize>(from: &mut impl Read) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_noted_is_read() {
        let (pipe, times) = (Pipe::default(), [7_000_000_000, 7_000_000_001, 7_000_000_001, 7_004_000_000]);
        let recorder = Recorder::start(pipe.clone());
        times.iter().for_each(|time| recorder.note(*time));
        recorder.finish().unwrap();
        let (log, bytes) = (Log::default(), lock(&pipe.0).clone());
        log.read(&mut &bytes[..]).unwrap();
        assert_eq!(log.with(<[u64]>::to_vec), times);

        let log = Log::default();
        assert!(log.read(&mut &bytes[..bytes.len() - 4]).is_err(), "the end is missing");
        assert_eq!(log.take(), times, "what came before the end counts");
        assert!(log.read(&mut &[0xff; 64][..]).unwrap_err().to_string().contains("4294967295 deliveries"));
    }

    #[test]
    fn several_blocks_are_one_log() {
        let (mut bytes, mut before) = (Vec::new(), None);
        for block in [&[5_u64, 6][..], &[], &[9], &[30]] {
            write_block(&mut bytes, block, &mut before).unwrap();
        }
        bytes.extend([0; 4]);
        let log = Log::default();
        log.read(&mut &bytes[..]).unwrap();
        assert_eq!(log.take(), [5, 6, 9, 30]);
    }

    #[test]
    fn the_clock_goes_on() {
        let before = now_us();
        assert!(before > 0 && now_us() >= before);
    }
}
