//! The list of consumer groups: those that are furthest behind in time first, without RocketMQ's own groups unless they are asked for.

use super::charts::spark;
use super::list::{List, Wanted};
use super::names::is_system_group;
use super::runtime::{masters, shown_failures, silent};
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Column, Page, Table, duration, empty, field, group_link, number, operation_link, status};
use crate::words::Lang;
use admin::{BrokerProgress, GroupFigures, GroupName, GroupQueue, Lag, Level};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::json;
use std::cmp::Ordering;
use std::collections::BTreeMap;

const GROUPS: List<GroupName> =
    List { operation: ("group", "names"), name: |row| &row.group, figure: "lag", path: "/groups" };
/// Order of the page unless the visitor wants another order.
const USUAL: &str = "-lag";
/// Time for which the lag of all groups is not asked for again, ms.
const LAG_MS: i64 = 10_000;
/// Lag in time from which on a group lags, s.
const LAGS_SECONDS: i64 = 60;

/// Messages that a group has not consumed, and the age of the first of them.
type Waiting = (i64, Lag);

/// A group as the page shows it.
#[derive(Serialize)]
struct Row<'a> {
    group: &'a str,
    /// Messages that the group has not consumed.
    diff: Option<i64>,
    #[serde(flatten)]
    lag: Option<Lag>,
    members: Option<i64>,
    topics: Option<i64>,
}

impl<'a> Row<'a> {
    fn new(row: &'a GroupName, known: &BTreeMap<String, Waiting>) -> Self {
        let GroupName { group, figures, .. } = row;
        let known = known.get(group).copied();
        let told = |value: fn(&GroupFigures) -> i64| figures.as_ref().map(value);
        let lag = figures.and_then(|figures| figures.time_behind).or(known.map(|(_, lag)| lag));
        let diff = told(|it| it.lag).or(known.map(|(diff, _)| diff));
        Self { group, diff, lag, members: told(|it| it.members), topics: told(|it| it.topics) }
    }
}

