//! Numbers of a document that may be measured figures: those with a unit of performance.
//!
//! A document states two kinds of numbers. Figures were measured and may be different tomorrow. Settings, limits, and
//! what a standard or a paper says change with a decision. The rule that tells them apart:
//!
//! - a number with one of [`MEASURED`]'s units is a figure, wherever it is;
//! - a number with one of [`SHARED`]'s units is a figure, but in a section that has a line
//!   `<!-- no figures: WHAT ITS NUMBERS ARE -->` below its heading. The line holds until the next heading of the same
//!   or a higher level; below the title it holds for the document;
//! - code, in blocks and in lines, has no figures: commands, and what they printed.

/// Units of what is only ever measured.
const MEASURED: [&str; 5] = ["GB/s", "MB/s", "M/s", "s/GB", "instructions"];

/// Units that settings and limits have too. `times` is of ratios.
const SHARED: [&str; 8] = ["us", "ms", "ns", "Gb/s", "Mb/s", "%", "cent", "times"];

/// Words that may be the end of a number.
const COUNTS: [&str; 3] = ["thousand", "million", "millions"];

/// What begins the line of a section without figures.
const MARK: &str = "<!-- no figures:";

/// A number that counts as a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// The line at which its paragraph, or its row of a table, begins.
    pub line: usize,
    /// That paragraph or row, in one line.
    pub paragraph: String,
    /// The number with its unit: `46.6 us`.
    pub text: String,
}

/// All figures of a document in Markdown, in their order.
///
/// # Errors
///
/// A section says that it has no figures, and not what its numbers are.
pub fn numbers(document: &str) -> Result<Vec<Number>, String> {
    let mut found = Vec::new();
    let mut paragraph = Paragraph::default();
    // The level of the heading above, and of that whose section has no figures.
    let (mut level, mut without) = (0, None);
    let mut is_code = false;
    for (line, text) in (1..).zip(document.lines()) {
        let trimmed = text.trim();
        if trimmed.starts_with("```") {
            is_code = !is_code;
            found.extend(paragraph.end(without.is_some()));
            continue;
        }
        let heading = if is_code { 0 } else { text.bytes().take_while(|byte| *byte == b'#').count() };
        let is_item = trimmed.starts_with("- ") || trimmed.starts_with("* ");
        if trimmed.is_empty() || trimmed.starts_with('|') || trimmed.starts_with("<!--") || is_item || heading > 0 {
            found.extend(paragraph.end(without.is_some()));
        }
        if heading > 0 {
            level = heading;
            without = without.filter(|above| heading > *above);
        }
        match trimmed.strip_prefix(MARK) {
            Some(reason) if reason.trim_end_matches("-->").trim().is_empty() => {
                return Err(format!("line {line}: say what the numbers of this section are: {MARK} limits -->"));
            }
            Some(_) => without = without.or(Some(level)),
            None if !is_code => paragraph.add(line, trimmed),
            None => {}
        }
    }
    found.extend(paragraph.end(without.is_some()));
    Ok(found)
}

/// Lines that belong together.
#[derive(Default)]
struct Paragraph {
    line: usize,
    text: String,
}

impl Paragraph {
    fn add(&mut self, line: usize, text: &str) {
        if self.text.is_empty() {
            self.line = line;
        } else {
            self.text.push(' ');
        }
        self.text.push_str(text);
    }

    /// Its figures; it is empty then.
    fn end(&mut self, has_settings: bool) -> Vec<Number> {
        let Self { line, text } = std::mem::take(self);
        let prose = without_code(&text);
        let words: Vec<&str> = prose.split_whitespace().collect();
        let pairs = words.windows(2).filter_map(|pair| figure(pair[0], pair[1], has_settings));
        let alone = words.iter().filter_map(|word| figure(word.strip_suffix('%')?, "%", has_settings));
        let number = |found| Number { line, paragraph: text.clone(), text: found };
        pairs.chain(alone).map(number).collect()
    }
}

/// `46.6` and `us,` are `46.6 us`; nothing if they are no figure.
fn figure(number: &str, unit: &str, has_settings: bool) -> Option<String> {
    let is_word = COUNTS.contains(&number);
    let number = if is_word { number } else { number.trim_start_matches(|letter: char| !letter.is_ascii_digit()) };
    let is_number = is_word || number.ends_with(|last: char| last.is_ascii_digit());
    let unit = unit.trim_end_matches(|letter: char| !letter.is_alphanumeric() && letter != '%');
    let unit = if unit == "per" { "cent" } else { unit };
    let counts = MEASURED.contains(&unit) || (!has_settings && SHARED.contains(&unit));
    (is_number && counts).then(|| format!("{number} {unit}"))
}

/// A line without what stands in it as code.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(document: &str) -> Vec<String> {
        numbers(document).unwrap().into_iter().map(|number| number.text).collect()
    }

    #[test]
    fn numbers_with_units_of_performance_are_figures() {
        let document =
            "# A\n\nIt takes 46.6 us (p99 0.1 ms), at 3 GB/s,\n92 % hidden; 17% of a core. RFC 5044, 64 KiB.\n";
        assert_eq!(texts(document), ["46.6 us", "0.1 ms", "3 GB/s", "92 %", "17 %"]);
        let words = texts("10 times as long, 4180 instructions, 2.9 million instructions, 5 per cent");
        assert_eq!(words, ["10 times", "4180 instructions", "million instructions", "5 cent"]);
    }

    #[test]
    fn code_has_none() {
        assert_eq!(texts("`--delay 10 ms` and\n\n```sh\nsleep 5 ms\n# 3 GB/s\n```\n\n2 us"), ["2 us"]);
        assert_eq!(texts("1 us\n```\n5 ms\n```\n2 us"), ["1 us", "2 us"], "what stands right beside a block counts");
    }

    #[test]
    fn a_section_may_have_settings_but_no_measured_units() {
        let document = "# A\n1 us\n## B\n<!-- no figures: limits -->\n2 us\n### C\n3 us, 4 GB/s\n## D\n5 us\n";
        assert_eq!(texts(document), ["1 us", "4 GB/s", "5 us"]);
        assert!(numbers("# A\n<!-- no figures: -->\n1 us").unwrap_err().contains("line 2"));
        assert_eq!(texts("# A\n\n<!-- no figures: the protocol -->\n\n## B\n2 us\n"), Vec::<String>::new());
    }

    #[test]
    fn rows_and_items_stand_for_themselves() {
        let found = numbers("| a | 1 us |\n| b | 2 us |\n\n- c\n  3 us\n- d 4 us\n").unwrap();
        let rows: Vec<_> = found.iter().map(|number| (number.line, number.paragraph.as_str())).collect();
        assert_eq!(rows, [(1, "| a | 1 us |"), (2, "| b | 2 us |"), (4, "- c 3 us"), (6, "- d 4 us")]);
    }
}
