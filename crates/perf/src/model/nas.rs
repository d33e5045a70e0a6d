//! The NAS parallel benchmarks that are run: which, how large, and the program.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A benchmark of the suite (Bailey et al., "The NAS Parallel Benchmarks", 1991; NPB 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Benchmark {
    /// Integer sort, in C: all to all
    Is,
    /// Conjugate gradient, in Fortran: long messages between few
    Cg,
    /// A solver by lower and upper triangles, in Fortran: many small messages
    Lu,
    /// Multigrid, in Fortran: near and far, short and long
    Mg,
}

impl Benchmark {
    /// As it is typed, and as its program is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Is => "is",
            Self::Cg => "cg",
            Self::Lu => "lu",
            Self::Mg => "mg",
        }
    }

    /// Whether it needs the Fortran modules of an MPI library, which run-time packages do not bring.
    pub(crate) fn is_fortran(self) -> bool {
        self != Self::Is
    }
}

/// How large a problem is, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Class {
    /// A sample, which takes milliseconds
    #[value(name = "S", alias = "s")]
    S,
    /// For a workstation of the nineties
    #[value(name = "W", alias = "w")]
    W,
    /// The first one for parallel machines
    #[value(name = "A", alias = "a")]
    A,
    /// Four times as large
    #[value(name = "B", alias = "b")]
    B,
    /// And again
    #[value(name = "C", alias = "c")]
    C,
}

impl Class {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S => "S",
            Self::W => "W",
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }
}

/// A benchmark that was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nas {
    pub(crate) benchmark: Benchmark,
    pub(crate) class: Class,
    pub(crate) executable: PathBuf,
}
