//! `fi_domain`: a software NIC of its own, in which endpoints, queues, regions and address vectors belong together.

pub(crate) mod opening;

use std::sync::{Arc, OnceLock};

use weft::endpoint::EndpointSettings;
use weft::verbs::{Context, Progress, ProtectionDomain};
use weft_libfabric::abi::{FI_CLASS_DOMAIN, fid_domain};

use crate::addresses::Format;
use crate::border::{Header, Held, Object, Users};
use crate::fabric::Fabric;
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
    progress: Progress,
    protection: ProtectionDomain,
    format: Format,
    settings: EndpointSettings,
    registration: Registration,
    /// If it was opened for that, who counts what peers do.
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
    /// The version of the interface that the application was built for.
    pub(crate) fn api_version(&self) -> u32 {
        self.fabric.api_version()
    }

    /// The NIC.
    pub(crate) const fn context(&self) -> &Context {
        &self.context
    }

    /// Who runs the NIC.
    pub(crate) const fn runs(&self) -> Progress {
        self.progress
    }

    /// What endpoints and regions of this domain belong to.
    pub(crate) const fn protection(&self) -> &ProtectionDomain {
        &self.protection
    }

    /// How regions are named.
    pub(crate) const fn registration(&self) -> Registration {
        self.registration
    }

    /// Who counts what peers do, if the domain was opened with `FI_RMA_EVENT`.
    pub(crate) const fn remote(&self) -> Option<&Arc<RemoteCounters>> {
        self.remote.as_ref()
    }

    /// How addresses are written.
    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// Who is told of control operations of this domain's objects that have no event queue of their own.
    pub(crate) fn events(&self) -> Option<&Held<EventQueue>> {
        self.events.get()
    }

    /// What the user has set, and defaults for the rest: what an endpoint starts from.
    pub(crate) const fn settings(&self) -> &EndpointSettings {
        &self.settings
    }
}
