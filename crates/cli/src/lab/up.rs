//! `weft lab up`.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use weft_lab::{Carrier, Plan, WanLink};

use super::cluster::{self, Clusters, Wan};
use super::keeper::{self, Report};
use super::rates::Rates;
use super::state::{NewLab, State};
use super::topology;
use weft_command::failure::Failure;
use weft_command::output::print;
use weft_command::table::{Align, Table};

/// The arguments on the command line.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Hosts, 2 to 64
    #[arg(long, value_name = "N", default_value_t = 2)]
    hosts: usize,
    /// A file in TOML that says all of this instead
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "hosts", "links", "rate", "mtu", "no_offload", "congestion", "switch", "cluster", "wan", "carrier",
    ])]
    topology: Option<PathBuf>,
    /// Clusters of hosts: 2x4 are two of four hosts each, with a switch and a gateway, between which IP is routed
    #[arg(long, value_name = "CxH", conflicts_with_all = ["hosts", "switch"])]
    cluster: Option<Clusters>,
    /// What the links between clusters do to frames, in each direction: a delay, a rate, and what else weft lab shape
    /// does, in percent: 8ms,1G,loss=0.01 [default: nothing]
    #[arg(long, value_name = "DELAY[,RATE][,NAME=VALUE...]", requires = "cluster")]
    wan: Option<Wan>,
    /// Links of each host, 1 to 8
    #[arg(long, value_name = "N", default_value_t = 1)]
    links: usize,
    /// What a link carries in each direction: 500M, 1G, 2.5G bits per second, or none for no limit; or, with commas,
    /// what each rail's links carry
    #[arg(long, value_name = "RATE[,...]", default_value = "1G")]
    rate: Rates,
    /// The largest IP packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mtu: u32,
    /// Cut packets before the link, as if the NIC could not: no segmentation offload of TCP and UDP
    #[arg(long)]
    no_offload: bool,
    /// TCP's congestion control in the hosts [default: cubic, or reno where the kernel does not have that]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Join two hosts by a switch from the start, not only when a link is shaped
    #[arg(long)]
    switch: bool,
    /// What carries packets where a link is shaped: queue, the kernel's packet queues, for IP alone;
    /// rings, every frame, one by one [default: queue where the shape and this system allow it, or else rings]
    #[arg(long, value_name = "KIND")]
    carrier: Option<Carrier>,
    /// Stay in the foreground, and end the lab at Ctrl-C
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    lab: NewLab,
}

impl Arguments {
    fn plan(&self) -> Result<Plan, Failure> {
        let Self { links, mtu, congestion, switch, carrier, .. } = self;
        if let Some(path) = &self.topology {
            return topology::read(path);
        }
        self.rate.check(*links).map_err(|error| Failure::Usage(format!("--{error}")))?;
        let Rates { all, each } = self.rate.clone();
        let clusters = self.cluster.map_or_else(Vec::new, Clusters::usual);
        let Wan(shape) = self.wan.clone().unwrap_or_default();
        Ok(Plan {
            hosts: self.cluster.map_or(self.hosts, |cluster| cluster.count * cluster.hosts),
            links: *links,
            rate: all,
            rates: each,
            mtu: *mtu,
            offloads: !self.no_offload,
            congestion_control: congestion.clone(),
            switch: *switch,
            wan: WanLink::mesh(clusters.len(), &shape),
            clusters,
            carrier: *carrier,
        })
    }
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let plan = arguments.plan()?;
    plan.check()?;
    let Arguments { foreground, lab, .. } = arguments;
    if *foreground {
        return keeper::keep(&plan, &lab.name, |state| show(state, "Ctrl-C here"));
    }
    let state = start_keeper(&plan, lab)?;
    show(&state, &format!("weft lab down {}", state.name.option()))
}

fn start_keeper(plan: &Plan, lab: &NewLab) -> Result<State, Failure> {
    let cannot = || Failure::while_doing("cannot start the lab's keeper");
    let mut child = Command::new(env::current_exe().map_err(cannot())?)
        .args(["lab", "keep", "--name", &lab.name.to_string()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(cannot())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(plan).expect("plain values become JSON")).map_err(cannot())?;
    }
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(cannot())?;
    }
    match serde_json::from_str::<Report>(&line) {
        Ok(report) => report.map_err(Failure::Runtime),
        Err(_) => Err(Failure::Runtime("the lab's keeper has ended without a word".to_owned())),
    }
}

