//! One connection: a lower layer, and the RDMA stream on it once its set-up is done.
//!
//! `start` sets up, `placement` is what the lower layer sees of the stream, `completion` reports what has finished,
//! `granting` promises receives to the peer, `answering` has receipts wait for an answer, `nudge` helps a peer that has
//! overlooked something, `close` takes down.
//! This file joins them: [`Connection::drive`] does whatever can be done now, and never blocks.

mod answering;
mod close;
mod completion;
mod granting;
mod nudge;
mod nudges;
mod placement;
mod start;

use core::time::Duration;
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Interest, PortError, Time};
use weft_rdmap::{Closed, RequestFlags, SendRequest};
use weft_wire::terminate::TerminateCode;

use self::nudges::Nudges;
use crate::error::{PostError, RefusedStart};
use crate::ids::UpperId;
use crate::lower::{
    Carrier, Got, Io, Passed, PassedRequest, Pollable as _, Readiness, ReceiveError, Segments, SendError, Setup as _,
    StreamCell,
};
use crate::policy::{AnswerCredit, Starved};
use crate::queues::queue_pair::QueuePair;

pub(crate) use self::close::Ending;
pub(crate) use self::start::within_limits;

/// This many bytes of a long answer are worth a wake-up of their own. Each takes some 20 us from the thread that
/// computes there; to place this many takes about 40 us, by which the end comes later than if each packet were placed
/// as it comes.
const MOST_AWAITED: u32 = 256 * 1024;
/// Once a turn has sent this many bytes, the connection receives before it sends the rest: an arriving request should
/// not wait behind all of that.
const BYTES_PER_TURN: usize = 128 * 1024;
/// When sending fails, this many reads at most are made of what the peer has sent before: more than a socket's buffer
/// holds.
const LAST_READS: usize = 1024;

/// What every connection of an engine may use while it is driven.
pub(crate) struct Context<'a, S> {
    pub(crate) io: Io<'a, S>,
    pub(crate) packets: &'a mut dyn PacketSinks,
}

/// What takes packets as they come off a connection, past the receive queue of its queue pair: message endpoints.
pub(crate) trait PacketSinks {
    /// Offers a packet that has come on this queue pair to the owner of the queue pair. Returns whether it
    /// has taken it: it may be at work just now.
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

impl Outcome {
    fn of(progress: bool) -> Self {
        if progress { Self::Progress } else { Self::Idle }
    }
}

/// What a turn of the engine has to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing until something comes, something is posted, or [`Connection::wake_at`].
    Nothing,
    /// A poll would find nothing: one load has told so.
    EmptyPoll,
    /// To receive, which is all that there is to do ([`Connection::receive_messages`]); or that was done, and brought
    /// nothing.
    EmptyReceive,
    /// Whole messages were received, and nothing else: nothing is to follow.
    Received,
    /// Something else was received: [`Connection::follow_received`] is next.
    Follow,
    /// To drive it.
    Drive,
}

/// A connection of an engine.
pub(crate) struct Connection<N: Carrier> {
    pub(crate) lower: N::Lower,
    phase: Phase,
    /// When to give up on what is being waited for.
    deadline: Option<Time>,
    /// That is for the peer to post a receive: where it stood when it began ([`Connection::waits_at`]).
    unreceived: Option<usize>,
    /// The peer waits for a promise of a receive, and none was posted: when it is polled for.
    starved: Option<Starved>,
    /// When it is to be seen to that the peer's host still answers.
    peer_check: Option<Time>,
    /// What is due to a peer that may have overlooked what arrived first.
    nudges: Option<Nudges>,
    /// One of these was set since the engine last took them.
    waits_anew: bool,
    /// While it is set up, the deadline is for the peer's host alone, which has this long each time that it is called.
    host_patience: Option<Duration>,
    /// Empty polls since something came last.
    pub(crate) empty_polls: u32,
    /// The engine polls it in every turn.
    pub(crate) is_polled: bool,
    /// It is armed with a low-water mark, and polled now and then.
    pub(crate) is_at_low_water: bool,
    /// What was missing of an answer when it was watched so last.
    missed: u32,
    /// What the peer has requested is answered when the packets that came with it were attended to.
    answers_wait: bool,
    /// The engine has it in its list of those that answer then.
    pub(crate) is_listed_to_answer: bool,
    /// The listener that it came through, until it is decided.
    pub(crate) listener: Option<DefaultKey>,
    /// It was closed while its caller had yet to confirm: it is, once that has come.
    closes_when_ready: bool,
    /// The caller that came through it and has failed before anything could be decided, and why.
    pub(crate) refused: Option<Box<RefusedStart>>,
}

