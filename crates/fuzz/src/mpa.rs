//! `weft-mpa` on a stream that is cut anywhere and holds anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use weft_base::{Random, StreamPosition};
use weft_mpa::{
    Agreement, Deframer, Extensions, FrameError, Framer, Initiator, MarkerSpacing, Offer, Peek, ReadyKinds,
    Reassembler, ReassemblerLimits, Responder, StartFailure, Step,
};

/// The longest header that is read before a frame is whole.
const HEAD: usize = 96;

/// The first two bytes choose; the rest is used three times. As the peer's side of a start-up, brought whole and in
/// growing prefixes. As a stream of FPDUs, brought whole and cut. And as the sizes and cuts of a well-formed stream,
/// which must come out as it went in, or, damaged in one bit, must not come out damaged where a CRC protects it.
pub fn mpa_stream(data: &[u8]) {
    let [choices, damage, rest @ ..] = data else { return };
    let choices = Choices(*choices);
    start_up(choices, rest);
    any_stream(choices, rest);
    own_stream(choices, *damage, rest);
}

/// Eight switches.
#[derive(Clone, Copy)]
struct Choices(u8);

impl Choices {
    fn is_set(self, bit: u8) -> bool {
        self.0 >> bit & 1 == 1
    }

    fn markers(self) -> Option<MarkerSpacing> {
        self.is_set(0).then_some(match (self.is_set(5), self.is_set(6)) {
            (false, _) => MarkerSpacing::Standard,
            (true, false) => MarkerSpacing::Kilobyte,
            (true, true) => MarkerSpacing::TwoKilobytes,
        })
    }

    fn crc(self) -> bool {
        self.is_set(1)
    }

    fn damaged(self) -> bool {
        self.is_set(2)
    }

    fn offer(self) -> Offer {
        let peer_to_peer = self.is_set(4) && self.is_set(5);
        Offer {
            receive_markers: self.markers(),
            crc: self.crc(),
            revision: if self.is_set(4) { 2 } else { 1 },
            ready_to_receive: peer_to_peer.then(ReadyKinds::all),
            negotiate_depths: !self.is_set(6),
            extensions: if self.is_set(7) { Extensions::all() } else { Extensions::none() },
            ..Offer::default()
        }
    }
}

fn start_up(choices: Choices, bytes: &[u8]) {
    let outcome = |bytes: &[u8]| if choices.is_set(3) { initiate(choices, bytes) } else { respond(choices, bytes) };
    let whole = outcome(bytes);
    for length in (0..bytes.len()).step_by(1 + bytes.len() / 20) {
        let early = outcome(&bytes[..length]);
        assert!(early == whole || early == Outcome::More, "a prefix says {early:?}, the whole {whole:?}");
    }
}

/// What a start-up came to, and how many bytes it took.
#[derive(Debug, PartialEq)]
enum Outcome {
    More,
    Agreed(Box<Agreement>, usize),
    Failed,
}

fn initiate(choices: Choices, bytes: &[u8]) -> Outcome {
    let Ok((initiator, _)) = Initiator::start(choices.offer(), b"hello") else { return Outcome::More };
    match initiator.handle(bytes) {
        Step::More(_) => Outcome::More,
        Step::Done((agreement, length)) => agreed(agreement, length),
        Step::Failed(failure) => failed(&failure, bytes),
    }
}

fn respond(choices: Choices, bytes: &[u8]) -> Outcome {
    match Responder::new(choices.offer()).handle(bytes) {
        Step::More(_) => Outcome::More,
        Step::Done((request, length)) => match request.accept(b"hello") {
            Ok((agreement, _)) => agreed(agreement, length),
            Err((_, misuse)) => panic!("five bytes of private data always fit: {misuse}"),
        },
        Step::Failed(failure) => failed(&failure, bytes),
    }
}

fn agreed(agreement: Agreement, length: usize) -> Outcome {
    assert!(agreement.private_data().len() + 20 <= length);
    Outcome::Agreed(Box::new(agreement), length)
}

/// What is said about a wrong key may change with more of it in sight; that it is wrong may not.
fn failed(failure: &StartFailure, bytes: &[u8]) -> Outcome {
    assert_eq!(failure.terminate_code().is_some(), failure.terminate_framer().is_some());
    assert!(!bytes.is_empty(), "nothing came, and nothing was waited for");
    assert!(!failure.to_string().is_empty());
    Outcome::Failed
}

