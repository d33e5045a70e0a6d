//! The identity of the host that this process runs on.

use std::fs;
use std::os::unix::fs::MetadataExt;

use weft_base::HostId;

/// The boot id of this machine, and the network namespace of the calling thread. `None` where `/proc` has none.
#[must_use]
pub fn host_id() -> Option<HostId> {
    let boot = parse_boot(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)?;
    let network = fs::metadata("/proc/thread-self/ns/net").ok()?.ino();
    Some(HostId { boot, network })
}

/// A UUID as 16 bytes.
fn parse_boot(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32).map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_on_one_host() {
        assert!(host_id().is_some());
        assert_eq!(host_id(), std::thread::spawn(host_id).join().unwrap());
    }

    #[test]
    fn a_boot_is_a_uuid() {
        let bytes = parse_boot("01020304-0506-0708-090a-0b0c0d0e0f10\n");
        assert_eq!(bytes, Some([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]));
        assert_eq!(parse_boot("01020304"), None);
    }
}
