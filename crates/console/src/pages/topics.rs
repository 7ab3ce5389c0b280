//! Topics: a list that is searched and paged here, and one topic with all that belongs to it.

use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Page, answer, columns_table, field, operation_link, table, taken};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Rows of a page of a list.
pub(super) const PAGE: usize = 50;
/// Time for which a list of names is not asked for again, ms.
pub(super) const NAMES_MS: i64 = 5000;

/// Kinds of topics, which their names tell (`TopicService` of RocketMQ's dashboard).
const KINDS: [&str; 4] = ["normal", "retry", "dead letter", "system"];

fn kind(topic: &str) -> &'static str {
    let lower = topic.to_ascii_lowercase();
    let is_system = ["rmq_sys_", "schedule_topic", "tbw102", "self_test", "offset_moved", "benchmark_test"];
    match topic {
        _ if topic.starts_with("%RETRY%") => "retry",
        _ if topic.starts_with("%DLQ%") => "dead letter",
        _ if is_system.iter().any(|begin| lower.starts_with(begin)) => "system",
        _ => "normal",
    }
}

/// The part of a list that is on a page of it.
pub(super) struct Part {
    pub rows: Vec<Value>,
    pub found: usize,
    page: usize,
}

/// Finds rows whose name contains a text, and takes a page of them.
pub(super) fn part(all: &[Value], name: &str, fields: &Fields, is_wanted: impl Fn(&str) -> bool) -> Part {
    let wanted = fields.text("q").to_lowercase();
    let is_found = |row: &&Value| {
        let name = row[name].as_str().unwrap_or_default();
        is_wanted(name) && (wanted.is_empty() || name.to_lowercase().contains(&wanted))
    };
    let found = all.iter().filter(is_found).count();
    let page = fields.page().min(found.div_ceil(PAGE).max(1));
    let rows = all.iter().filter(is_found).skip((page - 1) * PAGE).take(PAGE).cloned().collect();
    Part { rows, found, page }
}

impl Part {
    /// How many there are, and links to the pages beside this one.
    pub fn links(&self, lang: Lang, path: &str, fields: &Fields) -> Markup {
        let link = |page: usize| format!("{path}{}", fields.with("page", &page.to_string()));
        let last = self.found.div_ceil(PAGE).max(1);
        html! {
            nav.pages aria-label=(lang.say("Page")) {
                @if self.page > 1 { a rel="prev" href=(link(self.page - 1)) { (lang.say("Previous")) } }
                span { (self.found) " " (lang.say("found")) " · " (lang.say("Page")) " " (self.page) " / " (last) }
                @if self.page < last { a rel="next" href=(link(self.page + 1)) { (lang.say("Next")) } }
            }
        }
    }
}

/// The page of topics, searched and in pages.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let all = app.look(who, ("topic", "list"), &[], NAMES_MS).await?;
    let wanted = fields.get("type").filter(|wanted| KINDS.contains(wanted));
    let mut part = part(rows(&all), "topic", fields, |name| wanted.is_none_or(|wanted| kind(name) == wanted));
    for row in &mut part.rows {
        row["type"] = kind(row["topic"].as_str().unwrap_or_default()).into();
    }
    let body = html! {
        div.actions { (operation_link(who, lang.say("Create a topic"), ("topic", "create"), &[])) }
        form.row method="get" action="/topics" role="search" {
            (field(lang.say("Search"), "q", fields.text("q")))
            label { span { (lang.say("Type")) } select name="type" {
                option value="" { (lang.say("all")) }
                @for name in KINDS { option value=(name) selected[wanted == Some(name)] { (lang.say(name)) } }
            } }
            button { (lang.say("Search")) }
        }
        (columns_table(lang, &part.rows, &["topic", "type"]))
        (part.links(lang, "/topics", fields))
    };
    let data = json!({"found": part.found, "topics": part.rows});
    Ok(Page::new(lang.say("Topics"), data, body))
}

