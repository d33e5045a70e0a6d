use super::*;

const NOW: Time = Time::ZERO;

fn listener(backlog: usize) -> Listener {
    Listener::new(Settings::default(), InitialNumbers::new(&[7; 32]), backlog).unwrap()
}

fn flow(caller: u16) -> Flow {
    Flow { local: ([10, 0, 0, 1], 80).into(), remote: ([10, 0, 0, 2], caller).into() }
}

fn segment(sequence: u32, acknowledgement: u32, flags: Flags) -> Segment {
    Segment { sequence, acknowledgement, flags, window: 5000, ..Segment::default() }
}

fn syn(sequence: u32) -> Segment {
    segment(sequence, 0, Flags { syn: true, ..Flags::default() })
}

fn reply(answer: Answer) -> Segment {
    match answer {
        Answer::Reply(segment) => segment,
        other => panic!("{other:?}"),
    }
}

const ACK: Flags = Flags { ack: true, syn: false, fin: false, rst: false, psh: false };

#[test]
fn three_segments_make_a_connection() {
    let mut listener = listener(4);
    let answer = reply(listener.handle(&flow(1), &syn(100), 0, NOW));
    assert_eq!((answer.flags.syn, answer.flags.ack, answer.acknowledgement), (true, true, 101));
    assert_eq!(answer.options.timestamps, None, "not asked for");
    let last = segment(101, answer.sequence.wrapping_add(1), ACK);
    assert!(matches!(listener.handle(&flow(2), &last, 0, NOW), Answer::Reply(reset) if reset.flags.rst));
    assert!(matches!(listener.handle(&flow(1), &last, 0, NOW), Answer::Accepted(_)));
    assert_eq!(listener.half_open(), 0);
}

#[test]
fn guesses_are_refused() {
    let mut listener = listener(4);
    let answer = reply(listener.handle(&flow(1), &syn(100), 0, NOW));
    let good = answer.sequence.wrapping_add(1);
    let wrong = listener.handle(&flow(1), &segment(101, good.wrapping_add(1), ACK), 0, NOW);
    assert!(reply(wrong).flags.rst);
    let far = listener.handle(&flow(1), &segment(99, good, ACK), 0, NOW);
    assert!(matches!(far, Answer::Nothing));
    let blind = segment(102, 0, Flags { rst: true, ..Flags::default() });
    listener.handle(&flow(1), &blind, 0, NOW);
    assert_eq!(listener.half_open(), 1);
    listener.handle(&flow(1), &Segment { sequence: 101, ..blind }, 0, NOW);
    assert_eq!(listener.half_open(), 0);
}

#[test]
fn a_flood_fills_the_backlog_and_no_more() {
    let mut listener = listener(16);
    for caller in 0..5000 {
        reply(listener.handle(&flow(caller), &syn(100), 0, NOW));
    }
    assert_eq!((listener.half_open(), listener.forgotten()), (16, 4984));
    assert!(listener.order.len() <= 32);
    let answer = reply(listener.handle(&flow(9000), &syn(5), 0, NOW));
    let last = segment(6, answer.sequence.wrapping_add(1), ACK);
    assert!(matches!(listener.handle(&flow(9000), &last, 0, NOW), Answer::Accepted(_)));
}

#[test]
fn a_call_from_itself_is_dropped() {
    let mut listener = listener(4);
    let circle = Flow { remote: flow(1).local, ..flow(1) };
    assert!(matches!(listener.handle(&circle, &syn(1), 0, NOW), Answer::Nothing));
}

#[test]
fn answers_are_repeated_and_callers_forgotten() {
    let mut listener = listener(4);
    let first = reply(listener.handle(&flow(1), &syn(100), 0, NOW));
    assert_eq!(reply(listener.handle(&flow(1), &syn(100), 0, NOW)), first);
    let mut times = Vec::new();
    while let Some(at) = listener.next_timeout() {
        listener.handle_timeout(at, |to, again| {
            assert_eq!((to, again.acknowledgement), (&flow(1), 101));
            times.push(at.as_nanos() / 1_000_000_000);
        });
    }
    assert_eq!((times, listener.half_open()), (vec![1, 3, 7, 15, 31], 0));
}

