use super::experiment::BRIEF;
use super::*;

#[test]
fn each_scale_keeps_its_minutes() {
    let made = |scale| ALL.iter().filter(move |one| one.is_usual(scale));
    let all = |scale| made(scale).map(|one| one.minutes(scale)).sum::<f64>();
    assert_eq!(made(Scale::Long).count(), ALL.len());
    assert!(made(Scale::Usual).count() < ALL.len());
    assert!(all(Scale::Quick) <= 6.0, "{}", all(Scale::Quick));
    assert!(all(Scale::Usual) <= 60.0, "{}", all(Scale::Usual));
}

#[test]
fn each_says_what_it_asks_and_of_what() {
    for one in &ALL {
        assert!(one.question.ends_with('?') && one.question.len() <= 37, "{}: {}", one.name, one.question);
        assert!(!one.axes.is_empty() && !one.metrics.is_empty() && one.name.len() <= 16, "{}", one.name);
    }
}

#[test]
fn names_are_unlike_and_fit_files() {
    for (at, one) in ALL.iter().enumerate() {
        assert!(ALL[..at].iter().all(|other| other.name != one.name));
        assert!(one.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", one.name);
    }
}

#[test]
fn launches_are_said_where_there_are_some() {
    let words = |name: &str, scale| {
        let one = ALL.iter().find(|one| one.name == name).unwrap();
        one.command(scale).join(" ")
    };
    assert!(words("rate", Scale::Usual).ends_with("--launches 6"));
    assert!(!words("disorder", Scale::Usual).contains("launches"));
    assert!(words("rate", Scale::Usual).contains(BRIEF) && !words("rate", Scale::Long).contains(BRIEF));
    assert!(words("cuts", Scale::Long).contains("--cuts 1000"));
}
