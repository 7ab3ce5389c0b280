//! Entries of a consume queue.

use crate::operation::Written;
use crate::request::{Request, body};
use crate::text::indented;
use crate::{Arguments, Error, Session};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;
use wire::codes::request;

/// The answer to `QUERY_CONSUME_QUEUE` (`QueryConsumeQueueResponseBody`).
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ConsumeQueuePage {
    subscription_data: Option<Value>,
    filter_data: Option<String>,
    queue_data: Vec<Entry>,
    max_queue_index: i64,
    min_queue_index: i64,
}

/// An entry (`ConsumeQueueData`).
#[derive(Deserialize, Serialize, Default)]
#[serde(rename_all(deserialize = "camelCase"), default)]
struct Entry {
    physic_offset: i64,
    physic_size: i32,
    tags_code: i64,
    extend_data_json: Option<String>,
    bit_map: Option<String>,
    eval: bool,
    msg: Option<String>,
}

pub(super) async fn queue(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let topic = arguments.need("topic")?;
    let broker = match arguments.get("broker") {
        Some(broker) => session.broker(broker).await?,
        None => session.first_of(topic).await?,
    };
    let index: i64 = arguments.parse("index")?.unwrap_or_default();
    let ask = Request::new(request::QUERY_CONSUME_QUEUE)
        .with("topic", topic)
        .with("queueId", arguments.need("queue")?)
        .with("index", index)
        .with("count", arguments.parse::<i32>("count")?.unwrap_or(10))
        .maybe("consumerGroup", arguments.get("group"));
    let reply = session.look(&broker, &ask).await?;
    if reply.body.is_empty() {
        // A broker says so where the queue has no entry, as a success without a body.
        let why = reply.remark.unwrap_or_else(|| "the queue has no such entry".to_owned());
        return Err(Error::NotFound(why));
    }
    let found: ConsumeQueuePage = body(&broker, &reply)?;
    let rule = "======================================";
    let mut text = String::new();
    if let Some(subscription) = &found.subscription_data {
        let _ = writeln!(
            text,
            "Subscription data: \n{}\n{rule}",
            indented(&subscription.to_string()).replace(":[]", ":[\n\t]")
        );
    }
    if let Some(filter) = &found.filter_data {
        let _ = writeln!(text, "Filter data: \n{filter}\n{rule}");
    }
    let _ = writeln!(
        text,
        "Queue data: \nmax: {}, min: {}\n{rule}",
        found.max_queue_index, found.min_queue_index
    );
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "null".to_owned());
    for (index, entry) in (index..).zip(&found.queue_data) {
        let Entry { physic_offset, physic_size, tags_code, extend_data_json, bit_map, eval, msg } = entry;
        let _ = writeln!(
            text,
            "idx: {index}\nConsumeQueueData{{physicOffset={physic_offset}, physicSize={physic_size}, \
             tagsCode={tags_code}, extendDataJson='{}', bitMap='{}', eval={eval}, msg='{}'}}\n{rule}",
            word(extend_data_json),
            word(bit_map),
            word(msg)
        );
    }
    Ok(Written::new(found.queue_data, text))
}