/// What came out of a stream: the ULPDUs, where it stopped, and why.
#[derive(Debug, PartialEq)]
struct Received {
    ulpdus: Vec<Vec<u8>>,
    stopped: StreamPosition,
    error: Option<FrameError>,
}

/// Deframes a stream that arrives in pieces of the given sizes, over and over, and larger ones the more has come.
fn receive(markers: Option<MarkerSpacing>, crc: bool, bytes: &[u8], cuts: &[u8]) -> Received {
    let mut deframer = Deframer::new(markers, crc);
    let mut received = Received { ulpdus: Vec::new(), stopped: StreamPosition(0), error: None };
    let mut sizes = cuts.iter().map(|cut| usize::from(*cut) + 1).cycle();
    let mut arrived = 0;
    while received.error.is_none() && arrived < bytes.len() {
        arrived = bytes.len().min(arrived + arrived / 32 + sizes.next().unwrap_or(bytes.len()));
        received.error = take_whole_frames(&mut deframer, &bytes[..arrived], &mut received.ulpdus).err();
    }
    received.stopped = deframer.position();
    received
}

fn take_whole_frames(deframer: &mut Deframer, arrived: &[u8], ulpdus: &mut Vec<Vec<u8>>) -> Result<(), FrameError> {
    loop {
        let bytes = &arrived[deframer.position().0 as usize..];
        let head = match deframer.peek(bytes)? {
            Peek::More { at_least } => {
                assert!(at_least > bytes.len(), "asked for bytes that are there");
                return Ok(());
            }
            Peek::Head(head) => head,
        };
        assert_eq!(head.end.since(head.start), head.wire_length as u64);
        let mut scratch = [0xa5; HEAD];
        let early = head.head(bytes, &mut scratch).to_vec();
        let Some(frame) = deframer.frame(&head, bytes) else {
            assert!(bytes.len() < head.wire_length);
            return Ok(());
        };
        frame.verify()?;
        let ulpdu = frame.ulpdu().collect::<Vec<_>>().concat();
        assert_eq!(ulpdu.len(), head.ulpdu_length as usize);
        assert_eq!(early, ulpdu[..HEAD.min(ulpdu.len())], "the header that was seen before the frame was whole");
        assert!(frame.contiguous().is_none_or(|whole| whole == ulpdu));
        assert!(frame.contiguous().is_some() || !head.is_contiguous());
        ulpdus.push(ulpdu);
        deframer.advance(&head);
    }
}

fn any_stream(choices: Choices, bytes: &[u8]) {
    let (markers, crc) = (choices.markers(), choices.crc());
    let whole = receive(markers, crc, bytes, &[]);
    let cut = receive(markers, crc, bytes, bytes.get(..8).unwrap_or(&[0]));
    assert_eq!(whole, cut, "a cut changed what came out");
}

/// The most bytes of a stream of our own making; now and then it is long enough for FPDUs of every size.
const SHORT_STREAM: usize = 6_000;
const LONG_STREAM: usize = 200_000;

/// What ULPDUs are made of: bytes that do not repeat, so that a piece in the wrong place shows.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut noise = vec![0; 1 << 17];
    Random::new(1).fill(&mut noise);
    noise
});

fn own_stream(choices: Choices, damage: u8, script: &[u8]) {
    let (markers, crc) = (choices.markers(), choices.crc());
    let longest = if damage >= 0xfc { LONG_STREAM } else { SHORT_STREAM };
    let mut framer = Framer::new(markers, crc);
    let (mut stream, mut sent) = (Vec::new(), Vec::new());
    for (at, size) in script.chunks_exact(2).take(24).enumerate() {
        // Mostly small, sometimes as large as they come.
        let size = u32::from(u16::from_be_bytes([size[0], size[1]]) >> (at % 3 * 4)).min(Framer::LARGEST_ULPDU);
        let ulpdu = NOISE[at..at + size as usize].to_vec();
        let start = stream.len();
        if start + size as usize > longest {
            continue;
        }
        let layout = framer.frame(size);
        stream.resize(start + layout.length(), 0xa5);
        let (header, mut payload) = ulpdu.split_at(ulpdu.len().min(18));
        if layout.write(header, &mut payload, &mut stream[start..]).is_err() {
            unreachable!("bytes in memory cannot fail");
        }
        sent.push(ulpdu);
    }
    if stream.is_empty() {
        return;
    }
    if choices.damaged() {
        let at = stream.len() * usize::from(damage) / 256;
        stream[at] ^= 1 << (damage % 8);
    }
    let received = receive(markers, crc, &stream, script);
    if !choices.damaged() {
        assert_eq!(received.error, None);
        assert_eq!(received.stopped, framer.position());
        assert_eq!(received.ulpdus, sent, "a stream did not come out as it went in");
    } else if crc {
        // One bit is never enough to fool a CRC, but a length field that says too much waits for more.
        assert!(received.ulpdus.len() < sent.len(), "damage went unseen");
        assert!(sent.starts_with(&received.ulpdus), "damage was delivered");
    }
}

