//! How far a connection has come, and what it has in each state.

use core::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_base::{LocalAddress, PortError, Time};
use weft_edge::setup::{Answering, Caller};
use weft_edge::{Connection, Ending, Event};

use super::accepted::AcceptedCall;
use super::fences::Fences;
use super::laboratory::ReorderBuffer;
use super::outbox::{GsoBatch, Waiting};
use super::path_table::PathTable;
use super::tx_batch::Release;
use crate::counters::Counters;
use crate::lower::{DatagramKey, Io, ReceiveError, StreamSink};
use crate::offer::Offer;
use crate::policy::{AnswerCredit, Starved};

/// The lower layer of one connection.
pub struct Edge {
    pub(super) port: DatagramKey,
    /// From where it is answered: where the peer has called, or what the routes say.
    pub(super) from: Option<LocalAddress>,
    /// From where further rails leave.
    pub(super) rails: PathTable,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: SocketAddr,
    pub(super) phase: Phase,
    pub(super) waiting: Waiting,
    /// When the port had no room.
    pub(super) blocked_at: Time,
    /// The address that rail 0 left from is not this host's any more.
    pub(super) is_displaced: bool,
    /// It leaves from another one, which is not known yet.
    pub(super) has_moved: bool,
    pub(super) runs: Vec<GsoBatch>,
}

/// How far it has come.
pub(super) enum Phase {
    Calling(Box<Calling>),
    Deciding(Box<Deciding>),
    /// The answer is yes, and the caller has not confirmed yet.
    Accepted(Box<AcceptedCall>),
    Running(Box<Running>),
    /// The answer is no; it is retransmitted until then.
    Rejected(Box<Answering>, Time),
    Over,
}

pub(super) struct Calling {
    pub(super) caller: Caller,
    pub(super) offer: Offer,
    /// A peer there has answered.
    pub(super) is_heard: bool,
    pub(super) failed: Option<PortError>,
    /// There was no way to the peer: its link, or ours, may be mended in time.
    pub(super) unreachable: bool,
}

pub(super) struct Deciding {
    pub(super) answering: Answering,
    pub(super) offer: Offer,
    /// The application knows.
    pub(super) asked: bool,
}

pub(super) struct Running {
    pub(super) connection: Connection,
    /// Where the segments end that were sent and are not acknowledged.
    pub(super) ends: VecDeque<u64>,
    /// Up to where they may complete.
    pub(super) release: Release,
    pub(super) intake: Intake,
    /// Where the next one starts.
    pub(super) next: u64,
    pub(super) fences: Fences,
    pub(super) peer_closed: bool,
    pub(super) is_closing: bool,
    pub(super) ended: Option<Ending>,
    /// Since when, and in which turn, acknowledgements that are due are held: an answer of the application would take
    /// them along. In the next turn they leave.
    pub(super) held: Option<(Time, u32)>,
    /// Whether that pays.
    pub(super) answers: AnswerCredit,
    /// Something has come in this turn.
    pub(super) took: bool,
    /// A message waits for a receive.
    pub(super) starved: Option<Starved>,
    pub(super) error: Option<ReceiveError>,
    /// What the NIC's counters have of the connection's.
    pub(super) counted: weft_edge::Counters,
    /// No time has come before this: the last that [`Pollable::next_timeout`] has returned.
    pub(super) idle_until: Cell<Time>,
}

/// What becomes of segments that come.
pub(super) enum Intake {
    /// They are placed as they come.
    Place,
    /// They are thrown away, and acknowledged.
    Discard,
    /// Those that come before their turn are kept until it comes.
    Laboratory(Box<ReorderBuffer>),
}

impl Intake {
    /// Whether each segment that was taken is in its place.
    pub(super) fn keeps_nothing(&self) -> bool {
        match self {
            Self::Place | Self::Discard => true,
            Self::Laboratory(kept) => kept.is_empty(),
        }
    }
}

