//! Pages of messages that wait inside brokers: delayed and timed messages, undecided transactions, popped messages.

use super::list::NAMES_MS;
use super::messages::local;
use super::runtime::{runtimes, shown_failures, silent};
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{
    Column, Page, Table, ago, broker_link, card, duration, empty, number, operation_link, status, topic_link,
};
use crate::words::Lang;
use admin::{
    BrokerRow, DueCount, GroupProgress, Level, QueueProgress, Transaction, TransactionState, Transactions,
    Waiting,
};
use maud::{Markup, html};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use wire::names::{REVIVE_PREFIX, TIMER_TOPIC};

/// Group in whose name brokers look for popped messages that were not acknowledged (`PopAckConstants.REVIVE_GROUP`).
const REVIVE: &str = "CID_RMQ_SYS_REVIVE_GROUP";
/// Rows of a page of transactions.
const PAGE: usize = 50;
/// Time after which the pages are fetched again, ms.
const LIVE_MS: u32 = 5000;

/// Delayed and timed messages of all masters, and when they are due.
pub(super) async fn delays(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let waiting = app.typed::<Vec<Waiting>>(who, ("message", "due"), &[], 0).await?;
    let all: i64 = waiting.iter().map(|row| row.waiting).sum();
    let next = waiting.iter().filter_map(|row| admin::parse_time(&row.next_due)).min();
    let unknown: i64 = waiting.iter().map(|row| row.unknown).sum();
    let timed: i64 = waiting.iter().filter(|row| row.level.is_none()).map(|row| row.waiting).sum();
    let failures = silent(app);
    let body = html! {
        (shown_failures(&failures))
        div.cards {
            (card(lang.say("Messages that wait"), number(all), ""))
            (card(lang.say("Timed messages"), number(timed), ""))
            (card(lang.say("Next due"), html! { @match next { Some(ms) => (ago(lang, ms)), None => "–" } }, html! { @if let Some(ms) = next { (local(who, ms)) } }))
        }
        h2 { (lang.say("Due when")) }
        (plot(lang, &due(&waiting)))
        @if unknown > 0 { p.small { (number(unknown)) " " (lang.say("messages wait of which the time is not known: of timed messages the newest 2,000 of a broker are read")) } }
        h2 { (lang.say("Where they wait")) }
        div.actions { a.button href=(format!("/messages{}", query([("topic", TIMER_TOPIC)]))) { (lang.say("Show timed messages")) } }
        (waiting_table(who, &waiting))
    };
    let data = json!({"waiting": *waiting, "failures": failures});
    Ok(Page::new(lang.say("Delays"), data, body).live(LIVE_MS))
}

/// Messages of all brokers and levels by the span of time in which they are due.
fn due(waiting: &[Waiting]) -> BTreeMap<i64, i64> {
    waiting.iter().flat_map(|row| &row.due).fold(
        BTreeMap::new(),
        |mut spans, DueCount { within_ms, messages }| {
            *spans.entry(*within_ms).or_default() += messages;
            spans
        },
    )
}

/// A bar for each span of time.
fn plot(lang: Lang, spans: &BTreeMap<i64, i64>) -> Markup {
    let most = spans.values().copied().max().unwrap_or_default();
    if most == 0 {
        return empty(
            lang,
            lang.say("No message waits for its time: send one with a delay level or a delivery time"),
        );
    }
    html! {
        ul.bars { @for (within_ms, messages) in spans {
            @let span = match within_ms {
                within_ms if *within_ms > 365 * 86_400_000 => lang.say("later").to_owned(),
                within_ms => lang.say("within {}").replace("{}", &duration(*within_ms)),
            };
            li {
                span { (span) }
                svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=(number(*messages)) { rect width=(format!("{:.1}", 100.0 * *messages as f64 / most as f64)) height="10" {} }
                span.number { (number(*messages)) }
            }
        } }
    }
}

fn waiting_table(who: &Visitor, waiting: &[Waiting]) -> Markup {
    let lang = who.lang;
    let columns = Column::all(lang, ["Broker", "Delay", "#Messages that wait", "Next due", "Time"]);
    let rows = waiting.iter().filter(|row| row.waiting > 0).map(|row| {
        let next = admin::parse_time(&row.next_due);
        let delay = match row.level {
            Some(level) => html! { (row.delay) " · " (lang.say("level")) " " (level) },
            None => html! { (lang.say("timed")) },
        };
        vec![
            broker_link(&row.broker, 0, ""),
            delay,
            html! { (number(row.waiting)) },
            next.map_or_else(|| html! { "–" }, |ms| ago(lang, ms)),
            next.map_or_else(|| html! { "–" }, |ms| local(who, ms)),
        ]
    });
    Table::new(columns).rows(rows).or(html! { p.small { (lang.say("Nothing waits")) } })
}

