//! The cost of one set-up to both sides together, without a network: time, or instructions under `valgrind
//! --tool=callgrind target/release/examples/setup 100 keyed`.
//!
//! `cargo run --release -p weft-edge --example setup [count] [plain|keyed|refused|crowded]`; without a kind, one line
//! for each. `refused` is a caller with another key, `crowded` one that is first answered with a cookie.

use core::time::Duration;
use std::net::SocketAddr;
use std::time::Instant;

use weft_base::Time;
use weft_edge::Settings;
use weft_edge::setup::{
    Acceptor, AcceptorSettings, Answering, Call, Caller, Fresh, HelloOutcome, Key, Outcome, SetupTimes, Words,
};
use weft_wire::edge::ConnectionId;

const KINDS: [&str; 4] = ["plain", "keyed", "refused", "crowded"];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2016);
    let asked = arguments.next();
    for kind in KINDS.into_iter().filter(|kind| asked.as_ref().is_none_or(|asked| asked == kind)) {
        let begun = now();
        (0..count).for_each(|number| set_up(kind, number));
        let each = begun.elapsed().as_secs_f64() * 1e6 / f64::from(count);
        println!("{kind:8} {each:8.1} us for each of {count}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock of a measurement; the crate itself has none")]
fn now() -> Instant {
    Instant::now()
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4791))
}

fn fresh(id: u32) -> Fresh {
    let secret = core::array::from_fn(|at| (id >> (8 * (at & 3))) as u8 ^ at as u8);
    Fresh { id: ConnectionId(u64::from(id) + 1), nonce: [id as u8; 16], seed: u64::from(id), secret }
}

fn set_up(kind: &str, number: u32) {
    let key = |byte| Key::new(&[byte; 32]).expect("long enough");
    let (called, calling) = if kind == "refused" { (key(1), key(2)) } else { (key(1), key(1)) };
    let is_keyed = kind != "plain";
    let cookie_lifetime = Duration::from_secs(10);
    let settings = AcceptorSettings { key: is_keyed.then_some(called), host: key(3), secret: key(4), cookie_lifetime };
    let mut acceptor = Acceptor::new(settings);
    let words = Words { private_data: b"private data", inbound_reads: 16, outbound_reads: 16 };
    let call = Call {
        to: address(2),
        fresh: fresh(2 * number),
        key: is_keyed.then_some(&calling),
        host: &key(5),
        words,
        times: SetupTimes::default(),
    };
    let now = Time::from_nanos(1_000_000_000);
    let mut caller = Caller::new(&call, &Settings::default(), now);
    loop {
        let (mut hello, mut answer) = (Vec::new(), Vec::new());
        assert!(caller.transmit(now, &mut hello));
        let from = address(1);
        if let HelloOutcome::Call(call) = acceptor.on_hello(&hello, from, kind == "crowded", now, &mut answer) {
            let mut answering = Answering::new(&call, &acceptor, fresh(2 * number + 1));
            let _ = answering.accept(&words, &Settings::default(), &mut answer);
        }
        match (caller.receive(&answer, address(2), now), kind) {
            (None, "crowded") => {}
            (Some(Outcome::Rejected { .. }), "refused") | (Some(Outcome::Accepted(..)), _) => return,
            (outcome, _) => panic!("{outcome:?}"),
        }
    }
}