/// What handing up has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Handed {
    /// The stream takes nothing more: what arrives is thrown away, and acknowledged, so that the peer can end.
    pub(super) is_over: bool,
    /// A message waits for a receive.
    pub(super) is_starved: bool,
    /// There were segments that [`StreamSink::packet`] has not taken.
    pub(super) has_others: bool,
    pub(super) error: Option<ReceiveError>,
}

/// What a connection is begun with.
#[derive(Debug)]
pub struct Opening {
    pub(super) offer: Offer,
    pub(super) private_data: Vec<u8>,
}

impl Edge {
    pub(super) fn new(port: DatagramKey, remote: SocketAddr, phase: Phase) -> Self {
        Self {
            port,
            from: None,
            rails: PathTable::default(),
            local: None,
            remote,
            phase,
            waiting: Waiting::default(),
            blocked_at: Time::ZERO,
            is_displaced: false,
            has_moved: false,
            runs: Vec::new(),
        }
    }

    /// A datagram has come to this address of ours.
    pub(super) fn see_local<S>(&mut self, to: Option<LocalAddress>, io: &Io<'_, S>) {
        if self.from.is_some() || self.local.is_some_and(|local| !local.ip().is_unspecified()) {
            return;
        }
        let bound = io.datagrams.local_address(self.port);
        // From a port at one address nothing else can come.
        let is_open = bound.is_none_or(|bound| bound.ip().is_unspecified());
        self.from = to.filter(|_| is_open).map(|to| LocalAddress { interface: 0, ..to });
        self.local = to.map(|to| SocketAddr::new(to.ip, bound.map_or(0, |bound| bound.port()))).or(bound);
    }

    pub(super) fn running(&mut self) -> Option<&mut Running> {
        match &mut self.phase {
            Phase::Running(running) => Some(running),
            _ => None,
        }
    }

    /// Adds to the NIC's counters what the connection has counted since the last time.
    pub(super) fn count(&mut self, counters: &mut Counters) {
        let Some(running) = self.running() else { return };
        let now = running.connection.counters();
        // Called for whatever comes: mostly nothing of this has happened.
        if counted(now) == counted(&running.counted) {
            return;
        }
        let now = *now;
        let before = core::mem::replace(&mut running.counted, now);
        counters.lost_datagrams += now.packets_lost - before.packets_lost;
        counters.late_datagrams += now.spurious_losses - before.spurious_losses;
        counters.repeated_segments += now.segments_repeated - before.segments_repeated;
        counters.overflowed_datagrams += now.peer_overflows - before.peer_overflows;
        counters.congestion_marks += now.congestion_marks - before.congestion_marks;
        counters.damaged_segments += now.bad_payloads - before.bad_payloads;
        counters.rails_opened += now.rails_opened - before.rails_opened;
        counters.rails_left += now.rails_left - before.rails_left;
    }

    /// Events, and what handing up has come to.
    pub(super) fn settle(&mut self, handed: Handed, now: Time) {
        let Phase::Running(running) = &mut self.phase else { return };
        if !running.connection.has_events() && handed == Handed::default() {
            return;
        }
        while let Some(event) = running.connection.poll_event() {
            match event {
                // It was made when that had come.
                Event::Confirmed => {}
                Event::PeerClosed => running.peer_closed = true,
                Event::Moved(address) => self.remote = address,
                Event::Ended(ending) => running.ended = Some(ending),
            }
        }
        if handed.is_over || handed.error.is_some() {
            running.intake = Intake::Discard;
        }
        running.error = running.error.or(handed.error);
        if handed.is_starved {
            running.starved.get_or_insert_with(|| Starved::since(now));
        }
    }

