//! Delayed messages across crashes: every acknowledged one arrives, and none before its time (P10).

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::codes::request;
use wire::header::SendHeader;

use crate::common::PATIENCE;
use crate::common::message::{self, Tag};
use crate::common::read;
use crate::common::server::Server;
use crate::common::wire_client::{Connection, send_header};

const TOPIC: &str = "Later";
const QUEUES: i32 = 4;
/// Delay level 1 of RocketMQ, and a time to the millisecond: messages take turns.
const TURNS: [(&[u8], i64); 2] = [(b"DELAY\x011\x02", 1000), (b"TIMER_DELAY_MS\x01700\x02", 700)];
const PAUSE: Duration = Duration::from_millis(2);

/// Sequences acknowledged in one round, and the first one nobody used.
type Acknowledged = (Vec<u64>, u64);

/// The delayed messages of one store.
#[derive(Default)]
pub struct Later {
    acknowledged: Vec<u64>,
    next: u64,
    sender: Option<(Arc<AtomicBool>, JoinHandle<Acknowledged>)>,
}

impl Later {
    /// Sends delayed messages until the server is gone or [`Self::finish`].
    pub fn start(&mut self, broker: SocketAddr) {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, first) = (stop.clone(), self.next);
        let sender = std::thread::spawn(move || {
            let mut result = (Vec::new(), first);
            // An error ends the load: it means that the server is gone, which is the point.
            let _ = send_all(broker, &seen, &mut result);
            result
        });
        self.sender = Some((stop, sender));
    }

    /// Waits for the sender to end.
    pub fn finish(&mut self) {
        if let Some((stop, sender)) = self.sender.take() {
            stop.store(true, Ordering::Relaxed);
            let (acknowledged, next) = sender.join().expect("the sender does not panic");
            self.acknowledged.extend(acknowledged);
            self.next = next;
        }
    }

    /// Waits until everything arrived; what is wrong, and a line for people.
    pub fn check(&self, server: &Server) -> io::Result<(Vec<String>, String)> {
        let deadline = Instant::now() + PATIENCE;
        let mut connection = Connection::open(server.setup().broker())?;
        let mut arrived: HashMap<u64, u32> = HashMap::new();
        let mut wrong = Vec::new();
        let mut offsets = vec![0; QUEUES as usize];
        if self.acknowledged.is_empty() {
            return Ok((wrong, "no delayed messages".to_owned()));
        }
        loop {
            let ends = read::drain(&mut connection, TOPIC, &offsets, |read| match read.tag {
                Ok(tag) => {
                    *arrived.entry(tag.sequence).or_default() += 1;
                    if read.age_ms < turn(tag.sequence).1 {
                        wrong.push(format!("P10 delayed message {} after {} ms", tag.sequence, read.age_ms));
                    }
                }
                Err(text) => wrong.push(format!("P2 delayed message at {}: {text}", read.offset)),
            })?;
            offsets = ends;
            let missing = self.acknowledged.iter().filter(|sequence| !arrived.contains_key(sequence)).count();
            if missing == 0 {
                break;
            }
            if Instant::now() > deadline {
                wrong.push(format!(
                    "P10 {missing} of {} delayed messages never came",
                    self.acknowledged.len()
                ));
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let twice = arrived.values().filter(|count| **count > 1).count();
        let most = arrived.values().max().copied().unwrap_or_default();
        let text =
            format!("{} delayed, {twice} came more than once, up to {most} times", self.acknowledged.len());
        Ok((wrong, text))
    }
}

/// Properties and delay of a message.
fn turn(sequence: u64) -> (&'static [u8], i64) {
    TURNS[(sequence % TURNS.len() as u64) as usize]
}

fn send_all(
    broker: SocketAddr,
    stop: &AtomicBool,
    (acknowledged, next): &mut Acknowledged,
) -> io::Result<()> {
    let mut connection = Connection::open(broker)?;
    while !stop.load(Ordering::Relaxed) {
        let sequence = *next;
        *next += 1;
        let mut body = Vec::new();
        message::write(&mut body, Tag { producer: message::DELAYED, sequence }, 100);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        let header = SendHeader {
            default_topic_queue_nums: QUEUES,
            born_timestamp: now.as_millis() as i64,
            properties: turn(sequence).0,
            ..send_header(TOPIC, (sequence / 2 % QUEUES as u64) as i32)
        };
        let opaque = connection.ask(request::SEND_MESSAGE_V2, |writer| header.write(writer), &body)?;
        if connection.answer(opaque)?.code == 0 {
            acknowledged.push(sequence);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
