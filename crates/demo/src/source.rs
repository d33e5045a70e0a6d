//! What is moved: a file, or made-up bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weft_command::failure::Failure;

/// Bytes in order, as many as it says.
pub(crate) struct Source {
    name: String,
    length: u64,
    left: u64,
    origin: Origin,
}

enum Origin {
    File(File),
    Made { state: u64 },
}

impl Source {
    /// A file, or `size` made-up bytes.
    pub(crate) fn open(path: Option<&Path>, size: u64) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self {
                name: "made-up data".into(),
                length: size,
                left: size,
                origin: Origin::Made { state: 0 },
            });
        };
        let name = path.display().to_string();
        let cannot = |what: &str| Failure::while_doing(format!("cannot {what} {name}"));
        let file = File::open(path).map_err(cannot("open"))?;
        let metadata = file.metadata().map_err(cannot("look at"))?;
        if !metadata.is_file() {
            return Err(Failure::Usage(format!("{name} is no regular file")));
        }
        Ok(Self { length: metadata.len(), left: metadata.len(), origin: Origin::File(file), name })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes in all.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Puts the next bytes into `buffer`, as many as fit or are left; returns how many.
    pub(crate) fn take(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..length];
        match &mut self.origin {
            Origin::File(file) => {
                file.read_exact(buffer).map_err(Failure::while_doing(format!("cannot read {}", self.name)))?;
            }
            Origin::Made { state } => make_up(state, buffer),
        }
        self.left -= length as u64;
        Ok(length)
    }
}

/// The generator SplitMix64: the same bytes each time, without repetition in sight.
fn make_up(state: &mut u64, buffer: &mut [u8]) {
    for chunk in buffer.chunks_mut(8) {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = *state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_data_ends_and_does_not_repeat() {
        let mut source = Source::open(None, 20).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(source.take(&mut buffer).unwrap(), 16);
        assert_ne!(buffer[..8], buffer[8..]);
        assert_eq!(source.take(&mut buffer).unwrap(), 4);
        assert_eq!(source.take(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        assert!(matches!(Source::open(Some(Path::new("/")), 1), Err(Failure::Usage(_))));
        assert!(matches!(Source::open(Some(Path::new("/no/such/file")), 1), Err(Failure::Runtime(_))));
    }
}
