//! The task that renews received messages and gives them back, in rounds (`DefaultReceiptHandleManager.scheduleRenewTask`).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use broker::api::{Caller, Subject};
use grpc::messages::Code;
use tokio::sync::oneshot;
use wire::codes::VERSION;

use crate::calls::Proxy;
use crate::failure::Failure;
use crate::receipt::{ChangeInvisibleTime, PopRef, Receipt, broker_missing};
use crate::renewal::{Change, Invisible};
use crate::settings;

/// Most changes of invisible times that one batch makes. The thread serves its connections between two batches.
const TOGETHER: usize = 256;

/// Pause between two rounds when the server stops.
const PAUSE_AT_END: Duration = Duration::from_millis(50);

/// Runs until the sender of `end` is dropped. Ends with rounds that give back the messages that clients cannot
/// acknowledge after the end.
pub async fn run(proxy: Arc<Proxy>, mut end: oneshot::Receiver<()>) {
    let period = Duration::from_millis(u64::try_from(proxy.config.renew_period_ms).unwrap_or(0).max(10));
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = proxy.renewals.given_back.notified() => {}
            _ = &mut end => break,
        }
        round(&proxy).await;
    }
    proxy.renewals.end();
    // Brokers may have answered pops meanwhile, and a change that failed is tried again, as long as the server waits.
    while round(&proxy).await {
        tokio::time::sleep(PAUSE_AT_END).await;
    }
}

/// Makes all changes that are due; whether there was one.
pub async fn round(proxy: &Proxy) -> bool {
    let due = proxy.renewals.due(proxy.brokers.now_ms());
    for changes in due.chunks(TOGETHER) {
        perform(proxy, changes).await;
        tokio::task::yield_now().await;
    }
    !due.is_empty()
}

async fn perform(proxy: &Proxy, changes: &[Change]) {
    let brokers = &proxy.brokers;
    // The user was asked for when the message was received.
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let caller = Caller { remote, version: VERSION, user: Subject::Off };
    let mut parsed: Vec<(&Change, Receipt<'_>, String, i64)> = Vec::with_capacity(changes.len());
    for change in changes {
        let Ok(receipt) = Receipt::parse(&change.handle) else { continue };
        let ms = match change.invisible {
            Invisible::Renewed(ms) | Invisible::Cleared(ms) => ms,
            Invisible::Retry(times) => {
                let group = brokers.group(&change.group).await.ok().flatten();
                settings::retry_ms(&group.unwrap_or_default(), times)
            }
        };
        let stored_in = brokers.stored_in(&receipt, (&change.topic, &change.lite_topic), &change.group);
        parsed.push((change, receipt, stored_in, ms));
    }
    let messages: Vec<ChangeInvisibleTime<'_>> = parsed
        .iter()
        .map(|(change, receipt, stored_in, ms)| {
            let message = receipt.popped(&caller, stored_in, (&change.group, &change.handle));
            let broker = receipt.handle.broker_name;
            let held = PopRef { broker, message, lite_topic: &change.lite_topic };
            ChangeInvisibleTime { held, invisible_ms: *ms, suspend: change.suspend }
        })
        .collect();
    let outcomes = brokers.change_invisible_times(&messages).await;
    for ((change, receipt, ..), outcome) in parsed.iter().zip(outcomes) {
        let acknowledged = || Failure::new(Code::InvalidReceiptHandle, "the message is acknowledged");
        let handle = match outcome {
            Ok(Some(changed)) => Ok(receipt.changed(&changed)),
            Ok(None) => Err(acknowledged()),
            // A name server that has just started knows no broker: the message is tried again.
            Err(failure) if failure == broker_missing(receipt.handle.broker_name) => {
                Err(Failure::new(Code::InternalServerError, failure.message))
            }
            Err(failure) => {
                tracing::debug!(group = change.group, ?failure, "a message cannot be kept invisible yet");
                Err(failure)
            }
        };
        proxy.renewals.done(change, handle, brokers.now_ms());
    }
}
