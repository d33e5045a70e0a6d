//! Ports that this engine serves for others: it receives, checks payload, copies payload and sends. Nothing of a
//! connection is known here: order, placement and acknowledgement are the owner's.

use arrayvec::ArrayVec;
use slotmap::{DefaultKey, Key as _};
use weft_base::{Clock, DatagramPort, Interest};

use super::delivery::MOST_POLLED;
use super::ports::{Owner, token};
use super::served::Served;
use super::served_port::Brought;
use super::{Engine, EngineClient};
use crate::lower::{Carrier, Leaving as _, LeavingOf};
use crate::policy::arming::DisarmPolicy;

/// Transmit batches of a port that are sent in a turn.
const PARCELS_OF_A_TURN: u32 = 8;

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    /// Another engine has rung: for ports that this one serves, or that it has others serve.
    pub(super) fn attend_served_ports(&mut self) {
        for Brought { port, served_port } in self.serving.own().take() {
            let token = self.ports.add(Owner::Served(DefaultKey::default()));
            let limits = port.limits();
            let (leaving, empty_polls) = (LeavingOf::<N>::default(), 0);
            let served = Served {
                port,
                served_port,
                token,
                limits,
                leaving,
                is_polled: true,
                disarm: DisarmPolicy::default(),
                empty_polls,
            };
            let key = self.serving.served.insert(served);
            self.ports.set_served(token, key);
        }
        let with_work = self.serving.served.iter().filter(|(_, served)| served.served_port.0.take_work());
        let served: ArrayVec<DefaultKey, MOST_POLLED> = with_work.map(|(key, _)| key).take(MOST_POLLED).collect();
        let owned: ArrayVec<DefaultKey, MOST_POLLED> = self.datagrams.with_news().take(MOST_POLLED).collect();
        if served.is_full() || owned.is_full() {
            // There may be more.
            self.doorbell.ring(DefaultKey::null());
        }
        for key in served {
            self.attend_served(key);
        }
        for key in owned {
            self.receive_datagrams(key);
        }
    }

    /// The operating system, or the owner, reports activity at a port that this engine serves.
    pub(super) fn attend_served(&mut self, key: DefaultKey) {
        let Some(served) = self.serving.served.get_mut(key) else { return };
        if served.served_port.0.is_left() {
            self.ports.remove(&[served.token]);
            self.serving.served.remove(key);
            return;
        }
        served.start_polling();
        self.serve(key);
    }

    /// Polls the ports that are not armed.
    pub(super) fn poll_served(&mut self) -> bool {
        if self.serving.served.is_empty() {
            return false;
        }
        let polled = self.serving.served.iter().filter(|(_, served)| served.is_polled).map(|(key, _)| key);
        let polled: ArrayVec<DefaultKey, MOST_POLLED> = polled.take(MOST_POLLED).collect();
        let mut progress = false;
        for key in polled {
            progress |= self.serve(key);
        }
        self.serving.watch(&mut self.network, false);
        progress
    }

    /// Receives once at a port, and sends what is to be sent. Returns whether there was anything.
    fn serve(&mut self, key: DefaultKey) -> bool {
        let Some(served) = self.serving.served.get_mut(key) else { return false };
        let received = served.receive();
        if received && served.is_polled && served.disarm.found() {
            // Where it fails, it stays armed.
            let _ = self.network.arm_datagram(&mut served.port, token(served.token), Interest::NOTHING);
        }
        self.counters.receives += u64::from(received);
        self.counters.served_receives += u64::from(received);
        let (mut sent, mut bytes, mut calls) = (false, 0, 0);
        for _ in 0..PARCELS_OF_A_TURN {
            let (served_port, leaving, registry) = (&served.served_port.0, &mut served.leaving, &self.registry);
            let loaded = leaving.is_empty() && served_port.load_tx_batch(|tx_batch| leaving.load(tx_batch, registry));
            if leaving.is_empty() && !loaded {
                break;
            }
            let (taken, made) = leaving
                .send(&mut served.port, &served.limits, |name, failure| served_port.bring_failure(name, failure));
            (bytes, calls) = (bytes + taken, calls + made);
            sent |= loaded || taken > 0;
            if !leaving.is_empty() {
                // There is no room: the operating system reports when there is.
                break;
            }
        }
        self.counters.sends += calls;
        self.counters.served_sends += calls;
        self.counters.sent_wire_bytes += bytes as u64;
        served.bring_hints();
        if sent {
            // An answer is likely.
            served.start_polling();
        }
        received | sent
    }
}
