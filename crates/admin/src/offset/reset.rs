//! Resets of offsets: by the broker, or queue by queue where a broker resets only the offsets of online consumers and
//! there are none.

use super::{commit, committed};
use crate::operation::Typed;
use crate::request::{Request, body, number};
use crate::text::Table;
use crate::{Arguments, Error, Session, stats};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::body::{MessageQueue, ResetOffsetBody};
use wire::codes::{VERSION_5_0_0, request, response};

/// Stands for the ends of the queues in a reset.
const END: i64 = -1;

/// New offsets, and the line that `mqadmin` prints above or instead of them.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Reset {
    /// The queues in the order of their brokers and ids.
    pub queues: Vec<ResetQueue>,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    is_single: bool,
}

/// The offset of a group in a queue before and after a reset.
#[derive(Clone, Serialize)]
pub struct ResetQueue {
    /// Name of the broker set; of a single queue the address of the broker.
    pub broker: String,
    /// Id of the queue.
    pub queue: i32,
    /// The offset before; absent if the broker does not report it or the group has none.
    pub current: Option<i64>,
    /// The new offset.
    pub offset: i64,
    /// The new offset minus the offset before: messages that are skipped, or, if negative, consumed again.
    pub difference: Option<i64>,
}

impl ResetQueue {
    fn new(broker: String, queue: i32, current: Option<i64>, offset: i64) -> Self {
        let difference = current.map(|current| offset - current);
        Self { broker, queue, current, offset, difference }
    }
}

impl Typed for Reset {
    fn mqadmin(&self, _: &Arguments) -> String {
        if self.is_single {
            return self.title.clone();
        }
        let mut table = Table::new("{#brokerName:<40}  {#queueId:<40}  {#offset:<40}");
        self.queues.iter().for_each(|row| table.row(&[&row.broker, &row.queue, &row.offset]));
        self.title.clone() + &table.text
    }
}

pub(super) async fn by_time(session: &Session, arguments: &Arguments) -> Result<Reset, Error> {
    let (group, topic) = (arguments.need("group")?, arguments.need("topic")?);
    let given = arguments.need("time")?;
    let time = session.time(arguments, "time")?.unwrap_or(session.now_ms);
    if let (Some(broker), Some(queue)) = (arguments.get("broker"), arguments.parse("queue")?) {
        let broker = session.broker(broker).await?;
        let target = Target { given, time, offset: arguments.parse("offset")? };
        return single(session, (group, topic), &broker, queue, target).await;
    }
    if arguments.get("queue").is_some()
        || arguments.get("offset").is_some()
        || arguments.get("broker").is_some()
    {
        return Err(Error::Usage(
            "one queue is reset with broker and queue; an offset needs both".to_owned(),
        ));
    }
    let is_forced = is_forced(arguments);
    let queues = all(session, (group, topic), time, arguments).await?;
    let title = format!(
        "start reset consumer offset by specified, group[{group}], topic[{topic}], force[{is_forced}], \
         timestamp(string)[{given}], timestamp(long)[{time}]\n"
    );
    Ok(Reset { queues, title, is_single: false })
}

pub(super) async fn skip(session: &Session, arguments: &Arguments) -> Result<Reset, Error> {
    let names = (arguments.need("group")?, arguments.need("topic")?);
    let queues = all(session, names, END, arguments).await?;
    Ok(Reset { queues, title: String::new(), is_single: false })
}

fn is_forced(arguments: &Arguments) -> bool {
    arguments.get("force").is_none() || arguments.is_on("force")
}

/// Resets all queues of a topic, one broker after the other.
async fn all(
    session: &Session,
    names: (&str, &str),
    time: i64,
    arguments: &Arguments,
) -> Result<Vec<ResetQueue>, Error> {
    let is_forced = is_forced(arguments);
    let (group, topic) = names;
    let (mut queues, mut done, mut is_offline) = (Vec::new(), Vec::new(), false);
    for (name, broker) in session.brokers_in(topic, arguments).await? {
        let rows = match by_broker(session, names, (&name, &broker), time, is_forced).await {
            Err(error) if error.code() == Some(response::CONSUMER_NOT_ONLINE) => {
                is_offline = true;
                each(session, names, (&name, &broker), time, is_forced).await
            }
            rows => rows,
        };
        queues.extend(rows.map_err(|why| session.partly(&done, why))?);
        done.push(broker);
    }
    if is_offline && queues.is_empty() {
        return Err(stats::no_offsets(group));
    }
    queues.sort_by(|one, other| (&one.broker, one.queue).cmp(&(&other.broker, other.queue)));
    Ok(queues)
}

