//! `weft lab cut`, `mend` and `links`.

use serde_json::json;
use weft_lab::{Carrier, Link, Plan, WanCut, WanLink, Way};

use super::control::{self, Cable, Links, Request};
use super::state::{Name, State};
use super::target::Target;
use weft_command::failure::Failure;
use weft_command::output::{print, print_line};
use weft_command::table::{Align, Table};

/// Cuts a link.
pub(super) fn cut(name: &Name, link: &Target, way: Way) -> Result<(), Failure> {
    control::ask(name, &Request::Cut(link.clone(), way))?;
    let whose = if matches!(link, Target::Rail(_)) { "host" } else { "first cluster" };
    let what = match way {
        Way::Carrier => "has no carrier".to_owned(),
        Way::Silent => "is cut silently".to_owned(),
        Way::Send => format!("silently loses what the {whose} sends"),
        Way::Receive => format!("silently loses what is sent to the {whose}"),
    };
    print_line(format_args!("Link {link} of lab {name} {what}."))
}

/// Mends a link, or all of them.
pub(super) fn mend(name: &Name, link: Option<&Target>) -> Result<(), Failure> {
    control::ask(name, &Request::Mend(link.cloned()))?;
    match link {
        Some(link) => print_line(format_args!("Link {link} of lab {name} is whole.")),
        None => print_line(format_args!("All links of lab {name} are whole.")),
    }
}

/// Shows all of them.
pub(super) fn list(name: &Name, json: bool) -> Result<(), Failure> {
    let plan = State::get(name)?.plan;
    let Links { cables, wan, wan_cuts, wan_carriers } = control::ask(name, &Request::Links)?;
    let names = |link: &WanLink| link.between.map(|cluster| plan.clusters[cluster].name.clone());
    if json {
        let to_json = "plain values become JSON";
        let cables = cables.iter().map(|cable| serde_json::to_value(cable).expect(to_json));
        let wan = wan.iter().zip(wan_cuts.iter().zip(&wan_carriers)).map(|(link, (cuts, carrier))| {
            let cut: Vec<_> = cuts.iter().map(|cut| describe_cut(&plan, link, *cut)).collect();
            let WanLink { there, back, .. } = link;
            json!({ "between": names(link), "cut": cut, "there": there, "back": back, "carrier": carrier })
        });
        let all: Vec<_> = cables.chain(wan).collect();
        return print_line(serde_json::to_string_pretty(&all).expect(to_json));
    }
    print(table(&cables))?;
    if wan.is_empty() {
        return Ok(());
    }
    let mut between = Table::new(&["clusters", "cut", "there", "back", "carrier"].map(|title| (title, Align::Left)));
    for (link, (cuts, carrier)) in wan.iter().zip(wan_cuts.iter().zip(&wan_carriers)) {
        let cut: Vec<_> = cuts.iter().map(|cut| describe_cut(&plan, link, *cut)).collect();
        let cut = if cut.is_empty() { "-".to_owned() } else { cut.join(", ") };
        let (there, back) = (link.there.to_string(), link.back.to_string());
        between.row([names(link).join("-"), cut, there, back, carried(*carrier)]);
    }
    print(format_args!("\n{between}"))
}

/// How a link between clusters is cut: `carrier`, `silent`, `a to b`.
pub(super) fn describe_cut(plan: &Plan, link: &WanLink, cut: WanCut) -> String {
    let [one, other] = link.between.map(|cluster| plan.clusters[cluster].name.as_str());
    match cut {
        WanCut::Carrier => Way::Carrier.to_string(),
        WanCut::Silent => Way::Silent.to_string(),
        WanCut::From(sender) if sender == link.between[0] => format!("{one} to {other}"),
        WanCut::From(_) => format!("{other} to {one}"),
    }
}

/// By what packets are carried.
fn carried(carrier: Option<Carrier>) -> String {
    carrier.map_or_else(|| "-".to_owned(), |carrier| carrier.to_string())
}

fn table(cables: &[Cable]) -> Table {
    let mut table = Table::new(&[
        ("link", Align::Left),
        ("cut", Align::Left),
        ("to the host", Align::Left),
        ("from the host", Align::Left),
        ("carrier", Align::Left),
    ]);
    for Cable { host, rail, cut, to_host, from_host, carrier, .. } in cables {
        let link = Link { host: Some(*host), rail: *rail };
        let cut = cut.iter().map(Way::to_string).collect::<Vec<_>>().join(", ");
        let cut = if cut.is_empty() { "-".to_owned() } else { cut };
        table.row([link.to_string(), cut, to_host.to_string(), from_host.to_string(), carried(*carrier)]);
    }
    table
}
