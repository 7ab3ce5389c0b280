//! Answers to requests that brokers send for operators: reset offsets, report offsets, report the running state,
//! consume a message now (`ClientRemotingProcessor`, `DefaultMQPushConsumerImpl.consumerRunningInfo`,
//! `MQClientInstance.resetOffset`).

use super::consume_pool::Job;
use super::consumer::ConsumerState;
use super::listener::{ConsumeStatus, restore_topic};
use super::queue::{AssignedQueue, Context};
use crate::server_requests::{ConsumerRequest, RequestOrigin};
use crate::{MessageQueue, Received, clock};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;
use wire::body::{ConsumerRunningInfo, ConsumerStatus, MessageModel};
use wire::json;

impl ConsumerState {
    pub async fn answer(self: &Arc<Self>, asked: ConsumerRequest) {
        match asked {
            ConsumerRequest::Reset { offsets } => self.reset(&offsets).await,
            ConsumerRequest::Status { topic, to } => {
                let of_topic = |(queue, state): (&MessageQueue, &Arc<AssignedQueue>)| {
                    (queue.topic == topic).then(|| (queue.clone(), state.committable()))
                };
                let message_queue_table = self.assigned().iter().filter_map(of_topic).collect();
                let status = ConsumerStatus { message_queue_table, ..ConsumerStatus::default() };
                to.answer(&json::to_vec(&status));
            }
            ConsumerRequest::Running { wants_stacks, to } => {
                to.answer(&json::to_vec(&self.running(wants_stacks)))
            }
            ConsumerRequest::Consume { message, to } => self.consume_now(*message, to),
        }
    }

    /// Continues at other offsets in the queues that this consumer reads.
    async fn reset(self: &Arc<Self>, offsets: &BTreeMap<MessageQueue, i64>) {
        let Context { client, config, .. } = &*self.shared;
        for (queue, offset) in offsets {
            let Some(state) = self.assigned().remove(queue) else { continue };
            state.drop_queue();
            let _listener_is_out = state.consuming.lock().await;
            tracing::info!(queue = state.name(), offset, "a broker has the group go on elsewhere");
            if config.model == MessageModel::Broadcasting {
                self.local().insert(queue.clone(), *offset);
            } else if let Err(error) = client.commit_offset(&config.group, queue, *offset).await {
                tracing::warn!(%error, queue = state.name(), "the offset could not be stored");
            }
        }
        // Rebalancing takes the queues again, from the offsets that were just committed.
        self.rebalance().await;
    }

    fn running(&self, wants_stacks: bool) -> ConsumerRunningInfo {
        let Context { config, is_orderly, version, tally, .. } = &*self.shared;
        let now = Instant::now();
        let properties = [
            ("PROP_CONSUMEORDERLY", is_orderly.to_string()),
            ("PROP_THREADPOOL_CORE_SIZE", config.threads.to_string()),
            ("PROP_CONSUMER_START_TIMESTAMP", version.to_string()),
            ("PROP_CONSUME_TYPE", "CONSUME_PASSIVELY".to_owned()),
            ("PROP_CLIENT_VERSION", concat!("vostok-client ", env!("CARGO_PKG_VERSION")).to_owned()),
            ("consumerGroup", config.group.clone()),
        ];
        let queue = |(queue, state): (&MessageQueue, &Arc<AssignedQueue>)| {
            let ((count, bytes), next) = state.load();
            let (first, last, in_hand) = state.in_hand().unwrap_or_default();
            let when = |time: &AtomicI64| time.load(Ordering::Relaxed);
            let value = json!({
                "commitOffset": state.committable(),
                "cachedMsgCount": count,
                "cachedMsgMinOffset": if count > 0 { state.committable() } else { 0 },
                "cachedMsgMaxOffset": if count > 0 { next - 1 } else { 0 },
                "cachedMsgSizeInMiB": bytes >> 20,
                "transactionMsgCount": in_hand, "transactionMsgMinOffset": first, "transactionMsgMaxOffset": last,
                "locked": *is_orderly && state.is_owned(now),
                // A queue is unlocked only once, when the listener has returned.
                "tryUnlockTimes": 0, "lastLockTimestamp": when(&state.locked_ms),
                "droped": state.is_dropped(),
                "lastPullTimestamp": when(&state.pulled_ms), "lastConsumeTimestamp": when(&state.consumed_ms),
            });
            (queue.clone(), value)
        };
        let seconds = ((clock::now_ms() - version).max(1)) as f64 / 1000.0;
        let registration = super::consumer::registration(config, *version);
        let topics = config.subscriptions.keys();
        ConsumerRunningInfo {
            jstack: wants_stacks
                .then(|| format!("{} threads named consume-N call the listener", config.threads)),
            properties: properties.map(|(name, value)| (name.to_owned(), value)).into(),
            subscription_set: registration.subscription_data_set,
            mq_table: self.assigned().iter().map(queue).collect(),
            status_table: topics.map(|topic| (topic.clone(), tally.status(topic, seconds))).collect(),
            ..ConsumerRunningInfo::default()
        }
    }

    /// Passes a message to the listener now, without changing the offset (`consumeMessageDirectly`).
    fn consume_now(&self, mut message: Received, to: RequestOrigin) {
        let shared = self.shared.clone();
        restore_topic(&mut message, &shared.config.group);
        let job: Job = Box::new(move || {
            let begin = Instant::now();
            let verdict = shared.call(std::slice::from_ref(&message));
            let result = if verdict == ConsumeStatus::Done { "CR_SUCCESS" } else { "CR_LATER" };
            let body = json!({
                "autoCommit": true, "consumeResult": result, "order": shared.is_orderly,
                "spentTimeMills": begin.elapsed().as_millis() as u64,
            });
            to.answer(&json::to_vec(&body));
        });
        self.shared.consume_pool.submit([job]);
    }
}
