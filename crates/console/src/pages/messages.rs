//! Messages: found by key, id, or topic and time; one message with its body, consumption and trace.

use super::runtime::shown_failures;
use crate::answers::{HIDDEN, rows, with_failures};
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Page, answer, columns_table, field, operation_link, table};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Most messages that are looked for by time.
pub(super) const LIMIT: &str = "50";
/// Time back to which messages are looked for unless another is given, ms.
const RECENT_MS: i64 = 3_600_000;

/// A time of a form in UTC, `2026-01-31T12:00` or with seconds and more, as operations take it. Other texts are passed on:
/// milliseconds, and times as the pages show them.
pub(super) fn time_of(text: &str) -> String {
    match (text.contains('T') && !text.ends_with('Z'), text.matches(':').count(), text.contains('.')) {
        (true, 1, false) => format!("{text}:00.000Z"),
        (true, 2, false) => format!("{text}.000Z"),
        (true, 2, true) => format!("{text}Z"),
        _ => text.to_owned(),
    }
}

/// The form, and what it finds.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, topic, value) = (who.lang, fields.text("topic"), fields.text("value"));
    let by = fields.get("by").unwrap_or("key");
    let (begin, end) = (time_of(fields.text("begin")), time_of(fields.text("end")));
    let recent = (crate::answers::now_ms() - RECENT_MS).to_string();
    let begin = if begin.is_empty() && by == "time" { recent } else { begin };
    let given = [
        ("topic", topic),
        ("key", value),
        ("id", value),
        ("begin", &*begin),
        ("end", &*end),
        ("limit", LIMIT),
    ];
    let found = match (by, topic.is_empty(), value.is_empty()) {
        (_, true, _) | ("key" | "id", _, true) => None,
        ("key", ..) => Some(app.look_partly(who, ("message", "key"), &given).await),
        ("id", ..) => {
            let one = app.look_partly(who, ("message", "get"), &given[..3]).await;
            Some(one.map(|(one, failures)| (json!([one]), failures)))
        }
        _ => Some(app.look_partly(who, ("message", "print-topic"), &given).await),
    };
    let choices =
        [("key", lang.say("key")), ("id", lang.say("message id")), ("time", lang.say("topic and time"))];
    let body = html! {
        form.row method="get" action="/messages" role="search" {
            (field(lang.say("Topic"), "topic", topic))
            label { span { (lang.say("Find by")) } select name="by" {
                @for (name, text) in choices { option value=(name) selected[by == name] { (text) } }
            } }
            (field(lang.say("Key or id"), "value", value))
            label { span { (lang.say("From (UTC)")) } input type="datetime-local" name="begin" value=(fields.text("begin")); }
            label { span { (lang.say("Until (UTC)")) } input type="datetime-local" name="end" value=(fields.text("end")); }
            button { (lang.say("Find")) }
        }
        @match &found {
            None => {},
            Some(Err(refusal)) => p.failure role="alert" { "✗ " (refusal.text) },
            Some(Ok((found, failures))) => {
                (shown_failures(failures))
                (columns_table(lang, rows(found), &["message_id", "topic", "keys", "tags", "broker", "queue", "queue_offset", "store_time"]))
                p.small { (lang.say("At most 50 messages are shown")) }
            },
        }
    };
    let data =
        found.and_then(Result::ok).map_or(Value::Null, |(found, failures)| with_failures(found, &failures));
    Ok(Page::new(lang.say("Messages"), data, body))
}

