//! The traces of a message (`QueryMsgTraceByIdSubCommand`, `TraceDataEncoder.decoderFromTraceDataString`).

use super::find::query;
use crate::operation::Typed;
use crate::text::{Table, time, time_to_second};
use crate::{Arguments, Error, Session};
use client::{MessageQuery, TRACE_TOPIC};
use serde::Serialize;
use std::collections::BTreeMap;

/// Ends a record in the body of a trace message.
const RECORD_END: char = '\u{2}';
/// Separates the fields of a record.
const FIELD_END: char = '\u{1}';

/// A send, a call of a listener or the end of a transaction.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// `Pub`, `Sub` or `EndTransaction`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Name of the producer group or consumer group.
    pub group: String,
    /// Address of the client.
    pub client_host: String,
    /// Time of the event.
    pub time: String,
    /// The time in ms since the epoch.
    #[serde(skip)]
    pub time_ms: i64,
    /// Duration in ms; absent for a call of a listener that did not return.
    pub cost_ms: Option<i64>,
    /// `success` or `failed`; of a transaction its end; `running` without an end.
    pub status: String,
    /// Earlier deliveries that failed.
    pub retries: i64,
}

use TraceEvent as Event;

impl Typed for Vec<Event> {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut text = String::new();
        for events in self.chunk_by(|one, next| one.kind == next.kind) {
            let mut table = Table::new(match events[0].kind {
                "Sub" => {
                    "{#Type:<10} {#ConsumerGroup:<20} {#ClientHost:<20} {#ConsumerTime:<20} {#CostTimes:<10} {#Status:<10}"
                }
                _ => {
                    "{#Type:<10} {#ProducerGroup:<20} {#ClientHost:<20} {#SendTime:<20} {#CostTimes:<10} {#Status:<10}"
                }
            });
            for Event { kind, group, client_host, time_ms, status, cost_ms, .. } in events {
                let (time, cost) = (time_to_second(*time_ms), format!("{}ms", cost_ms.unwrap_or_default()));
                table.row(&[kind, group, client_host, &time, &cost, status]);
            }
            text += &table.text;
        }
        text
    }
}

pub(super) async fn trace(session: &Session, arguments: &Arguments) -> Result<Vec<Event>, Error> {
    let id = arguments.need("id")?.trim();
    let plain = MessageQuery::new(arguments.get("trace-topic").unwrap_or(TRACE_TOPIC), id);
    let ask = MessageQuery {
        begin_ms: session.time(arguments, "begin")?.unwrap_or(plain.begin_ms),
        end_ms: session.time(arguments, "end")?.unwrap_or(plain.end_ms),
        max: arguments.parse("max")?.unwrap_or(plain.max),
        ..plain
    };
    let (found, failures) = query(session, &ask).await?;
    let mut events = Events::default();
    for message in &found {
        events.add(id, &String::from_utf8_lossy(&message.body), &message.born_host.ip().to_string());
    }
    match events.all() {
        all if all.is_empty() => Err(Error::NotFound(format!("no trace of {id} was found"))),
        all => {
            session.note(failures);
            Ok(all)
        }
    }
}

/// The events of one message, read from trace messages in any order.
#[derive(Default)]
struct Events {
    events: Vec<Event>,
    /// Calls of listeners by the id of the call.
    calls: BTreeMap<String, Event>,
    /// Ends of calls: cost, whether the listener was content.
    ends: BTreeMap<String, (i64, bool)>,
}

impl Events {
    /// Reads the records of a trace message that are about a message id or key. Records of other shapes are passed over.
    fn add(&mut self, id: &str, body: &str, host: &str) {
        for record in body.split(RECORD_END) {
            let fields: Vec<&str> = record.split(FIELD_END).collect();
            let number = |at: usize| fields.get(at).and_then(|text| text.parse().ok()).unwrap_or_default();
            let is_about = |at: usize, keys: usize| {
                fields.get(at) == Some(&id)
                    || fields.get(keys).is_some_and(|keys| keys.split(' ').any(|key| key == id))
            };
            let event = |kind, group: usize, time: usize| Event {
                kind,
                group: fields[group].to_owned(),
                client_host: host.to_owned(),
                time: self::time(number(time)),
                time_ms: number(time),
                cost_ms: None,
                status: "running".to_owned(),
                retries: 0,
            };
            match (fields[0], fields.len()) {
                ("Pub", 12..) if is_about(5, 7) => {
                    let is_success = fields.get(13).or(fields.get(12)).is_none_or(|text| *text == "true");
                    let status = if is_success { "success" } else { "failed" }.to_owned();
                    self.events.push(Event { cost_ms: Some(number(10)), status, ..event("Pub", 3, 1) });
                }
                ("EndTransaction", 12..) if is_about(5, 7) => {
                    let status = fields[11].to_owned();
                    self.events.push(Event { status, ..event("EndTransaction", 3, 1) });
                }
                ("SubBefore", 8..) if is_about(5, 7) => {
                    let call = Event { retries: number(6), ..event("Sub", 3, 1) };
                    self.calls.insert(format!("{} {}", fields[4], fields[5]), call);
                }
                ("SubAfter", 6..) if is_about(2, 5) => {
                    self.ends
                        .insert(format!("{} {}", fields[1], fields[2]), (number(3), fields[4] == "true"));
                }
                _ => {}
            }
        }
    }

    fn all(mut self) -> Vec<Event> {
        for (call, mut event) in self.calls {
            if let Some((cost_ms, is_success)) = self.ends.get(&call) {
                event.cost_ms = Some(*cost_ms);
                event.status = if *is_success { "success" } else { "failed" }.to_owned();
            }
            self.events.push(event);
        }
        self.events.sort_by_key(|event| (event.kind == "Sub", event.time_ms));
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_and_calls_of_listeners_are_read_from_traces() {
        let line = |text: &str| text.replace('|', "\u{1}") + "\u{2}";
        let text = line("Pub|1000|r|P|T|ID|TagA|k1 k2|h:1|3|7|0|O|true")
            + &line("Pub|1000|r|P|T|OTHER|TagA|k3|h:1|3|7|0|O|true")
            + &line("SubBefore|2000|r|G|call|ID|1|k1 k2")
            + &line("SubBefore|3000|r|H|open|ID|0|k1 k2")
            + &line("SubAfter|call|ID|5|false|k1 k2|4|2005|G")
            + "Pub|short";
        for key in ["ID", "k2"] {
            let mut events = Events::default();
            events.add(key, &text, "1.2.3.4");
            let all = events.all();
            let short: Vec<_> = all
                .iter()
                .map(|it| (it.kind, it.group.as_str(), it.cost_ms, it.status.as_str(), it.retries))
                .collect();
            let expected = [
                ("Pub", "P", Some(7), "success", 0),
                ("Sub", "G", Some(5), "failed", 1),
                ("Sub", "H", None, "running", 0),
            ];
            assert_eq!(short, expected);
            let lines = Typed::mqadmin(&all, &Arguments::default());
            assert_eq!(lines.lines().count(), 5, "{lines}");
        }
    }
}
