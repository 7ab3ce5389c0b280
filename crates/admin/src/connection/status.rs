//! Status that members of a consumer group report.

use crate::operation::Written;
use crate::text::{time_to_ms, version};
use crate::{Arguments, Error, Session, stats};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use wire::body::{ConsumerRunningInfo, MessageQueue};

/// A member that has been running for less has perhaps not subscribed everything yet.
const STARTED_MS: i64 = 120_000;
/// A queue that has messages and gave none to the listener for longer may be blocked.
const BLOCKED_MS: i64 = 60_000;

/// Shows one member. Without a member, lists all and writes the status of each to a file, as `ConsumerStatusSubCommand`
/// does.
pub(super) async fn status(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let group = arguments.need("group")?;
    let broker = stats::broker_of_group(session, group, arguments.get("broker")).await?;
    let members = stats::consumer_connection(session, group, Some(&broker)).await?;
    let has_stack = arguments.is_on("stack");
    if let Some(client) = arguments.get("client") {
        let found = stats::running_info(session, &broker, (group, client), has_stack).await?;
        return Ok(Written::new(value(client, &found), format_info(&found)));
    }
    let mut text =
        format!("{:<10} {:<40} {:<20} #ConsumerRunningInfoFile\n", "#Index", "#ClientId", "#Version");
    let mut found = BTreeMap::new();
    for member in members.connection_set {
        let client = member.client_id;
        match stats::running_info(session, &broker, (group, &client), has_stack).await {
            Ok(info) => {
                let file = format!("{}/{}", session.now_ms, stats::file_name(&client));
                stats::write_file(Path::new(&file), &format_info(&info))?;
                let index = found.len() + 1;
                let _ = writeln!(text, "{index:<10} {client:<40} {:<20} {file}", version(member.version));
                found.insert(client, info);
            }
            Err(why) => _ = writeln!(text, "{client}: {why}"),
        }
    }
    if !found.is_empty() {
        text.push_str(&verdict(&found, session.now_ms));
    }
    let rows: Vec<_> = found.iter().map(|(client, info)| value(client, info)).collect();
    Ok(Written::new(rows, text))
}

/// Status of a member as data: the state of each queue and the rates of each topic as rows.
fn value(client: &str, info: &ConsumerRunningInfo) -> Value {
    let queues = info.mq_table.iter().chain(&info.mq_pop_table).map(|(queue, state)| {
        let MessageQueue { topic, broker_name, queue_id } = queue;
        row(json!({"topic": topic, "broker": broker_name, "queue": queue_id}), state)
    });
    let rates = info.status_table.iter().map(|(topic, rates)| row(json!({"topic": topic}), rates));
    let subscriptions = info.subscription_set.iter();
    let subscriptions = subscriptions.map(|it| json!({"topic": it.topic, "expression": it.sub_string}));
    json!({
        "client": client,
        "properties": info.properties,
        "subscriptions": subscriptions.collect::<Vec<_>>(),
        "rates": rates.collect::<Vec<_>>(),
        "application": info.user_consumer_info,
        "stack": info.jstack,
        "queues": queues.collect::<Vec<_>>(),
    })
}

/// A row with the members of both objects: `about` names the queue or topic, `state` has its figures.
fn row(mut about: Value, state: &Value) -> Value {
    if let (Value::Object(row), Value::Object(state)) = (&mut about, state) {
        row.extend(state.clone());
    }
    about
}

fn property<'a>(info: &'a ConsumerRunningInfo, name: &str) -> &'a str {
    info.properties.get(name).map_or("", String::as_str)
}

