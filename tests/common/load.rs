//! Producers that number their messages and note what became of each.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wire::batch::{self, Entry};
use wire::codes::{request, response};
use wire::frame::{Command, FrameWriter, Head};
use wire::header::SendHeader;

use super::PATIENCE;
use super::message::{self, Tag};
use super::random::Random;
use super::wire_client::{Connection, send_header, stored_at};

/// Where an acknowledged message is, as far as the answer says.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Number in its queue; unknown when a planted bug acknowledges before the answer.
    pub offset: Option<i64>,
    /// Position in the commit log; known for all but the later messages of a batch.
    pub log: Option<u64>,
    pub at: Instant,
}

/// What became of a message.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// Answered with success.
    Acknowledged(Place),
    /// Answered with an error that promises that it was not stored.
    Refused,
    /// Neither: the connection ended, or the disk did not answer in time.
    Unknown,
}

/// One message sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub queue: usize,
    /// The answer waits for the disk under sync flush.
    pub waited: bool,
    pub fate: Fate,
}

/// All messages of one producer, by sequence.
#[derive(Clone, Debug)]
pub struct History {
    pub producer: u32,
    pub sent: Vec<Sent>,
    /// An answer that no server may give.
    pub wrong: Option<String>,
}

/// What a producer does.
#[derive(Clone, Debug)]
pub struct Plan {
    pub broker: SocketAddr,
    pub topic: String,
    pub queues: usize,
    pub producer: u32,
    /// Requests in flight at most.
    pub window: usize,
    /// Filler of a body at most; one in 500 is up to 100 KB.
    pub filler_max: usize,
    /// One request in so many says `WAIT=false`, and as many are one-way; zero for none.
    pub unwaited: u64,
    /// Pause after each turn of requests.
    pub pause: Duration,
    /// Planted bug of the test itself: calls a message acknowledged as soon as it is written to the socket.
    pub acknowledge_early: bool,
    /// Highest position in the commit log that any producer was told.
    pub log_end: Arc<AtomicU64>,
}

/// Waits until `log_end` has reached `position`; whether it has. Producers that are refused never get there.
pub fn await_position(log_end: &AtomicU64, position: u64) -> bool {
    let began = Instant::now();
    while log_end.load(Ordering::Relaxed) < position {
        if began.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Sends until the server is gone, or until `stop` and every answer arrived.
pub fn run(plan: &Plan, stop: &AtomicBool) -> History {
    let mut producer = Producer {
        plan,
        random: Random::new(u64::from(plan.producer)),
        history: History { producer: plan.producer, sent: Vec::new(), wrong: None },
        flying: HashMap::new(),
        opaque: 0,
        out: Vec::new(),
    };
    // An error ends the load: it means that the server is gone, which is the point.
    let _ = Connection::open(plan.broker).and_then(|mut connection| producer.run(&mut connection, stop));
    producer.history
}

/// A request without an answer yet.
struct Flight {
    first: u64,
    count: usize,
}

struct Producer<'a> {
    plan: &'a Plan,
    random: Random,
    history: History,
    flying: HashMap<i32, Flight>,
    opaque: i32,
    out: Vec<u8>,
}

impl Producer<'_> {
    fn run(&mut self, connection: &mut Connection, stop: &AtomicBool) -> io::Result<()> {
        loop {
            let stopping = stop.load(Ordering::Relaxed);
            if stopping && self.flying.is_empty() {
                return Ok(());
            }
            std::thread::sleep(self.plan.pause);
            self.out.clear();
            while !stopping && self.flying.len() < self.plan.window {
                self.request();
            }
            connection.write(&self.out)?;
            connection.read_available(|command| {
                if let Err(wrong) = self.answer(command) {
                    self.history.wrong.get_or_insert(wrong);
                }
            })?;
        }
    }

    /// Adds one request to the output: a message, or now and then a batch of three.
    fn request(&mut self) {
        let batch = self.random.one_in(16);
        let count = if batch { 3 } else { 1 };
        let queue = self.random.within(0, self.plan.queues as u64) as usize;
        let first = self.history.sent.len() as u64;
        let waited = self.plan.unwaited == 0 || !self.random.one_in(self.plan.unwaited);
        let one_way = self.plan.unwaited > 0 && self.random.one_in(self.plan.unwaited);
        let mut body = Vec::new();
        let mut properties = Vec::new();
        for sequence in first..first + count as u64 {
            let largest = if self.random.one_in(500) { 100_000 } else { self.plan.filler_max };
            let filler = self.random.within(0, largest as u64 + 1) as usize;
            let tag = Tag { producer: self.plan.producer, sequence };
            properties = message::properties(tag).to_vec();
            let mut message = Vec::with_capacity(filler + message::FIXED_BYTES);
            message::write(&mut message, tag, filler);
            if batch {
                let entry = Entry { flag: 0, body: &message, properties: &properties };
                batch::append(&mut body, &entry).expect("small messages fit a batch");
            } else {
                body = message;
            }
            let early = Fate::Acknowledged(Place { offset: None, log: None, at: Instant::now() });
            let fate = if self.plan.acknowledge_early { early } else { Fate::Unknown };
            self.history.sent.push(Sent { queue, waited, fate });
        }
        if batch {
            properties.clear();
        }
        if !waited {
            properties.extend_from_slice(message::NO_WAIT);
        }
        self.opaque += 1;
        let code = if batch { request::SEND_BATCH_MESSAGE } else { request::SEND_MESSAGE_V2 };
        let header = SendHeader {
            default_topic_queue_nums: self.plan.queues as i32,
            batch,
            properties: &properties,
            ..send_header(&self.plan.topic, queue as i32)
        };
        let encoding = wire::frame::Encoding::Binary;
        let head = if one_way { Head::one_way } else { Head::request }(encoding, code, self.opaque);
        header.write(FrameWriter::begin(&mut self.out, head)).finish(&body);
        if !one_way {
            self.flying.insert(self.opaque, Flight { first, count });
        }
    }

    /// Notes an answer. An error is an answer that no server may give.
    fn answer(&mut self, command: &Command<'_>) -> Result<(), String> {
        let Some(flight) = self.flying.remove(&command.opaque) else {
            return Err(format!("an answer to nobody: {}", command.opaque));
        };
        let place = stored_at(command).filter(|_| command.code == response::SUCCESS);
        if let Some((log, ..)) = place {
            self.plan.log_end.fetch_max(log, Ordering::Relaxed);
        }
        if self.plan.acknowledge_early {
            return Ok(());
        }
        let unknown = match command.code {
            response::FLUSH_DISK_TIMEOUT | response::SYSTEM_ERROR => true,
            // A full disk refuses and stores nothing; a fenced store does not know.
            response::SERVICE_NOT_AVAILABLE => {
                let says = |word| command.remark.is_none_or(|remark| remark.contains(word));
                says("fenced") || says("closed")
            }
            _ => false,
        };
        for index in 0..flight.count {
            let sent = &mut self.history.sent[flight.first as usize + index];
            sent.fate = match place {
                Some((log, queue, offset)) if queue as usize == sent.queue => {
                    let log = (index == 0).then_some(log);
                    Fate::Acknowledged(Place { offset: Some(offset + index as i64), log, at: Instant::now() })
                }
                Some((_, queue, _)) => {
                    return Err(format!("stored in queue {queue}, sent to {}", sent.queue));
                }
                None if command.code == response::SUCCESS => {
                    return Err("a success without a place".to_owned());
                }
                None if unknown => Fate::Unknown,
                None => Fate::Refused,
            };
        }
        Ok(())
    }
}
