//! The tests in one program: it is compiled for the simulator, and linked, once.

mod asleep;
mod endpoint;
mod far;
mod late;
mod leaving;
mod limits;
mod queue_pair;
mod reasons;
mod rooms;
mod scenarios;
#[path = "../side/mod.rs"]
mod side;
