//! What retention tells request handlers and is asked by them: counts, wishes of operators, and the forecast.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use store::Forecast;

use crate::engine::Wakeup;

/// What the engine that deletes shares with request handlers.
#[derive(Default)]
pub(crate) struct Retention {
    /// Number of delayed, timed and popped messages that were given up since the broker started, because their record is deleted
    /// or cannot be read.
    pub undelivered: AtomicU64,
    /// Number of coming rounds that delete expired files whatever the hour (`deleteWhen`).
    pub asked: AtomicU32,
    /// When topics with a retention time of their own were last checked, in milliseconds since the epoch; 0 when the next round
    /// is to check them.
    pub topics_ms: AtomicI64,
    /// Whether an operator asked to remove the queues of topics that are not configured.
    pub unused_asked: AtomicBool,
    wakeup: Arc<Wakeup>,
    /// How the log grew in the last hour.
    pub forecast: Mutex<Forecast>,
    /// The group, topic and queue for which expired files are kept at present; empty when there is none.
    pub held_by: Mutex<String>,
    /// When each warning was last logged, so that it is not repeated every second.
    pub warned: Mutex<Warned>,
}

impl Retention {
    /// Wakes the engine that deletes.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }
}

/// When each warning was last logged, in milliseconds since the epoch; `None` before the first time.
#[derive(Default)]
pub(crate) struct Warned {
    /// When the warning was last logged that files are kept for a group that has not consumed them.
    pub kept_ms: Option<i64>,
    /// When the warning was last logged that the disk will soon be full.
    pub full_soon_ms: Option<i64>,
}
