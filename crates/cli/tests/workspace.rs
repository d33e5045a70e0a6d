//! Rules of the whole workspace, kept from `cargo metadata`, the crates' roots and the documents:
//!
//! - a crate uses only crates of lower levels, in its tests and build scripts as well as in its code
//!   (`docs/architecture.md`);
//! - `weft-nic` names neither an operating system nor an emulated network;
//! - only tests use `weft-testing`, and what it has for them is not written again elsewhere;
//! - `#![forbid(unsafe_code)]` is in every crate but those that exist for unsafe code;
//! - every crate from outside has its reason in `docs/dependencies.md`;
//! - no line of Rust is wider than [`COLUMNS`], comments and strings included, which rustfmt leaves as they are;
//! - the command itself stays below [`COMMAND_LINES`];
//! - the programs in the documents are those that are tested: in `docs/programs.md` the one that
//!   `crates/weft/tests/all/hello.rs` runs, in `README.md` an excerpt of the example of `weft::endpoint`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Every crate that there is or will be, lowest level first. A new one gets its place here before it gets content.
const LEVELS: [&[&str]; 9] = [
    &["weft-base", "weft-lock", "weft-testing"],
    &[
        "weft-wire",
        "weft-memory",
        "weft-congestion",
        "weft-libfabric",
        "weft-pmix",
        "weft-ring",
        "weft-collective",
        "weft-emulate",
    ],
    &["weft-mpa", "weft-rdmap", "weft-driver", "weft-edge", "weft-tcp", "weft-message", "weft-window", "weft-scenario"],
    &["weft-nic", "weft-link"],
    &["weft", "weft-simulate", "weft-lab"],
    &["weft-provider", "weft-verbs-abi", "weft-command", "weft-wan", "weft-fuzz"],
    &["weft-perf", "weft-mpi", "weft-run"],
    &["weft-demo"],
    &["weft-cli"],
];

/// Pairs that the levels would allow: which crate may not use which, and why.
const APART: [(&str, &str, &str); 2] = [
    (
        "weft-nic",
        "weft-driver",
        "it is generic over the network and the clock, so that production and simulation run the same lines",
    ),
    (
        "weft-nic",
        "weft-emulate",
        "it is generic over the network and the clock, so that production and simulation run the same lines",
    ),
];

/// Whose tests, and nothing else of it, may use a crate above it, and why.
const TESTED_IN: [(&str, &str); 1] = [
    // The simulator is a network and a clock for the NIC; its own tests run in virtual time.
    ("weft-nic", "weft-simulate"),
];

/// The crate of what tests share.
const FOR_TESTS: &str = "weft-testing";

/// What it has, as other tests began to write it again, and what to use.
const SHARED: [(&str, &str); 2] = [
    ("impl GlobalAlloc for", "weft_testing::CountingAllocator counts what a thread allocates"),
    ("::from_secs(120)", "weft_testing::PATIENCE is how long a test waits before it fails"),
];

/// Folders whose tests have their own still, and files with counters of another kind: of a whole process, with a trace.
const OWN: [&str; 7] = [
    "crates/testing/",
    "crates/cli/tests/",
    "crates/lab/tests/",
    "crates/wan/tests/",
    "crates/weft/tests/connection_memory.rs",
    "crates/weft/tests/zero_allocations.rs",
    "crates/fuzz/",
];

/// Crates that exist for unsafe code: memory, the operating system, a C interface, allocators of tests.
const UNSAFE: [&str; 8] = [
    "weft-memory",
    "weft-driver",
    "weft-libfabric",
    "weft-pmix",
    "weft-provider",
    "weft-verbs-abi",
    "weft-mpi",
    "weft-testing",
];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// The width of a line, in characters: `max_width` of `rustfmt.toml`.
const COLUMNS: usize = 120;

/// The command itself stays below this many lines: it parses and prints, and crates below it do the work.
const COMMAND_LINES: usize = 7000;

/// Folders whose lines may be wider still. One in which all lines fit leaves this list.
const WIDE: [&str; 2] = ["crates/cli/src/", "crates/perf/"];

