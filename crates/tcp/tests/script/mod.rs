//! Packet scripts: what comes, and what has to leave. A line is one thing:
//!
//! | line | |
//! |---|---|
//! | `# RFC 9293 ...` | what the script is about |
//! | `set mss 1000 policy place` | settings, before the connection |
//! | `connect`, `listen` | who begins |
//! | `< SA 0 ack 1 win 9000 mss 1000 sack ts 7/0 wscale 2` | a segment comes: flags, `start` or `start:end`, options |
//! | `> A 1:1001 ack 1 blocks 5:9,20:30 win 9000` | the next segment that leaves; what isn't said may be anything |
//! | `nothing` | none leaves |
//! | `wait 200ms` | time passes, and timers fire when they are due |
//! | `write 500`, `read 500`, `offer 100`, `close`, `abort`, `path 500` | the user; `path` is what the network says |
//! | `state TimeWait`, `error Reset`, `shown 0:500,900:1000`, `early 100` | what is to be true |
//! | `either RFC 9293 section 3.8.6.3: ...` | left open by the standard: the lines that follow are of one TCP each |
//! | `weft: > A 1 ack 1`, `linux: nothing` | such a line |
//! | `only weft: ...` | the whole script is of one TCP, and why |
//!
//! Numbers are relative to the first of each direction, so the first byte is 1; what is shown counts from 0. What
//! leaves must be expected before anything else happens. Bytes are their position, and all are checked; `^` behind a
//! segment's flags makes all of its bytes wrong. What comes can also be `damaged` (its checksum), come from its own
//! receiver (`land`), have options that no TCP writes (`raw 0304`), and lie about its header (`words 4`).

use core::time::Duration;

use weft_tcp::{Flow, Segment};

pub(crate) mod said;

use said::Said;
pub(crate) use said::bytes;

pub(crate) type Outcome<T = ()> = Result<T, String>;

/// A TCP that scripts are played with.
pub(crate) trait Subject {
    /// What scripts call it.
    const NAME: &'static str;

    /// The ends of the connection, as it sees them.
    fn flow(&self) -> Flow;

    /// Takes a setting, before [`Subject::begin`].
    fn set(&mut self, name: &str, value: &str) -> Outcome;

    /// Calls, or waits for a call.
    fn begin(&mut self, listens: bool) -> Outcome;

    /// A segment comes, from itself or from the other end of the flow.
    fn bring(&mut self, segment: &[u8], from_itself: bool) -> Outcome;

    /// The next segment that leaves. One does.
    fn next(&mut self) -> Outcome<Option<(Segment, Vec<u8>)>>;

    /// The next segment that leaves, if one does. None should.
    fn next_by_now(&mut self) -> Outcome<Option<(Segment, Vec<u8>)>>;

    /// Time passes.
    fn wait(&mut self, time: Duration) -> Outcome;

    /// What the user does: a word, and what follows it.
    fn call(&mut self, word: &str, rest: &str) -> Outcome;

    /// What is true of it; none when this TCP does not show that.
    fn ask(&mut self, word: &str) -> Outcome<Option<String>>;
}

/// One of the scripts of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script<'a> {
    /// What it is about.
    pub(crate) title: &'a str,
    body: &'a str,
}

impl<'a> Script<'a> {
    /// Those of a file, each under a line that begins with `== `.
    pub(crate) fn all(text: &'a str) -> Vec<Self> {
        let one = |script: &'a str| {
            let (title, body) = script.split_once('\n').unwrap_or((script, ""));
            Self { title, body }
        };
        text.split("\n== ").skip(1).map(one).collect()
    }

    /// Whether it is meant for that TCP.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        let mut only = self.body.lines().filter_map(|line| line.strip_prefix("only "));
        only.all(|line| line.split_once(": ").is_some_and(|(who, why)| who == name && !why.is_empty()))
    }
}

struct Player<S> {
    subject: S,
    ours: Option<u32>,
    listens: bool,
    /// The lines before say what the standard leaves open.
    is_open: bool,
}

