//! Page of a member of a consumer group: the state that the member reports, and two of its thread dumps compared.

use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{
    Column, Page, Table, ago, cell_text, decimal, empty, group_link, number, operation_link, status, taken,
    topic_link,
};
use crate::words::Lang;
use admin::Level;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::time::Duration;

/// Time between two thread dumps that are compared.
const BETWEEN: Duration = Duration::from_secs(2);
/// Part of a frame between a listener and the client (`ConsumeMessageConcurrentlyService`, `ConsumeMessageOrderlyService`,
/// `ConsumeMessagePopConcurrentlyService`).
const CALLER: &str = "ConsumeRequest.run";
/// Parts of frames in which a thread waits for work.
const IDLE: [&str; 9] = [
    "Unsafe.park",
    "Object.wait",
    "Thread.sleep",
    "EPoll.wait",
    "epollWait",
    "Native.epoll",
    "KQueue.poll",
    "Net.accept",
    "getTask",
];

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
    let page = format!("/client{}", query([("group", group), ("id", id), ("stacks", "true")]));
    let subscriptions = rows(&first["subscriptions"]).iter().map(|row| {
        vec![topic_link(&cell_text(&row["topic"])), html! { code { (cell_text(&row["expression"])) } }]
    });
    let subscribed = Table::new(Column::all(lang, ["Topic", "Expression"]));
    let body = html! {
        @if wants_stacks { (taken(who)) }
        p { (lang.say("Group")) (lang.colon()) (group_link(group)) }
        div.actions {
            a.button href=(page) { (lang.say("Compare two thread dumps")) }
            (operation_link(who, lang.say("Let it consume a message"), ("message", "consume-directly"), &with_stacks[..2]))
        }
        @if let Some(threads) = &threads { h2 { (lang.say("Threads")) } (shown(lang, threads)) }
        h2 { (lang.say("Where the time goes")) } (times(lang, rows(&first["rates"])))
        h2 { (lang.say("Queues")) } (queues(lang, rows(&first["queues"])))
        h2 { (lang.say("Subscriptions")) } (subscribed.rows(subscriptions))
        h2 { (lang.say("Settings")) } (settings(lang, &first["properties"]))
    };
    let threads: Option<Vec<Value>> = threads.map(|threads| {
        let rows = threads.iter().map(
            |it| json!({"thread": it.name, "same": it.is_same, "work": it.work.name(), "stack": it.stack}),
        );
        rows.collect()
    });
    let data = json!({"running": first, "threads": threads});
    let page = Page::new(format!("{}{}{id}", lang.say("Client"), lang.colon()), data, body);
    // Two thread dumps that are being read stay.
    Ok(if wants_stacks { page } else { page.live(5000) })
}

/// Times and rates of each topic (`ConsumeStatus`).
fn times(lang: Lang, rates: &[Value]) -> Markup {
    let columns = Column::all(
        lang,
        [
            "Topic",
            "#Call of the listener",
            "#Pull",
            "#Pulled per second",
            "#Consumed per second",
            "#Failed per second",
            "#Failed in the last hour",
        ],
    );
    let figure = |value: &Value, unit: &str| match value.as_f64() {
        Some(figure) => format!("{}{unit}", decimal(figure)),
        None => "–".to_owned(),
    };
    let rows = rates.iter().map(|row| {
        vec![
            topic_link(&cell_text(&row["topic"])),
            html! { (figure(&row["consumeRT"], " ms")) },
            html! { (figure(&row["pullRT"], " ms")) },
            html! { (figure(&row["pullTPS"], "")) },
            html! { (figure(&row["consumeOKTPS"], "")) },
            html! { (figure(&row["consumeFailedTPS"], "")) },
            html! { (row["consumeFailedMsgs"].as_i64().map_or_else(|| "–".to_owned(), number)) },
        ]
    });
    Table::new(columns).rows(rows).or(empty(lang, lang.say("The client tells no times")))
}

/// Queues that the member has (`ProcessQueueInfo`, `PopProcessQueueInfo`).
fn queues(lang: Lang, queues: &[Value]) -> Markup {
    let columns = Column::all(
        lang,
        [
            "Topic",
            "Queue",
            "#Held by the owner",
            "#Not acknowledged",
            "#Offset",
            "State",
            "Last pull, last call of the listener",
        ],
    );
    let rows = queues.iter().map(|row| {
        let count = |name: &str| html! { (row[name].as_i64().map_or_else(|| "–".to_owned(), number)) };
        let time = |names: [&str; 2]| {
            let known = names.iter().find_map(|name| row[*name].as_i64().filter(|ms| *ms > 0));
            known.map_or_else(|| html! { "–" }, |ms| ago(lang, ms))
        };
        let state = html! {
            @if row["droped"] == Value::Bool(true) { (status(Level::Warning, lang.say("given up"))) " " }
            @if row["locked"] == Value::Bool(true) { (status(Level::Ok, lang.say("locked"))) }
        };
        vec![
            topic_link(&cell_text(&row["topic"])),
            html! { (cell_text(&row["broker"])) " / " (cell_text(&row["queue"])) },
            count("cachedMsgCount"),
            count("waitAckCount"),
            count("commitOffset"),
            state,
            html! { (time(["lastPullTimestamp", "lastPopTimestamp"])) ", " (time(["lastConsumeTimestamp", ""])) },
        ]
    });
    Table::new(columns).rows(rows).or(empty(lang, lang.say("The member has no queues")))
}

