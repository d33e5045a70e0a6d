//! Chooses which local addresses are joined with which of the peer's by a rail.

use core::cmp::Reverse;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use arrayvec::ArrayVec;
use weft_base::Time;
use weft_wire::edge::addresses::MAX_RAILS;

use crate::rail::PathAddress;

/// Lists with new addresses of the peer are acted on at most this often: a peer that names one address after the other
/// makes this side challenge few. Changes of the own addresses do not count: when a link is mended, both sides name
/// theirs.
const OPEN_INTERVAL: Duration = Duration::from_secs(1);
/// Pairs that failed are tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// An address of this side, by which a rail can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailAddress {
    /// The user's number of it: the index of its socket, below 16. Rail 0 uses 0.
    pub local: u8,
    /// Its socket's address.
    pub address: SocketAddr,
}

/// The addresses of both sides, and which pairs have failed.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    pub(crate) locals: ArrayVec<RailAddress, MAX_RAILS>,
    pub(crate) remotes: ArrayVec<SocketAddr, MAX_RAILS>,
    /// For each local address the local addresses that share its IP address, as bits.
    siblings: [u16; MAX_RAILS],
    /// Failed pairs: for each local address a bit for each of the peer's.
    failed: [u16; MAX_RAILS],
    opened_at: Option<Time>,
    open_at: Option<Time>,
    /// When new addresses of the peer were last acted on, and whether others are to be.
    listed_at: Option<Time>,
    is_listed: bool,
}

impl Pairing {
    /// Sets this side's addresses.
    pub(crate) fn set_locals(&mut self, locals: &[RailAddress], now: Time) {
        self.locals = locals.iter().copied().collect();
        self.siblings = [0; MAX_RAILS];
        for one in locals {
            let is_sibling = |other: &&RailAddress| other.address.ip() == one.address.ip();
            let siblings = locals.iter().filter(is_sibling).fold(0, |bits, other| bits | 1 << other.local);
            self.siblings[usize::from(one.local)] = siblings;
        }
        (self.failed, self.open_at) = ([0; MAX_RAILS], Some(now));
    }

    /// The local addresses that share this one's IP address, as bits; none before they are known.
    pub(crate) fn siblings(&self, local: u8) -> u16 {
        self.siblings[usize::from(local)]
    }

    /// Sets the peer's addresses.
    pub(crate) fn set_remotes(&mut self, remotes: impl Iterator<Item = SocketAddr>, now: Time) {
        let before = core::mem::take(&mut self.remotes);
        self.remotes = remotes.take(MAX_RAILS).collect();
        self.is_listed |= self.remotes.iter().any(|to| !before.contains(to));
        let listed_at = self.listed_at.filter(|_| self.is_listed);
        let at = listed_at.map_or(now, |listed| now.max(listed + OPEN_INTERVAL));
        (self.failed, self.open_at) = ([0; MAX_RAILS], Some(at));
    }

    /// When rails are to be opened.
    pub(crate) fn open_at(&self) -> Option<Time> {
        self.open_at
    }

    /// Whether rails are to be opened now, for all pairs that [`Pairing::next`] gives.
    pub(crate) fn start(&mut self, now: Time) -> bool {
        let is_due = self.open_at.is_some_and(|at| at <= now);
        if is_due {
            if self.opened_at.is_some_and(|opened| now.since(opened) >= RETRY_AFTER) {
                self.failed = [0; MAX_RAILS];
            }
            (self.opened_at, self.open_at) = (Some(now), None);
            if core::mem::take(&mut self.is_listed) {
                self.listed_at = Some(now);
            }
        }
        is_due
    }

    /// A pair worth a new rail: one of its addresses has none yet.
    pub(crate) fn next(&self, used: &[PathAddress]) -> Option<PathAddress> {
        let uses_local = |local: u8| used.iter().filter(|place| place.local == local).count();
        let uses_remote = |to: SocketAddr| used.iter().filter(|place| place.to == to).count();
        let pairs =
            self.locals.iter().enumerate().flat_map(|(row, local)| {
                self.remotes.iter().enumerate().map(move |(column, to)| (row, column, local, to))
            });
        pairs
            .filter(|(row, column, local, to)| {
                let may = self.failed[*row] & 1 << *column == 0 && local.address.is_ipv4() == to.is_ipv4();
                may && (uses_local(local.local) == 0 || uses_remote(**to) == 0)
            })
            .min_by_key(|(row, column, local, to)| {
                let uses = uses_local(local.local) + uses_remote(**to);
                let common = common_bits(local.address.ip(), to.ip());
                (uses, Reverse(common), self.choices(*row, *column), row.abs_diff(*column))
            })
            .map(|(_, _, local, to)| PathAddress { local: local.local, to: *to })
    }

