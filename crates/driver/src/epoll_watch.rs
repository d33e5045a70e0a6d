//! The wait of a NIC's own thread.

use core::time::Duration;
use std::os::fd::AsFd;
use std::sync::Arc;

use weft_base::{PortError, RunQueue, ThreadTimes, Waker, Watch};

use crate::cpu_affinity::{CpuAffinity, processor};
use crate::cpu_pressure::{CpuPressure, thread, thread_times};
use crate::epoll::{Epoll, Events};
use crate::time_slice::shorten_slice;
use crate::timer::TimerFd;
use crate::waker::EpollWaker;

const PACKETS: u64 = 0;
const TIMER: u64 = 1;
const WAKER: u64 = 2;

/// An epoll around the network's epoll. Polling the inner one through it consumes nothing.
pub(crate) struct EpollWatch {
    outer: Epoll,
    network: Arc<Epoll>,
    timer: TimerFd,
    waker: EpollWaker,
    cpu_pressure: CpuPressure,
    cpu_affinity: CpuAffinity,
}

impl EpollWatch {
    pub(crate) fn new(network: Arc<Epoll>) -> Result<Self, PortError> {
        let (outer, timer, waker) = (Epoll::new()?, TimerFd::new()?, EpollWaker::new()?);
        let epoll_watch = Self {
            outer,
            network,
            timer,
            waker,
            cpu_pressure: CpuPressure::new(),
            cpu_affinity: CpuAffinity::default(),
        };
        epoll_watch.outer.watch(epoll_watch.network.as_fd(), PACKETS, 0)?;
        epoll_watch.outer.watch(epoll_watch.timer.as_fd(), TIMER, libc::EPOLLIN as u32)?;
        epoll_watch.outer.watch(epoll_watch.waker.as_fd(), WAKER, libc::EPOLLIN as u32)?;
        Ok(epoll_watch)
    }
}

impl Watch for EpollWatch {
    fn sleep(&self, timeout: Option<Duration>) -> bool {
        let mut packets = false;
        let mut events = Events::new();
        // Fails only for descriptors that are not an epoll's.
        let outcome = self.outer.wait(timeout, &mut events);
        debug_assert_eq!(outcome, Ok(()));
        for (key, _) in events.iter() {
            match key {
                TIMER => self.timer.drain(),
                WAKER => self.waker.clear(),
                _ => packets = true,
            }
        }
        packets
    }

    fn set_packets(&self, on: bool) {
        let events = if on { libc::EPOLLIN as u32 } else { 0 };
        // One call: it was added at the start. If an event is pending already, the kernel ends a sleep in this call.
        let outcome = self.outer.watch(self.network.as_fd(), PACKETS, events);
        debug_assert_eq!(outcome, Ok(()));
    }

    fn set_timer(&self, after: Duration) {
        self.timer.set(after);
    }

    fn stop_timer(&self) {
        self.timer.stop();
    }

    fn wake(&self) {
        self.waker.wake();
    }

    fn processor(&self) -> Option<u32> {
        processor()
    }

    fn thread(&self) -> Option<u32> {
        thread()
    }

    fn thread_times(&self, thread: u32) -> Option<ThreadTimes> {
        thread_times(thread)
    }

    fn run_queue(&self) -> Option<RunQueue> {
        self.cpu_pressure.run_queue()
    }

    fn pin(&self, processor: Option<u32>) -> bool {
        self.cpu_affinity.pin(processor)
    }

