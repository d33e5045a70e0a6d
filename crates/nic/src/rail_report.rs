//! What is reported of a rail, as numbers for a board.

use core::time::Duration;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use arrayvec::ArrayString;

/// What a rail can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailState {
    /// It has no route to the peer.
    Closed,
    /// No challenge was answered from where it would lead: it carries nothing else.
    Proving,
    /// It carries data.
    Live,
    /// It has not answered in time, and carries only probes.
    Silent,
}

/// Why a rail carries no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// It is being validated: a challenge checks whether the peer is there.
    Asked,
    /// The peer does not answer on it, and does on others.
    Silent,
    /// The peer does not answer on any rail.
    PeerSilent,
    /// The challenges were not answered.
    Unanswered,
    /// One of its addresses is offered no more.
    Withdrawn,
}

/// A rail of one connection over Edge, as it is now. Counts are from the connection's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailReport {
    /// What this side calls the connection: a random number.
    pub connection: u64,
    /// The rail's number, the same at both sides.
    pub rail: u8,
    /// The interface that it leaves by; empty where the name is not known.
    pub interface: ArrayString<16>,
    /// From which of this host's addresses it leaves, where that is known.
    pub local: Option<SocketAddr>,
    /// Where the peer is, or was.
    pub remote: Option<SocketAddr>,
    /// Whether it carries data.
    pub state: RailState,
    /// Why not.
    pub out: Option<Out>,
    /// How long it has been silent.
    pub silent_for: Option<Duration>,
    /// Bytes of datagrams per second that it delivers, smoothed; 0 before that is known.
    pub rate: u64,
    /// The round trip, smoothed; `None` before one was measured.
    pub round_trip: Option<Duration>,
    /// Bytes that may be under way.
    pub window: u64,
    /// Bytes that are.
    pub in_flight: u64,
    /// Bytes above UDP that a datagram may have.
    pub datagram_bytes: u16,
    /// Datagrams that were sent, of any kind.
    pub sent_datagrams: u64,
    /// Bytes of these, above UDP.
    pub sent_bytes: u64,
    /// Of these datagrams, held to be lost.
    pub lost_datagrams: u64,
    /// Datagrams that came.
    pub received_datagrams: u64,
    /// Bytes of these, above UDP.
    pub received_bytes: u64,
}

/// The meaning of the numbers of a row; another order, or other numbers, is another format.
const STATES: [RailState; 4] = [RailState::Closed, RailState::Proving, RailState::Live, RailState::Silent];
const OUTS: [Out; 5] = [Out::Asked, Out::Silent, Out::PeerSilent, Out::Unanswered, Out::Withdrawn];

/// An address in three words: IPv6, or as such, and a port with a mark that it is there.
const IS_THERE: u64 = 1 << 16;

impl RailReport {
    /// The version of the format of [`RailReport::words`]. It changes with it.
    pub const FORMAT: u32 = 1;
    /// Numbers of a rail.
    pub const WORDS: usize = 20;
    /// Rails that an engine shows. Connections beyond that are not shown.
    pub const MOST: usize = 128;

    /// All of it as numbers, for a board.
    #[must_use]
    pub fn words(&self) -> [u64; Self::WORDS] {
        let place = |at: Option<usize>| at.map_or(0, |at| at as u64 + 1);
        let state = place(STATES.iter().position(|state| *state == self.state));
        let out = place(self.out.and_then(|out| OUTS.iter().position(|known| *known == out)));
        let kinds = u64::from(self.rail) | state << 8 | out << 16 | u64::from(self.datagram_bytes) << 32;
        let mut name = [0; 16];
        self.interface.bytes().zip(&mut name).for_each(|(byte, at)| *at = byte);
        let ([name, more], [ip, rest, port], [to, beyond, at]) =
            (halves(name), address_words(self.local), address_words(self.remote));
        let counts = [self.sent_datagrams, self.sent_bytes, self.lost_datagrams];
        let [datagrams, bytes, lost] = counts;
        let (trip, silence) = (nanoseconds(self.round_trip), nanoseconds(self.silent_for));
        let (window, flying) = (self.window, self.in_flight);
        let (came, came_bytes) = (self.received_datagrams, self.received_bytes);
        [
            self.connection,
            kinds,
            name,
            more,
            ip,
            rest,
            port,
            to,
            beyond,
            at,
            self.rate,
            trip,
            silence,
            window,
            flying,
            datagrams,
            bytes,
            lost,
            came,
            came_bytes,
        ]
    }

