use core::ptr::{self, NonNull};
use std::process::{Command, Stdio};
use std::rc::Rc;

use weft_base::NoDigest;

use super::*;
use crate::{Access, AtomicOperation, Buffer, Combine, Element, IoBuffer, Limits, LocalRight, MemoryError, Registry};

const PAGE: usize = 4096;

/// Pages that the test unmaps.
struct Pages {
    start: NonNull<u8>,
    length: usize,
}

impl Pages {
    fn new(count: usize, rights: i32) -> Self {
        let length = count * PAGE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: A new mapping, wherever there is room.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, rights, kind, -1, 0) };
        assert!(start != libc::MAP_FAILED);
        Self { start: NonNull::new(start.cast()).unwrap(), length }
    }

    fn writable(count: usize) -> Self {
        Self::new(count, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Nothing may be mapped there afterwards while the test touches it, so the addresses stay reserved.
    fn take_away(&self, from: usize) {
        // SAFETY: It is this test's own memory, to which there is no reference.
        let status =
            unsafe { libc::mprotect(self.start.as_ptr().add(from).cast(), self.length - from, libc::PROT_NONE) };
        assert_eq!(status, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: Nothing uses it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A region over memory that goes behind `left` bytes.
fn registered(pages: &Pages, access: Access) -> (Registry, crate::Region) {
    let registry = Registry::new(7, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    // SAFETY: The pages outlive the region; that they are taken away is what is tested.
    let memory = unsafe { Buffer::foreign_checked(pages.start, pages.length, true) }.unwrap();
    let region = registry.register(domain, memory, access, 0).unwrap();
    registry.pin(domain, region.slice(..).unwrap(), LocalRight::Read).unwrap();
    (registry, region)
}

fn is_fault<T: core::fmt::Debug>(result: Result<T, MemoryError>) -> bool {
    matches!(result, Err(MemoryError::Fault { .. }))
}

#[test]
#[cfg_attr(miri, ignore = "it has no signals")]
fn each_touch_of_memory_that_has_gone_is_an_error() {
    let pages = Pages::writable(64);
    let (registry, region) = registered(&pages, Access::LOCAL_WRITE);
    let whole = region.slice(..).unwrap();
    let mut long = vec![1; pages.length];
    registry.copy_in(&whole, &long, &mut NoDigest).unwrap();
    pages.take_away(PAGE);
    for length in [1, 2, 4, 8, 100, 5000, 100_000] {
        let slice = region.slice(PAGE as u64..(PAGE + length) as u64).unwrap();
        assert!(is_fault(registry.copy_in(&slice, &long[..length], &mut NoDigest)), "{length}");
        assert!(is_fault(registry.copy_out(&slice, &mut long[..length], &mut NoDigest)), "{length}");
        assert!(is_fault(registry.digest(&slice, &mut Sum(0))), "{length}");
        assert!(is_fault(registry.resolve(&slice).unwrap().copy_in(0, &long[..length], &mut NoDigest)), "{length}");
        assert!(is_fault(registry.resolve(&slice).unwrap().copy_out(0, &mut long[..length], &mut NoDigest)));
    }
    assert!(is_fault(registry.copy_in(&whole, &long, &mut NoDigest)), "in the middle of it");
    let word = region.slice(PAGE as u64..PAGE as u64 + 8).unwrap();
    assert!(is_fault(registry.atomic(&word, AtomicOperation::FetchAdd { add: 1, mask: 0 })));
    // What is left is whole, and reached as before.
    let left = region.slice(..PAGE as u64).unwrap();
    registry.copy_in(&left, &long[..PAGE], &mut NoDigest).unwrap();
    registry.copy_out(&left, &mut long[..PAGE], &mut NoDigest).unwrap();
}

/// A fault abandons the copy of one part, and never the caller's iterator.
#[test]
#[cfg_attr(miri, ignore = "it has no signals")]
fn what_an_iterator_of_parts_owns_is_dropped_where_memory_has_gone() {
    let pages = Pages::writable(4);
    let (registry, region) = registered(&pages, Access::LOCAL_WRITE);
    pages.take_away(2 * PAGE);
    for length in [4000, 9000] {
        let slice = region.slice((2 * PAGE - 3000) as u64..(2 * PAGE - 3000 + length) as u64).unwrap();
        let (owned, bytes, mut out) = (Rc::new(()), vec![7; length], vec![0xa5; length]);
        let held = Rc::clone(&owned);
        let parts = bytes.chunks(1000).inspect(move |_| assert_eq!(Rc::strong_count(&held), 2));
        assert!(is_fault(registry.copy_in_parts(&slice, parts)), "{length}");
        assert_eq!(Rc::strong_count(&owned), 1, "{length}");
        let (mut reported, parts) = (0, out.chunks_mut(1000).map(|part| (part, Rc::clone(&owned))));
        assert!(is_fault(registry.copy_out_parts(&slice, parts, |_, _: NoDigest| reported += 1)), "{length}");
        assert_eq!((reported, Rc::strong_count(&owned)), (3, 1), "{length}");
        assert!(out[..3000].iter().all(|byte| *byte == 7), "{length}");
    }
}

/// A digest that reads each byte.
struct Sum(u64);

impl weft_base::Digest for Sum {
    fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| sum.wrapping_add(u64::from(*byte)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "it has no signals")]
fn an_operation_on_wide_elements_that_have_gone_leaves_its_lock() {
    let pages = Pages::writable(2);
    let (registry, region) = registered(&pages, Access::LOCAL_WRITE);
    pages.take_away(PAGE);
    let (there, gone) = (region.slice(..16).unwrap(), region.slice(PAGE as u64..PAGE as u64 + 16).unwrap());
    for (element, operation) in [(Element::ComplexF64, Combine::Sum), (Element::F64AndI32, Combine::Max)] {
        let combine = |slice| registry.combine(slice, element, operation, &[1; 16], &[], &mut []);
        for _ in 0..3 {
            // Both have the same lock: their addresses have the same remainder.
            assert!(is_fault(combine(&gone)), "{element:?}");
            combine(&there).unwrap();
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "it has no signals")]
fn memory_that_was_lent_may_go_too() {
    let pages = Pages::writable(2);
    watch_faults();
    // SAFETY: As for `registered`.
    let mut lent = unsafe { IoBuffer::foreign(pages.start, pages.length) };
    lent.copy_in(0, &[3; 100], &mut NoDigest).unwrap();
    pages.take_away(PAGE);
    let mut bytes = [0; 200];
    assert!(is_fault(lent.copy_out(PAGE - 100, &mut bytes, &mut NoDigest)));
    assert!(is_fault(lent.copy_in(PAGE - 100, &bytes, &mut NoDigest)));
    lent.copy_out(0, &mut bytes[..100], &mut NoDigest).unwrap();
    assert_eq!(bytes[..100], [3; 100]);
}

#[test]
#[cfg_attr(miri, ignore = "it has no signals")]
fn a_file_that_becomes_shorter_takes_the_memory_along() {
    let path = std::env::temp_dir().join(format!("weft-memory-guard-{}", std::process::id()));
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(2 * PAGE as u64).unwrap();
    let pages = Pages::writable(2);
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: It takes the place of the test's own pages.
    let start = unsafe { libc::mmap(pages.start.as_ptr().cast(), pages.length, rights, kind, descriptor, 0) };
    assert!(start != libc::MAP_FAILED);
    let (registry, region) = registered(&pages, Access::LOCAL_WRITE);
    file.set_len(0).unwrap();
    // SIGBUS.
    assert!(is_fault(registry.copy_in(&region.slice(..8).unwrap(), &[1; 8], &mut NoDigest)));
}

#[test]
#[cfg_attr(miri, ignore = "it has no mappings")]
fn what_is_not_there_or_not_writable_is_not_registered() {
    let read_only = Pages::new(2, libc::PROT_READ);
    let nothing = Pages::new(2, libc::PROT_NONE);
    let long = Pages::writable(100);
    // SAFETY: It is dropped at once.
    let checked = |pages: &Pages, writable| unsafe { Buffer::foreign_checked(pages.start, pages.length, writable) };
    checked(&read_only, false).unwrap();
    let refused = checked(&read_only, true).unwrap_err();
    assert!(matches!(refused, MemoryError::Unusable { writable: true, .. }), "{refused}");
    assert!(checked(&nothing, false).is_err());
    checked(&long, true).unwrap();
    long.take_away(99 * PAGE);
    assert!(checked(&long, false).is_err());
}

/// Runs itself with `WEFT_FAULT` set: what happens then ends the process.
fn outcome_of(name: &str) -> (Option<i32>, String) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "guard::tests::a_fault_of_somebody_else_ends_the_process", "--nocapture"]);
    child.env("WEFT_FAULT", name).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = child.output().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    (signal, String::from_utf8_lossy(&output.stderr).into_owned())
}

unsafe extern "C" fn report(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
    let text = b"the program's own handler\n";
    // SAFETY: Both may be called in a handler.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
    }
}

fn install_own() {
    let handler: unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) = report;
    // SAFETY: A plain structure; the handler does what handlers may.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
    }
}

#[test]
#[cfg_attr(miri, ignore = "it has no signals")]
fn a_fault_of_somebody_else_ends_the_process() {
    let pages = Pages::writable(1);
    let Ok(kind) = std::env::var("WEFT_FAULT") else {
        for kind in ["plain", "inside", "before", "over", "both"] {
            let (signal, text) = outcome_of(kind);
            assert_eq!(signal, Some(libc::SIGSEGV), "{kind}: {text}");
            let is_told = text.matches("the program's own handler").count();
            assert_eq!(is_told, usize::from(!["plain", "inside"].contains(&kind)), "{kind}: {text}");
        }
        return;
    };
    if ["before", "both"].contains(&kind.as_str()) {
        install_own();
    }
    watch_faults();
    if ["over", "both"].contains(&kind.as_str()) {
        install_own();
        watch_faults();
    }
    pages.take_away(0);
    let read = || {
        // SAFETY: It faults, which is what is tested.
        unsafe { pages.start.read_volatile() }
    };
    // A recovery point for other memory does not catch it.
    let other = Pages::writable(1);
    if kind == "inside" {
        // SAFETY: The work may stop anywhere.
        let _ = unsafe { touch(other.start, PAGE, read) };
    }
    read();
}
