//! A NIC and a peer that says whatever bytes say: for fuzzing. Whatever comes, nothing panics, each posted request ends
//! exactly once, and no byte changes outside of what was granted.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::{Gather, MessageNumber, Random, Slice, Stag};
use weft_memory::{Access, Region};
use weft_mpa::{Extensions, MarkerSpacing, Offer};
use weft_nic::laboratory::Split;
use weft_nic::{QueuePairAttributes, Settings, Verify};
use weft_rdmap::{Operation, Payload, ReceiveRequest, RemoteTarget, RequestFlags, SendRequest};
use weft_wire::ddp::{Header, Target};

use crate::pair::with_split;
use crate::pipe::Behaviour;
use crate::raw::RawPeer;
use crate::raw::offer_of;
use crate::world::World;

const REGION: usize = 8192;
const FILL: u8 = 0x33;
const RECEIVES: u64 = 6;
const SENDS: u64 = 5;
/// Segments of one script; what follows is ignored.
const MOST_SEGMENTS: usize = 40;

/// Lets a peer send the segments that `bytes` describe to a NIC with requests of every kind in flight.
///
/// # Errors
/// What does not hold.
pub fn run_hostile(bytes: &[u8]) -> Result<(), String> {
    let (switches, script) = bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest));
    let bit = |n: u8| switches >> n & 1 == 1;
    let world = World::new(u64::from(switches), Behaviour::default());
    let settings = Settings {
        verify: if bit(0) { Verify::BeforePlace } else { Verify::LargeInPlace },
        direct_threshold: if bit(1) { 64 } else { 4096 },
        ..Settings::default()
    };
    let nic = world.nic(with_split(settings, Split::ALL[usize::from(switches >> 6)]));
    let text = |error: &dyn core::fmt::Display| error.to_string();
    let domain = nic.registry().allocate_domain().map_err(|e| text(&e))?;
    let completions = nic.create_completion_queue(32).map_err(|e| text(&e))?;
    let queue_pair = nic
        .create_queue_pair(&QueuePairAttributes {
            domain,
            send_completions: Arc::clone(&completions),
            receive_completions: Arc::clone(&completions),
            send_depth: 8,
            receive_depth: 8,
            shared_receives: None,
        })
        .map_err(|e| text(&e))?;
    let register = |access| nic.registry().register(domain, vec![FILL; REGION], access, 0).map_err(|e| text(&e));
    let exposed = register(Access::all())?;
    let private = register(Access::LOCAL_WRITE)?;
    let guard = register(Access::LOCAL_READ)?;
    for id in 0..RECEIVES {
        let sink = Gather::from(Slice { region: private.id(), offset: id * 200, length: 150 });
        nic.post_receive(&queue_pair, ReceiveRequest { id, sink }).map_err(|e| text(&e))?;
    }
    let offer = Offer {
        receive_markers: bit(2).then_some(MarkerSpacing::Standard),
        crc: true,
        extensions: if bit(3) { Extensions::all() } else { Extensions::none() },
        ..Offer::default()
    };
    let listener = nic.listen(SocketAddr::from(([127, 0, 0, 1], 0)), 1, offer_of(&offer)).map_err(|e| text(&e))?;
    let mut peer = RawPeer::connect(&world, listener.local_address()).map_err(|e| text(&e))?;
    let agreed =
        peer.start(&nic, Offer { receive_markers: bit(4).then_some(MarkerSpacing::Kilobyte), ..offer }, || {
            if let Ok(Some((request, _))) = listener.next_request() {
                // A refusal shows as a start-up that came to nothing.
                let _ = nic.accept(request, &queue_pair, b"", None);
            }
        });
    if agreed.is_none() {
        return Err("the start-up came to nothing".into());
    }
    let mut posted = RECEIVES;
    for id in RECEIVES..RECEIVES + SENDS {
        let request = SendRequest {
            id,
            operation: operation(id, &private),
            signaled: true,
            fence: false,
            flags: RequestFlags::NONE,
        };
        posted += u64::from(nic.post_send(&queue_pair, core::iter::once(request)).is_ok());
    }
    let mut talk = Talk { script, stag: exposed.stag(), sinks: Vec::new(), number: 1 };
    for _ in 0..MOST_SEGMENTS {
        let Some(segment) = talk.segment() else { break };
        peer.send_segment(&nic, &segment);
        world.run(&[&nic], Duration::from_millis(1), || false);
        while let Some(answer) = peer.poll_segment() {
            talk.learn(&answer);
        }
    }
    peer.close();
    world.run(&[&nic], Duration::from_secs(5), || queue_pair.state().has_ended());
    nic.destroy_queue_pair(&queue_pair);
    let mut seen = vec![0; (RECEIVES + SENDS) as usize];
    while let Some(completion) = completions.take() {
        *seen.get_mut(completion.id as usize).ok_or("a completion that nobody asked for")? += 1;
    }
    if seen.iter().any(|count| *count > 1) || seen.iter().sum::<u64>() != posted {
        return Err(format!("completions per request: {seen:?}, {posted} requests"));
    }
    check_filled(&guard, 0)?;
    // The private region holds receive buffers and read sinks in its first part only.
    check_filled(&private, 4096)
}

