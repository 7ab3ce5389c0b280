//! What the cases share: a server on a disk of their own, a load that is judged, single requests.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Options;
use crate::common::PATIENCE;
use crate::common::judge::{Judge, Promise};
use crate::common::load::{self, History, Plan};
use crate::common::message::{self, Tag};
use crate::common::read;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::{Arrived, Connection, send_header};

/// The topic of the loads.
pub const TOPIC: &str = "Faults";
/// Its queues.
pub const QUEUES: usize = 4;
const PRODUCERS: u32 = 2;

/// Why a case did not pass.
pub enum Trouble {
    /// It cannot be run here.
    Impossible(String),
    Failed(String),
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Fails the case unless `holds`.
pub fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), Trouble> {
    if holds { Ok(()) } else { Err(Trouble::Failed(what())) }
}

/// A directory in memory that is gone with the case.
pub fn home() -> Result<tempfile::TempDir, Trouble> {
    let memory = Path::new("/dev/shm");
    Ok(if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }?)
}

/// A setup with its data on the disk mounted at `mount` and the rest in `home`.
pub fn setup(options: &Options, mount: &Path, home: &Path, lines: &[&str]) -> Setup {
    let mut setup = Setup::new(&options.binary, mount.join("data"), home.join("desk"));
    setup.lines.extend(lines.iter().map(|line| (*line).to_owned()));
    // The disk is small and has nothing else on it.
    setup.disk_limits = &[];
    setup
}

/// Producers at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    producers: Vec<JoinHandle<History>>,
    log_end: Arc<AtomicU64>,
}

impl Load {
    /// Starts producers with names of this `round`, at most `window` requests in flight each.
    pub fn start(setup: &Setup, round: u32, window: usize) -> Self {
        // By its first message it would be made while others overtake that one. A fault may be why it cannot be made.
        let _ = create(setup, TOPIC);
        let (stop, log_end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let producer = |index| {
            let plan = Plan {
                broker: setup.broker(),
                topic: TOPIC.to_owned(),
                queues: QUEUES,
                producer: round * PRODUCERS + index,
                window,
                filler_max: 4000,
                unwaited: 0,
                pause: Duration::from_millis(2),
                acknowledge_early: false,
                log_end: log_end.clone(),
            };
            let stop = stop.clone();
            std::thread::spawn(move || load::run(&plan, &stop))
        };
        Self { producers: (0..PRODUCERS).map(producer).collect(), stop, log_end }
    }

    /// Highest position in the log that a producer was told so far; 0 before the first.
    pub fn position(&self) -> u64 {
        self.log_end.load(Ordering::Relaxed)
    }

    /// Waits until further messages are acknowledged, `bytes` of the log at least.
    pub fn go_on(&self, bytes: u64) -> Result<(), Trouble> {
        let goes_on = load::await_position(&self.log_end, 1)
            && load::await_position(&self.log_end, self.position() + bytes);
        must(goes_on, || format!("the load stands still at {}", self.position()))
    }

    /// Ends it and waits for the answers that are missing.
    pub fn stop(self) -> Vec<History> {
        self.stop.store(true, Ordering::Relaxed);
        self.producers
            .into_iter()
            .map(|producer| producer.join().expect("a producer does not panic"))
            .collect()
    }
}

/// Judges a load by what `server` has; a line for people.
pub fn judge(server: &Server, histories: Vec<History>, promise: Promise) -> Result<String, Trouble> {
    let mut judge = Judge::new(QUEUES);
    judge.begin(histories);
    let mut connection = Connection::open(server.setup().broker())?;
    let ends = read::drain(&mut connection, TOPIC, &[0; QUEUES], |read| judge.read(read))?;
    judge.end(promise, &ends);
    let counts = judge.counts();
    let (violations, texts) = judge.violations();
    must(violations == 0, || {
        let few = &texts[..texts.len().min(5)];
        format!("{violations} violations: {}\n{}", few.join("\n  "), server.setup().log_tail())
    })?;
    Ok(format!(
        "{} sent, {} acknowledged, {} refused, {} lost as allowed up to {:?} after their acknowledgement, {} there",
        counts.sent, counts.acknowledged, counts.refused, counts.lost, counts.lost_age, counts.read
    ))
}

/// Sends one message of `bytes` to a queue of `topic`; the answer.
pub fn send(connection: &mut Connection, topic: &str, queue: i32, bytes: usize) -> io::Result<Arrived> {
    let mut body = Vec::new();
    message::write(&mut body, Tag { producer: message::DELAYED, sequence: 0 }, bytes);
    let header = send_header(topic, queue);
    let code = wire::codes::request::SEND_MESSAGE_V2;
    let opaque = connection.ask(code, |writer| header.write(writer), &body)?;
    connection.answer(opaque)
}

/// Creates a topic of four queues; the code of the answer.
pub fn create(setup: &Setup, topic: &str) -> Result<i32, Trouble> {
    let mut connection = Connection::open(setup.broker())?;
    let answer = connection.call(
        wire::codes::request::UPDATE_AND_CREATE_TOPIC,
        |writer| {
            writer
                .text("topic", topic)
                .text("defaultTopic", "TBW102")
                .number("readQueueNums", QUEUES)
                .number("writeQueueNums", QUEUES)
                .number("perm", 6)
                .text("topicFilterType", "SINGLE_TAG")
                .number("topicSysFlag", 0)
                .flag("order", false)
        },
        &[],
    );
    Ok(answer.code)
}

/// Makes the topic of [`answered`], and the consumer group: neither can be made on a disk that does not write.
pub fn prime(setup: &Setup) -> Result<(), Trouble> {
    let (code, remark) = answered(setup)?;
    must(code == 0, || format!("the first send is answered {code} {remark}"))?;
    let mut connection = Connection::open(setup.broker())?;
    read::drain(&mut connection, "Probe", &[0], |_| {})?;
    Ok(())
}

/// What the next send is answered: its code, and its remark.
pub fn answered(setup: &Setup) -> Result<(i32, String), Trouble> {
    let mut connection = Connection::open(setup.broker())?;
    let answer = send(&mut connection, "Probe", 0, 1000)?;
    Ok((answer.code, answer.remark().to_owned()))
}

/// Tries until `holds` does; how long that took. Fails the case after [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Trouble>) -> Result<Duration, Trouble> {
    let began = Instant::now();
    while !holds()? {
        must(began.elapsed() < PATIENCE, || format!("not within {PATIENCE:?}: {what}"))?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(began.elapsed())
}

/// Fails the case when the process has ended: no fault of a disk may end it.
pub fn runs(server: &mut Server) -> Result<(), Trouble> {
    match server.ended() {
        None => Ok(()),
        Some(status) => Err(Trouble::Failed(format!("the server ended with {status}"))),
    }
}

/// Ends the server with SIGTERM; it may say that it could not leave cleanly, but not crash or hang.
pub fn end(server: Server) -> Result<(), Trouble> {
    use std::os::unix::process::ExitStatusExt;
    let status = server.terminate();
    must(status.signal().is_none(), || format!("the server was ended by {status}"))
}
