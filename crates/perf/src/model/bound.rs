//! What nothing can pass: bounds that charts show beside what was measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

use weft_lab::BitsPerSecond;

use crate::result::{Better, Case, Launch, Row};

/// What one processor copies from one place of memory to another.
pub(crate) const MEMORY_COPY: &str = "bound:memory copy";

/// Bytes of Ethernet around a packet.
pub(crate) const ETHERNET: f64 = 14.0;
/// IPv4 and TCP with time stamps: the shortest headers of all that is measured.
pub(crate) const TCP_HEADERS: f64 = 20.0 + 32.0;

/// How long one copy is measured.
const COPY_TIME: Duration = Duration::from_millis(10);
/// The most memory that is copied from, in bytes.
const MOST: usize = 32 << 20;

/// A bound of the throughput in GB/s, of which each value is a launch.
pub(crate) fn throughput(name: &str, case: Case, values: impl IntoIterator<Item = f64>) -> Row {
    let launches = values.into_iter().zip(0..).map(|(value, launch)| Launch::of(launch, value)).collect();
    Row::new(name, case, ("throughput", "GB/s", Better::More), launches).as_main()
}

/// What headers of this length leave of a link, in bytes per second.
pub(crate) fn payload_rate(rate: BitsPerSecond, mtu: u32, headers: f64) -> f64 {
    let mtu = f64::from(mtu);
    rate.0 as f64 / 8.0 * (mtu - headers) / (mtu + ETHERNET)
}

/// How fast this thread copies messages of this size, of which `buffers` are in flight: in GB/s.
pub(crate) fn memory_copy(size: usize, buffers: usize) -> f64 {
    let count = buffers.clamp(1, (MOST / size.max(1)).max(1));
    let (from, mut to) = (vec![0x5a_u8; size * count], vec![0xa5_u8; size * count]);
    let (start, mut bytes) = (Instant::now(), 0_u64);
    while start.elapsed() < COPY_TIME {
        for (from, to) in from.chunks_exact(size.max(1)).zip(to.chunks_exact_mut(size.max(1))) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut to);
        bytes += (size * count) as u64;
    }
    bytes as f64 / start.elapsed().as_secs_f64() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_leave_a_part_of_the_rate() {
        let gigabit = BitsPerSecond(1_000_000_000);
        assert!((payload_rate(gigabit, 1500, TCP_HEADERS) / 119.55e6 - 1.0).abs() < 0.001);
        assert!(payload_rate(gigabit, 9000, TCP_HEADERS) > payload_rate(gigabit, 1500, TCP_HEADERS));
    }

    #[test]
    fn copies_of_any_size_have_a_speed() {
        assert!([1, 4096, 64 << 20].into_iter().all(|size| memory_copy(size, 4) > 0.0));
        let row = throughput(MEMORY_COPY, Case::new(), [1.0, 3.0]);
        assert!(row.is_main && row.median == Some(2.0) && row.contestant.starts_with("bound:"));
    }
}
