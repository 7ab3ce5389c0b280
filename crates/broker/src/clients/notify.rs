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
    /// How the members of the group are reached, after the change.
    pub links: Vec<Arc<dyn ClientLink>>,
}

/// Tells every member to rebalance at once: a one-way `NOTIFY_CONSUMER_IDS_CHANGED` (40).
///
/// Broadcasting groups share no queues and are not told, nor are groups whose configuration switches it off. A member whose
/// connection has ended is passed over.
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
