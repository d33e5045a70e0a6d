//! The third library, `libweft-paths.so`: programs find files of Weft's devices where they read those of adapters,
//! below `/sys/class/infiniband*` and in `/dev/infiniband`.
//!
//! `weft run` makes the files ([`crate::write_files`]) and preloads the library, whose functions stand before libc's. A
//! path of those places leads into the folder that [`FOLDER_VARIABLE`] names; any other goes on as it is. Programs
//! that make system calls themselves are not reached.
//!
//! Most of these functions may be called in a handler of a signal, so none of this allocates or locks, but for the
//! first call of a process.

pub mod calls;
mod folder;
mod next;

/// Names the folder to programs: the paths that lead into it are below it.
pub const FOLDER_VARIABLE: &str = "WEFT_VERBS_FILES";
