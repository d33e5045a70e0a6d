//! Experiments with what becomes of segments that come out of order, for measurements.

mod in_order;
mod reorder_buffer;

pub(super) use self::in_order::InOrder;
pub(super) use self::reorder_buffer::ReorderBuffer;
use super::state::Intake;
use crate::settings::Settings;
use crate::settings::laboratory::OutOfOrder;

/// What becomes of segments that come.
pub(super) fn intake(settings: &Settings) -> Intake {
    match settings.laboratory.out_of_order {
        OutOfOrder::Place => Intake::Place,
        OutOfOrder::Copy => Intake::Laboratory(Box::default()),
    }
}
