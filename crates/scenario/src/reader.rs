//! Scenarios from a text, with the line of each mistake.

use core::ops::Range;
use core::time::Duration;
use std::collections::HashMap;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::conditions::Fault;
use crate::error::ScenarioError;
use crate::keys::{Files, exclude, names, order};
use crate::scenario::{Scenario, Step};
use crate::units::Time;

/// Bytes that the text may have.
pub const TEXT_BYTES: usize = 1 << 20;
/// Steps that it may have.
pub const STEPS: usize = 10_000;
/// When its last step may be.
pub const LONGEST_SCENARIO: Duration = Duration::from_secs(7 * 24 * 3600);

/// Tables of conditions, and which directions they are about.
const TABLES: [(&str, [bool; 2]); 3] = [("both", [true, true]), ("forward", [true, false]), ("reverse", [false, true])];
/// What is wrong with the first of these may be in the line of any of them.
const GILBERT: [&str; 4] = ["good-to-bad", "bad-to-good", "loss-in-good", "loss-in-bad"];
/// What happens by chance where nothing is said of it.
const USUAL_SEED: i64 = 1;

type Key<'a> = Spanned<DeString<'a>>;
type Value<'a> = Spanned<DeValue<'a>>;

impl Scenario {
    /// Reads a scenario. `files` reads what it names.
    ///
    /// # Errors
    /// What is wrong with it first, with its line.
    pub fn parse(text: &str, mut files: impl FnMut(&str) -> Result<String, String>) -> Result<Self, ScenarioError> {
        if text.len() > TEXT_BYTES {
            let line = 1 + text.bytes().take(TEXT_BYTES).filter(|byte| *byte == b'\n').count();
            let message = format!("a scenario has at most {TEXT_BYTES} bytes, and this line goes beyond them");
            return Err(ScenarioError { line, message });
        }
        Reader { text, files: &mut files, lines: HashMap::new() }.read()
    }
}

