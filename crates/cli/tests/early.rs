//! iWARP over Weft's own TCP between two hosts of a lab, through a link on which 5 % of the frames come late: writes,
//! reads and messages are right, much is placed before its turn, and next to nothing is kept.
//!
//! Where this system allows no namespaces, or lacks a program, the test says so and passes.

mod running;

use std::env;
use std::time::Duration;

use running::Running;
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, Context, ListenOptions, MemoryRegion, ProtectionDomain, QueuePair,
    QueuePairOptions, RemoteMemory, Settings, Stag, Status, WorkRequest,
};
use weft_lab::{BridgeProgram, Carrier, Host, Lab, Link, Plan, Shape};

/// The variable that says to a worker what it does.
const ROLE: &str = "WEFT_EARLY_ROLE";
/// Addresses of the link that no kernel has.
const LINKS: [&str; 2] = ["rail0=10.0.0.77/24", "rail0=10.0.0.78/24"];
const SERVER: &str = "10.0.0.77:7000";
/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(100));

/// The window, in writes of this many bytes.
const WRITE: usize = 100_000;
const WRITES: usize = 30;
/// One message behind each write.
const MESSAGE: usize = 3000;

/// The byte at a position of what is written, or of a message.
fn byte(at: usize) -> u8 {
    (at % 251 + at / 65_521) as u8
}

fn pattern(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(byte).collect()
}

fn lab() -> Option<Lab> {
    let mut lab = match Lab::up(&Plan {
        links: 1,
        rate: None,
        switch: true,
        offloads: false,
        carrier: Some(Carrier::Rings),
        ..Plan::default()
    }) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let shape = Shape { reorder_millionths: 50_000, reorder_by: Duration::from_millis(1), ..Shape::default() };
    let arguments = ["lab", "bridge"].map(Into::into).to_vec();
    let program = BridgeProgram { program: env!("CARGO_BIN_EXE_weft").into(), arguments, environment: Vec::new() };
    lab.shape(Link { host: None, rail: 0 }, &shape, &program).unwrap();
    Some(lab)
}

/// This program again, in a host.
fn start(host: &Host, role: &str) -> Running {
    let mut command = host.command(env::current_exe().unwrap());
    command.env(ROLE, role);
    Running::start_by(command, &["--exact", "worker", "--nocapture", "--test-threads=1"])
}

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    match env::var(ROLE).as_deref() {
        Ok("serves") => serve(),
        Ok("calls") => call(),
        Ok(role) => panic!("{role:?} is no role"),
        Err(_) => {}
    }
}

/// One end.
struct End {
    context: Context,
    domain: ProtectionDomain,
    completions: CompletionQueue,
    queue_pair: QueuePair,
    window: MemoryRegion,
    inbox: MemoryRegion,
}

impl End {
    fn new(link: &str) -> Self {
        let context = Context::with_link(Settings::default(), link.parse().unwrap()).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(256).unwrap();
        let options = QueuePairOptions::default();
        let queue_pair = domain.create_queue_pair_with(&completions, &completions, None, &options).unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let window = domain.allocate(WRITE * WRITES, access).unwrap();
        let inbox = domain.allocate(MESSAGE * WRITES, Access::LOCAL_WRITE).unwrap();
        // The last one tells of the end.
        for id in 0..=WRITES as u64 {
            let start = id % WRITES as u64 * MESSAGE as u64;
            let place = inbox.slice(start..start + MESSAGE as u64).unwrap();
            queue_pair.post_receive(id, &[place]).unwrap();
        }
        Self { context, domain, completions, queue_pair, window, inbox }
    }

    fn wait(&self) -> u64 {
        let completion = self.completions.wait(PATIENCE).expect("it hangs");
        assert_eq!(completion.status, Status::Success, "{:?}", self.queue_pair.error());
        completion.id
    }

    /// Says what it has counted, in a line.
    fn tell(&self) {
        let counters = self.context.counters();
        let (early, kept) = (counters.early_frames, counters.kept_bytes);
        println!("counted {early} {kept} {}", counters.received_wire_bytes);
    }
}

