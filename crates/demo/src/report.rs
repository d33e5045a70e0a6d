//! What is shown in the end, to people and to programs.

use std::fmt;
use std::time::Duration;

use serde_json::json;
use weft::verbs::LowerInfo;
use weft_perf::Measurement;
use weft_perf::result::{self, Better, Document, Launch, Missing};

use crate::measure::Measured;
use crate::size::Bytes;
use crate::source::Source;
use crate::transfer::Moved;
use weft_command::connection::Link;
use weft_command::failure::Failure;
use weft_command::table::{Align, Table};

/// Plain TCP, as `weft perf` calls it.
const TCP: &str = "sockets";

/// Bytes of each message whose throughput is measured.
const RATE: u64 = 1 << 20;

/// Everything that a demo has found.
pub(crate) struct Report {
    what: String,
    bytes: u64,
    remote: String,
    crc: bool,
    is_over_edge: bool,
    /// The passive process, if it is one of this machine.
    peer_id: Option<u32>,
    pub(crate) moved: Option<Moved>,
    pub(crate) measured: Measured,
}

impl Report {
    /// Before anything was moved.
    pub(crate) fn new(source: &Source, link: &Link, peer_id: Option<u32>) -> Self {
        let info = link.queue_pair.info();
        Self {
            what: source.name().to_owned(),
            bytes: source.length(),
            remote: info.as_ref().map(|info| info.remote.to_string()).unwrap_or_default(),
            crc: info.is_some_and(|info| info.mpa().is_some_and(|mpa| mpa.crc)),
            is_over_edge: link.queue_pair.info().is_some_and(|info| info.lower == LowerInfo::Edge),
            peer_id,
            moved: None,
            measured: Measured::default(),
        }
    }

    /// Whether the data came through.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        if self.is_identical() {
            return Ok(());
        }
        Err(Failure::Runtime("the digests differ: the data did not come through unharmed".into()))
    }

    fn is_identical(&self) -> bool {
        self.moved.as_ref().is_some_and(|moved| moved.here == moved.there && moved.here == moved.back)
    }

    fn gigabytes_per_second(&self, time: Duration) -> Option<f64> {
        let seconds = time.as_secs_f64();
        (self.bytes > 0 && seconds > 0.0).then(|| self.bytes as f64 / 1e9 / seconds)
    }

    /// As `weft perf` writes what it has measured.
    pub(crate) fn document(&self, measurement: Measurement) -> Document {
        let weft = if self.is_over_edge { "edge" } else { "iwarp" };
        let digests = self
            .moved
            .as_ref()
            .map(|moved| json!({ "here": moved.here, "there": moved.there, "read_back": moved.back }));
        let settings = json!({
            "transport": weft, "source": self.what, "bytes": self.bytes, "remote": self.remote, "crc": self.crc,
            "sha256": digests, "identical": self.is_identical(),
        });
        let rows = self.rows();
        let measured = rows.iter().flat_map(|row| row.results(weft)).chain(self.transfers(weft));
        let mut document = measurement.end(format!("to {}", self.remote), settings, measured.collect(), weft);
        document.not_measured = self.measured.no_tcp.as_deref().map(missing).into_iter().collect();
        document
    }

    /// What the file has taken, there and back.
    fn transfers(&self, weft: &str) -> Vec<result::Row> {
        let times = self.moved.iter().flat_map(|moved| [("write", moved.write), ("read", moved.read)]);
        times
            .map(|(operation, time)| {
                let what = ("transfer_time", "ms", Better::Less);
                one_launch(weft, self.bytes, Some(operation), what, time.as_secs_f64() * 1e3)
            })
            .collect()
    }

    fn rows(&self) -> [Row; 3] {
        let Measured { latency, tcp_latency, write, read, tcp_rate, .. } = self.measured;
        [
            Row { test: "half round trip", operation: None, size: 8, unit: "us", weft: latency, tcp: tcp_latency },
            Row { test: "RDMA write", operation: Some("write"), size: RATE, unit: "GB/s", weft: write, tcp: tcp_rate },
            Row { test: "RDMA read", operation: Some("read"), size: RATE, unit: "GB/s", weft: read, tcp: tcp_rate },
        ]
    }

    fn show_transfer(&self, moved: &Moved, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Right)]);
        for (name, time) in [("RDMA write", moved.write), ("RDMA read back", moved.read)] {
            let rate = self.gigabytes_per_second(time).map_or_else(String::new, |rate| format!("{rate:.2} GB/s"));
            table.row([name.into(), format!("{:.1} ms", time.as_secs_f64() * 1e3), rate]);
        }
        writeln!(f, "{table}")?;
        for (name, digest) in [("here", &moved.here), ("there", &moved.there), ("read back", &moved.back)] {
            writeln!(f, "  {name:9}  {digest}")?;
        }
        let verdict = if self.is_identical() { "identical" } else { "DIFFERENT" };
        writeln!(f, "  {:9}  {verdict}\n", "SHA-256")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = match self.peer_id {
            Some(id) => format!("process {id} at {}", self.remote),
            None => self.remote.clone(),
        };
        let carrier = match (self.is_over_edge, self.crc) {
            (true, _) => "Edge",
            (false, true) => "iWARP, CRC on",
            (false, false) => "iWARP, CRC off",
        };
        writeln!(f, "{} of {} to {peer} and back, by RDMA over {carrier}\n", Bytes(self.bytes), self.what)?;
        if let Some(moved) = &self.moved {
            self.show_transfer(moved, f)?;
        }
        let columns = [("", Align::Left), ("", Align::Right), ("", Align::Left), ("Weft", Align::Right)];
        let columns = [&columns[..], &[("raw TCP", Align::Right), ("ratio", Align::Right)]].concat();
        let mut table = Table::new(&columns);
        for row in self.rows() {
            table.row(row.cells());
        }
        write!(f, "{table}")?;
        if let Some(why) = &self.measured.no_tcp {
            writeln!(f, "\n  no TCP beside it: {why}")?;
        }
        Ok(())
    }
}

