//! Colours, dashes and marks.

use kuva::prelude::MarkerShape;

/// The colours of all charts, light and dark. Charts use nothing but these variables.
///
/// `--c0` to `--c5` are those of contestants. Each has a contrast of at least 3.7 with its background (WCAG 2.1 demands
/// 3 of graphics). Any two differ by at least 31 (CIE 1976, of 100 between black and white), also with each of the
/// three kinds of colour blindness as Machado, Oliveira and Fernandes (2009) simulate them.
pub const STYLE: &str = "svg.chart{--paper:#fff;--ink:#1b1b1b;--axis:#555;--grid:#e2e2e2;--bound:#666;--mark:#8a2020;\
--c0:#1542ec;--c1:#d16716;--c2:#093d37;--c3:#a12da8;--c4:#513d03;--c5:#898487;\
background:var(--paper);fill:var(--ink);font-family:system-ui,\"DejaVu Sans\",Verdana,sans-serif}\
@media(prefers-color-scheme:dark){svg.chart{--paper:#16181b;--ink:#e8e8e8;--axis:#a0a0a0;--grid:#33373c;\
--bound:#a8a8a8;--mark:#ff9c9c;--c0:#417ea2;--c1:#c94726;--c2:#58ec94;--c3:#b905f3;--c4:#fbb51a;--c5:#e6ecfd}}";

pub(super) const INK: &str = "var(--ink)";
pub(super) const PAPER: &str = "var(--paper)";
pub(super) const AXIS: &str = "var(--axis)";
pub(super) const GRID: &str = "var(--grid)";
pub(super) const BOUND: &str = "var(--bound)";
pub(super) const MARK: &str = "var(--mark)";

/// How lines of bounds are broken, one after the other.
pub(super) const BOUND_DASHES: [&str; 4] = ["9 5", "3 4", "12 4 2 4", "5 2"];

/// How one contestant is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Style {
    pub(super) color: &'static str,
    /// The lengths of dashes and gaps; `None` for a whole line.
    pub(super) dash: Option<&'static str>,
    /// The mark of each point.
    pub(super) mark: Option<MarkerShape>,
    pub(super) width: f64,
}

const STYLES: [(&str, Option<&str>, MarkerShape); super::super::contestant::MOST_DRAWN] = [
    ("var(--c0)", None, MarkerShape::Circle),
    ("var(--c1)", Some("8 4"), MarkerShape::Square),
    ("var(--c2)", Some("3 3"), MarkerShape::Triangle),
    ("var(--c3)", Some("10 3 2 3"), MarkerShape::Diamond),
    ("var(--c4)", Some("14 4"), MarkerShape::TriangleDown),
    ("var(--c5)", Some("5 2 1 2 1 2"), MarkerShape::Star),
];

/// Contestants that often meet have the same style in all documents.
const USUAL: [(&str, usize); 6] = [("iwarp", 0), ("edge", 2), ("shm", 4), ("sockets", 1), ("libfabric", 3), ("ucx", 5)];

impl Style {
    /// The same contestant without what its other line shows.
    pub(super) fn thin(&self) -> Self {
        Self { dash: Some("2 3"), width: 1.25, ..self.clone() }
    }
}

/// The style of each contestant that is drawn.
#[derive(Clone, Debug)]
pub(super) struct Styles(Vec<(String, usize)>);

impl Styles {
    /// Gives each of these the style that it usually has, or else one that is free.
    pub(super) fn of(names: &[&str]) -> Self {
        let mut taken: Vec<(String, usize)> = Vec::new();
        for (start, style) in USUAL {
            let found =
                names.iter().find(|name| name.starts_with(start) && !taken.iter().any(|(other, _)| other == *name));
            taken.extend(found.map(|name| ((*name).to_owned(), style)));
        }
        for name in names {
            if taken.iter().all(|(other, _)| other != name) {
                let free = (0..STYLES.len()).find(|style| taken.iter().all(|(_, other)| other != style));
                taken.extend(free.map(|style| ((*name).to_owned(), style)));
            }
        }
        let order = |name: &str| names.iter().position(|other| *other == name);
        taken.sort_by_key(|(name, _)| order(name));
        Self(taken)
    }

    /// All, in the order of the document.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, Style)> {
        self.0.iter().map(|(name, at)| {
            let (color, dash, mark) = STYLES[*at];
            (name.as_str(), Style { color, dash, mark: Some(mark), width: 2.0 })
        })
    }
}

/// How the bound of this number is drawn.
pub(super) fn bound(at: usize) -> Style {
    Style { color: BOUND, dash: Some(BOUND_DASHES[at % BOUND_DASHES.len()]), mark: None, width: 1.75 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contestant_keeps_its_style_and_none_is_given_twice() {
        let style = |names: &[&str], name: &str| {
            Styles::of(names).all().find(|(other, _)| *other == name).map(|(_, style)| style.color)
        };
        assert_eq!(style(&["iwarp", "sockets"], "sockets"), style(&["edge", "shm", "sockets"], "sockets"));
        let names = ["iwarp:crc=on", "iwarp", "iwarp:crc=off", "sockets", "sockets:batched", "mptcp"];
        let styles = Styles::of(&names);
        let mut colors: Vec<_> = styles.all().map(|(_, style)| style.color).collect();
        assert_eq!(styles.all().map(|(name, _)| name).collect::<Vec<_>>(), names);
        colors.sort_unstable();
        colors.dedup();
        assert_eq!(colors.len(), names.len());
    }
}
