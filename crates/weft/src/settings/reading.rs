//! How the variables are read.

use core::fmt;
use std::sync::OnceLock;

use super::parameters::Parameters;
use super::table::{Audience, KEY, STREAM, TUNE, VARIABLES, Variable};

/// What all names begin with.
const PREFIX: &str = "FI_WEFT_";

/// What the environment of this process sets. Read once, by the first call.
///
/// # Errors
/// The first variable, in the order of [`VARIABLES`], with an invalid value.
pub fn get() -> Result<&'static Parameters, &'static Wrong> {
    environment().as_ref().map(|read| &read.parameters)
}

/// What a user should know about the environment of this process besides errors. Empty if there is an error.
#[must_use]
pub fn notes() -> &'static [Note] {
    environment().as_ref().map_or(&[][..], |read| &read.notes[..])
}

fn environment() -> &'static Result<Read, Wrong> {
    static READ: OnceLock<Result<Read, Wrong>> = OnceLock::new();
    READ.get_or_init(|| {
        // What is no UTF-8 has the replacement character, which makes the value invalid.
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        read(std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    })
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// The settings.
    pub parameters: Parameters,
    /// What else a user should know.
    pub notes: Vec<Note>,
}

/// What a user should know, though it is no error of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Old names were taken.
    Old {
        /// The variables.
        names: Vec<String>,
        /// What to set in their place.
        instead: String,
    },
    /// A variable, or a key of `FI_WEFT_TUNE`, that there is not: it has no effect.
    Unknown {
        /// As it was written.
        written: String,
        /// The nearest that there is.
        nearest: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old { names, instead } => write!(
                f,
                "{}: this release still takes what the next one will not; set FI_WEFT_{TUNE}={instead}",
                names.join(", ")
            ),
            Self::Unknown { written, nearest } => {
                write!(f, "{written}: there is no such setting, and it has no effect; the nearest is {nearest}")
            }
        }
    }
}

/// A variable with an invalid value.
#[derive(Clone, PartialEq, Eq)]
pub struct Wrong {
    /// As it was written: `FI_WEFT_PORT`, or `FI_WEFT_TUNE: short`.
    written: String,
    /// Its value.
    value: String,
    /// Whether the value is a secret.
    is_secret: bool,
    /// What is possible.
    possible: &'static str,
}

impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, value, is_secret, possible } = self;
        if *is_secret {
            // This is written to log files.
            return write!(f, "{written} (of {} bytes, not shown) is not possible: it must be {possible}", value.len());
        }
        write!(f, "{written}={value:?} is not possible: it must be {possible}")
    }
}

impl core::error::Error for Wrong {}

/// A value of a variable of the table, and how it was written.
struct Given {
    variable: &'static Variable,
    written: String,
    value: String,
}

impl Given {
    fn wrong(&self) -> Wrong {
        let (written, value) = (self.written.clone(), self.value.clone());
        Wrong { written, value, is_secret: self.variable.name == KEY, possible: self.variable.possible }
    }

    fn set(&self, parameters: &mut Parameters) -> Result<(), Wrong> {
        let is_text = !self.value.contains(char::REPLACEMENT_CHARACTER);
        let set = || (self.variable.set)(parameters, &self.value);
        is_text.then(set).flatten().ok_or_else(|| self.wrong())?;
        // Some values require others.
        parameters.nic.check().map_err(|_| self.wrong())
    }
}

