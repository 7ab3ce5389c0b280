//! Dead letters: the groups that have some, the letters of a group, and giving the group some of them once more.

use super::Reply;
use super::body;
use super::forms::{Choices, in_utc, picker, time_field, zone_field};
use super::messages::{PAGE, file_name, link, local, pages};
use super::runtime::{shown_failures, silent};
use crate::app::{App, Visitor, arguments, find};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Column, Page, Table, ago, cell_text, empty, number, status, token, topic_link};
use crate::words::Lang;
use admin::{DeadLetterGroup, GroupSetting, Level, MessageView, Newest};
use maud::{Markup, html};
use serde_json::{Value, json};
use wire::names::DLQ_PREFIX;
use wire::properties::key;

/// Names of the checkboxes begin so; broker, queue and offset follow.
const CHOSEN: &str = "chosen ";
/// Most dead letters in an exported file.
const EXPORT: &str = "10000";
/// Time for which the settings of a group are not asked for again, ms.
const SETTINGS_MS: i64 = 5000;
/// Time for which the groups are not asked for again, ms.
const GROUPS_MS: i64 = 2000;

/// The groups with dead letters, or the letters of a group.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, group) = (who.lang, fields.text("group"));
    if group.is_empty() {
        return groups(app, who).await;
    }
    let given = in_utc(who, fields);
    let topic = format!("{DLQ_PREFIX}{group}");
    let range = ["begin", "end", "skip"].map(|name| (name, given.text(name)));
    let asked = [("topic", topic.as_str()), range[0], range[1], range[2], ("limit", PAGE)];
    let found = match app.typed::<Newest>(who, ("message", "newest"), &asked, 0).await {
        Ok(found) => Some(found),
        // A group has no such topic before its first dead letter.
        Err(refusal) if refusal.status == http::StatusCode::NOT_FOUND => None,
        Err(refusal) => return Err(refusal),
    };
    let letters = found.as_ref().map(|found| found.messages.as_slice()).unwrap_or_default();
    let may_resend = who.may(find("dlq", "resend")?);
    let settings =
        app.typed::<Vec<GroupSetting>>(who, ("group", "config"), &[("group", group)], SETTINGS_MS).await;
    let retry_max = settings.iter().flat_map(|rows| rows.iter()).find(|row| row.key == "retryMaxTimes");
    let retry_max = retry_max.and_then(|row| row.value.as_i64());
    let body = html! {
        form.row method="get" action="/dlq" role="search" {
            (zone_field(who))
            (picker(lang.say("Group"), "group", group, &Choices::groups(app, who).await))
            (time_field(who, lang.say("From"), "begin", fields.text("begin")))
            (time_field(who, lang.say("Until"), "end", fields.text("end")))
            button.primary { (lang.say("Find")) }
        }
        div.actions {
            a href="/dlq" { (lang.say("All groups with dead letters")) }
            @if !letters.is_empty() { a.button href=(format!("/dlq/export{}", query([("group", group)]))) download { (lang.say("Export as JSON lines")) } }
        }
        @if let Some(found) = &found { (shown_failures(&found.failures)) }
        @if letters.is_empty() { (empty(lang, lang.say("The group has no dead letters in this time"))) }
        @else {
            form method="post" action="/dlq" {
                (token(who))
                input type="hidden" name="group" value=(group);
                @if may_resend { (choose(lang, fields)) }
                (table(who, letters, (may_resend, fields.get("chosen") == Some("all")), retry_max))
                @if may_resend { div.actions { button.primary { (lang.say("Resend what is chosen")) } } }
            }
        }
        (pages(lang, fields, found.as_ref().and_then(|found| found.next)))
    };
    let data = found.map_or(Value::Null, |found| json!(*found));
    Ok(Page::new(format!("{}{}{group}", lang.say("Dead letters"), lang.colon()), data, body))
}

