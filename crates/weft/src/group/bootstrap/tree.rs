//! The tree of ranks: what they give goes up it to rank 0, and from there down to all of them. Rank `r` has the ranks
//! `4 r + 1` to `4 r + 4` below it.
//!
//! ```text
//! up:   | length u32 | of each rank of this part of the tree: rank u32, length u32, bytes |
//! down: | length u32 | of each rank, in their order: length u32, bytes |
//! ```

use core::fmt;
use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use super::wire::{Failure, HELLO, Hello, PAUSE, STRANGERS, Token, frame, take, take_frame};

/// Ranks below a rank.
const FAN_OUT: usize = 4;
/// A parent is reached within this time, or bytes go by the server.
const CONNECT: Duration = Duration::from_secs(5);
/// Each level of the tree waits this much longer than the level below, whose list of missing ranks then arrives.
const STEP: Duration = Duration::from_millis(500);

/// The ranks above and below.
pub(super) fn parent_of(rank: usize) -> Option<usize> {
    Some(rank.checked_sub(1)? / FAN_OUT)
}

fn children_of(rank: usize, size: usize) -> Range<usize> {
    let first = (FAN_OUT * rank + 1).min(size);
    first..(first + FAN_OUT).min(size)
}

/// Whether this rank, or one above it, is `top`.
fn is_below(mut rank: usize, top: usize) -> bool {
    while rank > top {
        rank = (rank - 1) / FAN_OUT;
    }
    rank == top
}

/// Levels of ranks below a rank.
fn levels_below(mut rank: usize, size: usize) -> u32 {
    let mut levels = 0;
    while FAN_OUT * rank + 1 < size {
        rank = FAN_OUT * rank + 1;
        levels += 1;
    }
    levels
}

/// A neighbour is lost.
pub(super) struct Lost {
    rank: usize,
    other: usize,
    why: String,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} has lost rank {} during an exchange: {}", self.rank, self.other, self.why)
    }
}

/// A rank's place in the tree.
pub(super) struct Tree {
    rank: usize,
    size: usize,
    limit: Duration,
    parent: Option<TcpStream>,
    children: Children,
}

enum Children {
    /// They connect here.
    Awaited(TcpListener, Token),
    Connected(Vec<(usize, TcpStream)>),
}

impl Tree {
    /// Connects with the parent, if there is one. The children may not have connected yet.
    pub(super) fn join(
        (rank, size): (usize, usize),
        parent: Option<SocketAddr>,
        listener: TcpListener,
        session: Token,
        limit: Duration,
    ) -> io::Result<Self> {
        let hello = Hello { token: session, rank, size, port: 0 };
        let connect = |parent: SocketAddr| {
            let mut stream = TcpStream::connect_timeout(&parent, CONNECT.min(limit))?;
            stream.set_nodelay(true)?;
            stream.write_all(&hello.emit())?;
            Ok::<_, io::Error>(stream)
        };
        let parent = parent.map(connect).transpose()?;
        Ok(Self { rank, size, limit, parent, children: Children::Awaited(listener, session) })
    }

    /// Gives these bytes to all ranks, which have begun to do the same: `total` bytes together.
    pub(super) fn all_gather(&mut self, bytes: &[u8], total: usize) -> Result<Vec<Vec<u8>>, Lost> {
        if let Children::Awaited(listener, session) = &self.children {
            self.children = Children::Connected(self.accept(listener, *session)?);
        }
        let mut parts = BTreeMap::from([(self.rank, bytes.to_vec())]);
        self.take_up(&mut parts, total)?;
        let all = match &mut self.parent {
            None => down(parts.values()),
            Some(parent) => {
                let other = (self.rank - 1) / FAN_OUT;
                let patience = self.limit + STEP * (2 * levels_below(0, self.size));
                let exchange = |stream: &mut TcpStream| {
                    set_patience(stream, patience)?;
                    stream.write_all(&up(&parts))?;
                    take_frame(stream, 4 * self.size + total)
                };
                exchange(parent).map_err(|why| lost(self.rank, other, &why))?
            }
        };
        let (rank, size) = (self.rank, self.size);
        let wrong =
            || Lost { rank, other: (rank.max(1) - 1) / FAN_OUT, why: "it gives other bytes than announced".into() };
        let parsed = parse_down(&all, size).filter(|_| all.len() == 4 * size + total).ok_or_else(wrong)?;
        let Children::Connected(children) = &mut self.children else { return Ok(parsed) };
        let all = frame(&all);
        for (child, stream) in children {
            stream.write_all(&all).map_err(|error| lost(rank, *child, &Failure::Io(error)))?;
        }
        Ok(parsed)
    }

