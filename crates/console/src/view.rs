//! What all pages are made of: frame, tables of answers, forms.

use crate::app::Visitor;
use crate::refusal::Refusal;
use crate::request::query;
use crate::words::Lang;
use admin::{Health, Level};
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};
use serde_json::{Value, json};

/// Most rows of a table; the JSON beside the page has all.
const ROWS_MAX: usize = 500;

/// A page: its title, its content, and the same as data.
pub(crate) struct Page {
    pub title: String,
    pub data: Value,
    pub body: Markup,
    pub status: StatusCode,
    /// Time after which `console.js` fetches the page again and refreshes its content in place, ms.
    live_ms: Option<u32>,
}

impl Page {
    /// A page.
    pub fn new(title: impl Into<String>, data: Value, body: Markup) -> Self {
        Self { title: title.into(), data, body, status: StatusCode::OK, live_ms: None }
    }

    /// The page, refreshed in place while it is open.
    pub fn live(self, every_ms: u32) -> Self {
        Self { live_ms: Some(every_ms), ..self }
    }

    /// A page that says why a request was refused, above something with which it can be made once more.
    pub fn refused(title: impl Into<String>, refusal: &Refusal, below: Markup) -> Self {
        let body = html! { p.failure role="alert" { "✗ " (refusal.text) } (below) };
        Self {
            title: title.into(),
            data: json!({"error": refusal.text}),
            body,
            status: refusal.status,
            live_ms: None,
        }
    }
}

/// The pages in the order of the navigation.
const PAGES: [(&str, &str); 18] = [
    ("/", "Overview"),
    ("/brokers", "Brokers"),
    ("/replication", "Replication"),
    ("/proxies", "Proxies"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/clients", "Clients"),
    ("/messages", "Messages"),
    ("/dlq", "Dead letters"),
    ("/delays", "Delays"),
    ("/transactions", "Transactions"),
    ("/pops", "Pops"),
    ("/storage", "Storage"),
    ("/runs", "Lab runs"),
    ("/access", "Users and acls"),
    ("/operations", "Operations"),
    ("/audit", "Audit"),
    ("/logins", "Logins"),
];

/// A whole document.
pub(crate) fn document(
    who: &Visitor,
    (path, page_query): (&str, &str),
    page: &Page,
    health: &Health,
) -> Markup {
    let lang = who.lang;
    let level = level_name(health.level);
    let back =
        format!("{path}{}", if page_query.is_empty() { String::new() } else { format!("?{page_query}") });
    let other = match lang {
        Lang::En => ("zh", "中文"),
        Lang::Zh => ("en", "English"),
    };
    let json_path = if path == "/" { "/overview" } else { path };
    html! {
        (DOCTYPE)
        html lang=(lang.code()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (mark(health.level)) (page.title) " - Vostok" }
                link #icon rel="icon" href=(icon(health.level));
                link rel="stylesheet" href="/static/console.css";
                script src="/static/console.js" defer {}
            }
            body {
                a.skip href="#content" { (lang.say("Skip to content")) }
                header {
                    strong { "Vostok" }
                    a #health class=(format!("health {level}")) href="/" data-taken=(health.taken_at_ms) data-ago=(lang.say("s ago")) data-silent=(lang.say("The console does not answer")) {
                        (health_text(lang, health))
                    }
                    nav {
                        @for (address, name) in PAGES {
                            @let is_here = address == path;
                            a href=(address) aria-current=[is_here.then_some("page")] { (lang.say(name)) }
                        }
                    }
                    div.who {
                        span { (who.name) " · " (who.role.name()) }
                        a href=(format!("/language{}", query([("lang", other.0), ("back", &back)]))) lang=(other.0) { (other.1) }
                        @if who.has_login {
                            form method="post" action="/logout" { (token(who)) button { (lang.say("Log out")) } }
                        }
                    }
                }
                main #content data-live=[page.live_ms] {
                    h1 { (page.title) }
                    @if page.live_ms.is_some() {
                        p #age.small data-keep data-text=(lang.say("Figures are {} s old")) data-silent=(lang.say("The console does not answer")) data-login=(lang.say("Log in again")) {}
                    }
                    (page.body)
                    @if page.status.is_success() && !page.data.is_null() {
                        p.small { a href=(format!("/api/v1{json_path}{}", back.get(path.len()..).unwrap_or_default())) { (lang.say("The same as JSON")) } }
                    }
                }
            }
        }
    }
}

