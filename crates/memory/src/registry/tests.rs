use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use weft_base::{NoDigest, RegionId};

use super::*;

const ALL: Access = Access::all();

fn registry() -> (Registry, DomainId) {
    let registry = Registry::new(7, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    (registry, domain)
}

/// Remembers what it was fed.
#[derive(Default)]
struct Tape(Vec<u8>);

impl Digest for Tape {
    fn update(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Debug builds panic where release builds would wait for themselves.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "lock order: RegionGate is taken")]
fn an_access_does_not_end_inside_another_one() {
    let (registry, domain) = registry();
    let region = registry.register(domain, vec![0; 8], ALL, 0).unwrap();
    let _held = registry.resolve(&region.slice(..).unwrap()).unwrap();
    region.invalidate();
}

#[test]
fn each_right_is_granted_alone() {
    let (registry, domain) = registry();
    let table = [
        (Access::LOCAL_READ, None, false),
        (Access::LOCAL_WRITE, None, true),
        (Access::REMOTE_READ, Some(RemoteRight::Read), false),
        (Access::REMOTE_WRITE, Some(RemoteRight::Write), false),
        (Access::REMOTE_ATOMIC, Some(RemoteRight::Atomic), false),
    ];
    for (access, remote, writable) in table {
        let region = registry.register(domain, vec![0; 8], access, 0).unwrap();
        for need in [RemoteRight::Read, RemoteRight::Write, RemoteRight::Atomic] {
            let checked = registry.check_remote(domain, region.stag(), 0, 8, need);
            let expected = if remote == Some(need) { Ok(()) } else { Err(RemoteFault::NotPermitted(need)) };
            assert_eq!(checked.map(drop), expected, "{access:?} {need:?}");
        }
        let slice = region.slice(..).unwrap();
        registry.pin(domain, slice, LocalRight::Read).unwrap();
        registry.unpin(slice);
        let refused = MemoryError::NotPermitted { region: region.id(), need: LocalRight::Write };
        let expected = if writable { Ok(()) } else { Err(refused) };
        assert_eq!(registry.pin(domain, slice, LocalRight::Write), expected, "{access:?}");
        if writable {
            registry.unpin(slice);
        }
    }
}

#[test]
fn another_domain_gets_nothing() {
    let (registry, domain) = registry();
    let other = registry.allocate_domain().unwrap();
    let region = registry.register(domain, vec![0; 8], ALL, 0).unwrap();
    let slice = region.slice(..).unwrap();
    assert_eq!(registry.check_remote(other, region.stag(), 0, 8, RemoteRight::Read), Err(RemoteFault::WrongDomain));
    assert_eq!(registry.invalidate(other, region.stag()), Err(RemoteFault::WrongDomain));
    assert_eq!(
        registry.pin(other, slice, LocalRight::Read),
        Err(MemoryError::WrongDomain { region: region.id(), domain: other })
    );
    assert!(registry.check_remote(domain, region.stag(), 0, 8, RemoteRight::Read).is_ok());
}

#[test]
fn unknown_stags() {
    let (registry, domain) = registry();
    let region = registry.register(domain, vec![0; 8], ALL, 0).unwrap();
    for stag in [Stag(0), Stag(region.stag().0 ^ 1), Stag(u32::MAX)] {
        assert_eq!(registry.check_remote(domain, stag, 0, 0, RemoteRight::Read), Err(RemoteFault::InvalidStag));
    }
}

#[test]
fn bounds_at_the_edges() {
    let (registry, domain) = registry();
    // The last byte of such a region has the last offset that there is.
    let base = u64::MAX - 99;
    for (base, tagged, length, expected) in [
        (0, 0, 100, Ok(0)),
        (0, 99, 1, Ok(99)),
        (0, 100, 0, Ok(100)),
        (0, 0, 0, Ok(0)),
        (0, 0, 101, Err(RemoteFault::OutOfBounds)),
        (0, 100, 1, Err(RemoteFault::OutOfBounds)),
        (0, 101, 0, Err(RemoteFault::OutOfBounds)),
        (0, u64::MAX, 1, Err(RemoteFault::OutOfBounds)),
        (0, u64::MAX, 2, Err(RemoteFault::OffsetWraps)),
        (0, u64::MAX, 0, Err(RemoteFault::OutOfBounds)),
        (0, u64::MAX - 3, u32::MAX, Err(RemoteFault::OffsetWraps)),
        (1000, 1000, 100, Ok(0)),
        (1000, 999, 1, Err(RemoteFault::OutOfBounds)),
        (1000, 999, 0, Err(RemoteFault::OutOfBounds)),
        (1000, 0, 1, Err(RemoteFault::OutOfBounds)),
        (base, base, 100, Ok(0)),
        (base, u64::MAX, 1, Ok(99)),
        (base, u64::MAX, 0, Ok(99)),
        (base, u64::MAX, 2, Err(RemoteFault::OffsetWraps)),
        (base, base, 101, Err(RemoteFault::OffsetWraps)),
    ] {
        let region = registry.register(domain, vec![0; 100], ALL, base).unwrap();
        let checked = registry.check_remote(domain, region.stag(), tagged, length, RemoteRight::Write);
        let place = checked.map(|slice| slice.offset);
        assert_eq!(place, expected, "{length} bytes at {tagged:#x} of a region at {base:#x}");
        if let Ok(slice) = checked {
            assert_eq!((slice.length, slice.region.index), (length, region.id().index));
            registry.copy_in(&slice, &vec![1; length as usize], &mut NoDigest).unwrap();
        }
    }
    let wraps = registry.register(domain, vec![0; 100], ALL, u64::MAX - 98).map(drop);
    assert_eq!(wraps, Err(MemoryError::BaseWraps { base: u64::MAX - 98, length: 100 }));
}

#[test]
fn local_slices_outside_are_refused() {
    let (registry, domain) = registry();
    let region = registry.register(domain, vec![0; 10], ALL, 0).unwrap();
    let outside = |offset, length| MemoryError::OutOfBounds { offset, length, region_length: 10 };
    for (offset, length) in [(10, 1), (11, 0), (0, 11), (u64::MAX, 1), (u64::MAX, u32::MAX)] {
        let slice = Slice { region: region.id(), offset, length };
        let expected = Err(outside(offset, u64::from(length)));
        assert_eq!(registry.pin(domain, slice, LocalRight::Read), expected);
        assert_eq!(registry.digest(&slice, &mut NoDigest), expected);
        assert_eq!(registry.resolve(&slice).map(drop), expected);
    }
    let slice = region.slice(..).unwrap();
    let mismatch = Err(MemoryError::LengthMismatch { slice: 10, given: 9 });
    assert_eq!(registry.copy_in(&slice, &[0; 9], &mut NoDigest), mismatch);
    assert_eq!(registry.copy_out(&slice, &mut [0; 9], &mut NoDigest), mismatch);
}

#[test]
fn a_slot_is_reused_and_old_names_are_not() {
    let (registry, domain) = registry();
    let first = registry.register(domain, vec![0; 8], ALL, 0).unwrap();
    let (slice, stag) = (first.slice(..).unwrap(), first.stag());
    let granted = registry.check_remote(domain, stag, 0, 8, RemoteRight::Write).unwrap();
    drop(first);
    let second = registry.register(domain, vec![0; 8], ALL, 0).unwrap();
    assert_eq!(second.id().index, slice.region.index);
    assert_ne!(second.id(), slice.region);
    assert_ne!(second.stag(), stag);
    assert_eq!(registry.copy_in(&slice, &[1; 8], &mut NoDigest), Err(MemoryError::Gone(slice.region)));
    assert_eq!(registry.copy_in(&granted, &[1; 8], &mut NoDigest), Err(MemoryError::Gone(granted.region)));
    assert_eq!(registry.pin(domain, slice, LocalRight::Read), Err(MemoryError::Gone(slice.region)));
    assert_eq!(registry.check_remote(domain, stag, 0, 8, RemoteRight::Write), Err(RemoteFault::InvalidStag));
    assert_eq!(second.to_vec(), [0; 8]);
}

#[test]
fn a_pin_keeps_the_memory_of_a_dropped_region() {
    let (registry, domain) = registry();
    let region = registry.register(domain, b"content!".to_vec(), ALL, 0).unwrap();
    let (slice, stag) = (region.slice(..).unwrap(), region.stag());
    let granted = registry.check_remote(domain, stag, 0, 8, RemoteRight::Write).unwrap();
    registry.pin(domain, slice, LocalRight::Write).unwrap();
    registry.pin(domain, granted, LocalRight::Read).unwrap();
    drop(region);

    let mut out = [0; 8];
    registry.copy_out(&slice, &mut out, &mut NoDigest).unwrap();
    assert_eq!(&out, b"content!");
    let ended = Err(MemoryError::Invalidated(slice.region));
    assert_eq!(registry.copy_in(&granted, &[1; 8], &mut NoDigest), ended, "remote access ends with the handle");
    assert_eq!(registry.check_remote(domain, stag, 0, 8, RemoteRight::Write), Err(RemoteFault::InvalidStag));
    assert_eq!(registry.pin(domain, slice, LocalRight::Read), Err(MemoryError::Gone(slice.region)), "no new work");
    assert!(matches!(registry.release_domain(domain), Err(MemoryError::DomainInUse { regions: 1, .. })));

    registry.unpin(slice);
    registry.copy_out(&slice, &mut out, &mut NoDigest).unwrap();
    registry.unpin(granted);
    assert_eq!(registry.copy_out(&slice, &mut out, &mut NoDigest), Err(MemoryError::Gone(slice.region)));
    registry.release_domain(domain).unwrap();
}

#[test]
fn pinning_a_gather_list_is_all_or_nothing() {
    let (registry, domain) = registry();
    let good = registry.register(domain, vec![0; 8], ALL, 0).unwrap();
    let readable = registry.register(domain, vec![0; 8], Access::LOCAL_READ, 0).unwrap();
    let gather =
        Gather::new(&[good.slice(..4).unwrap(), good.slice(4..).unwrap(), readable.slice(..).unwrap()]).unwrap();
    assert!(registry.pin_all(domain, gather.slices(), LocalRight::Write).is_err());
    registry.pin_all(domain, gather.slices(), LocalRight::Read).unwrap();
    let (good, error) = good.deregister().unwrap_err();
    assert_eq!(error, MemoryError::InFlight { pins: 2 });
    drop(readable);
    registry.unpin_all(gather.slices());
    assert_eq!(good.deregister().unwrap().len(), 8);
    registry.release_domain(domain).unwrap();
}

#[test]
fn invalidation_ends_remote_access_alone() {
    let (registry, domain) = registry();
    let region = registry.register(domain, vec![0; 8], ALL, 0).unwrap();
    let granted = registry.check_remote(domain, region.stag(), 0, 8, RemoteRight::Write).unwrap();
    registry.copy_in(&granted, &[1; 8], &mut NoDigest).unwrap();
    registry.invalidate(domain, region.stag()).unwrap();

    let ended = MemoryError::Invalidated(region.id());
    assert_eq!(registry.copy_in(&granted, &[2; 8], &mut NoDigest), Err(ended));
    assert_eq!(registry.copy_out(&granted, &mut [0; 8], &mut NoDigest), Err(ended));
    assert_eq!(registry.digest(&granted, &mut NoDigest), Err(ended));
    assert_eq!(registry.resolve(&granted).map(drop), Err(ended));
    assert_eq!(registry.pin(domain, granted, LocalRight::Read), Err(ended));
    assert_eq!(registry.check_remote(domain, region.stag(), 0, 8, RemoteRight::Read), Err(RemoteFault::InvalidStag));
    assert_eq!(registry.invalidate(domain, region.stag()), Err(RemoteFault::InvalidStag));
    assert_eq!(region.to_vec(), [1; 8]);
    registry.copy_in(&region.slice(..).unwrap(), &[3; 8], &mut NoDigest).unwrap();
    assert_eq!(region.to_vec(), [3; 8]);
}

#[test]
fn limits_have_names() {
    let limits = Limits { domains: 2, regions: 2, bytes: 100 };
    let registry = Registry::new([1, 2, 3, 4], limits);
    let domain = registry.allocate_domain().unwrap();
    let other = registry.allocate_domain().unwrap();
    assert_eq!(registry.allocate_domain(), Err(MemoryError::Limit { name: "domains", limit: 2 }));
    registry.release_domain(other).unwrap();
    assert_eq!(registry.release_domain(other), Err(MemoryError::UnknownDomain(other)));
    assert_ne!(registry.allocate_domain().unwrap(), other, "numbers are not reused");
    let refused = registry.register(other, vec![], ALL, 0).map(drop);
    assert_eq!(refused, Err(MemoryError::UnknownDomain(other)));

    let first = registry.register(domain, vec![0; 60], ALL, 0).unwrap();
    let too_much = registry.register(domain, vec![0; 41], ALL, 0).map(drop);
    assert_eq!(too_much, Err(MemoryError::Limit { name: "bytes", limit: 100 }));
    let second = registry.register(domain, vec![0; 40], ALL, 0).unwrap();
    let too_many = registry.register(domain, vec![], ALL, 0).map(drop);
    assert_eq!(too_many, Err(MemoryError::Limit { name: "regions", limit: 2 }));
    drop(first);
    registry.register_zeroed(domain, 60, ALL, 0).unwrap();
    drop(second);
}

#[test]
fn gather_lists_are_one_run_of_bytes() {
    let (registry, domain) = registry();
    let first = registry.register(domain, vec![0; 10], ALL, 0).unwrap();
    let second = registry.register(domain, vec![0; 10], ALL, 0).unwrap();
    let gather = Gather::new(&[first.slice(8..).unwrap(), second.slice(..5).unwrap()]).unwrap();
    let mut tape = Tape::default();
    registry.copy_in_gather(&gather, 1, b"abcd", &mut tape).unwrap();
    assert_eq!(tape.0, b"abcd");
    assert_eq!((first.to_vec(), second.to_vec()), (b"\0\0\0\0\0\0\0\0\0a".to_vec(), b"bcd\0\0\0\0\0\0\0".to_vec()));
    let mut out = [0; 3];
    registry.copy_out_gather(&gather, 1, &mut out, &mut tape).unwrap();
    registry.digest_gather(&gather, 3, 2, &mut tape).unwrap();
    assert_eq!((&out, tape.0.as_slice()), (b"abc", &b"abcdabccd"[..]));

    registry.copy_in_gather(&gather, 7, &[], &mut NoDigest).unwrap();
    for (skip, length) in [(0, 8), (7, 1), (8, 0), (u32::MAX, 1)] {
        let error = MemoryError::OutOfBounds { offset: u64::from(skip), length, region_length: 7 };
        let bytes = vec![0; length as usize];
        assert_eq!(registry.copy_in_gather(&gather, skip, &bytes, &mut NoDigest), Err(error));
        assert_eq!(registry.digest_gather(&gather, skip, length as u32, &mut NoDigest), Err(error));
    }
}

#[test]
fn atomics_need_eight_aligned_bytes() {
    let (registry, domain) = registry();
    let region = registry.register_zeroed(domain, 24, ALL, 0).unwrap();
    let add = AtomicOperation::FetchAdd { add: 5, mask: 0 };
    let at = |offset| region.slice(offset..offset + 8).unwrap();
    assert_eq!(registry.atomic(&at(8), add), Ok(0));
    assert_eq!(registry.atomic(&at(8), add), Ok(5));
    assert_eq!(region.load_u64(8, Ordering::Acquire), Ok(10));
    let before = region.to_vec();
    assert_eq!(registry.atomic(&at(4), add), Err(MemoryError::Misaligned { offset: 4, size: 8 }));
    let short = Err(MemoryError::LengthMismatch { slice: 4, given: 8 });
    assert_eq!(registry.atomic(&region.slice(8..12).unwrap(), add), short);
    assert_eq!(region.to_vec(), before);
}

#[test]
fn atomics_of_many_threads_are_not_lost() {
    let rounds = if cfg!(miri) { 20 } else { 10_000 };
    let (registry, domain) = registry();
    let region = registry.register_zeroed(domain, 8, ALL, 0).unwrap();
    let slice = region.slice(..).unwrap();
    let seen = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let before = registry.atomic(&slice, AtomicOperation::FetchAdd { add: 1, mask: 0 }).unwrap();
                    seen.fetch_xor(before, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(region.load_u64(0, Ordering::SeqCst), Ok(3 * rounds));
    // Each value was seen exactly once.
    assert_eq!(seen.into_inner(), (0..3 * rounds).fold(0, |all, value| all ^ value));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 5 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Fused copy and digest is the same as one after the other, for lengths around the blocks and the short path.
    #[test]
    fn fused_passes_equal_separate_ones(
        length in prop_oneof![0usize..20, 2040usize..2060, 4090usize..4110, Just(10_000)],
        offset in 0u64..20,
        first: u8,
    ) {
        let (registry, domain) = registry();
        let region = registry.register_zeroed(domain, 10_020, ALL, 0).unwrap();
        let bytes: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(first)).collect();
        let slice = region.slice(offset..offset + length as u64).unwrap();

        let mut tape = Tape::default();
        registry.copy_in(&slice, &bytes, &mut tape).unwrap();
        prop_assert_eq!(&tape.0, &bytes);

        let mut expected = vec![0; 10_020];
        expected[offset as usize..][..length].copy_from_slice(&bytes);
        prop_assert_eq!(region.to_vec(), expected, "nothing else was touched");

        let (mut tape, mut out) = (Tape::default(), vec![0; length]);
        registry.copy_out(&slice, &mut out, &mut tape).unwrap();
        prop_assert_eq!(&out, &bytes);
        prop_assert_eq!(&tape.0, &bytes);

        let mut tape = Tape::default();
        registry.digest(&slice, &mut tape).unwrap();
        prop_assert_eq!(&tape.0, &bytes);
    }

    /// A registered word behaves as the model does under any run of operations.
    #[test]
    fn atomics_follow_their_arithmetic(
        operations in prop::collection::vec((0..3, any::<[u64; 4]>()), 1..20),
        start: u64,
    ) {
        let (registry, domain) = registry();
        let region = registry.register_zeroed(domain, 8, ALL, 0).unwrap();
        region.store_u64(0, start, Ordering::SeqCst).unwrap();
        let mut model = start;
        for (kind, [a, b, c, d]) in operations {
            let operation = match kind {
                0 => AtomicOperation::FetchAdd { add: a, mask: b },
                1 => AtomicOperation::Swap { swap: a, mask: b },
                _ => AtomicOperation::CompareSwap { swap: a, swap_mask: b, compare: c, compare_mask: d & d >> 7 & c },
            };
            prop_assert_eq!(registry.atomic(&region.slice(..).unwrap(), operation), Ok(model));
            model = operation.apply(model);
        }
        prop_assert_eq!(region.load_u64(0, Ordering::SeqCst), Ok(model));
    }
}

/// One thread places by remote access, another ends that access: afterwards nothing changes any more, for short and
/// long pieces.
#[test]
fn nothing_lands_after_an_invalidation() {
    let rounds = if cfg!(miri) { 2 } else { 100 };
    for length in [1024u32, 65_536] {
        let (registry, domain) = registry();
        for _ in 0..rounds {
            let region = registry.register(domain, vec![0; length as usize], ALL, 0).unwrap();
            let granted = registry.check_remote(domain, region.stag(), 0, length, RemoteRight::Write).unwrap();
            let started = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut bytes = vec![0u8; length as usize];
                    let ended = (1..1_000_000).find_map(|value| {
                        bytes.fill(value as u8);
                        let copied = registry.copy_in(&granted, &bytes, &mut NoDigest);
                        started.store(true, Ordering::Relaxed);
                        copied.err()
                    });
                    assert_eq!(ended, Some(MemoryError::Invalidated(region.id())));
                });
                while !started.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                assert!(region.invalidate());
                let bytes = region.to_vec();
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a copy was cut off or still under way");
                assert_eq!(bytes, region.to_vec());
            });
        }
    }
}

