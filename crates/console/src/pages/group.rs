//! Page of a consumer group: why the group lags, its queues with their owners, its members and where their time goes.

use super::charts::charts;
use super::runtime::shown_failures;
use crate::answers::now_ms;
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{
    Column, Page, Table, card, cell_text, decimal, duration, empty, number, operation_link, status,
    topic_link, version,
};
use crate::words::Lang;
use admin::{CauseKind, Consumers, GroupLag, GroupSetting, LagCause, LagMember, LagQueue, Level, QueueState};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most queues that are shown.
const QUEUES_MAX: usize = 200;
/// Time after which the page is fetched again, ms.
const LIVE_MS: u32 = 5000;

/// Arguments of `group create` by the settings of a group that they set.
const SETTINGS: [(&str, &str); 12] = [
    ("consumeEnable", "enable"),
    ("consumeFromMinEnable", "from-min"),
    ("consumeBroadcastEnable", "broadcast"),
    ("consumeMessageOrderly", "orderly"),
    ("retryQueueNums", "retry-queues"),
    ("retryMaxTimes", "retry-max"),
    ("groupRetryPolicy", "retry-policy"),
    ("brokerId", "broker-id"),
    ("whichBrokerWhenConsumeSlowly", "slow-broker-id"),
    ("notifyConsumerIdsChangedEnable", "notify"),
    ("groupSysFlag", "sys-flag"),
    ("consumeTimeoutMinute", "consume-timeout"),
];

/// The settings of a group on the first broker that reports them, as arguments of the operation that changes them. The
/// operation replaces all settings, so a setting that its form leaves out becomes the default.
fn values(settings: &[GroupSetting]) -> Vec<(&'static str, String)> {
    let Some(first) = settings.first() else { return Vec::new() };
    let of_broker = |row: &&GroupSetting| row.cluster == first.cluster && row.broker == first.broker;
    let value = |row: &GroupSetting| match &row.value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let found = settings.iter().filter(of_broker).filter_map(|row| {
        let (_, argument) = SETTINGS.iter().find(|(key, _)| row.key == *key)?;
        Some((*argument, value(row)?))
    });
    found.collect()
}

/// Page of a group: why the group lags, its queues, members, subscriptions and settings.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("group", name)];
    let lag = app.typed::<GroupLag>(who, ("group", "lag"), &given, 1000).await;
    let members = app.typed::<Consumers>(who, ("client", "consumers"), &given, 1000).await;
    let settings = app.typed::<Vec<GroupSetting>>(who, ("group", "config"), &given, 5000).await;
    if let (Err(refusal), Err(_)) = (&lag, &members)
        && settings.as_ref().is_ok_and(|settings| settings.is_empty())
    {
        return Err(Refusal::missing(&*refusal.text));
    }
    let data = json!({"progress": lag.as_deref().ok(), "members": members.as_deref().ok(), "settings": settings.as_deref().ok()});
    let known = settings.as_ref().map_or(&[][..], |settings| settings);
    let body = html! {
        (actions(who, name, lag.as_deref().ok(), known))
        @match &lag {
            Ok(lag) => (lag_parts(app, lang, lag)),
            Err(refusal) => (empty(lang, &refusal.text)),
        }
        (charts(app, lang, (Kind::Group, name)))
        (subscribed(lang, &members))
        h2 { (lang.say("Settings")) }
        @match &settings {
            Ok(_) => (settings_table(lang, known)),
            Err(refusal) => p { (refusal.text) },
        }
    };
    Ok(Page::new(format!("{}{}{name}", lang.say("Group"), lang.colon()), data, body).live(LIVE_MS))
}

