//! Resolves node and service names for `fi_getinfo` and `fi_av_insertsvc`.

use core::ffi::{CStr, c_char};
use core::ptr;
use std::net::SocketAddr;

use super::sockaddr;
use crate::errno::Errno;

/// A name of C's. `None` for NULL.
///
/// # Errors
/// It is not UTF-8.
///
/// # Safety
/// NULL, or a C string that stays for `'a`.
pub(crate) unsafe fn name<'a>(at: *const c_char) -> Result<Option<&'a CStr>, Errno> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: Not NULL, so it is a C string.
    let name = unsafe { CStr::from_ptr(at) };
    name.to_str().map_err(|_| Errno::INVALID)?;
    Ok(Some(name))
}

/// Which addresses to resolve.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lookup {
    /// Numeric ones only: without name resolution.
    pub(crate) numeric: bool,
    /// Addresses to bind: without a node, the unspecified one. Otherwise the loopback's.
    pub(crate) passive: bool,
}

/// The addresses of a node and service, best first. Empty when there are none.
pub(crate) fn resolve(node: Option<&CStr>, service: Option<&CStr>, lookup: Lookup) -> Vec<SocketAddr> {
    if node.is_none() && service.is_none() {
        return Vec::new();
    }
    let pointer = |name: Option<&CStr>| name.map_or(ptr::null(), CStr::as_ptr);
    let numeric = if lookup.numeric { libc::AI_NUMERICHOST } else { 0 };
    let passive = if lookup.passive { libc::AI_PASSIVE } else { 0 };
    let hints = libc::addrinfo {
        ai_flags: numeric | passive,
        ai_family: libc::AF_UNSPEC,
        ai_socktype: libc::SOCK_STREAM,
        ai_protocol: 0,
        ai_addrlen: 0,
        ai_addr: ptr::null_mut(),
        ai_canonname: ptr::null_mut(),
        ai_next: ptr::null_mut(),
    };
    let mut list = ptr::null_mut();
    // SAFETY: Names are C strings or NULL, and not both NULL; the hints are complete; the list can be written.
    if unsafe { libc::getaddrinfo(pointer(node), pointer(service), &raw const hints, &raw mut list) } != 0 {
        return Vec::new();
    }
    let mut addresses = Vec::new();
    let mut entry = list;
    while !entry.is_null() {
        // SAFETY: An entry of the list, which is freed below; its address is of the family that it says.
        unsafe {
            addresses.extend(sockaddr::read((*entry).ai_addr.cast()));
            entry = (*entry).ai_next;
        }
    }
    // SAFETY: It came from getaddrinfo, and nothing of it is used any more.
    unsafe { libc::freeaddrinfo(list) };
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_resolved_without_asking_anybody() {
        let numeric = Lookup { numeric: true, passive: false };
        assert_eq!(resolve(Some(c"192.0.2.1"), Some(c"80"), numeric), ["192.0.2.1:80".parse().unwrap()]);
        assert_eq!(resolve(Some(c"192.0.2.1"), None, numeric), ["192.0.2.1:0".parse().unwrap()]);
        assert_eq!(resolve(Some(c"2001:db8::1"), Some(c"80"), numeric), ["[2001:db8::1]:80".parse().unwrap()]);
        assert_eq!(resolve(Some(c"a name"), Some(c"80"), numeric), []);
        assert_eq!(resolve(None, None, numeric), []);
    }

    #[test]
    fn without_a_node_it_is_this_machine() {
        let passive = resolve(None, Some(c"80"), Lookup { numeric: false, passive: true });
        assert!(
            !passive.is_empty() && passive.iter().all(|address| address.ip().is_unspecified() && address.port() == 80)
        );
        let active = resolve(None, Some(c"80"), Lookup::default());
        assert!(!active.is_empty() && active.iter().all(|address| address.ip().is_loopback()));
    }
}