/// Plays a script; the first line that doesn't come true is the error.
pub(crate) fn play<S: Subject>(script: Script<'_>, subject: S) -> Outcome {
    let mut player = Player { subject, ours: None, listens: false, is_open: false };
    for (number, line) in script.body.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() && !line.starts_with("only ") {
            player.any(line).map_err(|error| format!("line {}: `{line}`: {error}", number + 1))?;
        }
    }
    player.nothing()
}

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Outcome<T> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

pub(crate) fn duration(text: &str) -> Outcome<Duration> {
    match text.strip_suffix("ms") {
        Some(millis) => Ok(Duration::from_millis(number(millis)?)),
        None => Ok(Duration::from_secs(number(text.strip_suffix('s').unwrap_or(text))?)),
    }
}

fn span(text: &str) -> Outcome<(u64, u64)> {
    let (start, end) = text.split_once(':').unwrap_or((text, text));
    Ok((number(start)?, number(end)?))
}

fn spans(text: &str) -> Outcome<Vec<(u64, u64)>> {
    text.split(',').filter(|one| !one.is_empty()).map(span).collect()
}

impl<S: Subject> Player<S> {
    fn any(&mut self, line: &str) -> Outcome {
        if let Some(clause) = line.strip_prefix("either ") {
            self.is_open = clause.starts_with("RFC ") && clause.contains(": ");
            return if self.is_open { Ok(()) } else { Err("no clause is named".to_owned()) };
        }
        let Some((who, line)) = line.split_once(": ").filter(|(who, _)| ["weft", "linux"].contains(who)) else {
            self.is_open = false;
            return self.line(line);
        };
        match who == S::NAME {
            _ if !self.is_open => Err("no `either` allows a difference here".to_owned()),
            true => self.line(line),
            false => Ok(()),
        }
    }

    fn line(&mut self, line: &str) -> Outcome {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            ">" => self.expect(rest),
            "<" => self.nothing().and_then(|()| self.bring(&Said::parse(rest)?)),
            "nothing" => self.nothing(),
            "wait" => self.nothing().and_then(|()| self.subject.wait(duration(rest)?)),
            "set" => self.set(rest),
            "connect" | "listen" => {
                self.listens = word == "listen";
                self.subject.begin(self.listens)
            }
            "state" | "error" | "shown" | "early" => self.check(word, rest),
            _ => self.nothing().and_then(|()| self.subject.call(word, rest)),
        }
    }

    fn set(&mut self, text: &str) -> Outcome {
        let words: Vec<_> = text.split_whitespace().collect();
        words.chunks(2).try_for_each(|pair| match pair {
            [name, value] => self.subject.set(name, value),
            _ => Err("a setting wants a value".to_owned()),
        })
    }

    fn check(&mut self, word: &str, rest: &str) -> Outcome {
        match self.subject.ask(word)? {
            Some(is) if is != rest => Err(format!("it is {is}")),
            _ => Ok(()),
        }
    }

    fn bring(&mut self, said: &Said) -> Outcome {
        let segment = said.segment(&self.subject.flow(), self.ours.unwrap_or(0));
        self.subject.bring(&segment, said.land)
    }

    fn expect(&mut self, text: &str) -> Outcome {
        let said = Said::parse(text)?;
        let (segment, payload) = self.subject.next()?.ok_or("nothing leaves")?;
        let wrong = said.differs(&segment, &payload, self.first_number(&segment));
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
    }

    fn nothing(&mut self) -> Outcome {
        let Some((segment, payload)) = self.subject.next_by_now()? else { return Ok(()) };
        let first = self.first_number(&segment);
        Err(format!("before it, this leaves: {}", said::describe(&segment, &payload, first)))
    }

    /// A caller has one first number, a listener one for each call. Zero as long as there is none.
    fn first_number(&mut self, segment: &Segment) -> u32 {
        if segment.flags.syn && (self.listens || self.ours.is_none()) {
            self.ours = Some(segment.sequence);
        }
        self.ours.unwrap_or(0)
    }
}
