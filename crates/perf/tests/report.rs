//! What is drawn and written of results: every figure is there, nothing is loaded, and no text is taken for markup.

mod support;

use std::collections::BTreeSet;

use proptest::prelude::*;
use roxmltree::{Document as Xml, Node, ParsingOptions};
use serde_json::json;
use support::Builder;
use weft_perf::report::chart::{Chart, charts};
use weft_perf::report::page::{Beside, Entry, Finding, page};
use weft_perf::report::{Claim, csv, is_bound};
use weft_perf::result::{Better, Document, Histogram, Late, Launch, Row, Series};

/// A name that is markup, an attribute's end and an entity at once, and mathematics for the library that draws.
const HOSTILE: &str = "<b>&\"' $x^2$ ]]> &amp;";

const SVG: &str = "http://www.w3.org/2000/svg";

fn xml(text: &str) -> Xml<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Xml::parse_with_options(text, options).unwrap_or_else(|error| panic!("{error}: {}", &text[..text.len().min(300)]))
}

fn text(node: Node) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect()
}

fn texts<'a>(xml: &'a Xml, name: &str) -> Vec<Node<'a, 'a>> {
    xml.descendants().filter(|node| node.has_tag_name((SVG, name))).collect()
}

fn whole_page(documents: &[Document]) -> String {
    let entry = |document: &Document| Entry {
        file: format!("{} 1.json", document.test),
        finding: (document.test == "latency")
            .then(|| Finding { text: "The tail is long.".into(), source: "A, B, 1999".into() }),
        ..Entry::default()
    };
    page(documents, &Beside { entries: documents.iter().map(entry).collect(), ..Beside::default() })
}

/// A document that has a hostile name wherever it can have a name.
fn hostile() -> Document {
    let mut builder = Builder::new(HOSTILE, HOSTILE);
    for (contestant, value) in [(HOSTILE, 3.0), ("iwarp", 4.0)] {
        for case in [HOSTILE, "plain"] {
            builder.row(contestant, &[(HOSTILE, json!(case))], (HOSTILE, "us", Better::Less), value).is_main = true;
        }
        builder.seen(contestant, &[], ("seen", HOSTILE, Better::Less), value).is_main = true;
    }
    let change = |document: &mut Document| {
        document.notes.push(HOSTILE.into());
        document.command.push(HOSTILE.into());
        document.settings = json!({ HOSTILE: HOSTILE });
        document.machine.cpu = Some(HOSTILE.into());
        document.peers.insert(HOSTILE.into(), HOSTILE.into());
        document.place = format!("a\u{0}b{HOSTILE}");
    };
    builder.missing(HOSTILE, HOSTILE).change(change).build(&["iwarp"])
}

#[test]
fn each_figure_of_each_row_is_in_a_table() {
    for document in support::all() {
        let page = whole_page(std::slice::from_ref(&document));
        let page = xml(&page);
        let lines: Vec<Vec<String>> = page
            .descendants()
            .filter(|node| node.has_tag_name("tr"))
            .map(|line| line.children().filter(Node::is_element).map(text).collect())
            .collect();
        for row in &document.rows {
            // After the case, whose keys not every row has.
            let after = |cells: &Vec<String>| cells.iter().position(|cell| *cell == row.contestant).map(|at| at + 1);
            let found = lines.iter().filter_map(|cells| cells.get(after(cells)?..)).any(|cells| {
                cells.len() >= 5
                    && is_value(&cells[0], row, row.median)
                    && is_interval(&cells[1], row)
                    && is_value(&cells[2], row, row.p99)
                    && is_value(&cells[3], row, row.worst)
                    && cells[4] == row.launches.len().to_string()
            });
            assert!(found, "{}: {} {:?} {:?}", document.test, row.contestant, row.case, row.median);
        }
    }
}

/// Whether a cell shows the interval of a row with its coverage.
fn is_interval(cell: &str, row: &Row) -> bool {
    let Some(interval) = row.interval else { return cell == "-" };
    cell.contains(" to ") && cell.ends_with(&format!("({:.1} %)", 100.0 * interval.coverage))
}

