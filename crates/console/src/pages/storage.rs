//! Storage: use of the disks and its forecast, holders of old messages, damage.

use super::group_list::lag_text;
use super::names::is_system_group;
use super::runtime::{Runtime, broker_cell, number as figure, runtimes, shown_failures};
use super::settings::{Item, items, table as settings_table};
use crate::answers::now_ms;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::{
    Column, Page, Table, ago, bytes, card, counted, duration, empty, group_link, number, operation_link,
    share, status,
};
use crate::words::Lang;
use admin::{BrokerRow, Level, Settings};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;

/// Most groups in the table of groups that read the oldest messages.
const READERS: usize = 20;
/// Settings that decide how long messages stay.
const RETENTION: [&str; 7] = [
    "fileReservedTime",
    "deleteWhen",
    "diskMaxUsedSpaceRatio",
    "cleanFileForciblyEnable",
    "mappedFileSizeCommitLog",
    "storePathRootDir",
    "unconsumedDataPolicy",
];
/// Runtime figures that are 0 on a broker that is well, with their meanings.
const DAMAGE: [(&str, &str); 6] = [
    ("damagedMessages", "Damaged messages"),
    ("lostQueues", "Lost queues"),
    ("dispatchBehindBytes", "Bytes without queue entries"),
    ("rebuildLeftBytes", "Bytes to rebuild"),
    ("refusedDiskFull", "Refused: disk full"),
    ("refusedFenced", "Refused: store fenced"),
];

#[derive(Debug, Serialize)]
struct Space {
    broker: String,
    id: i64,
    address: String,
    log_bytes: i64,
    /// Store time of the oldest message, ms since the epoch; 0 without messages.
    oldest_ms: i64,
    bytes_per_hour: Option<f64>,
    free_bytes: Option<f64>,
    disk_ratio: Option<f64>,
    hours_until_full: Option<f64>,
    /// Whether sends are refused for want of space, as the broker tells.
    refuses: Option<String>,
}

impl Space {
    /// Computes the storage of a broker. A broker without messages has no growth.
    fn of(row: &BrokerRow, runtime: &Runtime, now_ms: i64) -> Self {
        let log_bytes = figure(runtime, "commitLogMaxOffset") - figure(runtime, "commitLogMinOffset");
        let oldest_ms = figure(runtime, "earliestMessageTimeStamp").max(0);
        let hours = (now_ms - oldest_ms) as f64 / 3_600_000.0;
        let per_hour = (oldest_ms > 0 && hours > 0.01).then(|| log_bytes as f64 / hours);
        let free_bytes = runtime.get("commitLogDirCapacity").and_then(|text| free_bytes(text));
        let full = per_hour.zip(free_bytes).and_then(|(rate, free)| (rate > 0.0).then(|| free / rate));
        Self {
            broker: row.broker.clone(),
            id: row.id,
            address: row.address.clone(),
            log_bytes,
            oldest_ms,
            bytes_per_hour: per_hour,
            free_bytes,
            disk_ratio: runtime.get("commitLogDiskRatio").and_then(|text| text.parse().ok()),
            hours_until_full: full,
            refuses: runtime.get("sendsRefusedForSpace").cloned(),
        }
    }

    fn link(&self) -> Markup {
        broker_cell(&self.broker, self.id, &self.address)
    }
}

/// The free space of `Total : 252.0 GiB, Free : 39.6 GiB.` (`BrokerController.getDiskSpace`).
pub(super) fn free_bytes(text: &str) -> Option<f64> {
    let (count, unit) = text.split("Free : ").nth(1)?.trim_end_matches('.').split_once(' ')?;
    let power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].into_iter().position(|name| name == unit)?;
    let factor = 1024_f64.powi(i32::try_from(power).ok()?);
    count.parse::<f64>().ok().map(|count| count * factor)
}

