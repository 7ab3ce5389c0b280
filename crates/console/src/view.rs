//! The frame of all pages, and the parts of which pages are made.

mod answer;
mod parts;
mod table;

pub(crate) use answer::{answer, cell_text, columns_table, columns_with_values, table};
pub(crate) use parts::{
    ago, broker_link, bytes, card, counted, decimal, duration, empty, group_link, number, share, status,
    topic_link, version,
};
pub(crate) use table::{Column, Table, labelled};

use crate::app::Visitor;
use crate::refusal::Refusal;
use crate::request::query;
use crate::words::Lang;
use admin::{Health, Level};
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};
use serde_json::{Value, json};

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

/// The pages of the navigation, in groups.
const GROUPS: [(&str, &[(&str, &str)]); 4] = [
    ("", &[("/", "Overview")]),
    (
        "Cluster",
        &[
            ("/brokers", "Brokers"),
            ("/replication", "Replication"),
            ("/proxies", "Proxies"),
            ("/storage", "Storage"),
        ],
    ),
    (
        "Messages",
        &[
            ("/topics", "Topics"),
            ("/groups", "Groups"),
            ("/clients", "Clients"),
            ("/messages", "Messages"),
            ("/dlq", "Dead letters"),
            ("/delays", "Delays"),
            ("/transactions", "Transactions"),
            ("/pops", "Pops"),
        ],
    ),
    (
        "Operate",
        &[
            ("/operations", "Operations"),
            ("/runs", "Lab runs"),
            ("/access", "Users and acls"),
            ("/audit", "Audit"),
            ("/logins", "Logins"),
        ],
    ),
];

/// Paths of pages about one thing, with the page of the navigation to which they belong.
const PARTS: [(&str, &str); 7] = [
    ("/broker", "/brokers"),
    ("/settings", "/brokers"),
    ("/topic", "/topics"),
    ("/group", "/groups"),
    ("/client", "/groups"),
    ("/message", "/messages"),
    ("/run", "/runs"),
];

fn links(lang: Lang, path: &str) -> Markup {
    let here = PARTS.iter().find(|(part, _)| *part == path).map_or(path, |(_, page)| page);
    html! {
        @for (title, pages) in GROUPS {
            @if !title.is_empty() { p.title { (lang.say(title)) } }
            ul { @for (address, name) in pages {
                @let current = if *address == path { Some("page") } else { (*address == here).then_some("true") };
                li { a href=(address) aria-current=[current] { (lang.say(name)) } }
            } }
        }
    }
}

/// A whole document.
pub(crate) fn document(
    who: &Visitor,
    (path, page_query): (&str, &str),
    page: &Page,
    health: &Health,
) -> Markup {
    let lang = who.lang;
    let back =
        format!("{path}{}", if page_query.is_empty() { String::new() } else { format!("?{page_query}") });
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
                div.side {
                    nav aria-label=(lang.say("Pages")) { a.brand href="/" { "Vostok" } (links(lang, path)) }
                }
                (top(who, path, &back, health))
                main #content data-live=[page.live_ms] {
                    div.head {
                        h1 { (page.title) }
                        @if page.live_ms.is_some() {
                            p #age.small data-keep data-text=(lang.say("Figures are {} s old")) data-silent=(lang.say("The console does not answer")) data-login=(lang.say("Log in again")) {
                                (lang.say("Figures taken at")) " " (now(who))
                            }
                        }
                    }
                    (page.body)
                    @if page.status.is_success() && !page.data.is_null() {
                        p.json { a href=(format!("/api/v1{json_path}{}", back.get(path.len()..).unwrap_or_default())) { (lang.say("The same as JSON")) } }
                    }
                }
            }
        }
    }
}

/// The bar above a page: navigation of narrow screens, health, language, user.
fn top(who: &Visitor, path: &str, back: &str, health: &Health) -> Markup {
    let lang = who.lang;
    let (code, name) = match lang {
        Lang::En => ("zh", "中文"),
        Lang::Zh => ("en", "English"),
    };
    html! {
        header {
            details.menu {
                summary { (lang.say("Menu")) }
                nav aria-label=(lang.say("Menu")) { (links(lang, path)) }
            }
            a #health class=(format!("health {}", level_name(health.level))) href="/" data-taken=(health.taken_at_ms) data-ago=(lang.say("s ago")) data-silent=(lang.say("The console does not answer")) {
                (health_text(lang, health))
            }
            div.who {
                a href=(format!("/language{}", query([("lang", code), ("back", back)]))) lang=(code) { (name) }
                span.user { (who.name) " · " (who.role.name()) }
                @if who.has_login {
                    form method="post" action="/logout" { (token(who)) button { (lang.say("Log out")) } }
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
    if health.level == Level::Unknown {
        return lang.say("Not looked yet").to_owned();
    }
    let words = health.words(lang.into());
    let mut letters = words.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// Hidden field of a form with the CSRF token.
pub(crate) fn token(who: &Visitor) -> Markup {
    html! { input type="hidden" name="_token" value=(who.token); }
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
pub(crate) fn taken(who: &Visitor) -> Markup {
    html! { p.small { (who.lang.say("Figures taken at")) " " (now(who)) } }
}

/// The present time in the visitor's zone, to the second.
fn now(who: &Visitor) -> Markup {
    let now_ms = crate::answers::now_ms();
    html! { time datetime=(admin::time(now_ms)) { (who.zone.field(now_ms).replace('T', " ")) } " (" (who.zone.name()) ")" }
}
