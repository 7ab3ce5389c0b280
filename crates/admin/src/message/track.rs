//! Which groups have consumed a message (`DefaultMQAdminExtImpl.messageTrackDetail`).

use crate::request::for_each;
use crate::{Arguments, Error, Session, stats};
use client::Received;
use serde::Serialize;
use std::fmt;
use wire::body::{ConsumeType, ConsumerConnection};
use wire::codes::response;

/// State of a message in a group.
#[derive(Clone, Serialize)]
pub struct Track {
    /// Name of the group.
    pub group: String,
    /// Type of the track as `mqadmin` names it (`TrackType`).
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Why nothing is known; empty otherwise.
    pub reason: String,
    /// Whether the committed offset of the group is greater than the message's offset, whether or not a member is
    /// online; absent if no broker tells.
    pub passed: Option<bool>,
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, reason, .. } = self;
        let reason = if reason.is_empty() { "null" } else { reason };
        write!(f, "MessageTrack [consumerGroup={group}, trackType={kind}, exceptionDesc={reason}]")
    }
}

/// Returns the groups that consume the topic of a message, and the state of the message in each group.
pub(super) async fn tracks(session: &Session, message: &Received) -> Result<Vec<Track>, Error> {
    let topic = &message.queue.topic;
    let brokers = session.brokers_of(topic).await?;
    if brokers.is_empty() {
        return Ok(Vec::new());
    }
    let groups = stats::groups_of(session, &brokers, topic).await?;
    // Several at once, because each may wait for a broker that does not answer.
    let tracks = for_each(groups, |group| async move {
        let passed = is_passed(session, message, &group).await;
        let kind = match &passed {
            Ok(passed) => of_group(session, message, &group, *passed).await,
            Err(_) => of_group(session, message, &group, None).await,
        };
        let (kind, reason) = match (kind, &passed) {
            (Ok("UNKNOWN"), Err(error)) => ("UNKNOWN", describe(error)),
            (Ok(kind), _) => (kind, String::new()),
            (Err(error), _) => match error.code() {
                Some(response::CONSUMER_NOT_ONLINE) => ("NOT_ONLINE", describe(&error)),
                Some(response::BROADCAST_CONSUMPTION) => ("CONSUME_BROADCASTING", describe(&error)),
                _ => ("UNKNOWN", describe(&error)),
            },
        };
        Track { group, kind, reason, passed: passed.ok().flatten() }
    });
    Ok(tracks.await)
}

fn describe(error: &Error) -> String {
    match error {
        Error::Client(client::Error::Refused { code, remark, .. }) => format!("CODE:{code} DESC:{remark}"),
        other => other.to_string(),
    }
}

async fn of_group(
    session: &Session,
    message: &Received,
    group: &str,
    passed: Option<bool>,
) -> Result<&'static str, Error> {
    let members = stats::consumer_connection(session, group, None).await?;
    Ok(match passed {
        _ if members.consume_type == Some(ConsumeType::ConsumeActively) => "PULL",
        None => "UNKNOWN",
        Some(false) => "NOT_CONSUME_YET",
        Some(true) if is_filtered(&members, message) => "CONSUMED_BUT_FILTERED",
        Some(true) => "CONSUMED",
    })
}

/// Whether the committed offset of the group in the queue is greater than the message's offset; `None` if the group has
/// none there.
async fn is_passed(session: &Session, message: &Received, group: &str) -> Result<Option<bool>, Error> {
    let stored_at = message.store_host.to_string();
    let route = session.route(&message.queue.topic).await?;
    let set = route.broker_datas.iter().find(|set| set.broker_addrs.get(&0) == Some(&stored_at));
    let topic = Some(message.queue.topic.as_str());
    let (stats, mut failures) =
        stats::consume_stats_in(session, (group, topic), &Arguments::default()).await?;
    let offsets = stats.offset_table.iter().find(|(queue, _)| {
        queue.queue_id == message.queue.queue_id
            && set.is_some_and(|set| set.broker_name == queue.broker_name)
    });
    if offsets.is_none() && !failures.is_empty() {
        return Err(failures.swap_remove(0));
    }
    Ok(offsets.map(|(_, offsets)| offsets.consumer_offset > message.queue_offset))
}

/// Whether the group's subscription by tags leaves the message out.
fn is_filtered(members: &ConsumerConnection, message: &Received) -> bool {
    members.subscription_table.get(&message.queue.topic).is_some_and(|subscription| {
        let tags = &subscription.tags_set;
        let is_wanted = tags.iter().any(|tag| tag == "*" || Some(tag.as_str()) == message.tag());
        !tags.is_empty() && !is_wanted
    })
}
