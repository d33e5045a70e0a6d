//! Endpoints on several engines of one NIC.

use std::sync::Arc;

use crate::common::{Kind, PATIENCE};
use weft::endpoint::{Endpoint, EndpointAttributes, EventQueue, Match, ReceivePost, SendPost};
use weft::verbs::{Context, Error, Progress, ProtectionDomain, Settings};

const KIND: Progress = Progress::Thread;

fn two_engines() -> (Context, ProtectionDomain) {
    let settings = Settings { engines: 2, ..Kind::plain(KIND).settings() };
    let context = Context::with_settings(settings).unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    (context, domain)
}

fn open(context: &Context, domain: &ProtectionDomain, engine: usize) -> Result<(Endpoint, EventQueue), Error> {
    let events = EventQueue::new(context).unwrap();
    let attributes = EndpointAttributes { engine: Some(engine), ..EndpointAttributes::at(Kind::plain(KIND).any()) };
    Ok((Endpoint::open(domain, &attributes, Arc::new(events.clone()))?, events))
}

#[test]
fn endpoints_of_different_engines_talk_to_each_other() {
    let (context, domain) = two_engines();
    let [(a, a_events), (b, b_events)] = [0, 1].map(|engine| open(&context, &domain, engine).unwrap());
    let (to_b, to_a) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    for (from, to, receiver, sender_events, receiver_events) in
        [(&a, to_b, &b, &a_events, &b_events), (&b, to_a, &a, &b_events, &a_events)]
    {
        for length in [8, 20_000, 3_000_000] {
            let content = vec![length as u8; length];
            receiver.receive(ReceivePost::new(vec![0; length]).matching(Match { tag: 7, ignore: 0 })).unwrap();
            from.send(SendPost::new(to, content.clone()).tag(7)).unwrap();
            let sent = sender_events.wait(PATIENCE).expect("a completion in time");
            assert!(sent.outcome.is_ok(), "{sent:?}");
            let event = receiver_events.wait(PATIENCE).expect("a completion in time");
            assert_eq!(event.buffer.expect("it has come")[..], content[..]);
        }
    }
    // They have said where they run.
    assert_eq!((a.is_on_this_host(to_b), b.is_on_this_host(to_a)), (Some(true), Some(true)));
}

#[test]
fn an_engine_that_is_not_there_is_an_error_that_says_so() {
    let (context, domain) = two_engines();
    let Err(error) = open(&context, &domain, 2) else { panic!("there are two") };
    assert_eq!(error, Error::NoEngine { asked: 2, engines: 2 });
    assert!(error.to_string().contains("no engine 2"), "{error}");
}
