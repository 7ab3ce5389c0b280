//! Requests that brokers refused, by cause. Counts are those since the start of the broker.

use crate::doctor::bundle::Bundle;
use crate::doctor::finding::{Check, Found, Look, checks};

const RUNTIME: &str = "GET_BROKER_RUNTIME_INFO (28)";
const NEEDS_VOSTOK: &str = "runtime figures of a Vostok broker";
const NEEDS_JAVA: &str = "runtime figures of a RocketMQ broker";
/// Time in the queue of sends after which they are refused (`waitTimeMillsInSendQueue`).
const SEND_WAIT_MS: f64 = 200.0;
/// Time for which the append is locked after which sends are refused (`osPageCacheBusyTimeOutMills`).
const LOCK_MS: f64 = 1000.0;

pub(super) const CHECKS: &[Check] = checks! {
    "refused-fenced", Critical, |bundle| counted(bundle, "refusedFenced", "check the disk (dmesg), then restart the broker"),
        "A write or flush failed, and the store takes nothing more until it is started again", NEEDS_VOSTOK;
    "refused-disk-full", Critical, |bundle| counted(bundle, "refusedDiskFull", "give the disk room: vostok admin broker clean-log --broker ADDRESS"),
        "Sends were refused because a disk was full", NEEDS_VOSTOK;
    "refused-disk-slow", Warning, |bundle| counted(bundle, "refusedBehind", "a faster disk, or fewer queues: see vostok doctor host"),
        "Sends were refused because writing the index of the queues waited for the disk", NEEDS_VOSTOK;
    "refused-cold-reads", Warning, |bundle| counted(bundle, "refusedColdReads", "find who reads old messages: vostok admin group list"),
        "Pulls were refused because too many waited for the disk", NEEDS_VOSTOK;
    "refused-changes", Warning, |bundle| counted(bundle, "refusedChanges", "create topics ahead instead of by sending to them"),
        "Requests were refused because too many waited for a topic or group to be written", NEEDS_VOSTOK;
    "refused-held-pulls", Warning, |bundle| counted(bundle, "refusedHeldPulls", "fewer consumers, or fewer queues for each"),
        "Pulls were refused because too many were held at empty queues", NEEDS_VOSTOK;
    "puts-failed", Critical, |bundle| counted(bundle, "putMessageFailedTimes", "read store.log and storeerror.log of the broker"),
        "Messages could not be stored", NEEDS_JAVA;
    "send-queue-waits", Warning, |bundle| above(bundle, "sendThreadPoolQueueHeadWaitTimeMills", SEND_WAIT_MS),
        "Sends wait so long for a thread that they are refused ([TIMEOUT_CLEAN_QUEUE]broker busy)", NEEDS_JAVA;
    "append-locked", Critical, |bundle| above(bundle, "pageCacheLockTimeMills", LOCK_MS),
        "The append is locked so long that all sends are refused ([PCBUSY_CLEAN_QUEUE]broker busy)", NEEDS_JAVA;
    "buffers-used-up", Critical, buffers_used_up,
        "The pool of transient store buffers is empty, and sends are refused", NEEDS_JAVA;
};

/// Brokers with a count above 0.
fn counted(bundle: &Bundle, name: &str, fix: &str) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let count = broker.figure(name)?;
        let fix = fix.replace("ADDRESS", &broker.address);
        Found::when(count > 0.0, || {
            Found::new(broker.title(), format!("{name}={count} since its start"), RUNTIME, fix)
        })
    })
}

/// Brokers with a figure in milliseconds above a limit.
fn above(bundle: &Bundle, name: &str, limit_ms: f64) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let value = broker.figure(name)?;
        Found::when(value > limit_ms, || {
            let figure = format!("{name}={value}, the limit is {limit_ms}");
            Found::new(
                broker.title(),
                figure,
                RUNTIME,
                "look at the disk and at vostok doctor host on its machine",
            )
        })
    })
}

fn buffers_used_up(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let left = broker.figure("remainTransientStoreBufferNumbs")?;
        Found::when(left <= 0.0, || {
            let fix = "raise transientStorePoolSize, or set transientStorePoolEnable=false, and restart it";
            Found::new(broker.title(), format!("remainTransientStoreBufferNumbs={left}"), RUNTIME, fix)
        })
    })
}
