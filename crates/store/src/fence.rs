//! The fence: after a failed write or flush nothing is written until the store is reopened, because a second flush may report
//! success although the data is lost.

use crate::wake::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether and why the store is fenced. Never reset.
#[derive(Default)]
pub(crate) struct Fence {
    up: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Fence {
    /// Fences the store; the first reason stays.
    pub(crate) fn put_up(&self, reason: &str) {
        let mut held = lock(&self.reason);
        if held.is_none() {
            tracing::error!(reason, "the store is fenced until it is reopened");
            *held = Some(reason.to_owned());
            self.up.store(true, Ordering::Release);
        }
    }

    /// The reason, if the store is fenced.
    pub(crate) fn reason(&self) -> Option<String> {
        if !self.up.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.reason).clone()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }
}
