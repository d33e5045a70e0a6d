//! The part of calling threads in experiments.

mod assisting;
mod unfinished;

pub(super) use self::unfinished::Unfinished;
