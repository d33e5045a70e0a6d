//! Making a window of Weft's: all ranks agree, or none has one.

use core::ffi::{CStr, c_char, c_int};
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use weft::group::{Group, GroupError};
use weft::window::{Team, WindowOptions};
use weft_fi::for_preload::{self, ProcessNic};
use weft_memory::Buffer;

use crate::abi::{Family, Handle, abi};
use crate::library;
use crate::operation::{OPERATIONS, Scratch};
use crate::served::{FOREVER, Part, Served};

/// This rank's part of a window that the library has just made.
pub(crate) struct Offer {
    pub(crate) base: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) unit: u64,
    pub(crate) info: Handle,
    pub(crate) comm: Handle,
}

/// The NIC of this process: the provider's, if the MPI library uses that.
static NIC: Mutex<Option<ProcessNic>> = Mutex::new(None);

fn nic() -> Result<ProcessNic, String> {
    let mut nic = NIC.lock().map_err(|_| "a thread has failed while it opened the NIC")?;
    match &*nic {
        Some(open) => Ok(open.clone()),
        None => Ok(nic.insert(for_preload::nic()?).clone()),
    }
}

/// Whose the NIC is, for the report; nothing if there is none.
pub(crate) fn whose_nic() -> &'static str {
    match NIC.lock().ok().and_then(|nic| nic.as_ref().map(|nic| nic.is_providers)) {
        Some(true) => "; by the NIC of libweft-fi.so",
        Some(false) => "; by a NIC of its own",
        None => "",
    }
}

/// Closes the NIC.
pub(crate) fn close() {
    if let Ok(mut nic) = NIC.lock() {
        nic.take();
    }
}

/// Makes Weft's windows over this memory, if all ranks of the communicator can. All of them call it.
pub(crate) fn make(offer: &Offer) -> Option<Served> {
    if let Family::Later(version) = abi().family {
        // All ranks have it, and Weft cannot call its functions.
        return complain(format!("version {version} of MPI's standard ABI is none that Weft knows: it knows 1"));
    }
    let (comm, size) = (offer.comm, size_of_comm(offer.comm)?);
    let ready = may(offer);
    if !all_at_last(comm, size, ready.is_ok()) {
        return ready.map_or_else(complain, |_| None);
    }
    let (nic, own) = (ready.ok()?, duplicate(comm));
    if !all(comm, size, own.is_some()) {
        return None;
    }
    let own = own?;
    let team = team(&nic, own, size);
    if !all(own, size, team.is_ok()) {
        return team.map_or_else(complain, |_| None);
    }
    let team = team.ok()?;
    let served = windows(team, offer, own, size);
    if !all(own, size, served.is_ok()) {
        return served.map_or_else(complain, |_| None);
    }
    served.ok()
}

/// Says why this rank can't. A reason without words is the user's own wish.
fn complain<T>(reason: String) -> Option<T> {
    if !reason.is_empty() {
        crate::report::say(&format!("the MPI library serves this window, for all ranks: {reason}"));
    }
    None
}

/// Whether this rank wants to, and can.
fn may(offer: &Offer) -> Result<ProcessNic, String> {
    let is_off = |value: &str| matches!(value.trim().to_ascii_lowercase().as_str(), "off" | "0" | "no" | "false");
    if std::env::var("WEFT_MPI").is_ok_and(|value| is_off(&value))
        || info(offer.info).is_some_and(|value| is_off(&value))
    {
        return Err(String::new());
    }
    let mut between = 0;
    // SAFETY: It can be written.
    if unsafe { library::Comm_test_inter(offer.comm, &raw mut between) } != 0 || between != 0 {
        return Err("it is of an inter-communicator".to_owned());
    }
    if offer.bytes > 0 && offer.base.is_null() {
        return Err("it has bytes and no address".to_owned());
    }
    nic()
}

