//! The rails of connections over Edge.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use weft::verbs::{Out, RailReport, RailState};
use weft_driver::board::Snapshot;

use super::sample::Change;
use weft_command::amount::{Unit, bits_per_second, share};
use weft_command::table::{Align, Table};

/// A rail, as it was at a reading, with its values at the one before.
struct Rail {
    now: RailReport,
    before: Option<RailReport>,
    /// Bytes of all rails of its connection, out and in.
    all: (u64, u64),
}

/// A rail, for programs.
#[derive(Serialize)]
pub(super) struct Data {
    connection: String,
    rail: u8,
    interface: Option<String>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    state: &'static str,
    out: Option<&'static str>,
    silent_seconds: Option<f64>,
    rate_bytes_per_second: Option<u64>,
    round_trip_seconds: Option<f64>,
    window_bytes: u64,
    in_flight_bytes: u64,
    datagram_bytes: u16,
    sent_datagrams: u64,
    sent_bytes: u64,
    lost_datagrams: u64,
    received_datagrams: u64,
    received_bytes: u64,
    sent_share: Option<f64>,
    received_share: Option<f64>,
    sent_bytes_per_second: Option<f64>,
    received_bytes_per_second: Option<f64>,
}

/// Rails that this version can read, in the order of their connections' numbers.
fn reports(nic: &Snapshot) -> Vec<RailReport> {
    let rows = nic.table.engines.iter().flatten().filter(|_| nic.table.format == RailReport::FORMAT);
    let mut reports: Vec<_> = rows.filter_map(|row| RailReport::from_words(row)).collect();
    reports.sort_by_key(|report| (report.connection, report.rail));
    reports
}

fn rails(change: Change<'_>) -> Vec<Rail> {
    let now = reports(change.nic);
    let mut before = change.before.map(|(nic, _)| reports(nic)).unwrap_or_default();
    let all = |connection| {
        let of = now.iter().filter(|rail| rail.connection == connection);
        of.fold((0, 0), |(sent, received), rail| (sent + rail.sent_bytes, received + rail.received_bytes))
    };
    let rail = |now: &RailReport| {
        let is_same = |rail: &RailReport| (rail.connection, rail.rail) == (now.connection, now.rail);
        let before = before.iter().position(is_same).map(|at| before.swap_remove(at));
        Rail { now: now.clone(), before, all: all(now.connection) }
    };
    now.iter().map(rail).collect()
}

impl Rail {
    /// Bytes out and in, per second since the reading before.
    fn per_second(&self, change: Change<'_>) -> Option<(f64, f64)> {
        let (before, time) = (self.before.as_ref()?, change.before?.1);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / time.as_secs_f64();
        let sent = rate(self.now.sent_bytes, before.sent_bytes);
        (!time.is_zero()).then(|| (sent, rate(self.now.received_bytes, before.received_bytes)))
    }

    fn shares(&self) -> (Option<f64>, Option<f64>) {
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        (share(self.now.sent_bytes, self.all.0), share(self.now.received_bytes, self.all.1))
    }

    fn rate(&self) -> Option<u64> {
        (self.now.rate > 0 && self.now.state == RailState::Live).then_some(self.now.rate)
    }

    fn loss(&self) -> Option<f64> {
        (self.now.sent_datagrams > 0).then(|| self.now.lost_datagrams as f64 / self.now.sent_datagrams as f64)
    }

    fn cells(&self, change: Change<'_>) -> Vec<String> {
        let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
        let now = &self.now;
        let address = |address: Option<SocketAddr>| or_dash(address.map(|address| address.to_string()));
        let trip = now.round_trip.map(|trip| Unit::Nanoseconds.amount(trip.as_nanos() as f64));
        let mut cells = vec![
            short(now.connection),
            now.rail.to_string(),
            if now.interface.is_empty() { "-".into() } else { now.interface.to_string() },
            state(now),
        ];
        if change.before.is_some() {
            let (sent, received) = self.per_second(change).unzip();
            cells.extend([sent, received].map(|rate| or_dash(rate.map(bits_per_second))));
        }
        let (sent, received) = self.shares();
        let unit = Unit::Bytes;
        cells.extend([
            or_dash(self.rate().map(|rate| bits_per_second(rate as f64))),
            or_dash(trip),
            or_dash(self.loss().map(share)),
            unit.amount(now.sent_bytes as f64),
            or_dash(sent.map(share)),
            unit.amount(now.received_bytes as f64),
            or_dash(received.map(share)),
            address(now.local),
            address(now.remote),
        ]);
        cells
    }
}

