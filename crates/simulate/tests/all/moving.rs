//! A host whose only address becomes another one, over Edge in virtual time: connections continue.

use core::time::Duration;
use std::net::IpAddr;

use weft_base::{Edge, Gather, Slice, Time};
use weft_memory::{Access, Region};
use weft_nic::Rails;
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest, Status};
use weft_simulate::{Behaviour, End, Pair, PairOptions, World};

const BYTES: u32 = 1_000_000;

fn region(end: &End<Edge>, byte: u8) -> Region {
    end.nic.registry().register(end.domain, vec![byte; BYTES as usize], Access::all(), 0).unwrap()
}

fn connected(rails: Rails) -> Pair<Edge> {
    let mut options = PairOptions { networks: 1, ..PairOptions::default() };
    options.settings.rails = rails;
    let pair = Pair::<Edge>::unconnected(&World::new(13, Behaviour::default()), &options);
    assert!(pair.connect(&options));
    pair
}

/// A write of this side, and a read.
fn begin(pair: &Pair<Edge>) -> [Region; 3] {
    let (mine, theirs, answer) = (region(&pair.active, 1), region(&pair.passive, 2), region(&pair.active, 0));
    let whole = |region: &Region| Gather::from(Slice { region: region.id(), offset: 0, length: BYTES });
    let target = RemoteTarget { stag: theirs.stag(), offset: 0 };
    let operations = [
        Operation::Read { sink: whole(&answer), source: target },
        Operation::Write { payload: Payload::Gather(whole(&mine)), target },
    ];
    for (id, operation) in operations.into_iter().enumerate() {
        let request =
            SendRequest { id: id as u64, operation, signaled: true, fence: id > 0, flags: RequestFlags::NONE };
        pair.active.nic.post_send(&pair.active.queue_pair, [request]).unwrap();
    }
    [mine, theirs, answer]
}

fn read(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; BYTES as usize];
    region.read(0, &mut bytes).unwrap();
    bytes
}

/// All that was begun is done within a minute: a side that has nothing to send sees after half of that, by the
/// keep-alive, that its address has changed.
fn end(pair: &Pair<Edge>, [_, theirs, answer]: &[Region; 3], what: &str) {
    let mut done = Vec::new();
    pair.run(Duration::from_secs(60), || {
        pair.active.take_sends(&mut done);
        done.len() == 2
    });
    assert!(done.len() == 2 && done.iter().all(|one| one.status == Status::Success), "{what}: {done:?}");
    assert!(read(answer).iter().all(|byte| *byte == 2) && read(theirs).iter().all(|byte| *byte == 1), "{what}");
}

#[test]
fn a_connection_goes_on_when_the_only_address_of_a_host_changes() {
    for rails in [Rails::default(), Rails::One] {
        // The one that called, whose port is at any address; and the one that was called, whose port is at the one.
        for host in [0, 1] {
            for (gone_for, is_idle) in
                [(Duration::ZERO, false), (Duration::from_secs(2), false), (Duration::ZERO, true)]
            {
                let what = format!("host {host}, without an address for {gone_for:?}, idle: {is_idle}, {rails:?}");
                let pair = connected(rails.clone());
                let before = (!is_idle).then(|| begin(&pair));
                // In the middle of it.
                pair.run(Duration::from_millis(if is_idle { 5000 } else { 3 }), || false);
                let nowhere: IpAddr = "192.0.2.1".parse().unwrap();
                let there: IpAddr = format!("10.0.0.{}", 100 + host).parse().unwrap();
                pair.world.set_addresses(host, &[nowhere]);
                let peer = format!("10.0.0.{}", 2 - host).parse().unwrap();
                pair.world.cut(nowhere, peer, Time::ZERO..Time::from_nanos(u64::MAX));
                pair.run(gone_for, || false);
                pair.world.set_addresses(host, &[there]);
                let begun = before.unwrap_or_else(|| begin(&pair));
                end(&pair, &begun, &what);
                // Another time.
                pair.world.set_addresses(host, &[format!("10.0.0.{}", 200 + host).parse().unwrap()]);
                let begun = begin(&pair);
                end(&pair, &begun, &what);
            }
        }
    }
}
