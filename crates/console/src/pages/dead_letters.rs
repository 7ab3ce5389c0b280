//! Dead letters of a group: what it gave up, and giving it some of them once more.

use super::messages::{LIMIT, time_of};
use super::runtime::shown_failures;
use crate::answers::rows;
use crate::app::{App, Visitor, arguments, find};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Page, cell_text, columns_table, field, table, token};
use maud::html;
use serde_json::{Value, json};
use wire::names::DLQ_PREFIX;

/// Names of the checkboxes begin so; broker, queue and offset follow.
const CHOSEN: &str = "chosen ";

/// What a group gave up.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, group) = (who.lang, fields.text("group"));
    let begin = time_of(fields.text("begin"));
    let given = [("group", group), ("begin", &*begin), ("limit", LIMIT)];
    let found = match group {
        "" => None,
        _ => Some(app.look_partly(who, ("dlq", "list"), &given).await),
    };
    // How many there are on each queue, which grows when more are given up.
    let dead_topic = format!("{DLQ_PREFIX}{group}");
    let status = match group {
        "" => None,
        _ => app.look(who, ("topic", "status"), &[("topic", &dead_topic)], 1000).await.ok(),
    };
    let may_resend = who.may(find("dlq", "resend")?);
    let body = html! {
        form.row method="get" action="/dlq" role="search" {
            (field(lang.say("Group"), "group", group))
            label { span { (lang.say("From (UTC)")) } input type="datetime-local" name="begin" value=(fields.text("begin")); }
            button { (lang.say("Find")) }
        }
        @if let Some(status) = &status {
            (columns_table(lang, rows(&status["queues"]), &["broker", "queue", "min_offset", "max_offset", "last_updated"]))
        }
        @if let Some(Ok((_, failures))) = &found { (shown_failures(failures)) }
        @match &found {
            None => {},
            Some(Err(refusal)) => p { (refusal.text) },
            Some(Ok((found, _))) if rows(found).is_empty() => p { (lang.say("Nothing to show")) },
            Some(Ok((found, _))) => form method="post" action="/dlq" {
                (token(who))
                input type="hidden" name="group" value=(group);
                ul.cards { @for row in rows(found) {
                    @let text = |name: &str| cell_text(&row[name]);
                    @let place = format!("{CHOSEN}{} {} {}", text("broker"), text("queue"), text("queue_offset"));
                    li {
                        @if may_resend { label.check { input type="checkbox" name=(place) value="1"; span { (lang.say("Resend")) " " (text("message_id")) } } }
                        a href=(format!("/message{}", query([("topic", &*dead_topic), ("id", &*text("offset_id"))]))) { (text("message_id")) }
                        " · " (cell_text(&row["properties"]["RETRY_TOPIC"])) " · " (text("keys")) " · " (text("store_time"))
                        pre tabindex="0" { (text("body")) }
                    }
                } }
                @if may_resend { div.actions { button { (lang.say("Resend what is chosen")) } } }
                p.small { (lang.say("At most 50 messages are shown")) }
            },
        }
    };
    let (found, failures) = found.and_then(Result::ok).unzip();
    let data = json!({"found": found, "status": status, "failures": failures});
    Ok(Page::new(lang.say("Dead letters"), data, body))
}

/// Gives the group the chosen messages once more. Each is noted, and a failure does not keep the others.
pub(super) async fn resend(app: &App, who: &Visitor, form: &Fields) -> Result<Page, Refusal> {
    let (lang, group, operation) = (who.lang, form.text("group"), find("dlq", "resend")?);
    if !who.may(operation) {
        return Err(Refusal::forbidden(lang.say("Your role does not allow this")));
    }
    let mut outcomes = Vec::new();
    for place in form.names().filter_map(|name| name.strip_prefix(CHOSEN)) {
        let parts: Vec<&str> = place.rsplitn(3, ' ').collect();
        let [offset, queue, broker] = parts[..] else {
            return Err(Refusal::wrong(format!("expected broker, queue and offset, found {place}")));
        };
        let given = [("group", group), ("broker", broker), ("queue", queue), ("offset", offset)];
        let action = format!("dlq resend group={group} broker={broker} queue={queue} offset={offset}");
        app.note(who, &action, "begun")?;
        let outcome = app.perform(who, operation, &arguments(operation, given), false).await;
        let text = match &outcome {
            Ok(done) => format!("done: {}", cell_text(&done.answer["message_id"])),
            Err(refusal) => format!("failed: {}", refusal.text),
        };
        app.note(who, &action, &text)?;
        outcomes.push(json!({"broker": broker, "queue": queue, "offset": offset, "outcome": text}));
    }
    let body = html! {
        @if outcomes.is_empty() { p { (lang.say("Nothing was chosen")) } } @else { (table(lang, &outcomes)) }
        p { a href=(format!("/dlq{}", query([("group", group)]))) { (lang.say("Dead letters")) } }
    };
    Ok(Page::new(lang.say("Dead letters"), Value::from(outcomes), body))
}