/// All groups with dead letters, with counts and ages.
async fn groups(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let groups = app.typed::<Vec<DeadLetterGroup>>(who, ("dlq", "groups"), &[], GROUPS_MS).await?;
    let columns = Column::all(lang, ["Group", "#Dead letters", "Last given up", "First given up"]);
    let rows = groups.iter().map(|row| {
        let (oldest, newest) = row.times_ms;
        vec![
            html! { a href=(format!("/dlq{}", query([("group", row.group.as_str())]))) { (row.group) } },
            html! { (number(row.messages)) },
            ago(lang, newest),
            ago(lang, oldest),
        ]
    });
    let advice = lang.say("No group gave a message up: a message comes here when its listener has failed as often as the group allows");
    let failures = silent(app);
    let body = html! {
        (shown_failures(&failures))
        (Table::new(columns).rows(rows).or(empty(lang, advice)))
        form.row method="get" action="/dlq" role="search" {
            (picker(lang.say("Group"), "group", "", &Choices::groups(app, who).await))
            button { (lang.say("Find")) }
        }
    };
    Ok(Page::new(lang.say("Dead letters"), json!({"groups": *groups, "failures": failures}), body))
}

/// Chooses all letters of the page: a checkbox of `console.js`, or a link where no script runs.
fn choose(lang: Lang, fields: &Fields) -> Markup {
    html! {
        div.actions {
            label.check data-script hidden { input #all type="checkbox" data-chooses=(CHOSEN); span { (lang.say("Choose all on this page")) } }
            noscript { a.button href=(format!("/dlq{}", fields.with("chosen", "all"))) { (lang.say("Choose all on this page")) } }
            button { (lang.say("Resend what is chosen")) }
        }
    }
}

fn table(
    who: &Visitor,
    letters: &[MessageView],
    (may_resend, is_chosen): (bool, bool),
    retry_max: Option<i64>,
) -> Table {
    let lang = who.lang;
    let columns = Column::all(
        lang,
        ["Resend", "Given up", "Message id", "Original topic", "Tags", "Keys", "#Retries", "Reason", "Body"],
    );
    let columns: Vec<Column> = columns.into_iter().skip(usize::from(!may_resend)).collect();
    Table::new(columns).rows(letters.iter().map(|letter| {
        let place = format!("{CHOSEN}{} {} {}", letter.broker, letter.queue, letter.queue_offset);
        let label = format!("{} {}", lang.say("Resend"), letter.message_id);
        let topic = letter.properties.get(key::RETRY_TOPIC).or(letter.properties.get("DLQ_ORIGIN_TOPIC"));
        let cells = [
            html! { input type="checkbox" name=(place) value="1" checked[is_chosen] aria-label=(label); },
            local(who, letter.times.1),
            link(letter),
            html! { @if let Some(topic) = topic { (topic_link(topic)) } },
            html! { (letter.tags.as_deref().unwrap_or_default()) },
            html! { (letter.keys.as_deref().unwrap_or_default()) },
            html! { (letter.reconsume_times) },
            html! { (reason(lang, letter, retry_max)) },
            html! { (body::brief(letter)) },
        ];
        cells.into_iter().skip(usize::from(!may_resend)).collect::<Vec<_>>()
    }))
}

/// Why a group gave a message up, guessed from the message and the group's settings. Brokers store only the number of
/// failures.
fn reason(lang: Lang, letter: &MessageView, retry_max: Option<i64>) -> &'static str {
    match retry_max {
        Some(most) if i64::from(letter.reconsume_times) > most => {
            lang.say("failed as often as the group allows")
        }
        Some(_) => lang.say("given up by the consumer before the last retry"),
        None => "–",
    }
}

/// The dead letters of a group as a file with a line of JSON for each, the newest first. A file that is not complete ends with the
/// address of the other letters, or the reason.
///
/// # Errors
/// [`Refusal`] when the group has none, or no broker answers.
pub(crate) async fn export(app: &App, who: &Visitor, fields: &Fields) -> Result<Reply, Refusal> {
    let group = fields.text("group");
    let topic = format!("{DLQ_PREFIX}{group}");
    let range = ["begin", "end", "skip"].map(|name| (name, fields.text(name)));
    let asked = [("topic", topic.as_str()), range[0], range[1], range[2], ("limit", EXPORT)];
    let found = app.typed::<Newest>(who, ("message", "newest"), &asked, 0).await?;
    let lines = exported(group, fields.text("begin"), &found);
    let name = format!("dead-letters-{}.jsonl", file_name(group));
    Ok(Reply::File { name, kind: "application/x-ndjson", bytes: lines.into_bytes() })
}

