//! What the two ends of a connection tell each other of themselves: the private data of a call and of its answer.
//!
//! | bytes | what |
//! |---|---|
//! | 0-7 | `WEFTVRB`, and the version |
//! | 8-23 | GID of the sender |
//! | 24-39 | GID of the receiver |
//! | 40-43 | queue pair of the sender |
//! | 44-47 | queue pair of the receiver |
//! | 48-51 | PSN that the sender expects (`rq_psn`) |
//! | 52-55 | PSN that the sender begins with (`sq_psn`); the top bit: it is known yet |
//! | 56 | type of the queue pair, as libibverbs numbers them |
//! | 57 | low 3 bits: path MTU, as libibverbs numbers them; the others: `min_rnr_timer` of the sender |
//! | 58 | initiator depth |
//! | 59 | responder resources |
//! | 60-63 | random, tells one call from another |
//!
//! Numbers are big-endian. A refusal is one byte ([`Refusal`]).

use std::net::{IpAddr, Ipv6Addr};

use crate::queue_pair::Target;

const MAGIC: [u8; 7] = *b"WEFTVRB";
const VERSION: u8 = 1;
const KNOWN: u32 = 1 << 31;
/// Bits of the path MTU; above them is the number of the timer.
const MTU_BITS: u32 = 3;

/// One end, as the other is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) from: Target,
    pub(crate) random: u32,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Refusal {
    /// There is no such queue pair, or too many calls wait: it may be tried again.
    NotThere = 1,
    /// The queue pair is, or is to be, connected to another one: it may be tried again.
    Other = 2,
    /// PSN, type or version differ.
    Differs = 3,
    /// The call did not come from the address that it names.
    Stranger = 4,
}

impl Refusal {
    const ALL: [Self; 4] = [Self::NotThere, Self::Other, Self::Differs, Self::Stranger];

    /// As it travels.
    pub(crate) fn bytes(self) -> [u8; 1] {
        [self as u8]
    }

    /// The refusal of these bytes, if it is one that is known.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let &[code] = bytes else { return None };
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == code)
    }

    /// Whether another attempt would be refused as well. A queue pair with another peer may be reset, and connected to
    /// the caller: a program that begins anew comes before the other end knows of it.
    pub(crate) fn is_final(self) -> bool {
        !matches!(self, Self::NotThere | Self::Other)
    }

    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NotThere => "there is no such queue pair yet",
            Self::Other => "the queue pair there is connected, or is to be connected, to another one",
            Self::Differs => "PSN, type of the queue pair or version of Weft differ",
            Self::Stranger => {
                "the call came from another address than its GID says: translation of addresses (NAT) lies between"
            }
        }
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
        IpAddr::V6(six) => six.octets(),
    }
}

/// The name of an end, by which the two are told apart: GID and number, as bytes.
pub(crate) fn name(address: IpAddr, number: u32) -> ([u8; 16], [u8; 4]) {
    (octets(address), number.to_be_bytes())
}

impl Record {
    /// Bytes of a record.
    pub(crate) const LENGTH: usize = 64;

    /// As it travels.
    pub(crate) fn bytes(&self) -> [u8; Self::LENGTH] {
        let from = &self.from;
        let mut bytes = [0; Self::LENGTH];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8..24].copy_from_slice(&octets(from.own_address));
        bytes[24..40].copy_from_slice(&octets(from.address));
        let send_psn = from.send_psn.map_or(0, |psn| psn | KNOWN);
        for (at, number) in
            [(40, from.own_number), (44, from.number), (48, from.receive_psn), (52, send_psn), (60, self.random)]
        {
            bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        bytes[56] = from.kind;
        bytes[57] = from.path_mtu | from.rnr_timer << MTU_BITS;
        bytes[58] = from.initiator_depth;
        bytes[59] = from.responder_resources;
        bytes
    }

    /// The record of these bytes. `None`: they are none of this version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LENGTH] = bytes.try_into().ok()?;
        if bytes[..7] != MAGIC || bytes[7] != VERSION {
            return None;
        }
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let address = |at: usize| {
            let six = Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap_or_default());
            six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4)
        };
        let send_psn = number(52);
        Some(Self {
            from: Target {
                own_address: address(8),
                own_number: number(40),
                address: address(24),
                number: number(44),
                receive_psn: number(48),
                send_psn: (send_psn & KNOWN != 0).then_some(send_psn & !KNOWN),
                kind: bytes[56],
                path_mtu: bytes[57] & ((1 << MTU_BITS) - 1),
                rnr_timer: bytes[57] >> MTU_BITS,
                initiator_depth: bytes[58],
                responder_resources: bytes[59],
            },
            random: number(60),
        })
    }

    /// Whether the end that sent this and `own` are each other's.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn fits(&self, own: &Target) -> Result<(), Refusal> {
        let from = &self.from;
        let is_its_own = (from.own_address, from.own_number) == (own.address, own.number)
            && (from.address, from.number) == (own.own_address, own.own_number);
        if !is_its_own {
            return Err(Refusal::Other);
        }
        let agrees = |sends: Option<u32>, expects: u32| sends.is_none_or(|psn| psn == expects);
        let psns_agree = agrees(from.send_psn, own.receive_psn) && agrees(own.send_psn, from.receive_psn);
        if from.kind == own.kind && psns_agree { Ok(()) } else { Err(Refusal::Differs) }
    }
}

