//! A request that is encoded once. Per request, the parts that differ are overwritten; all of these have a fixed width,
//! so that lengths never change.

use super::message::{BORN_MS, EPOCH_SECONDS, KEY_DIGITS, Message};
use client::{ACCESS_KEY, Credentials, SIGNATURE, SIGNATURE_BYTES, signed_fields};
use std::sync::Arc;
use wire::codes::request;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::SendHeader;

/// Request id in templates, as wide as every id of [`super::Slots`].
const OPAQUE: i32 = 1_000_000_000;

/// Position of the id in a frame with a binary header: prefix 8, code 2, language 1, version 2.
const BINARY_OPAQUE_AT: usize = 13;

/// A queue of a broker to which requests are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the broker.
    pub broker: String,
    /// Name of the topic, when it differs from the message's.
    pub topic: Option<Arc<str>>,
    /// Queue id.
    pub queue_id: i32,
}

/// The values that differ from one request to the next.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Request id.
    pub opaque: i32,
    /// Client clock, milliseconds since 1970, when the request leaves.
    pub epoch_ms: u64,
    /// Variable part of a unique key: milliseconds of the month, followed by a counter that never repeats within one.
    pub month_ms: u32,
    /// Counter of the unique key, see `month_ms`. A batch uses the following numbers too.
    pub counter: u16,
    /// Number of the request on its connection.
    pub sequence: u64,
    /// All requests with smaller numbers are settled: stored, refused or given up.
    pub floor: u64,
    /// Time from which latency is measured, microseconds since 1970. It is also the born timestamp of the message, so
    /// that consumers include a delay of this process.
    pub since_us: u64,
}

/// Parts that are overwritten per request, as positions in a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    /// Positions of the variable parts of unique keys.
    keys: Vec<usize>,
    /// Positions of KEYS values.
    seconds: Vec<usize>,
}

/// The part of a frame before its body.
#[derive(Clone, Debug)]
struct Front {
    bytes: Vec<u8>,
    opaque_at: usize,
    born_at: usize,
    places: Places,
    signing: Option<Signing>,
}

/// The signed content of a header, with the parts that are overwritten.
#[derive(Clone, Debug)]
struct Signing {
    credentials: Credentials,
    /// Position of the signature in the frame.
    signature_at: usize,
    /// The signed values, concatenated in the order of their names.
    text: Vec<u8>,
    born_at: usize,
    places: Places,
}

/// Encoded requests to several queues, with the same body for all.
#[derive(Clone, Debug)]
pub struct Template {
    encoding: Encoding,
    /// Encoded frame heads; queue `q` and tag `t` are at index `q * tags + t`.
    fronts: Vec<Front>,
    tags: usize,
    body: Vec<u8>,
    body_places: Places,
    is_one_way: bool,
}

impl Template {
    /// Encodes a message for every queue and tag.
    pub fn single(message: &Message, targets: &[Target], encoding: Encoding) -> Self {
        let tags = message.tag_count();
        let properties: Vec<_> = (0..tags).map(|tag| message.properties(tag)).collect();
        let fronts = targets.iter().flat_map(|target| {
            let code = request::SEND_MESSAGE_V2;
            properties.iter().map(move |properties| front(message, target, code, properties, encoding))
        });
        let fronts = fronts.collect();
        let (body, is_one_way) = (message.body.clone(), message.is_one_way);
        Self { encoding, fronts, tags, body, body_places: Places::default(), is_one_way }
    }

    /// Encodes a batch of `count` equal messages for every queue; the messages of a batch have the tags in turn.
    pub fn batch(message: &Message, count: u32, targets: &[Target], encoding: Encoding) -> Self {
        let mut body = Vec::new();
        for index in 0..count as usize {
            let properties = message.properties(index % message.tag_count());
            let entry = wire::batch::Entry { flag: 0, body: &message.body, properties: &properties };
            wire::batch::append(&mut body, &entry).expect("sizes were checked with the flags");
        }
        let body_places = Places::find(&body, Encoding::Binary);
        let front = |target| front(message, target, request::SEND_BATCH_MESSAGE, b"", encoding);
        let fronts = targets.iter().map(front).collect();
        Self { encoding, fronts, tags: 1, body, body_places, is_one_way: message.is_one_way }
    }

