//! All tests of the simulator in one program: it is linked once, and no test waits for the end of another file's.

mod choice;
mod early;
mod edge;
mod exchanges;
mod few_receives;
mod flags;
mod go_back;
mod hostile;
mod hostile_early;
mod hostile_edge;
mod hostile_edge_segments;
mod incast;
mod messages;
mod moving;
mod order;
mod packets;
mod pairs;
mod reads;
mod refused_sends;
mod seeds;
mod sequences;
mod shared_memory;
mod shuffle;
mod stopped;
mod streams;
mod throughput;
