//! Packet sockets that a privileged process opens for unprivileged ones, over a Unix socket.
//!
//! The helper opens a socket on one interface, with a filter that can neither be changed nor removed
//! (`SO_LOCK_FILTER`), and passes it (`SCM_RIGHTS`) to processes of trusted users. It reads nothing from its clients,
//! so none can block it. The filter bounds what a client receives; nothing bounds what it sends.

use core::time::Duration;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

use super::PacketSocket;
use super::filter::FrameTest;
use super::folder;
use crate::passing;
use crate::user;
use crate::wait_set::WaitSet;

/// The prefix of the name of the link that is passed, and of the reason why none is.
const GIVES: &str = "weft-link 1 ";
const REFUSES: &str = "weft-refuses 1 ";
/// The longest message.
const LONGEST: usize = 1024;
/// How long a helper may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of waiting clients.
const BACKLOG: i32 = 16;

/// Passes packet sockets to clients.
#[derive(Debug)]
pub struct PacketHelper {
    socket: Socket,
    waiting: WaitSet,
    path: PathBuf,
    trusted: Vec<u32>,
}

/// The sockets that clients get.
#[derive(Clone, Debug)]
pub struct PacketOffer {
    /// The name of the interface.
    pub interface: String,
    /// A frame passes if all tests of one of these are true.
    pub tests: Vec<Vec<FrameTest>>,
    /// The name by which clients request it.
    pub name: String,
}

/// The outcome for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It got a socket; it runs as this user.
    Given(u32),
    /// It runs as this user, which is not trusted.
    Refused(u32),
    /// It disconnected before it could be served.
    Gone,
}

impl PacketHelper {
    /// Listens at a path, where any user may connect and those of `trusted` are served. Removes the socket of a helper
    /// that was killed.
    ///
    /// # Errors
    /// Another helper listens there, or something other than a socket exists there, or the folder cannot be written to,
    /// or others than root and this process's user could replace the socket in it.
    pub fn listen(path: &Path, trusted: &[u32]) -> io::Result<Self> {
        let (folder, path) = folder::folder_of(path)?;
        folder::check_own(&folder)?;
        put_away(&path)?;
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.set_nonblocking(true)?;
        bind_for_all(&socket, &SockAddr::unix(&path)?)?;
        socket.listen(BACKLOG)?;
        let waiting = WaitSet::new().map_err(io::Error::other)?;
        waiting.add(&socket, 0).map_err(io::Error::other)?;
        Ok(Self { socket, waiting, path, trusted: trusted.to_vec() })
    }

    /// Waits for a client, at most for `timeout`, and serves it. `None`: no client has connected.
    ///
    /// # Errors
    /// No socket can be opened: the client has been sent the reason.
    pub fn serve(&self, timeout: Duration, offer: &PacketOffer) -> io::Result<Option<Served>> {
        self.waiting.wait(Some(timeout), &mut Vec::new()).map_err(io::Error::other)?;
        let client = match self.socket.accept() {
            Ok((client, _)) => client,
            Err(error) if is_nobody(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        client.set_nonblocking(true)?;
        let Some(user) = passing::peer(&client).map(|peer| peer.uid) else { return Ok(Some(Served::Gone)) };
        if !user::is_unambiguous(user) {
            refuse(&client, "its user namespace does not map this user, who cannot be identified");
            return Ok(Some(Served::Refused(user)));
        }
        if !self.trusted.contains(&user) {
            refuse(&client, &format!("it does not trust user {user} (--uid)"));
            return Ok(Some(Served::Refused(user)));
        }
        let opened = PacketSocket::open_for_another(&offer.interface, &offer.tests).inspect_err(|error| {
            refuse(&client, &error.to_string());
        })?;
        let message = format!("{GIVES}{}", offer.name);
        let sent = passing::send_with(&client, message.as_bytes(), opened.as_fd());
        Ok(Some(if sent.is_ok() { Served::Given(user) } else { Served::Gone }))
    }
}

impl AsFd for PacketHelper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waiting.as_fd()
    }
}

impl Drop for PacketHelper {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds the socket where all users may write to it: the kernel's credentials of a client decide whether it gets a
/// packet socket. Its mode is right from the start (0777 without the umask, unix(7)): a later change by name would
/// reach whatever had been put there meanwhile.
fn bind_for_all(socket: &Socket, at: &SockAddr) -> io::Result<()> {
    let bind = || {
        // SAFETY: Calls without memory.
        let before = unsafe {
            // All threads share the umask (umask(2)). This one stops sharing it, except where a container forbids
            // unshare(2): then all have another one for the time of one call.
            libc::unshare(libc::CLONE_FS);
            libc::umask(0o111)
        };
        let bound = socket.bind(at);
        // SAFETY: As above.
        unsafe { libc::umask(before) };
        bound
    };
    std::thread::scope(|scope| scope.spawn(bind).join()).unwrap_or_else(|_| Err(io::Error::other("bind panicked")))
}

fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}