/// Whether a cell shows a value of a row, with three digits.
fn is_value(cell: &str, row: &Row, value: Option<f64>) -> bool {
    let Some(value) = value else { return cell == "-" };
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let Ok(number) = number.parse::<f64>() else { return false };
    let ns =
        [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("MB/s", 1e6), ("GB/s", 1e9), ("k/s", 1e3), ("M/s", 1e6)];
    let length = |unit: &str| ns.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, length)| *length);
    let shown = number * length(unit) / length(&row.unit);
    (shown - value).abs() <= 0.006 * value.abs()
}

#[test]
fn each_chance_is_shown_beside_its_ratio() {
    let document = support::latency();
    let page = whole_page(std::slice::from_ref(&document));
    let page = xml(&page);
    let cells: Vec<String> = page.descendants().filter(|node| node.has_tag_name("td")).map(text).collect();
    for comparison in &document.comparisons {
        let shown = format!("p {:.4})", comparison.p);
        let rough = format!("p {:.2})", comparison.p);
        assert!(cells.iter().any(|cell| cell.ends_with(&shown) || cell.ends_with(&rough)), "{comparison:?}");
    }
    assert!(
        cells.iter().any(|cell| cell.contains("behind, p ")) && cells.iter().any(|cell| cell.contains("ahead, p "))
    );
}

