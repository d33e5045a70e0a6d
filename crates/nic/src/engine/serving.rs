//! Ports that this engine serves for others: it receives, looks whether payload is good, copies payload and sends.
//! Nothing of a connection is known here: order, placement and acknowledgement are the owner's.

use std::sync::Arc;

use arrayvec::ArrayVec;
use slotmap::{DefaultKey, Key as _, SlotMap};
use weft_base::{Clock, DatagramLimits, DatagramPort, Interest, Network};

use super::datagrams::COOL_AFTER_LOOKS;
use super::delivery::{MOST_HINTS, MOST_HOT};
use super::lanes::{Brought, Bundle, Desk, Lane, ServingEnd};
use super::ports::{Owner, token};
use super::vain_watch::VainWatch;
use super::{Engine, Upper};
use crate::lower::{Carrier, Leaving, Lower};

/// Parcels of a port that are sent in a turn.
const PARCELS_OF_A_TURN: u32 = 8;

/// The ports that an engine serves, and to whom it brings its own that others are to serve.
pub(super) struct Serving<N: Network> {
    /// Of all engines, by their numbers.
    desks: Arc<[Arc<Desk<N>>]>,
    /// The number of this one.
    index: usize,
    served: SlotMap<DefaultKey, Served<N>>,
}

/// One port.
struct Served<N: Network> {
    port: N::Datagram,
    lane: ServingEnd,
    /// Its key among all ports that the network may tell of.
    token: DefaultKey,
    limits: DatagramLimits,
    leaving: Leaving,
    is_hot: bool,
    vain_watch: VainWatch,
    idle_looks: u32,
}

impl<N: Network> Serving<N> {
    pub(super) fn new(desks: Arc<[Arc<Desk<N>>]>, index: usize) -> Self {
        Self { desks, index, served: SlotMap::new() }
    }

    /// The desk of the engine that is to serve this engine's port with this number, if it is another one.
    pub(super) fn server_of(&self, number: usize, engines: usize) -> Option<&Arc<Desk<N>>> {
        let away = number % engines.clamp(1, self.desks.len());
        (away > 0).then(|| &self.desks[(self.index + away) % self.desks.len()])
    }

    /// The desk of this engine.
    pub(super) fn own(&self) -> &Arc<Desk<N>> {
        &self.desks[self.index]
    }

    /// Whether one is watched by the operating system.
    pub(super) fn any_cold(&self) -> bool {
        self.served.values().any(|served| !served.is_hot)
    }

    /// Whether one is looked at.
    pub(super) fn any_hot(&self) -> bool {
        self.served.values().any(|served| served.is_hot)
    }

    /// Has the operating system watch those that are looked at.
    pub(super) fn watch(&mut self, network: &mut N, all: bool) {
        for served in self.served.values_mut() {
            if served.is_hot && (all || served.idle_looks > COOL_AFTER_LOOKS) {
                served.is_hot = false;
                served.arm(network);
            }
        }
    }
}

impl<N: Network> Served<N> {
    fn arm(&mut self, network: &mut N) {
        self.vain_watch.begin();
        let interest = Interest { readable: true, writable: !self.leaving.is_empty(), least: 1 };
        if network.arm_datagram(&mut self.port, token(self.token), interest).is_err() {
            // The system can't watch it, so it is looked at instead.
            self.is_hot = true;
        }
    }

    fn warm(&mut self) {
        self.is_hot = true;
        self.idle_looks = 0;
    }
}

