//! A message as operators see it.

use super::track::Track;
use crate::Arguments;
use crate::operation::Typed;
use crate::text::{Table, time, time_to_ms};
use client::Received;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::properties::key;

/// Milliseconds of an hour, to which the time of an index entry is rounded down.
const HOUR_MS: i64 = 3_600_000;

/// A message, and which groups have consumed it.
#[derive(Clone, Default, Serialize)]
pub struct MessageView {
    /// Id that the producer made; without one the broker's id.
    pub message_id: String,
    /// Id that the broker gave.
    pub offset_id: String,
    /// Name of the topic.
    pub topic: String,
    /// Tag.
    pub tags: Option<String>,
    /// Keys, separated by blanks.
    pub keys: Option<String>,
    /// Name of the broker set.
    pub broker: String,
    /// Id of the queue.
    pub queue: i32,
    /// Offset in the queue.
    pub queue_offset: i64,
    /// Offset in the broker's log.
    pub log_offset: i64,
    /// Earlier deliveries that failed.
    pub reconsume_times: i32,
    /// Time at which the producer sent the message.
    pub born_time: String,
    /// Time at which the broker stored the message.
    pub store_time: String,
    /// Address of the producer.
    pub born_host: String,
    /// Address of the broker.
    pub store_host: String,
    /// System flag.
    pub sys_flag: i32,
    /// The producer's own flag.
    pub flag: i32,
    /// Properties by name.
    pub properties: BTreeMap<String, String>,
    /// The body as text; bytes that are not UTF-8 become U+FFFD.
    pub body: String,
    /// The first bytes of a body that is not UTF-8, as hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_hex: Option<String>,
    /// The whole body if it is not UTF-8; [`MessageView::bytes`] has every body.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// Times of birth and storage, ms since the epoch.
    #[serde(skip)]
    pub times: (i64, i64),
    /// Groups that consume the topic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tracks: Vec<Track>,
    /// Why it is not known which groups have consumed the message; absent when it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracks_error: Option<String>,
}

/// Name of the type in this directory.
pub(super) use MessageView as View;

/// Text in place of a body that the reader may not see.
const NOT_SHOWN: &str = "(not shown)";
/// Most bytes of a body that are shown as hexadecimal digits.
const HEX_BYTES_MAX: usize = 4096;