struct Row {
    test: &'static str,
    /// That carries the data, of what is a throughput.
    operation: Option<&'static str>,
    size: u64,
    unit: &'static str,
    weft: f64,
    tcp: Option<f64>,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.tcp.filter(|tcp| *tcp > 0.0).map(|tcp| self.weft / tcp)
    }

    fn cells(&self) -> [String; 6] {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
        [
            self.test.into(),
            Bytes(self.size).to_string(),
            self.unit.into(),
            figure(Some(self.weft)),
            figure(self.tcp),
            figure(self.ratio()),
        ]
    }

    /// The same in the schema of `weft perf`.
    fn results(&self, weft: &str) -> Vec<result::Row> {
        let what = match self.operation {
            Some(_) => ("throughput", self.unit, Better::More),
            None => ("half_round_trip", self.unit, Better::Less),
        };
        let values = [(weft, Some(self.weft)), (TCP, self.tcp)];
        let row = |(name, value)| Some(one_launch(name, self.size, self.operation, what, value?).as_main());
        values.into_iter().filter_map(row).collect()
    }
}

fn missing(reason: &str) -> Missing {
    Missing { contestant: TCP.into(), reason: reason.into(), is_failure: false }
}

/// A figure of processes that were started once.
fn one_launch(
    contestant: &str,
    bytes: u64,
    operation: Option<&str>,
    what: (&str, &str, Better),
    value: f64,
) -> result::Row {
    let operation = operation.map(|operation| ("operation".to_owned(), operation.into()));
    let case = [("size_bytes".to_owned(), bytes.into())].into_iter().chain(operation).collect();
    result::Row::new(contestant, case, what, vec![Launch::of(0, value)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(back: &str) -> Report {
        let time = Duration::from_millis(50);
        let moved = Moved { write: time, read: 2 * time, here: "aa".into(), there: "aa".into(), back: back.into() };
        let measured =
            Measured { latency: 4.0, tcp_latency: Some(3.2), write: 2.5, read: 12.25, tcp_rate: None, no_tcp: None };
        Report {
            what: "made-up data".into(),
            bytes: 100_000_000,
            remote: "127.0.0.1:7".into(),
            crc: true,
            is_over_edge: false,
            peer_id: Some(9),
            moved: Some(moved),
            measured,
        }
    }

    #[test]
    fn people_read_this() {
        let text = "\
95.4 MiB of made-up data to process 9 at 127.0.0.1:7 and back, by RDMA over iWARP, CRC on

  RDMA write       50.0 ms  2.00 GB/s
  RDMA read back  100.0 ms  1.00 GB/s

  here       aa
  there      aa
  read back  aa
  SHA-256    identical

                                   Weft  raw TCP  ratio
  half round trip  8 bytes  us     4.00     3.20   1.25
  RDMA write         1 MiB  GB/s   2.50        -      -
  RDMA read          1 MiB  GB/s  12.25        -      -
";
        assert_eq!(report("aa").to_string(), text);
    }

    #[test]
    fn a_difference_is_a_failure() {
        assert!(report("aa").verdict().is_ok());
        assert!(report("ab").verdict().is_err());
        assert!(report("ab").to_string().contains("DIFFERENT"));
    }

    #[test]
    fn programs_read_what_weft_perf_writes() {
        let document = report("ab").document(Measurement::begin("demo", "?"));
        assert_eq!(Document::read(&document.write()), Ok(document.clone()));
        assert_eq!(document.settings["identical"], false);
        assert_eq!(document.comparisons[0].ratio, Some(1.25));
        let of = |metric: &str| document.rows.iter().filter(|row| row.metric == metric).count();
        assert_eq!([of("half_round_trip"), of("throughput"), of("transfer_time")], [2, 2, 2], "TCP has no rate here");
    }
}
