//! Discovery by libfabric and its callers: the entry point, `fi_getinfo`, and the tables of opened objects.

use core::ffi::{CStr, c_char, c_void};
use core::mem::zeroed;
use core::ptr;

use weft_libfabric::abi::errno::*;
use weft_libfabric::abi::*;

/// A list of infos, freed as `fi_freeinfo` does it.
struct Infos(*mut fi_info);

impl Infos {
    /// The infos for these hints, or the error of `fi_getinfo`.
    fn find(
        version: u32,
        node: Option<&CStr>,
        service: Option<&CStr>,
        flags: u64,
        hints: *const fi_info,
    ) -> Result<Self, i32> {
        let name = |name: Option<&CStr>| name.map_or(ptr::null(), CStr::as_ptr);
        let mut first = ptr::null_mut();
        // SAFETY: Names and hints are what they say, or NULL, and the result can be written.
        let code = unsafe {
            (*weft_fi::fi_prov_ini()).getinfo.unwrap()(version, name(node), name(service), flags, hints, &raw mut first)
        };
        if code == 0 { Ok(Self(first)) } else { Err(-code) }
    }

    fn all() -> Self {
        Self::find(NEWEST_VERSION, None, None, 0, ptr::null()).unwrap()
    }

    fn each(&self) -> impl Iterator<Item = &fi_info> {
        // SAFETY: Infos of the list, which is freed with `self`.
        core::iter::successors(unsafe { self.0.as_ref() }, |info| unsafe { info.next.as_ref() })
    }

    /// The domains' names.
    fn domains(&self) -> Vec<String> {
        // SAFETY: Every info has attributes of its domain, and those a name.
        self.each().map(|info| text(unsafe { (*info.domain_attr).name })).collect()
    }
}

impl Drop for Infos {
    fn drop(&mut self) {
        let mut info = self.0;
        while !info.is_null() {
            // SAFETY: Each part was allocated on its own, with C's allocator, or is NULL.
            unsafe {
                let next = (*info).next;
                libc::free((*(*info).fabric_attr).name.cast());
                libc::free((*(*info).domain_attr).name.cast());
                for part in [(*info).src_addr, (*info).dest_addr, (*info).tx_attr.cast(), (*info).rx_attr.cast()] {
                    libc::free(part);
                }
                for part in
                    [(*info).ep_attr.cast(), (*info).domain_attr.cast(), (*info).fabric_attr.cast(), info.cast()]
                {
                    libc::free(part);
                }
                info = next;
            }
        }
    }
}

fn text(at: *const c_char) -> String {
    // SAFETY: A C string of an info.
    unsafe { CStr::from_ptr(at) }.to_str().unwrap().to_owned()
}

fn empty() -> fi_info {
    // SAFETY: All zeros are an info.
    unsafe { zeroed() }
}

/// The port and the IPv4 address of a `struct sockaddr_in`.
fn four(address: *const c_void, length: usize) -> (u16, [u8; 4]) {
    assert_eq!(length, 16);
    // SAFETY: This many bytes are there.
    let bytes = unsafe { address.cast::<[u8; 16]>().read() };
    (u16::from_be_bytes([bytes[2], bytes[3]]), [bytes[4], bytes[5], bytes[6], bytes[7]])
}

#[test]
fn the_provider_describes_itself() {
    let provider = weft_fi::fi_prov_ini();
    // SAFETY: A static that is not written here.
    unsafe {
        assert_eq!(text((*provider).name), "weft");
        assert_eq!((*provider).fi_version, NEWEST_VERSION);
        assert_ne!((*provider).version, 0);
        (*provider).cleanup.unwrap()();
    }
    assert_eq!(provider, weft_fi::fi_prov_ini(), "there is one");
}

