//! Locks of queues that are consumed in order (`RebalanceImpl.lock`, `unlock`).

use crate::{Client, Error, MessageQueue};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;
use wire::body::{LockBatchBody, LockBatchResponseBody};
use wire::codes::request;
use wire::frame::FrameWriter;
use wire::json;

/// Longest time for a lock call (one second in `MQClientInstance`).
const TIMEOUT: Duration = Duration::from_secs(1);

impl Client {
    /// Locks queues for a group. Returns for each queue whether this client holds the lock. Queues whose broker did
    /// not respond are missing.
    pub(crate) async fn lock(&self, group: &str, queues: &[MessageQueue]) -> BTreeMap<MessageQueue, bool> {
        // All brokers are asked at once, so that a broker that does not answer does not let the locks on other brokers
        // expire.
        let mut calls = JoinSet::new();
        for (broker, queues) in by_broker(queues) {
            let (client, group) = (self.clone(), group.to_owned());
            calls.spawn(async move {
                let locked = client.lock_at(&group, &queues).await;
                if let Err(error) = &locked {
                    tracing::warn!(%error, group, broker, "queues could not be locked");
                }
                let locked = locked.ok()?;
                Some(queues.into_iter().map(move |queue| {
                    let is_held = locked.contains(&queue);
                    (queue, is_held)
                }))
            });
        }
        let mut answered = BTreeMap::new();
        while let Some(joined) = calls.join_next().await {
            answered.extend(joined.ok().flatten().into_iter().flatten());
        }
        answered
    }

    async fn lock_at(&self, group: &str, queues: &[MessageQueue]) -> Result<Vec<MessageQueue>, Error> {
        let address = self.master_of(&queues[0]).await?;
        let body = self.body(group, queues);
        let write = |frame: FrameWriter<'_>| frame.finish(&body);
        let reply = self.inner.remote.call(&address, request::LOCK_BATCH_MQ, TIMEOUT, write).await?;
        json::from_slice::<LockBatchResponseBody>(&reply.body)
            .map(|body| body.lock_ok_mq_set)
            .map_err(|why| Error::Answer { address, why: why.to_string() })
    }

    /// Releases the locks of these queues. When that fails, the locks expire by themselves.
    pub(crate) async fn unlock(&self, group: &str, queues: &[MessageQueue]) {
        for (broker, queues) in by_broker(queues) {
            let unlocked = async {
                let address = self.master_of(&queues[0]).await?;
                let body = self.body(group, &queues);
                let write = |frame: FrameWriter<'_>| frame.finish(&body);
                self.inner.remote.call(&address, request::UNLOCK_BATCH_MQ, TIMEOUT, write).await
            };
            if let Err(error) = unlocked.await {
                tracing::warn!(%error, group, broker, "queues could not be unlocked");
            }
        }
    }

    fn body(&self, group: &str, queues: &[MessageQueue]) -> Vec<u8> {
        json::to_vec(&LockBatchBody {
            client_id: self.id().to_owned(),
            consumer_group: group.to_owned(),
            mq_set: queues.to_vec(),
            only_this_broker: false,
        })
    }
}

/// Groups queues by broker; no list is empty.
fn by_broker(queues: &[MessageQueue]) -> BTreeMap<String, Vec<MessageQueue>> {
    let mut brokers: BTreeMap<String, Vec<MessageQueue>> = BTreeMap::new();
    for queue in queues {
        brokers.entry(queue.broker_name.clone()).or_default().push(queue.clone());
    }
    brokers
}