/// A level of health as class of the pages.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::Unknown => "unknown",
        Level::Ok => "ok",
        Level::Warning => "warning",
        Level::Critical => "critical",
    }
}

/// The sign before titles while something is wrong.
fn mark(level: Level) -> &'static str {
    match level {
        Level::Unknown | Level::Ok => "",
        Level::Warning => "⚠ ",
        Level::Critical => "✗ ",
    }
}

/// An icon in the colour of a level of health; `console.js` has the same colours.
fn icon(level: Level) -> String {
    let colour = match level {
        Level::Unknown => "808894",
        Level::Ok => "1a8f3c",
        Level::Warning => "d98200",
        Level::Critical => "c8141c",
    };
    format!(
        "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' fill='%23{colour}'/%3E%3C/svg%3E"
    )
}

/// Health in words, with the number of findings.
pub(crate) fn health_text(lang: Lang, health: &Health) -> String {
    let word = match health.level {
        Level::Unknown => lang.say("Not looked yet"),
        Level::Ok => lang.say("OK"),
        Level::Warning => lang.say("Warning"),
        Level::Critical => lang.say("Critical"),
    };
    let counts = [(health.critical, lang.say("critical")), (health.warnings, lang.say("warnings"))];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, name)| format!("{count} {name}")).collect();
    if counts.is_empty() { word.to_owned() } else { format!("{word}: {}", counts.join(", ")) }
}

/// The hidden member of forms without which nothing is changed.
pub(crate) fn token(who: &Visitor) -> Markup {
    html! { input type="hidden" name="_token" value=(who.token); }
}

/// Members of answers that say which part is missing, and why.
const MISSING: [&str; 2] = ["failures", "tracks_error"];

/// Why an answer is not complete, above what is shown all the same.
pub(crate) fn incomplete(answer: &Value) -> Markup {
    let texts = MISSING.iter().flat_map(|name| as_rows(&answer[*name])).filter_map(Value::as_str);
    html! { @for text in texts { p.failure role="alert" { "✗ " (text) } } }
}

/// An answer: what is missing of it, its single values, then its lists as tables.
pub(crate) fn answer(lang: Lang, value: &Value) -> Markup {
    let Value::Object(members) = value else { return table(lang, as_rows(value)) };
    let is_list = |value: &Value| value.as_array().is_some_and(|list| list.iter().any(Value::is_object));
    let is_single = |(name, value): &(&String, &Value)| !is_list(value) && !MISSING.contains(&name.as_str());
    html! {
        (incomplete(value))
        dl {
            @for (name, value) in members.iter().filter(is_single) {
                dt { (lang.column(name)) } dd { (cell_text(value)) }
            }
        }
        @for (name, value) in members.iter().filter(|(_, value)| is_list(value)) {
            h2 { (lang.column(name)) }
            (table(lang, as_rows(value)))
        }
    }
}

fn as_rows(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        single => std::slice::from_ref(single),
    }
}

/// Rows as a table with the columns of all of them.
pub(crate) fn table(lang: Lang, rows: &[Value]) -> Markup {
    let mut columns: Vec<&str> = Vec::new();
    for row in rows.iter().take(ROWS_MAX).filter_map(Value::as_object) {
        for name in row.keys() {
            if !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
    }
    columns_table(lang, rows, &columns)
}

/// The columns in which at least one row has a value.
pub(crate) fn columns_with_values<'a>(rows: &[Value], columns: &[&'a str]) -> Vec<&'a str> {
    let has_value = |name: &str| rows.iter().any(|row| !cell_text(&row[name]).is_empty());
    columns.iter().copied().filter(|name| has_value(name)).collect()
}

/// Rows as a table with some columns.
pub(crate) fn columns_table(lang: Lang, rows: &[Value], columns: &[&str]) -> Markup {
    if rows.is_empty() {
        return html! { p { (lang.say("Nothing to show")) } };
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label=(lang.say("Answer")) {
            table {
                thead { tr { @for name in columns { th.number[rows.iter().any(|row| row[*name].is_number())] scope="col" { (lang.column(name)) } } } }
                tbody {
                    @for row in rows.iter().take(ROWS_MAX) {
                        @if row.is_object() {
                            tr { @for name in columns { td.number[row[*name].is_number()] { (cell(row, name)) } } }
                        } @else {
                            tr { td { (cell_text(row)) } }
                        }
                    }
                }
            }
        }
        @if rows.len() > ROWS_MAX { p { (ROWS_MAX) " / " (rows.len()) } }
    }
}

