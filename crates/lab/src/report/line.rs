//! The lines of the benchmark scripts, character by character.

use super::{Rates, Snapshot};
use crate::command::LineFormat;
use std::time::Duration;

/// `2024-01-01 00:00:00,000` in UTC, from milliseconds since 1970.
#[must_use]
pub fn clock(epoch_ms: u64) -> String {
    let (year, month, day) = civil(epoch_ms / 86_400_000);
    let ms = epoch_ms % 86_400_000;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02},{:03}", ms % 1000)
}

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant's algorithm, for days after 1970).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Milliseconds from the start of the month, UTC: the moving part of a unique key.
#[must_use]
pub fn month_ms(epoch_ms: u64) -> u32 {
    let (_, _, day) = civil(epoch_ms / 86_400_000);
    let ms = (day - 1) * 86_400_000 + epoch_ms % 86_400_000;
    u32::try_from(ms).expect("a month has less than 2^32 milliseconds")
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
