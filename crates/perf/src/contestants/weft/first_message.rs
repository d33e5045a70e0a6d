//! Endpoints that say their first word to a peer, one after the other: each connects by that, and gets an answer.

use std::sync::Arc;
use std::time::Instant;

use weft::endpoint::{
    Address, Buffer, Completed, Endpoint, EndpointAttributes, Event, EventQueue, Match, PeerId, ReceivePost, SendPost,
};
use weft::verbs::{Context, ProtectionDomain};

use crate::contestants::set_up::SetUps;
use crate::contestants::weft::endpoints::{DATA, Outcome, attributes, read_address, write_address};
use crate::contestants::weft::settings::Settings;
use crate::model::contestant::{Side, other};
use crate::model::job::{Job, Role};
use crate::model::measure::Measured;

struct FirstMessage {
    context: Context,
    domain: ProtectionDomain,
    attributes: EndpointAttributes,
    /// Of the passive side, which has one; the other has a new one for each message.
    own: Option<Talk>,
}

pub(crate) fn open(job: &Job, settings: &Settings) -> Outcome<Box<dyn Side>> {
    let context = Context::with_settings(settings.of_context())?;
    let domain = context.allocate_protection_domain()?;
    let attributes = attributes(job, settings)?;
    let mut side = FirstMessage { context, domain, attributes, own: None };
    if job.role() == Role::Passive {
        side.own = Some(side.talk()?);
    }
    Ok(Box::new(side))
}

impl Side for FirstMessage {
    fn address(&self) -> String {
        self.own.as_ref().map_or_else(String::new, |talk| write_address(&talk.endpoint.address()))
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        match job.role() {
            Role::Passive => self.answer(job).map(|()| Measured::default()),
            Role::Active => self.ask(job, other(job, addresses)),
        }
        .map_err(|error| error.to_string())
    }
}

impl FirstMessage {
    fn talk(&self) -> Outcome<Talk> {
        let events = EventQueue::new(&self.context)?;
        let endpoint = Endpoint::open(&self.domain, &self.attributes, Arc::new(events.clone()))?;
        Ok(Talk { endpoint, events, heard: None, sent: 0 })
    }

    fn ask(&self, job: &Job, peer: &str) -> Outcome<Measured> {
        let address: Address = read_address(peer).ok_or("the peer's address is damaged")?;
        let mut set_ups = SetUps::new(job);
        for _ in 0..job.warmup + job.iterations {
            let mut talk = self.talk()?;
            talk.listen(job)?;
            let began = Instant::now();
            let peer = talk.endpoint.peer(&address)?;
            talk.say(peer, job)?;
            talk.receive()?;
            // It connects by itself, and does not say when.
            set_ups.add(began, None, Instant::now());
            talk.flush()?;
            talk.endpoint.close().map_err(|left| format!("{left:?}"))?;
        }
        Ok(set_ups.finish())
    }

    fn answer(&mut self, job: &Job) -> Outcome<()> {
        let talk = self.own.as_mut().ok_or("the active side has no endpoint that stays")?;
        for _ in 0..job.warmup + job.iterations {
            talk.listen(job)?;
            let peer = talk.receive()?;
            talk.say(peer, job)?;
            talk.flush()?;
        }
        Ok(())
    }
}

/// An endpoint, and what it has sent and received.
struct Talk {
    endpoint: Endpoint,
    events: EventQueue,
    /// Whose message has come.
    heard: Option<PeerId>,
    /// Messages in flight.
    sent: u32,
}

impl Talk {
    /// Posts a receive for a message from any peer.
    fn listen(&self, job: &Job) -> Outcome<()> {
        let post = ReceivePost::new(Buffer::from(vec![0; job.size]));
        Ok(self.endpoint.receive(post.matching(Match { tag: DATA, ignore: 0 }))?)
    }

    fn say(&mut self, peer: PeerId, job: &Job) -> Outcome<()> {
        self.endpoint.send(SendPost::new(peer, Buffer::from(vec![0x5a; job.size])).tag(DATA))?;
        self.sent += 1;
        Ok(())
    }

    /// Waits for a message, and says whose it is.
    fn receive(&mut self) -> Outcome<PeerId> {
        loop {
            if let Some(peer) = self.heard.take() {
                return Ok(peer);
            }
            self.poll()?;
        }
    }

    /// Waits until all that was sent is gone.
    fn flush(&mut self) -> Outcome<()> {
        while self.sent > 0 {
            self.poll()?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Outcome<()> {
        let Some(Event { completed, outcome, peer, .. }) = self.events.poll() else { return Ok(()) };
        outcome.map_err(|failure| failure.to_string())?;
        match completed {
            Completed::Receive => self.heard = Some(peer.ok_or("a message without a sender")?),
            _ => self.sent -= 1,
        }
        Ok(())
    }
}
