use proptest::prelude::*;

use super::*;

const PART: RemotePart =
    RemotePart { stag: Stag(0x0102_0304), offset: 0x1112_1314_1516_1718, length: 0x2122_2324_2526_2728 };

fn check(record: &Record, body: &[u8], expected: &[u8]) {
    let mut bytes = [0xa5; 200];
    let length = record.emit(&mut bytes);
    assert_eq!(length, record.length());
    assert_eq!(&bytes[..length], expected, "{record:?}");
    assert!(bytes[length..].iter().all(|byte| *byte == 0xa5), "wrote past the head of {record:?}");
    bytes[length..length + body.len()].copy_from_slice(body);
    let whole = &bytes[..length + body.len()];
    assert_eq!(Record::parse(whole), Ok((record.clone(), length, body)));
    for shorter in 0..whole.len() {
        assert_eq!(Record::parse(&whole[..shorter]), Err(MessageError::Short), "{shorter} bytes of {record:?}");
    }
}

#[test]
fn exact_bytes_of_messages_both_ways() {
    let plain = Envelope { tag: None, data: None };
    let full = Envelope { tag: Some(0x3132_3334_3536_3738), data: Some(0x4142_4344_4546_4748) };
    check(&Record::Short { envelope: plain, acknowledge: None, length: 2 }, &[7, 8], &[1, 0, 0, 0, 0, 0, 0, 2]);
    check(
        &Record::Short { envelope: full, acknowledge: Some(0x5152_5354_5556_5758), length: 0 },
        &[],
        &[
            1, 7, 0, 0, 0, 0, 0, 0, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46,
            0x47, 0x48, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
        ],
    );
    check(
        &Record::Request {
            envelope: Envelope { tag: Some(9), data: None },
            id: 3,
            length: 4,
            delivery: true,
            source: [PART].into_iter().collect(),
        },
        &[],
        &[
            2, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4, 0x11, 0x12,
            0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
        ],
    );
}

#[test]
fn exact_bytes_of_a_message_in_pieces_both_ways() {
    let envelope = Envelope { tag: None, data: Some(9) };
    check(
        &Record::Start { envelope, acknowledge: Some(0x5152_5354_5556_5758), whole: 0x0102_0304_0506, length: 2 },
        &[7, 8],
        &[
            10, 6, 0, 0, 0, 0, 0, 2, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 9, 0x51, 0x52, 0x53, 0x54, 0x55,
            0x56, 0x57, 0x58,
        ],
    );
    check(&Record::More { length: 3 }, &[1, 2, 3], &[11, 0, 0, 0, 0, 0, 0, 3]);
}

