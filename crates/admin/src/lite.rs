//! Operations on lite topics, of brokers of Apache RocketMQ that have them (5.5).

use crate::arguments::{BROKER, optional, place, switch};
use crate::operation::{Operation, Written, operations};
use crate::request::{Request, body};
use crate::text::time_to_ms;
use crate::{Argument, Arguments, Error, Session};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use wire::codes::request;

const PARENT: Argument = place("parent", ("p", "parentTopic"), "name of the parent topic");
const GROUP: Argument = place("group", ("g", "group"), "name of the consumer group");

/// The operations on lite topics.
pub(crate) const OPERATIONS: &[Operation] = operations! { "lite":
    "broker", Look, ["getBrokerLiteInfo"], "Show how many lite topics a broker has, or the masters of a cluster",
        [BROKER, optional("cluster", ("c", "cluster"), "all masters of this cluster"),
         switch("detail", ("d", "showDetail"), "with the topics and groups")],
        |session, arguments| show(session, arguments, &OF_BROKER);
    "parent", Look, ["getParentTopicInfo"], "Show how many lite topics a parent topic has",
        [PARENT], |session, arguments| show(session, arguments, &OF_PARENT);
    "topic", Look, ["getLiteTopicInfo"], "Show the offsets and subscribers of a lite topic",
        [PARENT, place("lite", ("l", "liteTopic"), "name of the lite topic"),
         switch("detail", ("s", "showClientId"), "with the ids of the clients")],
        |session, arguments| show(session, arguments, &OF_TOPIC);
    "client", Look, ["getLiteClientInfo"], "Show the lite topics of a member of a group",
        [PARENT, GROUP, place("client", ("c", "clientId"), "id of the member"),
         switch("detail", ("s", "showDetail"), "with the names of the lite topics")],
        |session, arguments| show(session, arguments, &OF_CLIENT);
    "group", Look, ["getLiteGroupInfo"], "Show how far a group is in lite topics",
        [PARENT, GROUP, optional("lite", ("l", "liteTopic"), "only this lite topic"),
         optional("top", ("k", "topK"), "so many lite topics with the most lag; 20 if left out")],
        |session, arguments| show(session, arguments, &OF_GROUP);
    "dispatch", Change, ["triggerLiteDispatch"], "Let brokers look for messages of a group's lite topics again",
        [PARENT, GROUP, optional("client", ("c", "clientId"), "only for this member"),
         optional("broker", ("b", "brokerName"), "only this broker set")], dispatch;
};

/// Request to brokers, and the columns of their answers: head, width, path of the member.
struct Question {
    code: i32,
    title: &'static str,
    /// Header fields and the arguments that they come from.
    fields: &'static [(&'static str, &'static str)],
    columns: &'static [(&'static str, usize, &'static str)],
    /// Text of a member that is absent.
    absent: &'static str,
    /// Members that are shown below the row if details are asked for.
    details: &'static [(&'static str, &'static str)],
}

const OF_BROKER: Question = Question {
    code: request::GET_BROKER_LITE_INFO,
    title: "",
    fields: &[],
    columns: &[
        ("#Broker", 30, ""),
        ("#Store Type", 17, "storeType"),
        ("#Max LMQ", 10, "maxLmqNum"),
        ("#Current LMQ", 14, "currentLmqNum"),
        ("#SubscriptionCount", 20, "liteSubscriptionCount"),
        ("#OrderInfoCount", 17, "orderInfoCount"),
        ("#CQTableSize", 15, "cqTableSize"),
        ("#OffsetTableSize", 18, "offsetTableSize"),
        ("#eventMapSize", 15, "eventMapSize"),
    ],
    absent: "-",
    details: &[("Topic Meta: ", "topicMeta"), ("Group Meta: ", "groupMeta")],
};

const OF_PARENT: Question = Question {
    code: request::GET_PARENT_TOPIC_INFO,
    title: "Parent Topic Info: [{parent}]",
    fields: &[("topic", "parent")],
    columns: &[
        ("#Broker Name", 50, ""),
        ("#TTL", 8, "ttl"),
        ("#Lite Count", 14, "liteTopicCount"),
        ("#LMQ NUM", 14, "lmqNum"),
        ("#GROUPS", 100, "groups"),
    ],
    absent: "-",
    details: &[],
};

const OF_TOPIC: Question = Question {
    code: request::GET_LITE_TOPIC_INFO,
    title: "Lite Topic Info: [{parent}] [{lite}] [%LMQ%${parent}${lite}]",
    fields: &[("parentTopic", "parent"), ("liteTopic", "lite")],
    columns: &[
        ("#Broker Name", 50, ""),
        ("#MinOffset", 14, "/topicOffset/minOffset"),
        ("#MaxOffset", 14, "/topicOffset/maxOffset"),
        ("#LastUpdate", 30, "/topicOffset/lastUpdateTimestamp"),
        ("#Sharding", 12, "shardingToBroker"),
        ("#SubClientCount", 18, "subscriber"),
    ],
    absent: "-",
    details: &[("", "subscriber")],
};