/// Settings with the names that the client gives them.
fn settings(lang: Lang, properties: &Value) -> Markup {
    let columns = Column::all(lang, ["Name", "Value"]);
    let rows = properties.as_object().into_iter().flatten();
    let rows = rows.map(|(name, value)| vec![html! { code { (name) } }, html! { (cell_text(value)) }]);
    Table::new(columns).rows(rows).or(empty(lang, lang.say("The client tells no settings")))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// The thread runs a listener.
    Listener,
    /// The thread runs something else.
    Other,
    /// The thread waits for work.
    Idle,
}

impl Work {
    /// The work that a stack shows, its first frame first.
    fn of(stack: &str) -> Self {
        let frame = |line: &str| line.split('(').next().unwrap_or_default().replace('$', ".");
        let frames: Vec<String> = stack.lines().map(frame).collect();
        if frames.iter().any(|frame| frame.ends_with(CALLER)) {
            return Self::Listener;
        }
        let is_waiting = frames.iter().take(2).any(|frame| IDLE.iter().any(|part| frame.contains(part)));
        if is_waiting { Self::Idle } else { Self::Other }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Other => "other",
            Self::Idle => "idle",
        }
    }
}

/// A thread of the second of two dumps.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    /// Name and state.
    name: String,
    stack: String,
    /// Whether the thread stood at the same place in the first dump.
    is_same: bool,
    work: Work,
}

/// The threads of the second dump: in listeners, then others, then idle threads. In each part, threads at the same
/// place as in the first dump come first.
fn compare(first: &str, second: &str) -> Vec<Thread> {
    let before = admin::threads(first);
    let threads = admin::threads(second).into_iter().map(|paragraph| {
        let (name, stack) = paragraph.split_once('\n').unwrap_or((&paragraph, ""));
        let is_same = before.contains(&paragraph);
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        // Each line begins with the name of the thread once more.
        let lines = stack.lines().filter_map(|line| line.split_whitespace().last());
        let stack = lines.collect::<Vec<_>>().join("\n");
        Thread { name, work: Work::of(&stack), stack, is_same }
    });
    let mut threads: Vec<Thread> = threads.collect();
    threads.sort_by_key(|thread| (thread.work, !thread.is_same));
    threads
}

fn shown(lang: Lang, threads: &[Thread]) -> Markup {
    let part = |work: Work| threads.iter().filter(move |thread| thread.work == work);
    let same = |work: Work| part(work).filter(|thread| thread.is_same).count();
    let one = |thread: &Thread, is_open: bool| {
        html! {
            details open[is_open] {
                summary { (if thread.is_same { "= " } else { "≠ " }) (thread.name) }
                pre tabindex="0" { (thread.stack) }
            }
        }
    };
    let listeners = part(Work::Listener).count();
    html! {
        @if threads.is_empty() { (empty(lang, lang.say("The client makes no thread dumps"))) }
        @else {
            h3 { (lang.say("In listeners")) (lang.colon()) (listeners) }
            p.small { (same(Work::Listener)) " / " (listeners) " " (lang.say("threads stand where they stood 2 s before")) }
            @for (number, thread) in part(Work::Listener).enumerate() { (one(thread, number == 0)) }
            h3 { (lang.say("Other threads at work")) (lang.colon()) (part(Work::Other).count()) }
            @for thread in part(Work::Other) { (one(thread, false)) }
            details {
                summary { (lang.say("Idle threads")) (lang.colon()) (part(Work::Idle).count()) }
                @for thread in part(Work::Idle) { (one(thread, false)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_have_readable_times_and_settings_their_own_names() {
        let queue = json!({"topic": "T", "broker": "a", "queue": 3, "cachedMsgCount": 1000, "locked": true, "lastPullTimestamp": 1000, "lastConsumeTimestamp": 0});
        let text = queues(Lang::En, &[queue]).into_string();
        for part in ["datetime=\"1970-01-01T00:00:01.000Z\"", ">1,000<", "a / 3", "locked"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = settings(Lang::Zh, &json!({"topic": "x", "trace_id": "y"})).into_string();
        assert!(text.contains("<code>topic</code>") && text.contains("<code>trace_id</code>"), "{text}");
    }

    #[test]
    fn threads_in_listeners_come_first_and_idle_threads_last() {
        let thread = |name: &str, frames: &[&str]| {
            let lines: Vec<_> = frames.iter().map(|frame| format!("{name}  {frame}\n")).collect();
            format!("{name}  TID: 1 STATE: WAITING\n{}\n", lines.concat())
        };
        let run = "org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService$ConsumeRequest.run(C.java:1)";
        let hangs =
            thread("c1", &["java.lang.Thread.sleep(T.java:-2)", "shop.Billing.charge(B.java:42)", run]);
        let idle = thread(
            "c2",
            &["sun.misc.Unsafe.park(U.java:-2)", "java.util.concurrent.ThreadPoolExecutor.getTask(T.java:1)"],
        );
        let moves = |line: u8| thread("c3", &[&format!("shop.Billing.a(B.java:{line})"), run]);
        let other = thread("main", &["x.Y.z(Y.java:1)"]);
        let first = [&idle, &moves(1), &hangs, &other].map(String::as_str).concat();
        let second = [&idle, &moves(2), &hangs, &other].map(String::as_str).concat();
        let threads = compare(&first, &second);
        let short: Vec<_> = threads
            .iter()
            .map(|it| (it.name.split(' ').next().unwrap_or_default(), it.work, it.is_same))
            .collect();
        let expected = [
            ("c1", Work::Listener, true),
            ("c3", Work::Listener, false),
            ("main", Work::Other, true),
            ("c2", Work::Idle, true),
        ];
        assert_eq!(short, expected);
        let text = shown(Lang::En, &threads).into_string();
        assert!(
            text.contains("In listeners: 2") && text.contains("<summary>Idle threads: 1</summary>"),
            "{text}"
        );
        assert!(compare("", "").is_empty());
    }
}