/// Reads the settings from these variables. Those whose names do not begin with `FI_WEFT_` are left alone, and so are
/// those without a value.
///
/// # Errors
/// The first variable, in the order of [`VARIABLES`], with an invalid value.
pub fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Read, Wrong> {
    let (given, notes) = sort(variables)?;
    let mut parameters = Parameters::default();
    let find = |variable: &Variable| given.iter().rfind(|given| core::ptr::eq(given.variable, variable));
    for variable in &VARIABLES {
        find(variable).map_or(Ok(()), |given| given.set(&mut parameters))?;
    }
    let messages = &mut parameters.endpoint.messages;
    // Messages that are sent without a request must fit into what is kept: otherwise they could only wait for their
    // receive, and so would everything that the peer sends after them.
    let most = messages.unexpected_bytes / 2;
    if messages.stream_bytes > most {
        if let Some(stream) = given.iter().rfind(|given| given.variable.name == STREAM) {
            return Err(stream.wrong());
        }
        messages.stream_bytes = most;
    }
    messages.stream_bytes = messages.stream_bytes.max(messages.short_bytes.into());
    messages.eager_bytes = messages.eager_bytes.max(messages.stream_bytes);
    Ok(Read { parameters, notes })
}

/// Which variables of the table are given, the one that counts behind others of the same, and the notes about them.
fn sort(variables: impl IntoIterator<Item = (String, String)>) -> Result<(Vec<Given>, Vec<Note>), Wrong> {
    let own = |(name, value): (String, String)| Some((name.strip_prefix(PREFIX)?.to_owned(), value.trim().to_owned()));
    let mut own: Vec<(String, String)> = variables.into_iter().filter_map(own).collect();
    own.retain(|(_, value)| !value.is_empty());
    own.sort();
    let (mut given, mut notes, mut old, mut tune) = (Vec::new(), Vec::new(), Vec::new(), String::new());
    for (name, value) in own {
        if name == TUNE {
            tune = value;
            continue;
        }
        let written = format!("{PREFIX}{name}");
        match VARIABLES.iter().find(|variable| variable.name == name) {
            Some(variable) => {
                if variable.audience == Audience::Tuning {
                    old.push((written.clone(), format!("{}={value}", variable.key())));
                }
                given.push(Given { variable, written, value });
            }
            None => notes.push(Note::Unknown { written, nearest: nearest(&name) }),
        }
    }
    if !old.is_empty() {
        let (names, mut instead): (Vec<_>, Vec<_>) = old.into_iter().unzip();
        instead.extend((!tune.is_empty()).then(|| tune.clone()));
        notes.push(Note::Old { names, instead: instead.join(",") });
    }
    for pair in tune.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| no_pair(pair))?;
        let written = format!("{PREFIX}{TUNE}: {}", key.trim());
        let is_it = |variable: &&Variable| {
            variable.audience == Audience::Tuning && variable.name.eq_ignore_ascii_case(key.trim())
        };
        match VARIABLES.iter().find(is_it) {
            Some(variable) => given.push(Given { variable, written, value: value.trim().to_owned() }),
            None => notes.push(Note::Unknown { written, nearest: nearest(key.trim()) }),
        }
    }
    Ok((given, notes))
}

/// `FI_WEFT_TUNE` has something that is no pair.
fn no_pair(pair: &str) -> Wrong {
    let (written, value) = (format!("{PREFIX}{TUNE}"), pair.to_owned());
    Wrong { written, value, is_secret: false, possible: "key=value, or several of them, separated by commas" }
}

/// The name that differs least from one that there is not.
fn nearest(name: &str) -> String {
    let all = VARIABLES.iter().map(|variable| (variable.name, variable.written()));
    let all = all.chain([(TUNE, format!("{PREFIX}{TUNE}"))]);
    let nearest = all.min_by_key(|(known, _)| distance(&name.to_ascii_uppercase(), known));
    nearest.map_or_else(String::new, |(_, written)| written)
}

