//! Reserves TCP ports of this host: a rule of the kernel's firewall, and the ports themselves.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Child, ChildStdin, Command, Stdio};

use socket2::{Domain, Socket, Type};

/// Folders of system programs that a user's search path may lack.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Keeps the kernel's TCP from using these ports, until it is dropped. Needs no privilege.
#[derive(Debug)]
pub struct PortReservation {
    _sockets: Vec<Socket>,
}

impl PortReservation {
    /// The maximum number of ports of one range: each takes a descriptor.
    pub const MOST: usize = 256;

    /// Reserves the ports, at most [`PortReservation::MOST`].
    ///
    /// # Errors
    /// A port is in use, and the message says which; they are too many; no more descriptors.
    pub fn take(ports: RangeInclusive<u16>) -> io::Result<Self> {
        let (first, last) = (*ports.start(), *ports.end());
        if ports.len() > Self::MOST || ports.is_empty() {
            let words = format!("the ports {first}-{last} are {}: choose 1 to {}", ports.len(), Self::MOST);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        let take = |port| {
            let advice = "choose other ports, or end the program that uses it (`ss -tanp` shows it)";
            reserve(port).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("port {port} of {first}-{last} cannot be reserved: {error}; {advice}"),
                )
            })
        };
        Ok(Self { _sockets: ports.map(take).collect::<io::Result<_>>()? })
    }
}

/// Binds a port at all addresses, and never listens there.
fn reserve(port: u16) -> io::Result<Socket> {
    let both = Socket::new(Domain::IPV6, Type::STREAM, None).and_then(|socket| {
        socket.set_only_v6(false)?;
        Ok((socket, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))))
    });
    let (socket, address) = match both {
        Ok(both) => both,
        // The kernel has no IPv6.
        Err(_) => (Socket::new(Domain::IPV4, Type::STREAM, None)?, (Ipv4Addr::UNSPECIFIED, port).into()),
    };
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A rule of the kernel's firewall, in a table of its own: segments to these ports from an interface are for packet
/// sockets alone, so that the kernel's TCP does not answer them with resets.
///
/// The table belongs to a process `nft -i` that this one controls by a pipe (flag `owner`, Linux 5.12): when this value
/// is dropped, or this process ends in whatever way, that process ends too, and the kernel removes the table with it.
#[derive(Debug)]
pub struct PortRule {
    holder: Child,
    pipe: Option<ChildStdin>,
    /// Its further output: without a reader it would end.
    _said: Option<PipeReader>,
}

impl PortRule {
    /// Sets the rule for segments from an interface to one of these addresses.
    ///
    /// # Errors
    /// There is no program `nft`, or the capability CAP_NET_ADMIN is missing, or the kernel refuses: the message says
    /// which, and what to do.
    pub fn set(interface: &str, addresses: &[IpAddr], ports: &RangeInclusive<u16>) -> io::Result<Self> {
        let name = format!("weft_{}_{}", process::id(), ports.start());
        let (mut said, writer) = io::pipe()?;
        let mut command = Command::new(program());
        // Ctrl-C is for this process, which removes the rule last.
        command.arg("-i").process_group(0).stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let mut holder = command.spawn().map_err(|error| explain(&error))?;
        drop(command);
        let pipe = holder.stdin.take();
        let mut rule = Self { holder, pipe, _said: None };
        rule.tell(&script(&name, interface, addresses, ports)?).map_err(|error| explain(&error))?;
        await_table(&name, &mut said)?;
        rule._said = Some(said);
        Ok(rule)
    }

    fn tell(&mut self, script: &str) -> io::Result<()> {
        let pipe = self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.write_all(script.as_bytes())
    }
}

impl Drop for PortRule {
    fn drop(&mut self) {
        // It ends at the end of its input.
        self.pipe = None;
        let _ = self.holder.wait();
    }
}

fn program() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM.map(Into::into));
    let found =
        folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join("nft")).find(|path| path.is_file());
    found.map_or_else(|| "nft".into(), Into::into)
}

