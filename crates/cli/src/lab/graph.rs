//! `weft lab graph`: a picture of a lab, as SVG.

use std::fmt::Write;

use weft_command::failure::Failure;
use weft_command::output::print;
use weft_lab::{Host, Plan, Shape, WanLink, Way};

use super::control::{self, Cable, Links, Request};
use super::link::describe_cut;
use super::state::{Name, State};

// All in pixels.
const MARGIN: usize = 20;
const TITLE: usize = 34;
const LINE: usize = 16;
const COLUMN: usize = 300;
const GAP: usize = 40;
const BUS: usize = 24;
const HOST_GAP: usize = 12;
const GATEWAY: usize = 30;
const WAN: usize = 52;

const STYLE: &str = "\
svg { --paper: #ffffff; --ink: #1c2733; --soft: #5c6b7a; --box: #f1f5f9;
  --edge: #94a3b8; --line: #0369a1; --cut: #b91c1c }
@media (prefers-color-scheme: dark) {
  svg { --paper: #11161c; --ink: #e5ecf3; --soft: #9aa9b8; --box: #1c2530;
    --edge: #55657a; --line: #4cb5f0; --cut: #f87171 }
}
.paper { fill: var(--paper) }
.box { fill: var(--box); stroke: var(--edge) }
.cluster { fill: none; stroke: var(--edge); stroke-dasharray: 4 4 }
.cable { fill: none; stroke: var(--line); stroke-width: 2 }
.cut { stroke: var(--cut); stroke-dasharray: 6 4 }
text { fill: var(--ink); font: 13px system-ui, sans-serif }
.soft { fill: var(--soft); font-size: 12px }
.name { font-weight: 600 }
.middle { text-anchor: middle }
.over { stroke: var(--paper); stroke-width: 6; paint-order: stroke }
";

/// Draws a lab as its links are now.
pub(super) fn run(name: &Name) -> Result<(), Failure> {
    let state = State::get(name)?;
    let links = control::ask(name, &Request::Links)?;
    print(Picture { state: &state, links: &links }.draw())
}

struct Picture<'a> {
    state: &'a State,
    links: &'a Links,
}

