//! `fi_domain`: a software NIC of its own, to which endpoints, queues, regions and address vectors belong.

pub(crate) mod opening;

use std::sync::{Arc, OnceLock};

use weft::endpoint::EndpointSettings;
use weft::verbs::{Context, Progress, ProtectionDomain};
use weft_libfabric::abi::{FI_CLASS_DOMAIN, fid_domain};

use crate::addresses::Format;
use crate::border::{Header, Held, Object, Users};
use crate::fabric::Fabric;
use crate::process::Shared;
use crate::queue::EventQueue;
use crate::registration::Registration;
use crate::remote::RemoteCounters;

/// An opened domain.
#[repr(C)]
pub(crate) struct Domain {
    header: Header<fid_domain>,
    users: Users,
    fabric: Held<Fabric>,
    context: Context,
    /// Others in this process may use the NIC as long as it is there.
    _shared: Shared,
    progress: Progress,
    protection: ProtectionDomain,
    format: Format,
    settings: EndpointSettings,
    registration: Registration,
    /// The counters of peers' operations, if it was opened for them.
    remote: Option<Arc<RemoteCounters>>,
    events: OnceLock<Held<EventQueue>>,
}

// SAFETY: repr(C), and the header is first.
unsafe impl Object for Domain {
    type Fid = fid_domain;
    const CLASS: usize = FI_CLASS_DOMAIN;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Domain {
    /// The interface version that the application was built for.
    pub(crate) fn api_version(&self) -> u32 {
        self.fabric.api_version()
    }

    /// The NIC.
    pub(crate) const fn context(&self) -> &Context {
        &self.context
    }

    /// Which threads run the NIC.
    pub(crate) const fn runs(&self) -> Progress {
        self.progress
    }

    /// The protection domain of this domain's endpoints and regions.
    pub(crate) const fn protection(&self) -> &ProtectionDomain {
        &self.protection
    }

    /// The mode of registration.
    pub(crate) const fn registration(&self) -> Registration {
        self.registration
    }

    /// The counters of peers' operations, if the domain was opened with `FI_RMA_EVENT`.
    pub(crate) const fn remote(&self) -> Option<&Arc<RemoteCounters>> {
        self.remote.as_ref()
    }

    /// The format of addresses.
    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// The event queue for control operations of this domain's objects that have none of their own.
    pub(crate) fn events(&self) -> Option<&Held<EventQueue>> {
        self.events.get()
    }

    /// The user's settings, and defaults for the rest: the initial settings of an endpoint.
    pub(crate) const fn settings(&self) -> &EndpointSettings {
        &self.settings
    }
}
