//! The overview: is the cluster well, what is to be done, and how much goes through it.

use super::charts::charts;
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::{KEYS, Refusal};
use crate::request::query;
use crate::view::{Page, columns_table, health_text, token};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Columns of the brokers.
const BROKERS: [&str; 9] =
    ["cluster", "broker", "id", "address", "version", "in_tps", "out_tps", "disk_ratio", "error"];
/// Columns of the topics.
const TOPICS: [&str; 3] = ["topic", "in_tps", "time"];

/// Checks of groups whose names do not begin with `group-`, as far as their subjects begin with the group and not with a client.
const GROUP_CHECKS: [&str; 6] = [
    "queue-without-owner",
    "queue-with-two-owners",
    "subscriptions-conflict",
    "members-beyond-queues",
    "owner-does-not-pull",
    "owner-does-not-consume",
];
/// Findings that are shown at once.
const FIRST: usize = 3;

/// The first page: whether the cluster is well, what to do if not, and its rates.
pub(super) async fn overview(app: &App, who: &Visitor) -> Page {
    let (lang, sample, doctor) = (who.lang, app.live.sample(), app.live.doctor());
    let tps = |class: &str, name: &str, value: f64| {
        html! { div.figure { span.mark.(class) aria-hidden="true" {} span { (lang.say(name)) } output { (format!("{value:.1}")) } } }
    };
    let body = html! {
        h2 { (lang.say("Is it well?")) }
        @if sample.is_refused() {
            p.failure role="alert" { "✗ " (lang.say("A broker refuses the console")) ": " (KEYS) }
        }
        div #verdict data-taken=(app.live.health().taken_at_ms) { (verdict(app, who, doctor.as_ref())) }
        form method="post" action="/look" { (token(who)) button { (lang.say("Look now")) } }
        h2 { (lang.say("Messages per second")) }
        @if let Some(error) = &sample.error { p.failure role="alert" { "✗ " (error) } }
        div.figures { (tps("in", "stored", sample.in_tps)) (tps("out", "delivered", sample.out_tps)) }
        (charts(app, lang, (Kind::Cluster, "")))
        p.small { (lang.say("Figures taken at")) " " time #taken { (sample.at) } }
        h2 { (lang.say("Busiest brokers")) }
        div #brokers {
            @if sample.brokers.is_empty() { p { (lang.say("No broker is known")) } }
            @else { (columns_table(lang, &sample.brokers[..sample.brokers.len().min(10)], &BROKERS)) }
        }
        h2 { (lang.say("Busiest topics")) }
        div #topics {
            @if sample.topics.is_empty() { p { (lang.say("No topic gets messages now")) } }
            @else { (columns_table(lang, &sample.topics, &TOPICS)) }
        }
    };
    Page::new(lang.say("Overview"), json!({"live": sample, "doctor": doctor}), body).live(1000)
}

/// The doctor's findings, the gravest first, each with its command and its page.
fn verdict(app: &App, who: &Visitor, doctor: Option<&Value>) -> Markup {
    let lang = who.lang;
    let servers = app.cluster.name_servers().join(";");
    let Some(doctor) = doctor else {
        return html! {
            p { (lang.say("The doctor has not looked yet; it begins when this page is open")) ". "
                (lang.say("For clusters of 2000 topics or groups and more run")) " " code { "vostok doctor -n '" (servers) "'" } }
        };
    };
    let of = |name: &str| doctor[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let count = |state: &str| of("checks").iter().filter(|check| check["state"] == state).count();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    html! {
        @if of("findings").is_empty() { p.success { "✓ " (lang.say("Nothing is wrong as far as was looked")) } }
        @else {
            p.failure { "! " (of("findings").len()) " " (lang.say("findings")) }
            (findings(lang, &of("findings")[..of("findings").len().min(FIRST)]))
            @if of("findings").len() > FIRST {
                details { summary { (lang.say("More")) } (findings(lang, &of("findings")[FIRST..])) }
            }
        }
        p.small {
            (count("PASS")) " " (lang.say("checks passed")) ", " (count("SKIP")) " " (lang.say("skipped for want of data")) ". "
            (lang.say("Figures taken at")) " " (text(doctor, "taken_at")) ". "
            (lang.say("Command")) ": " code { "vostok doctor -n '" (servers) "'" }
        }
    }
}

fn findings(lang: Lang, rows: &[Value]) -> Markup {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    html! {
        ul.findings {
            @for row in rows {
                @let (severity, code) = (text(row, "severity"), text(row, "code"));
                li.(severity) {
                    strong { (lang.say(&severity)) } " " (lang.meaning(&code)) " " code { (code) }
                    p { (subject_link(&code, &text(row, "subject"))) ": " (text(row, "figure")) }
                    p { (lang.say("What to do")) ": " code { (text(row, "fix")) } }
                }
            }
        }
    }
}

/// A finding's culprit, with its page where the name of the check tells of what it is the name.
fn subject_link(code: &str, subject: &str) -> Markup {
    let is_group = code.starts_with("group-") || GROUP_CHECKS.contains(&code);
    match subject.split_whitespace().next().filter(|_| is_group) {
        Some(group) => html! { a href=(format!("/group{}", query([("name", group)]))) { (subject) } },
        None => html! { (subject) },
    }
}

/// The part of the first page that is fetched again each second.
pub(super) fn live(app: &App) -> Result<Page, Refusal> {
    Ok(Page::new("Live", json!(app.live.sample()), html! {}))
}

/// Health of the cluster, which all pages fetch every few seconds.
pub(super) fn health(app: &App, who: &Visitor) -> Page {
    app.live.watch();
    let health = app.live.health();
    let mut data = json!(health);
    data["text"] = health_text(who.lang, &health).into();
    Page::new("Health", data, html! {})
}
