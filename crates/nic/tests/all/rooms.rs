//! The rooms of this crate have floors: a room uses only rooms below it (`docs/architecture.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Every room, the lowest first: each may use those before it.
const FLOORS: [&str; 18] = [
    "key",
    "settings",
    "callback",
    "ids",
    "offer",
    "error",
    "rail_report",
    "counters",
    "policy",
    "queues",
    "lower",
    "connection",
    "engine",
    "progress",
    "messaging",
    "nic",
    "stream",
    "endpoint",
];

/// The source files of a folder, and of those in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The code of a file: no comments, and nothing that only the documentation uses.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(doc)]" {
            // A `use` may go over several lines.
            while lines.next().is_some_and(|line| !line.trim_end().ends_with(';')) {}
            continue;
        }
        code.push_str(line);
        code.push('\n');
    }
    code
}

/// The words that follow `crate::` in some code.
fn used(code: &str) -> impl Iterator<Item = &str> {
    let word = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    // `weft_base::…` and the like end otherwise.
    code.match_indices("crate::").filter(|(at, _)| !code[..*at].ends_with('_')).map(move |(at, found)| {
        let rest = &code[at + found.len()..];
        &rest[..word(rest)]
    })
}

/// Which rooms each room uses.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources(&root).into_iter().filter(|path| *path != root.join("lib.rs")) {
        let inside = path.strip_prefix(&root).expect("a path below the root");
        let room = inside.components().next().expect("a room").as_os_str().to_string_lossy();
        let room = room.trim_end_matches(".rs").to_owned();
        let text = code(&fs::read_to_string(&path).expect("a source file"));
        let others = used(&text).filter(|other| *other != room).map(str::to_owned);
        graph.entry(room.clone()).or_default().extend(others);
    }
    graph
}

#[test]
fn a_room_uses_only_rooms_below_it() {
    let graph = graph();
    let rooms: BTreeSet<&str> = graph.keys().map(String::as_str).collect();
    assert_eq!(rooms, BTreeSet::from(FLOORS), "each room has its floor in FLOORS");
    let floor = |room: &str| FLOORS.iter().position(|other| *other == room);
    let wrong: Vec<String> = graph
        .iter()
        .flat_map(|(room, others)| others.iter().map(move |other| (room, other)))
        .filter(|(room, other)| floor(other).is_none_or(|below| Some(below) >= floor(room)))
        .map(|(room, other)| format!("{room} uses {other}"))
        .collect();
    assert!(wrong.is_empty(), "not below, or not a room (name the room, not what lib.rs makes public): {wrong:#?}");
}

#[test]
fn only_its_lower_layer_knows_mpa() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let may = [root.join("lower/mpa"), root.join("offer.rs")];
    let knows = |path: &PathBuf| code(&fs::read_to_string(path).expect("a source file")).contains("weft_mpa");
    let others = sources(&root).into_iter().filter(|path| !may.iter().any(|may| path.starts_with(may)));
    let wrong: Vec<PathBuf> = others.filter(knows).collect();
    assert!(wrong.is_empty(), "a second lower layer is no business of theirs: {wrong:#?}");
}

#[test]
fn only_its_lower_layer_knows_edge() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let knows = |path: &PathBuf| code(&fs::read_to_string(path).expect("a source file")).contains("weft_edge");
    let others = sources(&root).into_iter().filter(|path| !path.starts_with(root.join("lower/edge")));
    let wrong: Vec<PathBuf> = others.filter(knows).collect();
    assert!(wrong.is_empty(), "a second lower layer is no business of theirs: {wrong:#?}");
}

/// What is said of lower layers to all of them, and of what each is in words that fit all.
const SEAM: [&str; 5] = ["above", "datagrams", "io", "seam", "words"];

/// The traits of some code, with the number of their methods.
fn traits(code: &str) -> Vec<(String, usize)> {
    let blocks = code.split("\npub trait ").skip(1);
    blocks
        .map(|block| {
            let name = block.chars().take_while(|letter| letter.is_alphanumeric()).collect();
            let body = block.split("\n}").next().unwrap_or_default();
            (name, body.lines().filter(|line| line.starts_with("    fn ")).count())
        })
        .collect()
}

