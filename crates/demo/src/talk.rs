//! What the two processes say to each other: one message of JSON at a time, by RDMA Send. The active side asks, the
//! passive side answers.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weft::verbs::{RemoteMemory, Stag};

use weft_command::connection::{LONGEST_MESSAGE, Link, LinkError};
use weft_command::failure::Failure;

/// What the active side asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ask {
    /// Windows of memory to write to and read from. Answered by [`Answer::Window`] for each.
    Open {
        /// This must be the same program.
        version: String,
        /// How many.
        windows: u32,
        /// Bytes of each.
        bytes: u64,
    },
    /// Whether everything before has arrived. Answered by [`Answer::Done`].
    Fence,
    /// Add this many bytes from the start of the windows to the digest. Answered by [`Answer::Done`].
    Digest(u64),
    /// The digest of all that was added. Answered by [`Answer::Digest`].
    Finish,
    /// Send back messages of 8 bytes until one is zero.
    Echo,
    /// Listen for a TCP connection. Answered by [`Answer::Port`].
    Listen,
    /// Take a TCP connection and send back each 8 bytes until they are zero.
    TcpEcho,
    /// Take a TCP connection, read it to its end, answer with a byte.
    TcpDrain,
}

/// What the passive side answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// Memory that may be written and read.
    Window {
        /// Its steering tag.
        stag: u32,
        /// Its first byte's tagged offset.
        offset: u64,
    },
    /// As requested.
    Done,
    /// SHA-256, in hexadecimal.
    Digest(String),
    /// Where it listens.
    Port(u16),
    /// It can't be done.
    Refused(String),
}

/// The length of messages in the latency test.
pub(crate) const PING: usize = 8;

/// Sends something.
pub(crate) fn say(link: &Link, what: &impl Serialize) -> Result<(), LinkError> {
    link.send(&serde_json::to_vec(what).expect("plain values become JSON"))
}

/// Waits for something.
pub(crate) fn receive<T: DeserializeOwned>(link: &Link) -> Result<T, LinkError> {
    let mut buffer = [0; LONGEST_MESSAGE];
    let length = link.receive(&mut buffer)?;
    understand(&buffer[..length])
}

fn understand<T: DeserializeOwned>(message: &[u8]) -> Result<T, LinkError> {
    serde_json::from_slice(message)
        .map_err(|error| LinkError::Broken(format!("the peer says something else than a weft demo would: {error}")))
}

/// Waits for what the active side asks for next: however long what it does takes.
pub(crate) fn await_ask(link: &Link) -> Result<Ask, LinkError> {
    let mut buffer = [0; LONGEST_MESSAGE];
    let length = link.receive_in_time(&mut buffer)?;
    understand(&buffer[..length])
}

/// Asks, and waits for the answer.
pub(crate) fn ask(link: &Link, what: &Ask) -> Result<Answer, LinkError> {
    say(link, what)?;
    match receive(link)? {
        Answer::Refused(why) => Err(LinkError::Broken(format!("the passive side says: {why}"))),
        answer => Ok(answer),
    }
}

/// Asks for something that is only to be done.
pub(crate) fn demand(link: &Link, what: &Ask) -> Result<(), LinkError> {
    match ask(link, what)? {
        Answer::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn unexpected(answer: &Answer) -> LinkError {
    LinkError::Broken(format!("the passive side answers out of turn: {answer:?}"))
}

/// The most bytes of a window, and the most windows.
const WINDOW_BYTES: u64 = 16 << 20;
const WINDOWS: u64 = 4;
/// The least bytes of a window: as many as a message of the bandwidth test.
pub(crate) const MESSAGE_BYTES: u64 = 1 << 20;

/// The passive side's memory.
pub(crate) struct Windows {
    remote: Vec<RemoteMemory>,
    bytes: u64,
}

impl Windows {
    /// Asks for windows that hold `length` bytes, or as many as there will be at most.
    pub(crate) fn open(link: &Link, length: u64) -> Result<Self, Failure> {
        let windows = length.div_ceil(WINDOW_BYTES).clamp(1, WINDOWS);
        let bytes = length.div_ceil(windows).clamp(MESSAGE_BYTES, WINDOW_BYTES);
        let ask_for = Ask::Open { version: env!("CARGO_PKG_VERSION").into(), windows: windows as u32, bytes };
        let opened = || {
            let mut remote = Vec::new();
            let mut answer = ask(link, &ask_for)?;
            loop {
                let Answer::Window { stag, offset } = answer else { return Err(unexpected(&answer)) };
                remote.push(RemoteMemory { stag: Stag(stag), offset });
                if remote.len() as u64 == windows {
                    return Ok(remote);
                }
                answer = receive(link)?;
            }
        };
        let remote = opened().map_err(|error| error.during("cannot get memory of the passive side"))?;
        Ok(Self { remote, bytes })
    }

    /// Bytes of each.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.remote.len()
    }

    /// One of them.
    pub(crate) fn at(&self, index: usize) -> RemoteMemory {
        self.remote[index]
    }
}

/// Checks a request before memory is allocated. Returns the count and the bytes of each.
pub(crate) fn check_open(version: &str, windows: u32, bytes: u64) -> Result<(u32, usize), String> {
    if version != env!("CARGO_PKG_VERSION") {
        return Err(format!("the active side is weft {version}, this is {}", env!("CARGO_PKG_VERSION")));
    }
    if u64::from(windows) > WINDOWS || !(1..=WINDOW_BYTES).contains(&bytes) {
        return Err(format!(
            "{windows} windows of {bytes} bytes are asked for, at most {WINDOWS} of {WINDOW_BYTES} are given"
        ));
    }
    Ok((windows, bytes as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_answer_is_sent_inline() {
        for answer in [
            Answer::Digest("f".repeat(64)),
            Answer::Window { stag: u32::MAX, offset: u64::MAX },
            Answer::Refused("x".repeat(100)),
        ] {
            assert!(serde_json::to_vec(&answer).unwrap().len() <= weft::verbs::MAX_INLINE, "{answer:?}");
        }
    }

    #[test]
    fn memory_has_a_limit() {
        let version = env!("CARGO_PKG_VERSION");
        assert!(check_open(version, 4, 16 << 20).is_ok());
        assert!(check_open(version, 5, 1).is_err());
        assert!(check_open(version, 1, (16 << 20) + 1).is_err());
        assert!(check_open("0.0.0", 1, 1).is_err());
    }
}