/// Whether all members want the same, and which queues stand still (`ConsumerRunningInfo.analyzeSubscription`,
/// `analyzeProcessQueue`).
pub(crate) fn verdict(members: &BTreeMap<String, ConsumerRunningInfo>, now_ms: i64) -> String {
    let is_push = |info: &ConsumerRunningInfo| property(info, "PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY";
    let mut infos = members.values();
    let differs = infos.next().is_some_and(|first| {
        let started: i64 = property(first, "PROP_CONSUMER_START_TIMESTAMP").parse().unwrap_or_default();
        let wants = |info: &ConsumerRunningInfo| {
            let subscriptions = info.subscription_set.iter();
            let mut wants: Vec<_> = subscriptions
                .map(|it| (it.topic.clone(), it.sub_string.clone(), it.expression_type.clone()))
                .collect();
            wants.sort();
            wants
        };
        is_push(first) && now_ms - started > STARTED_MS && infos.any(|other| wants(other) != wants(first))
    });
    if differs {
        return "\n\nWARN: Different subscription in the same group of consumer!!!\n".to_owned();
    }
    let mut out = "\n\nSame subscription in the same group of consumer\n\nRebalance OK\n".to_owned();
    for (client, info) in members.iter().filter(|(_, info)| is_push(info)) {
        for (queue, state) in &info.mq_table {
            let number = |name: &str| state[name].as_i64().unwrap_or_default();
            let is = |name: &str| state[name].as_bool().unwrap_or_default();
            let queue = stats::queue_text(queue);
            let _ = match property(info, "PROP_CONSUMEORDERLY") == "true" {
                true if !is("locked") => writeln!(
                    out,
                    "{client} {queue} can't lock for a while, {}ms",
                    now_ms - number("lastLockTimestamp")
                ),
                true if is("droped") && number("tryUnlockTimes") > 0 => {
                    writeln!(out, "{client} {queue} unlock {} times, still failed", number("tryUnlockTimes"))
                }
                false
                    if now_ms - number("lastConsumeTimestamp") > BLOCKED_MS
                        && number("cachedMsgCount") > 0 =>
                {
                    let ms = now_ms - number("lastConsumeTimestamp");
                    writeln!(out, "{client} {queue} can't consume for a while, maybe blocked, {ms}ms")
                }
                _ => Ok(()),
            };
        }
    }
    out
}

/// Members of `ProcessQueueInfo` in the order of its text.
const STATE: &str = "commitOffset cachedMsgMinOffset cachedMsgMaxOffset cachedMsgCount cachedMsgSizeInMiB \
    transactionMsgMinOffset transactionMsgMaxOffset transactionMsgCount locked tryUnlockTimes \
    lastLockTimestamp droped lastPullTimestamp lastConsumeTimestamp";

/// Status of a member as `ConsumerRunningInfo.formatString` writes it.
fn format_info(info: &ConsumerRunningInfo) -> String {
    let mut out = "#Consumer Properties#\n".to_owned();
    let mut line = |text: std::fmt::Arguments<'_>| {
        let _ = out.write_fmt(text);
        out.push('\n');
    };
    info.properties.iter().for_each(|(key, value)| line(format_args!("{key:<40}: {value}")));
    line(format_args!("\n\n#Consumer Subscription#"));
    for (number, it) in (1..).zip(&info.subscription_set) {
        let (topic, filter, expression) = (&it.topic, it.class_filter_mode, &it.sub_string);
        line(format_args!(
            "{number:03} Topic: {topic:<40} ClassFilter: {filter:<8} SubExpression: {expression}"
        ));
    }
    line(format_args!(
        "\n\n#Consumer Offset#\n{:<64}  {:<32}  {:<4}  {:<20}",
        "#Topic", "#Broker Name", "#QID", "#Consumer Offset"
    ));
    for (MessageQueue { topic, broker_name, queue_id }, state) in &info.mq_table {
        let offset = state["commitOffset"].as_i64().unwrap_or_default();
        line(format_args!("{topic:<32}  {broker_name:<32}  {queue_id:<4}  {offset:<20}"));
    }
    for (title, width, table) in [("MQ", 64, &info.mq_table), ("Pop", 32, &info.mq_pop_table)] {
        line(format_args!(
            "\n\n#Consumer {title} Detail#\n{:<width$}  {:<32}  {:<4}  {:<20}",
            "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo"
        ));
        for (MessageQueue { topic, broker_name, queue_id }, state) in table {
            let state = if title == "MQ" { state_text(state) } else { pop_text(state) };
            line(format_args!("{topic:<width$}  {broker_name:<32}  {queue_id:<4}  {state}"));
        }
    }
    let heads = ["#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS"];
    let [pull, pulls, consume, good, bad] = heads;
    line(format_args!(
        "\n\n#Consumer RT&TPS#\n{:<64}  {pull:>14} {pulls:>14} {consume:>14} {good:>14} {bad:>18} {:>25}",
        "#Topic", "#ConsumeFailedMsgsInHour"
    ));
    for (topic, rates) in &info.status_table {
        let rate = |name: &str| rates[name].as_f64().unwrap_or_default();
        let [pull, pulls, consume, good, bad] =
            ["pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS"].map(rate);
        let failed = rates["consumeFailedMsgs"].as_i64().unwrap_or_default();
        line(format_args!(
            "{topic:<32}  {pull:>14.2} {pulls:>14.2} {consume:>14.2} {good:>14.2} {bad:>18.2} {failed:>25}"
        ));
    }
    line(format_args!("\n\n#User Consume Info#"));
    info.user_consumer_info.iter().for_each(|(key, value)| line(format_args!("{key:<40}: {value}")));
    if let Some(stack) = &info.jstack {
        line(format_args!("\n\n#Consumer jstack#\n{stack}"));
    }
    out
}

fn state_text(state: &Value) -> String {
    let members = STATE.split(' ').map(|name| match state[name].as_i64() {
        Some(ms) if name.ends_with("Timestamp") => {
            let digits = time_to_ms(ms).chars().filter(char::is_ascii_digit).collect::<String>();
            format!("{name}={digits}")
        }
        _ => format!("{name}={}", state[name]),
    });
    format!("ProcessQueueInfo [{}]", members.collect::<Vec<_>>().join(", "))
}

fn pop_text(state: &Value) -> String {
    let members =
        ["waitAckCount", "droped", "lastPopTimestamp"].map(|name| format!("{name}:{}", state[name]));
    format!("PopProcessQueueInfo [{}]", members.join(", "))
}
