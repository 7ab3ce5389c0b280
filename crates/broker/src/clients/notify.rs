//! Telling the members of a group that it changed (`DefaultConsumerIdsChangeListener`,
//! `Broker2Client.notifyConsumerIdsChanged`).

use std::sync::Arc;

use net::Peer;
use wire::body::MessageModel;
use wire::codes::request;
use wire::frame::{Encoding, FrameWriter, Head};

use crate::groups::Groups;

/// The members or topics of a consumer group changed.
#[derive(Debug)]
pub(crate) struct Change {
    /// The group.
    pub group: String,
    /// How it consumes.
    pub message_model: MessageModel,
    /// Its members after the change.
    pub peers: Vec<Arc<Peer>>,
}

/// Tells every member at once to share out the queues again: a one-way `NOTIFY_CONSUMER_IDS_CHANGED` (40).
///
/// Broadcasting groups share nothing and are not told, nor are groups whose settings say so. A member that is gone
/// by now needs no notice.
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
