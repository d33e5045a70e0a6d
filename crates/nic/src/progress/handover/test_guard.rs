//! The engine that a test takes: its turn is a function, and it never has a reason to stay awake.

use super::*;

pub(super) struct TestGuard<'a> {
    /// Returns whether the turn has done something.
    pub(super) turn: Box<dyn FnMut() -> bool + 'a>,
    /// Where the thread that held it departs from.
    pub(super) handover: &'a Handover<AtomicBool>,
    pub(super) watch: &'a dyn Watch,
}

impl EngineGuard for TestGuard<'_> {
    fn turn(&mut self) -> bool {
        (self.turn)()
    }

    fn is_wanted(&self) -> bool {
        false
    }

    fn arm(&mut self) {}

    fn may_sleep(&mut self) -> Result<Option<Duration>, SomethingToDo> {
        Ok(None)
    }

    fn note(&mut self, _: Event) {}
}

impl Drop for TestGuard<'_> {
    fn drop(&mut self) {
        self.handover.depart(self.watch);
    }
}
