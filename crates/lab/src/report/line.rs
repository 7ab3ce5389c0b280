//! The lines of the benchmark scripts, character by character.

use super::{Rates, Snapshot};
use crate::command::LineFormat;
use client::calendar::civil;
use std::time::Duration;

/// `2024-01-01 00:00:00,000` in UTC, from milliseconds since 1970.
#[must_use]
pub fn clock(epoch_ms: u64) -> String {
    let (year, month, day) = civil(epoch_ms / 86_400_000);
    let ms = epoch_ms % 86_400_000;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02},{:03}", ms % 1000)
}

/// The periodic line of the producer.
#[must_use]
pub fn producer(epoch_ms: u64, rates: &Rates, format: LineFormat) -> String {
    let now = clock(epoch_ms);
    let Rates { tps, max_ms, average_ms, send_failed, response_failed, .. } = rates;
    match format {
        LineFormat::V5 => format!(
            "Current Time: {now} | Send TPS: {tps} | Max RT(ms): {max_ms} | Average RT(ms): {average_ms:7.3} | \
             Send Failed: {send_failed} | Response Failed: {response_failed}"
        ),
        LineFormat::V4 => format!(
            "Current Time: {now} Send TPS: {tps} Max RT(ms): {max_ms} Average RT(ms): {average_ms:7.3} \
             Send Failed: {send_failed} Response Failed: {response_failed}"
        ),
    }
}

/// The last line of the producer; `rates` are absent when the run was shorter than two samples.
#[must_use]
pub fn producer_complete(total: &Snapshot, rates: Option<&Rates>, format: LineFormat) -> String {
    let Snapshot { succeeded, send_failed, response_failed, .. } = total;
    let Some(Rates { tps, max_ms, average_ms, .. }) = rates else {
        return format!(
            "[Complete] Send Total: {succeeded} Send Failed: {send_failed} Response Failed: {response_failed}"
        );
    };
    match format {
        LineFormat::V5 => format!(
            "[Complete] Send Total: {succeeded} | Send TPS: {tps} | Max RT(ms): {max_ms} | \
             Average RT(ms): {average_ms:7.3} | Send Failed: {send_failed} | Response Failed: {response_failed}"
        ),
        LineFormat::V4 => format!(
            "[Complete] Send Total: {succeeded} Send TPS: {tps} Max RT(ms): {max_ms} \
             Average RT(ms): {average_ms:7.3} Send Failed: {send_failed} Response Failed: {response_failed}"
        ),
    }
}

/// The periodic line of the batch producer.
#[must_use]
pub fn batch_producer(epoch_ms: u64, rates: &Rates, batch: u64) -> String {
    let now = clock(epoch_ms);
    let Rates { tps, mps, max_ms, average_ms, average_message_ms, .. } = rates;
    let failed = rates.send_failed + rates.response_failed;
    format!(
        "Current Time: {now} | Send TPS: {tps} | Send MPS: {mps} | Max RT(ms): {max_ms} | \
         Average RT(ms): {average_ms:7.3} | Average Message RT(ms): {average_message_ms:7.3} | \
         Send Failed: {failed} | Send Message Failed: {}",
        failed * batch
    )
}

/// Messages per second over a whole run.
#[must_use]
pub fn rate(count: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}
