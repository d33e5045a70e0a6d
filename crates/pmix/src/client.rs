//! A process as a client of its launcher.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::time::Duration;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use crate::abi::{
    BOOL, BYTE_OBJECT, ByteObject, Data, GLOBAL, INT, Info, KEY_BYTES, NAMESPACE_BYTES, Proc, RANK_WILDCARD, UINT32,
    Value,
};
use crate::error::Error;
use crate::library::Library;

/// `PMIX_JOB_SIZE`.
const JOB_SIZE: &CStr = c"pmix.job.size";
/// `PMIX_COLLECT_DATA`: a fence hands out what was put before it.
const COLLECT_DATA: &CStr = c"pmix.collect";
/// `PMIX_TIMEOUT`, in seconds. A launcher may ignore it.
const TIMEOUT: &CStr = c"pmix.timeout";

/// The clients of this process.
struct Clients {
    live: usize,
    /// The last of them has taken leave of the launcher, which takes that for the process's end: a process that comes
    /// again gets `PMIX_ERR_PARTIAL_SUCCESS` from its first fence (Open MPI 4.1 with libpmix 4.2).
    has_left: bool,
}

static CLIENTS: Mutex<Clients> = Mutex::new(Clients { live: 0, has_left: false });

/// A process of a job, connected with its launcher.
///
/// There may be several at a time. When the last one is dropped the process has left its job, and gets no other.
pub struct Client {
    library: &'static Library,
    own: Proc,
    size: u32,
}

impl Client {
    /// Connects with the launcher that `PMIX_NAMESPACE` and `PMIX_RANK` of the environment tell of.
    ///
    /// # Errors
    /// No libpmix; the launcher does not answer, or does not say how many processes there are; the process has left its
    /// job.
    pub fn connect() -> Result<Self, Error> {
        let library = Library::load()?;
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.has_left {
            return Err(Error::HasLeft);
        }
        let mut own = Proc { nspace: [0; NAMESPACE_BYTES], rank: 0 };
        // SAFETY: `own` may be written; without directives the array may be NULL.
        let status = unsafe { (library.init)(&raw mut own, ptr::null(), 0) };
        library.check("PMIx_Init", String::new, status)?;
        clients.live += 1;
        drop(clients);
        // From here on it is finalized when it is dropped.
        let mut client = Self { library, own, size: 0 };
        client.size = client.job_size()?;
        Ok(client)
    }

