//! Taking back a timed message: the message that cancels goes the way of a send, so that its answer waits for the same
//! flush.

use std::sync::Arc;

use net::Peer;
use store::Message;
use wire::codes::response;
use wire::frame::{Command, FrameWriter, Head};

use super::message::Target;
use super::{Pending, SendTurn, find_queue, reply};
use crate::Refusal;
use crate::broker::Broker;
use crate::timer::recall;

/// Checks a recall and encodes the message that cancels.
pub(crate) fn stage_recall(
    broker: &Broker,
    turn: &mut SendTurn,
    peer: &Arc<Peer>,
    command: &Command<'_>,
) -> Result<(), Refusal> {
    turn.properties.clear();
    let recall = recall::check(broker, command, &mut turn.properties)?;
    let queue = find_queue(broker, &Target { topic: broker.timer_topic()?, queue_id: 0, dead: false })?;
    let message = Message {
        body: recall::BODY,
        properties: &turn.properties,
        sys_flag: 0,
        flag: 0,
        born_timestamp: broker.now_ms(),
        born_host: peer.remote(),
        store_host: broker.store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let index = turn.batch.push(&queue.log, &message).map_err(|_| recall::failed())?;
    let id_start = turn.ids.len();
    turn.ids.extend_from_slice(recall.message_id.as_bytes());
    let id = id_start..turn.ids.len();
    turn.cancels = true;
    turn.pending.push(Pending {
        opaque: command.opaque,
        encoding: command.encoding,
        one_way: command.is_one_way(),
        waits: true,
        queue_id: 0,
        queue,
        records: index..index + 1,
        handle: id.end..id.end,
        id,
        inner: false,
        recalls_at: Some(recall.time_ms),
    });
    Ok(())
}

/// Answers a recall whose cancelling message is stored. Messages due until `delivered_ms` may have been delivered
/// before that.
pub(super) fn answer(
    broker: &Broker,
    turn: &SendTurn,
    pending: &Pending,
    delivered_ms: i64,
    out: &mut Vec<u8>,
) {
    let time_ms = pending.recalls_at.unwrap_or(i64::MAX);
    if time_ms <= delivered_ms {
        let refusal = recall::too_late();
        let head = Head::response(pending.encoding, refusal.code, pending.opaque);
        return reply::refused(broker, head.remark(&refusal.remark), out);
    }
    let head = Head::response(pending.encoding, response::SUCCESS, pending.opaque);
    let writer = FrameWriter::begin(out, head).bytes("msgId", &turn.ids[pending.id.clone()]);
    writer.text("MSG_REGION", &broker.config.region_id).finish(b"");
}
