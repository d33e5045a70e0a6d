//! Opens endpoints that reach each other as C programs do, through the tables of functions alone.
#![allow(dead_code, reason = "each test file uses another part of it")]
#![allow(unreachable_pub, reason = "it is part of each test file, none of which anybody uses")]

use core::ffi::{CStr, c_int, c_void};
use core::mem::zeroed;
use core::ptr;
use std::ffi::CString;
use std::time::{Duration, Instant};

use libc::iovec;
use weft_libfabric::abi::errno::{FI_EAGAIN, FI_EAVAIL};
use weft_libfabric::abi::*;

/// Time limit of anything.
pub const LONG: Duration = weft_testing::PATIENCE;

pub const EAGAIN: isize = -(FI_EAGAIN as isize);
pub const EAVAIL: isize = -(FI_EAVAIL as isize);

/// Calls a function of an object's table: `call!(endpoint, msg, send, buffer, ...)`.
macro_rules! call {
    ($object:expr, $table:ident, $function:ident $(, $argument:expr)* $(,)?) => {{
        let object = $object;
        // SAFETY: The test passes valid arguments, and keeps them as long.
        unsafe { ((*(*object).$table).$function.unwrap())(object $(, $argument)*) }
    }};
}

/// Calls a function that takes the object as `fid`: `call_fid!(endpoint, ops, cancel, context)`.
macro_rules! call_fid {
    ($object:expr, $table:ident, $function:ident $(, $argument:expr)* $(,)?) => {{
        let object = $object;
        // SAFETY: As for `call`.
        unsafe { ((*(*object).$table).$function.unwrap())(object.cast() $(, $argument)*) }
    }};
}

/// Calls a function that all objects have: `control!(endpoint, control, FI_ENABLE, ...)`.
macro_rules! control {
    ($object:expr, $function:ident $(, $argument:expr)* $(,)?) => {{
        let object = $object.cast::<weft_libfabric::abi::fid>();
        // SAFETY: As for `call`.
        unsafe { ((*(*object).ops).$function.unwrap())(object $(, $argument)*) }
    }};
}

/// The parameters of a node.
#[derive(Clone, Copy)]
pub struct Wishes {
    pub caps: u64,
    pub version: u32,
    pub format: fi_cq_format,
    pub wait: fi_wait_obj,
    pub wait_cond: fi_cq_wait_cond,
    pub queue_size: usize,
    pub transmit_flags: u64,
    pub selective: u64,
    pub count: bool,
    /// `mr_mode`, from version 1.5 on.
    pub registration: c_int,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            caps: FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV | FI_MULTI_RECV,
            version: API_VERSION,
            format: FI_CQ_FORMAT_TAGGED,
            wait: FI_WAIT_UNSPEC,
            wait_cond: FI_CQ_COND_NONE,
            queue_size: 0,
            transmit_flags: 0,
            selective: 0,
            count: false,
            registration: FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT,
        }
    }
}

/// An endpoint with everything that it needs: its completions, sent and received, are on one queue.
pub struct Node {
    pub info: *mut fi_info,
    pub fabric: *mut fid_fabric,
    pub domain: *mut fid_domain,
    pub queue: *mut fid_cq,
    pub counter: *mut fid_cntr,
    pub vector: *mut fid_av,
    pub endpoint: *mut fid_ep,
    /// The other one's address.
    pub peer: fi_addr_t,
    pub version: u32,
}

impl Node {
    /// An enabled one.
    pub fn new(wishes: Wishes) -> Self {
        let node = Self::disabled(wishes);
        assert_eq!(control!(node.endpoint, control, FI_ENABLE, ptr::null_mut()), 0);
        node
    }

    /// One that is bound to everything that it needs.
    pub fn disabled(wishes: Wishes) -> Self {
        let mut node = Self::unbound(wishes);
        // SAFETY: Plain C structures, for which zeros are values.
        let (mut queue, mut vector, mut counter): (fi_cq_attr, fi_av_attr, fi_cntr_attr) = unsafe { zeroed() };
        queue.format = wishes.format;
        queue.wait_obj = wishes.wait;
        queue.wait_cond = wishes.wait_cond;
        queue.size = wishes.queue_size;
        vector.r#type = FI_AV_TABLE;
        counter.wait_obj = wishes.wait;
        let context = ptr::null_mut();
        assert_eq!(call!(node.domain, ops, cq_open, &raw mut queue, &raw mut node.queue, context), 0);
        assert_eq!(call!(node.domain, ops, av_open, &raw mut vector, &raw mut node.vector, context), 0);
        let flags = FI_TRANSMIT | FI_RECV | wishes.selective;
        assert_eq!(control!(node.endpoint, bind, node.queue.cast(), flags), 0);
        assert_eq!(control!(node.endpoint, bind, node.vector.cast(), 0), 0);
        if wishes.count {
            assert_eq!(call!(node.domain, ops, cntr_open, &raw mut counter, &raw mut node.counter, context), 0);
            let all = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
            assert_eq!(control!(node.endpoint, bind, node.counter.cast(), all), 0);
        }
        node
    }