enum Phase {
    /// The set-up; with its queue pair if it was begun here.
    Start(Option<Arc<QueuePair>>),
    /// An RDMA stream.
    Running(Box<Running>),
    /// Nothing more is wanted from the peer; what was taken still goes out, and what arrives is thrown away, so that
    /// the peer gets our last words and not a reset.
    Draining,
}

/// An RDMA stream over a lower layer.
struct Running {
    stream: StreamCell,
    queue_pair: Arc<QueuePair>,
    /// What there is to do at the lower layer, as it said when it was driven last.
    ready: Readiness,
    /// A turn has sent as much as one may: there may be more.
    cut_short: bool,
    /// The last look found nothing to do: until something is posted or comes, there is nothing.
    is_quiet: bool,
    /// In which turn of the engine a receipt has begun to wait for the answer of the application.
    receipt_waits: Option<u32>,
    /// In which turn the lower layer has begun to hold an acknowledgement for the answer: the next one drives it.
    ack_waits: Option<u32>,
    /// Whether that pays.
    answers: AnswerCredit,
    /// The peer has sent its last byte, or nothing it sends is of interest any more.
    input_over: bool,
    close_wanted: bool,
    send_closed: bool,
}

impl<N: Carrier> Connection<N> {
    fn new(lower: N::Lower, queue_pair: Option<Arc<QueuePair>>, deadline: Time) -> Self {
        Self {
            lower,
            phase: Phase::Start(queue_pair),
            deadline: Some(deadline),
            unreceived: None,
            starved: None,
            peer_check: None,
            nudges: None,
            waits_anew: true,
            host_patience: None,
            empty_polls: 0,
            is_polled: false,
            is_at_low_water: false,
            missed: 0,
            answers_wait: false,
            is_listed_to_answer: false,
            listener: None,
            closes_when_ready: false,
            refused: None,
        }
    }

