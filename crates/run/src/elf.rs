//! What a program says of the libraries that it wants: the dynamic section of an ELF file of 64 bits, little-endian
//! (System V ABI, chapters 4 and 5; symbol versions as glibc has them).

/// A program or library, as far as it is of interest here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// It names a dynamic linker: libraries can be put before its own.
    pub(crate) has_interpreter: bool,
    /// Libraries that it is linked with.
    pub(crate) needed: Vec<String>,
    /// Versions that it wants, each of a library.
    pub(crate) wanted: Vec<(String, String)>,
    /// Versions that it has itself.
    pub(crate) defined: Vec<String>,
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const DEFINED: u64 = 0x6fff_fffc;
const WANTED: u64 = 0x6fff_fffe;
/// Most entries of a list that are read: what has more is damaged.
const MOST: usize = 4096;

impl Elf {
    /// Reads a file. `None`: it is no such file, or damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let file = Bytes(bytes);
        if file.0.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let (start, size, count) = (file.u64(32)?, u64::from(file.u16(54)?), u64::from(file.u16(56)?));
        let mut parts = Vec::new();
        for number in 0..count {
            let at = start.checked_add(number.checked_mul(size)?)?;
            let number = |offset| file.u64(at.checked_add(offset)?);
            parts.push(Part { kind: file.u32(at)?, offset: number(8)?, address: number(16)?, length: number(32)? });
        }
        let mut elf = Self { has_interpreter: parts.iter().any(|part| part.kind == INTERPRETER), ..Self::default() };
        let Some(dynamic) = parts.iter().find(|part| part.kind == DYNAMIC) else { return Some(elf) };
        let entries: Vec<_> = (0..(dynamic.length / 16).min(MOST as u64))
            .map_while(|number| {
                let at = dynamic.offset.checked_add(number * 16)?;
                Some((file.u64(at)?, file.u64(at.checked_add(8)?)?)).filter(|(tag, _)| *tag != 0)
            })
            .collect();
        let place = |tag: u64| {
            let address = entries.iter().find(|(other, _)| *other == tag)?.1;
            let inside = |part: &&Part| part.kind == LOAD && (part.address..).contains(&address);
            let part = parts.iter().filter(inside).find(|part| address - part.address < part.length)?;
            part.offset.checked_add(address - part.address)
        };
        let Some(strings) = place(STRINGS) else { return Some(elf) };
        let text = |at: u64| file.text(strings.checked_add(at)?);
        let needed = entries.iter().filter(|(tag, _)| *tag == NEEDED);
        elf.needed = needed.filter_map(|(_, name)| text(*name)).collect();
        if let Some(first) = place(WANTED) {
            elf.wanted = wanted(&file, first, &text);
        }
        if let Some(first) = place(DEFINED) {
            elf.defined = defined(&file, first, &text);
        }
        Some(elf)
    }
}

/// A part of the file, and where it is in memory.
struct Part {
    kind: u32,
    offset: u64,
    address: u64,
    length: u64,
}

/// The versions that are wanted: a list of libraries, each with a list of names.
fn wanted(file: &Bytes<'_>, first: u64, text: &impl Fn(u64) -> Option<String>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for library in file.chain(first, 12) {
        let Some(name) = file.word(library, 4).and_then(text) else { break };
        let Some(versions) = file.word(library, 8).and_then(|offset| library.checked_add(offset)) else { break };
        for version in file.chain(versions, 12) {
            found.extend(file.word(version, 8).and_then(text).map(|version| (name.clone(), version)));
        }
    }
    found
}

/// The versions that are defined. The first is the name of the library.
fn defined(file: &Bytes<'_>, first: u64, text: &impl Fn(u64) -> Option<String>) -> Vec<String> {
    let name = |version: u64| {
        let names = version.checked_add(file.word(version, 12)?)?;
        file.word(names, 0).and_then(text)
    };
    file.chain(first, 16).into_iter().skip(1).filter_map(name).collect()
}

/// The bytes of a file, which may be cut anywhere.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn at<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let start = usize::try_from(offset).ok()?;
        self.0.get(start..start.checked_add(N)?)?.try_into().ok()
    }

    fn u16(&self, offset: u64) -> Option<u16> {
        self.at(offset).map(u16::from_le_bytes)
    }

    fn u32(&self, offset: u64) -> Option<u32> {
        self.at(offset).map(u32::from_le_bytes)
    }

    fn u64(&self, offset: u64) -> Option<u64> {
        self.at(offset).map(u64::from_le_bytes)
    }

    /// 32 bits of the entry at `entry`.
    fn word(&self, entry: u64, offset: u64) -> Option<u64> {
        self.u32(entry.checked_add(offset)?).map(u64::from)
    }

    /// Where the entries of a list are: each says at `next` how far away the next one is, the last one 0.
    fn chain(&self, first: u64, next: u64) -> Vec<u64> {
        let mut entries = vec![first];
        let mut at = first;
        while entries.len() < MOST {
            let Some(step) = self.word(at, next).filter(|step| *step > 0) else { break };
            let Some(following) = at.checked_add(step) else { break };
            at = following;
            entries.push(at);
        }
        entries
    }

    /// The text that ends with a zero.
    fn text(&self, offset: u64) -> Option<String> {
        let rest = self.0.get(usize::try_from(offset).ok()?..)?;
        let length = rest.iter().take(MOST).position(|byte| *byte == 0)?;
        String::from_utf8(rest[..length].to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_wants_the_c_library() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&own).unwrap();
        if !elf.has_interpreter {
            println!("skipped: this program is linked statically");
            return;
        }
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
        let glibc = |(library, version): &(String, String)| library == "libc.so.6" && version.starts_with("GLIBC_");
        assert!(!elf.needed.contains(&"libc.so.6".to_owned()) || elf.wanted.iter().any(glibc), "{elf:?}");
    }

    #[test]
    fn what_is_cut_or_changed_is_read_without_harm() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in (0..1024).chain([4096, own.len() / 2]) {
            let _ = Elf::parse(&own[..length]);
        }
        let mut changed = own[..8192.min(own.len())].to_vec();
        for at in 0..changed.len() {
            changed[at] ^= 0xff;
            let _ = Elf::parse(&changed);
            changed[at] ^= 0xff;
        }
        assert_eq!(Elf::parse(b"#!/bin/sh\n"), None);
    }
}
