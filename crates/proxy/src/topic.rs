//! Topics and stored messages as calls see them, whoever performs the calls.

use std::sync::Arc;

use wire::body::TopicConfig;
use wire::body::topic::{PERM_READ, PERM_WRITE};
use wire::units::{LogOffset, QueueOffset};

/// The attribute of a topic that says which messages it takes.
const MESSAGE_TYPE: &str = "message.type";

/// The queues of a topic on one broker group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuesOf {
    /// Name of the broker group.
    pub broker: String,
    /// Ids of its brokers.
    pub ids: Vec<i32>,
    /// Host of the broker's master in the name servers; empty for the broker of this process.
    pub host: String,
    pub perm: i32,
    pub read: i32,
    pub write: i32,
}

impl QueuesOf {
    /// Whether consumers may read here.
    pub fn is_readable(&self) -> bool {
        self.perm & PERM_READ != 0 && self.read > 0
    }

    /// Whether producers may write here, which needs a master.
    pub fn is_writable(&self) -> bool {
        self.perm & PERM_WRITE != 0 && self.write > 0 && self.ids.contains(&0)
    }
}

/// Where a topic is, and what it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topic {
    /// In the order of the name server's route.
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

    /// The topic on a broker with this id.
    pub fn with_id(&self, id: i32) -> Arc<Self> {
        let queues = self.queues.iter().map(|queues| QueuesOf { ids: vec![id], ..queues.clone() });
        Arc::new(Self { queues: queues.collect(), message_type: self.message_type.clone() })
    }
}

/// The type of messages that the topic of a configuration takes.
pub fn message_type(config: &TopicConfig) -> String {
    config.attributes.get(MESSAGE_TYPE).map_or("NORMAL", String::as_str).to_owned()
}

/// A message that is stored.
pub struct Stored {
    pub queue_offset: QueueOffset,
    pub log_offset: LogOffset,
    /// The handle by which a timed message can be recalled; empty for every other message.
    pub recall_handle: String,
}