    /// Which process of its job this is, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.own.rank
    }

    /// How many processes the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Keeps these bytes under this key for the other processes, which get them after [`Client::fence`].
    ///
    /// # Errors
    /// A key that is none; the launcher does not take them.
    pub fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        let name = c_string(key)?;
        let bo = ByteObject { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() };
        let mut value = Value { kind: BYTE_OBJECT, data: Data { whole: [0; 3] } };
        value.data.bo = bo;
        // SAFETY: key and value live until the call returns. The library copies the bytes and does not write them.
        let status = unsafe { (self.library.put)(GLOBAL, name.as_ptr(), &raw mut value) };
        self.library.check("PMIx_Put", || key.to_owned(), status)?;
        // SAFETY: takes nothing.
        let status = unsafe { (self.library.commit)() };
        self.library.check("PMIx_Commit", || key.to_owned(), status)
    }

    /// Waits until all processes of the job have called it, and hands out what they have put. A launcher that has
    /// time-outs gives up after `limit`.
    ///
    /// # Errors
    /// A process is lost, or late.
    pub fn fence(&mut self, limit: Duration) -> Result<(), Error> {
        let seconds = c_int::try_from(limit.as_secs().max(1)).unwrap_or(c_int::MAX);
        let infos = [info(COLLECT_DATA, BOOL, Data { flag: true }), info(TIMEOUT, INT, Data { integer: seconds })];
        // SAFETY: without processes it means all of this job; the array lives until the call returns.
        let status = unsafe { (self.library.fence)(ptr::null(), 0, infos.as_ptr(), infos.len()) };
        self.library.check("PMIx_Fence", String::new, status)
    }

    /// What a process has put under a key, if it is at most `most` bytes.
    ///
    /// # Errors
    /// The process has put nothing there, or no bytes, or too many.
    pub fn get(&mut self, rank: u32, key: &str, most: usize) -> Result<Vec<u8>, Error> {
        let about = || format!("`{key}` of rank {rank}");
        let value = self.value(rank, &c_string(key)?, about)?;
        let wrong = |came| Error::Answer { about: about(), came, wanted: format!("at most {most} bytes") };
        match value.bytes(most) {
            Ok(bytes) => Ok(bytes),
            Err(came) => Err(wrong(came)),
        }
    }

    fn job_size(&self) -> Result<u32, Error> {
        let about = || format!("`{}`", JOB_SIZE.to_string_lossy());
        let size = self.value(RANK_WILDCARD, JOB_SIZE, about)?.number();
        let rank = self.own.rank;
        let wrong = |came| Error::Answer { about: about(), came, wanted: format!("a number above the rank {rank}") };
        match size {
            Ok(size) if rank < size => Ok(size),
            Ok(size) => Err(wrong(size.to_string())),
            Err(came) => Err(wrong(came)),
        }
    }

    fn value(&self, rank: u32, key: &CStr, about: impl Fn() -> String) -> Result<Owned, Error> {
        let whose = Proc { rank, ..self.own };
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: process and key live until the call returns, `value` may be written.
        let status = unsafe { (self.library.get)(&raw const whose, key.as_ptr(), ptr::null(), 0, &raw mut value) };
        self.library.check("PMIx_Get", &about, status)?;
        if value.is_null() {
            return Err(Error::Answer { about: about(), came: "nothing".into(), wanted: "a value".into() });
        }
        Ok(Owned(value))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        clients.live -= 1;
        clients.has_left = clients.live == 0;
        // A launcher takes it for a crash when a process leaves without it. There is none to tell of a failure.
        // SAFETY: without directives the array may be NULL.
        unsafe { (self.library.finalize)(ptr::null(), 0) };
    }
}

/// A value that the library has allocated, and that its receiver frees: `PMIX_VALUE_RELEASE` of the kinds that are
/// asked for. Others keep what they point to, since only the library knows what that is.
struct Owned(*mut Value);

impl Owned {
    /// The bytes of a byte object, or what is here in place of at most `most` bytes.
    fn bytes(&self, most: usize) -> Result<Vec<u8>, String> {
        // SAFETY: `self.0` is not NULL and leads to a value that lives until this is dropped; its kind says which
        // member of the union was written.
        unsafe {
            if (*self.0).kind != BYTE_OBJECT {
                return Err(format!("a value of type {}", (*self.0).kind));
            }
            let ByteObject { bytes, size } = (*self.0).data.bo;
            match (bytes.is_null(), size) {
                (_, 0) => Ok(Vec::new()),
                (false, size) if size <= most => Ok(core::slice::from_raw_parts(bytes.cast::<u8>(), size).to_vec()),
                (false, size) => Err(format!("{size} bytes")),
                (true, size) => Err(format!("{size} bytes at no address")),
            }
        }
    }

    /// The number, or what is here in place of it.
    fn number(&self) -> Result<u32, String> {
        // SAFETY: as above.
        unsafe {
            match (*self.0).kind {
                UINT32 => Ok((*self.0).data.uint32),
                other => Err(format!("a value of type {other}")),
            }
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `PMIx_Get` has allocated the value and its bytes with malloc, for its caller to free; neither is used
        // again.
        unsafe {
            if (*self.0).kind == BYTE_OBJECT {
                libc::free((*self.0).data.bo.bytes.cast());
            }
            libc::free(self.0.cast());
        }
    }
}

fn c_string(key: &str) -> Result<CString, Error> {
    CString::new(key).ok().filter(|_| key.len() < KEY_BYTES).ok_or_else(|| Error::Key(key.to_owned()))
}

fn info(name: &CStr, kind: u16, data: Data) -> Info {
    let mut key = [0; KEY_BYTES];
    for (to, from) in key.iter_mut().zip(name.to_bytes()) {
        *to = *from as c_char;
    }
    Info { key, flags: 0, value: Value { kind, data } }
}
