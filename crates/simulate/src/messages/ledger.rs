//! The requests of endpoints, their completions, and which completions are allowed.

use core::ops::Range;
use std::collections::{BTreeMap, HashMap};

use weft_base::{Random, Time};
use weft_nic::{Completed, EndpointFailure, Event, Level, Match, SendPost};

use super::party::{Name, Party, SLOT};
use super::{Arrivals, MessageBreak, MessageReport};
use crate::network::Tag;

/// Messages of at most this many bytes may be injected.
const INJECTED: u64 = 300;

/// The bytes of a message: its number, as far as there is room, and then what follows from it.
pub(super) fn content(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(number).fill(&mut bytes);
    if let Some(head) = bytes.first_chunk_mut() {
        *head = number.to_be_bytes();
    }
    bytes
}

/// A message that was sent.
pub(super) struct Message {
    from: Name,
    to: usize,
    tag: Option<u64>,
    data: Option<u64>,
    length: usize,
    /// How the send has ended.
    sent: Option<Result<(), EndpointFailure>>,
    is_delivered: bool,
    /// By which receive it was, and where in it.
    received: Option<(Name, u64, u64)>,
}

impl Message {
    pub(super) const fn new(from: Name, to: usize, post: &SendPost, length: usize) -> Self {
        let is_delivered = matches!(post.level, Level::Delivered);
        Self { from, to, tag: post.tag, data: post.data, length, is_delivered, sent: None, received: None }
    }
}

/// A receive.
pub(super) struct Posted {
    source: Option<usize>,
    matching: Option<Match>,
    many: bool,
    room: usize,
    /// Messages in it: which ones they are is checked when the buffer is back.
    got: Vec<Got>,
}

/// A message in a receive.
struct Got {
    from: Option<usize>,
    data: Option<u64>,
    tag: u64,
    offset: u64,
    /// Bytes that are there.
    length: u64,
    /// Bytes of the message.
    whole: u64,
}

impl Posted {
    pub(super) const fn new(source: Option<usize>, matching: Option<Match>, many: bool, room: usize) -> Self {
        Self { source, matching, many, room, got: Vec::new() }
    }

    fn takes(&self, message: &Message) -> bool {
        let tags = match (self.matching, message.tag) {
            (None, None) => true,
            (Some(matching), Some(tag)) => (matching.tag ^ tag) & !matching.ignore == 0,
            _ => false,
        };
        tags && self.source.is_none_or(|source| source == message.from.0)
    }
}

/// A write, read or atomic.
pub(super) struct OneSided {
    pub(super) writer: Name,
    pub(super) target: Name,
    pub(super) slot: usize,
    pub(super) act: Act,
    /// Which bytes of the slot.
    pub(super) place: Range<usize>,
    /// When it completes its effect can be seen.
    pub(super) check: bool,
    /// The target has seen its immediate data, if it has any.
    pub(super) reported: bool,
}

impl OneSided {
    const fn name(&self) -> SlotName {
        (self.writer, self.target, self.slot)
    }
}

pub(super) enum Act {
    Write,
    Read,
    /// What its result must be.
    Atomic {
        before: Option<Vec<u8>>,
    },
}

pub(super) enum Kind {
    /// The message.
    Send(u64),
    Receive(Posted),
    OneSided(OneSided),
}

impl Kind {
    /// Whether its target will see something of it.
    const fn is_awaited(&self) -> bool {
        match self {
            Self::Send(_) => true,
            Self::Receive(_) => false,
            Self::OneSided(one_sided) => !one_sided.reported,
        }
    }
}

/// A request to an endpoint.
pub(super) struct Request {
    pub(super) at: usize,
    kind: Kind,
    is_canceled: bool,
    is_over: bool,
}

/// Part of a window: its writer, its owner, and its number.
type SlotName = (Name, Name, usize);

/// What must be in it when nothing is in flight.
struct Slot {
    bytes: Vec<u8>,
    is_busy: bool,
    /// Something with it has failed: its content is unknown.
    is_lost: bool,
    /// Of each byte, whether its last write had only left when it completed, and nothing has shown since that it came.
    /// If its connection broke, it was lost without a word.
    unsure: Vec<bool>,
}

impl Slot {
    fn new() -> Self {
        Self { bytes: vec![0; SLOT], is_busy: false, is_lost: false, unsure: vec![false; SLOT] }
    }

