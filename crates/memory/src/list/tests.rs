use weft_base::{Digest, DomainId, Gather, MAX_LISTED, NoDigest, RegionId, Slice};

use crate::{Access, Limits, LocalRight, MemoryError, Region, Registry, SliceList};

struct Bench {
    registry: Registry,
    domain: DomainId,
}

impl Bench {
    fn new() -> Self {
        let registry = Registry::new(1, Limits::default());
        let domain = registry.allocate_domain().unwrap();
        Self { registry, domain }
    }

    fn region(&self, access: Access) -> Region {
        self.registry.register_zeroed(self.domain, 64, access, 0).unwrap()
    }

    fn pin(&self, list: &SliceList, need: LocalRight) -> Result<(), MemoryError> {
        self.registry.pin_all(self.domain, &[list.slice()], need)
    }
}

/// Sums up bytes in their order.
#[derive(Default)]
struct Seen(Vec<u8>);

impl Digest for Seen {
    fn update(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

#[test]
fn a_list_reads_and_writes_as_one_run() {
    let bench = Bench::new();
    let registry = &bench.registry;
    let (first, second) = (bench.region(Access::LOCAL_WRITE), bench.region(Access::LOCAL_WRITE));
    let slices = [first.slice(10..13), second.slice(0..0), second.slice(5..9), first.slice(0..2)];
    let list = registry.list(&slices.map(Result::unwrap)).unwrap();
    let whole = list.slice();
    assert_eq!(whole.length, 9);
    registry.copy_in(&whole, b"abcdefghi", &mut NoDigest).unwrap();
    registry.copy_in(&whole.part(2, 3), b"CDE", &mut NoDigest).unwrap();
    registry.copy_in_parts(&whole.part(6, 3), [&b"G"[..], b"", b"HI"]).unwrap();
    let mut out = [0xa5; 9];
    registry.copy_out(&whole, &mut out, &mut NoDigest).unwrap();
    assert_eq!(&out, b"abCDEfGHI");
    let mut bytes = [0xa5; 3];
    first.read(10, &mut bytes).unwrap();
    assert_eq!(&bytes, b"abC");
    let mut seen = Seen::default();
    registry.digest(&whole.part(1, 7), &mut seen).unwrap();
    assert_eq!(seen.0, b"bCDEfGH");
    let (mut left, mut right) = ([0xa5; 4], [0xa5; 2]);
    let parts = [(&mut left[..], b"DEfG".to_vec()), (&mut right, b"HI".to_vec())];
    registry.copy_out_parts(&whole.part(3, 6), parts, |there, seen: Seen| assert_eq!(seen.0, there)).unwrap();
    let all = [(&mut left[..], ()), (&mut right, ()), (&mut [0; 1], ())];
    assert!(registry.copy_out_parts(&whole.part(3, 6), all, |(), _: NoDigest| {}).is_err());
    assert_eq!((&left, &right), (b"DEfG", b"HI"));
    let gather = Gather::from(whole);
    registry.copy_out_gather(&gather, 4, &mut left, &mut NoDigest).unwrap();
    assert_eq!(&left, b"EfGH");
    bench.pin(&list, LocalRight::Write).unwrap();
    registry.fill_pinned(&gather, b"123").unwrap();
    first.read(10, &mut bytes).unwrap();
    assert_eq!(&bytes, b"123");
    assert!(first.deregister().is_ok(), "the pin has ended");
}

#[test]
fn all_of_a_list_is_pinned_or_nothing() {
    let bench = Bench::new();
    let (writable, readable) = (bench.region(Access::LOCAL_WRITE), bench.region(Access::LOCAL_READ));
    let list = bench.registry.list(&[writable.slice(..).unwrap(), readable.slice(..).unwrap()]).unwrap();
    let refused = MemoryError::NotPermitted { region: readable.id(), need: LocalRight::Write };
    assert_eq!(bench.pin(&list, LocalRight::Write), Err(refused));
    assert!(writable.deregister().is_ok(), "nothing of it is pinned");
    assert!(matches!(bench.pin(&list, LocalRight::Read), Err(MemoryError::Gone(_))), "a region has gone since");
}

#[test]
fn a_list_lasts_as_long_as_work_uses_it_and_so_do_its_regions() {
    let bench = Bench::new();
    let region = bench.region(Access::LOCAL_WRITE);
    let list = bench.registry.list(&[region.slice(..8).unwrap(), region.slice(8..16).unwrap()]).unwrap();
    let whole = list.slice();
    bench.pin(&list, LocalRight::Read).unwrap();
    bench.pin(&list, LocalRight::Read).unwrap();
    drop((list, region));
    let mut out = [0; 16];
    assert_eq!(bench.registry.copy_out(&whole, &mut out, &mut NoDigest), Ok(()));
    let refused = bench.registry.pin(bench.domain, whole, LocalRight::Read);
    assert_eq!(refused, Err(MemoryError::Gone(whole.region)), "its owner has dropped it");
    bench.registry.unpin(whole);
    assert_eq!(bench.registry.copy_out(&whole, &mut out, &mut NoDigest), Ok(()));
    bench.registry.unpin(whole);
    let gone = Err(MemoryError::Gone(whole.region));
    assert_eq!(bench.registry.copy_out(&whole, &mut out, &mut NoDigest), gone);
    assert_eq!(bench.registry.release_domain(bench.domain), Ok(()), "the region went with the last pin");
    let next = bench.registry.list(&[]).unwrap();
    let (next, last) = (next.slice().region, whole.region);
    assert_eq!((next.index, next.generation), (last.index, last.generation + 1));
    assert_eq!(bench.registry.copy_out(&whole, &mut out, &mut NoDigest), gone, "the place is another list's");
}

#[test]
fn what_is_nowhere_can_be_pinned_and_not_touched() {
    let bench = Bench::new();
    let void = bench.registry.void(100).unwrap();
    bench.pin(&void, LocalRight::Write).unwrap();
    let slice = void.slice().part(90, 10);
    assert!(bench.registry.copy_in(&slice, &[0; 10], &mut NoDigest).is_err());
    assert!(bench.registry.copy_out(&slice, &mut [0; 10], &mut NoDigest).is_err());
    assert!(bench.registry.resolve(&slice).is_err() && bench.registry.pieces(&slice).is_err());
    bench.registry.unpin(void.slice());
}

#[test]
fn limits_of_a_list() {
    let bench = Bench::new();
    let region = bench.region(Access::LOCAL_WRITE);
    let one = region.slice(0..1).unwrap();
    let most = bench.registry.list(&[one; MAX_LISTED]).unwrap();
    let too_long = bench.registry.list(&[one; MAX_LISTED + 1]).map(drop);
    assert_eq!(too_long, Err(MemoryError::ListTooLong { most: MAX_LISTED }));
    assert_eq!(bench.registry.list(&[most.slice()]).map(drop), Err(MemoryError::NestedList));
    let half = Slice { length: 1 << 31, ..one };
    assert_eq!(bench.registry.list(&[half, half]).map(drop), Err(MemoryError::TooLong { length: 1 << 32 }));
    let beyond = Slice { offset: 10, length: MAX_LISTED as u32, ..most.slice() };
    let refused = bench.registry.pin(bench.domain, beyond, LocalRight::Read);
    assert_eq!(refused, Err(MemoryError::OutOfBounds { offset: 10, length: 16, region_length: 16 }));
    let unknown = Slice { region: RegionId { index: 99, generation: RegionId::LIST }, offset: 0, length: 1 };
    assert!(bench.registry.pin(bench.domain, unknown, LocalRight::Read).is_err());
}
