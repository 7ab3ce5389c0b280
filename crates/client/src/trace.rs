//! Message traces, for the tools that follow messages (`AsyncTraceDispatcher`, `TraceDataEncoder`).
//!
//! Records are collected for a short time and sent as an ordinary message to the trace topic. The keys of that
//! message are the ids and keys of the traced messages. Fields end with U+0001, records with U+0002. A producer or
//! consumer never waits for its traces. Records that do not fit into the queue are dropped, and their number is
//! logged.

mod record;
#[cfg(test)]
mod tests;

pub use record::SendTrace;
pub(crate) use record::{ConsumeTrace, TransactionTrace};

use crate::{Client, Message, Producer, ProducerConfig, Received, clock};
use record::Record;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

pub use wire::names::TRACE_TOPIC;

/// Most records that may wait to be sent.
const WAITING_MAX: usize = 2048;

/// Most records in one trace message (`AsyncTraceDispatcher.batchNum`).
const RECORDS_MAX: usize = 100;

/// Most bytes in one trace message (`AsyncTraceDispatcher.maxMsgSize`).
const BYTES_MAX: usize = 128_000;

/// Time for which records are collected before they are sent.
const MOMENT: Duration = Duration::from_millis(500);

/// Sends the traces of one producer or consumer. It is cheap to clone.
#[derive(Clone)]
pub struct Tracer {
    group: Arc<str>,
    records: mpsc::Sender<Record>,
    /// Ends the collecting task; the inner sender is notified when everything was sent.
    end: Arc<Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>>,
}

impl Tracer {
    /// Starts sending the traces of a group to `topic`; `None` when the client's threads have ended.
    pub fn start(client: &Client, group: &str, topic: &str) -> Option<Self> {
        let (records, waiting) = mpsc::channel(WAITING_MAX);
        let (end, ended) = oneshot::channel();
        let config = ProducerConfig {
            compress: None,
            timeout: Duration::from_secs(5),
            ..ProducerConfig::new(format!("_INNER_TRACE_PRODUCER-{group}"))
        };
        let (producer, topic) = (Producer::new(client, config), topic.to_owned());
        let started =
            client.inner.remote.workers.spawn(0, move || send_all(producer, topic, waiting, ended)).is_ok();
        let end = Arc::new(Mutex::new(Some(end)));
        started.then(|| Self { group: group.into(), records, end })
    }

    /// Sends the collected records and ends.
    pub async fn finish(&self) {
        let Some(end) = self.end.lock().expect("short section").take() else { return };
        let (sender, sent) = oneshot::channel();
        if end.send(sender).is_ok() {
            // Fails only when the client's threads end first.
            let _ = sent.await;
        }
    }

    /// Records a send that was answered or failed.
    pub fn published(&self, published: &SendTrace<'_>) {
        self.put(published.record(&self.group, clock::now_ms()));
    }

    /// Records the end of a transaction.
    pub(crate) fn ended(&self, ending: &TransactionTrace<'_>) {
        self.put(ending.record(&self.group, clock::now_ms()));
    }

    /// Records that messages are passed to the listener. The result is needed for [`Tracer::consumed`].
    pub(crate) fn consuming(&self, messages: &[Received]) -> ConsumeTrace {
        let consumed = ConsumeTrace::new(messages, clock::now_ms());
        self.put(consumed.before(&self.group, messages));
        consumed
    }

    /// Records that the listener returned.
    pub(crate) fn consumed(&self, consumed: &ConsumeTrace, messages: &[Received], is_done: bool) {
        self.put(consumed.after(&self.group, messages, (clock::now_ms(), is_done)));
    }

    fn put(&self, record: Record) {
        if !record.text.is_empty() && self.records.try_send(record).is_err() {
            tracing::info!(group = &*self.group, "a trace is dropped, too many wait");
        }
    }
}

async fn send_all(
    producer: Producer,
    topic: String,
    mut waiting: mpsc::Receiver<Record>,
    mut ended: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let mut done = None;
    loop {
        let first = tokio::select! {
            biased;
            first = waiting.recv() => first,
            // A tracer that was dropped without [`Tracer::finish`] has no caller to notify.
            asked = &mut ended, if done.is_none() => { done = asked.ok(); None }
        };
        let Some(first) = first else { break };
        let mut records = vec![first];
        let moment = tokio::time::sleep(MOMENT);
        tokio::pin!(moment);
        while records.len() < RECORDS_MAX && size(&records) < BYTES_MAX {
            tokio::select! {
                more = waiting.recv() => match more {
                    Some(record) => records.push(record),
                    None => break,
                },
                asked = &mut ended, if done.is_none() => {
                    done = asked.ok();
                    waiting.close();
                }
                () = &mut moment => break,
            }
        }
        send(&producer, &topic, &records).await;
    }
    producer.shutdown().await;
    if let Some(done) = done {
        let _ = done.send(());
    }
}

fn size(records: &[Record]) -> usize {
    records.iter().map(|record| record.text.len()).sum()
}

async fn send(producer: &Producer, topic: &str, records: &[Record]) {
    let body: String = records.iter().map(|record| record.text.as_str()).collect();
    let keys: BTreeSet<&str> =
        records.iter().flat_map(|record| record.keys.iter().map(String::as_str)).collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let message = Message::new(topic, body).keys(keys.join(" "));
    if let Err(error) = producer.send(&message).await {
        tracing::info!(%error, topic, count = records.len(), "traces could not be written");
    }
}
