//! The overview: health of the cluster, the next steps, and rates.

use super::brokers::broker_cells;
use super::charts::charts;
use super::findings::verdict;
use super::group_list::lag_text;
use super::names::{Names, Owner, is_system_group};
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::lag::{GROUPS_MAX, Lag};
use crate::live::Sample;
use crate::refusal::{KEYS, Refusal};
use crate::view::{
    Column, Page, Table, ago, broker_link, card, decimal, empty, group_link, health_text, number, share,
    token, topic_link,
};
use crate::words::Lang;
use admin::BrokerRow;
use maud::{Markup, html};
use serde_json::json;

/// Brokers that are shown at most.
const BROKERS_MAX: usize = 10;
/// Lag in time from which on a group counts as behind, s.
const BEHIND_SECONDS: i64 = 60;

/// The first page: health of the cluster, the next steps, and rates.
pub(super) async fn overview(app: &App, who: &Visitor) -> Page {
    let (lang, sample, doctor) = (who.lang, app.live.sample(), app.live.doctor());
    let brokers = &sample.brokers[..];
    let body = html! {
        @if sample.is_refused() {
            p.failure role="alert" { "✗ " (lang.say("A broker refuses the console")) (lang.colon()) (KEYS) }
        }
        section.panel {
            h2 { (lang.say("Health")) }
            div #verdict data-taken=(app.live.health().taken_at_ms) { (verdict(app, who, doctor.as_deref())) }
            form method="post" action="/look" { (token(who)) button { (lang.say("Look now")) } }
        }
        @if let Some(error) = &sample.error { p.failure role="alert" { "✗ " (error) } }
        div.cards {
            (card(lang.say("Messages in"), rate(sample.in_tps), today(lang, brokers, |row| if row.id == 0 { row.in_today } else { 0 })))
            (card(lang.say("Messages out"), rate(sample.out_tps), today(lang, brokers, |row| row.out_today)))
            (behind(app, lang))
            (fullest(lang, brokers))
        }
        (charts(app, lang, (Kind::Cluster, "")))
        div.split {
            div #brokers { h2 { (lang.say("Brokers")) } (broker_table(lang, brokers)) }
            div #topics {
                h2 { (lang.say("Busiest topics")) }
                (topic_table(lang, &sample))
            }
        }
    };
    Page::new(
        lang.say("Overview"),
        json!({"live": sample, "doctor": doctor.map(|doctor| doctor.value(lang.into()))}),
        body,
    )
    .live(1000)
}

fn rate(per_second: f64) -> Markup {
    html! { (decimal(per_second)) span.unit { " /s" } }
}

/// Messages since midnight, of all brokers.
fn today(lang: Lang, brokers: &[BrokerRow], count: impl Fn(&BrokerRow) -> i64) -> Markup {
    html! { (number(brokers.iter().map(count).sum())) " " (lang.say("since midnight")) }
}

/// The groups that are behind in time, and the group that is furthest behind.
fn behind(app: &App, lang: Lang) -> Markup {
    let is_behind = |lag: &Lag| lag.time_behind.lag_seconds.is_none_or(|seconds| seconds >= BEHIND_SECONDS);
    let readers = app.lags.oldest_readers(GROUPS_MAX).into_iter();
    let groups: Vec<_> = readers.filter(|(group, lag)| is_behind(lag) && !is_system_group(group)).collect();
    let note = html! {
        @match groups.first() {
            Some((group, lag)) => { (group_link(group)) " " (lag_text(lang, &lag.time_behind)) }
            None => (lang.say("No group is a minute behind")),
        }
    };
    let href = "/groups?sort=-lag";
    card(
        lang.say("Groups that lag"),
        html! { a href=(href) { (number(i64::try_from(groups.len()).unwrap_or(i64::MAX))) } },
        note,
    )
}

fn fullest(lang: Lang, brokers: &[BrokerRow]) -> Markup {
    let known = brokers.iter().filter(|row| row.error.is_none());
    let Some(row) = known.max_by(|one, other| one.disk_ratio.total_cmp(&other.disk_ratio)) else {
        return card(lang.say("Disk"), "–", lang.say("No broker is known"));
    };
    let note = html! { (broker_link(&row.broker, row.id, &row.address)) " · " a href="/storage" { (lang.say("Storage")) } };
    card(lang.say("Fullest disk"), share(row.disk_ratio), note)
}

fn broker_table(lang: Lang, brokers: &[BrokerRow]) -> Markup {
    let columns = Column::all(lang, ["Broker", "State", "#In /s", "#Out /s", "Disk"]);
    let rows = brokers.iter().take(BROKERS_MAX).map(|row| {
        let (name, state) = broker_cells(lang, row);
        let disk = if row.error.is_none() {
            share(row.disk_ratio)
        } else {
            html! { "–" }
        };
        vec![name, state, html! { (decimal(row.in_tps)) }, html! { (decimal(row.out_tps)) }, disk]
    });
    html! {
        (Table::new(columns).rows(rows).or(empty(lang, lang.say("No broker is known; check that brokers register with the name servers"))))
        @if brokers.len() > BROKERS_MAX { p.small { a href="/brokers" { (lang.say("All brokers")) } } }
    }
}

fn topic_table(lang: Lang, sample: &Sample) -> Markup {
    let columns = Column::all(lang, ["Topic", "#In /s", "Looked at"]);
    let names = Names::of_brokers(&sample.brokers);
    let rows = sample
        .topics
        .iter()
        .filter(|row| names.owner(&row.topic) == Owner::User)
        .map(|row| vec![topic_link(&row.topic), html! { (decimal(row.in_tps)) }, ago(lang, row.at_ms)]);
    Table::new(columns).rows(rows).or(empty(lang, lang.say("No topic gets messages now")))
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
