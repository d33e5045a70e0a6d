//! One connection: a port, and what stands on it: first MPA's start-up, then an RDMA stream.
//!
//! `start` sets up, `receive` and `transmit` move frames, `packets` those of message endpoints, `end` takes down. This file joins them: [`Connection::drive`] does whatever can be
//! done now, and never blocks.

mod end;
mod held;
pub(crate) mod outgoing;
mod packets;
mod receive;
mod stages;
pub(crate) mod staging;
mod start;
mod transmit;

use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Port, PortError, Random, Time};
use weft_memory::Registry;
use weft_mpa::Deframer;

use crate::connection::outgoing::Outgoing;
use crate::connection::staging::{Pool, Staging};
use crate::counters::Counters;
use crate::ids::UpperId;
use crate::queues::queue_pair::QueuePair;
use crate::settings::Settings;

pub(crate) use end::Ending;
pub(crate) use packets::Passed;
pub(crate) use receive::Direct;
use stages::{Core, Incoming, Pipeline};
pub(crate) use start::{Start, within_limits};
use transmit::BYTES_PER_TURN;

/// So many bytes of a long answer are worth a wake-up of their own. Each takes some 20 us from whoever computes there; to place so many takes about
/// 40 us, by which the end comes later than if each packet were placed as it comes.
const MOST_AWAITED: u32 = 256 * 1024;

/// What every connection of an engine may use while it is driven.
pub(crate) struct Context<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) registry: &'a Registry,
    pub(crate) settings: &'a Settings,
    pub(crate) counters: &'a mut Counters,
    pub(crate) random: &'a mut Random,
    pub(crate) packets: &'a mut dyn PacketSinks,
    pub(crate) now: Time,
}

/// Those who take packets as they come off a connection, past the receive queue of its queue pair: message endpoints.
pub(crate) trait PacketSinks {
    /// Offers a packet that has come on this queue pair to the one whom the queue pair belongs to. Returns whether it has taken it: it may be at work just now.
    fn take(&mut self, upper: UpperId, queue_pair: &Arc<QueuePair>, packet: &[u8], now: Time) -> bool;
}

/// What driving a connection has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing could be done.
    Idle,
    /// Something was done; there may be more.
    Progress,
    /// A request has come in whole and waits for the application.
    Request(DefaultKey),
    /// The connection is over and can be removed.
    Over,
}

/// A connection of an engine.
pub(crate) struct Connection<P: Port> {
    pub(crate) port: P,
    phase: Phase,
    staging: Staging,
    outgoing: Outgoing,
    /// When to give up on what is being waited for.
    pub(crate) deadline: Option<Time>,
    /// Looks in vain since the last time something came.
    pub(crate) idle_looks: u32,
    /// The engine looks at it in every turn.
    pub(crate) is_hot: bool,
    /// It is watched for many bytes, and looked at now and then.
    pub(crate) is_dozing: bool,
    /// What was missing of an answer when it was watched so last.
    missed: u32,
    /// What the peer has asked for is answered when the packets that came with it were attended to.
    answers_wait: bool,
    /// The listener that it came through, until it is decided.
    pub(crate) listener: Option<DefaultKey>,
}

enum Phase {
    /// MPA's start-up.
    Start(Start),
    /// An RDMA stream.
    Running(Box<Running>),
    /// Nothing more is wanted from the peer; what was taken still goes out, and what comes is thrown away, so that the peer gets our last
    /// words and not a reset.
    Draining,
}

/// An RDMA stream over MPA.
pub(crate) struct Running {
    core: Core,
    /// The way out where stages are split; elsewhere it is [`Connection::outgoing`].
    pipeline: Option<Pipeline>,
    deframer: Deframer,
    queue_pair: Arc<QueuePair>,
    crc: bool,
    direct: Option<Direct>,
    /// A frame that is being received, where stages are split.
    incoming: Option<Incoming>,
    /// Its ULPDU without markers, where that is a stage of its own.
    flat: Option<Vec<u8>>,
    /// A large frame was refused by its head. Nothing is said about it before the rest is here and the CRC was seen.
    verdict_pending: bool,
    /// A turn has sent as much as one may: there may be more.
    cut_short: bool,
    /// A large frame came not so many frames ago: read only as much as holds the next header, so that the rest can go straight into
    /// place.
    expect_large: u8,
    /// The peer has sent its last byte, or nothing it sends is of interest any more.
    input_over: bool,
    close_wanted: bool,
    send_closed: bool,
}

impl<P: Port> Connection<P> {
    fn new(port: P, start: Start, deadline: Time) -> Self {
        Self {
            port,
            phase: Phase::Start(start),
            staging: Staging::default(),
            outgoing: Outgoing::default(),
            deadline: Some(deadline),
            idle_looks: 0,
            is_hot: false,
            is_dozing: false,
            missed: 0,
            answers_wait: false,
            listener: None,
        }
    }

