use std::panic::{AssertUnwindSafe, catch_unwind};

use weft_base::DomainId;

use super::*;
use crate::{Limits, LocalRight, RemoteRight};

fn registered(access: Access, bytes: &[u8]) -> (Registry, DomainId, Region) {
    let registry = Registry::new(7, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    let region = registry.register(domain, bytes.to_vec(), access, 0).unwrap();
    (registry, domain, region)
}

#[test]
fn slices_of_all_kinds_of_ranges() {
    let (_registry, _, region) = registered(Access::LOCAL_READ, &[0; 10]);
    let piece = |slice: Result<Slice, MemoryError>| slice.map(|slice| (slice.offset, slice.length));
    assert_eq!(piece(region.slice(..)), Ok((0, 10)));
    assert_eq!(piece(region.slice(3..)), Ok((3, 7)));
    assert_eq!(piece(region.slice(..=3)), Ok((0, 4)));
    assert_eq!(piece(region.slice(10..)), Ok((10, 0)));
    assert_eq!(piece(region.slice((Bound::Excluded(3), Bound::Unbounded))), Ok((4, 6)));
    assert!(region.slice(0..11).is_err());
    assert!(region.slice(11..).is_err());
    assert!(region.slice(0..=u64::MAX).is_err());
    assert!(region.slice((Bound::Excluded(u64::MAX), Bound::Unbounded)).is_err());
    #[expect(clippy::reversed_empty_ranges, reason = "this is what is tested")]
    let reversed = region.slice(5..4);
    assert!(reversed.is_err());
}

#[test]
fn bytes_go_in_and_out() {
    let (_registry, _, region) = registered(Access::LOCAL_READ, b"0123456789");
    region.write(2, b"ab").unwrap();
    let mut out = [0; 4];
    region.read(1, &mut out).unwrap();
    assert_eq!(&out, b"1ab4");
    assert!(region.write(9, b"ab").is_err() && region.read(10, &mut [0]).is_err());
    region.write(10, b"").unwrap();
    region.fill_with(|at| at as u8).unwrap();
    assert_eq!(region.to_vec(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn filling_crosses_blocks() {
    let registry = Registry::new(7, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    let region = registry.register_zeroed(domain, 2500, Access::LOCAL_READ, 0).unwrap();
    region.fill_with(|at| (at / 10) as u8).unwrap();
    assert!(region.to_vec().iter().enumerate().all(|(at, byte)| *byte == (at / 10) as u8));
}

#[test]
fn loads_and_stores_want_alignment_and_take_any_ordering() {
    let registry = Registry::new(7, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    let region = registry.register_zeroed(domain, 16, Access::all(), 0).unwrap();
    for ordering in [Ordering::Relaxed, Ordering::Acquire, Ordering::Release, Ordering::AcqRel, Ordering::SeqCst] {
        region.store_u64(8, 0x0102_0304_0506_0708, ordering).unwrap();
        assert_eq!(region.load_u64(8, ordering), Ok(0x0102_0304_0506_0708));
        region.store_u32(4, 77, ordering).unwrap();
        assert_eq!(region.load_u32(4, ordering), Ok(77));
        region.store_u8(3, 5, ordering).unwrap();
        assert_eq!(region.load_u8(3, ordering), Ok(5));
    }
    let misaligned = |offset, size| Err(MemoryError::Misaligned { offset, size });
    assert_eq!(region.load_u64(4, Ordering::Acquire).map(drop), misaligned(4, 8));
    assert_eq!(region.store_u64(1, 0, Ordering::Release), misaligned(1, 8));
    assert_eq!(region.load_u32(2, Ordering::Acquire).map(drop), misaligned(2, 4));
    assert_eq!(region.store_u32(6, 0, Ordering::Release), misaligned(6, 4));
    let outside = MemoryError::OutOfBounds { offset: 16, length: 8, region_length: 16 };
    assert_eq!(region.load_u64(16, Ordering::Acquire), Err(outside));
    assert!(region.load_u8(16, Ordering::Acquire).is_err() && region.load_u32(u64::MAX, Ordering::Acquire).is_err());
}

#[test]
fn no_references_to_what_a_peer_may_touch() {
    for right in [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
        let (_registry, _, mut region) = registered(right, b"bytes");
        let exposed = MemoryError::Exposed(region.id());
        assert_eq!(region.view(|_| ()), Err(exposed));
        assert_eq!(region.edit(|_| ()), Err(exposed));
        assert!(region.invalidate());
        assert!(!region.invalidate());
        region.edit(|bytes| bytes[0] = b'B').unwrap();
        assert_eq!(region.view(<[u8]>::to_vec), Ok(b"Bytes".to_vec()));
    }
}

#[test]
fn a_view_keeps_everybody_away() {
    let (registry, domain, region) = registered(Access::LOCAL_WRITE, b"bytes");
    let slice = region.slice(..).unwrap();
    let borrowed = Err(MemoryError::Borrowed(region.id()));
    region
        .view(|bytes| {
            assert_eq!(registry.pin(domain, slice, LocalRight::Read), borrowed);
            assert_eq!(registry.copy_in(&slice, b"12345", &mut NoDigest), borrowed);
            assert_eq!(registry.resolve(&slice).map(drop), borrowed);
            assert_eq!(region.write(0, b"x"), borrowed);
            assert_eq!(region.store_u8(0, 0, Ordering::Relaxed), borrowed);
            assert_eq!(region.fill_with(|_| 0), borrowed);
            assert_eq!(region.view(<[u8]>::len), Ok(5), "views don't disturb each other");
            assert_eq!(region.write(0, b"x"), borrowed, "the outer view goes on");
            assert_eq!(region.to_vec(), b"bytes");
            assert_eq!(bytes, b"bytes");
        })
        .unwrap();
    region.write(0, b"x").unwrap();
    registry.pin(domain, slice, LocalRight::Write).unwrap();
    assert_eq!(region.view(|_| ()), Err(MemoryError::InFlight { pins: 1 }));
    registry.unpin(slice);
    assert_eq!(region.view(<[u8]>::to_vec), Ok(b"xytes".to_vec()));
}

#[test]
fn a_view_ends_when_its_closure_panics() {
    let (_registry, _, region) = registered(Access::LOCAL_WRITE, b"bytes");
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let panicked = catch_unwind(AssertUnwindSafe(|| region.view(|_| panic!("looked wrong"))));
    std::panic::set_hook(hook);
    assert!(panicked.is_err());
    region.write(0, b"x").unwrap();
}

#[test]
fn the_buffer_comes_back() {
    let (registry, domain, region) = registered(Access::all(), b"bytes");
    let stag = region.stag();
    let slice = region.slice(1..).unwrap();
    registry.pin(domain, slice, LocalRight::Read).unwrap();
    let (region, error) = region.deregister().unwrap_err();
    assert_eq!(error, MemoryError::InFlight { pins: 1 });
    assert!(registry.check_remote(domain, stag, 0, 5, RemoteRight::Read).is_ok(), "as it was");
    registry.unpin(slice);
    let bytes = Vec::from(region.deregister().unwrap());
    assert_eq!(bytes, b"bytes");
    assert!(registry.check_remote(domain, stag, 0, 5, RemoteRight::Read).is_err());
    registry.release_domain(domain).unwrap();
}

#[test]
fn a_region_may_be_empty() {
    let (registry, domain, mut region) = registered(Access::LOCAL_WRITE, b"");
    let slice = region.slice(..).unwrap();
    registry.pin(domain, slice, LocalRight::Write).unwrap();
    registry.copy_in(&slice, &[], &mut NoDigest).unwrap();
    registry.unpin(slice);
    assert_eq!(region.edit(|bytes| bytes.len()), Ok(0));
    assert!(region.deregister().unwrap().is_empty());
}

#[test]
fn handles_are_for_any_thread() {
    fn anywhere<T: Send + Sync>() {}
    anywhere::<Registry>();
    anywhere::<Region>();
    anywhere::<Buffer>();
}

#[test]
fn a_region_says_what_it_is() {
    let (_registry, _, region) = registered(Access::REMOTE_READ | Access::LOCAL_WRITE, &[0; 10]);
    assert_eq!(region.access(), Access::REMOTE_READ | Access::LOCAL_WRITE);
    let words = format!("{region:?}");
    assert!(words.contains("length: 10") && words.contains("REMOTE_READ"), "{words}");
}

#[test]
#[should_panic(expected = "other bytes")]
fn another_owner_must_have_all_bytes_of_the_region() {
    let registry = Registry::new(7, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    let mut bytes = vec![0u8; 11];
    let pointer = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: The vector outlives both, and is not touched meanwhile. The last byte of the region is behind the
    // owner's.
    let (owner, piece) = unsafe { (Buffer::foreign(pointer, 10), Buffer::foreign(pointer.add(1), 10)) };
    let region = registry.register(domain, piece, Access::LOCAL_READ, 0).unwrap();
    region.keep(owner);
}

#[test]
fn orders_that_an_access_does_not_have_are_the_strongest() {
    let orders = [Ordering::Relaxed, Ordering::Acquire, Ordering::Release, Ordering::AcqRel, Ordering::SeqCst];
    let (all, strongest) = (orders.map(for_load), Ordering::SeqCst);
    assert_eq!(all, [Ordering::Relaxed, Ordering::Acquire, strongest, strongest, strongest]);
    assert_eq!(orders.map(for_store), [Ordering::Relaxed, strongest, Ordering::Release, strongest, strongest]);
}

#[test]
fn nothing_touches_a_revoked_region_pinned_or_not() {
    let registry = Registry::new(1, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    let region = registry.register_zeroed(domain, 64, Access::all(), 0).unwrap();
    let (slice, id, stag) = (region.slice(..8).unwrap(), region.id(), region.stag());
    registry.pin(domain, slice, LocalRight::Write).unwrap();
    let granted = registry.check_remote(domain, stag, 0, 8, RemoteRight::Write).unwrap();
    region.revoke();
    let (mut out, bytes) = ([0; 8], [1; 8]);
    let refused = Err(MemoryError::Borrowed(id));
    assert_eq!(registry.copy_in(&slice, &bytes, &mut NoDigest), refused);
    assert_eq!(registry.copy_out(&slice, &mut out, &mut NoDigest), refused);
    assert_eq!(registry.resolve(&slice).map(drop), refused);
    assert_eq!(registry.copy_in(&granted, &bytes, &mut NoDigest), Err(MemoryError::Invalidated(id)));
    assert!(registry.release_domain(domain).is_err(), "it is pinned still");
    registry.unpin(slice);
    assert_eq!(registry.release_domain(domain), Ok(()));
}
