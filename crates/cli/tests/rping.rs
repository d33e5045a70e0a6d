//! `weft rping` against itself, in both roles, as a user runs it; and the exchanges of `weft interop`.

mod running;

use std::io::{Read, Write};
use std::net::TcpStream;

use running::{Running, weft, words};

/// A server and a client, with options for each. Both must end well; returns what they wrote.
fn ping(server: &[&str], client: &[&str]) -> (String, String) {
    let server = Running::start(&[&["rping", "-s", "-a", "127.0.0.1", "-p", "0"], server].concat());
    let port = server.port();
    let client = Running::start(&[&["rping", "-c", "-a", "127.0.0.1", "-p", &port], client].concat());
    let (client, server) = (client.end(), server.end());
    assert_eq!(client.code, Some(0), "client: {}", client.text);
    assert_eq!(server.code, Some(0), "server: {}", server.text);
    (server.text, client.text)
}

#[test]
fn both_print_each_ping() {
    let (server, client) = ping(&["-v"], &["-C", "3", "-S", "30", "-v", "-V"]);
    for (number, letters) in ["ABCDEFGHIJKLMNOP", "BCDEFGHIJKLMNOPQ", "CDEFGHIJKLMNOPQR"].iter().enumerate() {
        let line = format!("ping data: rdma-ping-{number}: {letters}\n");
        assert!(client.contains(&line), "{client}");
        assert!(server.contains(&format!("server {line}")), "{server}");
    }
    assert_eq!(client.matches("ping data").count(), 3);
}

#[test]
fn sizes() {
    for size in ["23", "64", "1499", "1500", "4096", "65000", "65535"] {
        ping(&[], &["-C", "20", "-S", size, "-V"]);
    }
}

#[test]
fn crc_markers_and_revisions() {
    for options in [
        "--crc on --markers on",
        "--crc off --markers on",
        "--crc off --markers off",
        "--crc on --revision 1",
        "--crc on --revision 0",
        "--revision 1 --markers on --plain",
        "--plain",
    ] {
        let options = words(options);
        ping(&options, &[&["-C", "20", "-S", "5000", "-V"][..], &options].concat());
        ping(&[], &[&["-C", "20", "-S", "5000", "-V"][..], &options].concat());
    }
}

#[test]
fn whoever_does_the_work() {
    let small: &[&str] = &["-C", "20", "-S", "64", "-V"];
    let large: &[&str] = &["-C", "20", "-S", "65000", "-V"];
    for division in [
        "--progress caller",
        "--progress thread",
        "--progress hybrid",
        "--progress summon",
        "--progress thread --engines 2",
        "--split coupled",
        "--split decoupled --progress thread --markers on",
        "--split assist --markers on",
    ] {
        let division = words(division);
        for pings in [small, large] {
            ping(&division, &[pings, &division].concat());
            ping(&[], &[pings, &division].concat());
            ping(&division, pings);
        }
    }
}

#[test]
fn a_server_counts_too() {
    ping(&["-C", "4"], &["-C", "4"]);
    let server = Running::start(&words("rping -s -a 127.0.0.1 -p 0 -C 4"));
    let client =
        Running::start(&[&["rping", "-c", "-a", "127.0.0.1", "-C", "3", "-p"][..], &[&server.port()]].concat());
    assert_eq!(client.end().code, Some(0));
    let server = server.end();
    assert_eq!(server.code, Some(1));
    assert!(server.text.contains("disconnected after 3 of 4 pings"), "{}", server.text);
}

