//! The section of one document: its question, its charts, what was found, its figures, and where they come from.

use super::super::chart::{Chart, charts};
use super::super::markup::{details, element, escape, link, tag};
use super::{Entry, figures, origin, verdicts};
use crate::result::Document;

/// What others have found about the same question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What they found.
    pub text: String,
    /// Where it is written.
    pub source: String,
}

/// The section under this id.
pub(super) fn section(document: &Document, id: &str, title: &str, entry: &Entry) -> String {
    let charts: String = charts(document).iter().map(figure).collect();
    let notes: String = document.notes.iter().map(|note| tag("li", &escape(note))).collect();
    let parts = [
        element("h2", &format!("id=\"{id}-title\""), &escape(title)),
        origin::warnings(document),
        literature(entry.finding.as_ref()),
        element("p", "class=\"found\"", &format!("What we found: {}", escape(&verdicts::sentence(document)))),
        element("div", "class=\"charts\"", &charts),
        if notes.is_empty() { String::new() } else { tag("ul", &notes) },
        tag("h3", "Figures"),
        figures::tables(document),
        origin::missing(document),
        samples(document, &entry.file),
        origin::origin(document),
    ];
    element("section", &format!("id=\"{id}\" aria-labelledby=\"{id}-title\""), &parts.join("\n")) + "\n"
}

fn figure(chart: &Chart) -> String {
    tag("figure", &(chart.inline() + &tag("figcaption", &escape(&chart.notes.join(" "))))) + "\n"
}

fn literature(finding: Option<&Finding>) -> String {
    finding.map_or_else(String::new, |finding| {
        tag("p", &format!("What the literature found: {} ({})", escape(&finding.text), escape(&finding.source)))
    })
}

/// The value of each launch here, everything else in the file.
fn samples(document: &Document, file: &str) -> String {
    let all = match file {
        "" => String::new(),
        file => tag("p", &format!("All samples, as JSON: {}", link(&format!("./{}", address(file)), file))),
    };
    all + &details(false, "Samples: the figure of each launch", &origin::code(&figures::samples(document)))
}

/// The name of a file as a part of an address.
fn address(file: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    file.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
