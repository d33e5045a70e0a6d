//! Messages on stderr, for people who see neither libfabric's log nor the text of `fi_cq_strerror`.

use std::io::Write as _;
use std::sync::Once;

use weft::endpoint::Warning;

/// Reports an error of this process's environment, once: otherwise the user would only see that there is no such
/// provider.
pub(crate) fn complain_once(text: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| complain(text));
}

/// Reports the failed paths to a peer, for the first such peer of this process: few programs print the text of
/// `fi_cq_strerror`.
pub(crate) fn complain_of_first_unreachable_peer(text: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| complain(&format!("{}: {text}", own_name(|name| std::env::var(name).ok(), host_name()))));
}

/// Reports unusable rails, once.
pub(crate) fn complain_of_rails(text: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| complain(&format!("{}: {text}", own_name(|name| std::env::var(name).ok(), host_name()))));
}

/// Reports a stall, for the first time of each kind: few programs report more than that they wait.
pub(crate) fn complain_of_standstill(warning: &Warning) {
    static NO_REPLY: Once = Once::new();
    static NO_DESCRIPTORS: Once = Once::new();
    let said = match warning {
        Warning::NoReply { .. } => &NO_REPLY,
        _ => &NO_DESCRIPTORS,
    };
    said.call_once(|| complain(&format!("{}: {warning}", own_name(|name| std::env::var(name).ok(), host_name()))));
}

/// The name of this process, as far as known.
fn own_name(variable: impl Fn(&str) -> Option<String>, host: Option<String>) -> String {
    let host = host.unwrap_or_else(|| "this host".to_owned());
    match weft_driver::job_rank(variable) {
        Some(rank) => format!("rank {rank} on {host}"),
        None => format!("process {} on {host}", std::process::id()),
    }
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// In one call, so that lines of several processes on one terminal do not mix.
pub(crate) fn complain(text: &str) {
    // A failure means that stderr is closed; and the NIC's thread must not panic for it.
    let _ = std::io::stderr().write_all(format!("weft: {text}\n").as_bytes());
}

/// Reports that an endpoint was closed before everything was delivered: its completions are not read any more.
pub(crate) fn complain_of_undelivered(text: &str) {
    complain(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_says_its_rank_and_host() {
        let with = |set: &'static str, value: &'static str| {
            own_name(|name| (name == set).then(|| value.to_owned()), Some("node7".to_owned()))
        };
        assert_eq!(with("PMI_RANK", "3"), "rank 3 on node7");
        assert_eq!(with("PMIX_RANK", "12"), "rank 12 on node7");
        let process = format!("process {} on node7", std::process::id());
        assert_eq!(with("PMI_RANK", "no number"), process);
        assert_eq!(with("NOTHING", "1"), process);
    }
}
