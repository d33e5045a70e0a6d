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
//! | `write 500`, `read 500`, `offer 100`, `close`, `abort`, `path 500` | the user |
//! | `state TimeWait`, `error Reset`, `shown 0:500,900:1000`, `early 100` | what is to be true |
//!
//! Numbers are relative to the first of each direction, so the first byte is 1; what is shown counts from 0. What
//! leaves must be expected before anything else happens. Bytes are their position, and all are checked; `^` behind a
//! segment's flags makes all of its bytes wrong.

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::{StreamPosition, Time};
use weft_tcp::{
    Answer, Congestion, Connection, Flags, Flow, InitialNumbers, KeepAlive, Listener, Options, ReceivePolicy, Segment,
    Settings, Timestamps,
};

/// Numbers of both directions wrap soon.
const OURS: u32 = u32::MAX - 700;
const THEIRS: u32 = u32::MAX - 300;

fn flow() -> Flow {
    Flow { local: ([10, 0, 0, 1], 1000).into(), remote: ([10, 0, 0, 2], 2000).into() }
}

pub(crate) struct Player {
    settings: Settings,
    now: Time,
    listener: Option<Listener>,
    connection: Option<Box<Connection>>,
    ours: u32,
    left: VecDeque<(Segment, Vec<u8>)>,
    shown: Vec<(u64, u64)>,
    read: u64,
    written: u64,
}

type Outcome = Result<(), String>;

/// Plays a script; the first line that doesn't come true is the error.
pub(crate) fn play(script: &str) -> Outcome {
    // The windows of the scripts are those of RFC 5681 and RFC 6675.
    let settings = Settings {
        congestion: Congestion::Reno,
        mss: 1000,
        timestamps: false,
        receive_window: 60_000,
        ..Settings::default()
    };
    let mut player = Player {
        settings,
        now: Time::from_nanos(5_000_000_000),
        listener: None,
        connection: None,
        ours: OURS,
        left: VecDeque::new(),
        shown: Vec::new(),
        read: 0,
        written: 0,
    };
    for (number, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            player.line(line).map_err(|error| format!("line {}: `{line}`: {error}", number + 1))?;
        }
    }
    player.nothing()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn span(text: &str) -> Result<(u64, u64), String> {
    let (start, end) = text.split_once(':').unwrap_or((text, text));
    Ok((number(start)?, number(end)?))
}

fn spans(text: &str) -> Result<Vec<(u64, u64)>, String> {
    text.split(',').filter(|one| !one.is_empty()).map(span).collect()
}

fn duration(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("ms") {
        Some(millis) => Ok(Duration::from_millis(number(millis)?)),
        None => Ok(Duration::from_secs(number(text.strip_suffix('s').unwrap_or(text))?)),
    }
}

/// The bytes of either stream at these positions.
fn bytes(start: u64, end: u64) -> Vec<u8> {
    (start..end).map(|position| (position % 251) as u8).collect()
}

/// A line of a segment, taken apart.
#[derive(Debug, Default)]
struct Said {
    flags: Flags,
    wrong: bool,
    start: u64,
    end: u64,
    ack: Option<u64>,
    window: Option<u16>,
    blocks: Option<Vec<(u64, u64)>>,
    mss: Option<u16>,
    scale: Option<u8>,
    sack: bool,
    stamps: Option<(u32, u32)>,
}

