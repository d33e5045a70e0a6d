//! Measurements of Weft and its peers: experiments, contestants, results, and what is drawn from them.
//!
//! [`result`] is the one schema that all measurements are written in, and all tables and pictures are drawn from;
//! [`statistics`] is what may be said of a few launches.
#![forbid(unsafe_code)]

pub mod result;
pub mod statistics;
