//! Whose figures they are: Weft's, a peer's, or a bound that nothing can pass.

use crate::result::Document;

/// The most contestants that one chart draws.
pub(super) const MOST_DRAWN: usize = 6;

/// What the names of Weft's own contestants begin with.
const WEFT: [&str; 7] = ["iwarp", "edge", "shm", "messages", "weft", "mpi:weft", "libfabric:weft"];

/// Whether a contestant is Weft, by its name.
#[must_use]
pub fn is_weft(name: &str) -> bool {
    WEFT.iter().any(|start| name.starts_with(start))
}

/// Whether a contestant is a bound: headers, a memory copy, bytes through a raw ring.
#[must_use]
pub fn is_bound(name: &str) -> bool {
    name.starts_with("bound:")
}

/// Which contestants the charts of a document draw, in the order of its rows: up to half of them Weft's, so that peers
/// have a place too, and the others' places where one side has fewer.
pub(super) fn drawn(document: &Document) -> Vec<&str> {
    let names: Vec<&str> = document.contestants().into_iter().filter(|name| !is_bound(name)).collect();
    let (weft, peers) = names.iter().partition::<Vec<&str>, _>(|name| is_weft(name));
    let of_peers = peers.len().min((MOST_DRAWN / 2).max(MOST_DRAWN.saturating_sub(weft.len())));
    let of_weft = weft.len().min(MOST_DRAWN - of_peers);
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
        assert!(is_bound("bound:wire") && !is_bound("sockets"));
    }
}