/// Links to the operations on a group.
fn actions(who: &Visitor, name: &str, lag: Option<&GroupLag>, known: &[GroupSetting]) -> Markup {
    let lang = who.lang;
    let topics = lag.into_iter().flat_map(|lag| &lag.topics);
    let topic = topics.map(|row| row.topic.as_str()).next().unwrap_or_default();
    let offsets = [("group", name), ("topic", topic)];
    let cluster = known.first().map(|row| row.cluster.as_str()).unwrap_or_default();
    let group = [("group", name), ("cluster", cluster)];
    html! {
        div.actions {
            (operation_link(who, lang.say("Reset offsets"), ("offset", "reset"), &offsets))
            (operation_link(who, lang.say("Skip messages"), ("offset", "skip"), &offsets))
            (operation_link(who, lang.say("Clone offsets"), ("offset", "clone"), &[("source", name), ("topic", topic)]))
            a.button href=(format!("/dlq{}", query([("group", name)]))) { (lang.say("Dead letters")) }
            (change_link(who, &group, known))
            (operation_link(who, lang.say("Delete the group"), ("group", "delete"), &group))
        }
    }
}

/// An age of messages; `≤` before an age that may be smaller.
fn age(lang: Lang, lag: &admin::Lag) -> String {
    match lag.lag_seconds {
        None => lang.say("unknown").to_owned(),
        Some(0) => "0 s".to_owned(),
        Some(seconds) => {
            format!("{}{}", if lag.lag_is_bound { "≤ " } else { "" }, duration(seconds.saturating_mul(1000)))
        }
    }
}

fn lag_parts(app: &App, lang: Lang, lag: &GroupLag) -> Markup {
    let rates = app.offsets.rates(now_ms(), &lag.group, &lag.queues);
    let members: std::collections::BTreeSet<&str> =
        lag.members.iter().map(|row| row.client_id.as_str()).collect();
    let stored: f64 = lag.topics.iter().map(|topic| topic.in_tps).sum();
    html! {
        (shown_failures(&lag.failures))
        div.cards {
            (card(lang.say("Messages left"), number(lag.diff_total), format!("{}{}{}", lang.say("Queues"), lang.colon(), number(lag.queues.len() as i64))))
            (card(lang.say("Lag in time"), age(lang, &lag.lag), lang.say("age of the first message that is not consumed")))
            (card(lang.say("Consumed per second"), decimal(lag.consume_tps), format!("{}{}{}", lang.say("stored per second"), lang.colon(), decimal(stored))))
            (card(lang.say("Members"), number(members.len() as i64), ""))
        }
        h2 { (lang.say("Why it lags")) }
        (causes(lang, lag))
        h2 { (lang.say("Queues")) }
        (queues(lang, &lag.group, &lag.queues, &rates))
        @if lag.queues.len() > QUEUES_MAX { p.small { (QUEUES_MAX) " / " (lag.queues.len()) } }
        h2 { (lang.say("Where the time of members goes")) }
        (times(lang, &lag.group, &lag.members))
    }
}

fn causes(lang: Lang, lag: &GroupLag) -> Markup {
    html! {
        @if lag.diff_total == 0 { p { (status(Level::Ok, lang.say("Everything is consumed"))) } }
        @else if lag.causes.is_empty() { p { (status(Level::Ok, lang.say("Consuming"))) " " (lang.say("The members pull and consume; nothing stands still.")) } }
        ul.findings { @for cause in &lag.causes {
            @let (level, title, advice) = words(lang, cause.cause);
            li.(if level == Level::Critical { "critical" } else { "warning" }) {
                p { (status(level, title)) " " (figure(lang, cause)) }
                p { (advice) }
            }
        } }
    }
}

