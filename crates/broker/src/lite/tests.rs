//! Lite topics on a broker without connections, with a clock that is set by hand.

mod model;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wire::body::topic::TopicConfig;
use wire::body::{
    LiteOffset, LiteOffsetType, LiteSubscription, LiteSubscriptionAction, LiteSubscriptions, MessageQueue,
    SubscriptionGroupConfig,
};
use wire::codes::{request, response};
use wire::header::SendHeader;
use wire::properties::{self, key};
use wire::record::RecordView;

use super::*;
use crate::Refusal;
use crate::api::{Api, InvisibleTimeChange, LitePopRequest, PopStatus, Popped, PoppedMessage, SendRequest};
use crate::client_link::{Asked, ClientLink, Notice, Question};
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::Engine;
use crate::names::lite_queue;
use crate::testing::{ADDRESS, CALLER, Fixture};

const START_MS: i64 = 1_700_000_000_000;
const INVISIBLE_MS: i64 = 60_000;

/// A client's link, which records notices.
#[derive(Debug, Default)]
struct Link {
    id: AtomicU64,
    is_closed: AtomicBool,
    notices: Mutex<Vec<String>>,
}

impl ClientLink for Link {
    fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    fn remote(&self) -> SocketAddr {
        ADDRESS
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn notify(&self, notice: &Notice<'_>) {
        let Notice::UnsubscribeLite { client_id, group, lite_topic } = notice else {
            panic!("another notice")
        };
        self.notices.lock().unwrap().push(format!("{client_id} {group} {lite_topic}"));
    }

    fn ask(&self, _: Question, _: Duration) -> Asked<'_> {
        panic!("nothing is asked")
    }
}

/// A message that a pop returned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Delivery {
    lite: String,
    body: String,
    offset: i64,
    pop_ms: i64,
    count: i32,
}

struct World {
    fixture: Fixture,
    clock: Clock,
    engine: LiteEngine,
    link: Arc<Link>,
}

/// Runs a future that does not wait.
fn done<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

fn bodies(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|it| format!("{}:{}#{}", it.lite, it.body, it.count)).collect()
}

impl World {
    fn new() -> Self {
        Self::with(&[], |_| {})
    }

    fn with(attributes: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Self {
        let world = Self::at(tempfile::tempdir().unwrap(), Clock::standing(START_MS), change);
        world.topic("P", "-1");
        world.group("G", "P", attributes);
        world
    }

    fn at(directory: tempfile::TempDir, clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        let fixture = Fixture::timed(Arc::new(store::RealDisk), clock.clone(), directory, |config| {
            config.store.multi_dispatch = true;
            change(config);
        });
        let engine = LiteEngine::new(fixture.broker.lite_parts());
        Self { engine, fixture, clock, link: Arc::default() }
    }

    fn topic(&self, name: &str, minutes: &str) {
        let mut config = TopicConfig::new(name.to_owned(), 4, 6);
        config.attributes.insert("message.type".to_owned(), "LITE".to_owned());
        config.attributes.insert("lite.topic.expiration".to_owned(), minutes.to_owned());
        let attributes = config.attributes.clone();
        config.attributes.clear();
        let alterations = attributes.into_iter().map(|(name, value)| (format!("+{name}"), value)).collect();
        let change = crate::change::TopicChange::Put(config, alterations);
        self.fixture.broker.tables.topics.commit(vec![vec![change]], 1).remove(0).unwrap();
    }

    fn group(&self, name: &str, parent: &str, attributes: &[(&str, &str)]) {
        let bound = [("lite.bind.topic", parent)];
        let attributes = bound.iter().chain(attributes);
        let config = SubscriptionGroupConfig {
            group_name: Some(name.to_owned()),
            attributes: attributes.map(|(name, value)| (format!("+{name}"), (*value).to_owned())).collect(),
            ..SubscriptionGroupConfig::default()
        };
        self.fixture.broker.tables.groups.put(config, 1).unwrap();
    }

    fn api(&self) -> Api {
        Api::new(self.fixture.broker.clone())
    }

    fn pass(&mut self, ms: i64) {
        self.clock.set(self.clock.now_ms() + ms);
        self.run();
    }

    /// Runs the engines until they have nothing to do.
    fn run(&mut self) {
        let now_ms = self.clock.now_ms();
        crate::pop::due(&self.fixture.broker.pops, now_ms);
        for _ in 0..10_000 {
            if self.engine.round(now_ms) != crate::engine::Next::At(now_ms) {
                return;
            }
        }
        panic!("the engine does not come to an end");
    }

    fn try_send(&self, lite: &str, body: &str) -> Result<(), Refusal> {
        let mut text = Vec::new();
        properties::append(&mut text, key::LITE_TOPIC, lite.as_bytes());
        let header = SendHeader {
            producer_group: "p",
            topic: "P",
            default_topic: "TBW102",
            default_topic_queue_nums: 1,
            queue_id: 0,
            sys_flag: 0,
            born_timestamp: 1,
            flag: 0,
            properties: &text,
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: None,
            batch: false,
            broker_name: "",
        };
        let request = SendRequest { caller: &CALLER, header, body: body.as_bytes(), is_reply: false };
        let (api, mut context) = (self.api(), Context::from_waker(Waker::noop()));
        let sends = api.sends();
        let mut sent = pin!(sends.send(&request, || {}));
        if let Poll::Ready(sent) = sent.as_mut().poll(&mut context) {
            return sent.map(drop);
        }
        sends.commit();
        done(sent).map(drop)
    }

    fn send(&self, lite: &str, body: &str) {
        self.try_send(lite, body).unwrap();
    }

    fn change(&self, client: &str, action: LiteSubscriptionAction, names: &[&str]) -> LiteSubscription {
        LiteSubscription {
            action,
            client_id: client.to_owned(),
            group: "G".to_owned(),
            topic: "P".to_owned(),
            lite_topic_set: names.iter().map(|name| (*name).to_owned()).collect(),
            ..LiteSubscription::default()
        }
    }

    fn control(&self, change: LiteSubscription) -> Result<(), Refusal> {
        let link: Arc<dyn ClientLink> = self.link.clone();
        done(self.api().subscribe_lite(&link, &LiteSubscriptions { subscription_set: vec![change] }))
    }

    fn add(&self, client: &str, names: &[&str]) {
        self.control(self.change(client, LiteSubscriptionAction::PartialAdd, names)).unwrap();
    }

    fn set(&self, client: &str, names: &[&str]) {
        self.control(self.change(client, LiteSubscriptionAction::CompleteAdd, names)).unwrap();
    }

    fn request<'a>(&self, client: &'a str, count_max: i32, poll_ms: i64) -> LitePopRequest<'a> {
        LitePopRequest {
            caller: &CALLER,
            topic: "P",
            group: "G",
            client_id: client,
            born_ms: 0,
            poll_ms,
            attempt_id: None,
            count_max,
            invisible_ms: INVISIBLE_MS,
        }
    }

    fn pop(&self, client: &str) -> Vec<Delivery> {
        self.pop_up_to(client, 32)
    }

    fn pop_up_to(&self, client: &str, count_max: i32) -> Vec<Delivery> {
        let held = done(self.api().pop_lite(&self.request(client, count_max, 0)));
        deliveries(done(held.unwrap().answer()).unwrap())
    }

    /// Starts a pop that waits.
    fn wait(&self, client: &str) -> crate::api::Held {
        done(self.api().pop_lite(&self.request(client, 32, 20_000))).unwrap()
    }

    fn handle(delivery: &Delivery) -> String {
        let Delivery { pop_ms, offset, .. } = delivery;
        format!("0 {pop_ms} {INVISIBLE_MS} 999 0 b 0 {offset}")
    }

    fn ack(&self, delivery: &Delivery) -> Result<(), Refusal> {
        let (handle, topic) = (Self::handle(delivery), lite_queue("P", &delivery.lite));
        let message = PoppedMessage {
            caller: &CALLER,
            topic: &topic,
            queue_id: 0,
            offset: delivery.offset,
            handle: &handle,
            group: "G",
        };
        done(self.api().acks(&[message])).remove(0)
    }

    fn delay(&self, delivery: &Delivery, invisible_ms: i64, suspend: bool) {
        let (handle, topic) = (Self::handle(delivery), lite_queue("P", &delivery.lite));
        let message = PoppedMessage {
            caller: &CALLER,
            topic: &topic,
            queue_id: 0,
            offset: delivery.offset,
            handle: &handle,
            group: "G",
        };
        let change = InvisibleTimeChange { message, invisible_ms, suspend };
        done(self.api().change_invisible_times(&[change])).remove(0).unwrap().unwrap();
    }

    fn notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.link.notices.lock().unwrap())
    }
}