/// How many characters of one text are to be inserted, removed or replaced so that it is the other (Levenshtein's
/// distance).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (at, character) in one.chars().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], at + 1);
        for (column, expected) in other.chars().enumerate() {
            let replaced = diagonal + usize::from(character != expected);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use weft_nic::Progress;

    use super::*;

    fn read_all(pairs: &[(&str, &str)]) -> Result<Read, Wrong> {
        read(pairs.iter().map(|(name, value)| (format!("{PREFIX}{name}"), (*value).to_owned())))
    }

    fn with(pairs: &[(&str, &str)]) -> Result<Parameters, Wrong> {
        read_all(pairs).map(|read| read.parameters)
    }

    fn tuned(tune: &str) -> Result<Parameters, Wrong> {
        with(&[(TUNE, tune)])
    }

    #[test]
    fn nothing_set_is_the_defaults() {
        let others = [("PATH", "/"), ("FI_PROVIDER", "weft"), ("FI_WEFT_PROGRESS", " "), ("FI_WEFT_NOTHING", "")];
        let read = read(others.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap();
        assert_eq!(format!("{:?}", read.parameters), format!("{:?}", Parameters::default()));
        assert_eq!(read.notes, []);
    }

    #[test]
    fn each_variable_sets_what_it_is_for() {
        let users = with(&[("PROGRESS", "Thread"), ("PORT", "5000-5009"), ("PEER_TIMEOUT", "0")]).unwrap();
        assert_eq!((users.nic.progress, users.ports), (Progress::Thread, Some(5000..=5009)));
        assert_eq!(users.nic.peer_timeout, None);
        let tune = "stream=100k, ALONE = 50k,lend=Off,eager=1MiB,unexpected=1g,unexpected_messages=2000,credits=32,\
                    connect_timeout=2.5,adaptive=Off";
        let tuned = tuned(tune).unwrap();
        let messages = &tuned.endpoint.messages;
        assert_eq!((messages.stream_bytes, messages.alone_bytes), (100 * 1024, 50 * 1024));
        assert_eq!((messages.eager_bytes, messages.unexpected_bytes), (1 << 20, 1 << 30));
        assert_eq!((messages.unexpected_messages, messages.data_credits), (2000, 32));
        assert_eq!((tuned.nic.lend_threshold, tuned.nic.adaptive), (u32::MAX, false));
        assert_eq!(tuned.endpoint.connect_timeout, Duration::from_millis(2500));
    }

    #[test]
    fn an_old_name_is_taken_and_one_line_says_the_new_ones() {
        let read = read_all(&[("SPIN", "7"), ("SHORT", "8K"), (TUNE, "spin=9,linger=1")]).unwrap();
        assert_eq!(read.parameters.endpoint.messages.short_bytes, 8192);
        assert_eq!(read.parameters.nic.spin, Duration::from_micros(9), "the new form counts");
        let [note] = &read.notes[..] else { panic!("{:?}", read.notes) };
        assert_eq!(
            note.to_string(),
            "FI_WEFT_SHORT, FI_WEFT_SPIN: this release still takes what the next one will not; set \
             FI_WEFT_TUNE=short=8K,spin=7,spin=9,linger=1"
        );
        assert_eq!(tuned("short=8K,spin=7,spin=9,linger=1").unwrap().nic.spin, Duration::from_micros(9));
    }

    #[test]
    fn a_name_that_there_is_not_is_told_with_the_nearest() {
        let cases = [
            ("TRANSPROT", "1", "FI_WEFT_TRANSPROT", "FI_WEFT_TRANSPORT"),
            ("INTERFACES", "1", "FI_WEFT_INTERFACES", "FI_WEFT_INTERFACE"),
            ("SPINN", "1", "FI_WEFT_SPINN", "FI_WEFT_TUNE=spin=..."),
            ("TUNES", "spin=1", "FI_WEFT_TUNES", "FI_WEFT_TUNE"),
            (TUNE, "shrot=1", "FI_WEFT_TUNE: shrot", "FI_WEFT_TUNE=short=..."),
            (TUNE, "port=1", "FI_WEFT_TUNE: port", "FI_WEFT_PORT"),
        ];
        for (name, value, written, nearest) in cases {
            let (written, nearest) = (written.to_owned(), nearest.to_owned());
            assert_eq!(read_all(&[(name, value)]).unwrap().notes, [Note::Unknown { written, nearest }]);
        }
        let note = &read_all(&[("TRANSPROT", "1")]).unwrap().notes[0];
        assert_eq!(
            note.to_string(),
            "FI_WEFT_TRANSPROT: there is no such setting, and it has no effect; the nearest is FI_WEFT_TRANSPORT"
        );
    }

    #[test]
    fn texts_are_as_far_apart_as_they_have_to_be_changed() {
        for (one, other, apart) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "acb", 2)] {
            assert_eq!((distance(one, other), distance(other, one)), (apart, apart), "{one} {other}");
        }
    }

    #[test]
    fn a_packet_has_room_for_a_short_message_and_streamed_and_eager_ones_are_no_shorter() {
        let messages = tuned("short=64k,stream=0,eager=1k").unwrap().endpoint.messages;
        assert!(messages.packet_bytes > 64 * 1024);
        assert_eq!(messages.short_bytes, 64 * 1024);
        assert_eq!((messages.stream_bytes, messages.eager_bytes), (64 * 1024, 64 * 1024));
    }

    #[test]
    fn what_is_sent_at_once_fits_into_what_is_kept() {
        for tune in
            ["stream=1m,unexpected=64k", "stream=33k,unexpected=64k", "stream=65m,unexpected=128m", "stream=128m"]
        {
            assert_eq!(tuned(tune).unwrap_err().written, "FI_WEFT_TUNE: stream", "{tune}");
        }
        assert!(tuned("stream=32k,unexpected=64k").is_ok());
        let messages = tuned("unexpected=100k").unwrap().endpoint.messages;
        assert_eq!((messages.stream_bytes, messages.eager_bytes), (50 * 1024, 128 * 1024));
    }

    #[test]
    fn a_key_is_taken_as_it_stands_and_never_shown() {
        let good = with(&[("KEY", "0123456789abcdef")]).unwrap();
        assert!(good.key.is_some() && good.nic.key.is_some());
        assert!(with(&[]).unwrap().key.is_none());
        let error = with(&[("KEY", "s3cret")]).unwrap_err();
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(
                text.starts_with("FI_WEFT_KEY (of 6 bytes, not shown) is not possible: it must be a text of 16"),
                "{text}"
            );
        }
        assert!(with(&[("KEY", "0123456789abcdef\u{fffd}")]).is_err(), "it was no UTF-8");
        assert!(!format!("{good:?}").contains("0123456789"));
    }

    #[test]
    fn a_wrong_value_is_named_with_what_is_possible() {
        let error = with(&[("PROGRESS", "fast")]).unwrap_err();
        assert_eq!(error.to_string(), "FI_WEFT_PROGRESS=\"fast\" is not possible: it must be hybrid, thread or caller");
        let error = tuned("spin=20,short=65K").unwrap_err();
        assert_eq!(
            error.to_string(),
            "FI_WEFT_TUNE: short=\"65K\" is not possible: it must be a number of bytes from 0 to 64K"
        );
        let error = tuned("spin=20,short").unwrap_err();
        assert_eq!(
            error.to_string(),
            "FI_WEFT_TUNE=\"short\" is not possible: it must be key=value, or several of them, separated by commas"
        );
        assert_eq!(with(&[("SHORT", "65K")]).unwrap_err().written, "FI_WEFT_SHORT", "as it was written");
        for (name, value) in [("PORT", "0"), ("PEER_TIMEOUT", "-3"), ("INTERFACE", "300.0.0.0/8"), ("ENGINES", "65")] {
            assert_eq!(with(&[(name, value)]).unwrap_err().written, format!("{PREFIX}{name}"), "{value}");
        }
        for tune in ["eager=-1", "eager=17179869184G", "credits=1", "connect_timeout=0", "connect_timeout=nan"] {
            let key = tune.split('=').next().unwrap();
            assert_eq!(tuned(tune).unwrap_err().written, format!("{PREFIX}{TUNE}: {key}"), "{tune}");
        }
        let both = with(&[("PROGRESS", "caller"), ("ENGINES", "2")]);
        assert!(both.unwrap_err().to_string().starts_with("FI_WEFT_ENGINES=\"2\""));
    }
}