/// Deregistration waits for a system call that uses the memory: simulated by holding its address.
#[test]
fn deregistration_waits_for_who_holds_an_address() {
    let (registry, domain) = registry();
    let region = registry.register(domain, vec![0; 8192], ALL, 0).unwrap();
    let granted = registry.check_remote(domain, region.stag(), 0, 8192, RemoteRight::Write).unwrap();
    let done = AtomicBool::new(false);
    let held = registry.resolve(&granted).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let buffer = region.deregister().unwrap();
            done.store(true, Ordering::SeqCst);
            buffer
        });
        // The region leaves the table first; from then on the other thread can only be waiting for this one.
        while registry.resolve(&granted).is_ok() {
            thread::yield_now();
        }
        for _ in 0..1000 {
            assert!(!done.load(Ordering::SeqCst), "it did not wait");
            thread::yield_now();
        }
        // SAFETY: Valid as long as it is held.
        unsafe { held.pointer().as_ptr().write_bytes(9, held.length()) };
        drop(held);
        assert!(waiter.join().unwrap().iter().all(|byte| *byte == 9));
    });
}

#[test]
fn one_call_may_hold_several_slices_of_a_region() {
    let (registry, domain) = registry();
    let region = registry.register(domain, vec![0; 16], ALL, 0).unwrap();
    let held: Vec<_> =
        [0u64, 8].map(|at| registry.resolve(&region.slice(at..at + 8).unwrap()).unwrap()).into_iter().collect();
    assert_eq!(held[1].pointer().addr().get() - held[0].pointer().addr().get(), 8);
    assert_eq!(held[0].length(), 8);
    drop(held);
    drop(region);
}