    /// Takes what comes from the ranks below.
    fn take_up(&mut self, parts: &mut BTreeMap<usize, Vec<u8>>, total: usize) -> Result<(), Lost> {
        let (rank, size, limit) = (self.rank, self.size, self.limit);
        let Children::Connected(children) = &mut self.children else { return Ok(()) };
        for (child, stream) in children {
            let patience = limit + STEP * (levels_below(*child, size) + 1);
            let taken = set_patience(stream, patience).map_err(Failure::Io);
            let block = taken.and_then(|()| take_frame(stream, 8 * size + total));
            let block = block.map_err(|why| lost(rank, *child, &why))?;
            let before = parts.len();
            let is_good = parse_up(&block, *child, size, parts).is_some();
            if !is_good || parts.len() - before != (*child..size).filter(|rank| is_below(*rank, *child)).count() {
                return Err(Lost {
                    rank,
                    other: *child,
                    why: "it gives other ranks' bytes, or not all of its own".into(),
                });
            }
        }
        Ok(())
    }

    /// The connections of the ranks below. They have all been made, but those of strangers may be among them: one that
    /// says nothing is dropped.
    fn accept(&self, listener: &TcpListener, session: Token) -> Result<Vec<(usize, TcpStream)>, Lost> {
        let wanted = children_of(self.rank, self.size);
        let (start, mut callers, mut found) = (Instant::now(), VecDeque::new(), BTreeMap::new());
        let failed = |why: &io::Error, other| Lost { rank: self.rank, other, why: why.to_string() };
        listener.set_nonblocking(true).map_err(|error| failed(&error, self.rank))?;
        while let Some(missing) = wanted.clone().find(|child| !found.contains_key(child)) {
            if let Ok((stream, _)) = listener.accept() {
                callers.push_back(stream);
                if callers.len() > STRANGERS {
                    callers.pop_front();
                }
            } else {
                thread::sleep(PAUSE);
            }
            callers.retain_mut(|stream| match hello_of(stream) {
                Said::Nothing => true,
                Said::Nonsense => false,
                Said::Hello(hello) => {
                    let is_good = hello.token == session && hello.size == self.size && wanted.contains(&hello.rank);
                    if is_good && let Ok(stream) = stream.try_clone() {
                        found.entry(hello.rank).or_insert(stream);
                    }
                    false
                }
            });
            if start.elapsed() > self.limit {
                let why = format!("it has not connected within {:?}", self.limit);
                return Err(Lost { rank: self.rank, other: missing, why });
            }
        }
        for (child, stream) in &found {
            let prepared = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
            prepared.map_err(|error| failed(&error, *child))?;
        }
        Ok(found.into_iter().collect())
    }
}

enum Said {
    Nothing,
    Nonsense,
    Hello(Hello),
}

fn hello_of(stream: &mut TcpStream) -> Said {
    let mut bytes = [0; HELLO];
    match stream.set_nonblocking(true).and_then(|()| stream.peek(&mut bytes)) {
        Ok(HELLO) => {
            let hello = take(stream).ok().and_then(|bytes| Hello::parse(&bytes));
            hello.map_or(Said::Nonsense, Said::Hello)
        }
        Ok(1..) => Said::Nothing,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Said::Nothing,
        Ok(0) | Err(_) => Said::Nonsense,
    }
}

fn set_patience(stream: &TcpStream, patience: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))
}

