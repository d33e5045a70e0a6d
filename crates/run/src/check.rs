//! `weft run --check`: whether a program would use Weft's libibverbs.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use weft_command::failure::Failure;
use weft_command::output;
use weft_command::verbs::LIBRARY;

use crate::elf::Elf;
use crate::places::find_program;

/// Says what a program wants of libibverbs, and whether it gets it.
///
/// # Errors
/// It would not use Weft: the words say why.
pub(crate) fn check(program: &OsStr, folder: &Path) -> Result<(), Failure> {
    let path =
        find_program(program).ok_or_else(|| Failure::Runtime(format!("there is no program {}", program.display())))?;
    let read = |path: &Path| fs::read(path).map_err(Failure::while_doing(format!("cannot read {}", path.display())));
    let library = Elf::parse(&read(&folder.join(LIBRARY))?).unwrap_or_default();
    let findings = judge(&read(&path)?, &library.defined).map_err(Failure::Runtime)?;
    output::print_bytes(format!("{}: {findings}\n", path.display()).as_bytes())
}

/// The report on the program with these bytes.
///
/// # Errors
/// Why it would not use Weft.
pub(crate) fn judge(bytes: &[u8], versions: &[String]) -> Result<String, String> {
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        return Ok(format!("a script for {}: what that loads gets Weft's libibverbs", line.trim()));
    }
    let Some(elf) = Elf::parse(bytes) else {
        return Err("it is no program of this kind of machine (ELF, 64 bits)".to_owned());
    };
    if !elf.has_interpreter {
        return Err("it is linked statically: no library can take its calls. Link it with the shared libibverbs".into());
    }
    let missing: Vec<_> = elf
        .wanted
        .iter()
        .filter(|(library, version)| library == LIBRARY && !versions.contains(version))
        .map(|(_, version)| version.as_str())
        .collect();
    if !missing.is_empty() {
        return Err(format!("it wants versions that this libibverbs does not have ({})", missing.join(", ")));
    }
    if !elf.needed.iter().any(|library| library == LIBRARY) {
        return Ok(format!(
            "it is not linked with {LIBRARY}; what loads that by name, or is linked with it, gets Weft's"
        ));
    }
    Ok(format!("linked with {LIBRARY}, which is Weft's under `weft run`"))
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn scripts_and_other_files_are_told_apart() {
        assert!(judge(b"#!/usr/bin/python3\nimport x\n", &[]).unwrap().starts_with("a script for /usr/bin/python3:"));
        assert!(judge(b"something", &[]).unwrap_err().contains("ELF"));
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        let own = judge(&own, &[]);
        assert!(own.as_ref().is_ok_and(|words| words.contains("not linked with")) || own.is_err(), "{own:?}");
    }
}
