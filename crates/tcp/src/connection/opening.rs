//! How a connection begins (RFC 9293 section 3.5).

use weft_base::Time;

use super::{Connection, ConnectionError, DEFAULT_MSS, STAMPS};
use crate::initial::Initial;
use crate::receiver::Sink;
use crate::segment::{Flow, Options, Segment};
use crate::sender::Ack;
use crate::settings::{MIN_MSS, Settings};
use crate::state::{Event, State};

/// The content of a SYN, until its answer is acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) number: u32,
    pub(crate) window: u16,
    pub(crate) options: Options,
}

impl Connection {
    /// The answering side, when the acknowledgement of its SYN has come. `initial` has the number of that SYN, and
    /// `began` is when it was sent.
    pub(crate) fn accept(flow: Flow, settings: Settings, initial: Initial, heard: &Heard, began: Time) -> Self {
        let mut connection = Self::new(flow, settings, initial, State::SynReceived, began);
        connection.handle_syn(heard, began);
        let _ = connection.sender.next_segment(false, began);
        connection.receiver.handle_acknowledged();
        connection
    }

    /// The options of a SYN, or of an answer to one.
    pub(super) fn syn_options(&self, is_answer: bool) -> Options {
        Options {
            mss: Some(self.settings.mss),
            window_scale: (!is_answer || self.scales()).then(|| self.settings.window_shift()),
            sack_permitted: self.settings.sack,
            ..Options::default()
        }
    }

    const fn scales(&self) -> bool {
        self.receiver.scales()
    }

    /// Takes what the peer's SYN says, and agrees on the rest.
    pub(super) fn handle_syn(&mut self, heard: &Heard, now: Time) {
        let options = &heard.options;
        self.receiver.synchronise(heard.number);
        self.stamps = self.settings.timestamps && options.timestamps.is_some();
        if let Some(stamps) = options.timestamps.filter(|_| self.stamps) {
            self.receiver.note_stamp(stamps, 0, now);
        }
        let shift = options.window_scale.unwrap_or(0);
        if options.window_scale.is_some() {
            self.receiver.set_shift(self.settings.window_shift());
        }
        let mss = options.mss.unwrap_or(DEFAULT_MSS).clamp(MIN_MSS, self.settings.mss);
        let stamps = if self.stamps { STAMPS } else { 0 };
        self.sender.agree(u64::from(mss) - stamps, self.settings.sack && options.sack_permitted, shift, now);
        self.sender.handle_window(0, heard.window);
    }

    /// RFC 9293 section 3.10.7.3: an answer to the SYN, or a SYN that crossed it.
    pub(super) fn handle_opening(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink, now: Time) {
        let flags = segment.flags;
        let acknowledged = self.sender.ack_position(segment.acknowledgement) == Some(1);
        if flags.ack && !acknowledged {
            self.counters.unacceptable += 1;
            self.reset = segment.refusal(payload.len());
            return;
        }
        if flags.rst {
            if flags.ack {
                self.end(Some(ConnectionError::Refused));
            }
            return;
        }
        if !flags.syn {
            return;
        }
        self.handle_syn(
            &Heard { number: segment.sequence, window: segment.window, options: segment.options.clone() },
            now,
        );
        self.heard = now;
        if !flags.ack {
            // Both have called. The SYN goes out again, with an acknowledgement.
            self.state = State::SynReceived;
            self.sender.repeat_syn();
            return;
        }
        let ack = Ack {
            start: 0,
            position: 1,
            window: segment.window,
            sack: segment.options.sack.clone(),
            echo: None,
            is_pure: false,
        };
        self.sender.handle_ack(&ack, now);
        // The window of a SYN is never shifted (RFC 7323 section 2.2).
        self.sender.handle_window(0, segment.window);
        self.receiver.owe_now();
        self.synchronised();
        if !payload.is_empty() || flags.fin {
            self.take_data(1, segment, payload, sink, now);
        }
    }

    pub(super) fn synchronised(&mut self) {
        self.go(Event::Synchronised);
        if self.sender.is_finishing() {
            self.go(Event::Close);
        }
    }
}
