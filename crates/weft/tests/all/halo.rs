//! The example of a stencil: every fence, over each transport, gives the bits that one rank alone computes.

use weft::verbs::Transport;

#[path = "../../examples/halo.rs"]
#[allow(dead_code, reason = "the example's own command line")]
mod example;

use example::Settings;
use example::plate::{alone, checksum};

#[test]
fn all_fences_give_the_bits_of_one_rank_alone() {
    for transport in [Transport::Iwarp, Transport::Edge, Transport::SharedMemory] {
        for ranks in [1, 2, 6] {
            let settings = Settings { ranks, size: 31, steps: 20, transport, picture: None, ..Settings::default() };
            assert!(example::run(&settings).unwrap(), "{transport:?}, {ranks} ranks");
        }
    }
}

/// That of `tests/mpi/programs/heat.c` for the same plate, which the MPI suite checks (`HEAT` in `extra.py`).
#[test]
fn the_plate_is_the_one_that_mpi_computes() {
    assert_eq!(format!("{:x}", checksum(&alone(64, 50))), "ef8bbf1794fa5b0b");
}

#[test]
fn a_plate_that_is_too_small_is_refused() {
    let error = example::run(&Settings { ranks: 8, size: 7, picture: None, ..Settings::default() }).unwrap_err();
    assert_eq!(error.to_string(), "7 cells are too few for 2 by 4 ranks");
}
