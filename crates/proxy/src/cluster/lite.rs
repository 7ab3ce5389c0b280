//! Requests to brokers about lite topics (`LiteSubscriptionService`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use wire::body::{LiteSubscription, LiteSubscriptions};
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::json;

use super::cache::Cache;
use super::{Cluster, TIMEOUT, accepted, malformed};
use crate::failure::Failure;
use crate::topic::Topic;

/// Timeout of brokers for a change of subscriptions (`ClientActivity.syncLiteSubscription`).
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// State of lite topics in the cluster.
pub struct LiteTopics {
    /// Whether a broker serves lite topics, by its name.
    brokers: Arc<Cache<bool>>,
    /// The current second, and the additions in it.
    additions: Mutex<(i64, u32)>,
    /// Most additions in a second.
    additions_max: u32,
}

impl LiteTopics {
    pub fn new(additions_max: u32) -> Self {
        Self { brokers: Arc::default(), additions: Mutex::default(), additions_max }
    }
}

impl Cluster {
    /// Whether the brokers of a topic serve lite topics. A broker that does not know the request for lite topics does
    /// not serve them. An unreachable broker is ignored.
    pub(crate) async fn serves_lite(self: &Arc<Self>, topic: &Topic) -> bool {
        for queues in &topic.queues {
            // A request without a change, which changes nothing.
            let write = |frame: FrameWriter<'_>| frame.finish(&json::to_vec(&LiteSubscriptions::default()));
            let cluster = self.clone();
            let ask = |broker: String| async move {
                let reply = cluster.ask(&broker, request::LITE_SUBSCRIPTION_CTL, (TIMEOUT, 0), write).await?;
                Ok(Some(reply.code != response::REQUEST_CODE_NOT_SUPPORTED))
            };
            if matches!(self.lite.brokers.get(&queues.broker, ask).await, Ok(Some(serves)) if !*serves) {
                return false;
            }
        }
        true
    }

    /// Whether a client may add to its lite topics now; counts it.
    pub(crate) fn may_subscribe_lite(&self, now_ms: i64) -> bool {
        let mut additions = self.lite.additions.lock().unwrap_or_else(PoisonError::into_inner);
        if additions.0 != now_ms / 1000 {
            *additions = (now_ms / 1000, 0);
        }
        additions.1 = additions.1.saturating_add(1);
        additions.1 <= self.lite.additions_max
    }

    /// Sends the lite topics of a client to every broker from which the topic can be read (200071).
    ///
    /// # Errors
    /// The first refusal, after all brokers have responded.
    pub(crate) async fn subscribe_lite(
        self: &Arc<Self>,
        topic: &Topic,
        subscription: LiteSubscription,
    ) -> Result<(), Failure> {
        let body = LiteSubscriptions { subscription_set: vec![subscription] };
        let body: Arc<[u8]> = json::to_vec(&body).into();
        let (mut calls, mut outcome) = (JoinSet::new(), Ok(()));
        for queues in topic.queues.iter().filter(|queues| queues.is_readable()) {
            let address = match self.address(&queues.broker).await {
                Ok(address) => address,
                Err(failure) => {
                    outcome = outcome.and(Err(failure));
                    continue;
                }
            };
            let (client, body) = (self.client.clone(), body.clone());
            let limits = (SUBSCRIBE_TIMEOUT, body.len());
            calls.spawn(async move {
                let write = |frame: FrameWriter<'_>| frame.finish(&body);
                client.ask(&address, request::LITE_SUBSCRIPTION_CTL, limits, write).await
            });
        }
        while let Some(answer) = calls.join_next().await {
            // A task that panicked has no answer.
            let answer = answer.map_err(|_| malformed("outcome")).and_then(|it| it.map_err(Failure::from));
            outcome = outcome.and(answer.and_then(accepted).map(drop));
        }
        outcome
    }
}
