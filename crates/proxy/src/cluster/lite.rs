//! Requests to brokers about lite topics (`LiteSubscriptionService`).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use wire::body::LiteSubscriptions;
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::json;

use super::cache::Cache;
use super::{Cluster, TIMEOUT, accepted, malformed};
use crate::failure::Failure;
use crate::subscribed::Subscribed;
use crate::topic::{QueuesOf, Topic};

/// Timeout of brokers for a change of subscriptions (`ClientActivity.syncLiteSubscription`).
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// State of lite topics in the cluster.
#[derive(Default)]
pub struct LiteTopics {
    /// Whether a broker serves lite topics, by its name.
    brokers: Arc<Cache<bool>>,
}

impl Cluster {
    /// Whether the brokers of a topic serve lite topics, without the broker `own`. A broker that does not know the
    /// request for lite topics does not serve them. An unreachable broker is ignored.
    pub(crate) async fn serves_lite(self: &Arc<Self>, topic: &Topic, own: Option<&str>) -> bool {
        for queues in topic.queues.iter().filter(|queues| own != Some(&queues.broker)) {
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

    /// Repeats the lite topics of a client to a broker that did not get them over its present connection.
    ///
    /// # Errors
    /// The failure to reach the broker, or its refusal.
    pub(crate) async fn restore_lite(
        self: &Arc<Self>,
        broker: &str,
        subscribed: &Subscribed,
    ) -> Result<(), Failure> {
        let address = self.address(broker).await?;
        let connection = self.client.connection(&address, SUBSCRIBE_TIMEOUT).await?;
        if subscribed.is_sent(broker, connection) {
            return Ok(());
        }
        let _sending = subscribed.begin().await;
        let Some(all) = subscribed.due(broker, connection) else { return Ok(()) };
        let body = json::to_vec(&LiteSubscriptions { subscription_set: vec![all] });
        let limits = (SUBSCRIBE_TIMEOUT, body.len());
        let write = |frame: FrameWriter<'_>| frame.finish(&body);
        accepted(self.client.ask(&address, request::LITE_SUBSCRIPTION_CTL, limits, write).await?)?;
        subscribed.note_sent(broker, connection);
        Ok(())
    }

    /// Sends changes of lite topics to every broker from which the topic can be read, except the broker `own`
    /// (200071).
    ///
    /// # Errors
    /// The first refusal, after all brokers have responded.
    pub(crate) async fn subscribe_lite(
        self: &Arc<Self>,
        (topic, own): (&Topic, Option<&str>),
        changes: &LiteSubscriptions,
    ) -> Result<(), Failure> {
        let body: Arc<[u8]> = json::to_vec(changes).into();
        let (mut calls, mut outcome) = (JoinSet::new(), Ok(()));
        let others = |queues: &&QueuesOf| queues.is_readable() && own != Some(&queues.broker);
        for queues in topic.queues.iter().filter(others) {
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
