//! The settings of a broker: first the settings that differ from the default, then groups, with description, default
//! and source of each value.

use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Column, Page, Table, bytes, duration, empty, field, operation_link};
use crate::words::Lang;
use admin::{Setting, Settings};
use maud::{Markup, html};
use serde_json::json;
use std::collections::BTreeMap;

/// Groups of settings: title, and beginnings of the names.
const GROUPS: [(&str, &str); 8] = [
    (
        "Storage",
        "store mappedFile mapperFile flush syncF fileReserved delete disk clean commitLog maxHash \
         maxIndex messageIndex readOnly unconsumed accessMessage enabledAppend",
    ),
    (
        "Replication",
        "ha slave controller sync replicas minInSync inSync brokerRole brokerId brokerElection \
         brokerHeartbeat brokerNotActive asyncLearner allAck enableController enableSlave \
         enableAutoInSync checkSync skipPreOnline maxHa totalReplicas",
    ),
    ("Delays and transactions", "timer messageDelay transaction recall allowRecall appendTopic reject"),
    (
        "Consumers",
        "pop long short lite revive initPop maxTransfer maxPop notifyConsumer retrieve skipWhen \
         useServerSide defaultMessage defaultPop defaultQuery enablePop enableRetry enableLmq maxLmq \
         maxLite minLite maxClientEvent enableMulti enableProperty priority serverLoad autoCreateSubscription",
    ),
    (
        "Topics and messages",
        "autoCreateTopic defaultTopic maxMessage brokerPermission maxFilter maxMsgs msgTrace trace",
    ),
    (
        "Network",
        "listen bind brokerIP connection tls namesrv register forceRegister enableSplit splitReg \
         enableSingle proxyProtocol brokerCluster brokerName region",
    ),
    ("Users and acls", "auth acl initAuth innerClient migrateAuth"),
    ("Metrics", "metric"),
];
/// Group of all other settings.
const OTHER: &str = "Other settings";

/// Documentation of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    default: &'static str,
    effect: &'static str,
    text: &'static str,
}

/// The settings that have an effect in Vostok, from the table of `docs/settings.md`.
fn catalogue(lang: Lang) -> BTreeMap<&'static str, Entry> {
    let page = match lang {
        Lang::En => include_str!("../../../../docs/settings.md"),
        Lang::Zh => include_str!("../../../../docs/settings.zh-CN.md"),
    };
    let row = |line: &'static str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
        let mut cells = rest.trim_end().trim_end_matches('|').splitn(3, " |").map(str::trim);
        let (default, effect, text) = (cells.next()?, cells.next()?, cells.next()?);
        Some((name, Entry { default: default.trim_matches('`'), effect, text }))
    };
    page.lines().filter_map(row).collect()
}

/// Defaults of RocketMQ by name; `*` where the machine decides.
fn defaults_of_java() -> BTreeMap<&'static str, &'static str> {
    wire::defaults::BROKER.lines().filter_map(|line| line.split_once('=')).collect()
}

/// A setting of a broker with all that is known of it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    key: String,
    value: String,
    /// Absent if the machine decides, or the default is not known.
    default: Option<&'static str>,
    source: Option<String>,
    /// Value that counts after the next start only.
    is_planned: bool,
    entry: Option<Entry>,
    /// Whether the setting has an effect.
    has_effect: bool,
}

impl Item {
    /// Name of the setting.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Present value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// A large value in a larger unit, if the value is a number of bytes or milliseconds.
    fn with_unit(&self) -> Option<String> {
        let count: i64 = self.value.parse().ok()?;
        let is_in =
            |units: [&str; 2]| units.iter().any(|unit| self.entry.is_some_and(|it| it.text.contains(unit)));
        match count {
            10_000.. if is_in(["bytes", "字节"]) => Some(bytes(count)),
            10_000.. if is_in(["milliseconds", "毫秒"]) => Some(duration(count)),
            _ => None,
        }
    }

    /// Whether the value is not the default.
    pub fn is_changed(&self) -> bool {
        match self.default {
            Some(default) => default != self.value && self.has_effect,
            None => self.source.as_deref().is_some_and(|source| source != "default") && self.has_effect,
        }
    }
}