    /// This was found in a place. Where it is not what should be there, it must be a byte that may have been lost.
    fn compare(&mut self, place: &Range<usize>, found: &[u8], expected: &[u8], how: &str) -> Result<(), String> {
        let unsure = &mut self.unsure[place.clone()];
        if found.len() != expected.len() || (0..found.len()).any(|at| found[at] != expected[at] && !unsure[at]) {
            return Err(how.into());
        }
        if found == expected {
            unsure.fill(false);
        } else {
            self.is_lost = true;
        }
        Ok(())
    }

    /// The same of all of it.
    fn compare_all(&mut self, found: &[u8], how: &str) -> Result<(), String> {
        let expected = self.bytes.clone();
        self.compare(&(0..SLOT), found, &expected, how)
    }
}

/// Everything that was requested.
pub(super) struct Ledger {
    pub(super) requests: BTreeMap<u64, Request>,
    pub(super) messages: Vec<Message>,
    slots: HashMap<SlotName, Slot>,
    contexts: u64,
    /// Whether requests may fail now.
    faults: bool,
    /// Whether they might before.
    had_faults: bool,
    sabotage: MessageBreak,
    report: MessageReport,
    /// Requests that are not over.
    under_way: usize,
    /// Of them, those that are no receives.
    active: usize,
    /// Messages and immediate data that have not arrived, though they were not canceled.
    missing: usize,
    /// Messages in receives that do not tell which ones they are.
    unknown: usize,
}

impl Ledger {
    pub(super) fn new(faults: bool, sabotage: MessageBreak) -> Self {
        Self {
            requests: BTreeMap::new(),
            messages: Vec::new(),
            slots: HashMap::new(),
            contexts: 0,
            faults,
            had_faults: faults,
            sabotage,
            report: MessageReport::default(),
            under_way: 0,
            active: 0,
            missing: 0,
            unknown: 0,
        }
    }

    // --- what is requested

    /// The context of the next request: later ones are greater.
    pub(super) const fn next_context(&mut self) -> u64 {
        self.contexts += 1;
        self.contexts
    }

    pub(super) fn add(&mut self, context: u64, at: usize, kind: Kind) {
        self.under_way += 1;
        self.active += usize::from(!matches!(kind, Kind::Receive(_)));
        self.missing += usize::from(kind.is_awaited());
        self.requests.insert(context, Request { at, kind, is_canceled: false, is_over: false });
    }

    /// The content of a slot, unless something is in flight with it.
    pub(super) fn free_slot(&mut self, name: SlotName) -> Option<Vec<u8>> {
        let slot = self.slots.entry(name).or_insert_with(Slot::new);
        (!slot.is_busy && !slot.is_lost).then(|| slot.bytes.clone())
    }

    /// Something is in flight with a slot, after which this is its content.
    pub(super) fn occupy(&mut self, context: u64, at: usize, one_sided: OneSided, bytes: Vec<u8>) {
        let slot = self.slots.entry(one_sided.name()).or_insert_with(Slot::new);
        (slot.bytes, slot.is_busy) = (bytes, true);
        self.add(context, at, Kind::OneSided(one_sided));
    }

    pub(super) fn note_canceled(&mut self, context: u64) {
        if let Some(request) = self.requests.get_mut(&context) {
            request.is_canceled = true;
        }
    }

    /// From now on nothing may fail.
    pub(super) const fn forbid_failures(&mut self) {
        self.faults = false;
    }

    // --- how far it is

    pub(super) fn open(&self) -> Vec<u64> {
        self.requests.iter().filter(|(_, request)| !request.is_over).map(|(context, _)| *context).collect()
    }

    pub(super) const fn is_over(&self) -> bool {
        self.under_way == 0
    }

    /// Whether only receives are in flight, and, with `all`, everything has been received.
    pub(super) const fn is_settled(&self, all: bool) -> bool {
        self.active == 0 && (!all || self.missing == 0)
    }

    pub(super) fn bytes_sent(&self) -> usize {
        self.messages.iter().map(|message| message.length).sum()
    }

