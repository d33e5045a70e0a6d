//! A picture as a PNG file, without compression (PNG, third edition, W3C 2025; zlib, RFC 1950; deflate, RFC 1951).

/// The longest block that deflate stores as it is.
const LONGEST_BLOCK: usize = 0xffff;
/// The window of 32 KiB, and the check that makes both bytes a multiple of 31 (RFC 1950 section 2.2).
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];

/// Eight bits each of red, green and blue for each point, row by row.
pub(super) fn encode(width: usize, height: usize, pixels: &[u8]) -> Vec<u8> {
    // Each row begins with its filter: none.
    let rows: Vec<u8> =
        pixels.chunks_exact(3 * width.max(1)).flat_map(|row| [0].into_iter().chain(row.iter().copied())).collect();
    let size = |length: usize| (length as u32).to_be_bytes();
    let header = [&size(width)[..], &size(height), &[8, 2, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [(b"IHDR", header), (b"IDAT", stored(&rows)), (b"IEND", Vec::new())] {
        let named = [&name[..], &data].concat();
        file.extend(size(data.len()));
        file.extend(&named);
        file.extend(crc(&named).to_be_bytes());
    }
    file
}

/// A zlib stream of blocks that are stored as they are (RFC 1951 section 3.2.4).
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut stream = ZLIB_HEADER.to_vec();
    let mut blocks = bytes.chunks(LONGEST_BLOCK).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler(bytes).to_be_bytes());
    stream
}

/// Adler-32 (RFC 1950 section 8.2).
fn adler(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    high << 16 | low
}

/// CRC-32 (PNG, annex D): a bit at a time, for a picture is a few hundred kilobytes.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_those_of_the_standards() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(b"IEND"), 0xae42_6082);
        assert_eq!(adler(b"Wikipedia"), 0x11e6_0398);
        assert_eq!(adler(b""), 1);
    }

    #[test]
    fn a_file_has_its_chunks() {
        let file = encode(2, 1, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(file[..16], *b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR");
        assert_eq!(file[16..29], [0, 0, 0, 2, 0, 0, 0, 1, 8, 2, 0, 0, 0]);
        // One last block of 7 bytes: the filter and two points.
        let data = [0x78, 1, 1, 7, 0, 0xf8, 0xff, 0, 1, 2, 3, 4, 5, 6];
        assert_eq!(file[33..41], *b"\0\0\0\x12IDAT");
        assert_eq!(file[41..41 + data.len()], data);
        assert_eq!(file[file.len() - 12..], *b"\0\0\0\0IEND\xae\x42\x60\x82");
    }

    #[test]
    fn long_pictures_are_several_blocks() {
        let stream = stored(&vec![7; LONGEST_BLOCK + 1]);
        assert_eq!(stream.len(), 2 + 5 + LONGEST_BLOCK + 5 + 1 + 4);
        assert_eq!((stream[2], stream[2 + 5 + LONGEST_BLOCK]), (0, 1), "the second is the last");
    }
}
