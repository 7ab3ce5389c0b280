//! What modules share that read answers of operations.

use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time in ms since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The rows of an answer; none when it is no list.
pub(crate) fn rows(answer: &Value) -> &[Value] {
    answer.as_array().map(Vec::as_slice).unwrap_or_default()
}
