//! Which connections are polled in every turn, and which are armed: the few that something comes
//! from are polled, those that a long answer comes to are armed with a low-water mark before a sleep, all others are
//! armed.

use core::mem::{swap, take};
use core::time::Duration;

use slotmap::DefaultKey;
use weft_base::Clock;

use super::ports::{Owner, token};
use super::{Engine, EngineClient, Entry, Member};
use crate::connection::{Connection, Context, Due, Outcome};
use crate::lower::{Carrier, Datagrams as _, Inbox, Io, Pollable as _, ServedPorts as _};
use crate::policy::arming::arms_connection;
use crate::policy::constants::{FEW_POLLED, LONGEST_LOW_WATER};

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    pub(super) fn poll_connections(&mut self) -> bool {
        let mut progress = false;
        let mut at = 0;
        while let Some(key) = self.polled.get(at) {
            let due = self.poll_connection(key);
            match due {
                Due::Nothing | Due::Received => {
                    progress |= due == Due::Received;
                    at += 1;
                    continue;
                }
                Due::EmptyPoll | Due::EmptyReceive => {}
                Due::Follow => progress |= self.drive_by(key, Inbox::default(), Connection::follow_received),
                Due::Drive => progress |= self.drive(key),
            }
            if self.polled.get(at) != Some(key) {
                continue;
            }
            if self.is_to_be_armed(key, due) {
                self.polled.remove(key);
                self.stop_polling(key, 1);
            } else {
                at += 1;
            }
        }
        progress
    }

    /// Lets a connection do what it can.
    pub(super) fn drive(&mut self, key: DefaultKey) -> bool {
        self.drive_with(key, Inbox::default())
    }

    pub(super) fn drive_with(&mut self, key: DefaultKey, inbox: Inbox<'_>) -> bool {
        self.drive_by(key, inbox, Connection::drive)
    }

    /// The same by another step than that.
    fn drive_by(
        &mut self,
        key: DefaultKey,
        inbox: Inbox<'_>,
        drive: impl FnOnce(&mut Connection<N>, &mut Context<'_, N::Scratch>) -> Outcome,
    ) -> bool {
        let mut answers = false;
        let outcome = self.with_inbox(key, inbox, |connection, cx| {
            let outcome = drive(connection, cx);
            answers = connection.answers_wait() && !core::mem::replace(&mut connection.is_listed_to_answer, true);
            outcome
        });
        if answers {
            self.answering.push(key);
        }
        outcome.is_some_and(|outcome| outcome != Outcome::Idle)
    }

    /// Says what there is to do for a connection, and receives where that is all.
    #[inline]
    fn poll_connection(&mut self, key: DefaultKey) -> Due {
        let Some(Entry { member: Member::Connection(connection), .. }) = self.entries.get_mut(key) else {
            return Due::Drive;
        };
        let due = connection.due(self.turns);
        if due != Due::EmptyReceive {
            return due;
        }
        let io = io!(self, Inbox::default());
        connection.receive_messages(&mut Context { io, packets: &mut self.uppers })
    }

    fn is_to_be_armed(&self, key: DefaultKey, due: Due) -> bool {
        let polled = self.polled.len();
        // Few stay polled whatever they find.
        polled > FEW_POLLED
            && self
                .connection(key)
                .is_none_or(|connection| arms_connection(connection.empty_polls, polled, due == Due::EmptyPoll))
    }

    pub(super) fn start_polling(&mut self, key: DefaultKey) {
        self.datagrams.unread.note(Some(key), self.now);
        let Some(connection) = self.connection_mut(key) else { return };
        if connection.is_polled {
            return;
        }
        connection.is_polled = true;
        connection.empty_polls = 0;
        if take(&mut connection.is_at_low_water) {
            self.at_low_water.remove(key);
        }
        self.polled.push(key);
    }

    /// While they are few, or when they have been left alone for long, they are polled; else when the operating
    /// system tells of them.
    pub(super) fn check_low_water(&mut self) {
        if self.at_low_water.len() + self.polled.len() <= FEW_POLLED || self.now >= self.low_water_until {
            self.end_low_water();
        }
    }

    fn end_low_water(&mut self) {
        while let Some(key) = self.at_low_water.pop() {
            self.start_polling(key);
        }
    }

    /// Has the operating system watch every connection, and tell of every byte.
    pub(crate) fn arm_all(&mut self) {
        self.end_low_water();
        self.watch_datagrams(false);
        self.arm_each(|_| 1);
    }

    /// The same before a sleep of no more than [`Engine::until_deadline`]: where a long answer is coming, not each part
    /// of it ends that.
    pub(crate) fn arm_low_water(&mut self) {
        self.watch_datagrams(true);
        self.arm_each(Connection::least_bytes);
    }

    /// Has the operating system watch the datagram ports before a sleep, unless they may be left unread until its end
    /// ([`Engine::until_read`]).
    pub(super) fn watch_datagrams(&mut self, may_wait: bool) {
        let now = self.now;
        let user = self.datagrams.unread.alone(now).filter(|_| may_wait && !self.datagrams.any_served());
        let until = user.and_then(|key| self.connection(key)?.lower.unread_until(now));
        self.datagrams.unread.until = until;
        if until.is_none() {
            self.datagrams.watch_all(&mut self.network);
        }
    }

    /// How long the datagram ports may be left unread, if they are not watched.
    pub(super) fn until_read(&self) -> Option<Duration> {
        self.datagrams.unread.until.map(|until| until.since(self.now))
    }

    fn arm_each(&mut self, least: impl Fn(&mut Connection<N>) -> u32) {
        self.serving.watch(&mut self.network, true);
        swap(&mut self.polled, &mut self.arming);
        let mut at = 0;
        while let Some(key) = self.arming.get(at) {
            at += 1;
            let Some(connection) = self.connection_mut(key) else { continue };
            let least = least(connection);
            if least > 1 {
                connection.is_at_low_water = true;
                if self.at_low_water.is_empty() {
                    self.low_water_until = self.now + LONGEST_LOW_WATER;
                }
                self.at_low_water.push(key);
            }
            self.stop_polling(key, least);
        }
        self.arming.clear();
    }

    fn stop_polling(&mut self, key: DefaultKey, least: u32) {
        if let Some(connection) = self.connection_mut(key) {
            connection.is_polled = false;
        }
        self.arm(key, least);
    }

    /// Asks the operating system to watch the ports of a connection or listener.
    pub(super) fn arm(&mut self, key: DefaultKey, least: u32) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let armed = match &mut entry.member {
            Member::Connection(connection) => {
                let interest = connection.interest(least, self.now);
                let (lower, network) = (&mut connection.lower, &mut self.network);
                let mut ports = entry.ports.iter().enumerate();
                ports.try_for_each(|(index, port)| lower.arm(network, index, token(*port), interest))
            }
            Member::Listener(listening) if listening.has_room() => {
                let mut ports = entry.ports.iter();
                let listener = listening.listener.as_ref();
                ports.try_for_each(|port| listener.map_or(Ok(()), |one| self.network.arm_listener(one, token(*port))))
            }
            Member::Listener(_) => Ok(()),
        };
        if armed.is_err() {
            // The operating system can't watch it: poll it instead.
            self.start_polling(key);
        }
    }

    pub(super) fn poll_armed(&mut self, timeout: Option<Duration>) -> bool {
        let mut ready = take(&mut self.ready);
        // When waiting fails there is nothing better to do than to go on looking.
        let _ = self.network.wait(timeout, &mut ready);
        let progress = !ready.is_empty();
        if progress {
            // A thread that measures how long an answer takes is not to count how long we have slept.
            self.read_clock();
        }
        self.asked = self.now;
        for readiness in ready.drain(..) {
            match self.ports.owner(readiness.token) {
                Some(Owner::Connection(key, _)) => {
                    self.start_polling(key);
                    self.drive(key);
                }
                Some(Owner::Listener(key)) => self.accept_ports(key),
                Some(Owner::Stream(key)) => self.handle_stream(key, readiness.readable, readiness.writable),
                Some(Owner::StreamListener(key)) => self.handle_stream_listener(key),
                Some(Owner::Datagram(key)) => self.attend_datagrams(key, readiness.writable),
                Some(Owner::Served(key)) => self.attend_served(key),
                None => {}
            }
        }
        self.ready = ready;
        progress
    }
}