/// The commands for `nft`: make the table, all or nothing, and list it.
fn script(name: &str, interface: &str, addresses: &[IpAddr], ports: &RangeInclusive<u16>) -> io::Result<String> {
    if interface.contains(['"', '\n', '\\']) || Path::new(interface).components().count() != 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{interface:?} is no interface")));
    }
    let mut script = format!(
        "add table inet {name} {{ flags owner; }}; \
         add chain inet {name} segments {{ type filter hook prerouting priority raw; }}"
    );
    let (first, last) = (ports.start(), ports.end());
    for address in addresses {
        let family = if address.is_ipv4() { "ip" } else { "ip6" };
        let rule = format!("iifname \"{interface}\" {family} daddr {address} tcp dport {first}-{last} drop");
        // Writing to a string does not fail.
        let _ = write!(script, "; add rule inet {name} segments {rule}");
    }
    let _ = write!(script, "\nlist table inet {name}\n");
    Ok(script)
}

/// Reads until the table is listed, or an error.
fn await_table(name: &str, reader: impl io::Read) -> io::Result<()> {
    let mut said = String::new();
    for line in BufReader::new(reader).lines() {
        let line = line?;
        if line.contains(&format!("table inet {name} {{")) {
            return Ok(());
        }
        let is_wrong = line.contains("Error") || line.contains("not permitted");
        said += line.trim();
        if is_wrong {
            break;
        }
        said.push(' ');
    }
    let kind = if said.contains("not permitted") { io::ErrorKind::PermissionDenied } else { io::ErrorKind::Other };
    let advice = match kind {
        io::ErrorKind::PermissionDenied => "it needs the capability CAP_NET_ADMIN in the network namespace",
        _ => "it needs nftables in the kernel, 5.12 or newer",
    };
    Err(io::Error::new(kind, format!("nft cannot set the rule for ports of the host ({}): {advice}", said.trim())))
}

fn explain(error: &io::Error) -> io::Error {
    let words = match error.kind() {
        io::ErrorKind::NotFound => "there is no program nft, which sets the rule for ports of the host; on Debian, as \
                                    root: apt install nftables"
            .to_owned(),
        _ => format!("nft, which sets the rule for ports of the host: {error}"),
    };
    io::Error::new(error.kind(), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_for_these_addresses_and_ports_alone() {
        let addresses = ["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()];
        let script = script("weft_7_40000", "eth0", &addresses, &(40_000..=40_099)).unwrap();
        let (all, shown) = script.split_once('\n').unwrap();
        let lines: Vec<&str> = all.split("; add ").collect();
        assert_eq!(
            lines,
            [
                "add table inet weft_7_40000 { flags owner; }",
                "chain inet weft_7_40000 segments { type filter hook prerouting priority raw; }",
                "rule inet weft_7_40000 segments iifname \"eth0\" ip daddr 10.0.0.1 tcp dport 40000-40099 drop",
                "rule inet weft_7_40000 segments iifname \"eth0\" ip6 daddr fe80::1 tcp dport 40000-40099 drop",
            ]
        );
        assert_eq!(shown, "list table inet weft_7_40000\n");
        for name in ["", "a\"; flush ruleset", "a/b", "a\nb"] {
            assert!(super::script("weft", name, &addresses, &(1..=2)).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_error_of_nft_is_reported_with_what_is_missing() {
        let table = "nft> table inet weft_1_2 { # progname nft\n\tflags owner\n";
        assert!(await_table("weft_1_2", table.as_bytes()).is_ok());
        let error = await_table("weft_1_2", "Operation not permitted (you must be root)\n".as_bytes()).unwrap_err();
        assert!(error.kind() == io::ErrorKind::PermissionDenied && error.to_string().contains("CAP_NET_ADMIN"));
        let error = await_table("x", "Error: Could not process rule: Not supported\n".as_bytes()).unwrap_err();
        assert!(error.to_string().contains("Not supported") && error.to_string().contains("5.12"), "{error}");
        assert!(await_table("x", io::empty()).is_err());
        assert!(explain(&io::ErrorKind::NotFound.into()).to_string().contains("apt install nftables"));
    }

    #[test]
    fn a_port_that_is_taken_is_named_and_one_that_is_reserved_is_taken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = PortReservation::take(port..=port).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&format!("port {port} of {port}-{port}")), "{error}");
        drop(listener);
        if let Ok(reservation) = PortReservation::take(port..=port) {
            assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_err());
            drop(reservation);
        }
        assert!(PortReservation::take(1..=300).unwrap_err().to_string().contains("1 to 256"));
    }
}
