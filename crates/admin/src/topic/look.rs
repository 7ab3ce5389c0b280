//! Reads of topics.

use crate::operation::{Typed, Written};
use crate::pages::Page;
use crate::request::{Request, body, for_each, split};
use crate::session::Member;
use crate::stats;
use crate::text::{Table, front, indented, permission, time, time_to_ms};
use crate::{Arguments, Error, Session};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use wire::body::topic::{TopicConfig, TopicTable};
use wire::body::{MessageQueue, TopicRouteData, TopicStats};
use wire::codes::request;
use wire::json;
use wire::names::{DLQ_PREFIX, RETRY_PREFIX};

/// Topics of one request to a broker of RocketMQ. Also the most topics of a broker whose settings are read.
const TOPICS_AT_ONCE: usize = 2000;
const TOPICS_MAX: usize = 20_000;

/// A topic, with a cluster and a group that consumes it if that was asked.
#[derive(Clone, Debug, Serialize)]
pub struct TopicRow {
    /// Name of the topic.
    pub topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// Figures of a page; absent if no broker reports them.
    #[serde(flatten)]
    pub figures: Option<TopicFigures>,
}

impl TopicRow {
    fn new(topic: String) -> Self {
        Self { topic, cluster: None, group: None, figures: None }
    }
}

/// Figures of a topic in a page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TopicFigures {
    /// Queues that consumers read, of all brokers.
    pub read_queues: i32,
    /// Queues that producers write, of all brokers.
    pub write_queues: i32,
    /// Permission, as `RW-`.
    pub perm: String,
    /// Messages that were ever stored: sum of the ends of all queues. Only brokers of Vostok report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<i64>,
    /// Type of the messages, as `NORMAL` or `FIFO`.
    pub message_type: String,
    /// Messages stored per second, mean of the last minute. Only brokers of Vostok tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_tps: Option<f64>,
    /// Messages delivered to all groups per second, mean of the last minute. Only brokers of Vostok tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_tps: Option<f64>,
}

/// A row of a broker's list of topics.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BrokerTopicRow {
    topic: String,
    read_queues: i32,
    write_queues: i32,
    perm: i32,
    messages: i64,
    #[serde(default)]
    message_type: String,
    #[serde(default)]
    in_tps: f64,
    #[serde(default)]
    out_tps: f64,
}

impl Typed for Vec<TopicRow> {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        if !arguments.is_on("consumers") {
            return self.iter().map(|row| row.topic.clone() + "\n").collect();
        }
        let mut out = String::new();
        let _ = writeln!(out, "{:<20}  {:<48}  {:<48}", "#Cluster Name", "#Topic", "#Consumer Group");
        for row in self {
            let (cluster, group) = (row.cluster.as_deref(), row.group.as_deref());
            let (cluster, group) = (cluster.unwrap_or_default(), group.unwrap_or_default());
            let _ = writeln!(out, "{:<20}  {:<64}  {:<64}", front(cluster, 20), row.topic, group);
        }
        out
    }
}

