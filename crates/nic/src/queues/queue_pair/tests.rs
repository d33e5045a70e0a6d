//! What of a queue pair needs no engine.

use weft_rdmap::Payload;

use super::*;
use crate::queues::completion_queue::CompletionSink;

fn attributes(completions: Arc<CompletionQueue>, shared_receives: Option<Arc<ReceiveQueue>>) -> QueuePairAttributes {
    QueuePairAttributes {
        domain: DomainId(1),
        send_completions: Arc::clone(&completions),
        receive_completions: completions,
        send_depth: 16,
        receive_depth: 2,
        shared_receives,
    }
}

#[test]
fn a_queue_pair_is_guarded_and_a_message_endpoints_only_if_that_is_said() {
    let event_count = Arc::new(EventCount::default());
    let completions = Arc::new(CompletionQueue::new(4, Arc::clone(&event_count)));
    let attributes = attributes(completions, None);
    let make = || QueuePair::new(QueuePairNumber(1), &attributes, Arc::clone(&event_count));
    assert!(!make().is_guarded() && make().upper().is_none());
    assert!(make().guarded(true).is_guarded() && !make().guarded(false).is_guarded());
    let upper = UpperId { endpoint: 1, link: crate::ids::LinkKey(2), id: 3 };
    let both = make().with_upper(upper).guarded(true);
    assert!(both.is_guarded() && both.upper().is_some());
}

#[test]
fn reads_and_atomics_wait_for_each_other_sooner_than_others() {
    let event_count = Arc::new(EventCount::default());
    let completions = Arc::new(CompletionQueue::new(4, Arc::clone(&event_count)));
    let attributes = attributes(completions, None);
    let queue_pair = QueuePair::new(QueuePairNumber(1), &attributes, event_count);
    let request = |operation| {
        let flags = weft_rdmap::RequestFlags::NONE;
        SendRequest { id: 0, operation, signaled: false, fence: false, flags }
    };
    let there = weft_rdmap::RemoteTarget { stag: weft_base::Stag(1), offset: 0 };
    let read = request(Operation::Read { sink: weft_base::Gather::empty(), source: there });
    let write = request(Operation::Write { payload: Payload::Gather(weft_base::Gather::empty()), target: there });
    let wait = |under_way| {
        queue_pair.sends_under_way.store(under_way, Ordering::Relaxed);
        [&read, &write].map(|request| queue_pair.may_wait(request))
    };
    assert_eq!([0, 1, 8, 100].map(wait), [[false; 2]; 4], "nothing waits at first");
    queue_pair.batch_doorbells(8);
    assert_eq!([0, 1, 7, 8].map(wait), [[false, false], [true, false], [true, false], [true, true]]);
}

#[derive(Default)]
struct Told {
    ids: std::sync::Mutex<Vec<u64>>,
    ended: AtomicUsize,
}

impl CompletionSink for Told {
    fn complete(&self, completion: WorkCompletion) {
        self.ids.lock().unwrap().push(completion.id);
    }

    fn connection_ended(&self, _queue_pair: QueuePairNumber) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_sink_has_room_for_all_and_is_told_of_the_end() {
    let (event_count, told) = (Arc::new(EventCount::default()), Arc::new(Told::default()));
    let sink = Arc::clone(&told) as Arc<dyn CompletionSink>;
    let completions = Arc::new(CompletionQueue::into_sink(sink, Arc::clone(&event_count)));
    assert!(completions.reserve(usize::MAX) && completions.reserve(usize::MAX));
    completions.release(usize::MAX);
    let attributes = QueuePairAttributes {
        domain: DomainId(1),
        send_completions: Arc::clone(&completions),
        receive_completions: Arc::clone(&completions),
        send_depth: 2,
        receive_depth: 2,
        shared_receives: None,
    };
    let queue_pair = QueuePair::new(QueuePairNumber(1), &attributes, event_count);
    queue_pair.complete_receive(flushed(5, CompletionKind::Receive));
    assert!(completions.is_empty() && completions.take().is_none(), "it keeps nothing");
    queue_pair.finish(&Registry::new(1, weft_memory::Limits::default()), None);
    assert_eq!((&told.ids.lock().unwrap()[..], told.ended.load(Ordering::Relaxed)), (&[5][..], 1));
}

#[test]
fn places_of_shared_receives_move_only_between_queues_that_have_some() {
    let event_count = Arc::new(EventCount::default());
    let queue = || Arc::new(CompletionQueue::new(4, Arc::clone(&event_count)));
    let sink = || Arc::new(CompletionQueue::into_sink(Arc::new(Told::default()), Arc::clone(&event_count)));
    let moves = |shared: Arc<CompletionQueue>, own: Arc<CompletionQueue>| {
        let attributes = attributes(own, Some(Arc::new(ReceiveQueue::new(DomainId(1), 4, shared))));
        QueuePair::new(QueuePairNumber(1), &attributes, Arc::clone(&event_count)).elsewhere().is_some()
    };
    assert!(moves(queue(), queue()) && moves(queue(), sink()) && moves(sink(), queue()));
    assert!(!moves(sink(), sink()));
    let one = queue();
    assert!(!moves(Arc::clone(&one), one));
}
