//! The name of a network interface.

use core::fmt;

/// Bytes of the longest name (IFNAMSIZ of linux/if.h, less the zero behind it).
const MOST: usize = 15;

/// The name of a network interface, without memory of its own, so that an error can hold it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceName {
    bytes: [u8; MOST],
    length: u8,
}

impl InterfaceName {
    /// Of a name that is longer than an interface's can be, the beginning is kept.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let length = (0..=name.len().min(MOST)).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        let mut bytes = [0; MOST];
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self { bytes, length: length as u8 }
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_as_far_as_an_interface_s_can_be() {
        for (name, kept) in [("eth0", "eth0"), ("", ""), ("fifteen-letters", "fifteen-letters")] {
            assert_eq!(InterfaceName::new(name).to_string(), kept);
        }
        assert_eq!(InterfaceName::new("sixteen--letters").as_str(), "sixteen--letter");
        assert_eq!(InterfaceName::new("fourteen-bytesü").as_str(), "fourteen-bytes", "no half of a character");
        assert_eq!(format!("{:?}", InterfaceName::new("eth0")), "\"eth0\"");
    }
}
