//! What waits: unexpected messages, sends, acknowledgements, packets between threads.

use super::*;

#[test]
fn the_message_behind_twenty_thousand_unexpected_ones_arrives() {
    const MESSAGES: u64 = 20_000;
    let kind = Kind::plain(Progress::Hybrid);
    let ends = two_contexts(kind);
    let (sender, receiver) = (&ends[0].1, &ends[1].1);
    let peer = sender.endpoint.peer(&receiver.endpoint.address()).unwrap();
    let take_sent = |event: Event| assert!(event.outcome.is_ok(), "{event:?}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            receiver.endpoint.receive(ReceivePost::new(vec![0; 3]).matching(exactly(MESSAGES)).context(1)).unwrap();
            receiver.done(1);
            for tag in 0..MESSAGES {
                let post = ReceivePost::new(vec![0; 1000]).matching(exactly(tag)).context(tag);
                receiver.endpoint.receive(post).unwrap();
                assert!(receiver.done(tag).buffer.unwrap()[..] == bytes(1000, tag)[..]);
            }
        });
        let mut left = MESSAGES + 1;
        for tag in 0..=MESSAGES {
            let length = if tag == MESSAGES { 3 } else { 1000 };
            let start = Instant::now();
            loop {
                match sender.endpoint.send(SendPost::new(peer, bytes(length, tag)).tag(tag)) {
                    Ok(()) => break,
                    Err(EndpointError::Again) => {}
                    Err(error) => panic!("{error}"),
                }
                assert!(Some(start.elapsed()) < PATIENCE, "message {tag} can't be sent");
                while let Some(event) = sender.events.poll() {
                    take_sent(event);
                    left -= 1;
                }
            }
        }
        while left > 0 {
            take_sent(sender.next());
            left -= 1;
        }
    });
}

/// Two endpoints that may have few requests in flight, and keep little.
fn two_with_little(announced_depth: u32, injected_bytes: u64) -> Group {
    let kind = Kind::plain(Progress::Hybrid);
    let mut attributes = EndpointAttributes::at(kind.any());
    attributes.settings.send_depth = 64;
    attributes.settings.announced_depth = announced_depth;
    attributes.settings.injected_bytes = injected_bytes;
    attributes.settings.messages = MessageSettings { unexpected_bytes: 1 << 20, ..MessageSettings::default() };
    Group::with(kind, 2, &attributes)
}

/// Sends it as soon as there is room for it.
fn send_when_possible(end: &End, post: impl Fn() -> SendPost) {
    let start = Instant::now();
    while let Err(error) = end.endpoint.send(post()) {
        assert!(error == EndpointError::Again && start.elapsed() < Duration::from_secs(60), "{error}");
        end.endpoint.progress();
    }
}

#[test]
fn what_is_waited_for_passes_more_sends_than_may_be_under_way() {
    const MESSAGES: u64 = 600;
    // Short, injected, streamed, read; MPI asks for delivered ones.
    for (length, inject) in [(8, false), (1000, false), (4000, true), (20_000, false), (150_000, false)] {
        let group = two_with_little(1 << 20, 1 << 30);
        let [a, b] = &group.ends[..] else { panic!() };
        b.endpoint.receive(ReceivePost::new(vec![0; length]).matching(exactly(2)).context(7)).unwrap();
        let content = vec![5; length];
        for number in 0..=MESSAGES {
            let tag = if number == MESSAGES { 2 } else { 1 };
            send_when_possible(a, || {
                let post = SendPost::new(a.peers[1], content.clone()).tag(tag).context(number);
                SendPost { inject, ..post.level(if inject { Level::TransmitComplete } else { Level::Delivered }) }
            });
        }
        b.done(7);
        for number in 0..MESSAGES {
            b.endpoint.receive(ReceivePost::new(vec![0; length]).matching(exactly(1)).context(number)).unwrap();
            assert_eq!(b.done(number).buffer.unwrap()[..], content[..]);
        }
        for _ in 0..=MESSAGES {
            let event = a.next();
            assert!(event.outcome.is_ok(), "{event:?}");
        }
    }
}

#[test]
fn sends_that_wait_for_their_receives_have_limits_of_their_own() {
    // By number, and by the bytes of those that were injected.
    for (announced, injected, inject, most) in [(100, 1 << 30, false, 100 + 64), (1 << 20, 100_000, true, 100)] {
        let group = two_with_little(announced, injected);
        let [a, b] = &group.ends[..] else { panic!() };
        let (length, level) = if inject { (1000, Level::TransmitComplete) } else { (150_000, Level::Delivered) };
        let content = vec![5; length];
        let post = || SendPost { inject, ..SendPost::new(a.peers[1], content.clone()).tag(1).level(level) };
        let (mut sent, mut completed) = (0, 0);
        for _ in 0..100 {
            send_when_possible(a, post);
            sent += 1;
        }
        // Some may still go out whole, those of 1000 bytes for which the peer has room.
        for _ in 0..2000 {
            match a.endpoint.send(post()) {
                Ok(()) => sent += 1,
                Err(error) => assert_eq!(error, EndpointError::Again),
            }
            while a.events.poll().is_some() {
                completed += 1;
            }
            assert!(sent - completed <= most, "{sent} sent, {completed} completed");
        }
        assert!(sent < 2000, "nothing was refused");
        for number in 0..sent {
            b.endpoint.receive(ReceivePost::new(vec![0; length]).matching(exactly(1)).context(number)).unwrap();
            b.done(number);
        }
        send_when_possible(a, post);
    }
}

