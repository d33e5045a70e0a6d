//! Known hardware addresses, and which claims of others are believed.

use std::collections::VecDeque;
use std::net::IpAddr;

/// Questions that may be open at a time: an answer to one that has been forgotten is not believed.
const OPEN_QUESTIONS: usize = 256;

/// The hardware addresses of a bounded number of neighbours.
#[derive(Debug)]
pub(super) struct Neighbours {
    known: VecDeque<Neighbour>,
    limit: usize,
    open: VecDeque<IpAddr>,
    /// Neighbours that are suspect since the last poll.
    doubted: VecDeque<IpAddr>,
}

#[derive(Debug)]
struct Neighbour {
    address: IpAddr,
    hardware: [u8; 6],
    /// It was wanted here, and has not only asked itself.
    is_wanted: bool,
    is_doubted: bool,
}

/// How a neighbour's hardware address was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The neighbour asks for an address of this link.
    Question,
    /// It answers.
    Answer,
    /// It says so to all, unasked.
    Claim,
}

impl Neighbours {
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        let open = VecDeque::with_capacity(OPEN_QUESTIONS);
        Self { known: VecDeque::with_capacity(limit), limit, open, doubted: VecDeque::new() }
    }

    pub(super) fn get(&self, address: IpAddr) -> Option<[u8; 6]> {
        self.known.iter().find(|known| known.address == address).map(|known| known.hardware)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// A question was sent: an answer is believed now.
    pub(super) fn ask(&mut self, address: IpAddr) {
        if !self.open.contains(&address) {
            if self.open.len() == OPEN_QUESTIONS {
                self.open.pop_front();
            }
            self.open.push_back(address);
        }
    }

    /// A host says that a neighbour has this hardware address. True: it is so, as far as is known.
    ///
    /// A known neighbour keeps its hardware address: a claim of another makes it suspect, and only when it is forgotten
    /// after that can another take its place. Unasked, only a neighbour that asks is learned.
    pub(super) fn receive(&mut self, address: IpAddr, hardware: [u8; 6], word: Word) -> bool {
        // No host is a group (IEEE 802: the lowest bit of the first byte), nor are these addresses of a host.
        if hardware[0] & 1 == 1 || address.is_unspecified() || address.is_multicast() {
            return false;
        }
        let Some(at) = self.known.iter().position(|known| known.address == address) else {
            return self.learn(address, hardware, word);
        };
        if self.known[at].hardware != hardware {
            self.doubt(at);
            return false;
        }
        self.close(address);
        if let Some(mut known) = self.known.remove(at) {
            known.is_doubted = false;
            self.known.push_back(known);
        }
        self.doubted.retain(|doubted| *doubted != address);
        true
    }

    fn learn(&mut self, address: IpAddr, hardware: [u8; 6], word: Word) -> bool {
        let is_wanted = self.open.contains(&address);
        if word != Word::Question && !is_wanted {
            return false;
        }
        self.close(address);
        if self.known.len() == self.limit && !self.make_room(is_wanted) {
            return false;
        }
        self.known.push_back(Neighbour { address, hardware, is_wanted, is_doubted: false });
        true
    }

    fn close(&mut self, address: IpAddr) {
        self.open.retain(|open| *open != address);
    }

    /// Forgets the neighbour that was silent longest; for one that is not wanted here only another of that kind, so
    /// that a flood of questions pushes out no neighbour in use.
    fn make_room(&mut self, is_wanted: bool) -> bool {
        let unwanted = self.known.iter().position(|known| !known.is_wanted);
        let Some(at) = unwanted.or(is_wanted.then_some(0)) else { return false };
        self.known.remove(at);
        true
    }

    fn doubt(&mut self, at: usize) {
        let known = &mut self.known[at];
        if !known.is_doubted {
            known.is_doubted = true;
            self.doubted.push_back(known.address);
        }
    }

    /// The next neighbour that is suspect since the last call.
    pub(super) fn poll_doubted(&mut self) -> Option<IpAddr> {
        self.doubted.pop_front()
    }

    pub(super) fn is_doubted(&self, address: IpAddr) -> bool {
        self.known.iter().any(|known| known.address == address && known.is_doubted)
    }

    pub(super) fn forget(&mut self, address: IpAddr) {
        self.known.retain(|known| known.address != address);
        self.doubted.retain(|doubted| *doubted != address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn ip(host: u16) -> IpAddr {
        IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host])
    }

    #[test]
    fn unasked_only_who_asks_is_learned() {
        let mut all = Neighbours::new(4);
        assert!(!all.receive(ip(1), HERE, Word::Answer) && !all.receive(ip(1), HERE, Word::Claim));
        assert_eq!(all.get(ip(1)), None);
        assert!(all.receive(ip(1), HERE, Word::Question));
        all.ask(ip(2));
        assert!(all.receive(ip(2), HERE, Word::Answer));
        assert_eq!((all.get(ip(1)), all.get(ip(2))), (Some(HERE), Some(HERE)));
        // Groups and unspecified addresses are never learned.
        assert!(!all.receive(ip(3), [3, 0, 0, 0, 0, 1], Word::Question));
        assert!(!all.receive("::".parse().unwrap(), HERE, Word::Question));
        assert!(!all.receive("224.0.0.1".parse().unwrap(), HERE, Word::Question));
    }

    #[test]
    fn another_word_makes_doubt_and_changes_nothing() {
        for word in [Word::Question, Word::Answer, Word::Claim] {
            let mut all = Neighbours::new(4);
            all.receive(ip(1), HERE, Word::Question);
            assert!(!all.receive(ip(1), THERE, word) && !all.receive(ip(1), THERE, word), "{word:?}");
            assert_eq!((all.get(ip(1)), all.is_doubted(ip(1))), (Some(HERE), true));
            assert_eq!((all.poll_doubted(), all.poll_doubted()), (Some(ip(1)), None), "told once");
            // Not even when the question of whether it is still there is open.
            all.ask(ip(1));
            assert!(!all.receive(ip(1), THERE, Word::Answer));
            assert!(all.receive(ip(1), HERE, Word::Answer) && !all.is_doubted(ip(1)));
            all.receive(ip(1), THERE, Word::Claim);
            all.forget(ip(1));
            assert_eq!((all.get(ip(1)), all.poll_doubted()), (None, None));
        }
    }

    #[test]
    fn a_flood_of_questions_pushes_out_nobody_who_is_wanted() {
        let mut all = Neighbours::new(3);
        all.ask(ip(1));
        all.receive(ip(1), HERE, Word::Answer);
        (100..1000).for_each(|host| {
            all.receive(ip(host), THERE, Word::Question);
        });
        assert_eq!((all.len(), all.get(ip(1))), (3, Some(HERE)));
        assert_eq!(all.get(ip(999)), Some(THERE));
        for host in 2..5 {
            all.ask(ip(host));
            assert!(all.receive(ip(host), HERE, Word::Answer));
        }
        assert_eq!((all.len(), all.get(ip(1)), all.get(ip(4))), (3, None, Some(HERE)), "the oldest goes");
        assert!(!all.receive(ip(50), THERE, Word::Question), "all are wanted");
        (0..10_000).for_each(|host| all.ask(ip(host)));
        assert_eq!(all.open.len(), OPEN_QUESTIONS);
    }
}