/// A page of the topics. The queues and messages of a topic on several masters are added up.
async fn page(session: &Session, page: Page<'_>) -> Result<Vec<TopicRow>, Error> {
    let Some(answered) = page.ask::<BrokerTopicRow>(session, "topics").await? else {
        let names = page.of_names(stats::topics(session).await?.into_iter())?;
        let mut configs = configs(session).await?;
        let row = |name: String| TopicRow { figures: configs.remove(&name), ..TopicRow::new(name) };
        return Ok(names.into_iter().map(row).collect());
    };
    let mut rows: BTreeMap<String, TopicFigures> = BTreeMap::new();
    for answered in answered {
        let row = rows.entry(answered.topic).or_insert(TopicFigures {
            perm: permission(answered.perm),
            message_type: answered.message_type,
            ..TopicFigures::default()
        });
        row.read_queues += answered.read_queues;
        row.write_queues += answered.write_queues;
        *row.messages.get_or_insert_default() += answered.messages;
        *row.in_tps.get_or_insert_default() += answered.in_tps;
        *row.out_tps.get_or_insert_default() += answered.out_tps;
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    if !page.is_by_name() {
        rows.sort_by_key(|(_, figures)| std::cmp::Reverse(figures.messages));
    }
    rows.truncate(page.limit());
    Ok(rows
        .into_iter()
        .map(|(topic, figures)| TopicRow { figures: Some(figures), ..TopicRow::new(topic) })
        .collect())
}

/// Queues, permissions and types of the topics of all masters that answer, without rates. Brokers of RocketMQ report
/// them too.
async fn configs(session: &Session) -> Result<BTreeMap<String, TopicFigures>, Error> {
    let masters = session.members(None).await?.into_iter().filter(|member| member.id == 0);
    let masters: Vec<Member> = masters.collect();
    let outcomes = for_each(masters, |master: Member| async move { table(session, &master.address).await });
    let mut all: BTreeMap<String, TopicFigures> = BTreeMap::new();
    for (name, config) in session.answers(outcomes.await)?.into_iter().flatten() {
        let kind = config.attributes.get("message.type").map_or("NORMAL", String::as_str);
        let row = all.entry(name).or_insert(TopicFigures {
            perm: permission(config.perm),
            message_type: kind.to_owned(),
            ..TopicFigures::default()
        });
        row.read_queues += config.read_queue_nums;
        row.write_queues += config.write_queue_nums;
    }
    Ok(all)
}

/// Returns the topics of a broker. Brokers from 5.1.4 on answer with pages, older brokers with all topics at once
/// (`AdminBrokerProcessor.getAllTopicConfig`).
async fn table(session: &Session, address: &str) -> Result<BTreeMap<String, TopicConfig>, Error> {
    let mut topics = BTreeMap::new();
    loop {
        let first = topics.len();
        let ask = Request::new(request::GET_ALL_TOPIC_CONFIG)
            .with("topicSeq", first)
            .with("maxTopicNum", TOPICS_AT_ONCE);
        let reply = session.look(address, &ask).await?;
        topics.extend(body::<TopicTable>(address, &reply)?.topic_config_table);
        let count: usize =
            reply.text("totalTopicNum").and_then(|count| count.parse().ok()).unwrap_or_default();
        if topics.len() >= count.min(TOPICS_MAX) || topics.len() == first {
            return Ok(topics);
        }
    }
}

pub(super) async fn list(session: &Session, arguments: &Arguments) -> Result<Vec<TopicRow>, Error> {
    if let Some(wanted) = Page::of(arguments)? {
        return page(session, wanted).await;
    }
    let topics = stats::topics(session).await?;
    if !arguments.is_on("consumers") {
        return Ok(topics.into_iter().map(TopicRow::new).collect());
    }
    let info = session.cluster_info().await?;
    let mut rows = Vec::new();
    for topic in topics {
        if topic.starts_with(RETRY_PREFIX) || topic.starts_with(DLQ_PREFIX) {
            continue;
        }
        let brokers = session.brokers_of(&topic).await?;
        let Some((broker, _)) = brokers.first() else { continue };
        let cluster = info.cluster_addr_table.iter().find(|(_, brokers)| brokers.contains(broker));
        let cluster = cluster.map(|(name, _)| name.clone());
        let groups = stats::groups_of(session, &brokers, &topic).await?;
        let row = |group: Option<String>| TopicRow {
            cluster: cluster.clone(),
            group,
            ..TopicRow::new(topic.clone())
        };
        match groups.is_empty() {
            true => rows.push(row(None)),
            false => rows.extend(groups.into_iter().map(|group| row(Some(group)))),
        }
    }
    Ok(rows)
}

/// The queues of a topic and the rate of sends.
#[derive(Serialize)]
pub struct TopicStatus {
    /// Messages stored per second, of all brokers.
    pub put_tps: f64,
    /// The queues, by broker.
    pub queues: Vec<QueueStatus>,
    /// The failures of brokers that gave no answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// A queue of a topic.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueStatus {
    /// Name of the broker set.
    pub broker: String,
    /// Id of the queue.
    pub queue: i32,
    /// Offset of the first message.
    pub min_offset: i64,
    /// Offset of the next message.
    pub max_offset: i64,
    pub(crate) last_updated: String,
    /// Store time of the last message, ms since the epoch; 0 without messages.
    #[serde(skip)]
    pub last_updated_ms: i64,
}

impl Typed for TopicStatus {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut table = Table::new(
            "{#Broker Name:<32.32}  {#QID:<4}  {#Min Offset:<20}  {#Max Offset:<20}    {#Last Updated:<0}",
        );
        for QueueStatus { broker, queue, min_offset, max_offset, last_updated_ms, .. } in &self.queues {
            let updated = if *last_updated_ms > 0 { time_to_ms(*last_updated_ms) } else { String::new() };
            table.row(&[broker, queue, min_offset, max_offset, &updated]);
        }
        table.text + &format!("\nTopic Put TPS: {:?}\n", self.put_tps)
    }
}

