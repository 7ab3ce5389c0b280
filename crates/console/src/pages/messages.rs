//! Messages: the newest of a topic, found by key or id; one message with its body, consumption and trace.

use super::Reply;
use super::body;
use super::forms::{Choices, in_utc, picker, time_field, zone_field};
use super::runtime::shown_failures;
use crate::answers::now_ms;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{
    Column, Page, Table, ago, card, empty, field, group_link, number, operation_link, status, topic_link,
};
use crate::words::Lang;
use admin::{Level, MessageView, MessagesByKey, Newest, TraceEvent, Track};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::sync::Arc;
use wire::properties::key;

/// Messages of a page.
pub(super) const PAGE: &str = "50";
/// Time after which a page that follows a topic is fetched again, ms.
const FOLLOW_MS: u32 = 2000;

/// A time in the visitor's zone, with its distance from now under the pointer.
pub(super) fn local(who: &Visitor, ms: i64) -> Markup {
    html! { time datetime=(admin::time(ms)) title=(who.zone.name()) { (who.zone.time(ms)) } }
}

/// The search form, and the found messages.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let given = in_utc(who, fields);
    let by = match (fields.text("by"), fields.get("value")) {
        (by @ ("key" | "id"), _) => by,
        // A visitor who gives a key looks for that key.
        (_, Some(_)) => "key",
        _ => "newest",
    };
    let found = found(app, who, by, &given).await;
    let is_following = by == "newest" && fields.get("follow").is_some() && fields.get("end").is_none();
    let body = html! {
        (form(who, fields, by, &Choices::topics(app, who).await))
        @match &found {
            None => (empty(lang, lang.say("Choose a topic to see its newest messages"))),
            Some(Err(refusal)) => p.failure role="alert" { "✗ " (refusal.text) },
            Some(Ok(found)) => {
                (shown_failures(&found.failures))
                @if by == "newest" { (follow(lang, fields, is_following)) }
                (table(who, &found.messages).or(empty(lang, lang.say("No message is stored in this time"))))
                (pages(lang, fields, found.next))
            },
        }
    };
    let data = match &found {
        Some(Ok(found)) => json!(**found),
        _ => Value::Null,
    };
    let page = Page::new(lang.say("Messages"), data, body);
    Ok(if is_following { page.live(FOLLOW_MS) } else { page })
}

/// Finds the messages that the form asks for; `None` for an empty form.
async fn found(app: &App, who: &Visitor, by: &str, given: &Fields) -> Option<Result<Arc<Newest>, Refusal>> {
    let (topic, value) = (given.get("topic")?, given.text("value"));
    let range = ["begin", "end", "skip"].map(|name| (name, given.text(name)));
    let plain = |messages| Arc::new(Newest { messages, next: None, failures: Vec::new() });
    match by {
        "key" | "id" if value.is_empty() => None,
        "id" => {
            let message = app
                .typed::<MessageView>(who, ("message", "get"), &[("topic", topic), ("id", value)], 0)
                .await;
            Some(message.map(|message| plain(vec![(*message).clone()])))
        }
        "key" => {
            let asked = [("topic", topic), ("key", value), range[0], range[1]];
            let found = app.typed::<MessagesByKey>(who, ("message", "key"), &asked, 0).await;
            Some(found.map(|found| plain(found.0.clone())))
        }
        _ => {
            let asked = [("topic", topic), range[0], range[1], range[2], ("limit", PAGE)];
            Some(app.typed::<Newest>(who, ("message", "newest"), &asked, 0).await)
        }
    }
}

fn form(who: &Visitor, fields: &Fields, by: &str, topics: &[String]) -> Markup {
    let lang = who.lang;
    let choices =
        [("newest", lang.say("newest first")), ("key", lang.say("key")), ("id", lang.say("message id"))];
    html! {
        form.row method="get" action="/messages" role="search" {
            (zone_field(who))
            (picker(lang.say("Topic"), "topic", fields.text("topic"), topics))
            label { span { (lang.say("Find by")) } select name="by" {
                @for (name, text) in choices { option value=(name) selected[by == name] { (text) } }
            } }
            (field(lang.say("Key or id"), "value", fields.text("value")))
            (time_field(who, lang.say("From"), "begin", fields.text("begin")))
            (time_field(who, lang.say("Until"), "end", fields.text("end")))
            button.primary { (lang.say("Find")) }
        }
    }
}

