//! The constants of the policy. Of each its comment says where it comes from: what was "measured" has its figures in
//! `docs/architecture.md`, "Who runs the engine", and the command that repeats them; what was "picked" was not varied.

use core::time::Duration;

// --- yielding

/// Empty polls before a yield: at first. Measured as a whole with the next two: 8-byte messages of two ranks on one
/// core take 9.6 us with them and 189 without, on two cores 5.05 and 5.0 (`taskset -c 0 weft perf latency`).
pub(crate) const YIELD_FIRST: u32 = 8;
/// The same where others always wait for the core.
pub(crate) const YIELD_SOONEST: u32 = 2;
/// The same where no thread ever does.
pub(crate) const YIELD_LATEST: u32 = 32;
/// A yield that took this long let another thread run: two switches take longer. Measured: the call alone takes half a
/// microsecond (`strace -cw -e sched_yield`, less what strace takes).
pub(crate) const YIELD_TAKEN: Duration = Duration::from_micros(2);
/// A yield that took this long let another thread use its time slice up: threads that poll are done sooner. From Linux:
/// the slice is 0.7 ms times 1 + log2 of the processors, at most 2.8 ms, and ends at a tick, each 4 ms with 250 Hz;
/// traces showed 3.2 to 3.4 ms (`perf sched timehist`).
pub(crate) const YIELD_SLICE: Duration = Duration::from_millis(2);
/// What an empty poll takes, more or less: picked, for 580 instructions and one system call or none.
pub(crate) const EMPTY_POLL: Duration = Duration::from_nanos(500);
/// After a yield that took a time slice a caller polls for this part of the time. Picked: it costs the thread that
/// computes 0.4 %.
pub(crate) const YIELD_PART: u32 = 256;
/// ... but for no more polls than this. Picked.
pub(crate) const YIELD_MOST: u32 = 1000;

// --- waiting

/// A thread that polls all the time and finds that this much time has passed was not running: others want its core.
/// Picked: longer than an interrupt, shorter than a time slice.
pub(crate) const LOST_CORE_AFTER: Duration = Duration::from_millis(1);
/// For this long after that, threads that wait sleep at once. Picked: 25 ticks.
pub(crate) const OVERSUBSCRIBED_FOR: Duration = Duration::from_millis(100);
/// After this many waits in a row that polled for `Settings::spin` and slept nevertheless, threads that wait sleep at
/// once ... Picked.
pub(crate) const EMPTY_WAITS: u32 = 8;
/// ... but for one time in this many, which shows whether polling pays again. Picked.
pub(crate) const RETRY_WAITS: u32 = 16;
/// A caller that polled counts as waiting for this long: it polls far more often while it waits. Picked, 20 polls.
pub(crate) const WAITER_FOR: Duration = Duration::from_micros(10);
/// The longest sleep of a thread that waits for another one: a safety net, not a poll interval.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// How often a thread that waits slowly asks. Picked.
pub(crate) const SLOW_POLL: Duration = Duration::from_micros(200);
/// Turns at most before a thread sleeps on descriptors. Picked.
pub(crate) const TURNS_BEFORE_SLEEP: u32 = 16;

// --- taking over

/// Callers may be away for this long at least before the NIC's thread takes over, where that has paid: less costs more
/// than it brings. Measured in a virtual machine: a timer costs 5 to 15 us, its interrupt 40 us (`weft perf latency`).
pub(crate) const SHORTEST_AWAY: Duration = Duration::from_micros(100);
/// Callers whose last visit is no longer ago come without a pause. Measured: the watchdog's interrupt and the switch
/// take 40 us of it in a virtual machine.
pub(crate) const NO_PAUSE: Duration = Duration::from_micros(60);
/// Callers that have come without a pause for a time may be missed for this part of it when they go...
pub(crate) const BUSY_PART: u32 = 16;
/// ... but for no longer than this many times the usual interval of the watchdog. Measured with the next two: the
/// slowest of 100 half round trips takes 20 to 28 us, and took 24 to 44 (`weft perf latency`, its largest value).
pub(crate) const BUSY_INTERVALS: u32 = 8;
/// The watchdog looks this many times as seldom as a timer costs: it takes 0.5 % of the caller's time.
pub(crate) const TIMERS_PER_INTERVAL: u32 = 200;
/// However much a timer costs, no longer than this passes between two looks of the watchdog.
pub(crate) const LONGEST_INTERVAL: Duration = Duration::from_millis(1);
/// After this many turns with something to do, the thread that works for callers finds out anew where it should run.
/// Picked.
pub(crate) const TURNS_AT_A_PLACE: u32 = 1000;
/// How long callers may be away where the processors are oversubscribed: more than the turns of all others take.
/// Measured at 10 and 50 ms: fences of 16 ranks on two processors take 5 to 10 s and 1 s (`weft perf fence`, in a lab).
pub(crate) const AWAY_OVERSUBSCRIBED: Duration = Duration::from_millis(50);