pub(super) async fn status(session: &Session, arguments: &Arguments) -> Result<TopicStatus, Error> {
    let topic = arguments.need("topic")?;
    let brokers = session.brokers_in(topic, arguments).await?;
    let ask = Request::new(request::GET_TOPIC_STATS_INFO).with("topic", topic);
    let ask = &ask;
    let outcomes = for_each(brokers, |(_, address)| async move {
        body::<TopicStats>(&address, &session.look(&address, ask).await?)
    });
    let (answers, mut failures) = split(outcomes.await)?;
    let mut status = TopicStatus { put_tps: 0.0, queues: Vec::new(), failures: Vec::new() };
    for stats in answers {
        status.put_tps += stats.topic_put_tps;
        status.queues.extend(stats.offset_table.into_iter().map(|(queue, offsets)| QueueStatus {
            broker: queue.broker_name,
            queue: queue.queue_id,
            min_offset: offsets.min_offset,
            max_offset: offsets.max_offset,
            last_updated: time(offsets.last_update_timestamp),
            last_updated_ms: offsets.last_update_timestamp,
        }));
    }
    if status.queues.is_empty() {
        let missing = stats::no_broker(topic);
        return Err(if failures.is_empty() { missing } else { failures.swap_remove(0) });
    }
    status.failures = session.note(failures);
    status.queues.sort_by(|one, other| (&one.broker, one.queue).cmp(&(&other.broker, other.queue)));
    Ok(status)
}

/// Shares the queues of a topic out to consumers as `AllocateMessageQueueAveragely` does.
pub(super) async fn allocate(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let route = session.client.route(arguments.need("topic")?).await?;
    let mut queues = route.subscribe.clone();
    queues.sort_unstable();
    let clients: Vec<&str> = arguments.need("clients")?.split(',').collect();
    let (share, more) = (queues.len() / clients.len(), queues.len() % clients.len());
    let mut rest = queues.into_iter();
    let shares = (0..).zip(clients).map(|(place, client)| {
        let count = share + usize::from(place < more);
        (client, rest.by_ref().take(count).collect::<Vec<MessageQueue>>())
    });
    let shares: BTreeMap<_, _> = shares.collect();
    let rows: Vec<_> = shares
        .iter()
        .flat_map(|(client, queues)| {
            queues.iter().map(
                move |queue| serde_json::json!({"client": client, "broker": queue.broker_name, "queue": queue.queue_id}),
            )
        })
        .collect();
    let text = json::to_vec(&BTreeMap::from([("result", shares)]));
    Ok(Written::new(rows, String::from_utf8_lossy(&text).into_owned() + "\n"))
}

/// The route of a topic: one row for each broker set.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Route {
    /// The broker sets.
    pub brokers: Vec<RouteRow>,
    #[serde(skip)]
    data: TopicRouteData,
}

/// A broker set with queues of a topic.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteRow {
    /// Cluster of the broker set.
    pub cluster: String,
    /// Name of the broker set.
    pub broker: String,
    /// Addresses as `id=address`, separated by commas.
    pub addresses: String,
    /// Queues that consumers read.
    pub read_queues: i32,
    /// Queues that producers write.
    pub write_queues: i32,
    /// Permission, as `RW-`.
    pub perm: String,
    /// 1 for a unit topic, 2 for a topic that units subscribe to (`TopicSysFlag`).
    pub sys_flag: i32,
    #[serde(skip)]
    perm_bits: i32,
}