fn lost(rank: usize, other: usize, why: &Failure) -> Lost {
    let why = match why {
        Failure::Group(error) => error.to_string(),
        Failure::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => "it has left".into(),
        Failure::Io(error) if error.kind() == io::ErrorKind::WouldBlock => "it is late".into(),
        Failure::Io(error) => error.to_string(),
    };
    Lost { rank, other, why }
}

fn up(parts: &BTreeMap<usize, Vec<u8>>) -> Vec<u8> {
    let mut block = Vec::new();
    for (rank, bytes) in parts {
        block.extend_from_slice(&(*rank as u32).to_be_bytes());
        block.extend_from_slice(&frame(bytes));
    }
    frame(&block)
}

fn down<'a>(parts: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut block = Vec::new();
    for bytes in parts {
        block.extend_from_slice(&frame(bytes));
    }
    block
}

/// `None`: not what comes from that child.
fn parse_up(mut block: &[u8], child: usize, size: usize, parts: &mut BTreeMap<usize, Vec<u8>>) -> Option<()> {
    while !block.is_empty() {
        let rank = take_number(&mut block)?;
        let bytes = take_bytes(&mut block)?.to_vec();
        let is_good = rank < size && is_below(rank, child) && parts.insert(rank, bytes).is_none();
        is_good.then_some(())?;
    }
    Some(())
}

/// `None`: not the bytes of this many ranks.
fn parse_down(mut block: &[u8], size: usize) -> Option<Vec<Vec<u8>>> {
    let all = (0..size).map(|_| take_bytes(&mut block).map(<[u8]>::to_vec)).collect::<Option<Vec<_>>>()?;
    block.is_empty().then_some(all)
}

fn take_number(block: &mut &[u8]) -> Option<usize> {
    let (number, rest) = block.split_first_chunk()?;
    *block = rest;
    Some(u32::from_be_bytes(*number) as usize)
}

fn take_bytes<'a>(block: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_number(block)?;
    let (bytes, rest) = block.split_at_checked(length)?;
    *block = rest;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_but_the_first_is_below_one_other() {
        for size in [1, 2, 5, 6, 64, 1024] {
            let mut seen = vec![0; size];
            for rank in 0..size {
                for child in children_of(rank, size) {
                    seen[child] += 1;
                    assert_eq!(parent_of(child), Some(rank));
                    assert!(is_below(child, rank) && is_below(child, 0) && !is_below(rank, child));
                }
            }
            assert!(seen[0] == 0 && seen[1..].iter().all(|times| *times == 1), "{size} ranks: {seen:?}");
        }
        assert_eq!([1, 2, 5, 6, 21, 22, 1024].map(|size| levels_below(0, size)), [0, 1, 1, 2, 2, 3, 5]);
    }

    #[test]
    fn blocks_that_are_none_of_a_child_are_refused() {
        let part = |rank: u32, bytes: &[u8]| [&rank.to_be_bytes()[..], &frame(bytes)].concat();
        let parse = |block: &[u8]| {
            let mut parts = BTreeMap::new();
            parse_up(block, 1, 8, &mut parts).map(|()| parts.into_keys().collect::<Vec<_>>())
        };
        // Below rank 1 of 8 are 5, 6 and 7.
        let good = [part(1, b"one"), part(5, b""), part(7, b"seven")].concat();
        assert_eq!(parse(&good), Some(vec![1, 5, 7]));
        for wrong in [part(2, b""), part(8, b""), part(0, b""), [part(5, b""), part(5, b"")].concat()] {
            assert_eq!(parse(&wrong), None);
        }
        assert!((1..good.len()).filter(|end| ![11, 19].contains(end)).all(|end| parse(&good[..end]).is_none()));
        let all = down([vec![1], vec![], vec![2, 3]].iter());
        assert_eq!(parse_down(&all, 3), Some(vec![vec![1], vec![], vec![2, 3]]));
        assert!(parse_down(&all, 2).is_none() && parse_down(&all, 4).is_none());
    }
}