/// Threads register, pin, touch and drop at will; every touch finds the bytes of its own region or a typed error.
#[test]
fn names_are_never_confused() {
    let rounds = if cfg!(miri) { 10 } else { 2000 };
    let (registry, domain) = registry();
    thread::scope(|scope| {
        for thread in 1..=3u8 {
            let registry = &registry;
            scope.spawn(move || {
                let mut old: Option<Slice> = None;
                for _ in 0..rounds {
                    let region = registry.register(domain, vec![thread; 64], ALL, 0).unwrap();
                    let slice = region.slice(..).unwrap();
                    registry.pin(domain, slice, LocalRight::Read).unwrap();
                    drop(region);
                    let mut out = [0; 64];
                    registry.copy_out(&slice, &mut out, &mut NoDigest).unwrap();
                    assert_eq!(out, [thread; 64]);
                    registry.unpin(slice);
                    assert_eq!(registry.digest(&slice, &mut NoDigest), Err(MemoryError::Gone(slice.region)));
                    if let Some(old) = old.replace(slice) {
                        assert_eq!(registry.digest(&old, &mut NoDigest), Err(MemoryError::Gone(old.region)));
                    }
                }
            });
        }
    });
    registry.release_domain(domain).unwrap();
}

#[test]
fn errors_name_their_region() {
    let error = MemoryError::Gone(RegionId { index: 3, generation: 2 });
    assert_eq!(error.to_string(), "memory region 3.2 is not registered any more");
}

