//! A long way between two networks, on one machine: real traffic of any program goes through the links of a scenario.
//!
//! A [`Wan`] is two hosts and what lies between them, in namespaces of their own, made without root; it is gone when
//! the process that made it has ended, in whatever way. [`Attached`] is the same in front of interfaces that are there.
//!
//! Packets are carried in one of two ways ([`Kind`]). By the kernel's packet queues, behind the routing decision of a
//! router between two IP networks: packets of IP alone, and super-packets whole where nothing is about single ones. Or
//! by packet rings between two Ethernet interfaces: every frame, of whatever protocol.
//!
//! A process of its own carries them ([`serve()`]). It stamps each packet when it takes it in, and the links of
//! `weft-emulate` say when it leaves. How much later than that it did is in the [`Report`].
//!
//! [`check_emulator`] sends paced streams and TCP through both carriers, and judges what they got by what was set.
#![forbid(unsafe_code)]

mod attach;
mod carrier;
mod check;
mod ecn;
mod engine;
mod error;
mod files;
mod guard;
mod process;
mod queue;
mod report;
mod rings;
mod serve;
mod wan;

pub use attach::Attached;
pub use check::{
    CHECK_PACKETS, CHECK_PACKETS_PER_S, CHECK_SCHEMA, CheckPlan, CheckPrograms, CheckProgress, CheckRow, CheckedCase,
    Checks, Verdict, check as check_emulator, serve_probe,
};
pub use error::WanError;
pub use process::CarrierProgram;
pub use report::{DirectionReport, Report};
pub use serve::serve;
pub use wan::{Plan, Wan, check};
pub use weft_lab::{Carrier as Kind, Lateness};