/// What of a crate the rule is about.
struct Package {
    name: String,
    /// Crates of this workspace that it uses, in code, tests or build script.
    uses: Vec<String>,
    /// Those of them that more than its tests use.
    ships: Vec<String>,
    /// Crates from outside that it uses.
    outside: BTreeSet<String>,
    /// Files at which its library and its programs begin.
    roots: Vec<String>,
}

#[test]
fn the_workspace_keeps_the_import_rule() {
    let packages = packages(&metadata());
    assert!(packages.iter().any(|package| package.name == "weft-nic"), "cargo metadata shows no weft-nic");
    let broken = check(&packages, |root| fs::read_to_string(root).unwrap_or_else(|error| panic!("{root}: {error}")));
    assert!(broken.is_empty(), "\n\n{}\n", broken.join("\n"));
}

#[test]
fn every_dependency_has_its_reason() {
    let mut used: BTreeSet<String> = packages(&metadata()).into_iter().flat_map(|package| package.outside).collect();
    // The programs for cargo-fuzz are a workspace of their own.
    used.insert("libfuzzer-sys".to_owned());
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dependencies.md")).unwrap();
    let wrong = compare(&used, &page);
    assert!(wrong.is_empty(), "\n\n{}\n", wrong.join("\n"));
}

#[test]
fn lines_fit_their_columns() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    for folder in ["crates", "fuzz"] {
        collect_rust(&root.join(folder), &mut files);
    }
    let wrong = check_columns(files.iter().map(|(path, text)| {
        let path = path.strip_prefix(root.to_str().expect("a path in UTF-8")).expect("below the root");
        (path.trim_start_matches('/'), text.as_str())
    }));
    assert!(wrong.is_empty(), "\n\n{}\n", wrong.join("\n"));
}

#[test]
fn what_tests_share_is_written_once() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    collect_rust(&root.join("crates"), &mut files);
    let inside = files.iter().map(|(path, text)| {
        let path = path.strip_prefix(root.to_str().expect("a path in UTF-8")).expect("below the root");
        (path.trim_start_matches('/'), text.as_str())
    });
    let wrong = written_again(inside.filter(|(path, _)| path.contains("tests") || path.ends_with("epoll_watch.rs")));
    assert!(wrong.is_empty(), "\n\n{}\n", wrong.join("\n"));
    let again = written_again([("crates/a/tests/b.rs", "const PATIENCE: Duration = Duration::from_secs(120);")]);
    assert!(matches!(&again[..], [one] if one.starts_with("crates/a/tests/b.rs")), "{again:?}");
}

/// What of [`SHARED`] these files have of their own.
fn written_again<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let foreign = files.into_iter().filter(|(path, _)| !OWN.iter().any(|own| path.starts_with(own)));
    foreign
        .flat_map(|(path, text)| {
            let found = SHARED.into_iter().filter(move |(sign, _)| text.contains(sign));
            found.map(move |(_, instead)| format!("{path}: {instead}"))
        })
        .collect()
}

#[test]
fn the_command_stays_small() {
    let mut files = Vec::new();
    collect_rust(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut files);
    let lines: usize = files.iter().map(|(_, text)| text.lines().count()).sum();
    assert!(lines > 1000, "{lines} lines: the folder was not found");
    assert!(
        lines < COMMAND_LINES,
        "weft-cli has {lines} lines, of {COMMAND_LINES}: what does the work belongs below it"
    );
}

#[test]
fn the_architecture_is_read_in_half_an_hour() {
    const WORDS: usize = 5000;
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architecture.md")).unwrap();
    let words = page.split(|c: char| c == '|' || c.is_whitespace()).filter(|word| !word.is_empty()).count();
    assert!(
        words <= WORDS,
        "docs/architecture.md has {words} words, of {WORDS}: details belong on a page of their own"
    );
}