/// The settings that a broker reported. A broker of Vostok reports the source of each value. For other brokers, values
/// are compared with RocketMQ's defaults.
pub(super) fn items(lang: Lang, settings: &[Setting]) -> Vec<Item> {
    let (catalogue, java) = (catalogue(lang), defaults_of_java());
    let is_vostok = settings.iter().any(|row| row.source.is_some());
    let item = |row: &Setting| {
        let entry = catalogue.get(row.key.as_str()).copied();
        let of_java = java.get(row.key.as_str()).copied();
        let default = if is_vostok { entry.map(|it| it.default).or(of_java) } else { of_java };
        // A default in parentheses is a description.
        let default = default.filter(|text| *text != "*" && !text.starts_with(['(', '（']));
        Item {
            key: row.key.clone(),
            value: row.value.clone(),
            default,
            source: row.source.clone(),
            is_planned: row.counts.is_some(),
            entry,
            has_effect: !is_vostok || entry.is_some(),
        }
    };
    settings.iter().filter(|row| row.key != wire::settings::AFTER_RESTART).map(item).collect()
}

/// The title of the group of a setting.
fn group_of(key: &str) -> &'static str {
    let is_in = |begins: &str| begins.split(' ').any(|begin| key.starts_with(begin));
    GROUPS.iter().find(|(_, begins)| is_in(begins)).map_or(OTHER, |(title, _)| title)
}

/// The page of a broker's settings.
pub(super) async fn settings(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let settings = app.typed::<Settings>(who, ("broker", "config"), &[("broker", name)], 2000).await?;
    let wanted = fields.text("q").to_lowercase();
    let has_text = |item: &Item| {
        let text = item.entry.map_or("", |entry| entry.text);
        [item.key.as_str(), text, item.value.as_str()].iter().any(|it| it.to_lowercase().contains(&wanted))
    };
    let found: Vec<Item> = items(lang, &settings.rows).into_iter().filter(has_text).collect();
    let changed: Vec<Item> = found.iter().filter(|item| item.is_changed()).cloned().collect();
    let without_effect: Vec<Item> = found.iter().filter(|item| !item.has_effect).cloned().collect();
    let titles = GROUPS.iter().map(|(title, _)| *title).chain([OTHER]);
    let groups: Vec<(&str, Vec<Item>)> = titles
        .map(|title| {
            (title, found.iter().filter(|it| it.has_effect && group_of(&it.key) == title).cloned().collect())
        })
        .filter(|(_, items): &(_, Vec<Item>)| !items.is_empty())
        .collect();
    let body = html! {
        p { a href=(format!("/broker{}", query([("name", name)]))) { "← " (lang.say("Broker")) " " (name) } }
        form.row method="get" action="/settings" role="search" {
            input type="hidden" name="name" value=(name);
            (field(lang.say("Name, value or meaning"), "q", fields.text("q")))
            button { (lang.say("Search")) }
        }
        nav.tabs aria-label=(lang.say("Settings")) { @for (title, _) in &groups {
            a href=(format!("#{}", anchor(title))) { (lang.say(title)) }
        } }
        @if settings.rows.iter().all(|row| row.source.is_none()) {
            p.small { (lang.say("The broker does not tell the sources of its values; the defaults are those of RocketMQ 5.5.0")) }
        }
        @if found.is_empty() { (empty(lang, lang.say("No setting has this in its name, value or meaning; search for another word"))) }
        @if !changed.is_empty() { h2 { (lang.say("Changed from the default")) } (table(who, name, &changed)) }
        @for (title, items) in &groups {
            h2 id=(anchor(title)) { (lang.say(title)) }
            (table(who, name, items))
        }
        @if !without_effect.is_empty() {
            details open[!wanted.is_empty()] {
                summary { (lang.say("Settings of RocketMQ without effect in Vostok")) " (" (without_effect.len()) ")" }
                dl { @for item in &without_effect { dt { code { (item.key) } } dd { (item.value) } } }
            }
        }
    };
    Ok(Page::new(format!("{}{}{name}", lang.say("Settings"), lang.colon()), json!(*settings), body))
}

fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

/// Settings with a link to the form that changes each.
pub(super) fn table(who: &Visitor, broker: &str, items: &[Item]) -> Markup {
    let lang = who.lang;
    let columns = ["Setting", "Value", "Default", "Source", "Takes effect", "Change"];
    let columns = columns.map(|title| Column::text(lang.say(title)));
    let rows = items.iter().map(|item| {
        // A form with the words that stand for a secret would make them the secret.
        let value = if admin::is_hidden(&item.value) { "" } else { &item.value };
        let given = [("broker", broker), ("key", &item.key), ("value", value)];
        vec![
            html! { code.name { (item.key) } @if let Some(entry) = item.entry { p.small { (entry.text.replace('`', "")) } } },
            html! {
                @if item.is_changed() { strong { (item.value) } } @else { (item.value) }
                @if let Some(text) = item.with_unit() { p.small { (text) } }
                @if item.is_planned { p.small { (lang.say("counts after the next start")) } }
            },
            html! { (item.default.unwrap_or("–")) },
            html! { (source(lang, item.source.as_deref())) },
            html! { (item.entry.map_or("–", |entry| entry.effect)) },
            operation_link(who, lang.say("Change"), ("broker", "set"), &given),
        ]
    });
    html! { div.settings { (Table::new(columns).rows(rows).or(html! {})) } }
}