/// The first digits of a connection's number.
fn short(connection: u64) -> String {
    format!("{:08x}", connection >> 32)
}

fn state(rail: &RailReport) -> String {
    let silent = |why: &str| match rail.silent_for {
        Some(time) => format!("{why} for {}", seconds(time)),
        None => why.to_owned(),
    };
    match (rail.state, rail.out) {
        (RailState::Live, _) => "live".into(),
        (RailState::Proving, _) => "being asked".into(),
        (RailState::Silent, Some(Out::PeerSilent)) => silent("peer silent"),
        (RailState::Silent, _) => silent("silent"),
        (RailState::Closed, Some(Out::Withdrawn)) => "closed: address gone".into(),
        (RailState::Closed, Some(Out::Unanswered)) => "closed: no answer".into(),
        (RailState::Closed, _) => "closed".into(),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The columns that say which rail it is.
const KEYS: usize = 2;

/// A table of the rails, nothing where there are none.
pub(super) fn page(change: Change<'_>, width: Option<usize>) -> Option<String> {
    let rails = rails(change);
    if rails.is_empty() {
        return None;
    }
    let left = |heading| (heading, Align::Left);
    let right = |heading| (heading, Align::Right);
    let mut columns = vec![left("connection"), right("rail"), left("interface"), left("state")];
    // What changes comes first: where the terminal is narrow, the rest follows below.
    if change.before.is_some() {
        columns.extend([right("out/s"), right("in/s")]);
    }
    columns.extend([right("can do"), right("round trip"), right("lost")]);
    columns.extend([right("out"), right("share"), right("in"), right("share"), left("from"), left("to")]);
    let mut table = Table::new(&columns);
    rails.iter().for_each(|rail| table.row(rail.cells(change)));
    Some(table.folded(KEYS, width))
}

/// The same, for programs.
pub(super) fn data(change: Change<'_>) -> Vec<Data> {
    rails(change).into_iter().map(|rail| rail.data(change)).collect()
}

impl Rail {
    fn data(self, change: Change<'_>) -> Data {
        let (sent_share, received_share) = self.shares();
        let (sent_bytes_per_second, received_bytes_per_second) = self.per_second(change).unzip();
        let now = &self.now;
        Data {
            connection: format!("{:016x}", now.connection),
            rail: now.rail,
            interface: (!now.interface.is_empty()).then(|| now.interface.to_string()),
            local: now.local,
            remote: now.remote,
            state: match now.state {
                RailState::Closed => "closed",
                RailState::Proving => "asked",
                RailState::Live => "live",
                RailState::Silent => "silent",
            },
            out: now.out.map(|out| match out {
                Out::Asked => "asked",
                Out::Silent => "silent",
                Out::PeerSilent => "peer silent",
                Out::Unanswered => "unanswered",
                Out::Withdrawn => "withdrawn",
            }),
            silent_seconds: now.silent_for.map(|time| time.as_secs_f64()),
            rate_bytes_per_second: self.rate(),
            round_trip_seconds: now.round_trip.map(|trip| trip.as_secs_f64()),
            window_bytes: now.window,
            in_flight_bytes: now.in_flight,
            datagram_bytes: now.datagram_bytes,
            sent_datagrams: now.sent_datagrams,
            sent_bytes: now.sent_bytes,
            lost_datagrams: now.lost_datagrams,
            received_datagrams: now.received_datagrams,
            received_bytes: now.received_bytes,
            sent_share,
            received_share,
            sent_bytes_per_second,
            received_bytes_per_second,
        }
    }
}