/// What the info key `weft` says.
fn info(info: Handle) -> Option<String> {
    let abi = abi();
    if abi.handle(info) == abi.info_null {
        return None;
    }
    let (mut value, mut flag): ([c_char; 16], c_int) = ([0; 16], 0);
    // SAFETY: A C string; there is room for 15 characters and the zero.
    let code = unsafe { library::Info_get(info, c"weft".as_ptr(), 15, value.as_mut_ptr(), &raw mut flag) };
    // SAFETY: The last one stays zero.
    (code == 0 && flag != 0).then(|| unsafe { CStr::from_ptr(value.as_ptr()) }.to_string_lossy().into_owned())
}

fn size_of_comm(comm: Handle) -> Option<usize> {
    let mut size = 0;
    // SAFETY: It can be written.
    let code = unsafe { library::Comm_size(comm, &raw mut size) };
    usize::try_from(size).ok().filter(|_| code == 0)
}

fn duplicate(comm: Handle) -> Option<Handle> {
    let mut own = 0;
    // SAFETY: It can be written; a handle of 4 bytes takes its lower half.
    (unsafe { library::Comm_dup(comm, &raw mut own) } == 0).then_some(own)
}

/// How long the first answer of all ranks may take until this one says what may be the reason.
const PATIENCE: Duration = Duration::from_secs(5);

/// As [`all`], for the first question about a window. A rank without this library never answers, and continues with
/// calls of its own. Nothing can be requested from that rank: the others say what is wrong, once, and wait on.
fn all_at_last(comm: Handle, size: usize, origin: bool) -> bool {
    let (origin, mut all) = (u8::from(origin), vec![0_u8; size]);
    let (mut request, mut flag, mut status, byte) = (0, 0, [0_u64; 8], abi().byte);
    let to = all.as_mut_ptr().cast();
    // SAFETY: There is room for a byte of each rank, and all stays where it is until the request is over. A handle of 4
    // bytes takes the request's lower half.
    let mut code =
        unsafe { library::Iallgather((&raw const origin).cast(), 1, byte, to, 1, byte, comm, &raw mut request) };
    let (start, mut has_told) = (Instant::now(), false);
    while code == 0 && flag == 0 {
        // SAFETY: All can be written, and a status has at most 40 bytes.
        code = unsafe { library::Test(&raw mut request, &raw mut flag, status.as_mut_ptr().cast()) };
        if flag == 0 && !has_told && start.elapsed() > PATIENCE {
            has_told = true;
            crate::report::say(&format!(
                "rank {}: a window is made, and for {PATIENCE:?} some ranks have not said whether Weft may serve it: \
                 preload libweft-mpi.so in all ranks of the job, or in none",
                crate::windows::rank()
            ));
        }
        std::thread::yield_now();
    }
    code == 0 && all.iter().all(|one| *one == 1)
}

/// Whether all ranks say yes.
fn all(comm: Handle, size: usize, origin: bool) -> bool {
    gather(comm, size, &[u8::from(origin)]).is_some_and(|all| all.iter().all(|one| *one == 1))
}

/// Bytes of all ranks, as many of each.
fn gather(comm: Handle, size: usize, origin: &[u8]) -> Option<Vec<u8>> {
    let mut all = vec![0; origin.len() * size];
    let (count, byte) = (c_int::try_from(origin.len()).ok()?, abi().byte);
    // SAFETY: There is room for as many bytes of each rank.
    let code =
        unsafe { library::Allgather(origin.as_ptr().cast(), count, byte, all.as_mut_ptr().cast(), count, byte, comm) };
    (code == 0).then_some(all)
}

