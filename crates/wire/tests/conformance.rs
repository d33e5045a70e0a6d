//! `docs/conformance.md` keeps its promises: every row has a status, and what it names exists.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use weft_wire::terminate::TerminateCode;

/// The columns of a table of requirements, and of the table of bad input.
const REQUIREMENTS: &str = "id";
const BAD_INPUT: &str = "input";

#[test]
fn every_row_has_a_status_and_names_what_exists() {
    let root = root();
    let text = fs::read_to_string(root.join("docs/conformance.md")).expect("docs/conformance.md can be read");
    let complaints = check(&text, &Sources::read(&root));
    assert!(complaints.is_empty(), "docs/conformance.md:\n{}", complaints.join("\n"));
}

#[test]
fn every_standard_has_rows() {
    let text = fs::read_to_string(root().join("docs/conformance.md")).expect("docs/conformance.md can be read");
    let of_iwarp = [("5040", 80), ("5041", 60), ("5044", 60), ("6581", 20), ("7306", 25), ("5042", 10)];
    let of_tcp = [("9293", 20), ("5961", 4), ("7323", 5), ("8985", 3), ("6191", 2), ("6056", 1), ("4987", 1)];
    for (standard, at_least) in of_iwarp.into_iter().chain(of_tcp) {
        let prefix = format!("| {standard}-");
        let rows = text.lines().filter(|line| line.starts_with(&prefix)).count();
        assert!(rows >= at_least, "RFC {standard} has {rows} rows");
    }
}

#[test]
fn what_is_wrong_is_found() {
    let sources = Sources {
        functions: HashSet::from(["tested".to_owned()]),
        modules: HashSet::from(["wire".to_owned(), "wire::ddp".to_owned()]),
    };
    let head = "| id | section | requirement | status | where | test |\n|---|---|---|---|---|---|\n";
    let good = "| 1-1 | 1 | r | kept | wire::ddp | `tested` |\n| 1-2 | 1 | r | not kept: reason | - | wire |\n";
    assert_eq!(check(&format!("{head}{good}"), &sources), Vec::<String>::new());
    for row in [
        "| 1-1 | 1 | r |  | wire::ddp | `tested` |",
        "| 1-1 | 1 | r | not kept | wire::ddp | `tested` |",
        "| 1-1 | 1 | r | not applicable: | wire::ddp | `tested` |",
        "| 1-1 | 1 | r | kept | wire::gone | `tested` |",
        "| 1-1 | 1 | r | kept | - | `tested` |",
        "| 1-1 | 1 | r | kept | wire | `gone` |",
        "| 1-1 | 1 | r | kept | wire | gone |",
        "| 1-1 | 1 | r | kept | wire |  |",
        "| 1-1 | 1 |  | kept | wire | `tested` |",
        "| 1-1 | 1 | r | kept | wire |",
        "| 1-1 | 1 | r | kept | wire | `tested` |\n| 1-1 | 1 | r | kept | wire | `tested` |",
    ] {
        assert_eq!(check(&format!("{head}{row}\n"), &sources).len(), 1, "{row}");
    }
    let head = "| input | code | error | test |\n|---|---|---|---|\n";
    for (row, complaints) in [
        ("| i | 2/0/02 | e | `tested` |", 0),
        ("| i | close | e | `tested` |", 0),
        ("| i | 2/0/09 | e | `tested` |", 1),
        ("| i | soon | e | `tested` |", 1),
        ("| i | 2/0/02 | e | `gone` |", 1),
    ] {
        assert_eq!(check(&format!("{head}{row}\n"), &sources).len(), complaints, "{row}");
    }
}

/// The names that rows may use.
struct Sources {
    functions: HashSet<String>,
    /// `crate` and `crate::module`.
    modules: HashSet<String>,
}

