//! An application over the designs of out-of-order iWARP: rendering of an iso-surface, whose field is distributed in
//! pieces (Balaji et al., SC 2007), beside plain sockets.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Kind, Volume};
use crate::runner::plan::{Plan, Results};

pub(crate) struct Isosurface;

/// Points on a side of a slice.
const SIDES: [usize; 3] = [256, 512, 1024];
const QUICK_SIDES: [usize; 1] = [128];

impl Design for Isosurface {
    fn contestants(&self) -> Vec<String> {
        ["iwarp:split=host", "iwarp:split=coupled", "iwarp:split=decoupled", "iwarp:split=assist", "sockets"]
            .map(str::to_owned)
            .to_vec()
    }

    fn wants_lab(&self) -> bool {
        true
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let sides: &[usize] = match &basis.choices.sides {
            sides if sides.is_empty() && basis.quick() => &QUICK_SIDES,
            sides if sides.is_empty() => &SIDES,
            sides => sides,
        };
        let sizes = basis.sizes("8K,1M");
        let mut cases = Vec::new();
        for side in sides {
            let volume = Volume::of(*side);
            for size in &sizes {
                let case = basis.case_of(Kind::Isosurface, *size, 1).with(|job| job.volume = Some(volume));
                cases.push(case.label_with("side", *side));
            }
        }
        cases
    }

    fn afterword(&self, plan: &Plan, _: &Results) -> String {
        let mut volumes: Vec<Volume> = plan.cases.iter().filter_map(|case| case.job.volume).collect();
        volumes.dedup();
        let digests = volumes.iter().map(|it| format!("{0} x {0} x {1}: {2:016x}", it.side, it.slices, it.digest));
        let digests = digests.collect::<Vec<_>>().join(", ");
        format!(
            "\ntime: from the first piece until the surface is drawn. drawing: the computation of that alone.\n\
             Each pass of each contestant drew what is drawn without a network; digests of triangles and picture: \
             {digests}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::job::tests::job;

    #[test]
    fn each_field_is_cut_into_pieces_of_each_size() {
        let choices = Choices { sides: vec![16, 32], ..Choices::default() };
        let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip: Duration::ZERO };
        let cases = Isosurface.cases(&basis);
        let found: Vec<_> = cases.iter().map(|case| (case.job.volume.unwrap().side, case.job.size)).collect();
        assert_eq!(found, [(16, 8 << 10), (16, 1 << 20), (32, 8 << 10), (32, 1 << 20)]);
        assert!(cases.iter().all(|case| case.job.check().is_ok()));
    }
}
