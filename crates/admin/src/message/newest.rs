//! Messages of a topic, the newest first.

use super::find::TOOLS_GROUP;
use super::view::MessageView;
use crate::operation::Typed;
use crate::request::{for_each, split};
use crate::{Arguments, Error, Session};
use client::{PullRequest, Received};
use serde::Serialize;
use wire::body::MessageQueue;

/// Messages that are shown unless the operator says how many.
const LIMIT: usize = 50;
/// Offsets of a queue that are read together.
const CHUNK: i64 = 8;
/// Most chunks that are read for one answer, chunks without messages included.
const READ_MAX: usize = 5000;

/// Bodies of one answer together, bytes; at least one message is answered.
const BYTES_MAX: usize = 32 << 20;

/// Messages of a topic, the newest first, and where older messages begin.
#[derive(Clone, Serialize)]
pub struct Newest {
    /// The messages.
    pub messages: Vec<MessageView>,
    /// Values of `end` and `skip` that ask for the older messages; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<(i64, usize)>,
    /// The failures of brokers that gave no answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

impl Typed for Newest {
    fn redact(&mut self, sees_bodies: bool) {
        self.messages.iter_mut().for_each(|message| message.hide_body(sees_bodies));
    }
}

/// A queue that is read from its end.
struct Tail {
    queue: MessageQueue,
    /// First offset that may be read.
    first: i64,
    /// Offset from which on everything was read. Reading goes from the end of the queue to its beginning.
    end: i64,
    /// First and last store time that is wanted.
    times: (i64, i64),
    /// Messages that were read and not taken, the newest last.
    read: Vec<Received>,
}

/// Order of messages: store time, then place, so that pages fit together.
fn key(message: &Received) -> (i64, &str, i32, i64) {
    let queue = &message.queue;
    (message.store_timestamp, &queue.broker_name, queue.queue_id, message.queue_offset)
}

impl Tail {
    /// Looks up the offsets of a span of time. Brokers before RocketMQ 5 answer with the message whose time is nearest, before or
    /// behind (`ConsumeQueue.getOffsetInQueueByTime`). So one more message is read, and messages outside of the span are left out.
    async fn open(session: &Session, queue: &MessageQueue, times: (i64, i64)) -> Result<Self, Error> {
        let client = &session.client;
        let (begin, end) = times;
        let first = match begin {
            i64::MIN => client.min_offset(queue).await?,
            begin => client.search_offset(queue, begin).await?,
        };
        let end = match end {
            i64::MAX => client.max_offset(queue).await?,
            end => client.search_offset(queue, end + 1).await?.saturating_add(1),
        };
        Ok(Self { queue: queue.clone(), first, end, times, read: Vec::new() })
    }

    fn is_empty(&self) -> bool {
        self.read.is_empty() && self.end <= self.first
    }

    /// Reads the messages before the end, until there is one. Returns how often a chunk was read.
    async fn fill(mut self, session: &Session) -> Result<(Self, usize), Error> {
        let mut asked = 0;
        while self.read.is_empty() && self.end > self.first && asked <= READ_MAX {
            let begin = self.first.max(self.end - CHUNK);
            let mut offset = begin;
            while offset < self.end {
                let messages_max = i32::try_from(self.end - offset).unwrap_or(i32::MAX);
                let ask = PullRequest { messages_max, ..PullRequest::new(TOOLS_GROUP, &self.queue, offset) };
                let pulled = session.client.pull(&ask).await?;
                let (end, times) = (self.end, self.times.0..=self.times.1);
                let is_wanted = |it: &Received| {
                    (begin..end).contains(&it.queue_offset) && times.contains(&it.store_timestamp)
                };
                self.read.extend(pulled.messages.into_iter().filter(is_wanted));
                if pulled.next_offset <= offset {
                    break;
                }
                offset = pulled.next_offset;
            }
            asked += 1;
            self.end = begin;
        }
        Ok((self, asked))
    }
}

/// The newest message of several queues, which all have been filled.
fn newest_of(tails: &mut [Tail]) -> Option<Received> {
    let last = |tail: &Tail| {
        tail.read.last().map(|message| {
            let (time, broker, queue, offset) = key(message);
            (time, broker.to_owned(), queue, offset)
        })
    };
    tails.iter_mut().max_by_key(|tail| last(tail))?.read.pop()
}

/// A page while it is filled.
struct Page {
    limit: usize,
    /// Time up to which messages are wanted, and how many of that millisecond were shown before.
    end: (i64, usize),
    /// Messages of that millisecond that are still to be left out.
    left: usize,
    /// Bytes of the bodies.
    bytes: usize,
    messages: Vec<Received>,
    next: Option<(i64, usize)>,
}

impl Page {
    fn new(limit: usize, end: (i64, usize)) -> Self {
        Self { limit, end, left: end.1, bytes: 0, messages: Vec::new(), next: None }
    }

