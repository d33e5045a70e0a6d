//! No file is part of an import circle of more than two files of its crate, but for the circles that are listed here,
//! and the rooms of `weft-perf` are floors: each imports only those below it.
//!
//! An import is a path that begins with `crate`, `super`, `self` or a module below, in a `use` or elsewhere. What a
//! file only re-exports (`pub use`) it does not import: the path leads to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The largest circle.
const LARGEST: usize = 2;

/// Crates that have a larger one still, and of how many files. They become fewer and smaller.
const LARGER: [(&str, usize); 6] =
    [("libfabric", 7), ("link", 5), ("mpi", 3), ("simulate", 10), ("weft", 5), ("window", 4)];

/// The rooms of `weft-perf`, the lowest first.
const FLOORS: [&str; 11] = [
    "statistics",
    "result",
    "report",
    "figures",
    "host",
    "model",
    "mpi",
    "contestants",
    "runner",
    "experiments",
    "command",
];

/// A module: its path within the crate.
type Module = Vec<String>;

/// The files of a crate, by the module that each of them is.
struct Crate(BTreeMap<Module, Source>);

struct Source {
    name: String,
    text: String,
    /// Names that it re-exports, and the paths that they have in it.
    exports: BTreeMap<String, Vec<String>>,
}

#[test]
fn no_circle_is_larger_than_it_may_be() {
    let (mut circles, mut crates) = (Vec::new(), 0);
    for name in crates_of_workspace() {
        let files = Crate::of_workspace(&name);
        let allowed = LARGER.iter().find(|(other, _)| *other == name).map_or(LARGEST, |(_, files)| *files);
        let found = files.circles();
        let large = found.iter().filter(|circle| circle.len() > allowed);
        circles.extend(large.map(|circle| circle.join(" ")));
        let largest = found.iter().map(Vec::len).max().unwrap_or(0);
        assert!(allowed == LARGEST || largest == allowed, "{name}: the largest circle has {largest} files by now");
        crates += 1;
    }
    assert!(circles.is_empty(), "\n\n{}\n", circles.join("\n"));
    assert!(crates > 20, "{crates} crates");
}

