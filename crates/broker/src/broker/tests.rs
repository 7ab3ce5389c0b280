//! A whole broker on one thread: the test runs its engines, moves its clock and cuts its power. Only the store has threads.

use net::ConnectionHandle;
use net::Service as _;
use store::FakeDisk;
use store::timer::{TimerConfig, TimerFiles};
use tempfile::TempDir;
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::{PullHeader, SendHeader, pull_flag};

use super::*;
use crate::engine::{Engine, Next};
use crate::housekeeping::{answer_expired, saving};
use crate::names;
use crate::pop::revive::Reviver;
use crate::position_writer::PositionWriter;
use crate::remoting::{Dispatcher, Port};
use crate::schedule::DelayLevels;
use crate::testing::{ADDRESS, Fixture, answers};
use crate::timer::fetch::Fetch;
use crate::timer::scheduler::Scheduler;
use crate::transaction::checks;

/// Any time after the epoch; no test reads the system's clock.
const START_MS: i64 = 1_700_000_000_000;

/// A broker on a fake disk, with the engines that deliver and save, in the order in which they are stopped.
struct World {
    disk: FakeDisk,
    clock: Clock,
    fixture: Fixture,
    engines: Vec<Box<dyn Engine>>,
    /// Visible actions of the broker, a line each.
    trace: Vec<String>,
}

impl World {
    fn open(disk: FakeDisk, clock: Clock, directory: TempDir, trace: Vec<String>) -> Self {
        let fixture = Fixture::timed(Arc::new(disk.clone()), clock.clone(), directory, |config| {
            config.store.index_slots = 100;
            config.store.index_items = 400;
        });
        let broker = &fixture.broker;
        let revives = broker.delivery.pops.revive_topic.clone();
        for (topic, last) in [("T", 0), (names::SCHEDULE_TOPIC, 17), (names::TIMER_TOPIC, 0), (&*revives, 7)]
        {
            fixture.queue(topic, last);
        }
        broker.tables.groups.make("G", START_MS).unwrap();
        let files = broker
            .runtime
            .config
            .timers
            .files(&broker.runtime.config.store, broker.runtime.config.retention.reserved_ms);
        // Small files: a power cut copies them.
        let files = TimerConfig { log_file_bytes: 1 << 12, slots: 1000, roll_window_slots: 400, ..files };
        let files = TimerFiles::open(files, Arc::new(disk.clone())).unwrap();
        let (position_writer, writes) = PositionWriter::new();
        let (fetch, fetcher) = Fetch::new(broker.engines.clone(), files.log().clone());
        let levels = DelayLevels::new(broker.engines.clone(), position_writer.clone());
        let timer = Scheduler::new(broker.engines.clone(), files, fetch, position_writer).unwrap();
        let pulls = broker.clone();
        let engines: Vec<Box<dyn Engine>> = vec![
            Box::new(writes),
            Box::new(levels),
            Box::new(fetcher),
            Box::new(timer),
            Box::new(Reviver::new(broker.pops.clone())),
            Box::new(checks(broker.engines.clone())),
            Box::new(saving(broker.housekeeping_parts())),
            Box::new(move |now_ms| answer_expired(&pulls.sessions, &pulls.pulls, now_ms)),
        ];
        Self { disk, clock, fixture, engines, trace }
    }

    /// Moves the clock forward to `now_ms`. Runs the engines at every time that they requested.
    fn run_until(&mut self, now_ms: i64) {
        loop {
            let at_ms = self.clock.now_ms();
            let rounds: Vec<Next> = self.engines.iter_mut().map(|engine| engine.round(at_ms)).collect();
            self.note(&format!("rounds {rounds:?}"));
            match rounds.into_iter().fold(Next::Woken, Next::or) {
                // What one engine leaves to another is done in the next round of all.
                Next::At(next_ms) if next_ms < now_ms => self.clock.set(next_ms.max(at_ms)),
                _ if at_ms < now_ms => self.clock.set(now_ms),
                _ => return,
            }
        }
    }

    /// Cuts the disk's power, and starts another broker on the remaining data.
    fn power_cut(self, seed: u64) -> Self {
        let disk = self.disk.power_cut(seed);
        Self::open(disk, self.clock, self.fixture.left(), self.trace)
    }

