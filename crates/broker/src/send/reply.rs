//! Writing the answers of sends, without intermediate values.

use wire::codes::response;
use wire::frame::{FrameWriter, Head};
use wire::id::OffsetId;

use super::{Pending, StagedSends};
use crate::broker::Broker;

/// Writes the answer of a request whose records are stored; nothing for a one-way request. `ids` is a buffer for reuse.
pub(super) fn stored(
    broker: &Broker,
    staged: &StagedSends,
    pending: &Pending,
    delivered_ms: i64,
    ids: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    if pending.one_way {
        return;
    }
    if pending.recalls_at.is_some() {
        return super::recall::answer(broker, staged, pending, delivered_ms, out);
    }
    ids.clear();
    for index in pending.records.clone() {
        if !ids.is_empty() {
            ids.push(b',');
        }
        let log_offset = staged.batch.placed(index).log_offset;
        OffsetId { store_host: broker.store_host, log_offset }.append_to(ids);
    }
    let first = staged.batch.placed(pending.records.start).queue_offset;
    let head = Head::response(pending.encoding, response::SUCCESS, pending.opaque);
    let writer = FrameWriter::begin(out, head)
        .bytes("msgId", ids)
        .number("queueId", pending.queue_id)
        .number("queueOffset", first.get());
    let key = &staged.ids[pending.id.clone()];
    let writer = if key.is_empty() { writer } else { writer.bytes("transactionId", key) };
    // Without this field the client builds the batch's id from those of its messages.
    let writer = if pending.inner { writer.bytes("batchUniqId", key) } else { writer };
    let handle = &staged.ids[pending.handle.clone()];
    let writer = if handle.is_empty() { writer } else { writer.bytes("recallHandle", handle) };
    region(broker, writer).finish(b"");
}

/// Writes the answer of a request that was not stored.
pub(crate) fn refused(broker: &Broker, head: Head<'_>, out: &mut Vec<u8>) {
    region(broker, FrameWriter::begin(out, head)).finish(b"");
}

/// Writes the two fields that every answer of a send contains; clients read them without a null check.
pub(crate) fn region<'b>(broker: &Broker, writer: FrameWriter<'b>) -> FrameWriter<'b> {
    writer.text("MSG_REGION", &broker.config.region_id).flag("TRACE_ON", broker.config.trace_on)
}