    /// Takes the next older message; false if the page is full.
    fn take(&mut self, message: Received) -> bool {
        if self.left > 0 && message.store_timestamp == self.end.0 {
            self.left -= 1;
            return true;
        }
        let has_room = self.bytes.saturating_add(message.body.len()) <= BYTES_MAX || self.messages.is_empty();
        if self.messages.len() < self.limit && has_room {
            self.bytes += message.body.len();
            self.messages.push(message);
            return true;
        }
        let last = self.messages.last().map_or(self.end.0, |message| message.store_timestamp);
        let same = self.messages.iter().rev().take_while(|it| it.store_timestamp == last).count();
        self.next = Some((last, if last == self.end.0 { self.end.1 + same } else { same }));
        false
    }
}

/// The newest messages of a topic up to a time. After a failure of a broker its queues are left out.
pub(super) async fn newest(session: &Session, arguments: &Arguments) -> Result<Newest, Error> {
    let limit = arguments.parse("limit")?.unwrap_or(LIMIT);
    let skip: usize = arguments.parse("skip")?.unwrap_or_default();
    let range = (
        session.time(arguments, "begin")?.unwrap_or(i64::MIN),
        session.time(arguments, "end")?.unwrap_or(i64::MAX),
    );
    let route = session.client.route(arguments.need("topic")?).await?;
    let opened = for_each(&route.subscribe, |queue| Tail::open(session, queue, range)).await;
    let (mut tails, mut failures) = split(opened)?;
    let (mut page, mut asked) = (Page::new(limit, (range.1, skip)), 0);
    while asked <= READ_MAX {
        let (empty, full): (Vec<_>, Vec<_>) = tails.into_iter().partition(|tail| tail.read.is_empty());
        let (filled, failed) = filled(session, empty, (page.messages.is_empty(), &mut asked)).await?;
        failures.extend(failed);
        tails = full.into_iter().chain(filled).filter(|tail| !tail.is_empty()).collect();
        if !newest_of(&mut tails).is_some_and(|message| page.take(message)) {
            break;
        }
    }
    let messages = page.messages.iter().map(MessageView::new).collect();
    Ok(Newest { messages, next: page.next, failures: session.note(failures) })
}

/// Reads queues again from which all read messages were taken.
///
/// # Errors
/// The first failure if no queue could be read and no message was found before.
async fn filled(
    session: &Session,
    empty: Vec<Tail>,
    (is_first, asked): (bool, &mut usize),
) -> Result<(Vec<Tail>, Vec<Error>), Error> {
    let outcomes = for_each(empty, |tail| tail.fill(session)).await;
    let (filled, failures) = match split(outcomes) {
        Ok(done) => done,
        Err(why) if is_first => return Err(why),
        Err(why) => (Vec::new(), vec![why]),
    };
    *asked += filled.iter().map(|(_, asked)| asked).sum::<usize>();
    Ok((filled.into_iter().map(|(tail, _)| tail).collect(), failures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, ServerAnswer};
    use client::Received;
    use wire::codes::request;
    use wire::record;

    /// A message at an offset of a queue, stored at a time.
    fn message(queue: i32, queue_offset: i64, store_timestamp: i64) -> Received {
        Received::decode(&stored(queue, queue_offset, store_timestamp)).unwrap()
    }

    fn stored(queue: i32, queue_offset: i64, store_timestamp: i64) -> Vec<u8> {
        let host = "127.0.0.1:1".parse().unwrap();
        let fields = record::RecordFields {
            topic: "T",
            queue_id: queue,
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"b",
            properties: b"",
            crc_property: false,
        };
        let mut bytes = Vec::new();
        record::encode(&fields, &mut bytes).unwrap();
        bytes[20..28].copy_from_slice(&queue_offset.to_be_bytes());
        bytes[56..64].copy_from_slice(&store_timestamp.to_be_bytes());
        bytes
    }

    /// The pages of messages of two queues, as places `queue:offset`.
    fn pages(limit: usize) -> Vec<String> {
        let queues = [vec![10, 20, 20, 20, 50], vec![20, 20, 40]];
        let tail = |(id, times): (usize, &Vec<i64>), end: i64| {
            let id = i32::try_from(id).unwrap();
            let read = (0_i64..).zip(times).map(|(offset, time)| message(id, offset, *time));
            let read = read.filter(|it| it.store_timestamp <= end).collect();
            let times = (i64::MIN, i64::MAX);
            Tail { queue: MessageQueue::new("T", "a", id), first: 0, end: 0, times, read }
        };
        let (mut shown, mut at) = (Vec::new(), (i64::MAX, 0));
        loop {
            let mut page = Page::new(limit, at);
            let mut tails: Vec<Tail> = queues.iter().enumerate().map(|it| tail(it, at.0)).collect();
            while let Some(message) = newest_of(&mut tails) {
                if !page.take(message) {
                    break;
                }
            }
            let places = page.messages.iter().map(|it| format!("{}:{}", it.queue.queue_id, it.queue_offset));
            shown.push(places.collect::<Vec<_>>().join(" "));
            match page.next {
                Some(next) => at = next,
                None => return shown,
            }
        }
    }

    #[test]
    fn the_message_nearest_to_a_time_is_shown_if_it_is_wanted() {
        let answers = |_: &str, asked: &testing::Received| match asked.code {
            request::GET_MIN_OFFSET => ServerAnswer::number("offset", 0),
            // A broker of RocketMQ 4 finds the message of 200 for the times 150 to 250.
            request::SEARCH_OFFSET_BY_TIMESTAMP => ServerAnswer::number("offset", 1),
            request::PULL_MESSAGE => {
                let messages = [(0, 100), (1, 200), (2, 300)].map(|(offset, time)| stored(0, offset, time));
                let found = ServerAnswer::bytes(messages.concat())?.with("nextBeginOffset", 3);
                Some(found.with("minOffset", 0).with("maxOffset", 3).with("suggestWhichBrokerId", 0))
            }
            _ => None,
        };
        let shown = |times: &'static [(&str, &str)]| {
            testing::with_cluster(&["a"], answers, async move |session: &Session| {
                let mut arguments = Arguments::default();
                arguments.set("topic", "T");
                times.iter().for_each(|(name, time)| arguments.set(name, *time));
                let found = newest(session, &arguments).await.unwrap().messages;
                found.iter().map(|it| it.queue_offset).collect::<Vec<_>>()
            })
        };
        assert_eq!(shown(&[("end", "200")]), [1, 1, 0, 0], "of two queues");
        assert_eq!(shown(&[("end", "199")]), [0, 0]);
        assert_eq!(shown(&[("begin", "201"), ("end", "240")]), [0; 0]);
    }

    #[test]
    fn large_bodies_end_a_page_early() {
        let large = |offset| Received { body: vec![0; BYTES_MAX / 2], ..message(0, offset, 10 - offset) };
        let mut page = Page::new(50, (i64::MAX, 0));
        assert_eq!([0, 1, 2].map(|offset| page.take(large(offset))), [true, true, false]);
        assert_eq!((page.messages.len(), page.next), (2, Some((9, 1))));
        let mut page = Page::new(50, (i64::MAX, 0));
        let huge = Received { body: vec![0; 2 * BYTES_MAX], ..message(0, 0, 10) };
        assert!(page.take(huge), "a page has a message");
    }

    #[test]
    fn pages_of_messages_fit_together() {
        let whole = "0:4 1:2 1:1 1:0 0:3 0:2 0:1 0:0";
        assert_eq!(pages(50), [whole]);
        for limit in 1..9 {
            let shown = pages(limit);
            assert_eq!(shown.join(" "), whole, "{limit} a page: {shown:?}");
        }
    }
}