// --- pressure

/// The kernel's counts are read no more often than this: a reading takes 1 us.
pub(crate) const PRESSURE_EVERY: Duration = Duration::from_millis(1);
/// Runnable threads above this many a processor ... (a program and its NIC's thread) mean that it is oversubscribed.
/// Measured with [`AWAY_OVERSUBSCRIBED`].
pub(crate) const RUNNABLE_EACH: usize = 2;
/// ... plus this many for the machine: the system's own work at that moment.
pub(crate) const RUNNABLE_MORE: usize = 2;
/// Over how long the waiting time of a caller's thread is taken. Picked: several time slices.
pub(crate) const WAITED_WINDOW: Duration = Duration::from_millis(20);
/// A thread that waits more than this many times as long as it runs shares its processor with more than two others, and
/// the processor is oversubscribed: what [`RUNNABLE_EACH`] and [`RUNNABLE_MORE`] say of two processors, where they were
/// measured.
pub(crate) const WAITED_PER_RAN: u32 = 2;

// --- arming

/// This many connections are cheaper to poll one by one than to ask the operating system about. Picked.
pub(crate) const FEW_POLLED: usize = 2;
/// Of more than [`FEW_POLLED`], a connection is armed after this many empty polls. Picked.
pub(crate) const ARM_AFTER: u32 = 4;
/// Up to this many connections, each polled by one load from memory, as through shared memory ...
pub(crate) const FEW_LOADS: usize = 64;
/// ... are armed after this many empty polls: arming costs a mark, a signal, and the system calls for both. Measured:
/// ranks that share a core wait hundreds of polls for each other (`weft perf fence`, 8 ranks on two processors).
pub(crate) const ARM_LOADS_AFTER: u32 = 250;
/// A datagram port is armed after this many empty polls ... Picked.
pub(crate) const ARM_PORT_AFTER: u32 = 1024;
/// ... and of more than [`FEW_POLLED`] after this many: to ask the operating system for all at once is cheaper than to
/// poll each.
pub(crate) const ARM_PORTS_AFTER: u32 = 4;
/// When this many polls of an armed port found something and no thread has slept meanwhile, it is disarmed: the
/// operating system takes a wake-up for each datagram that comes and for each that has left, whether a thread waits or
/// not. Picked: arming again takes two or three system calls.
pub(crate) const DISARM_AFTER: u32 = 64;
/// While some connections are polled, and find something, epoll is polled for the others every this
/// many turns (epoll: listeners too). Picked.
pub(crate) const ASK_EVERY_TURNS: u32 = 32;
/// ... and when this much time has passed since, whatever was polled: a program that polls each millisecond would take
/// a listener's first call after 32 of them. Picked: turns that follow each other make 32 in a tenth of that.
pub(crate) const ASK_AFTER: Duration = Duration::from_micros(100);
/// While some datagram ports are polled, the same for the armed ones among them. Picked.
pub(crate) const ASK_PORTS_EVERY_TURNS: u32 = 8;
/// The clock is read once in this many turns while no thread sleeps and no lower layer measures time. Picked.
pub(crate) const CLOCK_EVERY_TURNS: u32 = 16;
/// How long the NIC may sleep through a part of a long answer: not for ever, should the peer send something else in the
/// middle of it. Picked.
pub(crate) const LONGEST_LOW_WATER: Duration = Duration::from_millis(10);

/// The datagram ports may be left unread for a connection when no other has used them for this long: a peer's small
/// message is not to wait for them. Picked: what a transfer takes before it counts as bulk.
pub(crate) const ALONE_AFTER: Duration = Duration::from_millis(16);

// --- posting

/// Requests that wait for each other ([`QueuePair::batch_doorbells`](crate::QueuePair::batch_doorbells)) go out
/// when this many wait. Picked: a system call for sixteen is a sixteenth of one for each.
pub(crate) const DOORBELL_BATCH: usize = 16;

// --- answering

/// A receipt that waits for the answer of the application saves this: what a message of its own costs its sender, less
/// than it costs both. Measured: a system call that sends 40 bytes takes 1.5 us and more (`perf trace -s`).
pub(crate) const HOLD_EARNS: Duration = Duration::from_micros(1);
/// An answer is soon if it comes this long after the message. Picked: two system calls of a slow virtual machine, of
/// which one sends the receipt while none waits.
pub(crate) const ANSWER_SOON: Duration = Duration::from_micros(25);
/// Answers that take that long in all earn before a receipt waits for the first time. Picked: four of them.
pub(crate) const HOLD_START: Duration = Duration::from_micros(4);
/// No more than this is kept of what was saved, for a program that changes ... Picked: as long as a caller may be away
/// before the NIC's thread sends what has waited, at best.
pub(crate) const HOLD_MOST: Duration = Duration::from_micros(100);
/// ... and of what was lost. Picked.
pub(crate) const HOLD_LEAST: Duration = Duration::from_millis(1);
