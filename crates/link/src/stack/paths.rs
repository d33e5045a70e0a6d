//! What connections have found out about the paths to their peers, for those that begin later.

use std::net::IpAddr;

use weft_base::Time;

/// Paths that are remembered. Then the oldest is forgotten, and the next connection finds it out again.
const MOST: usize = 64;

/// Paths on which trains were lost while single segments arrived, and when that was found out.
#[derive(Debug, Default)]
pub(super) struct Paths {
    without_trains: Vec<(IpAddr, Time)>,
}

impl Paths {
    /// A connection to this peer avoids trains since that time, or does so no longer.
    pub(super) fn set_avoided(&mut self, peer: IpAddr, since: Option<Time>) {
        self.without_trains.retain(|(known, _)| *known != peer);
        if let Some(since) = since {
            if self.without_trains.len() == MOST {
                self.without_trains.remove(0);
            }
            self.without_trains.push((peer, since));
        }
    }

    /// Since when trains are avoided to this peer.
    pub(super) fn avoided_since(&self, peer: IpAddr) -> Option<Time> {
        self.without_trains.iter().find(|(known, _)| *known == peer).map(|(_, since)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_remembered_until_a_train_passes_or_too_many_are_known() {
        let mut paths = Paths::default();
        let peer = |last: usize| IpAddr::from([10, 0, 0, last as u8]);
        let at = |nanos: usize| Some(Time::from_nanos(nanos as u64));
        (0..MOST).for_each(|index| paths.set_avoided(peer(index), at(index)));
        paths.set_avoided(peer(0), at(100));
        assert_eq!((paths.avoided_since(peer(0)), paths.avoided_since(peer(1))), (at(100), at(1)));
        paths.set_avoided(peer(200), at(200));
        assert_eq!((paths.avoided_since(peer(1)), paths.avoided_since(peer(200))), (None, at(200)));
        paths.set_avoided(peer(200), None);
        assert_eq!(paths.avoided_since(peer(200)), None);
    }
}
