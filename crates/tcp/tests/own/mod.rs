//! Weft's TCP as it plays scripts, in virtual time.

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::{StreamPosition, Time};
use weft_tcp::{
    Answer, Checksum, Congestion, Connection, Flow, InitialNumbers, KeepAlive, Listener, ReceivePolicy, Segment,
    Settings, State, TimeWaits, Waiting,
};

use crate::script::{Outcome, Subject, bytes, duration, number};

/// Numbers of both directions wrap soon.
const OURS: u32 = u32::MAX - 700;

pub(crate) struct Own {
    settings: Settings,
    now: Time,
    listener: Option<Listener>,
    connection: Option<Box<Connection>>,
    left: VecDeque<(Segment, Vec<u8>)>,
    shown: Vec<(u64, u64)>,
    read: u64,
    written: u64,
}

impl Own {
    pub(crate) fn new() -> Self {
        // The windows of the scripts are those of RFC 5681 and RFC 6675.
        let settings = Settings {
            congestion: Congestion::Reno,
            mss: 1000,
            timestamps: false,
            receive_window: 60_000,
            ..Settings::default()
        };
        Self {
            settings,
            now: Time::from_nanos(5_000_000_000),
            listener: None,
            connection: None,
            left: VecDeque::new(),
            shown: Vec::new(),
            read: 0,
            written: 0,
        }
    }

    /// A SYN for a connection in TIME-WAIT, of which no more than a record is left then.
    fn call_again(&mut self, flow: &Flow, syn: &Segment) -> Outcome {
        let (mut waits, now) = (TimeWaits::new(1), self.now);
        let connection = self.connection.as_mut().ok_or("there is no connection")?;
        waits.insert(connection.time_wait().ok_or("it is not in TIME-WAIT")?);
        match (waits.handle(flow, syn, 0, self.listener.is_some(), now), &mut self.listener) {
            (Some(Waiting::Reply(reply)), _) => self.left.push_back((reply, Vec::new())),
            (Some(Waiting::Renewed(least)), Some(listener)) => {
                let Answer::Reply(reply) = listener.handle_renewed(flow, syn, least, now) else {
                    return Err("it is not answered".to_owned());
                };
                self.left.push_back((reply, Vec::new()));
                self.connection = None;
            }
            _ => {}
        }
        Ok(())
    }

    /// A segment that belongs to no connection.
    fn stray(&mut self, flow: &Flow, segment: &Segment, payload: &[u8]) -> Outcome {
        let listener = self.listener.as_mut().ok_or("nobody connects or listens")?;
        match listener.handle(flow, segment, payload.len(), self.now) {
            Answer::Nothing => {}
            Answer::Reply(reply) => self.left.push_back((reply, Vec::new())),
            Answer::Accepted(connection) => {
                self.connection = Some(connection);
                self.take(segment, payload);
            }
        }
        Ok(())
    }

    fn take(&mut self, segment: &Segment, payload: &[u8]) {
        let Some(connection) = &mut self.connection else { return };
        let shown = &mut self.shown;
        let mut sink = |position: StreamPosition, shows: &[u8]| {
            assert!(shows == bytes(position.0 + 1, position.0 + 1 + shows.len() as u64), "wrong bytes at {position:?}");
            shown.push((position.0, position.0 + shows.len() as u64));
            true
        };
        connection.handle(segment, payload, &mut sink, self.now);
    }

    fn write(&mut self, length: u64) -> Outcome {
        let connection = self.connection.as_mut().ok_or("there is no connection")?;
        let took = connection.write(&bytes(1 + self.written, 1 + self.written + length)) as u64;
        self.written += took;
        if took == length { Ok(()) } else { Err(format!("{took} were taken")) }
    }

    fn read(&mut self, length: u64) -> Outcome {
        let connection = self.connection.as_mut().ok_or("there is no connection")?;
        let mut read = vec![0; length as usize];
        let took = connection.read(&mut read) as u64;
        if took != length || read != bytes(1 + self.read, 1 + self.read + length) {
            return Err(format!("{took} were read: {read:?}"));
        }
        self.read += took;
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
}

impl Subject for Own {
    const NAME: &'static str = "weft";

