//! Whose figures they are: Weft's, a peer's, or a bound that nothing can pass.

use crate::result::Document;

/// The most lines of one chart: contestants, and bounds.
pub(super) const MOST_DRAWN: usize = 6;

/// What the names of Weft's own contestants begin with.
const WEFT: [&str; 7] = ["iwarp", "edge", "shm", "messages", "weft", "mpi:weft", "libfabric:weft"];

/// Whether a contestant is Weft, by its name.
#[must_use]
pub fn is_weft(name: &str) -> bool {
    WEFT.iter().any(|start| name.starts_with(start))
}

/// The rings of shared memory without a NIC, as contestants are named.
const RING: &str = "ring";

/// Whether a contestant is a bound: headers, a memory copy, bytes through a raw ring.
#[must_use]
pub fn is_bound(name: &str) -> bool {
    name.starts_with("bound:") || name.split(':').next() == Some(RING)
}

/// A bound as legends call it.
pub(super) fn bound_label(name: &str) -> String {
    format!("bound: {}", name.strip_prefix("bound:").unwrap_or(name))
}

/// Which contestants the charts of a document draw, in the order of its rows, beside its bounds: up to half of them
/// Weft's, so that peers have a place too, and the others' places where one side has fewer.
pub(super) fn drawn(document: &Document) -> Vec<&str> {
    let (bounds, names): (Vec<&str>, Vec<&str>) = document.contestants().into_iter().partition(|name| is_bound(name));
    let most = MOST_DRAWN - bounds.len().min(MOST_DRAWN / 2);
    let (weft, peers) = names.iter().partition::<Vec<&str>, _>(|name| is_weft(name));
    let of_peers = peers.len().min((most / 2).max(most.saturating_sub(weft.len())));
    let of_weft = weft.len().min(most - of_peers);
    let is_drawn = |name: &&str| weft[..of_weft].contains(name) || peers[..of_peers].contains(name);
    names.into_iter().filter(is_drawn).collect()
}

/// Contestants that the charts leave to the table.
pub(super) fn left_out(document: &Document) -> Vec<&str> {
    let drawn = drawn(document);
    document.contestants().into_iter().filter(|name| !is_bound(name) && !drawn.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_figures_they_are() {
        for name in ["iwarp:crc=off", "edge", "shm", "messages", "weft:ri", "mpi:weft-edge", "libfabric:weft"] {
            assert!(is_weft(name), "{name}");
        }
        for name in ["sockets", "libfabric:tcp", "mpi:mpich:tcp", "bound:wire", "ucx"] {
            assert!(!is_weft(name), "{name}");
        }
        assert!(is_bound("bound:wire") && is_bound("ring:4K") && !is_bound("sockets") && !is_bound("ringlet"));
        assert_eq!(["bound:wire", "ring"].map(bound_label), ["bound: wire", "bound: ring"]);
    }
}