/// One message.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, topic, id) = (who.lang, fields.text("topic"), fields.text("id"));
    let message = app.look(who, ("message", "get"), &[("topic", topic), ("id", id)], 0).await?;
    // Most clusters record no traces.
    let trace = app.look_partly(who, ("message", "trace"), &[("id", id)]).await;
    let mut plain = message.clone();
    if let Some(members) = plain.as_object_mut() {
        for name in ["body", "body_hex", "properties", "tracks"] {
            members.remove(name);
        }
    }
    // A listener is given a message by the broker's id alone.
    let place = message["offset_id"].as_str().unwrap_or(id).to_owned();
    let body = html! {
        div.actions { (operation_link(who, lang.say("Let a member consume it"), ("message", "consume-directly"), &[("topic", topic), ("id", &place)])) }
        (answer(lang, &plain))
        h2 { (lang.say("Body")) } (content(lang, &message))
        h2 { (lang.say("Properties")) } (answer(lang, &message["properties"]))
        h2 { (lang.say("Consumption")) } (table(lang, rows(&message["tracks"])))
        h2 { (lang.say("Trace")) }
        @match &trace {
            Ok((events, failures)) => { (shown_failures(failures)) (waterfall(lang, rows(events))) },
            Err(refusal) => p { (refusal.text) },
        }
    };
    let data = json!({"message": message, "trace": trace.ok().map(|(events, failures)| with_failures(events, &failures))});
    Ok(Page::new(format!("{}: {id}", lang.say("Message")), data, body))
}

/// The body: JSON indented, text as it is, other bytes as hexadecimal digits; a sentence for those who may not see it.
fn content(lang: Lang, message: &Value) -> Markup {
    let text = message["body"].as_str().unwrap_or_default();
    if text == HIDDEN {
        return html! { p { (lang.say("Your login does not show bodies of messages")) } };
    }
    let decoded = match (message["body_hex"].as_str(), serde_json::from_str::<Value>(text)) {
        (Some(hex), _) => {
            let lines = hex.as_bytes().chunks(64).map(|line| {
                let pairs = line.chunks(2).map(|pair| String::from_utf8_lossy(pair).into_owned());
                pairs.collect::<Vec<_>>().join(" ")
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        (None, Ok(value)) if value.is_object() || value.is_array() => {
            serde_json::to_string_pretty(&value).unwrap_or_default()
        }
        (None, _) => text.to_owned(),
    };
    html! { pre tabindex="0" { (decoded) } }
}

/// The events of a trace with a bar for how long after the first of them each was, beside the figures.
fn waterfall(lang: Lang, events: &[Value]) -> Markup {
    html! {
        (table(lang, events))
        @if let Some(longest) = events.iter().filter_map(|event| event["cost_ms"].as_i64()).max() {
            dl { @for event in events {
                dt { (event["type"].as_str().unwrap_or_default()) " " (event["group"].as_str().unwrap_or_default()) }
                dd { meter min="0" max=(longest.max(1)) value=(event["cost_ms"].as_i64().unwrap_or_default()) {} " " (event["cost_ms"].as_i64().unwrap_or_default()) " ms" }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_decoded() {
        let shown = |body: &str, hex: Option<&str>| {
            content(Lang::Zh, &json!({"body": body, "body_hex": hex})).into_string()
        };
        assert!(shown("{\"a\":1}", None).contains("\n  &quot;a&quot;: 1"));
        assert!(shown("<b>", None).contains("&lt;b&gt;"));
        assert!(shown("\u{fffd}", Some("00ff")).contains("00 ff"));
        assert_eq!(shown(HIDDEN, Some(HIDDEN)), "<p>您的账号无权查看消息体</p>");
    }

    #[test]
    fn times_of_forms_are_in_utc_wherever_the_console_runs() {
        let noon_ms = admin::parse_time("2026-01-31T12:00:00.000Z").unwrap();
        for text in ["2026-01-31T12:00", "2026-01-31T12:00:00", "2026-01-31T12:00:00.000"] {
            // Without a zone an operation takes a time for one of the machine's zone.
            assert!(time_of(text).ends_with('Z'), "{text}");
            assert_eq!(admin::parse_time(&time_of(text)), Some(noon_ms), "{text}");
        }
        for text in ["17", "", "2026-01-31T12:00:00.000Z", "2026-01-31#12:00:00:000", "T"] {
            assert_eq!(time_of(text), text);
        }
    }
}
