//! One member of a consumer group as it sees itself, and two of its thread dumps compared.

use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Page, answer, cell_text, operation_link, table, taken};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::time::Duration;

/// Time between two thread dumps that are compared.
const BETWEEN: Duration = Duration::from_secs(2);

/// A member of a group.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, group, id) = (who.lang, fields.text("group"), fields.text("id"));
    let wants_stacks = fields.get("stacks").is_some();
    let with_stacks = [("group", group), ("client", id), ("stack", "true")];
    let given = if wants_stacks { &with_stacks[..] } else { &with_stacks[..2] };
    let first = app.look(who, ("client", "status"), given, 0).await?;
    let mut threads = None;
    if wants_stacks {
        tokio::time::sleep(BETWEEN).await;
        let second = app.look(who, ("client", "status"), given, 0).await?;
        threads = Some(compare(&cell_text(&first["stack"]), &cell_text(&second["stack"])));
    }
    let queues: Vec<Value> = rows(&first["queues"]).iter().map(with_times).collect();
    let page = format!("/client{}", query([("group", group), ("id", id), ("stacks", "true")]));
    let body = html! {
        (taken(lang))
        div.actions {
            a.button href=(page) { (lang.say("Compare two thread dumps")) }
            (operation_link(who, lang.say("Let it consume a message"), ("message", "consume-directly"), &with_stacks[..2]))
        }
        @if let Some(threads) = &threads { h2 { (lang.say("Threads")) } (shown(lang, threads)) }
        h2 { (lang.say("Queues")) } (table(lang, &queues))
        h2 { (lang.say("Rates")) } (table(lang, rows(&first["rates"])))
        h2 { (lang.say("Subscriptions")) } (table(lang, rows(&first["subscriptions"])))
        h2 { (lang.say("Settings")) } (answer(lang, &first["properties"]))
    };
    let threads: Option<Vec<Value>> = threads.map(|threads| {
        let rows = threads.iter().map(|it| json!({"thread": it.name, "same": it.is_same, "stack": it.stack}));
        rows.collect()
    });
    let data = json!({"running": first, "threads": threads});
    let page = Page::new(format!("{}: {id}", lang.say("Client")), data, body);
    // Two thread dumps that are being read stay.
    Ok(if wants_stacks { page } else { page.live(5000) })
}

/// A queue of a member with times in the place of ms since the epoch, as in `lastPullTimestamp` (`ProcessQueueInfo`).
fn with_times(queue: &Value) -> Value {
    let mut shown = queue.clone();
    for (name, value) in shown.as_object_mut().into_iter().flatten() {
        if let Some(ms) = value.as_i64().filter(|_| name.ends_with("Timestamp")) {
            *value = admin::time(ms).into();
        }
    }
    shown
}

/// A thread of the second of two dumps.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    /// Name and state.
    name: String,
    stack: String,
    /// Whether the thread stood at the same place in the first dump.
    is_same: bool,
}

/// The threads of the second dump, those at the same place as in the first before the others.
fn compare(first: &str, second: &str) -> Vec<Thread> {
    let before = admin::threads(first);
    let threads = admin::threads(second).into_iter().map(|paragraph| {
        let (name, stack) = paragraph.split_once('\n').unwrap_or((&paragraph, ""));
        let is_same = before.contains(&paragraph);
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        // Each line begins with the name of the thread once more.
        let lines = stack.lines().filter_map(|line| line.split_whitespace().last());
        Thread { name, stack: lines.collect::<Vec<_>>().join("\n"), is_same }
    });
    let mut threads: Vec<Thread> = threads.collect();
    threads.sort_by_key(|thread| !thread.is_same);
    threads
}

fn shown(lang: Lang, threads: &[Thread]) -> Markup {
    let same = threads.iter().filter(|thread| thread.is_same).count();
    html! {
        @if threads.is_empty() { p { (lang.say("The client makes no thread dumps")) } }
        @else {
            p { (same) " / " (threads.len()) " " (lang.say("threads stand where they stood 2 s before")) }
            @for thread in threads {
                details {
                    summary { (if thread.is_same { "= " } else { "≠ " }) (thread.name) }
                    pre tabindex="0" { (thread.stack) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_queues_are_readable() {
        let queue =
            json!({"queue": 3, "cachedMsgCount": 1000, "lastPullTimestamp": 1000, "lastLockTimestamp": 0});
        let expected = json!({"queue": 3, "cachedMsgCount": 1000, "lastPullTimestamp": "1970-01-01T00:00:01.000Z", "lastLockTimestamp": ""});
        assert_eq!(with_times(&queue), expected);
    }

    #[test]
    fn threads_that_do_not_move_come_first() {
        let first = "a  TID: 1 STATE: RUNNABLE\na  x.Y.z(Y.java:1)\n\nb   TID: 2 STATE: WAITING\nb  p.Q.r(Q.java:2)\n\n";
        let second = "a  TID: 1 STATE: RUNNABLE\na  x.Y.w(Y.java:9)\n\nb   TID: 2 STATE: WAITING\nb  p.Q.r(Q.java:2)\n\n";
        let threads = compare(first, second);
        assert_eq!(
            threads[0],
            Thread {
                name: "b TID: 2 STATE: WAITING".to_owned(),
                stack: "p.Q.r(Q.java:2)".to_owned(),
                is_same: true
            }
        );
        assert!(!threads[1].is_same && threads[1].stack == "x.Y.w(Y.java:9)");
        assert!(compare("", "").is_empty());
    }
}