#[test]
fn losses_come_first_and_the_greatest_of_them_on_top() {
    let page = whole_page(&support::all());
    let page = xml(&page);
    let captions: Vec<String> = page.descendants().filter(|node| node.has_tag_name("caption")).map(text).collect();
    assert_eq!(captions[..3], ["Weft is behind", "Weft is ahead", "Not told apart"]);
    let factors = |class: &str| -> Vec<f64> {
        let cells = page.descendants().filter(|node| node.attribute("class") == Some(class)).map(text);
        let verdicts = cells.filter(|cell| !cell.contains("p "));
        verdicts.map(|cell| cell.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    };
    for factors in [factors("number behind"), factors("number ahead")] {
        assert!(factors.len() > 10);
        assert!(factors.is_sorted_by(|one, other| one >= other), "{factors:?}");
        assert!(factors.iter().all(|factor| *factor >= 1.0), "{factors:?}");
    }
}

#[test]
fn a_comparison_counts_in_either_order_and_a_bound_never() {
    let document = |ours: &str| {
        let mut builder = Builder::new("latency", "?");
        for (name, value) in [("iwarp", 9.0), ("sockets", 3.0), ("bound:wire", 1.0)] {
            builder.row(name, &[], ("time", "us", Better::Less), value).is_main = true;
        }
        builder.build(&[ours])
    };
    for document in [document("iwarp"), document("sockets")] {
        let page = whole_page(&[document]);
        assert!(page.contains("Of 1 comparisons with peers Weft is behind in 1, ahead in 0"), "{page}");
        assert!(!text(xml(&page).root_element()).contains("iwarp beside bound"));
    }
}

#[test]
fn a_page_says_where_its_figures_come_from() {
    let documents = [support::latency(), support::bandwidth()];
    let page = whole_page(&documents);
    let all = text(xml(&page).root_element());
    for part in [
        "How long is half a round trip?",
        "What the literature found: The tail is long. (A, B, 1999)",
        "weft perf latency --vs sockets,libfabric:tcp",
        "Invented Processor 2.0 GHz",
        "governor performance",
        "0.31, 0.40, 0.50",
        "not installed: pip install libucx-cu12, then --ucx FOLDER",
        "The machine was busy: the host of the virtual machine kept 8.3 % of the processors' time.",
        "The measurement was ended before all launches were made.",
        "\"window\": 64",
        "Invented figures: they were never measured.",
    ] {
        assert!(all.contains(part), "{part}");
    }
    let quiet = whole_page(&documents[..1]);
    assert!(!quiet.contains("The machine was busy"));
    assert!(page.contains("href=\"./latency%201.json\""));
}

#[test]
fn figures_of_a_late_link_are_marked() {
    let late = |p99_ns| Some(Late { delay_ns: 1_000_000, p99_ns, ..Late::default() });
    let mut document = support::latency();
    document.rows[0].launches[0].lateness = late(100_000);
    assert!(!whole_page(std::slice::from_ref(&document)).contains(", late in "));
    document.rows[0].launches[1].lateness = late(250_000);
    let page = whole_page(std::slice::from_ref(&document));
    let words = format!(">{}, late in 1<", document.rows[0].launches.len());
    assert!(page.contains(&words) && page.contains("the worst 250 us, for 1000 us"), "{page}");
}

#[test]
fn nothing_is_loaded_and_every_link_leads_somewhere() {
    let page = whole_page(&[support::all(), vec![hostile()]].concat());
    let tree = xml(&page);
    let ids: Vec<&str> = tree.descendants().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id is there twice");
    for node in tree.descendants().filter(Node::is_element) {
        assert!(!["script", "link", "img", "iframe", "object", "image", "use"].contains(&node.tag_name().name()));
        for attribute in node.attributes() {
            assert!(!attribute.value().contains("//"), "{attribute:?}");
            assert!(!["src", "srcset", "action", "poster"].contains(&attribute.name()), "{attribute:?}");
            assert!(!attribute.name().starts_with("on"), "{attribute:?}");
        }
        if let Some(target) = node.attribute("href") {
            let is_here = target.strip_prefix('#').is_some_and(|id| ids.contains(&id));
            assert!(is_here || target.starts_with("./"), "{target}");
        }
    }
    let styles: String = tree.descendants().filter(|node| node.has_tag_name("style")).map(text).collect();
    assert!(!styles.contains("url(") && !styles.contains("@import"));
    assert!(styles.contains("prefers-color-scheme:dark"));
}

#[test]
fn a_keyboard_is_enough() {
    let page = whole_page(&support::all());
    let tree = xml(&page);
    let body = tree.descendants().find(|node| node.has_tag_name("body")).unwrap();
    let first = body.children().find(Node::is_element).unwrap();
    assert_eq!((first.attribute("class"), first.attribute("href")), (Some("skip"), Some("#main")));
    let mut level = 0;
    for node in tree.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        if let Some(heading) = name.strip_prefix('h').and_then(|digit| digit.parse::<u32>().ok()) {
            assert!(heading <= level + 1, "{name} after h{level}: {}", text(node));
            level = heading;
        }
        let first = || node.children().find(Node::is_element).map(|child| child.tag_name().name().to_owned());
        match name {
            "table" => assert_eq!(first().as_deref(), Some("caption")),
            "details" => assert_eq!(first().as_deref(), Some("summary")),
            "th" => assert!(node.attribute("scope").is_some()),
            "svg" => assert!(node.attribute("aria-label").is_some_and(|label| !label.is_empty())),
            _ => {}
        }
        if node.attribute("class") == Some("scroll") {
            assert_eq!((node.attribute("tabindex"), node.attribute("role")), (Some("0"), Some("region")));
        }
    }
    assert_eq!(level, 3);
}

