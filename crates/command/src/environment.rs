//! The settings that the environment has (`FI_WEFT_*`), as the command reads them.

use std::fmt::Write as _;

use weft::settings::{Audience, Note, Parameters, TUNE, TUNE_DEFAULT, VARIABLES, get, notes};

use crate::failure::Failure;
use crate::output::complain;

/// Checks the environment, and says on standard error which old names it has.
///
/// # Errors
///
/// A value that is not possible, or a name that there is not, with the nearest one.
pub fn check() -> Result<(), Failure> {
    get().map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    for note in notes() {
        match note {
            Note::Unknown { .. } => return Err(Failure::Usage(note.to_string())),
            Note::Old { .. } => complain(format_args!("weft: {note}")),
        }
    }
    Ok(())
}

/// What the environment sets; in one that [`check`] refuses, the defaults.
pub fn parameters() -> Parameters {
    get().cloned().unwrap_or_default()
}

/// The names of all variables with their defaults, for the help of the command.
pub fn help() -> String {
    let mut help =
        String::from("Environment (see fi_weft(7)); libweft-fi.so, libweft-mpi.so and weft perf read it alike:\n");
    for variable in VARIABLES.iter().filter(|variable| variable.audience == Audience::Users) {
        // Writing to a string does not fail.
        let _ = writeln!(help, "  {:<22} default {}", variable.written(), variable.default);
    }
    let _ = writeln!(
        help,
        "  {:<22} default {TUNE_DEFAULT}; key=value,... with the keys (and defaults)",
        format!("FI_WEFT_{TUNE}")
    );
    let tuning = VARIABLES.iter().filter(|variable| variable.audience == Audience::Tuning);
    let keys: Vec<_> = tuning.map(|variable| format!("{} ({})", variable.key(), variable.default)).collect();
    for keys in keys.chunks(3) {
        let _ = writeln!(help, "    {}", keys.join(", "));
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_name_with_its_default() {
        let help = help();
        for variable in &VARIABLES {
            let has = |line: &str| match variable.audience {
                Audience::Users => line.split_whitespace().eq([&variable.written()[..], "default", variable.default]),
                Audience::Tuning => {
                    let mut keys = line.trim().split(',').map(str::trim);
                    keys.any(|key| key == format!("{} ({})", variable.key(), variable.default))
                }
            };
            assert!(help.lines().any(has), "{}: {help}", variable.name);
        }
        assert!(help.contains("FI_WEFT_TUNE "), "{help}");
        assert!(help.lines().all(|line| line.len() <= 90), "{help}");
    }
}