/// Number of unconsumed messages of each group and their largest age, with one request to each master; and the failures.
async fn lags(app: &App, who: &Visitor) -> Result<(BTreeMap<String, Waiting>, Vec<String>), Refusal> {
    let (mut lags, mut failures) = (BTreeMap::new(), Vec::new());
    for broker in masters(app, who).await? {
        let given = [("broker", broker.as_str())];
        match app.typed::<BrokerProgress>(who, ("broker", "progress"), &given, LAG_MS).await {
            Ok(progress) => progress.queues.iter().for_each(|queue| add(&mut lags, queue)),
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    Ok((lags, failures))
}

/// Adds a queue to the lag of its group. Queues without unconsumed messages count too: a group without any queue never
/// consumed.
fn add(lags: &mut BTreeMap<String, Waiting>, GroupQueue { group, diff, lag, .. }: &GroupQueue) {
    let (messages, largest) = lags.entry(group.clone()).or_insert((0, Lag::NOTHING));
    *messages += diff;
    *largest = Lag::largest([*largest, *lag]);
}

/// The page of consumer groups.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let shows_system = fields.get("system").is_some();
    // Sorted by lag unless something else is wanted, also where the list is long.
    let sorted = match fields.get("sort") {
        None => Fields::parse(&fields.with("sort", USUAL)[1..]),
        Some(_) => fields.clone(),
    };
    let mut failures = silent(app);
    let first = app.typed::<Vec<GroupName>>(who, GROUPS.operation, &[("limit", "1")], LAG_MS).await?;
    // Brokers of Vostok tell the lag with the names. Of others that of all groups is asked for at once.
    let has_figures = first.iter().all(|row| row.figures.is_some());
    let (known, refused) = if has_figures { Default::default() } else { lags(app, who).await? };
    failures.extend(refused);
    let order = |one: &GroupName, other: &GroupName| {
        compare(sorted.text("sort"), &Row::new(one, &known), &Row::new(other, &known))
    };
    let is_wanted = |name: &str| shows_system || !is_system_group(name);
    let part = GROUPS.part(app, who, &sorted, Wanted { begins: &[""], is_wanted, order: &order }).await?;
    let rows: Vec<Row<'_>> = part.rows.iter().map(|row| Row::new(row, &known)).collect();
    let switch = fields.first_with("system", if shows_system { "" } else { "1" });
    let body = html! {
        div.toolbar {
        form.row method="get" action=(GROUPS.path) role="search" {
            (field(lang.say("Search"), "q", fields.text("q")))
            @for name in ["system", "sort"] { @if let Some(value) = fields.get(name) { input type="hidden" name=(name) value=(value); } }
            button { (lang.say("Search")) }
            a.button href=(format!("{}{switch}", GROUPS.path)) aria-current=[shows_system.then_some("true")] { (lang.say("System groups")) }
        }
        (operation_link(who, lang.say("Create a group"), ("group", "create"), &[]))
        }
        (shown_failures(&failures))
        (table(app, lang, &part.order(fields, "name"), &rows))
        (part.links(lang, GROUPS.path, fields))
    };
    let data = json!({"found": part.found(), "groups": rows, "failures": failures});
    Ok(Page::new(lang.say("Groups"), data, body).live(10_000))
}

fn table(app: &App, lang: Lang, fields: &Fields, rows: &[Row<'_>]) -> Markup {
    let place = (GROUPS.path, fields);
    let columns = [
        Column::text(lang.say("Group")).sorted(place, "name", USUAL),
        Column::text(lang.say("State")).sorted(place, "state", USUAL),
        Column::number(lang.say("Lag in time")).sorted(place, "lag", USUAL),
        Column::number(lang.say("Messages waiting")).sorted(place, "diff", USUAL),
        Column::number(lang.say("Members")).sorted(place, "members", USUAL),
        Column::number(lang.say("Topics")).sorted(place, "topics", USUAL),
    ];
    let count = |value: Option<i64>| html! { (value.map_or_else(|| "–".to_owned(), number)) };
    let rows = rows.iter().map(|row| {
        let (level, word) = state(row);
        vec![
            group_link(row.group),
            status(level, lang.say(word)),
            html! { (row.lag.map_or_else(|| "–".to_owned(), |lag| lag_text(lang, &lag))) },
            html! { (spark(app, (Kind::Group, row.group))) (count(row.diff)) },
            count(row.members),
            count(row.topics),
        ]
    });
    let advice = if fields.get("q").is_some() {
        lang.say("No group has this in its name; look among the system groups too")
    } else {
        lang.say("Start a consumer, or create a group")
    };
    Table::new(columns).rows(rows).or(empty(lang, advice))
}

/// The state of a group: a level, and words.
fn state(row: &Row<'_>) -> (Level, &'static str) {
    let waits = row.diff.is_some_and(|diff| diff > 0);
    let is_late = row.lag.is_none_or(|lag| lag.lag_seconds.is_none_or(|seconds| seconds >= LAGS_SECONDS));
    match row.members {
        Some(0) if waits => (Level::Critical, "Offline, messages wait"),
        Some(0) => (Level::Unknown, "Offline"),
        _ if waits && is_late => (Level::Warning, "Lags"),
        _ if row.diff.is_none() => (Level::Unknown, "No offsets yet"),
        _ => (Level::Ok, "Keeps up"),
    }
}

/// A lag in time in words: an age, at most an age, or unknown.
pub(super) fn lag_text(lang: Lang, lag: &Lag) -> String {
    match lag.lag_seconds {
        None => lang.say("unknown").to_owned(),
        Some(0) => "0 s".to_owned(),
        Some(seconds) if lag.lag_is_bound => format!("≤ {}", duration(seconds.saturating_mul(1000))),
        Some(seconds) => duration(seconds.saturating_mul(1000)),
    }
}

/// The order of two rows by a key of `sort`. A lag that is not known is larger than every other lag.
fn compare(sort: &str, one: &Row<'_>, other: &Row<'_>) -> Ordering {
    let seconds = |row: &Row<'_>| match (row.diff.unwrap_or_default(), row.lag) {
        (..=0, _) => 0,
        (_, lag) => lag.and_then(|lag| lag.lag_seconds).unwrap_or(i64::MAX),
    };
    let by_lag = || (seconds(one), one.diff).cmp(&(seconds(other), other.diff));
    let order = match sort.trim_start_matches('-') {
        "lag" => by_lag(),
        "diff" => one.diff.cmp(&other.diff),
        "members" => one.members.cmp(&other.members),
        "topics" => one.topics.cmp(&other.topics),
        "state" => state(one).1.cmp(state(other).1),
        _ => one.group.cmp(other.group),
    };
    let order = if sort.starts_with('-') { order.reverse() } else { order };
    order.then_with(|| one.group.cmp(other.group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, diff: i64, lag_seconds: Option<i64>, members: Option<i64>) -> Row<'_> {
        let lag = Lag { lag_seconds, lag_is_bound: false };
        Row { group, diff: Some(diff), lag: Some(lag), members, topics: Some(1) }
    }

    #[test]
    fn groups_are_sorted_by_lag_in_time_and_not_by_messages() {
        let mut rows = [
            row("well", 0, Some(0), Some(1)),
            row("many", 9000, Some(5), Some(1)),
            row("old", 3, Some(480), Some(1)),
            row("unknown", 1, None, Some(1)),
        ];
        let names =
            |rows: &[Row<'_>]| rows.iter().map(|row| row.group.to_owned()).collect::<Vec<_>>().join(" ");
        rows.sort_by(|one, other| compare("-lag", one, other));
        assert_eq!(names(&rows), "unknown old many well");
        rows.sort_by(|one, other| compare("-diff", one, other));
        assert_eq!(names(&rows), "many old unknown well");
        rows.sort_by(|one, other| compare("name", one, other));
        assert_eq!(names(&rows), "many old unknown well");
    }

    #[test]
    fn the_state_of_a_group_is_said_in_words() {
        let check = |row: Row<'_>, word: &str| assert_eq!(state(&row).1, word);
        check(row("g", 0, Some(0), Some(1)), "Keeps up");
        check(row("g", 5, Some(3), Some(1)), "Keeps up");
        check(row("g", 5, Some(90), Some(1)), "Lags");
        check(row("g", 5, None, None), "Lags");
        check(row("g", 5, Some(3), Some(0)), "Offline, messages wait");
        check(row("g", 0, Some(0), Some(0)), "Offline");
        check(Row { diff: None, ..row("g", 0, None, None) }, "No offsets yet");
    }

    #[test]
    fn queues_without_messages_count_for_the_lag_of_a_group() {
        let known = |rows: &[Row<'_>]| {
            rows.iter().map(|row| lag_text(Lang::En, &row.lag.unwrap())).collect::<Vec<_>>().join(", ")
        };
        let bound =
            Row { lag: Some(Lag { lag_seconds: Some(300), lag_is_bound: true }), ..row("g", 1, None, None) };
        assert_eq!(
            known(&[row("g", 1, Some(65), None), row("g", 1, None, None), bound]),
            "1 min 5 s, unknown, ≤ 5 min"
        );
    }
}
