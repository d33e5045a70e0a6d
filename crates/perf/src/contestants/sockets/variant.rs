//! How a program on plain sockets writes, whether it checks what it moves, and how large its sockets' buffers are.

use std::hint;

use weft_wire::Crc32c;

use crate::model::job::{Job, Kind};
use crate::model::size::Size;

/// What is behind the name, with colons between: `256K` or `batched`, `crc`; of the kernel's sockets also `buffers=4M`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// Bytes of each write, when they are not those of a message.
    write_bytes: Option<usize>,
    message_bytes: usize,
    crc: bool,
    /// Bytes of each of a socket's two buffers, when the kernel is not to choose them.
    buffers: Option<usize>,
}

impl Variant {
    /// The one that a job names, of whatever has no buffers of the kernel's.
    pub(crate) fn of(job: &Job) -> Result<Self, String> {
        let variant = Self::of_sockets(job)?;
        match variant.buffers {
            Some(_) => Err("buffers= is of the kernel's sockets: sockets and mptcp".into()),
            None => Ok(variant),
        }
    }

    /// The one that a job of the kernel's sockets names.
    pub(crate) fn of_sockets(job: &Job) -> Result<Self, String> {
        let buffers = job.variant.as_deref().map_or(Ok(None), buffers)?;
        let mut variant = Self { write_bytes: None, message_bytes: job.size, crc: false, buffers };
        let words = job.variant.iter().flat_map(|words| words.split(':'));
        for word in words.filter(|word| !word.starts_with(BUFFERS)) {
            let write_bytes = match word {
                "crc" if !variant.crc => {
                    variant.crc = true;
                    continue;
                }
                "batched" => Some(job.size * job.window),
                size => size.parse().ok().map(|Size(bytes)| bytes),
            };
            if write_bytes.is_none() || variant.write_bytes.is_some() {
                let whole = job.variant.as_deref().unwrap_or_default();
                return Err(format!(
                    "{whole:?} is no variant of sockets; there are `batched` or a size such as 256K, `crc`, both \
                     (256K:crc), and buffers=4M"
                ));
            }
            variant.write_bytes = write_bytes;
        }
        Ok(variant)
    }

    /// Whether it means something in such a run; otherwise why not.
    pub(crate) fn fits(&self, kind: Kind) -> Result<(), String> {
        let writes = matches!(kind, Kind::Bandwidth | Kind::Rate);
        if self.write_bytes.is_some() && !writes {
            return Err("the size of a write has no meaning for this test".into());
        }
        if self.crc && !writes && kind != Kind::Latency {
            return Err("`crc` is for latency, bandwidth and rate".into());
        }
        Ok(())
    }

    /// Bytes of each write.
    pub(crate) fn write_bytes(&self) -> usize {
        self.write_bytes.unwrap_or(self.message_bytes)
    }

    /// Reads all bytes once more, if the variant says so: those to write, or those that were read.
    pub(crate) fn check(&self, bytes: &[u8]) {
        if self.crc {
            hint::black_box(Crc32c::of(bytes));
        }
    }
}

/// The text before the size of buffers.
const BUFFERS: &str = "buffers=";

/// The size of a socket's buffers that a variant says, if it says one.
pub(crate) fn buffers(variant: &str) -> Result<Option<usize>, String> {
    let mut sizes = variant.split(':').filter_map(|word| word.strip_prefix(BUFFERS));
    let size = sizes.next().map(|size| size.parse().map(|Size(bytes)| bytes)).transpose();
    match sizes.next() {
        Some(_) => Err(format!("{variant:?} says twice how large buffers are")),
        None => size.map_err(|error| format!("{variant:?}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestants::sockets::Sockets;
    use crate::model::contestant::Contestant;
    use crate::model::job::tests::job;

    fn rate(variant: Option<&str>) -> Job {
        Job { kind: Kind::Rate, variant: variant.map(str::to_owned), ..job() }
    }

    #[test]
    fn a_variant_says_how_much_is_written_and_whether_it_is_checked() {
        let read = |words| Variant::of(&rate(words)).map(|variant| (variant.write_bytes(), variant.crc));
        assert_eq!(read(None), Ok((8, false)));
        assert_eq!(read(Some("batched")), Ok((512, false)));
        assert_eq!(read(Some("256K")), Ok((256 << 10, false)));
        assert_eq!(read(Some("crc")), Ok((8, true)));
        assert_eq!(read(Some("256K:crc")), Ok((256 << 10, true)));
        for wrong in ["fast", "", "crc:crc", "256K:batched", "1K:2K", "crc:"] {
            assert!(read(Some(wrong)).unwrap_err().contains(&format!("{wrong:?}")), "{wrong}");
        }
    }

    #[test]
    fn buffers_are_of_the_kernels_sockets() {
        let read = |words| Variant::of_sockets(&rate(Some(words))).map(|it| (it.buffers, it.write_bytes(), it.crc));
        assert_eq!(read("buffers=4M"), Ok((Some(4 << 20), 8, false)));
        assert_eq!(read("256K:buffers=64K:crc"), Ok((Some(64 << 10), 256 << 10, true)));
        assert_eq!(read("crc"), Ok((None, 8, true)));
        for wrong in ["buffers=", "buffers=much", "buffers=1M:buffers=2M", "buffers=1M:fast"] {
            assert!(read(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
        assert!(Variant::of(&rate(Some("buffers=4M"))).unwrap_err().contains("mptcp"));
        let latency = Job { kind: Kind::Latency, ..rate(Some("buffers=4M")) };
        assert_eq!(Sockets::TCP.supports(&latency), Ok(()), "a socket has buffers in each test");
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let supports = |kind, variant| Sockets::TCP.supports(&Job { kind, ..rate(variant) });
        assert!(supports(Kind::Rate, Some("fast")).is_err());
        assert!(supports(Kind::Latency, Some("256K")).is_err());
        assert_eq!(supports(Kind::Latency, Some("crc")), Ok(()));
        assert!(supports(Kind::Duplex, Some("crc")).is_err());
        assert!(supports(Kind::Hiding, None).is_err());
    }
}
