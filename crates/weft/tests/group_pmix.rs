//! Groups of processes that a launcher has started which speaks PMIx: Open MPI's, where it is installed, and one that
//! is a library of the test (`crates/pmix/tests/fake.c`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs, process};

use weft::group::{Group, GroupError};

fn exchange(group: &mut Group) {
    for number in 0..4 {
        let own = |rank: usize| vec![rank as u8; rank * 100 * number];
        let all = group.all_gather(&own(group.rank())).unwrap();
        assert_eq!(all, (0..group.size()).map(own).collect::<Vec<_>>());
        group.barrier().unwrap();
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Whether this process is one that the test has started.
fn is_rank() -> bool {
    env::var_os("PMIX_NAMESPACE").is_some()
}

#[test]
fn processes_of_mpirun_find_each_other() {
    if is_rank() {
        match Group::from_environment() {
            Err(GroupError::Pmix(error @ weft_pmix::Error::NotInstalled { .. })) => println!("skipped: {error}"),
            group => {
                let mut group = group.unwrap().unwrap();
                exchange(&mut group);
                println!("<rank {} of {}>", group.rank(), group.size());
            }
        }
        return;
    }
    let version = Command::new("mpirun").arg("--version").output();
    if !version.is_ok_and(|output| text(&output).contains("Open MPI")) {
        println!("skipped: no mpirun of Open MPI; on Debian: apt install openmpi-bin");
        return;
    }
    let output = Command::new("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "-np", "3"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "processes_of_mpirun_find_each_other", "--nocapture"])
        .output()
        .unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    if let Some(at) = said.find("skipped: ") {
        println!("{}", said[at..].lines().next().unwrap_or_default());
        return;
    }
    assert!((0..3).all(|rank| said.contains(&format!("<rank {rank} of 3>"))), "{said}");
}

/// A folder with the made library, which goes when this is dropped.
struct Fake(PathBuf);

impl Fake {
    /// `None` without a C compiler.
    fn made(name: &str) -> Option<Self> {
        let fake = Self(env::temp_dir().join(format!("weft-group-pmix-{name}-{}", process::id())));
        fs::create_dir_all(&fake.0).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pmix/tests/fake.c");
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(fake.0.join("libpmix.so.2")).arg(source).status();
        match made {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                println!("skipped: cc: {error}");
                return None;
            }
        }
        Some(fake)
    }

    fn rank(&self, test: &str, rank: usize, size: usize, wrong: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", test, "--nocapture"])
            .env("LD_LIBRARY_PATH", &self.0)
            .env("FAKE_PMIX_DIR", &self.0)
            .env("FAKE_PMIX", wrong)
            .env("FAKE_PMIX_SIZE", size.to_string())
            .env("PMIX_NAMESPACE", "fake")
            .env("PMIX_RANK", rank.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn processes_of_any_launcher_with_pmix_exchange_bytes_and_take_leave() {
    if is_rank() {
        // Values of one group are not taken for the other's.
        let mut groups = [(); 2].map(|()| Group::from_environment().unwrap().unwrap());
        return groups.iter_mut().for_each(exchange);
    }
    let Some(fake) = Fake::made("exchange") else { return };
    let test = "processes_of_any_launcher_with_pmix_exchange_bytes_and_take_leave";
    let start = |rank| fake.rank(test, rank, 3, "").spawn().unwrap();
    for (rank, child) in (0..3).map(start).collect::<Vec<_>>().into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert!(fake.0.join(format!("finalized.{rank}.yes")).exists());
    }
}

#[test]
fn what_such_a_launcher_says_wrong_is_an_error_with_the_value() {
    if is_rank() {
        let error = Group::from_environment().map(Option::unwrap).and_then(|mut group| group.all_gather(b"x"));
        println!("<{}>", error.unwrap_err());
        return;
    }
    let Some(fake) = Fake::made("wrong") else { return };
    let test = "what_such_a_launcher_says_wrong_is_an_error_with_the_value";
    for (wrong, size, expected) in [
        ("init fails", 1, "<PMIx_Init has failed: UNREACHABLE (-25)>"),
        ("size is text", 1, "a value of type 3 as `pmix.job.size`"),
        ("", 70_000, "<rank 0 of 70000: ranks are numbered from 0, and at most 65536>"),
        ("fence times out", 1, "<PMIx_Fence has failed: TIMEOUT (-24)>"),
        ("get is long", 1, "<PMIx gives 20000 bytes as `weft.0.0` of rank 0, where at most 16384 bytes must be>"),
    ] {
        let said = text(&fake.rank(test, 0, size, wrong).output().unwrap());
        assert!(said.contains(expected), "{wrong}: {said}");
    }
}