/// Lets one broker reset all of its queues of a topic.
async fn by_broker(
    session: &Session,
    (group, topic): (&str, &str),
    (name, broker): (&str, &str),
    time: i64,
    is_forced: bool,
) -> Result<Vec<ResetQueue>, Error> {
    let ask = Request::new(request::INVOKE_BROKER_TO_RESET_OFFSET)
        .with("topic", topic)
        .with("group", group)
        .with("timestamp", time)
        .with("isForce", is_forced);
    // The reset does not depend on the offsets before it, which only its answer tells.
    let before = match session.planned() {
        Some(_) => BTreeMap::new(),
        None => {
            stats::consume_stats_of(session, broker, group, Some(topic))
                .await
                .unwrap_or_default()
                .offset_table
        }
    };
    let Some(reply) = session.change(broker, &ask).await? else {
        // A dry run shows where the offsets would go, as far as the offsets of now tell.
        return targets(session, (group, topic), (name, broker), time, is_forced).await;
    };
    let rows = body::<ResetOffsetBody>(broker, &reply)?.offset_table.into_iter().map(|(queue, offset)| {
        let current = before.get(&queue).map(|offsets| offsets.consumer_offset);
        ResetQueue::new(queue.broker_name, queue.queue_id, current, offset)
    });
    Ok(rows.collect())
}

/// Resets the queues of one broker set one by one (`DefaultMQAdminExtImpl.resetOffsetByTimestampOld`).
async fn each(
    session: &Session,
    (group, topic): (&str, &str),
    set: (&str, &str),
    time: i64,
    is_forced: bool,
) -> Result<Vec<ResetQueue>, Error> {
    let (mut queues, mut done) = (Vec::new(), Vec::new());
    for row in targets(session, (group, topic), set, time, is_forced).await? {
        let queue = MessageQueue::new(topic, &row.broker, row.queue);
        let broker = session.master_of(&queue).await?;
        let committed = commit(session, &broker, group, &queue, row.offset).await;
        committed.map_err(|why| session.partly(&done, why))?;
        done = vec![broker];
        queues.push(row);
    }
    Ok(queues)
}

/// Returns the new offsets of a group in the queues of a broker set. Only the set's own broker is asked, even if other
/// brokers do not answer.
async fn targets(
    session: &Session,
    (group, topic): (&str, &str),
    (name, broker): (&str, &str),
    time: i64,
    is_forced: bool,
) -> Result<Vec<ResetQueue>, Error> {
    let stats = stats::consume_stats_of(session, broker, group, Some(topic)).await?;
    let mut queues = Vec::new();
    for (queue, offsets) in stats.offset_table.into_iter().filter(|(queue, _)| queue.broker_name == name) {
        let found = match time {
            END => offsets.broker_offset,
            time => session.client.search_offset(&queue, time).await?,
        };
        let offset = if is_forced { found } else { found.min(offsets.consumer_offset) };
        let current = Some(offsets.consumer_offset);
        queues.push(ResetQueue::new(queue.broker_name, queue.queue_id, current, offset));
    }
    Ok(queues)
}

/// Target of the reset of a queue: the first message at or after a time, or an offset.
struct Target<'a> {
    /// The time as the operator wrote it.
    given: &'a str,
    time: i64,
    offset: Option<i64>,
}

