//! `weft link-helper`: opens packet sockets for users without the right to.

use std::path::PathBuf;
use std::time::Duration;

use weft::verbs::LinkSettings;
use weft_link::{LinkHelper, Served};

use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::complain;

/// How often it checks for Ctrl-C.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// This many clients get a line.
const MOST_TOLD: u64 = 1000;

/// Which link, and for which users.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo weft link-helper --link eth0=10.0.0.9/24 --socket /run/weft-eth0 --uid 1000
  weft rping -s -a 10.0.0.9 --link eth0=10.0.0.9/24@/run/weft-eth0

It needs the capability CAP_NET_RAW, and with ports of the host's address CAP_NET_ADMIN for the rule of the
firewall, which holds as long as it runs. A client receives frames of that link and nothing else: the filter of its
socket is locked. What it sends is not bounded, so trust only users who may send any frame on the interface. The
folder of the socket is one that only root and the helper's user can write to, or has the sticky bit as /tmp; others
could put a socket of their own there. The helper ends by Ctrl-C or SIGTERM; sockets that it has given stay with
their owners.")]
pub(crate) struct Arguments {
    /// The link that clients get, as their --link says it
    #[arg(long, value_name = "INTERFACE=ADDRESS/BITS,..")]
    link: LinkSettings,
    /// Where clients come: a path for a Unix socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The users that are served, by their numbers
    #[arg(long = "uid", value_name = "UID,..", required = true, value_delimiter = ',')]
    uids: Vec<u32>,
}

/// Serves until it is interrupted.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.link.helper.is_some() {
        return Err(Failure::Usage("the helper has its path by --socket: leave it out of --link".into()));
    }
    let interrupt = Interrupt::watch()?;
    let (path, name) = (&arguments.socket, &arguments.link);
    let helper = LinkHelper::open(name, path, &arguments.uids).map_err(Failure::while_doing("cannot serve"))?;
    complain(format_args!("serving {name} at {}", path.display()));
    let mut told = 0;
    while !interrupt.has_come() {
        let served = helper.serve(CHECK_INTERVAL);
        told += u64::from(!matches!(served, Ok(None)));
        if served.is_err() {
            // What is missing, such as descriptors, may still be missing at once.
            std::thread::sleep(CHECK_INTERVAL);
        }
        if told > MOST_TOLD {
            continue;
        }
        match served {
            Ok(Some(Served::Given(user))) => complain(format_args!("user {user} has a socket")),
            Ok(Some(Served::Refused(user))) => complain(format_args!("user {user} is refused")),
            Ok(Some(Served::Gone) | None) => {}
            Err(error) => complain(format_args!("weft: a client could not be served: {error}")),
        }
    }
    Ok(())
}
