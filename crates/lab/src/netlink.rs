//! Messages of netlink to and from the kernel's packet queues (netlink(7); linux/netfilter/nfnetlink_queue.h).

use std::time::Duration;

/// AF_NETLINK, and the protocol NETLINK_NETFILTER.
pub(crate) const FAMILY: i32 = 16;
pub(crate) const PROTOCOL: i32 = 12;

/// `struct nlmsghdr`, and behind it `struct nfgenmsg`.
const HEADER: usize = 16;
const QUEUE_HEADER: usize = HEADER + 4;
/// `struct nlattr`.
const ATTRIBUTE: usize = 4;

/// NLMSG_ERROR, which is an acknowledgement too.
const ERROR: u16 = 2;
/// The number of the part of netfilter that has queues, in the upper half of a message's type.
const QUEUES: u16 = 3 << 8;
const PACKET: u16 = QUEUES;
const VERDICT: u16 = QUEUES | 1;
const CONFIG: u16 = QUEUES | 2;
/// NLM_F_REQUEST and NLM_F_ACK.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;

/// Attributes of a packet and of its verdict: NFQA_PACKET_HDR, _VERDICT_HDR, _TIMESTAMP, _IFINDEX_INDEV,
/// _IFINDEX_OUTDEV, _PAYLOAD, _CAP_LEN.
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const ARRIVAL: u16 = 4;
const FROM_INTERFACE: u16 = 5;
const TO_INTERFACE: u16 = 6;
const PAYLOAD: u16 = 10;
const WHOLE_LENGTH: u16 = 13;

/// Attributes of a configuration: NFQA_CFG_CMD, _PARAMS, _QUEUE_MAXLEN, _MASK, _FLAGS.
const COMMAND: u16 = 1;
const PARAMETERS: u16 = 2;
const MOST_PACKETS: u16 = 3;
const MASK: u16 = 4;
const FLAGS: u16 = 5;
/// NFQNL_CFG_CMD_BIND, NFQNL_COPY_PACKET, NFQA_CFG_F_GSO.
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const SUPER_PACKETS: u32 = 4;

/// The bits of an attribute's type that are no type: nested, and in network order.
const TYPE_MASK: u16 = 0x3fff;

/// What a queue is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Configuration {
    /// How many bytes of each packet are copied.
    pub(crate) copy: u32,
    /// Packets that may wait for a verdict.
    pub(crate) packets: u32,
    /// Whether several packets come as one, as segmentation offload hands them on. If not, the kernel cuts them.
    pub(crate) super_packets: bool,
}

/// A packet that waits for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queued<'a> {
    pub(crate) queue: u16,
    pub(crate) id: u32,
    /// The numbers of the interfaces by which it came and will leave; 0: none.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// When the kernel got it, by the clock of the day, since 1970; `None`: it did not note that.
    pub(crate) arrival: Option<Duration>,
    /// Its first bytes, from the header of IP on.
    pub(crate) bytes: &'a [u8],
    /// How many it has.
    pub(crate) length: usize,
}

/// What the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received<'a> {
    Packet(Queued<'a>),
    /// It has executed the request, or refused it with this number.
    Answer(i32),
    Other,
}

/// Becomes the queue's reader, and says what it is like: one message each, to be acknowledged one by one.
pub(crate) fn configure(queue: u16, configuration: Configuration) -> [Vec<u8>; 2] {
    let mut bind = Vec::new();
    message(&mut bind, CONFIG, REQUEST | ACKNOWLEDGE, queue, |bytes| {
        attribute(bytes, COMMAND, &[BIND, 0, 0, 0]);
    });
    let mut like = Vec::new();
    message(&mut like, CONFIG, REQUEST | ACKNOWLEDGE, queue, |bytes| {
        let [a, b, c, d] = configuration.copy.to_be_bytes();
        attribute(bytes, PARAMETERS, &[a, b, c, d, COPY_PACKET]);
        attribute(bytes, MOST_PACKETS, &configuration.packets.to_be_bytes());
        let flags = if configuration.super_packets { SUPER_PACKETS } else { 0 };
        attribute(bytes, MASK, &SUPER_PACKETS.to_be_bytes());
        attribute(bytes, FLAGS, &flags.to_be_bytes());
    });
    [bind, like]
}