#[test]
fn an_owner_may_choose_the_stag() {
    let (registry, domain) = registry();
    let chosen = |stag| RegionAttributes { access: ALL, base: 100, stag: Some(Stag(stag)), watch: None };
    let with = |stag| registry.register_with(domain, vec![0; 8], &chosen(stag));
    let first = with(0).unwrap();
    assert_eq!((first.stag(), first.base()), (Stag(0), 100));
    let slice = registry.check_remote(domain, Stag(0), 104, 4, RemoteRight::Write).unwrap();
    assert_eq!(with(0).err(), Some(MemoryError::StagInUse(Stag(0))));
    // What was refused took no place, and the other keeps its own.
    let (second, third) = (with(u32::MAX).unwrap(), registry.register(domain, vec![0; 8], ALL, 0).unwrap());
    assert_eq!((second.id().index, third.id().index), (1, 2));
    registry.copy_in(&slice, &[7; 4], &mut NoDigest).unwrap();
    assert_eq!(first.to_vec()[4..], [7; 4]);
    drop(first);
    assert_eq!(registry.check_remote(domain, Stag(0), 100, 1, RemoteRight::Read), Err(RemoteFault::InvalidStag));
    let again = with(0).unwrap();
    // A slice of the one before is not one of this.
    assert!(registry.copy_in(&slice, &[9; 4], &mut NoDigest).is_err());
    assert_eq!(again.to_vec(), [0; 8]);
}

