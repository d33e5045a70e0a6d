//! Many endpoints, each on a NIC and a host of its own: they start, exchange something each with each, and end.
//!
//! The usual run has 64. `WEFT_ENDPOINTS=1024 cargo test -p weft-simulate --test all crowd -- --nocapture` has as many
//! as that says, a power of two, and prints what they take.

use core::time::Duration;
use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use weft_base::{DomainId, Edge, Iwarp, Random};
use weft_nic::{
    Completed, Completions, EndpointAttributes, Event, Match, MessageEndpoint, Progress, ReceivePost, SendPost,
    Settings,
};
use weft_simulate::{Behaviour, SimulatedClock, SimulatedNetwork, SimulatedNic, Tag, World};

/// The longest virtual time of the exchange, and of the end.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the ends of connections get to show everywhere.
const SETTLE: Duration = Duration::from_secs(5);
/// Streams bring something at multiples of this time.
const STEP: Duration = Duration::from_micros(20);
/// Above the ports that the simulator gives to callers.
const FIRST_PORT: u16 = 40_000;

#[derive(Default)]
struct Inbox(Mutex<Vec<Event>>);

impl Completions for Inbox {
    fn complete(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Something for one endpoint that another has given: their numbers.
type Parcel = [u16; 2];

/// An endpoint, and how far it is. In round `k` it gives its partner, whose number differs in bit `k`, all parcels for
/// numbers with that bit of its partner: after the last round it has those for itself.
struct Member<T: Tag> {
    number: usize,
    domain: DomainId,
    endpoint: MessageEndpoint<SimulatedNetwork<T>, SimulatedClock>,
    inbox: Arc<Inbox>,
    parcels: Vec<Parcel>,
    /// The messages that have arrived, by round.
    came: Vec<Option<Vec<u8>>>,
    round: usize,
    /// Sends that are not over.
    sends: usize,
}

/// All hosts have the same address, as those of the simulator do that are given none.
fn address(number: usize) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 1), FIRST_PORT + number as u16).into()
}

impl<T: Tag> Member<T> {
    fn open(nic: &SimulatedNic<T>, (number, count): (usize, usize), random: &mut Random) -> Self {
        let domain = nic.registry().allocate_domain().unwrap();
        let mut attributes = EndpointAttributes::at(address(number));
        // Closing does not wait: time does not pass meanwhile.
        attributes.settings.linger = Some(Duration::ZERO);
        let inbox = Arc::new(Inbox::default());
        let completions = Arc::clone(&inbox) as Arc<dyn Completions>;
        let identity = (random.next_u64(), random.next_u64());
        let endpoint = MessageEndpoint::open(nic, domain, &attributes, identity, completions).unwrap();
        let parcels = (0..count).map(|to| [number as u16, to as u16]).collect();
        let came = vec![None; count.ilog2() as usize];
        Self { number, domain, endpoint, inbox, parcels, came, round: 0, sends: 0 }
    }

    /// Posts its receives, and sends what goes in the first round.
    fn begin(&mut self, addresses: &[weft_nic::Address]) {
        for round in 0..self.came.len() {
            let source = self.endpoint.peer(&addresses[self.number ^ (1 << round)]).unwrap();
            let matching = Match { tag: round as u64, ignore: 0 };
            let post = ReceivePost::new(vec![0; 2 * addresses.len()]).matching(matching).from(source);
            self.endpoint.receive(post.context(round as u64)).unwrap();
        }
        self.send(addresses);
    }

    fn send(&mut self, addresses: &[weft_nic::Address]) {
        if self.round == self.came.len() {
            return;
        }
        let bit = 1 << self.round;
        let (stays, goes): (Vec<_>, Vec<_>) =
            self.parcels.iter().partition(|parcel| (usize::from(parcel[1]) ^ self.number) & bit == 0);
        self.parcels = stays;
        let bytes: Vec<u8> =
            goes.iter().flat_map(|[from, to]| [from.to_be_bytes(), to.to_be_bytes()].concat()).collect();
        let peer = self.endpoint.peer(&addresses[self.number ^ bit]).unwrap();
        self.endpoint.send(SendPost::new(peer, bytes).tag(self.round as u64)).unwrap();
        self.sends += 1;
    }