    /// Does whatever can be done now.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        let outcome = match &self.phase {
            Phase::Start(_) => self.drive_start(cx),
            Phase::Running(_) => self.drive_running(cx),
            Phase::Draining => self.drive_draining(cx),
        };
        if outcome == Outcome::Idle {
            self.empty_polls = self.empty_polls.saturating_add(1);
        } else {
            self.empty_polls = 0;
        }
        outcome
    }

    /// What a turn of the engine has to do with it. A poll that would find nothing, which is known without one, counts
    /// as one. `turn`: the number of the turn.
    #[inline]
    pub(crate) fn due(&mut self, turn: u32) -> Due {
        let Phase::Running(running) = &self.phase else { return Due::Drive };
        if running.queue_pair.has_posted() {
            return Due::Drive;
        }
        if running.ack_waits == Some(turn) {
            return Due::Nothing;
        }
        if !running.ready.receive && !running.cut_short && !self.answers_wait {
            return Due::Nothing;
        }
        if !running.is_quiet {
            return Due::Drive;
        }
        if self.lower.is_still() {
            self.empty_polls = self.empty_polls.saturating_add(1);
            return Due::EmptyPoll;
        }
        if running.ready.fast && !running.input_over { Due::EmptyReceive } else { Due::Drive }
    }

    /// Receives once, where [`Connection::due`] says that this is all. Nothing follows from whole messages, nor from an
    /// empty poll: so the rest of [`Connection::drive`] is left out.
    #[inline]
    pub(crate) fn receive_messages(&mut self, cx: &mut Context<'_, N::Scratch>) -> Due {
        let Phase::Running(running) = &mut self.phase else { return Due::Drive };
        let got = self.lower.receive(&mut running.above(cx.packets), &mut cx.io);
        match got {
            Ok(Got::Nothing) => {
                self.empty_polls = self.empty_polls.saturating_add(1);
                Due::EmptyReceive
            }
            Ok(Got::Messages) => {
                self.empty_polls = 0;
                if self.is_anything_due(&cx.io) { Due::Follow } else { Due::Received }
            }
            got => {
                self.empty_polls = 0;
                self.take_got(got, cx);
                Due::Follow
            }
        }
    }

    /// Whether nothing waits in its lower layer, and no time of that changes with what is sent or received.
    #[inline]
    pub(crate) fn is_fast(&self) -> bool {
        matches!(&self.phase, Phase::Running(running) if running.ready.fast)
    }

    /// What follows from what [`Connection::receive_messages`] has received.
    pub(crate) fn follow_received(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.stir();
        self.drive_received(true, true, cx)
    }

    /// When it must be driven though nothing has come.
    #[inline]
    pub(crate) fn wake_at(&self) -> Option<Time> {
        // Runs after each poll.
        let mut first = self.lower.next_timeout();
        let mut consider = |at: Option<Time>| {
            if let Some(at) = at {
                first = Some(first.map_or(at, |first| first.min(at)));
            }
        };
        consider(self.deadline);
        consider(self.peer_check);
        consider(self.starved.map(|starved| starved.at));
        consider(self.nudges.as_ref().map(Nudges::at));
        first
    }

    /// Whether [`Connection::wake_at`] may be earlier than `at`, if it was not at the last call.
    #[inline]
    pub(crate) fn may_wake_before(&mut self, at: Time) -> bool {
        core::mem::take(&mut self.waits_anew) || self.lower.may_time_out_before(at)
    }

    /// Gives up on what is waited for at this time.
    fn wait_until(&mut self, at: Time) {
        self.deadline = Some(at);
        self.waits_anew = true;
    }

    /// It is to be seen to at this time that the peer's host still answers.
    pub(crate) fn set_peer_check(&mut self, at: Option<Time>) {
        self.peer_check = at;
        self.waits_anew = true;
    }

    /// Sees to it that the peer's host still answers, if it is time. Returns whether it does, if it was.
    pub(crate) fn check_peer(&mut self, now: Time) -> Option<bool> {
        self.peer_check.take_if(|at| *at <= now)?;
        Some(self.lower.check_peer(now).is_ok())
    }

    /// It is later than [`Connection::wake_at`]: does what there is to do then.
    pub(crate) fn handle_time(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.nudge(cx);
        if self.deadline.is_some_and(|at| at <= cx.io.now) { self.expire(cx) } else { self.drive(cx) }
    }

    /// Whether packets have come with requests that are to be answered: answers may be long, so what the packets give
    /// rise to goes first. [`Connection::answer`] must follow.
    pub(crate) fn answers_wait(&self) -> bool {
        self.answers_wait
    }

    /// The packets have been attended to.
    pub(crate) fn answer(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.answers_wait = false;
        self.transmit(BYTES_PER_TURN, cx);
        self.report(cx);
        if self.follow(cx) { Outcome::Over } else { Outcome::Progress }
    }

    fn has_answers(&mut self) -> bool {
        self.running().is_some_and(|(running, _)| running.stream.hold().has_answers())
    }

    /// The doorbell was rung: sends what was posted, and leaves receiving to the next turn.
    pub(crate) fn send_posted(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.take_posted(cx);
        self.note_answer(&cx.io);
        self.grant(cx.io.now);
        // The caller may be gone for long afterwards: as much as the operating system takes.
        self.transmit(usize::MAX, cx);
        self.note_readiness(cx.io.now);
        if self.settles(true) {
            return Outcome::Progress;
        }
        self.report(cx);
        if self.follow(cx) { Outcome::Over } else { Outcome::Progress }
    }

    fn drive_running(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        let mut progress = self.take_posted(cx);
        if progress {
            self.note_answer(&cx.io);
        }
        let packets = cx.io.counters.passed_packets_received;
        let got = self.receive_once(cx);
        if got == Ok(Got::Messages) && !progress && self.settles(true) {
            return Outcome::Progress;
        }
        if got == Ok(Got::MessagesToAnswer) && !progress && self.awaits_answer(cx) {
            return Outcome::Progress;
        }
        progress |= self.take_got(got, cx);
        let has_packets = cx.io.counters.passed_packets_received != packets;
        self.drive_received(progress, has_packets, cx)
    }

    /// What there is to do when something was received, or nothing. `has_packets`: packets of message endpoints may
    /// have come.
    fn drive_received(&mut self, mut progress: bool, has_packets: bool, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.note_readiness(cx.io.now);
        if self.settles(progress) {
            return Outcome::of(progress);
        }
        self.grant(cx.io.now);
        self.hold_receipt(progress, &cx.io);
        self.answers_wait |= has_packets && self.has_answers();
        if !self.answers_wait {
            progress |= self.transmit(BYTES_PER_TURN, cx);
        }
        progress |= self.report(cx);
        if self.follow(cx) {
            return Outcome::Over;
        }
        self.settles(true);
        Outcome::of(progress)
    }

    /// Whether it needs nothing but polls until something is posted or comes. Without `progress` since the
    /// last call, a stream that had nothing to do has nothing to do.
    fn settles(&mut self, progress: bool) -> bool {
        let Phase::Running(running) = &mut self.phase else { return false };
        if !progress && running.is_quiet && running.ready.idle {
            return true;
        }
        let is_done = !running.cut_short && !self.answers_wait && running.ready.idle;
        // What is shared may be changed by others.
        running.is_quiet = is_done && matches!(&running.stream, StreamCell::Own(stream) if stream.is_quiet());
        running.is_quiet
    }

    /// Keeps what there is to do at the lower layer, which was driven.
    #[inline]
    fn note_readiness(&mut self, now: Time) {
        if let Phase::Running(running) = &mut self.phase {
            running.ready = self.lower.readiness(now);
        }
    }

    /// There may be something to do though nothing was posted or has come.
    fn stir(&mut self) {
        if let Phase::Running(running) = &mut self.phase {
            running.is_quiet = false;
        }
    }

    // --- segments

    /// Hands what was posted to the stream.
    fn take_posted(&mut self, cx: &mut Context<'_, N::Scratch>) -> bool {
        let Some((running, _)) = self.running() else { return false };
        if !running.queue_pair.has_posted() {
            return false;
        }
        running.queue_pair.move_posted(&mut running.stream.hold(), cx.io.registry)
    }

    /// Has the lower layer send until it takes no more, nothing is left, or `most` bytes were sent.
    fn transmit(&mut self, most: usize, cx: &mut Context<'_, N::Scratch>) -> bool {
        let Some((running, lower)) = self.running() else { return false };
        // Once the stream has ended nothing is accounted for any more; what is left is thrown away, or goes out while
        // the connection drains.
        if running.send_closed || running.stream.hold().state().has_ended() {
            running.cut_short = false;
            return false;
        }
        match lower.transmit(&mut running.above(cx.packets), most, &mut cx.io) {
            Ok(sent) => {
                running.cut_short = sent.cut_short;
                sent.progress
            }
            Err(error) => {
                self.lose_sending(error, cx);
                true
            }
        }
    }

    fn lose_sending(&mut self, error: SendError, cx: &mut Context<'_, N::Scratch>) {
        let is_of_memory = match &error {
            SendError::Port(error) => error.is_of_memory(),
            SendError::Memory => true,
        };
        if let Some((running, _)) = self.running()
            && is_of_memory
        {
            // Part of the segment may be on its way: no Terminate can follow.
            running.stream.hold().fail(TerminateCode::ProtectionInvalidStag);
        }
        let SendError::Port(error) = error else { return self.lose(PortError::Reset, cx) };
        // What the peer has said before still counts: it may have ended its program right behind it.
        for _ in 0..LAST_READS {
            if !self.receive(cx) {
                break;
            }
        }
        self.lose(error, cx);
    }

    /// Sends a short request of this queue pair at once, past the queues: it is complete then, or completes when the
    /// lower layer answers for it. `None`: something is to go before it, or it does not fit, and nothing was done.
    ///
    /// # Errors
    /// It can't be taken.
    pub(crate) fn pass_request(
        &mut self,
        queue_pair: &Arc<QueuePair>,
        request: &SendRequest,
        cx: &mut Context<'_, N::Scratch>,
    ) -> Option<Result<(), PostError>> {
        if self.running()?.0.stream.hold().wants_grant() {
            // What the program has posted before its answer is promised along with that.
            self.grant(cx.io.now);
        }
        let (running, lower) = self.running()?;
        let is_plain = request.flags == RequestFlags::NONE;
        let is_free = is_plain && !running.send_closed && !queue_pair.has_posted() && running.stream.hold().can_pass();
        let lets_pass = running.ready.fast || lower.lets_pass(cx.io.now);
        if !is_free || !lets_pass || !Arc::ptr_eq(&running.queue_pair, queue_pair) {
            return None;
        }
        let is_acknowledged = running.stream.hold().has_receipts();
        let is_owed = is_acknowledged || request.signaled && lower.owes_completion();
        let admitted = if is_owed {
            queue_pair.admit_owed(cx.io.registry, request)
        } else {
            queue_pair.admit_passing(cx.io.registry, request)
        };
        if let Err(error) = admitted {
            return Some(Err(error));
        }
        let outcome = lower.pass_request(&mut running.above(cx.packets), request, &mut cx.io);
        let passed = outcome != PassedRequest::Not;
        if !is_owed {
            queue_pair.end_passing(cx.io.registry, request, passed);
            cx.io.counters.sent_messages += u64::from(passed);
        } else if !passed {
            queue_pair.withdraw(cx.io.registry, request);
        }
        if outcome != PassedRequest::Gone {
            running.ready = lower.readiness(cx.io.now);
        }
        if is_acknowledged && passed {
            running.note_answer(cx.io.now);
            // The receipt that it was driven for has gone.
            running.is_quiet = running.ready.idle && running.stream.hold().is_quiet();
        }
        passed.then_some(Ok(()))
    }

    /// Has a packet of at most `most` bytes written straight into its frame, as [`Segments::pass_packet`].
    pub(crate) fn pass_packet(
        &mut self,
        most: usize,
        cx: &mut Context<'_, N::Scratch>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        let Some((running, lower)) = self.running() else { return Passed::Not };
        if running.send_closed {
            return Passed::Not;
        }
        let passed = lower.pass_packet(&mut running.above(cx.packets), most, &mut cx.io, write);
        // It waits to be sent, which is noted when that is done.
        running.ready.fast = false;
        passed
    }

    /// Receives once, and handles every segment that is whole then.
    fn receive(&mut self, cx: &mut Context<'_, N::Scratch>) -> bool {
        let got = self.receive_once(cx);
        self.take_got(got, cx)
    }

    fn receive_once(&mut self, cx: &mut Context<'_, N::Scratch>) -> Result<Got, ReceiveError> {
        match self.running() {
            Some((running, lower)) if !running.input_over => lower.receive(&mut running.above(cx.packets), &mut cx.io),
            _ => Ok(Got::Nothing),
        }
    }

    /// Takes note of what was received. Returns whether that was anything.
    fn take_got(&mut self, got: Result<Got, ReceiveError>, cx: &mut Context<'_, N::Scratch>) -> bool {
        let Some((running, lower)) = self.running() else { return false };
        match got {
            Ok(Got::Nothing) => return false,
            Ok(Got::Progress | Got::Messages | Got::MessagesToAnswer) => {}
            Ok(Got::Over) => running.input_over = true,
            Ok(Got::End { whole }) => {
                running.input_over = true;
                running.stream.hold().handle_closed(if whole { Closed::Graceful } else { Closed::MidFrame });
                lower.clear_received(&mut cx.io);
            }
            Err(error) => self.stop(error, cx),
        }
        true
    }

    /// Nothing more can be received.
    fn stop(&mut self, error: ReceiveError, cx: &mut Context<'_, N::Scratch>) {
        let Some((running, lower)) = self.running() else { return };
        match error {
            ReceiveError::Port(error) => return self.lose(error, cx),
            ReceiveError::Broken(code) => running.stream.hold().fail(code),
            // The stream has judged already, and has a Terminate to send.
            ReceiveError::Judged => {}
            ReceiveError::Memory => running.stream.hold().fail(TerminateCode::LocalCatastrophic),
        }
        running.input_over = true;
        lower.clear_received(&mut cx.io);
    }

    /// The lower layer has failed under the stream.
    fn lose(&mut self, error: PortError, cx: &mut Context<'_, N::Scratch>) {
        let how = match error {
            PortError::TimedOut => Closed::TimedOut,
            PortError::InterfaceGone(name) => Closed::InterfaceGone(name),
            _ => Closed::Reset,
        };
        self.break_off(how, cx);
    }

    /// Ends the stream and breaks the lower layer.
    fn break_off(&mut self, how: Closed, cx: &mut Context<'_, N::Scratch>) {
        self.lower.clear_unsent(&mut cx.io);
        self.lower.clear_received(&mut cx.io);
        let Some((running, lower)) = self.running() else { return };
        running.input_over = true;
        running.send_closed = true;
        running.stream.hold().handle_closed(how);
        lower.abort(&mut cx.io);
    }

    // --- what it is watched for

    /// What its ports are armed for: room, where something waits to be sent, and `least` bytes; while the peer's host
    /// has not answered, room alone.
    pub(crate) fn interest(&self, least: u32, now: Time) -> Interest {
        let (is_connecting, is_cut_short) = match &self.phase {
            Phase::Start(_) => (self.lower.is_connecting(), false),
            Phase::Running(running) => (false, running.cut_short),
            Phase::Draining => (false, false),
        };
        let writable = is_connecting || is_cut_short || self.lower.readiness(now).send;
        Interest { readable: !is_connecting, writable, least }
    }

    /// How many bytes must come before there is more to do than to place them: all that is missing of a long answer,
    /// but no more than [`MOST_AWAITED`]. 1 when nothing of it has come since the last call.
    pub(crate) fn least_bytes(&mut self) -> u32 {
        let Phase::Running(running) = &mut self.phase else { return 1 };
        let missing = running.stream.hold().missing_of_answer();
        let missing = missing.saturating_sub(self.lower.received_bytes());
        let before = core::mem::replace(&mut self.missed, missing);
        if missing == before { 1 } else { missing.clamp(1, MOST_AWAITED) }
    }

    fn running(&mut self) -> Option<(&mut Running, &mut N::Lower)> {
        match &mut self.phase {
            Phase::Running(running) => Some((running, &mut self.lower)),
            _ => None,
        }
    }
}