/// One topic: queues, route, groups with their lag.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("topic", name)];
    let route = app.look(who, ("topic", "route"), &given, 1000).await?;
    let status = app.look(who, ("topic", "status"), &given, 1000).await;
    let rates = app.look(who, ("topic", "rates"), &given, 1000).await;
    let cluster = rows(&route).first().and_then(|row| row["cluster"].as_str()).unwrap_or_default();
    let count = |name: &str| rows(&route).first().map_or(String::new(), |row| row[name].to_string());
    let (read, write) = (count("read_queues"), count("write_queues"));
    let changed = [
        ("topic", name),
        ("cluster", cluster),
        ("read-queues", read.as_str()),
        ("write-queues", write.as_str()),
    ];
    let shown = |value: &Result<Value, Refusal>| match value {
        Ok(Value::Object(members)) if members.contains_key("queues") => html! {
            p { (lang.column("put_tps")) ": " (crate::view::cell_text(&members["put_tps"])) }
            (heat(lang, rows(&members["queues"])))
        },
        Ok(value) => answer(lang, value),
        Err(refusal) => html! { p.failure { "✗ " (refusal.text) } },
    };
    let body = html! {
        (taken(lang))
        div.actions {
            a.button href=(format!("/messages{}", query([("topic", name), ("by", "time")]))) { (lang.say("Show messages")) }
            (operation_link(who, lang.say("Send a message"), ("message", "send"), &given))
            (operation_link(who, lang.say("Change the topic"), ("topic", "create"), &changed))
            (operation_link(who, lang.say("Permission"), ("topic", "perm"), &changed[..2]))
            (operation_link(who, lang.say("Delete the topic"), ("topic", "delete"), &changed[..2]))
        }
        h2 { (lang.say("Consumers")) } (shown(&rates))
        h2 { (lang.say("Queues")) } (shown(&status))
        h2 { (lang.say("Route")) } (table(lang, rows(&route)))
    };
    let data = json!({"route": route, "status": status.ok(), "rates": rates.ok()});
    Ok(Page::new(format!("{}: {name}", lang.say("Topic")), data, body))
}

/// The queues with a bar each for how many messages it holds, beside the number.
fn heat(lang: Lang, queues: &[Value]) -> Markup {
    let held = |row: &Value| {
        row["max_offset"].as_i64().unwrap_or_default() - row["min_offset"].as_i64().unwrap_or_default()
    };
    let most = queues.iter().map(held).max().unwrap_or_default().max(1);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(lang.say("Queues")) {
            table {
                thead { tr {
                    @for name in ["broker", "queue", "min_offset", "max_offset", "last_updated"] { th.number[name.contains("offset") || name == "queue"] scope="col" { (lang.column(name)) } }
                    th.number scope="col" { (lang.say("Messages")) }
                } }
                tbody { @for row in queues { tr {
                    @for name in ["broker", "queue", "min_offset", "max_offset", "last_updated"] {
                        td.number[row[name].is_number()] { (crate::view::cell_text(&row[name])) }
                    }
                    td.number { meter min="0" max=(most) value=(held(row)) {} " " (held(row)) }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_searched_and_paged() {
        let all: Vec<Value> = (0..120).map(|number| json!({"topic": format!("Order{number:03}")})).collect();
        let page = |text: &str| part(&all, "topic", &Fields::parse(text), |name| kind(name) == "normal");
        let third = page("page=3");
        assert_eq!((third.found, third.rows.len(), &third.rows[0]["topic"]), (120, 20, &json!("Order100")));
        assert_eq!(page("q=order11").found, 10);
        assert_eq!(page("page=99").rows.len(), 20, "the last page");
        assert_eq!(page("q=absent").rows.len(), 0);
        let kinds = ["%RETRY%g", "%DLQ%g", "RMQ_SYS_TRACE_TOPIC", "Orders"].map(kind);
        assert_eq!(kinds, ["retry", "dead letter", "system", "normal"]);
    }
}
