//! The requests of a connection that sends half messages.

use super::verdict::{Earlier, Meta};
use crate::load::{Ending, Stamp, Template, Work};
use crate::output::{alert, say};
use crate::report::line::clock;
use net::ConnectionHandle;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::codes::request;
use wire::frame::Command;
use wire::header::Decision;
use wire::id::OffsetId;
use wire::properties::{self, key};
use wire::record::RecordView;

/// Number of messages whose checks are remembered, to find duplicate checks.
const REMEMBERED: usize = 1 << 20;

/// Checks of the broker on all connections.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub checked: AtomicU64,
    pub unexpected: AtomicU64,
    pub duplicated: AtomicU64,
    zone_ms: i64,
    /// For each message, a bit for every number of a check that arrived.
    seen: Mutex<HashMap<u64, u32>>,
}

impl Checks {
    /// Makes empty counts; local time is `zone_ms` milliseconds ahead of UTC.
    pub fn new(zone_ms: i64) -> Self {
        Self { zone_ms, ..Self::default() }
    }
}

/// Sends half messages and ends them.
#[derive(Debug)]
pub(super) struct Half {
    template: Template,
    meta: Meta,
    ending: Ending,
    checks: Arc<Checks>,
}

impl Half {
    pub fn new(template: Template, meta: Meta, ending: Ending, checks: Arc<Checks>) -> Self {
        Self { template, meta, ending, checks }
    }

    /// Answers a check of the broker and counts it.
    fn check(&self, command: &Command<'_>, out: &mut Vec<u8>) -> Option<()> {
        self.checks.checked.fetch_add(1, Relaxed);
        let record = RecordView::parse(command.body).ok()?;
        let get = |name| properties::get_str(record.properties(), name);
        let times =
            get(key::TRANSACTION_CHECK_TIMES).and_then(|times| times.parse().ok()).unwrap_or(1_usize).max(1);
        let unique = get(key::UNIQ_KEY).unwrap_or_default();
        let judged = self.meta.check(record.body(), times);
        if let Some((_, Some(earlier))) = judged {
            self.checks.unexpected.fetch_add(1, Relaxed);
            let now = clock(now_ms().saturating_add_signed(self.checks.zone_ms));
            say!("{}", unexpected(&now, (&offset_id(&record), unique), times, earlier));
        }
        if judged.is_some() && self.is_duplicate(record.body(), times) {
            self.checks.duplicated.fetch_add(1, Relaxed);
        }
        let verdict = judged.map_or(Decision::Rollback, |(verdict, _)| verdict);
        self.ending.checked(verdict, command, out)
    }

    fn is_duplicate(&self, body: &[u8], times: usize) -> bool {
        let Some(number) = body.get(8..16).and_then(|bytes| bytes.try_into().ok()) else { return false };
        let mut seen = self.checks.seen.lock().expect("nothing panics while it is held");
        if seen.len() >= REMEMBERED {
            // A later check of a forgotten message counts as the first one.
            seen.clear();
        }
        let bits = seen.entry(u64::from_be_bytes(number)).or_default();
        let bit = 1 << (times - 1).min(31);
        let is_known = *bits & bit != 0;
        *bits |= bit;
        is_known
    }
}

/// The line of tproducer.sh about a check that should not have come. Of the date and time it shows the time.
pub(super) fn unexpected(
    now: &str,
    (message_id, transaction_id): (&str, &str),
    times: usize,
    earlier: Earlier,
) -> String {
    let (_, time) = now.split_once(' ').unwrap_or_default();
    format!("{time} unexpected check: msgId={message_id},txId={transaction_id},checkTimes={times},{earlier}")
}

/// The message id that follows from the position of the message in the commit log.
fn offset_id(record: &RecordView<'_>) -> String {
    let mut id = Vec::new();
    if let Some(log_offset) = record.log_offset() {
        OffsetId { store_host: record.store_host(), log_offset }.append_to(&mut id);
    }
    String::from_utf8(id).expect("hexadecimal digits")
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Work for Half {
    fn queues(&self) -> usize {
        self.template.queues()
    }

    fn keys(&self) -> u16 {
        self.template.keys()
    }

    fn append(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp) {
        let fill = |body: &mut [u8]| self.meta.write(body, stamp.opaque.cast_unsigned());
        self.template.append_filled(out, queue, stamp, fill);
    }

    fn opened(&self, now_ns: u64, peer: &ConnectionHandle, out: &mut Vec<u8>) {
        self.ending.beat(now_ns, peer, out);
    }

    fn elapsed(&self, now_ns: u64, peer: &ConnectionHandle, out: &mut Vec<u8>) {
        self.ending.elapsed(now_ns, peer, out);
    }

    fn stored(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        self.ending.sent(self.meta.sent(command.opaque.cast_unsigned()), command, out);
    }

    fn asked(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        if command.code == request::CHECK_TRANSACTION_STATE && self.check(command, out).is_none() {
            alert!("a check-back cannot be read: {:?}", command.remark);
        }
    }
}