/// A cell; names of things lead to their pages.
fn cell(row: &Value, column: &str) -> Markup {
    let text = cell_text(&row[column]);
    if text.is_empty() {
        return html! {};
    }
    let link = match column {
        "topic" => Some(format!("/topic{}", query([("name", text.as_str())]))),
        "group" => Some(format!("/group{}", query([("name", text.as_str())]))),
        "broker" if !text.contains(':') => {
            Some(format!("/broker{}", query([("name", slave_address(row).unwrap_or(&text))])))
        }
        "run" => Some(format!("/run{}", query([("id", text.as_str())]))),
        "client_id" => row["group"].as_str().map(|group| {
            let group_and_id = [("group", group), ("id", text.as_str())];
            format!("/client{}", query(group_and_id))
        }),
        "message_id" => row["topic"].as_str().map(|topic| {
            let topic_and_id = [("topic", topic), ("id", text.as_str())];
            format!("/message{}", query(topic_and_id))
        }),
        _ => None,
    };
    html! { @match link { Some(link) => a href=(link) { (text) }, None => (text) } }
}

/// The address of a row's broker if it is no master: the name of its broker set leads to the master.
fn slave_address(row: &Value) -> Option<&str> {
    let is_slave = row["id"].as_i64().is_some_and(|id| id != 0);
    row["address"].as_str().filter(|address| is_slave && !address.is_empty())
}

/// A value as text.
pub(crate) fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell_text).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{name}={}", cell_text(value)));
            members.collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => format!("{value:.2}"),
            _ => number.to_string(),
        },
        Value::Bool(_) => value.to_string(),
    }
}

/// A link to an operation's form with some values filled in.
pub(crate) fn operation_link(
    who: &Visitor,
    text: &str,
    (noun, verb): (&str, &str),
    given: &[(&str, &str)],
) -> Markup {
    let may = admin::operation(noun, verb).is_some_and(|operation| who.may(operation));
    html! {
        @if may { a.button href=(format!("/op/{noun}/{verb}{}", query(given.iter().copied()))) { (text) } }
    }
}

/// A labelled field of a form that only looks.
pub(crate) fn field(label: &str, name: &str, value: &str) -> Markup {
    html! { label { span { (label) } input name=(name) value=(value) autocomplete="off"; } }
}

/// When figures were taken.
pub(crate) fn taken(lang: Lang) -> Markup {
    html! { p.small { (lang.say("Figures taken at")) " " time { (admin::time(crate::answers::now_ms())) } } }
}

/// A number with separators.
pub(crate) fn number(n: i64) -> String {
    n.to_string()
}
/// A time.
pub(crate) fn duration(ms: i64) -> String {
    format!("{} s", ms / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_begins_with_what_is_missing_of_it() {
        let part =
            json!({"queues": [{"queue": 1}], "failures": ["a: silent"], "tracks_error": "b: <silent>"});
        let text = answer(Lang::En, &part).into_string();
        assert!(text.starts_with("<p class=\"failure\" role=\"alert\">✗ a: silent</p>"), "{text}");
        assert!(text.contains("✗ b: &lt;silent&gt;</p>") && !text.contains("<dt>"), "{text}");
    }

    #[test]
    fn a_slave_leads_to_its_own_page() {
        let shown = |row: Value| cell(&row, "broker").into_string();
        let broker = |id: i64| json!({"broker": "a", "id": id, "address": "h:1"});
        assert_eq!(shown(broker(1)), "<a href=\"/broker?name=h%3A1\">a</a>");
        assert_eq!(shown(broker(0)), "<a href=\"/broker?name=a\">a</a>");
        // The address of a client that is connected to a broker.
        let client = json!({"broker": "a", "address": "c:2"});
        assert_eq!(shown(client), "<a href=\"/broker?name=a\">a</a>");
    }

    #[test]
    fn what_others_wrote_is_inert() {
        let evil = "<script>alert(1)</script>\"'";
        let rows = json!([{"topic": evil, "message_id": evil, "body": {"a": [evil]}, "n": 1.005}, evil]);
        let text = answer(Lang::Zh, &json!({"rows": rows, evil: evil})).into_string();
        assert!(!text.contains("<script"), "{text}");
        assert!(text.contains("/topic?name=%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27"), "{text}");
        assert!(text.contains("1.00") && text.contains("主题"), "{text}");
    }
}