/// Returns the messages of an answer.
fn deliveries((status, popped): (PopStatus, Popped)) -> Vec<Delivery> {
    let (mut at, mut found) = (0, Vec::new());
    let mut counts = popped.lite_deliveries.iter();
    assert!(popped.queues.is_empty());
    while let Ok(record) = RecordView::parse(&popped.body[at..]) {
        let text = |name| properties::get_str(record.properties(), name).unwrap().to_owned();
        found.push(Delivery {
            lite: text(key::LITE_TOPIC),
            body: String::from_utf8(record.body().to_vec()).unwrap(),
            offset: text(key::INNER_MULTI_QUEUE_OFFSET).parse().unwrap(),
            pop_ms: popped.pop_ms,
            count: *counts.next().unwrap(),
        });
        at += record.size();
    }
    assert_eq!(status == PopStatus::Found, !found.is_empty());
    assert_eq!(found.len(), usize::try_from(popped.count).unwrap());
    found
}

/// The messages of a pop that waited, or `None` if it waits still.
fn answered(held: &mut crate::api::Held) -> Option<Vec<Delivery>> {
    match pin!(held.answer()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(deliveries(answer.unwrap())),
        Poll::Pending => None,
    }
}

#[test]
fn a_subscriber_gets_the_messages_of_its_lite_topics_in_order() {
    let world = World::new();
    world.add("c", &["a", "b"]);
    for (lite, body) in [("a", "1"), ("b", "2"), ("a", "3"), ("other", "4")] {
        world.send(lite, body);
    }
    let first = world.pop_up_to("c", 1);
    assert_eq!(bodies(&first), ["a:1#0"]);
    assert_eq!(bodies(&world.pop("c")), ["b:2#0"], "the next message of a waits for the first");
    assert_eq!(bodies(&world.pop("c")), [""; 0]);
    world.ack(&first[0]).unwrap();
    assert_eq!(bodies(&world.pop("c")), ["a:3#0"]);
}

#[test]
fn a_new_subscriber_gets_the_messages_that_are_there() {
    let world = World::new();
    world.send("a", "1");
    world.send("a", "2");
    world.add("c", &["a"]);
    assert_eq!(bodies(&world.pop("c")), ["a:1#0", "a:2#0"]);
}

#[test]
fn a_message_wakes_one_client_of_a_shared_group() {
    let world = World::new();
    world.add("c", &["a"]);
    world.add("d", &["a"]);
    let mut waiting = [world.wait("c"), world.wait("d")];
    world.send("a", "1");
    let answers: Vec<_> = waiting.iter_mut().map(answered).collect();
    assert_eq!(answers.iter().flatten().count(), 1, "{answers:?}");
    let delivery = answers.into_iter().flatten().next().unwrap();
    assert_eq!(bodies(&delivery), ["a:1#0"]);
    world.send("a", "2");
    assert!(waiting.iter_mut().all(held_waits), "the queue is blocked");
    world.ack(&delivery[0]).unwrap();
    let answers: Vec<_> = waiting.iter_mut().filter_map(next).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(bodies(&answers[0]), ["a:2#0"]);
}

fn held_waits(held: &mut crate::api::Held) -> bool {
    next(held).is_none()
}

/// The answer of a pop that was not answered before.
fn next(held: &mut crate::api::Held) -> Option<Vec<Delivery>> {
    match pin!(held.answer()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(answer)) => Some(deliveries(answer)),
        // A pop that was answered already ends with an error.
        Poll::Ready(Err(_)) | Poll::Pending => None,
    }
}

#[test]
fn messages_that_are_not_acknowledged_come_again_in_order() {
    let mut world = World::new();
    world.add("c", &["a"]);
    for body in ["1", "2", "3"] {
        world.send("a", body);
    }
    let first = world.pop_up_to("c", 2);
    world.ack(&first[0]).unwrap();
    world.pass(INVISIBLE_MS - 1);
    assert_eq!(bodies(&world.pop("c")), [""; 0]);
    let mut waiting = world.wait("c");
    world.pass(1);
    let again = answered(&mut waiting).expect("the timer gives the client an event");
    assert_eq!(bodies(&again), ["a:2#1", "a:3#0"]);
    world.ack(&first[1]).unwrap();
    assert_eq!(bodies(&world.pop("c")), [""; 0], "the late acknowledgement has no effect");
    again.iter().for_each(|it| world.ack(it).unwrap());
    world.pass(INVISIBLE_MS);
    assert_eq!(bodies(&world.pop("c")), [""; 0]);
}

#[test]
fn a_suspended_delivery_does_not_count() {
    let mut world = World::new();
    world.add("c", &["a"]);
    world.send("a", "1");
    world.send("a", "2");
    let first = world.pop("c");
    world.delay(&first[0], 1000, true);
    world.pass(999);
    assert_eq!(bodies(&world.pop("c")), [""; 0]);
    world.pass(1);
    let again = world.pop("c");
    assert_eq!(bodies(&again), ["a:1#0", "a:2#0"]);
    world.delay(&again[1], 2000, false);
    world.ack(&again[0]).unwrap();
    world.pass(2000);
    assert_eq!(bodies(&world.pop("c")), ["a:2#1"]);
}

#[test]
fn the_newest_client_of_an_exclusive_group_takes_over() {
    let world = World::with(&[("lite.sub.model", "Exclusive")], |_| {});
    world.add("c", &["a", "b"]);
    world.add("d", &["a"]);
    assert_eq!(world.notices(), ["c G a"]);
    world.send("a", "1");
    world.send("b", "2");
    assert_eq!(bodies(&world.pop("d")), ["a:1#0"]);
    assert_eq!(bodies(&world.pop("c")), ["b:2#0"]);
    // The notice was lost.
    world.set("c", &["a", "b"]);
    assert_eq!(world.notices(), ["c G a"]);
    let owners = world.fixture.broker.tables.lite.tables().subscribers(&lite_queue("P", "a"));
    assert_eq!(owners, [("G".into(), "d".into())]);
    world.add("c", &["a"]);
    assert_eq!(world.notices(), ["d G a"]);
}

