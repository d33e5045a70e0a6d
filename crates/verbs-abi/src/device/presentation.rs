//! As what devices are shown: `WEFT_VERBS_TRANSPORT`.

use core::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use crate::abi::*;
use crate::log;

/// As what devices are shown. What is on the wire is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presentation {
    /// An adapter for RoCE v2: most programs know that best.
    Roce,
    /// An adapter for InfiniBand, for programs that know LIDs alone: a LID is the lower half of an IPv4 address.
    InfiniBand,
    /// An adapter for iWARP.
    Iwarp,
}

impl Presentation {
    const NAMES: [(&str, Self); 3] = [("roce", Self::Roce), ("ib", Self::InfiniBand), ("iwarp", Self::Iwarp)];

    /// What the user says, once for the process: RoCE if nothing.
    pub(crate) fn chosen() -> Self {
        static CHOSEN: OnceLock<Presentation> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let Ok(text) = std::env::var("WEFT_VERBS_TRANSPORT") else { return Self::Roce };
            Self::of_name(text.trim()).unwrap_or_else(|| {
                log::say(format_args!("WEFT_VERBS_TRANSPORT={text}: write roce, ib or iwarp; roce is taken"));
                Self::Roce
            })
        })
    }

    fn of_name(text: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, found)| found)
    }

    /// `IBV_NODE_*` and `IBV_TRANSPORT_*`.
    pub(crate) fn node_and_transport(self) -> (c_int, c_int) {
        match self {
            Self::Roce | Self::InfiniBand => (IBV_NODE_CA, IBV_TRANSPORT_IB),
            Self::Iwarp => (IBV_NODE_RNIC, IBV_TRANSPORT_IWARP),
        }
    }

    /// `IBV_LINK_LAYER_*`.
    pub(crate) fn link_layer(self) -> u8 {
        match self {
            Self::InfiniBand => IBV_LINK_LAYER_INFINIBAND,
            Self::Roce | Self::Iwarp => IBV_LINK_LAYER_ETHERNET,
        }
    }

    /// `IBV_GID_TYPE_*`.
    pub(crate) fn gid_type(self) -> u32 {
        match self {
            Self::Roce => IBV_GID_TYPE_ROCE_V2,
            Self::InfiniBand | Self::Iwarp => IBV_GID_TYPE_IB,
        }
    }

    /// The LID of an address; 0 where there are none.
    pub(crate) fn lid(self, address: IpAddr) -> u16 {
        match (self, address) {
            (Self::InfiniBand, IpAddr::V4(four)) => four.to_bits() as u16,
            _ => 0,
        }
    }

    /// The host of this LID in the same /16 as `own`. `None`: there are no LIDs, or it is none.
    pub(crate) fn host(self, own: IpAddr, lid: u16) -> Option<IpAddr> {
        match (self, own) {
            (Self::InfiniBand, IpAddr::V4(four)) if lid != 0 => {
                Some(IpAddr::V4(Ipv4Addr::from_bits(four.to_bits() & 0xffff_0000 | u32::from(lid))))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lid_is_a_host_of_the_same_network() {
        let [own, peer] = ["10.1.2.3", "10.1.255.7"].map(|text| text.parse::<IpAddr>().unwrap());
        let lid = Presentation::InfiniBand.lid(peer);
        assert_eq!((lid, Presentation::InfiniBand.host(own, lid)), (0xff07, Some(peer)));
        assert_eq!(Presentation::InfiniBand.host(own, 0), None);
        assert_eq!((Presentation::Roce.lid(peer), Presentation::Roce.host(own, lid)), (0, None));
    }

    #[test]
    fn names_are_read() {
        assert_eq!(Presentation::of_name("IB"), Some(Presentation::InfiniBand));
        assert_eq!(Presentation::of_name("rocev2"), None);
    }
}
