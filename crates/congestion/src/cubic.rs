//! CUBIC (RFC 9438), in whole numbers: bytes and microseconds.

use core::time::Duration;

use weft_base::Time;

use crate::coupled::Coupling;
use crate::feedback::Feedback;
use crate::hystart::{HyStart, Phase};
use crate::settings::ControllerSettings;

#[cfg(test)]
mod tests;

/// RFC 9438 section 4.6: what a cut leaves of the window.
const BETA: (u64, u64) = (7, 10);
/// RFC 9438 section 4.7: what fast convergence leaves of the last maximum, (1 + beta) / 2.
const CONVERGENCE: (u64, u64) = (17, 20);
/// RFC 9438 section 4.3: the growth of Reno with this beta, 3 (1 - beta) / (1 + beta), in datagrams a round trip.
const ALPHA: (u64, u64) = (9, 17);
/// RFC 9438 section 4.2: the constant C, in datagrams per second cubed.
const C: (u128, u128) = (2, 5);
/// Cubic microseconds in a cubic second.
const CUBED: u128 = 1_000_000_000_000_000_000;
/// Times of an epoch are cut here, 17 minutes: their cubes must fit.
const MAX_MICROS: u64 = 1 << 30;
/// The estimate of Reno's window has as many bits below the byte, or it would not grow where windows are large.
const FRACTION: u32 = 16;

/// What a cut changes, and what its undoing brings back (RFC 9438 section 4.9).
#[derive(Clone, Copy, Debug)]
struct Curve {
    window: u64,
    threshold: u64,
    /// The plateau of the curve: bytes.
    plateau: u64,
    /// The window before the last cut.
    prior: u64,
    /// What Reno would have, shifted by [`FRACTION`].
    reno: u64,
    /// When the curve meets its plateau, in microseconds of the epoch.
    meets_at: u64,
    /// When congestion avoidance began; none before, and after a cut until the first growth.
    epoch: Option<Time>,
}

/// CUBIC with HyStart++ for its first slow start.
#[derive(Clone, Debug)]
pub struct Cubic {
    settings: ControllerSettings,
    curve: Curve,
    /// As it was before the last cut; and the HyStart++ of a first slow start that this cut has ended.
    before: Option<(Curve, Option<HyStart>)>,
    /// What was sent before this does not make the window grow (RFC 9002 section 7.3.2).
    recovery: Option<Time>,
    /// Since when the sender has not used the window: that time does not count (RFC 9438 section 5.8).
    unused_since: Option<Time>,
    hystart: Option<HyStart>,
    round_trip: Duration,
    /// Bytes times bytes that were too few for a step.
    rest: u64,
    /// Other flows that it grows with.
    coupling: Option<Coupling>,
}

impl Cubic {
    /// A flow that has sent nothing.
    #[must_use]
    pub fn new(settings: ControllerSettings) -> Self {
        let settings = settings.bounded();
        let window = settings.clamp(settings.initial_window);
        let (threshold, plateau) = (u64::MAX, window);
        let curve = Curve { window, threshold, plateau, prior: 0, reno: 0, meets_at: 0, epoch: None };
        Self {
            settings,
            curve,
            before: None,
            recovery: None,
            unused_since: None,
            hystart: Some(HyStart::default()),
            round_trip: Duration::ZERO,
            rest: 0,
            coupling: None,
        }
    }