    /// One that is bound to nothing.
    pub fn unbound(wishes: Wishes) -> Self {
        let info = info(wishes);
        let mut node = Self {
            info,
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
            queue: ptr::null_mut(),
            counter: ptr::null_mut(),
            vector: ptr::null_mut(),
            endpoint: ptr::null_mut(),
            peer: FI_ADDR_UNSPEC,
            version: wishes.version,
        };
        let context = ptr::null_mut();
        // SAFETY: An info of `fi_getinfo`, and room for an address.
        let opened = unsafe {
            (*(*info).fabric_attr).api_version = wishes.version;
            (*weft_fi::fi_prov_ini()).fabric.unwrap()((*info).fabric_attr, &raw mut node.fabric, context)
        };
        assert_eq!(opened, 0);
        assert_eq!(call!(node.fabric, ops, domain, info, &raw mut node.domain, context), 0);
        let mark = at(MARK);
        assert_eq!(call!(node.domain, ops, endpoint, info, &raw mut node.endpoint, mark), 0);
        node
    }

    /// Inserts another one's address. Returns its index.
    pub fn know(&mut self, other: &Self) -> fi_addr_t {
        self.know_endpoint(other.endpoint)
    }

    /// Inserts the address of an endpoint. Returns its index.
    pub fn know_endpoint(&mut self, endpoint: *mut fid_ep) -> fi_addr_t {
        let mut name = [0u8; 256];
        let mut length = name.len();
        assert_eq!(call_fid!(endpoint, cm, getname, name.as_mut_ptr().cast(), &raw mut length), 0);
        let mut address = FI_ADDR_UNSPEC;
        let (names, context) = (name.as_ptr().cast(), ptr::null_mut());
        assert_eq!(call!(self.vector, ops, insert, names, 1, &raw mut address, 0, context), 1);
        self.peer = address;
        address
    }

    /// Reads the queue once: as many entries as `read` says, or its error.
    pub fn poll(&self) -> Result<fi_cq_tagged_entry, isize> {
        // SAFETY: A plain C structure.
        let mut entry: fi_cq_tagged_entry = unsafe { zeroed() };
        match call!(self.queue, ops, read, (&raw mut entry).cast(), 1) {
            1 => Ok(entry),
            error => Err(error),
        }
    }

    /// The next completion, which must have succeeded.
    pub fn next(&self) -> fi_cq_tagged_entry {
        self.next_with(&[])
    }

    /// The next completion, while others run too.
    pub fn next_with(&self, others: &[&Self]) -> fi_cq_tagged_entry {
        let begin = Instant::now();
        loop {
            match self.poll() {
                Ok(entry) => return entry,
                Err(EAGAIN) => {}
                Err(EAVAIL) => panic!("failed: {}", self.failure().words),
                Err(error) => panic!("fi_cq_read says {error}"),
            }
            others.iter().for_each(|other| other.progress());
            assert!(begin.elapsed() < LONG, "no completion");
        }
    }

    /// The next completion, which must have failed.
    pub fn next_failure(&self) -> Failure {
        let begin = Instant::now();
        loop {
            match self.poll() {
                Err(EAVAIL) => return self.failure(),
                Err(EAGAIN) => {}
                other => panic!("fi_cq_read says {:?}", other.map(|entry| entry.flags)),
            }
            assert!(begin.elapsed() < LONG, "no completion");
        }
    }

    /// Runs the NIC in this thread, without taking completions.
    pub fn progress(&self) {
        call!(self.queue, ops, read, ptr::null_mut(), 0);
    }

    /// Reads the next failure.
    pub fn failure(&self) -> Failure {
        // SAFETY: A plain C structure.
        let mut entry: fi_cq_err_entry = unsafe { zeroed() };
        assert_eq!(call!(self.queue, ops, readerr, &raw mut entry, 0), 1);
        let words = call!(self.queue, ops, strerror, entry.prov_errno, entry.err_data, ptr::null_mut(), 0);
        // SAFETY: A C string that is there until the next read.
        let words = unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned();
        Failure { entry, words }
    }

    pub fn send(&self, bytes: &[u8], context: usize) -> isize {
        let (start, length) = (bytes.as_ptr().cast(), bytes.len());
        call!(self.endpoint, msg, send, start, length, ptr::null_mut(), self.peer, at(context))
    }

    pub fn receive(&self, bytes: &mut [u8], context: usize) -> isize {
        self.receive_from(bytes, FI_ADDR_UNSPEC, context)
    }