/// A link that begins or ends to follow a topic.
fn follow(lang: Lang, fields: &Fields, is_following: bool) -> Markup {
    let fields = Fields::parse(&fields.without(&["end", "skip"])[1..]);
    html! {
        div.actions {
            @if is_following {
                (status(Level::Ok, lang.say("following")))
                a.button href=(format!("/messages{}", fields.without(&["follow"]))) { (lang.say("Stop following")) }
            } @else {
                a.button href=(format!("/messages{}", fields.with("follow", "1"))) { (lang.say("Follow new messages")) }
            }
        }
    }
}

/// The messages of a page.
fn table(who: &Visitor, messages: &[MessageView]) -> Table {
    let lang = who.lang;
    let columns = Column::all(lang, ["Stored", "Message id", "Keys", "Tags", "Queue", "#Offset", "Body"]);
    Table::new(columns).rows(messages.iter().map(|message| {
        vec![
            local(who, message.times.1),
            link(message),
            html! { (message.keys.as_deref().unwrap_or_default()) },
            html! { (message.tags.as_deref().unwrap_or_default()) },
            html! { (message.broker) " / " (message.queue) },
            html! { (number(message.queue_offset)) },
            html! { (body::brief(message)) },
        ]
    }))
}

/// A link to the page of a message. Several copies may have one id of the producer, so the link has the broker's own
/// id.
pub(super) fn link(message: &MessageView) -> Markup {
    let place = query([("topic", message.topic.as_str()), ("id", message.offset_id.as_str())]);
    html! { a href=(format!("/message{place}")) { (message.message_id) } }
}

/// Links to the newest and to older messages.
pub(super) fn pages(lang: Lang, fields: &Fields, next: Option<(i64, usize)>) -> Markup {
    let path = if fields.get("group").is_some() { "/dlq" } else { "/messages" };
    html! {
        nav.pages aria-label=(lang.say("Page")) {
            @if fields.get("skip").is_some() { a rel="prev" href=(format!("{path}{}", fields.without(&["end", "skip"]))) { (lang.say("Newest")) } }
            @if let Some((end, skip)) = next {
                @let older = Fields::parse(&fields.without(&["follow"])[1..]);
                @let older = Fields::parse(&older.with("end", &end.to_string())[1..]);
                a rel="next" href=(format!("{path}{}", older.with("skip", &skip.to_string()))) { (lang.say("Older")) }
            }
        }
    }
}

/// Page of a message.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, topic, id) = (who.lang, fields.text("topic"), fields.text("id"));
    let message =
        app.typed::<MessageView>(who, ("message", "get"), &[("topic", topic), ("id", id)], 0).await?;
    // Most clusters record no traces.
    let trace =
        app.typed::<Vec<TraceEvent>>(who, ("message", "trace"), &[("id", &message.message_id)], 0).await;
    let events = trace.as_deref().map(Vec::as_slice).unwrap_or_default();
    let given = [("topic", topic), ("id", message.offset_id.as_str())];
    let body = html! {
        div.actions {
            (operation_link(who, lang.say("Let a member consume it"), ("message", "consume-directly"), &given))
            (operation_link(who, lang.say("Send it again"), ("message", "resend"), &given))
        }
        (head(who, &message))
        h2 { (lang.say("Body")) } (body::shown(who, &message, fields))
        h2 { (lang.say("Who consumed it")) }
        @if let Some(why) = &message.tracks_error { p.failure role="alert" { "✗ " (why) } }
        (consumption(who, &message, events))
        h2 { (lang.say("Trace")) }
        @match &trace {
            Ok(_) => (traced(who, events)),
            Err(refusal) => p.small { (refusal.text) },
        }
        h2 { (lang.say("Properties")) } (properties(lang, &message))
        h2 { (lang.say("Place")) } (place(lang, &message))
    };
    let data = json!({"message": *message, "trace": trace.ok().map(|events| json!(*events))});
    Ok(Page::new(format!("{}{}{}", lang.say("Message"), lang.colon(), message.message_id), data, body))
}

fn head(who: &Visitor, message: &MessageView) -> Markup {
    let lang = who.lang;
    let (born, stored) = message.times;
    let due = message.properties.get(key::TIMER_OUT_MS).and_then(|text| text.parse().ok());
    let none = || "–".to_owned();
    // A message that was found by its broker's id has no name of a broker set.
    let broker = if message.broker.is_empty() { &message.store_host } else { &message.broker };
    html! {
        div.cards {
            (card(lang.say("Topic"), topic_link(&message.topic), format!("{broker} / {}", message.queue)))
            (card(lang.say("Stored"), ago(lang, stored), local(who, stored)))
            (card(lang.say("Sent"), html! { (number(stored.saturating_sub(born))) " ms" }, html! { (lang.say("before it was stored")) " · " (message.born_host) }))
            (card(lang.say("Retries"), message.reconsume_times, ""))
            @if let Some(due) = due { (card(lang.say("Due"), ago(lang, due), local(who, due))) }
        }
        dl {
            dt { (lang.say("message id")) } dd { code { (message.message_id) } }
            dt { (lang.say("keys")) } dd { (message.keys.clone().unwrap_or_else(none)) }
            dt { (lang.say("tags")) } dd { (message.tags.clone().unwrap_or_else(none)) }
        }
    }
}