const OF_CLIENT: Question = Question {
    code: request::GET_LITE_CLIENT_INFO,
    title: "Lite Client Info: [{parent}] [{group}] [{client}]",
    fields: &[("parentTopic", "parent"), ("group", "group"), ("clientId", "client")],
    columns: &[
        ("#Broker", 30, ""),
        ("#LiteTopicCount", 20, "liteTopicCount"),
        ("#LastAccessTime", 30, "lastAccessTime"),
        ("#LastConsumeTime", 30, "lastConsumeTime"),
    ],
    absent: "N/A",
    details: &[("Lite Topics: ", "liteTopicSet")],
};

const OF_GROUP: Question = Question {
    code: request::GET_LITE_GROUP_INFO,
    title: "Lite Group Info: [{group}] [{parent}]",
    fields: &[("group", "group"), ("liteTopic", "lite"), ("topK", "top")],
    columns: &[
        ("#Broker Name", 50, ""),
        ("#BrokerOffset", 16, "/liteTopicOffsetWrapper/brokerOffset"),
        ("#ConsumeOffset", 16, "/liteTopicOffsetWrapper/consumerOffset"),
        ("#LagCount", 16, "/liteTopicOffsetWrapper/lag"),
        ("#LastUpdate", 30, "/liteTopicOffsetWrapper/lastTimestamp"),
    ],
    absent: "-",
    details: &[],
};

/// Asks the brokers that the arguments name, or those of the parent topic. Fails if no broker answers.
async fn show(session: &Session, arguments: &Arguments, question: &Question) -> Result<Written, Error> {
    let value = |name: &str| arguments.get(name).or((name == "top").then_some("20"));
    let mut title = question.title.to_owned();
    let mut ask = Request::new(question.code);
    for name in ["parent", "lite", "group", "client"] {
        title = title.replace(&format!("{{{name}}}"), value(name).unwrap_or_default());
    }
    for (field, argument) in question.fields {
        ask = ask.maybe(field, value(argument));
    }
    let servers: Vec<(String, String)> = match arguments.get("parent") {
        Some(parent) => session.brokers_of(parent).await?,
        None => session.masters(arguments).await?.into_iter().map(|it| (it.clone(), it)).collect(),
    };
    let mut text = if title.is_empty() { title } else { title + "\n" };
    let line = |text: &mut String, cell: &dyn Fn(&(&str, usize, &str)) -> String| {
        let cells =
            question.columns.iter().map(|column| format!("{:<width$}", cell(column), width = column.1));
        let _ = writeln!(text, "{} ", cells.collect::<Vec<_>>().join(" "));
    };
    // The figures of a group without a lite topic are sums and lists.
    let has_table = question.code != request::GET_LITE_GROUP_INFO || arguments.get("lite").is_some();
    if has_table {
        line(&mut text, &|(head, ..)| (*head).to_owned());
    }
    let (mut rows, mut failure): (Vec<Map<String, Value>>, _) = (Vec::new(), None);
    for (name, address) in servers {
        let reply = session.look(&address, &ask).await;
        let mut found: Map<String, Value> = match reply.and_then(|reply| body(&address, &reply)) {
            Ok(found) => found,
            Err(why) => {
                let _ = writeln!(text, "[{name}] error.");
                failure = Some(why);
                continue;
            }
        };
        if let Some(offsets) = found.get_mut("liteTopicOffsetWrapper").and_then(Value::as_object_mut) {
            let offset = |name: &str| offsets.get(name).and_then(Value::as_i64).unwrap_or_default();
            let lag = offset("brokerOffset") - offset("consumerOffset");
            offsets.insert("lag".to_owned(), lag.into());
        }
        let all = Value::Object(found);
        let shown = |path: &str| cell(&all, path, question.absent);
        if has_table {
            line(&mut text, &|(_, _, path)| if path.is_empty() { name.clone() } else { shown(path) });
        }
        if arguments.is_on("detail") {
            for (label, member) in question.details {
                let _ = writeln!(text, "{label}{}", detail(&all[member]));
            }
        }
        let Value::Object(mut row) = all else { continue };
        row.insert("broker".to_owned(), name.into());
        rows.push(row);
    }
    match (rows.is_empty(), failure) {
        (true, Some(why)) => Err(why),
        _ => {
            if question.code == request::GET_LITE_GROUP_INFO {
                text.push_str(&sums(&rows, client::now_ms()));
                text.push_str(&if has_table { String::new() } else { lag_text(&rows) });
            }
            Ok(Written::new(rows, text))
        }
    }
}

