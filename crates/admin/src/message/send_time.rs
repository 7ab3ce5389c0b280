//! Duration of sends.

use super::send::{Sent, producer, send_message, sent};
use crate::operation::Written;
use crate::shell::now_ms;
use crate::text::{Table, time_to_second_in};
use crate::{Arguments, Error, Session};
use client::{Message, Producer};
use jiff::tz::{TimeZone, offset};
use serde_json::json;
use std::fmt::Write as _;

/// Messages that are sent unless the operator says how many.
const COUNT: usize = 100;
/// Bytes of a message unless the operator says how many.
const SIZE: usize = 128;
/// Hours from UTC to the time zone of the lines for logs (`CLusterSendMsgRTCommand.getCurTime`).
const LOG_ZONE_HOURS: i8 = 8;

/// Sends to any queue of a topic; the time it took in ms.
async fn timed(producer: &Producer, message: &Message) -> (Result<Sent, Error>, i64) {
    let begin = now_ms();
    let outcome = sent(producer, message, None).await;
    (outcome, now_ms() - begin)
}

/// The first send is slower than all others and does not count.
fn average(times: &[i64]) -> f64 {
    times.iter().skip(1).sum::<i64>() as f64 / (times.len() as f64 - 1.0)
}

fn sized(topic: &str, arguments: &Arguments) -> Result<Message, Error> {
    Ok(Message::new(topic, "a".repeat(arguments.parse("size")?.unwrap_or(SIZE))))
}

/// Sends to the topic that a broker has under its own name, and shows the outcome of each message.
pub(super) async fn to_broker(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let broker = arguments.need("broker")?;
    let words = |size: usize| Message::new(broker, "hello jodie".repeat(size.div_ceil(11)));
    // The first send makes the topic known.
    send_message(session, &words(16), None).await?;
    let (mut rows, mut text) = (Vec::new(), String::new());
    let producer = producer(session);
    let message = words(arguments.parse("size")?.unwrap_or(SIZE));
    let count = if session.planned().is_some() { 0 } else { arguments.parse("count")?.unwrap_or(50) };
    for _ in 0..count {
        let (outcome, ms) = timed(&producer, &message).await;
        let outcome = outcome?;
        let _ = writeln!(text, "rt={ms}ms, SendResult={outcome}");
        rows.push(json!({"ms": ms, "outcome": outcome}));
    }
    Ok(Written::new(rows, text))
}

/// Sends to each queue of a topic in turn.
pub(super) async fn to_topic(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let topic = arguments.need("topic")?;
    let message = sized(topic, arguments)?;
    if session.planned().is_some() {
        send_message(session, &message, None).await?;
    }
    let producer = producer(session);
    let queues = producer.queues(topic).await?;
    let count = if session.planned().is_some() { 0 } else { arguments.parse("count")?.unwrap_or(COUNT) };
    let (mut rows, mut times) = (Vec::new(), Vec::new());
    let mut table = Table::new("{#Broker Name:<32}  {#QID:<4}  {#Send Result:<20}    {#RT:<0}");
    for queue in queues.iter().cycle().take(count) {
        let begin = now_ms();
        let is_sent = sent(&producer, &message, Some(queue)).await.is_ok();
        let ms = now_ms() - begin;
        table.row(&[&queue.broker_name, &queue.queue_id, &is_sent, &ms]);
        rows.push(json!({"broker": queue.broker_name, "queue": queue.queue_id, "sent": is_sent, "ms": ms}));
        times.push(ms);
    }
    Ok(Written::new(rows, table.text + &format!("Avg RT: {:.2}\n", average(&times))))
}

/// Sends to the topics that the broker sets of clusters have under their own names.
pub(crate) async fn to_clusters(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let is_log = arguments.is_on("log");
    let room = arguments.get("room").unwrap_or("noname");
    let producer = producer(session);
    let (mut rows, mut text) = (Vec::new(), String::new());
    if !is_log {
        let _ = writeln!(
            text,
            "{:<24}  {:<24}  {:<4}  {:<8}  {:<8}",
            "#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount"
        );
    }
    let members = session.members(arguments.get("cluster")).await?;
    for member in members.iter().filter(|member| member.id == 0) {
        let message = sized(&member.name, arguments)?;
        if session.planned().is_some() {
            send_message(session, &message, None).await?;
            continue;
        }
        let (mut times, mut failures) = (Vec::new(), 0);
        for _ in 0..arguments.parse("count")?.unwrap_or(COUNT) {
            let (outcome, ms) = timed(&producer, &message).await;
            failures += usize::from(outcome.is_err());
            times.push(ms);
        }
        let (cluster, broker, mean) = (&member.cluster, &member.name, average(&times));
        let successes = times.len() - failures;
        let _ = match is_log {
            true => {
                let now = time_to_second_in(now_ms(), &TimeZone::fixed(offset(LOG_ZONE_HOURS)));
                writeln!(text, "{now}|{room}|{cluster}|{broker}|{mean:.0}")
            }
            false => {
                writeln!(text, "{cluster:<24}  {broker:<24}  {mean:<8.2}  {successes:<16}  {failures:<16}")
            }
        };
        rows.push(
            json!({"cluster": cluster, "broker": broker, "ms": mean, "sent": successes, "failed": failures}),
        );
    }
    Ok(Written::new(rows, text))
}