/// Transactions, undecided ones first, with a row for each.
pub(super) async fn transactions(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let found = app.typed::<Transactions>(who, ("message", "transactions"), &[], 0).await?;
    let count = |state| found.transactions.iter().filter(|row| row.state == state).count() as i64;
    let oldest = found.transactions.iter().filter(|row| row.state == TransactionState::Undecided);
    let oldest = oldest.map(|row| row.born_ms).min();
    let wanted = fields.text("q");
    let is_wanted = |row: &&Transaction| {
        let texts = [&row.producer_group, &row.topic, &row.message_id];
        wanted.is_empty()
            || texts.iter().any(|text| text.contains(wanted))
            || row.keys.as_ref().is_some_and(|keys| keys.contains(wanted))
    };
    let rows: Vec<&Transaction> = found.transactions.iter().filter(is_wanted).collect();
    let page = fields.page().min(rows.len().div_ceil(PAGE).max(1));
    let link = |page: usize| format!("/transactions{}", fields.with("page", &page.to_string()));
    let body = html! {
        (shown_failures(&found.failures))
        div.cards {
            (card(lang.say("Undecided"), number(count(TransactionState::Undecided)), html! { @if let Some(ms) = oldest { (lang.say("oldest")) " " (ago(lang, ms)) } }))
            (card(lang.say("Given up by the broker"), number(count(TransactionState::GivenUp)), lang.say("The producer did not decide however often it was asked; let it be asked again")))
            (card(lang.say("Decided"), number(count(TransactionState::Decided)), lang.say("committed or rolled back")))
        }
        form.row method="get" action="/transactions" role="search" {
            (crate::view::field(lang.say("Producer group, topic, key or id"), "q", wanted))
            button { (lang.say("Search")) }
        }
        (list(who, &rows[(page - 1) * PAGE..rows.len().min(page * PAGE)]))
        nav.pages aria-label=(lang.say("Page")) {
            @if page > 1 { a rel="prev" href=(link(page - 1)) { (lang.say("Previous")) } }
            span { (number(rows.len() as i64)) " " (lang.say("found")) }
            @if page * PAGE < rows.len() { a rel="next" href=(link(page + 1)) { (lang.say("Next")) } }
        }
        p.small { (lang.say("Of each broker the newest 1,000 half messages are read")) }
    };
    Ok(Page::new(lang.say("Transactions"), json!(*found), body).live(LIVE_MS))
}

fn list(who: &Visitor, rows: &[&Transaction]) -> Markup {
    let lang = who.lang;
    let columns = Column::all(
        lang,
        ["State", "Begun", "#Checks", "Producer group", "Topic", "Keys", "Message id", "Broker", "Operation"],
    );
    let rows = rows.iter().map(|row| {
        let state = match row.state {
            TransactionState::Undecided => status(Level::Warning, lang.say("undecided")),
            TransactionState::GivenUp => status(Level::Critical, lang.say("given up")),
            TransactionState::Decided => status(Level::Ok, lang.say("decided")),
        };
        let place = [("topic", row.stored_in), ("id", row.offset_id.as_str())];
        let again = (row.state == TransactionState::GivenUp)
            .then(|| operation_link(who, lang.say("Ask again"), ("message", "check-half"), &place));
        vec![
            state,
            ago(lang, row.born_ms),
            html! { (row.checks) },
            html! { (row.producer_group) },
            topic_link(&row.topic),
            html! { (row.keys.as_deref().unwrap_or_default()) },
            html! { a href=(format!("/message{}", query(place))) { (row.message_id) } },
            broker_link(&row.broker, 0, ""),
            again.unwrap_or_default(),
        ]
    });
    Table::new(columns)
        .rows(rows)
        .or(empty(lang, lang.say("No transaction was begun: a producer begins one with a half message")))
}

