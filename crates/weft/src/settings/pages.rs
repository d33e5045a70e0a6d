//! The pages for users describe every variable, and no other, with the same default.

use super::table::{Audience, TUNE, TUNE_DEFAULT, VARIABLES};

const MANUAL: &str = include_str!("../../../../packaging/fi_weft.7");
const MPI_PAGE: &str = include_str!("../../../../docs/mpi/README.md");

/// A name as a page has it, and its default.
type Described = (String, String);

/// What there is: `FI_WEFT_PORT`, `short`.
fn all() -> Vec<Described> {
    let name = |variable: &super::Variable| match variable.audience {
        Audience::Users => variable.written(),
        Audience::Tuning => variable.key(),
    };
    let known = VARIABLES.iter().map(|variable| (name(variable), variable.default.to_owned()));
    let mut all: Vec<_> = known.chain([(format!("FI_WEFT_{TUNE}"), TUNE_DEFAULT.to_owned())]).collect();
    all.sort();
    all
}

/// The entries of the manual's section on the environment.
fn manual() -> Vec<Described> {
    let section = MANUAL.split("\n.SH ").find(|section| section.starts_with("ENVIRONMENT")).unwrap();
    let entry = |entry: &str| {
        let (name, text) = entry.split_once('\n').unwrap();
        let words: Vec<_> = text.split_whitespace().filter(|word| !word.starts_with('.')).collect();
        let at = words.iter().position(|word| *word == "Default:").unwrap_or_else(|| panic!("{name} has no default"));
        (name.to_owned(), words[at + 1].trim_end_matches(['.', ',', ';']).to_owned())
    };
    let mut all: Vec<_> = section.split(".TP\n.B ").skip(1).map(entry).collect();
    all.sort();
    all
}

/// The rows of the tables on the page for MPI.
fn tables() -> Vec<Described> {
    let section = MPI_PAGE.split("\n## ").find(|section| section.starts_with("Parameters")).unwrap();
    let row = |line: &str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let default = rest.split([' ', ',']).next()?.trim_matches('`').to_owned();
        let is_key = name.chars().all(|one| one.is_ascii_lowercase() || one == '_');
        let name = if is_key { name.to_owned() } else { format!("FI_WEFT_{name}") };
        (!name.contains('.')).then_some((name, default))
    };
    let mut all: Vec<_> = section.lines().filter_map(row).collect();
    all.sort();
    all
}

#[test]
fn the_manual_describes_what_there_is_with_its_default() {
    assert_eq!(manual(), all());
}

#[test]
fn the_page_for_mpi_describes_what_there_is_with_its_default() {
    assert_eq!(tables(), all());
}
