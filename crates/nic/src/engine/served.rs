//! The ports that an engine serves for others.

use std::sync::Arc;

use slotmap::{DefaultKey, SlotMap};
use weft_base::{DatagramLimits, DatagramPort, Interest};

use super::ports::token;
use super::served_port::{PortServer, RxBatch, ServedPort, ServingEnd};
use crate::lower::{Carrier, Datagrams as _, Leaving as _, LeavingOf, TxBatchOf};
use crate::policy::arming::{DisarmPolicy, arms_port};

/// Hints of one visit.
pub(super) const HINTS_OF_A_TURN: usize = 64;

/// The ports that an engine serves, and the engines that serve its own.
pub(super) struct Serving<N: Carrier> {
    /// Of all engines, by their numbers.
    pub(super) port_servers: Arc<[Arc<PortServer<N>>]>,
    /// The number of this one.
    pub(super) index: usize,
    pub(super) served: SlotMap<DefaultKey, Served<N>>,
}

/// One port.
pub(super) struct Served<N: Carrier> {
    pub(super) port: N::Datagram,
    pub(super) served_port: ServingEnd<TxBatchOf<N>>,
    /// Its key among all ports that the network may report on.
    pub(super) token: DefaultKey,
    pub(super) limits: DatagramLimits,
    pub(super) leaving: LeavingOf<N>,
    pub(super) is_polled: bool,
    pub(super) disarm: DisarmPolicy,
    pub(super) empty_polls: u32,
}

impl<N: Carrier> Serving<N> {
    pub(super) fn new(port_servers: Arc<[Arc<PortServer<N>>]>, index: usize) -> Self {
        Self { port_servers, index, served: SlotMap::new() }
    }

    /// The port server of the engine that is to serve this engine's port with this number, if it is another one.
    pub(super) fn server_of(&self, number: usize, engines: usize) -> Option<&Arc<PortServer<N>>> {
        let away = number % engines.clamp(1, self.port_servers.len());
        (away > 0).then(|| &self.port_servers[(self.index + away) % self.port_servers.len()])
    }

    /// The port server of this engine.
    pub(super) fn own(&self) -> &Arc<PortServer<N>> {
        &self.port_servers[self.index]
    }

    /// Whether one is armed.
    pub(super) fn any_armed(&self) -> bool {
        self.served.values().any(|served| !served.is_polled)
    }

    /// Whether one is polled.
    pub(super) fn any_polled(&self) -> bool {
        self.served.values().any(|served| served.is_polled)
    }

    /// Arms those that are polled.
    pub(super) fn watch(&mut self, network: &mut N, all: bool) {
        for served in self.served.values_mut() {
            if served.is_polled && (all || arms_port(served.empty_polls, 1)) {
                served.is_polled = false;
                served.arm(network);
            }
        }
    }
}

impl<N: Carrier> Served<N> {
    pub(super) fn arm(&mut self, network: &mut N) {
        self.disarm.armed();
        let interest = Interest { readable: true, writable: !self.leaving.is_empty(), least: 1 };
        if network.arm_datagram(&mut self.port, token(self.token), interest).is_err() {
            // It can't be armed, so it is polled.
            self.is_polled = true;
        }
    }

    pub(super) fn start_polling(&mut self) {
        self.is_polled = true;
        self.empty_polls = 0;
    }
}

impl<N: Carrier> Served<N> {
    pub(super) fn receive(&mut self) -> bool {
        let served_port: &ServedPort<TxBatchOf<N>> = &self.served_port.0;
        let Some(mut rx_batch) = served_port.room() else {
            // There is work when the owner has given some back.
            self.empty_polls = self.empty_polls.saturating_add(1);
            return false;
        };
        rx_batch.received.clear();
        // A broken port is one at which nothing comes.
        let count = self.port.receive(&mut rx_batch.bytes, &mut rx_batch.received).unwrap_or(0);
        if count == 0 {
            self.empty_polls = self.empty_polls.saturating_add(1);
            served_port.put_room(rx_batch);
            return false;
        }
        self.empty_polls = 0;
        let RxBatch { bytes, received, are_good } = &mut rx_batch;
        are_good.clear();
        for run in received.iter() {
            let datagrams = bytes[run.range.clone()].chunks(run.segment_size.max(1) as usize);
            are_good.extend(datagrams.map(N::Lower::is_good));
        }
        served_port.bring(rx_batch, self.port.counters().overflowed);
        true
    }

    pub(super) fn bring_hints(&mut self) {
        for _ in 0..HINTS_OF_A_TURN {
            let Some(hint) = self.port.poll_hint() else { return };
            self.served_port.0.bring_hint(hint);
        }
    }
}
