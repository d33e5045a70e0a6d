//! CUBIC that asks of each loss whether it was congestion.
//!
//! Loss alone says little: radio and bad cables lose packets of flows that harm no other. So a loss cuts the window
//! only when something else speaks for congestion: a standing queue (a whole round of round trips above the least one),
//! a queue that is as full as it ever was, however short, a router's mark, or more loss than a bad path has.
//!
//! A loss at a full queue cuts as CUBIC does, so that beside a CUBIC flow the same losses cut both. Where losses come
//! at queues of any length, the path loses by itself: there a full queue alone is no sign, and a cut leaves what the
//! path has carried, as rate times least round trip (the idea of TCP Westwood), and a quarter more, which stays in the
//! queue. All else is CUBIC's.
//!
//! What it cannot tell from bad luck is a queue shorter than a 32nd of the least round trip.

use core::time::Duration;

use weft_base::Time;

use crate::coupled::Coupling;
use crate::cubic::Cubic;
use crate::feedback::Feedback;
use crate::filter::{WindowedMax, WindowedMin};
use crate::round_trip::nanos;
use crate::settings::ControllerSettings;

#[cfg(test)]
mod tests;

/// More lost packets than one in so many, and [`LUCK`], are congestion whatever the round trips are: 4 % of [`TALLY`].
/// BBR (draft-ietf-ccwg-bbr, BBRLossThresh) takes 2 % of a round trip, and is often unlucky where 1 % are lost.
const LOSS_TOLERANCE: u64 = 32;
/// So many more may be bad luck: about two standard deviations.
const LUCK: u64 = 8;
/// Packets of which the lost ones are counted, the older ones for half.
const TALLY: u64 = 1024;
/// For so many rounds the path is believed to carry what it has carried.
const RATE_ROUNDS: u64 = 10;
/// For so long a least round trip is believed.
const LEAST_WINDOW: Duration = Duration::from_secs(10);
/// A queue stands when round trips are longer than the least one by this part of it.
const QUEUE_DIVISOR: u64 = 8;
/// A round with less samples says nothing of its least one (RFC 9406 section 4.3, `N_RTT_SAMPLE`).
const LEAST_SAMPLES: u32 = 8;
/// What a cut leaves beyond what the path holds, as a part of it: acknowledgements come some at a time, and a window of
/// just as much leaves the path idle while they are held.
const MARGIN_DIVISOR: u64 = 4;
/// A queue is answered once in so many round trips.
const CUT_ROUNDS: u32 = 2;
/// Slow start ends when the window has grown by a quarter this number of times and the rate has not (BBR's full pipe).
const FULL_ROUNDS: u32 = 3;
/// A quarter, as a divisor.
const GROWTH_DIVISOR: u64 = 4;

/// A loss whose round trip is among the longest quarter of those that the path has shown came of a full queue, if
/// these differ by more than this part of the least one.
const RANGE_DIVISOR: u64 = 32;
/// A path is lossy when more than a quarter of its losses, of at least this number, came while its queue was not full.
const LEAST_LOSSES: u32 = 4;
/// At this number the counts of losses are halved, so that newer ones weigh more.
const MOST_LOSSES: u32 = 32;

