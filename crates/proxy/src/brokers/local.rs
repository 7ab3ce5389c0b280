//! Brokers of local mode: the broker of this process, and the other brokers in its name servers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use broker::api::Api;

use crate::cluster::Cluster;
use crate::topic::{MergedTopics, QueuesOf, Topic, message_type};

/// Longest wait for the name servers when a client asks for a route. Until a name server answers, the route names the broker of
/// this process alone.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(1);

/// The brokers of local mode.
#[derive(Clone)]
pub struct Local {
    pub(crate) api: Api,
    /// The cluster of the broker; `None` without a name server.
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) merged: Arc<MergedTopics>,
}

impl Local {
    /// A topic with the queues of the broker of this process, and the cached queues of other brokers.
    pub(super) fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        let api = &self.api;
        let own = api.topic_as(name, |config| {
            let queues = QueuesOf {
                broker: api.name().to_owned(),
                ids: vec![0],
                host: String::new(),
                address: OnceLock::new(),
                perm: config.perm,
                read: config.read_queue_nums,
                write: config.write_queue_nums,
            };
            Topic { queues: vec![queues], message_type: message_type(config) }
        });
        // The role changes without a new configuration.
        let slave_id = api.is_slave().then(|| api.id());
        match self.cluster.as_ref().and_then(|cluster| cluster.known_topic(name)) {
            Some(whole) => self.merged.get(name, (api.name(), slave_id), own, whole),
            None => own.map(|own| slave_id.map_or_else(|| own.clone(), |id| own.with_id(id))),
        }
    }

    /// Returns a topic with the queues of all brokers, or without those of other brokers if no name server responds.
    pub(super) async fn whole_topic(&self, name: &str) -> Option<Arc<Topic>> {
        if let Some(cluster) = &self.cluster {
            cluster.topic_within(name, ROUTE_TIMEOUT).await;
        }
        self.topic(name)
    }
}
