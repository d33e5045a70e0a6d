//! What is done between two fences: puts to the next ranks, halos of a stencil, a put beside computation; or an
//! application with many of them.

use std::fmt;

use serde_json::{Value, json};

use crate::model::size::Size;
use crate::result::Better;

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Test {
    #[default]
    Fence,
    Halo,
    Heat,
    WindowOverlap,
}

impl Test {
    /// As people type it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Halo => "halo",
            Self::Heat => "heat",
            Self::WindowOverlap => "window-overlap",
        }
    }

    /// What figures are.
    pub(crate) fn metric(self) -> &'static str {
        match self {
            Self::Fence => "put_and_fence_time",
            Self::Halo => "halo_and_fence_time",
            Self::Heat => "time_to_solution",
            Self::WindowOverlap => "hidden",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Fence | Self::Halo | Self::Heat => "us",
            Self::WindowOverlap => "%",
        }
    }

    /// Which direction is the good one.
    pub(crate) fn better(self) -> Better {
        match self {
            Self::Fence | Self::Halo | Self::Heat => Better::Less,
            Self::WindowOverlap => Better::More,
        }
    }

    /// What it asks.
    pub(crate) fn question(self) -> &'static str {
        match self {
            Self::Fence => "How long do puts and the fence that ends them take, by kind of fence and number of ranks?",
            Self::Halo => "How long does an exchange of halos take, from its first put to the end of its fence?",
            Self::Heat => "How long does an application take, heat on a plate, by kind of fence and number of ranks?",
            Self::WindowOverlap => "How much computation hides between a put and its fence?",
        }
    }

    /// The figure of all ranks, of those of each.
    pub(crate) fn worst(self, figures: impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::Fence | Self::Halo | Self::Heat => figures.fold(0.0, f64::max),
            Self::WindowOverlap => figures.fold(100.0, f64::min),
        }
    }

    /// Whether processor time is reported beside: beside computation it would be that of the computation.
    pub(crate) fn has_cpu(self) -> bool {
        self != Self::WindowOverlap
    }

    /// The text above the table.
    pub(crate) fn explain(self) -> &'static str {
        match self {
            Self::Fence => "puts of 8 bytes to the next ranks, then a fence: time of both at the slowest rank",
            Self::Halo => {
                "faces of a block of cells of 8 bytes put to all neighbours in a periodic grid of ranks, then a fence: \
                 time of both at the slowest rank"
            }
            Self::Heat => {
                "heat on a plate, cut into a part for each rank: each step puts the edges to the neighbours, and a \
                 fence ends it; time of all steps at the slowest rank"
            }
            Self::WindowOverlap => {
                "a put to the next rank, computation for as long as put and fence take, then the fence: how much of \
                 the computation was hidden at the worst rank"
            }
        }
    }
}

/// What one figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// This many puts of 8 bytes.
    Puts(u16),
    /// A stencil of this many dimensions, with as many cells in each of a rank's block. Strided: faces are put from
    /// where they are to where they belong; else from one buffer to another.
    Halo { dimensions: u32, cells: u32, is_strided: bool },
    /// A put of this many bytes beside computation.
    Overlap(u32),
    /// Steps of heat on a plate, and its cells on a side.
    Heat { cells: u32, steps: u32 },
}

impl Load {
    /// The halos that are measured: the face of a line is one cell, strided or not.
    pub(crate) fn halos(cells: u32) -> Vec<Self> {
        let halo = |dimensions, is_strided| Self::Halo { dimensions, cells, is_strided };
        vec![halo(1, false), halo(2, false), halo(2, true), halo(3, false), halo(3, true)]
    }

    pub(crate) fn heading(self) -> String {
        match self {
            Self::Puts(puts) => format!("{puts} puts us"),
            Self::Halo { dimensions, is_strided, .. } => {
                format!("{dimensions}-D {}us", if is_strided { "strided " } else { "" })
            }
            Self::Overlap(bytes) => format!("{} %", Size(bytes as usize)),
            Self::Heat { cells, steps } => format!("{cells} x {cells}, {steps} steps us"),
        }
    }

    /// For JSON.
    pub(crate) fn describe(self) -> Value {
        match self {
            Self::Puts(puts) => json!({ "puts": puts }),
            Self::Halo { dimensions, cells, is_strided } => {
                json!({ "dimensions": dimensions, "cells": cells, "strided": is_strided })
            }
            Self::Overlap(bytes) => json!({ "size": bytes }),
            Self::Heat { cells, steps } => json!({ "plate": cells, "steps": steps }),
        }
    }
}

/// As the program that measures MPI takes it, and figures name it: `puts:8`, `halo:2:64:1`, `overlap:4096`.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Puts(puts) => write!(f, "puts:{puts}"),
            Self::Halo { dimensions, cells, is_strided } => {
                write!(f, "halo:{dimensions}:{cells}:{}", u8::from(*is_strided))
            }
            Self::Overlap(bytes) => write!(f, "overlap:{bytes}"),
            Self::Heat { cells, steps } => write!(f, "heat:{cells}:{steps}"),
        }
    }
}
