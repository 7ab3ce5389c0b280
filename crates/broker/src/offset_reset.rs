//! Offset resets by operators.

use store::Boundary;
use wire::body::ResetOffsetBody;

use crate::lookup::{self, SearchOffset};
use crate::offsets::{self, ResetContext, ResetOffset};
use crate::parts::OperatorParts;
use crate::{Result, client_relay};

/// Moves a group to other offsets, from its next pull on, and returns them. If the broker does not reset offsets
/// itself, the group's members get a notice.
pub(crate) fn reset(parts: &OperatorParts, wanted: &ResetOffset<'_>) -> Result<ResetOffsetBody> {
    let context = ResetContext {
        offsets: &parts.tables.offsets,
        groups: &parts.tables.groups,
        broker_name: &parts.runtime.config.broker_name,
        read_queues: &|topic| Some(parts.tables.topics.find(topic)?.config.read_queue_nums),
        bounds: &|topic, queue_id| match parts.tables.log_queue(topic, queue_id) {
            Some(queue) => (queue.index.min().to_i64(), parts.replication.visible_end(&queue)),
            None => (0, 0),
        },
        search: &|topic, queue_id, timestamp_ms| {
            let searched = SearchOffset { topic, queue_id, timestamp_ms, boundary: Boundary::Lower };
            lookup::search(&parts.tables, &parts.replication, &searched)
        },
    };
    if parts.runtime.config.server_side_reset {
        let targets = offsets::reset(&context, wanted)?;
        // Saved before the answer, because a reset that was answered must survive a kill.
        crate::save::save(&parts.delivery, &parts.runtime, &parts.pops);
        return Ok(targets);
    }
    let mut targets = offsets::reset_targets(&context, wanted)?;
    if wanted.only_backwards {
        // As `Broker2Client.resetOffset` does.
        for (queue, offset) in &mut targets.offset_table {
            let committed =
                parts.tables.offsets.offsets_of(wanted.group, wanted.topic, queue.queue_id).committed;
            *offset = if committed >= 0 { committed.min(*offset) } else { *offset };
        }
    }
    let names = (wanted.topic, wanted.group);
    client_relay::push_reset(&parts.sessions, names, wanted.timestamp_ms, &targets, wanted.for_cpp)?;
    Ok(targets)
}
