//! The second phase of the transactions of a connection: half messages are ended as decided, and checks of the broker
//! are answered and counted.

use super::decisions::{Earlier, Meta};
use crate::load::{Ending, date_time};
use crate::output::{self, alert};
use crate::runtime::epoch_ms;
use net::ConnectionHandle;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
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
pub(crate) struct Checks {
    pub checked: AtomicU64,
    pub unexpected: AtomicU64,
    pub duplicated: AtomicU64,
    zone_ms: i64,
    /// Bits for each message: a bit for every number of a check that arrived.
    seen: Mutex<HashMap<u64, u32>>,
}

impl Checks {
    /// Makes empty counts; local time is `zone_ms` milliseconds ahead of UTC.
    pub fn new(zone_ms: i64) -> Self {
        Self { zone_ms, ..Self::default() }
    }

    /// Counts check number `times` of a message, and says why it should not have come.
    fn count(&self, record: &RecordView<'_>, times: usize, judged: Option<Option<Earlier>>) {
        self.checked.fetch_add(1, Relaxed);
        let Some(earlier) = judged else { return };
        if let Some(earlier) = earlier {
            self.unexpected.fetch_add(1, Relaxed);
            let now = date_time(epoch_ms().saturating_add_signed(self.zone_ms));
            let unique = properties::get_str(record.properties(), key::UNIQ_KEY).unwrap_or_default();
            output::raw(&unexpected(&now, (&offset_id(record), unique), times, earlier));
        }
        if self.is_duplicate(record.body(), times) {
            self.duplicated.fetch_add(1, Relaxed);
        }
    }

    fn is_duplicate(&self, body: &[u8], times: usize) -> bool {
        let Some(number) = body.get(8..16).and_then(|bytes| bytes.try_into().ok()) else { return false };
        let mut seen = self.seen.lock().expect("nothing panics while it is held");
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

/// Ends the half messages of one connection.
#[derive(Debug)]
pub(crate) struct Transactions {
    ending: Ending,
    /// Decisions about messages, and the count of checks; `None` to commit every message.
    decided: Option<(Meta, Arc<Checks>)>,
}

impl Transactions {
    pub fn new(ending: Ending, decided: Option<(Meta, Arc<Checks>)>) -> Self {
        Self { ending, decided }
    }

    /// Writes the decisions about the message of request `opaque` into its body.
    pub fn write(&self, body: &mut [u8], opaque: i32) {
        if let Some((meta, _)) = &self.decided {
            meta.write(body, opaque.cast_unsigned());
        }
    }

    /// Announces the producer on a new connection, so that the broker knows where to send checks.
    pub fn opened(&self, now_ns: u64, peer: &ConnectionHandle, out: &mut Vec<u8>) {
        self.ending.beat(now_ns, peer, out);
    }

    /// Announces the producer again when it is time.
    pub fn elapsed(&self, now_ns: u64, peer: &ConnectionHandle, out: &mut Vec<u8>) {
        self.ending.elapsed(now_ns, peer, out);
    }

    /// Ends the transaction of a half message that is stored.
    pub fn stored(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        let sent = |(meta, _): &(Meta, Arc<Checks>)| meta.sent(command.opaque.cast_unsigned());
        self.ending.sent(self.decided.as_ref().map_or(Decision::Commit, sent), command, out);
    }

    /// Answers a request of the broker if it is a check; returns whether it is one.
    pub fn asked(&self, command: &Command<'_>, out: &mut Vec<u8>) -> bool {
        let is_check = command.code == request::CHECK_TRANSACTION_STATE;
        if is_check && self.check(command, out).is_none() {
            alert!("a check-back cannot be read: {:?}", command.remark);
        }
        is_check
    }

    fn check(&self, command: &Command<'_>, out: &mut Vec<u8>) -> Option<()> {
        let Some((meta, checks)) = &self.decided else {
            return self.ending.checked(Decision::Commit, command, out);
        };
        let record = RecordView::parse(command.body).ok()?;
        let times = properties::get_str(record.properties(), key::TRANSACTION_CHECK_TIMES);
        let times = times.and_then(|times| times.parse().ok()).unwrap_or(1_usize).max(1);
        let judged = meta.check(record.body(), times);
        checks.count(&record, times, judged.map(|(_, earlier)| earlier));
        let decision = judged.map_or(Decision::Rollback, |(decision, _)| decision);
        self.ending.checked(decision, command, out)
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
