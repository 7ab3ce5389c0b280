//! The figures of a broker: runtime information once a second (request code 28), settings once (request code 26).

use crate::archive::{BrokerFile, BrokerSecond};
use client::Client;
use std::collections::BTreeMap;

/// Reads the runtime information of one broker.
pub struct BrokerProbe {
    client: Client,
    address: String,
    has_slaves: bool,
    /// Bytes of a commit log file; 0 when the broker does not report it.
    segment: u64,
    last: Option<Totals>,
}

/// Counters of a broker at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub at_ms: u64,
    pub put: Option<u64>,
    pub got: Option<u64>,
    /// Time of the longest append since the start of the broker, milliseconds.
    pub longest_ms: Option<u64>,
    /// Smallest and largest offset of the commit log.
    pub log: Option<(u64, u64)>,
}

impl Totals {
    pub(super) fn of(table: &BTreeMap<String, String>, at_ms: u64) -> Self {
        let get = |key| number(table, key);
        Self {
            at_ms,
            put: get("msgPutTotalTodayNow"),
            got: get("msgGetTotalTodayNow"),
            longest_ms: get("putMessageEntireTimeMax"),
            log: get("commitLogMinOffset").zip(get("commitLogMaxOffset")),
        }
    }

    /// Adds the changes since `last` to a row; `segment` is the size of a commit log file in bytes.
    pub(super) fn add_to(&self, second: &mut BrokerSecond, last: &Self, segment: u64) {
        let lasted_ms = self.at_ms.saturating_sub(last.at_ms);
        second.lasted_ms = lasted_ms;
        second.put_tps = rate(last.put, self.put, lasted_ms).unwrap_or(second.put_tps);
        second.get_tps = rate(last.got, self.got, lasted_ms).unwrap_or(second.get_tps);
        // The broker reports only its longest append so far, so an append shows only when it took longer than all
        // before.
        if let Some(longest_ms) =
            self.longest_ms.filter(|now| last.longest_ms.is_some_and(|then| then < *now))
        {
            second.put_max_ms = second.put_max_ms.max(longest_ms as f64);
        }
        if let Some(((from, to), (begin, end))) = last.log.zip(self.log) {
            let file = |offset: u64| offset.checked_div(segment).unwrap_or_default();
            second.rolls = file(end).saturating_sub(file(to));
            second.removed = begin.saturating_sub(from);
        }
    }
}

impl BrokerProbe {
    /// A probe of a broker.
    pub fn new(client: &Client, broker: &BrokerFile, has_slaves: bool) -> Self {
        let segment = number(&broker.settings, "mappedFileSizeCommitLog").unwrap_or_default();
        Self { client: client.clone(), address: broker.address.clone(), has_slaves, segment, last: None }
    }

    /// Reads the current figures of the broker.
    ///
    /// # Errors
    /// Errors of [`Client::broker_runtime`].
    pub async fn sample(&mut self, at_ms: u64) -> Result<BrokerSecond, client::Error> {
        let table = self.client.broker_runtime(&self.address).await?;
        let mut second = read(&table, at_ms);
        let now = Totals::of(&table, at_ms);
        if let Some(last) = self.last.replace(now) {
            now.add_to(&mut second, &last, self.segment);
        }
        if self.has_slaves {
            let replication = self.client.replication(&self.address).await;
            second.replica_behind = replication.map_or(0, |found| found.behind_bytes);
        }
        Ok(second)
    }
}

fn rate(before: Option<u64>, after: Option<u64>, lasted_ms: u64) -> Option<f64> {
    let count = after?.checked_sub(before?)?;
    Some(count as f64 * 1000.0 / lasted_ms.max(1) as f64)
}

/// Reads the figures that need no comparison with an earlier table. The rates are the broker's own means over ten
/// seconds.
pub(super) fn read(table: &BTreeMap<String, String>, at_ms: u64) -> BrokerSecond {
    let get = |key| number(table, key);
    let mean = |key: &str| {
        let first = table.get(key).and_then(|text| text.split_whitespace().next());
        first.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
    };
    let unflushed = match (get("appended"), get("flushed")) {
        (Some(appended), Some(flushed)) => appended.saturating_sub(flushed),
        _ => table.get("remainHowManyDataToFlush").and_then(|text| size(text)).unwrap_or_default(),
    };
    // Vostok counts each cause separately, Java counts only messages that could not be stored.
    let refused: Vec<(&str, u64)> = table
        .keys()
        .filter(|key| key.starts_with("refused") || *key == "putMessageFailedTimes")
        .filter_map(|key| Some((key.as_str(), number(table, key).filter(|count| *count > 0)?)))
        .collect();
    let causes: Vec<String> = refused.iter().map(|(cause, count)| format!("{cause}={count}")).collect();
    BrokerSecond {
        at_ms,
        lasted_ms: 0,
        put_tps: mean("putTps"),
        // RocketMQ 4.x spells this key with one r.
        get_tps: mean("getTransferredTps").max(mean("getTransferedTps")),
        put_max_ms: get("pageCacheLockTimeMills").unwrap_or_default() as f64,
        dispatch_behind: get("dispatchBehindBytes").unwrap_or_default(),
        replica_behind: 0,
        flush_behind: unflushed,
        send_queue: get("sendThreadPoolQueueSize").unwrap_or_default(),
        refused_total: refused.iter().map(|(_, count)| count).sum(),
        refused_causes: causes.join(" "),
        rolls: 0,
        removed: 0,
        started_ms: get("bootTimestamp").unwrap_or_default(),
    }
}

fn number(table: &BTreeMap<String, String>, key: &str) -> Option<u64> {
    table.get(key)?.trim().parse::<i64>().ok().map(|number| number.max(0).unsigned_abs())
}

/// Parses a size as `MessageStoreUtil.toHumanReadable` writes it: `0 B`, `1.5 KiB`.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter().position(|name| *name == unit)?;
    Some((number.parse::<f64>().ok()? * 1024_f64.powi(power as i32)) as u64)
}