#[derive(Default)]
struct Seen(parking_lot::Mutex<Vec<(RemoteRight, u64)>>);

impl crate::Watch for Seen {
    fn accessed(&self, right: RemoteRight, owner: u64) {
        self.0.lock().push((right, owner));
    }
}

#[test]
fn a_watch_is_told_of_its_own_region_alone() {
    let (registry, domain) = registry();
    let seen = Arc::new(Seen::default());
    let mut attributes = RegionAttributes::new(ALL);
    attributes.watch = Some(Arc::clone(&seen) as Arc<dyn crate::Watch>);
    let region = registry.register_with(domain, vec![0; 8], &attributes).unwrap();
    let other = registry.register(domain, vec![0; 8], ALL, 0).unwrap();
    let elsewhere = registry.allocate_domain().unwrap();
    registry.report_access(domain, other.stag(), RemoteRight::Write, 1);
    registry.report_access(elsewhere, region.stag(), RemoteRight::Write, 2);
    registry.report_access(domain, region.stag(), RemoteRight::Read, 3);
    assert_eq!(*seen.0.lock(), [(RemoteRight::Read, 3)]);
    region.invalidate();
    registry.report_access(domain, region.stag(), RemoteRight::Read, 4);
    assert_eq!(seen.0.lock().len(), 1);
}

