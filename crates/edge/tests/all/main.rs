//! The tests in one program: it is linked once. Those that count all allocations of a process have their own.

mod cuts;
mod delay;
mod hints;
mod machine;
mod paths;
mod rails;
mod round_trips;
mod runs;
mod setup;
mod sizes;
#[path = "../world/mod.rs"]
mod world;
