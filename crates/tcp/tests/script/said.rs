//! What a line says of a segment.

use core::fmt::Write as _;
use std::net::IpAddr;

use weft_tcp::{Flags, Flow, Segment};

use super::{number, span, spans};

/// The peer's numbers wrap soon.
pub(super) const THEIRS: u32 = u32::MAX - 300;

/// The bytes of either stream at these positions.
pub(crate) fn bytes(start: u64, end: u64) -> Vec<u8> {
    (start..end).map(|position| (position % 251) as u8).collect()
}

/// A line of a segment, taken apart.
#[derive(Debug, Default)]
pub(super) struct Said {
    flags: Flags,
    wrong: bool,
    start: u64,
    end: u64,
    ack: Option<u64>,
    window: Option<u16>,
    blocks: Option<Vec<(u64, u64)>>,
    mss: Option<u16>,
    scale: Option<u8>,
    sack: bool,
    stamps: Option<(u32, u32)>,
    raw: Vec<u8>,
    words: Option<u8>,
    damaged: bool,
    pub(super) land: bool,
}

impl Said {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let letters = words.next().ok_or("flags are missing")?;
        let has = |letter| letters.contains(letter);
        let flags = Flags { syn: has('S'), ack: has('A'), fin: has('F'), rst: has('R'), psh: has('P') };
        let (start, end) = span(words.next().ok_or("a number is missing")?)?;
        let mut said = Self { flags, wrong: has('^'), start, end, ..Self::default() };
        while let Some(word) = words.next() {
            match word {
                "sack" => said.sack = true,
                "damaged" => said.damaged = true,
                "land" => said.land = true,
                _ => said.value(word, words.next().ok_or(format!("`{word}` wants a value"))?)?,
            }
        }
        Ok(said)
    }

    fn value(&mut self, word: &str, value: &str) -> Result<(), String> {
        match word {
            "ack" => self.ack = Some(number(value)?),
            "win" => self.window = Some(number(value)?),
            "blocks" => self.blocks = Some(spans(value.trim_matches('-'))?),
            "mss" => self.mss = Some(number(value)?),
            "wscale" => self.scale = Some(number(value)?),
            "words" => self.words = Some(number(value)?),
            "raw" => self.raw = hexadecimal(value)?,
            "ts" => {
                let (value, echo) = value.split_once('/').ok_or("ts wants two numbers")?;
                self.stamps = Some((number(value)?, number(echo)?));
            }
            _ => return Err(format!("`{word}` is nothing of a segment")),
        }
        Ok(())
    }

    /// The segment as it comes, byte by byte (RFC 9293 section 3.1), so that nothing depends on the tested side. `flow`
    /// is as its receiver sees it, `ours` the receiver's first number.
    pub(super) fn segment(&self, flow: &Flow, ours: u32) -> Vec<u8> {
        let own = |position: u64| ours.wrapping_add(position as u32);
        let options = self.options(own);
        let length = 20 + options.len();
        let mut out = Vec::new();
        let remote = if self.land { flow.local } else { flow.remote };
        out.extend(remote.port().to_be_bytes());
        out.extend(flow.local.port().to_be_bytes());
        out.extend(THEIRS.wrapping_add(self.start as u32).to_be_bytes());
        out.extend(self.ack.map_or(0, own).to_be_bytes());
        out.push(self.words.unwrap_or((length / 4) as u8) << 4);
        let Flags { syn, ack, fin, rst, psh } = self.flags;
        let bits = [fin, syn, rst, psh, ack];
        out.push(bits.iter().enumerate().map(|(bit, is_set)| u8::from(*is_set) << bit).sum());
        out.extend(self.window.unwrap_or(60_000).to_be_bytes());
        out.extend([0; 4]);
        out.extend(options);
        // What goes with a SYN is behind it.
        let after = u64::from(syn);
        out.extend(
            bytes(self.start + after, self.end + after).iter().map(|byte| byte ^ if self.wrong { 0xff } else { 0 }),
        );
        let sum = checksum(&pseudo_header(remote.ip(), flow.local.ip(), out.len()), &out) ^ u16::from(self.damaged);
        out[16..18].copy_from_slice(&sum.to_be_bytes());
        out
    }

    fn options(&self, own: impl Fn(u64) -> u32) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(mss) = self.mss {
            out.extend([2, 4]);
            out.extend(mss.to_be_bytes());
        }
        if let Some(shift) = self.scale {
            out.extend([1, 3, 3, shift]);
        }
        if self.sack {
            out.extend([1, 1, 4, 2]);
        }
        if let Some((value, echo)) = self.stamps {
            out.extend([1, 1, 8, 10]);
            out.extend(value.to_be_bytes());
            out.extend(echo.to_be_bytes());
        }
        if let Some(blocks) = self.blocks.as_ref().filter(|blocks| !blocks.is_empty()) {
            out.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
            out.extend(blocks.iter().flat_map(|(start, end)| [own(*start), own(*end)]).flat_map(u32::to_be_bytes));
        }
        out.extend(&self.raw);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    /// What of it a segment that leaves does not say.
    pub(super) fn differs(&self, segment: &Segment, payload: &[u8], ours: u32) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut compare = |name: &str, said: String, is: String| {
            if said != is {
                wrong.push(format!("{name} is {is}"));
            }
        };
        let is = &segment.flags;
        let flags = Flags { psh: is.psh && self.flags.psh, ..*is };
        compare("flags", format!("{:?}", self.flags), format!("{flags:?}"));
        let start = u64::from(segment.sequence.wrapping_sub(ours));
        compare("start", self.start.to_string(), start.to_string());
        compare("end", self.end.max(self.start).to_string(), (start + payload.len() as u64).to_string());
        if let Some(ack) = self.ack {
            compare("ack", ack.to_string(), segment.acknowledgement.wrapping_sub(THEIRS).to_string());
        }
        if let Some(window) = self.window {
            compare("win", window.to_string(), segment.window.to_string());
        }
        if let Some(blocks) = &self.blocks {
            let relative = |number: u32| u64::from(number.wrapping_sub(THEIRS));
            let is: Vec<_> =
                segment.options.sack.iter().map(|(start, end)| (relative(*start), relative(*end))).collect();
            compare("blocks", format!("{blocks:?}"), format!("{is:?}"));
        }
        if let Some((_, echo)) = self.stamps {
            compare("echo", echo.to_string(), segment.options.timestamps.map_or(0, |stamps| stamps.echo).to_string());
        }
        if segment.flags.syn {
            compare("mss", format!("{:?}", self.mss), format!("{:?}", segment.options.mss));
            compare("wscale", format!("{:?}", self.scale), format!("{:?}", segment.options.window_scale));
            compare("sack", self.sack.to_string(), segment.options.sack_permitted.to_string());
        }
        let after = u64::from(segment.flags.syn);
        if payload != bytes(start + after, start + after + payload.len() as u64) {
            wrong.push("its bytes are wrong".to_owned());
        }
        wrong
    }
}