#[cfg(test)]
mod tests {
    use weft_base::Random;

    use super::*;

    fn target() -> Target {
        Target {
            own_address: "192.0.2.1".parse().unwrap(),
            own_number: 0x12_3456,
            address: "192.0.2.2".parse().unwrap(),
            number: 0x65_4321,
            receive_psn: 0xab_cdef,
            send_psn: Some(7),
            kind: 2,
            path_mtu: 3,
            rnr_timer: 17,
            initiator_depth: 16,
            responder_resources: 128,
        }
    }

    fn other() -> Target {
        let one = target();
        Target {
            own_address: one.address,
            own_number: one.number,
            address: one.own_address,
            number: one.own_number,
            receive_psn: 7,
            send_psn: Some(0xab_cdef),
            ..one
        }
    }

    #[test]
    fn a_record_travels_as_it_is_described() {
        let record = Record { from: target(), random: 0xdead_beef };
        let bytes = record.bytes();
        assert_eq!(&bytes[..8], b"WEFTVRB\x01");
        assert_eq!(&bytes[18..24], &[0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(&bytes[40..56], &[0, 0x12, 0x34, 0x56, 0, 0x65, 0x43, 0x21, 0, 0xab, 0xcd, 0xef, 0x80, 0, 0, 7]);
        assert_eq!(&bytes[56..], &[2, 17 << 3 | 3, 16, 128, 0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(Record::parse(&bytes), Some(record));
    }

    #[test]
    fn what_is_no_record_is_none() {
        let bytes = Record { from: target(), random: 0 }.bytes();
        assert_eq!(Record::parse(&bytes[..63]), None, "cut");
        assert_eq!(Record::parse(&[&bytes[..], &[0]].concat()), None, "lengthened");
        assert_eq!(Record::parse(&[]), None);
        for at in 0..8 {
            let mut wrong = bytes;
            wrong[at] ^= 1;
            assert_eq!(Record::parse(&wrong), None, "byte {at}");
        }
    }

    #[test]
    fn bytes_of_chance_are_no_record_or_the_record_that_they_say() {
        let mut random = Random::new(1);
        let mut records = 0;
        for _ in 0..20_000 {
            let mut bytes = Record { from: target(), random: random.below(1 << 32) as u32 }.bytes().to_vec();
            match random.below(4) {
                0 => bytes.truncate(random.below(64) as usize),
                1 => bytes.extend((0..=random.below(100)).map(|byte| byte as u8)),
                _ => {}
            }
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len().max(1) as u64) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.below(256) as u8;
                }
            }
            let Some(record) = Record::parse(&bytes) else { continue };
            records += 1;
            // A PSN that is not known is not kept; all else comes back as it was.
            let again = record.bytes();
            let is_known = bytes[52] & 0x80 != 0;
            assert!(again[..52] == bytes[..52] && again[56..] == bytes[56..], "{bytes:?}");
            assert!(!is_known || again[52..56] == bytes[52..56], "{bytes:?}");
            assert_eq!(Record::parse(&again), Some(record));
            assert!(record.fits(&other()).is_ok() || record.from != target(), "{record:?}");
        }
        assert!(records > 1000, "{records}");
    }

    #[test]
    fn two_ends_must_be_each_others() {
        let record = |from| Record { from, random: 0 };
        assert_eq!(record(other()).fits(&target()), Ok(()));
        let unknown = Target { send_psn: None, ..other() };
        assert_eq!(record(unknown).fits(&target()), Ok(()), "not known yet");
        for (wrong, why) in [
            (Target { own_number: 1, ..other() }, Refusal::Other),
            (Target { number: 1, ..other() }, Refusal::Other),
            (Target { own_address: "192.0.2.3".parse().unwrap(), ..other() }, Refusal::Other),
            (Target { kind: 3, ..other() }, Refusal::Differs),
            (Target { receive_psn: 8, ..other() }, Refusal::Differs),
            (Target { send_psn: Some(1), ..other() }, Refusal::Differs),
        ] {
            assert_eq!(record(wrong).fits(&target()), Err(why), "{wrong:?}");
        }
    }

    #[test]
    fn refusals_travel() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::of(&refusal.bytes()), Some(refusal));
        }
        assert_eq!(Refusal::of(&[9]), None);
        assert_eq!(Refusal::of(&[]), None);
        assert!(!Refusal::NotThere.is_final() && !Refusal::Other.is_final() && Refusal::Differs.is_final());
    }
}
