//! Telling the members of a consumer group that the group changed (`DefaultConsumerIdsChangeListener`,
//! `Broker2Client.notifyConsumerIdsChanged`).

use std::sync::Arc;

use net::ConnectionHandle;
use wire::body::MessageModel;
use wire::codes::request;
use wire::frame::{Encoding, FrameWriter, Head};

use crate::groups::Groups;

/// A change of a consumer group's members or topics.
#[derive(Debug)]
pub(crate) struct Change {
    /// The group.
    pub group: String,
    /// Whether the group consumes in a cluster or by broadcast.
    pub message_model: MessageModel,
    /// The connections of its members after the change.
    pub peers: Vec<Arc<ConnectionHandle>>,
}

/// Tells every member to rebalance at once: a one-way `NOTIFY_CONSUMER_IDS_CHANGED` (40).
///
/// Broadcasting groups share no queues and are not told, nor are groups whose configuration switches it off. A member whose
/// connection has ended is passed over.
pub(crate) fn notify(groups: &Groups, changes: &[Change]) {
    for change in changes {
        let told = groups.find(&change.group).is_none_or(|config| config.notify_consumer_ids_changed_enable);
        if !told || change.message_model == MessageModel::Broadcasting {
            continue;
        }
        for peer in &change.peers {
            let opaque = peer.next_opaque();
            let head = Head::one_way(Encoding::Json, request::NOTIFY_CONSUMER_IDS_CHANGED, opaque);
            let _ = peer.push(|out| {
                FrameWriter::begin(out, head).text("consumerGroup", &change.group).finish(b"");
            });
        }
    }
}
