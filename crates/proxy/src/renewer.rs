//! The task that renews received messages and gives them back, in rounds (`DefaultReceiptHandleManager.scheduleRenewTask`).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use broker::api::{Caller, Identity, PoppedMessage};
use wire::codes::VERSION;

use crate::calls::Proxy;
use crate::failure::Failure;
use crate::messages::Code;
use crate::receipt::Receipt;
use crate::renewal::{Change, Invisible};
use crate::settings;

/// Changes that are made together; the thread serves its connections between two of them.
const TOGETHER: usize = 256;

/// Runs until the proxy stops.
pub async fn run(proxy: Arc<Proxy>) {
    let period = Duration::from_millis(u64::try_from(proxy.config.renew_period_ms).unwrap_or(0).max(10));
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = proxy.renewals.given_back.notified() => {}
        }
        round(&proxy).await;
    }
}

/// Makes all changes that are due.
pub async fn round(proxy: &Proxy) {
    for changes in proxy.renewals.due(proxy.api.now_ms()).chunks(TOGETHER) {
        perform(proxy, changes).await;
        tokio::task::yield_now().await;
    }
}

async fn perform(proxy: &Proxy, changes: &[Change]) {
    let api = &proxy.api;
    // The user was asked for when the message was received.
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let caller = Caller { remote, version: VERSION, user: Identity::Off };
    let parsed: Vec<(&Change, Receipt<'_>, String)> = changes
        .iter()
        .filter_map(|change| {
            let receipt = Receipt::parse(&change.handle).ok()?;
            Some((change, receipt, receipt.topic(&change.topic, &change.group)))
        })
        .collect();
    let messages: Vec<(PoppedMessage<'_>, i64)> = parsed
        .iter()
        .map(|(change, receipt, stored_in)| {
            let ms = match change.invisible {
                Invisible::Renewed(ms) | Invisible::Cleared(ms) => ms,
                Invisible::Retry(times) => {
                    settings::retry_ms(&api.group(&change.group).unwrap_or_default(), times)
                }
            };
            (receipt.popped(&caller, stored_in, (&change.group, &change.handle)), ms)
        })
        .collect();
    let outcomes = api.change_invisible_times(&messages).await;
    for ((change, receipt, _), outcome) in parsed.iter().zip(outcomes) {
        let acknowledged = || Failure::new(Code::InvalidReceiptHandle, "the message is acknowledged");
        let handle = match outcome {
            Ok(Some(changed)) => Ok(receipt.changed(&changed)),
            Ok(None) => Err(acknowledged()),
            Err(refusal) => {
                tracing::debug!(group = change.group, %refusal, "a message cannot be kept invisible yet");
                Err(Failure::from(refusal))
            }
        };
        proxy.renewals.done(change, handle, api.now_ms());
    }
}