/// Lets itself be written to and read from.
fn serve() {
    let end = End::new(LINKS[0]);
    let listener = end.context.listen(SERVER.parse().unwrap(), &ListenOptions::default()).unwrap();
    println!("listening on {}", listener.local_address());
    let request = listener.accept(PATIENCE).unwrap();
    let RemoteMemory { stag, offset } = end.window.remote(0);
    let where_it_is = [&stag.0.to_be_bytes()[..], &offset.to_be_bytes()].concat();
    request.accept(&end.queue_pair, &where_it_is).unwrap();
    for index in 0..WRITES {
        assert_eq!(end.wait(), index as u64);
        let (message, written) = (index * MESSAGE, index * WRITE);
        assert!(end.inbox.to_vec()[message..message + MESSAGE] == pattern(message, MESSAGE), "message {index}");
        assert!(end.window.to_vec()[written..written + WRITE] == pattern(written, WRITE), "write {index}");
    }
    end.tell();
    // Until the caller has read everything back, and closes.
    assert_eq!(end.completions.wait(PATIENCE).expect("it hangs").status, Status::Flushed);
}

/// Writes, says so each time, and reads everything back.
fn call() {
    let end = End::new(LINKS[1]);
    let info = end.queue_pair.connect(SERVER.parse().unwrap(), &ConnectOptions::default()).unwrap();
    let mpa = *info.mpa().unwrap();
    assert!(mpa.crc && mpa.send_markers.is_some() && mpa.receive_markers.is_some(), "{mpa:?}");
    let (stag, offset) = info.private_data.split_at(4);
    let stag = Stag(u32::from_be_bytes(stag.try_into().unwrap()));
    let window = RemoteMemory { stag, offset: u64::from_be_bytes(offset.try_into().unwrap()) };
    let source = end.domain.register(pattern(0, WRITE * WRITES), Access::LOCAL_WRITE).unwrap();
    for index in 0..WRITES {
        let (message, write) = (index * MESSAGE, index * WRITE);
        let written = source.slice(write as u64..(write + WRITE) as u64).unwrap();
        let write = WorkRequest::write(written, window.at(write as u64)).unsignaled();
        end.queue_pair.post(write).unwrap();
        let sent = source.slice(message as u64..(message + MESSAGE) as u64).unwrap();
        end.queue_pair.post(WorkRequest::send(sent).unsignaled()).unwrap();
    }
    for index in 0..WRITES {
        let at = (index * WRITE) as u64;
        let place = end.window.slice(at..at + WRITE as u64).unwrap();
        end.queue_pair.post(WorkRequest::read(place, window.at(at)).id(1000 + index as u64)).unwrap();
    }
    for index in 0..WRITES {
        assert_eq!(end.wait(), 1000 + index as u64);
    }
    assert!(end.window.to_vec() == source.to_vec(), "what was read is not what was written");
    end.tell();
    end.queue_pair.disconnect(PATIENCE).unwrap();
}

/// Frames that were placed early, bytes that were kept, and bytes that came.
fn counted(worker: &Running) -> [u64; 3] {
    let line = worker.await_text("counted ");
    let numbers = line.rsplit_once("counted ").unwrap().1.split(' ');
    numbers.map(|number| number.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap()
}

#[test]
fn what_comes_late_holds_nothing_up_and_next_to_nothing_is_kept() {
    let Some(lab) = lab() else { return };
    let server = start(lab.host(0), "serves");
    server.port();
    let client = start(lab.host(1), "calls");
    for (who, worker) in [("server", server), ("client", client)] {
        let [early, kept, came] = counted(&worker);
        println!("{who}: {early} frames placed early, {kept} bytes kept of {came}");
        assert!(early > 10, "{who}: {early} frames were placed early");
        assert!(kept < came / 20, "{who}: {kept} bytes were kept of {came}");
        let ended = worker.end();
        assert_eq!(ended.code, Some(0), "{who}: {}", ended.text);
    }
    lab.down().unwrap();
}