fn hex(body: &[u8]) -> String {
    body.iter().take(HEX_BYTES_MAX).fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

impl View {
    /// Removes the body unless the reader may see bodies.
    pub(super) fn hide_body(&mut self, sees_bodies: bool) {
        if !sees_bodies {
            NOT_SHOWN.clone_into(&mut self.body);
            self.body_hex = None;
            self.bytes.clear();
        }
    }

    /// A message without tracks.
    pub(super) fn new(message: &Received) -> Self {
        let pairs = message.properties.pairs();
        let is_text = std::str::from_utf8(&message.body).is_ok();
        Self {
            message_id: message.message_id(),
            offset_id: message.offset_id(),
            topic: message.topic.clone(),
            tags: message.tag().map(str::to_owned),
            keys: message.property(key::KEYS).map(str::to_owned),
            broker: message.queue.broker_name.clone(),
            queue: message.queue.queue_id,
            queue_offset: message.queue_offset,
            log_offset: message.log_offset,
            reconsume_times: message.reconsume_times,
            born_time: time(message.born_timestamp),
            store_time: time(message.store_timestamp),
            born_host: message.born_host.to_string(),
            store_host: message.store_host.to_string(),
            sys_flag: message.sys_flag,
            flag: message.flag,
            properties: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: String::from_utf8_lossy(&message.body).into_owned(),
            body_hex: (!is_text).then(|| hex(&message.body)),
            bytes: if is_text { Vec::new() } else { message.body.clone() },
            times: (message.born_timestamp, message.store_timestamp),
            tracks: Vec::new(),
            tracks_error: None,
        }
    }

    /// Adds the groups that consume the topic.
    pub(super) fn with_tracks(self, tracks: Vec<Track>) -> Self {
        Self { tracks, ..self }
    }

    /// Adds the reason why it is unknown which groups consume the topic.
    pub(super) fn without_tracks(self, why: String) -> Self {
        Self { tracks_error: Some(why), ..self }
    }

    /// Adds the bounds of the queue, which RocketMQ's clients add to the properties of pulled messages.
    pub(super) fn with_bounds(mut self, min_offset: i64, max_offset: i64) -> Self {
        for (name, offset) in [(key::MIN_OFFSET, min_offset), (key::MAX_OFFSET, max_offset)] {
            self.properties.insert(name.to_owned(), offset.to_string());
        }
        self
    }

    /// The whole body.
    pub fn bytes(&self) -> &[u8] {
        if self.body_hex.is_some() { &self.bytes } else { self.body.as_bytes() }
    }

    /// When the message was stored, ms since the epoch.
    pub(super) fn store_ms(&self) -> i64 {
        self.times.1
    }

    /// The tag; empty without one.
    pub(super) fn tag(&self) -> &str {
        self.tags.as_deref().unwrap_or_default()
    }

    fn properties_text(&self) -> String {
        let pairs: Vec<_> = self.properties.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{{{}}}", pairs.join(", "))
    }

    /// The line that `mqadmin` prints for a message of a queue, with the parts of `MessageExt.toString` that tell the
    /// message apart.
    pub(super) fn line(&self, has_body: bool) -> String {
        let (born, stored) = self.times;
        let Self { message_id, broker, queue, queue_offset, sys_flag, born_host, store_host, .. } = self;
        let Self { offset_id, log_offset, reconsume_times, topic, flag, body, .. } = self;
        let properties = self.properties_text();
        let body = if has_body { body } else { "NOT PRINT BODY" };
        format!(
            "MSGID: {message_id} MessageExt [brokerName={broker}, queueId={queue}, queueOffset={queue_offset}, \
             sysFlag={sys_flag}, bornTimestamp={born}, bornHost=/{born_host}, storeTimestamp={stored}, \
             storeHost=/{store_host}, msgId={offset_id}, commitLogOffset={log_offset}, \
             reconsumeTimes={reconsume_times}, toString()=Message{{topic='{topic}', flag={flag}, \
             properties={properties}}}] BODY: {body}"
        )
    }

    /// The lines that `mqadmin` prints for one message.
    fn lines(&self, has_offset_id: bool) -> String {
        let (born, stored) = self.times;
        let bracketed = |text: &Option<String>| format!("[{}]", text.as_deref().unwrap_or("null"));
        let mut lines = vec![
            ("Topic:", self.topic.clone()),
            ("Tags:", bracketed(&self.tags)),
            ("Keys:", bracketed(&self.keys)),
            ("Queue ID:", self.queue.to_string()),
            ("Queue Offset:", self.queue_offset.to_string()),
            ("CommitLog Offset:", self.log_offset.to_string()),
            ("Reconsume Times:", self.reconsume_times.to_string()),
            ("Born Timestamp:", time_to_ms(born)),
            ("Store Timestamp:", time_to_ms(stored)),
            ("Born Host:", self.born_host.clone()),
            ("Store Host:", self.store_host.clone()),
            ("System Flag:", self.sys_flag.to_string()),
            ("Properties:", self.properties_text()),
            ("Message Body:", self.body.clone()),
        ];
        if has_offset_id {
            lines.insert(0, ("OffsetID:", self.offset_id.clone()));
        }
        let mut out = String::new();
        for (label, value) in lines {
            let _ = writeln!(out, "{label:<20} {value}");
        }
        match self.tracks.is_empty() {
            // As `mqadmin`, which goes on after the failure.
            true if self.tracks_error.is_some() => {}
            true => out.push_str("\n\nWARN: No Consumer\n"),
            false => {
                let tracks: Vec<_> = self.tracks.iter().map(Track::to_string).collect();
                let _ = writeln!(out, "\n\n{}", tracks.join("\n"));
            }
        }
        out
    }
}

impl Typed for View {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.lines(true)
    }

    fn redact(&mut self, sees_bodies: bool) {
        self.hide_body(sees_bodies);
    }
}

/// Messages that were found by the id that their producer made.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct ByUniqueKey(pub Vec<View>);

impl Typed for ByUniqueKey {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.0.iter().map(|view| view.lines(false)).collect()
    }

    fn redact(&mut self, sees_bodies: bool) {
        self.0.iter_mut().for_each(|view| view.hide_body(sees_bodies));
    }
}

/// Messages that were found by key.
#[derive(Serialize)]
#[serde(transparent)]
pub struct MessagesByKey(pub Vec<View>);

impl Typed for MessagesByKey {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let mut table = Table::new("{#Message ID:<50} {#QID:>4} {#Offset:>40} {#IndexKey:<200}");
        let key = arguments.get("key").unwrap_or_default();
        let kind = arguments.get("type").unwrap_or("K");
        for View { message_id, topic, queue, queue_offset, log_offset, times, .. } in &self.0 {
            let hour = times.1 / HOUR_MS * HOUR_MS;
            let entry = format!("{hour}@{topic}@{kind}@{key}@{message_id}@{log_offset}");
            table.row(&[message_id, queue, queue_offset, &entry]);
        }
        table.text
    }

    fn redact(&mut self, sees_bodies: bool) {
        self.0.iter_mut().for_each(|view| view.hide_body(sees_bodies));
    }
}
