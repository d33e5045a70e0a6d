//! Peers: how they are reached, end, come again, and what is refused.

use super::*;

#[test]
fn a_peer_that_cannot_be_reached_is_an_error_that_names_the_path() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 1);
    let end = &group.ends[0];
    let (free, _kept) = refusing();
    let nobody = end.endpoint.peer(&Address::from(free)).unwrap();
    end.endpoint.send(SendPost::new(nobody, vec![1]).tag(1).context(1)).unwrap();
    let place = RemotePlace { stag: weft::endpoint::Stag(1), offset: 0 };
    end.endpoint.write(TransferPost::new(nobody, vec![1], place).context(2)).unwrap();
    for _ in 0..2 {
        let event = end.next();
        let text = event.outcome.unwrap_err().to_string();
        assert!(text.contains(&free.to_string()) && text.contains("refused"), "{text}");
        assert!(text.contains("the peer has offered the loopback alone"), "{text}");
    }
}

#[test]
fn somebody_else_at_the_address_is_not_taken_for_the_peer() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 2);
    let [a, b] = &group.ends[..] else { panic!() };
    let path: SocketAddr = b.endpoint.address().paths[0];
    let ghost = Address { id: b.endpoint.address().id ^ 1, ..Address::from(path) };
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let other = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
    let ghost = other.endpoint.peer(&ghost).unwrap();
    other.endpoint.send(SendPost::new(ghost, vec![1]).context(1)).unwrap();
    let text = other.next().outcome.unwrap_err().to_string();
    assert!(text.contains("another endpoint listens there"), "{text}");
    // A peer of which only the place is known is the endpoint that is there.
    let known = other.endpoint.peer(&Address::from(path)).unwrap();
    other.endpoint.send(SendPost::new(known, vec![1]).context(2)).unwrap();
    b.endpoint.receive(ReceivePost::new(vec![0; 1]).context(3)).unwrap();
    b.done(3);
    drop(a.events.poll());
}

#[test]
fn of_several_ways_the_one_that_answers_is_taken() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 1);
    let there = group.ends[0].endpoint.address();
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
    let mut address = there.clone();
    let (refused, _kept) = refusing();
    address.paths.insert(0, refused);
    let peer = end.endpoint.peer(&address).unwrap();
    group.ends[0].endpoint.receive(ReceivePost::new(vec![0; 4]).context(1)).unwrap();
    end.endpoint.send(SendPost::new(peer, b"weft".to_vec()).context(2)).unwrap();
    assert_eq!(&group.ends[0].done(1).buffer.unwrap()[..], b"weft");
}

#[test]
fn a_peer_that_comes_again_is_reached_again() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 1);
    let end = &group.ends[0];
    let mut bind: SocketAddr = kind.any();
    for round in 0..3u8 {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let other = End::open(&context, &domain, &EndpointAttributes::at(bind));
        bind = other.endpoint.address().paths[0];
        // Known by its place alone, as with sockaddr.
        let peer = end.endpoint.peer(&Address::from(bind)).unwrap();
        end.endpoint.send(SendPost::new(peer, vec![round]).context(1)).unwrap();
        other.endpoint.receive(ReceivePost::new(vec![9]).context(2)).unwrap();
        assert_eq!(other.done(2).buffer.unwrap()[..], [round]);
        end.done(1);
        // And it answers.
        end.endpoint.receive(ReceivePost::new(vec![9]).context(3)).unwrap();
        let back = other.endpoint.peer(&end.endpoint.address()).unwrap();
        other.endpoint.send(SendPost::new(back, vec![round + 10]).context(4)).unwrap();
        assert_eq!(end.done(3).buffer.unwrap()[..], [round + 10]);
        other.done(4);
    }
}

