//! The counts of consumer.sh (`org.apache.rocketmq.example.benchmark.Consumer`).

use super::line::LineFormat;
use crate::load::{Latency, Snapshot, date_time};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of samples kept. A periodic line needs all of them.
const SAMPLES: usize = 10;

/// Counts since the start, and maxima since the last line. B2C is the time from the producer's born timestamp to
/// consumption, S2C the time from the broker's store timestamp to consumption.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    received: AtomicU64,
    failed: AtomicU64,
    born_ms: AtomicU64,
    store_ms: AtomicU64,
    born_ms_max: AtomicU64,
    store_ms_max: AtomicU64,
    latency: Mutex<Latency>,
}

/// The counts at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    at_ms: u64,
    received: u64,
    failed: u64,
    born_ms: u64,
    store_ms: u64,
}

impl Deliveries {
    /// Counts a delivery, with the delays of its first message.
    pub fn received(&self, born_ms: u64, store_ms: u64) {
        self.received.fetch_add(1, Relaxed);
        self.born_ms.fetch_add(born_ms, Relaxed);
        self.store_ms.fetch_add(store_ms, Relaxed);
        self.born_ms_max.fetch_max(born_ms, Relaxed);
        self.store_ms_max.fetch_max(store_ms, Relaxed);
        // Results are in microseconds.
        let micros = born_ms.saturating_mul(1000).max(1);
        self.latency.lock().expect("recording does not panic").record(micros);
    }

    /// Counts a delivery for which the listener asks for redelivery.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub fn sample(&self, at_ms: u64) -> Sample {
        Sample {
            at_ms,
            received: self.received.load(Relaxed),
            failed: self.failed.load(Relaxed),
            born_ms: self.born_ms.load(Relaxed),
            store_ms: self.store_ms.load(Relaxed),
        }
    }

    /// The counts in the form of a result.
    pub fn snapshot(&self, at_ms: u64) -> Snapshot {
        let Sample { received, failed, .. } = self.sample(at_ms);
        Snapshot {
            at_ms,
            succeeded: received,
            messages: received,
            response_failed: failed,
            ..Snapshot::default()
        }
    }

    pub fn forget_latency(&self) {
        self.latency.lock().expect("recording does not panic").clear();
    }

    pub fn latency(&self) -> Latency {
        self.latency.lock().expect("recording does not panic").clone()
    }
}

/// The last samples, over which rates are computed.
#[derive(Debug, Default)]
pub(super) struct Window {
    samples: VecDeque<Sample>,
    /// Messages per second between consecutive samples, one entry per second since the start.
    pub series: Vec<u64>,
}

impl Window {
    pub fn push(&mut self, sample: Sample) {
        if let Some(last) = self.samples.back() {
            let elapsed_ms = sample.at_ms.saturating_sub(last.at_ms).max(1);
            self.series.push((sample.received - last.received) * 1000 / elapsed_ms);
        }
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// The periodic line; `None` until there are ten samples. Resets the maxima.
    pub fn line(&self, (epoch_ms, format): (u64, LineFormat), deliveries: &Deliveries) -> Option<String> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        if self.samples.len() < SAMPLES {
            return None;
        }
        let received = last.received - first.received;
        let tps = received * 1000 / (last.at_ms - first.at_ms).max(1);
        let average = |sum: u64| sum as f64 / received as f64;
        let now = date_time(epoch_ms);
        let (born, store) = (average(last.born_ms - first.born_ms), average(last.store_ms - first.store_ms));
        let (born_max, store_max) =
            (deliveries.born_ms_max.swap(0, Relaxed), deliveries.store_ms_max.swap(0, Relaxed));
        let failed = last.failed - first.failed;
        Some(match format {
            LineFormat::V5 => format!(
                "Current Time: {now} | Consume TPS: {tps} | AVG(B2C) RT(ms): {born:7.3} | \
                 AVG(S2C) RT(ms): {store:7.3} | MAX(B2C) RT(ms): {born_max} | MAX(S2C) RT(ms): {store_max} | \
                 Consume Fail: {failed}"
            ),
            LineFormat::V4 => format!(
                "Current Time: {now} TPS: {tps} FAIL: {failed} AVG(B2C) RT(ms): {born:7.3} \
                 AVG(S2C) RT(ms): {store:7.3} MAX(B2C) RT(ms): {born_max} MAX(S2C) RT(ms): {store_max}"
            ),
        })
    }
}
