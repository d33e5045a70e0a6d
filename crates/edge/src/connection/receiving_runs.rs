//! Handling of received runs: packets in a row with consecutive parts of one message, which are one segment to the
//! layer above and one step for everything that counts packets. Whatever is no such run goes packet by packet.

use weft_wire::edge::frame;
use weft_wire::edge::run::Run;

use super::{Connection, Meta};
use crate::phase::Phase;
use crate::rail::PathAddress;
use crate::received::AckRequest;
use crate::{Options, Sink, Verdict};

impl Connection {
    /// Handles datagrams of one source that were received together: all have `size` bytes but the last, which may have
    /// fewer. The result is that of [`Connection::receive`] for each of them in turn, except that segments which
    /// continue each other are one to the sink ([`Sink::run`]).
    ///
    /// # Panics
    /// When `size` is 0.
    pub fn receive_all(&mut self, datagrams: &[u8], size: usize, meta: &Meta, sink: &mut impl Sink) {
        let mut rest = datagrams;
        while !rest.is_empty() {
            let run = self.find_run(rest, size, meta);
            let (taken, after) = rest.split_at(run.as_ref().map_or(size.min(rest.len()), Run::length));
            if run.is_none_or(|run| !self.receive_run(&run, meta, sink)) {
                taken.chunks(size).for_each(|datagram| self.receive(datagram, meta, sink));
            }
            rest = after;
        }
    }

    /// The run at the front of these datagrams, if all is as usual: the connection is open, and the packets are its
    /// newest, on the known path of a rail.
    fn find_run<'a>(&self, datagrams: &'a [u8], size: usize, meta: &Meta) -> Option<Run<'a>> {
        let run = Run::find(datagrams, size)?;
        let header = run.header();
        let rail = self.rails.get(usize::from(header.rail))?;
        let is_usual = self.phase == Phase::Open && self.is_confirmed() && self.closing.peer_end.is_none();
        let is_on_path = rail.place == Some(PathAddress { local: meta.local, to: meta.from });
        if !is_usual || !is_on_path || header.destination != self.local {
            return None;
        }
        let run = run.verify(rail.received.expected()).ok()?;
        (run.header().number >= rail.received.expected()).then_some(run)
    }

    /// Handles a run. Returns false when the sink does not take it whole: nothing has changed then.
    fn receive_run(&mut self, run: &Run<'_>, meta: &Meta, sink: &mut impl Sink) -> bool {
        let (header, segment, count) = (run.header(), run.segment(), run.count() as u64);
        let position = frame::expand_position(segment.position, self.peer_position);
        let verdict = sink.run(position, run, Options::of(segment.options, position));
        match verdict {
            Verdict::Later | Verdict::NotReady | Verdict::BadPayload => return false,
            Verdict::Placed | Verdict::Fatal => {}
            Verdict::Duplicate => self.counters.duplicates += count,
        }
        self.counters.packets_received += count;
        self.last_received = meta.now;
        let index = usize::from(header.rail);
        let every = self.ack_every(index, run.length() / run.count());
        let (delay, at_once) = (self.settings.max_ack_delay, header.ack_now || meta.ecn & 3 == 3);
        let rail = &mut self.rails[index];
        rail.tally.received_packets += count;
        rail.tally.received_bytes += run.length() as u64;
        let numbers = header.number..=header.number + count - 1;
        rail.received.see(*numbers.end());
        if verdict != Verdict::Fatal {
            rail.received.take_all(&numbers, meta.ecn, meta.now);
            rail.received.request_for(&numbers, AckRequest { at_once, every, delay }, meta.now);
            self.taken.on_segments(header.ack_now, meta.now);
            let end = position + run.payload_length() as u64 + u64::from(run.is_last());
            self.peer_position = self.peer_position.max(end);
        }
        true
    }
}
