//! Both ends of a stream of tagged messages in one thread: how many instructions does a message take?
//!
//! `valgrind --tool=callgrind target/release/examples/messages 10000 64 8 edge://127.0.0.1` (messages, window, bytes,
//! and what carries them: iWARP by default); a window of 1 is a ping without the pong. With a fifth argument,
//! `pong`, the two take turns.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use weft::endpoint::{Endpoint, EndpointAttributes, EndpointSettings, EventQueue, Match, ReceivePost, SendPost};
use weft::verbs::{Context, PeerAddress, Progress, Settings, Transport};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual: u64| arguments.next().map_or(Ok(usual), |text| text.parse());
    let (messages, window, length) = (number(100_000)?, number(64)?, number(8)? as usize);
    let address: PeerAddress = arguments.next().as_deref().unwrap_or("127.0.0.1").parse()?;
    let transport = address.transport.unwrap_or(Transport::Iwarp);
    let takes_turns = arguments.next().as_deref() == Some("pong");
    let context = Context::with_settings(Settings { progress: Progress::Caller, ..Settings::default() })?;
    let domain = context.allocate_protection_domain()?;
    let usual = EndpointAttributes::at(address.resolve(0)?);
    let here = EndpointAttributes { settings: EndpointSettings { transport, ..usual.settings }, ..usual };
    let end = || -> Result<(Endpoint, EventQueue), Box<dyn Error>> {
        let events = EventQueue::new(&context)?;
        Ok((Endpoint::open(&domain, &here, Arc::new(events.clone()))?, events))
    };
    let ((mut sender, mut sent), (mut receiver, mut received)) = (end()?, end()?);
    let (mut peer, mut other) = (sender.peer(&receiver.address())?, receiver.peer(&sender.address())?);
    let start = Instant::now();
    let mut buffers: Vec<Vec<u8>> = (0..2 * window).map(|_| vec![0; length]).collect();
    let mut spare = || buffers.pop().unwrap_or_else(|| vec![0; length]);
    let mut done = 0;
    while done < messages {
        for _ in 0..window {
            receiver.receive(ReceivePost::new(spare()).matching(Match { tag: 7, ignore: 0 }))?;
        }
        for _ in 0..window {
            sender.send(SendPost::new(peer, spare()).tag(7))?;
        }
        for events in [&sent, &received] {
            let mut left = window;
            while left > 0 {
                if let Some(event) = events.poll() {
                    event.outcome?;
                    drop(event.buffer);
                    left -= 1;
                }
            }
        }
        done += window;
        if takes_turns {
            (sender, receiver, sent, received, peer, other) = (receiver, sender, received, sent, other, peer);
        }
    }
    let each = start.elapsed() / done as u32;
    println!("{done} messages of {length} bytes, {each:?} each");
    Ok(())
}
