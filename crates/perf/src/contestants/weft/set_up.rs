//! Queue pairs that are connected one after the other, and a first message and its answer over each.

use std::net::SocketAddr;
use std::time::Instant;

use weft::verbs::{Access, Context, Listener, MemoryRegion, ProtectionDomain, WorkRequest};

use crate::contestants::set_up::SetUps;
use crate::contestants::weft::demands::{CONNECT_LIMIT, memory_slots, resolve};
use crate::contestants::weft::link::Link;
use crate::contestants::weft::settings::Settings;
use crate::model::contestant::{Side, other};
use crate::model::job::{Job, Role};
use crate::model::measure::Measured;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Connecting {
    context: Context,
    domain: ProtectionDomain,
    settings: Settings,
    inbox: MemoryRegion,
    listener: Option<Listener>,
    /// The newest, kept until the next one or until both sides are done.
    link: Option<Link>,
}

pub(crate) fn open(job: &Job, settings: Settings) -> Outcome<Box<dyn Side>> {
    let context = Context::with_settings(settings.of_context())?;
    let domain = context.allocate_protection_domain()?;
    let inbox = domain.allocate(memory_slots(job) * job.size, Access::LOCAL_WRITE)?;
    let listener = match job.role() {
        Role::Active => None,
        Role::Passive => {
            let local = resolve(job.local.as_deref().unwrap_or("127.0.0.1"), 0)?;
            Some(context.listen(local, &settings.of_listener())?)
        }
    };
    Ok(Box::new(Connecting { context, domain, settings, inbox, listener, link: None }))
}

impl Side for Connecting {
    fn address(&self) -> String {
        self.listener.as_ref().map_or_else(String::new, |listener| listener.local_address().port().to_string())
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        match job.role() {
            Role::Passive => self.accept(job).map(|()| Measured::default()),
            Role::Active => self.connect(job, other(job, addresses)),
        }
        .map_err(|error| error.to_string())
    }
}

impl Connecting {
    fn connect(&mut self, job: &Job, peer: &str) -> Outcome<Measured> {
        let remote: SocketAddr = resolve(&job.host, peer.parse()?)?;
        let mut set_ups = SetUps::new(job);
        for _ in 0..job.warmup + job.iterations {
            let mut link = Link::new(&self.domain, &self.inbox, &self.context, job)?;
            let began = Instant::now();
            link.queue_pair().connect(remote, &self.settings.of_connection())?;
            let connected = Instant::now();
            say(&link, job)?;
            receive(&mut link)?;
            set_ups.add(began, Some(connected), Instant::now());
            link.flush()?;
            self.link = Some(link);
        }
        Ok(set_ups.finish())
    }

    fn accept(&mut self, job: &Job) -> Outcome<()> {
        for _ in 0..job.warmup + job.iterations {
            let mut link = Link::new(&self.domain, &self.inbox, &self.context, job)?;
            let listener = self.listener.as_ref().ok_or("the active side accepts nothing")?;
            listener.accept(Some(CONNECT_LIMIT))?.accept(link.queue_pair(), &[])?;
            link.queue_pair().wait_connected(Some(CONNECT_LIMIT))?;
            receive(&mut link)?;
            say(&link, job)?;
            link.flush()?;
            self.link = Some(link);
        }
        Ok(())
    }
}

fn say(link: &Link, job: &Job) -> Outcome<()> {
    Ok(link.queue_pair().post(WorkRequest::send_inline(&vec![0x5a; job.size])?.unsignaled())?)
}

fn receive(link: &mut Link) -> Outcome<()> {
    while link.received == 0 {
        link.turn()?;
    }
    Ok(())
}