/// Storage of all brokers.
pub(super) async fn storage(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let (runtimes, mut failures) = runtimes(app, who).await?;
    let spaces: Vec<Space> =
        runtimes.iter().map(|(row, runtime)| Space::of(row, runtime, now_ms())).collect();
    let mut retention: Vec<(&String, Vec<Item>)> = Vec::new();
    for broker in runtimes.iter().filter(|(row, _)| row.id == 0).map(|(row, _)| &row.broker) {
        match app.typed::<Settings>(who, ("broker", "config"), &[("broker", broker)], 30_000).await {
            Ok(settings) => {
                let mut found = items(lang, &settings.rows);
                found.retain(|item| RETENTION.contains(&item.key()));
                retention.push((broker, found));
            }
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    // Asked for once a minute, because the progress of all groups can be long.
    let mut readers = app.lags.oldest_readers(READERS);
    readers.retain(|(group, _)| !is_system_group(group));
    let body = html! {
        (shown_failures(&failures))
        (cards(lang, &spaces))
        h2 { (lang.say("Space")) }
        (space_table(lang, &spaces))
        p.small { (lang.say("The growth is the mean since the oldest message; a log that only turns over is never full")) }
        h2 { (lang.say("What decides how long messages stay")) }
        div.actions {
            (operation_link(who, lang.say("Change a setting"), ("broker", "set"), &[("key", "fileReservedTime")]))
            (operation_link(who, lang.say("Delete expired files now"), ("broker", "clean-log"), &[]))
        }
        @for (broker, items) in &retention { h3 { (broker) } (settings_table(who, broker, items)) }
        h2 { (lang.say("Who reads the oldest messages")) }
        p.small { (lang.say("Brokers of RocketMQ, and of Vostok with unconsumedDataPolicy=DROP, do not wait for them: what expires before they read it is lost to them")) }
        (reader_table(lang, &readers))
        h2 { (lang.say("Damage and arrears")) }
        (damage_table(lang, &runtimes))
    };
    let retention = retention.iter().flat_map(|(broker, items)| {
        items.iter().map(move |item| json!({"broker": broker, "setting": item.key(), "value": item.value()}))
    });
    let readers = readers.iter().map(|(group, lag)| {
        json!({"group": group, "diff": lag.messages, "lag_seconds": lag.time_behind.lag_seconds, "time": admin::time(lag.at_ms)})
    });
    let damage = runtimes.iter().map(|(row, runtime)| {
        let figures = DAMAGE.iter().map(|(name, _)| ((*name).to_owned(), runtime.get(*name).cloned()));
        let of = [("broker", &row.broker), ("address", &row.address)];
        let of = of.map(|(name, value)| (name.to_owned(), Some(value.clone())));
        figures.chain(of).collect::<BTreeMap<_, _>>()
    });
    let data = json!({"space": spaces, "retention": retention.collect::<Vec<_>>(), "readers": readers.collect::<Vec<_>>(), "damage": damage.collect::<Vec<_>>(), "failures": failures});
    Ok(Page::new(lang.say("Storage"), data, body).live(10_000))
}

/// The fullest disk, the first disk that will be full, and the logs of all broker sets together.
fn cards(lang: Lang, spaces: &[Space]) -> Markup {
    let fullest = spaces
        .iter()
        .max_by(|one, other| one.disk_ratio.unwrap_or(-1.0).total_cmp(&other.disk_ratio.unwrap_or(-1.0)));
    let first = spaces.iter().filter_map(|space| Some((space.hours_until_full?, space)));
    let first = first.min_by(|one, other| one.0.total_cmp(&other.0));
    let refusing = spaces.iter().filter(|space| refuses(space)).count();
    let logs = logs(spaces);
    html! {
        div.cards {
            @if let Some(space) = fullest {
                (card(lang.say("Fullest disk"), disk(space), space.link()))
            }
            (card(lang.say("Commit logs"), bytes(logs.values().sum()), counted(lang, logs.len(), lang.say("broker set"), lang.say("broker sets"))))
            @match first {
                Some((hours, space)) => { (card(lang.say("First full in"), hours_text(hours), space.link())) }
                None => { (card(lang.say("First full in"), "–", lang.say("No log grows"))) }
            }
            @if refusing > 0 {
                (card(lang.say("Refuse messages"), status(Level::Critical, lang.say("for want of space")), counted(lang, refusing, lang.say("broker"), lang.say("brokers"))))
            }
        }
    }
}

/// Bytes of the log of each broker set: those of its broker with the lowest id. Logs of slaves are copies.
fn logs(spaces: &[Space]) -> BTreeMap<&str, i64> {
    let mut first: BTreeMap<&str, &Space> = BTreeMap::new();
    for space in spaces {
        let known = first.entry(&space.broker).or_insert(space);
        if space.id < known.id {
            *known = space;
        }
    }
    first.into_iter().map(|(name, space)| (name, space.log_bytes)).collect()
}

fn refuses(space: &Space) -> bool {
    space.refuses.as_deref().is_some_and(|it| it == "true")
}

fn disk(space: &Space) -> Markup {
    html! { @match space.disk_ratio { Some(ratio) => (share(ratio)), None => "–" } }
}

/// A time in hours, which may be very long.
fn hours_text(hours: f64) -> String {
    if hours > 24.0 * 365.0 { "> 365 d".to_owned() } else { duration((hours * 3_600_000.0) as i64) }
}

fn space_table(lang: Lang, spaces: &[Space]) -> Markup {
    let columns = Column::all(
        lang,
        [
            "Broker",
            "State",
            "Disk",
            "#Free",
            "#Commit log",
            "#Oldest message",
            "#Growth per hour",
            "#Full in",
        ],
    );
    let size = |value: Option<f64>| html! { (value.map_or_else(|| "–".to_owned(), |it| bytes(it as i64))) };
    let rows = spaces.iter().map(|space| {
        let state = match refuses(space) {
            true => status(Level::Critical, lang.say("Refuses messages")),
            false if space.id != 0 => status(Level::Ok, lang.say("Copies")),
            false => status(Level::Ok, lang.say("Takes messages")),
        };
        vec![
            space.link(),
            state,
            disk(space),
            size(space.free_bytes),
            html! { (bytes(space.log_bytes)) },
            ago(lang, space.oldest_ms),
            size(space.bytes_per_hour),
            html! { (space.hours_until_full.map_or_else(|| "–".to_owned(), hours_text)) },
        ]
    });
    let advice = lang.say("No broker is known; check that brokers register with the name servers");
    Table::new(columns).rows(rows).or(empty(lang, advice))
}

fn reader_table(lang: Lang, readers: &[(String, crate::lag::Lag)]) -> Markup {
    let columns = Column::all(lang, ["Group", "#Lag in time", "#Messages waiting", "Looked at"]);
    let rows = readers.iter().map(|(group, lag)| {
        let time = html! { (lag_text(lang, &lag.time_behind)) };
        vec![group_link(group), time, html! { (number(lag.messages)) }, ago(lang, lag.at_ms)]
    });
    Table::new(columns).rows(rows).or(html! { p.small { (lang.say("No group is behind")) } })
}

fn damage_table(lang: Lang, runtimes: &[(BrokerRow, Runtime)]) -> Markup {
    let columns = DAMAGE.iter().map(|(_, title)| Column::number(lang.say(title)));
    let columns: Vec<Column> = [Column::text(lang.say("Broker"))].into_iter().chain(columns).collect();
    let rows = runtimes.iter().map(|(row, runtime)| {
        let cells = DAMAGE.iter().map(|(name, _)| match figure(runtime, name) {
            0 if runtime.contains_key(*name) => html! { "0" },
            0 => html! { "–" },
            count => html! { strong.failure { (number(count)) } },
        });
        [broker_cell(&row.broker, row.id, &row.address)].into_iter().chain(cells).collect()
    });
    Table::new(columns).rows(rows).or(html! {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_that_is_not_known_is_not_shown_as_none() {
        let lag = |lag_seconds| {
            let time_behind = admin::Lag { lag_seconds, lag_is_bound: false };
            reader_table(
                Lang::En,
                &[("g".to_owned(), crate::lag::Lag { at_ms: 1, messages: 1, time_behind })],
            )
            .into_string()
        };
        assert!(lag(None).contains(">unknown<") && lag(Some(0)).contains(">0 s<"));
    }

    #[test]
    fn logs_of_slaves_are_not_counted_again() {
        let space = |broker: &str, id, log_bytes: i64| {
            let mut row = BrokerRow::default();
            (row.broker, row.id) = (broker.to_owned(), id);
            let runtime = [("commitLogMaxOffset".to_owned(), log_bytes.to_string())].into();
            Space::of(&row, &runtime, 1000)
        };
        let spaces = [space("a", 1, 90), space("a", 0, 100), space("b", 2, 30), space("b", 1, 40)];
        assert_eq!(logs(&spaces), [("a", 100), ("b", 40)].into());
        let text = cards(Lang::En, &spaces).into_string();
        assert!(text.contains("140 B") && text.contains("2 broker sets"), "{text}");
    }

    #[test]
    fn the_time_until_a_disk_is_full_comes_from_the_growth() {
        let figures = [
            ("commitLogMinOffset", "1073741824"),
            ("commitLogMaxOffset", "11811160064"),
            ("earliestMessageTimeStamp", "1000"),
            ("commitLogDirCapacity", "Total : 1.0 TiB, Free : 0.5 TiB."),
            ("damagedMessages", "7"),
        ];
        let runtime: Runtime = figures.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut slave = BrokerRow::default();
        (slave.broker, slave.id, slave.address) = ("a".to_owned(), 1, "h:2".to_owned());
        let space = Space::of(&slave, &runtime, 1000 + 5 * 3_600_000);
        assert_eq!((space.log_bytes, space.hours_until_full), (10 << 30, Some(256.0)));
        let text = space_table(Lang::En, &[space]).into_string();
        assert!(
            text.contains(">2.0 GiB<") && text.contains(">10 d 16 h<") && text.contains(">512 GiB<"),
            "{text}"
        );
        assert!(text.contains("h:2") && text.contains(">Copies<"), "{text}");
        let empty = Space::of(&slave, &Runtime::new(), 1000);
        assert!(empty.hours_until_full.is_none() && empty.oldest_ms == 0);
        assert_eq!((free_bytes("Free : 512.0 MiB."), free_bytes("?")), (Some(536_870_912.0), None));
        let damage = damage_table(Lang::En, &[(slave, runtime)]).into_string();
        assert!(
            damage.contains("<strong class=\"failure\">7</strong>") && damage.contains(">–<"),
            "{damage}"
        );
        for (_, title) in DAMAGE {
            assert!(!Lang::Zh.say(title).is_ascii(), "{title}");
        }
    }
}
