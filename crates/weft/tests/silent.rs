//! A target whose application never calls in again: what peers ask of its memory is done all the same.
//!
//! It is a process of its own, whose only thread sleeps in a read of a pipe, or computes. At the end the test has it
//! read its memory.

mod common;
#[path = "common/process.rs"]
mod process;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{ALL, End, Kind, PATIENCE, pattern};
use nix::sys::resource::{UsageWho, getrusage};
use process::{Process, read_line, role, say};
use weft::verbs::laboratory::Split;
use weft::verbs::{
    ConnectOptions, Context, ListenOptions, MemoryRegion, Progress, ProtectionDomain, QueuePairOptions, RemoteMemory,
    Stag, WorkRequest,
};

/// Bytes that are written and read.
const WINDOW: u64 = 1 << 20;
/// Behind the window: three words for atomics.
const WORDS: u64 = 3;
/// Around every boundary, up to all of it.
const SIZES: [u64; 12] = [0, 1, 8, 64, 1000, 2047, 2048, 4096, 32 << 10, 64 << 10, 100_001, WINDOW];
const MESSAGES: u64 = 100;
const ADDITIONS: u64 = 50;
/// How long the target's use of the processor is measured.
const QUIET: Duration = Duration::from_secs(1);
/// What it may use in that time: a tenth of a core, where polling without result would take a whole one.
const MOST_CPU: Duration = Duration::from_millis(100);
/// How often a thread may wake up in that time.
const MOST_WAKE_UPS: u64 = 20;

/// What the target's thread does meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Pastime {
    Sleeping,
    Computing,
    /// For comparison: it polls.
    Polling,
}

const PASTIMES: [Pastime; 3] = [Pastime::Sleeping, Pastime::Computing, Pastime::Polling];

/// Each in which the NIC moves by itself.
fn kinds() -> Vec<Kind> {
    let splits = Split::ALL.into_iter().map(|split| Kind::plain(Progress::Thread).with_split(split));
    let several = [Progress::Hybrid, Progress::Thread].map(|progress| Kind { engines: 3, ..Kind::plain(progress) });
    [Kind::plain(Progress::Hybrid)].into_iter().chain(splits).chain(several).collect()
}

#[test]
fn a_target_asleep_serves_everything_and_costs_nothing_when_quiet() {
    if let Some(role) = role() {
        return target(&role);
    }
    let mut targets = Vec::new();
    for (at, kind) in kinds().into_iter().enumerate() {
        let mut client = Client::new(at, kind, Pastime::Sleeping);
        client.use_everything();
        targets.push((kind, client));
    }
    // All of them at once, since all shall be quiet.
    for (_, client) in &mut targets {
        client.target.tell("measure");
    }
    for (kind, client) in &targets {
        println!("{kind:?}: {}", client.target.ask());
    }
    for (_, client) in targets {
        client.finish();
    }
}

#[test]
fn a_target_that_computes_serves_everything() {
    if let Some(role) = role() {
        return target(&role);
    }
    for (at, kind) in kinds().into_iter().enumerate() {
        let mut client = Client::new(at, kind, Pastime::Computing);
        client.use_everything();
        client.finish();
    }
}

#[test]
fn rates_beside_a_target_that_polls() {
    if let Some(role) = role() {
        return target(&role);
    }
    for (at, kind) in kinds().into_iter().enumerate() {
        for (pastime, name) in PASTIMES.into_iter().zip(["sleeps", "computes", "polls"]) {
            let mut client = Client::new(at, kind, pastime);
            let (write, read) = client.rates();
            println!("{kind:?}, target {name}: writes {write:.0} MB/s, reads {read:.0} MB/s");
            client.use_everything();
            client.finish();
        }
    }
}

/// The side that calls in.
struct Client {
    target: Process,
    _context: Context,
    domain: ProtectionDomain,
    end: End,
    peer: RemoteMemory,
}

impl Client {
    fn new(at: usize, kind: Kind, pastime: Pastime) -> Self {
        let test = thread::current().name().expect("the harness names its threads").to_owned();
        let pastime = PASTIMES.iter().position(|other| *other == pastime).unwrap();
        let target = Process::start(&test, &format!("{at} {pastime}"));
        let address = target.ask().parse().unwrap();
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let end = End::new(&context, &domain, &QueuePairOptions::default());
        let info = end.queue_pair.connect(address, &ConnectOptions::default()).unwrap();
        let stag = Stag(u32::from_ne_bytes(info.private_data[..].try_into().unwrap()));
        Self { target, _context: context, domain, end, peer: RemoteMemory { stag, offset: 0 } }
    }

    /// Every operation, of every size.
    fn use_everything(&mut self) {
        for size in SIZES {
            self.write_and_read(size);
        }
        self.change_words();
        for number in 0..MESSAGES {
            self.end.queue_pair.post(WorkRequest::send_inline(&number.to_ne_bytes()).unwrap().id(number)).unwrap();
            self.end.done(number);
        }
        // Behind the messages: what was sent before a read has been taken before it is answered.
        self.read(8);
    }

    fn write_and_read(&self, size: u64) {
        let mut bytes = pattern(size as usize);
        // The last size leaves the pattern as the target expects it.
        let salt = (WINDOW - size) as u8;
        bytes.iter_mut().for_each(|byte| *byte ^= salt);
        let from = self.domain.register(bytes.clone(), ALL).unwrap();
        let write = WorkRequest::write(from.slice(..).unwrap(), self.peer).id(1);
        self.end.queue_pair.post(write).unwrap();
        self.end.done(1);
        assert!(self.read(size).to_vec() == bytes, "{size} bytes");
    }

