//! When a thread polls, yields, sleeps, arms and takes over: every decision and every constant of it.
//!
//! All of it is without I/O and without a clock: what a thread measures is handed in, so the tests run in virtual time.
//! The rooms above do what is decided here: `progress` polls, yields, sleeps and takes over, `engine` arms and disarms.
//!
//! | input | from | used by |
//! |---|---|---|
//! | empty polls in a row | the thread that polls | [`YieldPolicy`], [`arming`] |
//! | how long a yield took | the clock, before and after | [`YieldPolicy`] |
//! | how long ago the last poll was | the clock | [`SpinPolicy`] |
//! | how waits ended, whether callers wait | the threads that wait | [`SpinHistory`], [`WaiterHint`], [`Linger`] |
//! | when the application has answered a message | the connection | [`AnswerCredit`] |
//! | how long ago the last visit of a caller was | the engine's thread | [`TakeOver`] |
//! | runnable threads, how long the caller's thread waited | the kernel ([`weft_base::Watch`]) | [`Pressure`] |
//!
//! | what is true | a caller that polls | a caller that waits | the NIC's thread |
//! |---|---|---|---|
//! | something was done | polls on | polls on | runs on |
//! | nothing is there | yields after 8 empty polls | the same, for `spin`; then it sleeps | sleeps |
//! | something was there just now, no caller | | | polls for `spin` |
//! | the same, more runnable threads than processors | | | sleeps |
//! | a yield took less than 2 us | yields half as often | the same | |
//! | a yield took longer | yields twice as often | the same | |
//! | a yield took 2 ms: a thread computes | hands over, then yields | sleeps at once for 100 ms | takes over at once |
//! | 8 waits ended in a sleep | | sleeps at once, but each 16th time | the same |
//! | a caller waits, with `Progress::Thread` | | | polls for `spin` |
//! | no caller has come for `away` | | | takes over |
//! | no caller has come, oversubscribed | does not hand over | | takes over after 50 ms |
//! | more runnable threads than processors | | | runs where the caller ran |
//! | many empty polls of a connection or port | arms it | arms it | arms it |
//! | messages want a receipt, answers come soon | sends it with the answer, or at its next poll | | sends it |
//!
//! `spin`, `away` and `adaptive` are in [`crate::Settings`]. The last one switches all of that off, but for what is
//! armed: then a caller that polls never yields, one that waits polls for `spin`, and the NIC's thread takes over after
//! `away`. The numbers are in [`constants`].

mod answering;
pub(crate) mod arming;
pub(crate) mod constants;
mod linger;
mod pressure;
mod spin;
mod starved;
mod take_over;
mod yielding;

pub(crate) use answering::AnswerCredit;
pub(crate) use linger::Linger;
pub(crate) use pressure::Pressure;
pub(crate) use spin::{Next, SpinHistory, SpinPolicy, WaiterHint};
pub(crate) use starved::Starved;
pub(crate) use take_over::TakeOver;
pub(crate) use yielding::YieldPolicy;
