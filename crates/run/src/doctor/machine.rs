//! What the machine permits, as far as Weft needs it: found out by trying.

use std::fs;
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::thread::available_parallelism;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use weft::verbs::Context;
use weft_command::amount::Unit;
use weft_command::rights::{packet_socket, user_namespaces};
use weft_driver::board;

use super::finding::{Finding, Topic};
use super::shell::Shell;

/// File descriptors that a small job needs, and those for which a job of some hundred ranks is no trouble.
const FEW_DESCRIPTORS: u64 = 256;
const SOME_DESCRIPTORS: u64 = 4096;
/// Below this many bytes programs of several ranks run out of /dev/shm. Containers have 64 MiB by default.
const SMALL_SHM: u64 = 256 << 20;

/// All that was found.
pub(super) fn findings(shell: &Shell) -> Vec<Finding> {
    let mut all = vec![nic(), descriptors(limit(Resource::RLIMIT_NOFILE)), locked(limit(Resource::RLIMIT_MEMLOCK))];
    all.push(ports(shell));
    all.push(cores(available_parallelism().map_or(0, usize::from)));
    all.push(attach(own_memory_is_readable(), &line("/proc/sys/kernel/yama/ptrace_scope")));
    all.push(shared(&fs::read_to_string("/proc/self/mounts").unwrap_or_default()));
    all.push(match packet_socket() {
        Ok(_) => Topic::Machine.ok("packet sockets can be opened, for raw links"),
        Err(reason) => Topic::Machine.ok(format!("no packet sockets ({reason}): only raw links need them")),
    });
    all.push(match user_namespaces() {
        Ok(_) => Topic::Machine.ok("user namespaces can be made: `weft lab` works without root"),
        Err(reason) => Topic::Machine.note(format!("`weft lab` does not work without root: {reason}"), ""),
    });
    all.extend(boards());
    all.extend(container());
    all.extend(subsystem(&line("/proc/version")));
    all
}

/// The first line of a file of the kernel's; empty where there is none.
fn line(path: &str) -> String {
    fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
}

/// Whether a NIC opens: epoll, eventfd, threads, the handler for faults in the program's memory.
fn nic() -> Finding {
    match Context::open() {
        Ok(_) => {
            Topic::Machine.ok("a NIC opens here (it uses neither io_uring nor userfaultfd, which containers refuse)")
        }
        Err(error) => Topic::Machine.problem(format!("no NIC opens here: {error}"), ""),
    }
}

/// The soft limit. `None`: there is none.
fn limit(resource: Resource) -> Option<u64> {
    getrlimit(resource).ok().map(|(soft, _)| soft).filter(|soft| *soft != RLIM_INFINITY)
}

fn descriptors(soft: Option<u64>) -> Finding {
    let text =
        |soft: u64| format!("this shell's programs may have {soft} file descriptors; a rank needs two for each peer");
    let todo = format!("ulimit -n {SOME_DESCRIPTORS}");
    match soft {
        Some(soft) if soft < FEW_DESCRIPTORS => Topic::Machine.problem(text(soft), todo),
        Some(soft) if soft < SOME_DESCRIPTORS => Topic::Machine.note(text(soft), format!("for many ranks: {todo}")),
        Some(soft) => Topic::Machine.ok(text(soft)),
        None => Topic::Machine.ok("file descriptors have no limit"),
    }
}

/// Programs for RDMA NICs raise it, since those lock memory. Weft does not.
fn locked(soft: Option<u64>) -> Finding {
    let limit = soft.map_or("no limit".to_owned(), |bytes| Unit::Bytes.amount(bytes as f64));
    Topic::Machine.ok(format!("memory that may be locked (ulimit -l): {limit}; Weft locks none"))
}

fn cores(processors: usize) -> Finding {
    match processors {
        1 => Topic::Machine.note("there is one core: a program that polls memory waits for the NIC's thread", ""),
        processors => Topic::Machine.ok(format!("{processors} cores")),
    }
}

/// Whether this process may read its own memory by the call by which ranks read that of others: a filter of system
/// calls refuses it to all.
fn own_memory_is_readable() -> bool {
    let from = *b"weft";
    let mut to = [0; 4];
    let remote = RemoteIoVec { base: from.as_ptr() as usize, len: from.len() };
    let read = process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut to)], &[remote]);
    read == Ok(from.len()) && to == from
}

/// Cross-memory attach: `scope` is Yama's, 0 where there is none.
fn attach(is_permitted: bool, scope: &str) -> Finding {
    let cost = "payloads through shared memory are copied once more";
    match (is_permitted, scope.trim()) {
        (false, _) => Topic::Machine.note(
            format!("this system refuses process_vm_readv: {cost}"),
            "in a container: --cap-add SYS_PTRACE, or a seccomp profile that allows it",
        ),
        (true, "" | "0") => Topic::Machine.ok("ranks of one host can read each other's memory"),
        (true, scope) => Topic::Machine.note(
            format!(
                "kernel.yama.ptrace_scope is {scope}: ranks of one host cannot read each other's memory, and {cost}"
            ),
            "as root: sysctl kernel.yama.ptrace_scope=0",
        ),
    }
}

