//! The names that the library exports: each that is served has its function, and no function is without a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Name, node, whether it is the default, and what it does.
fn names() -> Vec<[String; 4]> {
    names_of("names")
}

/// The same, of this file of `abi`.
fn names_of(file: &str) -> Vec<[String; 4]> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("abi").join(file)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>().try_into();
    lines.map(|line| words(line).unwrap_or_else(|_| panic!("{line:?} has not four words"))).collect()
}

/// The functions that the sources export.
fn functions() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/entry");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let exported = text.split("#[unsafe(no_mangle)]").skip(1);
        found.extend(exported.filter_map(|rest| {
            let name = rest.split_once(" fn ")?.1.split_once('(')?.0;
            Some(name.to_owned())
        }));
    }
    found
}

#[test]
fn each_name_that_is_served_has_its_function() {
    let functions = functions();
    let served: BTreeSet<_> = names()
        .into_iter()
        .filter(|[.., what]| what == "serve")
        .map(|[name, ..]| format!("weft_{}", name.trim_start_matches('_')))
        .collect();
    let missing: Vec<_> = served.difference(&functions).collect();
    assert!(missing.is_empty(), "abi/names says that these are served, and they are not there: {missing:?}");
    let is_of_another = |name: &str| name.starts_with("weft_verbs_") || name.starts_with("weft_rdma_");
    let unnamed: Vec<_> = functions.difference(&served).filter(|name| !is_of_another(name)).collect();
    assert!(unnamed.is_empty(), "no name of abi/names leads to {unnamed:?}");
}

#[test]
fn nodes_have_as_many_names_as_libibverbs_has() {
    let mut nodes = BTreeMap::<String, usize>::new();
    for [_, node, ..] in names() {
        *nodes.entry(node).or_default() += 1;
    }
    let private = |version: &str| nodes.get(&format!("IBVERBS_PRIVATE_{version}")).copied();
    let all = ["34", "57", "59", "64", "65"].map(private);
    assert_eq!(all, [Some(74), Some(73), Some(78), Some(82), Some(92)]);
    let public: Vec<_> = nodes.keys().filter(|node| !node.contains("PRIVATE")).collect();
    assert_eq!(public.len(), 16, "1.0, 1.1, and 1.5 to 1.18: {public:?}");
    assert_eq!((nodes["IBVERBS_1.0"], nodes["IBVERBS_1.1"], nodes["IBVERBS_1.18"]), (42, 48, 11));
}

#[test]
fn a_name_has_one_default_version() {
    let mut defaults = BTreeMap::<String, Vec<String>>::new();
    for [name, node, kind, _] in names() {
        assert!(kind == "default" || kind == "hidden", "{name} {node} {kind}");
        if kind == "default" {
            defaults.entry(name).or_default().push(node);
        }
    }
    let doubled: Vec<_> = defaults.iter().filter(|(_, nodes)| nodes.len() != 1).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
    assert_eq!(defaults["ibv_open_device"], ["IBVERBS_1.1"]);
}

#[test]
fn each_function_that_takes_a_path_has_its_name() {
    let mut named = BTreeSet::new();
    for [name, node, _, what] in names_of("paths") {
        assert_eq!((node.as_str(), what.as_str()), ("-", "path"), "{name}");
        named.insert(format!("weft_path_{name}"));
    }
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/paths/calls.rs")).unwrap();
    let is_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_of_a_name(letter));
    let written: BTreeSet<_> = words.filter(|word| word.starts_with("weft_path_")).map(str::to_owned).collect();
    assert_eq!(named, written);
    assert!(named.len() > 30);
}

#[test]
fn each_name_of_the_connection_manager_leads_somewhere() {
    let (functions, names) = (functions(), names_of("manager"));
    let mut nodes = BTreeMap::<&str, usize>::new();
    for [name, node, kind, what] in &names {
        *nodes.entry(node).or_default() += 1;
        assert_eq!(kind, "default", "{name}");
        let function = match what.as_str() {
            "serve" => format!("weft_{name}"),
            "absent" => "weft_rdma_absent".to_owned(),
            "absent-pointer" => "weft_rdma_absent_pointer".to_owned(),
            "nothing" => "weft_verbs_nothing".to_owned(),
            other => panic!("{name}: {other:?} is none of serve, absent, absent-pointer, nothing"),
        };
        assert!(functions.contains(&function), "{name} leads to {function}, which is not there");
    }
    let unlike: BTreeSet<_> = names.iter().map(|[name, ..]| name).collect();
    assert_eq!(unlike.len(), names.len(), "a name is there twice");
    // 35 functions of the connection manager, and 27 of sockets; those of epoll came last.
    let all = [("RDMACM_1.0", 62), ("RDMACM_1.1", 1), ("RDMACM_1.2", 2), ("RDMACM_1.3", 3), ("RDMACM_1.4", 3)];
    assert_eq!(nodes, all.into_iter().chain([("RDMACM_1.5", 3)]).collect());
}
