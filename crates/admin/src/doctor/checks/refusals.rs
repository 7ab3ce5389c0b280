//! Requests that brokers refused, by cause. Counts are those since the start of the broker. A count that did not grow between two looks
//! is no finding.

use super::store::disk_remedy;
use crate::doctor::bilingual::{Phrase, text};
use crate::doctor::bundle::{Broker, Bundle};
use crate::doctor::finding::{Check, Found, Look, Severity, checks};
use crate::doctor::remedy::{Fix, Remedy};

const RUNTIME: &str = "GET_BROKER_RUNTIME_INFO (28)";
const NEEDS_VOSTOK: Phrase = Phrase("runtime figures of a Vostok broker");
const NEEDS_JAVA: Phrase = Phrase("runtime figures of a RocketMQ broker");
/// Time in the queue of sends after which sends are refused. Requests above the limit are taken out every 10 ms (`BrokerFastFailure`),
/// so that the time is near the limit while sends are refused, seldom above.
const SEND_WAIT: Limit = Limit { setting: "waitTimeMillsInSendQueue", default_ms: 200.0, share: 0.9 };
/// Time for which the append is locked after which all sends are refused.
const LOCK: Limit = Limit { setting: "osPageCacheBusyTimeOutMills", default_ms: 1000.0, share: 1.0 };
/// Counts that grow while requests are refused. `refusedFenced` is left out: a store stays fenced until its broker starts again.
pub(crate) const COUNTS: [&str; 6] = [
    "refusedDiskFull",
    "refusedBehind",
    "refusedColdReads",
    "refusedChanges",
    "refusedHeldPulls",
    "putMessageFailedTimes",
];
const CHECK_DISK: Phrase = Phrase("check the disk (dmesg), then restart the broker");
const FASTER_DISK: Phrase = Phrase("a faster disk, or fewer queues: see vostok doctor host");
const OLD_READS: Phrase = Phrase("find the groups that read old messages");
const TOPICS_AHEAD: Phrase = Phrase("create topics ahead instead of by sending to them");
const FEWER_PULLS: Phrase = Phrase("fewer consumers, or fewer queues for each");
const STORE_LOGS: Phrase = Phrase("read store.log and storeerror.log of the broker");

const NEAR: Phrase =
    Phrase("Sends wait for a thread nearly as long as the limit after which they are refused");

/// Limit of a time in a broker.
struct Limit {
    setting: &'static str,
    default_ms: f64,
    /// Share of the limit above which the time is a finding.
    share: f64,
}

pub(super) const CHECKS: &[Check] = checks! {
    "refused-fenced", Critical, |bundle| counted(bundle, "refusedFenced", |_| CHECK_DISK.into()),
        "A write or flush failed, and the store takes nothing more until it is started again", NEEDS_VOSTOK;
    "refused-disk-full", Critical, |bundle| counted(bundle, "refusedDiskFull", disk_remedy),
        "Sends were refused because a disk was full", NEEDS_VOSTOK;
    "refused-disk-slow", Warning, |bundle| counted(bundle, "refusedBehind", |_| FASTER_DISK.into()),
        "Sends were refused because writing the index of the queues waited for the disk", NEEDS_VOSTOK;
    "refused-cold-reads", Warning, |bundle| counted(bundle, "refusedColdReads", cold_remedy),
        "Pulls were refused because too many waited for the disk", NEEDS_VOSTOK;
    "refused-changes", Warning, |bundle| counted(bundle, "refusedChanges", |_| TOPICS_AHEAD.into()),
        "Requests were refused because too many waited for a topic or group to be written", NEEDS_VOSTOK;
    "refused-held-pulls", Warning, |bundle| counted(bundle, "refusedHeldPulls", |_| FEWER_PULLS.into()),
        "Pulls were refused because too many were held at empty queues", NEEDS_VOSTOK;
    "puts-failed", Critical, |bundle| counted(bundle, "putMessageFailedTimes", |_| STORE_LOGS.into()),
        "Messages could not be stored", NEEDS_JAVA;
    "send-queue-waits", Warning, |bundle| above(bundle, "sendThreadPoolQueueHeadWaitTimeMills", &SEND_WAIT),
        "Sends wait so long for a thread that they are refused ([TIMEOUT_CLEAN_QUEUE]broker busy)", NEEDS_JAVA;
    "append-locked", Critical, |bundle| above(bundle, "pageCacheLockTimeMills", &LOCK),
        "The append is locked so long that all sends are refused ([PCBUSY_CLEAN_QUEUE]broker busy)", NEEDS_JAVA;
    "buffers-used-up", Critical, buffers_used_up,
        "The pool of transient store buffers is empty, and sends are refused", NEEDS_JAVA;
};

fn cold_remedy(broker: &Broker) -> Remedy {
    Remedy::from(OLD_READS).with(Fix::new("broker", "cold-reads", &[("broker", &broker.address)]))
}

/// Brokers with a count above 0.
fn counted(bundle: &Bundle, name: &str, remedy: fn(&Broker) -> Remedy) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let count = broker.figure(name)?;
        Found::when(count > 0.0 && !broker.steady.contains(name), || {
            let figure = text!("{name}={count} since its start", name, count);
            Found::new(broker.title(), figure, RUNTIME, remedy(broker)).of_broker(broker)
        })
    })
}

/// Brokers with a figure in milliseconds near or above a limit.
fn above(bundle: &Bundle, name: &str, limit: &Limit) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let value = broker.figure(name)?;
        let set_ms = broker.setting(limit.setting).and_then(|text| text.parse().ok());
        let limit_ms = set_ms.unwrap_or(limit.default_ms);
        Found::when(value > limit_ms * limit.share, || {
            let advice = text!("look at the disk and at vostok doctor host on its machine");
            let found = |figure| Found::new(broker.title(), figure, RUNTIME, advice).of_broker(broker);
            if value < limit_ms {
                let figure = text!("{name}={value}, near the limit of {limit_ms}", name, value, limit_ms);
                return found(figure).lesser(Severity::Warning, NEAR);
            }
            found(text!("{name}={value}, the limit is {limit_ms}", name, value, limit_ms))
        })
    })
}

fn buffers_used_up(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let left = broker.figure("remainTransientStoreBufferNumbs")?;
        Found::when(left <= 0.0, || {
            let advice =
                text!("raise transientStorePoolSize, or set transientStorePoolEnable=false, and restart it");
            let figure = format!("remainTransientStoreBufferNumbs={left}");
            Found::new(broker.title(), figure, RUNTIME, advice).of_broker(broker)
        })
    })
}
