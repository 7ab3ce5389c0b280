//! The fence: after a failed write or flush, the store rejects all writes until it is reopened. A second flush may
//! report success although the data is lost.

use crate::wake::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// Numbers the operations of a kind, so that an observer sees whether the disk still works on the same operation.
/// Operations of a kind follow each other under a lock of the caller.
#[derive(Default)]
pub(crate) struct OperationCounter(AtomicU64);

impl OperationCounter {
    /// Performs an operation. The number is odd meanwhile.
    pub(crate) fn perform<T>(&self, operation: impl FnOnce() -> T) -> T {
        let number = self.0.load(Ordering::Relaxed);
        self.0.store(number + 1, Ordering::Relaxed);
        let outcome = operation();
        self.0.store(number + 2, Ordering::Relaxed);
        outcome
    }

    /// Number of the operation that still runs.
    pub(crate) fn unfinished(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|number| number % 2 == 1)
    }
}

/// Numbers of the operations on the log that the disk has not finished. A number that is seen again is still the same operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationsInFlight {
    /// The write of an append.
    pub write: Option<u64>,
    /// The flush.
    pub flush: Option<u64>,
}
