//! How a program on plain sockets writes, and whether it checks what it moves.

use std::hint;

use weft_wire::Crc32c;

use crate::model::job::{Job, Kind};
use crate::model::size::Size;

/// What is behind the name: `256K`, `batched`, `crc`, or one of the first two and `crc`, with a colon between them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// Bytes of each write, when they are not those of a message.
    write_bytes: Option<usize>,
    message_bytes: usize,
    crc: bool,
}

impl Variant {
    /// The one that a job names.
    pub(crate) fn of(job: &Job) -> Result<Self, String> {
        let mut variant = Self { write_bytes: None, message_bytes: job.size, crc: false };
        for word in job.variant.iter().flat_map(|words| words.split(':')) {
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
                    "{whole:?} is no variant of sockets; there are `batched` or a size such as 256K, `crc`, and both (256K:crc)"
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
    fn what_has_no_meaning_is_refused() {
        let supports = |kind, variant| Sockets::TCP.supports(&Job { kind, ..rate(variant) });
        assert!(supports(Kind::Rate, Some("fast")).is_err());
        assert!(supports(Kind::Latency, Some("256K")).is_err());
        assert_eq!(supports(Kind::Latency, Some("crc")), Ok(()));
        assert!(supports(Kind::Duplex, Some("crc")).is_err());
        assert!(supports(Kind::Hiding, None).is_err());
    }
}