#[test]
fn a_persistent_server_serves_many_and_ends_by_a_signal() {
    let server = Running::start(&words("rping -s -P -a 127.0.0.1 -p 0"));
    let port = server.port();
    let clients = [0; 3].map(|_| Running::start(&["rping", "-c", "-a", "127.0.0.1", "-C", "50", "-V", "-p", &port]));
    for client in clients {
        let client = client.end();
        assert_eq!(client.code, Some(0), "{}", client.text);
    }
    server.interrupt();
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn an_endless_client_ends_by_ctrl_c_in_order() {
    let server = Running::start(&words("rping -s -a 127.0.0.1 -p 0"));
    let client = Running::start(&["rping", "-c", "-a", "127.0.0.1", "-v", "-p", &server.port()]);
    client.await_text("rdma-ping-5:");
    client.interrupt();
    let (client, server) = (client.end(), server.end());
    assert_eq!(client.code, Some(0), "{}", client.text);
    assert_eq!(server.code, Some(0), "{}", server.text);
}

#[test]
fn a_peer_that_dies_is_an_error_that_says_so() {
    let mut server = Running::start(&words("rping -s -a 127.0.0.1 -p 0"));
    let client = Running::start(&["rping", "-c", "-a", "127.0.0.1", "-v", "-p", &server.port()]);
    client.await_text("rdma-ping-5:");
    server.kill();
    let client = client.end();
    assert_eq!(client.code, Some(1), "{}", client.text);
    // What came on standard output may be read after it.
    let said = client.text.lines().find(|line| line.starts_with("weft: ")).unwrap_or_default();
    assert!(said.contains("closed") || said.contains("lost"), "{said}");
}

#[test]
fn a_peer_that_falls_silent_is_an_error_after_the_timeout() {
    let server = Running::start(&words("rping -s -a 127.0.0.1 -p 0"));
    let client = Running::start(&["rping", "-c", "-a", "127.0.0.1", "-v", "--timeout", "5", "-p", &server.port()]);
    client.await_text("rdma-ping-5:");
    server.stop();
    let client = client.end();
    assert_eq!(client.code, Some(1), "{}", client.text);
    assert!(client.text.contains("timed out"), "{}", client.text);
}

#[test]
fn failures_to_connect_are_clear() {
    // No process listens on port 1.
    let refused = weft(&words("rping -c -a 127.0.0.1 -p 1 -C 1"));
    assert_eq!(refused.code, Some(1));
    assert!(refused.text.contains("127.0.0.1:1: connection refused"), "{}", refused.text);
    // One that listens and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let ignored = weft(&["rping", "-c", "-a", "127.0.0.1", "--timeout", "0.2", "-p", &port]);
    assert_eq!(ignored.code, Some(1));
    assert!(ignored.text.contains("timed out") || ignored.text.contains("within"), "{}", ignored.text);
    let taken = weft(&["rping", "-s", "-a", "127.0.0.1", "-p", &port]);
    assert_eq!(taken.code, Some(1));
    assert!(taken.text.contains("in use"), "{}", taken.text);
}

#[test]
fn a_wrong_command_line_exits_with_2_and_helps() {
    for (line, helpful) in [
        ("rping", "-s|-c"),
        ("rping -s -c -a 127.0.0.1", "cannot be used with"),
        ("rping -c", "-a <[SCHEME://]ADDRESS"),
        ("rping -s -S 22", "23..=65535"),
        ("rping -s -S 65536", "23..=65535"),
        ("rping -s -C many", "'-C <COUNT>'"),
        ("rping -s -p 70000", "65535"),
        ("rping -s --crc maybe", "on, off"),
        ("rping -s --revision 3", "0..=2"),
        ("rping -s --timeout 0", "seconds"),
        ("rping -s --split half", "host, coupled, decoupled, assist"),
        ("rping -s --progress nobody", "caller, thread, hybrid, summon"),
        ("rping -s --split coupled --progress caller", "split coupled needs progress thread, "),
        ("rping -s --split coupled --progress caller", "; progress is caller"),
        ("rping -s --split assist --progress hybrid", "split assist needs progress thread"),
        ("rping -s --progress caller --engines 2", "2 engines need progress thread or hybrid"),
        ("rping -s --engines 0", "0 engines: a NIC has 1 to 64"),
        ("interop rdma-server --listen 127.0.0.1:0 --split coupled --progress caller", "progress is caller"),
    ] {
        let output = weft(&words(line));
        assert_eq!(output.code, Some(2), "{line}: {}", output.text);
        assert!(output.text.contains(helpful), "{line}: {}", output.text);
    }
}

#[test]
fn help_shows_examples() {
    let help = weft(&words("rping --help"));
    assert_eq!(help.code, Some(0));
    assert!(help.text.contains("weft rping -s"), "{}", help.text);
}

#[test]
fn messages_go_both_ways() {
    let server = Running::start(&words("interop rdma-server --listen 127.0.0.1:0"));
    let address = format!("127.0.0.1:{}", server.port());
    let client = Running::start(&["interop", "rdma-client", "--connect", &address]);
    for side in [client.end(), server.end()] {
        assert_eq!(side.code, Some(0), "{}", side.text);
    }
}

#[test]
fn a_rejection_is_reported() {
    let server = Running::start(&words("interop reject --listen 127.0.0.1:0"));
    let client = weft(&["rping", "-c", "-a", "127.0.0.1", "-p", &server.port()]);
    assert_eq!(client.code, Some(1));
    assert!(client.text.contains("rejected the connection, with 12 bytes of private data"), "{}", client.text);
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn a_write_to_a_wrong_stag_is_terminated() {
    let server = Running::start(&words("rping -s -a 127.0.0.1 -p 0"));
    let address = format!("127.0.0.1:{}", server.port());
    let client = weft(&["interop", "bad-stag", "--connect", &address]);
    assert_eq!((client.code, client.text.as_str()), (Some(0), "terminate layer=1 type=1 code=0\n"));
    let server = server.end();
    assert_eq!(server.code, Some(1));
    assert!(server.text.contains("0xdeadbeef") && server.text.contains("STag"), "{}", server.text);
}

#[test]
fn a_server_says_whom_it_has_refused_and_why() {
    for many in [false, true] {
        let persistent: &[&str] = if many { &["-P"] } else { &[] };
        let server = Running::start(&[&["rping", "-s", "-a", "127.0.0.1", "-p", "0"], persistent].concat());
        let port = server.port();
        let mut stranger = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: anybody\r\n\r\n").unwrap();
        let address = stranger.local_addr().unwrap();
        // It gets no answer, and goes.
        let _ = stranger.read(&mut [0; 64]);
        drop(stranger);
        server.await_text(&format!("weft: refused {address}: the peer does not speak MPA"));
        let client = Running::start(&["rping", "-c", "-a", "127.0.0.1", "-p", &port, "-C", "3", "-V"]).end();
        assert_eq!(client.code, Some(0), "client: {}", client.text);
        server.interrupt();
        server.end();
    }
}

#[test]
fn a_server_for_many_has_no_thread_for_each_that_says_nothing() {
    const SILENT: usize = 40;
    let server = Running::start(&["rping", "-s", "-P", "-a", "127.0.0.1", "-p", "0"]);
    let port = server.port();
    let context = weft::verbs::Context::open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let completions = context.create_completion_queue(64).unwrap();
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let silent: Vec<_> = (0..SILENT)
        .map(|_| {
            let options = weft::verbs::QueuePairOptions::default();
            let queue_pair = domain.create_queue_pair(&completions, &options).unwrap();
            queue_pair.connect(address, &weft::verbs::ConnectOptions::default()).unwrap();
            queue_pair
        })
        .collect();
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap().count();
    assert!(threads < SILENT / 2, "{threads} threads for {SILENT} clients");
    // A client that speaks is served meanwhile.
    let client = Running::start(&["rping", "-c", "-a", "127.0.0.1", "-p", &port, "-C", "3", "-V"]).end();
    assert_eq!(client.code, Some(0), "client: {}", client.text);
    drop(silent);
    server.interrupt();
    server.end();
}
