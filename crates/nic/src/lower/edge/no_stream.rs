//! The layer above a connection whose stream has gone: it has no stream, and none can be made.

use weft_base::Time;
use weft_rdmap::{Arrival, OrderConstraint, Placement, Verdict, Violation};

use crate::counters::Counters;
use crate::lower::{StreamGuard, StreamSink};

/// Where there is no stream any more.
pub(super) enum NoStream {}

impl StreamSink for NoStream {
    fn stream(&mut self) -> StreamGuard<'_> {
        match *self {}
    }

    fn locate(&mut self, _: Arrival, _: OrderConstraint, _: u32, _: &[u8]) -> Verdict {
        match *self {}
    }

    fn placed(&mut self, _: &Placement, _: &mut Counters) -> Result<(), Violation> {
        match *self {}
    }

    fn packet(&mut self, _: Arrival, _: &[u8], _: Time, _: &mut Counters) -> bool {
        match *self {}
    }

    fn passes_packets(&self) -> bool {
        match *self {}
    }

    fn go_on(&mut self) -> bool {
        match *self {}
    }
}