struct Reader<'a> {
    text: &'a str,
    files: Files<'a>,
    /// In which line a key of a direction was set last.
    lines: HashMap<(usize, String), usize>,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<Scenario, ScenarioError> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let words = error.message().replace('\n', "; ");
            self.wrong(error.span().unwrap_or_default(), words)
        })?;
        let table = table.into_inner();
        let mut first = Step { at: Duration::ZERO, conditions: Default::default() };
        let (mut seed, mut steps) = (USUAL_SEED, None);
        for (key, value) in in_order(&table) {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("seed", _) => seed = self.seed(value)?,
                ("step", DeValue::Array(array)) => steps = Some(array),
                ("step", _) => return Err(self.wrong(key.span(), "a step begins with [[step]]".to_owned())),
                (name, _) if directions(name).is_some() => self.conditions(&mut first, key, value)?,
                (name, _) => {
                    let words = format!(
                        "there is no {name:?} in a scenario; there are seed, [both], [forward], [reverse] and [[step]]"
                    );
                    return Err(self.wrong(key.span(), words));
                }
            }
        }
        self.check(&first, 0..0)?;
        let mut all = vec![first];
        for step in steps.into_iter().flatten() {
            let next = self.step(all.last().expect("there is a first step"), step)?;
            all.push(next);
            if all.len() > STEPS {
                return Err(self.wrong(step.span(), format!("a scenario has at most {STEPS} steps")));
            }
        }
        Ok(Scenario::from_steps(seed.unsigned_abs(), all))
    }

    fn seed(&self, value: &Value<'_>) -> Result<i64, ScenarioError> {
        let number = value.get_ref().as_integer().filter(|number| number.radix() == 10);
        let number = number.and_then(|number| number.as_str().parse::<i64>().ok()).filter(|number| *number >= 0);
        number.ok_or_else(|| self.wrong(value.span(), format!("a seed is a whole number from 0 to {}", i64::MAX)))
    }

    /// A step: what was before, and what it changes of it.
    fn step(&mut self, before: &Step, step: &Value<'_>) -> Result<Step, ScenarioError> {
        let DeValue::Table(table) = step.get_ref() else {
            return Err(self.wrong(step.span(), "a step begins with [[step]]".to_owned()));
        };
        let mut next = before.clone();
        let mut at = None;
        for (key, value) in in_order(table) {
            match key.get_ref().as_ref() {
                "at" => at = Some(self.time(value)?),
                name if directions(name).is_some() => self.conditions(&mut next, key, value)?,
                name => {
                    let words = format!("there is no {name:?} in a step; there are at, both, forward and reverse");
                    return Err(self.wrong(key.span(), words));
                }
            }
        }
        let Some((at, span)) = at else {
            let words = "this step has no time; write for instance at = \"10s\"";
            return Err(self.wrong(step.span(), words.to_owned()));
        };
        if at <= before.at {
            let words = format!(
                "at {at:?} is not after {:?}, the time of the step before; steps stand in order, and the first is \
                 after 0s",
                before.at
            );
            return Err(self.wrong(span, words));
        }
        if next.conditions == before.conditions {
            return Err(self.wrong(span, "this step changes nothing".to_owned()));
        }
        next.at = at;
        self.check(&next, span)?;
        Ok(next)
    }

    fn time(&self, value: &Value<'_>) -> Result<(Duration, Range<usize>), ScenarioError> {
        let span = value.span();
        let DeValue::String(text) = value.get_ref() else {
            let words = "at is a time in quotes, for instance \"10s\"";
            return Err(self.wrong(span, words.to_owned()));
        };
        let Time(at) = text.parse().map_err(|words| self.wrong(span.clone(), format!("at: {words}")))?;
        if at > LONGEST_SCENARIO {
            return Err(self.wrong(span, format!("a scenario lasts for {LONGEST_SCENARIO:?} at most")));
        }
        Ok((at, span))
    }

    /// The table of one direction, or of both.
    fn conditions(&mut self, step: &mut Step, name: &Key<'_>, value: &Value<'_>) -> Result<(), ScenarioError> {
        let (table_name, about) = (name.get_ref().as_ref(), directions(name.get_ref()).unwrap_or_default());
        let DeValue::Table(table) = value.get_ref() else {
            let words = format!("{table_name} is a table; write [{table_name}], or {table_name}.delay = \"4ms\"");
            return Err(self.wrong(name.span(), words));
        };
        for (key, value) in in_order(table) {
            let key_name = key.get_ref().as_ref();
            if let Some(other) = table.keys().find(|other| exclude(key_name, other.get_ref())) {
                let words = format!("{key_name} and {} in [{table_name}]: only one of them goes", other.get_ref());
                return Err(self.wrong(key.span(), words));
            }
            let text = self.text_of(key_name, value)?;
            let line = self.line(key.span().start);
            let directions = step.conditions.iter_mut().zip(about).enumerate();
            for (direction, (conditions, _)) in directions.filter(|(_, (_, is_meant))| *is_meant) {
                self.lines.insert((direction, key_name.to_owned()), line);
                let done = conditions.set(key_name, &text, self.files);
                done.map_err(|words| {
                    let words = if words.starts_with("there is no key") {
                        format!("there is no key {key_name:?} in [{table_name}]; the keys are {}", names())
                    } else {
                        format!("{key_name} in [{table_name}]: {words}")
                    };
                    self.wrong(key.span(), words)
                })?;
            }
        }
        Ok(())
    }

    /// A value, as it would be written behind an option.
    fn text_of(&self, key: &str, value: &Value<'_>) -> Result<String, ScenarioError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(is) => Ok(is.to_string()),
            _ => Err(self.wrong(value.span(), format!("{key} is a number, a text in quotes, true or false"))),
        }
    }

    /// `span`: where the step says its time; what is wrong in it is not in a line before.
    fn check(&self, step: &Step, span: Range<usize>) -> Result<(), ScenarioError> {
        for (direction, (conditions, (name, _))) in step.conditions.iter().zip(&TABLES[1..]).enumerate() {
            let place = if step.at.is_zero() { "at the start".to_owned() } else { format!("from {:?} on", step.at) };
            conditions.find_fault().map_err(|Fault { key, words }| {
                let keys = GILBERT.iter().filter(|_| GILBERT[0] == key).chain([&key]);
                let lines = keys.filter_map(|key| self.lines.get(&(direction, (*key).to_owned())).copied());
                let line = lines.chain([self.line(span.start)]).max().unwrap_or_default();
                ScenarioError { line, message: format!("{name} {place}: {words}") }
            })?;
        }
        Ok(())
    }

    fn wrong(&self, span: Range<usize>, message: String) -> ScenarioError {
        ScenarioError { line: self.line(span.start), message }
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }
}