/// Start-ups and streams of both kinds.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for choices in 0..=u8::MAX {
        let offer = Choices(choices).offer();
        let mut seed = vec![choices, 0x55];
        let Ok((_, request)) = Initiator::start(offer, b"hello") else { continue };
        let Step::Done((answer, _)) = Responder::new(offer).handle(&request) else { continue };
        match answer.accept(b"hello") {
            Ok((_, reply)) if Choices(choices).is_set(3) => seed.extend(reply),
            _ => seed.extend(request),
        }
        seeds.push(seed);
        let mut stream = vec![choices, choices.wrapping_mul(37)];
        let mut framer = Framer::new(Choices(choices).markers(), Choices(choices).crc());
        for size in [0, 1, 18, 600] {
            let layout = framer.frame(size);
            let start = stream.len();
            stream.resize(start + layout.length(), 0);
            let payload = vec![choices; size as usize];
            if layout.write(&[], &mut payload.as_slice(), &mut stream[start..]).is_err() {
                unreachable!("bytes in memory cannot fail");
            }
        }
        seeds.push(stream);
    }
    seeds
}

/// The first byte chooses, the second damages, the rest are lengths of FPDUs, and in which order and cuts they come;
/// or, now and then, the stream itself. No FPDU is delivered twice, and none that was not sent.
pub fn mpa_reassembler(data: &[u8]) {
    let [choices, damage, rest @ ..] = data else { return };
    let choices = Choices(*choices);
    let mut framer = Framer::new(choices.markers(), true);
    let (mut stream, mut sent) = (Vec::new(), BTreeMap::new());
    for byte in rest {
        let layout = framer.frame(u32::from(*byte) * 9);
        let ulpdu = vec![*byte; layout.ulpdu_length() as usize];
        let start = stream.len();
        stream.resize(start + layout.length(), 0);
        let Ok(()) = layout.write(&[], &mut &ulpdu[..], &mut stream[start..]);
        sent.insert(layout.start(), ulpdu);
    }
    let at = rest.len() * usize::from(*damage);
    if choices.damaged() && at < stream.len() {
        stream[at] ^= 1 << (damage % 8);
    }
    if choices.is_set(3) {
        stream = rest.to_vec();
    }
    let limits = ReassemblerLimits { bytes: usize::from(*damage) * 10, ranges: 3 + rest.len() % 20 };
    let mut reassembler = Reassembler::new(choices.markers(), choices.crc(), limits);
    let mut found = BTreeSet::new();
    // Any order: the bytes say which part is next. Then all, until nothing more comes.
    let cut = 1 + stream.len() / (1 + rest.len() % 7);
    let jumps = rest.iter().map(|byte| usize::from(*byte) * stream.len() / 256);
    for start in jumps.chain((0..stream.len()).step_by(cut)).chain(core::iter::once(0)) {
        let end = if start == 0 { stream.len() } else { stream.len().min(start + cut) };
        let taken = reassembler.take(StreamPosition(start as u64), &stream[start..end], &mut |range, frame| {
            assert!(found.insert(range.start), "{range:?} is handed up twice");
            if choices.crc() && !choices.is_set(3) {
                assert_eq!(sent.get(&range.start), Some(&frame.ulpdu().flatten().copied().collect()));
            }
        });
        if taken.is_err() {
            return;
        }
    }
    assert!(choices.damaged() || choices.is_set(3) || reassembler.held() == 0 || found.len() < sent.len());
}