#[test]
fn names_are_never_markup() {
    let document = hostile();
    let page = whole_page(std::slice::from_ref(&document));
    let tree = xml(&page);
    assert!(tree.descendants().all(|node| !node.has_tag_name("b")));
    let cells: Vec<String> = tree.descendants().filter(Node::is_element).map(text).collect();
    assert!(cells.iter().filter(|cell| *cell == HOSTILE).count() > 6, "a name is not what it was");
    for chart in charts(&document) {
        let svg = chart.svg();
        let tree = xml(&svg);
        assert!(texts(&tree, "b").is_empty());
        assert!(texts(&tree, "text").into_iter().map(text).any(|label| label == HOSTILE), "{}", chart.title);
        assert!(chart.name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-'), "{}", chart.name);
    }
}

/// The contestants' colours that a chart uses.
fn colors(tree: &Xml) -> BTreeSet<String> {
    let attributes = tree.descendants().flat_map(|node| node.attributes());
    attributes
        .map(|attribute| attribute.value())
        .filter(|value| value.starts_with("var(--c"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_chart_has_six_lines_at_most_and_says_what_it_leaves_out() {
    let document = support::bandwidth();
    let [chart] = &charts(&document)[..] else { panic!("one chart") };
    let svg = chart.svg();
    let tree = xml(&svg);
    let labels: Vec<String> = texts(&tree, "text").into_iter().map(text).collect();
    assert_eq!(colors(&tree).len(), 4, "and two bounds");
    let (drawn, left): (Vec<&str>, Vec<&str>) = document
        .contestants()
        .into_iter()
        .filter(|name| !is_bound(name))
        .partition(|name| labels.iter().any(|label| label == name));
    assert_eq!(drawn, ["iwarp", "iwarp:crc=off", "sockets", "sockets:batched"], "peers have their places");
    assert_eq!(chart.notes.last().unwrap(), &format!("In the table only: {}.", left.join(", ")));
    // Throughput, and the processor time of both sides beneath it: a band and a line in each.
    let bands = texts(&tree, "path").into_iter().filter(|path| path.attribute("fill-opacity") == Some("0.22"));
    assert_eq!(bands.filter(|band| colors_of(*band)).count(), 12);
    assert!(labels.iter().any(|label| label == "sender CPU (s/GB), less is better"));
    assert!(
        labels.iter().any(|label| label.starts_with("bound: memory copy ") && label.ends_with(" GB/s")),
        "{labels:?}"
    );
    let across = texts(&tree, "line").into_iter().filter(|line| line.attribute("stroke") == Some("var(--bound)"));
    assert!(
        across
            .filter(|line| line.attribute("stroke-dasharray").is_some())
            .any(|line| line.attribute("y1") == line.attribute("y2"))
    );
    for size in ["4 B", "4 KiB", "1 MiB"] {
        assert!(labels.iter().any(|label| label == size), "{labels:?}");
    }
}

#[test]
fn a_bound_far_above_is_told_and_not_drawn() {
    for (bound, is_drawn) in [(8.0, true), (80.0, false)] {
        let mut builder = Builder::new("bandwidth", "?");
        for size in [64, 4096, 65_536] {
            let case = [("size_bytes", json!(size))];
            builder.row("iwarp", &case, ("throughput", "GB/s", Better::More), 6.0).is_main = true;
            builder.row("bound:memory copy", &case, ("throughput", "GB/s", Better::More), bound).is_main = true;
        }
        let svg = charts(&builder.build(&["iwarp"]))[0].svg();
        let tree = xml(&svg);
        // One sample is in the legend.
        let lines = tree.descendants().filter(|node| node.attribute("stroke") == Some("var(--bound)")).count();
        assert_eq!(lines > 1, is_drawn, "{svg}");
        let is_told = texts(&tree, "text").into_iter().map(text).any(|label| label.ends_with("GB/s, above"));
        assert_eq!(is_told, !is_drawn);
    }
}

fn colors_of(node: Node) -> bool {
    node.attribute("fill").is_some_and(|fill| fill.starts_with("var(--c"))
}

#[test]
fn a_larger_value_is_higher_and_a_later_size_further_right() {
    let mut builder = Builder::new("latency", "?");
    for (name, factor) in [("iwarp", 1.0), ("sockets", 2.0)] {
        for size in [64, 512, 4096, 32_768] {
            let case = [("size_bytes", json!(size))];
            builder.row(name, &case, ("time", "us", Better::Less), factor * f64::from(size)).is_main = true;
        }
    }
    let [chart] = &charts(&builder.build(&["iwarp"]))[..] else { panic!("one chart") };
    let svg = chart.svg();
    let tree = xml(&svg);
    let line = |color: &str| -> Vec<(f64, f64)> {
        let paths = texts(&tree, "path").into_iter().filter(|path| path.attribute("stroke") == Some(color));
        let longest = paths.max_by_key(|path| path.attribute("d").unwrap().len()).unwrap();
        let numbers: Vec<f64> =
            longest.attribute("d").unwrap().split([' ', 'M', 'L']).filter_map(|part| part.parse().ok()).collect();
        numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect()
    };
    let (weft, peer) = (line("var(--c0)"), line("var(--c1)"));
    assert_eq!((weft.len(), peer.len()), (4, 4));
    for (one, other) in weft.iter().zip(&peer) {
        assert!(other.1 < one.1 && one.0 == other.0, "{weft:?} {peer:?}");
    }
    let steps: Vec<f64> = weft.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(steps.iter().all(|step| (step - steps[0]).abs() < 0.1 && *step > 0.0), "sizes are logarithmic: {steps:?}");
}

#[test]
fn cuts_are_marked_and_distributions_drawn() {
    let all = charts(&support::cuts());
    let find = |part: &str| all.iter().find(|chart| chart.title.contains(part)).unwrap();
    let labels = |chart: &Chart| -> Vec<String> { texts(&xml(&chart.svg()), "text").into_iter().map(text).collect() };
    let series = labels(find("over time"));
    assert_eq!(series.iter().filter(|label| *label == "cut").count(), 3, "{series:?}");
    assert_eq!(series.iter().filter(|label| *label == "mended").count(), 3);
    let shares = labels(find("longest pause, distribution"));
    for label in ["share at or below", "share above", "0.1 %", "100 ms", "longest pause (ms to s), less is better"] {
        assert!(shares.iter().any(|other| other == label), "{label}: {shares:?}");
    }
    let svg = find("longest pause, distribution").svg();
    let notes: Vec<String> = texts(&xml(&svg), "title").into_iter().map(text).collect();
    assert!(notes.iter().any(|note| note.starts_with("edge: 99.0 % within 1")), "{notes:?}");
}

#[test]
fn bars_show_their_values_and_intervals() {
    let document = support::overlap();
    let [chart] = &charts(&document)[..] else { panic!("one chart") };
    let svg = chart.svg();
    let labels: Vec<String> = texts(&xml(&svg), "text").into_iter().map(text).collect();
    for panel in ["target silent", "target computing", "target polling", "hidden (%), more is better"] {
        assert!(labels.iter().any(|label| label == panel), "{labels:?}");
    }
    assert_eq!(
        labels.iter().filter(|label| label.contains(" % (") && label.contains(" to ")).count(),
        12,
        "{labels:?}"
    );
}

/// Where a text is: left, right, top, bottom, with the widths that letters have in most fonts.
fn area(node: Node) -> [f64; 4] {
    let number = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
    let moved = node
        .ancestors()
        .filter_map(|group| group.attribute("transform"))
        .filter(|value| value.starts_with("translate"));
    let (mut x, mut y) = (number("x"), number("y"));
    for value in moved {
        let (dx, dy) = value.trim_start_matches("translate(").trim_end_matches(')').split_once(',').unwrap();
        (x, y) = (x + dx.parse::<f64>().unwrap(), y + dy.parse::<f64>().unwrap());
    }
    let size = number("font-size");
    let width = 0.55 * size * text(node).chars().count() as f64;
    let left = match node.attribute("text-anchor") {
        Some("middle") => x - width / 2.0,
        Some("end") => x - width,
        _ => x,
    };
    [left, left + width, y - 0.7 * size, y + 0.1 * size]
}

#[test]
fn no_label_lies_on_another_or_leaves_its_chart() {
    for chart in support::all().iter().flat_map(charts) {
        let svg = chart.svg();
        let tree = xml(&svg);
        let view: Vec<f64> =
            tree.root_element().attribute("viewBox").unwrap().split(' ').map(|part| part.parse().unwrap()).collect();
        let labels: Vec<(String, [f64; 4])> = texts(&tree, "text")
            .into_iter()
            .map(|node| (text(node), area(node)))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        for (at, (label, [left, right, top, bottom])) in labels.iter().enumerate() {
            let is_inside = *left >= 0.0 && *right <= view[2] && *top >= 0.0 && *bottom <= view[3];
            assert!(is_inside, "{}: {label:?} at {left}..{right}, {top}..{bottom}", chart.title);
            for (other, [from, to, above, below]) in &labels[at + 1..] {
                let is_apart = right <= from || to <= left || bottom <= above || below <= top;
                assert!(is_apart, "{}: {label:?} lies on {other:?}", chart.title);
            }
        }
    }
}

#[test]
fn a_chart_brings_its_colours_and_is_always_the_same() {
    for document in support::all() {
        let (one, two) = (charts(&document), charts(&document));
        assert_eq!(one, two);
        let names: BTreeSet<&str> = one.iter().map(|chart| chart.name.as_str()).collect();
        assert_eq!(names.len(), one.len(), "two charts have the same name");
        for chart in &one {
            assert!(chart.svg().contains("prefers-color-scheme:dark") && !chart.inline().contains("<style>"));
            // A colour that is written out would be the same in light and dark.
            assert!(!chart.inline().contains("=\"#"), "{}", chart.title);
            assert!(!chart.inline().contains(" id="), "ids would be there twice on a page");
        }
    }
}

#[test]
fn values_between_commas_are_all_launches() {
    let documents = [support::links(), hostile()];
    let table = read(&csv::csv(&documents));
    let head = &table[0];
    let column = |name: &str| head.iter().position(|other| other == name).unwrap();
    assert_eq!(head.last().unwrap(), "worst");
    let rows = || documents.iter().flat_map(|document| document.rows.iter().map(move |row| (document, row)));
    assert_eq!(table.len() - 1, rows().map(|(_, row)| row.launches.len()).sum::<usize>());
    let launches = rows().flat_map(|(document, row)| row.launches.iter().map(move |launch| (document, row, launch)));
    for (cells, (document, row, launch)) in table[1..].iter().zip(launches) {
        assert_eq!((cells[0].as_str(), cells[1].as_str()), (document.test.as_str(), row.contestant.as_str()));
        assert_eq!(cells[column("metric")], row.metric);
        assert_eq!(cells[column("launch")], launch.launch.to_string());
        assert_eq!(cells[column("value")].parse::<f64>().unwrap(), launch.value);
        let p99 = &cells[column("p99")];
        assert_eq!((!p99.is_empty()).then(|| p99.parse::<f64>().unwrap()), launch.p99);
        let links = row.case.get("links").map_or_else(String::new, ToString::to_string);
        assert_eq!(cells[column("links")], links);
    }
}

/// RFC 4180.
fn read(text: &str) -> Vec<Vec<String>> {
    let (mut lines, mut line, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => line.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted && letters.peek() == Some(&'\n') => {
                letters.next();
                line.push(std::mem::take(&mut cell));
                lines.push(std::mem::take(&mut line));
            }
            _ => cell.push(letter),
        }
    }
    assert!(line.is_empty() && cell.is_empty(), "the last line has its end");
    lines
}

#[test]
fn claims_are_told_those_first_that_fail() {
    let claim = |name: &str, measured: Option<f64>| Claim {
        text: format!("{name} {HOSTILE}"),
        figure: HOSTILE.into(),
        command: HOSTILE.into(),
        minutes: 3.5,
        expected: 1.2,
        tolerance: 0.1,
        unit: HOSTILE.into(),
        better: Better::Less,
        stated_in: "README.md, 8 bytes: 2 us".into(),
        measured,
    };
    let claims = vec![claim("it holds", Some(1.1)), claim("it fails", None)];
    let page = page(&[], &Beside { claims, ..Beside::default() });
    let all = text(xml(&page).root());
    assert!(all.contains("1 of 2 claims hold") && all.contains("not measured") && all.contains(HOSTILE));
    assert!(all.find("it fails").unwrap() < all.find("it holds").unwrap());
}

#[test]
fn documents_without_figures_have_a_page_too() {
    let empty = Builder::new("idle", "What does nothing cost?").build(&[]);
    let mut rows = Builder::new("idle", "?");
    rows.row("iwarp", &[("links", json!(1))], ("time", "us", Better::Less), 3.0).launches.clear();
    let row = rows.row("iwarp", &[("links", json!(2))], ("time", "us", Better::Less), 3.0);
    *row = Row::new("iwarp", row.case.clone(), ("time", "us", Better::Less), Vec::new());
    for documents in [Vec::new(), vec![empty], vec![rows.build(&["iwarp"])]] {
        let page = whole_page(&documents);
        xml(&page);
        assert!(page.contains("Where Weft loses"));
        assert!(csv::csv(&documents).starts_with("test,contestant"));
    }
}

/// A number as measurements may have it, with those that charts have trouble with.
fn figure() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(1e-300),
        Just(1e300),
        Just(-3.0),
        1e-3..1e6_f64,
        (0_i32..12).prop_map(|digits| 10_f64.powi(digits))
    ]
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(figure(), 0..4)
}

fn case_number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..9_u64, (0..40_u32).prop_map(|bits| 1 << bits), Just(u64::MAX)]
}

