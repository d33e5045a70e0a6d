//! What the operating system permits this process, found out by trying.

use std::io;
use std::process::{Command, Stdio};

use socket2::{Domain, Socket, Type};

/// Packet sockets, for raw links: what they allow.
///
/// # Errors
/// Why there are none, in words.
pub fn packet_socket() -> Result<String, String> {
    match Socket::new(Domain::PACKET, Type::RAW, None) {
        Ok(_) => Ok("raw links can be used".into()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err("needs the capability CAP_NET_RAW".into()),
        Err(error) => Err(format!("this kernel refuses them: {error}")),
    }
}

/// User namespaces with a network of their own, for labs: what they allow.
///
/// # Errors
/// Why there are none, in words.
pub fn user_namespaces() -> Result<String, String> {
    let quiet = Stdio::null;
    let unshare =
        Command::new("unshare").args(["-Urn", "true"]).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    match unshare {
        Ok(status) if status.success() => Ok("virtual networks can be made without root".into()),
        Ok(_) => Err("this system bars them (see sysctl user.max_user_namespaces and its AppArmor settings)".into()),
        Err(error) => Err(format!("cannot run unshare of util-linux: {error}")),
    }
}
