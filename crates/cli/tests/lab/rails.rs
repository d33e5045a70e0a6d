//! What goes over the links of a lab while they are cut, and mended, and addresses change.

use super::*;

/// Rails are cut and mended at random while a file crosses them, and it is whole.
#[test]
fn a_file_is_whole_that_has_crossed_four_rails_which_were_cut() {
    let Some(stat) = move_a_file_while_rails_are_cut("rails", "1") else { return };
    assert_eq!(calls_for_another_engine(&stat), Some([false; 2]), "{stat}");
}

/// The same where each side has two engines, and each serves two of the rails.
#[test]
fn a_file_is_whole_whose_rails_two_engines_serve() {
    let Some(stat) = move_a_file_while_rails_are_cut("engines", "2") else { return };
    assert_eq!(calls_for_another_engine(&stat), Some([true; 2]), "{stat}");
}

/// Whether a page of `weft stat` has receive calls, and send calls, that an engine has made for another one.
fn calls_for_another_engine(page: &str) -> Option<[bool; 2]> {
    let any = |what: &str| {
        let label = format!("{what} calls for another engine");
        let line = page.lines().find_map(|line| line.trim().strip_prefix(&label))?;
        Some(line.split_whitespace().any(|word| word != "0"))
    };
    Some([any("receive")?, any("send")?])
}

