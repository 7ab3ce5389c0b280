//! Messages of whole queues.

use super::find::TOOLS_GROUP;
use super::view::View;
use crate::operation::Typed;
use crate::request::split;
use crate::{Arguments, Error, Session, stats};
use client::{PullRequest, PullStatus};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use wire::body::MessageQueue;

/// Most messages that are printed unless the operator says another number; all of them are held in memory.
const LIMIT: usize = 10_000;

/// The messages of queues.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct QueueMessages {
    messages: Vec<View>,
    /// Queues: the line above the messages of each queue, and the number of its messages.
    #[serde(skip)]
    queues: Vec<(String, usize)>,
    #[serde(skip)]
    is_topic: bool,
}

impl QueueMessages {
    /// Tags by how many messages have them, the most frequent first.
    fn counts(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for tag in self.messages.iter().map(View::tag).filter(|tag| !tag.is_empty()) {
            *counts.entry(tag).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }
}

impl Typed for QueueMessages {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let has_body = match arguments.get("body") {
            Some(_) => arguments.is_on("body"),
            None => self.is_topic,
        };
        let mut out = String::new();
        let mut messages = self.messages.iter();
        for (title, count) in &self.queues {
            if self.is_topic {
                let _ = writeln!(out, "{title}");
            }
            for message in messages.by_ref().take(*count) {
                if self.is_topic || arguments.is_on("print") {
                    let _ = writeln!(out, "{}", message.line(has_body));
                }
            }
        }
        if !self.is_topic && arguments.is_on("count") {
            for (tag, count) in self.counts() {
                let _ = writeln!(out, "Tag: {tag:<30} Count: {count}");
            }
        }
        out
    }

    fn redact(&mut self, sees_bodies: bool) {
        self.messages.iter_mut().for_each(|view| view.hide_body(sees_bodies));
    }
}

pub(super) async fn queue(session: &Session, arguments: &Arguments) -> Result<QueueMessages, Error> {
    let id = arguments.parse("queue")?.unwrap_or_default();
    let queue = MessageQueue::new(arguments.need("topic")?, arguments.need("broker")?, id);
    let mut printed = QueueMessages { messages: Vec::new(), queues: Vec::new(), is_topic: false };
    add(session, arguments, (&queue, limit(arguments)?), &mut printed).await?;
    Ok(printed)
}

/// Returns the messages of all queues, one queue after another. If the operator gives a limit, the messages that were
/// stored first count, in the order of their store times. Otherwise the first queue alone could fill the limit. After a
/// failure the other queues of the broker set are left out, because each may wait for the same broker.
///
/// # Errors
/// The first failure when no queue was read.
pub(crate) async fn topic(session: &Session, arguments: &Arguments) -> Result<QueueMessages, Error> {
    let route = session.client.route(arguments.need("topic")?).await?;
    let limit = limit(arguments)?;
    let is_by_time = arguments.get("limit").is_some();
    let mut printed = QueueMessages { messages: Vec::new(), queues: Vec::new(), is_topic: true };
    let (mut outcomes, mut failed) = (Vec::new(), BTreeSet::new());
    for queue in &route.subscribe {
        if failed.contains(&queue.broker_name) {
            continue;
        }
        let first = printed.messages.len();
        let most = if is_by_time { limit } else { limit - first };
        let added = add(session, arguments, (queue, most), &mut printed).await;
        if added.is_err() {
            printed.messages.truncate(first);
            failed.insert(&queue.broker_name);
        }
        outcomes.push(added);
        if is_by_time {
            printed.messages.sort_by_key(View::store_ms);
            printed.messages.truncate(limit);
        }
    }
    let (_, failures) = split(outcomes)?;
    session.note(failures);
    Ok(printed)
}

fn limit(arguments: &Arguments) -> Result<usize, Error> {
    Ok(arguments.parse("limit")?.unwrap_or(LIMIT))
}

/// Reads a queue from its minimum offset, or from a time on, to its maximum offset or to a time, and so many messages at most.
async fn add(
    session: &Session,
    arguments: &Arguments,
    (queue, most): (&MessageQueue, usize),
    printed: &mut QueueMessages,
) -> Result<(), Error> {
    let client = &session.client;
    let mut offset = client.min_offset(queue).await?;
    let mut end = client.max_offset(queue).await?;
    if let Some(time) = session.time(arguments, "begin")? {
        offset = client.search_offset(queue, time).await?;
    }
    if let Some(time) = session.time(arguments, "end")? {
        end = client.search_offset(queue, time).await?;
    }
    let title = format!("minOffset={offset}, maxOffset={end}, {}", stats::queue_text(queue));
    let first = printed.messages.len();
    let last = first.saturating_add(most);
    let expression = Some(arguments.get("tags").unwrap_or("*"));
    while offset < end && printed.messages.len() < last {
        let pulled =
            client.pull(&PullRequest { expression, ..PullRequest::new(TOOLS_GROUP, queue, offset) }).await?;
        let is_stuck = pulled.next_offset <= offset;
        let wanted = pulled.messages.iter().filter(|message| message.queue_offset < end);
        printed.messages.extend(wanted.map(View::new));
        offset = pulled.next_offset;
        let is_over = matches!(pulled.status, PullStatus::NothingNew | PullStatus::OffsetIllegal);
        if is_over || is_stuck {
            break;
        }
    }
    printed.messages.truncate(last);
    printed.queues.push((title, printed.messages.len() - first));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{QUEUES, Received, ServerAnswer, with_cluster};
    use wire::codes::request;

    #[test]
    fn a_broker_that_does_not_answer_hides_no_queue_of_the_others() {
        let answers = |broker: &str, asked: &Received| match (broker, asked.code) {
            ("b", request::GET_MIN_OFFSET | request::GET_MAX_OFFSET) => ServerAnswer::number("offset", 5),
            _ => None,
        };
        let mut arguments = Arguments::default();
        arguments.set("topic", "T");
        with_cluster(&["a", "b"], answers, async |session: &Session| {
            let printed = topic(session, &arguments).await.unwrap();
            assert_eq!(printed.queues.len(), QUEUES as usize);
            assert_eq!(session.failures().len(), 1, "a is asked for one queue alone");
        });
        with_cluster(&["a"], answers, async |session: &Session| {
            assert!(topic(session, &arguments).await.is_err());
        });
    }
}
