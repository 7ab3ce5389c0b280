use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::testing::{CALLER, Fixture};
use wire::header::SendHeader;

fn api(fixture: &Fixture) -> Api {
    Api::new(fixture.broker.clone())
}

/// Polls once; everything these tests await is ready at once, or waits for a message.
fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn done<F: Future>(future: F) -> F::Output {
    match poll(future) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

fn send(api: &Api, body: &[u8]) -> Sent {
    let sends = api.sends();
    let request = request(body);
    let mut sent = pin!(sends.send(&request, || {}));
    let mut context = Context::from_waker(Waker::noop());
    assert!(sent.as_mut().poll(&mut context).is_pending());
    sends.commit();
    done(sent).unwrap()
}

fn request(body: &[u8]) -> SendRequest<'_> {
    let header = SendHeader {
        producer_group: "p",
        topic: "T",
        default_topic: "TBW102",
        default_topic_queue_nums: 1,
        queue_id: 0,
        sys_flag: 0,
        born_timestamp: 1,
        flag: 0,
        properties: b"UNIQ_KEY\x01k\x02",
        reconsume_times: 0,
        unit_mode: false,
        max_reconsume_times: None,
        batch: false,
        broker_name: "",
    };
    SendRequest { caller: &CALLER, header, body, is_reply: false }
}

fn pop<'a>(poll_ms: i64) -> PopRequest<'a> {
    PopRequest {
        target: PopTarget { caller: &CALLER, topic: "T", group: "g", queue_id: -1 },
        polling: Polling { born_ms: 0, poll_ms, ordered: false, attempt_id: None },
        count_max: 32,
        invisible_ms: 60_000,
        from_end: false,
        expression: "",
        expression_type: "",
    }
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.broker.tables.topics.put(TopicConfig::new("T".to_owned(), 1, 6), 1).unwrap();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    fixture
}

#[test]
fn what_was_sent_is_popped_and_acknowledged() {
    let fixture = fixture();
    let api = api(&fixture);
    assert_eq!(send(&api, b"a").unique_key, "k");
    let (status, popped) = done(done(api.pop(&pop(0))).unwrap().answer()).unwrap();
    assert_eq!((status, popped.count), (PopStatus::Found, 1));
    let handle = format!("0 {} 60000 {} 0 b 0 0", popped.pop_ms, popped.revive_queue);
    let message =
        PoppedMessage { caller: &CALLER, topic: "T", queue_id: 0, offset: 0, handle: &handle, group: "g" };
    done(api.acks(&[message])).pop().unwrap().unwrap();
    let (status, _) = done(done(api.pop(&pop(0))).unwrap().answer()).unwrap();
    assert_eq!(status, PopStatus::TimedOut);
}

#[test]
fn a_waiting_pop_is_run_by_its_own_task() {
    let fixture = fixture();
    let api = api(&fixture);
    let mut held = done(api.pop(&pop(20_000))).unwrap();
    let mut answer = pin!(held.answer());
    let mut context = Context::from_waker(Waker::noop());
    assert!(answer.as_mut().poll(&mut context).is_pending());
    send(&api, b"a");
    let Poll::Ready(Ok((status, popped))) = answer.poll(&mut context) else { panic!("it waits still") };
    assert_eq!((status, popped.count), (PopStatus::Found, 1));
}

#[test]
fn a_pop_that_is_dropped_leaves_the_list_and_takes_no_message() {
    let fixture = fixture();
    let api = api(&fixture);
    let waiters = fixture.broker.tables.topics.find("T").unwrap().waiters.clone();
    let held = done(api.pop(&pop(20_000))).unwrap();
    assert!(waiters.has_count());
    drop(held);
    assert!(!waiters.has_count());
    // Dropped after a message came for it, but before it was run.
    let held = done(api.pop(&pop(20_000))).unwrap();
    send(&api, b"a");
    drop(held);
    let (status, popped) = done(done(api.pop(&pop(0))).unwrap().answer()).unwrap();
    assert_eq!((status, popped.count), (PopStatus::Found, 1));
}

#[test]
fn sends_before_one_commit_are_stored_together() {
    let fixture = fixture();
    let sends = api(&fixture).sends();
    let firsts = std::cell::Cell::new(0);
    let first = || firsts.set(firsts.get() + 1);
    let (one, two) = (request(b"one"), request(b"two"));
    let (mut one, mut two) = (pin!(sends.send(&one, first)), pin!(sends.send(&two, first)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(one.as_mut().poll(&mut context).is_pending() && two.as_mut().poll(&mut context).is_pending());
    assert_eq!((firsts.get(), fixture.broker.store.appended().get()), (1, 0));
    sends.commit();
    let offsets = [one, two].map(|sent| done(sent).unwrap().queue_offset.get());
    assert_eq!(offsets, [0, 1]);
}

#[test]
fn what_is_made_of_a_topic_is_made_once_for_each_configuration() {
    let fixture = Fixture::new();
    let api = api(&fixture);
    let queues = || api.topic_as("T", |config| config.read_queue_nums);
    assert_eq!(queues(), None);
    let make = |count| {
        let config = TopicConfig::new("T", count, 6);
        fixture.broker.tables.topics.put(config, 1).unwrap();
        queues().unwrap()
    };
    let first = make(2);
    assert!(Arc::ptr_eq(&first, &queues().unwrap()));
    assert_eq!((*first, *make(3)), (2, 3));
}
