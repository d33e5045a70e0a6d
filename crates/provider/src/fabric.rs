//! `fi_fabric`: where domains and event queues are opened.

pub(crate) mod opening;

use weft_libfabric::abi::{FI_CLASS_FABRIC, fid_fabric};

use crate::border::{Header, Object, Users};

/// An opened fabric.
#[repr(C)]
pub(crate) struct Fabric {
    header: Header<fid_fabric>,
    users: Users,
    api_version: u32,
}

// SAFETY: repr(C), and the header is first.
unsafe impl Object for Fabric {
    type Fid = fid_fabric;
    const CLASS: usize = FI_CLASS_FABRIC;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Fabric {
    /// The interface version that the application was built for, which decides the fields of its structures.
    pub(crate) const fn api_version(&self) -> u32 {
        self.api_version
    }
}