    /// Bytes that may be under way.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.curve.window
    }

    /// Whether it looks for the path's capacity still.
    #[must_use]
    pub const fn is_slow_start(&self) -> bool {
        self.curve.window < self.curve.threshold
    }

    /// Datagrams have this many bytes from now on. The curve is steeper with longer ones: it meets its plateau earlier,
    /// so that it still begins at the window that the cut has left (RFC 9438 section 4.2).
    pub fn set_datagram(&mut self, bytes: u32) {
        let before = u128::from(self.settings.datagram);
        self.settings.datagram = bytes;
        self.settings = self.settings.bounded();
        self.curve.window = self.settings.clamp(self.curve.window);
        let meets_at = u128::from(self.curve.meets_at);
        let cube = meets_at * meets_at * meets_at * before / u128::from(self.settings.datagram);
        self.curve.meets_at = cube_root(cube).min(MAX_MICROS);
    }

    /// See [`Controller::set_coupling`](crate::Controller::set_coupling).
    pub fn set_coupling(&mut self, coupling: Option<Coupling>) {
        self.coupling = coupling;
    }

    /// Whether it grows with other flows.
    pub(crate) const fn is_coupled(&self) -> bool {
        self.coupling.is_some()
    }

    /// Takes in what has happened. `full`: the window was what held the sender back; it does not grow otherwise.
    pub fn on_feedback(&mut self, feedback: &Feedback, full: bool) {
        self.react(feedback, full, 0);
    }

    /// The same; a cut leaves `floor` bytes at least, as far as the window has them.
    pub(crate) fn react(&mut self, feedback: &Feedback, full: bool, floor: u64) {
        self.round_trip = feedback.rtt.unwrap_or(self.round_trip);
        if feedback.undo {
            self.undo();
        }
        if feedback.persistent {
            self.collapse(feedback.now);
        } else if feedback.congested {
            self.cut(floor, feedback.now);
        } else {
            self.grow(feedback, full);
        }
    }

    /// Slow start ends where it is.
    pub(crate) fn leave_slow_start(&mut self) {
        if self.is_slow_start() {
            (self.curve.threshold, self.hystart) = (self.curve.window, None);
        }
    }

    /// RFC 9438 section 4.9.2. A window that has grown beyond what it was before the cut keeps its own curve: the epoch
    /// of the earlier one began so long ago that it would let the window grow by half in each round trip. Where the cut
    /// has ended the first slow start, this goes on, with what HyStart++ knew: the round that the cut has interrupted
    /// lasts until the next one begins.
    fn undo(&mut self) {
        let Some((before, hystart)) = self.before.take() else { return };
        if self.curve.window < before.window {
            (self.curve, self.hystart) = (before, hystart);
        }
        self.recovery = None;
    }

    /// RFC 9438 sections 4.6 and 4.7.
    fn cut(&mut self, floor: u64, now: Time) {
        let curve = &mut self.curve;
        self.before = Some((*curve, self.hystart.take()));
        let is_shrinking = curve.window < curve.plateau && curve.prior > 0;
        curve.plateau = if is_shrinking { part(curve.window, CONVERGENCE) } else { curve.window };
        curve.prior = curve.window;
        let rest = part(curve.window, BETA).max(floor.min(curve.window));
        curve.window = self.settings.clamp(rest);
        curve.threshold = curve.window;
        curve.epoch = None;
        (self.recovery, self.rest) = (Some(now), 0);
    }

    /// RFC 9438 section 4.8: it begins anew, from the least window. The window before it is the last one before a cut
    /// (`cwnd_prior` of section 4.3): below that Reno's estimate grows as slowly as after any other cut.
    fn collapse(&mut self, now: Time) {
        let prior = self.curve.window;
        let threshold = self.settings.clamp(part(prior, BETA));
        let window = self.settings.least();
        self.curve = Curve { window, threshold, plateau: window, prior, reno: 0, meets_at: 0, epoch: None };
        (self.before, self.recovery, self.hystart) = (None, Some(now), None);
    }

    fn grow(&mut self, feedback: &Feedback, full: bool) {
        let is_recovering = self.recovery.zip(feedback.sent_at).is_some_and(|(since, sent)| sent <= since);
        let phase = self.hystart.as_mut().map(|hystart| hystart.on_ack(feedback.rtt, feedback.round));
        self.count_unused(full, feedback.now);
        if !full || is_recovering || feedback.acked_bytes == 0 {
            return;
        }
        if self.is_slow_start() {
            self.start_slowly(feedback.acked_bytes, phase);
        } else {
            self.avoid(feedback.acked_bytes, feedback.now);
        }
        self.curve.window = self.settings.clamp(self.curve.window);
    }

    fn count_unused(&mut self, full: bool, now: Time) {
        if !full {
            self.unused_since.get_or_insert(now);
        } else if let Some(since) = self.unused_since.take()
            && let Some(epoch) = &mut self.curve.epoch
        {
            *epoch = *epoch + now.since(since);
        }
    }

    fn start_slowly(&mut self, acked: u64, phase: Option<Phase>) {
        let most = if self.settings.paced { u64::MAX } else { HyStart::LIMIT * u64::from(self.settings.datagram) };
        let acked = acked.min(most);
        match phase {
            None | Some(Phase::SlowStart) => self.curve.window = self.curve.window.saturating_add(acked),
            Some(Phase::Conservative) => {
                self.curve.window = self.curve.window.saturating_add(acked / HyStart::CSS_GROWTH_DIVISOR);
            }
            Some(Phase::Over) => self.leave_slow_start(),
        }
        // Beyond the threshold it is congestion avoidance's to grow.
        self.curve.window = self.curve.window.min(self.curve.threshold.max(self.settings.least()));
    }

    /// RFC 9438 sections 4.2 to 4.5.
    fn avoid(&mut self, acked: u64, now: Time) {
        let epoch = self.begin_epoch(now);
        if let Some(coupling) = self.coupling {
            return self.avoid_together(coupling, acked);
        }
        let elapsed = micros(now.since(epoch));
        let reno = self.grow_reno(acked);
        let curve = &mut self.curve;
        if self.settings.curve(curve.plateau, curve.meets_at, elapsed) < reno {
            curve.window = curve.window.max(reno);
            return;
        }
        let then = elapsed.saturating_add(micros(self.round_trip)).min(MAX_MICROS);
        let most = curve.window.saturating_add(curve.window / 2);
        let target = self.settings.curve(curve.plateau, curve.meets_at, then).clamp(curve.window, most);
        let steps = u128::from(target - curve.window) * u128::from(acked) + u128::from(self.rest);
        let (step, rest) = (steps / u128::from(curve.window), steps % u128::from(curve.window));
        curve.window = curve.window.saturating_add(saturate(step)).min(most.max(target));
        self.rest = saturate(rest);
    }

    /// RFC 6356 section 3, with the growth that goes with this cut (RFC 9438 section 4.3).
    fn avoid_together(&mut self, coupling: Coupling, acked: u64) {
        let curve = &mut self.curve;
        let (over, under) = if curve.window >= curve.prior { (1, 1) } else { ALPHA };
        let step = coupling.step(acked, self.settings.datagram, curve.window, FRACTION);
        let most = self.settings.max_window << FRACTION;
        // What it had before it was coupled stays.
        let grown = curve.reno.max(curve.window << FRACTION);
        curve.reno = grown.saturating_add(part(step, (over, under))).min(most);
        curve.window = curve.reno >> FRACTION;
    }

    fn begin_epoch(&mut self, now: Time) -> Time {
        let curve = &mut self.curve;
        if let Some(epoch) = curve.epoch {
            return epoch;
        }
        curve.epoch = Some(now);
        curve.reno = curve.window << FRACTION;
        curve.plateau = curve.plateau.max(curve.window);
        let below = u128::from(curve.plateau - curve.window);
        let cube = below * CUBED * C.1 / (C.0 * u128::from(self.settings.datagram));
        curve.meets_at = cube_root(cube).min(MAX_MICROS);
        now
    }

    /// RFC 9438 section 4.3: what Reno would have, in bytes.
    fn grow_reno(&mut self, acked: u64) -> u64 {
        let curve = &mut self.curve;
        let (over, under) = if curve.reno >> FRACTION >= curve.prior { (1, 1) } else { ALPHA };
        let round = (u128::from(acked) * u128::from(self.settings.datagram) * u128::from(over)) << FRACTION;
        let step = saturate(round / (u128::from(curve.window) * u128::from(under)));
        let most = self.settings.max_window << FRACTION;
        curve.reno = curve.reno.saturating_add(step).min(most);
        curve.reno >> FRACTION
    }
}

impl ControllerSettings {
    /// RFC 9438 section 4.2, figure 1: the window that the curve has at `elapsed` microseconds.
    fn curve(&self, plateau: u64, meets_at: u64, elapsed: u64) -> u64 {
        let distance = u128::from(elapsed.min(MAX_MICROS).abs_diff(meets_at));
        let bytes = distance * distance * distance * C.0 * u128::from(self.datagram) / (C.1 * CUBED);
        let bytes = saturate(bytes);
        if elapsed < meets_at { plateau.saturating_sub(bytes) } else { plateau.saturating_add(bytes) }
    }
}

const fn part(whole: u64, (over, under): (u64, u64)) -> u64 {
    whole / under * over + whole % under * over / under
}

fn micros(duration: Duration) -> u64 {
    saturate(duration.as_micros()).min(MAX_MICROS)
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// The greatest number whose cube is at most `cube`, as far as it is below 2^42.
fn cube_root(cube: u128) -> u64 {
    let mut root = 0u128;
    for bit in (0..42).rev() {
        let next = root | 1 << bit;
        if next * next * next <= cube {
            root = next;
        }
    }
    saturate(root)
}