/// What is known of the path.
#[derive(Clone, Debug)]
struct Model {
    rate: WindowedMax,
    least: WindowedMin,
    /// Of the least round trip of each round: a single late packet shows no queue.
    longest: WindowedMax,
    /// Acknowledgements that showed losses, and those of them away from a full queue; the older ones for half.
    losses: u32,
    unlucky: u32,
    rounds: u64,
    round_trip: Duration,
    round_least: u64,
    samples: u32,
    last_least: u64,
    /// The rate that the path was found to have at last, and the rounds since in which a larger window was tried.
    best_rate: u64,
    rounds_since: u32,
    /// The window of the last of these, or of the best rate.
    tried_window: u64,
    lost: u64,
    total: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            rate: WindowedMax::new(RATE_ROUNDS),
            least: WindowedMin::new(nanos(LEAST_WINDOW)),
            longest: WindowedMax::new(nanos(LEAST_WINDOW)),
            losses: 0,
            unlucky: 0,
            rounds: 0,
            round_trip: Duration::ZERO,
            round_least: u64::MAX,
            samples: 0,
            last_least: u64::MAX,
            best_rate: 0,
            rounds_since: 0,
            tried_window: 0,
            lost: 0,
            total: 0,
        }
    }

    /// `window`: what may be under way as yet.
    fn update(&mut self, feedback: &Feedback, window: u64) {
        if feedback.round {
            if self.round_least != u64::MAX {
                self.longest.update(feedback.now.as_nanos(), self.round_least);
            }
            self.begin_round(window);
        }
        if let Some(rtt) = feedback.rtt {
            self.round_trip = rtt;
            let rtt = nanos(rtt);
            self.least.update(feedback.now.as_nanos(), rtt);
            self.round_least = self.round_least.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
        // A sender with nothing to send shows less than the path has.
        if let Some(rate) = feedback.rate.filter(|rate| !rate.app_limited || rate.bytes_per_s > self.rate.get()) {
            self.rate.update(self.rounds, rate.bytes_per_s);
        }
        self.count(feedback);
    }

    fn begin_round(&mut self, window: u64) {
        self.rounds += 1;
        (self.last_least, self.round_least, self.samples) = (self.round_least, u64::MAX, 0);
        if is_quarter_more(self.rate.get(), self.best_rate) {
            (self.best_rate, self.rounds_since, self.tried_window) = (self.rate.get(), 0, window);
        } else if is_quarter_more(window, self.tried_window) {
            // A window that has hardly grown, since the sender did not use it, says nothing of what more would bring.
            (self.rounds_since, self.tried_window) = (self.rounds_since.saturating_add(1), window);
        }
    }

    /// Whether the queue of the path was full, as far as it shows in this round trip.
    fn is_full_queue(&self, round_trip: u64) -> bool {
        let (least, longest) = (self.least.get(), self.longest.get());
        let range = longest.saturating_sub(least);
        range > least / RANGE_DIVISOR && round_trip >= longest - range / 4
    }

    /// Counts losses by whether the queue was full, and returns that. Those that a timer shows are not counted.
    fn judge_loss(&mut self, feedback: &Feedback) -> bool {
        let Some(round_trip) = feedback.rtt.filter(|_| feedback.lost_packets > 0) else { return false };
        let is_full = self.is_full_queue(nanos(round_trip));
        self.losses += 1;
        self.unlucky += u32::from(!is_full);
        if self.losses >= MOST_LOSSES {
            (self.losses, self.unlucky) = (self.losses / 2, self.unlucky / 2);
        }
        is_full
    }

    /// Whether the path loses packets by itself.
    const fn is_lossy(&self) -> bool {
        self.losses >= LEAST_LOSSES && self.unlucky * 4 > self.losses
    }

    /// A loss that was none is taken out again.
    fn count(&mut self, feedback: &Feedback) {
        let lost = u64::from(feedback.lost_packets);
        self.lost = (self.lost + lost).saturating_sub(u64::from(feedback.late_packets));
        self.total += lost + u64::from(feedback.acked_packets);
        while self.total > TALLY {
            (self.lost, self.total) = (self.lost / 2, self.total / 2);
        }
    }

    /// The losses so far have been answered.
    const fn forget_losses(&mut self) {
        (self.lost, self.total) = (0, 0);
    }

    fn loses_much(&self) -> bool {
        self.lost > LUCK + self.total / LOSS_TOLERANCE
    }

    /// Whether round trips have been longer than they need be for a whole round.
    fn has_queue(&self) -> bool {
        let least = self.least.get();
        let recent = if self.samples >= LEAST_SAMPLES { self.round_least } else { self.last_least };
        recent != u64::MAX && recent > least.saturating_add(least / QUEUE_DIVISOR)
    }

    /// Whether more under way has brought nothing for some rounds.
    const fn is_full(&self) -> bool {
        self.rounds_since >= FULL_ROUNDS
    }

    /// Bytes that the path holds without a queue; 0 while that is not known.
    fn product(&self) -> u64 {
        if self.rounds == 0 {
            return 0;
        }
        let bytes = u128::from(self.rate.get()) * u128::from(self.least.get()) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

const fn is_quarter_more(value: u64, than: u64) -> bool {
    value >= than.saturating_add(than / GROWTH_DIVISOR)
}

/// CUBIC that cuts for congestion, not for bad luck.
#[derive(Clone, Debug)]
pub struct DelayGatedCubic {
    cubic: Cubic,
    model: Model,
    /// The present episode of loss has been answered.
    is_cut: bool,
    /// When, last; none when it was taken back.
    cut_at: Option<Time>,
    /// That was for the many losses that were counted.
    for_losses: bool,
}

impl DelayGatedCubic {
    /// A flow that has sent nothing.
    #[must_use]
    pub fn new(settings: ControllerSettings) -> Self {
        Self { cubic: Cubic::new(settings), model: Model::new(), is_cut: false, cut_at: None, for_losses: false }
    }

    /// Bytes that may be under way.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.cubic.window()
    }

    /// Whether it looks for the path's capacity still.
    #[must_use]
    pub const fn is_slow_start(&self) -> bool {
        self.cubic.is_slow_start()
    }

    /// Datagrams have this many bytes from now on.
    pub fn set_datagram(&mut self, bytes: u32) {
        self.cubic.set_datagram(bytes);
    }

    /// See [`Controller::set_coupling`](crate::Controller::set_coupling).
    pub fn set_coupling(&mut self, coupling: Option<Coupling>) {
        self.cubic.set_coupling(coupling);
    }

    /// Takes in what has happened. `full`: the window was what held the sender back; it does not grow otherwise.
    pub fn on_feedback(&mut self, feedback: &Feedback, full: bool) {
        if feedback.persistent {
            return self.begin_anew(feedback, full);
        }
        // What an episode has lost, after the cut too, is answered with it.
        if feedback.congested && core::mem::take(&mut self.for_losses) {
            self.model.forget_losses();
        }
        self.model.update(feedback, self.cubic.window());
        let is_recent = self.is_recent(feedback.now);
        let undo = feedback.undo && (self.is_cut || is_recent);
        if feedback.congested || undo {
            self.is_cut = false;
        }
        if undo {
            self.cut_at = None;
        }
        let (congested, floor) = self.judge(feedback);
        self.cubic.react(&Feedback { congested, undo, ..*feedback }, full, floor);
        // A cut for nothing shows that round trips or order change by themselves here, and hide what doubling would do.
        if undo || self.model.is_full() {
            self.cubic.leave_slow_start();
        }
    }

    /// Nothing that was known of the path holds: slow start looks for its capacity again (RFC 9438 section 4.8). What
    /// was sent before and is found lost later belongs to what has been answered.
    fn begin_anew(&mut self, feedback: &Feedback, full: bool) {
        (self.model, self.is_cut, self.for_losses) = (Model::new(), true, false);
        self.cubic.react(feedback, full, 0);
    }

    /// Whether to cut, once in an episode, and what the cut leaves.
    fn judge(&mut self, feedback: &Feedback) -> (bool, u64) {
        let is_marked = feedback.ce > 0;
        let is_full = self.model.judge_loss(feedback);
        if self.is_cut || (feedback.lost_packets == 0 && !is_marked) {
            return (false, 0);
        }
        let loses_much = self.model.loses_much();
        // The queue is shorter for a cut only after a round trip, and what was lost before may still come late.
        let is_common = is_full && !self.cubic.is_slow_start() && !self.model.is_lossy();
        let has_queue = (self.model.has_queue() || is_common) && !self.is_recent(feedback.now);
        self.is_cut = is_marked || loses_much || has_queue;
        if self.is_cut {
            self.cut_at = Some(feedback.now);
        }
        self.for_losses |= loses_much;
        (self.is_cut, if is_marked || loses_much || is_common { 0 } else { self.floor() })
    }

    /// What a cut leaves where there was little loss. Coupled flows take no margin: each of them would, where all
    /// together are to take the part of one.
    fn floor(&self) -> u64 {
        let product = self.model.product();
        let margin = if self.cubic.is_coupled() { 0 } else { product / MARGIN_DIVISOR };
        product.saturating_add(margin)
    }

    /// Whether the last cut was made so lately that it cannot show yet.
    fn is_recent(&self, now: Time) -> bool {
        self.cut_at.is_some_and(|at| now.since(at) <= CUT_ROUNDS * self.model.round_trip)
    }
}
