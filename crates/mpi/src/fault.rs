//! What is wrong with a call, in words and as MPI's class of errors.

use core::ffi::c_int;

use weft::window::{Error, OperationError};

use crate::abi::abi;

/// What is wrong with a call.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: c_int,
    pub(crate) words: String,
}

impl Fault {
    pub(crate) fn kind(words: String) -> Self {
        Self { code: abi().classes.kind, words }
    }

    pub(crate) fn range(words: String) -> Self {
        Self { code: abi().classes.range, words }
    }

    pub(crate) fn sync(words: &str) -> Self {
        Self { code: abi().classes.sync, words: words.to_owned() }
    }

    pub(crate) fn other(words: String) -> Self {
        Self { code: abi().classes.other, words }
    }

    /// The MPI library has refused something.
    pub(crate) fn library(code: c_int) -> Self {
        Self { code, words: "the MPI library has refused it".to_owned() }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let classes = &abi().classes;
        let code = match &error {
            Error::Operation(OperationError::NoSuchRank { .. }) => classes.rank,
            Error::Operation(OperationError::Outside { .. }) => classes.range,
            Error::Operation(OperationError::Elements { .. }) => classes.op,
            Error::Operation(OperationError::NoEpoch | OperationError::InFence) => classes.sync,
            Error::Fence(_) | Error::Lock(_) | Error::Active(_) | Error::Taken { .. } => classes.sync,
            _ => classes.other,
        };
        Self { code, words: error.to_string() }
    }
}
