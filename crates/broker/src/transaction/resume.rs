//! Resumption of a transaction that was given up: an operator asks the broker to check it again
//! (`AdminBrokerProcessor.resumeCheckHalfMessage`).

use std::sync::Arc;
use store::Message;
use wire::id::OffsetId;
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::LogOffset;

use crate::parts::{Delivery, Identity, Tables};
use crate::send::not_put;
use crate::{Refusal, Result, names};

/// Stores a message of `TRANS_CHECK_MAX_TIME_TOPIC`, named by its offset id, as a half message that was never checked. Returns the
/// end of its record, for which the answer waits under sync flush. May wait for the disk.
pub(crate) fn resume(
    identity: &Identity,
    tables: &Tables,
    delivery: &Arc<Delivery>,
    id: &str,
) -> Result<LogOffset> {
    let missing = || {
        let remark = format!(
            "Put message back to {} failed. {id:?} is not the offset id of a message of {}",
            names::HALF_TOPIC,
            names::CHECK_MAX_TIME_TOPIC
        );
        Refusal::error(remark)
    };
    let place = OffsetId::parse(id).ok_or_else(missing)?;
    let mut bytes = Vec::new();
    tables.store.record_at(place.log_offset, &mut bytes).map_err(|_| missing())?;
    let record = RecordView::parse(&bytes).map_err(|_| missing())?;
    if record.topic() != names::CHECK_MAX_TIME_TOPIC.as_bytes() {
        return Err(missing());
    }
    tables.half_topic()?;
    let mut text = Vec::new();
    let dropped = [key::TRANSACTION_CHECK_TIMES, key::TRANSACTION_PREPARED_QUEUE_OFFSET];
    properties::rewrite(&mut text, record.properties(), &dropped, &[]);
    let message = Message { properties: &text, store_host: identity.store_host, ..Message::of(&record) };
    let placed =
        delivery.put(names::HALF_TOPIC, 0, &message).map_err(|error| not_put(&tables.store, error))?;
    tracing::info!(id, "a transaction that was given up is checked again");
    Ok(placed.end())
}