    /// Adds an event to the trace, with its time and the progress of the queue.
    fn note(&mut self, what: &str) {
        let Some(queue) = self.fixture.broker.tables.log_queue("T", 0) else { return };
        let (at_ms, end) = (self.clock.now_ms() - START_MS, queue.index.max());
        self.trace.push(format!("{at_ms} {end} {what}"));
    }

    /// Serves a request as a read batch of its own and returns the answer bytes, which are empty for a suspended pull.
    fn serve(&mut self, peer: &Arc<ConnectionHandle>, mut frame: Vec<u8>) -> Vec<u8> {
        let dispatcher = Dispatcher::new(self.fixture.broker.clone(), Port::Own);
        let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
        dispatcher.frame(&mut read_batch, peer, Command::decode(&mut frame).unwrap(), &mut out);
        dispatcher.end(&mut read_batch, peer, &mut out);
        dispatcher.answered(&mut read_batch);
        self.note(&format!("answered {out:x?}"));
        out
    }

    fn send(&mut self, body: &[u8], properties: &[u8]) {
        let header = SendHeader { producer_group: "P", topic: "T", properties, ..SendHeader::default() };
        let (producer, mut frame) = (Arc::new(ConnectionHandle::detached(1, ADDRESS)), Vec::new());
        let head = Head::request(Encoding::Json, request::SEND_MESSAGE_V2, 1);
        header.write(FrameWriter::begin(&mut frame, head)).finish(body);
        assert_eq!(answers(self.serve(&producer, frame)), [(0, 1)]);
    }

    /// Pulls from an offset and waits up to 20 s for a message. Returns the connection and the immediate response.
    fn pull(&mut self, queue_offset: i64) -> (Arc<ConnectionHandle>, Vec<u8>) {
        self.pull_for(queue_offset, 20_000)
    }

    /// Pulls as [`World::pull`] with a long polling time of its own, in milliseconds.
    fn pull_for(&mut self, queue_offset: i64, suspend_timeout_ms: i64) -> (Arc<ConnectionHandle>, Vec<u8>) {
        let header = PullHeader {
            consumer_group: "G",
            topic: "T",
            queue_offset,
            max_messages: 32,
            sys_flag: pull_flag::SUSPEND | pull_flag::SUBSCRIPTION,
            suspend_timeout_ms,
            subscription: "*",
            ..PullHeader::default()
        };
        let (consumer, mut frame) = (Arc::new(ConnectionHandle::detached(2, ADDRESS)), Vec::new());
        let head = Head::request(Encoding::Json, request::PULL_MESSAGE, 2);
        header.write(FrameWriter::begin(&mut frame, head)).finish(b"");
        let answered = self.serve(&consumer, frame);
        (consumer, answered)
    }

    /// The answers that a consumer got later: response code and opaque of each.
    fn pushed(&mut self, consumer: &Arc<ConnectionHandle>) -> Vec<(i32, i32)> {
        let bytes = consumer.pushed();
        self.note(&format!("pushed {bytes:x?}"));
        answers(bytes)
    }

    fn bodies(&self) -> Vec<String> {
        let text = |(body, ..): (Vec<u8>, Vec<u8>, i32)| String::from_utf8(body).unwrap();
        self.fixture.messages("T", 0).into_iter().map(text).collect()
    }
}

