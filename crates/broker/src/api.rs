//! Broker API for fronts in the same process: typed requests and results without frames.
//!
//! Every function may be called on any thread. A future that waits (for a message, the disk or a new group) holds no
//! thread. Dropping the future ends the wait. Records appended for it before stay appended.

mod entry;
mod frames;
mod lite;
mod pops;
mod sends;
mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::body::{HeartbeatData, SubscriptionGroupConfig, TopicConfig};

pub use crate::caller::Caller;
pub use crate::client_link::{AskError, Asked, ClientAnswer, ClientLink, Notice, Question};
pub use crate::clients::Member;
pub use crate::names::{CLIENT_ID_BYTES_MAX, DERIVED_TOPIC_LENGTH_MAX, check_length};
pub use crate::pop::{Invisible, InvisibleTimeChange, Polling, PopRequest, PopTarget, PoppedMessage};
pub use crate::remoting::{RouteForm, link, needs_of_request, no_route, served_by_proxy};
pub use crate::reply_sink::PopStatus;
pub use crate::reply_sink::Popped;
pub use crate::send::{RecallRequest, SendRequest};
pub use crate::transaction::{Decision, EndTransaction};
pub use auth::{Metadata, Permission, Subject};
pub use lite::{LitePopRequest, lite_queue};
pub use pops::Held;
pub use sends::{Sends, Sent};

use crate::broker::Broker;
use crate::clients::{self, RequestContext};
use crate::{Result, RunningBroker, names};

/// First id of links and calls outside the remoting protocol, whose connection ids count from 1.
static NEXT_ID: AtomicU64 = AtomicU64::new(1 << 63);

/// A running broker as fronts of its process use it. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    broker: Arc<Broker>,
}

impl RunningBroker {
    /// The broker as fronts of this process use it.
    pub fn api(&self) -> Api {
        Api::new(self.broker.clone())
    }
}

impl Api {
    pub(crate) fn new(broker: Arc<Broker>) -> Self {
        Self { broker }
    }

    /// An id for a [`ClientLink`] that no other link of the process has.
    pub fn next_id() -> u64 {
        NEXT_ID.fetch_add(1, Ordering::Relaxed)
    }

    /// The wall clock, milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.broker.runtime.now_ms()
    }

    /// The name of the broker in routes and message queues (`brokerName`).
    pub fn name(&self) -> &str {
        &self.broker.runtime.config.broker_name
    }

    /// Name of the broker's cluster (`brokerClusterName`).
    pub fn cluster(&self) -> &str {
        &self.broker.runtime.config.broker_cluster_name
    }

    /// Host that clients use for the broker (`brokerIP1`).
    pub fn host(&self) -> &str {
        &self.broker.runtime.config.broker_ip1
    }

    /// Current id of the broker in its group: 0 for the master (`brokerId`).
    pub fn id(&self) -> i32 {
        i32::try_from(self.broker.replication.role.id()).unwrap_or(i32::MAX)
    }

    /// Whether another broker of the group takes messages: this broker is a slave, or is waiting for its role.
    pub fn is_slave(&self) -> bool {
        self.broker.replication.role.is_slave()
    }

    /// Returns the result of `make` for the configuration of a topic, or `None` if the topic does not exist. The
    /// result is cached per configuration, so only one front of the process may call this, with one `make`.
    pub fn topic_as<T: Send + Sync + 'static>(
        &self,
        name: &str,
        make: impl FnOnce(&TopicConfig) -> T,
    ) -> Option<Arc<T>> {
        let topic = self.broker.tables.topics.find(name)?;
        topic.front.get_or_init(|| Arc::new(make(&topic.config))).clone().downcast().ok()
    }

    /// The configuration of a consumer group; `None` when the group does not exist.
    pub fn group(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        self.broker.tables.groups.find(name)
    }

    /// Records the groups and subscriptions of a client. Creates groups whose creation on first use is allowed.
    ///
    /// # Errors
    /// The refusal of the client's groups, for example because of their number or the length of their names.
    pub async fn heartbeat(&self, member: &Member, data: &HeartbeatData) -> Result<()> {
        let broker = &self.broker;
        let retry_topic = |group: &str, queues| {
            let is_light = broker.runtime.config.store.multi_dispatch && names::is_light(group);
            if is_light { None } else { broker.tables.retry_topic_missing(group, queues) }
        };
        self.until_stored(|| {
            clients::heartbeat(&self.context(), member, data, |consumer, queues| {
                retry_topic(&consumer.group_name, queues)
            })
        })
        .await
        .map(drop)
    }

    /// Removes the client with this link from a producer group and a consumer group.
    pub fn unregister(&self, link_id: u64, producer_group: Option<&str>, consumer_group: Option<&str>) {
        clients::unregister(&self.context(), link_id, producer_group, consumer_group);
    }

    /// Removes the client with this link from all its groups.
    pub fn closed(&self, link_id: u64) {
        self.broker
            .tables
            .announce(&self.broker.runtime.config, &self.broker.sessions.clients.closed(link_id));
    }

    fn context(&self) -> RequestContext<'_> {
        let broker = &self.broker;
        RequestContext {
            clients: &broker.sessions.clients,
            groups: &broker.tables.groups,
            auto_create_groups: broker.runtime.config.auto_create_subscription_group,
            notify: broker.runtime.config.notify_consumer_ids_changed_enable,
        }
    }
}

#[cfg(test)]
mod tests;
