//! The tests in one program: it is linked once.

mod active;
mod errors;
mod fences;
mod locks;
#[path = "../world/mod.rs"]
mod world;