#[test]
fn a_trait_of_the_seam_has_at_most_14_methods() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lower");
    let read = |file: &str| code(&fs::read_to_string(root.join(file).with_extension("rs")).expect("a source file"));
    let mut all: Vec<(String, usize)> = SEAM.iter().flat_map(|file| traits(&read(file))).collect();
    for name in ["StreamSink", "Setup", "Segments", "Pollable", "Datagrams", "DatagramPorts", "Lower"] {
        assert!(all.iter().any(|(other, _)| other == name), "{name} is none of {all:?}");
    }
    let before = all.len();
    // And below: what a stream is carried by.
    let below = traits(&read("../../../base/src/network"));
    let ports = below.into_iter().filter(|(name, _)| ["Port", "Segmented", "Lending"].contains(&&**name));
    all.extend(ports);
    assert_eq!(all.len() - before, 3, "{all:?}");
    let wide: Vec<_> = all.iter().filter(|(_, methods)| *methods > 14).collect();
    assert!(wide.is_empty(), "split them: {wide:?}");
    assert_eq!(traits("\npub trait A: B {\n    fn a();\n    fn b() {\n    }\n}\nfn c() {}\n"), [("A".to_owned(), 2)]);
}

#[test]
fn neither_the_engine_nor_the_seam_names_a_lower_layer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = sources(&root.join("engine"));
    files.push(root.join("engine.rs"));
    files.extend(SEAM.map(|file| root.join("lower").join(file).with_extension("rs")));
    let mut wrong = Vec::new();
    for path in &files {
        let text = code(&fs::read_to_string(path).expect("a source file"));
        // What stands in quotes goes out on the wire, or into a key.
        let outside: Vec<&str> = text.split('"').step_by(2).collect();
        let words =
            outside.iter().flat_map(|part| part.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
        let layer = words.map(str::to_lowercase).find(|word| ["mpa", "edge", "choice", "iwarp"].contains(&&**word));
        wrong.extend(layer.map(|word| format!("{}: {word}", path.display())));
    }
    assert!(wrong.is_empty() && files.len() > 20, "what is above any lower layer knows none: {wrong:#?}");
}

/// The product's files that name the laboratory, how often, and for what.
const DOORS: [(&str, usize, &str); 12] = [
    ("lib.rs", 1, "the settings are public"),
    ("settings.rs", 9, "they are checked"),
    ("nic.rs", 2, "what a thread does that posts: chosen when a NIC begins"),
    ("nic/calling.rs", 4, "the choice"),
    ("progress/mod.rs", 1, "has the folder"),
    ("progress/worker.rs", 2, "the life of the NIC's thread: chosen when it begins"),
    ("queues/queue_pair.rs", 5, "the caller's stage of a connection: set when that is established"),
    ("lower/mpa/mod.rs", 9, "what is made of the bytes: chosen when a connection is established"),
    ("lower/edge/mod.rs", 1, "has the folder"),
    ("lower/edge/startup.rs", 2, "what becomes of segments: chosen when a connection is established"),
    ("lower/edge/state.rs", 3, "the choice"),
    ("lower/edge/receiving.rs", 2, "follows it"),
];

/// Whether a file belongs to the laboratory: it lies in a folder of this name, or has it.
fn is_laboratory(inside: &Path) -> bool {
    inside.components().any(|part| Path::new(part.as_os_str()).file_stem().is_some_and(|stem| stem == "laboratory"))
}

/// The words of some code.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// The functions and methods that some code defines.
fn functions(code: &str) -> BTreeSet<String> {
    code.match_indices("fn ")
        .filter_map(|(at, found)| words(&code[at + found.len()..]).next().map(str::to_owned))
        .collect()
}

#[test]
fn the_product_names_the_laboratory_only_where_something_begins() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files: Vec<(PathBuf, String)> = sources(&root)
        .into_iter()
        .map(|path| (path.strip_prefix(&root).expect("below the root").to_owned(), path))
        .map(|(inside, path)| (inside, code(&fs::read_to_string(path).expect("a source file"))))
        .collect();
    let (laboratory, product): (Vec<_>, Vec<_>) = files.iter().partition(|(inside, _)| is_laboratory(inside));
    assert!(laboratory.len() > 10 && product.len() > 100, "{} files of {}", laboratory.len(), files.len());
    // What is a method of the product's types can be called without its folder's name.
    let of_product: BTreeSet<String> = product.iter().flat_map(|(_, code)| functions(code)).collect();
    let own: BTreeSet<String> = laboratory.iter().flat_map(|(_, code)| functions(code)).collect();
    let own: BTreeSet<&String> = own.difference(&of_product).collect();
    let mut wrong = Vec::new();
    for (inside, code) in &product {
        let name = inside.to_string_lossy();
        let count = words(code).filter(|word| word.to_lowercase().contains("laboratory")).count();
        let door = DOORS.iter().find(|(door, _, _)| *door == name);
        if count != door.map_or(0, |(_, count, _)| *count) {
            wrong.push(format!("{name} names it {count} times"));
        }
        let called = own.iter().filter(|method| door.is_none() && code.contains(&format!(".{method}(")));
        wrong.extend(called.map(|method| format!("{name} calls {method}")));
    }
    assert!(wrong.is_empty(), "take the decision where something begins, by a variant of a state: {wrong:#?}");
}
