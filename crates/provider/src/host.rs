//! What libfabric does for this provider: it lists parameters and keeps a log. Its functions are looked up in whichever copy of it is in this process, for it is never linked.

use core::ffi::{CStr, c_void};
use core::ptr;
use std::ffi::CString;
use std::io::Write as _;
use std::sync::{Once, OnceLock};

use weft_libfabric::abi::{FI_LOG_CORE, FI_PARAM_STRING, fi_log_enabled_t, fi_log_level, fi_log_t, fi_param_define_t};

use crate::entry::provider;
use crate::loaded;
use crate::parameters::VARIABLES;

/// Functions of libfabric.
struct Host {
    define: fi_param_define_t,
    is_enabled: fi_log_enabled_t,
    log: fi_log_t,
}

/// Tells libfabric of the variables that users can set, for `fi_info -e`.
pub(crate) fn define_parameters() {
    let Some(host) = host() else { return };
    for variable in &VARIABLES {
        let name = variable.name.to_ascii_lowercase();
        let (Ok(name), Ok(help)) = (CString::new(name), CString::new(variable.help)) else { continue };
        // SAFETY: The provider is a static; libfabric copies both texts. The help is the argument of a format with one place for a string.
        unsafe { (host.define)(provider(), name.as_ptr(), FI_PARAM_STRING, c"%s".as_ptr(), help.as_ptr()) };
    }
}

/// Writes a line into libfabric's log (`FI_LOG_LEVEL`), if there is a libfabric.
pub(crate) fn log(level: fi_log_level, text: &str) {
    let Some(host) = host() else { return };
    // SAFETY: The provider is a static.
    if unsafe { (host.is_enabled)(provider(), level, FI_LOG_CORE) } == 0 {
        return;
    }
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: The provider is a static. The text is the argument of a format with one place for a string.
    unsafe {
        (host.log)(provider(), level, FI_LOG_CORE, c"weft".as_ptr(), 0, c"%s\n".as_ptr(), text.as_ptr());
    }
}

/// Says on stderr what is wrong with this process's environment, once: else the user would only see that there is no such provider.
pub(crate) fn complain_once(text: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| complain(text));
}

/// Says on stderr which paths to a peer were tried in vain, for the first such peer of this process: few programs print what `fi_cq_strerror` says.
pub(crate) fn complain_of_first_unreachable_peer(text: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| complain(&format!("{}: {text}", own_name(|name| std::env::var(name).ok(), host_name()))));
}

/// Variables in which launchers tell a process its rank.
const RANKS: [&str; 5] = ["PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "MV2_COMM_WORLD_RANK"];

/// Who this process is, as far as it knows.
fn own_name(variable: impl Fn(&str) -> Option<String>, host: Option<String>) -> String {
    let is_number =
        |text: &String| !text.is_empty() && text.len() < 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    let rank = RANKS.iter().find_map(|name| variable(name).filter(is_number));
    let host = host.unwrap_or_else(|| "this host".to_owned());
    match rank {
        Some(rank) => format!("rank {rank} on {host}"),
        None => format!("process {} on {host}", std::process::id()),
    }
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// In one call, so that lines of several processes on one terminal do not mix.
fn complain(text: &str) {
    // Who has closed stderr does not want to know; and the NIC's thread must not panic for it.
    let _ = std::io::stderr().write_all(format!("weft: {text}\n").as_bytes());
}

/// Says on stderr that an endpoint was closed before everything was delivered: nobody reads its completions any more.
pub(crate) fn complain_of_undelivered(text: &str) {
    drop(std::io::stderr().write_all(format!("weft: {text}\n").as_bytes()));
}

/// Sees to it that this library is never unloaded, as libfabric does at its end: threads of a NIC that is still open run in it.
pub(crate) fn stay_loaded() {
    let mut about = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // An address that no other library's symbol of the same name can take the place of.
    let here = provider();
    // SAFETY: The structure can be written.
    if unsafe { libc::dladdr(here.cast(), &raw mut about) } == 0 || about.dli_fname.is_null() {
        return;
    }
    // SAFETY: The name is that of a loaded object. Where this is linked into a program, it is the program's, and nothing happens.
    let _ = unsafe { libc::dlopen(about.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
}

fn host() -> Option<&'static Host> {
    static HOST: OnceLock<Option<Host>> = OnceLock::new();
    HOST.get_or_init(Host::find).as_ref()
}

impl Host {
    fn find() -> Option<Self> {
        // SAFETY: The types are those of the headers, for these names.
        unsafe {
            Some(Self {
                define: core::mem::transmute::<*mut c_void, fi_param_define_t>(function(c"fi_param_define")?),
                is_enabled: core::mem::transmute::<*mut c_void, fi_log_enabled_t>(function(c"fi_log_enabled")?),
                log: core::mem::transmute::<*mut c_void, fi_log_t>(function(c"fi_log")?),
            })
        }
    }
}

/// A function of the libfabric in this process: in the global scope, or else, for MPI libraries load it for themselves,
/// in an object that is called so.
fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: A C string.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let found = Some(global).filter(|address| !address.is_null());
    found.or_else(|| loaded::find(name, |file| file.starts_with(b"libfabric")))
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