/// A link that runs a function with its first notice.
struct Interruption(Link, Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for Interruption {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

impl ClientLink for Interruption {
    fn id(&self) -> u64 {
        self.0.id()
    }

    fn remote(&self) -> SocketAddr {
        self.0.remote()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn close(&self) {
        self.0.close();
    }

    fn notify(&self, notice: &Notice<'_>) {
        self.0.notify(notice);
        let run = self.1.lock().unwrap().take();
        run.into_iter().for_each(|run| run());
    }

    fn ask(&self, question: Question, patience: Duration) -> Asked<'_> {
        self.0.ask(question, patience)
    }
}

#[test]
fn a_complete_list_undoes_no_addition_that_comes_meanwhile() {
    let world = World::with(&[("lite.sub.model", "Exclusive")], |_| {});
    world.add("d", &["taken"]);
    world.set("c", &["old"]);
    let (api, link) = (world.api(), world.link.clone());
    let addition = world.change("c", LiteSubscriptionAction::PartialAdd, &["new"]);
    let add = move || {
        let link: Arc<dyn ClientLink> = link;
        done(api.subscribe_lite(&link, &LiteSubscriptions { subscription_set: vec![addition] })).unwrap();
    };
    let link: Arc<dyn ClientLink> = Arc::new(Interruption(Link::default(), Mutex::new(Some(Box::new(add)))));
    let list = world.change("c", LiteSubscriptionAction::CompleteAdd, &["a", "taken"]);
    done(world.api().subscribe_lite(&link, &LiteSubscriptions { subscription_set: vec![list] })).unwrap();
    world.send("new", "1");
    assert_eq!(bodies(&world.pop("c")), ["new:1#0"]);
    world.set("c", &["a", "new"]);
    world.send("old", "2");
    assert_eq!(bodies(&world.pop("c")), [""; 0], "the next list ends it");
}

#[test]
fn a_take_over_resets_the_offset_if_the_group_says_so() {
    let attributes = [("lite.sub.model", "Exclusive"), ("lite.sub.reset.offset.exclusive", "true")];
    let world = World::with(&attributes, |_| {});
    world.add("c", &["a"]);
    world.send("a", "1");
    world.pop("c").iter().for_each(|it| world.ack(it).unwrap());
    world.add("d", &["a"]);
    assert_eq!(bodies(&world.pop("d")), ["a:1#0"]);
}

#[test]
fn a_wildcard_client_gets_new_lite_topics_while_it_waits() {
    let mut world = World::with(&[("lite.sub.wildcard", "true")], |_| {});
    world.send("old", "0");
    let mut waiting = world.wait("c");
    assert!(answered(&mut waiting).is_none(), "its first pop makes it a subscriber");
    world.run();
    assert_eq!(bodies(&answered(&mut waiting).unwrap()), ["old:0#0"]);
    let mut waiting = world.wait("c");
    world.send("new", "1");
    assert_eq!(bodies(&answered(&mut waiting).unwrap()), ["new:1#0"]);
    let refused = world.control(world.change("c", LiteSubscriptionAction::PartialAdd, &["x"])).unwrap_err();
    let text = "java.lang.IllegalStateException: subscribe lite operation is not supported for this group";
    assert_eq!((refused.code, &*refused.remark), (response::ILLEGAL_OPERATION, text));
}

#[test]
fn lite_topics_beyond_the_event_set_follow_as_soon_as_there_is_room() {
    for wildcard in [false, true] {
        let mut attributes = vec![("lite.sub.client.max.event.cnt", "10")];
        attributes.extend(wildcard.then_some(("lite.sub.wildcard", "true")));
        let mut world = World::with(&attributes, |_| {});
        let names: Vec<String> = (0..55).map(|number| format!("t{number}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(world.pop("c").is_empty());
        world.set("c", &all);
        world.run();
        for lite in &all {
            world.send(lite, "m");
        }
        let mut found = BTreeSet::new();
        for round in 0..20 {
            let popped = world.pop_up_to("c", 5);
            found.extend(popped.iter().map(|it| it.lite.clone()));
            popped.iter().for_each(|it| world.ack(it).unwrap());
            world.run();
            if round == 3 {
                world.send("t0", "late");
                world.send("t54", "late");
            }
        }
        assert_eq!(found.len(), 55, "wildcard {wildcard}: {found:?}");
    }
}

/// A full dispatch looks at all lite topics of the parent, so that new lite topics cannot wait for it.
#[test]
fn new_lite_topics_of_a_wildcard_group_wait_for_room_without_a_full_dispatch() {
    let attributes = [("lite.sub.wildcard", "true"), ("lite.sub.client.max.event.cnt", "10")];
    let mut world = World::with(&attributes, |_| {});
    assert!(world.pop("c").is_empty());
    world.run();
    let names: Vec<String> = (0..18).map(|number| format!("t{number}")).collect();
    names.iter().for_each(|lite| world.send(lite, "m"));
    let mut found = BTreeSet::new();
    for _ in 0..4 {
        found.extend(world.pop_up_to("c", 5).into_iter().map(|it| it.lite));
    }
    assert_eq!(found.len(), 18, "{found:?}");
}

#[test]
fn lite_topics_beyond_the_event_set_do_not_wait_as_long_as_new_messages_come() {
    for (wildcard, count) in [false, true].into_iter().flat_map(|it| (4..=10).map(move |count| (it, count))) {
        let mut attributes = vec![("lite.sub.client.max.event.cnt", "10")];
        attributes.extend(wildcard.then_some(("lite.sub.wildcard", "true")));
        let mut world = World::with(&attributes, |_| {});
        let names: Vec<String> = (0..40).map(|number| format!("t{number}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(world.pop("c").is_empty());
        world.set("c", &all);
        world.run();
        all.iter().for_each(|lite| world.send(lite, "old"));
        let (mut old, mut new) = (0, 0);
        for _ in 0..400 {
            if old == 40 && new > 40 {
                break;
            }
            let popped = world.pop_up_to("c", count);
            popped.iter().for_each(|it| world.ack(it).unwrap());
            old += popped.iter().filter(|it| it.body == "old").count();
            new += popped.iter().filter(|it| it.body == "new").count();
            // Before the full dispatch can go on.
            popped.iter().for_each(|it| world.send(&it.lite, "new"));
            world.run();
        }
        assert_eq!(old, 40, "wildcard {wildcard}, {count} at a time, {new} new");
        assert!(new > 40, "wildcard {wildcard}, {count} at a time, {new} new");
    }
}

#[test]
fn events_that_wait_for_room_keep_their_order_while_only_a_closed_client_has_room() {
    let attributes = [("lite.sub.client.max.event.cnt", "10"), ("lite.sub.wildcard", "true")];
    let mut world = World::with(&attributes, |_| {});
    assert!(world.pop("c").is_empty());
    world.run();
    let names: Vec<String> = (0..18).map(|number| format!("t{number}")).collect();
    names.iter().for_each(|lite| world.send(lite, "m"));
    world.link.close();
    world.set("gone", &[]);
    for _ in 0..4 {
        world.pass(1000);
        world.run();
    }
    let popped: Vec<String> = (0..9).flat_map(|_| world.pop_up_to("c", 2)).map(|it| it.lite).collect();
    assert_eq!(popped, names);
}

/// Acknowledges and returns everything that a client can pop while no time passes.
fn drain(world: &mut World, client: &str) -> usize {
    let mut count = 0;
    for _ in 0..1000 {
        let popped = world.pop_up_to(client, 5);
        popped.iter().for_each(|it| world.ack(it).unwrap());
        count += popped.len();
        world.run();
        if popped.is_empty() {
            break;
        }
    }
    count
}

#[test]
fn messages_behind_a_full_dispatch_that_stopped_are_not_forgotten() {
    for wildcard in [false, true] {
        let mut attributes = vec![("lite.sub.client.max.event.cnt", "10")];
        attributes.extend(wildcard.then_some(("lite.sub.wildcard", "true")));
        let mut world = World::with(&attributes, |_| {});
        let names: Vec<String> = (0..40).map(|number| format!("t{number}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(world.pop("c").is_empty());
        world.set("c", &all);
        world.run();
        all.iter().for_each(|lite| world.send(lite, "m"));
        let (mut sent, mut received) = (all.len(), 0);
        // Not until the full dispatch has ended: an overflow behind its end begins another.
        for _ in 0..4 {
            let popped = world.pop_up_to("c", 5);
            popped.iter().for_each(|it| world.ack(it).unwrap());
            // The set becomes full, and the full dispatch stops in the middle.
            world.run();
            popped.iter().for_each(|it| world.send(&it.lite, "late"));
            (sent, received) = (sent + popped.len(), received + popped.len());
        }
        received += drain(&mut world, "c");
        assert_eq!(received, sent, "wildcard {wildcard}");
    }
}

#[test]
fn a_suspended_pop_of_a_client_that_left_is_no_room_for_events() {
    let attributes = [("lite.sub.client.max.event.cnt", "10"), ("lite.sub.wildcard", "true")];
    let mut world = World::with(&attributes, |_| {});
    let mut held = world.wait("d");
    assert!(held_waits(&mut held));
    assert!(world.pop("c").is_empty());
    world.run();
    world.control(world.change("d", LiteSubscriptionAction::CompleteRemove, &[])).unwrap();
    assert!(held_waits(&mut held));
    (0..20).for_each(|number| world.send(&format!("t{number}"), "m"));
    world.fixture.broker.tables.lite.tables().demand_group("G");
    // Ends although the full dispatch waits for room.
    world.run();
    assert_eq!(drain(&mut world, "c"), 20);
}

#[test]
fn other_clients_get_the_full_dispatch_of_a_client_that_leaves() {
    let mut world = World::new();
    world.set("c", &["a"]);
    world.set("d", &["a"]);
    world.run();
    let lite = &world.fixture.broker.tables.lite;
    lite.tables().demand(("G".into(), Some("c".into())));
    world.control(world.change("c", LiteSubscriptionAction::CompleteRemove, &[])).unwrap();
    let (key, ..) = lite.tables().take_due(|_| false).unwrap();
    assert_eq!(key, ("G".into(), Some("d".into())));
}

#[test]
fn an_event_of_a_client_that_left_is_not_put_back() {
    let world = World::with(&[], |_| {});
    world.add("c", &["a"]);
    world.send("a", "1");
    let lite = &world.fixture.broker.tables.lite;
    let event = lite.take_event("G", "c", START_MS).unwrap();
    assert!(lite.put_back("G", "c", &event));
    assert_eq!(lite.take_event("G", "c", START_MS), Some(event.clone()));
    world.control(world.change("c", LiteSubscriptionAction::PartialRemove, &["a"])).unwrap();
    assert!(!lite.put_back("G", "c", &event));
    world.control(world.change("c", LiteSubscriptionAction::CompleteRemove, &[])).unwrap();
    assert!(!lite.put_back("G", "c", &event));
}

#[test]
fn an_event_that_a_wildcard_group_lacks_comes_with_the_next_check() {
    let mut world = World::with(&[("lite.sub.wildcard", "true")], |_| {});
    assert!(world.pop("c").is_empty());
    world.run();
    world.send("a", "1");
    let lite = &world.fixture.broker.tables.lite;
    lite.take_event("G", "c", START_MS).unwrap();
    lite.overflow("G", Some("c"));
    world.send("b", "2");
    assert_eq!(bodies(&world.pop("c")), ["b:2#0"]);
    world.pass(6000);
    assert_eq!(bodies(&world.pop("c")), ["a:1#0"]);
}

#[test]
fn a_broker_that_becomes_master_again_delivers_what_was_in_flight() {
    let mut world = World::new();
    world.add("c", &["a"]);
    world.send("a", "1");
    assert_eq!(bodies(&world.pop("c")), ["a:1#0"]);
    let broker = world.fixture.broker.clone();
    broker.replication.role.follow(1);
    crate::master_services::forget(&broker.delivery);
    world.run();
    // A slave does not count the queues that its master makes, but counts those that expire.
    broker.tables.light.removed("%LMQ%$P$x");
    broker.tables.light.removed("%LMQ%$P$y");
    broker.replication.role.lead();
    crate::master_services::wake(&broker.delivery);
    world.run();
    assert_eq!(bodies(&world.pop("c")), ["a:1#0"]);
    assert_eq!(broker.tables.light.count(), 1);
}

#[test]
fn the_events_of_a_client_that_does_not_pop_go_to_another() {
    let mut world = World::new();
    world.add("c", &["a"]);
    world.send("a", "1");
    world.add("d", &["a"]);
    // The new subscriber took the event as well.
    world.fixture.broker.tables.lite.tables().client_mut("G", "d").unwrap().events = Default::default();
    assert!(world.pop("d").is_empty());
    world.pass(9000);
    assert!(world.pop("d").is_empty());
    world.pass(6000);
    assert_eq!(bodies(&world.pop("d")), ["a:1#0"]);
}

#[test]
fn an_event_goes_to_a_client_that_waits_if_its_client_is_late() {
    for wildcard in [false, true] {
        let attributes = wildcard.then_some(("lite.sub.wildcard", "true"));
        let mut world = World::with(attributes.as_slice(), |_| {});
        assert!(world.pop("c").is_empty() && world.pop("d").is_empty());
        let all: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        world.set("c", &all);
        world.run();
        all.iter().for_each(|lite| world.send(lite, "m"));
        if !wildcard {
            world.set("d", &all);
            world.run();
        }
        drain_once(&world, "d");
        let mut waiting = world.wait("d");
        assert!(held_waits(&mut waiting));
        world.pass(900);
        assert!(held_waits(&mut waiting), "c may pop yet");
        world.pass(1100);
        assert!(!answered(&mut waiting).expect("c is late").is_empty(), "wildcard {wildcard}");
    }
}

fn drain_once(world: &World, client: &str) {
    world.pop(client).iter().for_each(|it| world.ack(it).unwrap());
}

#[test]
fn events_go_to_other_clients_when_the_connection_of_a_waiting_client_ends() {
    for wildcard in [false, true] {
        let attributes = wildcard.then_some(("lite.sub.wildcard", "true"));
        let mut world = World::with(attributes.as_slice(), |_| {});
        assert!(world.pop("c").is_empty() && world.pop("d").is_empty());
        let all: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        ["c", "d"].iter().for_each(|client| world.set(client, &all));
        world.run();
        let mut waiting = world.wait("c");
        assert!(held_waits(&mut waiting));
        drop(waiting);
        all.iter().for_each(|lite| world.send(lite, "m"));
        assert_eq!(world.pop("d").len(), 20, "wildcard {wildcard}");
    }
}

#[test]
fn a_set_that_was_full_when_its_client_began_to_pop_has_room_afterwards() {
    let attributes = [("lite.sub.client.max.event.cnt", "10"), ("lite.sub.wildcard", "true")];
    let mut world = World::with(&attributes, |_| {});
    assert!(world.pop("c").is_empty());
    world.run();
    // Ten in the set, eight that wait for room, and two for a full dispatch.
    (0..20).for_each(|number| world.send(&format!("t{number}"), "m"));
    let lite = &world.fixture.broker.tables.lite;
    let rules = rules(&world.fixture.broker.tables, &world.fixture.broker.runtime, "G").unwrap();
    lite.note_pop(("G", &rules), "c", START_MS, 10).unwrap();
    // Finds no room between the begin of the pop and its first event.
    world.send("t20", "m");
    for _ in 0..6 {
        lite.take_event("G", "c", START_MS).unwrap();
    }
    // The full dispatch finds the lite queues of the taken events again.
    world.run();
    assert_eq!(drain(&mut world, "c"), 21);
}

#[test]
fn a_listener_that_waits_is_found_among_many() {
    let mut world = World::with(&[("lite.sub.wildcard", "true")], |_| {});
    for number in 0..100 {
        assert!(world.pop(&format!("c{number}")).is_empty());
    }
    world.run();
    let mut waiting = ["c70", "c30"].map(|client| world.wait(client));
    assert!(waiting.iter_mut().all(held_waits));
    world.send("a", "1");
    world.send("b", "2");
    let found = waiting.each_mut().map(|held| bodies(&answered(held).unwrap()));
    assert_eq!(found, [["a:1#0"], ["b:2#0"]], "the longest wait comes first");
}

#[test]
fn the_search_for_a_waiting_listener_removes_listeners_that_no_longer_wait() {
    let mut world = World::with(&[("lite.sub.wildcard", "true")], |_| {});
    for number in 0..10 {
        drop(world.wait(&format!("c{number}")));
    }
    let listed = |world: &World| world.fixture.broker.tables.lite.tables().listed("G");
    assert_eq!(listed(&world), 10);
    assert!(world.pop("late").is_empty());
    world.run();
    let lite = &world.fixture.broker.tables.lite;
    // Without a choice among listeners, so that the list stays.
    lite.tables().client_mut("G", "late").unwrap().events.put_back("%LMQ%$P$a".into());
    world.pass(2000);
    assert_eq!(listed(&world), 0);
}

#[test]
fn a_silent_client_loses_its_lite_topics() {
    let mut world = World::new();
    world.add("c", &["a"]);
    world.pass(179_000);
    assert_eq!(world.fixture.broker.tables.lite.tables().active(), 1);
    world.pass(10_000);
    let tables = world.fixture.broker.tables.lite.tables();
    assert_eq!((tables.active(), tables.clients()), (0, 0));
}

#[test]
fn a_client_that_leaves_gives_its_events_to_others() {
    let world = World::new();
    world.add("c", &["a"]);
    world.send("a", "1");
    world.add("d", &["a"]);
    world.control(world.change("c", LiteSubscriptionAction::CompleteRemove, &[])).unwrap();
    assert_eq!(bodies(&world.pop("d")), ["a:1#0"]);
    assert_eq!(world.fixture.broker.tables.lite.tables().active(), 1);
}

#[test]
fn removed_lite_topics_are_delivered_no_longer() {
    let world = World::with(&[("lite.sub.reset.offset.unsubscribe", "true")], |_| {});
    world.add("c", &["a", "b"]);
    world.send("a", "1");
    world.pop("c").iter().for_each(|it| world.ack(it).unwrap());
    world.control(world.change("c", LiteSubscriptionAction::PartialRemove, &["a"])).unwrap();
    world.send("a", "2");
    assert!(world.pop("c").is_empty());
    world.set("c", &["a"]);
    assert_eq!(bodies(&world.pop("c")), ["a:1#0", "a:2#0"], "the end of the subscription reset the offset");
    world.send("b", "3");
    assert!(world.pop("c").is_empty(), "the set replaced b");
}

#[test]
fn offset_options_move_the_group() {
    let check = |r#type, value, expected: &[&str]| {
        let world = World::new();
        world.add("c", &["a"]);
        ["1", "2", "3"].iter().for_each(|body| world.send("a", body));
        world.pop("c").iter().for_each(|it| world.ack(it).unwrap());
        world.control(world.change("c", LiteSubscriptionAction::PartialRemove, &["a"])).unwrap();
        let mut change = world.change("c", LiteSubscriptionAction::PartialAdd, &["a"]);
        change.offset_option = Some(LiteOffset { r#type, value });
        world.control(change).unwrap();
        let found: Vec<String> = world.pop("c").into_iter().map(|it| it.body).collect();
        assert_eq!(found, expected, "{type:?} {value}");
    };
    check(LiteOffsetType::Policy, 0, &[]);
    check(LiteOffsetType::Policy, 1, &["1", "2", "3"]);
    check(LiteOffsetType::Policy, 2, &[]);
    check(LiteOffsetType::Offset, 1, &["2", "3"]);
    check(LiteOffsetType::TailN, 1, &["3"]);
    check(LiteOffsetType::Timestamp, 5, &[]);
}

#[test]
fn an_offset_option_moves_a_client_that_has_the_lite_topic_already() {
    let world = World::new();
    world.add("c", &["a"]);
    world.send("a", "1");
    world.pop("c").iter().for_each(|it| world.ack(it).unwrap());
    let mut change = world.change("c", LiteSubscriptionAction::PartialAdd, &["a"]);
    change.offset_option = Some(LiteOffset { r#type: LiteOffsetType::Policy, value: 1 });
    world.control(change).unwrap();
    assert_eq!(bodies(&world.pop("c")), ["a:1#0"]);
}

#[test]
fn a_late_acknowledgement_does_not_move_the_group_in_a_lite_topic_that_is_gone() {
    let world = World::new();
    world.add("c", &["a"]);
    let gone = Delivery { lite: "a".into(), body: String::new(), offset: 0, pop_ms: START_MS, count: 0 };
    assert_eq!(world.ack(&gone).unwrap_err().code, response::NO_MESSAGE);
    world.send("a", "1");
    let negative = Delivery { offset: -5, ..gone };
    assert_eq!(world.ack(&negative).unwrap_err().code, response::NO_MESSAGE);
    assert_eq!(bodies(&world.pop("c")), ["a:1#0"]);
}

#[test]
fn unacknowledged_messages_survive_a_restart() {
    let world = World::new();
    world.add("c", &["a"]);
    ["1", "2", "3"].iter().for_each(|body| world.send("a", body));
    let popped = world.pop("c");
    world.ack(&popped[0]).unwrap();
    let (clock, fixture) = (world.clock.clone(), world.fixture);
    fixture.broker.store.close().unwrap();
    crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
    let world = World::at(fixture.left(), clock, |_| {});
    world.set("c", &["a"]);
    let again = world.pop("c");
    assert_eq!(bodies(&again), ["a:2#0", "a:3#0"]);
    world.ack(&popped[1]).unwrap();
    again.iter().for_each(|it| world.ack(it).unwrap());
    world.send("a", "4");
    assert_eq!(bodies(&world.pop("c")), ["a:4#0"]);
}

#[test]
fn a_lite_topic_expires_after_its_last_message_if_all_is_consumed() {
    let mut world = World::new();
    world.topic("P", "20");
    world.pass(0);
    world.add("c", &["done", "lacked"]);
    world.send("done", "1");
    world.send("lacked", "2");
    let popped = world.pop("c");
    popped.iter().filter(|it| it.lite == "done").for_each(|it| world.ack(it).unwrap());
    let exists = |world: &World, lite: &str| world.fixture.broker.store.find_queue(&lite_queue("P", lite), 0);
    world.pass(16 * 60_000);
    assert!(exists(&world, "done").is_some());
    world.pass(5 * 60_000);
    assert!(exists(&world, "done").is_none());
    assert!(exists(&world, "lacked").is_some());
    assert_eq!(world.fixture.broker.tables.offsets.committed("G", &lite_queue("P", "done"), 0), None);
    world.add("c", &["done"]);
    world.send("done", "3");
    assert!(bodies(&world.pop("c")).contains(&"done:3#0".to_owned()), "it begins anew");
}

/// A world in which the only message of lite topic `a` is consumed, and its offset is on disk.
fn consumed() -> World {
    let mut world = World::new();
    world.topic("P", "20");
    world.pass(0);
    world.add("c", &["a"]);
    world.send("a", "1");
    world.pop("c").iter().for_each(|it| world.ack(it).unwrap());
    assert!(saved(&world));
    world
}

fn saved(world: &World) -> bool {
    let broker = &world.fixture.broker;
    crate::save::save(&broker.delivery, &broker.runtime, &broker.pops)
}

#[test]
fn a_crash_after_the_expiry_of_a_lite_topic_hides_no_message_of_a_new_one() {
    let mut world = consumed();
    world.pass(21 * 60_000);
    assert!(world.fixture.broker.store.find_queue(&lite_queue("P", "a"), 0).is_none());
    let World { engine, fixture, clock, .. } = world;
    // The engine holds the store.
    drop(engine);
    let world = World::at(fixture.left(), clock, |_| {});
    world.send("a", "2");
    world.set("c", &["a"]);
    assert_eq!(bodies(&world.pop("c")), ["a:2#0"]);
}

#[test]
fn a_lite_topic_stays_until_its_offsets_are_on_disk() {
    let mut world = consumed();
    let obstacle = world.fixture.broker.runtime.config.store.root.join("config/lmqConsumerOffset.json.tmp");
    std::fs::create_dir(&obstacle).unwrap();
    world.pass(21 * 60_000);
    assert!(world.fixture.broker.store.find_queue(&lite_queue("P", "a"), 0).is_some());
    std::fs::remove_dir(&obstacle).unwrap();
    world.pass(2 * 60_000);
    assert!(world.fixture.broker.store.find_queue(&lite_queue("P", "a"), 0).is_none());
}

#[test]
fn the_subscribers_of_an_expired_lite_topic_get_its_next_message() {
    let mut world = consumed();
    for _ in 0..23 {
        world.pass(60_000);
        world.set("c", &["a"]);
    }
    assert!(world.fixture.broker.store.find_queue(&lite_queue("P", "a"), 0).is_none());
    world.send("a", "2");
    assert_eq!(bodies(&world.pop("c")), ["a:2#0"]);
}

#[test]
fn a_message_that_arrives_during_the_removal_of_its_lite_topic_is_delivered() {
    let world = consumed();
    let (broker, name) = (&world.fixture.broker, lite_queue("P", "a"));
    let mut waiting = world.wait("c");
    assert!(held_waits(&mut waiting));
    let end = broker.store.find_queue(&name, 0).unwrap().max();
    let (removed, durable) = broker.store.remove_ended_topics(&[(&name, end)]);
    durable.unwrap();
    world.send("a", "2");
    expiry::forget(&broker.tables, &broker.delivery, &removed);
    assert_eq!(answered(&mut waiting).map(|found| bodies(&found)), Some(vec!["a:2#0".to_owned()]));
}

#[test]
fn a_stop_during_the_removal_of_lite_topics_keeps_the_offsets_of_the_others() {
    let mut world = World::new();
    world.topic("P", "20");
    world.pass(0);
    let all: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    world.add("c", &all);
    all.iter().for_each(|lite| world.send(lite, "m"));
    drain_once(&world, "c");
    let count = |world: &World| {
        let exists =
            |lite: &&&str| world.fixture.broker.store.find_queue(&lite_queue("P", lite), 0).is_some();
        all.iter().filter(exists).count()
    };
    world.clock.set(world.clock.now_ms() + 21 * 60_000);
    while count(&world) == 8 {
        assert_eq!(world.engine.round(world.clock.now_ms()), crate::engine::Next::At(world.clock.now_ms()));
    }
    assert_ne!(count(&world), 0, "the removal takes several rounds");
    world.engine.stop();
    assert!(saved(&world));
    let World { engine, fixture, clock, .. } = world;
    // The engine holds the store.
    drop(engine);
    let mut world = World::at(fixture.left(), clock, |_| {});
    world.set("c", &all);
    world.run();
    assert_eq!(bodies(&world.pop("c")), [""; 0]);
}

#[test]
fn unconsumed_lite_topics_of_a_deleted_parent_go_with_the_next_search() {
    let mut world = World::new();
    world.pass(0);
    world.add("c", &["a"]);
    world.send("a", "1");
    drain_once(&world, "c");
    world.send("a", "2");
    // A crash can leave the lite topics.
    let removal = crate::change::TopicChange::Remove("P".to_owned());
    world.fixture.broker.tables.topics.commit(vec![vec![removal]], 2).remove(0).unwrap();
    world.pass(21 * 60_000);
    assert!(world.fixture.broker.store.find_queue(&lite_queue("P", "a"), 0).is_none());
}

#[test]
fn a_slave_removes_a_lite_topic_after_its_master() {
    let mut world = consumed();
    let broker = world.fixture.broker.clone();
    broker.replication.role.follow(1);
    world.pass(21 * 60_000);
    assert!(broker.store.find_queue(&lite_queue("P", "a"), 0).is_some());
    // The master has removed the offset.
    broker.tables.offsets.forget_topic(&lite_queue("P", "a"));
    world.pass(2 * 60_000);
    assert!(broker.store.find_queue(&lite_queue("P", "a"), 0).is_none());
}

#[test]
fn a_lite_queue_without_messages_goes_with_the_second_search() {
    let mut world = World::new();
    world.pass(0);
    let (store, name) = (world.fixture.broker.store.clone(), lite_queue("P", "a"));
    store.queue(&name, 0).unwrap();
    world.pass(16 * 60_000);
    assert!(store.find_queue(&name, 0).is_some());
    world.pass(2 * 60_000);
    assert!(store.find_queue(&name, 0).is_none());
}

#[test]
fn unconsumed_lite_topics_expire_only_with_the_policy_drop() {
    let mut world = World::with(&[], |config| config.retention.unconsumed = store::UnconsumedPolicy::Drop);
    world.topic("P", "20");
    world.pass(0);
    world.add("c", &["a"]);
    world.send("a", "1");
    world.pass(25 * 60_000);
    assert!(world.fixture.broker.store.find_queue(&lite_queue("P", "a"), 0).is_none());
}

#[test]
fn the_lite_topics_of_a_deleted_parent_go_with_it() {
    let world = World::new();
    world.add("c", &["a"]);
    world.send("a", "1");
    world.pop("c").iter().for_each(|it| world.ack(it).unwrap());
    let (broker, queue) = (&world.fixture.broker, lite_queue("P", "a"));
    let removal = crate::change::TopicChange::Remove("P".to_owned());
    let change = crate::change::Change { topics: vec![removal], ..Default::default() };
    broker.metadata_parts().store_changes([change].into_iter()).remove(0).unwrap();
    assert!(broker.tables.store.find_queue(&queue, 0).is_none());
    assert_eq!(broker.tables.offsets.committed("G", &queue, 0), None);
    world.topic("P", "-1");
    world.add("c", &["a"]);
    world.send("a", "2");
    assert_eq!(bodies(&world.pop("c")), ["a:2#0"]);
}

#[test]
fn a_deleted_lite_group_leaves_no_offsets_and_no_clients() {
    let world = World::new();
    world.add("c", &["a"]);
    world.send("a", "1");
    world.pop("c").iter().for_each(|it| world.ack(it).unwrap());
    let mut held = world.wait("c");
    assert!(held_waits(&mut held));
    let (broker, queue) = (&world.fixture.broker, lite_queue("P", "a"));
    let removal = crate::change::GroupChange::Remove { group: "G".to_owned(), clean_offsets: false };
    let change = crate::change::Change { groups: vec![removal], ..Default::default() };
    broker.metadata_parts().store_changes([change].into_iter()).remove(0).unwrap();
    world.send("a", "2");
    assert_eq!(broker.tables.offsets.committed("G", &queue, 0), None);
    assert_eq!(broker.tables.lite.tables().clients(), 0);
}

#[test]
fn an_idle_lite_topic_leaves_no_state_of_pops() {
    let world = World::new();
    world.add("c", &["a"]);
    for round in 0..3 {
        world.send("a", &round.to_string());
        let popped = world.pop("c");
        assert_eq!(popped.len(), 1);
        assert_eq!(world.fixture.broker.delivery.pops.in_flight_queues.all().len(), 1);
        world.ack(&popped[0]).unwrap();
        assert_eq!(world.fixture.broker.delivery.pops.in_flight_queues.all().len(), 0);
    }
    assert_eq!(world.fixture.broker.tables.light.len(), 0);
    assert_eq!(world.fixture.broker.delivery.pops.in_flight_queues.earliest(), None);
}

#[test]
fn bad_pops_are_refused_as_in_java() {
    let world = World::new();
    world.fixture.broker.tables.groups.make("plain", 1).unwrap();
    world.fixture.queue("T", 0);
    let refused = |change: &dyn Fn(&mut LitePopRequest<'static>)| {
        let mut request = world.request("c", 32, 0);
        change(&mut request);
        let refusal = done(world.api().pop_lite(&request)).err().unwrap();
        (refusal.code, refusal.remark.into_owned())
    };
    let of = |code, text: &str| (code, text.to_owned());
    let illegal = response::INVALID_PARAMETER;
    let ip = "127.0.0.1";
    let number = format!("the broker[{ip}] pop message's num is greater than 32");
    assert_eq!(refused(&|it| it.count_max = 33), of(illegal, &number));
    assert_eq!(refused(&|it| it.topic = "T"), of(illegal, "the topic [T] message type not match"));
    assert_eq!(refused(&|it| it.topic = "x").0, response::TOPIC_NOT_EXIST);
    assert_eq!(refused(&|it| it.group = "x").0, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert_eq!(refused(&|it| it.group = "plain"), of(illegal, "subscription bind topic not match, plain"));
}

#[test]
fn bad_subscriptions_are_refused_as_in_java() {
    let world = World::with(&[], |config| config.lite.subscriptions_max = 3);
    let refused = |change: LiteSubscription| {
        let refusal = world.control(change).unwrap_err();
        (refusal.code, refusal.remark.into_owned())
    };
    let add = |names: &[&str]| world.change("c", LiteSubscriptionAction::PartialAdd, names);
    let text = "java.lang.IllegalStateException: Consumer group is not allowed to consume.".to_owned();
    let unknown = LiteSubscription { group: "x".to_owned(), ..add(&["a"]) };
    assert_eq!(refused(unknown), (response::ILLEGAL_OPERATION, text));
    let unbound = LiteSubscription { topic: "Q".to_owned(), ..add(&["a"]) };
    assert_eq!(refused(unbound).0, response::ILLEGAL_OPERATION);
    let quota =
        "org.apache.rocketmq.broker.tables.lite.LiteQuotaException: lite subscription quota exceeded 3";
    assert_eq!(refused(add(&["a", "b", "c", "d"])), (2018, quota.to_owned()));
    let many: Vec<String> = (0..1000).map(|number| format!("t{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(refused(world.change("c", LiteSubscriptionAction::CompleteAdd, &many)).0, 2018);
    assert_eq!(world.fixture.broker.tables.lite.tables().active(), 0);
    let long = "x".repeat(300);
    world.add("c", &["", "a$b", &long, "ok"]);
    assert_eq!(world.fixture.broker.tables.lite.tables().active(), 1, "the others can have no queue");
    world.control(LiteSubscription { client_id: " ".to_owned(), ..add(&["a"]) }).unwrap();
    let empty = world.fixture.ask(request::LITE_SUBSCRIPTION_CTL, &[], b"");
    assert_eq!((empty.0, &*empty.1), (response::ILLEGAL_OPERATION, "Request body is null."));
    let empty = world.fixture.ask(request::LITE_SUBSCRIPTION_CTL, &[], b"{\"subscriptionSet\":[]}");
    let text = "LiteSubscriptionCtlRequestBody is empty.";
    assert_eq!((empty.0, &*empty.1), (response::ILLEGAL_OPERATION, text));
    let malformed = br#"{"subscriptionSet":[{"action":"PARTIAL_ADD","version":"x"}]}"#;
    assert_eq!(world.fixture.ask(request::LITE_SUBSCRIPTION_CTL, &[], malformed).0, response::SYSTEM_ERROR);
}

#[test]
fn bad_sends_and_acknowledgements_are_refused() {
    let world = World::new();
    let long = "x".repeat(300);
    for lite in ["a$b", "a/b", &long] {
        assert_eq!(world.try_send(lite, "m").unwrap_err().code, response::MESSAGE_ILLEGAL);
    }
    world.add("c", &["a"]);
    world.send("a", "1");
    let popped = world.pop("c").remove(0);
    let refused = |delivery: Delivery| world.ack(&delivery).unwrap_err().remark.into_owned();
    assert_eq!(refused(Delivery { offset: 2, ..popped.clone() }), "ack offset illegal.");
    let text = "group type or bind topic not match.";
    world.fixture.broker.tables.groups.make("plain", 1).unwrap();
    let fields = [("topic", "P"), ("consumerGroup", "plain"), ("liteTopic", "a"), ("queueId", "0")];
    let handle = World::handle(&popped);
    let fields = [&fields[..], &[("offset", "0"), ("extraInfo", &handle)]].concat();
    let answer = world.fixture.ask(request::ACK_MESSAGE, &fields, b"");
    assert_eq!((answer.0, &*answer.1), (response::INVALID_PARAMETER, text));
    world.ack(&popped).unwrap();
    world.ack(&popped).unwrap();
}

#[test]
fn a_refused_message_leaves_no_lite_queue() {
    let world = World::new();
    let ask = |further: &str, body: &[u8]| {
        let text = format!("__LITE_TOPIC\u{1}a\u{2}{further}\u{2}");
        let fields = [("producerGroup", "p"), ("topic", "P"), ("defaultTopic", "TBW102"), ("queueId", "0")];
        let more = [("defaultTopicQueueNums", "4"), ("sysFlag", "0"), ("bornTimestamp", "1"), ("flag", "0")];
        let fields = [&fields[..], &more, &[("properties", &text)]].concat();
        world.fixture.ask(request::SEND_MESSAGE, &fields, body).0
    };
    let long = format!("KEYS\u{1}{}", "x".repeat(32_600));
    for (further, body) in [("DELAY\u{1}x", "m"), ("INNER_NUM\u{1}2", "m"), (&long, "m"), ("k\u{1}v", "")] {
        let further_end = &further[..further.len().min(20)];
        assert_ne!(ask(further, body.as_bytes()), 0, "{further_end}");
        assert!(world.fixture.broker.store.find_queue(&lite_queue("P", "a"), 0).is_none(), "{further_end}");
        assert_eq!(world.fixture.broker.tables.light.count(), 0, "{further_end}");
    }
    assert_eq!(ask("k\u{1}v", b"m"), 0);
    assert_eq!(world.fixture.broker.tables.light.count(), 1);
}

#[test]
fn lite_topics_are_served_as_frames() {
    let world = World::new();
    let body = br#"{"subscriptionSet":[{"action":"PARTIAL_ADD","clientId":"c","group":"G","topic":"P","liteTopicSet":["a"],"version":0}]}"#;
    assert_eq!(world.fixture.ask(request::LITE_SUBSCRIPTION_CTL, &[], body).0, 0);
    world.send("a", "1");
    let fields = [("topic", "P"), ("consumerGroup", "G"), ("clientId", "c"), ("maxMsgNum", "8")];
    let fields = [&fields[..], &[("invisibleTime", "60000"), ("pollTime", "0")]].concat();
    let found = world.fixture.ask(request::POP_LITE_MESSAGE, &fields, b"");
    assert_eq!((found.0, &*found.1), (0, "FOUND"));
    assert!(RecordView::parse(&found.2).is_ok());
    let none = world.fixture.ask(request::POP_LITE_MESSAGE, &fields, b"");
    assert_eq!((none.0, &*none.1), (response::POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE"));
}

#[test]
fn a_lite_topic_is_searched_by_time() {
    let mut world = World::new();
    for body in ["1", "2", "3"] {
        world.send("a", body);
        world.pass(1000);
    }
    let broker = &world.fixture.broker;
    let search = |lite_topic, after_ms, boundary| {
        let timestamp_ms = START_MS + after_ms;
        let wanted = crate::lookup::SearchOffset { topic: "P", queue_id: 3, timestamp_ms, boundary };
        crate::lookup::search_lite(&broker.tables, &broker.replication, lite_topic, &wanted).unwrap()
    };
    let (lower, upper) = (store::Boundary::Lower, store::Boundary::Upper);
    assert_eq!([search("a", 1000, lower), search("a", 1500, lower), search("a", 9000, lower)], [1, 2, 3]);
    assert_eq!([search("a", 1500, upper), search("missing", 0, lower)], [1, 0]);
}

#[test]
fn operators_see_lite_topics() {
    let world = World::new();
    world.topic("P", "30");
    world.add("c", &["a", "b"]);
    world.send("a", "1");
    world.send("a", "2");
    let popped = world.pop_up_to("c", 1);
    world.ack(&popped[0]).unwrap();
    let ask = |code, fields: &[(&str, &str)]| -> serde_json::Value {
        let (code, remark, body) = world.fixture.ask(code, fields, b"");
        assert_eq!(code, 0, "{remark}");
        if body.is_empty() { serde_json::Value::Null } else { serde_json::from_slice(&body).unwrap() }
    };
    let info = ask(request::GET_BROKER_LITE_INFO, &[]);
    assert_eq!(info["liteSubscriptionCount"], 2);
    assert_eq!((&info["topicMeta"]["P"], &info["groupMeta"]["P"][0]), (&30.into(), &"G".into()));
    let info = ask(request::GET_PARENT_TOPIC_INFO, &[("topic", "P")]);
    assert_eq!((&info["ttl"], &info["liteTopicCount"]), (&30.into(), &1.into()));
    let info = ask(request::GET_LITE_TOPIC_INFO, &[("parentTopic", "P"), ("liteTopic", "a")]);
    assert_eq!(
        (&info["topicOffset"]["maxOffset"], &info["subscriber"][0]["clientId"]),
        (&2.into(), &"c".into())
    );
    let fields = [("parentTopic", "P"), ("group", "G"), ("clientId", "c")];
    assert_eq!(ask(request::GET_LITE_CLIENT_INFO, &fields)["liteTopicCount"], 2);
    let info = ask(request::GET_LITE_GROUP_INFO, &[("group", "G"), ("topK", "20")]);
    assert_eq!((&info["totalLagCount"], &info["lagCountTopK"][0]["liteTopic"]), (&1.into(), &"a".into()));
    let info = ask(request::GET_LITE_GROUP_INFO, &[("group", "G"), ("liteTopic", "a")]);
    assert_eq!(info["liteTopicOffsetWrapper"]["consumerOffset"], 1);
    ask(request::TRIGGER_LITE_DISPATCH, &[("group", "G"), ("clientId", "c")]);
    for (code, fields) in [
        (request::GET_LITE_GROUP_INFO, &[("group", "G"), ("liteTopic", "missing")]),
        (request::TRIGGER_LITE_DISPATCH, &[("group", "G"), ("clientId", "c")]),
    ] {
        assert_eq!(world.fixture.ask(code, fields, b"").1, "not set any response code", "{code}");
    }
    let refused = world.fixture.ask(request::GET_PARENT_TOPIC_INFO, &[("topic", "x")], b"");
    assert_eq!((refused.0, &*refused.1), (response::TOPIC_NOT_EXIST, "Topic [x] not exist."));
    world.fixture.broker.tables.groups.make("plain", 1).unwrap();
    let refused = world.fixture.ask(request::GET_LITE_GROUP_INFO, &[("group", "plain"), ("topK", "1")], b"");
    assert_eq!(&*refused.1, "Group [plain] is not a LITE group.");
}

#[test]
fn operators_see_which_broker_gets_the_messages_of_a_lite_topic() {
    let mut world = World::at(tempfile::tempdir().unwrap(), Clock::standing(START_MS), |config| {
        config.namesrv_addr = Some("127.0.0.1:1".to_owned());
    });
    world.topic("P", "-1");
    world.run();
    let broker = &world.fixture.broker;
    let own = &*broker.runtime.config.broker_name;
    // The broker behind all others in the order of names.
    let queues = ["0", own].map(|name| (0..4).map(|id| MessageQueue::new("P", name, id)).collect::<Vec<_>>());
    let (routes, generation) = (&broker.tables.routes, broker.tables.topics.generation());
    let readable = queues[1].clone();
    let queues = crate::state::TopicQueues { readable, writable: queues.concat() };
    routes.keep("P", START_MS, generation, Some(Arc::new(queues)));
    let is_here = |lite: &str| {
        let fields = [("parentTopic", "P"), ("liteTopic", lite)];
        let (code, remark, body) = world.fixture.ask(request::GET_LITE_TOPIC_INFO, &fields, b"");
        assert_eq!(code, 0, "{remark}");
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["shardingToBroker"].clone()
    };
    // Of eight queues Guava chooses the queues 0, 3, 1 and 5.
    let names = ["a", "order-1", "group-0", "abcdefghijklmnopqrstuvwxyz"];
    assert_eq!(names.map(is_here), [false, false, false, true].map(serde_json::Value::from));
    routes.keep("P", START_MS, generation, None);
    routes.no_answer(START_MS);
    assert_eq!(is_here("a"), true, "a topic without a route is here");
}
