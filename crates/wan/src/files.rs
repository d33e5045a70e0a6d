//! Files that scenarios name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes that such a file may have.
const FILE_BYTES: u64 = 64 << 20;

/// The text of a file, or why it can't be had, in words.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut text = String::new();
    let file = File::open(path).map_err(|error| format!("{shown}: {error}"))?;
    let length = file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| format!("{shown}: {error}"))?;
    if length as u64 > FILE_BYTES {
        return Err(format!("{shown} has more than {FILE_BYTES} bytes; cut a part out of it"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_or_named() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(read(&own).unwrap().contains("weft-wan"));
        assert!(read(Path::new("/nonesuch/file")).unwrap_err().starts_with("/nonesuch/file: No such file"));
        // It has no end.
        assert!(read(Path::new("/dev/zero")).unwrap_err().contains("more than 67108864 bytes"));
    }
}
