//! `weft perf mpi`, tiny: it shows that it works with a library that is here, not how fast it is.

use std::process::{Command, Output, Stdio};
use std::{env, fs};

use serde_json::Value;

fn perf(arguments: &[&str]) -> Output {
    let common = ["--launches", "1", "--iterations", "6", "--warmup", "2", "--timeout", "600", "--json", "-"];
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", "mpi"])
        .args(arguments)
        .args(common)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The report, and what a person sees, in one line; `None` when this machine has no MPI library or no compiler.
fn report_of(arguments: &[&str]) -> Option<(Value, String)> {
    let output = perf(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(1) && (text.contains("MPI library") || text.contains("C compiler")) {
        println!("skipped: {text}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((serde_json::from_slice(&output.stdout).unwrap(), text))
}

fn rows<'a>(report: &'a Value, metric: &str) -> Vec<&'a Value> {
    let is_bound = |row: &Value| row["contestant"].as_str().is_some_and(|name| name.starts_with("bound:"));
    report["rows"].as_array().unwrap().iter().filter(|row| row["metric"] == metric && !is_bound(row)).collect()
}

#[test]
fn each_part_has_its_figures() {
    let arguments = ["--test", "latency", "--transport", "libfabric-tcp", "--vs", "none"];
    let Some((report, _)) = report_of(&arguments) else { return };
    let latency = rows(&report, "half_round_trip");
    assert!(latency.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "between two hosts, where that can be");
    let library = latency[0]["case"]["library"].as_str().unwrap();

    let (library, size) = (["--library", library], ["--size", "70K"]);
    let alone = ["--lab", "off", "--transport", "libfabric-tcp", "--vs", "none"];
    let (report, text) = report_of(&[&library[..], &size, &alone].concat()).unwrap();
    for metric in ["half_round_trip", "throughput", "message_rate", "receiver_cpu"] {
        assert_eq!(rows(&report, metric).len(), 1, "{metric}");
    }
    for metric in ["hidden", "total_time"] {
        let directions: Vec<_> =
            rows(&report, metric).iter().map(|row| row["case"]["direction"].as_str().unwrap()).collect();
        assert_eq!(directions, ["one way", "both ways"], "{metric}");
    }
    assert!(rows(&report, "hidden").iter().all(|row| (0.0..=100.0).contains(&row["median"].as_f64().unwrap())));
    assert!(text.contains("both: send and receive"), "{text}");
}

#[test]
fn many_ranks_share_this_host() {
    let many = ["--test", "allreduce,start", "--processes", "3,4", "--transport", "libfabric-tcp", "--vs", "none"];
    let Some((report, text)) = report_of(&many) else { return };
    for metric in ["collective_time", "start_to_end"] {
        let rows = rows(&report, metric);
        assert!(
            rows.iter().any(|row| row["case"]["ranks"] == 3) && rows.iter().any(|row| row["case"]["ranks"] == 4),
            "{text}"
        );
        assert!(rows.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "{text}");
    }
    assert_eq!(report["place"], "loopback", "none of them needs a network: {text}");
    assert_eq!(perf(&["--test", "start", "--processes", "1"]).status.code(), Some(2));
}

#[test]
fn fences_and_heat_have_mpi_beside_them() {
    let report = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weft"))
            .arg("perf")
            .args(words)
            .args(["--ranks", "2", "--launches", "1", "--iterations", "5", "--timeout", "600", "--json", "-"])
            .args(["--vs", "libfabric-tcp", "--transport", "shm"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(1) && (text.contains("MPI library") || text.contains("C compiler")) {
            println!("skipped: {text}");
            return None;
        }
        assert_eq!(output.status.code(), Some(0), "{words:?}: {text}");
        Some(serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    for (words, metric, has_cpu) in [
        (&["fence", "--puts", "1"][..], "put_and_fence_time", true),
        (&["heat", "--plate", "24", "--steps", "12"], "time_to_solution", false),
    ] {
        let Some(report) = report(words) else { return };
        let of_mpi = |metric: &str| {
            let is_peer = |row: &&&Value| row["contestant"].as_str().unwrap().ends_with(":libfabric-tcp");
            rows(&report, metric).iter().filter(is_peer).map(|row| row["median"].as_f64().unwrap()).collect::<Vec<_>>()
        };
        let (times, cpu) = (of_mpi(metric), of_mpi("cpu"));
        assert!(!times.is_empty() && times.iter().chain(&cpu).all(|value| *value > 0.0), "{report}");
        assert_eq!(!cpu.is_empty(), has_cpu, "{report}");
    }
}

/// A suite that is one program of our own, whose verification says this.
fn suite_that_says(verification: &str) -> std::path::PathBuf {
    let folder = env::temp_dir().join(format!("test-of-weft-perf-nas-{verification}-{}", std::process::id()));
    let program = format!(
        "#include <mpi.h>\n#include <stdio.h>\nint main(int count, char **words) {{\n  int rank, size, word = 1;\n  \
         MPI_Init(&count, &words);\n  MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n  \
         MPI_Comm_size(MPI_COMM_WORLD, &size);\n  MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);\n  \
         if (rank == 0)\n    printf(\" Time in seconds = 0.01\\n \
         Mop/s total = %d\\n Verification = {verification}\\n\", size);\n  return MPI_Finalize();\n}}\n"
    );
    let make = "include ../config/make.def\nall:\n\t$(MPICC) $(CMPI_INC) $(CFLAGS) -o $(BINDIR)/is.$(CLASS).x is.c \
                $(CMPI_LIB)\n";
    for (file, text) in [
        ("IS/is.c", program.as_str()),
        ("IS/Makefile", make),
        ("Makefile", "is:\n\tcd IS && $(MAKE) CLASS=$(CLASS)\n"),
        ("sys/make.common", ""),
        ("config/make.def", "MPICC = false\n"),
    ] {
        let path = folder.join("NPB-MPI").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn nas(folder: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", "nas", "--npb", folder, "--benchmark", "is", "--processes", "2,3"])
        .args(["--transport", "libfabric-tcp", "--vs", "none", "--launches", "1", "--timeout", "600", "--json", "-"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (output.status.code(), stdout, stderr)
}

#[test]
fn nas_benchmarks_are_built_run_and_verified() {
    let (code, _, missing) = nas("/nowhere");
    if missing.contains("MPI library") || missing.contains("C compiler") {
        println!("skipped: {missing}");
        return;
    }
    assert_eq!(code, Some(1), "{missing}");
    assert!(missing.contains("/nowhere has no NAS parallel benchmarks") && missing.contains("https://"), "{missing}");

    let folder = suite_that_says("SUCCESSFUL");
    let (code, json, text) = nas(&folder.display().to_string());
    let _ = fs::remove_dir_all(&folder);
    if text.contains("apt install make") {
        println!("skipped: {text}");
        return;
    }
    assert_eq!(code, Some(0), "{text}");
    let report: Value = serde_json::from_str(&json).unwrap();
    let rates = rows(&report, "operation_rate");
    assert!(rates.len() >= 2, "{text}");
    // The program says how many ranks it has.
    assert!(rates.iter().all(|row| row["median"].as_f64() == row["case"]["ranks"].as_f64()), "{text}");

    let folder = suite_that_says("UNSUCCESSFUL");
    let (code, _, text) = nas(&folder.display().to_string());
    let _ = fs::remove_dir_all(&folder);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("its results are wrong"), "{text}");
}

#[test]
fn weft_carries_messages_where_its_provider_is() {
    let output = perf(&["--lab", "off", "--test", "latency,overlap", "--size", "8", "--vs", "libfabric-tcp"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(1)
        && ["MPI library", "C compiler", "libweft-fi.so"].iter().any(|what| text.contains(what))
    {
        println!("skipped: {text}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for metric in ["half_round_trip", "communication_time"] {
        let is_pair = |one: &&Value| {
            one["metric"] == metric && one["contestant"] == "mpi:weft" && one["peer"] == "mpi:libfabric-tcp"
        };
        let comparison = report["comparisons"].as_array().unwrap().iter().find(is_pair).expect("both were measured");
        assert!(comparison["ratio"].as_f64().unwrap() > 0.0, "{comparison}");
    }
}

#[test]
fn nothing_is_left_behind() {
    let folder = env::temp_dir().join(format!("test-of-weft-perf-mpi-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let left_by = |end: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weft"))
            .args([
                "perf",
                "mpi",
                "--lab",
                "off",
                "--test",
                "rate",
                "--transport",
                "libfabric-tcp",
                "--vs",
                "none",
                "--launches",
                "1",
            ])
            .args(end)
            .env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let names = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        let ours: Vec<_> = names.filter(|name| name.starts_with("weft-")).collect();
        (ours, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (left, text) = left_by(&["--iterations", "10"]);
    assert!(left.is_empty(), "{left:?}: {text}");
    // Too much for a second: it is given up.
    let (left, text) = left_by(&["--iterations", "90000000", "--timeout", "1"]);
    assert!(left.is_empty(), "{left:?}: {text}");
    let reasons = ["too long", "MPI library", "C compiler"];
    assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    let refused = |arguments: &[&str], code, because: &str| {
        let output = perf(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(because), "{text}");
    };
    let nowhere = ["--mpi", "/nonexistent", "--library", "mpich"];
    refused(&nowhere, 1, "mpich is not here; pip install mpich");
    refused(&["--connect", "192.0.2.1"], 2, "on one machine");
    refused(&["--library", "lam"], 2, "possible values");
}