impl Said {
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let letters = words.next().ok_or("flags are missing")?;
        let has = |letter| letters.contains(letter);
        let flags = Flags { syn: has('S'), ack: has('A'), fin: has('F'), rst: has('R'), psh: has('P') };
        let (start, end) = span(words.next().ok_or("a number is missing")?)?;
        let mut said = Self { flags, wrong: has('^'), start, end, ..Self::default() };
        while let Some(word) = words.next() {
            if word == "sack" {
                said.sack = true;
                continue;
            }
            let value = words.next().ok_or(format!("`{word}` wants a value"))?;
            match word {
                "ack" => said.ack = Some(number(value)?),
                "win" => said.window = Some(number(value)?),
                "blocks" => said.blocks = Some(spans(value.trim_matches('-'))?),
                "mss" => said.mss = Some(number(value)?),
                "wscale" => said.scale = Some(number(value)?),
                "ts" => {
                    let (value, echo) = value.split_once('/').ok_or("ts wants two numbers")?;
                    said.stamps = Some((number(value)?, number(echo)?));
                }
                _ => return Err(format!("`{word}` is nothing of a segment")),
            }
        }
        Ok(said)
    }

    fn segment(&self, ours: u32) -> Segment {
        let own = |position: u64| ours.wrapping_add(position as u32);
        Segment {
            source: flow().remote.port(),
            destination: flow().local.port(),
            sequence: THEIRS.wrapping_add(self.start as u32),
            acknowledgement: self.ack.map_or(0, own),
            flags: self.flags,
            window: self.window.unwrap_or(60_000),
            options: Options {
                mss: self.mss,
                window_scale: self.scale,
                sack_permitted: self.sack,
                timestamps: self.stamps.map(|(value, echo)| Timestamps { value, echo }),
                sack: self.blocks.iter().flatten().map(|(start, end)| (own(*start), own(*end))).collect(),
            },
        }
    }

    /// What of it a segment that leaves does not say.
    fn differs(&self, segment: &Segment, payload: &[u8], ours: u32) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut compare = |name: &str, said: String, is: String| {
            if said != is {
                wrong.push(format!("{name} is {is}"));
            }
        };
        let is = &segment.flags;
        let flags = Flags { psh: is.psh && self.flags.psh, ..*is };
        compare("flags", format!("{:?}", self.flags), format!("{flags:?}"));
        let start = u64::from(segment.sequence.wrapping_sub(ours));
        compare("start", self.start.to_string(), start.to_string());
        compare("end", self.end.max(self.start).to_string(), (start + payload.len() as u64).to_string());
        if let Some(ack) = self.ack {
            compare("ack", ack.to_string(), segment.acknowledgement.wrapping_sub(THEIRS).to_string());
        }
        if let Some(window) = self.window {
            compare("win", window.to_string(), segment.window.to_string());
        }
        if let Some(blocks) = &self.blocks {
            let relative = |number: u32| u64::from(number.wrapping_sub(THEIRS));
            let is: Vec<_> =
                segment.options.sack.iter().map(|(start, end)| (relative(*start), relative(*end))).collect();
            compare("blocks", format!("{blocks:?}"), format!("{is:?}"));
        }
        if let Some((_, echo)) = self.stamps {
            compare("echo", echo.to_string(), segment.options.timestamps.map_or(0, |stamps| stamps.echo).to_string());
        }
        if segment.flags.syn {
            compare("mss", format!("{:?}", self.mss), format!("{:?}", segment.options.mss));
            compare("wscale", format!("{:?}", self.scale), format!("{:?}", segment.options.window_scale));
            compare("sack", self.sack.to_string(), segment.options.sack_permitted.to_string());
        }
        if payload != bytes(start, start + payload.len() as u64) {
            wrong.push("its bytes are wrong".to_owned());
        }
        wrong
    }
}