/// Page with the progress of brokers in reviving popped messages that were not acknowledged.
pub(super) async fn pops(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], NAMES_MS).await?;
    let clusters: BTreeSet<&str> = brokers.iter().map(|row| row.cluster.as_str()).collect();
    let (mut revived, mut refused) = (Vec::new(), Vec::new());
    for cluster in clusters {
        let topic = format!("{REVIVE_PREFIX}{cluster}");
        let given = [("group", REVIVE), ("topic", topic.as_str())];
        match app.typed::<GroupProgress>(who, ("group", "progress"), &given, 2000).await {
            Ok(progress) => revived.push(progress),
            // A broker makes the topic with the first message that is popped.
            Err(refusal) if refusal.status == http::StatusCode::NOT_FOUND => {}
            Err(refusal) => refused.push(format!("{cluster}: {}", refusal.text)),
        }
    }
    let (runtimes, mut failures) = runtimes(app, who).await?;
    failures.extend(refused);
    failures.extend(revived.iter().flat_map(|progress| progress.failures.clone()));
    let queues: Vec<&QueueProgress> = revived.iter().flat_map(|progress| &progress.queues).collect();
    let is_of_pops =
        |name: &str| ["pop", "revive"].iter().any(|part| name.to_ascii_lowercase().contains(part));
    let figures: Vec<(&str, &str, &str)> = runtimes
        .iter()
        .filter(|(row, _)| row.id == 0)
        .flat_map(|(row, runtime)| runtime.iter().map(move |(name, value)| (&*row.broker, &**name, &**value)))
        .filter(|(_, name, _)| is_of_pops(name))
        .collect();
    let waiting = queues.iter().map(|row| row.diff.max(0)).fold(0, i64::saturating_add);
    let body = html! {
        (shown_failures(&failures))
        div.cards { (card(lang.say("Not yet looked at"), number(waiting), lang.say("notes about popped messages"))) }
        h2 { (lang.say("Revive: bringing back what was not acknowledged")) }
        (revive_table(lang, &queues))
        p.small { (lang.say("What a member has popped and not acknowledged stands on the member's page")) }
        @if !figures.is_empty() { h2 { (lang.say("Figures of the brokers")) } (figure_table(lang, &figures)) }
    };
    let named =
        figures.iter().map(|(broker, name, value)| json!({"broker": broker, "name": name, "value": value}));
    let data = json!({"revive": queues, "figures": named.collect::<Vec<_>>(), "failures": failures});
    Ok(Page::new(lang.say("Pops"), data, body).live(LIVE_MS))
}

fn revive_table(lang: Lang, queues: &[&QueueProgress]) -> Markup {
    let columns =
        Column::all(lang, ["Topic", "Queue", "#Not yet looked at", "#Offset / end", "Last message"]);
    let rows = queues.iter().map(|row| {
        vec![
            topic_link(&row.topic),
            html! { (broker_link(&row.broker, 0, "")) " / " (row.queue) },
            html! { (number(row.diff)) },
            html! { (number(row.consumer_offset)) " / " (number(row.broker_offset)) },
            ago(lang, row.last_ms),
        ]
    });
    let advice = lang.say("No message was popped: consumers of RocketMQ 5 pop messages over gRPC, others where the group's mode is POP");
    Table::new(columns).rows(rows).or(empty(lang, advice))
}

/// Figures of brokers by the names that the brokers give them.
fn figure_table(lang: Lang, figures: &[(&str, &str, &str)]) -> Markup {
    let columns = Column::all(lang, ["Broker", "Figure", "#Value"]);
    let rows = figures.iter().map(|(broker, name, value)| {
        let shown = value.parse().map_or_else(|_| (*value).to_owned(), number);
        vec![broker_link(broker, 0, ""), html! { code { (name) } }, html! { (shown) }]
    });
    html! { (Table::new(columns).rows(rows)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(level: Option<i32>, counts: &[(i64, i64)]) -> Waiting {
        let due = counts
            .iter()
            .map(|(within_ms, messages)| DueCount { within_ms: *within_ms, messages: *messages });
        Waiting {
            broker: "a".to_owned(),
            level,
            delay: "10s".to_owned(),
            waiting: 1,
            next_due: String::new(),
            due: due.collect(),
            unknown: 0,
        }
    }

    #[test]
    fn what_is_due_is_a_bar_for_each_span() {
        let spans = due(&[waiting(Some(3), &[(10_000, 2)]), waiting(None, &[(10_000, 2), (60_000, 1)])]);
        assert_eq!(spans, [(10_000, 4), (60_000, 1)].into());
        let text = plot(Lang::En, &spans).into_string();
        assert!(text.contains("within 10 s") && text.contains("rect width=\"25.0\""), "{text}");
        assert!(plot(Lang::En, &BTreeMap::new()).into_string().contains("No message waits"));
    }

    #[test]
    fn only_a_transaction_that_was_given_up_is_asked_about_again() {
        let row = |state| Transaction {
            message_id: "ID".to_owned(),
            state,
            topic: "T".to_owned(),
            tags: None,
            keys: None,
            producer_group: "P".to_owned(),
            checks: 3,
            born_time: String::new(),
            born_ms: 1000,
            age_seconds: 1,
            broker: "a".to_owned(),
            stored_in: "TRANS_CHECK_MAX_TIME_TOPIC",
            offset_id: "O".to_owned(),
        };
        let shown = |state| list(&Visitor::of_test(crate::users::Role::Admin), &[&row(state)]).into_string();
        let given_up = shown(TransactionState::GivenUp);
        assert!(
            given_up.contains("/op/message/check-half?topic=TRANS_CHECK_MAX_TIME_TOPIC&amp;id=O"),
            "{given_up}"
        );
        let undecided = shown(TransactionState::Undecided);
        assert!(undecided.contains("undecided") && !undecided.contains("check-half"), "{undecided}");
    }
}
