//! Messages of a run. Each has a number: its body begins with the number, and every further byte
//! depends on the number. So a read message can be compared with the sent message. Also parses a
//! log into its messages.

use store::{Message, Store};
use wire::record::{MAGIC_BLANK, RecordView, peek};
use wire::units::LogOffset;

/// The topic of all messages.
pub const TOPIC: &str = "T";
/// Number of queues of the topic.
pub const QUEUES: i32 = 2;

/// A message that a producer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The number of the message, from one.
    pub number: u64,
    /// Queue of the message.
    pub queue: i32,
    /// Size of its body in bytes, at least eight.
    pub body_bytes: usize,
}

/// The body of a message.
pub fn body(sending: &Sending) -> Vec<u8> {
    let filler = |at: usize| (sending.number as usize).wrapping_mul(31).wrapping_add(at).to_le_bytes()[0];
    let mut body = sending.number.to_be_bytes().to_vec();
    body.extend((8..sending.body_bytes).map(filler));
    body
}

/// Returns the number of the message with this body, or `None` if no message has it.
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    let sending = Sending { number, queue: 0, body_bytes: bytes.len() };
    (body(&sending) == bytes).then_some(number)
}

/// Makes the message for the store.
pub fn to_store(body: &[u8], now_ms: i64) -> Message<'_> {
    let host = std::net::SocketAddr::from(([10, 0, 0, 1], 10911));
    Message {
        body,
        properties: b"TAGS\x01t\x02",
        sys_flag: 0,
        flag: 0,
        born_timestamp: now_ms,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    }
}

/// A message in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Start of the message's record.
    pub at: u64,
    /// Size of the record in bytes.
    pub size: u32,
    /// Queue of the message.
    pub queue: i32,
    /// Queue offset of the message.
    pub queue_offset: u64,
    /// Number of the message.
    pub number: u64,
}

/// The bytes of a log from its minimum to `end`.
///
/// # Errors
/// The text of the store's error.
pub fn bytes_of(store: &Store, end: LogOffset) -> Result<Vec<u8>, String> {
    let (mut bytes, mut at) = (Vec::new(), store.min());
    while at < end {
        let before = bytes.len();
        let left = usize::try_from(end.since(at)).expect("small logs");
        store.read_log_blocking(at, left, &mut bytes).map_err(|error| format!("reading {at}: {error}"))?;
        if bytes.len() == before {
            return Err(format!("nothing can be read at {at}, below {end}"));
        }
        at = at + (bytes.len() - before) as u64;
    }
    bytes.truncate(usize::try_from(end.since(store.min())).expect("small logs"));
    Ok(bytes)
}

/// Returns the messages of a log that begins at `begin`.
///
/// # Errors
/// Description and position of an invalid record.
pub fn parse(bytes: &[u8], begin: u64) -> Result<Vec<Stored>, String> {
    let (mut list, mut at) = (Vec::new(), 0);
    while let Some((size, magic)) = bytes.get(at..).and_then(peek) {
        let place = begin + at as u64;
        if magic == MAGIC_BLANK {
            at += size as usize;
            continue;
        }
        let record =
            bytes.get(at..at + size as usize).ok_or(format!("a record of {size} bytes at {place}"))?;
        let view = RecordView::parse(record).map_err(|error| format!("at {place}: {error}"))?;
        view.check_crc().map_err(|error| format!("at {place}: {error}"))?;
        if view.log_offset() != Some(LogOffset::new(place)) {
            return Err(format!("the record at {place} says it lies at {:?}", view.log_offset()));
        }
        let number = number_of(view.body()).ok_or(format!("the record at {place} is nobody's message"))?;
        let (queue, queue_offset) = (view.queue_id(), view.queue_offset().get());
        list.push(Stored { at: place, size, queue, queue_offset, number });
        at += size as usize;
    }
    match at >= bytes.len() {
        true => Ok(list),
        false => Err(format!("the log ends at {} with half a record", begin + bytes.len() as u64)),
    }
}

/// All messages of a store.
///
/// # Errors
/// Errors of [`bytes_of`] and [`parse`].
pub fn stored(store: &Store) -> Result<Vec<Stored>, String> {
    parse(&bytes_of(store, store.appended())?, store.min().get())
}