    /// The number of untried pairs of either address, whichever has fewer: addresses without a choice are paired first.
    fn choices(&self, row: usize, column: usize) -> usize {
        let is_left = |row: usize, column: usize| self.failed[row] & 1 << column == 0;
        let of_local = (0..self.remotes.len()).filter(|column| is_left(row, *column)).count();
        let of_remote = (0..self.locals.len()).filter(|row| is_left(*row, column)).count();
        of_local.min(of_remote)
    }

    /// The pair has failed. Others are tried at once, this one later.
    pub(crate) fn fail(&mut self, place: PathAddress, now: Time) {
        let row = self.locals.iter().position(|local| local.local == place.local);
        let column = self.remotes.iter().position(|to| *to == place.to);
        if let (Some(row), Some(column)) = (row, column) {
            self.failed[row] |= 1 << column;
            self.open_at = Some(now);
        }
    }

    /// No pair is left. Failed ones are tried again later.
    pub(crate) fn retry_later(&mut self, now: Time) {
        if self.failed.iter().any(|row| *row != 0) {
            self.open_at = Some(now + RETRY_AFTER);
        }
    }
}

/// The length of the common prefix of two addresses, which is longest within a network (RFC 6724 section 5, rule 9).
/// Bits after the usual length of a network do not count.
fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros().min(24),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros().min(64),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(network: u8, host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, network, host], 4791))
    }

    fn pairing(locals: &[SocketAddr], remotes: &[SocketAddr]) -> Pairing {
        let mut pairing = Pairing::default();
        let locals: Vec<_> =
            locals.iter().enumerate().map(|(local, to)| RailAddress { local: local as u8, address: *to }).collect();
        pairing.set_locals(&locals, Time::ZERO);
        pairing.set_remotes(remotes.iter().copied(), Time::ZERO);
        pairing
    }

    fn all(pairing: &Pairing) -> Vec<(u8, SocketAddr)> {
        let mut used = vec![];
        while let Some(place) = pairing.next(&used) {
            used.push(place);
        }
        used.iter().map(|place| (place.local, place.to)).collect()
    }

    #[test]
    fn each_address_gets_a_rail_in_its_own_network() {
        let pairing = pairing(&[at(1, 1), at(2, 1), at(3, 1)], &[at(3, 2), at(1, 2), at(2, 2)]);
        assert_eq!(all(&pairing), [(0, at(1, 2)), (1, at(2, 2)), (2, at(3, 2))]);
    }

    #[test]
    fn many_meet_one() {
        assert_eq!(all(&pairing(&[at(1, 1), at(1, 3)], &[at(1, 2)])), [(0, at(1, 2)), (1, at(1, 2))]);
        assert_eq!(all(&pairing(&[at(1, 1)], &[at(1, 2), at(1, 3)])), [(0, at(1, 2)), (0, at(1, 3))]);
    }

    #[test]
    fn what_does_not_reach_is_tried_otherwise_and_much_later_again() {
        let mut pairing = pairing(&[at(1, 1), at(1, 3)], &[at(1, 2), at(1, 4)]);
        assert!(pairing.start(Time::ZERO) && !pairing.start(Time::ZERO));
        let place = |local, to| PathAddress { local, to };
        for round in 0..2 {
            assert_eq!(all(&pairing), [(0, at(1, 2)), (1, at(1, 4))]);
            pairing.fail(place(0, at(1, 2)), Time::ZERO);
            assert_eq!(all(&pairing), [(0, at(1, 4)), (1, at(1, 2))]);
            for (local, to) in [(0, at(1, 4)), (1, at(1, 2)), (1, at(1, 4))] {
                pairing.fail(place(local, to), Time::ZERO);
            }
            assert_eq!(all(&pairing), []);
            pairing.retry_later(Time::ZERO);
            assert_eq!(pairing.open_at(), Some(Time::ZERO + RETRY_AFTER));
            assert!(pairing.start(Time::ZERO + RETRY_AFTER * (round + 1)));
        }
    }

    #[test]
    fn new_lists_of_the_peer_are_used_at_most_once_a_second() {
        let mut pairing = pairing(&[at(1, 1)], &[at(1, 2)]);
        assert!(pairing.start(Time::ZERO));
        for host in [9, 10] {
            pairing.set_remotes([at(1, host)].into_iter(), Time::ZERO);
            assert_eq!(pairing.open_at(), Some(Time::ZERO + OPEN_INTERVAL));
        }
        let (later, last) = (Time::ZERO + OPEN_INTERVAL, Time::ZERO + 2 * OPEN_INTERVAL);
        assert!(!pairing.start(Time::ZERO) && pairing.start(later));
        pairing.set_locals(&[], later + OPEN_INTERVAL / 4);
        assert!(pairing.start(later + OPEN_INTERVAL / 4), "the own ones have changed");
        pairing.set_remotes([].into_iter(), later + OPEN_INTERVAL / 2);
        assert!(pairing.start(later + OPEN_INTERVAL / 2), "there is nothing new");
        pairing.set_remotes([at(1, 11)].into_iter(), last);
        assert!(pairing.start(last), "neither has counted");
    }
}