/// Level, name and remedy of a reason for lag.
fn words(lang: Lang, cause: CauseKind) -> (Level, &'static str, &'static str) {
    let critical = |title, advice| (Level::Critical, say(lang, title), say(lang, advice));
    let warning = |title, advice| (Level::Warning, say(lang, title), say(lang, advice));
    match cause {
        CauseKind::Disabled => {
            critical("The group may not consume", "Its setting consumeEnable is false: change the group.")
        }
        CauseKind::Offline => critical(
            "No member is online",
            "Start a consumer of the group, and look at its log if it does not come.",
        ),
        CauseKind::DifferentSubscriptions => critical(
            "Members subscribe to different topics or tags",
            "Give all members of the group the same subscription; until then messages are lost to members or wait.",
        ),
        CauseKind::NoOwner => critical(
            "Queues without an owner",
            "No member has these queues: wait for the next rebalance (20 s), then restart the member that should have them.",
        ),
        CauseKind::NotLocked => warning(
            "Ordered queues are not locked",
            "The owner waits for the lock of the broker; another member may still hold it for up to a minute.",
        ),
        CauseKind::ListenerStands => critical(
            "The listener stands still",
            "Owners hold messages and have given none to the listener for a minute: compare two thread dumps of the member.",
        ),
        CauseKind::NotPulled => warning(
            "Queues are not pulled",
            "The owner has not pulled for a minute: it may be paused or cannot reach the broker.",
        ),
        CauseKind::ListenerFails => warning(
            "The listener fails",
            "Messages fail and are tried again later: look at the log of the member, and at the dead letters.",
        ),
        CauseKind::Full => warning(
            "The listener is slower than the messages come",
            "Owners hold as many messages as they may and wait: more threads, a faster listener, or more members up to the number of queues.",
        ),
        CauseKind::MoreStored => warning(
            "More is stored than consumed",
            "The lag grows: more members up to the number of queues, more threads, or a faster listener.",
        ),
        CauseKind::Silent => warning(
            "Members do not answer",
            "What they have and do is not known; clients of gRPC and old clients answer no such question.",
        ),
    }
}

