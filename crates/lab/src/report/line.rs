//! The lines of RocketMQ's benchmark scripts, character by character.

use super::{Rates, Snapshot};
use crate::arguments::LineFormat;
use client::calendar::civil;
use std::time::Duration;

/// Formats milliseconds of local time, counted from 1970, as `2024-01-01 00:00:00,000`.
/// `UtilAll.timeMillisToHumanString2` uses the time zone of the machine, so all lines do.
#[must_use]
pub fn clock(epoch_ms: u64) -> String {
    let (year, month, day) = civil(epoch_ms / 86_400_000);
    let ms = epoch_ms % 86_400_000;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02},{:03}", ms % 1000)
}

/// The periodic line of producer.sh.
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

/// The last line of producer.sh; `rates` is `None` when the run was shorter than two samples. The total includes sends
/// without an answer, but not refused ones (`Producer.doPrintStats`).
#[must_use]
pub fn producer_complete(total: &Snapshot, rates: Option<&Rates>, format: LineFormat) -> String {
    let Snapshot { succeeded, send_failed, response_failed, .. } = total;
    let all = succeeded + send_failed;
    let Some(Rates { tps, max_ms, average_ms, .. }) = rates else {
        return format!(
            "[Complete] Send Total: {all} Send Failed: {send_failed} Response Failed: {response_failed}"
        );
    };
    match format {
        LineFormat::V5 => format!(
            "[Complete] Send Total: {all} | Send TPS: {tps} | Max RT(ms): {max_ms} | \
             Average RT(ms): {average_ms:7.3} | Send Failed: {send_failed} | Response Failed: {response_failed}"
        ),
        LineFormat::V4 => format!(
            "[Complete] Send Total: {all} Send TPS: {tps} Max RT(ms): {max_ms} \
             Average RT(ms): {average_ms:7.3} Send Failed: {send_failed} Response Failed: {response_failed}"
        ),
    }
}

/// The periodic line of batchproducer.sh.
#[must_use]
pub fn batch_producer(epoch_ms: u64, rates: &Rates, batch: u64, format: LineFormat) -> String {
    let now = clock(epoch_ms);
    let Rates { tps, mps, max_ms, average_ms, average_message_ms, .. } = rates;
    let failed = rates.send_failed + rates.response_failed;
    let messages = failed * batch;
    match format {
        LineFormat::V5 => format!(
            "Current Time: {now} | Send TPS: {tps} | Send MPS: {mps} | Max RT(ms): {max_ms} | \
             Average RT(ms): {average_ms:7.3} | Average Message RT(ms): {average_message_ms:7.3} | \
             Send Failed: {failed} | Send Message Failed: {messages}"
        ),
        LineFormat::V4 => format!(
            "Current Time: {now} Send TPS: {tps} Send MPS: {mps} Max RT(ms): {max_ms} \
             Average RT(ms): {average_ms:7.3} Average Message RT(ms): {average_message_ms:7.3} \
             Send Failed: {failed} Send Message Failed: {messages}"
        ),
    }
}

/// Offset of local time from UTC in milliseconds, as the system's `date` reports it; 0 when that cannot be run.
#[must_use]
pub fn zone_ms() -> i64 {
    let said = std::process::Command::new("date").arg("+%z").output();
    said.ok().and_then(|said| offset_ms(str::from_utf8(&said.stdout).ok()?)).unwrap_or(0)
}

/// Parses an offset such as `+0530` into milliseconds.
pub(super) fn offset_ms(text: &str) -> Option<i64> {
    let number: i64 = text.trim().parse().ok()?;
    Some((number / 100 * 60 + number % 100) * 60_000)
}

/// Messages per second over a whole run.
#[must_use]
pub fn rate(count: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}
