//! What lies between, as options say it: a file, or the keys of a scenario one by one.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, FromArgMatches};
use weft_scenario::{KEYS, TEXT_BYTES};
use weft_wan::WanError;

use super::shared::failure;
use weft_command::failure::Failure;

/// The options of the path between the two networks.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    scenario: Option<PathBuf>,
    seed: Option<u64>,
    /// Key and value, for both directions.
    both: Vec<(&'static str, String)>,
    /// The same for one direction.
    forward: Vec<(String, String)>,
    reverse: Vec<(String, String)>,
}

/// The text of a scenario, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) text: String,
    /// Where the files are that it names.
    pub(super) folder: PathBuf,
    /// The file; `None`: it was made of options.
    file: Option<PathBuf>,
}

const ONE_WAY: [(&str, &str); 2] = [
    ("forward", "Only from the first host to the second (out of this machine): delay=4ms,loss=1 and all keys above"),
    ("reverse", "The same for the other direction"),
];

impl clap::Args for Options {
    fn augment_args(command: Command) -> Command {
        let command = command
            .arg(
                Arg::new("scenario")
                    .long("scenario")
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .conflicts_with_all(KEYS.map(|(key, _)| key))
                    .conflicts_with_all(["forward", "reverse", "seed"])
                    .help("A file that says all that, and how it changes over time"),
            )
            .arg(
                Arg::new("seed")
                    .long("seed")
                    .value_name("N")
                    .value_parser(clap::value_parser!(u64).range(..=i64::MAX as u64))
                    .help("What happens by chance comes from this number [default: 1]"),
            );
        let command = KEYS.iter().fold(command, |command, (key, help)| {
            let arg = Arg::new(*key).long(*key).value_name(value_name(key)).help(capital(help));
            // A flag, unless it has a value.
            let is_flag = ["overtake", "codel", "cut"].contains(key);
            command.arg(if is_flag { arg.num_args(0..=1).default_missing_value("true") } else { arg })
        });
        ONE_WAY.into_iter().fold(command, |command, (name, help)| {
            let arg = Arg::new(name).long(name).value_name("KEY=VALUE,...").value_delimiter(',');
            command.arg(arg.value_parser(pair).help(help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let of_key = |key: &'static str| Some((key, matches.get_one::<String>(key)?.clone()));
        let of_way = |name: &str| matches.get_many(name).into_iter().flatten().cloned().collect();
        self.scenario = matches.get_one("scenario").cloned();
        self.seed = matches.get_one("seed").copied();
        self.both = KEYS.iter().filter_map(|(key, _)| of_key(key)).collect();
        (self.forward, self.reverse) = (of_way("forward"), of_way("reverse"));
        Ok(())
    }
}

fn value_name(key: &str) -> &'static str {
    match key {
        "delay" | "jitter" | "normal" | "pareto" | "codel-interval" | "reorder-by" => "TIME",
        "codel" => "TARGET",
        "delays" | "trace" => "FILE",
        "rate" => "RATE",
        "queue" | "mark-at" | "mtu" => "BYTES",
        "burst" => "PACKETS",
        "pareto-shape" | "corrupt-bits" => "N",
        "overtake" | "cut" => "true|false",
        _ => "PERCENT",
    }
}

fn capital(help: &str) -> String {
    let (first, rest) = help.split_at(1);
    first.to_uppercase() + rest
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is no KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Options {
    /// Whether no option was given.
    pub(super) fn is_nothing(&self) -> bool {
        self.scenario.is_none() && self.both.is_empty() && self.forward.is_empty() && self.reverse.is_empty()
    }

    /// The scenario that they name.
    pub(super) fn source(&self) -> Result<Source, Failure> {
        if let Some(file) = &self.scenario {
            return read(file);
        }
        let mut text = format!("seed = {}\n", self.seed.unwrap_or(1));
        let both = self.both.iter().map(|(key, value)| (*key, value.as_str()));
        table(&mut text, "both", both);
        for (name, pairs) in [("forward", &self.forward), ("reverse", &self.reverse)] {
            table(&mut text, name, pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        }
        Ok(Source { text, folder: PathBuf::new(), file: None })
    }
}

fn table<'a>(text: &mut String, name: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    text.push_str(&format!("[{name}]\n"));
    for (key, value) in pairs {
        // What JSON quotes TOML reads.
        let [key, value] = [key, value].map(|text| serde_json::to_string(text).expect("a text becomes JSON"));
        text.push_str(&format!("{key} = {value}\n"));
    }
}

/// The scenario of a file.
pub(super) fn read(file: &Path) -> Result<Source, Failure> {
    let mut text = Vec::new();
    // One that is longer is refused by what is read of it, with its line.
    let read = File::open(file).and_then(|input| input.take(TEXT_BYTES as u64 + 1).read_to_end(&mut text));
    read.map_err(Failure::while_doing(file.display()))?;
    let text = String::from_utf8(text).or_else(|error| {
        let is_long = error.as_bytes().len() > TEXT_BYTES;
        let cannot = || Failure::Usage(format!("{}: this is no text in UTF-8", file.display()));
        if is_long { Ok(String::from_utf8_lossy(error.as_bytes()).into_owned()) } else { Err(cannot()) }
    })?;
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    Ok(Source { text, folder, file: Some(file.to_owned()) })
}

impl Source {
    /// What is wrong, in the file or with the options.
    pub(super) fn failure(&self, error: WanError) -> Failure {
        match (error, &self.file) {
            (WanError::Scenario(error), Some(file)) => Failure::Usage(format!("{}: {error}", file.display())),
            // There are no lines.
            (WanError::Scenario(error), None) => Failure::Usage(error.message.replace(" in [both]", "")),
            (error, _) => failure(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;
    use weft_scenario::Scenario;

    fn source(words: &[&str]) -> Result<Source, clap::Error> {
        let command = Options::augment_args(Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(words)?;
        Ok(Options::from_arg_matches(&matches)?.source().unwrap())
    }

    fn shown(words: &[&str]) -> String {
        let scenario = Scenario::parse(&source(words).unwrap().text, |_| Err("no file".to_owned())).unwrap();
        let of = |direction| scenario.conditions(direction).to_string();
        format!("{}; {}", of(weft_scenario::Direction::Forward), of(weft_scenario::Direction::Reverse))
    }

    #[test]
    fn options_make_a_scenario() {
        assert_eq!(shown(&["--delay", "4ms"]), "delay 4ms; delay 4ms");
        let words = ["--rate", "1G", "--codel", "--forward", "delay=1ms,loss=2", "--reverse", "rate=10M,cut=true"];
        assert_eq!(
            shown(&words),
            "rate 1 Gb/s, codel 5ms in 100ms, delay 1ms, loss 2 %; cut, rate 10 Mb/s, codel 5ms in 100ms"
        );
    }

    #[test]
    fn what_can_not_be_is_refused() {
        for words in [&["--forward", "delay"][..], &["--scenario", "x", "--delay", "1ms"], &["--seed", "-1"]] {
            assert!(source(words).is_err(), "{words:?}");
        }
        let source = source(&["--loss", "\"\n[x]"]).unwrap();
        let error = Scenario::parse(&source.text, |_| Ok(String::new())).unwrap_err();
        let message = source.failure(error.into()).to_string();
        assert!(message.starts_with("loss: \"\\\"\\n[x]\" is no share"), "{message}");
    }
}
