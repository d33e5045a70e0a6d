//! MPI libraries: where they are ([`installation`]), the program that measures them ([`program`]), and how its two
//! ranks are started ([`launch`]). The NAS benchmarks are programs of their own ([`nas`]).
//!
//! The program is one C file, compiled in each run against the library's binary interface: a call of MPI then costs
//! what it costs an application, and it is the same code whatever carries the messages.

pub(crate) mod launch;
pub(crate) mod nas;
pub(crate) mod program;
