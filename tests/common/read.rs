//! Reading queues back: every record of a pull, judged for itself, reduced to what the judge compares.

use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wire::codes::{request, response};
use wire::properties;
use wire::record::RecordView;

use super::PATIENCE;
use super::message::{self, DELAYED, Tag};
use super::wire_client::{Connection, pull_header, pull_reply};

/// One record that was read.
#[derive(Clone, Debug)]
pub struct Read {
    pub queue: usize,
    pub offset: i64,
    /// Position in the commit log.
    pub log: u64,
    /// Hash of all its bytes.
    pub print: u64,
    /// Store time minus born time.
    pub age_ms: i64,
    /// Who sent it, or what is wrong with it.
    pub tag: Result<Tag, String>,
}

impl Read {
    fn of(topic: &str, queue: usize, record: &RecordView<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(record.bytes());
        let tag = match record.check_crc() {
            Err(error) => Err(error.to_string()),
            Ok(()) if usize::try_from(record.queue_id()) != Ok(queue) => Err("of another queue".to_owned()),
            Ok(()) if record.topic_str() != Some(topic) => Err("of another topic".to_owned()),
            Ok(()) => message::read(record.body()).map_err(str::to_owned).and_then(|tag| {
                if tag.producer == DELAYED || has_all(record.properties(), message::properties(tag)) {
                    Ok(tag)
                } else {
                    Err("properties differ".to_owned())
                }
            }),
        };
        Self {
            queue,
            offset: record.raw_queue_offset(),
            log: record.log_offset().map_or(u64::MAX, |offset| offset.get()),
            print: hasher.finish(),
            age_ms: record.store_timestamp() - record.born_timestamp(),
            tag,
        }
    }
}

/// Whether `properties` has every pair of `sent`; the server adds its own.
fn has_all(properties: &[u8], sent: &[u8]) -> bool {
    properties::pairs(sent).all(|(name, value)| {
        std::str::from_utf8(name).is_ok_and(|name| properties::get(properties, name) == Some(value))
    })
}

/// What one pull gave.
pub struct Page {
    pub reads: Vec<Read>,
    pub next: i64,
    pub min: i64,
    pub max: i64,
}

/// Consumer group of everything that is read.
const GROUP: &str = "CG-judge";

/// Pulls once, without waiting for messages.
pub fn page(connection: &mut Connection, topic: &str, queue: usize, offset: i64) -> io::Result<Page> {
    let header = pull_header(GROUP, topic, queue as i32, offset);
    let opaque = connection.ask(request::PULL_MESSAGE, |writer| header.write(writer), &[])?;
    let answer = connection.answer(opaque)?;
    let known = [response::SUCCESS, response::PULL_NOT_FOUND, response::PULL_OFFSET_MOVED];
    if !known.contains(&answer.code) {
        return Err(io::Error::other(format!("pull of {topic}/{queue}@{offset} answered {answer:?}")));
    }
    let reply = pull_reply(&answer);
    let mut reads = Vec::new();
    let mut rest = answer.body.as_slice();
    while !rest.is_empty() {
        let record = RecordView::parse(rest).map_err(io::Error::other)?;
        reads.push(Read::of(topic, queue, &record));
        rest = &rest[record.size()..];
    }
    Ok(Page { reads, next: reply.next_offset, min: reply.min_offset, max: reply.max_offset })
}

/// Pulls again as long as the server says that it is building the queue's index again.
fn page_when_built(connection: &mut Connection, topic: &str, queue: usize, offset: i64) -> io::Result<Page> {
    let began = Instant::now();
    loop {
        match page(connection, topic, queue, offset) {
            Err(error) if is_rebuilding(&error.to_string()) && began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// What a pull says of a queue whose files were lost.
fn is_rebuilding(text: &str) -> bool {
    text.contains("the queue index cannot be read") || text.contains("being rebuilt from the log")
}

fn commit(connection: &mut Connection, topic: &str, queue: usize, offset: i64) -> io::Result<()> {
    let opaque = connection.ask(
        request::UPDATE_CONSUMER_OFFSET,
        |writer| {
            let writer = writer.text("consumerGroup", GROUP).text("topic", topic);
            writer.number("queueId", queue).number("commitOffset", offset)
        },
        &[],
    )?;
    connection.answer(opaque).map(drop)
}

/// The offsets the server has of the readers of the first `queues` queues; 0 where it has none.
pub fn committed(connection: &mut Connection, topic: &str, queues: usize) -> io::Result<Vec<i64>> {
    let mut offsets = Vec::with_capacity(queues);
    for queue in 0..queues {
        let opaque = connection.ask(
            request::QUERY_CONSUMER_OFFSET,
            |writer| writer.text("consumerGroup", GROUP).text("topic", topic).number("queueId", queue),
            &[],
        )?;
        let answer = connection.answer(opaque)?;
        offsets.push(match answer.code {
            response::SUCCESS => answer.number("offset"),
            response::QUERY_NOT_FOUND => 0,
            _ => return Err(io::Error::other(format!("offset of {topic}/{queue} answered {answer:?}"))),
        });
    }
    Ok(offsets)
}

/// Positions in the log: up to which the server says that everything is on the disk, and where the log ends.
pub fn flushed(connection: &mut Connection) -> io::Result<(u64, u64)> {
    let opaque = connection.ask(request::GET_BROKER_RUNTIME_INFO, |writer| writer, &[])?;
    let answer = connection.answer(opaque)?;
    let figures: serde_json::Value = serde_json::from_slice(&answer.body).map_err(io::Error::other)?;
    let position = |name: &str| {
        let position = figures["table"][name].as_str().and_then(|text| text.parse().ok());
        position.ok_or_else(|| io::Error::other(format!("no position {name}: {answer:?}")))
    };
    Ok((position("flushed")?, position("appended")?))
}

/// Reads all queues from the offsets of `from` to their ends; answers the reads and the ends.
pub fn drain(
    connection: &mut Connection,
    topic: &str,
    from: &[i64],
    mut each: impl FnMut(Read),
) -> io::Result<Vec<i64>> {
    let mut ends = Vec::with_capacity(from.len());
    for (queue, from) in from.iter().enumerate() {
        let mut offset = *from;
        let end = loop {
            let page = page_when_built(connection, topic, queue, offset)?;
            if page.reads.is_empty() {
                break page.max;
            }
            offset = page.next;
            let max = page.max;
            page.reads.into_iter().for_each(&mut each);
            if offset >= max {
                break max;
            }
        };
        ends.push(end);
    }
    Ok(ends)
}

/// Reads what is appended while it is appended, until `stop` or until the server is gone.
pub fn follow(connection: &mut Connection, topic: &str, from: &[i64], stop: &AtomicBool) -> Vec<Read> {
    let mut offsets = from.to_vec();
    let mut reads = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let before = reads.len();
        for (queue, offset) in offsets.iter_mut().enumerate() {
            let Ok(page) = page(connection, topic, queue, *offset) else { return reads };
            if !page.reads.is_empty() {
                *offset = page.next;
                // At once, so that it may be on disk before the messages are.
                if commit(connection, topic, queue, page.next).is_err() {
                    return reads;
                }
            }
            reads.extend(page.reads);
        }
        if reads.len() == before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    reads
}
