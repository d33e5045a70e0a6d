use super::*;

const CAPACITY: Capacity = match Capacity::new(64) {
    Some(capacity) => capacity,
    None => unreachable!(),
};

fn ends(block: &Block) -> (Producer<&Block>, Consumer<&Block>) {
    (Producer::new(block, CAPACITY), Consumer::new(block, CAPACITY))
}

fn available(bytes: usize, rest: Rest) -> Available {
    Available { bytes, rest }
}

#[test]
fn each_word_has_a_place_of_its_own() {
    assert_eq!(BLOCK_BYTES, 512);
    let block = Block::default();
    for (value, word) in (1..).zip(Word::ALL) {
        block.store(word, value);
    }
    for (value, word) in (1..).zip(Word::ALL) {
        assert_eq!(block.load(word), value);
    }
}

#[test]
fn capacities_are_powers_of_two_within_bounds() {
    for bytes in [64, 128, 1 << 24] {
        assert_eq!(Capacity::new(bytes).unwrap().bytes(), bytes as usize);
    }
    for bytes in [0, 32, 65, 100, 1 << 25, u32::MAX] {
        assert_eq!(Capacity::new(bytes), None, "{bytes}");
    }
}

#[test]
fn bytes_go_round_the_end_of_the_ring() {
    let block = Block::default();
    let (mut producer, mut consumer) = ends(&block);
    assert_eq!(producer.room(64), Ok(64));
    assert!(!producer.publish(48));
    assert_eq!(consumer.poll(), Ok(available(48, Rest::Open)));
    assert!(!consumer.consume(40));
    assert_eq!(producer.room(40), Ok(56));
    assert_eq!(producer.spans(40).0, [Span { offset: 48, length: 16 }, Span { offset: 0, length: 24 }]);
    assert!(!producer.publish(40));
    assert_eq!(producer.unread(), 48);
    consumer.poll().unwrap();
    assert_eq!(consumer.spans(48).0, [Span { offset: 40, length: 24 }, Span { offset: 0, length: 24 }]);
}

#[test]
fn the_end_comes_behind_the_last_byte_and_stays() {
    let block = Block::default();
    let (mut producer, mut consumer) = ends(&block);
    assert!(!producer.publish(3));
    assert!(!producer.end());
    assert_eq!(producer.room(1), Ok(0));
    for left in [3, 0] {
        assert_eq!(consumer.poll(), Ok(available(left, Rest::End)));
        assert!(!consumer.consume(left));
    }
    assert_eq!(consumer.sleep(1), Ok(false));
    for after in [0, 3, 4 | END, 2 | END] {
        block.store(Word::Produced, after);
        assert!(matches!(consumer.poll(), Err(Violation::AfterEnd { end: 3, .. })), "{after:x}");
    }
    assert!(!producer.abort());
    assert_eq!(consumer.poll().unwrap().rest, Rest::Broken);
    block.store(Word::Produced, 3);
    assert_eq!(consumer.poll().unwrap().rest, Rest::Broken);
}

#[test]
fn marks_are_reached_by_bytes_or_by_the_end() {
    let block = Block::default();
    let (mut producer, mut consumer) = ends(&block);
    assert_eq!(consumer.sleep(10), Ok(true));
    assert!(!producer.publish(9));
    assert!(producer.publish(1));
    assert!(!producer.publish(1), "a mark is taken away when it is reached");
    assert_eq!(consumer.sleep(11), Ok(false), "they are there already");
    assert_eq!(consumer.sleep(1000), Ok(true), "no more than half of the ring is waited for");
    assert!(!producer.publish(20));
    assert!(producer.publish(1));
    assert!(!producer.publish(32));
    assert!(!consumer.consume(0));
    assert_eq!(producer.sleep(5), Ok(true));
    assert!(!consumer.consume(4));
    assert!(consumer.consume(1));
    assert_eq!(producer.sleep(5), Ok(false));
    consumer.poll().unwrap();
    assert!(!consumer.consume(59));
    assert_eq!(consumer.sleep(64), Ok(true));
    assert!(producer.end());
    assert_eq!(producer.sleep(64), Ok(false), "nothing more is to be written");
}