    /// Number of queues.
    pub fn queues(&self) -> usize {
        self.fronts.len() / self.tags
    }

    /// Whether requests are one-way, so that no answer comes.
    pub fn is_one_way(&self) -> bool {
        self.is_one_way
    }

    /// Number of unique keys in one request.
    pub fn keys(&self) -> u16 {
        let in_front = self.fronts.first().map_or(0, |front| front.places.keys.len());
        u16::try_from(in_front + self.body_places.keys.len()).unwrap_or(u16::MAX)
    }

    /// Appends a request to queue number `queue` of the targets given at creation.
    pub fn append(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp) {
        self.append_filled(out, queue, stamp, |_body| ());
    }

    /// Like [`Self::append`]; `fill` may write into the body before the request is signed.
    pub fn append_filled(
        &self,
        out: &mut Vec<u8>,
        queue: usize,
        stamp: &Stamp,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let tag = if self.tags == 1 { 0 } else { (stamp.epoch_ms % self.tags as u64) as usize };
        let front = &self.fronts[queue * self.tags + tag];
        let start = out.len();
        out.extend_from_slice(&front.bytes);
        let bytes = &mut out[start..];
        match self.encoding {
            Encoding::Binary => {
                bytes[front.opaque_at..front.opaque_at + 4].copy_from_slice(&stamp.opaque.to_be_bytes());
            }
            Encoding::Json => digits(&mut bytes[front.opaque_at..front.opaque_at + 10], stamp.opaque as u64),
        }
        digits(&mut bytes[front.born_at..front.born_at + BORN_MS.len()], stamp.since_us / 1000);
        let next = front.places.patch(bytes, stamp, stamp.counter);
        let body_at = out.len();
        out.extend_from_slice(&self.body);
        self.body_places.patch(&mut out[body_at..], stamp, next);
        fill(&mut out[body_at..]);
        if let Some(signing) = &front.signing {
            let (header, body) = out.split_at_mut(body_at);
            let place = &mut header[start + signing.signature_at..][..SIGNATURE_BYTES];
            place.copy_from_slice(&signing.signature(stamp, body));
        }
    }
}

impl Signing {
    /// The signed content of a header. `bytes` already has a placeholder for the signature, of the final width.
    fn new(credentials: &Credentials, header: &SendHeader<'_>, bytes: &[u8], encoding: Encoding) -> Self {
        let mut frame = Vec::new();
        let writer = FrameWriter::begin(&mut frame, Head::request(Encoding::Binary, 0, OPAQUE));
        header.write(writer.text(ACCESS_KEY, credentials.access_key())).finish(b"");
        let command = Command::decode(&mut frame).expect("it was just written");
        let (mut text, mut born_at) = (Vec::new(), 0);
        for (name, value) in signed_fields(&command.fields) {
            if name == b"g" {
                born_at = text.len();
            }
            text.extend_from_slice(value);
        }
        let field: &[u8] = match encoding {
            Encoding::Binary => b"\0\x09Signature\0\0\0\x1c",
            Encoding::Json => b"\"Signature\":\"",
        };
        let places = Places::find(&text, Encoding::Binary);
        Self { credentials: credentials.clone(), signature_at: after(bytes, field), text, born_at, places }
    }

    fn signature(&self, stamp: &Stamp, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut text = self.text.clone();
        digits(&mut text[self.born_at..self.born_at + BORN_MS.len()], stamp.since_us / 1000);
        self.places.patch(&mut text, stamp, stamp.counter);
        self.credentials.sign([&text[..], body])
    }
}