/// Returns the server's page of `weft stat` at some time in the middle. `None`: there can be no lab.
fn move_a_file_while_rails_are_cut(test: &str, engines: &str) -> Option<String> {
    let runtime = Runtime::new(test);
    if !runtime.up(&["--links", "4", "--rate", "200M"]) {
        return None;
    }
    let engines = ["--engines", engines];
    let demo = ["exec", "1", "--", env!("CARGO_BIN_EXE_weft"), "demo", "--listen", "edge://10.0.0.2?rails=all"];
    let demo = [&demo[..], &engines].concat();
    let mut server = runtime.command(&demo).stderr(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    words.read_line(&mut line).unwrap();
    let program = env!("CARGO_BIN_EXE_weft");
    let client = [
        &["exec", "0", "--", program, "demo", "--connect", "edge://10.0.0.2?rails=rail0,rail1,rail2,rail3"][..],
        &["--size", "16M", "--seconds", "0.01", "--json"],
        &engines,
    ]
    .concat();
    // A program that calls over a link without a carrier has no route, and continues to call: it may be mended.
    assert_eq!(runtime.lab(&["cut", "rail0", "--way", "carrier"]).status.code(), Some(0));
    let client = runtime.command(&client).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(runtime.lab(&["mend", "rail0"]).status.code(), Some(0));
    let ways = ["silent", "carrier", "send", "receive"];
    let done = std::thread::spawn(move || client.wait_with_output().unwrap());
    let mut cuts = 0;
    let mut stat = String::new();
    while !done.is_finished() && cuts < 200 {
        // A program that connects does so over the first rail, and must find a path.
        std::thread::sleep(Duration::from_millis(if cuts == 0 { 500 } else { 50 }));
        let (rail, way) = (format!("rail{}", (cuts * 7 + 1) % 4), ways[cuts * 3 % 4]);
        let link = if matches!(way, "send" | "receive") { format!("0:{rail}") } else { rail };
        assert_eq!(runtime.lab(&["cut", &link, "--way", way]).status.code(), Some(0), "{link} {way}");
        std::thread::sleep(Duration::from_millis(100));
        stat = if stat.is_empty() { runtime.rails(server.id()) } else { stat };
        assert_eq!(runtime.lab(&["mend", &link]).status.code(), Some(0), "{link}");
        cuts += 1;
    }
    let output = done.join().unwrap();
    if !output.status.success() {
        // It would wait for ever, and what it says may explain it.
        std::thread::sleep(Duration::from_secs(1));
        let _ = server.kill();
    }
    let status = server.wait().unwrap();
    words.read_to_string(&mut line).unwrap();
    assert!(status.success() && output.status.success(), "{status}: {line}, {}: {}", output.status, said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(stat.contains("rail3") && stat.contains("10.3.0.1:") && stat.contains("live"), "{stat}");
    let found = &report["settings"];
    assert_eq!((&found["identical"], &found["transport"]), (&json!(true), &json!("edge")), "{cuts} cuts: {report}");
    Some(stat)
}

/// Several flows go over one link, each a rail with ports of its own.
#[test]
fn flows_over_one_link_are_rails() {
    let runtime = Runtime::new("flows");
    if !runtime.up(&["--links", "1", "--rate", "200M"]) {
        return;
    }
    let program = env!("CARGO_BIN_EXE_weft");
    let server = ["exec", "1", "--", program, "rping", "-s", "-a", "edge://10.0.0.2?rails=rail0*4"];
    let mut server = runtime.command(&server).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().unwrap().to_owned();
    let client = ["exec", "0", "--", program, "rping", "-c", "-a", "edge://10.0.0.2?rails=rail0*4", "-p", &port];
    let client = [&client[..], &["-C", "1000000000", "-S", "30000"]].concat();
    let mut client = runtime.command(&client).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // With the own port and the peer's.
    let live = |page: &str| {
        let lines = page.lines().filter(|line| line.contains("rail0") && line.contains("live"));
        lines
            .filter_map(|line| line.split_whitespace().find(|word| word.contains("10.0.0.2:")).map(str::to_owned))
            .collect()
    };
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..600 {
        found = live(&runtime.stat(client.id()));
        if found.len() == 4 || !matches!(client.try_wait(), Ok(None)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let page = runtime.stat(client.id());
    for process in [&mut client, &mut server] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    assert_eq!(found.len(), 4, "{line}\n{page}");
}

/// Bytes that have left by each interface of a host.
fn sent_by_each(runtime: &Runtime, host: &str) -> Vec<u64> {
    let output = runtime.lab(&["exec", host, "--", "ip", "-s", "-j", "link", "show"]);
    let links: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let rails = links.iter().filter(|link| link["ifname"].as_str().is_some_and(|name| name.starts_with("rail")));
    rails.map(|link| link["stats64"]["tx"]["bytes"].as_u64().unwrap()).collect()
}

/// Routes name one interface for all hosts in a subnet; each rail leaves by its own all the same.
#[test]
fn rails_of_one_subnet_leave_by_their_own_interfaces() {
    let runtime = Runtime::new("subnet");
    if !runtime.up(&["--links", "4", "--rate", "200M"]) {
        return;
    }
    for host in ["0", "1"] {
        let readdress = format!(
            "for rail in 0 1 2 3; do ip address flush dev rail$rail; \
             ip address add 10.9.0.$((16 * (1 + {host}) + rail))/24 dev rail$rail; done"
        );
        let output = runtime.lab(&["exec", host, "--", "sh", "-c", &readdress]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let program = env!("CARGO_BIN_EXE_weft");
    // Not the one that the routes name.
    let listen = ["exec", "1", "--", program, "demo", "--transport", "edge", "--listen", "10.9.0.34"];
    let mut server = runtime.command(&listen).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening on 10.9.0.34"), "{line}");
    let before = ["0", "1"].map(|host| sent_by_each(&runtime, host));
    let client = [
        &["exec", "0", "--", program, "demo", "--transport", "edge", "--connect", "10.9.0.34"][..],
        &["--size", "16M", "--seconds", "0.01"],
    ]
    .concat();
    let output = runtime.lab(&client);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(server.wait().unwrap().success());
    for (host, before) in ["0", "1"].into_iter().zip(before) {
        let sent: Vec<_> = sent_by_each(&runtime, host).iter().zip(before).map(|(now, before)| now - before).collect();
        // 16 MB each way. Where none of a rail's leave, a few KB of ARP and the like do.
        assert!(sent.len() == 4 && sent.iter().all(|sent| *sent > 100_000), "host {host}: {sent:?}");
    }
}

/// First the caller's address changes, then the listener's, whose port is bound to the address that is removed.
#[test]
fn a_connection_goes_on_when_the_only_address_of_a_host_changes() {
    let runtime = Runtime::new("readdressed");
    if !runtime.up(&["--links", "1", "--rate", "100M"]) {
        return;
    }
    let program = env!("CARGO_BIN_EXE_weft");
    let server = ["exec", "1", "--", program, "rping", "-s", "-a", "edge://10.0.0.2"];
    let mut server = runtime.command(&server).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().unwrap().to_owned();
    let client = ["exec", "0", "--", program, "rping", "-c", "-a", "edge://10.0.0.2", "-p", &port];
    // At the rate of the link this takes more than eight seconds.
    let client = [&client[..], &["-C", "5000", "-S", "20000", "-V"]].concat();
    let mut client = runtime.command(&client).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let await_line = |what: &str| {
        let (start, mut page) = (Instant::now(), String::new());
        while !page.contains(what) && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
            page = runtime.stat(client.id());
        }
        assert!(page.contains(what), "{what} is missing in\n{page}");
    };
    await_line("10.0.0.2:");
    for (host, new) in [("0", "10.0.0.77"), ("1", "10.0.0.78")] {
        let readdress = format!("ip address flush dev rail0 && sleep 0.3 && ip address add {new}/24 dev rail0");
        let output = runtime.lab(&["exec", host, "--", "sh", "-c", &readdress]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        await_line(&format!("{new}:"));
    }
    assert!(matches!(client.try_wait(), Ok(None)), "it was over before its end had moved");
    let output = client.wait_with_output().unwrap();
    if !output.status.success() {
        let _ = server.kill();
    }
    assert!(output.status.success(), "{}", said(&output));
    assert!(server.wait().unwrap().success());
}

/// A program that calls over a link without a carrier is not turned away at once: it may be mended in time.
#[test]
fn a_call_waits_for_its_link_to_be_mended() {
    let runtime = Runtime::new("mended");
    if !runtime.up(&["--links", "2"]) {
        return;
    }
    let program = env!("CARGO_BIN_EXE_weft");
    let server = ["exec", "1", "--", program, "rping", "-s", "-a", "edge://10.0.0.2"];
    let mut server = runtime.command(&server).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    // The interface of the caller is down.
    assert_eq!(runtime.lab(&["cut", "1:rail0"]).status.code(), Some(0));
    let client = ["exec", "0", "--", program, "rping", "-c", "-a", "edge://10.0.0.2?rails=one", "-C", "2", "-V"];
    let client = runtime.command(&[&client[..], &["--timeout", "60"]].concat()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(runtime.lab(&["mend", "1:rail0"]).status.code(), Some(0));
    let output = client.wait_with_output().unwrap();
    if !output.status.success() {
        let _ = server.kill();
    }
    assert!(output.status.success(), "{}", said(&output));
    assert!(server.wait().unwrap().success());
}
