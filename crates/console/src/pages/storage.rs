//! Storage: how full the disks are and when they will be, what holds old messages, damage.

use super::runtime::{Runtime, number, runtimes, shown_failures};
use crate::answers::{now_ms, rows};
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::{Page, columns_table, operation_link, table, taken};
use crate::words::Lang;
use maud::html;
use serde_json::{Value, json};

/// Groups that are shown as those who read the oldest messages.
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
/// Runtime figures that are 0 on a broker that is well.
const DAMAGE: [&str; 6] = [
    "damagedMessages",
    "lostQueues",
    "dispatchBehindBytes",
    "rebuildLeftBytes",
    "refusedDiskFull",
    "refusedFenced",
];

/// Storage of all masters.
pub(super) async fn storage(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let (runtimes, mut failures) = runtimes(app, who).await?;
    let (mut kept, mut retention) = (Vec::new(), Vec::new());
    for (broker, runtime) in &runtimes {
        kept.push(row(broker, runtime, now_ms()));
        match app.look(who, ("broker", "config"), &[("broker", broker)], 30_000).await {
            Ok(settings) => retention.extend(
                rows(&settings)
                    .iter()
                    .filter(|row| row["key"].as_str().is_some_and(|key| RETENTION.contains(&key)))
                    .map(|row| json!({"broker": broker, "setting": row["key"], "value": row["value"]})),
            ),
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    // Asked for once a minute, because the progress of all groups can be long.
    let readers = app.lags.oldest_readers(READERS).into_iter();
    let readers: Vec<Value> = readers
        .map(|(group, lag)| json!({"group": group, "diff": lag.messages, "lag_seconds": lag.time_behind.lag_seconds, "time": admin::time(lag.at_ms)}))
        .collect();
    // The data says null where the lag is not known, whatever the language.
    let shown_readers: Vec<Value> = readers.iter().map(|row| shown_reader(lang, row)).collect();
    let damage = runtimes.iter().map(|(broker, runtime)| {
        let figures = DAMAGE.iter().map(|name| ((*name).to_owned(), runtime.get(*name).cloned().into()));
        let broker = [("broker".to_owned(), Value::from(broker.as_str()))];
        Value::Object(broker.into_iter().chain(figures).collect())
    });
    let damage: Vec<Value> = damage.collect();
    let columns = [
        "broker",
        "log_gib",
        "oldest_message",
        "gib_per_hour",
        "free_gib",
        "disk_ratio",
        "hours_until_full",
        "refuses",
    ];
    let body = html! {
        (taken(lang))
        (shown_failures(&failures))
        h2 { (lang.say("Space")) }
        (columns_table(lang, &kept, &columns))
        p.small { (lang.say("The growth is the mean since the oldest message; a log that only turns over is never full")) }
        h2 { (lang.say("What decides how long messages stay")) }
        div.actions {
            (operation_link(who, lang.say("Change a setting"), ("broker", "set"), &[("key", "fileReservedTime")]))
            (operation_link(who, lang.say("Delete expired files now"), ("broker", "clean-log"), &[]))
        }
        (table(lang, &retention))
        h2 { (lang.say("Who reads the oldest messages")) }
        p.small { (lang.say("Brokers of RocketMQ, and of Vostok with unconsumedDataPolicy=DROP, do not wait for them: what expires before they read it is lost to them")) }
        (columns_table(lang, &shown_readers, &["group", "diff", "lag_seconds", "time"]))
        h2 { (lang.say("Damage and arrears")) }
        (table(lang, &damage))
    };
    let data = json!({"space": kept, "retention": retention, "readers": readers, "damage": damage, "failures": failures});
    Ok(Page::new(lang.say("Storage"), data, body))
}

/// A group as the page shows it, with a word for a lag that is not known.
fn shown_reader(lang: Lang, reader: &Value) -> Value {
    let mut shown = reader.clone();
    if shown["lag_seconds"].is_null() {
        shown["lag_seconds"] = lang.say("unknown").into();
    }
    shown
}

const GIB: f64 = (1_u64 << 30) as f64;

/// The space of a broker. Without messages there is no growth.
fn row(broker: &str, runtime: &Runtime, now_ms: i64) -> Value {
    let bytes = number(runtime, "commitLogMaxOffset") - number(runtime, "commitLogMinOffset");
    let oldest_ms = number(runtime, "earliestMessageTimeStamp");
    let hours = (now_ms - oldest_ms) as f64 / 3_600_000.0;
    let per_hour = (oldest_ms > 0 && hours > 0.01).then(|| bytes as f64 / GIB / hours);
    let free = runtime.get("commitLogDirCapacity").and_then(|text| free_gib(text));
    let full = per_hour.zip(free).and_then(|(rate, free)| (rate > 0.0).then(|| free / rate));
    json!({
        "broker": broker,
        "log_gib": bytes as f64 / GIB,
        "oldest_message": if oldest_ms > 0 { admin::time(oldest_ms) } else { String::new() },
        "gib_per_hour": per_hour,
        "free_gib": free,
        "disk_ratio": runtime.get("commitLogDiskRatio").and_then(|text| text.parse::<f64>().ok()),
        "hours_until_full": full,
        "refuses": runtime.get("sendsRefusedForSpace"),
    })
}

/// The free space of `Total : 252.0 GiB, Free : 39.6 GiB.` (`BrokerController.getDiskSpace`).
fn free_gib(text: &str) -> Option<f64> {
    let (number, unit) = text.split("Free : ").nth(1)?.trim_end_matches('.').split_once(' ')?;
    let factor = match unit {
        "B" => 1.0 / GIB,
        "KiB" => 1.0 / (1 << 20) as f64,
        "MiB" => 1.0 / 1024.0,
        "GiB" => 1.0,
        "TiB" => 1024.0,
        "PiB" => 1024.0 * 1024.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_that_is_not_known_is_not_shown_as_none() {
        let shown = |seconds: Option<i64>| {
            shown_reader(Lang::En, &json!({"group": "g", "lag_seconds": seconds}))["lag_seconds"].clone()
        };
        assert_eq!((shown(None), shown(Some(0))), (json!("unknown"), json!(0)));
    }

    #[test]
    fn the_time_until_a_disk_is_full_comes_from_the_growth() {
        let figures = [
            ("commitLogMinOffset", "1073741824"),
            ("commitLogMaxOffset", "11811160064"),
            ("earliestMessageTimeStamp", "1000"),
            ("commitLogDirCapacity", "Total : 1.0 TiB, Free : 0.5 TiB."),
        ];
        let runtime: Runtime = figures.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let row = row("a", &runtime, 1000 + 5 * 3_600_000);
        assert_eq!(
            (&row["log_gib"], &row["gib_per_hour"], &row["hours_until_full"]),
            (&json!(10.0), &json!(2.0), &json!(256.0))
        );
        let empty = super::row("a", &Runtime::new(), 1000);
        assert!(empty["hours_until_full"].is_null() && empty["oldest_message"] == "");
        assert_eq!((free_gib("Free : 512.0 MiB."), free_gib("?")), (Some(0.5), None));
    }
}