fn show(state: &State, end: &str) -> Result<(), Failure> {
    print(page(state, end))
}

fn page(state: &State, end: &str) -> String {
    let State { name, plan, hosts, .. } = state;
    let mut table = Table::new(&["host", "name", "interface", "IPv4", "IPv6"].map(|title| (title, align(title))));
    for host in hosts {
        for (number, rail) in host.rails().iter().enumerate() {
            let first = |text: String| if number == 0 { text } else { String::new() };
            let ipv6 = rail.ipv6.map_or_else(|| "-".to_owned(), |address| address.to_string());
            let (index, name) = (first(host.index().to_string()), first(host.name().to_owned()));
            table.row([index, name, rail.interface.clone(), rail.ipv4.to_string(), ipv6]);
        }
    }
    let option = name.option();
    // Of clusters, the first host of the second.
    let target = hosts.iter().find(|host| host.cluster() == 1).unwrap_or(&hosts[1]);
    let address = if target.knows_names() { target.name().to_owned() } else { target.address(0).to_string() };
    let mut commands = Table::new(&[("", Align::Left), ("", Align::Left)]);
    for (what, command) in [
        (
            format!("run a command in host {}", hosts[0].name()),
            format!("weft lab exec {option}{} -- ping -c 3 {address}", hosts[0].name()),
        ),
        (format!("open a shell in host {}", target.name()), format!("weft lab shell {option}{}", target.name())),
        ("end the lab".to_owned(), end.trim_end().to_owned()),
    ] {
        commands.row([what, command]);
    }
    format!("Lab {name} is up: {}.\n\n{table}\n{commands}", describe(plan))
}

fn align(title: &str) -> Align {
    if title == "host" { Align::Right } else { Align::Left }
}

fn describe(plan: &Plan) -> String {
    let Plan { hosts, links, rate, rates, mtu, offloads, congestion_control, switch, clusters, carrier, .. } = plan;
    let rate = match (rate, rates.is_empty()) {
        (None, true) => "without a limit".to_owned(),
        _ => format!("of {}", plan.rates_text()),
    };
    let links = if *links == 1 { "one link".to_owned() } else { format!("{links} links") };
    let switch = if *switch { ", a switch" } else { "" };
    let offloads = if *offloads { "" } else { ", no segmentation offload" };
    let congestion = congestion_control.as_ref().map_or_else(String::new, |name| format!(", {name}"));
    let clusters = if clusters.is_empty() { String::new() } else { format!(" in {} clusters", clusters.len()) };
    let wan: String = plan.wan.iter().map(|link| describe_wan(plan, link)).collect();
    let carrier = carrier.map_or_else(String::new, |carrier| format!(", carrier {carrier}"));
    format!("{hosts} hosts{clusters}, {links} {rate} each, MTU {mtu}{switch}{offloads}{congestion}{carrier}{wan}")
}

fn describe_wan(plan: &Plan, WanLink { between: [one, other], there, back }: &WanLink) -> String {
    let (one, other) = (&plan.clusters[*one].name, &plan.clusters[*other].name);
    format!("; from {one} to {other}: {}", cluster::describe(there, back))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_described_in_words() {
        let usual = Plan::default();
        assert_eq!(describe(&usual), "2 hosts, one link of 1 Gb/s each, MTU 1500");
        let congestion_control = Some("bbr".to_owned());
        let other = Plan {
            hosts: 8,
            links: 4,
            rate: None,
            rates: vec![],
            mtu: 9000,
            offloads: false,
            congestion_control,
            switch: false,
            clusters: vec![],
            wan: vec![],
            carrier: Some(Carrier::Rings),
        };
        assert_eq!(
            describe(&other),
            "8 hosts, 4 links without a limit each, MTU 9000, no segmentation offload, bbr, carrier rings"
        );
    }

    #[test]
    fn clusters_are_described_with_their_links() {
        let shape = "8ms,1G".parse::<Wan>().unwrap().0;
        let clusters = "2x4".parse::<Clusters>().unwrap().usual();
        let plan = Plan { hosts: 8, clusters, wan: WanLink::mesh(2, &shape), ..Plan::default() };
        assert_eq!(
            describe(&plan),
            "8 hosts in 2 clusters, one link of 1 Gb/s each, MTU 1500; from a to b: rate 1 Gb/s, delay 8ms in each \
             direction, so a round trip takes 16ms"
        );
    }
}
