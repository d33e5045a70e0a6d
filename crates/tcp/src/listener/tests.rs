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
    assert_eq!((listener.half_open(), listener.half_open.capacity(), listener.forgotten()), (16, 16, 4984));
    let answer = reply(listener.handle(&flow(9000), &syn(5), 0, NOW));
    let last = segment(6, answer.sequence.wrapping_add(1), ACK);
    assert!(matches!(listener.handle(&flow(9000), &last, 0, NOW), Answer::Accepted(_)));
}

#[test]
fn a_call_from_itself_is_not_heard() {
    let mut listener = listener(4);
    let circle = Flow { remote: flow(1).local, ..flow(1) };
    assert!(matches!(listener.handle(&circle, &syn(1), 0, NOW), Answer::Nothing));
}

#[test]
fn answers_are_repeated_and_callers_forgotten() {
    let mut listener = listener(4);
    let first = reply(listener.handle(&flow(1), &syn(100), 0, NOW));
    assert_eq!(reply(listener.handle(&flow(1), &syn(100), 0, NOW)), first);
    let other = reply(listener.handle(&flow(1), &syn(500), 0, NOW));
    assert_eq!((other.acknowledgement, listener.half_open()), (501, 1));
    let mut times = Vec::new();
    while let Some(at) = listener.next_timeout() {
        listener.handle_timeout(at, |to, again| {
            assert_eq!((to, again.acknowledgement), (&flow(1), 501));
            times.push(at.as_nanos() / 1_000_000_000);
        });
    }
    assert_eq!((times, listener.half_open()), (vec![1, 3, 7, 15, 31], 0));
}
