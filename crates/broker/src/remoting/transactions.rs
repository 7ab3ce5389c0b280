//! Requests that store a message again: 36 (`AbstractSendMessageProcessor`), 37 (`EndTransactionProcessor`) and 323
//! (`AdminBrokerProcessor`).

use auth::{Action, Actions};
use wire::codes::VERSION_3_4_9;
use wire::id::OffsetId;
use wire::record::sys_flag;
use wire::units::LogOffset;

use super::answer::Answer;
use super::incoming::Request;
use crate::send_back::{self, SendBack};
use crate::transaction::{self, Decision, EndTransaction};
use crate::{Result, message_access};

/// Makes a response that confirms storage. Under sync flush it leaves when the log is on disk up to `end`.
fn stored(end: LogOffset) -> Answer {
    Answer::success().appended(end)
}

/// Checks that the caller may perform the action on the topic of the message at log offset `at`.
fn authorize(r: &Request<'_>, at: LogOffset, action: Action) -> Result<()> {
    let request = auth::Request::Code(r.command.code);
    message_access::authorize(
        &r.broker.store,
        &r.broker.sessions,
        &r.broker.runtime,
        (r.caller, request),
        at,
        Actions::of(&[action]),
    )
}

/// 36 `CONSUMER_SEND_MSG_BACK`.
pub(super) fn send_back(r: &Request<'_>) -> Result<Answer> {
    let group = r.need("group")?;
    let offset: i64 = r.number("offset")?;
    let message = SendBack {
        group,
        delay_level: r.number("delayLevel")?,
        times_max: r.number_if("maxReconsumeTimes")?.filter(|_| r.command.version >= VERSION_3_4_9),
        log_offset: LogOffset::from_i64(offset).ok_or_else(|| send_back::not_found(offset))?,
    };
    authorize(r, message.log_offset, Action::Sub)?;
    send_back::send_back(&r.broker.sends, &message).map(stored)
}

/// 37 `END_TRANSACTION`. An unknown state changes nothing.
pub(super) fn end(r: &Request<'_>) -> Result<Answer> {
    let producer_group = r.need("producerGroup")?;
    let half_offset = r.number("tranStateTableOffset")?;
    let log_offset: i64 = r.number("commitLogOffset")?;
    let decision = match r.number("commitOrRollback")? {
        sys_flag::TRANSACTION_COMMIT => Decision::Commit,
        sys_flag::TRANSACTION_ROLLBACK => Decision::Rollback,
        _ => return Ok(Answer::success()),
    };
    let log_offset = LogOffset::from_i64(log_offset).ok_or_else(transaction::not_found)?;
    authorize(r, log_offset, Action::Pub)?;
    let is_checked = r.flag_or("fromTransactionCheck", false);
    let request = EndTransaction { producer_group, half_offset, log_offset, decision, is_checked };
    transaction::end(&r.broker.engines, &request).map(stored)
}

/// 323 `RESUME_CHECK_HALF_MESSAGE`.
pub(super) fn resume(r: &Request<'_>) -> Result<Answer> {
    let id = r.need("msgId")?;
    if let Some(place) = OffsetId::parse(id) {
        authorize(r, place.log_offset, Action::Update)?;
    }
    transaction::resume(&r.broker.identity, &r.broker.tables, &r.broker.delivery, id).map(stored)
}
