//! Labs as they are used: programs in their hosts, data over their links, and nothing left of them afterwards.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use weft_lab::{
    BitsPerSecond, BridgeProgram, Cluster, Host, Lab, LabError, Link, Plan, Process, Shape, USUAL_CONGESTION_CONTROLS,
    WanCut, WanLink, Way, serve_bridge,
};

/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a link must be silent to be taken for cut. A slow machine may make one that passes seem cut, so what has to
/// come is waited for with `PATIENCE` instead.
const LISTENING: Duration = Duration::from_millis(200);

/// What is sent to see that a link holds its rate, in bytes.
const TRANSFER: usize = 20_000_000;

/// A lab; `None`, and a line that says why, where it cannot be had.
fn lab(plan: &Plan) -> Option<Lab> {
    match Lab::up(plan) {
        Ok(lab) => Some(lab),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn two_hosts_reach_each_other_over_every_rail_and_no_faster_than_its_rate() {
    let rate = BitsPerSecond(1_000_000_000);
    let Some(lab) = lab(&Plan { links: 2, rate: Some(rate), ..Plan::default() }) else { return };
    for rail in 0..2 {
        let seconds = transfer(lab.host(0), lab.host(1), lab.host(1).address(rail), TRANSFER);
        let bits_per_s = 8.0 * TRANSFER as f64 / seconds;
        println!("rail {rail}: {:.0} Mb/s of {rate}", bits_per_s / 1e6);
        assert!(bits_per_s < 1.1 * rate.0 as f64, "rail {rail} carries {bits_per_s} b/s");
    }
    if let Some(address) = lab.host(0).address_v6(1) {
        transfer(lab.host(1), lab.host(0), address, 1000);
    }
    gone(lab);
}

#[test]
fn four_hosts_reach_each_other_through_switches_that_are_not_joined() {
    let plan = Plan { hosts: 4, links: 2, rate: Some(BitsPerSecond(100_000_000)), ..Plan::default() };
    let Some(lab) = lab(&plan) else { return };
    for (from, to, rail) in [(0, 1, 0), (3, 2, 1), (1, 3, 0)] {
        transfer(lab.host(from), lab.host(to), lab.host(to).address(rail), 100_000);
    }
    // 2 MB at 100 Mb/s take a sixth of a second; a burst goes faster, so half of that is required.
    let seconds = transfer(lab.host(0), lab.host(3), lab.host(3).address(1), 2_000_000);
    assert!(seconds > 0.08, "2 MB in {seconds} s are too fast");
    gone(lab);
}

#[test]
fn a_link_without_a_rate_takes_jumbo_packets_and_offloads_are_off_when_asked() {
    let Some(lab) = lab(&Plan { rate: None, mtu: 9000, offloads: false, ..Plan::default() }) else { return };
    let output = lab.host(0).command("ip").args(["-details", "link", "show", "rail0"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("mtu 9000") && !text.contains("tbf"), "{text}");
    for host in lab.hosts() {
        let output = host.command("/usr/sbin/ethtool").args(["-k", "rail0"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for feature in [
            "tcp-segmentation-offload",
            "generic-segmentation-offload",
            "generic-receive-offload",
            "tx-udp-segmentation",
        ] {
            assert!(text.contains(&format!("{feature}: off")), "{feature} in {text}");
        }
    }
    transfer(lab.host(0), lab.host(1), lab.host(1).address(0), 1_000_000);
    gone(lab);
}

/// Whether datagrams get from one host to another by a rail: what is expected is waited for, silence for a while.
fn passes(lab: &Lab, [from, to]: [usize; 2], rail: usize, expected: bool) -> bool {
    let program = env::current_exe().unwrap();
    let (source, target) = (lab.host(from), lab.host(to));
    let wait = if expected { PATIENCE } else { LISTENING };
    let ear =
        Worker::start(&mut target.command(&program), &format!("listen {} {}", target.address(rail), wait.as_millis()));
    let port = ear.line();
    let mut mouth = Worker::start(&mut source.command(&program), &format!("say {}:{port}", target.address(rail)));
    assert_eq!(mouth.line(), "said");
    let received = ear.line() == "received";
    let _ = mouth.child.kill();
    received
}

fn link_state(host: &Host) -> String {
    let output = host.command("ip").args(["link", "show", "rail0"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn cut_and_mend(hosts: usize) {
    let Some(mut lab) = lab(&Plan { hosts, links: 2, ..Plan::default() }) else { return };
    let all = Link { host: None, rail: 0 };
    let of_host_1 = Link { host: Some(1), rail: 0 };
    for (link, way, there, back) in [
        (all, Way::Silent, false, false),
        (of_host_1, Way::Silent, false, false),
        (of_host_1, Way::Send, true, false),
        (of_host_1, Way::Receive, false, true),
        (all, Way::Carrier, false, false),
    ] {
        // Over a link that is cut no host can ask for a neighbour's address.
        acquaint(&lab);
        lab.cut(link, way).unwrap();
        assert_eq!(passes(&lab, [0, 1], 0, there), there, "{link} {way}");
        assert_eq!(passes(&lab, [1, 0], 0, back), back, "{link} {way}");
        assert!(passes(&lab, [0, 1], 1, true), "the other rail is nobody's business");
        assert_eq!(lab.cuts(1, 0), [way]);
        let has_carrier = !link_state(lab.host(0)).contains("NO-CARRIER");
        assert_eq!(has_carrier, way != Way::Carrier, "{}", link_state(lab.host(0)));
        lab.mend(of_host_1).unwrap();
        lab.mend(all).unwrap();
        assert!(passes(&lab, [0, 1], 0, true) && passes(&lab, [1, 0], 0, true), "{link} {way} mends");
        assert_eq!(lab.cuts(1, 0), []);
    }
    if let Some(address) = lab.host(1).address_v6(0) {
        transfer(lab.host(0), lab.host(1), address, 1000);
    }
    let seconds = transfer(lab.host(0), lab.host(1), lab.host(1).address(0), TRANSFER);
    assert!(8.0 * TRANSFER as f64 / seconds < 1.1e9, "the rate is back, too");
    gone(lab);
}

/// Gives both hosts the other's hardware address, so that neither has to ask while a link is cut.
fn acquaint(lab: &Lab) {
    for (host, other) in [(0, 1), (1, 0)] {
        let shown = link_state(lab.host(other));
        let hardware = shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap();
        let address = lab.host(other).address(0).to_string();
        let status = lab
            .host(host)
            .command("ip")
            .args(["neighbour", "replace", &address, "lladdr", hardware, "dev", "rail0", "nud", "permanent"])
            .status();
        assert!(status.unwrap().success());
    }
}

#[test]
fn a_link_that_joins_two_hosts_is_cut_in_each_way_and_mended() {
    cut_and_mend(2);
}

#[test]
fn a_cable_to_a_switch_is_cut_in_each_way_and_mended() {
    cut_and_mend(3);
}

/// This program again, as the bridge.
fn bridge_program() -> BridgeProgram {
    BridgeProgram {
        program: env::current_exe().unwrap(),
        arguments: ["--exact", "a_process_with_a_role", "--nocapture", "--quiet"].map(Into::into).to_vec(),
        environment: vec![(ROLE.into(), "bridge".into())],
    }
}

fn switched(plan: Plan) -> Option<Lab> {
    lab(&Plan { switch: true, ..plan })
}

const RAIL: Link = Link { host: None, rail: 0 };

/// Sends numbered datagrams until this many have come. The highest number that came, and how many came after a later
/// one.
fn count(lab: &Lab, from: usize, to: usize) -> (u32, u32) {
    let program = env::current_exe().unwrap();
    let (source, target) = (lab.host(from), lab.host(to));
    let ear = Worker::start(&mut target.command(&program), &format!("count {}", target.address(0)));
    let target = format!("number {}:{}", target.address(0), ear.line());
    let _mouth = Worker::start(&mut source.command(&program), &target);
    let line = ear.line();
    let (highest, late) = line.split_once(' ').unwrap();
    (highest.parse().unwrap(), late.parse().unwrap())
}

#[test]
fn a_shape_loses_and_reorders_datagrams_of_anybody() {
    let Some(mut lab) = switched(Plan { rate: None, hosts: 3, ..Plan::default() }) else { return };
    let program = bridge_program();
    lab.shape(RAIL, &Shape { loss_millionths: 300_000, ..Shape::default() }, &program).unwrap();
    // Of some 700 three in ten are lost; a busy machine loses more, and no machine fewer.
    let (highest, late) = count(&lab, 0, 1);
    assert!(highest > COUNTED * 6 / 5, "{highest} {late}");
    let reorder_by = Duration::from_millis(20);
    let shape = Shape { reorder_millionths: 300_000, reorder_by, ..Shape::default() };
    lab.shape(Link { host: Some(2), rail: 0 }, &shape, &program).unwrap();
    lab.shape(RAIL, &shape, &program).unwrap();
    // A kernel with several processors may let a few overtake others by itself, but no such share.
    let (_, late) = count(&lab, 0, 2);
    assert!(late > COUNTED / 20, "{late}");
    assert_eq!(lab.shapes(2, 0), [Shape::default(), shape]);
    // Nothing of it is left when it is over.
    lab.shape(RAIL, &Shape::default(), &program).unwrap();
    let (_, late) = count(&lab, 2, 0);
    assert!(late < COUNTED / 20, "{late}");
    transfer(lab.host(2), lab.host(1), lab.host(1).address(0), 100_000);
    gone(lab);
}

#[test]
fn tcp_of_the_kernel_gets_all_through_a_shaped_link_which_can_be_cut() {
    let Some(mut lab) = switched(Plan::default()) else { return };
    let shape = Shape {
        rate: Some(BitsPerSecond(200_000_000)),
        delay: Duration::from_millis(1),
        loss_millionths: 5000,
        reorder_millionths: 20_000,
        reorder_by: Duration::from_millis(1),
        duplicate_millionths: 5000,
        ..Shape::default()
    };
    lab.shape(RAIL, &shape, &bridge_program()).unwrap();
    let bytes = 1_000_000;
    // What comes is checked byte by byte. It is no faster than the rate.
    let seconds = transfer(lab.host(0), lab.host(1), lab.host(1).address(0), bytes);
    assert!(seconds > 8.0 * bytes as f64 / 200e6 / 2.0, "{seconds} s");
    lab.cut(RAIL, Way::Carrier).unwrap();
    assert!(link_state(lab.host(0)).contains("NO-CARRIER") && link_state(lab.host(1)).contains("NO-CARRIER"));
    assert!(!passes(&lab, [0, 1], 0, false));
    lab.mend(RAIL).unwrap();
    assert!(passes(&lab, [0, 1], 0, true));
    gone(lab);
}

#[test]
fn nothing_is_left_of_a_lab_whose_bridge_was_killed() {
    let Some(mut lab) = switched(Plan { rate: None, ..Plan::default() }) else { return };
    let program = bridge_program();
    assert_eq!(lab.bridge(), None);
    lab.shape(RAIL, &Shape::default(), &program).unwrap();
    for _ in 0..2 {
        let bridge = lab.bridge().unwrap();
        assert!(passes(&lab, [0, 1], 0, true));
        assert!(Command::new("kill").args(["-KILL", &bridge.id.to_string()]).status().unwrap().success());
        await_end(&[bridge]);
        assert!(lab.is_whole() && lab.bridge().is_none());
        // The next shape starts another one.
        lab.shape(RAIL, &Shape::default(), &program).unwrap();
    }
    let bridge = lab.bridge().unwrap();
    assert!(Command::new("kill").args(["-KILL", &bridge.id.to_string()]).status().unwrap().success());
    await_end(&[bridge]);
    gone(lab);
}

#[test]
fn two_hosts_that_are_joined_directly_get_a_switch_with_the_first_shape() {
    let Some(mut lab) = lab(&Plan { links: 3, ..Plan::default() }) else { return };
    lab.cut(Link { host: Some(1), rail: 1 }, Way::Silent).unwrap();
    let shape = Shape { delay: Duration::from_millis(1), ..Shape::default() };
    assert_eq!(lab.take_lateness().unwrap(), None, "nothing is shaped");
    lab.shape(RAIL, &shape, &bridge_program()).unwrap();
    assert!(lab.plan().switch && lab.is_whole());
    for (rail, is_whole) in [(0, true), (1, false), (2, true)] {
        assert_eq!(passes(&lab, [0, 1], rail, is_whole), is_whole, "rail {rail}");
    }
    lab.mend(Link { host: None, rail: 1 }).unwrap();
    assert!(passes(&lab, [1, 0], 1, true));
    if let Some(address) = lab.host(1).address_v6(0) {
        transfer(lab.host(0), lab.host(1), address, 1000);
    }
    let lateness = lab.take_lateness().unwrap().unwrap();
    assert!(lateness.max_ns > 0 && lateness.p50_ns <= lateness.max_ns, "{lateness}");
    gone(lab);
}

#[test]
fn what_can_not_be_shaped_is_refused() {
    let Some(mut lab) = lab(&Plan::default()) else { return };
    let program = bridge_program();
    let shape = Shape { rate: Some(BitsPerSecond(2_000_000_000)), ..Shape::default() };
    let said = lab.shape(RAIL, &shape, &program).unwrap_err().to_string();
    assert!(said.contains("2 Gb/s") && said.contains("1 Gb/s"), "{said}");
    let shape = Shape { delay: Duration::from_secs(60), ..Shape::default() };
    assert!(matches!(lab.shape(RAIL, &shape, &program), Err(LabError::Shape(_))));
    let none = Link { host: None, rail: 1 };
    assert!(matches!(lab.shape(none, &Shape::default(), &program), Err(LabError::Link { .. })));
    gone(lab);
}

#[test]
fn links_that_a_lab_does_not_have_can_not_be_cut() {
    let Some(mut lab) = lab(&Plan::default()) else { return };
    let no_rail = Link { host: None, rail: 1 };
    let no_host = Link { host: Some(2), rail: 0 };
    for link in [no_rail, no_host] {
        assert!(matches!(lab.cut(link, Way::Silent), Err(LabError::Link { .. })));
        assert!(matches!(lab.mend(link), Err(LabError::Link { .. })));
    }
    let whose = lab.cut(Link { host: None, rail: 0 }, Way::Send).unwrap_err();
    assert!(whose.is_callers() && whose.to_string().contains("0:rail0"), "{whose}");
    gone(lab);
}

#[test]
fn hosts_have_the_congestion_control_that_was_asked_for() {
    let told = |host: &Host| {
        let text = |command: &mut std::process::Command| String::from_utf8(command.output().unwrap().stdout).unwrap();
        let ways = text(host.command("ip").args(["route", "show"]));
        // A route that names none has the namespace's.
        let named = ways.split_once("congctl ").map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned());
        let of_all = || text(host.command("cat").arg("/proc/sys/net/ipv4/tcp_congestion_control"));
        named.unwrap_or_else(of_all).trim().to_owned()
    };
    let Some(usual) = lab(&Plan::default()) else { return };
    for host in usual.hosts() {
        assert_eq!(told(host), usual.congestion_control());
    }
    gone(usual);
    let error = Lab::up(&Plan { congestion_control: Some("none such".into()), ..Plan::default() }).unwrap_err();
    assert!(error.to_string().contains("\"none such\"; this kernel allows: "), "{error}");
    let reno = match Lab::up(&Plan { congestion_control: Some("reno".into()), hosts: 3, ..Plan::default() }) {
        Ok(reno) => reno,
        Err(error @ LabError::CongestionControl { .. }) => {
            return println!("skipped, settings can't be written: {error}");
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!((told(reno.host(2)).as_str(), reno.congestion_control()), ("reno", "reno"));
    gone(reno);
    // The usual ones could be set too.
    let Some(usual) = lab(&Plan::default()) else { return };
    assert!(USUAL_CONGESTION_CONTROLS.contains(&usual.congestion_control()), "{}", usual.congestion_control());
    gone(usual);
}

#[test]
fn programs_in_a_host_are_their_own_processes_with_status_folder_and_files() {
    let Some(lab) = lab(&Plan { rate: None, ..Plan::default() }) else { return };
    let status = lab.host(1).command("sh").args(["-c", "exit 42"]).status().unwrap();
    assert_eq!(status.code(), Some(42));
    let output = lab.host(1).command("pwd").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), env::current_dir().unwrap().to_str().unwrap());
    // The process that was started is the program: a signal to it is a signal to the program.
    let mut sleep = lab.host(0).command("sleep").arg("300").spawn().unwrap();
    await_program(sleep.id(), "sleep");
    sleep.kill().unwrap();
    assert_eq!(sleep.wait().unwrap().code(), None);
    gone(lab);
}

#[test]
fn a_lab_that_goes_down_takes_its_programs_with_it() {
    let Some(lab) = lab(&Plan { rate: None, ..Plan::default() }) else { return };
    let mut sleep = lab.host(1).command("sleep").arg("300").spawn().unwrap();
    // One that left its parent and its session.
    let detached =
        lab.host(0).command("sh").args(["-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"]).output().unwrap();
    let detached: u32 = String::from_utf8_lossy(&detached.stdout).trim().parse().unwrap();
    for id in [sleep.id(), detached] {
        await_program(id, "sleep");
    }
    let programs = [sleep.id(), detached].map(|id| Process::find(id).unwrap());
    gone(lab);
    await_end(&programs);
    assert_eq!(sleep.wait().unwrap().code(), None, "by a signal");
}

#[test]
fn a_lab_that_is_broken_says_so_and_still_goes_down() {
    let Some(lab) = lab(&Plan { rate: None, ..Plan::default() }) else { return };
    assert!(lab.is_whole());
    let holder = lab.host(1).holder();
    assert!(Command::new("kill").args(["-KILL", &holder.id.to_string()]).status().unwrap().success());
    await_end(&[holder]);
    assert!(!lab.is_whole() && !lab.host(1).is_up() && lab.host(0).is_up());
    // It could not clear its namespace.
    assert!(matches!(lab.down(), Err(LabError::Lost(id)) if id == holder.id));
}

#[test]
fn nothing_is_left_of_a_lab_whose_process_was_killed() {
    let mut parent = Worker::start(&mut Command::new(env::current_exe().unwrap()), "parent");
    let line = parent.line();
    if line.starts_with("skipped: ") {
        return println!("{line}");
    }
    let ids = line.split_whitespace().map(|id| id.parse().unwrap());
    let processes: Vec<_> = ids.map(|id| Process::find(id).expect("it runs")).collect();
    // Two hosts, a program in each of them.
    assert_eq!(processes.len(), 4);
    parent.child.kill().unwrap();
    await_end(&processes);
}

/// Two clusters of two hosts each, with a link of this delay between them in each direction.
fn two_clusters(delay: Duration) -> Plan {
    let shape = Shape { delay, ..Shape::default() };
    let clusters = Cluster::usual(2, 2);
    Plan { hosts: 4, links: 2, clusters, wan: WanLink::mesh(2, &shape), rate: None, ..Plan::default() }
}

fn clustered(plan: &Plan) -> Option<Lab> {
    match Lab::up_with_wan(plan, &bridge_program()) {
        Ok(lab) => Some(lab),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn clusters_are_routed_to_each_other_on_each_rail_and_are_as_far_apart_as_was_said() {
    let far = Duration::from_millis(60);
    let Some(mut lab) = clustered(&two_clusters(far)) else { return };
    assert_eq!(lab.host(3).address(1).to_string(), "10.1.1.2");
    for (from, to, rail) in [(0, 1, 0), (0, 3, 0), (2, 1, 1)] {
        transfer(lab.host(from), lab.host(to), lab.host(to).address(rail), 100_000);
    }
    if let Some(address) = lab.host(2).address_v6(1) {
        transfer(lab.host(1), lab.host(2), address, 1000);
    }
    // A byte there and its echo cannot be faster; a slow machine makes them slower.
    let seconds = transfer(lab.host(0), lab.host(2), lab.host(2).address(0), 1);
    assert!(seconds >= 2.0 * far.as_secs_f64(), "{seconds} s");
    // A rail that is shaped is so in each cluster, and the routes between them stay.
    lab.shape(RAIL, &Shape { duplicate_millionths: 100_000, ..Shape::default() }, &bridge_program()).unwrap();
    transfer(lab.host(0), lab.host(3), lab.host(3).address(0), 100_000);
    transfer(lab.host(0), lab.host(1), lab.host(1).address(0), 100_000);
    let nothing = Shape::default();
    lab.shape_wan(0, [&nothing, &nothing], &bridge_program()).unwrap();
    assert!(!lab.plan().wan[0].is_shaped());
    transfer(lab.host(3), lab.host(0), lab.host(0).address(0), 100_000);
    let error = lab.shape_wan(1, [&nothing, &nothing], &bridge_program()).unwrap_err();
    assert!(error.is_callers() && error.to_string().contains("the lab has 1"), "{error}");
    gone(lab);
}

#[test]
fn a_link_between_clusters_is_cut_in_each_way_and_mended() {
    // The kernel carries the first, a process the second.
    for delay in [Duration::ZERO, Duration::from_millis(1)] {
        let Some(mut lab) = clustered(&two_clusters(delay)) else { return };
        let both = |lab: &Lab| passes(lab, [0, 2], 0, true) && passes(lab, [2, 0], 1, true);
        for (cut, there, back) in [
            (WanCut::Carrier, false, false),
            (WanCut::Silent, false, false),
            (WanCut::From(0), false, true),
            (WanCut::From(1), true, false),
        ] {
            assert!(both(&lab), "the gateways know each other");
            lab.cut_wan(0, cut).unwrap();
            assert_eq!(passes(&lab, [0, 2], 0, there), there, "{cut:?}");
            assert_eq!(passes(&lab, [2, 0], 1, back), back, "{cut:?}");
            assert!(passes(&lab, [0, 1], 0, true), "nothing is cut inside a cluster");
            assert_eq!(lab.wan_cuts(0), [cut]);
            lab.mend_wan(0).unwrap();
            assert!(both(&lab), "{cut:?} mends");
            assert_eq!(lab.wan_cuts(0), []);
        }
        for error in [lab.cut_wan(0, WanCut::From(2)), lab.cut_wan(1, WanCut::Silent), lab.mend_wan(1)] {
            assert!(error.as_ref().is_err_and(LabError::is_callers), "{error:?}");
        }
        gone(lab);
    }
}

#[test]
fn a_host_has_its_name_and_knows_the_others() {
    let Some(lab) = clustered(&two_clusters(Duration::ZERO)) else { return };
    let says = |host: usize, script: &str| {
        let output = lab.host(host).command("sh").args(["-c", script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(says(2, "cat /proc/sys/kernel/hostname"), "b0\n");
    if !lab.host(2).knows_names() {
        println!("skipped: this system allows no mounts");
        return;
    }
    assert!(says(2, "cat /etc/hosts").contains("\n10.1.0.2 a1-rail1\n"));
    assert_eq!(says(2, "ls /sys/class/net"), "lo\nrail0\nrail1\n");
    // Where it is started is where it runs, and nothing of the file of names is seen elsewhere.
    let here = env::current_dir().unwrap();
    assert_eq!(says(0, "pwd -P").trim_end(), fs::canonicalize(here).unwrap().to_str().unwrap());
    assert!(!fs::read_to_string("/etc/hosts").unwrap_or_default().contains("a1-rail1"));
    gone(lab);
}

/// Takes a lab down; none of its holders is left.
fn gone(lab: Lab) {
    let holders: Vec<_> = lab.hosts().iter().map(Host::holder).collect();
    assert!(lab.is_whole());
    lab.down().unwrap();
    assert!(holders.iter().all(|holder| !holder.is_alive()));
}

fn await_end(processes: &[Process]) {
    await_that("processes end", || processes.iter().all(|process| !process.is_alive()));
}

/// Waits until a process that was started has become this program.
fn await_program(id: u32, name: &str) {
    let is_it = || fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == name);
    await_that("a program starts", is_it);
}

fn await_that(what: &str, happened: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < until, "not within the time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Sends this many bytes from one host to an address of the other, and waits for the last of their echo; returns the
/// seconds it took.
fn transfer(from: &Host, to: &Host, address: IpAddr, bytes: usize) -> f64 {
    let program = env::current_exe().unwrap();
    let sink = Worker::start(&mut to.command(&program), &format!("sink {address} {bytes}"));
    let port: u16 = sink.line().parse().unwrap();
    let target = SocketAddr::new(address, port);
    let source = Worker::start(&mut from.command(&program), &format!("source {target} {bytes}"));
    let seconds = source.line();
    seconds.parse().unwrap()
}

// --- the programs that run in hosts: this test program, started again with a role

const ROLE: &str = "WEFT_LAB_TEST_ROLE";

/// A process with a role. Dropping it ends it.
struct Worker {
    child: Child,
    lines: std::cell::RefCell<BufReader<std::process::ChildStdout>>,
    /// Closing it would be a sign to end.
    _stdin: Option<ChildStdin>,
}

impl Worker {
    fn start(command: &mut Command, role: &str) -> Self {
        command.args(["--exact", "a_process_with_a_role", "--nocapture", "--quiet"]).env(ROLE, role);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).into();
        let stdin = child.stdin.take();
        Self { child, lines, _stdin: stdin }
    }

    /// The next line that is for us; the test harness writes others.
    fn line(&self) -> String {
        let mut lines = self.lines.borrow_mut();
        loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended without a word");
            if let Some((_, words)) = line.split_once("role: ") {
                return words.trim().to_owned();
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: with a role in the environment, what `Worker` starts.
#[test]
fn a_process_with_a_role() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<_> = role.split(' ').collect();
    match words[..] {
        ["sink", address, bytes] => sink(address.parse().unwrap(), bytes.parse().unwrap()),
        ["source", target, bytes] => source(target.parse().unwrap(), bytes.parse().unwrap()),
        ["listen", address, ms] => listen(address.parse().unwrap(), Duration::from_millis(ms.parse().unwrap())),
        ["say", target] => say(target.parse().unwrap()),
        ["bridge"] => serve_bridge().unwrap(),
        ["count", address] => count_numbers(address.parse().unwrap()),
        ["number", target] => send_numbers(target.parse().unwrap()),
        ["parent"] => parent(),
        _ => panic!("{role:?} is no role"),
    }
}

/// The byte at a place of what is sent: a lost, doubled or swapped piece shows.
fn pattern(at: usize) -> u8 {
    (at % 251 + at / 65_521) as u8
}

fn sink(address: IpAddr, bytes: usize) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    println!("role: {}", listener.local_addr().unwrap().port());
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = vec![0; 1 << 17];
    let mut left = bytes;
    while left > 0 {
        let got = stream.read(&mut buffer).unwrap();
        assert!(got > 0, "the other end closed");
        let at = bytes - left;
        let is_right = |(index, byte): (usize, &u8)| *byte == pattern(at + index);
        assert!(buffer[..got].iter().enumerate().all(is_right), "something else has come");
        left -= got;
    }
    stream.write_all(b"!").unwrap();
    // The other end has seen it when it closes.
    let _ = stream.read(&mut buffer);
}

/// Waits for a datagram.
fn listen(address: IpAddr, wait: Duration) {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    println!("role: {}", socket.local_addr().unwrap().port());
    socket.set_read_timeout(Some(wait)).unwrap();
    let received = socket.recv(&mut [0; 16]).is_ok();
    println!("role: {}", if received { "received" } else { "silence" });
}

/// Sends datagrams until it is killed. A missing route counts as a loss.
fn say(target: SocketAddr) {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
    let _ = socket.send_to(b"here", target);
    println!("role: said");
    loop {
        let _ = socket.send_to(b"here", target);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Datagrams that are counted.
const COUNTED: u32 = 500;

fn count_numbers(address: IpAddr) {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    println!("role: {}", socket.local_addr().unwrap().port());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut highest, mut late) = (0, 0);
    for _ in 0..COUNTED {
        let mut number = [0; 4];
        assert_eq!(socket.recv(&mut number).unwrap(), 4);
        let number = u32::from_be_bytes(number);
        late += u32::from(number < highest);
        highest = highest.max(number);
    }
    println!("role: {highest} {late}");
}

fn send_numbers(target: SocketAddr) {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
    for number in 1_u32.. {
        let _ = socket.send_to(&number.to_be_bytes(), target);
        if number % 8 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn source(target: SocketAddr, bytes: usize) {
    let mut stream = TcpStream::connect(target).unwrap();
    let data: Vec<u8> = (0..bytes).map(pattern).collect();
    let began = Instant::now();
    stream.write_all(&data).unwrap();
    stream.read_exact(&mut [0]).unwrap();
    println!("role: {}", began.elapsed().as_secs_f64());
}

/// Makes a lab, starts a program in each host, says whose processes there are, and waits to be killed.
fn parent() {
    let lab = match Lab::up(&Plan { rate: None, ..Plan::default() }) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => return println!("role: skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let mut ids = Vec::new();
    for host in lab.hosts() {
        // Not in the pipes of this process, which is about to end.
        let mut command = host.command("sleep");
        command.arg("300").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = command.spawn().unwrap().id();
        // Before that it is entering the host, where the holder does not see it yet.
        await_program(program, "sleep");
        ids.extend([host.holder().id, program]);
    }
    println!("role: {} {} {} {}", ids[0], ids[1], ids[2], ids[3]);
    let _ = std::io::stdin().read(&mut [0]);
}
