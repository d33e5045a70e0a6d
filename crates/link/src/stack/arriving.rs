//! What comes.

use slotmap::DefaultKey;
use weft_base::Time;
use weft_tcp::{Answer, Arrived, Connection, Flow, Segment, Waiting};

use super::{MOST_STREAMS, Stack};

/// What a frame was, when more than data of a known stream.
struct Rest {
    arrived: Arrived,
    /// Of a segment.
    payload: Vec<u8>,
}

impl Stack {
    /// Takes the next frame. False: there is none.
    pub(super) fn take_frame(&mut self, now: Time) -> bool {
        let Self { wire, streams, by_flow, .. } = self;
        let (mut taken, mut rest) = (None, None);
        let is_there = wire.show(|link, frame, checksum| {
            let arrived = link.parse(frame, checksum);
            let mut bytes: &[u8] = &[];
            if let Arrived::Segment(flow, segment, payload) = &arrived {
                bytes = &frame[payload.clone()];
                let key = by_flow.get(flow).copied();
                if let Some((key, stream)) = key.and_then(|key| Some((key, streams.get_mut(key)?))) {
                    stream.handle(segment, bytes, now);
                    taken = Some(key);
                    return;
                }
            }
            rest = Some(Rest { payload: bytes.to_vec(), arrived });
        });
        if let Some(key) = taken {
            self.note_handled(key);
        }
        if let Some(rest) = rest {
            self.arrive(rest, now);
        }
        is_there
    }

    fn arrive(&mut self, Rest { arrived, payload }: Rest, now: Time) {
        match arrived {
            // An address that was probed is not any more.
            Arrived::Nothing | Arrived::Taken(..) => {}
            Arrived::TooBig { flow, sequence, mtu } => self.arrive_too_big(&flow, sequence, mtu),
            Arrived::Answer(answer) => {
                self.wire.send_or_lose(&answer);
                self.handle_neighbours();
            }
            Arrived::Neighbour(_) => {
                self.handle_neighbours();
                self.touch_all();
            }
            Arrived::Segment(flow, segment, _) => return self.arrive_segment(&flow, &segment, &payload, now),
        }
        self.doubt(now);
    }

    fn arrive_too_big(&mut self, flow: &Flow, sequence: u32, mtu: u32) {
        let Some(key) = self.by_flow.get(flow).copied() else { return };
        if self.streams.get_mut(key).is_some_and(|stream| stream.narrow(sequence, mtu)) {
            self.touch(key);
        }
    }

    /// One of them may have waited for the answer.
    fn touch_all(&mut self) {
        let keys: Vec<DefaultKey> = self.streams.keys().collect();
        keys.into_iter().for_each(|key| self.touch(key));
    }

    /// Of no stream that is known.
    fn arrive_segment(&mut self, flow: &Flow, segment: &Segment, payload: &[u8], now: Time) {
        let is_full = self.streams.len() >= MOST_STREAMS;
        let Self { listeners, waits, .. } = self;
        let mut listening = listeners.iter_mut().find(|one| one.local == flow.local && one.is_open());
        if let Some(listening) = &mut listening {
            listening.listener.set_full(is_full || listening.accepted.len() >= listening.backlog);
        }
        let accepts = !is_full && listening.is_some();
        let answer = match (waits.handle(flow, segment, payload.len(), accepts, now), listening) {
            (Some(Waiting::Nothing), _) => Answer::Nothing,
            (Some(Waiting::Reply(reply)), _) => Answer::Reply(reply),
            (Some(Waiting::Renewed(least)), Some(listening)) => {
                listening.listener.handle_renewed(flow, segment, least, now)
            }
            (None, Some(listening)) => listening.listener.handle(flow, segment, payload.len(), now),
            (_, None) => segment.refusal(payload.len()).map_or(Answer::Nothing, Answer::Reply),
        };
        match answer {
            Answer::Nothing => {}
            Answer::Reply(reply) => self.reply(flow, &reply),
            Answer::Accepted(connection) => self.begin(connection, segment, payload, now),
        }
        self.note_answers();
    }

    /// A caller whose hardware address is unknown gets a question for it, and the answer waits for that: where the
    /// kernel answers for the address, no question has come here.
    pub(super) fn reply(&mut self, flow: &Flow, reply: &Segment) {
        let remote = flow.remote.ip();
        let next = self.wire.link.next_hop(remote);
        if !self.wire.link.knows(next) {
            if self.settings.source_of_stream(remote).is_some()
                && let Ok(frame) = self.wire.link.emit_unaddressed(flow, reply)
            {
                self.raw_neighbour(next, frame);
            }
            return;
        }
        if self.wire.flush() {
            self.wire.send(|link, out| link.emit(flow, reply, &[], out));
        }
    }

    /// A caller has answered, and there is room for it.
    fn begin(&mut self, connection: Box<Connection>, segment: &Segment, payload: &[u8], now: Time) {
        let local = connection.flow().local;
        let key = self.insert(connection, now);
        if let Some(listening) = self.listening(local) {
            listening.accepted.push_back(key);
        }
        self.hand(key, segment, payload, now);
        self.notify_listener(local);
    }

    fn hand(&mut self, key: DefaultKey, segment: &Segment, payload: &[u8], now: Time) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.handle(segment, payload, now);
        self.note_handled(key);
    }

    fn note_handled(&mut self, key: DefaultKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        // No program will receive what comes now (RFC 9293 section 3.6).
        if stream.orphan.is_some() && stream.has_unread() {
            stream.connection.abort();
        }
        self.touch(key);
    }

    /// Answers to callers that have not answered.
    pub(super) fn repeat_answers(&mut self, now: Time) {
        let mut again = Vec::new();
        for listening in &mut self.listeners {
            listening.listener.handle_timeout(now, |flow, segment| again.push((*flow, segment)));
        }
        again.iter().for_each(|(flow, segment)| self.reply(flow, segment));
        self.note_answers();
    }

    fn note_answers(&mut self) {
        let at = self.listeners.iter().filter_map(|listening| listening.listener.next_timeout()).min();
        self.note_due(at);
    }
}
