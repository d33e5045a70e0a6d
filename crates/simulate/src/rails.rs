//! Hosts with several addresses, each on a network of its own: what Edge's rails go over.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr};

use weft_base::{Random, Time};
use weft_emulate::Queue;
use weft_nic::Counters;

use crate::packets::PacketBehaviour;
use crate::world::World;

/// Networks are cut at random during this time.
const CUT_FOR: Duration = Duration::from_secs(20);
/// The longest cut, and the longest time between two of a network.
const LONGEST_CUT: u64 = 300;
const LONGEST_GAP: u64 = 400;

/// The address of a host on a network.
pub(crate) fn address(host: usize, network: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, network as u8, 1 + host as u8).into()
}

/// The addresses of a host that is on this many networks.
pub(crate) fn addresses(host: usize, networks: usize) -> Vec<IpAddr> {
    (0..networks).map(|network| address(host, network)).collect()
}

/// Lays `networks` networks between `hosts` hosts: unlike ones, which are cut at random, in one direction or both.
/// Nothing passes from one network to another where the seed says so.
pub(crate) fn lay(world: &World, hosts: usize, networks: usize, behaviour: &PacketBehaviour, seed: u64) {
    let mut random = Random::new(seed ^ 0x7261_696c);
    let (joined, always) = (random.one_in(2), Time::ZERO..Time::from_nanos(u64::MAX));
    for network in 0..networks {
        let delay = Duration::from_micros(1 + random.below(5000));
        let rate_bits_per_s = random.one_in(2).then(|| 5_000_000 + random.below(1_000_000_000));
        let queue = Queue { bytes: 20_000 + random.below(200_000), ..behaviour.links.queue };
        let links = weft_emulate::Settings { delay, rate_bits_per_s, queue, ..behaviour.links };
        for (from, to) in pairs(hosts) {
            world.set_way(address(from, network), address(to, network), links);
            for other in (0..networks).filter(|other| !joined && *other != network) {
                world.cut(address(from, network), address(to, other), always.clone());
            }
        }
        cut_at_random(world, hosts, network, &mut random);
    }
}

fn cut_at_random(world: &World, hosts: usize, network: usize, random: &mut Random) {
    let mut at = Time::ZERO + Duration::from_millis(random.below(LONGEST_GAP));
    while at < Time::ZERO + CUT_FOR {
        let end = at + Duration::from_millis(1 + random.below(LONGEST_CUT));
        let both = random.one_in(2);
        for (from, to) in pairs(hosts) {
            if both || random.one_in(2) {
                world.cut(address(from, network), address(to, network), at..end);
            }
        }
        at = end + Duration::from_millis(random.below(LONGEST_GAP));
    }
}

fn pairs(hosts: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..hosts).flat_map(move |from| (0..hosts).filter(move |to| *to != from).map(move |to| (from, to)))
}

/// Rails that were opened, and that were left for being silent.
pub(crate) const fn counted(counters: &Counters) -> (u64, u64) {
    (counters.rails_opened, counters.rails_left)
}
