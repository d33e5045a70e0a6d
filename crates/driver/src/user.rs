//! Users, by their numbers in the user namespace of this process (user_namespaces(7)).

use std::fs;

/// The number of every user that the namespace does not map, unless the system is configured otherwise (`overflowuid`,
/// proc_sys_kernel(5)).
const DEFAULT_OVERFLOW: u32 = 65_534;
/// The number of users that a namespace maps if it maps all: 2^32 - 1 is no valid user (user_namespaces(7)).
const ALL_USERS: u64 = u32::MAX as u64;

/// The effective user of this process.
pub(crate) fn own() -> u32 {
    // SAFETY: Takes nothing, returns a number.
    unsafe { libc::geteuid() }
}

/// Whether the number identifies one user. For the overflow number that is true only in a namespace that maps every
/// user: elsewhere it is also the number of all users without a mapping, so two processes that both have it may belong
/// to different users.
pub(crate) fn is_unambiguous(user: u32) -> bool {
    user != overflow() || fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_all(&map))
}

fn overflow() -> u32 {
    let text = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    text.trim().parse().unwrap_or(DEFAULT_OVERFLOW)
}

/// Whether the lines of a `uid_map` (first number inside, first number outside, count) leave no user out.
fn maps_all(map: &str) -> bool {
    let count = |line: &str| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok();
    map.lines().filter_map(count).sum::<u64>() >= ALL_USERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_without_some_user_is_told_from_a_complete_one() {
        assert!(maps_all("         0          0 4294967295\n"));
        assert!(maps_all("0 1 1\n1 0 4294967294\n"));
        assert!(!maps_all("         0       1000          1\n"));
        assert!(!maps_all("0 100000 65536\n"), "65534 is mapped, and stands for the unmapped as well");
        assert!(!maps_all("") && !maps_all("nonsense\n"));
    }

    #[test]
    fn usual_numbers_need_no_map() {
        assert!(is_unambiguous(0) && is_unambiguous(1000));
    }
}
