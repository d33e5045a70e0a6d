//! What becomes of the interface: it goes down and comes up, is deleted, and is made again.
//!
//! The kernel reports the first by an error of the packet socket, which keeps the descriptor readable until it is
//! taken. It does not report the rest, so an interface that is down is checked from time to time.

use core::time::Duration;
use std::io;
use std::sync::atomic::Ordering;

use slotmap::DefaultKey;
use weft_base::{InterfaceName, PortError, Readiness, Time, Token};
use weft_driver::InterfaceState;

use super::paths::Paths;
use super::{Stack, enter_groups, mss_of, segment_size};

/// An interface that is down or gone is checked after the first of these times, then after twice that, up to the
/// second.
const FIRST_CHECK: Duration = Duration::from_millis(50);
const LAST_CHECK: Duration = Duration::from_secs(1);
/// A program that makes an interface anew deletes it first. Only an interface that is gone for longer ends what it
/// carried.
const GONE_FOR: Duration = Duration::from_secs(1);

/// An interface that is down or gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    /// When it is checked again, and how long that was put off.
    next: Time,
    wait: Duration,
    /// It is known to be deleted since then.
    gone_since: Option<Time>,
    /// What it carried was ended for that.
    has_ended: bool,
}

impl Stack {
    /// The descriptor of the ring is readable: if no frame is there, it is for an error.
    pub(crate) fn handle_readable(&mut self) {
        if !self.wire.has_frame() && self.wire.take_error() {
            self.wire.doubt_interface();
        }
    }

    /// What no interface carries ends, or none takes it on.
    pub(super) fn check_interface(&mut self) -> Result<(), PortError> {
        if self.absence.is_some() {
            self.poll_interface(self.now());
        }
        if self.absence.is_some_and(|absence| absence.has_ended) { Err(self.gone()) } else { Ok(()) }
    }

    fn gone(&self) -> PortError {
        PortError::InterfaceGone(InterfaceName::new(&self.settings.interface))
    }

    /// Checks the interface, if that is due.
    pub(super) fn pursue_absence(&mut self, now: Time) {
        match self.absence {
            Some(absence) if absence.next <= now => self.poll_interface(now),
            Some(absence) => self.note_due(Some(absence.next)),
            None => {}
        }
    }

    /// Checks whether the interface is still there.
    pub(super) fn poll_interface(&mut self, now: Time) {
        // Taken before the check: what happens after it is reported again.
        self.wire.take_error();
        match self.wire.interface_state(&self.settings.interface) {
            InterfaceState::Up => self.absence = None,
            InterfaceState::Remade if self.rebind(now).is_ok() => self.absence = None,
            InterfaceState::Down => self.check_later(false, now),
            InterfaceState::Gone | InterfaceState::Remade => self.check_later(true, now),
        }
    }

    fn check_later(&mut self, is_gone: bool, now: Time) {
        let first = Absence { next: now, wait: FIRST_CHECK, gone_since: None, has_ended: false };
        let absence = self.absence.get_or_insert(first);
        absence.next = now + absence.wait;
        absence.wait = (absence.wait * 2).min(LAST_CHECK);
        absence.gone_since = is_gone.then(|| absence.gone_since.unwrap_or(now));
        let is_over = absence.gone_since.is_some_and(|since| now.since(since) >= GONE_FOR);
        let ends = is_over && !core::mem::replace(&mut absence.has_ended, is_over);
        let next = absence.next;
        self.note_due(Some(next));
        if ends {
            self.end_all();
        }
    }

    /// All that the interface carried is over.
    fn end_all(&mut self) {
        let error = self.gone();
        let keys: Vec<DefaultKey> = self.streams.keys().collect();
        for key in keys {
            if let Some(stream) = self.streams.get_mut(key) {
                stream.connection.abort();
                stream.error.get_or_insert(error);
                self.touch(key);
            }
        }
        self.asking.clear();
        let failed: Vec<_> = self.listeners.iter_mut().map(|listening| listening.fail(error)).collect();
        failed.into_iter().for_each(|local| self.notify_listener(local));
    }

    /// Moves to the interface that has the name now. Streams and listeners live on. No probe asks whether an address of
    /// IPv6 is taken there: it was ours before.
    fn rebind(&mut self, now: Time) -> io::Result<()> {
        self.wire.rebind(&self.settings, now)?;
        self.tcp.mss = segment_size(self.wire.mtu());
        self.groups = enter_groups(&self.wire, &self.settings);
        self.paths = Paths::default();
        self.asking.clear();
        self.doubts.clear();
        self.neighbour_changes.fetch_add(1, Ordering::Release);
        let keys: Vec<DefaultKey> = self.streams.keys().collect();
        for key in keys {
            let Some(stream) = self.streams.get_mut(key) else { continue };
            let mss = mss_of(&self.tcp, stream.connection.flow().remote.ip());
            stream.connection.set_path_mss(mss);
            self.touch(key);
        }
        self.wake_raw_ports();
        Ok(())
    }

    /// A datagram port is about to be waited for. Returns the number of the interface that it should be at.
    pub(crate) fn arm_raw(&mut self, port: u16, token: Token) -> u32 {
        match self.raw_armed.iter_mut().find(|(known, _)| *known == port) {
            Some((_, known)) => *known = token,
            None => self.raw_armed.push((port, token)),
        }
        self.interface()
    }

    /// They have sockets of their own, which follow when they are armed the next time.
    fn wake_raw_ports(&mut self) {
        let woken = self.raw_armed.drain(..);
        self.ready.extend(woken.map(|(_, token)| Readiness { token, readable: true, writable: true }));
        if !self.ready.is_empty() {
            self.waker.wake();
        }
    }
}
