//! A connection and the thread that waits for it.

use weft_base::{Interest, PortError, StreamPosition, Time, Token};
use weft_tcp::{Connection, ConnectionError, Outgoing, Segment, State};

use super::IPV6_MORE;
use super::train::{Train, TrainLimits};
use crate::inbox::Inbox;

/// A connection and the thread that waits for it.
pub(crate) struct Stream {
    pub(crate) connection: Box<Connection>,
    /// Segments received and not taken, where they are shown as they arrive.
    arrived: Option<Inbox>,
    /// Bytes that may be there so, or in flight.
    window: u32,
    /// The number of the last segment of what was sent.
    sent: Option<u32>,
    /// One that leaves next, by itself.
    held: Option<Outgoing>,
    /// Since when the connection avoids trains, as of the last check.
    avoids_trains: Option<Time>,
    pub(super) armed: Option<(Token, Interest)>,
    pub(super) began: Time,
    /// No thread holds it any more, since then.
    pub(super) orphan: Option<Time>,
    /// It ended because of this, whatever TCP says.
    pub(super) error: Option<PortError>,
    pub(super) is_busy: bool,
}

impl Stream {
    /// One that begins now, whose peer may have this many bytes in flight.
    pub(super) fn new(connection: Box<Connection>, window: u32, began: Time) -> Self {
        Self {
            connection,
            arrived: None,
            window,
            sent: None,
            held: None,
            avoids_trains: None,
            armed: None,
            began,
            orphan: None,
            error: None,
            is_busy: false,
        }
    }

    /// Why it is broken, if it is.
    pub(crate) fn error(&self) -> Option<PortError> {
        let of_tcp = self.connection.error().map(|error| match error {
            ConnectionError::Refused => PortError::Refused,
            ConnectionError::TimedOut(_) => PortError::TimedOut,
            ConnectionError::Reset | ConnectionError::Aborted => PortError::Reset,
        });
        self.error.or(of_tcp)
    }

    /// Whether the handshake is over.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.state().is_synchronised()
    }

    /// From now on what comes is taken by [`Stream::take_arrived`]. Returns where what was not read begins.
    pub(crate) fn show_segments(&mut self) -> StreamPosition {
        let position = StreamPosition(self.connection.received().0 - self.connection.readable());
        let arrived = self.arrived.get_or_insert_default();
        self.connection.place(&mut |position: StreamPosition, bytes: &[u8]| {
            arrived.push(position, bytes);
            true
        });
        self.offer_room();
        position
    }

    /// Takes received bytes, for one that is empty.
    pub(crate) fn take_arrived(&mut self, into: &mut Inbox) {
        if let Some(arrived) = &mut self.arrived {
            core::mem::swap(arrived, into);
            self.offer_room();
        }
    }

    /// The next segments that leave now, several in one frame where the interface or the kernel cuts it.
    pub(super) fn next_train(&mut self, limits: TrainLimits, now: Time) -> Option<Train> {
        let may_grow = limits != TrainLimits::NONE && self.connection.may_send_train(now);
        let first = match self.held.take().filter(|held| self.connection.keeps(&held.payload)) {
            Some(held) => held,
            None => self.next_segment(now)?,
        };
        let mut train = Train::new(first);
        while may_grow && train.is_open() {
            let Some(next) = self.next_segment(now) else { break };
            self.held = train.add(next, limits);
            if self.held.is_some() {
                break;
            }
        }
        if train.cut().is_some() {
            self.connection.note_train(&train.payload, now);
        }
        Some(train)
    }

    /// Other connections have lost trains on this path at that time.
    pub(super) fn avoid_trains(&mut self, since: Time) {
        self.connection.avoid_trains(since);
        self.avoids_trains = Some(since);
    }

    /// Since when the connection avoids trains, or that it does so no longer, if that is news.
    pub(super) fn trains_avoided_anew(&mut self) -> Option<Option<Time>> {
        let avoided = self.connection.trains_avoided_since();
        (core::mem::replace(&mut self.avoids_trains, avoided) != avoided).then_some(avoided)
    }

    fn next_segment(&mut self, now: Time) -> Option<Outgoing> {
        let outgoing = self.connection.poll_transmit(now)?;
        let sequence = outgoing.segment.sequence;
        let is_last = self.sent.is_none_or(|last| (sequence.wrapping_sub(last) as i32) > 0);
        if outgoing.payload_length() > 0 && is_last {
            self.sent = Some(sequence);
        }
        Some(outgoing)
    }

    /// A router says that the segment of this number was too large for the path, which carries packets of this many
    /// bytes. It is believed only of what is in flight (RFC 5927 section 4.1), and never makes segments larger. True:
    /// they are smaller now.
    pub(super) fn narrow(&mut self, sequence: u32, mtu: u32) -> bool {
        let on_the_way = self.connection.unacknowledged();
        let back = self.sent.map_or(u32::MAX, |last| last.wrapping_sub(sequence));
        let headers = if self.connection.flow().remote.is_ipv6() { 40 + IPV6_MORE } else { 40 };
        let Some(mss) = u16::try_from(mtu).ok().and_then(|mtu| mtu.checked_sub(headers)) else { return false };
        let before = self.connection.segment_size();
        if u64::from(back) >= on_the_way || u64::from(mss) >= before {
            return false;
        }
        self.connection.set_path_mss(mss);
        self.connection.segment_size() < before
    }

    /// A segment of the peer.
    pub(super) fn handle(&mut self, segment: &Segment, payload: &[u8], now: Time) {
        let arrived = &mut self.arrived;
        let mut sink = |position: StreamPosition, bytes: &[u8]| {
            if let Some(arrived) = arrived {
                arrived.push(position, bytes);
            }
            true
        };
        self.connection.handle(segment, payload, &mut sink, now);
        self.offer_room();
    }

    /// What waits to be taken has used up this much of the window.
    fn offer_room(&mut self) {
        if let Some(arrived) = &self.arrived {
            let used = u32::try_from(arrived.length()).unwrap_or(u32::MAX);
            self.connection.offer(self.window.saturating_sub(used));
        }
    }

    pub(super) fn has_unread(&self) -> bool {
        self.connection.readable() > 0 || self.arrived.as_ref().is_some_and(|arrived| !arrived.is_empty())
    }

    pub(super) fn is_readable(&self, least: u32) -> bool {
        if self.arrived.as_ref().is_some_and(|arrived| !arrived.is_empty()) {
            return true;
        }
        let have = self.connection.readable();
        let enough = u64::from(least.clamp(1, 1 << 18));
        have >= enough || self.connection.is_finished() || self.has_ended()
    }

    pub(super) fn is_writable(&self) -> bool {
        let room = self.connection.room();
        self.has_ended() || (self.is_open() && room > 0 && room >= self.connection.unacknowledged())
    }

    /// Whether the peer has not acknowledged all, the end included.
    pub(super) fn is_unacknowledged(&self) -> bool {
        let ends = matches!(self.connection.state(), State::FinWait1 | State::Closing | State::LastAck);
        !self.has_ended() && (ends || self.connection.unacknowledged() > 0)
    }

    fn has_ended(&self) -> bool {
        self.error.is_some() || self.connection.state() == State::Closed
    }
}
