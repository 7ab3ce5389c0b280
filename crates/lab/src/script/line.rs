//! The lines of RocketMQ's benchmark scripts, character by character.

use super::rates::Rates;
use crate::generator::Checks;
use crate::load::{Snapshot, date_time};
use clap::ValueEnum;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Format of the periodic lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// RocketMQ 4: values separated by blanks.
    #[value(name = "4x")]
    V4,
    /// RocketMQ 5: values separated by bars.
    #[default]
    #[value(name = "5x")]
    V5,
}

impl LineFormat {
    /// Converts a line of RocketMQ 5, whose values are separated by bars, to this format.
    fn separated(self, line: String) -> String {
        match self {
            Self::V5 => line,
            Self::V4 => line.replace(" | ", " "),
        }
    }
}

/// The periodic line of producer.sh.
pub fn producer(epoch_ms: u64, rates: &Rates, format: LineFormat) -> String {
    let now = date_time(epoch_ms);
    let Rates { tps, max_ms, average_ms, send_failed, response_failed, .. } = rates;
    format.separated(format!(
        "Current Time: {now} | Send TPS: {tps} | Max RT(ms): {max_ms} | Average RT(ms): {average_ms:7.3} | \
         Send Failed: {send_failed} | Response Failed: {response_failed}"
    ))
}

/// The last line of producer.sh; `rates` is `None` when the run was shorter than two samples. The total includes sends
/// without an answer, but not refused ones (`Producer.doPrintStats`).
pub fn producer_complete(total: &Snapshot, rates: Option<&Rates>, format: LineFormat) -> String {
    let Snapshot { succeeded, send_failed, response_failed, .. } = total;
    let all = succeeded + send_failed;
    let Some(Rates { tps, max_ms, average_ms, .. }) = rates else {
        return format!(
            "[Complete] Send Total: {all} Send Failed: {send_failed} Response Failed: {response_failed}"
        );
    };
    format.separated(format!(
        "[Complete] Send Total: {all} | Send TPS: {tps} | Max RT(ms): {max_ms} | \
         Average RT(ms): {average_ms:7.3} | Send Failed: {send_failed} | Response Failed: {response_failed}"
    ))
}

/// The periodic line of batchproducer.sh.
pub fn batch_producer(epoch_ms: u64, rates: &Rates, batch: u64, format: LineFormat) -> String {
    let now = date_time(epoch_ms);
    let Rates { tps, mps, max_ms, average_ms, average_message_ms, .. } = rates;
    let failed = rates.send_failed + rates.response_failed;
    let messages = failed * batch;
    format.separated(format!(
        "Current Time: {now} | Send TPS: {tps} | Send MPS: {mps} | Max RT(ms): {max_ms} | \
         Average RT(ms): {average_ms:7.3} | Average Message RT(ms): {average_message_ms:7.3} | \
         Send Failed: {failed} | Send Message Failed: {messages}"
    ))
}

/// Messages per second over a whole run.
pub fn rate(count: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}

/// Counts at the time of the last line, because tproducer.sh prints counts per line.
#[derive(Debug, Default)]
pub(super) struct CheckWindow {
    failed: AtomicU64,
    checked: AtomicU64,
    unexpected: AtomicU64,
    duplicated: AtomicU64,
}

impl CheckWindow {
    /// The periodic line of tproducer.sh: `max_micros` is the largest latency since the line before.
    pub fn line(
        &self,
        (now, format): (u64, LineFormat),
        rates: &Rates,
        (checks, max_micros): (&Checks, u64),
    ) -> String {
        let since = |before: &AtomicU64, total: u64| total - before.swap(total, Relaxed);
        let (now, tps, max, average) = (date_time(now), rates.tps, max_micros / 1000, rates.average_ms);
        let failed = since(&self.failed, rates.send_failed + rates.response_failed);
        let checked = since(&self.checked, checks.checked.load(Relaxed));
        let unexpected = since(&self.unexpected, checks.unexpected.load(Relaxed));
        let duplicated = since(&self.duplicated, checks.duplicated.load(Relaxed));
        match format {
            LineFormat::V5 => format!(
                "Current Time: {now} | Send TPS: {tps:5} | Max RT(ms): {max:5} | AVG RT(ms): {average:3.1} | \
                 Send Failed: {failed} | Check: {checked} | UnexpectedCheck: {unexpected} | \
                 DuplicatedCheck: {duplicated}"
            ),
            // The trailing blank is printed by the script as well.
            LineFormat::V4 => format!(
                "Current Time: {now} Send TPS:{tps:5} Max RT(ms):{max:5} AVG RT(ms):{average:3.1} \
                 Send Failed: {failed} check: {checked} unexpectedCheck: {unexpected} \
                 duplicatedCheck: {duplicated} "
            ),
        }
    }
}