fn operation(id: u64, private: &Region) -> Operation {
    let sink = Slice { region: private.id(), offset: 2048 + id * 64, length: 64 };
    let target = RemoteTarget { stag: Stag(7), offset: 0 };
    match id % 3 {
        0 => Operation::Read { sink: Gather::from(sink), source: target },
        1 => Operation::Send { payload: Payload::Gather(Gather::from(sink)), solicited: false, invalidate: None },
        _ => Operation::Read { sink: Gather::from(sink.part(0, 8)), source: target },
    }
}

fn check_filled(region: &Region, from: usize) -> Result<(), String> {
    match region.to_vec()[from..].iter().position(|byte| *byte != FILL) {
        None => Ok(()),
        Some(at) => Err(format!("byte {} of {:?} was granted to nobody and has changed", from + at, region.id())),
    }
}

/// What the hostile peer says next.
struct Talk<'a> {
    script: &'a [u8],
    stag: Stag,
    /// STags of read sinks, as the NIC's requests have named them.
    sinks: Vec<u32>,
    number: u32,
}

impl Talk<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (first, rest) = self.script.split_at_checked(count)?;
        self.script = rest;
        Some(first)
    }

    /// A segment that is nearly right: a good one, with some of its bytes replaced.
    fn segment(&mut self) -> Option<Vec<u8>> {
        let &[control, kind, length, seed, damage] = self.take(5)?.first_chunk()?;
        let mut random = Random::new(u64::from(seed));
        let target = match kind % 8 {
            0 | 1 => Target::Tagged { stag: self.stag, offset: random.below(REGION as u64) },
            2 => {
                let sink = self.sinks.first().copied().unwrap_or(1);
                Target::Tagged { stag: Stag(sink), offset: random.below(64) / 8 * 8 }
            }
            3 => Target::Tagged { stag: Stag(random.next_u64() as u32), offset: random.next_u64() },
            queue => {
                let word = if random.one_in(2) { self.stag.0 } else { 0 };
                let number = MessageNumber(self.number);
                self.number += u32::from(kind & 0x40 == 0);
                Target::Untagged { word, queue: u32::from(queue % 4), number, offset: 0 }
            }
        };
        let header = Header { last: kind & 0x80 == 0, control: 0x40 | control & 0x0f, target };
        let mut bytes = vec![0; header.length()];
        header.emit(&mut bytes);
        let start = bytes.len();
        bytes.resize(start + usize::from(length) * if kind & 0x20 == 0 { 1 } else { 30 }, 0);
        random.fill(&mut bytes[start..]);
        self.refer(&mut bytes[start..], &mut random);
        if damage & 0x80 != 0 {
            let at = usize::from(damage & 0x7f) % bytes.len();
            bytes[at] ^= 1 << (seed % 8);
        }
        Some(bytes)
    }

    /// Makes a payload refer to the region that is granted, as read and atomic requests do.
    fn refer(&self, payload: &mut [u8], random: &mut Random) {
        let stag = self.stag.0.to_be_bytes();
        if payload.len() == 28 && random.one_in(2) {
            payload[12..16].copy_from_slice(&(random.below(REGION as u64) as u32).to_be_bytes());
            payload[16..20].copy_from_slice(&stag);
            payload[20..28].copy_from_slice(&random.below(100).to_be_bytes());
        }
        if payload.len() == 52 && random.one_in(2) {
            payload[3] = random.below(3) as u8;
            payload[8..12].copy_from_slice(&stag);
            payload[12..20].copy_from_slice(&(random.below(1000) * 8).to_be_bytes());
        }
    }

    /// Learns the sinks of the NIC's read requests.
    fn learn(&mut self, segment: &[u8]) {
        if let Ok(header) = Header::parse(segment)
            && matches!(header.target, Target::Untagged { queue: 1, .. })
            && let Some(sink) = segment.get(header.length()..header.length() + 4).and_then(<[u8]>::first_chunk)
        {
            self.sinks.push(u32::from_be_bytes(*sink));
        }
    }
}