/// Bytes of all ranks, in any number.
fn gather_any(comm: Handle, size: usize, origin: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
    let failed = || GroupError::Told("the MPI library's own all-gather has failed".to_owned());
    let lengths = gather(comm, size, &(origin.len() as u32).to_ne_bytes()).ok_or_else(failed)?;
    let lengths = lengths.chunks_exact(4).map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let lengths: Vec<usize> = lengths.map(|length| length as usize).collect();
    let most = lengths.iter().copied().max().unwrap_or_default().max(1);
    let mut padded = origin.to_vec();
    padded.resize(most, 0);
    let all = gather(comm, size, &padded).ok_or_else(failed)?;
    Ok(all.chunks_exact(most).zip(lengths).map(|(bytes, length)| bytes[..length].to_vec()).collect())
}

/// The ranks, connected. A rank that can't open an endpoint still takes part in the exchange, or the others would wait.
fn team(nic: &ProcessNic, comm: Handle, size: usize) -> Result<Team, String> {
    let mut rank = 0;
    // SAFETY: It can be written.
    let code = unsafe { library::Comm_rank(comm, &raw mut rank) };
    let rank = if code == 0 { rank.max(0) as usize } else { 0 };
    let (told, has_told) = std::sync::mpsc::channel();
    let exchange = move |bytes: &[u8]| {
        let _ = told.send(());
        gather_any(comm, size, bytes)
    };
    let attributes = for_preload::endpoint_attributes();
    let team = attributes.and_then(|attributes| {
        let mut group = Group::over(rank, size, exchange).map_err(|error| error.to_string())?;
        Team::new(&nic.context, &mut group, &attributes).map_err(|error| error.to_string())
    });
    if has_told.try_recv().is_err() {
        let _ = gather_any(comm, size, &[]);
    }
    let team = team?;
    let longest = if nic.is_providers { LONGEST_BESIDE } else { LONGEST };
    team.while_waiting(longest, move || progress(comm));
    Ok(team)
}

/// How long a rank waits, at most, before it lets the library make progress. The library's messages over the provider
/// are matched and moved by the NIC, which this rank runs while it waits, if the NIC is the provider's: then only what
/// the library moves by itself depends on it, as messages through its own shared memory.
const LONGEST: Duration = Duration::from_micros(100);
const LONGEST_BESIDE: Duration = Duration::from_millis(1);

/// Lets the library make progress: other ranks may wait in it for what this one has begun to send.
fn progress(comm: Handle) {
    let (mut flag, mut status, abi) = (0, [0_u64; 8], abi());
    // SAFETY: Both can be written, and a status has at most 40 bytes. No rank sends by this communicator.
    unsafe {
        library::Iprobe(abi.any_source, abi.any_tag, comm, &raw mut flag, status.as_mut_ptr().cast());
    }
}

fn windows(team: Team, offer: &Offer, comm: Handle, size: usize) -> Result<Served, String> {
    let words = |error: weft::window::Error| error.to_string();
    let options = WindowOptions { operations: OPERATIONS, limit: FOREVER, ..WindowOptions::default() };
    let make = || match NonNull::new(offer.base).filter(|_| offer.bytes > 0) {
        // SAFETY: MPI says that the memory stays the window's until it is freed, and that a program that touches it
        // meanwhile does so in other epochs.
        Some(base) => team.create(unsafe { Buffer::foreign(base, offer.bytes) }, &options),
        None => team.allocate(0, &options),
    };
    let fences = make();
    let between = make();
    let origin = [(offer.bytes as u64).to_ne_bytes(), offer.unit.to_ne_bytes()].concat();
    let parts = gather(comm, size, &origin).ok_or("the MPI library's own all-gather has failed")?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let part = |bytes: &[u8]| Part { bytes: number(&bytes[..8]), unit: number(&bytes[8..]) };
    Ok(Served {
        fences: fences.map_err(words)?,
        between: between.map_err(words)?,
        team,
        comm,
        parts: parts.chunks_exact(16).map(part).collect(),
        locked: vec![false; size],
        started: vec![false; size],
        has_posted: false,
        has_all: false,
        under_way: Default::default(),
        scratch: Scratch::default(),
    })
}
