//! A client against a libpmix that the test makes (`fake.c`). The dynamic loader reads `LD_LIBRARY_PATH` at the start
//! of a process, so each client is this program again.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs, process};

use weft_pmix::{Client, Error};

const LIMIT: Duration = Duration::from_secs(60);

/// A folder with the made library, which goes when this is dropped.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("weft-pmix-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// `None` without a C compiler.
    fn made(name: &str, source: &str) -> Option<Self> {
        let fake = Self::new(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
        let library = fake.0.join("libpmix.so.2");
        let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(source).status();
        match made {
            Ok(status) => assert!(status.success()),
            Err(error) => println!("skipped: cc: {error}"),
        }
        fake.0.join("libpmix.so.2").exists().then_some(fake)
    }

    fn again(&self, test: &str, rank: u32, size: u32, wrong: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", test, "--nocapture"])
            .env("LD_LIBRARY_PATH", &self.0)
            .env("FAKE_PMIX_DIR", &self.0)
            .env("FAKE_PMIX", wrong)
            .env("FAKE_PMIX_SIZE", size.to_string())
            .env("PMIX_NAMESPACE", "fake")
            .env("PMIX_RANK", rank.to_string());
        command
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_again() -> bool {
    env::var_os("FAKE_PMIX_DIR").is_some()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn own(rank: u32, round: usize) -> Vec<u8> {
    vec![rank as u8; rank as usize * 1000 * round]
}

#[test]
fn processes_exchange_bytes_through_the_launcher() {
    const SIZE: u32 = 3;
    if is_again() {
        let mut client = Client::connect().unwrap();
        assert_eq!(client.size(), SIZE);
        for round in 0..3 {
            let key = format!("test.{round}");
            client.put(&key, &own(client.rank(), round)).unwrap();
            client.fence(LIMIT).unwrap();
            for rank in 0..SIZE {
                assert_eq!(client.get(rank, &key, 16 * 1024).unwrap(), own(rank, round));
            }
        }
        drop(Client::connect().unwrap());
        client.put("still", b"there").unwrap();
        drop(client);
        assert_eq!(Client::connect().err(), Some(Error::HasLeft));
        return;
    }
    let Some(fake) = Fake::made("exchange", "fake.c") else {
        return;
    };
    let start = |rank| {
        let mut command = fake.again("processes_exchange_bytes_through_the_launcher", rank, SIZE, "");
        // What it prints is no report of this test.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for (rank, child) in (0..SIZE).map(start).enumerate().collect::<Vec<_>>() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert!(fake.0.join(format!("finalized.{rank}.yes")).exists(), "it has left without a word");
    }
}

fn exchange_alone() -> Result<Vec<u8>, Error> {
    let mut client = Client::connect()?;
    client.put("one", b"1")?;
    client.fence(LIMIT)?;
    client.get(client.rank(), if env::var("FAKE_PMIX").unwrap() == "other key" { "two" } else { "one" }, 16 * 1024)
}

#[test]
fn what_the_launcher_says_wrong_is_an_error_with_the_value() {
    if is_again() {
        println!("<{}>", exchange_alone().unwrap_err());
        return;
    }
    let Some(fake) = Fake::made("wrong", "fake.c") else {
        return;
    };
    for (wrong, expected) in [
        ("init fails", "<PMIx_Init has failed: UNREACHABLE (-25)>"),
        ("rank 9", "<PMIx gives 1 as `pmix.job.size`, where a number above the rank 9 must be>"),
        ("size is text", "<PMIx gives a value of type 3 as `pmix.job.size`, where a number above the rank 0 must be>"),
        ("commit fails", "<PMIx_Commit of one has failed: status (-1)>"),
        ("fence times out", "<PMIx_Fence has failed: TIMEOUT (-24)>"),
        ("get gives nothing", "<PMIx gives nothing as `pmix.job.size`, where a value must be>"),
        ("get is a number", "<PMIx gives a value of type 14 as `one` of rank 0, where at most 16384 bytes must be>"),
        ("get is nowhere", "<PMIx gives 5 bytes at no address as `one` of rank 0, where at most 16384 bytes must be>"),
        ("get is long", "<PMIx gives 20000 bytes as `one` of rank 0, where at most 16384 bytes must be>"),
        ("other key", "<PMIx_Get of `two` of rank 0 has failed: NOT-FOUND (-46)>"),
    ] {
        let test = "what_the_launcher_says_wrong_is_an_error_with_the_value";
        let said = text(&fake.again(test, 0, 1, wrong).output().unwrap());
        assert!(said.contains(expected), "{wrong}: {said}");
    }
}

#[test]
fn a_library_that_is_none_is_an_error_that_says_what_to_do() {
    if is_again() {
        println!("<{}>", exchange_alone().unwrap_err());
        return;
    }
    let test = "a_library_that_is_none_is_an_error_that_says_what_to_do";
    let fake = Fake::new("none");
    fs::write(fake.0.join("libpmix.so.2"), "no library").unwrap();
    let said = text(&fake.again(test, 0, 1, "").output().unwrap());
    assert!(
        said.contains("<the launcher speaks PMIx, and libpmix.so.2 cannot be loaded: ")
            && said.contains("apt install libpmix2), or name its folder in LD_LIBRARY_PATH>"),
        "{said}"
    );
}

#[test]
fn a_library_without_its_functions_is_named_as_such() {
    if is_again() {
        assert_eq!(exchange_alone().unwrap_err(), Error::Unusable { missing: "PMIx_Init" });
        return;
    }
    let Some(fake) = Fake::made("unusable", "empty.c") else {
        return;
    };
    let output = fake.again("a_library_without_its_functions_is_named_as_such", 0, 1, "").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn keys_that_are_none_are_refused() {
    if is_again() {
        let mut client = Client::connect().unwrap();
        for key in ["with\0zero".to_owned(), "k".repeat(512)] {
            assert_eq!(client.put(&key, b""), Err(Error::Key(key)));
        }
        return client.put(&"k".repeat(200), b"").unwrap();
    }
    let Some(fake) = Fake::made("keys", "fake.c") else {
        return;
    };
    let output = fake.again("keys_that_are_none_are_refused", 0, 1, "").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}
