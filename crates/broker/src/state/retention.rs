//! State that retention shares with request handlers: counts, requests of operators, and the forecast.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

use parking_lot::Mutex;
use store::Forecast;

use crate::engine::Wakeup;

/// State that the deletion engine shares with request handlers.
#[derive(Default)]
pub(crate) struct Retention {
    /// Number of delayed, timed and popped messages that were given up since the broker started, because their record is deleted
    /// or cannot be read.
    pub undelivered: AtomicU64,
    /// Number of coming rounds that delete expired files at any hour (`deleteWhen`).
    pub asked: AtomicU32,
    /// Time of the last check of topics with a retention time of their own, in milliseconds since the epoch. 0 if the
    /// next round must check them.
    pub topics_ms: AtomicI64,
    /// Whether an operator asked to remove the queues of topics that are not configured.
    pub unused_asked: AtomicBool,
    wakeup: Arc<Wakeup>,
    /// Growth of the log in the last hour.
    pub forecast: Mutex<Forecast>,
    /// The group, topic and queue for which expired files are kept at present; empty when there is none.
    pub held_by: Mutex<String>,
    /// Times of the last warnings, so that they are not repeated every second.
    pub warned: Mutex<Warned>,
}

impl Retention {
    /// Returns the wake-up of the engine that deletes old messages.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }
}

/// When each warning was last logged, in milliseconds since the epoch; `None` before the first time.
#[derive(Default)]
pub(crate) struct Warned {
    /// Time of the last warning about files kept for a group that has not consumed them.
    pub kept_ms: Option<i64>,
    /// When the warning was last logged that the disk will soon be full.
    pub full_soon_ms: Option<i64>,
}
