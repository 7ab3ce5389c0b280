//! Cleaning that brokers do on request.

use crate::operation::Typed;
use crate::request::Request;
use crate::{Arguments, Error, Session};
use serde::Serialize;
use std::time::Duration;
use wire::codes::request;

/// Time between two looks at a log that is to be cleaned. A broker begins to clean at once.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Most looks at a log that is to be cleaned.
const LOOKS_MAX: usize = 10;

/// Brokers that cleaned up.
#[derive(Serialize)]
pub(super) struct CleanedBrokers {
    brokers: Vec<String>,
    /// Effect on the commit logs; empty for other operations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logs: Vec<CleanedLog>,
}

/// A commit log that was to be cleaned.
#[derive(Serialize)]
struct CleanedLog {
    broker: String,
    /// Bytes that were deleted so far.
    freed_bytes: u64,
    /// The group or the kind of messages that keeps expired files, and its queue. Empty if nothing keeps files, and for
    /// brokers of RocketMQ, which do not report it.
    held_by: String,
}

impl Typed for CleanedBrokers {
    fn mqadmin(&self, _: &Arguments) -> String {
        "success\n".to_owned()
    }
}

pub(super) async fn clean(
    session: &Session,
    arguments: &Arguments,
    code: i32,
) -> Result<CleanedBrokers, Error> {
    let brokers = targets(session, arguments).await?;
    session.change_all(&brokers, &Request::new(code)).await?;
    Ok(CleanedBrokers { brokers, logs: Vec::new() })
}

/// Makes brokers delete expired files of their commit logs. Returns the freed bytes and the reason why files are kept.
pub(super) async fn clean_log(session: &Session, arguments: &Arguments) -> Result<CleanedBrokers, Error> {
    let brokers = targets(session, arguments).await?;
    let mut before = Vec::new();
    for broker in &brokers {
        before.push(log(session, broker).await.map(|(min, _)| min));
    }
    session.change_all(&brokers, &Request::new(request::DELETE_EXPIRED_COMMITLOG)).await?;
    let mut logs = Vec::new();
    if session.planned().is_none() {
        for (broker, min) in brokers.iter().zip(before) {
            logs.extend(cleaned(session, broker, min).await);
        }
    }
    Ok(CleanedBrokers { brokers, logs })
}

/// Looks at a broker's log until the smallest offset is greater than `min`, at most [`LOOKS_MAX`]
/// times.
async fn cleaned(session: &Session, broker: &str, min: Option<u64>) -> Option<CleanedLog> {
    let min = min?;
    let mut log_now = log(session, broker).await?;
    for _ in 0..LOOKS_MAX {
        if log_now.0 > min {
            break;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
        log_now = log(session, broker).await?;
    }
    let (now, held_by) = log_now;
    Some(CleanedLog { broker: broker.to_owned(), freed_bytes: now.saturating_sub(min), held_by })
}

/// Returns the smallest offset of a broker's commit log, and the holder of expired files.
async fn log(session: &Session, broker: &str) -> Option<(u64, String)> {
    let runtime = session.client.broker_runtime(broker).await.ok()?;
    let min = runtime.get("commitLogMinOffset")?.parse().ok()?;
    Some((min, runtime.get("retentionHeldBy").cloned().unwrap_or_default()))
}

async fn targets(session: &Session, arguments: &Arguments) -> Result<Vec<String>, Error> {
    let targets = match arguments.get("broker") {
        Some(_) => session.targets(arguments).await?,
        None => session.members(arguments.get("cluster")).await?,
    };
    Ok(targets.into_iter().map(|broker| broker.address).collect())
}
