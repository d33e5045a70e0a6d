//! What a job asks of Weft's verbs: the operation, buffers, receives.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use weft::verbs::{MAX_INLINE, PortError};
use weft_command::switch::Switch;

use crate::contestants::isosurface::RING;
use crate::contestants::logp;
use crate::contestants::overlap::MOST_TRANSFERS;
use crate::contestants::weft::settings::Settings;
use crate::model::job::{Cache, Job, Kind, Operation, Role};
use crate::model::stack::Short;

/// How long the other side may take to connect.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// The operation that carries the data.
pub(crate) fn operation(job: &Job) -> Operation {
    if job.kind == Kind::Fetch {
        return Operation::Read;
    }
    let usual = match job.kind {
        Kind::Bandwidth | Kind::Duplex | Kind::Overlap | Kind::Inserted | Kind::Ratio | Kind::Isosurface => {
            Operation::Write
        }
        _ => Operation::Send,
    };
    // Streams both ways are beside exchanges in one test: the operation of the options is for those.
    job.operation.filter(|_| job.kind != Kind::Duplex).unwrap_or(usual)
}

/// Whether what comes takes a receive of its target.
pub(crate) fn takes_receives(operation: Operation) -> bool {
    matches!(operation, Operation::Send | Operation::Notify)
}

/// Whether messages are part of their work requests.
pub(crate) fn goes_inline(job: &Job) -> bool {
    let settings = Settings::of(job);
    job.size <= MAX_INLINE && settings.is_ok_and(|settings| settings.stack().short == Short::Inline)
}

/// Whether writes may be placed at the peer as they come.
pub(crate) fn is_unordered(job: &Job) -> bool {
    Settings::of(job).is_ok_and(|settings| settings.stack().order == Switch::Off)
}

/// Messages that this side receives into at a time.
pub(crate) fn receive_slots(job: &Job) -> usize {
    match (operation(job), job.kind, job.role()) {
        (Operation::Send | Operation::Notify, Kind::Latency | Kind::Connect, _) => 2,
        // A side may have answered before it was answered, and then once more.
        (Operation::Send, Kind::PingPing, _) => 3,
        (Operation::Send, Kind::LogP, _) => logp::receives(job),
        // At a target that never calls in, no receive is posted again.
        (Operation::Send, Kind::Overlap | Kind::Inserted | Kind::Ratio, Role::Passive) => MOST_TRANSFERS as usize,
        (Operation::Send, _, Role::Passive) => job.buffers(),
        _ => 0,
    }
}

/// Bytes that the caches do not hold: twice the largest of them, which is also twice what each side may have in it.
pub(crate) fn bytes_beyond_caches() -> usize {
    let largest = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").ok();
    let kilobytes = largest.and_then(|text| text.trim().strip_suffix('K')?.parse::<usize>().ok());
    (2 * (kilobytes.unwrap_or(32 << 10) << 10)).clamp(64 << 20, 512 << 20)
}

/// Buffers that messages follow each other through, on either side.
pub(crate) fn memory_slots(job: &Job) -> usize {
    if let Some(volume) = job.volume {
        return (RING * volume.slice_bytes()).div_ceil(job.size);
    }
    match (job.cache, job.kind) {
        (Cache::Out, _) => (bytes_beyond_caches() / job.size).max(1),
        (Cache::In, Kind::Overlap | Kind::Inserted | Kind::Ratio) => 1,
        (Cache::In, _) => receive_slots(job).max(1),
    }
}

/// Where the peer says that all is over, behind the messages.
pub(crate) fn flag_at(job: &Job) -> usize {
    (memory_slots(job) * job.size).next_multiple_of(8)
}

/// The first address of a host.
pub(crate) fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::NotFound, PortError::Unreachable.to_string());
    (host, port).to_socket_addrs()?.next().ok_or_else(none)
}