    fn flow(&self) -> Flow {
        Flow { local: ([10, 0, 0, 1], 1000).into(), remote: ([10, 0, 0, 2], 2000).into() }
    }

    fn set(&mut self, name: &str, value: &str) -> Outcome {
        let settings = &mut self.settings;
        match name {
            "mss" => settings.mss = number(value)?,
            "window" => settings.receive_window = number(value)?,
            "ranges" => settings.ranges = number(value)?,
            "sack" => settings.sack = value == "on",
            "timestamps" => settings.timestamps = value == "on",
            "challenges" => settings.challenges = number(value)?,
            "give_up" => settings.give_up = duration(value)?,
            "keep_alive" => {
                let (idle, interval) = (duration(value)?, Duration::from_secs(1));
                settings.keep_alive = Some(KeepAlive { idle, interval, probes: 2 });
            }
            "policy" => {
                settings.policy = match value {
                    "place" => ReceivePolicy::Place,
                    "buffer" => ReceivePolicy::Buffer,
                    "drop" => ReceivePolicy::Drop,
                    _ => return Err(format!("`{value}` is no policy")),
                }
            }
            _ => return Err(format!("`{name}` is no setting")),
        }
        Ok(())
    }

    fn begin(&mut self, listens: bool) -> Outcome {
        if listens {
            let listener = Listener::new(self.settings, InitialNumbers::new(&[9; 32]), 4);
            self.listener = Some(listener.map_err(|error| error.to_string())?);
        } else {
            let connection = Connection::connect(self.flow(), self.settings, OURS, self.now);
            self.connection = Some(Box::new(connection.map_err(|error| error.to_string())?));
            self.collect();
        }
        Ok(())
    }

    fn bring(&mut self, segment: &[u8], from_itself: bool) -> Outcome {
        let flow = self.flow();
        let flow = if from_itself { Flow { remote: flow.local, ..flow } } else { flow };
        let read = Segment::parse(segment, flow.remote.ip(), flow.local.ip(), Checksum::Verify);
        let Ok((header, payload)) = read else { return Ok(()) };
        let payload = &segment[payload];
        let is_in_time_wait = self.connection.as_ref().is_some_and(|one| one.state() == State::TimeWait);
        match self.connection {
            Some(_) if is_in_time_wait && header.flags.syn => self.call_again(&flow, &header)?,
            Some(_) if !from_itself => self.take(&header, payload),
            _ => self.stray(&flow, &header, payload)?,
        }
        self.collect();
        Ok(())
    }

    fn next(&mut self) -> Outcome<Option<(Segment, Vec<u8>)>> {
        Ok(self.left.pop_front())
    }

    fn next_by_now(&mut self) -> Outcome<Option<(Segment, Vec<u8>)>> {
        Ok(self.left.pop_front())
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

    fn call(&mut self, word: &str, rest: &str) -> Outcome {
        match word {
            "write" => self.write(number(rest)?)?,
            "read" => self.read(number(rest)?)?,
            _ => {
                let connection = self.connection.as_mut().ok_or("there is no connection")?;
                match word {
                    "offer" => connection.offer(number(rest)?),
                    "path" => connection.set_path_mss(number(rest)?),
                    "close" => connection.close(),
                    "abort" => connection.abort(),
                    _ => return Err("nobody knows what that is".to_owned()),
                }
            }
        }
        self.collect();
        Ok(())
    }

    fn ask(&mut self, word: &str) -> Outcome<Option<String>> {
        let Some(connection) = &self.connection else {
            // A listener has only calls.
            let half_open = self.listener.as_ref().is_some_and(|listener| listener.half_open() > 0);
            return Ok(Some(if half_open { "SynReceived" } else { "Closed" }.to_owned()));
        };
        Ok(Some(match word {
            "state" => format!("{:?}", connection.state()),
            "error" => connection.error().map_or("none".to_owned(), |error| format!("{error:?}")),
            "early" => connection.early_bytes().to_string(),
            _ if self.shown.is_empty() => "nothing".to_owned(),
            _ => {
                let shown = core::mem::take(&mut self.shown);
                shown.iter().map(|(start, end)| format!("{start}:{end}")).collect::<Vec<_>>().join(",")
            }
        }))
    }
}
