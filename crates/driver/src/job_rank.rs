//! The rank of this process in its job.

/// Variables in which launchers give a process its rank.
const VARIABLES: [&str; 5] = ["PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "MV2_COMM_WORLD_RANK"];

/// The rank that a launcher (Hydra, Open MPI, Slurm, MVAPICH) has set for this process in one of these variables.
/// `None`: no launcher has set one. A variable without a number counts as not set.
pub fn job_rank(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    VARIABLES.iter().find_map(|name| variable(name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_with_a_number_counts() {
        let with = |set: &[(&str, &str)]| {
            job_rank(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(with(&[("PMI_RANK", "3")]), Some(3));
        assert_eq!(with(&[("PMIX_RANK", "no number"), ("SLURM_PROCID", "12")]), Some(12));
        assert_eq!(with(&[("PMI_RANK", "-1")]), None);
        assert_eq!(with(&[]), None);
    }
}
