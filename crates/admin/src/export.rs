//! Operations that write the parts of a cluster to files on this machine.

use crate::arguments::{BROKER, MASTERS, optional, required, switch};
use crate::operation::{Operation, Written, operations};
use crate::request::{Request, body};
use crate::text::{indented, version};
use crate::{Argument, Arguments, Error, Session, broker, stats, topic};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use wire::body::{SubscriptionGroupTable, TopicConfigSerializeWrapper, TopicList};
use wire::codes::{VERSION, request};
use wire::names::{
    DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_GROUP_PREFIX, SYSTEM_TOPIC_PREFIX,
};
use wire::settings::AFTER_RESTART;

const CLUSTER: Argument = required("cluster", ("c", "clusterName"), "name of the cluster");
const DIRECTORY: Argument =
    optional("directory", ("f", "filePath"), "where the file is written; /tmp/rocketmq/export if left out");

/// The operations that write files.
pub(crate) const OPERATIONS: &[Operation] = operations! { "export":
    "metadata", Look, ["exportMetadata"], "Write the topics and groups of a broker, or of a cluster added up, to a file",
        [BROKER, MASTERS, DIRECTORY, switch("topics", ("t", "topic"), "only topics"),
         switch("groups", ("g", "subscriptionGroup"), "only groups"),
         switch("special", ("s", "specialTopic"), "also retry and dead letter topics")], metadata;
    "configs", Look, ["exportConfigs"], "Write the main settings of the masters of a cluster to a file",
        [CLUSTER, DIRECTORY], configs;
    "metrics", Look, ["exportMetrics"], "Write the load of the masters of a cluster and their clients' versions to a file",
        [CLUSTER, DIRECTORY], metrics;
};

/// Groups that RocketMQ itself uses (`MixAll.PREDEFINE_GROUP_SET`).
const OWN_GROUPS: &str = "DEFAULT_CONSUMER DEFAULT_PRODUCER TOOLS_CONSUMER SCHEDULE_CONSUMER FILTERSRV_CONSUMER \
    __MONITOR_CONSUMER CLIENT_INNER_PRODUCER SELF_TEST_P_GROUP SELF_TEST_C_GROUP CID_ONS-HTTP-PROXY \
    CID_ONSAPI_PERMISSION CID_ONSAPI_OWNER CID_ONSAPI_PULL";

/// Settings that are exported (`ExportConfigsCommand.needBrokerProprties`).
const SETTINGS: &str = "brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums flushDiskType \
    maxMessageSize messageDelayLevel msgTraceTopicName slaveReadEnable traceOn traceTopicEnable useTLS \
    autoCreateTopicEnable autoCreateSubscriptionGroup";

/// Writes a file and says so.
fn write(arguments: &Arguments, name: &str, content: &Value) -> Result<Written, Error> {
    let path = format!("{}/{name}", arguments.get("directory").unwrap_or("/tmp/rocketmq/export"));
    stats::write_file(path.as_ref(), &indented(&content.to_string()))?;
    Ok(Written::new(json!({"file": path}), format!("export {path} success\n")))
}

