//! `weft lab` as it is used. Each test has a directory of its own for what is remembered of labs, so that it sees no
//! others.
//!
//! Where labs cannot be had, each test says why and passes.

mod links;
mod rails;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A user's runtime directory. Dropping it ends the labs that are known there.
struct Runtime(PathBuf);

impl Runtime {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("weft-lab-{}-{test}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.arg("lab").args(arguments).env("XDG_RUNTIME_DIR", &self.0).stdin(Stdio::null());
        command
    }

    fn lab(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Makes a lab. Whether it is there; a line that says why not, where it cannot be had.
    fn up(&self, arguments: &[&str]) -> bool {
        let output = self.lab(&[&["up"], arguments].concat());
        let complaint = said(&output);
        if complaint.contains("is not installed") || complaint.contains("does not let you make ") {
            println!("skipped: {complaint}");
            return false;
        }
        assert_eq!(output.status.code(), Some(0), "{complaint}");
        true
    }

    /// The page of `weft stat` on a process.
    fn stat(&self, process: u32) -> String {
        let mut stat = Command::new(env!("CARGO_BIN_EXE_weft"));
        stat.args(["stat", &process.to_string()]).env("XDG_RUNTIME_DIR", &self.0);
        String::from_utf8_lossy(&stat.output().unwrap().stdout).into_owned()
    }

    /// The same, once it has four rails.
    fn rails(&self, process: u32) -> String {
        let page = self.stat(process);
        if page.contains("10.3.0.1:") { page } else { String::new() }
    }

    fn labs(&self) -> Vec<Value> {
        let output = self.lab(&["list", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A test that has failed has said more than this could.
        let _ = self.command(&["down", "--all"]).output();
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn kill(id: &Value) {
    assert!(Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap().success());
}

#[test]
fn a_lab_is_made_used_listed_and_ended() {
    let runtime = Runtime::new("used");
    if !runtime.up(&["--links", "2", "--name", "two"]) || !runtime.up(&["--hosts", "3", "--rate", "none"]) {
        return;
    }
    let names: Vec<_> = runtime.labs().iter().map(|lab| lab["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["lab", "two"]);
    assert!(said(&runtime.lab(&["list"])).contains("no limit"));

    let output =
        runtime.lab(&["exec", "--name", "two", "1", "--", "sh", "-c", "ip address; echo $WEFT_LAB_HOST; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("10.1.0.2/24") && said(&output).ends_with("\n1\n"), "{}", said(&output));
    let output = runtime.command(&["shell", "2"]).env("SHELL", "/bin/pwd").current_dir("/usr").output().unwrap();
    assert_eq!(said(&output), "/usr\n");

    assert_eq!(said(&runtime.lab(&["down", "--name", "two"])), "Lab two is down.\n");
    assert_eq!(runtime.labs().len(), 1);
    assert_eq!(said(&runtime.lab(&["down", "--all"])), "Lab lab is down.\n");
    assert!(runtime.labs().is_empty());
}

/// A script in which mounts are its own alone. `None`: this system does not allow that.
fn with_own_mounts(script: &str) -> Option<Command> {
    let own = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-ec", script]).env("WEFT", env!("CARGO_BIN_EXE_weft")).stdin(Stdio::null());
        command
    };
    let is_allowed = own("mount -t tmpfs none /tmp").output().is_ok_and(|output| output.status.success());
    if !is_allowed {
        println!("skipped: this system does not let you mount in a namespace of your own");
    }
    is_allowed.then(|| own(script))
}

#[test]
fn labs_of_another_runtime_directory_are_not_listed() {
    let runtime = Runtime::new("own");
    // The same user's lab, made without the variable: it is remembered below /tmp.
    let script = "mount -t tmpfs none /tmp; mkdir -m 700 /tmp/weft-0 /tmp/own; echo \"$LAB\" > /tmp/weft-0/other.lab
        env -u XDG_RUNTIME_DIR \"$WEFT\" lab list --json; XDG_RUNTIME_DIR=/tmp/own \"$WEFT\" lab list";
    let Some(mut list) = with_own_mounts(script) else { return };
    if !runtime.up(&[]) {
        return;
    }
    let mut lab = runtime.labs().remove(0);
    lab["name"] = "other".into();
    let output = list.env("LAB", lab.to_string()).output().unwrap();
    let listed = said(&output);
    let (with, without) = listed.split_once("\n]\n").expect("a list of one lab");
    assert!(with.contains("\"other\"") && without.starts_with("No lab is up"), "{listed}");
}

#[test]
fn without_proc_it_says_what_is_missing() {
    let Some(mut list) = with_own_mounts("mount -t tmpfs none /proc; exec \"$WEFT\" lab list") else { return };
    let output = list.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("mount -t proc proc /proc"), "{}", said(&output));
}

#[test]
fn iwarp_crosses_a_link() {
    let runtime = Runtime::new("iwarp");
    if !runtime.up(&[]) {
        return;
    }
    let weft = env!("CARGO_BIN_EXE_weft");
    let mut server = runtime
        .command(&["exec", "1", "--", weft, "rping", "-s", "-a", "10.0.0.2", "-C", "3"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening on 10.0.0.2"), "{line}");
    let client = runtime.lab(&["exec", "0", "--", weft, "rping", "-c", "-a", "10.0.0.2", "-C", "3", "-V"]);
    assert_eq!(client.status.code(), Some(0), "{}", said(&client));
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let runtime = Runtime::new("refused");
    for (arguments, words) in [
        (&["up", "--hosts", "65"][..], "2 to 64"),
        (&["up", "--links", "0"], "1 to 8"),
        (&["up", "--mtu", "68"], "1280"),
        (&["up", "--rate", "fast"], "no rate"),
        (&["up", "--rate", "1K"], "100 kb/s"),
        (&["up", "--name", "../x"], "no name"),
        (&["down", "--all", "--name", "x"], "--all"),
        (&["exec", "0"], "CMD"),
        (&["cut", "eth0"], "no link"),
        (&["cut", "rail0", "--way", "slowly"], "no way"),
        (&["mend"], "LINK"),
        (&["shape", "rail0"], "--off"),
        (&["shape", "rail0", "--off", "--loss", "1"], "--off"),
        (&["shape", "rail0", "--loss", "101"], "0 to 100"),
        (&["shape", "rail0", "--delay", "10"], "no time"),
        (&["shape", "rail0", "--delay", "1000s"], "0 to 10s"),
        (&["shape", "rail0", "--rate", "1K"], "100 kb/s"),
        (&["shape", "rail0", "--rate", "1M", "--queue", "1"], "66000"),
    ] {
        let output = runtime.lab(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }
    for arguments in [
        &["down"][..],
        &["shell", "0"],
        &["exec", "0", "--", "true"],
        &["cut", "rail0"],
        &["mend", "--all"],
        &["links"],
    ] {
        let output = runtime.lab(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(said(&output).contains("there is no lab"), "{}", said(&output));
    }
    if runtime.up(&[]) {
        let output = runtime.lab(&["up"]);
        assert_eq!((output.status.code(), said(&output).contains("is up already")), (Some(1), true));
        let output = runtime.lab(&["exec", "2", "--", "true"]);
        assert_eq!((output.status.code(), said(&output).contains("0 to 1")), (Some(2), true));
        for (arguments, words) in [
            (&["cut", "rail1"][..], "rail0 to rail0"),
            (&["cut", "2:rail0"], "hosts are 0 to 1"),
            (&["mend", "rail1"], "rail0 to rail0"),
            (&["shape", "rail1", "--off"], "rail0 to rail0"),
            (&["shape", "rail0", "--rate", "2G"], "--rate none"),
            (&["cut", "rail0", "--way", "send"], "0:rail0"),
        ] {
            let output = runtime.lab(arguments);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
            assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
        }
        assert_eq!(runtime.lab(&["exec", "0", "--", "nonesuch"]).status.code(), Some(127));
    }
}

#[test]
fn a_lab_whose_keeper_or_part_was_killed_is_cleaned_up() {
    let runtime = Runtime::new("killed");
    if !runtime.up(&[]) {
        return;
    }
    let lab = runtime.labs().remove(0);
    kill(&lab["keeper"]["id"]);
    let left = || fs::read_dir(runtime.0.join("weft")).unwrap().count();
    while !runtime.labs().is_empty() {}
    assert_eq!(left(), 0);
    // The name can be used again.
    assert!(runtime.up(&[]));
    let lab = runtime.labs().remove(0);
    kill(&lab["hosts"][1]["holder"]["id"]);
    // The keeper notices, and ends the rest.
    while !runtime.labs().is_empty() {}
    assert_eq!(left(), 0);
}

#[test]
fn a_link_is_cut_shown_and_mended() {
    let runtime = Runtime::new("cut");
    if !runtime.up(&["--links", "2"]) {
        return;
    }
    let carrier = || {
        let output = runtime.lab(&["exec", "0", "--", "ip", "link", "show", "rail1"]);
        !said(&output).contains("NO-CARRIER")
    };
    assert!(carrier());
    let output = runtime.lab(&["cut", "rail1"]);
    assert_eq!((output.status.code(), carrier()), (Some(0), false), "{}", said(&output));
    assert_eq!(runtime.lab(&["cut", "0:rail0", "--way", "receive"]).status.code(), Some(0));
    let links: Vec<Value> = serde_json::from_slice(&runtime.lab(&["links", "--json"]).stdout).unwrap();
    let cuts: Vec<_> = links.iter().map(|link| link["cut"].to_string()).collect();
    assert_eq!(cuts, [r#"["receive"]"#, r#"["carrier"]"#, "[]", r#"["carrier"]"#]);
    assert!(said(&runtime.lab(&["links"])).contains("0:rail1  carrier"));
    assert_eq!(said(&runtime.lab(&["mend", "1:rail1"])), "Link 1:rail1 of lab lab is whole.\n");
    assert!(carrier());
    assert_eq!(said(&runtime.lab(&["mend", "--all"])), "All links of lab lab are whole.\n");
    assert!(!said(&runtime.lab(&["links"])).contains("receive"));
}

#[test]
fn a_link_is_shaped_shown_and_outlived_by_its_lab() {
    let runtime = Runtime::new("shape");
    if !runtime.up(&["--switch"]) {
        return;
    }
    let output = runtime.lab(&["shape", "rail0", "--delay", "30ms", "--duplicate", "100%"]);
    assert_eq!(said(&output), "Link rail0 of lab lab is shaped: delay 30ms, duplicate 100 %.\n");
    // Each of two directions takes this long, and the kernel of a host reports its own.
    let weft = env!("CARGO_BIN_EXE_weft");
    let mut server = runtime
        .command(&["exec", "1", "--", weft, "rping", "-s", "-a", "10.0.0.2", "-C", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let began = Instant::now();
    let client = runtime.lab(&["exec", "0", "--", weft, "rping", "-c", "-a", "10.0.0.2", "-C", "2", "-V"]);
    assert_eq!(client.status.code(), Some(0), "{}", said(&client));
    assert!(began.elapsed() > Duration::from_millis(120), "connecting and talking are two round trips at least");
    assert_eq!(server.wait().unwrap().code(), Some(0));

    let links: Vec<Value> = serde_json::from_slice(&runtime.lab(&["links", "--json"]).stdout).unwrap();
    assert_eq!((&links[1]["to_host"]["delay_ns"], &links[1]["from_host"]["delay_ns"]), (&json!(30_000_000), &json!(0)));
    assert!(said(&runtime.lab(&["links"])).contains("delay 30ms, duplicate 100 %"));
    // A packet queue makes no copies.
    assert_eq!(links[1]["carrier"], "rings");
    let refused = runtime.lab(&["shape", "rail0", "--duplicate", "1", "--carrier", "queue"]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("--carrier rings"), "{}", said(&refused));

    assert_eq!(said(&runtime.lab(&["shape", "rail0", "--off"])), "Link rail0 of lab lab has no shape.\n");
    assert_eq!(said(&runtime.lab(&["down"])), "Lab lab is down.\n");
}

#[test]
fn help_has_examples() {
    let runtime = Runtime::new("help");
    for command in ["", "up", "exec", "shell", "list", "cut", "mend", "shape", "links", "down"] {
        let arguments = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let help = said(&runtime.lab(&arguments));
        assert!(help.contains("Example") && !help.contains("keep "), "{command}: {help}");
    }
}

#[test]
fn clusters_are_made_from_a_line_or_a_file_named_drawn_and_shaped_while_they_are_up() {
    let runtime = Runtime::new("clusters");
    if !runtime.up(&["--cluster", "2x2", "--wan", "3ms,1G,loss=0.01"]) {
        return;
    }
    // From inside, that lab is meant, and hosts have names.
    let inside = ["exec", "a1", "--", env!("CARGO_BIN_EXE_weft"), "lab"];
    let output = runtime.lab(&[&inside[..], &["exec", "b0", "--", "cat", "/proc/sys/kernel/hostname"]].concat());
    assert_eq!(said(&output), "b0\n");
    assert!(said(&runtime.lab(&[&inside[..], &["links"]].concat())).contains("a-b"));
    assert!(runtime.up(&["--name", "other"]));
    let output = runtime.lab(&[&inside[..], &["exec", "--name", "other", "0", "--", "true"]].concat());
    assert!(said(&output).contains("no host of lab other can be entered"), "{}", said(&output));
    assert_eq!(said(&runtime.lab(&[&inside[..], &["down", "--name", "other"]].concat())), "Lab other is down.\n");

    let output = runtime.lab(&["shape", "wan", "--delay", "7ms"]);
    assert_eq!(said(&output), "Link wan of lab lab is shaped: delay 7ms.\n");
    let links: Value = serde_json::from_slice(&runtime.lab(&["links", "--json"]).stdout).unwrap();
    assert_eq!(links[4]["between"], json!(["a", "b"]));
    assert_eq!(links[4]["back"]["delay_ns"], 7_000_000);
    assert!(links[4]["carrier"].is_string() && links[0]["carrier"].is_null(), "{links}");
    for (cut, shown) in [
        (&["cut", "wan", "--way", "silent"][..], r#"["silent"]"#),
        (&["cut", "b-a", "--way", "send"], r#"["silent","b to a"]"#),
        (&["mend", "a-b"], "[]"),
        (&["cut", "a-b"], r#"["carrier"]"#),
    ] {
        let output = runtime.lab(cut);
        assert_eq!(output.status.code(), Some(0), "{cut:?}: {}", said(&output));
        let links: Value = serde_json::from_slice(&runtime.lab(&["links", "--json"]).stdout).unwrap();
        assert_eq!(links[4]["cut"].to_string(), shown, "{cut:?}");
    }
    assert!(said(&runtime.lab(&["links"])).contains("a-b       carrier"));
    assert!(said(&runtime.lab(&["graph"])).contains("cut (carrier)"));
    assert_eq!(runtime.lab(&["mend", "--all"]).status.code(), Some(0));
    let picture = said(&runtime.lab(&["graph"]));
    assert!(
        !picture.contains("cut (") && picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"),
        "{picture}"
    );
    assert!(picture.contains("delay 7ms") && picture.contains("rail0 10.0.1.2"), "{picture}");

    for (arguments, code, words) in [
        (&["shape", "a-c", "--delay", "1ms"][..], 2, "there are a-b"),
        (&["cut", "a-c"], 2, "there are a-b"),
        (&["cut", "wan", "--way", "receive"], 2, "a-b --way send"),
        (&["exec", "c0", "--", "true"], 2, "0 to 3, or by name a0 to a1, b0 to b1"),
        (&["up", "--cluster", "1x2"], 2, "2 to 8 clusters"),
        (&["up", "--wan", "1ms"], 2, "--cluster"),
        (&["mpiexec", "-n", "3", "--ppn", "1", "--hosts", "a0,b0", "true"], 2, "room for 2"),
        (&["mpiexec", "-n", "2", "--mpiexec", "/bin/true", "true"], 1, "not the launcher of MPICH"),
    ] {
        let output = runtime.lab(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }
    // Its keeper's death is the lab's, and what launchers had of it goes too.
    let launchers = runtime.0.join("weft/lab.mpi");
    fs::create_dir(&launchers).unwrap();
    fs::write(launchers.join("rsh"), "").unwrap();
    let lab = runtime.labs().remove(0);
    kill(&lab["keeper"]["id"]);
    let holders: Vec<_> = lab["hosts"].as_array().unwrap().iter().map(|host| host["holder"]["id"].clone()).collect();
    let is_gone = || holders.iter().all(|id| !PathBuf::from(format!("/proc/{id}")).exists());
    let until = Instant::now() + Duration::from_secs(60);
    while !is_gone() {
        assert!(Instant::now() < until, "hosts outlive their lab");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(runtime.labs().is_empty() && !launchers.exists());

    let file = runtime.0.join("two.toml");
    fs::write(&file, "[[cluster]]\nname = \"a\"\nhosts = [\"x\"]\n[[cluster]]\nname = \"b\"\nhosts = 1\n").unwrap();
    let file = file.to_str().unwrap();
    assert!(runtime.up(&["--topology", file]));
    assert_eq!(said(&runtime.lab(&["exec", "x", "--", "cat", "/proc/sys/kernel/hostname"])), "x\n");
    fs::write(file, "links = 1\nhost = 3\n").unwrap();
    let output = runtime.lab(&["up", "--topology", file, "--name", "other"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("line 2") && said(&output).contains("`hosts`"), "{}", said(&output));
}