fn refuse(client: &Socket, why: &str) {
    let mut message = format!("{REFUSES}{why}").into_bytes();
    message.truncate(LONGEST);
    let _ = passing::send(client, &message);
}

/// Removes a socket without a listener.
fn put_away(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let exists = |what: &str| io::Error::new(io::ErrorKind::AlreadyExists, format!("{}: {what}", path.display()));
    if !found.file_type().is_socket() {
        return Err(exists("a file that is no socket exists there"));
    }
    match connect(path) {
        Ok(_) => Err(exists("another helper listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

fn connect(path: &Path) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
    // A helper with too many clients refuses at once.
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// Requests a socket of the link with this name from the helper at a path.
pub(super) fn ask(path: &Path, name: &str) -> io::Result<OwnedFd> {
    let explain = |error: &io::Error| {
        let advice = "start one there, with the capability CAP_NET_RAW: weft link-helper";
        io::Error::new(error.kind(), format!("the helper at {}: {error}; {advice}", path.display()))
    };
    let socket = connect(path).map_err(|error| explain(&error))?;
    check_helper(&socket, path)?;
    let waiting = WaitSet::new().map_err(io::Error::other)?;
    waiting.add(&socket, 0).map_err(io::Error::other)?;
    waiting.wait(Some(PATIENCE), &mut Vec::new()).map_err(io::Error::other)?;
    let mut bytes = [0; LONGEST];
    let (length, fd) =
        passing::receive_with(&socket, &mut bytes).map_err(|number| explain(&io::Error::from_raw_os_error(number)))?;
    understand(&bytes[..length], fd, name)
        .map_err(|error| io::Error::new(error.kind(), format!("the helper at {}: {error}", path.display())))
}

/// Refuses a helper that any user could have started: it would see all frames.
fn check_helper(socket: &Socket, path: &Path) -> io::Result<()> {
    let (folder, _) = folder::folder_of(path)?;
    let refuse = |who: &str| {
        let rule = "one is believed that runs as root, as this process's user, or as the only user who can write to \
                    its folder";
        let message = format!("the helper at {}: {who}; {rule}", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    };
    match passing::peer_user(socket) {
        None => refuse("its user has no number in this user namespace"),
        Some(user) if !folder::is_trustworthy(user, &folder)? => refuse(&format!("it runs as user {user}")),
        Some(_) => Ok(()),
    }
}

/// Parses a helper's answer.
fn understand(message: &[u8], fd: Option<OwnedFd>, name: &str) -> io::Result<OwnedFd> {
    let text = String::from_utf8_lossy(message);
    if let Some(why) = text.strip_prefix(REFUSES) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned()));
    }
    let invalid = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
    let Some(given) = text.strip_prefix(GIVES) else {
        return Err(invalid("what listens there is no helper of Weft".into()));
    };
    if given != name {
        return Err(invalid(format!("it offers the link {given}, not {name}")));
    }
    let fd = fd.ok_or_else(|| invalid("it has passed no socket".into()))?;
    let is_packet = socket2::SockRef::from(&fd).domain()? == Domain::from(libc::AF_PACKET);
    if is_packet { Ok(fd) } else { Err(invalid("it has passed another descriptor than a packet socket".into())) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::forbidden::forbid;
    use crate::fork::in_child;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weft-helper-{name}-{}", std::process::id()))
    }

    fn user() -> u32 {
        user::own()
    }

    /// A folder of this test's own.
    fn own_folder(name: &str, mode: u32) -> PathBuf {
        let folder = path(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    /// From now on this thread, and those that it starts, cannot change a mode by a name.
    fn forbid_chmod() {
        forbid(&[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod,
            libc::SYS_fchmodat,
        ]);
        let denied = fs::set_permissions("/no/such/file", fs::Permissions::from_mode(0o600)).unwrap_err();
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
    }

    fn offer() -> PacketOffer {
        let tests = vec![vec![FrameTest::Word(14, std::process::id())]];
        PacketOffer { interface: "lo".into(), tests, name: "lo=test".into() }
    }

    /// Serves one client that requests a link of this name.
    fn serve_one(helper: &PacketHelper, name: &str) -> (io::Result<Option<Served>>, io::Result<OwnedFd>) {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&helper.path, name));
            let served = helper.serve(Duration::from_secs(60), &offer());
            (served, asked.join().unwrap())
        })
    }

    #[test]
    fn a_socket_is_passed_with_a_filter_that_stays() {
        let path = path("gives");
        let helper = PacketHelper::listen(&path, &[user()]).unwrap();
        let (served, asked) = serve_one(&helper, "lo=test");
        if served.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            let error = asked.unwrap_err().to_string();
            return assert!(error.contains("CAP_NET_RAW"), "{error}");
        }
        assert_eq!(served.unwrap(), Some(Served::Given(user())));
        let fd = asked.unwrap();
        let socket = socket2::SockRef::from(&fd);
        assert_eq!(socket.detach_filter().unwrap_err().raw_os_error(), Some(libc::EPERM));
        let all = socket2::SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, u32::MAX);
        assert_eq!(socket.attach_filter(&[all]).unwrap_err().raw_os_error(), Some(libc::EPERM));
        let (_, asked) = serve_one(&helper, "lo=other");
        let error = asked.unwrap_err().to_string();
        assert!(error.contains("lo=test") && error.contains("not lo=other"), "{error}");
        drop(helper);
        assert!(!path.exists());
        let error = ask(&path, "lo=test").unwrap_err().to_string();
        assert!(error.contains("link-helper") && error.contains(&path.display().to_string()), "{error}");
    }

    #[test]
    fn a_user_that_is_not_trusted_is_refused() {
        let helper = PacketHelper::listen(&path("refuses"), &[user() ^ 1]).unwrap();
        let (served, asked) = serve_one(&helper, "lo=test");
        assert_eq!(served.unwrap(), Some(Served::Refused(user())));
        let error = asked.unwrap_err();
        assert!(
            error.kind() == io::ErrorKind::PermissionDenied && error.to_string().contains("does not trust"),
            "{error}"
        );
        assert_eq!(helper.serve(Duration::ZERO, &offer()).unwrap(), None);
    }

    #[test]
    fn a_path_is_taken_over_from_the_dead_alone() {
        let path = path("path");
        fs::write(&path, "a file").unwrap();
        let error = PacketHelper::listen(&path, &[]).unwrap_err().to_string();
        assert!(error.contains("no socket"), "{error}");
        fs::remove_file(&path).unwrap();
        let first = PacketHelper::listen(&path, &[]).unwrap();
        let error = PacketHelper::listen(&path, &[]).unwrap_err().to_string();
        assert!(error.contains("another helper"), "{error}");
        // A helper that was killed leaves its socket.
        let dead = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        drop(first);
        dead.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        drop(dead);
        assert!(path.exists());
        drop(PacketHelper::listen(&path, &[]).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn any_user_may_connect_and_no_mode_is_changed_by_a_name() {
        let path = path("mode");
        let listens = || {
            forbid_chmod();
            PacketHelper::listen(&path, &[])
        };
        let helper = std::thread::scope(|scope| scope.spawn(listens).join()).unwrap().unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        drop(helper);
    }

    #[test]
    fn a_folder_in_which_others_can_replace_the_socket_is_refused() {
        let folder = own_folder("folder", 0o777);
        let listen = |folder: &Path| PacketHelper::listen(&folder.join("socket"), &[]).map(drop);
        let refused = |at: &Path, whose: &Path| {
            let error = listen(at).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            let named = fs::canonicalize(whose).unwrap().display().to_string();
            assert!(error.to_string().starts_with(&named), "{error}");
        };
        refused(&folder, &folder);
        let inner = folder.join("inner");
        fs::create_dir(&inner).unwrap();
        refused(&inner, &folder);
        // Through a link.
        let link = path("folder-link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        refused(&link, &folder);
        fs::remove_file(link).unwrap();
        for good in [0o1777, 0o755] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(good)).unwrap();
            listen(&folder).unwrap();
            listen(&inner).unwrap();
        }
        if std::os::unix::fs::chown(&inner, Some(4711), None).is_ok() {
            let error = listen(&inner).unwrap_err().to_string();
            assert!(error.contains("belongs to user 4711"), "{error}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_stranger_s_helper_is_not_believed() {
        let folder = own_folder("stranger", 0o755);
        let path = folder.join("socket");
        if std::os::unix::fs::chown(&folder, Some(65_533), None).is_err() {
            fs::remove_dir_all(folder).unwrap();
            return eprintln!("skipped: only root can be another user");
        }
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        let at = SockAddr::unix(&path).unwrap();
        let outcome = in_child(|| {
            // SAFETY: Calls that are allowed after a fork; the address has the given length.
            let failed = unsafe {
                libc::setresuid(65_533, 65_533, 65_533) != 0
                    || libc::bind(socket.as_fd().as_raw_fd(), at.as_ptr().cast(), at.len()) != 0
                    || libc::listen(socket.as_fd().as_raw_fd(), BACKLOG) != 0
            };
            i32::from(failed)
        });
        assert_eq!(outcome, 0);
        // Any user may have made the folder below /tmp.
        let error = ask(&path, "lo=test").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("it runs as user 65533"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn other_listeners_are_told_from_helpers() {
        let said = |text: &str, fd| understand(text.as_bytes(), fd, "lo=test").unwrap_err().to_string();
        assert!(said("HTTP/1.1 400 Bad Request", None).contains("no helper"));
        assert!(said("weft-link 1 lo=test", None).contains("no socket"));
        let other = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        assert!(said("weft-link 1 lo=test", Some(other.into())).contains("another descriptor"));
        assert_eq!(said("weft-refuses 1 because", None), "because");
    }
}