#[test]
fn the_programs_of_the_documents_are_those_that_are_tested() {
    let page = |path: &str| fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let hello = format!("```rust\n{}```\n", page("crates/weft/examples/hello.rs"));
    assert!(
        page("docs/programs.md").contains(&hello),
        "copy crates/weft/examples/hello.rs into docs/programs.md again, whole"
    );
    let excerpts = rust_blocks(&page("README.md"));
    let documentation = module_documentation(&page("crates/weft/src/endpoint/mod.rs"));
    assert!(!excerpts.is_empty(), "README.md has no Rust");
    for excerpt in excerpts {
        assert!(
            documentation.contains(&excerpt),
            "README.md has lines that are not in the example at the top of crates/weft/src/endpoint/mod.rs, where they \
             are run as a test: copy them from there.\n{excerpt}"
        );
    }
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON")
}

fn packages(metadata: &Value) -> Vec<Package> {
    list(&metadata["packages"]).map(package).collect()
}

fn package(value: &Value) -> Package {
    let name = text(&value["name"]);
    let is_its_test_world = |dependency: &&Value| {
        let used = text(&dependency["name"]);
        dependency["kind"] == "dev" && TESTED_IN.contains(&(name.as_str(), used.as_str()))
    };
    // Its own tests may want features of it that it does not build by itself.
    let is_itself = |dependency: &&Value| dependency["kind"] == "dev" && text(&dependency["name"]) == name;
    // A dependency with a path is one of ours; all others come from a registry.
    let (uses, outside): (Vec<_>, Vec<_>) = list(&value["dependencies"])
        .filter(|dependency| !is_its_test_world(dependency) && !is_itself(dependency))
        .partition(|dependency| dependency["path"].is_string());
    let begins = |target: &&Value| {
        list(&target["kind"]).any(|kind| kind != "test" && kind != "custom-build" && kind != "example")
    };
    let roots = list(&value["targets"]).filter(begins);
    let shipped = uses.iter().filter(|dependency| dependency["kind"] != "dev");
    Package {
        ships: shipped.map(|dependency| text(&dependency["name"])).collect(),
        uses: uses.into_iter().map(|dependency| text(&dependency["name"])).collect(),
        outside: outside.into_iter().map(|dependency| text(&dependency["name"])).collect(),
        roots: roots.map(|target| text(&target["src_path"])).collect(),
        name,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What breaks the rule, one sentence each.
fn check(packages: &[Package], read: impl Fn(&str) -> String) -> Vec<String> {
    let mut broken = Vec::new();
    for package in packages {
        match level_of(&package.name) {
            Some(level) => broken.extend(package.uses.iter().filter_map(|used| refuse(&package.name, level, used))),
            None => broken.push(unknown(&package.name)),
        }
        if package.ships.iter().any(|used| used == FOR_TESTS) {
            broken.push(format!("{} uses {FOR_TESTS}, which is for tests: make it a dev-dependency.", package.name));
        }
        for root in &package.roots {
            broken.extend(judge_root(&package.name, root, &read(root)));
        }
    }
    broken
}

fn level_of(name: &str) -> Option<usize> {
    LEVELS.iter().position(|crates| crates.contains(&name))
}

fn unknown(name: &str) -> String {
    format!(
        "{name} has no level. Decide which crates it may know and who may know it, put it into LEVELS of \
         crates/cli/tests/workspace.rs and into the table of docs/architecture.md."
    )
}

fn refuse(name: &str, level: usize, used: &str) -> Option<String> {
    if let Some((.., why)) = APART.iter().find(|(user, other, _)| (*user, *other) == (name, used)) {
        return Some(format!("{name} uses {used}, which it must not know: {why}."));
    }
    match level_of(used) {
        Some(lower) if lower < level => None,
        Some(other) => Some(format!(
            "{name} (level {level}) uses {used} (level {other}). A crate uses only crates of lower levels: move what \
             both need further down, or join them in a crate above."
        )),
        None => Some(unknown(used)),
    }
}

fn judge_root(name: &str, root: &str, source: &str) -> Option<String> {
    let forbids = source.lines().any(|line| line.trim_end() == FORBID);
    match (UNSAFE.contains(&name), forbids) {
        (false, false) => Some(format!(
            "{root} lacks `{FORBID}`. Unsafe code has its place in {}; a further crate for it needs a reason, in \
             docs/architecture.md.",
            UNSAFE.join(", ")
        )),
        (true, true) => Some(format!(
            "{root} says `{FORBID}`: then {name} need not be among UNSAFE in crates/cli/tests/workspace.rs."
        )),
        _ => None,
    }
}

/// The Rust files below a folder, each with its text; without what cargo has built there.
fn collect_rust(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() && !path.ends_with("target") {
            collect_rust(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            files.push((path.to_str().expect("a path in UTF-8").to_owned(), text));
        }
    }
}

/// Lines that are too wide, outside of [`WIDE`], and what of `WIDE` has none. A row of a table in a comment cannot be
/// wrapped.
fn check_columns<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let is_row = |line: &str| line.trim_start().trim_start_matches(['/', '!']).starts_with(" |");
    let is_wide = |line: &str| line.chars().count() > COLUMNS && !is_row(line);
    let (mut wrong, mut stale) = (Vec::new(), BTreeSet::from(WIDE));
    for (path, text) in files {
        let folder = WIDE.into_iter().find(|folder| path.starts_with(folder));
        for (index, line) in text.lines().enumerate().filter(|(_, line)| is_wide(line)) {
            match folder {
                Some(folder) => _ = stale.remove(folder),
                None => wrong.push(format!(
                    "{path}:{} has {} columns, more than {COLUMNS}: wrap it.",
                    index + 1,
                    line.chars().count()
                )),
            }
        }
    }
    wrong.extend(stale.into_iter().map(|folder| {
        format!("all lines of {folder} fit {COLUMNS} columns: take it out of WIDE in crates/cli/tests/workspace.rs.")
    }));
    wrong
}

/// The blocks of Rust in a page, each with the newline before its first line and behind its last.
fn rust_blocks(page: &str) -> Vec<String> {
    let after_fences = page.split("\n```rust\n").skip(1);
    after_fences.filter_map(|rest| rest.split_once("\n```\n")).map(|(block, _)| format!("\n{block}\n")).collect()
}

/// The documentation at the top of a file, without the marks of its comments.
fn module_documentation(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.flat_map(|line| [line.strip_prefix(' ').unwrap_or(line), "\n"]).collect()
}

/// Crates without a row in the tables of the page, and rows without a crate.
fn compare(used: &BTreeSet<String>, page: &str) -> Vec<String> {
    let row = |line: &str| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned());
    let rows: BTreeSet<String> = page.lines().filter_map(row).collect();
    let lacking =
        used.difference(&rows).map(|name| format!("{name} has no row in docs/dependencies.md: say why it is needed."));
    let stale = rows
        .difference(used)
        .map(|name| format!("docs/dependencies.md gives a reason for {name}, which nothing uses."));
    lacking.chain(stale).collect()
}