/// Appends a verdict: whether a packet is forwarded, and with which bytes if not with its own.
pub(crate) fn verdict(to: &mut Vec<u8>, queue: u16, id: u32, goes_on: bool, changed: Option<&[u8]>) {
    message(to, VERDICT, REQUEST, queue, |bytes| {
        let mut header = [0; 8];
        header[..4].copy_from_slice(&u32::from(goes_on).to_be_bytes());
        header[4..].copy_from_slice(&id.to_be_bytes());
        attribute(bytes, VERDICT_HEADER, &header);
        if let Some(changed) = changed {
            attribute(bytes, PAYLOAD, changed);
        }
    });
}

fn message(to: &mut Vec<u8>, kind: u16, flags: u16, queue: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend_from_slice(&[0; 4]);
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(&flags.to_ne_bytes());
    // No number and no sender: the kernel answers the socket from which it came.
    to.extend_from_slice(&[0; 8]);
    // Any family, version 0.
    to.extend_from_slice(&[0; 2]);
    to.extend_from_slice(&queue.to_be_bytes());
    fill(to);
    let length = u32::try_from(to.len() - start).unwrap_or(u32::MAX);
    to[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(ATTRIBUTE + value.len()).unwrap_or(u16::MAX);
    to.extend_from_slice(&length.to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// The messages in what was received. What is cut short is left out.
pub(crate) fn parse(mut bytes: &[u8], mut take: impl FnMut(Received<'_>)) {
    while let Some((message, rest)) = split(bytes, HEADER, |bytes| u32_at(bytes, 0, u32::from_ne_bytes)) {
        take(read(message));
        bytes = rest;
    }
}

fn read(message: &[u8]) -> Received<'_> {
    match u16_at(message, 4, u16::from_ne_bytes) {
        Some(ERROR) => {
            u32_at(message, HEADER, u32::from_ne_bytes).map_or(Received::Other, |code| Received::Answer(-(code as i32)))
        }
        Some(PACKET) => packet(message).map_or(Received::Other, Received::Packet),
        _ => Received::Other,
    }
}

fn packet(message: &[u8]) -> Option<Queued<'_>> {
    let queue = u16_at(message, HEADER + 2, u16::from_be_bytes)?;
    let mut attributes = message.get(QUEUE_HEADER..)?;
    let (mut id, mut bytes, mut length) = (None, &[][..], None);
    let (mut from, mut to, mut arrival) = (0, 0, None);
    while let Some((attribute, rest)) =
        split(attributes, ATTRIBUTE, |bytes| u16_at(bytes, 0, u16::from_ne_bytes).map(u32::from))
    {
        let value = &attribute[ATTRIBUTE..];
        match u16_at(attribute, 2, u16::from_ne_bytes)? & TYPE_MASK {
            PACKET_HEADER => id = u32_at(value, 0, u32::from_be_bytes),
            FROM_INTERFACE => from = u32_at(value, 0, u32::from_be_bytes)?,
            TO_INTERFACE => to = u32_at(value, 0, u32::from_be_bytes)?,
            ARRIVAL => arrival = time(value),
            PAYLOAD => bytes = value,
            WHOLE_LENGTH => length = u32_at(value, 0, u32::from_be_bytes),
            _ => (),
        }
        attributes = rest;
    }
    let length = length.map_or(bytes.len(), |length| length as usize);
    Some(Queued { queue, id: id?, from, to, arrival, bytes, length })
}

/// `struct nfqnl_msg_packet_timestamp`: seconds and microseconds.
fn time(bytes: &[u8]) -> Option<Duration> {
    let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    Duration::from_secs(number(0)?).checked_add(Duration::from_micros(number(8)?))
}

/// The first piece, whose length is in its header, and what follows where the next one begins.
fn split(bytes: &[u8], header: usize, length: impl Fn(&[u8]) -> Option<u32>) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(length(bytes)?).ok().filter(|length| *length >= header)?;
    let piece = bytes.get(..length)?;
    Some((piece, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn u16_at(bytes: &[u8], at: usize, read: fn([u8; 2]) -> u16) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(read)
}

fn u32_at(bytes: &[u8], at: usize, read: fn([u8; 4]) -> u32) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        let mut received = Vec::new();
        parse(bytes, |one| received.push(format!("{one:?}")));
        received
    }

    fn packet_message(payload: &[u8], whole: Option<u32>) -> Vec<u8> {
        let mut bytes = Vec::new();
        message(&mut bytes, PACKET, 0, 7, |bytes| {
            attribute(bytes, PACKET_HEADER, &[0, 0, 1, 2, 8, 0, 2]);
            attribute(bytes, 99 | 0x8000, &[1]);
            attribute(bytes, ARRIVAL, &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9]);
            attribute(bytes, FROM_INTERFACE, &[0, 0, 0, 5]);
            attribute(bytes, TO_INTERFACE, &[0, 0, 1, 6]);
            attribute(bytes, PAYLOAD, payload);
            whole.into_iter().for_each(|whole| attribute(bytes, WHOLE_LENGTH, &whole.to_be_bytes()));
        });
        bytes
    }

    #[test]
    fn packets_and_answers_are_parsed() {
        let mut bytes = packet_message(&[5; 5], None);
        bytes.extend(packet_message(&[6; 4], Some(1500)));
        message(&mut bytes, ERROR, 0, 0, |_| ());
        let answer = bytes.len() - 4;
        bytes[answer..].copy_from_slice(&(-16_i32).to_ne_bytes());
        message(&mut bytes, 3, 0, 0, |_| ());
        let queued = |bytes, length| {
            let arrival = Some(Duration::new(3, 9000));
            let packet = Queued { queue: 7, id: 0x102, from: 5, to: 0x106, arrival, bytes, length };
            format!("{:?}", Received::Packet(packet))
        };
        let wanted = [queued(&[5; 5], 5), queued(&[6; 4], 1500), "Answer(16)".to_owned(), "Other".to_owned()];
        assert_eq!(all(&bytes), wanted);
    }

    #[test]
    fn what_is_cut_short_or_wrong_is_no_packet() {
        let whole = packet_message(&[5; 5], Some(9));
        for length in 0..whole.len() {
            assert!(all(&whole[..length]).is_empty(), "{length}");
            let mut wrong = whole.clone();
            wrong[..4].copy_from_slice(&(length as u32).to_ne_bytes());
            // Whatever the length says, it ends.
            all(&wrong);
        }
        let mut nothing = Vec::new();
        message(&mut nothing, PACKET, 0, 7, |_| ());
        assert_eq!(all(&nothing), ["Other"]);
    }

    #[test]
    fn a_time_that_is_none_is_not_there() {
        assert_eq!(time(&[0; 16]), Some(Duration::ZERO));
        assert_eq!(time(&[0; 15]), None);
        assert_eq!(time(&[0xff; 16]), None);
    }

    #[test]
    fn verdicts_and_configurations_have_their_bytes() {
        let mut bytes = Vec::new();
        verdict(&mut bytes, 3, 0x01020304, true, Some(&[9; 3]));
        let head = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(bytes[..4], 40u32.to_ne_bytes());
        assert_eq!(bytes[4..8], [VERDICT.to_ne_bytes(), 1u16.to_ne_bytes()].concat());
        assert_eq!(bytes[8..20], head);
        assert_eq!(bytes[20..24], [12u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat());
        assert_eq!(bytes[24..32], [0, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(bytes[32..36], [7u16.to_ne_bytes(), 10u16.to_ne_bytes()].concat());
        assert_eq!(bytes[36..], [9, 9, 9, 0]);
        let [bind, like] = configure(3, Configuration { copy: 128, packets: 1000, super_packets: true });
        assert_eq!((bind.len(), like.len()), (28, 56));
        assert_eq!(bind[24..], [1, 0, 0, 0]);
        assert_eq!(like[24..32], [0, 0, 0, 128, 2, 0, 0, 0]);
        assert_eq!(like[52..], [0, 0, 0, 4]);
    }
}