/// The text of a reason in a language; the texts are constants.
fn say(lang: Lang, text: &'static str) -> &'static str {
    lang.say(text)
}

fn figure(lang: Lang, cause: &LagCause) -> String {
    let LagCause { count, of, .. } = cause;
    match cause.cause {
        CauseKind::Disabled | CauseKind::Offline => String::new(),
        CauseKind::MoreStored => {
            format!(
                "{} {} · {} {}",
                decimal(*count),
                lang.say("stored per second"),
                decimal(*of),
                lang.say("consumed per second")
            )
        }
        CauseKind::ListenerFails => {
            format!("{} / {} {}", decimal(*count), decimal(*of), lang.say("messages per second"))
        }
        CauseKind::DifferentSubscriptions => format!("{count:.0} {}", lang.say("different subscriptions")),
        CauseKind::Silent => format!("{count:.0} / {of:.0} {}", lang.say("members")),
        _ => format!("{count:.0} / {of:.0} {}", lang.say("queues")),
    }
}

fn state(lang: Lang, state: QueueState) -> Markup {
    match state {
        QueueState::Consumed => status(Level::Ok, lang.say("all consumed")),
        QueueState::Consuming => status(Level::Ok, lang.say("consuming")),
        QueueState::NoOwner => status(Level::Critical, lang.say("no owner")),
        QueueState::OwnerUnknown => status(Level::Unknown, lang.say("owner unknown")),
        QueueState::NotLocked => status(Level::Warning, lang.say("not locked")),
        QueueState::NotPulled => status(Level::Warning, lang.say("not pulled")),
        QueueState::ListenerStands => status(Level::Critical, lang.say("listener stands still")),
        QueueState::Full => status(Level::Warning, lang.say("waits for the listener")),
    }
}

fn queues(lang: Lang, group: &str, queues: &[LagQueue], rates: &[Option<f64>]) -> Markup {
    let columns = Column::all(
        lang,
        [
            "Queue",
            "State",
            "Owner",
            "#Messages left",
            "#Lag in time",
            "#Consumed per second",
            "#Offset / end",
            "#Held by the owner",
            "Last pull, last call of the listener",
        ],
    );
    let time =
        |text: &str| admin::parse_time(text).map_or_else(|| html! { "–" }, |ms| crate::view::ago(lang, ms));
    let rows = queues.iter().zip(rates).take(QUEUES_MAX).map(|(row, rate)| {
        vec![
            html! { (topic_link(&row.topic)) " " span.small { (row.broker) " / " (row.queue) } },
            state(lang, row.state),
            owner(lang, group, row),
            html! { (number(row.diff)) },
            html! { (age(lang, &row.lag)) },
            html! { (rate.map_or_else(|| "–".to_owned(), decimal)) },
            html! { (number(row.consumer_offset)) " / " (number(row.broker_offset)) },
            html! { (row.held.map_or_else(|| "–".to_owned(), number)) },
            html! { (time(&row.last_pull)) ", " (time(&row.last_consume)) },
        ]
    });
    Table::new(columns)
        .rows(rows)
        .or(empty(lang, lang.say("The group has no offsets; it has consumed nothing yet")))
}

fn owner(lang: Lang, group: &str, row: &LagQueue) -> Markup {
    html! {
        @match &row.owner.client_id {
            Some(id) => {
                a href=(format!("/client{}", query([("group", group), ("id", id)]))) { (id) }
                @if let Some(clients) = row.owner.clients { " + " (clients - 1) }
                @if row.locked == Some(true) { " · " (lang.say("locked")) }
            },
            None if row.owner.owner_unknown => (lang.say("unknown")),
            None => (lang.say("nobody")),
        }
    }
}

fn times(lang: Lang, group: &str, members: &[LagMember]) -> Markup {
    let columns = Column::all(
        lang,
        [
            "Member",
            "Topic",
            "#Call of the listener",
            "#Pull",
            "#Threads",
            "#Consumed per second",
            "#Failed per second",
            "#Failed in the last hour",
        ],
    );
    let ms = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |ms| format!("{} ms", decimal(ms)));
    let rate = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), decimal);
    let failed =
        |text: String, is_bad: bool| html! { @if is_bad { span.failure { (text) } } @else { (text) } };
    let rows = members.iter().map(|row| {
        vec![
            html! { a href=(format!("/client{}", query([("group", group), ("id", &row.client_id)]))) { (row.client_id) } " " span.small { (row.language) " " (version(&row.version)) " · " (row.address) } },
            html! { @if row.answered { (row.topic) } @else { (status(Level::Warning, lang.say("does not answer"))) } },
            html! { (ms(row.listener_ms)) },
            html! { (ms(row.pull_ms)) },
            html! { (row.threads.map_or_else(|| "–".to_owned(), number)) },
            html! { (rate(row.ok_tps)) },
            failed(rate(row.failed_tps), row.failed_tps.is_some_and(|tps| tps > 0.0)),
            failed(row.failed_hour.map_or_else(|| "–".to_owned(), number), row.failed_hour.is_some_and(|count| count > 0)),
        ]
    });
    Table::new(columns).rows(rows).or(empty(lang, lang.say("No member is online")))
}

/// Model and subscriptions of a group; empty while no member is online.
fn subscribed(lang: Lang, members: &Result<Arc<Consumers>, Refusal>) -> Markup {
    let Ok(members) = members else { return html! {} };
    let columns = Column::all(lang, ["Topic", "Expression"]);
    let rows = members
        .subscriptions
        .iter()
        .map(|row| vec![topic_link(&row.topic), html! { code { (row.expression) } }]);
    html! {
        h2 { (lang.say("Subscriptions")) }
        p.small { (members.message_model) " · " (members.consume_type) " · " (members.consume_from_where) }
        (Table::new(columns).rows(rows).or(html! {}))
    }
}

/// The settings with their own names, a row for each value; brokers are named where their values differ.
fn settings_table(lang: Lang, known: &[GroupSetting]) -> Markup {
    let mut values: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    for row in known {
        values.entry(&row.key).or_default().push((&row.broker, cell_text(&row.value)));
    }
    let columns = Column::all(lang, ["Setting", "Value"]);
    let rows = values.into_iter().map(|(key, values)| {
        let is_same = values.iter().all(|(_, value)| *value == values[0].1);
        let shown = html! {
            @if is_same { (values[0].1) }
            @else { @for (broker, value) in &values { (broker) ": " (value) " " } (status(Level::Warning, lang.say("differs"))) }
        };
        vec![html! { code { (key) } }, shown]
    });
    html! { details { summary { (lang.say("Show the settings")) } (Table::new(columns).rows(rows)) } }
}

