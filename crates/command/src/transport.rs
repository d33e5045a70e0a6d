//! What carries connections, as options name it.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What carries connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// MPA over TCP
    Iwarp,
    /// Edge, over UDP
    Edge,
    /// iWARP through shared memory, between processes of one user on one host
    Shm,
    /// Shared memory where there is any; else iWARP over TCP
    #[value(name = "shm+iwarp")]
    #[serde(rename = "shm+iwarp")]
    ShmOrIwarp,
    /// Shared memory where there is any; else Edge, and iWARP if that has no answer
    #[value(name = "shm+edge")]
    #[serde(rename = "shm+edge")]
    ShmOrEdge,
    /// Of messages and windows: shm+edge where two links or more join the hosts, else shm+iwarp; otherwise shm+edge
    Auto,
}

impl Transport {
    /// By the library's name.
    pub fn of(transport: weft::verbs::Transport) -> Self {
        match transport {
            weft::verbs::Transport::Iwarp => Self::Iwarp,
            weft::verbs::Transport::Edge => Self::Edge,
            weft::verbs::Transport::SharedMemory => Self::Shm,
            weft::verbs::Transport::SharedMemoryOrIwarp => Self::ShmOrIwarp,
            weft::verbs::Transport::SharedMemoryOrEdge => Self::ShmOrEdge,
            weft::verbs::Transport::Auto => Self::Auto,
        }
    }
}

impl From<Transport> for weft::verbs::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Iwarp => Self::Iwarp,
            Transport::Edge => Self::Edge,
            Transport::Shm => Self::SharedMemory,
            Transport::ShmOrIwarp => Self::SharedMemoryOrIwarp,
            Transport::ShmOrEdge => Self::SharedMemoryOrEdge,
            Transport::Auto => Self::Auto,
        }
    }
}