#[test]
fn exact_bytes_of_answers_both_ways() {
    let id = 0x6162_6364_6566_6768;
    let id_bytes = [0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68];
    let with_id = |head: &[u8]| [head, &id_bytes].concat();
    let mut clear = with_id(&[3, 0, 1, 0]);
    clear.extend([0, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    clear.extend([0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]);
    check(&Record::Clear { id, sink_id: 5, sink: [PART].into_iter().collect() }, &[], &clear);
    check(&Record::Written { sink_id: id }, &[], &with_id(&[4, 0, 0, 0]));
    check(&Record::Taken { id, outcome: Outcome::Done }, &[], &with_id(&[5, 0, 0, 0]));
    check(&Record::Taken { id, outcome: Outcome::Refused }, &[], &with_id(&[5, 0, 1, 0]));
    check(&Record::Call { id, length: 3 }, &[1, 2, 3], &with_id(&[6, 0, 0, 0, 0, 0, 0, 3]));
    let answer = Record::Answer { id, outcome: Outcome::Refused, length: 1 };
    check(&answer, &[9], &with_id(&[7, 0, 1, 0, 0, 0, 0, 1]));
    check(&Record::Close, &[], &[8, 0, 0, 0]);
    check(&Record::CloseAnswer { agreed: true }, &[], &[9, 0, 0, 0]);
    check(&Record::CloseAnswer { agreed: false }, &[], &[9, 0, 1, 0]);
}

#[test]
fn exact_bytes_of_a_packet_header_both_ways() {
    for (class, code) in [(Class::Data, 0), (Class::Control, 1), (Class::Credits, 2)] {
        for flags in 0..8 {
            let [scarce, waited, doubled] = [1, 2, 4].map(|flag| flags & flag != 0);
            let header = PacketHeader { class, data_credits: 0x0102, control_credits: 0x0304, scarce, waited, doubled };
            let mut bytes = [0xa5; 10];
            header.emit(&mut bytes);
            assert_eq!(bytes, [1, code, 1, 2, 3, 4, flags, 0, 0xa5, 0xa5]);
            assert_eq!(PacketHeader::parse(&bytes), Ok(header));
            assert_eq!(PacketHeader::parse(&bytes[..7]), Err(MessageError::Short));
        }
    }
    assert_eq!(PacketHeader::parse(&[2, 0, 0, 0, 0, 0, 0, 0]), Err(MessageError::Version(2)));
    assert_eq!(PacketHeader::parse(&[1, 3, 0, 0, 0, 0, 0, 0]), Err(MessageError::Class(3)));
}

#[test]
fn what_there_is_not_is_refused() {
    let mut bytes = [0; 200];
    for kind in [0, 12, 255] {
        bytes[0] = kind;
        assert_eq!(Record::parse(&bytes).unwrap_err(), MessageError::Kind(kind));
    }
    bytes[..4].copy_from_slice(&[2, 0, 5, 0]);
    assert_eq!(Record::parse(&bytes).unwrap_err(), MessageError::Parts(5));
    bytes[..4].copy_from_slice(&[5, 0, 2, 0]);
    assert_eq!(Record::parse(&bytes).unwrap_err(), MessageError::Outcome(2));
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (any::<Option<u64>>(), any::<Option<u64>>()).prop_map(|(tag, data)| Envelope { tag, data })
}

fn parts() -> impl Strategy<Value = Parts> {
    let part = (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(stag, offset, length)| RemotePart {
        stag: Stag(stag),
        offset,
        length,
    });
    proptest::collection::vec(part, 0..=MAX_GATHER).prop_map(|parts| parts.into_iter().collect())
}

fn record() -> impl Strategy<Value = Record> {
    let outcome = || prop_oneof![Just(Outcome::Done), Just(Outcome::Refused)];
    prop_oneof![
        (envelope(), any::<Option<u64>>(), 0..300_u32).prop_map(|(envelope, acknowledge, length)| Record::Short {
            envelope,
            acknowledge,
            length
        }),
        (envelope(), any::<Option<u64>>(), any::<u64>(), 0..300_u32)
            .prop_map(|(envelope, acknowledge, whole, length)| Record::Start { envelope, acknowledge, whole, length }),
        (0..300_u32).prop_map(|length| Record::More { length }),
        (envelope(), any::<u64>(), any::<u64>(), any::<bool>(), parts()).prop_map(
            |(envelope, id, length, delivery, source)| Record::Request { envelope, id, length, delivery, source }
        ),
        (any::<u64>(), any::<u64>(), parts()).prop_map(|(id, sink_id, sink)| Record::Clear { id, sink_id, sink }),
        any::<u64>().prop_map(|sink_id| Record::Written { sink_id }),
        (any::<u64>(), outcome()).prop_map(|(id, outcome)| Record::Taken { id, outcome }),
        (any::<u64>(), 0..300_u32).prop_map(|(id, length)| Record::Call { id, length }),
        (any::<u64>(), outcome(), 0..300_u32).prop_map(|(id, outcome, length)| Record::Answer { id, outcome, length }),
        Just(Record::Close),
        any::<bool>().prop_map(|agreed| Record::CloseAnswer { agreed }),
    ]
}

proptest! {
    #[test]
    fn every_record_survives_the_wire(record in record(), fill: u8, after in 0..9_usize) {
        let mut bytes = vec![0xa5; record.length()];
        prop_assert!(record.length() <= MAX_HEAD_LENGTH);
        prop_assert_eq!(record.emit(&mut bytes), record.length());
        let body = vec![fill; record.body_length()];
        bytes.extend(&body);
        bytes.resize(bytes.len() + after, 0xa5);
        prop_assert_eq!(Record::parse(&bytes), Ok((record.clone(), record.length(), body.as_slice())));
    }

    #[test]
    fn any_bytes_parse_without_panic_and_what_parses_survives(first in 0..13_u8, mut bytes: Vec<u8>) {
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        let _ = PacketHeader::parse(&bytes);
        if let Ok((record, length, _)) = Record::parse(&bytes) {
            let mut again = vec![0xa5; MAX_HEAD_LENGTH + record.body_length()];
            prop_assert_eq!(record.emit(&mut again), length);
            prop_assert_eq!(Record::parse(&again).map(|(record, ..)| record), Ok(record));
        }
    }
}
