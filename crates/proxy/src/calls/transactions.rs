//! Decisions about transactions: EndTransaction (`EndTransactionActivity`).

use broker::api::Decision;
use grpc::messages::{
    Code, EndTransactionRequest, EndTransactionResponse, Status, TransactionResolution, TransactionSource,
    name,
};

use super::Call;
use crate::checks;
use crate::failure::{Failure, Result};
use crate::transaction_id::TransactionId;

/// Serves EndTransaction. A resolution that is neither commit nor rollback changes nothing.
pub async fn end_transaction(call: Call, request: EndTransactionRequest) -> Result<EndTransactionResponse> {
    let topic = name(&request.topic);
    checks::topic(topic)?;
    if request.transaction_id.trim().is_empty() {
        return Err(Failure::new(Code::InvalidTransactionId, "transaction id cannot be empty"));
    }
    let missing = || Failure::new(Code::InternalServerError, "cannot found transaction data");
    let id = TransactionId::parse(&request.transaction_id).ok_or_else(missing)?;
    let done = EndTransactionResponse { status: Some(Status::ok()) };
    let decision = match TransactionResolution::try_from(request.resolution) {
        Ok(TransactionResolution::Commit) => Decision::Commit,
        Ok(TransactionResolution::Rollback) => Decision::Rollback,
        _ => return Ok(done),
    };
    let is_checked = request.source == TransactionSource::ServerCheck as i32;
    call.proxy.brokers.end_transaction((&call.caller, &id), (topic, decision), is_checked).await?;
    Ok(done)
}