impl Player {
    fn line(&mut self, line: &str) -> Outcome {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            ">" => return self.expect(rest),
            "<" => self.nothing().and_then(|()| self.bring(&Said::parse(rest)?))?,
            "nothing" => self.nothing()?,
            "wait" => self.nothing().and_then(|()| self.wait(duration(rest)?))?,
            "set" => self.set(rest)?,
            "connect" => {
                let connection = Connection::connect(flow(), self.settings, OURS, self.now);
                self.connection = Some(Box::new(connection.map_err(|error| error.to_string())?));
            }
            "listen" => {
                let listener = Listener::new(self.settings, InitialNumbers::new(&[9; 32]), 4);
                self.listener = Some(listener.map_err(|error| error.to_string())?);
            }
            "state" | "error" | "shown" | "early" => self.check(word, rest)?,
            _ => self.nothing().and_then(|()| self.act(word, rest))?,
        }
        self.collect();
        Ok(())
    }

    fn set(&mut self, text: &str) -> Outcome {
        let words: Vec<_> = text.split_whitespace().collect();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err("a setting wants a value".to_owned()) };
            let settings = &mut self.settings;
            match *name {
                "mss" => settings.mss = number(value)?,
                "window" => settings.receive_window = number(value)?,
                "ranges" => settings.ranges = number(value)?,
                "sack" => settings.sack = *value == "on",
                "timestamps" => settings.timestamps = *value == "on",
                "challenges" => settings.challenges = number(value)?,
                "give_up" => settings.give_up = duration(value)?,
                "keep_alive" => {
                    let (idle, interval) = (duration(value)?, Duration::from_secs(1));
                    settings.keep_alive = Some(KeepAlive { idle, interval, probes: 2 });
                }
                "policy" => {
                    settings.policy = match *value {
                        "place" => ReceivePolicy::Place,
                        "buffer" => ReceivePolicy::Buffer,
                        "drop" => ReceivePolicy::Drop,
                        _ => return Err(format!("`{value}` is no policy")),
                    }
                }
                _ => return Err(format!("`{name}` is no setting")),
            }
        }
        Ok(())
    }

    fn act(&mut self, word: &str, rest: &str) -> Outcome {
        let connection = self.connection.as_mut().ok_or("there is no connection")?;
        match word {
            "write" => {
                let length: u64 = number(rest)?;
                let bytes = bytes(1 + self.written, 1 + self.written + length);
                let took = connection.write(&bytes) as u64;
                self.written += took;
                if took != length {
                    return Err(format!("{took} were taken"));
                }
            }
            "read" => {
                let length: u64 = number(rest)?;
                let mut read = vec![0; length as usize];
                let took = connection.read(&mut read) as u64;
                if took != length || read != bytes(1 + self.read, 1 + self.read + length) {
                    return Err(format!("{took} were read: {read:?}"));
                }
                self.read += took;
            }
            "offer" => connection.offer(number(rest)?),
            "path" => connection.set_path_mss(number(rest)?),
            "close" => connection.close(),
            "abort" => connection.abort(),
            _ => return Err("nobody knows what that is".to_owned()),
        }
        Ok(())
    }

    fn check(&mut self, word: &str, rest: &str) -> Outcome {
        let connection = self.connection.as_ref().ok_or("there is no connection")?;
        let is = match word {
            "state" => format!("{:?}", connection.state()),
            "error" => connection.error().map_or("none".to_owned(), |error| format!("{error:?}")),
            "early" => connection.early_bytes().to_string(),
            _ => {
                let shown = std::mem::take(&mut self.shown);
                shown.iter().map(|(start, end)| format!("{start}:{end}")).collect::<Vec<_>>().join(",")
            }
        };
        if is == rest || (word == "shown" && rest == "nothing" && is.is_empty()) {
            Ok(())
        } else {
            Err(format!("it is {is}"))
        }
    }

    fn bring(&mut self, said: &Said) -> Outcome {
        let segment = said.segment(self.ours);
        let mut payload = bytes(said.start, said.end);
        if said.wrong {
            payload.iter_mut().for_each(|byte| *byte ^= 0xff);
        }
        if self.connection.is_none() {
            let listener = self.listener.as_mut().ok_or("nobody connects or listens")?;
            match listener.handle(&flow(), &segment, payload.len(), self.now) {
                Answer::Nothing => return Ok(()),
                Answer::Reply(reply) => {
                    if reply.flags.syn {
                        self.ours = reply.sequence;
                    }
                    self.left.push_back((reply, Vec::new()));
                    return Ok(());
                }
                Answer::Accepted(connection) => self.connection = Some(connection),
            }
        }
        let connection = self.connection.as_mut().ok_or("there is no connection")?;
        let shown = &mut self.shown;
        let mut sink = |position: StreamPosition, shows: &[u8]| {
            assert!(shows == bytes(position.0 + 1, position.0 + 1 + shows.len() as u64), "wrong bytes at {position:?}");
            shown.push((position.0, position.0 + shows.len() as u64));
            true
        };
        connection.handle(&segment, &payload, &mut sink, self.now);
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> Outcome {
        let end = self.now + time;
        loop {
            let next = match (&self.connection, &self.listener) {
                (Some(connection), _) => connection.next_timeout(),
                (_, Some(listener)) => listener.next_timeout(),
                _ => None,
            };
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if let Some(connection) = &mut self.connection {
                connection.handle_timeout(self.now);
            } else if let Some(listener) = &mut self.listener {
                listener.handle_timeout(self.now, |_, segment| self.left.push_back((segment, Vec::new())));
            }
            self.collect();
        }
        self.now = end;
        Ok(())
    }

    fn collect(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        while let Some(outgoing) = connection.poll_transmit(self.now) {
            let mut payload = vec![0; outgoing.payload_length()];
            connection.copy_payload(&outgoing.payload, &mut payload);
            self.left.push_back((outgoing.segment, payload));
        }
    }

    fn expect(&mut self, text: &str) -> Outcome {
        let said = Said::parse(text)?;
        let (segment, payload) = self.left.pop_front().ok_or("nothing leaves")?;
        let wrong = said.differs(&segment, &payload, self.ours);
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
    }

    fn nothing(&self) -> Outcome {
        let Some((segment, payload)) = self.left.front() else { return Ok(()) };
        let start = segment.sequence.wrapping_sub(self.ours);
        Err(format!("before it, this leaves: {:?} {start}, {} bytes", segment.flags, payload.len()))
    }
}
