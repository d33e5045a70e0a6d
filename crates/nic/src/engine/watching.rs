//! Which connections are looked at in every turn, and which the operating system watches: the few that something comes
//! from are hot, those that a long answer comes to doze before a sleep, all others are cold.

use core::mem::take;
use core::time::Duration;

use slotmap::DefaultKey;
use weft_base::Clock;

use super::ports::{Owner, token};
use super::{Engine, Member, Upper};
use crate::connection::Connection;
use crate::lower::{Carrier, Pollable as _};
use crate::policy::arming::arms_connection;
use crate::policy::constants::{FEW_POLLED, LONGEST_DOZE};

impl<N: Carrier, C: Clock, U: Upper> Engine<N, C, U> {
    pub(super) fn look_at_hot(&mut self) -> bool {
        let mut progress = false;
        let mut at = 0;
        while let Some(&key) = self.hot.get(at) {
            let connection = self.connection_mut(key);
            if connection.as_ref().is_some_and(|connection| connection.rests()) {
                at += 1;
                continue;
            }
            let is_still = connection.is_some_and(Connection::is_still);
            if !is_still {
                progress |= self.drive(key);
            }
            if self.hot.get(at) != Some(&key) {
                continue;
            }
            if self.is_cold(key, is_still) {
                self.hot.swap_remove(at);
                self.cool(key, 1);
            } else {
                at += 1;
            }
        }
        progress
    }

    fn is_cold(&self, key: DefaultKey, is_still: bool) -> bool {
        let polled = self.hot.len();
        // Few stay polled whatever they find.
        polled > FEW_POLLED
            && self.connection(key).is_none_or(|connection| arms_connection(connection.idle_looks, polled, is_still))
    }

    pub(super) fn warm(&mut self, key: DefaultKey) {
        let Some(connection) = self.connection_mut(key) else { return };
        if connection.is_hot {
            return;
        }
        connection.is_hot = true;
        connection.idle_looks = 0;
        if take(&mut connection.is_dozing) {
            self.dozing.retain(|dozing| *dozing != key);
        }
        self.hot.push(key);
    }

    /// While they are few, or when they have been left alone for long, they are looked at; else when the operating
    /// system tells of them.
    pub(super) fn look_after_dozing(&mut self) {
        if self.dozing.len() + self.hot.len() <= FEW_POLLED || self.now >= self.dozing_until {
            self.end_doze();
        }
    }

    fn end_doze(&mut self) {
        while let Some(key) = self.dozing.pop() {
            self.warm(key);
        }
    }

    /// Has the operating system watch every connection, and tell of every byte.
    pub(crate) fn cool_all(&mut self) {
        self.end_doze();
        self.cool_each(|_| 1);
    }

    /// The same before a sleep of no more than [`Engine::until_deadline`]: where a long answer is coming, not each part
    /// of it ends that.
    pub(crate) fn doze(&mut self) {
        self.cool_each(Connection::least_bytes);
    }

    fn cool_each(&mut self, least: impl Fn(&mut Connection<N>) -> u32) {
        self.datagrams.watch_all(&mut self.network);
        self.serving.watch(&mut self.network, true);
        let mut hot = take(&mut self.hot);
        for key in hot.drain(..) {
            let Some(connection) = self.connection_mut(key) else { continue };
            let least = least(connection);
            if least > 1 {
                connection.is_dozing = true;
                if self.dozing.is_empty() {
                    self.dozing_until = self.now + LONGEST_DOZE;
                }
                self.dozing.push(key);
            }
            self.cool(key, least);
        }
        if self.hot.is_empty() {
            // Keeps the memory.
            self.hot = hot;
        }
    }

    fn cool(&mut self, key: DefaultKey, least: u32) {
        if let Some(connection) = self.connection_mut(key) {
            connection.is_hot = false;
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
            self.warm(key);
        }
    }

    pub(super) fn ask_system(&mut self, timeout: Option<Duration>) -> bool {
        let mut ready = take(&mut self.ready);
        // When waiting fails there is nothing better to do than to go on looking.
        let _ = self.network.wait(timeout, &mut ready);
        let progress = !ready.is_empty();
        if progress {
            // Whoever measures how long an answer takes is not to count how long we have slept.
            self.look_at_clock();
        }
        for readiness in ready.drain(..) {
            match self.ports.owner(readiness.token) {
                Some(Owner::Connection(key, _)) => {
                    self.warm(key);
                    self.drive(key);
                }
                Some(Owner::Listener(key)) => self.accept_ports(key),
                Some(Owner::Stream(key)) => self.hear_stream(key, readiness.readable, readiness.writable),
                Some(Owner::StreamListener(key)) => self.hear_stream_listener(key),
                Some(Owner::Datagram(key)) => self.attend_datagrams(key, readiness.writable),
                Some(Owner::Served(key)) => self.attend_served(key),
                None => {}
            }
        }
        self.ready = ready;
        progress
    }
}