    /// Does whatever can be done now.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> Outcome {
        let outcome = match &self.phase {
            Phase::Start(_) => self.drive_start(cx),
            Phase::Running(_) => self.drive_running(cx),
            Phase::Draining => self.drive_draining(cx),
        };
        if outcome == Outcome::Idle {
            self.idle_looks = self.idle_looks.saturating_add(1);
        } else {
            self.idle_looks = 0;
        }
        outcome
    }

    /// Whether packets have come with requests that are to be answered: answers may be long, so what the packets give rise to goes first. [`Connection::answer`] must follow.
    pub(crate) fn answers_wait(&self) -> bool {
        self.answers_wait
    }

    /// The packets have been attended to.
    pub(crate) fn answer(&mut self, cx: &mut Context<'_>) -> Outcome {
        self.answers_wait = false;
        self.transmit(BYTES_PER_TURN, cx);
        self.report(cx);
        if self.follow(cx) { Outcome::Over } else { Outcome::Progress }
    }

    fn has_answers(&mut self) -> bool {
        self.running().is_some_and(|(running, ..)| running.core.hold().stream.has_answers())
    }

    /// The doorbell was rung: sends what was posted, and leaves receiving to the next turn.
    pub(crate) fn send_posted(&mut self, cx: &mut Context<'_>) -> Outcome {
        self.take_posted(cx);
        // The caller may be gone for long afterwards: as much as the operating system takes.
        self.transmit(usize::MAX, cx);
        self.report(cx);
        if self.follow(cx) { Outcome::Over } else { Outcome::Progress }
    }

    fn drive_running(&mut self, cx: &mut Context<'_>) -> Outcome {
        let mut progress = self.take_posted(cx);
        let packets = cx.counters.passed_packets_received;
        progress |= self.receive(cx);
        self.answers_wait |= cx.counters.passed_packets_received != packets && self.has_answers();
        if !self.answers_wait {
            progress |= self.transmit(BYTES_PER_TURN, cx);
        }
        progress |= self.report(cx);
        if self.follow(cx) {
            return Outcome::Over;
        }
        if progress { Outcome::Progress } else { Outcome::Idle }
    }

    /// Whether the port should be watched for room to send.
    pub(crate) fn wants_room(&self) -> bool {
        let waits = match &self.phase {
            Phase::Start(start) => start.is_connecting(),
            Phase::Running(running) => running.cut_short,
            Phase::Draining => false,
        };
        waits || self.has_unsent()
    }

    /// Whether the port should be watched for bytes.
    pub(crate) fn wants_bytes(&self) -> bool {
        !matches!(&self.phase, Phase::Start(start) if start.is_connecting())
    }

    /// How many bytes must come before there is more to do than to place them: all that is missing of a long answer, but no more than [`MOST_AWAITED`]. 1 when
    /// nothing of it has come since this was asked last.
    pub(crate) fn least_bytes(&mut self) -> u32 {
        let Phase::Running(running) = &mut self.phase else { return 1 };
        let missing = running.core.hold().stream.missing_of_answer();
        let here = running.direct.as_ref().map_or(self.staging.filled().len() as u32, Direct::placed_bytes);
        let missing = missing.saturating_sub(here);
        let before = core::mem::replace(&mut self.missed, missing);
        if missing == before { 1 } else { missing.clamp(1, MOST_AWAITED) }
    }

    /// Whether bytes wait for room.
    fn has_unsent(&self) -> bool {
        let staged = match &self.phase {
            Phase::Running(running) => running.pipeline.as_ref().is_some_and(|pipeline| !pipeline.is_empty()),
            _ => false,
        };
        staged || !self.outgoing.is_empty()
    }

    /// Throws away what has not been sent.
    fn clear_unsent(&mut self, cx: &mut Context<'_>) {
        self.outgoing.clear(cx.pool);
        if let Phase::Running(running) = &mut self.phase
            && let Some(pipeline) = &mut running.pipeline
        {
            pipeline.clear();
        }
    }

    fn running(&mut self) -> Option<(&mut Running, &mut P, &mut Staging, &mut Outgoing)> {
        match &mut self.phase {
            Phase::Running(running) => Some((running, &mut self.port, &mut self.staging, &mut self.outgoing)),
            _ => None,
        }
    }

    /// Sends what waits in `outgoing`, outside of a stream.
    fn flush(&mut self, cx: &mut Context<'_>) -> Result<bool, PortError> {
        if self.outgoing.is_empty() {
            return Ok(false);
        }
        let (taken, _) = self.outgoing.send(&mut self.port, cx.pool)?;
        cx.counters.sends += 1;
        cx.counters.sent_wire_bytes += taken as u64;
        Ok(taken > 0)
    }
}
