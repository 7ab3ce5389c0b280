//! Changes of topics and groups that must be on disk before the causing request continues.

use wire::body::{SubscriptionGroupConfig, TopicConfig};

/// Most times that a request is served again. The topic or group that it waited for may be removed each time before.
pub(crate) const ROUNDS_MAX: u32 = 4;

/// Change of topics and groups that must be on disk before a request continues.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Change {
    /// Changes of topics, applied in this order.
    pub topics: Vec<TopicChange>,
    /// Changes of groups, applied in this order.
    pub groups: Vec<GroupChange>,
}

/// Continuation of a request after its change is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The request is served again from the start.
    Again,
    /// The change was all the request asked for.
    Done,
}

/// Pending response: the change that a request waits for, and the continuation of the request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Later {
    pub change: Change,
    pub then: Then,
}

impl From<TopicChange> for Change {
    fn from(change: TopicChange) -> Self {
        Self { topics: vec![change], groups: Vec::new() }
    }
}

impl From<GroupChange> for Change {
    fn from(change: GroupChange) -> Self {
        Self { topics: Vec::new(), groups: vec![change] }
    }
}

impl Change {
    /// Makes a change that creates a topic unless it exists.
    pub(crate) fn ensure_topic(config: TopicConfig) -> Self {
        TopicChange::Ensure(config).into()
    }
}

/// Changes of attributes in the order of the request: names with `+` or `-` before them, and values.
pub(crate) type Alterations = Vec<(String, String)>;

/// Change of the table of topics.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TopicChange {
    /// Creates the topic with this configuration unless it exists.
    Ensure(TopicConfig),
    /// Creates or replaces the topic. The attributes of an existing topic are changed as given, and its unknown members kept.
    Put(TopicConfig, Alterations),
    /// Marks the topic as ordered across brokers, if it exists.
    Order(String),
    /// Removes the topic if it exists.
    Remove(String),
}

impl TopicChange {
    /// Name of the topic.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Ensure(config) | Self::Put(config, _) => &config.topic_name,
            Self::Order(name) | Self::Remove(name) => name,
        }
    }

    /// Name of the topic this change removes, if it removes one.
    pub(crate) fn removed(&self) -> Option<&str> {
        match self {
            Self::Remove(name) => Some(name),
            Self::Ensure(_) | Self::Put(..) | Self::Order(_) => None,
        }
    }

    /// Name of the topic this change creates if it does not exist.
    pub(crate) fn made(&self) -> Option<&str> {
        match self {
            Self::Ensure(config) | Self::Put(config, _) => Some(&config.topic_name),
            Self::Order(_) | Self::Remove(_) => None,
        }
    }
}

/// Change of the group table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupChange {
    /// Creates the group with the default configuration unless the group exists.
    Ensure(String),
    /// Creates or replaces the group. The attributes of the configuration are changes to the group's present
    /// attributes.
    Put(Box<SubscriptionGroupConfig>),
    /// Removes the group if the table contains it.
    Remove {
        /// Name of the consumer group.
        group: String,
        /// Whether the group's offsets are removed as well.
        clean_offsets: bool,
    },
    /// Closes or opens a topic for the group, if the group exists.
    Forbid {
        /// Name of the consumer group.
        group: String,
        /// Name of the topic, which need not exist.
        topic: String,
        /// Whether the group may read the topic from now on.
        readable: bool,
    },
}

impl GroupChange {
    /// Name of the group.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Ensure(name) | Self::Remove { group: name, .. } | Self::Forbid { group: name, .. } => name,
            Self::Put(config) => config.group_name.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the group that this change removes, and whether its offsets are to be removed as well.
    pub(crate) fn removed(&self) -> Option<(&str, bool)> {
        match self {
            Self::Remove { group, clean_offsets } => Some((group, *clean_offsets)),
            Self::Ensure(_) | Self::Put(_) | Self::Forbid { .. } => None,
        }
    }
}