fn crates_of_workspace() -> Vec<String> {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the folder of the crates");
    folders.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_room_of_perf_imports_only_rooms_below_it() {
    let files = Crate::of_workspace("perf");
    let floor = |module: &Module| FLOORS.iter().position(|room| Some(*room) == module.first().map(String::as_str));
    let inside = || files.0.keys().filter(|module| !module.is_empty());
    let unplaced: Vec<_> = inside().filter(|module| floor(module).is_none()).collect();
    assert!(unplaced.is_empty(), "no floor for {unplaced:?}");
    let up = inside().flat_map(|module| files.imports(module).into_iter().map(move |home| (module, home)));
    let up: Vec<_> = up.filter(|(module, home)| floor(home) > floor(module)).collect();
    assert!(up.is_empty(), "up the stairs: {up:?}");
}

#[test]
fn circles_are_found() {
    let files = Crate::of([
        ("", "a/lib.rs", "mod one;\nmod two;\nmod three;\npub use two::Two;\n"),
        ("one", "a/one.rs", "use crate::Two;\n"),
        ("two", "a/two.rs", "use super::three::{self, Three};\n"),
        ("three", "a/three.rs", "fn f() { crate::one::g(); }\n"),
    ]);
    assert_eq!(files.circles(), [["a/one.rs", "a/three.rs", "a/two.rs"]]);
    let below = Crate::of([
        ("", "a/lib.rs", "mod one;\n"),
        ("one", "a/one.rs", "mod two;\nmod three;\nuse two::Two;\n"),
        ("one::two", "a/one/two.rs", "use super::three::Three;\n"),
        ("one::three", "a/one/three.rs", "fn f() { super::g(); }\n"),
    ]);
    assert_eq!(below.circles(), [["a/one.rs", "a/one/three.rs", "a/one/two.rs"]]);
    let none = Crate::of([
        ("", "a/lib.rs", "mod one;\nmod two;\n"),
        ("one", "a/one.rs", "use super::two::*; // use crate::one::X;\n"),
        ("two", "a/two.rs", "mod tests { use super::*; }\n"),
    ]);
    assert!(none.circles().is_empty());
}

impl Crate {
    /// That in the folder of this name beside this crate's.
    fn of_workspace(name: &str) -> Self {
        let files = Self::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"));
        assert!(!files.0.is_empty(), "{name} has no files");
        files
    }

    fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let relative = path.strip_prefix(root).expect("below the root").with_extension("");
                    let mut module: Module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                    module.retain(|part| !["mod", "lib", "main"].contains(&part.as_str()));
                    let text = fs::read_to_string(&path).expect("a text file");
                    files.insert(module, Source::new(path.display().to_string(), &text));
                }
            }
        }
        Self(files)
    }

    fn of<const N: usize>(files: [(&str, &str, &str); N]) -> Self {
        let module = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Self(files.map(|(path, name, text)| (module(path), Source::new(name.to_owned(), text))).into())
    }

    /// The module whose file defines what a path names, seen from `module`. `None`: it is not of this crate.
    fn home(&self, module: &[String], path: &[String], depth: usize) -> Option<Module> {
        let mut at: Module = module.to_vec();
        let mut rest = path;
        while let [first, more @ ..] = rest {
            match first.as_str() {
                "crate" => at.clear(),
                // A module within the file may be what it leaves; then it stays in the file.
                "super" => drop(at.pop()),
                "self" => {}
                _ => break,
            }
            rest = more;
        }
        while let [first, more @ ..] = rest {
            let mut below = at.clone();
            below.push(first.clone());
            if self.0.contains_key(&below) {
                (at, rest) = (below, more);
                continue;
            }
            let exported = self.0.get(&at).and_then(|source| source.exports.get(first));
            return match exported {
                Some(path) if depth < 8 => self.home(&at, path, depth + 1),
                _ => Some(at),
            };
        }
        Some(at)
    }

    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let source = &self.0[module];
        let within: Vec<&str> = source.text.lines().filter(|line| !line.trim_start().starts_with("pub")).collect();
        let children = self.0.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
        let starts: Vec<String> = children.map(|child| format!("{}::", child[module.len()])).collect();
        let starts = starts.iter().map(String::as_str).chain(["crate::", "super::", "self::"]);
        let paths = paths(&within.join("\n"), starts);
        let homes = paths.into_iter().filter_map(|path| self.home(module, &path, 0));
        homes.filter(|home| home != module && self.0.contains_key(home)).collect()
    }

    /// Files of each circle, sorted: those from each of which all others can be reached.
    fn circles(&self) -> Vec<Vec<&str>> {
        let imports: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.keys().map(|module| (module, self.imports(module))).collect();
        let reached = |from: &Module| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(module) = next.pop() {
                next.extend(imports[&module].iter().filter(|module| seen.insert((*module).clone())).cloned());
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.keys().map(|module| (module, reached(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, others) in reached.iter().filter(|(module, others)| others.contains(**module)) {
            let circle = others.iter().filter(|other| reached[other].contains(*module));
            let mut names: Vec<&str> = circle.map(|module| self.0[module].name.as_str()).collect();
            names.sort_unstable();
            circles.insert(names);
        }
        circles.into_iter().collect()
    }
}

impl Source {
    /// Without its comments and its tests.
    fn new(name: String, text: &str) -> Self {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        let text = code.join("\n");
        let mut exports = BTreeMap::new();
        for statement in text.split(';') {
            let Some((before, tree)) = statement.rsplit_once("use ") else { continue };
            let is_public = before.lines().last().is_some_and(|line| line.trim_start().starts_with("pub"));
            for path in expand(tree).into_iter().filter(|_| is_public) {
                let (path, alias) = match path.iter().position(|part| part.contains(" as ")) {
                    Some(at) => {
                        let (name, alias) = path[at].split_once(" as ").expect("it is there");
                        let mut real = path[..at].to_vec();
                        real.push(name.trim().to_owned());
                        (real, alias.trim().to_owned())
                    }
                    None => (path.clone(), path.last().cloned().unwrap_or_default()),
                };
                exports.insert(alias, path);
            }
        }
        Self { name, text, exports }
    }
}

/// All paths of a text that begin with one of these.
fn paths<'a>(text: &str, starts: impl Iterator<Item = &'a str>) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for start in starts {
        for (at, _) in text.match_indices(start) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':') {
                continue;
            }
            all.extend(expand(tree_at(&text[at..])));
        }
    }
    all
}

/// The path at the beginning of a text, with its braces.
fn tree_at(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' if text[..at].ends_with("::") || depth > 0 => depth += 1,
            '}' if depth > 1 => depth -= 1,
            '}' if depth == 1 => return &text[..=at],
            _ if depth > 0 => {}
            letter if letter.is_alphanumeric() || "_:*".contains(letter) => {}
            _ => return &text[..at],
        }
    }
    text
}

/// Each path of a tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((head, body)) = tree.split_once('{') else {
        let parts = tree.split("::").map(|part| part.trim().to_owned());
        return vec![parts.filter(|part| !part.is_empty() && part != "*").collect()];
    };
    let body = body.trim_end().strip_suffix('}').unwrap_or(body);
    let head: Vec<String> =
        head.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for letter in body.chars() {
        match letter {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        parts.last_mut().expect("there is one").push(letter);
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| expand(part));
    parts.map(|part| head.iter().cloned().chain(part).collect()).collect()
}