/// A segment, as a script would say it.
pub(super) fn describe(segment: &Segment, payload: &[u8], ours: u32) -> String {
    let Flags { syn, ack, fin, rst, psh } = segment.flags;
    let letters = [('S', syn), ('F', fin), ('R', rst), ('P', psh), ('A', ack)];
    let mut text: String = letters.iter().filter(|(_, is_set)| *is_set).map(|(letter, _)| letter).collect();
    let start = u64::from(segment.sequence.wrapping_sub(ours));
    let _ = write!(text, " {start}");
    if !payload.is_empty() {
        let _ = write!(text, ":{}", start + payload.len() as u64);
    }
    if ack {
        let _ = write!(text, " ack {}", segment.acknowledgement.wrapping_sub(THEIRS));
    }
    let blocks: Vec<_> = segment.options.sack.iter().map(|(start, end)| (start, end)).collect();
    for (index, (start, end)) in blocks.into_iter().enumerate() {
        let word = if index == 0 { " blocks " } else { "," };
        let _ = write!(text, "{word}{}:{}", start.wrapping_sub(THEIRS), end.wrapping_sub(THEIRS));
    }
    let _ = write!(text, " win {}", segment.window);
    text
}

fn hexadecimal(text: &str) -> Result<Vec<u8>, String> {
    let pair = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map(|at| pair(at).ok_or(format!("`{text}` are no bytes"))).collect()
}

fn pseudo_header(source: IpAddr, destination: IpAddr, length: usize) -> Vec<u8> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) else { unreachable!("scripts use IPv4") };
    let mut out = [source.octets(), destination.octets()].concat();
    out.extend([0, 6]);
    out.extend((length as u16).to_be_bytes());
    out
}

/// RFC 1071, over both; the first has an even number of bytes.
pub(crate) fn checksum(first: &[u8], second: &[u8]) -> u16 {
    let pairs = first.chunks(2).chain(second.chunks(2));
    let sum: u32 = pairs.map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}
