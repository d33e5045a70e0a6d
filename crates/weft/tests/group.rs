//! Groups: threads, processes, a list of addresses, and peers that do not belong there.

#[path = "common/children.rs"]
mod children;

use std::env;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use children::all_succeed;
use weft::group::{Group, GroupError, Launch};

fn exchange(group: &mut Group) {
    for number in 0..4 {
        let own = |rank: usize| vec![rank as u8; rank * 100 * number];
        let all = group.all_gather(&own(group.rank())).unwrap();
        assert_eq!(all, (0..group.size()).map(own).collect::<Vec<_>>());
        group.barrier().unwrap();
    }
}

fn each(groups: Vec<Group>, body: impl Fn(&mut Group) + Copy + Send + 'static) {
    let threads = groups.into_iter().map(|mut group| thread::spawn(move || body(&mut group)));
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn threads_exchange_bytes() {
    for size in [1, 2, 5, 16] {
        each(Group::threads(size).unwrap(), exchange);
    }
    exchange(&mut Group::alone());
}

#[test]
fn processes_that_a_program_starts_exchange_bytes() {
    // Such a process is this test again.
    if env::var_os("WEFT_RANK").is_some() {
        return exchange(&mut Group::from_environment().unwrap().unwrap());
    }
    assert!(Group::from_environment().unwrap().is_none(), "nobody has put this process in a group");
    let launch = Launch::new(3).unwrap();
    let start = |rank| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "processes_that_a_program_starts_exchange_bytes"]);
        launch.command(rank, &mut command);
        command
    };
    all_succeed((0..3).map(start));
}

#[test]
fn processes_that_a_script_starts_meet_at_the_address_of_rank_0() {
    if env::var_os("WEFT_RANK").is_some() {
        return exchange(&mut Group::from_environment().unwrap().unwrap());
    }
    let meeting = free_address();
    let start = |rank: usize| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "processes_that_a_script_starts_meet_at_the_address_of_rank_0"]);
        let rank = rank.to_string();
        let environment = [("WEFT_RANK", rank), ("WEFT_SIZE", "3".into()), ("WEFT_MEETING", meeting.to_string())];
        command.envs(environment).env_remove("WEFT_TOKEN");
        command
    };
    all_succeed([2, 0, 1].map(start));
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn ranks_meet_at_the_address_of_rank_0_in_any_order() {
    let address = free_address();
    let join = move |rank| Group::join(rank, 3, address, Group::LIMIT).unwrap();
    // The last ones first: they wait until rank 0 is there.
    let ranks: Vec<_> = [2, 1, 0].map(|rank| thread::spawn(move || exchange(&mut join(rank)))).into();
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
}

/// Whether an error ends with a list of ranks that has these. On a busy machine others may be late as well.
fn named(error: &str, ranks: &[usize]) -> bool {
    let list = error.rsplit(": ").next().unwrap();
    ranks.iter().all(|rank| list.split(", ").any(|one| one == rank.to_string()))
}

#[test]
fn who_does_not_come_is_named() {
    let address = free_address();
    let limit = Duration::from_millis(300);
    let mut group = Group::join(0, 4, address, limit).unwrap();
    let other = thread::spawn(move || Group::join(2, 4, address, limit).unwrap().barrier().unwrap_err().to_string());
    let error = group.barrier().unwrap_err().to_string();
    assert!(error.contains("of 4 ranks have not come within 300ms: ") && named(&error, &[1, 3]), "{error}");
    assert_eq!(other.join().unwrap(), error);
}

#[test]
fn who_is_late_or_leaves_is_named() {
    let address = free_address();
    let limit = Duration::from_millis(300);
    let groups: Vec<_> =
        (0..3).map(|rank| thread::spawn(move || Group::join(rank, 3, address, limit).unwrap())).collect();
    let mut groups: Vec<Group> = groups.into_iter().map(|group| group.join().unwrap()).collect();
    let late = groups.remove(1);
    each(groups, |group| {
        let error = group.barrier().unwrap_err().to_string();
        assert!(error.contains("of 3 ranks") && named(&error, &[1]), "{error}");
    });
    drop(late);
    let mut groups = Group::threads(2).unwrap();
    drop(groups.pop());
    let error = groups[0].barrier().unwrap_err().to_string();
    assert!(error.contains("rank 1 has left") || error.contains("when 1 ranks have left"), "{error}");
}

#[test]
fn strangers_and_wrong_ranks_are_turned_away_and_disturb_nobody() {
    let address = free_address();
    let first = thread::spawn(move || exchange(&mut Group::join(0, 2, address, Group::LIMIT).unwrap()));
    let told = |rank, size| Group::join(rank, size, address, Group::LIMIT).unwrap().barrier().unwrap_err();
    let error = told(1, 3);
    let expected = "rank 1 says that there are 3 ranks, and rank 0 waits for 2";
    assert!(matches!(&error, GroupError::Told(text) if text == expected), "{error}");
    // One that says nothing, one that talks nonsense and is not answered, one that claims much and has the wrong token.
    let _silent = TcpStream::connect(address).unwrap();
    let claims = |version| [b"WEFTGRP".as_slice(), version, &[0xff; 26]].concat();
    for text in [&b"GET / HTTP/1.1\r\nHost: nobody at all\r\n\r\n"[..], &claims(b"2"), &claims(b"1")] {
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.write_all(text).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert!(matches!(stranger.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    exchange(&mut Group::join(1, 2, address, Group::LIMIT).unwrap());
    first.join().unwrap();
}

#[test]
fn what_makes_no_sense_is_refused_with_the_values() {
    let address = free_address();
    let text = |outcome: Result<Group, GroupError>| outcome.unwrap_err().to_string();
    assert!(text(Group::join(3, 3, address, Group::LIMIT)).starts_with("rank 3 of 3: "));
    let limit = Duration::from_millis(50);
    assert!(text(Group::join(1, 2, address, limit)).contains("has not answered within 50ms: is rank 0 running"));
    assert!(Group::threads(0).is_err() && Launch::new(70_000).is_err());
    let error = Group::alone().all_gather(&vec![0; Group::MOST_BYTES + 1]).unwrap_err().to_string();
    assert_eq!(error, "16385 bytes for an exchange between ranks: at most 16384 are possible");
}

#[test]
fn ranks_of_another_library_exchange_by_what_it_gives() {
    let both = |bytes: &[u8]| Ok(vec![bytes.to_vec(), b"two".to_vec()]);
    let mut group = Group::over(0, 2, both).unwrap();
    assert_eq!(group.all_gather(b"one").unwrap(), [b"one".to_vec(), b"two".to_vec()]);
    let mut wrong = Group::over(0, 3, both).unwrap();
    assert!(wrong.all_gather(b"one").unwrap_err().to_string().contains("2 ranks where there are 3"));
    assert!(Group::over(2, 2, both).is_err());
}
