//! A sequence of operations on a pair, given by bytes: for fuzzing. Whatever the bytes say, nothing panics, each
//! request that was taken ends exactly once, and no byte outside of what was granted changes.

use core::time::Duration;
use std::collections::HashMap;

use weft_base::{Gather, Slice};
use weft_memory::{Access, Region};
use weft_mpa::MarkerSpacing;
use weft_nic::WorkCompletion;
use weft_nic::laboratory::Split;
use weft_rdmap::{
    AtomicCode, InlineBytes, MAX_INLINE, Operation, Payload, ReceiveRequest, RemoteTarget, RequestFlags, SendRequest,
    Status,
};

use crate::pair::{End, Pair, PairOptions};
use crate::pipe::Behaviour;
use crate::world::World;

const REGION: usize = 40_000;
const FILL: u8 = 0x5a;
/// Operations of one sequence; what follows is ignored.
const MOST_OPERATIONS: usize = 200;

/// What a sequence has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceReport {
    /// Requests that were taken.
    pub posted: usize,
    /// Requests that were reported as successful.
    pub succeeded: usize,
    /// Requests that were reported as failed.
    pub failed: usize,
}

/// Runs the sequence that `bytes` say.
///
/// # Errors
/// What does not hold.
pub fn run_sequence(bytes: &[u8]) -> Result<SequenceReport, String> {
    let mut script = Script(bytes);
    let behaviour = Behaviour {
        send_at_most: 1 + script.word() as usize,
        receive_at_most: 1 + script.word() as usize,
        capacity: 200 + script.word() as usize,
        ..Behaviour::default()
    };
    let switches = script.byte();
    let bit = |n: u8| switches >> n & 1 == 1;
    let world = World::new(u64::from(script.word()), behaviour);
    let mut options = PairOptions { depth: 1 + u32::from(script.byte() % 16), ..PairOptions::default() };
    options.active.mpa.markers = bit(0).then_some(MarkerSpacing::Standard);
    options.passive.mpa.markers = bit(1).then_some(MarkerSpacing::TwoKilobytes);
    options.active.mpa.crc = bit(2);
    options.passive.mpa.crc = bit(2);
    options.passive.mpa.extensions.atomics_and_immediates = bit(3);
    options.settings.verify = if bit(4) { weft_nic::Verify::BeforePlace } else { weft_nic::Verify::LargeInPlace };
    options.settings.direct_threshold = if bit(5) { 500 } else { 32 * 1024 };
    let splits = script.byte();
    options.splits = [splits, splits >> 2].map(|bits| Split::ALL[usize::from(bits & 3)]);
    let pair = Pair::<weft_base::Iwarp>::unconnected(&world, &options);
    if !pair.connect(&options) {
        return Err(format!("not connected: {:?}", pair.active.queue_pair.error()));
    }
    let mut sides = [Side::new(&pair.active)?, Side::new(&pair.passive)?];
    let ends = [&pair.active, &pair.passive];
    for _ in 0..MOST_OPERATIONS {
        let Some(code) = script.next() else { break };
        let at = usize::from(code & 1);
        let remote = sides[1 - at].exposed();
        match code >> 1 & 0x0f {
            0..=2 => sides[at].post_receive(ends[at], &mut script),
            3..=9 => sides[at].post_send(ends[at], remote, &mut script),
            10 => sides[at].lose_region(),
            11 => sides[at].invalidate(),
            12 => ends[at].nic.close(&ends[at].queue_pair),
            13 => sides[at].collect(ends[at])?,
            14 => world.set_behaviour(damaging(behaviour, script.byte())),
            _ => drop(pair.run(Duration::from_millis(u64::from(script.byte())), || false)),
        }
    }
    // What runs free may overflow a completion queue's room only by waiting, so it is taken while time passes.
    for _ in 0..20 {
        pair.run(Duration::from_millis(200), || false);
        sides[0].collect(ends[0])?;
        sides[1].collect(ends[1])?;
    }
    for (side, end) in sides.iter_mut().zip(ends) {
        end.nic.destroy_queue_pair(&end.queue_pair);
        side.collect(end)?;
        side.check()?;
    }
    Ok(SequenceReport {
        posted: sides.iter().map(|side| side.posted.len()).sum(),
        succeeded: sides.iter().map(|side| side.succeeded).sum(),
        failed: sides.iter().map(|side| side.failed).sum(),
    })
}

fn damaging(behaviour: Behaviour, how: u8) -> Behaviour {
    match how % 4 {
        0 => behaviour,
        1 => Behaviour { damage_one_in: 5000, ..behaviour },
        2 => Behaviour { break_after: Some(u64::from(how) * 100), ..behaviour },
        _ => Behaviour { segment_size: 300 + u32::from(how) * 10, ..behaviour },
    }
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }
}

