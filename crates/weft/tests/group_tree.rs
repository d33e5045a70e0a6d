//! The tree by which ranks exchange bytes, and the bootstrap server beside it: what goes over each connection, and what
//! becomes of ranks that do not keep to it. Some ranks here are made by hand.

use std::collections::BTreeMap;
use std::env;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft::group::{Group, GroupError};
use weft_testing::PATIENCE;

const LIMIT: Duration = Duration::from_secs(60);

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let start = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn own(rank: usize) -> Vec<u8> {
    vec![rank as u8; 10 * rank + 1]
}

fn all(size: usize) -> Vec<Vec<u8>> {
    (0..size).map(own).collect()
}

/// These ranks in threads of their own, each of which exchanges bytes as often as this says.
fn ranks(
    address: SocketAddr,
    numbers: impl Iterator<Item = usize>,
    size: usize,
    limit: Duration,
    times: usize,
) -> BTreeMap<usize, JoinHandle<Result<(), GroupError>>> {
    let start = |rank| {
        let body = move || {
            let mut group = Group::join(rank, size, address, limit)?;
            for _ in 0..times {
                assert_eq!(group.all_gather(&own(rank))?, all(size));
            }
            Ok(())
        };
        (rank, thread::spawn(body))
    };
    numbers.map(start).collect()
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// What a rank says first.
fn hello(magic: &[u8; 8], token: [u8; 16], rank: usize, size: usize, port: u16) -> Vec<u8> {
    let (rank, size) = ((rank as u32).to_be_bytes(), (size as u32).to_be_bytes());
    [&magic[..], &token, &rank, &size, &port.to_be_bytes()].concat()
}

/// A rank that is made by hand.
struct ByHand {
    stream: TcpStream,
    rank: usize,
    size: usize,
}

impl ByHand {
    fn join(address: SocketAddr, rank: usize, size: usize) -> Self {
        let mut stream = connect(address);
        stream.write_all(&hello(b"WEFTGRP2", [0; 16], rank, size, 0)).unwrap();
        Self { stream, rank, size }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn take_frame(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; u32::from_be_bytes(self.take()) as usize];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(&frame(bytes)).unwrap();
    }

    /// The secret of the tree, and where its parent is.
    fn take_place(&mut self) -> ([u8; 16], SocketAddr) {
        assert_eq!(self.take(), [2]);
        let session = self.take();
        (session, String::from_utf8(self.take_frame()).unwrap().parse().unwrap())
    }

    /// Joins the tree, and says so to the server.
    fn join_tree(&mut self) -> TcpStream {
        let (session, parent) = self.take_place();
        let mut parent = connect(parent);
        parent.write_all(&hello(b"WEFTGRP2", session, self.rank, self.size, 0)).unwrap();
        self.say(&[1]);
        assert_eq!(self.take(), [3], "bytes go by the tree");
        parent
    }

    /// Announces its bytes. Returns how many bytes all ranks give.
    fn begin_round(&mut self) -> u32 {
        self.say(&[&[0][..], &(own(self.rank).len() as u32).to_be_bytes()].concat());
        assert_eq!(self.take(), [0]);
        u32::from_be_bytes(self.take())
    }
}

fn total(size: usize) -> u32 {
    all(size).iter().map(|bytes| bytes.len() as u32).sum()
}

/// Its bytes, as it gives them to its parent.
fn part(rank: usize) -> Vec<u8> {
    frame(&[&(rank as u32).to_be_bytes()[..], &frame(&own(rank))].concat())
}

fn down(size: usize) -> Vec<u8> {
    frame(&all(size).iter().flat_map(|bytes| frame(bytes)).collect::<Vec<_>>())
}

#[test]
fn the_server_sends_each_rank_the_same_few_bytes_in_a_round_whatever_number_of_ranks_there_is() {
    const ROUNDS: usize = 3;
    for size in [2, 6, 40] {
        let address = free_address();
        // The last rank has none below it.
        let others = ranks(address, 0..size - 1, size, LIMIT, ROUNDS);
        let mut last = ByHand::join(address, size - 1, size);
        let mut parent = last.join_tree();
        for _ in 0..ROUNDS {
            // Five bytes come from the server, in `begin_round`, and no more.
            assert_eq!(last.begin_round(), total(size));
            parent.write_all(&part(size - 1)).unwrap();
            let mut came = vec![0; down(size).len()];
            parent.read_exact(&mut came).unwrap();
            assert_eq!(came, down(size));
        }
        others.into_values().for_each(|other| other.join().unwrap().unwrap());
        last.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        drop(parent);
        last.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(last.stream.read(&mut [0]).unwrap_or(0), 0, "the server has said more");
    }
}

#[test]
fn bytes_go_by_the_server_where_a_rank_does_not_reach_its_parent() {
    let address = free_address();
    let others = ranks(address, 0..2, 3, LIMIT, 2);
    let mut last = ByHand::join(address, 2, 3);
    last.take_place();
    last.say(&[0]);
    assert_eq!(last.take(), [4]);
    for _ in 0..2 {
        last.say(&own(2));
        assert_eq!(last.take(), [0]);
        let came: Vec<_> = (0..3).map(|_| last.take_frame()).collect();
        assert_eq!(came, all(3));
    }
    others.into_values().for_each(|other| other.join().unwrap().unwrap());
}

#[test]
fn strangers_at_the_port_of_a_rank_do_not_take_the_place_of_its_children() {
    let address = free_address();
    let others = ranks(address, 0..2, 3, LIMIT, 1);
    let mut last = ByHand::join(address, 2, 3);
    let (session, at) = last.take_place();
    let mut wrong = session;
    wrong[3] ^= 1;
    let silent = connect(at);
    // Nonsense, another's secret, a rank that is not below, another number of ranks, half of what is said.
    let mut strangers = vec![
        b"GET / HTTP/1.1\r\nHost: nobody at all\r\n\r\n".to_vec(),
        hello(b"WEFTGRP2", wrong, 2, 3, 0),
        hello(b"WEFTGRP2", session, 0, 3, 0),
        hello(b"WEFTGRP2", session, 2, 4, 0),
        hello(b"WEFTGRP2", session, 2, 3, 0)[..20].to_vec(),
    ];
    // The rank itself, and the same rank again, which comes too late.
    strangers.extend([hello(b"WEFTGRP2", session, 2, 3, 0), hello(b"WEFTGRP2", session, 2, 3, 0)]);
    let mut streams: Vec<_> = strangers.iter().map(|_| connect(at)).collect();
    streams.iter_mut().zip(&strangers).for_each(|(stream, said)| stream.write_all(said).unwrap());
    last.say(&[1]);
    assert_eq!(last.take(), [3]);
    assert_eq!(last.begin_round(), total(3));
    let mut parent = streams.swap_remove(5);
    parent.write_all(&part(2)).unwrap();
    let mut came = vec![0; down(3).len()];
    parent.read_exact(&mut came).unwrap();
    assert_eq!(came, down(3));
    others.into_values().for_each(|other| other.join().unwrap().unwrap());
    drop(silent);
}

/// What the ranks of six say when the last one, whose parent is rank 1, does this in place of its part of a round.
fn after(last_does: impl FnOnce(&mut ByHand, TcpStream)) -> Vec<String> {
    let address = free_address();
    let others = ranks(address, 0..5, 6, Duration::from_secs(2), 1);
    let mut last = ByHand::join(address, 5, 6);
    let parent = last.join_tree();
    last.begin_round();
    last_does(&mut last, parent);
    others.into_values().map(|other| other.join().unwrap().unwrap_err().to_string()).collect()
}

#[test]
fn a_rank_that_is_lost_in_a_round_is_named_at_all_ranks() {
    let lost = "rank 1 has lost rank 5 during an exchange: ";
    for error in after(|_, parent| drop(parent)) {
        assert_eq!(error, format!("{lost}it has left"));
    }
    for (wrong, why) in [
        (part(4), "it gives other ranks' bytes, or not all of its own"),
        (frame(&[]), "it gives other ranks' bytes, or not all of its own"),
        (frame(&[0, 0, 0, 5, 0, 0, 0, 9, 1]), "it gives other ranks' bytes, or not all of its own"),
        (vec![0xff; 8], "not the protocol of a group: 4294967295 bytes where at most 204 may be"),
    ] {
        let errors = after(|last, mut parent| {
            parent.write_all(&wrong).unwrap();
            assert_eq!(last.take(), [1], "it is told as well");
        });
        for error in errors {
            assert_eq!(error, format!("{lost}{why}"));
        }
    }
}

#[test]
fn a_rank_that_keeps_its_bytes_is_named_as_late() {
    let errors = after(|last, _parent| assert_eq!(last.take(), [1], "it is told as well"));
    for error in errors {
        assert_eq!(error, "rank 1 has lost rank 5 during an exchange: it is late");
    }
}

#[test]
fn what_is_announced_wrong_is_an_error_with_the_value() {
    let address = free_address();
    let others = ranks(address, 0..2, 3, LIMIT, 1);
    let mut last = ByHand::join(address, 2, 3);
    let _parent = last.join_tree();
    last.say(&[0, 0xff, 0, 0, 0]);
    for other in others.into_values() {
        let error = other.join().unwrap().unwrap_err().to_string();
        assert_eq!(error, r"rank 2 has announced `\x00\xff\x00\x00\x00` where it must say how many bytes");
    }
}

#[test]
fn a_rank_of_another_version_is_told_so() {
    let address = free_address();
    let first = ranks(address, 0..1, 2, LIMIT, 1);
    let mut old = ByHand { stream: connect(address), rank: 1, size: 2 };
    old.stream.write_all(&hello(b"WEFTGRP1", [0; 16], 1, 2, 0)[..32]).unwrap();
    assert_eq!(old.take(), [1]);
    let text = String::from_utf8(old.take_frame()).unwrap();
    assert!(
        text.starts_with("this rank speaks version 1 of the bootstrap protocol, and its server version 2"),
        "{text}"
    );
    let second = ranks(address, 1..2, 2, LIMIT, 1);
    first.into_values().chain(second.into_values()).for_each(|rank| rank.join().unwrap().unwrap());
}

/// `WEFT_GROUP_RANKS=1024` prints what rounds of as many ranks take, `WEFT_GROUP_BY_SERVER=1` where all bytes go by the
/// server.
#[test]
fn many_ranks_exchange_addresses() {
    const ROUNDS: usize = 4;
    let size = env::var("WEFT_GROUP_RANKS").map_or(64, |text| text.parse().unwrap());
    let by_server = env::var_os("WEFT_GROUP_BY_SERVER").is_some();
    let (address, given) = (free_address(), |rank: usize| vec![rank as u8; 100]);
    let body = move |rank| {
        let mut group = Group::join(rank, size, address, LIMIT).unwrap();
        let mut took = [Duration::ZERO; ROUNDS];
        for took in &mut took {
            let start = Instant::now();
            let all = group.all_gather(&given(rank)).unwrap();
            *took = start.elapsed();
            assert!(all.len() == size && all.iter().enumerate().all(|(rank, one)| *one == given(rank)));
        }
        took
    };
    let joined = if by_server { size - 1 } else { size };
    let threads: Vec<_> = (0..joined).map(|rank| thread::spawn(move || body(rank))).collect();
    if by_server {
        let mut last = ByHand::join(address, size - 1, size);
        last.take_place();
        last.say(&[0]);
        assert_eq!(last.take(), [4]);
        for _ in 0..ROUNDS {
            last.say(&given(size - 1));
            assert_eq!(last.take(), [0]);
            (0..size).for_each(|_| drop(last.take_frame()));
        }
    }
    let took: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let slowest = |round: usize| took.iter().map(|rank| rank[round]).max().unwrap();
    println!("{size} ranks, 100 bytes each: first round {:?}, then {:?}", slowest(0), [1, 2, 3].map(slowest));
}