#[test]
fn an_acknowledgement_goes_with_the_answer() {
    const ROUNDS: u64 = 10;
    let group = Group::new(Kind::plain(Progress::Hybrid), 2);
    let [a, b] = &group.ends[..] else { panic!() };
    let poll = |end: &End| {
        let start = Instant::now();
        loop {
            match end.events.poll() {
                Some(event) if event.completed == Completed::Receive => return,
                _ => assert!(Some(start.elapsed()) < PATIENCE, "nothing came"),
            }
        }
    };
    let one_path = |from: &End, to: &End, peer: usize| {
        to.endpoint.receive(ReceivePost::new(vec![0; 8]).matching(exactly(1))).unwrap();
        from.endpoint.send(SendPost::new(from.peers[peer], bytes(8, 1)).tag(1).level(Level::Delivered)).unwrap();
        poll(to);
    };
    let packets_of_a_batch = || {
        let before = group.context.counters().endpoint_packets;
        for _ in 0..ROUNDS {
            one_path(a, b, 1);
            one_path(b, a, 0);
        }
        group.context.counters().endpoint_packets - before
    };
    // Four packets each round when none waits for another. Where this thread loses its core the NIC's answers for it,
    // so not in each batch.
    let start = Instant::now();
    let mut fewest = u64::MAX;
    while fewest >= 3 * ROUNDS {
        assert!(Some(start.elapsed()) < PATIENCE, "{fewest} packets for {} messages", 2 * ROUNDS);
        fewest = fewest.min(packets_of_a_batch());
    }
}

/// How many packets were sent, how many of them without a work request, and how many came without a receive request,
/// while both sides sent this many messages.
fn packets_of(group: &Group, messages: u64) -> [u64; 3] {
    let counts = || {
        let counters = group.context.counters();
        [counters.endpoint_packets, counters.passed_packets_sent, counters.passed_packets_received]
    };
    let one_path = |from: usize, to: usize, number: u64| {
        let [from_end, to_end] = [&group.ends[from], &group.ends[to]];
        let content = bytes(1000, number);
        to_end.endpoint.receive(ReceivePost::new(vec![0; 1000]).context(number)).unwrap();
        from_end.endpoint.send(SendPost::new(from_end.peers[to], content.clone()).context(number)).unwrap();
        let received = to_end.events.wait_for(|event| event.completed == Completed::Receive, PATIENCE).unwrap();
        assert!(received.context == number && received.buffer.unwrap()[..] == content[..]);
        from_end.done(number);
    };
    // The first ones open the connection.
    one_path(0, 1, 0);
    one_path(1, 0, 0);
    let before = counts();
    for number in 0..messages {
        one_path(0, 1, number);
        one_path(1, 0, number);
    }
    let after = counts();
    core::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn packets_pass_the_queues_by_where_one_thread_does_all_the_work() {
    let [packets, sent, received] = packets_of(&Group::new(Kind::plain(Progress::Caller), 2), 50);
    assert!(packets >= 100, "{packets}");
    // One may be arriving, and one have arrived before.
    assert!(sent == packets && received.abs_diff(packets) <= 1, "{sent} and {received} of {packets}");
}

#[test]
fn packets_go_through_the_queues_where_the_work_is_split() {
    let kind = Kind::plain(Progress::Thread).with_split(Split::Offload(Coupling::Coupled));
    let [packets, sent, received] = packets_of(&Group::new(kind, 2), 50);
    assert!(packets >= 100, "{packets}");
    assert_eq!([sent, received], [0, 0]);
}

/// Threads that sleep for completions of their own are woken by the one that runs the NIC for all of them.
#[test]
fn a_thread_that_sleeps_is_woken_for_a_message_that_another_one_has_received() {
    const ROUNDS: u64 = 100;
    const PAUSE: Duration = Duration::from_millis(20);
    let group = Group::new(Kind::plain(Progress::Caller), 3);
    let [sender, idle, receiver] = &group.ends[..] else { panic!() };
    // How long the receiver has waited; `None` if threads get the processor so late that it says nothing.
    let one_path = |number: u64| {
        receiver.endpoint.receive(ReceivePost::new(vec![0; 8]).context(number)).unwrap();
        let waits = || {
            let start = Instant::now();
            assert_eq!(receiver.next().context, number);
            start.elapsed()
        };
        std::thread::scope(|scope| {
            let start = Instant::now();
            // The first of the two has the engine; the other one sleeps until an event wakes it.
            let runs = scope.spawn(|| idle.events.wait(Some(Duration::from_secs(60))));
            std::thread::sleep(PAUSE);
            let waits = scope.spawn(waits);
            std::thread::sleep(PAUSE);
            sender.endpoint.send(SendPost::new(sender.peers[2], bytes(8, number)).context(number)).unwrap();
            let is_slow = start.elapsed() > 4 * PAUSE;
            let waited = waits.join().unwrap();
            // Lets the first one go.
            sender.endpoint.send(SendPost::new(sender.peers[1], bytes(8, number)).context(number)).unwrap();
            idle.endpoint.receive(ReceivePost::new(vec![0; 8]).context(number)).unwrap();
            assert!(runs.join().unwrap().is_some());
            (!is_slow).then_some(waited)
        })
    };
    // A thread that is not woken polls by itself every half second: all of them wait long. Of those that are woken few
    // do.
    let told: Vec<Duration> = (0..ROUNDS).filter_map(one_path).take(20).collect();
    if told.len() < 20 {
        println!("not judged: threads got the processor too late in all but {} of {ROUNDS} rounds", told.len());
        return;
    }
    let woken = told.iter().filter(|waited| **waited < Duration::from_millis(400)).count();
    assert!(woken >= 3, "woken in {woken} of {} rounds: {told:?}", told.len());
}