#[test]
fn every_interface_is_there_and_the_loopback_is_last() {
    let infos = Infos::all();
    assert!(infos.domains().contains(&"lo".to_owned()), "{:?}", infos.domains());
    assert_eq!(infos.domains().last().unwrap(), "lo");
    for info in infos.each() {
        assert!(!info.src_addr.is_null() && info.src_addrlen > 0, "a source address");
        assert!(info.dest_addr.is_null());
        // MPI libraries have 64 bytes for an address.
        assert!(info.src_addrlen <= 64);
        // SAFETY: Every info has these.
        unsafe {
            assert_eq!((*info.ep_attr).r#type, FI_EP_RDM);
            assert!((*info.fabric_attr).prov_name.is_null(), "libfabric itself puts it there");
        }
    }
}

#[test]
fn node_and_service_are_the_peer_or_with_a_flag_this_side() {
    let own = Infos::find(NEWEST_VERSION, Some(c"127.0.0.1"), Some(c"7777"), FI_SOURCE | FI_NUMERICHOST, ptr::null())
        .unwrap();
    let [info] = own.each().collect::<Vec<_>>()[..] else { panic!("{:?}", own.domains()) };
    assert_eq!(four(info.src_addr, info.src_addrlen), (7777, [127, 0, 0, 1]));
    assert!(info.dest_addr.is_null());
    assert_eq!(info.addr_format, FI_SOCKADDR_IN);

    let mut hints = empty();
    hints.addr_format = FI_SOCKADDR_IN;
    let peer = Infos::find(NEWEST_VERSION, Some(c"127.0.0.1"), Some(c"7777"), 0, &raw const hints).unwrap();
    assert_eq!(peer.domains()[0], "lo", "the interface that leads there comes first");
    for info in peer.each() {
        assert_eq!(four(info.dest_addr, info.dest_addrlen), (7777, [127, 0, 0, 1]));
        assert_eq!(four(info.src_addr, info.src_addrlen).0, 0);
    }
    // Only a port: of any interface.
    let any = Infos::find(NEWEST_VERSION, None, Some(c"7777"), FI_SOURCE, &raw const hints).unwrap();
    assert!(any.each().all(|info| four(info.src_addr, info.src_addrlen).0 == 7777));
    assert!(any.domains().contains(&"lo".to_owned()));
}

#[test]
fn addresses_as_text() {
    let mut hints = empty();
    hints.addr_format = FI_ADDR_STR;
    let infos = Infos::find(NEWEST_VERSION, Some(c"fi_sockaddr_in://127.0.0.1:99"), None, 0, &raw const hints).unwrap();
    for info in infos.each() {
        assert_eq!(text(info.dest_addr.cast()), "fi_sockaddr_in://127.0.0.1:99");
        assert!(text(info.src_addr.cast()).starts_with("fi_sockaddr_in://"));
    }
    let both = Infos::find(NEWEST_VERSION, Some(c"fi_sockaddr_in://127.0.0.1:99"), Some(c"99"), 0, &raw const hints);
    assert_eq!(both.err(), Some(FI_EINVAL));
}

#[test]
fn an_info_is_found_again_when_it_comes_back_as_hints() {
    let all = Infos::all();
    for info in all.each() {
        let again = Infos::find(NEWEST_VERSION, None, None, 0, info).unwrap();
        let [same] = again.each().collect::<Vec<_>>()[..] else { panic!("{:?}", again.domains()) };
        assert_eq!((same.caps, same.addr_format, same.src_addrlen), (info.caps, info.addr_format, info.src_addrlen));
        let bytes = |info: &fi_info| {
            // SAFETY: This many bytes are there.
            unsafe { core::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen) }.to_vec()
        };
        assert_eq!(bytes(same), bytes(info));
    }
}

#[test]
fn what_is_not_here_is_no_data_and_what_is_wrong_is_invalid() {
    let find = |hints: &fi_info| Infos::find(NEWEST_VERSION, None, None, 0, hints).err();
    let mut hints = empty();
    hints.caps = FI_COLLECTIVE;
    assert_eq!(find(&hints), Some(FI_ENODATA));
    let mut hints = empty();
    hints.addr_format = 5;
    assert_eq!(find(&hints), Some(FI_ENODATA));
    let mut hints = empty();
    let short = [libc::AF_INET6 as u16, 0, 0, 0];
    hints.src_addr = ptr::from_ref(&short).cast_mut().cast();
    hints.src_addrlen = 8;
    assert_eq!(find(&hints), Some(FI_EINVAL), "shorter than its family says");
    assert_eq!(
        Infos::find(NEWEST_VERSION, Some(c"198.51.100.1"), None, FI_SOURCE, ptr::null()).err(),
        Some(FI_ENODATA)
    );
    assert_eq!(Infos::find(NEWEST_VERSION + 1, None, None, 0, ptr::null()).err(), Some(FI_EINVAL));
    // SAFETY: NULL for the result is refused.
    let nowhere = unsafe {
        (*weft_fi::fi_prov_ini()).getinfo.unwrap()(
            NEWEST_VERSION,
            ptr::null(),
            ptr::null(),
            0,
            ptr::null(),
            ptr::null_mut(),
        )
    };
    assert_eq!(nowhere, -FI_EINVAL);
}

#[test]
fn the_first_call_of_intel_mpi_is_of_version_0() {
    let infos = Infos::find(0, None, None, 0, ptr::null()).unwrap();
    // SAFETY: Every info has these.
    unsafe { assert_eq!((*(*infos.0).domain_attr).mr_mode, FI_MR_BASIC) };
}

#[test]
fn a_question_for_the_provider_alone_has_one_answer() {
    let infos = Infos::find(NEWEST_VERSION, None, None, FI_PROV_ATTR_ONLY, ptr::null()).unwrap();
    assert_eq!(infos.each().count(), 1);
    assert!(infos.each().all(|info| info.src_addr.is_null()));
}

/// A fabric, a domain and other objects of a test, closed in reverse order.
struct Opened {
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
}

