//! Devices: one for each interface of this host that others can be reached by.

mod files;
mod interfaces;
mod presentation;
mod report;

pub(crate) use files::read_file;
pub use files::write_files;
pub(crate) use interfaces::{Interface, Shown, at_index, find, has_six, shown};
pub(crate) use presentation::Presentation;
pub(crate) use report::{device_attributes, gid, guid, port_attributes};
