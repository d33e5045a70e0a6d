//! iWARP over Weft's own TCP, between two hosts of a lab, by commands as a user runs them: through a link that loses
//! and reorders frames, with markers, and with the kernel's TCP at the other end.
//!
//! Where this system allows no namespaces, or lacks a program, the test says so and passes.

mod running;

use std::time::Duration;

use running::{Running, weft, words};
use weft_lab::{BridgeProgram, Lab, Link, Plan, Shape};

const WEFT: &str = env!("CARGO_BIN_EXE_weft");
/// Addresses of the link that no kernel has, with the options that make them ours.
const ADDRESSES: [&str; 2] = ["10.0.0.77", "10.0.0.78"];
const LINKS: [&str; 2] = ["--link rail0=10.0.0.77/24", "--link rail0=10.0.0.78/24"];

fn lab() -> Option<Lab> {
    let mut lab = match Lab::up(&Plan { links: 1, rate: None, switch: true, offloads: false, ..Plan::default() }) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let shape = Shape {
        loss_millionths: 10_000,
        reorder_millionths: 50_000,
        reorder_by: Duration::from_millis(1),
        ..Shape::default()
    };
    let arguments = ["lab", "bridge"].map(Into::into).to_vec();
    let program = BridgeProgram { program: WEFT.into(), arguments, environment: Vec::new() };
    lab.shape(Link { host: None, rail: 0 }, &shape, &program).unwrap();
    Some(lab)
}

/// The first host listens at an address, the second calls it.
fn ping(lab: &Lab, address: &str, server: &str, client: &str) {
    let both = "--timeout 60";
    let listens = format!("rping -s -a {address} -p 0 {both} {server}");
    let server = Running::start_by(lab.host(0).command(WEFT), &words(&listens));
    let calls = format!("rping -c -a {address} -p {} -C 30 -S 50000 -V {both} {client}", server.port());
    let client = Running::start_by(lab.host(1).command(WEFT), &words(&calls));
    let (client, server) = (client.end(), server.end());
    assert_eq!((client.code, server.code), (Some(0), Some(0)), "client: {}\nserver: {}", client.text, server.text);
}

#[test]
fn iwarp_goes_by_weft_s_own_tcp_to_itself_and_to_the_kernel_s() {
    let Some(lab) = lab() else { return };
    let kernel = lab.host(0).address(0).to_string();
    ping(&lab, ADDRESSES[0], LINKS[0], LINKS[1]);
    ping(&lab, ADDRESSES[0], LINKS[0], "");
    ping(&lab, &kernel, "", LINKS[1]);
    // In order, and with markers that only one side asks for.
    let with = |link: &str, markers: &str| format!("{link} --markers {markers}");
    ping(&lab, ADDRESSES[0], &with(LINKS[0], "off"), &with(LINKS[1], "off"));
    ping(&lab, &kernel, "--markers on", &with(LINKS[1], "off"));
    for progress in ["thread", "caller"] {
        let with = |link: &str| format!("{link} --progress {progress}");
        ping(&lab, ADDRESSES[0], &with(LINKS[0]), &with(LINKS[1]));
    }
    lab.down().unwrap();
}

#[test]
fn what_is_no_link_is_named() {
    let ended = weft(&["rping", "-s", "-a", "127.0.0.1", "--link", "eth0"]);
    assert!(ended.code == Some(2) && ended.text.contains("eth0=10.0.0.9/24"), "{}", ended.text);
    let ended = weft(&["rping", "-s", "-a", "127.0.0.1", "--link", "no-such=10.0.0.9/24"]);
    assert!(ended.code == Some(1) && ended.text.contains("no-such"), "{}", ended.text);
}