/// `/dev/shm`, by the list of mounts.
fn shared(mounts: &str) -> Finding {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let Some(options) = fields
        .filter(|fields| fields.get(1) == Some(&"/dev/shm"))
        .filter_map(|fields| fields.get(3).copied())
        .next_back()
    else {
        return Topic::Machine.note(
            "/dev/shm is not mounted: Weft does without, MPI libraries may not",
            "mount -t tmpfs tmpfs /dev/shm",
        );
    };
    let size = options.split(',').find_map(|option| option.strip_prefix("size=")).and_then(bytes);
    match size {
        Some(size) if size < SMALL_SHM => Topic::Machine.note(
            format!(
                "/dev/shm has {}: Weft does without, MPI libraries and other programs may run out of it",
                Unit::Bytes.amount(size as f64)
            ),
            "in a container: docker run --shm-size=1g",
        ),
        Some(size) => Topic::Machine.ok(format!("/dev/shm has {}", Unit::Bytes.amount(size as f64))),
        None => Topic::Machine.ok("/dev/shm has half of the memory"),
    }
}

/// A size as tmpfs shows it: bytes, or with k, m or g.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.trim_end_matches(['k', 'm', 'g']) {
        number if number.len() == text.len() => (number, ""),
        number => (number, &text[number.len()..]),
    };
    let shift = match unit {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Whether a process can take one of the ports by which queue pairs find each other.
fn ports(shell: &Shell) -> Finding {
    const FIRST: u16 = 0x6000;
    const PORTS: u16 = 4096;
    let first = shell.get("WEFT_VERBS_PORTS").and_then(|text| text.parse::<u16>().ok());
    let first = first.filter(|first| *first >= PORTS && first % PORTS == 0).unwrap_or(FIRST);
    let can_take = |port| {
        let address = (Ipv4Addr::UNSPECIFIED, port);
        UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok()
    };
    let last = first + (PORTS - 1);
    match (first..=last).step_by(64).any(can_take) {
        true => Topic::Machine.ok(format!(
            "queue pairs of libibverbs take UDP and TCP ports {first} to {last}: between hosts these must be open"
        )),
        false => Topic::Machine.problem(
            format!("no port from {first} to {last} can be taken, by which queue pairs find each other"),
            "export WEFT_VERBS_PORTS=8192, on all hosts alike",
        ),
    }
}

/// Directories of counters that cannot be used: `weft stat` and `--report` show nothing then.
fn boards() -> impl Iterator<Item = Finding> {
    board::boards().skipped.into_iter().map(|skipped| {
        let text = format!("`weft stat` cannot read {}: {}", skipped.path.display(), skipped.reason);
        Topic::Machine.note(text, "")
    })
}

fn container() -> Option<Finding> {
    let has_mark = ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists());
    has_mark.then(|| {
        Topic::Machine.note(
            "this is a container: other hosts reach its queue pairs only at an address that is not translated (NAT)",
            "for programs on several hosts: --network host, or a network without NAT; within one host nothing",
        )
    })
}

/// Windows' subsystem for Linux, by the kernel's version.
fn subsystem(version: &str) -> Option<Finding> {
    let has_it = version.to_ascii_lowercase().contains("microsoft");
    has_it.then(|| {
        Topic::Machine.note(
            "this is WSL: other hosts reach it only where its network is mirrored or bridged",
            "for programs on several hosts: networkingMode=mirrored in .wslconfig; within one host nothing",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    #[test]
    fn descriptors_are_judged_by_their_number() {
        let grades = [Some(100), Some(1024), Some(65_536), None].map(|soft| descriptors(soft).grade);
        assert_eq!(grades, [Grade::Problem, Grade::Note, Grade::Ok, Grade::Ok]);
    }

    #[test]
    fn the_size_of_shared_memory_is_that_of_the_last_mount() {
        let mounts = "tmpfs /run tmpfs rw,size=1k 0 0\nshm /dev/shm tmpfs rw,nosuid,size=65536k 0 0\n";
        assert!(
            shared(mounts).grade == Grade::Note && shared(mounts).text.contains("64.0 MiB"),
            "{:?}",
            shared(mounts)
        );
        let later = format!("{mounts}tmpfs /dev/shm tmpfs rw,size=2g 0 0\n");
        assert_eq!(shared(&later), Topic::Machine.ok("/dev/shm has 2.0 GiB"));
        assert_eq!(shared("tmpfs /dev/shm tmpfs rw,nodev 0 0\n").grade, Grade::Ok);
        assert!(shared("").text.contains("not mounted"));
        assert_eq!(["7", "7k", "7m", "7x", "k"].map(bytes), [Some(7), Some(7168), Some(7 << 20), None, None]);
    }

    #[test]
    fn what_ranks_may_read_is_reported() {
        assert_eq!(attach(true, "0").grade, Grade::Ok);
        assert_eq!(attach(true, "").grade, Grade::Ok);
        assert!(attach(true, "1").text.contains("ptrace_scope is 1"));
        assert!(attach(false, "0").text.contains("refuses"));
    }

    #[test]
    fn the_subsystem_of_windows_is_known_by_its_kernel() {
        assert!(subsystem("Linux version 5.15.167.4-microsoft-standard-WSL2").is_some());
        assert!(subsystem("Linux version 6.1.0 (debian-kernel@lists.debian.org)").is_none());
    }

    #[test]
    fn this_machine_is_judged() {
        let found = findings(&Shell::default());
        assert!(found.len() >= 8 && found.iter().all(|finding| !finding.text.is_empty()), "{found:?}");
        // A range that is not possible is not tried; the libibverbs part says so.
        assert!(ports(&Shell::with([("WEFT_VERBS_PORTS", "1")])).text.contains("24576"));
    }
}