#[test]
fn a_figure_of_hundreds_of_digits_has_a_chart() {
    let mut builder = Builder::new("any", "?");
    let row = builder.row("iwarp", &[], ("figure", "", Better::Less), 1.0);
    let launches = vec![Launch::of(0, 1e-300), Launch::of(1, 1e300)];
    *row = Row::new("iwarp", row.case.clone(), ("figure", "", Better::Less), launches);
    let svg = charts(&builder.build(&["iwarp"]))[0].svg();
    assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("x1=\"-"), "{svg}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_figures_make_charts_and_a_page(
        rows in prop::collection::vec((0..9_usize, case_number(), 0..3_usize, values()), 0..24),
        better in prop_oneof![Just(Better::Less), Just(Better::More), Just(Better::Neither)],
        unit in prop_oneof![Just("us"), Just("GB/s"), Just("%"), Just("")],
        has_more in any::<bool>(),
    ) {
        let mut builder = Builder::new("any", "?");
        for (name, size, word, values) in &rows {
            let names = ["iwarp", "edge", "a", "b", "c", "d", "e", "bound:x", HOSTILE];
            let case = [("size_bytes", json!(size)), ("word", json!(["one", "two", "three"][*word]))];
            let row = builder.row(names[*name], &case, ("figure", unit, better), 1.0);
            let marks = vec![(1.0, "cut".to_owned())];
            let launches = values.iter().zip(0..).map(|(value, launch)| Launch {
                p99: has_more.then_some(*value),
                histogram: has_more.then(|| Histogram::of(values)),
                series: has_more.then(|| Series { step_ms: 1.0, values: values.clone(), marks: marks.clone() }),
                ..Launch::of(launch, *value)
            });
            *row = Row::new(names[*name], row.case.clone(), ("figure", unit, better), launches.collect());
        }
        let document = builder.build(&["iwarp", "edge"]);
        xml(&whole_page(std::slice::from_ref(&document)));
        for chart in charts(&document) {
            let svg = chart.svg();
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            let tree = xml(&svg);
            let view = tree.root_element().attribute("viewBox").unwrap();
            let most: Vec<f64> = view.split(' ').map(|part| part.parse().unwrap()).collect();
            for attribute in tree.descendants().flat_map(|node| node.attributes()) {
                let is_place = ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy"].contains(&attribute.name());
                let place = attribute.value().parse::<f64>().unwrap_or(0.0);
                prop_assert!(!is_place || (-9.0..most[2].max(most[3])).contains(&place), "{:?} in {}", attribute, svg);
            }
            prop_assert!(svg.len() < 400_000, "{} has {} bytes", chart.title, svg.len());
        }
    }
}
