use core::mem;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use super::reader::boards_in;
use super::*;
use crate::fork::in_child;

const NAMES: [&str; 3] = ["sent", "received", "errors"];
const SHAPE: Shape = Shape { format: 5, rows: 2, words: 3 };

/// A directory that is removed at the end of the test.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-boards-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        place::make(&path).unwrap();
        Self(path)
    }

    fn create(&self) -> Board {
        Board::create_in(&self.0, "a test", &NAMES, 2, SHAPE).unwrap()
    }

    fn read(&self) -> Boards {
        boards_in(std::slice::from_ref(&self.0))
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }

    /// A file as of this process's NIC 0, except for `change`.
    fn put(&self, name: &str, change: impl FnOnce(&mut Heading)) -> PathBuf {
        let mut heading = Heading {
            owner: Owner::this_process().unwrap(),
            process: "p".into(),
            title: String::new(),
            names: vec!["sent".into()],
            engines: 1,
            shape: Shape::default(),
        };
        change(&mut heading);
        let path = self.0.join(name);
        fs::write(&path, heading.encode().unwrap()).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn own_file() -> String {
    place::name(process::own_pid().unwrap(), 0)
}

#[test]
fn what_is_published_is_read_until_the_board_goes() {
    let directory = Directory::new("published");
    let board = directory.create();
    assert_eq!(fs::metadata(&board.path).unwrap().mode() & 0o777, 0o600);
    board.publish(0, &[1, 2, 3]);
    board.publish(1, &[10, 20, 30]);
    board.publish(1, &[11]);
    // More values than names.
    board.publish(1, &[11, 20, 30, 40, 50, 60, 70, 80, 90]);
    board.publish(2, &[9]);
    board.publish(usize::MAX, &[9]);
    board.publish_table(1, &[[1, 2, 3], [4, 5, 6], [7, 8, 9]]);
    board.publish_table(2, &[[1, 2, 3]]);

    let found = directory.read();
    let [snapshot] = &found.live[..] else { panic!("{found:?}") };
    assert_eq!((snapshot.pid, snapshot.nic, &snapshot.title[..]), (process::own_pid().unwrap(), 0, "a test"));
    assert_eq!(snapshot.process, process::name(snapshot.pid));
    assert_eq!(snapshot.engines, [[1, 2, 3], [11, 20, 30]]);
    assert_eq!(snapshot.table, Table { format: 5, engines: vec![vec![], vec![vec![1, 2, 3], vec![4, 5, 6]]] });
    assert_eq!(snapshot.totals().collect::<Vec<_>>(), [("sent", 12), ("received", 22), ("errors", 33)]);
    assert_eq!((snapshot.total("received"), snapshot.total("unheard of")), (Some(22), None));
    assert!(found.skipped.is_empty());

    drop(board);
    assert!(directory.read().live.is_empty());
    assert_eq!(directory.files(), 0);
}

#[test]
fn nics_of_one_process_are_numbered() {
    let directory = Directory::new("numbers");
    let boards = [directory.create(), directory.create(), directory.create()];
    let numbers = |found: &Boards| found.live.iter().map(|board| board.nic).collect::<Vec<_>>();
    assert_eq!(numbers(&directory.read()), [0, 1, 2]);
    let [_, second, _] = boards;
    drop(second);
    let _board = directory.create();
    assert!(numbers(&directory.read()).contains(&1));
}

#[test]
fn a_child_neither_writes_nor_removes() {
    let directory = Directory::new("child");
    let mut board = Some(directory.create());
    board.as_ref().unwrap().publish(0, &[1, 2, 3]);
    let status = in_child(|| {
        board.as_ref().unwrap().publish(0, &[7, 7, 7]);
        drop(board.take());
        0
    });
    assert_eq!(status, 0);
    let found = directory.read();
    assert_eq!(found.live[0].engines[0], [1, 2, 3]);
}

/// The file of a process that dies without removing it.
fn leave_behind(directory: &Directory) {
    let status = in_child(|| {
        let made = Board::create_in(&directory.0, "", &NAMES, 1, SHAPE);
        let status = i32::from(made.is_err());
        mem::forget(made);
        status
    });
    assert_eq!((status, directory.files()), (0, 1));
}

#[test]
fn a_reader_removes_boards_of_dead_processes() {
    let directory = Directory::new("dead");
    leave_behind(&directory);
    let found = directory.read();
    assert!(found.live.is_empty() && found.skipped.is_empty());
    assert_eq!(directory.files(), 0);
}

#[test]
fn making_a_board_removes_those_of_dead_processes() {
    let directory = Directory::new("sweep");
    leave_behind(&directory);
    fs::rename(fs::read_dir(&directory.0).unwrap().next().unwrap().unwrap().path(), directory.0.join(".4194305-0-0"))
        .unwrap();
    let board = directory.create();
    assert_eq!(directory.files(), 1);
    assert!(board.path.exists());
}

#[test]
fn a_process_id_that_came_back_is_another_process() {
    let directory = Directory::new("again");
    let path = directory.put(&own_file(), |heading| heading.owner.start += 2);
    assert!(directory.read().live.is_empty());
    assert!(!path.exists());
}

#[test]
fn another_pid_namespace_is_left_alone() {
    let directory = Directory::new("namespace");
    let path = directory.put(&own_file(), |heading| {
        heading.owner.namespace += 1;
        heading.owner.start += 2;
    });
    let found = directory.read();
    assert!(found.live.is_empty() && found.skipped.is_empty() && path.exists());
    // It has number 0.
    let board = directory.create();
    assert!(board.path.ends_with(place::name(process::own_pid().unwrap(), 1)));
}

#[test]
fn files_that_are_no_boards_are_skipped_with_a_reason_and_stay() {
    let directory = Directory::new("hostile");
    let good = fs::read(directory.put(&own_file(), |_| {})).unwrap();
    let in_place = |name: &str| directory.0.join(name);
    fs::write(in_place("1-0"), b"").unwrap();
    fs::write(in_place("1-1"), &good[..good.len() - 1]).unwrap();
    fs::write(in_place("1-2"), &good).unwrap();
    fs::create_dir(in_place("1-3")).unwrap();
    symlink(in_place(&own_file()), in_place("1-4")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(in_place("1-5")).status().unwrap().success());
    File::create(in_place("1-6")).unwrap().set_len(1 << 40).unwrap();
    fs::write(in_place("01-7"), b"no board's name").unwrap();
    fs::write(in_place("notes"), b"no board's name").unwrap();

    let found = directory.read();
    assert_eq!(found.live.len(), 1);
    let mut reasons: Vec<_> = found
        .skipped
        .iter()
        .map(|skipped| format!("{} {}", skipped.path.file_name().unwrap().display(), skipped.reason))
        .collect();
    reasons.sort();
    let pid = process::own_pid().unwrap();
    let expected = [
        "1-0 is not a board of counters".to_owned(),
        format!("1-1 has {} bytes of {}", good.len() - 1, good.len()),
        format!("1-2 belongs to process {pid}, but its name has another"),
        "1-3 is not a plain file of this user".to_owned(),
        "1-4 is not a plain file of this user".to_owned(),
        "1-5 is not a plain file of this user".to_owned(),
        "1-6 is not a board of counters".to_owned(),
    ];
    assert_eq!(reasons, expected);
    assert_eq!(directory.files(), 10);
}

#[test]
fn only_a_directory_of_ones_own_will_do() {
    let directory = Directory::new("places");
    let (linked, open, foreign) = (directory.0.join("linked"), directory.0.join("open"), directory.0.join("foreign"));
    assert_eq!(fs::metadata(&directory.0).unwrap().mode() & 0o777, 0o700);
    symlink(&directory.0, &linked).unwrap();
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    fs::create_dir(&foreign).unwrap();
    let mut refused = vec![(linked, "is not a directory"), (open, "can be written to by other users")];
    // Only root can change the owner.
    if chown(&foreign, Some(12345), None).is_ok() {
        refused.push((foreign, "belongs to another user"));
    }
    for (path, why) in refused {
        assert!(place::make(&path).unwrap_err().to_string().contains(why), "{}", path.display());
        let found = boards_in(&[path]);
        assert!(matches!(&found.skipped[..], [skipped] if skipped.reason.to_string().contains(why)), "{found:?}");
    }
    let missing = boards_in(&[directory.0.join("missing")]);
    assert!(missing.live.is_empty() && missing.skipped.is_empty());
}

#[test]
fn limits_are_told_at_the_start() {
    let directory = Directory::new("limits");
    for (names, engines) in [(&NAMES[..], 0), (&NAMES, MAX_ENGINES + 1), (&[], 1), (&["a\nb"], 1)] {
        assert!(Board::create_in(&directory.0, "", names, engines, SHAPE).is_err(), "{names:?} {engines}");
    }
    assert_eq!(directory.files(), 0);
}

#[test]
fn the_largest_board_can_be_read() {
    let directory = Directory::new("largest");
    let names: Vec<_> = (0..MAX_COUNTERS).map(|number| format!("counter_{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let largest = Shape { format: 1, rows: MAX_ROWS, words: MAX_WORDS };
    let board = Board::create_in(&directory.0, "", &names, MAX_ENGINES, largest).unwrap();
    board.publish(MAX_ENGINES - 1, &vec![u64::MAX; MAX_COUNTERS]);
    board.publish_table(MAX_ENGINES - 1, &[[7; MAX_WORDS]; MAX_ROWS]);
    assert_eq!(directory.read().live[0].table.engines[MAX_ENGINES - 1], [[7; MAX_WORDS]; MAX_ROWS]);
    assert_eq!(directory.read().live[0].engines[MAX_ENGINES - 1], vec![u64::MAX; MAX_COUNTERS]);
}

/// Runs `f` in a process whose boot clock is ahead by these seconds. `None`: the system refuses a time namespace.
fn in_time_namespace(ahead: u64, f: impl FnOnce() -> i32) -> Option<i32> {
    const REFUSED: i32 = 99;
    let outcome = in_child(|| {
        // SAFETY: A call without memory; the children are in the new namespace, this process is not.
        let is_made = unsafe { libc::unshare(libc::CLONE_NEWTIME) } == 0;
        if !is_made || fs::write("/proc/self/timens_offsets", format!("boottime {ahead} 0")).is_err() {
            return REFUSED;
        }
        in_child(f)
    });
    (outcome != REFUSED).then_some(outcome)
}

#[test]
fn a_reader_with_another_boot_clock_leaves_the_boards_of_the_living() {
    let directory = Directory::new("clock");
    let board = directory.create();
    let gone = directory.put(&place::name(process::own_pid().unwrap(), 1), |heading| heading.owner.start += 500);
    let outcome = in_time_namespace(100_000, || {
        let found = directory.read();
        i32::from(found.live.len() != 1) + 2 * i32::from(!found.skipped.is_empty())
    });
    let Some(outcome) = outcome else { return eprintln!("skipped: this system allows no time namespaces") };
    assert_eq!(outcome, 0);
    assert!(board.path.exists() && !gone.exists(), "the dead are told from the living all the same");
    assert_eq!(directory.read().live.len(), 1);
    // So a board that is made there has the start time that is read here.
    let own = process::own_pid().unwrap();
    let start = process::start(own).unwrap().unwrap();
    let is_other = || i32::from(!process::start(own).unwrap().is_some_and(|its| process::is_same_start(its, start)));
    assert_eq!((is_other(), in_time_namespace(3, is_other)), (0, Some(0)));
}

#[test]
fn a_missing_board_is_reported_once() {
    let (said, _) = crate::notice::said_by_child(|| {
        let place = Path::new("/proc/no/such/place");
        for _ in 0..2 {
            say_missing(&place::make(place).unwrap_err());
        }
        0
    });
    let line = "weft: weft stat will not show this process, since its counters have no file: /proc/no/such/place: ";
    assert!(said.starts_with(line) && said.lines().count() == 1, "{said}");
}

#[test]
fn a_report_has_the_last_counts_of_nics_that_have_closed() {
    let directory = Directory::new("report");
    let report = Report::create_in(&directory.0).unwrap();
    // Two NICs, one after the other: both are number 0.
    for (count, rank) in [(5, Some(1)), (7, None)] {
        let board = directory.create();
        report::keep_in(report.folder(), &directory.0.join(own_file()), rank);
        board.publish(0, &[count, 2, 3]);
    }
    let found = report.read();
    let sums: Vec<_> = found.iter().map(|one| (one.rank, one.nic.nic, one.nic.total("sent"))).collect();
    assert_eq!(sums, [(None, 0, Some(7)), (Some(1), 0, Some(5))]);
    assert!(directory.read().live.is_empty(), "both have closed");
    drop(report);
    assert_eq!(directory.files(), 0);
}

#[test]
fn the_same_name_is_kept_twice_and_strange_files_are_not_read() {
    let directory = Directory::new("report-copies");
    let report = Report::create_in(&directory.0).unwrap();
    let board = directory.create();
    board.publish(1, &[9, 0, 0]);
    for _ in 0..2 {
        report::keep_in(report.folder(), &directory.0.join(own_file()), Some(0));
    }
    fs::write(report.folder().join("1-2-3"), "no board").unwrap();
    fs::write(report.folder().join("name"), "no board").unwrap();
    assert_eq!(report.read().len(), 2);
    report::keep_in(&directory.0.join("not there"), &directory.0.join(own_file()), None);
    // The one of a process that has ended is removed, and that of this process made anew.
    fs::create_dir(directory.0.join("report-4194999")).unwrap();
    let again = Report::create_in(&directory.0).unwrap();
    assert!(again.read().is_empty() && !directory.0.join("report-4194999").exists());
}
