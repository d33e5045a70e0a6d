//! Structures, constants and function types of `pmix.h` and `pmix_common.h`: those of PMIx 3, 4 and 5, which agree in
//! this part. `tests/layout.rs` compares them with the headers where these are installed.

use core::ffi::{c_char, c_int};

/// Bytes of a namespace's name, its terminating zero included (`PMIX_MAX_NSLEN + 1`).
pub const NAMESPACE_BYTES: usize = 256;
/// Bytes of a key, its terminating zero included (`PMIX_MAX_KEYLEN + 1`).
pub const KEY_BYTES: usize = 512;

/// `PMIX_SUCCESS`.
pub const SUCCESS: c_int = 0;
/// `PMIX_RANK_WILDCARD`: a job as a whole.
pub const RANK_WILDCARD: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`: for all processes, of this host and of others.
pub const GLOBAL: u8 = 3;
/// `PMIX_BOOL`, a kind of value.
pub const BOOL: u16 = 1;
/// `PMIX_INT`, a kind of value.
pub const INT: u16 = 6;
/// `PMIX_UINT32`, a kind of value.
pub const UINT32: u16 = 14;
/// `PMIX_BYTE_OBJECT`, a kind of value.
pub const BYTE_OBJECT: u16 = 27;

/// `pmix_proc_t`: a process, or with [`RANK_WILDCARD`] all of a job.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Proc {
    /// The job's name, with a terminating zero.
    pub nspace: [c_char; NAMESPACE_BYTES],
    /// The rank, from 0.
    pub rank: u32,
}

/// `pmix_byte_object_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ByteObject {
    /// May be null when there are none.
    pub bytes: *mut c_char,
    /// In bytes.
    pub size: usize,
}

/// The union in `pmix_value_t`: what is used of it, and as large as its largest member (`pmix_envar_t`).
#[derive(Clone, Copy)]
#[repr(C)]
pub union Data {
    /// Of [`BOOL`].
    pub flag: bool,
    /// Of [`INT`].
    pub integer: c_int,
    /// Of [`UINT32`].
    pub uint32: u32,
    /// Of [`BYTE_OBJECT`].
    pub bo: ByteObject,
    /// As large as the largest member.
    pub whole: [u64; 3],
}

/// `pmix_value_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Value {
    /// Which member of `data` counts: `type` in C.
    pub kind: u16,
    /// The value.
    pub data: Data,
}

/// `pmix_info_t`: a key and its value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Info {
    /// With a terminating zero.
    pub key: [c_char; KEY_BYTES],
    /// 0: a library that does not know the key ignores it.
    pub flags: u32,
    /// Its value.
    pub value: Value,
}

/// `PMIx_Init`.
pub type Init = unsafe extern "C" fn(proc: *mut Proc, info: *const Info, infos: usize) -> c_int;
/// `PMIx_Finalize`.
pub type Finalize = unsafe extern "C" fn(info: *const Info, infos: usize) -> c_int;
/// `PMIx_Put`.
pub type Put = unsafe extern "C" fn(scope: u8, key: *const c_char, value: *mut Value) -> c_int;
/// `PMIx_Commit`.
pub type Commit = unsafe extern "C" fn() -> c_int;
/// `PMIx_Fence`.
pub type Fence = unsafe extern "C" fn(procs: *const Proc, count: usize, info: *const Info, infos: usize) -> c_int;
/// `PMIx_Get`.
pub type Get = unsafe extern "C" fn(
    proc: *const Proc,
    key: *const c_char,
    info: *const Info,
    infos: usize,
    value: *mut *mut Value,
) -> c_int;
/// `PMIx_Error_string`.
pub type ErrorString = unsafe extern "C" fn(status: c_int) -> *const c_char;