struct Side {
    private: Region,
    exposed: Option<Region>,
    last_exposed: RemoteTarget,
    guard: Region,
    posted: HashMap<u64, (bool, usize)>,
    next_id: u64,
    succeeded: usize,
    failed: usize,
}

impl Side {
    fn new(end: &End) -> Result<Self, String> {
        let register = |access| {
            end.nic
                .registry()
                .register(end.domain, vec![FILL; REGION], access, 1 << 32)
                .map_err(|error| error.to_string())
        };
        let exposed = register(Access::all())?;
        Ok(Self {
            private: register(Access::LOCAL_WRITE)?,
            last_exposed: RemoteTarget { stag: exposed.stag(), offset: exposed.base() },
            exposed: Some(exposed),
            guard: register(Access::LOCAL_READ)?,
            posted: HashMap::new(),
            next_id: 1,
            succeeded: 0,
            failed: 0,
        })
    }

    fn exposed(&self) -> RemoteTarget {
        self.last_exposed
    }

    /// A slice of the private region, sometimes past its end, sometimes of the guard.
    fn slice(&self, script: &mut Script<'_>) -> Slice {
        let (offset, length) = (script.word() % 32_000, script.word() % 10_000);
        let region = if length % 31 == 30 { self.guard.id() } else { self.private.id() };
        Slice { region, offset: u64::from(offset), length: u32::from(length) }
    }

    fn post_receive(&mut self, end: &End, script: &mut Script<'_>) {
        let sink = Gather::from(self.slice(script));
        let id = self.next_id;
        if end.nic.post_receive(&end.queue_pair, ReceiveRequest { id, sink }).is_ok() {
            self.note(true);
        }
    }

    fn post_send(&mut self, end: &End, remote: RemoteTarget, script: &mut Script<'_>) {
        let how = script.byte();
        let slice = self.slice(script);
        let skew = u64::from(script.word());
        let target = RemoteTarget { stag: remote.stag, offset: remote.offset.wrapping_add(skew) };
        let payload = if how & 0x80 == 0 {
            Payload::Gather(Gather::from(slice))
        } else {
            let bytes: Vec<u8> = (0..how % (MAX_INLINE as u8 + 1)).collect();
            Payload::Inline(InlineBytes::new(&bytes).expect("no more than fit"))
        };
        let solicited = how & 0x40 != 0;
        let operation = match how % 8 {
            0 => Operation::Send { payload, solicited, invalidate: None },
            1 => Operation::Send { payload, solicited, invalidate: Some(remote.stag) },
            2 => Operation::Write { payload, target },
            3 => Operation::WriteImmediate { payload, target, immediate: skew, solicited },
            4 => Operation::Immediate { immediate: skew, solicited },
            5 => Operation::Read { sink: Gather::from(slice), source: target },
            6 => Operation::SendImmediate { payload, immediate: skew as u32, solicited },
            _ => Operation::Atomic {
                code: AtomicCode::FetchAdd,
                data: skew,
                mask: 0,
                compare: 0,
                compare_mask: u64::MAX,
                sink: Slice { length: 8, ..slice },
                target,
            },
        };
        let signaled = how & 0x20 != 0;
        let request =
            SendRequest { id: self.next_id, operation, signaled, fence: how & 0x10 != 0, flags: RequestFlags::NONE };
        if end.nic.post_send(&end.queue_pair, core::iter::once(request)).is_ok() {
            self.note(signaled);
        }
    }

    fn note(&mut self, signaled: bool) {
        self.posted.insert(self.next_id, (signaled, 0));
        self.next_id += 1;
    }

    fn lose_region(&mut self) {
        if let Some(region) = self.exposed.take()
            && let Err((region, _)) = region.deregister()
        {
            self.exposed = Some(region);
        }
    }

    fn invalidate(&self) {
        if let Some(region) = &self.exposed {
            region.invalidate();
        }
    }

    fn collect(&mut self, end: &End) -> Result<(), String> {
        let mut completions: Vec<WorkCompletion> = Vec::new();
        end.take_sends(&mut completions);
        end.take_receives(&mut completions);
        for completion in completions {
            let entry = self.posted.get_mut(&completion.id).ok_or("a completion of a request that was not taken")?;
            entry.1 += 1;
            match completion.status {
                Status::Success => self.succeeded += 1,
                _ => self.failed += 1,
            }
            if !entry.0 && completion.status == Status::Success {
                return Err(format!("request {} is not signaled, succeeded, and was reported", completion.id));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        for (id, (signaled, count)) in &self.posted {
            let allowed = if *signaled { 1..=1 } else { 0..=1 };
            if !allowed.contains(count) {
                return Err(format!("request {id} has {count} completions"));
            }
        }
        if self.guard.to_vec().iter().any(|byte| *byte != FILL) {
            return Err("a region that was granted to nobody has changed".into());
        }
        Ok(())
    }
}