/// A link to the form that replaces the settings of a group; none while the settings are not known, because an empty form would
/// replace them by the defaults. All masters of the cluster are changed: members do not notice which of them has other settings.
fn change_link(who: &Visitor, group: &[(&str, &str)], known: &[GroupSetting]) -> Markup {
    let values = values(known);
    let values = values.iter().map(|(name, value)| (*name, value.as_str()));
    let changed: Vec<(&str, &str)> = group.iter().copied().chain(values).collect();
    html! {
        @if changed.len() > group.len() { (operation_link(who, who.lang.say("Change the group"), ("group", "create"), &changed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Role;

    #[test]
    fn every_reason_for_lag_has_words_in_both_languages() {
        let kinds = [
            CauseKind::Disabled,
            CauseKind::Offline,
            CauseKind::DifferentSubscriptions,
            CauseKind::NoOwner,
            CauseKind::NotLocked,
            CauseKind::ListenerStands,
            CauseKind::NotPulled,
            CauseKind::ListenerFails,
            CauseKind::Full,
            CauseKind::MoreStored,
            CauseKind::Silent,
        ];
        for kind in kinds {
            let (_, title, advice) = words(Lang::Zh, kind);
            assert!(!title.is_ascii() && !advice.is_ascii(), "{kind:?}: {title} {advice}");
        }
    }

    fn setting(broker: &str, key: &str, value: Value) -> GroupSetting {
        GroupSetting { cluster: "C".to_owned(), broker: broker.to_owned(), key: key.to_owned(), value }
    }

    #[test]
    fn settings_that_differ_name_their_brokers() {
        let row = |broker: &str, value: i64| setting(broker, "retryMaxTimes", json!(value));
        let text = |rows: &[GroupSetting]| settings_table(Lang::En, rows).into_string();
        let same = text(&[row("a", 3), row("b", 3)]);
        assert!(same.contains("<code>retryMaxTimes</code>") && same.contains(">3</td>"), "{same}");
        let differs = text(&[row("a", 3), row("b", 16)]);
        assert!(differs.contains("a: 3 b: 16 ") && differs.contains("differs"), "{differs}");
    }

    #[test]
    fn the_form_that_changes_a_group_has_its_settings() {
        let row = setting;
        let policy = json!({"type": "CUSTOMIZED"});
        let settings = [
            row("a", "consumeBroadcastEnable", json!(true)),
            row("a", "retryMaxTimes", json!(3)),
            row("a", "groupRetryPolicy", policy.clone()),
            row("a", "groupSysFlag", json!(1)),
            row("a", "consumeTimeoutMinute", json!(30)),
            row("a", "subscriptionDataSet", Value::Null),
            row("b", "retryMaxTimes", json!(16)),
        ];
        let expected = [
            ("broadcast", "true"),
            ("retry-max", "3"),
            ("retry-policy", &*policy.to_string()),
            ("sys-flag", "1"),
            ("consume-timeout", "30"),
        ];
        assert_eq!(values(&settings), expected.map(|(name, value)| (name, value.to_owned())));
        let link = |known: &[GroupSetting]| {
            change_link(&Visitor::of_test(Role::Admin), &[("group", "G"), ("cluster", "C")], known)
                .into_string()
        };
        assert!(link(&settings).contains("/op/group/create?group=G&amp;cluster=C&amp;broadcast=true"));
        assert_eq!(link(&[]), "", "a form without the settings would replace them by the defaults");
        let create = admin::operation("group", "create").unwrap();
        for (_, argument) in SETTINGS {
            assert!(create.arguments.iter().any(|it| it.name == argument), "{argument}");
        }
    }
}
