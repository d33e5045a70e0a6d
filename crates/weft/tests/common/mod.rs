//! Two connected queue pairs over real TCP, with each kind of progress and of address.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use weft::verbs::laboratory::{Laboratory, OutOfOrder, Split};
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, Context, ListenOptions, MemoryRegion, Progress, ProtectionDomain,
    QueuePair, QueuePairOptions, Settings, Status, WorkCompletion,
};

/// Nothing here takes this long, even on a machine that is busy with other things; a test whose wait has no result
/// fails then.
pub(crate) const PATIENCE: Option<Duration> = Some(weft_testing::PATIENCE);

/// An address of this host at which no program listens, and what keeps others from listening there: as long as it is
/// held, the port is that of a connection.
pub(crate) fn refusing() -> (SocketAddr, [TcpStream; 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    (caller.local_addr().unwrap(), [caller, accepted])
}

/// Every right.
pub(crate) const ALL: Access = Access::all();

/// Which threads run the NIC, which stage runs where, in how many engines, and over which kind of address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) progress: Progress,
    pub(crate) laboratory: Laboratory,
    pub(crate) engines: usize,
    pub(crate) address: IpAddr,
}

impl Kind {
    /// One engine that does everything, over IPv4.
    pub(crate) const fn plain(progress: Progress) -> Self {
        let laboratory = Laboratory { split: Split::Host, selective_interrupt: false, out_of_order: OutOfOrder::Place };
        Self { progress, laboratory, engines: 1, address: IpAddr::V4(Ipv4Addr::LOCALHOST) }
    }

    /// One whose thread calls for the thread that runs it.
    pub(crate) const fn summoning() -> Self {
        let plain = Self::plain(Progress::Caller);
        Self { laboratory: Laboratory { selective_interrupt: true, ..plain.laboratory }, ..plain }
    }

    /// With this split.
    pub(crate) const fn with_split(self, split: Split) -> Self {
        Self { laboratory: Laboratory { split, ..self.laboratory }, ..self }
    }

    /// One of each way that bytes can take through a NIC.
    pub(crate) fn paths() -> impl Iterator<Item = Self> {
        Split::ALL.into_iter().map(|split| {
            let progress = if split == Split::Host { Progress::Caller } else { Progress::Thread };
            Self::plain(progress).with_split(split)
        })
    }

    /// Each that there is, over this address.
    fn all(address: IpAddr) -> impl Iterator<Item = Self> {
        let plain = [Self::plain(Progress::Hybrid), Self::plain(Progress::Thread), Self::summoning()];
        let several = [Progress::Hybrid, Progress::Thread].map(|progress| Self { engines: 3, ..Self::plain(progress) });
        Self::paths().chain(plain).chain(several).map(move |kind| Self { address, ..kind })
    }

    pub(crate) fn settings(self) -> Settings {
        let Self { progress, laboratory, engines, .. } = self;
        Settings { progress, laboratory, engines, ..Settings::default() }
    }

    pub(crate) fn context(self) -> Context {
        Context::with_settings(self.settings()).unwrap()
    }

    /// Any free port.
    pub(crate) fn any(self) -> SocketAddr {
        SocketAddr::new(self.address, 0)
    }
}

/// Does this with every kind that the machine has.
pub(crate) fn each_kind(test: impl Fn(Kind)) {
    for address in addresses() {
        for kind in Kind::all(address) {
            println!("{kind:?}");
            test(kind);
        }
    }
}

/// The loopback addresses that this machine has.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let (here, missing) = both.into_iter().partition::<Vec<_>, _>(|address| TcpListener::bind((*address, 0)).is_ok());
    missing.iter().for_each(|address| println!("skipped: this machine has no {address}"));
    here
}

/// Two ends of a connection in one process, on one NIC, with one completion queue each.
pub(crate) struct Pair {
    pub(crate) context: Context,
    pub(crate) domain: ProtectionDomain,
    pub(crate) active: End,
    pub(crate) passive: End,
}

pub(crate) struct End {
    pub(crate) queue_pair: QueuePair,
    pub(crate) completions: CompletionQueue,
}

impl End {
    pub(crate) fn new(context: &Context, domain: &ProtectionDomain, options: &QueuePairOptions) -> Self {
        let completions = context.create_completion_queue(1024).unwrap();
        let queue_pair = domain.create_queue_pair(&completions, options).unwrap();
        Self { queue_pair, completions }
    }

    /// The next completion, whatever it says.
    pub(crate) fn next(&self) -> WorkCompletion {
        self.completions.wait(PATIENCE).expect("a completion in time")
    }

    /// The next completion, which must be a success with this id.
    pub(crate) fn done(&self, id: u64) -> WorkCompletion {
        let completion = self.next();
        assert_eq!((completion.id, completion.status), (id, Status::Success), "{completion:?}");
        completion
    }
}

impl Pair {
    pub(crate) fn new(kind: Kind) -> Self {
        Self::with(kind.context(), kind, &ConnectOptions::default(), &ListenOptions::default())
    }

    pub(crate) fn with(context: Context, kind: Kind, connect: &ConnectOptions, listen: &ListenOptions) -> Self {
        let domain = context.allocate_protection_domain().unwrap();
        let options = QueuePairOptions::default();
        let (active, passive) = (End::new(&context, &domain, &options), End::new(&context, &domain, &options));
        let listener = context.listen(kind.any(), listen).unwrap();
        active.queue_pair.start_connect(listener.local_address(), connect).unwrap();
        listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, &[]).unwrap();
        active.queue_pair.wait_connected(PATIENCE).unwrap();
        passive.queue_pair.wait_connected(PATIENCE).unwrap();
        Self { context, domain, active, passive }
    }

    /// Waits until both queue pairs have ended.
    pub(crate) fn wait_for_end(&self) {
        let ends = [&self.active, &self.passive];
        self.wait_until(|| ends.iter().all(|end| end.queue_pair.state().has_ended()));
    }

    /// Runs the NIC until this is so.
    pub(crate) fn wait_until(&self, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(Some(start.elapsed()) < PATIENCE, "waited in vain");
            if !self.context.progress() {
                thread::yield_now();
            }
        }
    }

    /// Registered memory with something in it.
    pub(crate) fn filled(&self, length: usize) -> MemoryRegion {
        self.domain.register(pattern(length), ALL).unwrap()
    }

    /// Registered memory with nothing in it.
    pub(crate) fn empty(&self, length: usize) -> MemoryRegion {
        self.domain.allocate(length, ALL).unwrap()
    }
}

/// Bytes that tell where they belong.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