    pub fn receive_from(&self, bytes: &mut [u8], from: fi_addr_t, context: usize) -> isize {
        let (start, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        call!(self.endpoint, msg, recv, start, length, ptr::null_mut(), from, at(context))
    }

    pub fn send_tagged(&self, bytes: &[u8], tag: u64, context: usize) -> isize {
        let (start, length) = (bytes.as_ptr().cast(), bytes.len());
        call!(self.endpoint, tagged, send, start, length, ptr::null_mut(), self.peer, tag, at(context))
    }

    pub fn receive_tagged(&self, bytes: &mut [u8], tag: u64, ignore: u64, context: usize) -> isize {
        let (start, length, none) = (bytes.as_mut_ptr().cast(), bytes.len(), ptr::null_mut());
        let (from, context) = (FI_ADDR_UNSPEC, at(context));
        call!(self.endpoint, tagged, recv, start, length, none, from, tag, ignore, context)
    }

    /// Registers memory for peers.
    pub fn register(&self, bytes: &mut [u8], access: u64) -> *mut fid_mr {
        self.register_as(bytes, access, 0).unwrap()
    }

    /// Registers memory for peers with a key that the test chooses, or returns the error.
    pub fn register_as(&self, bytes: &mut [u8], access: u64, key: u64) -> Result<*mut fid_mr, c_int> {
        let mut region = ptr::null_mut();
        // SAFETY: The test keeps the memory until it closes the region.
        let status = unsafe {
            ((*(*self.domain).mr).reg.unwrap())(
                self.domain.cast(),
                bytes.as_ptr().cast(),
                bytes.len(),
                access,
                0,
                key,
                0,
                &raw mut region,
                ptr::null_mut(),
            )
        };
        if status == 0 { Ok(region) } else { Err(status) }
    }
}

/// A node that several threads use.
#[derive(Clone, Copy)]
pub struct Shared<'a>(pub &'a Node);

// SAFETY: The provider's objects may be used from any thread (`FI_THREAD_SAFE`), and the rest of a node does not
// change.
unsafe impl Send for Shared<'_> {}

/// The application's context of every endpoint here.
pub const MARK: usize = 0xe0e0;

impl Drop for Node {
    fn drop(&mut self) {
        let objects: [*mut fid; 6] = [
            self.endpoint.cast(),
            self.counter.cast(),
            self.queue.cast(),
            self.vector.cast(),
            self.domain.cast(),
            self.fabric.cast(),
        ];
        for object in objects.into_iter().filter(|object| !object.is_null()) {
            let status = control!(object, close);
            if !std::thread::panicking() {
                assert_eq!(status, 0, "an object can't be closed");
            }
        }
    }
}

/// A completion that failed.
pub struct Failure {
    pub entry: fi_cq_err_entry,
    pub words: String,
}

/// Two that know each other's addresses.
pub fn pair(wishes: Wishes) -> (Node, Node) {
    let (mut one, mut two) = (Node::new(wishes), Node::new(wishes));
    one.know(&two);
    two.know(&one);
    (one, two)
}

/// Sorts completions, to be compared whatever their order.
pub fn by_context(mut entries: Vec<fi_cq_tagged_entry>) -> Vec<fi_cq_tagged_entry> {
    entries.sort_by_key(|entry| entry.op_context as usize);
    entries
}

/// The result of `fi_getinfo` on the loopback for these parameters.
pub fn info(wishes: Wishes) -> *mut fi_info {
    // SAFETY: Plain C structures, for which zeros are values.
    let (mut hints, transmit, domain): (fi_info, fi_tx_attr, fi_domain_attr) = unsafe { zeroed() };
    // Before 1.5, all that was one bit.
    let mr_mode = if wishes.version < fi_version(1, 5) { FI_MR_BASIC } else { wishes.registration };
    let mut transmit = fi_tx_attr { op_flags: wishes.transmit_flags, ..transmit };
    let mut domain = fi_domain_attr { mr_mode, ..domain };
    hints.caps = wishes.caps;
    hints.tx_attr = &raw mut transmit;
    hints.domain_attr = &raw mut domain;
    let node = CString::new("127.0.0.1").unwrap();
    let mut info = ptr::null_mut();
    // SAFETY: The entry point returns a provider that exists forever; hints and room for the result are valid.
    let status = unsafe {
        (*weft_fi::fi_prov_ini()).getinfo.unwrap()(
            wishes.version,
            node.as_ptr(),
            ptr::null(),
            FI_SOURCE,
            &raw const hints,
            &raw mut info,
        )
    };
    assert_eq!(status, 0, "fi_getinfo");
    info
}

/// Pieces of memory, as C has them.
pub fn pieces<const COUNT: usize>(pieces: [&[u8]; COUNT]) -> [iovec; COUNT] {
    pieces.map(|piece| iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() })
}

/// A context, which is never dereferenced.
pub fn at(context: usize) -> *mut c_void {
    ptr::without_provenance_mut(context)
}

/// The result of `fi_*` functions for an error.
pub fn code(errno: c_int) -> isize {
    -(errno as isize)
}