    fn read(&self, size: u64) -> MemoryRegion {
        let to = self.domain.allocate(size as usize, ALL).unwrap();
        self.end.queue_pair.post(WorkRequest::read(to.slice(..).unwrap(), self.peer).id(2)).unwrap();
        self.end.done(2);
        to
    }

    fn change_words(&self) {
        let result = self.domain.allocate(8, ALL).unwrap();
        let sink = result.slice(..).unwrap();
        let [counter, locked, swapped] = [0, 8, 16].map(|at| self.peer.at(WINDOW + at));
        let ask = |request: WorkRequest| {
            self.end.queue_pair.post(request.id(3)).unwrap();
            self.end.done(3);
            result.load_u64(0, Ordering::Acquire).unwrap()
        };
        for before in 0..ADDITIONS {
            assert_eq!(ask(WorkRequest::fetch_add(sink, counter, 1)), before);
            assert_eq!(ask(WorkRequest::compare_swap(sink, locked, before, before + 1)), before);
            assert_eq!(ask(WorkRequest::compare_swap(sink, locked, before, 99)), before + 1, "does not match");
            assert_eq!(ask(WorkRequest::swap(sink, swapped, before + 1)), before);
        }
    }

    /// Megabytes per second of writes and of reads.
    fn rates(&self) -> (f64, f64) {
        const BYTES: u64 = 64 << 20;
        let local = self.domain.register(pattern(WINDOW as usize), ALL).unwrap();
        let slice = local.slice(..).unwrap();
        let rate = |request: WorkRequest| {
            let start = Instant::now();
            for _ in 0..BYTES / WINDOW / 8 {
                self.end.queue_pair.post_list((0..8).map(|_| request.clone())).unwrap();
                for _ in 0..8 {
                    self.end.done(4);
                }
            }
            // A read behind writes: they have arrived.
            self.read(8);
            BYTES as f64 / 1e6 / start.elapsed().as_secs_f64()
        };
        let write = rate(WorkRequest::write(slice, self.peer).id(4));
        (write, rate(WorkRequest::read(slice, self.peer).id(4)))
    }

    /// The target wakes and checks by itself.
    fn finish(mut self) {
        self.target.tell("check");
        assert_eq!(self.target.ask(), "all is there");
        assert!(self.target.end().success());
    }
}

/// The side that does not.
fn target(role: &str) {
    let numbers: Vec<usize> = role.split(' ').map(|number| number.parse().unwrap()).collect();
    let (kind, pastime) = (kinds()[numbers[0]], PASTIMES[numbers[1]]);
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::new(&context, &domain, &QueuePairOptions::default());
    let window = domain.allocate((WINDOW + WORDS * 8) as usize, ALL).unwrap();
    let inbox = domain.allocate(MESSAGES as usize * 8, ALL).unwrap();
    for number in 0..MESSAGES {
        end.queue_pair.post_receive(number, &[inbox.slice(number * 8..number * 8 + 8).unwrap()]).unwrap();
    }
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    say(&listener.local_address().to_string());
    listener.accept(PATIENCE).unwrap().accept(&end.queue_pair, &window.stag().0.to_ne_bytes()).unwrap();
    // From here on it is silent.
    let mut told = match pastime {
        Pastime::Sleeping => read_line(),
        Pastime::Computing => while_hearing(|| {
            black_box(pattern(black_box(100)));
        }),
        Pastime::Polling => while_hearing(|| {
            context.progress();
        }),
    };
    if told == "measure" {
        measure(&context);
        told = read_line();
    }
    assert_eq!(told, "check");
    assert!(window.to_vec()[..WINDOW as usize] == pattern(WINDOW as usize));
    let words = [0, 8, 16].map(|at| window.load_u64(WINDOW + at, Ordering::Acquire).unwrap());
    assert_eq!(words, [ADDITIONS; 3]);
    for number in 0..MESSAGES {
        assert_eq!(end.done(number).length, 8);
        assert_eq!(inbox.load_u64(number * 8, Ordering::Acquire).unwrap(), number);
    }
    say("all is there");
}

/// Does this again and again until a line comes, which another thread waits for.
fn while_hearing(mut act: impl FnMut()) -> String {
    let heard = AtomicBool::new(false);
    thread::scope(|scope| {
        let line = scope.spawn(|| {
            let line = read_line();
            heard.store(true, Ordering::Release);
            line
        });
        while !heard.load(Ordering::Acquire) {
            act();
        }
        line.join().unwrap()
    })
}

/// What this process uses while nothing happens: first without a call, then what the NIC has counted.
fn measure(context: &Context) {
    let before = cpu_time();
    thread::sleep(QUIET);
    let used = cpu_time() - before;
    let before = context.counters();
    thread::sleep(QUIET);
    let after = context.counters();
    let wake_ups = after.wake_ups - before.wake_ups;
    assert!(used < MOST_CPU, "used {used:?} in {QUIET:?} of quiet");
    assert!(wake_ups < MOST_WAKE_UPS, "woke up {wake_ups} times in {QUIET:?} of quiet");
    say(&format!("used {used:?} of the processor and woke up {wake_ups} times in {QUIET:?} each"));
}

/// The processor's time that this process has used.
fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    [usage.user_time(), usage.system_time()]
        .map(|time| Duration::from_micros(time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64))
        .into_iter()
        .sum()
}