fn directions(name: &str) -> Option<[bool; 2]> {
    TABLES.iter().find(|(table, _)| *table == name).map(|(_, about)| *about)
}

/// The entries of a table: `both` before what is about one direction, and keys that others build on before those.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Key<'i>, &'t Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| (order(key.get_ref()), key.span().start));
    entries.sort_by_key(|(key, _)| key.get_ref() != "both");
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::scenario::Direction::{Forward, Reverse};

    fn read(text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse(text, |name| match name {
            "delays.txt" => Ok("1\n2\n".to_owned()),
            "link.trace" => Ok("1\n2\n".to_owned()),
            "empty" => Ok(String::new()),
            _ => Err(format!("{name}: there is no such file")),
        })
    }

    #[test]
    fn a_scenario_changes_what_it_names() {
        let text = r#"
            seed = 9
            [both]
            delay = "4ms"
            normal = "500us"
            correlation = 25
            [reverse]
            rate = "10M"
            codel = "10ms"
            codel-interval = "200ms"
            queue = 30000
            [[step]]
            at = "1s"
            both.delay = "8ms"
            reverse.trace = "link.trace"
            [[step]]
            at = "2.5s"
            forward = { cut = true, delays = "delays.txt", loss = "1%", burst = 3 }
            [[step]]
            at = "3s"
            forward.cut = false
            forward.good-to-bad = 0.1
            forward.bad-to-good = 10
        "#;
        let scenario = read(text).unwrap();
        assert_eq!((scenario.seed, scenario.changes(Forward).count()), (9, 4));
        let shown = |direction| scenario.changes(direction).map(|(_, what)| what.to_string()).collect::<Vec<_>>();
        assert_eq!(
            shown(Forward),
            [
                "delay 4ms, normal 500µs, correlation 25 %",
                "delay 8ms, normal 500µs, correlation 25 %",
                "cut, delay 8ms, delays of a file, correlation 25 %, loss 1 % in bursts of 3",
                "delay 8ms, delays of a file, good to bad 0.1 %, bad to good 10 %, loss 0 % and 100 %, \
                 correlation 25 %",
            ]
        );
        let reverse = shown(Reverse);
        assert_eq!(
            reverse[0],
            "rate 10 Mb/s, queue 30000 bytes, codel 10ms in 200ms, delay 4ms, normal 500µs, correlation 25 %"
        );
        assert!(reverse[1].starts_with("trace of 2ms, 12.032 Mb/s on average"), "{}", reverse[1]);
        assert_eq!(reverse[1], reverse[3]);
        assert!(scenario.needs_single_packets() && scenario.changes_packets() && !scenario.copies_packets());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, words) in [
            ("[both]\ndelay = 4ms", 2, "string"),
            ("\n[both]\ndelay = \"4\"", 3, "delay in [both]: \"4\" is no time; write for instance 500us"),
            ("[both]\nlose = 1", 2, "there is no key \"lose\" in [both]; the keys are delay, jitter"),
            ("[bot]\nloss = 1", 1, "there is no \"bot\" in a scenario; there are seed, [both]"),
            ("both = 4", 1, "both is a table"),
            ("seed = -1", 1, "a seed is a whole number"),
            ("seed = \"x\"", 1, "a seed is a whole number"),
            ("[both]\nloss = 101", 2, "percent from 0 to 100"),
            ("[both]\nloss = -1", 2, "\"-1\" is no share"),
            ("[both]\nloss = nan", 2, "is no share"),
            ("[both]\ndelay = \"11s\"", 2, "forward at the start: a delay of 11s is out of range; it is 0 to 10s"),
            ("[reverse]\nqueue = 5000", 2, "reverse at the start: a queue needs a rate"),
            ("[both]\nrate = \"1M\"\ntrace = \"link.trace\"", 2, "rate and trace in [both]: only one"),
            ("[both]\nrate = \"fast\"", 2, "is no rate"),
            ("[both]\ntrace = \"nonesuch\"", 2, "there is no such file"),
            ("[both]\ntrace = \"empty\"", 2, "no line with a number"),
            ("[both]\ndelays = \"empty\"", 2, "no line with a number"),
            ("[both]\npareto-shape = 3", 2, "needs pareto"),
            ("[both]\npareto = \"1ms\"\npareto-shape = 1", 3, "above 1"),
            ("[both]\ncodel-interval = \"1ms\"", 2, "needs codel"),
            ("[both]\ncodel = \"0ms\"\nrate = \"1M\"", 2, "can't be 0"),
            ("[both]\ngood-to-bad = 1", 2, "needs bad-to-good"),
            ("[both]\ndelay = [1]", 2, "delay is a number, a text"),
            ("[both]\ndelay = \"1ms\"\ndelay = \"2ms\"", 3, "duplicate key"),
            ("step = 1", 1, "a step begins with [[step]]"),
            ("[[step]]\nboth.loss = 1", 1, "this step has no time"),
            ("[[step]]\nat = 10", 2, "in quotes"),
            ("[[step]]\nat = \"1s\"\nboht.loss = 1", 3, "there is no \"boht\" in a step"),
            ("[[step]]\nat = \"1s\"\n", 2, "changes nothing"),
            ("[[step]]\nat = \"0s\"\nboth.loss = 1", 2, "the first is after 0s"),
            ("[[step]]\nat = \"9s\"\nboth.loss = 1\n[[step]]\nat = \"8s\"\nboth.loss = 2", 5, "8s is not after 9s"),
            ("[[step]]\nat = \"9s\"\nboth.burst = 4", 3, "forward from 9s on: burst needs a loss"),
            ("[both]\n\nloss-in-bad = 50", 3, "never becomes bad"),
            ("[both]\n\n\npareto = \"60s\"", 4, "a spread of 60s is out of range"),
            ("[forward]\ndelay = \"1ms\"\n[reverse]\nmtu = 5\ndelay = \"1ms\"", 4, "reverse at the start: a mtu of 5"),
            ("[both]\nloss = 1\nburst = 2\n[[step]]\nat = \"9s\"\nboth.loss = 0", 5, "burst needs a loss"),
            ("[[step]]\nat = \"999999s\"\nboth.loss = 4", 2, "604800s at most"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(words), "{text:?}: {error}");
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        for (text, line) in [
            ("#".repeat(TEXT_BYTES + 1), 1),
            ("# \n".repeat(TEXT_BYTES), TEXT_BYTES / 3 + 1),
            // The last line that ends in time is not the one that goes beyond.
            ("#".repeat(TEXT_BYTES - 1) + "\n#", 2),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.line == line && error.message.contains("at most"), "{error}");
        }
        assert!(read(&("#".repeat(TEXT_BYTES - 1) + "\n")).is_ok());
        let step = |number: usize| format!("[[step]]\nat=\"{number}s\"\nboth.delay=\"{number}us\"\n");
        let text: String = (1..=STEPS).map(step).collect();
        let error = read(&text).unwrap_err();
        assert!(error.message.contains("steps") && error.line == 3 * (STEPS - 1) + 1, "{error}");
    }

    #[test]
    fn each_key_is_known_and_can_be_set_back() {
        use crate::keys::KEYS;
        for (key, _) in KEYS {
            let value = match key {
                "delays" => "delays.txt",
                "trace" => "link.trace",
                "rate" => "1M",
                "overtake" | "cut" | "codel" => "true",
                "delay" | "jitter" | "normal" | "pareto" | "codel-interval" | "reorder-by" => "5ms",
                _ => "3",
            };
            let mut conditions = Conditions::default();
            let files = &mut |name: &str| Ok(if name.is_empty() { String::new() } else { "1\n".to_owned() });
            if let Some(base) = key.strip_suffix("-shape").or_else(|| key.strip_suffix("-interval")) {
                conditions.set(base, "5ms", files).unwrap();
            }
            let before = conditions.clone();
            conditions.set(key, value, files).unwrap_or_else(|words| panic!("{key}: {words}"));
            if !matches!(key, "codel-interval") {
                assert!(conditions != before || key == "loss-in-bad", "{key}");
                conditions.set(key, "none", files).unwrap_or_else(|words| panic!("{key}: {words}"));
            }
        }
        let unknown = Conditions::default().set("x", "1", &mut |_| Ok(String::new())).unwrap_err();
        assert!(unknown.contains("the keys are delay, jitter"), "{unknown}");
    }
}