    pub(super) fn describe(&self) -> String {
        let name = |context: &u64| match &self.requests[context].kind {
            Kind::Send(message) => {
                let Message { from, to, tag, length, received, .. } = &self.messages[*message as usize];
                format!("send {message} of {length} bytes from {from:?} to {to}, tag {tag:?}, received {received:?}")
            }
            Kind::Receive(Posted { source, matching, room, got, .. }) => {
                format!("receive of {room} bytes from {source:?}, {matching:?}, with {} in it", got.len())
            }
            Kind::OneSided(one_sided) => format!("one-sided by {:?} at {:?}", one_sided.writer, one_sided.target),
        };
        let open: Vec<String> = self.open().iter().map(|context| format!("{context}: {}", name(context))).collect();
        let lost = self.messages.iter().enumerate().filter(|(_, message)| message.received.is_none());
        let lost: Vec<usize> = lost.map(|(number, _)| number).collect();
        format!("{} missing of {lost:?}; {}", self.missing, open.join("; "))
    }

    // --- what comes of it

    /// Takes what has completed at one of them.
    pub(super) fn collect<T: Tag>(&mut self, party: &Party<T>, parties: &[Party<T>]) -> Result<(), String> {
        for event in party.take() {
            match self.sabotage {
                MessageBreak::LoseCompletion if event.last => self.sabotage = MessageBreak::Nothing,
                MessageBreak::DoubleCompletion if event.last && event.completed != Completed::RemoteWrite => {
                    self.sabotage = MessageBreak::Nothing;
                    let twin = Event { buffer: None, outcome: event.outcome.clone(), ..event };
                    self.take(party, parties, event)?;
                    self.take(party, parties, twin)?;
                }
                _ => self.take(party, parties, event)?,
            }
        }
        Ok(())
    }

    fn take<T: Tag>(&mut self, party: &Party<T>, parties: &[Party<T>], mut event: Event) -> Result<(), String> {
        if event.completed == Completed::RemoteWrite {
            return self.take_remote_write(party, &event);
        }
        let context = event.context;
        let Some(mut request) = self.requests.remove(&context) else {
            return Err(format!("a completion of request {context}, which there is not"));
        };
        let outcome = if request.is_over || request.at != party.name.0 {
            Err("it is over, or another endpoint's".into())
        } else {
            self.judge(&mut request, party, parties, &mut event)
        };
        let outcome = outcome.map_err(|text| format!("request {context}: {text}: {event:?}"));
        self.requests.insert(context, request);
        outcome
    }

    fn judge<T: Tag>(
        &mut self,
        request: &mut Request,
        party: &Party<T>,
        parties: &[Party<T>],
        event: &mut Event,
    ) -> Result<(), String> {
        let is_receive = matches!(request.kind, Kind::Receive(_));
        match &event.outcome {
            Ok(()) => {}
            Err(EndpointFailure::Canceled) if request.is_canceled => {}
            Err(EndpointFailure::Truncated { .. }) if is_receive => {}
            Err(_) if self.faults => {}
            Err(failure) => return Err(format!("it failed: {failure}")),
        }
        if request.is_canceled && event.last && event.outcome.is_ok() {
            return Err("it was canceled, and has succeeded".into());
        }
        match &mut request.kind {
            Kind::Send(message) => self.take_send(*message, event)?,
            Kind::Receive(posted) => self.take_receive(event.context, posted, party, event)?,
            Kind::OneSided(one_sided) => self.take_one_sided(one_sided, parties, event)?,
        }
        if event.last {
            request.is_over = true;
            self.under_way -= 1;
            self.active -= usize::from(!is_receive);
            match event.outcome {
                Ok(()) => self.report.succeeded += 1,
                Err(_) => self.report.failed += 1,
            }
        }
        Ok(())
    }

    fn take_send(&mut self, number: u64, event: &Event) -> Result<(), String> {
        let message = &mut self.messages[number as usize];
        if event.completed != Completed::Send || !event.last || event.tagged != message.tag.is_some() {
            return Err("not the completion of this send".into());
        }
        if event.length != message.length as u64 {
            return Err("another length than was sent".into());
        }
        message.sent = Some(event.outcome.clone());
        if event.outcome == Err(EndpointFailure::Canceled) {
            self.missing = self.missing.wrapping_sub(1);
        }
        self.check_back(event, || content(number, message_length(event)))
    }

