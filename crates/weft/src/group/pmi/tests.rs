//! A launcher that is a thread, as Hydra answers.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use super::*;

/// Answers one process until it finalizes; returns whether it did.
fn serve(stream: UnixStream, longest: usize, store: &Mutex<BTreeMap<String, String>>, barrier: &Barrier) -> bool {
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap() == 0 {
            return false;
        }
        let get = |key| value(&line, key).unwrap_or_default().to_owned();
        let answer = match get("cmd").as_str() {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            "get_maxes" => format!("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max={longest}"),
            "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_7_0".to_owned(),
            "put" => {
                assert!(get("value").len() < longest && get("key").len() < 64 && get("kvsname") == "kvs_7_0", "{line}");
                store.lock().unwrap().insert(get("key"), get("value"));
                "cmd=put_result rc=0 msg=success".to_owned()
            }
            "get" => match store.lock().unwrap().get(&get("key")) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
            },
            "barrier_in" => {
                barrier.wait();
                "cmd=barrier_out rc=0".to_owned()
            }
            "finalize" => {
                lines.get_mut().write_all(b"cmd=finalize_ack rc=0\n").unwrap();
                return true;
            }
            other => panic!("{other}"),
        };
        lines.get_mut().write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
}

fn own(rank: usize, exchange: usize) -> Vec<u8> {
    (0..rank * 700 * exchange).map(|at| (at * 7 + rank) as u8).collect()
}

#[test]
fn bytes_of_any_length_go_through_the_launchers_store() {
    const SIZE: usize = 3;
    for longest in [64, 1024] {
        let (store, barrier) = (Arc::default(), Arc::new(Barrier::new(SIZE)));
        let ranks = (0..SIZE).map(|rank| {
            let (here, there) = UnixStream::pair().unwrap();
            let (store, barrier) = (Arc::clone(&store), Arc::clone(&barrier));
            let launcher = thread::spawn(move || serve(there, longest, &store, &barrier));
            let rank = thread::spawn(move || {
                let mut pmi = Pmi::over(here, rank, SIZE).unwrap();
                for exchange in 0..3 {
                    let all = pmi.all_gather(&own(rank, exchange)).unwrap();
                    assert_eq!(all, (0..SIZE).map(|rank| own(rank, exchange)).collect::<Vec<_>>());
                }
            });
            (launcher, rank)
        });
        for (launcher, rank) in ranks.collect::<Vec<_>>() {
            rank.join().unwrap();
            assert!(launcher.join().unwrap(), "it has left without a word");
        }
    }
}

/// What a launcher answers first, second, and so on.
fn against(answers: &'static [&'static str]) -> Result<Vec<Vec<u8>>, GroupError> {
    let (here, there) = UnixStream::pair().unwrap();
    thread::spawn(move || {
        let mut lines = BufReader::new(there);
        for answer in answers {
            let mut line = String::new();
            let _ = lines.read_line(&mut line);
            let _ = lines.get_mut().write_all(answer.as_bytes());
        }
    });
    Pmi::over(here, 0, 1)?.all_gather(b"x")
}

#[test]
fn a_launcher_that_talks_nonsense_is_an_error() {
    const INIT: &str = "cmd=response_to_init rc=0\n";
    const MAXES: &str = "cmd=maxes vallen_max=100\n";
    const NAME: &str = "cmd=my_kvsname kvsname=k\n";
    const PUT: &str = "cmd=put_result rc=0\n";
    const BARRIER: &str = "cmd=barrier_out\n";
    let texts: [(&[&str], &str); 6] = [
        (&[], "cannot speak with the launcher (PMI)"),
        (&["cmd=response_to_init rc=-1\n"], "rc=-1"),
        (&[INIT, "cmd=maxes vallen_max=20\n"], "64 characters"),
        (&[INIT, MAXES, NAME, PUT, BARRIER, "cmd=get_result rc=0 value=1.7\n"], "no bytes"),
        (&[INIT, MAXES, NAME, PUT, BARRIER, "cmd=get_result rc=0 value=9999999.00\n"], "9999999"),
        (&[INIT, MAXES, NAME, "cmd=put_result rc=0"], "cannot speak with the launcher (PMI)"),
    ];
    for (answers, expected) in texts {
        let error = against(answers.to_vec().leak()).unwrap_err().to_string();
        assert!(error.contains(expected), "{answers:?}: {error}");
    }
}