/// The source of a value in words.
fn source(lang: Lang, source: Option<&str>) -> &str {
    match source {
        Some("default") => lang.say("default"),
        Some("file") => lang.say("configuration file"),
        Some("command-line") => lang.say("command line"),
        Some("environment") => lang.say("environment"),
        Some("run-time") => lang.say("changed at run time"),
        Some(other) => other,
        None => "–",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Role;

    fn setting(key: &str, value: &str, source: Option<&str>) -> Setting {
        let [server, key, value] = ["h:1", key, value].map(str::to_owned);
        Setting { server, key, value, counts: None, source: source.map(str::to_owned) }
    }

    #[test]
    fn every_setting_of_the_documentation_is_known_in_both_languages() {
        let (english, chinese) = (catalogue(Lang::En), catalogue(Lang::Zh));
        assert!(
            english.len() > 150 && english.keys().eq(chinese.keys()),
            "{} {}",
            english.len(),
            chinese.len()
        );
        let known = english["fileReservedTime"];
        assert_eq!((known.default, known.effect), ("72", "at once"));
        assert!(!chinese["fileReservedTime"].text.is_ascii());
        for (title, _) in GROUPS {
            assert!(english.keys().any(|key| group_of(key) == title), "{title}");
        }
        for key in ["maxLiteSubscriptionCount", "minLiteTTl", "maxClientEventCount", "liteTtlCheckInterval"] {
            assert_eq!(group_of(key), "Consumers", "{key}");
        }
        let others = english.keys().filter(|key| group_of(key) == OTHER).count();
        assert!(others * 20 < english.len(), "{others}");
        for source in ["default", "file", "command-line", "environment", "run-time"] {
            assert!(!super::source(Lang::Zh, Some(source)).is_ascii(), "{source}");
        }
    }

    #[test]
    fn what_is_changed_is_told_from_defaults() {
        let rows = [
            setting("fileReservedTime", "24", Some("run-time")),
            setting("deleteWhen", "04", Some("default")),
            setting("brokerName", "vm", Some("default")),
            setting("sendMessageThreadPoolNums", "99", Some("file")),
            setting("countsAfterRestart", "x", None),
        ];
        let items = items(Lang::En, &rows);
        let changed: Vec<&str> =
            items.iter().filter(|it| it.is_changed()).map(|it| it.key.as_str()).collect();
        assert_eq!(
            (items.len(), changed),
            (4, vec!["fileReservedTime"]),
            "a setting without effect is not of interest"
        );
        let text = table(&Visitor::of_test(Role::Admin), "a", &items).into_string();
        for part in [
            "changed at run time",
            "/op/broker/set?broker=a&amp;key=fileReservedTime&amp;value=24",
            "<strong>24</strong>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn numbers_of_bytes_and_milliseconds_have_larger_units() {
        let rows = [
            ("mappedFileSizeCommitLog", "1073741824"),
            ("transactionTimeOut", "60000"),
            ("listenPort", "10911"),
        ];
        let rows = rows.map(|(key, value)| setting(key, value, Some("file")));
        for lang in [Lang::En, Lang::Zh] {
            let found: Vec<_> = items(lang, &rows).iter().map(Item::with_unit).collect();
            assert_eq!(found, [Some("1.0 GiB".to_owned()), Some("1 min".to_owned()), None]);
        }
    }

    #[test]
    fn the_words_for_a_secret_do_not_become_the_secret() {
        let row = setting("tls.server.keyPassword", "planted", Some("file"));
        let hidden = admin::without_secrets([(row.key.clone(), row.value.clone())].into());
        let rows = [Setting { value: hidden[&row.key].clone(), ..row }];
        let text = table(&Visitor::of_test(Role::Admin), "a", &items(Lang::En, &rows)).into_string();
        assert!(
            text.contains("/op/broker/set?broker=a&amp;key=tls.server.keyPassword&amp;value=\""),
            "{text}"
        );
        assert!(!text.contains("planted") && !text.contains("value=%28set"), "{text}");
    }

    #[test]
    fn the_defaults_of_rocketmq_count_for_its_brokers() {
        let rows = [setting("fileReservedTime", "72", None), setting("maxMessageSize", "99", None)];
        let items = items(Lang::En, &rows);
        let changed: Vec<&str> =
            items.iter().filter(|it| it.is_changed()).map(|it| it.key.as_str()).collect();
        assert_eq!(changed.last(), Some(&"maxMessageSize"), "{items:?}");
        assert_eq!(source(Lang::En, None), "–");
    }
}