/// Groups that consume the topic, in words, from their offsets and from traces.
fn consumption(who: &Visitor, message: &MessageView, events: &[TraceEvent]) -> Markup {
    let lang = who.lang;
    let calls = |group: &str| events.iter().rfind(|event| event.kind == "Sub" && event.group == group);
    let columns =
        Column::all(lang, ["Group", "State", "When", "Client", "#Call of the listener", "#Retries"]);
    let traced = |event: Option<&TraceEvent>| {
        let cost =
            event.and_then(|event| event.cost_ms).map_or_else(|| "–".to_owned(), |ms| format!("{ms} ms"));
        let (when, client, retries) = match event {
            Some(event) => (local(who, event.time_ms), event.client_host.clone(), event.retries.to_string()),
            None => (html! { "–" }, "–".to_owned(), "–".to_owned()),
        };
        [when, html! { (client) }, html! { (cost) }, html! { (retries) }]
    };
    let of_tracks = message.tracks.iter().map(|track| {
        let event = calls(&track.group);
        let cells = [group_link(&track.group), outcome(lang, track, event)];
        cells.into_iter().chain(traced(event)).collect()
    });
    // A group that is gone, or has another topic now, is known from its trace alone.
    let mut others: Vec<&str> =
        events.iter().filter(|event| event.kind == "Sub").map(|event| event.group.as_str()).collect();
    others.sort_unstable();
    others.dedup();
    let of_traces =
        others.into_iter().filter(|group| message.tracks.iter().all(|track| track.group != *group));
    let of_traces = of_traces.map(|group| {
        let event = calls(group);
        let cells = [group_link(group), html! { @if let Some(event) = event { (called(lang, event)) } }];
        cells.into_iter().chain(traced(event)).collect()
    });
    let advice = lang.say("No group consumes the topic of this message");
    Table::new(columns).rows(of_tracks.chain(of_traces)).or(empty(lang, advice))
}

/// State of a traced call of a listener.
fn called(lang: Lang, event: &TraceEvent) -> Markup {
    match event.status.as_str() {
        "success" => status(Level::Ok, lang.say("consumed")),
        "failed" => status(Level::Critical, lang.say("the listener failed")),
        _ => status(Level::Warning, lang.say("given to the listener, which has not returned")),
    }
}

/// Consumption of a message by a group, in words. A trace of a listener says more than the group's offset.
fn outcome(lang: Lang, track: &Track, event: Option<&TraceEvent>) -> Markup {
    let is_offline = track.kind == "NOT_ONLINE";
    let word = match (event, track.kind, track.passed) {
        (Some(event), ..) => called(lang, event),
        (None, "CONSUMED_BUT_FILTERED", _) => {
            status(Level::Unknown, lang.say("left out by the group's filter"))
        }
        (None, "CONSUME_BROADCASTING", _) => {
            status(Level::Unknown, lang.say("broadcast: each member keeps its own offset"))
        }
        (None, _, Some(true)) => status(Level::Ok, lang.say("consumed")),
        (None, _, Some(false)) => status(Level::Warning, lang.say("not consumed yet")),
        (None, "PULL", None) => {
            status(Level::Unknown, lang.say("pulled by an application that keeps its own offset"))
        }
        (None, _, None) => status(Level::Unknown, lang.say("unknown: the group has no offset in the queue")),
    };
    html! {
        (word)
        @if is_offline { " " span.small { (lang.say("the group is offline now")) } }
        @if event.is_none() && track.passed.is_none() && !track.reason.is_empty() && !is_offline { " " span.small { (track.reason) } }
    }
}

/// The events of a trace with a bar for how long each took.
fn traced(who: &Visitor, events: &[TraceEvent]) -> Markup {
    let lang = who.lang;
    let longest = events.iter().filter_map(|event| event.cost_ms).max().unwrap_or_default().max(1);
    let columns = Column::all(lang, ["When", "Event", "Group", "Client", "State", "Took"]);
    let rows = events.iter().map(|event| {
        let kind = match event.kind {
            "Pub" => lang.say("sent"),
            "Sub" => lang.say("given to a listener"),
            _ => lang.say("end of the transaction"),
        };
        let cost = html! { @if let Some(ms) = event.cost_ms { meter min="0" max=(longest) value=(ms) aria-label=(lang.say("Took")) {} " " (ms) " ms" } };
        vec![
            local(who, event.time_ms),
            html! { (kind) },
            html! { (event.group) },
            html! { (event.client_host) },
            html! { (event.status) },
            cost,
        ]
    });
    Table::new(columns).rows(rows).or(empty(lang, lang.say("No client recorded a trace of this message")))
}

