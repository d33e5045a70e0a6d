//! How long datagrams may be left unread while bulk goes in one direction: interrupt moderation as adapters have it
//! (Linux: `adaptive-rx`), for one connection. Over a link of 1 Gb/s a thread that wakes for each datagram spends more
//! time on sleeping and waking than on the datagrams.

use core::time::Duration;

use weft_base::Time;

use super::Connection;
use crate::phase::Phase;
use crate::rail::Rail;

/// What arrives is left unread for no longer: the end of a transfer waits for that.
const LONGEST: Duration = Duration::from_micros(500);
/// Less does not pay: a sleep takes almost as long.
const SHORTEST: Duration = Duration::from_micros(100);

impl Connection {
    /// Until when datagrams that arrive may be left unread: a thread that has nothing else to do may sleep until then,
    /// and none need wake it for them. `None`: they are to be read when they come. Only in bulk that has lasted for
    /// some time, in one direction, and for half a millisecond at most.
    ///
    /// Of a sender, until the pacer lets the next packet go: before that nothing that arrives would. Of a receiver, as
    /// long as the sender takes from one request for an acknowledgement to the next: it requests one for each eighth of
    /// its window or more often, so it waits for none.
    #[must_use]
    pub fn unread_until(&self, now: Time) -> Option<Time> {
        if self.phase != Phase::Open || self.closing.wanted || self.closing.peer_end.is_some() {
            return None;
        }
        let until = if self.taken.is_bulk(now) && self.given.is_silent(now) {
            // Only where something has come at the end of the last sleep.
            Some(self.taken.last + self.taken.request_every.min(LONGEST))
        } else if self.given.is_bulk(now) && self.taken.is_silent(now) {
            self.paced_until()
        } else {
            None
        };
        until.filter(|until| (SHORTEST..=LONGEST).contains(&until.since(now)))
    }

    /// When the first rail may send, if the pacer stops all.
    fn paced_until(&self) -> Option<Time> {
        let live = || self.rails.iter().filter(|rail| rail.is_live());
        let is_paced = |rail: &Rail| rail.paced_until.is_some() && rail.answers();
        if live().all(is_paced) { live().filter_map(|rail| rail.paced_until).min() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use super::*;
    use crate::bulk::Bulk;
    use crate::connection::Established;
    use crate::settings::Settings;

    fn us(us: u64) -> Time {
        Time::from_nanos(1_000_000_000 + us * 1000)
    }

    fn connection() -> Connection {
        let settings = Settings::default();
        let established = Established::unknown(SocketAddr::from(([10, 0, 0, 1], 4791)), 1, &settings);
        Connection::new(&established, &settings, Time::ZERO)
    }

    /// Segments that come every 100 us until then, and in every fourth step request an acknowledgement.
    fn fill(bulk: &mut Bulk, to_us: u64) {
        (0..=to_us / 100).for_each(|step| bulk.on_segments(step % 4 == 3, us(step * 100)));
    }

    #[test]
    fn a_receiver_of_bulk_may_wait_from_one_request_to_the_next() {
        let mut connection = connection();
        fill(&mut connection.taken, 15_900);
        assert_eq!(connection.unread_until(us(15_900)), None, "not yet");
        connection.taken.on_segments(false, us(16_000));
        assert_eq!(connection.unread_until(us(16_000)), Some(us(16_400)));
        assert_eq!(connection.unread_until(us(16_010)), Some(us(16_400)), "a turn that has found nothing follows");
        assert_eq!(connection.unread_until(us(16_400)), None, "nothing has come meanwhile");
        connection.given.on_segments(false, us(16_000));
        assert_eq!(connection.unread_until(us(16_000)), None, "it answers");
        connection.given = Bulk::new(Time::ZERO);
        connection.taken.on_segments(true, us(18_100));
        assert_eq!(connection.unread_until(us(18_100)), None, "after a pause it begins anew");
    }

    #[test]
    fn what_requests_leave_little_time_for_does_not_wait_nor_does_the_end_wait_for_long() {
        for (request_every, expected) in [(1, None), (4, Some(200)), (20, Some(500))] {
            let mut connection = connection();
            (0..=400).for_each(|step| connection.taken.on_segments(step % request_every == 0, us(step * 50)));
            let until = expected.map(|expected| us(20_000 + expected));
            assert_eq!(connection.unread_until(us(20_000)), until, "one in {request_every}");
        }
    }

    #[test]
    fn a_sender_of_bulk_waits_for_its_pacer_alone() {
        let mut connection = connection();
        fill(&mut connection.given, 20_000);
        assert_eq!(connection.unread_until(us(20_000)), None, "it waits for acknowledgements");
        connection.rails[0].paced_until = Some(us(20_300));
        assert_eq!(connection.unread_until(us(20_000)), Some(us(20_300)));
        assert_eq!(connection.unread_until(us(20_250)), None, "too short");
        connection.rails[0].paced_until = Some(us(20_600));
        assert_eq!(connection.unread_until(us(20_000)), None, "too long");
        connection.rails[0].paced_until = Some(us(20_300));
        connection.taken.on_segments(false, us(10_000));
        assert_eq!(connection.unread_until(us(20_000)), None, "the peer sends, too");
    }
}
