//! The addresses of this host that a connection's rails leave by.

use std::net::{IpAddr, SocketAddr};

use arrayvec::ArrayVec;
use weft_base::LocalAddress;
use weft_edge::RailAddress;

use super::outbox::{Path, Paths};
use crate::lower::{DatagramKey, RailPort};
use crate::settings::Rails;

/// The ports beside that of rail 0. The index by which the machine knows each is its place, plus 1; it keeps that as
/// long as it is there.
#[derive(Debug, Default)]
pub(super) struct PathTable {
    pub(super) places: Vec<Option<RailPort>>,
    /// Of which of the engine's lists they are.
    pub(super) serial: u32,
}

impl PathTable {
    /// Takes those of a new list.
    pub(super) fn renew<'a>(&mut self, list: impl Iterator<Item = &'a RailPort> + Clone) {
        for place in &mut self.places {
            *place = place.filter(|here| list.clone().any(|rail| rail == here));
        }
        for rail in list {
            let is_free = self.places.iter().position(Option::is_none);
            match is_free {
                _ if self.places.contains(&Some(*rail)) => {}
                Some(at) => self.places[at] = Some(*rail),
                None if self.places.len() < Rails::MOST - 1 => self.places.push(Some(*rail)),
                None => {}
            }
        }
    }

    pub(super) fn addresses(&self, own: SocketAddr) -> ArrayVec<RailAddress, { Rails::MOST }> {
        let others = (1..).zip(&self.places).filter_map(|(local, rail)| {
            let address = rail.as_ref()?.address;
            Some(RailAddress { local, address })
        });
        core::iter::once(RailAddress { local: 0, address: own }).chain(others).collect()
    }

    /// The index of the place that a datagram has come to: at its port, or else, at a port of many addresses, at the
    /// first flow of its address.
    pub(super) fn local_of(&self, port: Option<DatagramKey>, to: Option<LocalAddress>) -> u8 {
        if self.places.is_empty() {
            return 0;
        }
        let is_there = |ip: IpAddr| to.is_some_and(|to| to.ip == ip);
        let find = |is: &dyn Fn(&RailPort) -> bool| self.places.iter().position(|rail| rail.as_ref().is_some_and(is));
        let at =
            find(&|rail| Some(rail.port) == port).or_else(|| find(&|rail| rail.flow == 0 && is_there(rail.from.ip)));
        at.map_or(0, |at| at as u8 + 1)
    }

    /// By the index that the machine knows them by, with that of rail 0.
    pub(super) fn paths(&self, first: Path) -> Paths<'_> {
        Paths { first, others: &self.places }
    }
}
