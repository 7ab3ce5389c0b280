//! Groups with dead letters.

use crate::operation::Typed;
use crate::request::{Request, body, for_each, number};
use crate::text::time;
use crate::{Arguments, Error, Session, stats};
use serde::Serialize;
use wire::body::TopicStats;
use wire::codes::request;
use wire::names::DLQ_PREFIX;

/// Groups that are asked for unless the operator says how many.
const LIMIT: usize = 1000;

/// A group with dead letters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeadLetterGroup {
    /// Name of the group.
    pub group: String,
    /// Dead letters that are still stored.
    pub messages: i64,
    /// Store time of the first dead letter; empty if unknown.
    pub oldest: String,
    /// Store time of the last dead letter.
    pub newest: String,
    /// The two store times in ms since the epoch; 0 if unknown.
    #[serde(skip)]
    pub times_ms: (i64, i64),
}

impl Typed for Vec<DeadLetterGroup> {}

/// Returns the groups whose dead letter topics have messages. The group that gave up a message last comes first.
pub(super) async fn groups(session: &Session, arguments: &Arguments) -> Result<Vec<DeadLetterGroup>, Error> {
    let names = stats::topics(session).await?;
    let groups = names.iter().filter_map(|topic| topic.strip_prefix(DLQ_PREFIX).map(str::to_owned));
    let groups: Vec<String> = groups.take(arguments.parse("limit")?.unwrap_or(LIMIT)).collect();
    let outcomes = for_each(groups, |group| async move { of_group(session, &group).await });
    let mut rows = session.answers(outcomes.await)?;
    rows.retain(|row| row.messages > 0);
    rows.sort_by_key(|row| std::cmp::Reverse(row.times_ms.1));
    Ok(rows)
}

async fn of_group(session: &Session, group: &str) -> Result<DeadLetterGroup, Error> {
    let topic = format!("{DLQ_PREFIX}{group}");
    let (mut messages, mut oldest_ms, mut newest_ms) = (0, None, 0);
    for (_, address) in session.brokers_of(&topic).await? {
        let ask = Request::new(request::GET_TOPIC_STATS_INFO).with("topic", &topic);
        let stats: TopicStats = body(&address, &session.look(&address, &ask).await?)?;
        for (queue, range) in stats.offset_table.iter().filter(|(_, it)| it.max_offset > it.min_offset) {
            messages += range.max_offset - range.min_offset;
            newest_ms = newest_ms.max(range.last_update_timestamp);
            let ask = Request::new(request::GET_EARLIEST_MSG_STORETIME)
                .with("topic", &topic)
                .with("queueId", queue.queue_id);
            // The number is worth showing even if the time is unknown.
            let reply = session.look(&address, &ask).await;
            let first = reply.and_then(|reply| number(&address, &reply, "timestamp"));
            oldest_ms = oldest_ms.into_iter().chain(first.ok().filter(|ms| *ms > 0)).min();
        }
    }
    let times_ms = (oldest_ms.unwrap_or_default(), newest_ms);
    let (oldest, newest) = (time(times_ms.0), time(times_ms.1));
    Ok(DeadLetterGroup { group: group.to_owned(), messages, oldest, newest, times_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Received, ServerAnswer, with_cluster};
    use wire::body::{MessageQueue, TopicList, TopicOffset};

    #[test]
    fn groups_are_listed_with_counts_and_ages() {
        let answers = |_: &str, asked: &Received| match asked.code {
            request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => ServerAnswer::body(&TopicList {
                topic_list: ["%DLQ%G", "%RETRY%G", "T"].map(str::to_owned).into(),
                ..TopicList::default()
            }),
            request::GET_TOPIC_STATS_INFO => {
                let range = TopicOffset { min_offset: 3, max_offset: 8, last_update_timestamp: 9000 };
                let offset_table = [(MessageQueue::new("%DLQ%G", "a", 0), range)].into();
                ServerAnswer::body(&TopicStats { offset_table, ..TopicStats::default() })
            }
            request::GET_EARLIEST_MSG_STORETIME => ServerAnswer::number("timestamp", 4000),
            _ => None,
        };
        let rows = with_cluster(&["a", "b"], answers, async |session: &Session| {
            groups(session, &Arguments::default()).await.unwrap()
        });
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.group.as_str(), row.messages, row.times_ms), ("G", 10, (4000, 9000)));
    }
}