/// The lines of a file with letters.
fn exported(group: &str, begin: &str, found: &Newest) -> String {
    let mut lines: Vec<String> = found.messages.iter().map(|letter| json!(letter).to_string()).collect();
    if let Some((end, skip)) = found.next {
        let (end, skip) = (end.to_string(), skip.to_string());
        let rest = query([("group", group), ("begin", begin), ("end", &end), ("skip", &skip)]);
        lines.push(json!({"next": format!("/dlq/export{rest}")}).to_string());
    }
    lines.extend(found.failures.iter().map(|failure| json!({"failure": failure}).to_string()));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Sends the chosen dead letters to their group again. Each one is noted in the audit log, and a failure does not
/// prevent the others.
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
        outcomes.push((format!("{broker} / {queue} / {offset}"), outcome.map(|done| done.answer)));
    }
    let done = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    let columns = Column::all(lang, ["Place", "Outcome"]);
    let rows = outcomes.iter().map(|(place, outcome)| {
        let shown = match outcome {
            Ok(answer) => {
                html! { (status(Level::Ok, lang.say("done"))) " " (cell_text(&answer["message_id"])) }
            }
            Err(refusal) => html! { (status(Level::Critical, lang.say("failed"))) " " (refusal.text) },
        };
        vec![html! { (place) }, shown]
    });
    let table = Table::new(columns).rows(rows);
    let body = html! {
        @if outcomes.is_empty() { p { (lang.say("Nothing was chosen")) } }
        @else {
            p role="status" { (number(done as i64)) " / " (number(outcomes.len() as i64)) " " (lang.say("were given to the group once more")) }
            (table)
        }
        p { a href=(format!("/dlq{}", query([("group", group)]))) { (lang.say("Dead letters")) } }
    };
    let data = outcomes.iter().map(|(place, outcome)| match outcome {
        Ok(answer) => json!({"place": place, "message_id": answer["message_id"]}),
        Err(refusal) => json!({"place": place, "error": refusal.text}),
    });
    Ok(Page::new(lang.say("Dead letters"), data.collect(), body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use maud::Render as _;

    #[test]
    fn a_file_that_is_not_complete_says_so() {
        let mut found = Newest { messages: vec![MessageView::default()], next: None, failures: Vec::new() };
        assert_eq!(exported("g", "", &found).lines().count(), 1);
        (found.next, found.failures) = (Some((17, 2)), vec!["a: silent".to_owned()]);
        let text = exported("g&", "", &found);
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[1]["next"], "/dlq/export?group=g%26&begin=&end=17&skip=2");
        assert_eq!(lines[2]["failure"], "a: silent");
    }

    #[test]
    fn letters_are_chosen_by_their_places_and_tell_why_they_are_here() {
        let letter = MessageView {
            broker: "a".to_owned(),
            queue: 1,
            queue_offset: 7,
            tags: Some("TagA".to_owned()),
            reconsume_times: 17,
            ..MessageView::default()
        };
        let why = |retry_max| reason(Lang::En, &letter, retry_max);
        assert_eq!(why(Some(16)), "failed as often as the group allows");
        assert_eq!(why(Some(20)), "given up by the consumer before the last retry");
        let who = Visitor::of_test(crate::users::Role::Operator);
        let shown =
            |choices| table(&who, std::slice::from_ref(&letter), choices, None).render().into_string();
        let all = shown((true, true));
        assert!(all.contains("name=\"chosen a 1 7\" value=\"1\" checked"), "{all}");
        assert!(all.contains("<td data-label=\"Tags\">TagA</td>"), "{all}");
        assert!(!shown((true, false)).contains("checked"));
        assert!(!shown((false, false)).contains("checkbox"), "who may not resend chooses nothing");
    }
}
