//! `weft man`: the manual pages of the command, made from its own help.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use weft_command::failure::Failure;

/// Where they go.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory, which is made if it is not there
    directory: PathBuf,
}

/// Writes a page for `command` and one for each of its subcommands that help shows.
pub(crate) fn run(arguments: &Arguments, command: Command) -> Result<(), Failure> {
    let directory = &arguments.directory;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(directory)
        .and_then(|()| write_pages(&command, directory))
        .map_err(Failure::while_doing(format_args!("writing manual pages to {}", directory.display())))
}

fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand, directory)?;
    }
    let page = Man::new(command.clone().after_help(Resettable::Reset))
        .source(concat!("weft ", env!("CARGO_PKG_VERSION")))
        .manual("Weft");
    let mut file = File::create(directory.join(page.get_filename()))?;
    page.render(&mut file)?;
    let rest = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    file.write_all(closing(&rest).to_roff().as_bytes())
}

/// The text below the options in the help. There, lines that are indented are examples, and others are text.
fn closing(help: &str) -> Roff {
    let is_example = |line: &str| line.starts_with("  ");
    let mut page = Roff::new();
    let examples: Vec<_> = help.lines().filter(|line| is_example(line)).collect();
    if !examples.is_empty() {
        page.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples {
            page.text([roman(line.trim_start())]);
        }
        page.control("fi", []);
    }
    let notes: Vec<_> = help.lines().filter(|line| !is_example(line) && !line.starts_with("Example")).collect();
    if notes.iter().any(|line| !line.trim().is_empty()) {
        page.control("SH", ["NOTES"]);
        for paragraph in notes.split(|line| line.trim().is_empty()).filter(|lines| !lines.is_empty()) {
            page.control("PP", []).text([roman(paragraph.join("\n"))]);
        }
    }
    page.control("SH", ["SEE ALSO"]).text([roman("weft(1), fi_weft(7)")]);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines() {
        let page =
            closing("Examples:\n  weft a    # first\n  weft b\n\nMore text.\nOf two lines.\n\nAnd more.").to_roff();
        let line =
            |text: &str| page.lines().position(|line| line == text).unwrap_or_else(|| panic!("{text:?}: {page}"));
        assert!(line(".nf") < line("weft a    # first") && line("weft a    # first") + 1 == line("weft b"));
        assert!(line("weft b") < line(".fi") && line(".fi") < line(".SH NOTES"));
        assert_eq!(line("More text.") + 1, line("Of two lines."));
        assert!(page.contains(".PP\nAnd more."));
    }

    #[test]
    fn there_is_nothing_where_the_help_has_nothing() {
        let page = closing("").to_roff();
        assert!(!page.contains("EXAMPLES") && !page.contains("NOTES"), "{page}");
    }
}
