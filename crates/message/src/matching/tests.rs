use proptest::prelude::*;

use super::*;

/// The same with two plain lists.
#[derive(Default)]
struct Model {
    posted: Vec<(Option<PeerId>, Option<Match>, u32)>,
    unexpected: Vec<(PeerId, Option<u64>, u32)>,
}

fn takes(source: Option<PeerId>, matching: Option<Match>, from: PeerId, tag: Option<u64>) -> bool {
    let tags = match (matching, tag) {
        (None, None) => true,
        (Some(matching), Some(tag)) => matching.tag | matching.ignore == tag | matching.ignore,
        _ => false,
    };
    tags && source.is_none_or(|source| source == from)
}

impl Model {
    fn receive(&mut self, source: Option<PeerId>, matching: Option<Match>, number: u32) -> Option<u32> {
        let at = self.peek(source, matching);
        if at.is_none() {
            self.posted.push((source, matching, number));
        }
        at.map(|at| self.unexpected.remove(at).2)
    }

    fn peek(&self, source: Option<PeerId>, matching: Option<Match>) -> Option<usize> {
        self.unexpected.iter().position(|(from, tag, _)| takes(source, matching, *from, *tag))
    }

    fn message(&mut self, from: PeerId, tag: Option<u64>, number: u32) -> Option<u32> {
        let at = self.posted.iter().position(|(source, matching, _)| takes(*source, *matching, from, tag));
        if at.is_none() {
            self.unexpected.push((from, tag, number));
        }
        at.map(|at| self.posted.remove(at).2)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Receive(Option<PeerId>, Option<Match>),
    Message(PeerId, Option<u64>),
    Claim(Option<PeerId>, Option<Match>),
    Cancel(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let peer = || (0..3_u32).prop_map(PeerId);
    let source = move || proptest::option::weighted(0.7, peer());
    let matching = || {
        let ignore = prop_oneof![4 => Just(0), 1 => 0..8_u64, 1 => Just(u64::MAX)];
        proptest::option::weighted(0.8, (0..6_u64, ignore).prop_map(|(tag, ignore)| Match { tag, ignore }))
    };
    prop_oneof![
        4 => (source(), matching()).prop_map(|(source, matching)| Step::Receive(source, matching)),
        4 => (peer(), proptest::option::weighted(0.8, 0..6_u64)).prop_map(|(peer, tag)| Step::Message(peer, tag)),
        1 => (source(), matching()).prop_map(|(source, matching)| Step::Claim(source, matching)),
        1 => (0..120_u32).prop_map(Step::Cancel),
    ]
}

fn receive(
    matcher: &mut Matcher<u32, u32>,
    source: Option<PeerId>,
    matching: Option<Match>,
    number: u32,
) -> Option<u32> {
    let found = matcher.find_unexpected(source, matching);
    if found.is_none() {
        matcher.post(source, matching, number);
    }
    found.and_then(|id| matcher.take(id))
}

fn message(matcher: &mut Matcher<u32, u32>, from: PeerId, tag: Option<u64>, number: u32) -> Option<u32> {
    let found = matcher.find_posted(from, tag);
    if found.is_none() {
        matcher.keep(from, tag, number);
    }
    found.and_then(|id| matcher.unpost(id))
}

proptest! {
    #[test]
    fn it_matches_as_two_plain_lists_do(
        seed: u64,
        kept in prop_oneof![Just(0), 40..90_u32],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut matcher = Matcher::new(seed);
        let mut model = Model::default();
        // With these, walks are long enough for indexes.
        for number in 0..kept {
            let (from, tag) = (PeerId(number % 3), (number % 5 > 0).then_some(u64::from(number % 7)));
            message(&mut matcher, from, tag, number);
            model.message(from, tag, number);
        }
        for (number, step) in (kept..).zip(steps) {
            match step {
                Step::Receive(source, matching) => prop_assert_eq!(
                    receive(&mut matcher, source, matching, number),
                    model.receive(source, matching, number)
                ),
                Step::Message(from, tag) => {
                    prop_assert_eq!(message(&mut matcher, from, tag, number), model.message(from, tag, number));
                }
                Step::Claim(source, matching) => {
                    let found = matcher.find_unexpected(source, matching).and_then(|id| matcher.take(id));
                    let at = model.peek(source, matching);
                    prop_assert_eq!(found, at.map(|at| model.unexpected.remove(at).2));
                }
                Step::Cancel(from) => {
                    let found = matcher.find_posted_by(|number| *number >= from).and_then(|id| matcher.unpost(id));
                    let at = model.posted.iter().position(|(.., number)| *number >= from);
                    prop_assert_eq!(found, at.map(|at| model.posted.remove(at).2));
                }
            }
            prop_assert_eq!(matcher.posted_count(), model.posted.len());
            prop_assert_eq!(matcher.unexpected_count(), model.unexpected.len());
        }
        // The rest is removed in order.
        for (_, _, number) in model.unexpected {
            let all = Some(Match { tag: 0, ignore: u64::MAX });
            let oldest = [None, all].map(|kind| matcher.find_unexpected(None, kind)).into_iter().flatten();
            let oldest = oldest.min_by_key(|id| matcher.unexpected(*id).copied()).expect("it is there");
            prop_assert_eq!(matcher.take(oldest), Some(number));
        }
        let left: Vec<_> = (0..3).flat_map(|peer| matcher.posted_for(PeerId(peer))).collect();
        prop_assert_eq!(left.len(), model.posted.iter().filter(|(source, ..)| source.is_some()).count());
    }
}

#[test]
fn what_is_gone_is_gone() {
    let mut matcher = Matcher::new(1);
    let posted = matcher.post(Some(PeerId(1)), Some(Match { tag: 5, ignore: 0 }), 'p');
    assert_eq!(matcher.posted(posted), Some(&'p'));
    assert_eq!(matcher.unpost(posted), Some('p'));
    assert_eq!(matcher.unpost(posted), None);
    assert_eq!(matcher.find_posted(PeerId(1), Some(5)), None);
    let kept = matcher.keep(PeerId(1), None, 'u');
    assert_eq!(matcher.take(kept), Some('u'));
    assert_eq!(matcher.take(kept), None);
    assert_eq!(matcher.find_unexpected(None, None), None);
    assert!(matcher.posted_classes.is_empty() && matcher.unexpected_exact.is_empty(), "an empty list was kept");
}

/// Any source, and this bit of the tag may differ.
fn wild(tag: u64, bit: u32) -> Match {
    Match { tag, ignore: 1 << bit }
}

/// Keeps messages of all tags below `count`, each with its tag as its value.
fn with_messages(count: u64) -> Matcher<u64, u64> {
    let mut matcher = Matcher::new(1);
    (0..count).for_each(|tag| {
        matcher.keep(PeerId(tag as u32 % 4), Some(tag), tag);
    });
    matcher
}

fn receive_wild(matcher: &mut Matcher<u64, u64>, matching: Match) -> Option<u64> {
    matcher.find_unexpected(None, Some(matching)).and_then(|id| matcher.take(id))
}

#[test]
fn posted_receives_with_one_mask_are_one_class() {
    let mut matcher: Matcher<u64, u64> = Matcher::new(1);
    let posted: Vec<_> = (0..1000).map(|tag| matcher.post(None, Some(wild(tag * 2, 0)), tag)).collect();
    let odd = matcher.find_posted(PeerId(7), Some(2 * 700 + 1)).expect("it ignores the lowest bit");
    assert_eq!(matcher.posted(odd), Some(&700));
    assert_eq!(matcher.find_posted(PeerId(7), None), None, "a message without a tag is of another kind");
    assert_eq!(matcher.posted_classes.wild_count(), 1);
    posted.into_iter().for_each(|id| assert!(matcher.unpost(id).is_some()));
    assert!(matcher.posted_classes.is_empty(), "a queue without receives was kept");
}

#[test]
fn classes_without_receives_do_not_add_up() {
    let mut matcher: Matcher<u64, u64> = Matcher::new(1);
    for bit in 0..64 {
        let posted = matcher.post(None, Some(wild(0, bit)), 0);
        assert_eq!(matcher.find_posted(PeerId(1), Some(1 << bit)), Some(posted));
        assert!(matcher.unpost(posted).is_some());
    }
    assert!(matcher.posted_classes.wild_count() <= 17, "{}", matcher.posted_classes.wild_count());
}

#[test]
fn a_short_walk_makes_no_index_and_a_long_one_does() {
    let mut matcher = with_messages(20);
    assert_eq!(receive_wild(&mut matcher, wild(19, 40)), Some(19));
    assert_eq!(matcher.unexpected_indexes.entries(), []);
    let mut matcher = with_messages(100);
    assert_eq!(receive_wild(&mut matcher, wild(80, 40)), Some(80));
    assert_eq!(matcher.unexpected_indexes.entries(), [99]);
    assert_eq!(receive_wild(&mut matcher, wild(80, 40)), None);
    assert_eq!(receive_wild(&mut matcher, wild(81, 40)), Some(81));
    assert_eq!(receive_wild(&mut matcher, wild(82, 40)), Some(82));
}

#[test]
fn an_index_does_not_outgrow_the_messages_and_goes_with_the_last() {
    let mut matcher = with_messages(1000);
    let whole = Match { tag: 0, ignore: u64::MAX };
    assert_eq!(matcher.find_unexpected(Some(PeerId(9)), Some(whole)), None);
    assert_eq!(matcher.unexpected_indexes.entries(), [1000]);
    // Taken by receives of another kind, from the young end of their queue in the index: they stay in it for now.
    for (tag, left) in (0..1000).rev().zip((0..1000).rev()) {
        let from = PeerId(tag as u32 % 4);
        let found = matcher.find_unexpected(Some(from), Some(Match { tag, ignore: 0 })).expect("it is there");
        assert_eq!(matcher.take(found), Some(tag));
        assert!(matcher.unexpected_indexes.entries().iter().all(|entries| *entries <= 2 * left + 64));
    }
    assert_eq!(matcher.unexpected_indexes.entries(), []);
}

#[test]
fn a_kind_that_is_not_used_any_more_makes_room_for_another() {
    let mut matcher = with_messages(100);
    let kinds = |matcher: &mut Matcher<u64, u64>, bits: core::ops::Range<u32>| {
        bits.for_each(|bit| assert_eq!(matcher.find_unexpected(None, Some(wild(1 << 20, bit))), None));
    };
    kinds(&mut matcher, 40..45);
    assert_eq!(matcher.unexpected_indexes.entries(), [100; 4], "no fifth index while four are used");
    for _ in 0..300 {
        kinds(&mut matcher, 43..44);
    }
    kinds(&mut matcher, 44..45);
    assert_eq!(matcher.unexpected_indexes.entries(), [100; 2]);
}
