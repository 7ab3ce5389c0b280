//! Telling the members of a consumer group that the group changed (`DefaultConsumerIdsChangeListener`,
//! `Broker2Client.notifyConsumerIdsChanged`).

use std::sync::Arc;

use wire::body::MessageModel;

use crate::client_link::{ClientLink, Notice};
use crate::groups::Groups;

/// A change of a consumer group's members or topics.
#[derive(Debug)]
pub(crate) struct Change {
    /// Name of the consumer group.
    pub group: String,
    /// Whether the group consumes in a cluster or by broadcast.
    pub message_model: MessageModel,
    /// Links to the members of the group after the change.
    pub links: Vec<Arc<dyn ClientLink>>,
}

/// Notifies every member to rebalance at once: a one-way `NOTIFY_CONSUMER_IDS_CHANGED` (40).
///
/// Broadcasting groups share no queues and get no notice. A group's configuration can switch the notice off. Members
/// whose connection has ended are skipped.
pub(crate) fn notify(groups: &Groups, changes: &[Change]) {
    for change in changes {
        let is_enabled =
            groups.find(&change.group).is_none_or(|config| config.notify_consumer_ids_changed_enable);
        if !is_enabled || change.message_model == MessageModel::Broadcasting {
            continue;
        }
        for link in &change.links {
            link.notify(&Notice::ConsumerIdsChanged { group: &change.group });
        }
    }
}