    /// Takes its completions, and sends what the next rounds need. Returns whether all messages have arrived and all
    /// its sends have completed.
    fn go_on(&mut self, addresses: &[weft_nic::Address]) -> bool {
        let events = core::mem::take(&mut *self.inbox.0.lock().unwrap_or_else(PoisonError::into_inner));
        for event in events {
            assert_eq!(event.outcome, Ok(()), "endpoint {}", self.number);
            match event.completed {
                Completed::Send => self.sends -= 1,
                _ => {
                    let bytes = &event.buffer.unwrap()[..event.length as usize];
                    self.came[event.context as usize] = Some(bytes.to_vec());
                }
            }
        }
        while let Some(bytes) = self.came.get_mut(self.round).and_then(Option::take) {
            let parcels = bytes.as_chunks::<4>().0.iter();
            let parse = |[a, b, c, d]: &[u8; 4]| [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])];
            self.parcels.extend(parcels.map(parse));
            self.round += 1;
            self.send(addresses);
        }
        self.round == self.came.len() && self.sends == 0
    }
}

/// Bytes of the process that are in memory: the second field, in pages (proc_pid_statm(5)).
fn resident() -> i64 {
    let fields = std::fs::read_to_string("/proc/self/statm").unwrap();
    fields.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() * 4096
}

/// Returns how long the exchange took.
fn exchange_all<T: Tag>(count: usize) -> Duration {
    assert!(count.is_power_of_two() && count <= 1 << 14, "WEFT_ENDPOINTS is {count}: it takes a power of two");
    let world = World::new(count as u64, Behaviour { step: STEP, ..Behaviour::default() });
    let mut random = world.fork_random();
    let before = resident();
    let settings = Settings { progress: Progress::Caller, ..Settings::default() };
    let nics: Vec<SimulatedNic<T>> = (0..count).map(|_| world.nic_over(settings.clone(), &[])).collect();
    let mut members: Vec<Member<T>> =
        nics.iter().enumerate().map(|(number, nic)| Member::open(nic, (number, count), &mut random)).collect();
    let addresses: Vec<_> = members.iter().map(|member| member.endpoint.address().clone()).collect();
    let opened = resident();
    let everyone: Vec<&SimulatedNic<T>> = nics.iter().collect();
    members.iter_mut().for_each(|member| member.begin(&addresses));
    let begun = world.now();
    let done = world.run(&everyone, LIMIT, || {
        // All continue, also behind one that is not done.
        members.iter_mut().map(|member| member.go_on(&addresses)).filter(|is_done| !is_done).count() == 0
    });
    let rounds: Vec<usize> = members.iter().map(|member| member.round).collect();
    assert!(done, "after {LIMIT:?} they are in round {rounds:?}");
    let (took, exchanged) = (world.now() - begun, resident());
    for member in &mut members {
        member.parcels.sort_unstable();
        let wanted: Vec<Parcel> = (0..count).map(|from| [from as u16, member.number as u16]).collect();
        assert_eq!(member.parcels, wanted, "endpoint {}", member.number);
        member.came = Vec::new();
    }
    let closing: Vec<_> = members.iter().map(|member| member.endpoint.close()).collect();
    assert!(closing.iter().all(Result::is_ok), "{closing:?}");
    world.run(&everyone, SETTLE, || false);
    for (member, nic) in members.drain(..).zip(&nics) {
        let domain = member.domain;
        drop(member);
        nic.registry().release_domain(domain).unwrap();
    }
    let ends = count as i64 * i64::from(count.ilog2());
    println!(
        "{count} endpoints, {ends} ends of connections: {took:?} of virtual time; resident {} KiB an endpoint, {} KiB \
         an end of a connection with what was exchanged, {} KiB of all after the end",
        (opened - before) / count as i64 / 1024,
        (exchanged - opened) / ends / 1024,
        (resident() - before) / 1024,
    );
    took
}

fn endpoints() -> usize {
    let text = env::var("WEFT_ENDPOINTS").unwrap_or_else(|_| "64".into());
    text.parse().unwrap_or_else(|_| panic!("WEFT_ENDPOINTS is {text:?}; it takes a number"))
}

#[test]
fn all_exchange_with_all_over_edge() {
    exchange_all::<Edge>(endpoints());
}

#[test]
fn all_exchange_with_all_over_iwarp() {
    exchange_all::<Iwarp>(endpoints());
}

/// Both poll the port that they call from, and each turn of a NIC comes long after the one before.
#[test]
fn two_that_call_each_other_are_not_left_at_their_listeners() {
    let took = exchange_all::<Edge>(2);
    assert!(took < Duration::from_millis(10), "{took:?} of virtual time");
}