    fn be_prompt(&self) {
        // A system without it schedules the thread as any other.
        let _ = shorten_slice();
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::fs;
    use std::thread;
    use std::time::Instant;

    use weft_testing::PATIENCE;

    use super::*;
    use crate::EventFd;

    /// A sleep that times out takes at least this long.
    const BRIEF: Duration = Duration::from_millis(10);
    const FAR: Duration = Duration::from_secs(3600);

    /// A network's epoll with one descriptor armed as the network arms them, and the watch to sleep in.
    struct Bench {
        network: Arc<Epoll>,
        packet: EventFd,
        epoll_watch: EpollWatch,
    }

    impl Bench {
        fn new() -> Self {
            let network = Arc::new(Epoll::new().unwrap());
            let packet = EventFd::new().unwrap();
            network.watch(packet.as_fd(), 7, (libc::EPOLLIN | libc::EPOLLONESHOT) as u32).unwrap();
            Self { epoll_watch: EpollWatch::new(Arc::clone(&network)).unwrap(), network, packet }
        }

        /// How long a sleep of at most `most` took.
        fn slept(&self, most: Duration) -> Duration {
            let begun = Instant::now();
            self.epoll_watch.sleep(Some(most));
            begun.elapsed()
        }

        fn assert_ended(&self) {
            assert!(self.slept(PATIENCE) < PATIENCE, "nothing ended the sleep");
        }

        fn assert_undisturbed(&self) {
            assert!(self.slept(BRIEF) >= BRIEF, "something ended the sleep");
        }

        fn reported(&self) -> Vec<u64> {
            let mut events = Events::new();
            self.network.wait(Some(Duration::ZERO), &mut events).unwrap();
            events.iter().map(|(key, _)| key).collect()
        }

        /// Runs `end` while a thread sleeps without a limit, and checks that it ends.
        fn end_sleep_under_way(&self, end: impl FnOnce()) {
            let sleeper = AtomicU32::new(0);
            thread::scope(|scope| {
                scope.spawn(|| {
                    // SAFETY: Takes nothing, returns a number.
                    sleeper.store(unsafe { libc::gettid() } as u32, Ordering::Release);
                    self.epoll_watch.sleep(None);
                });
                while !is_asleep(sleeper.load(Ordering::Acquire)) {
                    thread::yield_now();
                }
                end();
            });
        }
    }

    /// Whether a thread of this process waits in the kernel.
    fn is_asleep(thread: u32) -> bool {
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }

    #[test]
    fn nothing_ends_a_sleep_but_its_time() {
        let bench = Bench::new();
        bench.assert_undisturbed();
        bench.epoll_watch.set_packets(true);
        bench.assert_undisturbed();
    }

    #[test]
    fn packets_end_a_sleep_while_they_are_on_and_stay_to_be_taken() {
        let bench = Bench::new();
        bench.packet.signal();
        bench.assert_undisturbed();
        bench.epoll_watch.set_packets(true);
        bench.assert_ended();
        bench.assert_ended();
        bench.epoll_watch.set_packets(false);
        bench.assert_undisturbed();
        assert_eq!(bench.reported(), [7]);
        // Consumed, and not armed again.
        bench.epoll_watch.set_packets(true);
        bench.assert_undisturbed();
    }

    #[test]
    fn a_packet_ends_the_sleep_under_way() {
        let bench = Bench::new();
        bench.epoll_watch.set_packets(true);
        bench.end_sleep_under_way(|| bench.packet.signal());
        assert_eq!(bench.reported(), [7]);
    }

    #[test]
    fn packets_switched_on_under_way_end_the_sleep_for_what_waits_and_for_what_comes() {
        let bench = Bench::new();
        bench.packet.signal();
        bench.end_sleep_under_way(|| bench.epoll_watch.set_packets(true));
        let bench = Bench::new();
        bench.end_sleep_under_way(|| {
            bench.epoll_watch.set_packets(true);
            bench.packet.signal();
        });
    }

    #[test]
    fn packets_switched_off_under_way_end_no_sleep() {
        let bench = Bench::new();
        bench.epoll_watch.set_packets(true);
        bench.end_sleep_under_way(|| {
            bench.epoll_watch.set_packets(false);
            bench.packet.signal();
            // Had the packet ended it, the wake-up would be left for the next one.
            bench.epoll_watch.wake();
        });
        bench.assert_undisturbed();
    }

    #[test]
    fn a_wake_counts_once_before_the_sleep_and_in_it() {
        let bench = Bench::new();
        bench.epoll_watch.wake();
        bench.epoll_watch.wake();
        bench.assert_ended();
        bench.assert_undisturbed();
        bench.end_sleep_under_way(|| bench.epoll_watch.wake());
        bench.assert_undisturbed();
    }

    #[test]
    fn the_timer_ends_one_sleep_and_not_early() {
        let bench = Bench::new();
        let begun = Instant::now();
        bench.epoll_watch.set_timer(BRIEF);
        bench.assert_ended();
        assert!(begun.elapsed() >= BRIEF);
        bench.assert_undisturbed();
        bench.end_sleep_under_way(|| bench.epoll_watch.set_timer(Duration::ZERO));
    }

    #[test]
    fn a_timer_replaces_the_one_before_though_it_has_run_off() {
        let bench = Bench::new();
        bench.epoll_watch.set_timer(FAR);
        bench.epoll_watch.set_timer(Duration::ZERO);
        bench.assert_ended();
        bench.epoll_watch.set_timer(Duration::ZERO);
        bench.epoll_watch.set_timer(FAR);
        bench.assert_undisturbed();
        bench.epoll_watch.set_timer(Duration::ZERO);
        bench.epoll_watch.set_timer(Duration::MAX);
        bench.assert_undisturbed();
    }
}
