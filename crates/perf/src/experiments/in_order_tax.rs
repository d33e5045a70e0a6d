//! What it costs to be ready for disorder when nothing is out of order: markers, and a TCP in user space that can show
//! what comes early, beside the kernel's TCP and another one in user space; and the order of writes over Edge. On real
//! packets of the link's MTU.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::Kind;

pub(crate) struct InOrderTax;

impl Design for InOrderTax {
    fn contestants(&self) -> Vec<String> {
        [
            "iwarp:raw=on:markers=on",
            "iwarp:raw=on",
            "iwarp:markers=on",
            "iwarp",
            "edge:raw=on",
            "edge",
            "edge:order=off",
            "own-tcp:crc",
            "smoltcp:crc",
            "sockets:crc",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn needs_real_packets(&self) -> bool {
        true
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let (short, long) = if basis.quick() { ("8", "64K") } else { ("8,1K", "64K,256K,1M") };
        let latency = basis.sizes(short).into_iter().map(|size| basis.case(Kind::Latency, size, 0.5));
        // Real packets are slower than what a run of a second is made for.
        let bandwidth = basis.sizes(long).into_iter().map(|size| basis.case(Kind::Bandwidth, size, 0.2));
        latency.chain(bandwidth).collect()
    }
}