impl Sources {
    fn read(root: &Path) -> Self {
        let mut sources = Self { functions: HashSet::new(), modules: HashSet::new() };
        for folder in ["crates", "tests", "fuzz"] {
            files(&root.join(folder)).iter().for_each(|file| sources.read_functions(file));
        }
        for package in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
            sources.read_modules(&package.path());
        }
        sources
    }

    fn read_functions(&mut self, file: &Path) {
        let keyword = if file.extension().is_some_and(|extension| extension == "py") { "def " } else { "fn " };
        let text = fs::read_to_string(file).unwrap_or_default();
        for (at, _) in text.match_indices(keyword) {
            let name = text[at + keyword.len()..].split(|c: char| !c.is_alphanumeric() && c != '_').next();
            self.functions.extend(name.map(str::to_owned));
        }
    }

    fn read_modules(&mut self, package: &Path) {
        let Some(name) = package.file_name().and_then(|name| name.to_str()) else { return };
        self.modules.insert(name.to_owned());
        for entry in fs::read_dir(package.join("src")).into_iter().flatten().flatten() {
            if let Some(module) = entry.path().file_stem().and_then(|stem| stem.to_str()) {
                self.modules.insert(format!("{name}::{module}"));
            }
        }
    }
}

/// All Rust and Python files below a folder, but for what was built.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            if !path.ends_with("target") {
                found.extend(files(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// At most one complaint a row.
fn check(text: &str, sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut table = "";
    let mut ids = HashSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(cells) = cells(line) else {
            table = "";
            continue;
        };
        let is_rule = cells.iter().all(|cell| cell.chars().all(|c| c == '-') && cell.len() > 2);
        let complaint = match table {
            "" => {
                table = cells[0];
                None
            }
            _ if is_rule => None,
            REQUIREMENTS if !ids.insert(cells[0]) => Some("the id was there before".to_owned()),
            REQUIREMENTS => requirement(&cells, sources),
            BAD_INPUT => bad_input(&cells, sources),
            _ => None,
        };
        complaints.extend(complaint.map(|complaint| format!("line {number} ({}): {complaint}", cells[0])));
    }
    complaints
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

fn requirement(cells: &[&str], sources: &Sources) -> Option<String> {
    let &[id, section, text, status, places, tests] = cells else {
        return Some(format!("{} cells, it should have 6", cells.len()));
    };
    if [id, section, text].contains(&"") {
        return Some("an empty cell".to_owned());
    }
    let has_reason = |prefix| status.strip_prefix(prefix).is_some_and(|reason: &str| !reason.trim().is_empty());
    if status != "kept" && !has_reason("not kept:") && !has_reason("not applicable:") {
        return Some(format!("the status `{status}` is none"));
    }
    if status == "kept" && places == "-" {
        return Some("kept, but nowhere".to_owned());
    }
    let unknown = places.split(',').map(str::trim).find(|place| *place != "-" && !sources.modules.contains(*place));
    unknown.map(|place| format!("there is no module `{place}`")).or_else(|| unknown_test(tests, sources))
}

fn bad_input(cells: &[&str], sources: &Sources) -> Option<String> {
    let &[_, code, _, tests] = cells else { return Some(format!("{} cells, it should have 4", cells.len())) };
    if !["close", "none", "-"].contains(&code) && !is_terminate_code(code) {
        return Some(format!("`{code}` is no Terminate code"));
    }
    unknown_test(tests, sources)
}

/// Layer, error type and, in hexadecimal, error code. "to 04" may follow, for a range.
fn is_terminate_code(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    let numbers: Vec<_> = first.split('/').map(|number| u8::from_str_radix(number, 16)).collect();
    let [Ok(layer), Ok(kind), Ok(code)] = numbers[..] else { return false };
    !matches!(TerminateCode::from_numbers(layer, kind, code), TerminateCode::Unknown { .. })
}

/// Tests are named in backticks; a crate's name may be in their place.
fn unknown_test(tests: &str, sources: &Sources) -> Option<String> {
    if tests == "-" || sources.modules.contains(tests) {
        return None;
    }
    let is_known = |test: &str| {
        test.strip_prefix('`')
            .and_then(|test| test.strip_suffix('`'))
            .is_some_and(|test| sources.functions.contains(test))
    };
    tests.split(',').map(str::trim).find(|test| !is_known(test)).map(|test| format!("there is no test {test}"))
}
