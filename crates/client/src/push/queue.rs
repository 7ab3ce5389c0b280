//! Assigned queue: its process queue, and the task that pulls from it.

use super::consume_pool::ConsumePool;
use super::figures::Tally;
use super::listener::{Delivery, Listener, restore_topic};
use super::orderly::OrderedMessages;
use super::process_queue::ProcessQueue;
use super::{HOLD, PAUSE, PushConfig, name_of};
use crate::trace::Tracer;
use crate::{Client, Expression, MessageQueue, PullRequest, PullResult, PullStatus, Received, clock};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use wire::codes::response;

/// A queue that this consumer reads.
pub(super) struct AssignedQueue {
    pub queue: MessageQueue,
    process_queue: Mutex<ProcessQueue>,
    /// Whether the queue was given up. Set once, by rebalancing or shutdown; read by the pull task and the listener's
    /// threads.
    dropped: AtomicBool,
    /// Wakes the pull task: the queue was given up, or messages were done while the process_queue was full.
    changed: Notify,
    is_waiting: AtomicBool,
    line: Mutex<OrderedMessages>,
    /// Locked while the listener consumes messages of this queue, in orderly consumption.
    pub consuming: tokio::sync::Mutex<()>,
    /// Times of the last pull, consumption and lock, milliseconds since 1970; at first the time at which the queue was
    /// taken (`ProcessQueue`).
    pub pulled_ms: AtomicI64,
    pub consumed_ms: AtomicI64,
    pub locked_ms: AtomicI64,
}

impl AssignedQueue {
    pub fn new(queue: MessageQueue, process_queue: ProcessQueue) -> Self {
        let now_ms = || AtomicI64::new(clock::now_ms());
        Self {
            queue,
            process_queue: Mutex::new(process_queue),
            dropped: AtomicBool::new(false),
            changed: Notify::new(),
            is_waiting: AtomicBool::new(false),
            line: Mutex::default(),
            consuming: tokio::sync::Mutex::new(()),
            pulled_ms: now_ms(),
            consumed_ms: now_ms(),
            locked_ms: now_ms(),
        }
    }

    pub fn name(&self) -> String {
        name_of(&self.queue)
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Ends the pull task and stops deliveries.
    pub fn drop_queue(&self) {
        self.dropped.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Marks messages as consumed.
    pub fn done(&self, messages: &[Received]) {
        self.process_queue().done(messages.iter().map(|message| message.queue_offset));
        self.consumed_ms.store(clock::now_ms(), Ordering::Relaxed);
        if self.is_waiting.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// The offset that may be committed.
    pub fn committable(&self) -> i64 {
        self.process_queue().committable()
    }

    /// Number and bytes of the messages that are not done, and the offset of the next pull.
    pub fn load(&self) -> ((usize, usize), i64) {
        let process_queue = self.process_queue();
        (process_queue.load(), process_queue.next())
    }

    pub(super) fn line(&self) -> MutexGuard<'_, OrderedMessages> {
        self.line.lock().expect("short section")
    }

    fn process_queue(&self) -> MutexGuard<'_, ProcessQueue> {
        self.process_queue.lock().expect("short section")
    }
}

/// The state that all tasks of a consumer share.
pub(super) struct Context {
    pub client: Client,
    pub config: PushConfig,
    pub consume_pool: ConsumePool,
    /// Listener of the application. `None` after the end, so that its memory is freed.
    pub listener: Mutex<Option<Arc<Listener>>>,
    /// Whether the consumer is orderly.
    pub is_orderly: bool,
    /// Deliveries whose messages are sent back to the broker.
    pub returns: UnboundedSender<Delivery>,
    pub tracer: Option<Tracer>,
    /// Version of the subscriptions: the start time of the consumer in milliseconds.
    pub version: i64,
    /// Counts of pull requests and of calls of the listener.
    pub tally: Tally,
}

impl Context {
    fn expression(&self, topic: &str) -> Expression {
        self.config.subscriptions.get(topic).cloned().unwrap_or_default()
    }

    fn is_full(&self, assigned: &AssignedQueue) -> bool {
        let (messages, bytes) = assigned.process_queue().load();
        messages >= self.config.pending_messages_max || bytes >= self.config.pending_bytes_max
    }
}

/// Pulls messages until the queue is given up.
pub(super) async fn pull(shared: Arc<Context>, assigned: Arc<AssignedQueue>) {
    let mut broker_id = 0;
    let expression = shared.expression(&assigned.queue.topic);
    while !assigned.is_dropped() {
        if shared.is_full(&assigned) {
            assigned.is_waiting.store(true, Ordering::SeqCst);
            // Messages may have been done before this task began to wait.
            if shared.is_full(&assigned) {
                assigned.changed.notified().await;
            }
            assigned.is_waiting.store(false, Ordering::SeqCst);
            continue;
        }
        let offset = assigned.process_queue().next();
        let request = PullRequest {
            hold: HOLD,
            // Brokers know the subscription from the heartbeat. It is sent along for a broker that was restarted
            // meanwhile.
            expression: Some(expression.text()),
            expression_type: expression.kind(),
            messages_max: shared.config.pull_messages,
            sub_version: shared.version,
            broker_id,
            ..PullRequest::new(&shared.config.group, &assigned.queue, offset)
        };
        assigned.pulled_ms.store(clock::now_ms(), Ordering::Relaxed);
        let begin = Instant::now();
        let pulling = shared.client.pull(&request);
        tokio::pin!(pulling);
        let pulled = loop {
            tokio::select! {
                pulled = &mut pulling => break pulled,
                () = assigned.changed.notified() => if assigned.is_dropped() { return },
            }
        };
        match pulled {
            Ok(pulled) => {
                broker_id = pulled.suggest_broker_id;
                if pulled.status == PullStatus::Found {
                    let (topic, count) = (&assigned.queue.topic, pulled.messages.len());
                    shared.tally.pulled(topic, count, begin.elapsed());
                }
                take(&shared, &assigned, pulled);
            }
            Err(error) => {
                if error.code() == Some(response::TOPIC_NOT_EXIST) || error.code().is_none() {
                    // If the route cannot be refreshed, the known one stays in use; the next attempt shows whether it
                    // works.
                    let _ = shared.client.refresh_route(&assigned.queue.topic).await;
                }
                if !assigned.is_dropped() {
                    tracing::warn!(%error, queue = assigned.name(), "pull failed");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Handles the answer to a pull request: passes messages to the listener, or corrects an offset out of range.
fn take(shared: &Arc<Context>, assigned: &Arc<AssignedQueue>, pulled: PullResult) {
    if assigned.is_dropped() {
        return;
    }
    if pulled.status == PullStatus::OffsetIllegal {
        tracing::warn!(queue = assigned.name(), next = pulled.next_offset, "the broker moved the offset");
        return assigned.process_queue().restart(pulled.next_offset);
    }
    let tags = shared.expression(&assigned.queue.topic).tags();
    let mut messages = pulled.messages;
    messages.retain(|message| tags.admit(message.tag()));
    for message in &mut messages {
        restore_topic(message, &shared.config.group);
    }
    let sizes = messages.iter().map(|message| (message.queue_offset, message.body.len()));
    assigned.process_queue().extend(sizes, pulled.next_offset);
    if shared.is_orderly {
        return shared.line_up(assigned, messages);
    }
    let mut messages = messages.into_iter();
    shared.deliver(std::iter::from_fn(|| {
        let some: Vec<_> = messages.by_ref().take(shared.config.batch.max(1)).collect();
        (!some.is_empty()).then(|| Delivery { queue: assigned.clone(), messages: some })
    }));
}
