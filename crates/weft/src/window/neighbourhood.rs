//! What ranks tell each other before they are connected: where they can be reached, and which processors they run on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use weft_nic::{Address, Transport};

/// What one rank tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) address: Address,
    /// The boot of its machine; 0 where that is unknown.
    machine: u128,
    /// The processors on which it may run.
    processors: BTreeSet<u32>,
}

impl Rank {
    /// The calling thread, with the address of its endpoint.
    pub(super) fn here(address: Address) -> Self {
        let machine = weft_driver::host_id().map_or(0, |host| u128::from_be_bytes(host.boot));
        Self { address, machine, processors: weft_driver::allowed_processors().into_iter().collect() }
    }

    /// The id of the address and the machine in hexadecimal, processors as ranges, then the paths of the address, and
    /// by what it is called, if that is known.
    pub(super) fn emit(&self) -> String {
        let transport = self.address.transport.map(|transport| format!("by={}", transport.name()));
        let paths: Vec<String> = self.address.paths.iter().map(SocketAddr::to_string).chain(transport).collect();
        let ranges = ranges(&self.processors);
        let ranges: Vec<String> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        format!("{:x} {:x} ,{} {}", self.address.id, self.machine, ranges.join(","), paths.join(" "))
    }

    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(text).ok()?.split(' ');
        let mut address =
            Address { id: u64::from_str_radix(words.next()?, 16).ok()?, paths: Default::default(), transport: None };
        let machine = u128::from_str_radix(words.next()?, 16).ok()?;
        let mut processors = BTreeSet::new();
        for range in words.next()?.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-')?;
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if last > MOST_PROCESSORS {
                return None;
            }
            processors.extend(first..=last);
        }
        for word in words {
            match word.strip_prefix("by=") {
                Some(name) => address.transport = Some(Transport::of_name(name)?),
                None => address.paths.try_push(word.parse().ok()?).ok()?,
            }
        }
        (!address.paths.is_empty()).then_some(Self { address, machine, processors })
    }
}

/// No machine has a processor beyond this one.
const MOST_PROCESSORS: u32 = 65_535;

fn ranges(processors: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &processor in processors {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == processor => *last = processor,
            _ => ranges.push((processor, processor)),
        }
    }
    ranges
}

/// How many ranks share a processor where they are closest, rounded up; 0 where some do not know their processors.
pub(super) fn crowd(ranks: &[Rank]) -> usize {
    let mut machines: BTreeMap<u128, (usize, BTreeSet<u32>)> = BTreeMap::new();
    for rank in ranks {
        if rank.processors.is_empty() || rank.machine == 0 {
            return 0;
        }
        let (count, processors) = machines.entry(rank.machine).or_default();
        *count += 1;
        processors.extend(&rank.processors);
    }
    machines.values().map(|(count, processors)| count.div_ceil(processors.len())).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(machine: u128, processors: &[u32]) -> Rank {
        let address = Address::from("127.0.0.1:5".parse::<SocketAddr>().unwrap());
        Rank { address, machine, processors: processors.iter().copied().collect() }
    }

    #[test]
    fn what_a_rank_tells_comes_back_as_itself_and_nonsense_does_not() {
        let mut told = rank(u128::MAX, &[0, 1, 2, 5, 9, 10]);
        told.address.id = u64::MAX;
        told.address.paths.push("[::1]:7".parse().unwrap());
        assert_eq!(Rank::parse(told.emit().as_bytes()), Some(told.clone()));
        told.address.transport = Some(Transport::SharedMemoryOrIwarp);
        assert_eq!(Rank::parse(told.emit().as_bytes()), Some(told));
        let blind = rank(0, &[]);
        assert_eq!(Rank::parse(blind.emit().as_bytes()), Some(blind));
        assert!(Rank::parse(b"1 2 ,0-1 127.0.0.1:5").is_some());
        for text in [
            "",
            "1",
            "1 2 ,0-1",
            "x 2 ,0-1 127.0.0.1:5",
            "1 x ,0-1 127.0.0.1:5",
            "1 2 ,0 127.0.0.1:5",
            "1 2 ,0-70000 127.0.0.1:5",
            "1 2 ,0-1 127.0.0.1",
            "1 2 ,0-1 127.0.0.1:5 by=pigeon",
            "1 2 , 1.1.1.1:1 1.1.1.1:1 1.1.1.1:1 1.1.1.1:1 1.1.1.1:1",
        ] {
            assert_eq!(Rank::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_crowd_is_where_ranks_outnumber_processors() {
        let here = Rank::here(rank(1, &[]).address);
        assert_eq!(crowd(&[here]), 1);
        let both = [0, 1];
        let many = |count: usize| vec![rank(7, &both); count];
        assert_eq!([1, 2, 3, 4, 5].map(|count| crowd(&many(count))), [1, 1, 2, 2, 3]);
        let apart: Vec<Rank> = (0..8).map(|processor| rank(7, &[processor])).collect();
        assert_eq!(crowd(&apart), 1, "each has a processor of its own");
        let mixed: Vec<Rank> = many(2).into_iter().chain((0..8).map(|_| rank(8, &both))).collect();
        assert_eq!(crowd(&mixed), 4);
        assert_eq!(crowd(&[rank(7, &both), rank(0, &both)]), 0);
        assert_eq!(crowd(&[rank(7, &both), rank(7, &[])]), 0);
    }
}