impl Opened {
    fn new(info: &fi_info) -> Self {
        let mut opened = Self { fabric: ptr::null_mut(), domain: ptr::null_mut() };
        // SAFETY: The provider's functions, with what they ask for.
        unsafe {
            let provider = weft_fi::fi_prov_ini();
            let context = ptr::without_provenance_mut(11);
            assert_eq!((*provider).fabric.unwrap()(info.fabric_attr, &raw mut opened.fabric, context), 0);
            assert_eq!((*opened.fabric).fid.context, context);
            let info = ptr::from_ref(info).cast_mut();
            let domain = (*(*opened.fabric).ops).domain.unwrap();
            assert_eq!(domain(opened.fabric, info, &raw mut opened.domain, ptr::null_mut()), 0);
        }
        opened
    }

    fn vector(&self, attributes: &mut fi_av_attr) -> Result<*mut fid_av, i32> {
        let mut vector = ptr::null_mut();
        // SAFETY: The domain is open, and the rest is there.
        let code = unsafe {
            (*(*self.domain).ops).av_open.unwrap()(self.domain, attributes, &raw mut vector, ptr::null_mut())
        };
        if code == 0 { Ok(vector) } else { Err(-code) }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        assert_eq!((close(self.domain.cast()), close(self.fabric.cast())), (0, 0));
    }
}

fn close(object: *mut fid) -> i32 {
    // SAFETY: An object that is open.
    unsafe { (*(*object).ops).close.unwrap()(object) }
}

/// Checks that a table is complete: after its size, which is correct, there are functions only.
///
/// # Safety
/// A table of functions, with its size first.
unsafe fn is_full<T>(table: *const T, name: &str) {
    let words = size_of::<T>() / size_of::<usize>();
    // SAFETY: As many words are there.
    let table = unsafe { core::slice::from_raw_parts(table.cast::<usize>(), words) };
    assert_eq!(table[0], size_of::<T>(), "the size of {name}");
    for (number, word) in table.iter().enumerate() {
        assert_ne!(*word, 0, "slot {number} of {name}");
    }
}

#[test]
fn no_table_has_a_hole() {
    let infos = Infos::all();
    let opened = Opened::new(infos.each().last().unwrap());
    // SAFETY: Zeros are these attributes.
    let vector = opened.vector(&mut unsafe { zeroed() }).unwrap();
    // SAFETY: What is open has tables.
    unsafe {
        is_full((*opened.fabric).fid.ops, "fi_ops of a fabric");
        is_full((*opened.fabric).ops, "fi_ops_fabric");
        is_full((*opened.domain).fid.ops, "fi_ops of a domain");
        is_full((*opened.domain).ops, "fi_ops_domain");
        is_full((*opened.domain).mr, "fi_ops_mr");
        is_full((*vector).fid.ops, "fi_ops of an address vector");
        is_full((*vector).ops, "fi_ops_av");
        // Unsupported functions say so.
        assert_eq!(
            (*(*opened.fabric).ops).passive_ep.unwrap()(opened.fabric, infos.0, ptr::null_mut(), ptr::null_mut()),
            -FI_ENOSYS
        );
    }
    assert_eq!(close(opened.domain.cast()), -FI_EBUSY, "there is a vector in it");
    assert_eq!(close(opened.fabric.cast()), -FI_EBUSY, "there is a domain in it");
    assert_eq!(close(vector.cast()), 0);
}

#[test]
fn null_and_other_objects_are_refused() {
    let infos = Infos::all();
    let opened = Opened::new(infos.each().last().unwrap());
    let (fabric, domain) = (opened.fabric, opened.domain);
    // SAFETY: Everything invalid here is refused.
    unsafe {
        let open = (*(*fabric).ops).domain.unwrap();
        let mut to = ptr::null_mut();
        assert_eq!(open(fabric, ptr::null_mut(), &raw mut to, ptr::null_mut()), -FI_EINVAL);
        assert_eq!(open(fabric, infos.0, ptr::null_mut(), ptr::null_mut()), -FI_EINVAL);
        assert_eq!(open(ptr::null_mut(), infos.0, &raw mut to, ptr::null_mut()), -FI_EINVAL);
        assert_eq!(open(domain.cast(), infos.0, &raw mut to, ptr::null_mut()), -FI_EINVAL);
        let open = (*(*fabric).ops).domain2.unwrap();
        assert_eq!(open(fabric, infos.0, &raw mut to, 1, ptr::null_mut()), -FI_EBADFLAGS);
        let fabric = (*weft_fi::fi_prov_ini()).fabric.unwrap();
        assert_eq!(fabric(ptr::null_mut(), ptr::null_mut(), ptr::null_mut()), -FI_EINVAL);
    }
    // SAFETY: Zeros are these attributes.
    let mut shared: fi_av_attr = unsafe { zeroed() };
    shared.name = c"shared".as_ptr();
    assert_eq!(opened.vector(&mut shared), Err(FI_ENOSYS), "processes can't share one");
}