    /// What was lent has come back as it was. A small message that was injected was copied, so its buffer is gone.
    fn check_back(&self, event: &Event, expected: impl FnOnce() -> Vec<u8>) -> Result<(), String> {
        match &event.buffer {
            Some(buffer) if **buffer == *expected() => Ok(()),
            Some(_) => Err("what was lent has changed".into()),
            None if self.faults || event.length <= INJECTED => Ok(()),
            None => Err("the memory that was lent did not come back".into()),
        }
    }

    fn take_receive<T: Tag>(
        &mut self,
        context: u64,
        posted: &mut Posted,
        party: &Party<T>,
        event: &mut Event,
    ) -> Result<(), String> {
        if event.completed != Completed::Receive || event.tagged != posted.matching.is_some() {
            return Err("not the completion of this receive".into());
        }
        if !posted.many && !event.last {
            return Err("more than one completion of a receive for one message".into());
        }
        let whole = match event.outcome {
            Ok(()) => Some(event.length),
            Err(EndpointFailure::Truncated { length, room }) if room == posted.room as u64 => Some(length),
            _ => None,
        };
        if let Some(whole) = whole {
            self.missing = self.missing.wrapping_sub(1);
            let from = event.peer.and_then(|peer| party.who(peer));
            let Event { data, tag, offset, length, .. } = *event;
            posted.got.push(Got { from, data, tag, offset, length, whole });
        }
        if !event.last {
            return Ok(());
        }
        self.falsify(posted, event);
        let buffer = event.buffer.as_deref();
        if buffer.map_or(!self.faults && posted.room > 0, |buffer| buffer.len() != posted.room) {
            return Err("the memory that was lent did not come back".into());
        }
        posted.got.iter().try_for_each(|got| self.note_received(context, posted, got, party.name, buffer))
    }

    fn falsify(&mut self, posted: &Posted, event: &mut Event) {
        if self.sabotage == MessageBreak::FlipByte
            && let Some(got) = posted.got.iter().find(|got| got.length > 8)
            && let Some(buffer) = &mut event.buffer
        {
            self.sabotage = MessageBreak::Nothing;
            buffer[got.offset as usize + 8] ^= 1;
        }
    }

    /// A receive is over, and this is one of the messages that it has got.
    fn note_received(
        &mut self,
        context: u64,
        posted: &Posted,
        got: &Got,
        at: Name,
        buffer: Option<&[u8]>,
    ) -> Result<(), String> {
        let bytes = buffer.map(|buffer| &buffer[got.offset as usize..][..got.length as usize]);
        let told = bytes.and_then(|bytes| bytes.first_chunk()).map(|head| u64::from_be_bytes(*head));
        let Some(number) = got.data.or(told) else {
            self.unknown += 1;
            return Ok(());
        };
        let Some(message) = self.messages.get_mut(number as usize) else {
            return Err(format!("a message {number} that nobody has sent"));
        };
        if message.to != at.0 || got.from.is_some_and(|from| from != message.from.0) || !posted.takes(message) {
            return Err(format!("message {number} does not belong there"));
        }
        if message.data != got.data || message.tag.unwrap_or(0) != got.tag || message.length as u64 != got.whole {
            return Err(format!("message {number} has changed its tag, its immediate data or its length"));
        }
        if bytes.is_some_and(|bytes| *bytes != content(number, message.length)[..bytes.len()]) {
            return Err(format!("message {number} has changed"));
        }
        if message.received.replace((at, context, got.offset)).is_some() {
            return Err(format!("message {number} was received twice"));
        }
        self.report.received += usize::from(got.whole == got.length);
        Ok(())
    }