impl Typed for Route {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        if !arguments.is_on("list") {
            return indented(&String::from_utf8_lossy(&json::to_vec(&self.data))) + "\n";
        }
        let mut table = Table::new(
            "{#ClusterName:<45} {#BrokerName:<32} {#BrokerAddrs:<50} {#ReadQueue:<10} {#WriteQueue:<11} {#Perm:<5}",
        );
        let (mut read, mut write) = (0, 0);
        for RouteRow { cluster, broker, addresses, read_queues, write_queues, perm_bits, .. } in &self.brokers
        {
            table.row(&[cluster, broker, &format!("{{{addresses}}}"), read_queues, write_queues, perm_bits]);
            (read, write) = (read + read_queues, write + write_queues);
        }
        table.text += &("-".repeat(158) + "\n");
        table.row(&[&"Total:", &self.brokers.len(), &"", &read, &write, &""]);
        table.text
    }
}

pub(super) async fn route(session: &Session, arguments: &Arguments) -> Result<Route, Error> {
    let data = session.route(arguments.need("topic")?).await?;
    let mut brokers: Vec<_> = data
        .queue_datas
        .iter()
        .filter_map(|queues| {
            let set = data.broker_datas.iter().find(|set| set.broker_name == queues.broker_name)?;
            let addresses = set.broker_addrs.iter().map(|(id, address)| format!("{id}={address}"));
            Some(RouteRow {
                cluster: set.cluster.clone(),
                broker: set.broker_name.clone(),
                addresses: addresses.collect::<Vec<_>>().join(", "),
                read_queues: queues.read_queue_nums,
                write_queues: queues.write_queue_nums,
                perm: permission(queues.perm),
                sys_flag: queues.topic_sys_flag,
                perm_bits: queues.perm,
            })
        })
        .collect();
    brokers.sort_by(|one, other| one.broker.cmp(&other.broker));
    Ok(Route { brokers, data })
}

#[derive(Serialize)]
pub(super) struct ClusterName {
    cluster: String,
}

impl Typed for Vec<ClusterName> {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.iter().map(|row| row.cluster.clone() + "\n").collect()
    }
}

pub(super) async fn clusters(session: &Session, arguments: &Arguments) -> Result<Vec<ClusterName>, Error> {
    let route = session.route(arguments.need("topic")?).await?;
    let names: BTreeSet<_> = route.broker_datas.into_iter().map(|set| set.cluster).collect();
    Ok(names.into_iter().map(|cluster| ClusterName { cluster }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Received, ServerAnswer, with_cluster};
    use wire::body::TopicOffset;

    #[test]
    fn routes_are_listed_with_their_totals() {
        let row = RouteRow {
            cluster: "C".into(),
            broker: "broker-a".into(),
            addresses: "0=127.0.0.1:10911".into(),
            read_queues: 4,
            write_queues: 4,
            perm: "RW-".into(),
            sys_flag: 0,
            perm_bits: 6,
        };
        let mut arguments = Arguments::default();
        arguments.set("list", "true");
        let route = Route { brokers: vec![row], data: TopicRouteData::default() };
        let text = Typed::mqadmin(&route, &arguments);
        let words =
            |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(1), "C broker-a {0=127.0.0.1:10911} 4 4 6");
        assert_eq!(words(3), "Total: 1 4 4");
        assert_eq!(text.lines().nth(2).unwrap().len(), 158);
    }

    #[test]
    fn a_broker_that_does_not_answer_hides_no_queue_of_the_others() {
        let answers = |broker: &str, asked: &Received| match (broker, asked.code) {
            ("b", request::GET_TOPIC_STATS_INFO) => {
                let offset_table = [(MessageQueue::new("T", "b", 0), TopicOffset::default())].into();
                ServerAnswer::body(&TopicStats { offset_table, topic_put_tps: 1.5 })
            }
            _ => None,
        };
        let mut arguments = Arguments::default();
        arguments.set("topic", "T");
        with_cluster(&["a", "b"], answers, async |session: &Session| {
            let status = status(session, &arguments).await.unwrap();
            assert_eq!((status.queues.len(), status.failures.len(), session.failures().len()), (1, 1, 1));
        });
        with_cluster(&["a"], answers, async |session: &Session| {
            assert!(status(session, &arguments).await.is_err());
        });
    }
}
