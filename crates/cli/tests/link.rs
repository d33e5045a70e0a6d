//! iWARP over Weft's own TCP, between two hosts of a lab, by commands as a user runs them: through a link that loses
//! and reorders frames, with markers, and with the kernel's TCP at the other end.
//!
//! Where this system allows no namespaces, or lacks a program, the test says so and passes.

mod running;

use std::time::Duration;

use running::{Running, weft, words};
use weft_lab::{BridgeProgram, Carrier, Lab, Link, Plan, Shape};

const WEFT: &str = env!("CARGO_BIN_EXE_weft");
/// Addresses of the link that no kernel has, with the options that make them ours.
const ADDRESS: &str = "10.0.0.77";
const LINKS: [&str; 2] = ["--link rail0=10.0.0.77/24", "--link rail0=10.0.0.78/24"];
/// Several for each: of IPv4, of IPv6, and of IPv6 for the one link alone.
const ADDRESSES: [&str; 3] = [ADDRESS, "fd77:6566:7400::77", "fe80::77%rail0"];
const ALL: [&str; 2] = [
    "--link rail0=10.0.0.77/24,fd77:6566:7400::77/64,fe80::77/64",
    "--link rail0=fe80::78/64,fd77:6566:7400::78/64,10.0.0.78/24",
];

fn lab() -> Option<Lab> {
    let shape = Shape {
        loss_millionths: 10_000,
        reorder_millionths: 50_000,
        reorder_by: Duration::from_millis(1),
        ..Shape::default()
    };
    shaped(false, &shape)
}

/// Whose hosts leave segmentation to their devices or not.
fn shaped(offloads: bool, shape: &Shape) -> Option<Lab> {
    let mut lab = match Lab::up(&Plan {
        links: 1,
        rate: None,
        switch: true,
        offloads,
        carrier: Some(Carrier::Rings),
        ..Plan::default()
    }) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let arguments = ["lab", "bridge"].map(Into::into).to_vec();
    let program = BridgeProgram { program: WEFT.into(), arguments, environment: Vec::new() };
    lab.shape(Link { host: None, rail: 0 }, shape, &program).unwrap();
    Some(lab)
}

/// The first host listens at an address, the second calls it.
fn ping(lab: &Lab, address: &str, server: &str, client: &str) {
    ping_with(lab, "-C 30 -S 50000", address, server, client);
}

fn ping_with(lab: &Lab, what: &str, address: &str, server: &str, client: &str) {
    let both = "--timeout 60";
    let listens = format!("rping -s -a {address} -p 0 {both} {server}");
    let server = Running::start_by(lab.host(0).command(WEFT), &words(&listens));
    let calls = format!("rping -c -a {address} -p {} {what} -V {both} {client}", server.port());
    let client = Running::start_by(lab.host(1).command(WEFT), &words(&calls));
    let (client, server) = (client.end(), server.end());
    assert_eq!((client.code, server.code), (Some(0), Some(0)), "client: {}\nserver: {}", client.text, server.text);
}

#[test]
fn iwarp_goes_by_weft_s_own_tcp_to_itself_and_to_the_kernel_s() {
    let Some(lab) = lab() else { return };
    let kernel = lab.host(0).address(0).to_string();
    ping(&lab, ADDRESS, LINKS[0], LINKS[1]);
    ping(&lab, ADDRESS, LINKS[0], "");
    ping(&lab, &kernel, "", LINKS[1]);
    // In order, and with markers that only one side asks for.
    let with = |link: &str, markers: &str| format!("{link} --markers {markers}");
    ping(&lab, ADDRESS, &with(LINKS[0], "off"), &with(LINKS[1], "off"));
    ping(&lab, &kernel, "--markers on", &with(LINKS[1], "off"));
    for progress in ["thread", "caller"] {
        let with = |link: &str| format!("{link} --progress {progress}");
        ping(&lab, ADDRESS, &with(LINKS[0]), &with(LINKS[1]));
    }
    lab.down().unwrap();
}

/// As `weft lab up` and `weft lab shape` make it: the hosts' devices take frames of 64 KiB, the rail does not. The
/// faults are those of `weft perf disorder`: 5 % of the segments are late by up to 200 us, 1 % are lost. If what is
/// longer than the MTU were lost, this would take minutes.
#[test]
fn iwarp_over_own_tcp_crosses_a_shaped_link_without_faults_and_with_them() {
    let good = Shape { rate: Some("100M".parse().unwrap()), delay: Duration::from_micros(500), ..Shape::default() };
    let bad = Shape {
        loss_millionths: 10_000,
        reorder_millionths: 50_000,
        reorder_by: Duration::from_micros(200),
        ..good.clone()
    };
    for shape in [good, bad] {
        let Some(lab) = shaped(true, &shape) else { return };
        ping_with(&lab, "-C 60 -S 65000", ADDRESS, LINKS[0], LINKS[1]);
        lab.down().unwrap();
    }
}

#[test]
fn iwarp_goes_over_both_kinds_of_ip_on_one_link() {
    let Some(lab) = lab() else { return };
    let Some(kernel) = lab.host(0).address_v6(0) else { return };
    for address in ADDRESSES {
        ping(&lab, address, ALL[0], ALL[1]);
    }
    // The kernel at one of the ends, by either kind.
    ping(&lab, ADDRESSES[1], ALL[0], "");
    ping(&lab, ADDRESSES[2], ALL[0], "");
    ping(&lab, &kernel.to_string(), "", ALL[1]);
    // Edge in frames of its own.
    let edge = |link: &str| format!("--transport edge {link}");
    for address in ADDRESSES {
        ping(&lab, address, &edge(ALL[0]), &edge(ALL[1]));
    }
    lab.down().unwrap();
}

#[test]
fn what_is_no_link_is_named() {
    let ended = weft(&["rping", "-s", "-a", "127.0.0.1", "--link", "eth0"]);
    assert!(ended.code == Some(2) && ended.text.contains("eth0=10.0.0.9/24"), "{}", ended.text);
    let ended = weft(&["rping", "-s", "-a", "127.0.0.1", "--link", "eth0=fd00::9"]);
    assert!(ended.code == Some(2) && ended.text.contains("fd00::9 has no /BITS"), "{}", ended.text);
    let ended = weft(&["rping", "-s", "-a", "127.0.0.1", "--link", "no-such=10.0.0.9/24"]);
    assert!(ended.code == Some(1) && ended.text.contains("no-such"), "{}", ended.text);
}
