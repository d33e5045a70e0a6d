//! How peers address regions.

use core::ffi::c_int;

use weft::verbs::{Access, Stag};
use weft_libfabric::abi::errno::FI_EKEYREJECTED;
use weft_libfabric::abi::{FI_MR_BASIC, FI_MR_PROV_KEY, FI_MR_SCALABLE, FI_MR_UNSPEC, FI_MR_VIRT_ADDR, fi_version};

use crate::errno::Errno;

/// Before this version there were two modes of registration, and an unspecified one.
const MODE_BITS: u32 = fi_version(1, 5);

/// How peers address regions and places in them, from `domain_attr.mr_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// By virtual addresses; otherwise a region begins at 0.
    pub(crate) by_address: bool,
    /// Keys are chosen by the application; otherwise it reads them from the region.
    own_keys: bool,
}

impl Registration {
    /// From these modes. Without attributes, what this provider prefers.
    pub(crate) const fn new(version: u32, modes: Option<c_int>) -> Self {
        match modes {
            None | Some(FI_MR_BASIC) => Self { by_address: true, own_keys: false },
            Some(FI_MR_UNSPEC) if version < MODE_BITS => Self { by_address: true, own_keys: false },
            Some(FI_MR_SCALABLE) => Self { by_address: false, own_keys: true },
            Some(modes) => Self { by_address: modes & FI_MR_VIRT_ADDR != 0, own_keys: modes & FI_MR_PROV_KEY == 0 },
        }
    }

    /// The STag of a region that peers may access, if the application has to choose it.
    pub(crate) fn stag(self, access: Access, requested_key: u64) -> Result<Option<Stag>, Errno> {
        if !self.own_keys || !access.is_remote() {
            return Ok(None);
        }
        // More bytes than `mr_key_size`.
        u32::try_from(requested_key).map(|key| Some(Stag(key))).map_err(|_| Errno(FI_EKEYREJECTED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_decide_which_side_chooses_keys() {
        let new = |version, modes| {
            let registration = Registration::new(version, modes);
            (registration.by_address, registration.own_keys)
        };
        let (now, old) = (MODE_BITS, fi_version(1, 4));
        assert_eq!(new(now, None), (true, false));
        assert_eq!([new(now, Some(FI_MR_BASIC)), new(now, Some(FI_MR_SCALABLE))], [(true, false), (false, true)]);
        assert_eq!([new(now, Some(FI_MR_UNSPEC)), new(old, Some(FI_MR_UNSPEC))], [(false, true), (true, false)]);
        assert_eq!(new(now, Some(FI_MR_VIRT_ADDR)), (true, true));
        assert_eq!(new(now, Some(FI_MR_PROV_KEY)), (false, false));
    }

    #[test]
    fn keys_are_chosen_for_what_peers_reach() {
        let own = Registration { by_address: false, own_keys: true };
        assert_eq!(own.stag(Access::REMOTE_READ, 7), Ok(Some(Stag(7))));
        assert_eq!(own.stag(Access::LOCAL_WRITE, 7), Ok(None));
        assert_eq!(own.stag(Access::REMOTE_READ, 1 << 32), Err(Errno(FI_EKEYREJECTED)));
        assert_eq!(Registration { own_keys: false, ..own }.stag(Access::REMOTE_READ, 1 << 32), Ok(None));
    }
}