impl<N: Carrier, C: Clock, U: Upper> Engine<N, C, U> {
    /// Another engine has rung: for ports that this one serves, or that it has others serve.
    pub(super) fn attend_lanes(&mut self) {
        for Brought { port, lane } in self.serving.own().take() {
            let token = self.ports.add(Owner::Served(DefaultKey::default()));
            let limits = port.limits();
            let (leaving, idle_looks) = (Leaving::default(), 0);
            let served = Served {
                port,
                lane,
                token,
                limits,
                leaving,
                is_hot: true,
                vain_watch: VainWatch::default(),
                idle_looks,
            };
            let key = self.serving.served.insert(served);
            self.ports.set_served(token, key);
        }
        let with_work = self.serving.served.iter().filter(|(_, served)| served.lane.0.take_work());
        let served: ArrayVec<DefaultKey, MOST_HOT> = with_work.map(|(key, _)| key).take(MOST_HOT).collect();
        let owned: ArrayVec<DefaultKey, MOST_HOT> = self.datagrams.with_news().take(MOST_HOT).collect();
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

    /// The operating system tells of a port that this engine serves, or its owner does.
    pub(super) fn attend_served(&mut self, key: DefaultKey) {
        let Some(served) = self.serving.served.get_mut(key) else { return };
        if served.lane.0.is_left() {
            self.ports.remove(&[served.token]);
            self.serving.served.remove(key);
            return;
        }
        served.warm();
        self.serve(key);
    }

    /// Looks at the ports that are not watched.
    pub(super) fn look_at_served(&mut self) -> bool {
        if self.serving.served.is_empty() {
            return false;
        }
        let hot = self.serving.served.iter().filter(|(_, served)| served.is_hot).map(|(key, _)| key);
        let hot: ArrayVec<DefaultKey, MOST_HOT> = hot.take(MOST_HOT).collect();
        let mut progress = false;
        for key in hot {
            progress |= self.serve(key);
        }
        self.serving.watch(&mut self.network, false);
        progress
    }

    /// Receives once at a port, and sends what is to be sent. Returns whether there was anything.
    fn serve(&mut self, key: DefaultKey) -> bool {
        let Some(served) = self.serving.served.get_mut(key) else { return false };
        let received = served.receive::<N::Lower>();
        if received && served.is_hot && served.vain_watch.ends() {
            // Where it fails, it is watched in vain.
            let _ = self.network.arm_datagram(&mut served.port, token(served.token), Interest::NOTHING);
        }
        self.counters.receives += u64::from(received);
        self.counters.served_receives += u64::from(received);
        let (mut sent, mut bytes, mut calls) = (false, 0, 0);
        for _ in 0..PARCELS_OF_A_TURN {
            let (lane, leaving, registry) = (&served.lane.0, &mut served.leaving, &self.registry);
            let loaded = leaving.is_empty() && lane.load_parcel(|parcel| leaving.load(parcel, registry));
            if leaving.is_empty() && !loaded {
                break;
            }
            let (taken, made) =
                leaving.send(&mut served.port, &served.limits, |name, told| lane.bring_told(name, told));
            (bytes, calls) = (bytes + taken, calls + made);
            sent |= loaded || taken > 0;
            if !leaving.is_empty() {
                // There is no room: the operating system says when there is.
                break;
            }
        }
        self.counters.sends += calls;
        self.counters.served_sends += calls;
        self.counters.sent_wire_bytes += bytes as u64;
        served.bring_hints();
        if sent {
            // An answer is likely.
            served.warm();
        }
        received | sent
    }
}

impl<N: Network> Served<N> {
    fn receive<L: Lower<N>>(&mut self) -> bool {
        let lane: &Lane = &self.lane.0;
        let Some(mut bundle) = lane.room() else {
            // There is work when the owner has given some back.
            self.idle_looks = self.idle_looks.saturating_add(1);
            return false;
        };
        bundle.received.clear();
        // A broken port is one at which nothing comes.
        let count = self.port.receive(&mut bundle.bytes, &mut bundle.received).unwrap_or(0);
        if count == 0 {
            self.idle_looks = self.idle_looks.saturating_add(1);
            lane.put_room(bundle);
            return false;
        }
        self.idle_looks = 0;
        let Bundle { bytes, received, are_good } = &mut bundle;
        are_good.clear();
        for run in received.iter() {
            let datagrams = bytes[run.range.clone()].chunks(run.segment_size.max(1) as usize);
            are_good.extend(datagrams.map(L::is_good));
        }
        lane.bring(bundle, self.port.counters().overflowed);
        true
    }

    fn bring_hints(&mut self) {
        for _ in 0..MOST_HINTS {
            let Some(hint) = self.port.poll_hint() else { return };
            self.lane.0.bring_hint(hint);
        }
    }
}