/// Text of a member of an answer: times as such, lists by their names or their length.
fn cell(answer: &Value, path: &str, absent: &str) -> String {
    let value = if path.starts_with('/') { answer.pointer(path) } else { answer.get(path) };
    let is_time =
        ["LastUpdateTimestamp", "lastUpdateTimestamp", "lastAccessTime", "lastConsumeTime", "lastTimestamp"];
    match value {
        None | Some(Value::Null) => absent.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if path == "subscriber" => items.len().to_string(),
        Some(Value::Array(items)) => list(items),
        // A client without lite topics is unknown.
        Some(Value::Number(number)) if absent == "N/A" && number.as_i64() <= Some(0) => absent.to_owned(),
        Some(value) if is_time.iter().any(|name| path.ends_with(name)) => match value.as_i64() {
            Some(ms) if ms > 0 => time_to_ms(ms),
            _ => absent.to_owned(),
        },
        Some(value) => value.to_string(),
    }
}

/// Names, or members of groups, in brackets.
fn list(items: &[Value]) -> String {
    let text = |item: &Value| match item.as_str() {
        Some(name) => name.to_owned(),
        None => [&item["clientId"], &item["group"]].map(|it| it.as_str().unwrap_or_default()).join("@"),
    };
    format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// Text of a member that is shown below the row.
fn detail(value: &Value) -> String {
    value.as_array().map_or_else(|| value.to_string(), |items| list(items))
}

/// The lag of a group at all brokers, and its oldest unconsumed message.
fn sums(rows: &[Map<String, Value>], now_ms: i64) -> String {
    let figures = |member| rows.iter().filter_map(move |row| row.get(member)?.as_i64().filter(|it| *it > 0));
    let oldest_ms = figures("earliestUnconsumedTimestamp").min().unwrap_or(now_ms).min(now_ms);
    let (lag, seconds) = (figures("totalLagCount").sum::<i64>(), (now_ms - oldest_ms) / 1000);
    format!("Total Lag Count: {lag}\nMin Unconsumed Timestamp: {oldest_ms} ({seconds} s ago)\n\n")
}

/// The lite topics of a group with the most lag, of all brokers.
fn lag_text(rows: &[Map<String, Value>]) -> String {
    let mut out = String::new();
    for (title, member, key) in [
        ("------TopK by lag count-----", "lagCountTopK", "lagCount"),
        ("------TopK by lag time------", "lagTimestampTopK", "earliestUnconsumedTimestamp"),
    ] {
        let lists = rows.iter().filter_map(|row| row.get(member)?.as_array());
        let mut lags: Vec<&Value> = lists.flatten().collect();
        lags.sort_by_key(|lag| lag[key].as_i64().unwrap_or_default());
        if key == "lagCount" {
            lags.reverse();
        }
        let _ = writeln!(
            out,
            "{title}\n{:<6} {:<40} {:<12} {:<30}",
            "NO", "Lite Topic", "Lag Count", "UnconsumedTimestamp"
        );
        for (number, lag) in (1..).zip(lags) {
            let ms = lag["earliestUnconsumedTimestamp"].as_i64().unwrap_or_default();
            let time = if ms > 0 { time_to_ms(ms) } else { "-".to_owned() };
            let (topic, count) = (cell(lag, "liteTopic", "-"), cell(lag, "lagCount", "-"));
            let _ = writeln!(out, "{number:<6} {topic:<40} {count:<12} {time:<30}");
        }
        out.push('\n');
    }
    out
}

async fn dispatch(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let (parent, group) = (arguments.need("parent")?, arguments.need("group")?);
    let only = arguments.get("broker");
    let ask = Request::new(request::TRIGGER_LITE_DISPATCH)
        .with("group", group)
        .maybe("clientId", arguments.get("client"));
    let mut text = format!("Group And Topic Info: [{group}] [{parent}]\n\n");
    let (mut rows, mut failure) = (Vec::new(), None);
    for (name, address) in session.brokers_of(parent).await? {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let outcome = match session.change(&address, &ask).await {
            Ok(_) => "dispatched",
            Err(why) => {
                failure = Some(why);
                "error"
            }
        };
        let _ = writeln!(text, "{name:<30} {outcome:<12}");
        rows.push(json!({"broker": name, "outcome": outcome}));
    }
    match failure {
        Some(why) if rows.iter().all(|row| row["outcome"] == "error") => Err(why),
        _ => Ok(Written::new(rows, text)),
    }
}