// --- the rules themselves are tried on made-up workspaces

const CLEAN: &str = "//! A crate.\n#![forbid(unsafe_code)]\n";
const OPEN: &str = "//! A crate. It does not say `#![forbid(unsafe_code)]`.\n";

/// What is wrong with a workspace of these crates, each with the crates that it uses, its root and the kind of that
/// dependency.
fn judge(crates: &[(&str, &[&str], &str)], kind: Option<&str>) -> Vec<String> {
    let describe = |(name, uses, _): &(&str, &[&str], &str)| {
        let mut dependencies: Vec<Value> =
            uses.iter().map(|used| json!({ "name": used, "path": format!("/{used}"), "kind": kind })).collect();
        dependencies.push(json!({ "name": "arrayvec", "source": "registry", "kind": null }));
        json!({
            "name": name,
            "dependencies": dependencies,
            "targets": [
                { "kind": ["lib"], "src_path": name },
                { "kind": ["test"], "src_path": "a test" },
                { "kind": ["custom-build"], "src_path": "a build script" },
            ],
        })
    };
    let metadata = json!({ "packages": crates.iter().map(describe).collect::<Vec<_>>() });
    check(&packages(&metadata), |root| {
        let (.., source) =
            crates.iter().find(|(name, ..)| *name == root).expect("only libraries and programs are read");
        (*source).to_owned()
    })
}

#[test]
fn a_sound_workspace_passes() {
    let crates: [(&str, &[&str], &str); 4] = [
        ("weft-base", &[], CLEAN),
        ("weft-memory", &["weft-base"], OPEN),
        ("weft-rdmap", &["weft-base", "weft-memory"], CLEAN),
        ("weft-nic", &["weft-rdmap", "weft-base"], CLEAN),
    ];
    assert_eq!(judge(&crates, None), [""; 0]);
}