#[test]
fn both_connect_at_once_and_one_connection_stands() {
    for progress in [Progress::Hybrid, Progress::Thread, Progress::Caller] {
        for _ in 0..20 {
            let kind = Kind::plain(progress);
            let ends = two_contexts(kind);
            let finished = AtomicUsize::new(0);
            let finished = &finished;
            let mut others = [1, 0].map(|other: usize| ends[other].1.endpoint.address()).into_iter();
            std::thread::scope(|scope| {
                // Each closes its own: a thread that closes one after the other waits for a NIC that no thread runs.
                for ((context, here), there) in ends.into_iter().zip(&mut others) {
                    scope.spawn(move || {
                        let (_context, here) = (context, here);
                        let peer = here.endpoint.peer(&there).unwrap();
                        here.endpoint.receive(ReceivePost::new(vec![0; 8]).context(1)).unwrap();
                        here.endpoint.send(SendPost::new(peer, bytes(8, 3)).context(2)).unwrap();
                        for _ in 0..2 {
                            let event = here.next();
                            assert!(event.outcome.is_ok(), "{event:?}");
                        }
                        // What the peer still waits for makes progress while a thread runs this NIC.
                        finished.fetch_add(1, Ordering::AcqRel);
                        let start = Instant::now();
                        while finished.load(Ordering::Acquire) < 2 {
                            assert!(Some(start.elapsed()) < PATIENCE, "the peer ends nothing within the limit");
                            here.endpoint.wait_until(Some(Duration::from_millis(1)), || false);
                        }
                    });
                }
            });
        }
    }
}

#[test]
fn the_end_of_a_peer_fails_what_waits_for_it() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 1);
    let end = &group.ends[0];
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let other = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
    let peer = end.endpoint.peer(&other.endpoint.address()).unwrap();
    // A long message for which no receive is posted waits at the sender.
    end.endpoint.send(SendPost::new(peer, vec![1; 1 << 20]).tag(1).context(1)).unwrap();
    while other.endpoint.peek(None, Some(exactly(1)), None).unwrap().is_none() {
        end.endpoint.progress();
        other.endpoint.progress();
    }
    drop(other);
    let event = end.next();
    assert!(matches!(event.outcome, Err(EndpointFailure::Lost(_))), "{event:?}");
    assert_eq!(event.buffer.map(|buffer| buffer.len()), Some(1 << 20), "the memory comes back");
}

#[test]
fn a_peer_that_is_flooded_slows_the_sender_down_and_loses_nothing() {
    let kind = Kind::plain(Progress::Hybrid);
    let mut attributes = EndpointAttributes::at(kind.any());
    attributes.settings.messages = MessageSettings { unexpected_bytes: 100_000, ..MessageSettings::default() };
    let group = Group::with(kind, 2, &attributes);
    let [a, b] = &group.ends[..] else { panic!() };
    const MESSAGES: u64 = 2000;
    for number in 0..MESSAGES {
        a.endpoint.send(SendPost::new(a.peers[1], bytes(1000, number)).tag(number).context(1)).unwrap();
    }
    // The other direction continues.
    a.endpoint.receive(ReceivePost::new(vec![0; 300_000]).matching(exactly(1)).context(2)).unwrap();
    b.endpoint.send(SendPost::new(b.peers[0], bytes(300_000, 1)).tag(1).context(3)).unwrap();
    let mut sent = 0;
    let mut answered = false;
    while !answered {
        let event = a.next();
        assert!(event.outcome.is_ok());
        answered = event.context == 2;
        sent += u64::from(event.context == 1);
    }
    assert!(sent < MESSAGES, "{sent} of {MESSAGES} went out though nobody took them");
    b.done(3);
    for number in (0..MESSAGES).rev() {
        b.endpoint.receive(ReceivePost::new(vec![0; 1000]).matching(exactly(number)).context(number)).unwrap();
    }
    for _ in 0..MESSAGES {
        let event = b.next();
        assert!(event.buffer.unwrap()[..] == bytes(1000, event.context)[..]);
    }
}

#[test]
fn a_target_that_never_calls_in_is_served() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 1);
    let end = &group.ends[0];
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let other = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
    other.endpoint.receive(ReceivePost::new(vec![0; 1 << 20]).matching(exactly(1)).context(1)).unwrap();
    let peer = end.endpoint.peer(&other.endpoint.address()).unwrap();
    // Matched, fetched, acknowledged: by the other's NIC alone.
    let content = bytes(1 << 20, 4);
    end.endpoint.send(SendPost::new(peer, content.clone()).tag(1).context(2).level(Level::Delivered)).unwrap();
    end.done(2);
    assert!(other.events.poll().unwrap().buffer.unwrap()[..] == content[..]);
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 1);
    let end = &group.ends[0];
    let stranger = PeerId(77);
    assert_eq!(end.endpoint.send(SendPost::new(stranger, vec![1])), Err(EndpointError::UnknownPeer(stranger)));
    let mut injected = SendPost::new(end.peers[0], vec![0; 1 << 20]);
    injected.inject = true;
    assert!(matches!(end.endpoint.send(injected), Err(EndpointError::TooLong { .. })));
    let claimed = end.endpoint.receive_claimed(5, ReceivePost::new(IoBuffer::empty()));
    assert_eq!(claimed, Err(EndpointError::NotClaimed(5)));
    end.endpoint.close().unwrap();
    assert_eq!(end.endpoint.send(SendPost::new(end.peers[0], vec![1])), Err(EndpointError::Closed));
}

