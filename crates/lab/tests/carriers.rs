//! Packets of shaped links by both carriers, the kernel's packet queues and packet rings: the same delay, rate and
//! cuts, over IPv4 and IPv6, while one takes the place of the other.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

mod kernel;

use std::env;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use kernel::{ROLE, Worker, kernel_calls, kernel_echo};
use weft_lab::{BitsPerSecond, BridgeProgram, Carrier, Cluster, Lab, LabError, Link, Plan, Shape, WanLink, Way};
use weft_lab::{WanCut, serve_bridge};

const RAIL: Link = Link { host: None, rail: 0 };

/// This program again, as the bridge.
fn bridge_program() -> BridgeProgram {
    BridgeProgram {
        program: env::current_exe().unwrap(),
        arguments: ["--exact", "worker", "--nocapture", "--quiet"].map(Into::into).to_vec(),
        environment: vec![(ROLE.into(), "bridge".into())],
    }
}

/// `None`, and a line that says why, where it cannot be had.
fn had<T>(lab: Result<T, LabError>) -> Option<T> {
    match lab {
        Ok(lab) => Some(lab),
        // A lab is made by what `unshare` allows, and routes by what `/proc/sys` does.
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether this system has no packet queues: no iptables, no part of the kernel, or `/proc/sys` cannot be written.
fn lacks_queues(error: &LabError) -> bool {
    let words = error.to_string();
    error.cannot_be_had() || ["no packet queues", "NFQUEUE", "Read-only"].iter().any(|word| words.contains(word))
}

#[test]
fn bridges_do_not_pass_frames_through_the_packet_filter() {
    let Some(lab) = had(Lab::up(&Plan { hosts: 3, ..Plan::default() })) else { return };
    // Where the kernel has no such setting, or it can't be written, nothing is to be seen.
    let script = "f=/proc/sys/net/bridge/bridge-nf-call-iptables; if [ -w $f ]; then cat $f; else echo 0; fi";
    let output = lab.host(0).command("sh").args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");
    lab.down().unwrap();
}

/// Shapes a rail by this carrier. False, and a line that says why: this system has no packet queues.
fn shape_by(lab: &mut Lab, carrier: Carrier, shape: &Shape) -> bool {
    lab.set_carrier(Some(carrier));
    match lab.shape(RAIL, shape, &bridge_program()) {
        Ok(()) => {
            assert_eq!(lab.carrier(0), Some(carrier));
            true
        }
        Err(error) if carrier == Carrier::Queue && lacks_queues(&error) => {
            println!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sends this many bytes from a host to another and back, by the kernel's TCP. How long that took, set-up included.
fn echo(lab: &Lab, [from, to]: [usize; 2], address: IpAddr, bytes: usize) -> Duration {
    let mut echo = Worker::start(lab.host(to), &format!("echo {address}"));
    let remote = SocketAddr::new(address, echo.says().parse().unwrap());
    let began = Instant::now();
    let mut calls = Worker::start(lab.host(from), &format!("calls {remote} {bytes}"));
    assert_eq!((calls.says().as_str(), echo.says().as_str()), ("done", "done"));
    began.elapsed()
}

#[test]
fn either_carrier_delays_what_anybody_sends_and_takes_the_place_of_the_other() {
    let Some(mut lab) = had(Lab::up(&Plan { hosts: 3, rate: None, switch: true, ..Plan::default() })) else { return };
    let delay = Duration::from_millis(30);
    let shape = Shape { delay, ..Shape::default() };
    assert_eq!(lab.carrier(0), None);
    for carrier in [Carrier::Queue, Carrier::Rings, Carrier::Queue] {
        if !shape_by(&mut lab, carrier, &shape) {
            return;
        }
        for address in [Some(lab.host(2).address(0)), lab.host(2).address_v6(0)].into_iter().flatten() {
            let took = echo(&lab, [0, 2], address, 300_000);
            assert!(took >= 4 * delay, "{carrier}, {address}: {took:?} for two round trips");
        }
        let lateness = lab.take_lateness().unwrap().unwrap();
        assert!(lateness.max_ns > 0, "{carrier}: {lateness}");
    }
    // One cable alone, and nothing any more.
    let slow = Shape { delay: Duration::from_secs(1), ..Shape::default() };
    lab.shape(Link { host: Some(1), rail: 0 }, &slow, &bridge_program()).unwrap();
    assert_eq!(lab.shapes(1, 0), [slow.clone(), slow]);
    echo(&lab, [2, 0], lab.host(0).address(0), 1000);
    assert!(shape_by(&mut lab, Carrier::Queue, &Shape::default()));
    echo(&lab, [0, 1], lab.host(1).address(0), 1000);
    lab.down().unwrap();
}

#[test]
fn a_queue_has_a_rate_by_the_kernel_which_a_cut_does_not_forget() {
    let Some(mut lab) = had(Lab::up(&Plan::default())) else { return };
    let rate = BitsPerSecond(20_000_000);
    let shape = Shape { rate: Some(rate), delay: Duration::from_millis(1), ..Shape::default() };
    if !shape_by(&mut lab, Carrier::Queue, &shape) {
        return;
    }
    // A rail that has lost its carrier, or drops everything, is shaped as any, and stays cut.
    for (way, delay_ms) in [(Way::Carrier, 2), (Way::Silent, 1)] {
        lab.cut(RAIL, way).unwrap();
        lab.set_carrier(Some(Carrier::Rings));
        lab.shape(RAIL, &Shape::default(), &bridge_program()).unwrap();
        assert!(shape_by(&mut lab, Carrier::Queue, &Shape { delay: Duration::from_millis(delay_ms), ..shape.clone() }));
        assert_eq!(lab.cuts(0, 0), [way]);
        lab.mend(RAIL).unwrap();
    }
    let addresses = [Some(lab.host(1).address(0)), lab.host(1).address_v6(0)];
    for way in [None, Some(Way::Carrier), Some(Way::Silent)] {
        if let Some(way) = way {
            lab.cut(RAIL, way).unwrap();
            lab.mend(RAIL).unwrap();
        }
        for address in addresses.into_iter().flatten() {
            let bytes = 400_000;
            let took = echo(&lab, [0, 1], address, bytes);
            // Both directions go at the same time, and a burst and what waits for it is as fast as possible.
            let least = (bytes - 150_000) as f64 * 8.0 / rate.0 as f64;
            assert!(took.as_secs_f64() > least, "{way:?}, {address}: {took:?}, not {least} s");
        }
    }
    lab.down().unwrap();
}

#[test]
fn what_a_queue_can_not_do_is_refused_or_done_by_rings() {
    let Some(mut lab) = had(Lab::up(&Plan { rate: None, switch: true, ..Plan::default() })) else { return };
    let copies = Shape { duplicate_millionths: 10_000, ..Shape::default() };
    lab.set_carrier(Some(Carrier::Queue));
    let error = lab.shape(RAIL, &copies, &bridge_program()).unwrap_err();
    assert!(error.is_callers() && error.to_string().contains("--carrier rings"), "{error}");
    assert_eq!(lab.carrier(0), None);
    lab.set_carrier(None);
    lab.shape(RAIL, &copies, &bridge_program()).unwrap();
    assert_eq!(lab.carrier(0), Some(Carrier::Rings));
    echo(&lab, [0, 1], lab.host(1).address(0), 100_000);
    lab.down().unwrap();
}

#[test]
fn clusters_are_far_apart_by_either_carrier_over_rails_that_are_shaped_too() {
    let delay = Duration::from_millis(20);
    let wan = WanLink::mesh(3, &Shape { delay, ..Shape::default() });
    for carrier in [Carrier::Queue, Carrier::Rings] {
        let clusters = Cluster::usual(3, 2);
        let (hosts, wan, carrier) = (6, wan.clone(), Some(carrier));
        let plan = Plan { hosts, clusters, wan, carrier, rate: None, ..Plan::default() };
        let mut lab = match Lab::up_with_wan(&plan, &bridge_program()) {
            Err(error) if carrier == Some(Carrier::Queue) && lacks_queues(&error) => {
                println!("skipped: {error}");
                continue;
            }
            lab => match had(lab) {
                Some(lab) => lab,
                None => return,
            },
        };
        assert_eq!((lab.wan_carrier(0), lab.carrier(0)), (carrier, None));
        for is_shaped in [false, true] {
            if is_shaped {
                let shape = Shape { delay: Duration::from_millis(1), ..Shape::default() };
                lab.shape(RAIL, &shape, &bridge_program()).unwrap();
            }
            for to in [1, 2, 5] {
                for address in [Some(lab.host(to).address(0)), lab.host(to).address_v6(0)].into_iter().flatten() {
                    let took = echo(&lab, [0, to], address, 50_000);
                    let least = if to == 1 { Duration::ZERO } else { 4 * delay };
                    assert!(took >= least, "{carrier:?}, to {address}: {took:?}");
                }
            }
        }
        lab.cut_wan(1, WanCut::Carrier).unwrap();
        lab.mend_wan(1).unwrap();
        echo(&lab, [0, 4], lab.host(4).address(0), 1000);
        lab.down().unwrap();
    }
}

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["bridge"] => serve_bridge().unwrap(),
        ["echo", address] => kernel_echo(address.parse().unwrap()),
        ["calls", remote, total] => kernel_calls(remote.parse().unwrap(), total.parse().unwrap()),
        _ => panic!("{role:?} is no role"),
    }
}
