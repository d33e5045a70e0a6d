//! A program that ends right behind a transfer, as programs do: what its peer has sent it last has arrived, and the
//! peer is told. Over Edge, where no kernel acknowledges in the name of a program that has ended.

use core::time::Duration;

use weft_base::{Edge, Gather, Slice};
use weft_memory::{Access, Region};
use weft_rdmap::{Operation, Payload, ReceiveRequest, RequestFlags, SendRequest, Status};
use weft_simulate::{Behaviour, End, Pair, PairOptions, World};

const BYTES: u32 = 100_000;

fn region(end: &End<Edge>) -> Region {
    end.nic.registry().register(end.domain, vec![7; BYTES as usize], Access::all(), 0).unwrap()
}

fn send(end: &End<Edge>, region: &Region, id: u64, length: u32) {
    let payload = Payload::Gather(Gather::from(Slice { region: region.id(), offset: 0, length }));
    let operation = Operation::Send { payload, solicited: false, invalidate: None };
    let request = SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
    end.nic.post_send(&end.queue_pair, [request]).unwrap();
}

fn receive(end: &End<Edge>, region: &Region, id: u64) {
    let sink = Gather::from(Slice { region: region.id(), offset: 0, length: BYTES });
    end.nic.post_receive(&end.queue_pair, ReceiveRequest { id, sink }).unwrap();
}

/// The sender of bulk gets the receiver's last word and ends: before the acknowledgement of that was due, or, `unread`,
/// while the word lay in its port.
fn last_word_completes(unread: bool) {
    let options = PairOptions::default();
    let pair = Pair::<Edge>::unconnected(&World::new(75, Behaviour::default()), &options);
    assert!(pair.connect(&options));
    let (sender, receiver) = (&pair.active, &pair.passive);
    let [mine, theirs] = [sender, receiver].map(region);
    receive(sender, &mine, 1);
    (0..32).for_each(|id| receive(receiver, &theirs, id));
    (0..32).for_each(|id| send(sender, &mine, id, BYTES));
    let mut done = Vec::new();
    let is_over = pair.run(Duration::from_secs(1), || {
        sender.take_sends(&mut done);
        receiver.take_receives(&mut done);
        done.len() == 64
    });
    assert!(is_over && done.iter().all(|completion| completion.status == Status::Success), "{done:?}");
    // Nothing is under way, and no acknowledgement is due.
    pair.run(Duration::from_millis(100), || false);
    send(receiver, &theirs, 0, 8);
    let mut words = Vec::new();
    if unread {
        pair.world.run(&[&receiver.nic], Duration::from_micros(500), || false);
    } else {
        assert!(pair.run(Duration::from_millis(100), || {
            sender.take_receives(&mut words);
            !words.is_empty()
        }));
    }
    sender.nic.shut_down();
    done.clear();
    pair.world.run(&[&receiver.nic], Duration::from_secs(10), || {
        receiver.take_sends(&mut done);
        !done.is_empty()
    });
    let ends: Vec<_> = done.iter().map(|completion| (completion.id, completion.status)).collect();
    assert_eq!(ends, [(0, Status::Success)], "unread: {unread}, {:?}", receiver.queue_pair.error());
}

#[test]
fn the_last_word_to_a_program_that_ends_completes() {
    last_word_completes(false);
}

#[test]
fn the_last_word_completes_that_a_program_which_ends_has_left_unread() {
    last_word_completes(true);
}
