//! Requests that brokers refused, by cause. Counts are those since the start of the broker.

use super::store::disk_remedy;
use crate::doctor::bilingual::{Both, text};
use crate::doctor::bundle::{Broker, Bundle};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::{Fix, Remedy};

const RUNTIME: &str = "GET_BROKER_RUNTIME_INFO (28)";
const NEEDS_VOSTOK: Both = ("runtime figures of a Vostok broker", "Vostok broker 的运行数据");
const NEEDS_JAVA: Both = ("runtime figures of a RocketMQ broker", "RocketMQ broker 的运行数据");
/// Time in the queue of sends after which they are refused (`waitTimeMillsInSendQueue`).
const SEND_WAIT_MS: f64 = 200.0;
/// Time for which the append is locked after which sends are refused (`osPageCacheBusyTimeOutMills`).
const LOCK_MS: f64 = 1000.0;
const CHECK_DISK: Both =
    ("check the disk (dmesg), then restart the broker", "检查磁盘（dmesg），然后重启 broker");
const FASTER_DISK: Both = (
    "a faster disk, or fewer queues: see vostok doctor host",
    "换更快的磁盘，或减少队列：参见 vostok doctor host",
);
const OLD_READS: Both = ("find the groups that read old messages", "找出在读旧消息的消费组");
const TOPICS_AHEAD: Both =
    ("create topics ahead instead of by sending to them", "预先创建主题，不要靠发送来创建");
const FEWER_PULLS: Both = ("fewer consumers, or fewer queues for each", "减少消费者，或减少每个消费者的队列");
const STORE_LOGS: Both =
    ("read store.log and storeerror.log of the broker", "查看该 broker 的 store.log 和 storeerror.log");

pub(super) const CHECKS: &[Check] = checks! {
    "refused-fenced", Critical, |bundle| counted(bundle, "refusedFenced", |_| CHECK_DISK.into()),
        "A write or flush failed, and the store takes nothing more until it is started again",
        "写入或刷盘失败，存储在重启之前不再接受消息", NEEDS_VOSTOK;
    "refused-disk-full", Critical, |bundle| counted(bundle, "refusedDiskFull", disk_remedy),
        "Sends were refused because a disk was full", "因磁盘已满拒绝了发送", NEEDS_VOSTOK;
    "refused-disk-slow", Warning, |bundle| counted(bundle, "refusedBehind", |_| FASTER_DISK.into()),
        "Sends were refused because writing the index of the queues waited for the disk",
        "写队列索引要等磁盘，因此拒绝了发送", NEEDS_VOSTOK;
    "refused-cold-reads", Warning, |bundle| counted(bundle, "refusedColdReads", cold_remedy),
        "Pulls were refused because too many waited for the disk", "等待磁盘的拉取过多，因此拒绝了拉取", NEEDS_VOSTOK;
    "refused-changes", Warning, |bundle| counted(bundle, "refusedChanges", |_| TOPICS_AHEAD.into()),
        "Requests were refused because too many waited for a topic or group to be written",
        "等待写入的主题或消费组过多，因此拒绝了请求", NEEDS_VOSTOK;
    "refused-held-pulls", Warning, |bundle| counted(bundle, "refusedHeldPulls", |_| FEWER_PULLS.into()),
        "Pulls were refused because too many were held at empty queues", "挂起的拉取过多，因此拒绝了拉取", NEEDS_VOSTOK;
    "puts-failed", Critical, |bundle| counted(bundle, "putMessageFailedTimes", |_| STORE_LOGS.into()),
        "Messages could not be stored", "有消息未能存储", NEEDS_JAVA;
    "send-queue-waits", Warning, |bundle| above(bundle, "sendThreadPoolQueueHeadWaitTimeMills", SEND_WAIT_MS),
        "Sends wait so long for a thread that they are refused ([TIMEOUT_CLEAN_QUEUE]broker busy)",
        "发送等待线程过久而被拒绝（[TIMEOUT_CLEAN_QUEUE]broker busy）", NEEDS_JAVA;
    "append-locked", Critical, |bundle| above(bundle, "pageCacheLockTimeMills", LOCK_MS),
        "The append is locked so long that all sends are refused ([PCBUSY_CLEAN_QUEUE]broker busy)",
        "追加锁被占用过久，所有发送都被拒绝（[PCBUSY_CLEAN_QUEUE]broker busy）", NEEDS_JAVA;
    "buffers-used-up", Critical, buffers_used_up,
        "The pool of transient store buffers is empty, and sends are refused",
        "transient store 缓冲池已空，拒绝发送", NEEDS_JAVA;
};

fn cold_remedy(broker: &Broker) -> Remedy {
    Remedy::from(OLD_READS).with(Fix::new("broker", "cold-reads", &[("broker", &broker.address)]))
}

/// Brokers with a count above 0.
fn counted(bundle: &Bundle, name: &str, remedy: fn(&Broker) -> Remedy) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let count = broker.figure(name)?;
        Found::when(count > 0.0, || {
            let figure = text!("{name}={count} since its start", "自启动以来 {name}={count}");
            Found::new(broker.title(), figure, RUNTIME, remedy(broker)).of_broker(broker)
        })
    })
}

/// Brokers with a figure in milliseconds above a limit.
fn above(bundle: &Bundle, name: &str, limit_ms: f64) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let value = broker.figure(name)?;
        Found::when(value > limit_ms, || {
            let figure =
                text!("{name}={value}, the limit is {limit_ms}", "{name}={value}，上限是 {limit_ms}");
            let advice = text!(
                "look at the disk and at vostok doctor host on its machine",
                "检查磁盘，并在它的机器上运行 vostok doctor host"
            );
            Found::new(broker.title(), figure, RUNTIME, advice).of_broker(broker)
        })
    })
}

fn buffers_used_up(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let left = broker.figure("remainTransientStoreBufferNumbs")?;
        Found::when(left <= 0.0, || {
            let advice = text!(
                "raise transientStorePoolSize, or set transientStorePoolEnable=false, and restart it",
                "调大 transientStorePoolSize，或设置 transientStorePoolEnable=false，然后重启"
            );
            let figure = format!("remainTransientStoreBufferNumbs={left}");
            Found::new(broker.title(), figure, RUNTIME, advice).of_broker(broker)
        })
    })
}