/// The topics of a broker that are not its own (`DefaultMQAdminExtImpl.getUserTopicConfig`).
async fn topics(
    session: &Session,
    broker: &str,
    is_special: bool,
) -> Result<TopicConfigSerializeWrapper, Error> {
    let reply = session.look(broker, &Request::new(request::GET_ALL_TOPIC_CONFIG)).await?;
    let mut table: TopicConfigSerializeWrapper = body(broker, &reply)?;
    let reply = session.look(broker, &Request::new(request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).await?;
    let own = body::<TopicList>(broker, &reply)?.topic_list;
    table.topic_config_table.retain(|name, config| {
        let is_kept = !name.starts_with(RETRY_PREFIX) && !name.starts_with(DLQ_PREFIX) || is_special;
        is_kept
            && !own.contains(name)
            && !name.starts_with(SYSTEM_TOPIC_PREFIX)
            && (0..8).contains(&config.perm)
    });
    Ok(table)
}

/// The groups of a broker that are not RocketMQ's own (`DefaultMQAdminExtImpl.getUserSubscriptionGroup`).
async fn groups(session: &Session, broker: &str) -> Result<SubscriptionGroupTable, Error> {
    let reply = session.look(broker, &Request::new(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await?;
    let mut table: SubscriptionGroupTable = body(broker, &reply)?;
    table.subscription_group_table.retain(|name, _| {
        !name.starts_with(SYSTEM_GROUP_PREFIX) && !OWN_GROUPS.split(' ').any(|own| own == name)
    });
    Ok(table)
}

async fn metadata(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let only_topics = arguments.is_on("topics");
    let (has_topics, has_groups) = (only_topics || !arguments.is_on("groups"), !only_topics);
    let is_special = arguments.is_on("special");
    let name = match (has_topics, has_groups) {
        (true, true) => "metadata.json",
        (true, false) => "topic.json",
        _ => "subscriptionGroup.json",
    };
    let mut outcomes = Vec::new();
    for broker in session.masters(arguments).await? {
        let found = async {
            let topics = if has_topics { Some(topics(session, &broker, is_special).await?) } else { None };
            let groups = if has_groups { Some(groups(session, &broker).await?) } else { None };
            Ok((topics, groups))
        };
        outcomes.push(found.await);
    }
    let mut content = serde_json::Map::new();
    let (mut all_topics, mut all_groups) = (BTreeMap::new(), BTreeMap::new());
    for (topics, groups) in session.answers(outcomes)? {
        if let Some(table) = topics {
            content.insert("dataVersion".to_owned(), json!(table.data_version));
            for (name, mut config) in table.topic_config_table {
                if let Some(other) = all_topics.remove(&name) {
                    let other: wire::body::TopicConfig = other;
                    config.read_queue_nums += other.read_queue_nums;
                    config.write_queue_nums += other.write_queue_nums;
                }
                all_topics.insert(name, config);
            }
        }
        if let Some(table) = groups {
            content.insert("dataVersion".to_owned(), json!(table.data_version));
            content.insert("forbiddenTable".to_owned(), json!(table.forbidden_table));
            for (name, mut config) in table.subscription_group_table {
                if let Some(other) = all_groups.remove(&name) {
                    let other: wire::body::SubscriptionGroupConfig = other;
                    config.retry_queue_nums += other.retry_queue_nums;
                }
                all_groups.insert(name, config);
            }
        }
    }
    if arguments.get("broker").is_none() || name == "metadata.json" {
        // Versions belong to one table of one broker.
        content.clear();
        content.insert("exportTime".to_owned(), json!(session.now_ms));
    }
    if has_topics {
        content.insert("topicConfigTable".to_owned(), json!(all_topics));
    }
    if has_groups {
        content.insert("subscriptionGroupTable".to_owned(), json!(all_groups));
    }
    write(arguments, name, &Value::Object(content))
}

/// The exported settings, and the list of exported settings whose values do not count yet.
fn chosen(settings: &BTreeMap<String, String>) -> BTreeMap<&String, &String> {
    let is_chosen = |key: &str| key == AFTER_RESTART || SETTINGS.split(' ').any(|it| it == key);
    settings.iter().filter(|(key, _)| is_chosen(key)).collect()
}

async fn configs(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let members = session.targets(arguments).await?;
    let mut configs = serde_json::Map::new();
    let masters: Vec<_> = members.iter().filter(|member| member.id == 0).collect();
    let mut outcomes = Vec::new();
    for master in &masters {
        outcomes.push(broker::settings_of(session, &master.address).await.map(|settings| (master, settings)));
    }
    for (master, settings) in session.answers(outcomes)? {
        configs.insert(master.name.clone(), json!(chosen(&settings)));
    }
    let scale = json!({
        "masterBrokerSize": masters.len(),
        "namesrvSize": session.name_servers.len(),
        "slaveBrokerSize": members.len() - masters.len(),
    });
    write(arguments, "configs.json", &json!({"brokerConfigs": configs, "clusterScale": scale}))
}

async fn metrics(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let (mut report, mut tps_sums, mut day_sums) =
        (serde_json::Map::new(), BTreeMap::<_, f64>::new(), BTreeMap::<_, i64>::new());
    let members = session.targets(arguments).await?;
    let mut outcomes = Vec::new();
    for member in members.into_iter().filter(|member| member.id == 0) {
        let address = &member.address;
        let found = async {
            let runtime = session.client.broker_runtime(address).await?;
            let settings = broker::settings_of(session, address).await?;
            let groups = groups(session, address).await?.subscription_group_table;
            let topic_count = topics(session, address, false).await?.topic_config_table.len();
            Ok((runtime, settings, groups, topic_count))
        }
        .await;
        outcomes.push(found.map(|found| (member, found)));
    }
    for (member, (runtime, settings, groups, topic_count)) in session.answers(outcomes)? {
        let address = &member.address;
        let servers = [(member.name.clone(), address.clone())];
        let (half_tps, half_day) = topic::sum(session, &servers, "TOPIC_PUT_NUMS", HALF_TOPIC).await;
        let (delay_tps, delay_day) = topic::sum(session, &servers, "TOPIC_PUT_NUMS", SCHEDULE_TOPIC).await;
        let rate =
            |name: &str| runtime.get(name).and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let count =
            |name: &str| runtime.get(name).and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
        let day = |kind: &str| {
            count(&format!("msg{kind}TotalTodayMorning")) - count(&format!("msg{kind}TotalYesterdayMorning"))
        };
        let tps = [
            ("NormalInTps", rate("putTps").unwrap_or_default()),
            ("NormalOutTps", rate("getTransferredTps").unwrap_or_default()),
            ("TransInTps", half_tps),
            ("ScheduleInTps", delay_tps),
        ];
        let days = [
            ("normalOneDayInNum", day("Put")),
            ("normalOneDayOutNum", day("Get")),
            ("transOneDayInNum", half_day),
            ("scheduleOneDayInNum", delay_day),
        ];
        tps.iter().for_each(|(name, tps)| *tps_sums.entry(format!("total{name}")).or_default() += tps);
        days.iter().for_each(|(name, count)| *day_sums.entry(*name).or_default() += count);
        let own_name = |name: &str| name[..1].to_lowercase() + &name[1..];
        let mut clients = BTreeSet::new();
        for group in groups.keys() {
            let Ok(found) = stats::consumer_connection(session, group, None).await else { continue };
            let named = found.connection_set.into_iter();
            clients.extend(named.map(|member| format!("{}%{}", member.language, version(member.version))));
        }
        let one = json!({
            "runtimeEnv": {
                "cpuNum": settings.get("clientCallbackExecutorThreads"),
                "totalMemKBytes": runtime.get("totalMemKBytes"),
            },
            "runtimeQuota": {
                "diskRatio": {
                    "commitLogDiskRatio": runtime.get("commitLogDiskRatio"),
                    "consumeQueueDiskRatio": runtime.get("consumeQueueDiskRatio"),
                },
                "groupSize": groups.len(),
                "messageAverageSize": runtime.get("putMessageAverageSize"),
                "oneDayNum": days.into_iter().collect::<BTreeMap<_, _>>(),
                "topicSize": topic_count,
                "tps": tps.into_iter().map(|(name, tps)| (own_name(name), tps)).collect::<BTreeMap<_, _>>(),
            },
            "runtimeVersion": {"clientInfo": clients, "rocketmqVersion": version(VERSION)},
        });
        report.insert(member.name, one);
    }
    let total = json!({"totalOneDayNum": day_sums, "totalTps": tps_sums});
    write(arguments, "metrics.json", &json!({"evaluateReport": report, "totalData": total}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_tells_values_that_do_not_count_yet() {
        let shown =
            ["brokerRole", "countsAfterRestart", "listenPort"].map(|key| (key.to_owned(), "x".to_owned()));
        let shown = BTreeMap::from(shown);
        let names: Vec<_> = chosen(&shown).into_keys().collect();
        assert_eq!(names, ["brokerRole", "countsAfterRestart"]);
    }
}
