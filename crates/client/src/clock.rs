//! The wall clock. Only code that does I/O reads it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A number that differs between calls, for spreading load.
pub(crate) fn seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = since.as_nanos() as u64 ^ u64::from(std::process::id()) << 40;
    nanos.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}