/// RFC 9293 section 3.10.7.4 with RFC 5961 section 4.2: an attacker that knows the four numbers of a call cannot put
/// another in its place, and a caller that has really begun anew says so.
#[test]
fn another_syn_does_not_replace_a_call() {
    let mut listener = listener(4);
    let answer = reply(listener.handle(&flow(1), &syn(100), 0, NOW));
    let challenge = reply(listener.handle(&flow(1), &syn(70_000), 0, NOW));
    assert_eq!((challenge.flags, challenge.acknowledgement), (ACK, 101));
    assert_eq!(challenge.sequence, answer.sequence.wrapping_add(1));
    let last = segment(101, answer.sequence.wrapping_add(1), ACK);
    assert!(matches!(listener.handle(&flow(1), &last, 0, NOW), Answer::Accepted(_)));
    // The caller has begun anew: the acknowledgement that it gets is not what it expects.
    reply(listener.handle(&flow(2), &syn(100), 0, NOW));
    let challenge = reply(listener.handle(&flow(2), &syn(500), 0, NOW));
    let reset = segment(challenge.acknowledgement, 0, Flags { rst: true, ..Flags::default() });
    assert!(matches!(listener.handle(&flow(2), &reset, 0, NOW), Answer::Nothing));
    assert_eq!(reply(listener.handle(&flow(2), &syn(500), 0, NOW)).acknowledgement, 501);
    // And a flood of others is not answered each time.
    let answers = (0..1000).filter(|at| !matches!(listener.handle(&flow(2), &syn(9000 + at), 0, NOW), Answer::Nothing));
    assert_eq!(answers.count(), 100);
}

fn millis(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// RFC 4987: 50 000 SYNs in a second from forged addresses, and callers that are 100 ms away.
#[test]
fn in_a_flood_of_syns_honest_callers_get_in() {
    let mut listener = listener(HALF_OPEN);
    let nobody = |at: u64| Flow { remote: ([192, 0, 2, (at >> 16) as u8], at as u16).into(), ..flow(0) };
    let (mut answers, mut accepted, mut repeated) = (VecDeque::new(), 0, 0);
    for at in 0..5000 {
        let now = millis(at / 50);
        reply(listener.handle(&nobody(at), &syn(at as u32), 0, now));
        if at % 250 == 0 {
            let caller = flow(1000 + at as u16);
            let answer = reply(listener.handle(&caller, &syn(7), 0, now));
            answers.push_back((now + Duration::from_millis(100), caller, answer.sequence.wrapping_add(1)));
        }
    }
    for at in 5000..10_000 {
        let now = millis(at / 50);
        reply(listener.handle(&nobody(at), &syn(at as u32), 0, now));
        while let Some((_, caller, number)) = answers.front().filter(|(due, ..)| *due <= now) {
            let answer = listener.handle(caller, &segment(8, *number, ACK), 0, now);
            accepted += u32::from(matches!(answer, Answer::Accepted(_)));
            answers.pop_front();
        }
    }
    assert_eq!((accepted, answers.len()), (20, 0));
    // Forged addresses get few answers more, and the listener seldom checks which.
    let mut checks = 0;
    while let Some(at) = listener.next_timeout() {
        listener.handle_timeout(at, |_, _| repeated += 1);
        checks += 1;
    }
    assert!(repeated <= MANY as u32 * u32::from(REPEATS) && checks < 1000, "{repeated} answers, {checks} checks");
    assert_eq!(listener.half_open(), 0);
}

#[test]
fn a_forgotten_caller_gets_no_reset() {
    let mut listener = listener(1);
    let answer = reply(listener.handle(&flow(1), &syn(100), 0, NOW));
    let last = segment(101, answer.sequence.wrapping_add(1), ACK);
    reply(listener.handle(&flow(2), &syn(100), 0, NOW));
    assert!(matches!(listener.handle(&flow(1), &last, 0, millis(62_000)), Answer::Nothing));
    assert!(reply(listener.handle(&flow(1), &last, 0, millis(63_000))).flags.rst, "that is long ago");
}

#[test]
fn without_room_for_a_connection_nobody_is_refused() {
    let mut listener = listener(4);
    let answer = reply(listener.handle(&flow(1), &syn(100), 0, NOW));
    let last = segment(101, answer.sequence.wrapping_add(1), ACK);
    listener.set_full(true);
    assert!(matches!(listener.handle(&flow(2), &syn(100), 0, NOW), Answer::Nothing));
    assert!(matches!(listener.handle(&flow(1), &last, 0, NOW), Answer::Nothing));
    assert_eq!(listener.half_open(), 1, "it sends that again");
    listener.set_full(false);
    assert!(matches!(listener.handle(&flow(1), &last, 0, NOW), Answer::Accepted(_)));
    reply(listener.handle(&flow(2), &syn(100), 0, NOW));
}

#[test]
fn the_answer_to_a_renewed_call_begins_beyond_the_old_connection() {
    let mut listener = listener(4);
    let usual = listener.numbers.of(&flow(1), NOW).number;
    let number = |listener: &mut Listener, least| {
        let answer = listener.handle_renewed(&flow(1), &syn(100), least, NOW);
        listener.calls.clear();
        reply(answer).sequence
    };
    assert_eq!(number(&mut listener, usual.wrapping_sub(9)), usual);
    assert_eq!(number(&mut listener, usual.wrapping_add(9)), usual.wrapping_add(9));
}