/// Properties with their names as they are stored.
fn properties(lang: Lang, message: &MessageView) -> Markup {
    let columns = Column::all(lang, ["Name", "Value"]);
    let rows =
        message.properties.iter().map(|(name, value)| vec![html! { code { (name) } }, html! { (value) }]);
    Table::new(columns).rows(rows).or(empty(lang, lang.say("The message has no properties")))
}

fn place(lang: Lang, message: &MessageView) -> Markup {
    let rows = [
        ("offset id", message.offset_id.clone()),
        ("broker", message.broker.clone()),
        ("queue", message.queue.to_string()),
        ("queue offset", message.queue_offset.to_string()),
        ("log offset", message.log_offset.to_string()),
        ("born host", message.born_host.clone()),
        ("store host", message.store_host.clone()),
        ("sys flag", message.sys_flag.to_string()),
        ("flag", message.flag.to_string()),
    ];
    html! { dl { @for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) { dt { (lang.say(name)) } dd { (value) } } } }
}

/// The whole body of a message as a file.
///
/// # Errors
/// [`Refusal`] when the visitor may not see bodies, or there is no such message.
pub(crate) async fn body_file(app: &App, who: &Visitor, fields: &Fields) -> Result<Reply, Refusal> {
    if !who.bodies {
        return Err(Refusal::forbidden(who.lang.say("Your login does not show bodies of messages")));
    }
    let given = [("topic", fields.text("topic")), ("id", fields.text("id"))];
    let message = app.typed::<MessageView>(who, ("message", "get"), &given, 0).await?;
    let name = format!("{}.bin", file_name(&message.message_id));
    Ok(Reply::File { name, kind: "application/octet-stream", bytes: message.bytes().to_vec() })
}

/// A text as part of the name of a file.
pub(super) fn file_name(text: &str) -> String {
    let kept =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
    let name: String = text.chars().take(100).map(kept).collect();
    if name.is_empty() { now_ms().to_string() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(kind: &'static str, passed: Option<bool>) -> Track {
        Track { group: "G".to_owned(), kind, reason: "CODE:206 DESC:x".to_owned(), passed }
    }

    fn event(status: &str) -> TraceEvent {
        TraceEvent {
            kind: "Sub",
            group: "G".to_owned(),
            client_host: "c:1".to_owned(),
            time: String::new(),
            time_ms: 1,
            cost_ms: Some(5),
            status: status.to_owned(),
            retries: 0,
        }
    }

    #[test]
    fn what_a_group_did_with_a_message_is_said_in_words() {
        let check = |track: Track, event: Option<TraceEvent>, expected: &str| {
            let text = outcome(Lang::En, &track, event.as_ref()).into_string();
            assert!(text.contains(expected) && !text.contains("NOT_ONLINE"), "{text}");
            text
        };
        let text = check(track("NOT_ONLINE", Some(true)), None, ">consumed</span>");
        assert!(text.contains("the group is offline now") && !text.contains("CODE:206"), "{text}");
        check(track("NOT_ONLINE", None), Some(event("success")), ">consumed</span>");
        check(track("NOT_ONLINE", Some(false)), None, "not consumed yet");
        check(track("CONSUMED", Some(true)), Some(event("failed")), "the listener failed");
        check(track("CONSUMED_BUT_FILTERED", Some(true)), None, "left out by the group's filter");
        check(track("UNKNOWN", None), None, "CODE:206 DESC:x");
        let text = check(track("UNKNOWN", Some(true)), None, ">consumed</span>");
        assert!(!text.contains("CODE:206"), "the state is known by the offset: {text}");
    }

    #[test]
    fn a_timed_message_tells_when_it_is_due() {
        let who = Visitor::of_test(crate::users::Role::Viewer);
        let mut message = MessageView::default();
        assert!(!head(&who, &message).into_string().contains("Due"));
        message.properties.insert(key::TIMER_OUT_MS.to_owned(), "1769860800000".to_owned());
        message.times = (i64::MIN, 1);
        let text = head(&who, &message).into_string();
        assert!(text.contains(">Due<") && text.contains("2026-01-31 12:00:00"), "{text}");
    }

    #[test]
    fn files_have_harmless_names() {
        assert_eq!(file_name("a/../b\"\r\n中"), "a____b____");
    }
}
