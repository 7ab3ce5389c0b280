//! Cleaning that brokers do on request.

use crate::operation::Typed;
use crate::request::Request;
use crate::{Arguments, Error, Session};
use serde::Serialize;
use wire::codes::request;

/// Brokers that cleaned up.
#[derive(Serialize)]
pub(super) struct Cleaned {
    brokers: Vec<String>,
    /// Brokers that keep old commit log files, and the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<Kept>,
}

/// A broker that keeps commit log files although they are older than `fileReservedTime`.
#[derive(Serialize)]
struct Kept {
    broker: String,
    /// The group, or the delayed messages, that still need the oldest file (`retentionHeldBy` of the broker's status).
    held_by: String,
}

impl Typed for Cleaned {
    fn mqadmin(&self, _: &Arguments) -> String {
        "success\n".to_owned()
    }
}

pub(super) async fn clean(session: &Session, arguments: &Arguments, code: i32) -> Result<Cleaned, Error> {
    let targets = match arguments.get("broker") {
        Some(_) => session.targets(arguments).await?,
        None => session.members(arguments.get("cluster")).await?,
    };
    let brokers: Vec<_> = targets.into_iter().map(|broker| broker.address).collect();
    session.change_all(&brokers, &Request::new(code)).await?;
    let mut kept = Vec::new();
    if code == request::DELETE_EXPIRED_COMMITLOG {
        for broker in &brokers {
            // The change is made, whether or not the broker tells why it kept files.
            let mut status = session.client.broker_runtime(broker).await.unwrap_or_default();
            let held_by = status.remove("retentionHeldBy").filter(|held_by| !held_by.is_empty());
            kept.extend(held_by.map(|held_by| Kept { broker: broker.clone(), held_by }));
        }
    }
    Ok(Cleaned { brokers, kept })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Received, ServerAnswer, with_cluster};

    #[test]
    fn a_log_that_is_kept_names_what_holds_it() {
        let answers = |_: &str, asked: &Received| {
            let held = br#"{"table":{"retentionHeldBy":"delayed messages at offset 5"}}"#;
            match asked.code {
                request::GET_BROKER_RUNTIME_INFO => ServerAnswer::bytes(held.to_vec()),
                _ => ServerAnswer::bytes(Vec::new()),
            }
        };
        with_cluster(&["a"], answers, async |session: &Session| {
            for (code, count) in
                [(request::DELETE_EXPIRED_COMMITLOG, 1), (request::CLEAN_EXPIRED_CONSUMEQUEUE, 0)]
            {
                let cleaned = clean(session, &Arguments::default(), code).await.unwrap();
                assert_eq!((cleaned.brokers.len(), cleaned.kept.len()), (1, count));
                assert!(cleaned.kept.iter().all(|kept| kept.held_by == "delayed messages at offset 5"));
                assert_eq!(Typed::mqadmin(&cleaned, &Arguments::default()), "success\n");
            }
        });
    }
}