impl Picture<'_> {
    fn draw(&self) -> String {
        let plan = &self.state.plan;
        let clusters = plan.clusters.len().max(1);
        let tallest = (0..clusters).map(|cluster| self.column_height(cluster)).max().unwrap_or_default();
        let gateways = MARGIN + TITLE + tallest;
        let below = if plan.clusters.is_empty() { 0 } else { GATEWAY + 2 * HOST_GAP + WAN * self.links.wan.len() };
        let (width, height) = (2 * MARGIN + clusters * COLUMN + (clusters - 1) * GAP, gateways + below + MARGIN);
        let mut body = String::new();
        for cluster in 0..clusters {
            body += &self.column(cluster, gateways);
        }
        for (number, (link, cuts)) in self.links.wan.iter().zip(&self.links.wan_cuts).enumerate() {
            let depth = gateways + GATEWAY + 2 * HOST_GAP + WAN * number + WAN / 2;
            let cut: Vec<_> = cuts.iter().map(|cut| describe_cut(plan, link, *cut)).collect();
            body += &wan(plan, link, &cut, gateways + GATEWAY, depth);
        }
        let title = escaped(&format!("Lab {}", self.state.name));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n\
             {}{body}</svg>\n",
            text(MARGIN, MARGIN + LINE, "name", &format!("{title}: {}", speed(plan)))
        )
    }

    fn column_height(&self, cluster: usize) -> usize {
        let hosts = self.hosts(cluster).count();
        hosts * (self.host_height() + HOST_GAP) + 2 * LINE + HOST_GAP
    }

    fn host_height(&self) -> usize {
        LINE * (1 + self.state.plan.links) + HOST_GAP
    }

    fn hosts(&self, cluster: usize) -> impl Iterator<Item = &Host> {
        self.state.hosts.iter().filter(move |host| host.cluster() == cluster)
    }

    /// A cluster's hosts, each with a cable from each interface to its rail, and the gateway at their end.
    fn column(&self, cluster: usize, gateways: usize) -> String {
        let plan = &self.state.plan;
        let (left, top) = (column_left(cluster), MARGIN + TITLE);
        let mut out = String::new();
        let height = self.column_height(cluster);
        if let Some(named) = plan.clusters.get(cluster) {
            let bottom = gateways - top - HOST_GAP / 2;
            let _ = writeln!(
                out,
                "<rect class=\"cluster\" x=\"{left}\" y=\"{top}\" width=\"{COLUMN}\" height=\"{bottom}\" rx=\"8\"/>"
            );
            out += &text(left + 10, top + LINE + 4, "name", &format!("cluster {}", named.name));
        }
        let bus = |rail: usize| left + 14 + rail * BUS;
        let first = top + 2 * LINE;
        let box_left = left + 14 + plan.links * BUS;
        let end = if plan.clusters.is_empty() { top + height - HOST_GAP - self.host_height() / 2 } else { gateways };
        for rail in 0..plan.links {
            let _ = writeln!(out, "<path class=\"cable\" d=\"M {x} {first} V {end}\"/>", x = bus(rail));
        }
        for (number, host) in self.hosts(cluster).enumerate() {
            let y = first + number * (self.host_height() + HOST_GAP);
            let (width, height) = (COLUMN - 14 - 10 - plan.links * BUS, self.host_height());
            let _ = writeln!(
                out,
                "<rect class=\"box\" x=\"{box_left}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"5\"/>"
            );
            out += &text(box_left + 10, y + LINE + 2, "name", &format!("{} ({})", host.name(), host.index()));
            for (rail, at) in host.rails().iter().enumerate() {
                let line = y + LINE * (rail + 2);
                let (class, fate) = self.cable(host.index(), rail);
                let _ = writeln!(out, "<path class=\"cable{class}\" d=\"M {} {} H {box_left}\"/>", bus(rail), line - 4);
                out += &text(box_left + 10, line + 2, "soft", &format!("{} {}{fate}", at.interface, at.ipv4));
            }
        }
        if !plan.clusters.is_empty() {
            let width = COLUMN - 20;
            let _ = writeln!(
                out,
                "<rect class=\"box\" x=\"{}\" y=\"{gateways}\" width=\"{width}\" height=\"{GATEWAY}\" rx=\"5\"/>",
                left + 10
            );
            out += &text(left + COLUMN / 2, gateways + 20, "soft middle", &format!("gateway 10.0.{cluster}.254"));
        }
        out
    }

    /// How a host's cable is drawn, and what happens on it.
    fn cable(&self, host: usize, rail: usize) -> (&'static str, String) {
        let is_meant = |cable: &&Cable| (cable.host, cable.rail) == (host, rail);
        let Some(cable) = self.links.cables.iter().find(is_meant) else { return ("", String::new()) };
        let mut words: Vec<_> = cable.cut.iter().map(|way: &Way| format!("cut ({way})")).collect();
        let shaped = [("to it ", &cable.to_host), ("from it ", &cable.from_host)];
        words.extend(
            shaped.into_iter().filter(|(_, shape)| !shape.is_nothing()).map(|(which, shape)| format!("{which}{shape}")),
        );
        let class = if cable.cut.is_empty() { "" } else { " cut" };
        (class, words.iter().map(|words| format!(", {words}")).collect())
    }
}

fn column_left(cluster: usize) -> usize {
    MARGIN + cluster * (COLUMN + GAP)
}

/// A link between two gateways, below them.
fn wan(plan: &Plan, link: &WanLink, cut: &[String], from: usize, depth: usize) -> String {
    let WanLink { between: [one, other], there, back } = link;
    // Each link leaves a gateway at a place of its own.
    let place = |cluster: usize, far: usize| column_left(cluster) + COLUMN * (far + 1) / (plan.clusters.len() + 1);
    let (left, right) = (place(*one, *other), place(*other, *one));
    let names = [one, other].map(|cluster| plan.clusters[*cluster].name.as_str());
    let shown = |shape: &Shape| if shape.is_nothing() { "no limit".to_owned() } else { shape.to_string() };
    let (mut above, below) = if there == back {
        (format!("{} - {}, each way: {}", names[0], names[1], shown(there)), String::new())
    } else {
        let way = |from: &str, to: &str, shape| format!("{from} to {to}: {}", shown(shape));
        (way(names[0], names[1], there), way(names[1], names[0], back))
    };
    let class = if cut.is_empty() { "" } else { " cut" };
    above += &cut.iter().map(|how| format!(", cut ({how})")).collect::<String>();
    let middle = usize::midpoint(left, right);
    format!("<path class=\"cable{class}\" d=\"M {left} {from} V {depth} H {right} V {from}\"/>\n")
        + &text(middle, depth - 6, "soft middle over", &above)
        + &text(middle, depth + LINE, "soft middle over", &below)
}

fn speed(plan: &Plan) -> String {
    format!("each link: {}, MTU {}", plan.rates_text(), plan.mtu)
}

fn text(x: usize, y: usize, class: &str, words: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>\n", escaped(words))
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