/// Resets one queue. A broker before 5.0 would reset all queues, so only the stored offset is changed there.
async fn single(
    session: &Session,
    (group, topic): (&str, &str),
    broker: &str,
    queue: i32,
    target: Target<'_>,
) -> Result<Reset, Error> {
    let look = Request::new(request::SEARCH_OFFSET_BY_TIMESTAMP)
        .with("topic", topic)
        .with("queueId", queue)
        .with("timestamp", target.time);
    let reply = session.look(broker, &look).await?;
    let offset = match target.offset {
        Some(offset) => offset,
        None => number(broker, &reply, "offset")?,
    };
    let of_queue = MessageQueue::new(topic, "", queue);
    let before = committed(session, broker, group, &of_queue).await.unwrap_or_default();
    let mut done = Vec::new();
    if reply.version >= VERSION_5_0_0 {
        // First, because the broker refuses an offset outside of the queue.
        let reset = Request::new(request::INVOKE_BROKER_TO_RESET_OFFSET)
            .with("topic", topic)
            .with("group", group)
            .with("queueId", queue)
            .with("offset", offset)
            .with("timestamp", 0)
            .with("isForce", true);
        session.change(broker, &reset).await?;
        done.push(broker.to_owned());
    }
    let committed = commit(session, broker, group, &of_queue, offset).await;
    committed.map_err(|why| session.partly(&done, why))?;
    let mut title = format!(
        "start reset consumer offset by specified, group[{group}], topic[{topic}], queueId[{}], broker[{broker}], \
         timestamp(string)[{}], timestamp(long)[{}]\n",
        of_queue.queue_id, target.given, target.time
    );
    let _ = writeln!(title, "reset consumer offset to {offset}");
    let row = ResetQueue::new(broker.to_owned(), queue, before, offset);
    Ok(Reset { queues: vec![row], title, is_single: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Received, ServerAnswer, with_cluster, with_planning_cluster};
    use wire::body::{ConsumeStats, OffsetWrapper};

    /// Progress of a group in a queue of a broker that has ten messages.
    fn progress(broker: &str) -> Option<ServerAnswer> {
        let offsets = OffsetWrapper { broker_offset: 10, consumer_offset: 4, ..OffsetWrapper::default() };
        let offset_table = [(MessageQueue::new("T", broker, 0), offsets)].into();
        ServerAnswer::body(&ConsumeStats { offset_table, ..ConsumeStats::default() })
    }

    fn given() -> Arguments {
        let mut arguments = Arguments::default();
        ["group", "topic"].into_iter().zip(["G", "T"]).for_each(|(name, value)| arguments.set(name, value));
        arguments
    }

    #[test]
    fn a_preview_that_cannot_tell_of_a_broker_fails() {
        let answers = |broker: &str, asked: &Received| match (asked.code, broker) {
            (request::GET_CONSUME_STATS, "a") => progress("a"),
            _ => None,
        };
        let shown = with_planning_cluster(&["a"], answers, async |session: &Session| {
            let queues = skip(session, &given()).await.unwrap().queues;
            queues.iter().map(|row| (row.current, row.offset, row.difference)).collect::<Vec<_>>()
        });
        assert_eq!(shown, [(Some(4), 10, Some(6))], "current, new, difference");
        with_planning_cluster(&["a", "b"], answers, async |session: &Session| {
            assert!(skip(session, &given()).await.is_err());
        });
    }

    #[test]
    fn a_reset_that_fails_says_on_which_brokers_it_was_made() {
        let answers = |broker: &str, asked: &Received| match (asked.code, broker) {
            (request::INVOKE_BROKER_TO_RESET_OFFSET, "a") => ServerAnswer::body(&ResetOffsetBody {
                offset_table: [(MessageQueue::new("T", "a", 0), 10)].into(),
            }),
            (request::INVOKE_BROKER_TO_RESET_OFFSET, "b") => {
                ServerAnswer::refused(response::CONSUMER_NOT_ONLINE)
            }
            (request::GET_CONSUME_STATS, "b") => progress("b"),
            _ => None,
        };
        with_cluster(&["a", "b"], answers, async |session: &Session| {
            let reset = skip(session, &given()).await.map(drop);
            let expected = session.broker("a").await.unwrap();
            let Err(Error::Partly { done, .. }) = reset else { panic!("{reset:?}") };
            assert_eq!(done, [expected]);
        });
    }
}
