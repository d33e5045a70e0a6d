//! In front of interfaces that are there.

use std::path::{Path, PathBuf};
use std::process::{self, Command};

use weft_driver::interface_names;
use weft_lab::{Carrier as Kind, find_program};

use crate::error::WanError;
use crate::guard::Guard;
use crate::process::{CarrierProcess, CarrierProgram, StartError};
use crate::report::Report;
use crate::serve::{Means, Order};
use crate::wan::check;

/// Queues that are tried before it is given up, and the first of them.
const TRIES: u16 = 64;
const FIRST_QUEUE: u16 = 41_000;

/// What lies in front of interfaces of this machine, until this is dropped or this process has ended.
#[derive(Debug)]
pub struct Attached {
    // First the rules go, then the reader of the queues.
    guard: Option<Guard>,
    carrier: CarrierProcess,
    /// Of a queue nothing says that its interface has gone.
    interface: Option<String>,
}

impl Attached {
    /// In front of one interface: all that this machine sends and receives by it, packets of IP. If nothing reads the
    /// queue any more, packets pass as if nothing were there.
    ///
    /// # Errors
    /// The scenario is none; there is no such interface; the capability CAP_NET_ADMIN is missing; a program or a part
    /// of the kernel is. The message says which.
    pub fn to_one(interface: &str, scenario: &str, folder: &Path, program: &CarrierProgram) -> Result<Self, WanError> {
        check(scenario, folder, Kind::Queue)?;
        find(interface)?;
        let tables = [find_program("iptables", "iptables")?, find_program("ip6tables", "iptables")?];
        let (queues, carrier) = open_queues(scenario, folder, program)?;
        let guard = Guard::start(&find_program("sh", "dash")?, &rules(interface, queues, &tables))?;
        Ok(Self { guard: Some(guard), carrier, interface: Some(interface.to_owned()) })
    }

    /// Between two interfaces: each frame that comes at one leaves by the other. This machine should have no addresses
    /// at them.
    ///
    /// # Errors
    /// The scenario is none; there is no such interface; the capability CAP_NET_RAW is missing. The message says which.
    pub fn between(
        interfaces: [&str; 2],
        scenario: &str,
        folder: &Path,
        program: &CarrierProgram,
    ) -> Result<Self, WanError> {
        check(scenario, folder, Kind::Rings)?;
        if interfaces[0] == interfaces[1] {
            return Err(WanError::Impossible(format!("{} twice; name two interfaces", interfaces[0])));
        }
        interfaces.into_iter().try_for_each(find)?;
        let means = Means::Rings(interfaces.map(str::to_owned));
        let order = Order { means, scenario: scenario.to_owned(), folder: folder.to_owned() };
        let carrier = CarrierProcess::start(Command::new(&program.program), program, &order)?;
        Ok(Self { guard: None, carrier, interface: None })
    }

    /// What has been carried until now.
    ///
    /// # Errors
    /// The process that carries packets has ended.
    pub fn report(&mut self) -> Result<Report, WanError> {
        self.carrier.report()
    }

    /// Whether packets are still carried. If not, [`Attached::failure`] says why.
    pub fn is_whole(&mut self) -> bool {
        self.gone().is_none() && self.carrier.is_alive()
    }

    /// The interface, if it has gone.
    fn gone(&self) -> Option<&str> {
        self.interface.as_deref().filter(|interface| !interface_names().iter().any(|name| name == interface))
    }

    /// Why packets are not carried any more.
    pub fn failure(&mut self) -> WanError {
        self.guard = None;
        let gone = self.gone().map(|interface| {
            WanError::Carrier(format!("the interface {interface} has gone; make it again, and begin anew"))
        });
        gone.unwrap_or_else(|| self.carrier.ended())
    }
}

/// Two queues that nothing else reads.
fn open_queues(
    scenario: &str,
    folder: &Path,
    program: &CarrierProgram,
) -> Result<([u16; 2], CarrierProcess), WanError> {
    let first = FIRST_QUEUE + (process::id() % 4096) as u16 * 2;
    let mut last = None;
    for attempt in 0..TRIES {
        let queues = [first + attempt * 2, first + attempt * 2 + 1];
        let order = Order { means: Means::Queues(queues), scenario: scenario.to_owned(), folder: folder.to_owned() };
        match CarrierProcess::start(Command::new(&program.program), program, &order) {
            Ok(carrier) => return Ok((queues, carrier)),
            Err(StartError::Refused(refusal)) if refusal.is_taken => last = Some(StartError::Refused(refusal)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.map_or_else(|| WanError::Carrier("no packet queue is free".to_owned()), WanError::from))
}

/// Program and rule. What is sent is taken behind the routing decision, what comes before it.
fn rules(interface: &str, [out, back]: [u16; 2], tables: &[PathBuf; 2]) -> Vec<(String, String)> {
    let rules = [
        format!("POSTROUTING -o {interface} -j NFQUEUE --queue-num {out} --queue-bypass"),
        format!("PREROUTING -i {interface} -j NFQUEUE --queue-num {back} --queue-bypass"),
    ];
    let of_table = |table: &PathBuf| rules.clone().map(|rule| (table.display().to_string(), rule));
    tables.iter().flat_map(of_table).collect()
}

fn find(interface: &str) -> Result<(), WanError> {
    // The names of the network that this process is in, which /sys need not show.
    let names = interface_names();
    if names.iter().any(|name| name == interface) {
        return Ok(());
    }
    Err(WanError::Impossible(format!("there is no interface {interface:?}; there are {}", names.join(", "))))
}
