//! The hints of `fi_getinfo`, copied out of the application's structures.

use core::ffi::{c_char, c_void};
use core::mem::{MaybeUninit, offset_of, size_of};

use weft::endpoint::Address;
use weft_libfabric::abi::{
    FI_FORMAT_UNSPEC, fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr, fid,
};

use super::mismatch::Mismatch;
use crate::addresses::resolve::name;
use crate::addresses::{Format, text};
use crate::errno::Errno;

/// The hints. Zero or `None` where the application leaves a field open.
#[derive(Default)]
pub(crate) struct Hints {
    pub(crate) caps: u64,
    pub(crate) transmit: Option<fi_tx_attr>,
    pub(crate) receive: Option<fi_rx_attr>,
    pub(crate) endpoint: Option<fi_ep_attr>,
    pub(crate) domain: Option<fi_domain_attr>,
    pub(crate) domain_name: Option<String>,
    pub(crate) fabric_name: Option<String>,
    /// `None`: the application leaves it open.
    pub(crate) format: Option<Wish>,
    pub(crate) source: Option<Address>,
    pub(crate) destination: Option<Address>,
    pub(crate) handle: Option<Handle>,
}

/// An address format that an application requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish(pub(crate) Format);

/// A handle that an application wants back. It is never dereferenced.
#[derive(Clone, Copy)]
pub(crate) struct Handle(pub(crate) *mut fid);

/// Bytes of each structure that every version has, from libfabric 1.17 on, and that are read here.
const ENDPOINT: usize = offset_of!(fi_ep_attr, xpu_ctx);
const DOMAIN: usize = offset_of!(fi_domain_attr, max_ep_auth_key);

impl Hints {
    /// Copies hints.
    ///
    /// # Errors
    /// An unsupported address format, or an invalid address or name.
    ///
    /// # Safety
    /// `hints` is NULL or an info that libfabric allocated; its pointers are valid or NULL.
    pub(crate) unsafe fn read(hints: *const fi_info) -> Result<Self, Refused> {
        if hints.is_null() {
            return Ok(Self::default());
        }
        // SAFETY: Not NULL. `fi_info` has had all of these fields since 1.5, and none of them has moved. They point to
        // NULL or to the bytes that are read.
        unsafe {
            let format = match (*hints).addr_format {
                FI_FORMAT_UNSPEC => None,
                number => Some(Wish(Format::from_number(number).ok_or(Mismatch::Format(number))?)),
            };
            let domain = prefix::<fi_domain_attr>((*hints).domain_attr, DOMAIN);
            let fabric = prefix::<fi_fabric_attr>((*hints).fabric_attr, size_of::<fi_fabric_attr>());
            Ok(Self {
                caps: (*hints).caps,
                transmit: prefix((*hints).tx_attr, size_of::<fi_tx_attr>()),
                receive: prefix((*hints).rx_attr, size_of::<fi_rx_attr>()),
                endpoint: prefix((*hints).ep_attr, ENDPOINT),
                domain_name: domain.as_ref().map_or(Ok(None), |domain| owned(domain.name))?,
                fabric_name: fabric.as_ref().map_or(Ok(None), |fabric| owned(fabric.name))?,
                domain,
                source: address(format, (*hints).src_addr, (*hints).src_addrlen)?,
                destination: address(format, (*hints).dest_addr, (*hints).dest_addrlen)?,
                format,
                handle: Some((*hints).handle).filter(|handle| !handle.is_null()).map(Handle),
            })
        }
    }
}

/// Why there is no info.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The application requires something unsupported.
    Mismatch(Mismatch),
    /// Anything else.
    Code(Errno),
}

impl From<Mismatch> for Refused {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(mismatch)
    }
}

impl From<Errno> for Refused {
    fn from(code: Errno) -> Self {
        Self::Code(code)
    }
}

/// A copy of the first bytes of a structure, with zeros in place of the rest.
///
/// # Safety
/// NULL, or this many bytes can be read. All zeros are a `T`, and so is any beginning of one with zeros behind it.
unsafe fn prefix<T>(at: *const T, bytes: usize) -> Option<T> {
    if at.is_null() {
        return None;
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: Not NULL, so as many bytes can be read; no more than a `T` has. It is one afterwards, by this function's
    // contract.
    unsafe {
        core::ptr::copy_nonoverlapping(at.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), bytes.min(size_of::<T>()));
        Some(copy.assume_init())
    }
}

/// # Safety
/// NULL, or a C string.
unsafe fn owned(at: *const c_char) -> Result<Option<String>, Errno> {
    // SAFETY: This function's contract is that one's; the text is copied at once.
    Ok(unsafe { name(at) }?.map(|name| name.to_string_lossy().into_owned()))
}

/// The address in hints. Without a format, the first bytes distinguish socket addresses from text.
///
/// # Safety
/// NULL, or an address of this many bytes, in the format.
unsafe fn address(format: Option<Wish>, at: *const c_void, bytes: usize) -> Result<Option<Address>, Errno> {
    if at.is_null() || bytes == 0 {
        return Ok(None);
    }
    // SAFETY: There are this many bytes.
    let all = unsafe { core::slice::from_raw_parts(at.cast::<u8>(), bytes) };
    let format = match format {
        Some(Wish(format)) => format,
        None if core::str::from_utf8(all).is_ok_and(text::is_address) => Format::Text,
        None => Format::Ip,
    };
    let whole = match format {
        Format::Text => all.contains(&0),
        // SAFETY: A family can be read, if there are bytes for it.
        _ => bytes >= size_of::<libc::sa_family_t>() && bytes >= unsafe { format.step(at) },
    };
    if !whole {
        return Err(Errno::INVALID);
    }
    // SAFETY: All of its bytes are there.
    unsafe { format.read(at) }.map(Some)
}
