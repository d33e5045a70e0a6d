//! The order in which one-sided operations are counted.

use std::collections::VecDeque;

use weft_lock::{Mutex, Rank};

use super::op_flags::OpFlags;

/// Counts one-sided completions in posting order, across peers.
///
/// libfabric promises no order. But Intel MPI waits in `MPI_Win_flush` for as many completions as there were operations
/// when the wait began, and keeps reading active messages meanwhile, whose reads count as well. If completions were
/// counted as they happen, a later read would count in place of one that is waited for, and the program would find a
/// window's bytes missing.
pub(super) struct CounterOrder(Mutex<Queue>);

impl Default for CounterOrder {
    fn default() -> Self {
        Self(Mutex::new(Rank::CounterOrder, Queue::default()))
    }
}

#[derive(Default)]
struct Queue {
    /// The number of the first one in the queue.
    first: u32,
    states: VecDeque<State>,
}

#[derive(Clone, Copy)]
enum State {
    UnderWay,
    /// Completed: its class, and whether it has succeeded.
    Over(Class, bool),
    /// It was not begun after all.
    Void,
}

/// Classes of operations with separate counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Read,
    Write,
}

impl CounterOrder {
    /// An operation begins. Returns its op flags with a turn, with which it ends.
    pub(super) fn begin(&self, op_flags: OpFlags) -> OpFlags {
        let mut queue = self.0.lock();
        let number = queue.first.wrapping_add(queue.states.len() as u32);
        queue.states.push_back(State::UnderWay);
        op_flags.with_turn(number)
    }

    /// It was refused. `count` as for [`Self::end`].
    pub(super) fn take_back(&self, op_flags: OpFlags, count: impl FnMut(Class, bool)) {
        self.settle(op_flags, State::Void, count);
    }

    /// It has completed. `count` is called for all whose turn this makes, in order.
    pub(super) fn end(&self, op_flags: OpFlags, class: Class, succeeded: bool, count: impl FnMut(Class, bool)) {
        self.settle(op_flags, State::Over(class, succeeded), count);
    }

    fn settle(&self, op_flags: OpFlags, state: State, mut count: impl FnMut(Class, bool)) {
        let Some(turn) = op_flags.turn() else { return };
        let mut queue = self.0.lock();
        let place = (turn.wrapping_sub(queue.first) & OpFlags::LAST_TURN) as usize;
        let Some(entry) = queue.states.get_mut(place) else { return };
        *entry = state;
        while let Some(&state) = queue.states.front() {
            match state {
                State::UnderWay => break,
                State::Over(class, succeeded) => count(class, succeeded),
                State::Void => {}
            }
            queue.states.pop_front();
            queue.first = queue.first.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(turns: &CounterOrder, op_flags: OpFlags, class: Class, succeeded: bool) -> Vec<(Class, bool)> {
        let mut counted = Vec::new();
        turns.end(op_flags, class, succeeded, |class, succeeded| counted.push((class, succeeded)));
        counted
    }

    #[test]
    fn the_later_one_waits_for_the_earlier_one() {
        let turns = CounterOrder::default();
        let [first, second, third] = [(); 3].map(|()| turns.begin(OpFlags::QUIET));
        assert!(third.has(OpFlags::QUIET) && second != third);
        assert_eq!(counted(&turns, third, Class::Write, true), []);
        assert_eq!(counted(&turns, first, Class::Read, false), [(Class::Read, false)]);
        assert_eq!(counted(&turns, second, Class::Read, true), [(Class::Read, true), (Class::Write, true)]);
    }

    #[test]
    fn a_refused_operation_blocks_no_other() {
        let turns = CounterOrder::default();
        let [first, second] = [(); 2].map(|()| turns.begin(OpFlags::default()));
        turns.take_back(first, |_, _| panic!("nothing is over"));
        assert_eq!(counted(&turns, second, Class::Read, true), [(Class::Read, true)]);

        let [first, second] = [(); 2].map(|()| turns.begin(OpFlags::default()));
        assert_eq!(counted(&turns, second, Class::Read, true), []);
        let mut released = 0;
        turns.take_back(first, |_, _| released += 1);
        assert_eq!(released, 1);
    }

    #[test]
    fn numbers_begin_again() {
        let turns = CounterOrder::default();
        turns.0.lock().first = u32::MAX - 1;
        for _ in 0..5 {
            let [first, second] = [(); 2].map(|()| turns.begin(OpFlags::default()));
            assert_eq!(counted(&turns, second, Class::Write, true), []);
            assert_eq!(counted(&turns, first, Class::Write, true).len(), 2);
        }
        assert!(turns.0.lock().states.is_empty());
    }
}