#[test]
fn parts_are_copied_behind_each_other_and_must_fill_the_slice() {
    let (registry, domain) = registry();
    let region = registry.register(domain, vec![0; 10_000], ALL, 0).unwrap();
    // A short slice is touched under the table's lock, a long one in the region's gate.
    for length in [10, 9000] {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let slice = region.slice(500..500 + length as u64).unwrap();
        let (one, rest) = bytes.split_at(3);
        let (two, three) = rest.split_at(length / 2);
        registry.copy_in_parts(&slice, [one, &[], two, three]).unwrap();
        let mut out = vec![0xa5; length];
        registry.copy_out(&slice, &mut out, &mut NoDigest).unwrap();
        assert_eq!(out, bytes);
        let mut out = vec![0xa5; length];
        let (first, rest) = out.split_at_mut(4);
        let (empty, second) = rest.split_at_mut(0);
        let parts = [(first, 1), (empty, 2), (second, 3)];
        let mut reported = vec![];
        registry.copy_out_parts(&slice, parts, |which, tape: Tape| reported.push((which, tape.0))).unwrap();
        assert_eq!(reported, [(1, bytes[..4].to_vec()), (2, vec![]), (3, bytes[4..].to_vec())]);
        assert_eq!(out, bytes);
        let short = registry.copy_out_parts(&slice, [(&mut out[1..], ())], |(), _: NoDigest| {});
        assert_eq!(short, Err(MemoryError::LengthMismatch { slice: length as u64, given: length as u64 - 1 }));
        out.push(0xa5);
        let (first, rest) = out.split_at_mut(4);
        let long = registry.copy_out_parts(&slice, [(first, ()), (rest, ())], |(), _: NoDigest| {});
        assert_eq!(long, Err(MemoryError::LengthMismatch { slice: length as u64, given: length as u64 + 1 }));
        let mismatch = MemoryError::LengthMismatch { slice: length as u64, given: length as u64 - 3 };
        assert_eq!(registry.copy_in_parts(&slice, [two, three]), Err(mismatch));
        assert!(registry.copy_in_parts(&slice, [one, two, three, &[0]]).is_err());
    }
    let slice = region.slice(..9000).unwrap();
    drop(region);
    assert_eq!(registry.copy_in_parts(&slice, [&[1; 9000][..]]), Err(MemoryError::Gone(slice.region)));
}
