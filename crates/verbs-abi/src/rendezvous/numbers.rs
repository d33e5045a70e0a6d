//! The numbers of queue pairs, which say where their process is called: it listens at one port for both TCP and UDP,
//! and the lower 12 bits of each number are that port's.

use std::collections::HashSet;
use std::ops::RangeInclusive;

/// Ports below those that Linux gives out by itself and those of Kubernetes. A range begins at a multiple of its 4096.
const FIRST_PORT: u16 = 0x6000;
/// Ports of the range.
pub(super) const PORTS: u16 = 4096;
/// Indices of queue pairs at one port. Numbers below 4096 would be of index 0: 0 and 1 are special with InfiniBand.
const INDICES: RangeInclusive<u32> = 1..=4094;

/// The first port of the range: 0x6000, or what `WEFT_VERBS_PORTS` says, on all hosts alike.
pub(super) fn first_port() -> u16 {
    let Ok(text) = std::env::var("WEFT_VERBS_PORTS") else { return FIRST_PORT };
    let said = text.trim().parse::<u16>().ok().filter(|first| first % PORTS == 0 && *first >= PORTS);
    said.unwrap_or_else(|| {
        crate::log::say(format_args!(
            "WEFT_VERBS_PORTS={text}: write the first of 4096 ports, a multiple of 4096 from 4096 to 61440; \
             {FIRST_PORT} is taken"
        ));
        FIRST_PORT
    })
}

/// The port of the process that has the queue pair with this number.
pub(super) fn port_of(first: u16, number: u32) -> u16 {
    first + (number % u32::from(PORTS)) as u16
}

/// Gives out the numbers of one port, in a circle.
#[derive(Debug)]
pub(super) struct Numbers {
    port: u16,
    next: u32,
    taken: HashSet<u32>,
}

impl Numbers {
    /// Those of a port; `start` is random, so that a process that starts anew has others than the one before.
    pub(super) fn new(port: u16, start: u32) -> Self {
        let next = INDICES.start() + start % (INDICES.end() - INDICES.start() + 1);
        Self { port, next, taken: HashSet::new() }
    }

    /// A number. `None`: all are taken.
    pub(super) fn take(&mut self) -> Option<u32> {
        for _ in INDICES {
            let index = self.next;
            self.next = if index >= *INDICES.end() { *INDICES.start() } else { index + 1 };
            if self.taken.insert(index) {
                return Some(index * u32::from(PORTS) + u32::from(self.port % PORTS));
            }
        }
        None
    }

    /// Gives a number back.
    pub(super) fn release(&mut self, number: u32) {
        self.taken.remove(&(number / u32::from(PORTS)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_tells_the_port() {
        let mut numbers = Numbers::new(0x6abc, 4093);
        let (last, first) = (numbers.take().unwrap(), numbers.take().unwrap());
        assert_eq!((last >> 12, first >> 12), (4094, 1), "in a circle");
        assert_eq!((port_of(0x6000, last), port_of(0x6000, first)), (0x6abc, 0x6abc));
        assert!(last < 1 << 24);
    }

    #[test]
    fn each_is_given_out_once_until_it_comes_back() {
        let mut numbers = Numbers::new(0x6001, 77);
        let mut all: Vec<_> = core::iter::from_fn(|| numbers.take()).collect();
        assert_eq!((all.len(), numbers.take()), (4094, None));
        numbers.release(all[5]);
        assert_eq!(numbers.take(), Some(all[5]));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4094);
    }
}