#[test]
fn an_end_that_is_awake_is_not_woken() {
    let block = Block::default();
    let (mut producer, mut consumer) = ends(&block);
    assert_eq!(consumer.sleep(1), Ok(true));
    consumer.rise();
    assert!(!producer.publish(64));
    assert_eq!(producer.sleep(1), Ok(true));
    producer.rise();
    consumer.poll().unwrap();
    assert!(!consumer.consume(64));
}

#[test]
fn positions_that_jump_are_found() {
    let block = Block::default();
    let (mut producer, mut consumer) = ends(&block);
    assert!(!producer.publish(20));
    consumer.poll().unwrap();
    assert!(!consumer.consume(10));
    for said in [0, 19, 10 + 65, 1 << 61] {
        block.store(Word::Produced, said);
        assert_eq!(consumer.poll(), Err(Violation::Produced { said, least: 20, most: 74 }));
        assert!(consumer.sleep(1).is_err());
        assert_eq!(block.load(Word::ConsumerAwaits), 0);
    }
    assert_eq!(producer.room(64), Ok(54));
    assert!(!producer.publish(30));
    for said in [9, 51, u64::MAX] {
        block.store(Word::Consumed, said);
        assert_eq!(producer.room(64), Err(Violation::Consumed { said, least: 10, most: 50 }));
        assert!(producer.sleep(60).is_err());
        assert_eq!(block.load(Word::ProducerAwaits), 0);
    }
    assert_eq!(producer.room(24), Ok(24), "nobody asks while enough is known to be free");
}

#[test]
fn own_positions_are_not_read_back() {
    let block = Block::default();
    let (mut producer, mut consumer) = ends(&block);
    assert!(!producer.publish(20));
    block.store(Word::Produced, 7);
    assert_eq!((producer.unread(), producer.spans(1).0[0].offset), (20, 20));
    assert!(!producer.publish(1));
    assert_eq!(consumer.poll(), Ok(available(21, Rest::Open)));
    assert!(!consumer.consume(5));
    block.store(Word::Consumed, 21);
    assert_eq!((consumer.known().bytes, consumer.spans(1).0[0].offset), (16, 5));
}

#[test]
#[should_panic(expected = "65 bytes where 64 fit")]
fn more_than_fits_is_a_bug_of_the_caller() {
    let block = Block::default();
    let _ = ends(&block).0.spans(65);
}

#[test]
#[should_panic(expected = "1 bytes where 0 are")]
fn more_than_is_there_is_a_bug_of_the_caller() {
    let block = Block::default();
    let _ = ends(&block).1.consume(1);
}

#[test]
fn a_writer_that_waits_for_a_read_is_woken_by_the_first_byte() {
    let block = Block::default();
    let (mut producer, mut consumer) = ends(&block);
    assert_eq!(producer.sleep_until_read(), Ok(false), "nothing was written");
    assert!(!producer.publish(3));
    assert_eq!(producer.sleep_until_read(), Ok(true));
    consumer.poll().unwrap();
    assert!(consumer.consume(1));
    assert_eq!(producer.ask_unread(), Ok(2));
    assert_eq!(producer.sleep_until_read(), Ok(true));
    producer.rise();
    assert!(!consumer.consume(1), "who is awake is not woken");
    assert_eq!(producer.unread(), 2);
    assert_eq!(producer.sleep_until_read(), Ok(false), "it is read already");
    assert_eq!(producer.unread(), 1);
    block.store(Word::Consumed, 4);
    assert_eq!(producer.ask_unread(), Err(Violation::Consumed { said: 4, least: 2, most: 3 }));
    assert!(producer.sleep_until_read().is_err());
    assert_eq!(block.load(Word::ProducerAwaits), 0);
}
