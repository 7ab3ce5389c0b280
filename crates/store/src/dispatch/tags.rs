//! The tags code of a queue unit (`CommitLog.checkMessageAndReturnSize`): the hash of the tag, or for delayed messages the
//! delivery time.

use wire::hash::tags_code;
use wire::properties::{self, key};

/// `messageDelayLevel` in milliseconds, level 1 first.
pub(crate) type Delays = [i64];

/// Tags code before the store time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    /// The tags code itself.
    Code(i64),
    /// The store time plus this number of ms.
    AfterStore(i64),
}

impl Tags {
    /// Computes the tags code from a message's properties. `is_schedule` is true for the topic of delayed messages.
    pub(crate) fn of(is_schedule: bool, stored: &[u8], delays: &Delays) -> Self {
        Self::of_tag(is_schedule, stored, properties::get(stored, key::TAGS), delays)
    }

    /// Like [`Self::of`], for a tag that was looked up already.
    pub(crate) fn of_tag(is_schedule: bool, stored: &[u8], tag: Option<&[u8]>, delays: &Delays) -> Self {
        if is_schedule
            && let Some(level) =
                properties::get_str(stored, key::DELAY).and_then(|level| level.parse::<usize>().ok())
            && level > 0
        {
            // A level above the table counts as the last one; without a table the delay is one second, as for an unknown
            // level.
            let delay = delays.get(level.min(delays.len()).wrapping_sub(1));
            return Self::AfterStore(delay.copied().unwrap_or(1000));
        }
        Self::Code(tags_code(tag))
    }

    /// The tags code of a record with this store time in ms.
    pub(crate) fn at(self, store_timestamp: i64) -> i64 {
        match self {
            Self::Code(code) => code,
            Self::AfterStore(delay) => store_timestamp.saturating_add(delay),
        }
    }
}

/// Parses `messageDelayLevel`: numbers with the unit `s`, `m`, `h` or `d`, separated by blanks. Returns `None` for
/// any other text.
pub fn delivery_delays(text: &str) -> Option<Vec<i64>> {
    text.split_whitespace()
        .map(|level| {
            let (number, unit) = level.split_at_checked(level.len() - 1)?;
            let unit_ms = match unit {
                "s" => 1000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return None,
            };
            number.parse::<i64>().ok()?.checked_mul(unit_ms)
        })
        .collect()
}