/// Sends, pulls, delays, cuts the power and continues. Returns the trace.
fn life(seed: u64) -> Vec<String> {
    let (disk, clock) = (FakeDisk::new(512), Clock::standing(START_MS));
    let mut world = World::open(disk, clock, tempfile::tempdir().unwrap(), Vec::new());

    // A suspended pull is answered by the send.
    let (consumer, answered) = world.pull(0);
    assert!(answered.is_empty(), "the pull waits");
    world.send(b"first", b"");
    assert_eq!(world.pushed(&consumer), [(response::SUCCESS, 2)]);

    // Delay level 2 is five seconds; the timed message is due a little later.
    let (consumer, _) = world.pull(1);
    world.send(b"delayed", b"DELAY\x012\x02");
    let due_ms = START_MS + 7300;
    world.send(b"timed", format!("TIMER_DELIVER_MS\x01{due_ms}\x02").as_bytes());
    world.run_until(START_MS + 4999);
    assert_eq!((world.bodies(), world.pushed(&consumer)), (vec!["first".to_owned()], Vec::new()));
    world.run_until(START_MS + 5000);
    assert_eq!(world.bodies(), ["first", "delayed"]);
    assert_eq!(world.pushed(&consumer), [(response::SUCCESS, 2)]);
    world.run_until(due_ms - 1);
    assert_eq!(world.bodies(), ["first", "delayed"]);
    world.run_until(due_ms);
    assert_eq!(world.bodies(), ["first", "delayed", "timed"]);

    // A pull that finds nothing is answered when its time is over.
    let (consumer, _) = world.pull(3);
    let over_ms = world.clock.now_ms() + 20_000;
    world.run_until(over_ms - 1);
    assert!(world.pushed(&consumer).is_empty());
    world.run_until(over_ms);
    assert_eq!(world.pushed(&consumer), [(response::PULL_NOT_FOUND, 2)]);

    // What is on disk survives a power cut, and is delivered or due as before.
    world.fixture.broker.tables.offsets.commit("G", "T", 0, 2);
    world.send(b"later", b"DELAY\x013\x02");
    world.run_until(over_ms + 6000);
    let broker = &world.fixture.broker;
    assert!(crate::position_writer::wait_flushed(&broker.store, broker.store.appended()));
    let mut world = world.power_cut(seed);
    let broker = &world.fixture.broker;
    assert_eq!(broker.tables.offsets.committed("G", "T", 0), Some(2));
    assert_eq!(world.bodies(), ["first", "delayed", "timed"]);
    world.run_until(over_ms + 9999);
    assert_eq!(world.bodies(), ["first", "delayed", "timed"], "nothing is delivered twice");
    world.run_until(over_ms + 10_000);
    assert_eq!(world.bodies(), ["first", "delayed", "timed", "later"]);
    world.trace
}

/// A broker with one message in the queue that is pulled.
fn world_with_a_message() -> World {
    let (disk, clock) = (FakeDisk::new(512), Clock::standing(START_MS));
    let mut world = World::open(disk, clock, tempfile::tempdir().unwrap(), Vec::new());
    world.send(b"first", b"");
    world
}

#[test]
fn a_pull_that_waits_learns_of_a_reset_before_it_gets_a_message() {
    let mut world = world_with_a_message();
    let (consumer, answered) = world.pull(1);
    assert!(answered.is_empty(), "the pull waits");
    world.fixture.broker.tables.offsets.set_reset("G", "T", 0, 0);
    world.send(b"second", b"");
    assert_eq!(world.pushed(&consumer), [(response::PULL_OFFSET_MOVED, 2)]);
    let (_, answered) = world.pull(0);
    assert_eq!(answers(answered), [(response::SUCCESS, 2)], "once");
}

#[test]
fn a_pull_that_may_wait_and_says_no_time_waits_for_a_second() {
    let mut world = world_with_a_message();
    for suspend_timeout_ms in [0, -1] {
        let (consumer, answered) = world.pull_for(1, suspend_timeout_ms);
        assert!(answered.is_empty(), "the pull waits");
        let over_ms = world.clock.now_ms() + 1000;
        world.run_until(over_ms - 1);
        assert!(world.pushed(&consumer).is_empty());
        world.run_until(over_ms);
        assert_eq!(world.pushed(&consumer), [(response::PULL_NOT_FOUND, 2)]);
    }
}

#[test]
fn one_thread_sends_pulls_delays_and_survives_a_power_cut() {
    for seed in 0..20 {
        life(seed);
    }
}

#[test]
fn a_seed_repeated_gives_the_same_trace() {
    for seed in 0..5 {
        let (one, other) = (life(seed), life(seed));
        assert!(one.len() > 20, "{one:?}");
        for (line, (one, other)) in one.iter().zip(&other).enumerate() {
            assert_eq!(one, other, "line {line} of seed {seed}");
        }
        assert_eq!(one.len(), other.len());
    }
}