    /// The report that numbers of [`RailReport::FORMAT`] describe. `None` where they can't be those of a rail. What is
    /// no letter or sign of ASCII in the name of the interface becomes `?`.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let words: &[u64; Self::WORDS] = words.try_into().ok()?;
        let [
            connection,
            kinds,
            name,
            more,
            ip,
            rest,
            port,
            to,
            beyond,
            at,
            rate,
            trip,
            silence,
            window,
            flying,
            datagrams,
            bytes,
            lost,
            came,
            came_bytes,
        ] = *words;
        let [rail, state, out, _, low, high, ..] = kinds.to_le_bytes();
        let name = whole([name, more]);
        let name = name.map(|byte| if byte.is_ascii_graphic() || byte == 0 { byte } else { b'?' });
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Self {
            connection,
            rail,
            interface: core::str::from_utf8(name)
                .ok()
                .and_then(|name| ArrayString::from(name).ok())
                .unwrap_or_default(),
            local: address([ip, rest, port]),
            remote: address([to, beyond, at]),
            state: *STATES.get(usize::from(state).checked_sub(1)?)?,
            out: usize::from(out).checked_sub(1).and_then(|out| OUTS.get(out)).copied(),
            silent_for: duration(silence),
            rate,
            round_trip: duration(trip),
            window,
            in_flight: flying,
            datagram_bytes: u16::from_le_bytes([low, high]),
            sent_datagrams: datagrams,
            sent_bytes: bytes,
            lost_datagrams: lost,
            received_datagrams: came,
            received_bytes: came_bytes,
        })
    }
}

/// 0 is none, so what is there counts one more.
fn nanoseconds(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_add(1))
}

fn duration(word: u64) -> Option<Duration> {
    word.checked_sub(1).map(Duration::from_nanos)
}

fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let both = u128::from_be_bytes(bytes);
    [(both >> 64) as u64, both as u64]
}

fn whole([high, low]: [u64; 2]) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

fn address_words(address: Option<SocketAddr>) -> [u64; 3] {
    let Some(address) = address else { return [0; 3] };
    let six = match address.ip() {
        IpAddr::V4(four) => four.to_ipv6_mapped(),
        IpAddr::V6(six) => six,
    };
    let [high, low] = halves(six.octets());
    [high, low, u64::from(address.port()) | IS_THERE]
}

fn address([high, low, port]: [u64; 3]) -> Option<SocketAddr> {
    let ip = IpAddr::V6(Ipv6Addr::from(whole([high, low]))).to_canonical();
    (port & IS_THERE != 0).then(|| SocketAddr::new(ip, port as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> RailReport {
        RailReport {
            connection: u64::MAX - 3,
            rail: 15,
            interface: ArrayString::from("a_name_of_16_byt").unwrap(),
            local: Some(([10, 0, 0, 1], 65_535).into()),
            remote: Some(([0xfd77, 1, 2, 3, 4, 5, 6, 7], 0).into()),
            state: RailState::Silent,
            out: Some(Out::PeerSilent),
            silent_for: Some(Duration::ZERO),
            rate: 1,
            round_trip: Some(Duration::from_nanos(2)),
            window: 3,
            in_flight: 4,
            datagram_bytes: 8972,
            sent_datagrams: 5,
            sent_bytes: 6,
            lost_datagrams: 7,
            received_datagrams: 8,
            received_bytes: 9,
        }
    }

    #[test]
    fn there_and_back() {
        let (full, mut bare) = (report(), report());
        (bare.local, bare.remote, bare.out, bare.silent_for, bare.round_trip) = (None, None, None, None, None);
        bare.interface.clear();
        for report in [full, bare] {
            assert_eq!(RailReport::from_words(&report.words()), Some(report));
        }
        for (state, out) in STATES.iter().flat_map(|state| OUTS.iter().map(move |out| (*state, Some(*out)))) {
            let report = RailReport { state, out, ..report() };
            assert_eq!(RailReport::from_words(&report.words()), Some(report));
        }
    }

    #[test]
    fn numbers_that_can_be_no_rail() {
        let words = report().words();
        assert_eq!(RailReport::from_words(&words[1..]), None);
        assert_eq!(RailReport::from_words(&[0; RailReport::WORDS]), None);
        let mut wild = words;
        wild[2..10].fill(u64::MAX);
        assert!(RailReport::from_words(&wild).is_some());
        wild[2] = u64::from_be_bytes(*b"\x1b[2Jabcd");
        assert!(RailReport::from_words(&wild).unwrap().interface.starts_with("?[2J"));
    }
}
