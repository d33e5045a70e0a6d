//! Options of the TCP header. A walk of our own: that of the library ends at the first kind it doesn't know, and a TCP
//! has to skip those (RFC 9293 section 3.1, MUST-6).

use core::fmt;

use arrayvec::ArrayVec;

/// SACK blocks that a header has room for without timestamps (RFC 2018 section 3).
pub const MAX_SACK_BLOCKS: usize = 4;

const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
/// Bytes of options that a header has room for.
const ROOM: usize = 40;
/// A larger shift counts as this one (RFC 7323 section 2.3).
const MAX_SHIFT: u8 = 14;

/// The timestamps option (RFC 7323 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The clock of the sender, in ticks of its own.
    pub value: u32,
    /// The value that it has last seen of the other side.
    pub echo: u32,
}

/// The options that Weft knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The largest payload that the sender takes, in bytes (RFC 9293 section 3.7.1).
    pub mss: Option<u16>,
    /// By how many bits the sender's windows are shifted, at most 14 (RFC 7323 section 2).
    pub window_scale: Option<u8>,
    /// The sender understands SACK (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// What the sender has beyond what it acknowledges: sequence numbers of the first byte, and of the byte after the
    /// last.
    pub sack: ArrayVec<(u32, u32), MAX_SACK_BLOCKS>,
}

/// An option that makes no sense. The segment is dropped (RFC 9293 section 3.1, MUST-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// Its kind.
    pub kind: u8,
    /// The length that it says; zero where it is cut off.
    pub length: u8,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TCP option {} says that it has {} bytes, which it cannot have", self.kind, self.length)
    }
}

impl std::error::Error for OptionError {}

impl Options {
    pub(super) fn parse(mut bytes: &[u8]) -> Result<Self, OptionError> {
        let mut options = Self::default();
        while let [kind, rest @ ..] = bytes {
            bytes = match *kind {
                END => break,
                NOTHING => rest,
                kind => {
                    let length = rest.first().copied().unwrap_or(0);
                    let body = rest.get(1..usize::from(length).saturating_sub(1)).filter(|_| length >= 2);
                    let body = body.ok_or(OptionError { kind, length })?;
                    options.take(kind, body).ok_or(OptionError { kind, length })?;
                    &rest[body.len() + 1..]
                }
            };
        }
        Ok(options)
    }

    fn take(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        match kind {
            MSS => self.mss = Some(u16::from_be_bytes(body.try_into().ok()?)),
            WINDOW_SCALE => {
                let [shift] = body.try_into().ok()?;
                self.window_scale = Some(u8::min(shift, MAX_SHIFT));
            }
            SACK_PERMITTED => {
                let [] = body.try_into().ok()?;
                self.sack_permitted = true;
            }
            SACK => self.sack = blocks(body)?,
            TIMESTAMPS => {
                let (value, echo) = body.split_first_chunk()?;
                let echo = u32::from_be_bytes(echo.try_into().ok()?);
                self.timestamps = Some(Timestamps { value: u32::from_be_bytes(*value), echo });
            }
            _ => (),
        }
        Some(())
    }

    /// Bytes that they take in a header.
    pub(super) fn length(&self) -> usize {
        self.emit().len()
    }

    /// How many SACK blocks fit in with these.
    pub(crate) fn sack_room(&self) -> usize {
        if self.timestamps.is_some() { MAX_SACK_BLOCKS - 1 } else { MAX_SACK_BLOCKS }
    }

    pub(super) fn emit(&self) -> ArrayVec<u8, ROOM> {
        let mut out = ArrayVec::new();
        if let Some(mss) = self.mss {
            put(&mut out, &[MSS, 4]);
            put(&mut out, &mss.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            put(&mut out, &[NOTHING, WINDOW_SCALE, 3, shift]);
        }
        if self.sack_permitted {
            put(&mut out, &[NOTHING, NOTHING, SACK_PERMITTED, 2]);
        }
        if let Some(timestamps) = self.timestamps {
            put(&mut out, &[NOTHING, NOTHING, TIMESTAMPS, 10]);
            put(&mut out, &timestamps.value.to_be_bytes());
            put(&mut out, &timestamps.echo.to_be_bytes());
        }
        let blocks = self.sack.len().min(out.remaining_capacity().saturating_sub(4) / 8);
        if blocks > 0 {
            put(&mut out, &[NOTHING, NOTHING, SACK, 2 + 8 * blocks as u8]);
            for (start, end) in &self.sack[..blocks] {
                put(&mut out, &start.to_be_bytes());
                put(&mut out, &end.to_be_bytes());
            }
        }
        out
    }
}

/// All that there can be take 40 bytes: MSS 4, scale 4, permitted 4, timestamps 12, and blocks in what is left.
fn put(out: &mut ArrayVec<u8, ROOM>, bytes: &[u8]) {
    let fits = out.try_extend_from_slice(bytes);
    debug_assert!(fits.is_ok(), "options of more than {ROOM} bytes");
}

fn blocks(body: &[u8]) -> Option<ArrayVec<(u32, u32), MAX_SACK_BLOCKS>> {
    if body.is_empty() || !body.len().is_multiple_of(8) || body.len() > 8 * MAX_SACK_BLOCKS {
        return None;
    }
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    body.chunks_exact(8).map(|block| Some((number(&block[..4])?, number(&block[4..])?))).collect()
}
