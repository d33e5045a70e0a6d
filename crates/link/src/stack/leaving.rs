//! What leaves.

use core::time::Duration;
use std::net::IpAddr;

use slotmap::DefaultKey;
use weft_base::{PortError, Time};
use weft_tcp::State;

use super::{NEIGHBOUR_PATIENCE, ORPHAN_PATIENCE, Stack};

/// A question for a hardware address is repeated after this time.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// When the interface takes no more frames, it is tried again after this time.
const FULL: Duration = Duration::from_micros(200);

impl Stack {
    /// Sends what may leave.
    pub(super) fn transmit(&mut self, now: Time) {
        while let Some(key) = self.busy.pop_front() {
            if !self.transmit_one(key, now) {
                self.busy.push_front(key);
                self.note_due(Some(now + FULL));
                return;
            }
            self.settle(key, now);
        }
    }

    /// False: the interface takes no more.
    fn transmit_one(&mut self, key: DefaultKey, now: Time) -> bool {
        let Self { streams, wire, .. } = self;
        let Some(stream) = streams.get_mut(key) else { return true };
        let next = wire.link.next_hop(stream.connection.flow().remote.ip());
        if !wire.link.knows(next) {
            self.ask(key, next, now);
            return true;
        }
        loop {
            if !wire.flush() {
                return false;
            }
            let Some(train) = stream.next_train(wire.train_limits(), now) else { return true };
            wire.send_train(&stream.connection, &train);
        }
    }

    fn ask(&mut self, key: DefaultKey, neighbour: IpAddr, now: Time) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.connection.state() == State::Closed {
            return;
        }
        if !stream.is_open() && now.since(stream.began) >= NEIGHBOUR_PATIENCE {
            stream.error = Some(PortError::Unreachable);
            stream.connection.abort();
            return;
        }
        let question = self.wire.link.question(neighbour);
        self.wire.send_or_lose(&question);
        self.note_due(Some(now + ASK_AGAIN));
    }

    /// All has left that may: what is next, and the waiting thread is woken.
    fn settle(&mut self, key: DefaultKey, now: Time) {
        if self.wait_for_the_end(key) {
            return;
        }
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.is_busy = false;
        let flow = *stream.connection.flow();
        if let Some(avoided) = stream.trains_avoided_anew() {
            self.paths.set_avoided(flow.remote.ip(), avoided);
        }
        let (is_closed, is_orphan) = (stream.connection.state() == State::Closed, stream.orphan.is_some());
        let ends = stream.orphan.map(|since| since + ORPHAN_PATIENCE);
        let next = [stream.connection.next_timeout(), ends].into_iter().flatten().min();
        // What waits for a neighbour may be due since long.
        let next = next.map(|at| at.max(now + FULL));
        if is_closed {
            self.by_flow.retain(|known, other| *known != flow || *other != key);
        } else {
            self.note_due(next);
        }
        if is_closed && is_orphan {
            self.streams.remove(key);
        } else {
            self.tell(key);
        }
    }

    /// All that is left of a connection that no thread holds is a small record, when it is in TIME-WAIT.
    fn wait_for_the_end(&mut self, key: DefaultKey) -> bool {
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.orphan.is_some()) else { return false };
        let flow = *stream.connection.flow();
        let Some(record) = stream.connection.time_wait() else { return false };
        self.by_flow.remove(&flow);
        self.streams.remove(key);
        self.waits.insert(record);
        self.note_due(self.waits.next_timeout());
        true
    }
}