    fn take_one_sided<T: Tag>(&mut self, done: &OneSided, parties: &[Party<T>], event: &Event) -> Result<(), String> {
        let slot = self.slots.get_mut(&done.name()).ok_or("a slot that there is not")?;
        let wanted = match done.act {
            Act::Write => Completed::Write,
            Act::Read => Completed::Read,
            Act::Atomic { .. } => Completed::Atomic,
        };
        if event.completed != wanted || !event.last {
            return Err("not the completion of this".into());
        }
        if event.outcome.is_err() {
            slot.is_lost = true;
            return Ok(());
        }
        slot.is_busy = !done.reported;
        match &done.act {
            Act::Read => {
                let bytes = event.buffer.as_deref().ok_or("the memory that was lent did not come back")?;
                let expected = slot.bytes[done.place.clone()].to_vec();
                slot.compare(&done.place, bytes, &expected, "something else was read than stands there")?;
            }
            Act::Atomic { before: Some(before) } => {
                let bytes = event.buffer.as_deref().ok_or("no result has come")?;
                slot.compare(&done.place, bytes, before, "something else stood there before")?;
            }
            // What it has made of unknown bytes is unknown.
            Act::Atomic { before: None } => {
                let rests_on_unsure = slot.unsure[done.place.clone()].contains(&true);
                slot.unsure[done.place.clone()].fill(rests_on_unsure);
            }
            Act::Write => slot.unsure[done.place.clone()].fill(!done.check && self.had_faults),
        }
        if slot.is_lost {
            return Ok(());
        }
        let target = &parties[done.target.0];
        if !done.check || target.name != done.target {
            return Ok(());
        }
        if self.sabotage == MessageBreak::FlipWindow {
            self.sabotage = MessageBreak::Nothing;
            slot.bytes[0] ^= 1;
        }
        slot.compare_all(&target.slot(done.writer, done.slot), "it is complete, and not there")
    }

    /// A peer's write with immediate data has come, which is the number of the request.
    fn take_remote_write<T: Tag>(&mut self, party: &Party<T>, event: &Event) -> Result<(), String> {
        let request = event.data.and_then(|context| self.requests.get_mut(&context));
        let Some(Request { kind: Kind::OneSided(done), is_over, .. }) = request else {
            return Err(format!("a write that nobody has done: {event:?}"));
        };
        let from = event.peer.and_then(|peer| party.who(peer));
        // Where no byte goes no STag is checked (RFC 5041 section 5.2): the endpoint that is there now takes it.
        let is_here = if done.place.is_empty() { done.target.0 == party.name.0 } else { done.target == party.name };
        if !is_here || from.is_some_and(|from| from != done.writer.0) || done.reported {
            return Err(format!("a write that was not done here, or is reported twice: {event:?}"));
        }
        done.reported = true;
        self.missing = self.missing.wrapping_sub(1);
        let slot = self.slots.get_mut(&done.name()).ok_or("a slot that there is not")?;
        slot.is_busy = !*is_over;
        if slot.is_lost || done.target != party.name {
            return Ok(());
        }
        let how = format!("a write is reported and not there: {event:?}");
        slot.compare_all(&party.slot(done.writer, done.slot), &how)
    }

    /// An endpoint is closed: nothing of it is in flight.
    pub(super) fn check_closed(&self, at: usize) -> Result<(), String> {
        match self.requests.iter().find(|(_, request)| request.at == at && !request.is_over) {
            None => Ok(()),
            Some((context, _)) => Err(format!("request {context} did not end when its endpoint was closed")),
        }
    }

    // --- at the end

    pub(super) fn check(mut self, now: Time) -> Result<MessageReport, String> {
        if !self.is_over() || (!self.had_faults && self.missing > 0) {
            return Err(format!("not everything has happened: {}", self.describe()));
        }
        for (number, message) in self.messages.iter().enumerate() {
            match (&message.sent, message.received) {
                (Some(Err(EndpointFailure::Canceled)), Some(_)) => {
                    return Err(format!("message {number} was canceled, and received"));
                }
                (Some(Ok(())), None) if self.unknown == 0 && (message.is_delivered || !self.had_faults) => {
                    return Err(format!("message {number} was delivered, and not received"));
                }
                _ => {}
            }
        }
        self.check_order()?;
        Ok(MessageReport { elapsed_ns: now.as_nanos(), ..self.report })
    }

    /// Of two messages that match alike the first went to the receive that was posted first, or to the place before in
    /// the same one.
    fn check_order(&mut self) -> Result<(), String> {
        let mut arrivals = Arrivals::new();
        for message in &self.messages {
            if let Some((to, context, offset)) = message.received {
                arrivals.entry((message.from, to, message.tag)).or_default().push((context, offset));
            }
        }
        if self.sabotage == MessageBreak::SwapMessages
            && let Some(places) = arrivals.values_mut().find(|places| places.first() < places.last())
        {
            places.reverse();
        }
        match arrivals.iter().find(|(_, places)| !places.is_sorted()) {
            None => Ok(()),
            Some((alike, places)) => Err(format!("messages {alike:?} have overtaken each other: {places:?}")),
        }
    }
}

fn message_length(event: &Event) -> usize {
    event.length as usize
}
