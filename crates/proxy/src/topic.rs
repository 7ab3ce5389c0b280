//! Topics and stored messages in the form of calls, for every kind of broker.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use wire::body::TopicConfig;
use wire::body::topic::{PERM_READ, PERM_WRITE};
use wire::units::{LogOffset, QueueOffset};

/// Attribute of a topic with the type of its messages.
const MESSAGE_TYPE: &str = "message.type";

/// Most merged topics; when there are more, all are made again.
const MERGED_MAX: usize = 20_000;

/// The queues of a topic on one broker group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuesOf {
    /// Name of the broker group.
    pub broker: String,
    /// Ids of its brokers.
    pub ids: Vec<i32>,
    /// Host of the broker's master in the name servers; empty for the broker of this process.
    pub host: String,
    /// Address of gRPC at the host, from its first use on.
    pub address: OnceLock<String>,
    pub perm: i32,
    pub read: i32,
    pub write: i32,
}

impl QueuesOf {
    /// The address of a port at the host. The first call fixes the result, so every call must pass the same port.
    pub fn address(&self, port: u16) -> &str {
        self.address.get_or_init(|| match self.host.contains(':') {
            true => format!("[{}]:{port}", self.host),
            false => format!("{}:{port}", self.host),
        })
    }

    /// Whether consumers may read from the queues.
    pub fn is_readable(&self) -> bool {
        self.perm & PERM_READ != 0 && self.read > 0
    }

    /// Whether producers may write to the queues, which needs a master.
    pub fn is_writable(&self) -> bool {
        self.perm & PERM_WRITE != 0 && self.write > 0 && self.ids.contains(&0)
    }
}

/// Queues of a topic, and its message type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topic {
    /// Queues in the order of the name server's route.
    pub queues: Vec<QueuesOf>,
    /// The type of messages that the topic takes (`message.type`).
    pub message_type: String,
}

impl Topic {
    /// The topic with queues of `own`, the broker of this process, from that broker; all other queues come from the `whole` route. If
    /// the broker is a slave, the route also has precedence for its group, because the route names the master. `None` without any
    /// queue data.
    pub fn merged(
        (broker, is_slave): (&str, bool),
        own: Option<Arc<Self>>,
        whole: &Self,
    ) -> Option<Arc<Self>> {
        let is_own = |queues: &QueuesOf| queues.broker == broker;
        let mut queues: Vec<_> =
            whole.queues.iter().filter(|queues| is_slave || !is_own(queues)).cloned().collect();
        if queues.is_empty() {
            return own;
        }
        let message_type = own.as_ref().map_or(&whole.message_type, |own| &own.message_type).clone();
        if !queues.iter().any(is_own) {
            queues.extend(own.iter().flat_map(|own| own.queues.iter().cloned()));
        }
        // All proxies of the cluster list queues in one order, so that producers choose alike.
        queues.sort_by(|one, other| one.broker.cmp(&other.broker));
        Some(Arc::new(Self { queues, message_type }))
    }

    /// Returns the topic with the broker id `id` for all queues. Used for a broker of this process that is a slave.
    pub fn with_id(&self, id: i32) -> Arc<Self> {
        let queues = self.queues.iter().map(|queues| QueuesOf { ids: vec![id], ..queues.clone() });
        Arc::new(Self { queues: queues.collect(), message_type: self.message_type.clone() })
    }
}

/// The type of messages that the topic of a configuration takes.
pub fn message_type(config: &TopicConfig) -> String {
    config.attributes.get(MESSAGE_TYPE).map_or("NORMAL", String::as_str).to_owned()
}

/// Merged topics by name. A merged topic is made again after a change of any of its parts, or of the broker's role.
#[derive(Default)]
pub struct MergedTopics(Mutex<HashMap<String, MergedTopic>>);

struct MergedTopic {
    own: Option<Arc<Topic>>,
    whole: Arc<Topic>,
    slave_id: Option<i32>,
    topic: Option<Arc<Topic>>,
}

impl MergedTopics {
    /// The topic of a name that [`Topic::merged`] makes of its parts on the broker `own`, which has the id `slave_id` if it is a slave.
    pub fn get(
        &self,
        name: &str,
        (broker, slave_id): (&str, Option<i32>),
        own: Option<Arc<Topic>>,
        whole: Arc<Topic>,
    ) -> Option<Arc<Topic>> {
        let is_same = |one: &Option<Arc<Topic>>, other: &Option<Arc<Topic>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let mut topics = self.0.lock();
        let kept = topics
            .get(name)
            .filter(|it| Arc::ptr_eq(&it.whole, &whole) && is_same(&it.own, &own) && it.slave_id == slave_id);
        if let Some(kept) = kept {
            return kept.topic.clone();
        }
        let at_id = own.as_ref().map(|own| slave_id.map_or_else(|| own.clone(), |id| own.with_id(id)));
        let topic = Topic::merged((broker, slave_id.is_some()), at_id, &whole);
        if topics.len() >= MERGED_MAX {
            topics.clear();
        }
        topics.insert(name.to_owned(), MergedTopic { own, whole, slave_id, topic: topic.clone() });
        topic
    }
}

/// A message that is stored.
pub struct Stored {
    pub queue_offset: QueueOffset,
    pub log_offset: LogOffset,
    /// The handle by which a timed message can be recalled; empty for every other message.
    pub recall_handle: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(broker: &str) -> Arc<Topic> {
        let queues = QueuesOf {
            broker: broker.to_owned(),
            ids: vec![0],
            host: "::1".to_owned(),
            address: OnceLock::new(),
            perm: 6,
            read: 1,
            write: 1,
        };
        Arc::new(Topic { queues: vec![queues], message_type: String::new() })
    }

    #[test]
    fn a_merged_topic_is_made_again_only_when_a_part_changes() {
        let merged = MergedTopics::default();
        let get = |own: &Arc<Topic>, whole: &Arc<Topic>, slave_id| {
            merged.get("T", ("b", slave_id), Some(own.clone()), whole.clone()).unwrap()
        };
        let (own, whole) = (topic("b"), topic("a"));
        let first = get(&own, &whole, None);
        assert_eq!(first.queues.iter().map(|queues| &*queues.broker).collect::<Vec<_>>(), ["a", "b"]);
        assert!(Arc::ptr_eq(&first, &get(&own, &whole, None)));
        let others =
            [get(&topic("b"), &whole, None), get(&own, &topic("a"), None), get(&own, &whole, Some(1))];
        assert!(others.iter().all(|other| !Arc::ptr_eq(&first, other)));
        assert_eq!(others[2].queues[1].ids, [1]);
        let without = merged.get("T", ("b", None), None, whole).unwrap();
        assert_eq!(without.queues.len(), 1);
    }

    #[test]
    fn the_address_of_a_host_is_kept() {
        let topic = topic("b");
        let address = topic.queues[0].address(8081);
        assert_eq!(address, "[::1]:8081");
        assert!(std::ptr::eq(address, topic.queues[0].address(8081)));
    }
}