    /// Times of an established connection.
    pub(super) fn handle_times<A: StreamSink, S>(&mut self, above: Option<&mut A>, io: &mut Io<'_, S>) {
        let Some(mut running) = self.running() else { return };
        if running.starved.is_some()
            && let Some(above) = above
        {
            self.poll_receives(above, io);
            let Phase::Running(again) = &mut self.phase else { return };
            running = again;
        }
        let now = io.now;
        if now < running.idle_until.get() {
            return;
        }
        let at = running.connection.next_timeout();
        if at.is_some_and(|at| at <= now) {
            running.connection.handle_timeout(now);
        } else if running.starved.is_none() {
            // Nothing that comes before can make it earlier without asking anew.
            running.idle_until.set(at.unwrap_or(Time::ZERO));
        }
        self.settle(Handed::default(), now);
    }

    /// Lets the peer go on if there are receives for what was refused.
    #[cold]
    fn poll_receives<A: StreamSink, S>(&mut self, above: &mut A, io: &mut Io<'_, S>) {
        // A message that is kept here is tried again, in its turn, before the peer sends more.
        let is_stuck = self.retry_kept(above, io);
        let Phase::Running(running) = &mut self.phase else { return };
        let Some(starved) = &mut running.starved else { return };
        if !is_stuck && above.go_on() {
            running.starved = None;
            running.connection.receives_posted();
        } else {
            starved.on_empty_poll(io.now);
        }
    }

    /// The port or the peer has failed.
    pub(super) fn failure(&self) -> Option<PortError> {
        let Phase::Running(running) = &self.phase else { return None };
        match running.ended.as_ref()? {
            Ending::Closed => None,
            Ending::Gone => Some(PortError::TimedOut),
            Ending::Aborted | Ending::Misbehaved | Ending::PeerAborted(_) | Ending::Reset => Some(PortError::Reset),
        }
    }
}

/// The sum of those of a connection's counts that the NIC counts too. None of them ever decreases.
const fn counted(counters: &weft_edge::Counters) -> u64 {
    let weft_edge::Counters { packets_lost, spurious_losses, segments_repeated, peer_overflows, .. } = *counters;
    let weft_edge::Counters { congestion_marks, bad_payloads, rails_opened, rails_left, .. } = *counters;
    let of_packets = packets_lost + spurious_losses + segments_repeated + peer_overflows;
    of_packets + congestion_marks + bad_payloads + rails_opened + rails_left
}

impl Running {
    /// Has the acknowledgement that is due wait for the answer of the application, if that pays; or leave, if it has
    /// waited. One that is not due yet is waited for by the time at which it is. In the middle of bulk no thread
    /// answers.
    pub(super) fn hold_ack<S>(&mut self, io: &Io<'_, S>) {
        let may_answer = core::mem::take(&mut self.took) && self.connection.owes_ack(io.now);
        self.held = match self.held {
            // A turn may look several times.
            Some(held) if held == (io.now, io.turn) => Some(held),
            Some(_) => {
                self.answers.unanswered(io.now);
                None
            }
            None => (may_answer && self.may_wait(io)).then_some((io.now, io.turn)),
        };
        self.connection.hold_acks(self.held.is_some());
    }

    /// Messages have come whose acknowledgement is due: whether it may wait for the answer of the application.
    pub(super) fn may_wait<S>(&mut self, io: &Io<'_, S>) -> bool {
        // An answer may have no receive at the peer, which posts one perhaps when its own message is acknowledged.
        !self.connection.is_refused() && io.settings.lets_acknowledgements_wait() && self.answers.holds(io.now)
    }

    /// Whether messages are placed as they come, and nothing else is to be done for the connection.
    pub(super) fn takes_messages(&self) -> bool {
        let is_open = self.ended.is_none() && !self.peer_closed && !self.is_closing && self.error.is_none();
        is_open && matches!(self.intake, Intake::Place) && self.starved.is_none() && !self.release.is_held()
    }

    /// Whether what comes is thrown away, and acknowledged.
    #[inline]
    pub(super) const fn discards(&self) -> bool {
        matches!(self.intake, Intake::Discard)
    }
}
