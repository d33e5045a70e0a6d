//! The message endpoints of an engine: each is taken out while it is attended to, for it uses the engine.

use weft_base::Clock;

use super::timers::{Queued, Timed};
use super::{Engine, EngineClient};
use crate::lower::Carrier;

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    /// The number of the message endpoint that is added next.
    pub(crate) fn next_endpoint(&self) -> usize {
        self.uppers.0.len()
    }

    /// Adds a message endpoint.
    pub(crate) fn add_endpoint(&mut self, upper: Box<U>) {
        self.uppers.0.push((Some(upper), Queued::default()));
    }

    /// Has an endpoint do something with the engine. `None` when it is gone.
    pub(crate) fn with_endpoint<R>(&mut self, number: usize, act: impl FnOnce(&mut U, &mut Self) -> R) -> Option<R> {
        let mut upper = self.uppers.0.get_mut(number)?.0.take()?;
        let result = act(&mut upper, self);
        self.put_back(number, upper);
        Some(result)
    }

    /// Takes an endpoint away.
    pub(crate) fn remove_endpoint(&mut self, number: usize) -> Option<Box<U>> {
        self.uppers.0.get_mut(number)?.0.take()
    }

    #[inline]
    fn put_back(&mut self, number: usize, upper: Box<U>) {
        let (place, queued) = &mut self.uppers.0[number];
        self.timers.want(Timed::EngineClient(number), queued, upper.wake_at());
        *place = Some(upper);
    }

    /// Attends to those that have work. Returns whether any has done something.
    pub(super) fn attend_endpoints(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.uppers.0.len() {
            let place = &mut self.uppers.0[number].0;
            let Some(mut upper) = place.take_if(|upper| upper.has_work(self.now)) else { continue };
            any |= upper.attend(self);
            self.put_back(number, upper);
        }
        any
    }
}
