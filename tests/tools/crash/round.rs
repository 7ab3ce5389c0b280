//! One round: load on a server until something happens to it, then what the queues hold.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::judge::{Counts, Judge, Promise};
use crate::common::load::{self, History, Plan};
use crate::common::random::Random;
use crate::common::read::{self, Read};
use crate::common::server::{Server, Setup};
use crate::common::wire_client::Connection;

/// The topic all messages go to.
pub const TOPIC: &str = "Crash";
const PRODUCERS: u32 = 4;
/// Time between two questions how far the log is on the disk.
const WATCH_INTERVAL: Duration = Duration::from_millis(5);

/// What is sent in a round.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Number of the round: its producers get names of their own.
    pub round: u64,
    pub queues: usize,
    /// One request in so many does not wait for the disk; zero for none.
    pub unwaited: u64,
    /// Pause of a producer after each turn of requests.
    pub pause: Duration,
    /// Planted bug: messages count as acknowledged when they are sent.
    pub early: bool,
}

/// Producers and a follower at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    producers: Vec<JoinHandle<History>>,
    follower: JoinHandle<Vec<Read>>,
    log_end: Arc<AtomicU64>,
    flushed: Arc<AtomicU64>,
}

impl Load {
    /// Starts four producers, and a consumer that follows them from `ends`.
    pub fn start(setup: &Setup, random: &mut Random, mix: Mix, ends: Vec<i64>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let log_end = Arc::new(AtomicU64::new(0));
        let producer = |index: u32, random: &mut Random| {
            let plan = Plan {
                broker: setup.broker(),
                topic: TOPIC.to_owned(),
                queues: mix.queues,
                producer: mix.round as u32 * PRODUCERS + index,
                window: random.within(1, 64) as usize,
                filler_max: random.within(100, 2000) as usize,
                unwaited: mix.unwaited,
                pause: mix.pause,
                acknowledge_early: mix.early,
                log_end: log_end.clone(),
            };
            let stop = stop.clone();
            std::thread::spawn(move || load::run(&plan, &stop))
        };
        let producers = (0..PRODUCERS).map(|index| producer(index, random)).collect();
        let (address, seen_stop) = (setup.broker(), stop.clone());
        let follower = std::thread::spawn(move || match Connection::open(address) {
            Ok(mut connection) => read::follow(&mut connection, TOPIC, &ends, &seen_stop),
            Err(_) => Vec::new(),
        });
        let (flushed, seen_stop) = (Arc::new(AtomicU64::new(0)), stop.clone());
        let highest = flushed.clone();
        // The thread ends with the server, or with the load.
        std::thread::spawn(move || watch_flushes(address, &highest, &seen_stop));
        Self { stop, producers, follower, log_end, flushed }
    }

    /// Highest position in the commit log that a producer was told so far.
    pub fn log_end(&self) -> u64 {
        self.log_end.load(Ordering::Relaxed)
    }

    /// Highest position in the log up to which the server said so far that everything is on the disk.
    pub fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Relaxed)
    }

    /// Waits until a producer was told a position from `position` on; also ends when that never happens.
    pub fn await_position(&self, position: u64) {
        load::await_position(&self.log_end, position);
    }

    /// Asks everybody to end by themselves; without it they end with the server.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end; what was sent and what was seen.
    pub fn join(self) -> (Vec<History>, Vec<Read>) {
        let whole = |handle: JoinHandle<History>| handle.join().expect("a producer does not panic");
        let histories = self.producers.into_iter().map(whole).collect();
        self.stop.store(true, Ordering::Relaxed);
        (histories, self.follower.join().expect("the follower does not panic"))
    }
}

/// Notes how far the server says that the log is on the disk, until `stop` or until the server is gone.
fn watch_flushes(broker: SocketAddr, highest: &AtomicU64, stop: &AtomicBool) {
    let Ok(mut connection) = Connection::open(broker) else { return };
    while !stop.load(Ordering::Relaxed) {
        let Ok((flushed, _)) = read::flushed(&mut connection) else { return };
        highest.fetch_max(flushed, Ordering::Relaxed);
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// Gives a round to the judge: reads every queue of `server` from `from` to its end.
pub fn settle(
    judge: &mut Judge,
    server: &Server,
    (histories, seen): (Vec<History>, Vec<Read>),
    from: &[i64],
    promise: Promise,
) -> io::Result<()> {
    judge.begin(histories);
    seen.into_iter().for_each(|read| judge.read(read));
    let mut connection = Connection::open(server.setup().broker())?;
    let committed = read::committed(&mut connection, TOPIC, from.len())?;
    let ends = read::drain(&mut connection, TOPIC, from, |read| judge.read(read))?;
    judge.end(promise, &ends);
    judge.positions(&committed, &ends);
    Ok(())
}

/// Creates the topic, so that the follower of the first round finds it.
pub fn create_topic(server: &Server, queues: usize) -> io::Result<()> {
    let mut connection = Connection::open(server.setup().broker())?;
    let answer = connection.call(
        wire::codes::request::UPDATE_AND_CREATE_TOPIC,
        |writer| {
            writer
                .text("topic", TOPIC)
                .text("defaultTopic", "TBW102")
                .number("readQueueNums", queues)
                .number("writeQueueNums", queues)
                .number("perm", 6)
                .text("topicFilterType", "SINGLE_TAG")
                .number("topicSysFlag", 0)
                .flag("order", false)
        },
        &[],
    );
    match answer.code {
        0 => Ok(()),
        code => Err(io::Error::other(format!("the topic cannot be created: {code} {}", answer.remark()))),
    }
}

/// Longest, median and count of durations, for people.
pub fn spread(durations: &mut [Duration]) -> String {
    durations.sort_unstable();
    match durations {
        [] => "none".to_owned(),
        all => format!("p50 {:?} max {:?} of {}", all[all.len() / 2], all[all.len() - 1], all.len()),
    }
}

/// Counts, for people.
pub fn describe(counts: Counts) -> String {
    let Counts { sent, acknowledged, refused, lost, lost_age, read } = counts;
    format!(
        "{sent} sent, {acknowledged} acknowledged, {refused} refused, {lost} lost as allowed up to {lost_age:?} after their \
         acknowledgement, {read} read"
    )
}