fn front(message: &Message, target: &Target, code: i32, properties: &[u8], encoding: Encoding) -> Front {
    let header = SendHeader {
        producer_group: &message.group,
        topic: target.topic.as_deref().unwrap_or(&message.topic),
        default_topic: wire::names::DEFAULT_TOPIC,
        default_topic_queue_nums: 4,
        queue_id: target.queue_id,
        sys_flag: message.sys_flag,
        born_timestamp: BORN_MS.parse().expect("a constant of digits"),
        properties,
        batch: code == request::SEND_BATCH_MESSAGE,
        broker_name: &target.broker,
        ..SendHeader::default()
    };
    let mut bytes = Vec::new();
    let head = if message.is_one_way { Head::one_way } else { Head::request };
    let writer = FrameWriter::begin(&mut bytes, head(encoding, code, OPAQUE));
    let body_bytes =
        if code == request::SEND_BATCH_MESSAGE { message.batch_bytes() } else { message.body.len() };
    let writer = header.write(writer);
    match &message.credentials {
        None => writer.finish_header(body_bytes),
        Some(credentials) => writer
            .text(ACCESS_KEY, credentials.access_key())
            .bytes(SIGNATURE, &[b'A'; SIGNATURE_BYTES])
            .finish_header(body_bytes),
    }
    let signing = message.credentials.as_ref();
    let signing = signing.map(|credentials| Signing::new(credentials, &header, &bytes, encoding));
    let (opaque_at, born_at) = match encoding {
        Encoding::Binary => (BINARY_OPAQUE_AT, after(&bytes, b"\0\x01g\0\0\0\x0d")),
        Encoding::Json => (after(&bytes, b"\"opaque\":"), after(&bytes, b"\"g\":\"")),
    };
    let places = Places::find(&bytes, encoding);
    Front { bytes, opaque_at, born_at, places, signing }
}

impl Places {
    fn find(bytes: &[u8], encoding: Encoding) -> Self {
        let end: &[u8] = match encoding {
            Encoding::Binary => b"\x01",
            Encoding::Json => b"\\u0001",
        };
        let fixed = KEY_DIGITS.0;
        Self {
            keys: occurrences(bytes, &[b"UNIQ_KEY", end].concat()).map(|at| at + fixed).collect(),
            seconds: occurrences(bytes, &[b"KEYS", end, EPOCH_SECONDS.as_bytes()].concat())
                .map(|at| at - EPOCH_SECONDS.len())
                .collect(),
        }
    }

    /// Overwrites the variable parts. Returns the counter after the counter of the last key.
    fn patch(&self, bytes: &mut [u8], stamp: &Stamp, counter: u16) -> u16 {
        let mut counter = counter;
        for at in &self.keys {
            let moving = u64::from(stamp.month_ms) << 16 | u64::from(counter);
            hexadecimal(&mut bytes[*at..*at + KEY_DIGITS.1], moving);
            counter = counter.wrapping_add(1);
        }
        for at in &self.seconds {
            digits(&mut bytes[*at..*at + EPOCH_SECONDS.len()], stamp.epoch_ms / 1000);
        }
        counter
    }
}

/// Positions right after every occurrence of `needle`.
fn occurrences<'a>(bytes: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let ends = needle.len()..=bytes.len();
    ends.filter(move |end| bytes[..*end].ends_with(needle))
}

fn after(bytes: &[u8], needle: &[u8]) -> usize {
    occurrences(bytes, needle).next().expect("the header was just written with this field")
}

/// Writes `value` in decimal over all of `place`, right-aligned.
fn digits(place: &mut [u8], value: u64) {
    let mut rest = value;
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Writes `value` in upper-case hexadecimal over all of `place`, right-aligned.
fn hexadecimal(place: &mut [u8], value: u64) {
    let mut rest = value;
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789ABCDEF"[(rest & 15) as usize];
        rest >>= 4;
    }
}