#[test]
fn a_fenced_message_waits_for_the_write_before_it() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 2);
    let [a, b] = &group.ends[..] else { panic!() };
    let region = group.domain.allocate(1 << 20, Access::all()).unwrap();
    let place = RemotePlace { stag: region.stag(), offset: region.base() };
    for round in 0..20 {
        let content = bytes(1 << 20, round);
        b.endpoint.receive(ReceivePost::new(vec![0; 1]).context(1)).unwrap();
        a.endpoint.write(TransferPost::new(a.peers[1], content.clone(), place).context(2)).unwrap();
        let mut post = SendPost::new(a.peers[1], vec![1]).context(3);
        post.fence = round % 2 == 0;
        a.endpoint.send(post).unwrap();
        b.done(1);
        let mut there = vec![0; content.len()];
        region.read(0, &mut there).unwrap();
        assert!(there == content);
        let mut done = [a.next(), a.next()].map(|event| (event.context, event.outcome));
        done.sort_by_key(|(context, _)| *context);
        assert_eq!(done, [(2, Ok(())), (3, Ok(()))]);
    }
}

#[test]
fn a_crowd_connects_all_to_all_at_once() {
    const ENDS: usize = 24;
    let kind = Kind::plain(Progress::Hybrid);
    let ends: Vec<(Context, End)> = (0..ENDS)
        .map(|_| {
            let context = kind.context();
            let domain = context.allocate_protection_domain().unwrap();
            let end = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
            (context, end)
        })
        .collect();
    let addresses: Vec<Address> = ends.iter().map(|(_, end)| end.endpoint.address()).collect();
    let (addresses, barrier) = (&addresses, &std::sync::Barrier::new(ENDS));
    std::thread::scope(|scope| {
        for (_, end) in &ends {
            scope.spawn(move || {
                let peers = end.endpoint.peers(addresses).unwrap();
                barrier.wait();
                for peer in &peers {
                    end.endpoint.receive(ReceivePost::new(vec![0; 4096]).from(*peer).context(1)).unwrap();
                    end.endpoint.send(SendPost::new(*peer, bytes(4096, 3)).context(2)).unwrap();
                }
                for _ in 0..2 * ENDS {
                    let event = end.next();
                    assert!(event.outcome.is_ok(), "{event:?}");
                }
                // No thread leaves before all have what they wait for.
                barrier.wait();
            });
        }
    });
}

#[test]
fn idle_connections_close_and_open_again() {
    for progress in [Progress::Hybrid, Progress::Thread] {
        let kind = Kind::plain(progress);
        let mut attributes = EndpointAttributes::at(kind.any());
        attributes.settings.messages.idle_timeout = Some(Duration::from_millis(20));
        let group = Group::with(kind, 2, &attributes);
        let [a, b] = &group.ends[..] else { panic!() };
        let region = group.domain.allocate(64, Access::all()).unwrap();
        let place = RemotePlace { stag: region.stag(), offset: region.base() };
        for round in 0..6u64 {
            let before = group.context.counters().connections;
            if round % 2 == 0 {
                b.endpoint.receive(ReceivePost::new(vec![0; 8]).context(1)).unwrap();
                a.endpoint.send(SendPost::new(a.peers[1], bytes(8, round)).context(2)).unwrap();
                assert!(b.done(1).buffer.unwrap()[..] == bytes(8, round)[..]);
            } else {
                a.endpoint.write(TransferPost::new(a.peers[1], bytes(8, round), place).context(2)).unwrap();
            }
            a.done(2);
            assert!(group.context.counters().connections > before, "round {round}: there was a connection still");
            // Long enough for both to find it idle and to agree.
            let start = Instant::now();
            while !(a.endpoint.is_idle() && b.endpoint.is_idle()) {
                assert!(Some(start.elapsed()) < PATIENCE, "round {round}: the connection is not closed");
                a.endpoint.wait_until(Some(Duration::from_millis(5)), || false);
            }
        }
    }
}
