//! Messages as `consumeMessage` reads them: a number of the oldest ones, without moving any group's offset.

use super::find::TOOLS_GROUP;
use super::view::View;
use crate::operation::{Typed, Written};
use crate::stats::queue_text;
use crate::{Arguments, Error, Session};
use client::{PullRequest, PullStatus};
use serde::Serialize;
use std::fmt::Write as _;
use wire::body::MessageQueue;

/// Most messages unless the operator says how many (`ConsumeMessageCommand.messageCount`).
const COUNT: i64 = 128;

pub(super) async fn consume(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let topic = arguments.need("topic")?;
    let count = arguments.parse("count")?.unwrap_or(COUNT);
    let first: Option<i64> = arguments.parse("offset")?;
    let queue = match (arguments.get("broker"), arguments.parse("queue")?) {
        (Some(broker), Some(queue)) => Some(MessageQueue::new(topic, broker, queue)),
        (None, Some(_)) => return Err(Error::Usage("Please set the brokerName before queueId!".to_owned())),
        (_, None) if first.is_some() => {
            return Err(Error::Usage("Please set queueId before offset!".to_owned()));
        }
        (_, None) => None,
    };
    if count <= 0 {
        return Err(Error::Usage("Please input a positive messageNumber!".to_owned()));
    }
    let queues = match &queue {
        Some(queue) => vec![queue.clone()],
        None => session.client.route(topic).await?.subscribe.clone(),
    };
    let (mut views, mut text, mut left) = (Vec::new(), String::new(), count);
    for queue in &queues {
        let (mut begin, mut end) =
            (session.client.min_offset(queue).await?, session.client.max_offset(queue).await?);
        if let Some(time) = session.time(arguments, "begin")? {
            begin = session.client.search_offset(queue, time).await?;
        }
        if let Some(time) = session.time(arguments, "end")? {
            end = session.client.search_offset(queue, time).await?;
        }
        if first.is_some_and(|first| first > end) {
            let _ =
                writeln!(text, "{} no matched msg, offset={}", queue_text(queue), first.unwrap_or_default());
            continue;
        }
        begin = begin.max(first.unwrap_or_default());
        if end - begin > left {
            let _ = match arguments.get("queue") {
                Some(_) => writeln!(text, "The oldler {left} message will be provided"),
                None => writeln!(
                    text,
                    "The older {left} message of the {} queue will be provided",
                    queue.queue_id
                ),
            };
            end = begin + left - 1;
        }
        left -= end - begin + 1;
        read(session, queue, (begin, end), (&mut views, &mut text)).await?;
        if left <= 0 {
            break;
        }
    }
    Ok(Written::new(views, text))
}

/// Reads the messages from one offset up to another.
async fn read(
    session: &Session,
    queue: &MessageQueue,
    (mut offset, last): (i64, i64),
    (views, text): (&mut Vec<View>, &mut String),
) -> Result<(), Error> {
    while offset <= last {
        let messages_max = i32::try_from(last - offset + 1).unwrap_or(i32::MAX);
        let ask = PullRequest {
            messages_max,
            expression: Some("*"),
            ..PullRequest::new(TOOLS_GROUP, queue, offset)
        };
        let pulled = session.client.pull(&ask).await?;
        let is_stuck = pulled.next_offset <= offset;
        offset = pulled.next_offset;
        let state = match pulled.status {
            PullStatus::Found => {
                text.push_str("Consume ok\n");
                for message in &pulled.messages {
                    let view = View::new(message);
                    let _ = writeln!(text, "{}", view.line(true));
                    views.push(view);
                }
                ""
            }
            PullStatus::NothingNew => "NO_NEW_MSG",
            PullStatus::OffsetIllegal => "OFFSET_ILLEGAL",
            _ => "NO_MATCHED_MSG",
        };
        let queue = queue_text(queue);
        let _ = match state {
            "" => Ok(()),
            "NO_MATCHED_MSG" => writeln!(text, "{queue} no matched msg. status={state}, offset={offset}"),
            _ => writeln!(text, "{queue} print msg finished. status={state}, offset={offset}"),
        };
        if is_stuck || state == "NO_NEW_MSG" || state == "OFFSET_ILLEGAL" {
            break;
        }
    }
    Ok(())
}

/// The messages of a file of the compaction log. Such files hold records in the format of the commit log.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct DumpedMessages(Vec<View>);

impl Typed for DumpedMessages {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.0.iter().map(|view| view.line(false) + "\n").collect()
    }

    fn missing(&self, arguments: &Arguments) -> Option<String> {
        let file = arguments.get("file").unwrap_or_default();
        self.0.is_empty().then(|| format!("the file {file} does not begin with a message"))
    }
}

pub(super) async fn dump(_: &Session, arguments: &Arguments) -> Result<DumpedMessages, Error> {
    let file = arguments.need("file")?;
    let path = std::path::Path::new(file);
    if !path.exists() {
        return Err(Error::Usage(format!("file {file} not exist.")));
    }
    if path.is_dir() {
        return Err(Error::Usage(format!("file {file} is a directory.")));
    }
    let stored = std::fs::read(path)?;
    let (mut views, mut rest) = (Vec::new(), &stored[..]);
    while let Some((size, _)) = rest.split_first_chunk::<4>() {
        let Some((record, more)) = rest.split_at_checked(u32::from_be_bytes(*size) as usize) else { break };
        let Ok(message) = client::Received::decode(record) else { break };
        views.push(View::new(&message));
        rest = more;
    }
    Ok(DumpedMessages(views))
}
