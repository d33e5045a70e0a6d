//! The tests in one program: it is linked once. Those that count all allocations of a process have their own.

mod arrival;
mod cuts;
mod held_receipts;
mod hostile;
mod immediate;
mod operations;
mod ordered;
#[path = "../pair/mod.rs"]
mod pair;
mod receipts;
mod refusals;
mod violations;
mod whole;
