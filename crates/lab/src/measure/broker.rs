//! A broker by its own figures: request 28 once a second, request 26 once.

use crate::archive::BrokerSecond;
use client::Client;
use std::collections::BTreeMap;

/// Reads one broker's runtime table.
pub struct BrokerProbe {
    client: Client,
    address: String,
    has_slaves: bool,
    last: Option<Totals>,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub at_ms: u64,
    pub put: Option<u64>,
    pub got: Option<u64>,
}

impl BrokerProbe {
    /// A probe of the broker at `address`.
    #[must_use]
    pub fn new(client: &Client, address: &str, has_slaves: bool) -> Self {
        Self { client: client.clone(), address: address.to_owned(), has_slaves, last: None }
    }

    /// The broker's figures of now; `None` when it does not answer.
    pub async fn sample(&mut self, at_ms: u64) -> Option<BrokerSecond> {
        let table = self.client.broker_runtime(&self.address).await.ok()?;
        let mut second = read(&table, at_ms);
        let now = Totals {
            at_ms,
            put: number(&table, "msgPutTotalTodayNow"),
            got: number(&table, "msgGetTotalTodayNow"),
        };
        if let Some(last) = self.last.replace(now) {
            second.put_tps = rate(last.put, now.put, at_ms - last.at_ms).unwrap_or(second.put_tps);
            second.get_tps = rate(last.got, now.got, at_ms - last.at_ms).unwrap_or(second.get_tps);
        }
        if self.has_slaves {
            second.replica_behind = self.client.replica_behind(&self.address).await.unwrap_or_default();
        }
        Some(second)
    }
}

fn rate(before: Option<u64>, after: Option<u64>, lasted_ms: u64) -> Option<f64> {
    let count = after?.checked_sub(before?)?;
    Some(count as f64 * 1000.0 / lasted_ms.max(1) as f64)
}

/// What a table says without the one before it. The rates are the broker's own means over ten seconds.
pub(super) fn read(table: &BTreeMap<String, String>, at_ms: u64) -> BrokerSecond {
    let get = |key| number(table, key);
    let mean = |key: &str| {
        let first = table.get(key).and_then(|text| text.split_whitespace().next());
        first.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let unflushed = match (get("appended"), get("flushed")) {
        (Some(appended), Some(flushed)) => appended.saturating_sub(flushed),
        _ => table.get("remainHowManyDataToFlush").and_then(|text| size(text)).unwrap_or_default(),
    };
    BrokerSecond {
        at_ms,
        put_tps: mean("putTps"),
        get_tps: mean("getTransferredTps"),
        put_max_ms: get("pageCacheLockTimeMills").unwrap_or_default() as f64,
        dispatch_behind: get("dispatchBehindBytes").unwrap_or_default(),
        replica_behind: 0,
        flush_behind: unflushed,
        send_queue: get("sendThreadPoolQueueSize").unwrap_or_default(),
        refused_total: get("putMessageFailedTimes").unwrap_or_default(),
    }
}

fn number(table: &BTreeMap<String, String>, key: &str) -> Option<u64> {
    table.get(key)?.trim().parse::<i64>().ok().map(|number| number.max(0).unsigned_abs())
}

/// A size as `MessageStoreUtil.toHumanReadable` writes it: `0 B`, `1.5 KiB`.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter().position(|name| *name == unit)?;
    Some((number.parse::<f64>().ok()? * 1024_f64.powi(power as i32)) as u64)
}
