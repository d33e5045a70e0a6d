//! Where those that run say what they have carried: a socket of an abstract name (unix(7)), of which nothing is left
//! when its process ends, however it does.

use std::fs;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use weft_wan::Report;

use weft_command::failure::Failure;

/// How long the other side may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest report, in bytes.
const REPORT: u64 = 1 << 20;

/// The user of this process.
fn user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

fn prefix() -> io::Result<String> {
    Ok(format!("weft-wan-{}-", user()?))
}

/// From now on answers processes of the same user, and of root, with what `report` says.
pub(super) fn serve(report: impl Fn() -> Option<Report> + Send + 'static) -> Result<(), Failure> {
    let cannot = || Failure::while_doing("cannot be asked by weft wan stat");
    let address = prefix().and_then(|prefix| SocketAddr::from_abstract_name(format!("{prefix}{}", process::id())));
    let address = address.map_err(cannot())?;
    let listener = UnixListener::bind_addr(&address).map_err(cannot())?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten().filter(is_own) {
            // A process that asks and does not read has no answer.
            let _ = answer(stream, report());
        }
    });
    Ok(())
}

/// Whether the same user is at the other end, or root.
fn is_own(stream: &UnixStream) -> bool {
    let peer = getsockopt(stream, PeerCredentials).map(|credentials| credentials.uid());
    peer.is_ok_and(|peer| peer == 0 || user().is_ok_and(|user| peer == user))
}

fn answer(mut stream: UnixStream, report: Option<Report>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(serde_json::to_string(&report)?.as_bytes())
}

/// What each of those says that run, with its process id.
pub(super) fn all() -> Result<Vec<(u32, Report)>, Failure> {
    let sockets = fs::read_to_string("/proc/net/unix").map_err(Failure::while_doing("/proc/net/unix"))?;
    let mut ids = ids(&sockets, &prefix().map_err(Failure::while_doing("/proc/self"))?);
    ids.sort_unstable();
    ids.dedup();
    // One may have ended meanwhile.
    Ok(ids.into_iter().filter_map(|id| ask(id).ok().flatten().map(|report| (id, report))).collect())
}

/// The processes whose sockets have this prefix, in the list of the kernel.
fn ids(sockets: &str, prefix: &str) -> Vec<u32> {
    let names = sockets.lines().filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'));
    names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect()
}

fn ask(id: u32) -> io::Result<Option<Report>> {
    let address = SocketAddr::from_abstract_name(format!("{}{id}", prefix()?))?;
    let stream = UnixStream::connect_addr(&address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    if !is_own(&stream) {
        return Ok(None);
    }
    let mut text = String::new();
    stream.take(REPORT).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 23000 @weft-wan-7-4711\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 23001 @weft-wan-77-1\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 23002 /run/weft-wan-7-2\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 23003\n";
        assert_eq!(ids(list, "weft-wan-7-"), [4711]);
    }
}