#[test]
fn levels_are_kept_whatever_the_dependency_is_for() {
    for kind in [None, Some("dev"), Some("build")] {
        let same = judge(&[("weft-mpa", &["weft-rdmap"], CLEAN)], kind);
        assert!(
            matches!(&same[..], [one] if one.starts_with("weft-mpa (level 2) uses weft-rdmap (level 2)")),
            "{same:?}"
        );
        let up = judge(&[("weft-base", &["weft-nic"], CLEAN)], kind);
        assert!(matches!(&up[..], [one] if one.starts_with("weft-base (level 0) uses weft-nic (level 3)")), "{up:?}");
    }
}

#[test]
fn the_nic_knows_no_operating_system_and_no_emulator() {
    for other in ["weft-driver", "weft-emulate"] {
        let broken = judge(&[("weft-nic", &[other], CLEAN)], None);
        assert!(matches!(&broken[..], [one] if one.contains("must not know")), "{broken:?}");
    }
}

#[test]
fn a_crate_without_a_level_is_told_what_to_do() {
    let broken = judge(&[("weft-new", &["weft-base"], CLEAN)], None);
    assert!(matches!(&broken[..], [one] if one.contains("put it into LEVELS")), "{broken:?}");
    let broken = judge(&[("weft-nic", &["weft-new"], CLEAN)], None);
    assert!(matches!(&broken[..], [one] if one.starts_with("weft-new has no level")), "{broken:?}");
}

#[test]
fn only_tests_use_the_crate_for_tests() {
    let crates: [(&str, &[&str], &str); 2] = [("weft-testing", &[], OPEN), ("weft-ring", &["weft-testing"], CLEAN)];
    assert_eq!(judge(&crates, Some("dev")), [""; 0]);
    let broken = judge(&crates, None);
    assert!(matches!(&broken[..], [one] if one.starts_with("weft-ring uses weft-testing")), "{broken:?}");
}

#[test]
fn unsafe_code_stays_where_it_belongs() {
    let broken = judge(&[("weft-nic", &[], OPEN)], None);
    assert!(matches!(&broken[..], [one] if one.contains("lacks")), "{broken:?}");
    let broken = judge(&[("weft-memory", &[], CLEAN)], None);
    assert!(matches!(&broken[..], [one] if one.contains("need not be among UNSAFE")), "{broken:?}");
}

#[test]
fn a_dependency_without_a_reason_and_a_reason_without_a_dependency_are_found() {
    let used = ["arrayvec", "libc"].map(str::to_owned).into();
    assert_eq!(compare(&used, "| `arrayvec` | nic | why |\n| `libc` | driver | why |"), [""; 0]);
    let wrong = compare(&used, "text about `libc`\n| `arrayvec` | nic | why |\n| `socket2` | driver | why |");
    assert!(
        matches!(
            &wrong[..],
            [lacking, stale] if lacking.starts_with("libc has no row") && stale.contains("for socket2")
        ),
        "{wrong:?}"
    );
}

#[test]
fn wide_lines_are_found_but_in_tables_and_where_they_are_known() {
    let wide = "x".repeat(COLUMNS + 1);
    let known = WIDE.map(|folder| (format!("{folder}old.rs"), wide.clone()));
    let check = |path: &str, text: &str| {
        let known = known.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        check_columns(known.chain([(path, text)]))
    };
    // Characters count, not bytes.
    assert_eq!(check("crates/nic/src/lib.rs", &format!("\n{}\n    //! | {wide} |", "é".repeat(COLUMNS))), [""; 0]);
    let wrong = check("crates/nic/src/lib.rs", &format!("fn f() {{}}\n// {wide}\n"));
    assert_eq!(wrong, ["crates/nic/src/lib.rs:2 has 124 columns, more than 120: wrap it."]);
    let stale = check_columns(std::iter::empty());
    assert!(stale.len() == WIDE.len() && stale.iter().all(|line| line.contains("take it out of WIDE")), "{stale:?}");
}
