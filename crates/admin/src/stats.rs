//! Requests to brokers and name servers that operations on several nouns share, and their answers.

use crate::request::{Request, body, for_each, split};
use crate::{Arguments, Error, Session, lag};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use wire::body::{
    ConsumeStats, ConsumerConnection, ConsumerRunningInfo, GroupList, MessageQueue, SubscriptionGroupTable,
    TopicList,
};
use wire::codes::{request, response};
use wire::json;
use wire::names::RETRY_PREFIX;

/// Longest time for a member's answer where many members are asked.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(3);
/// Members that do not answer before no further ones are asked.
pub(crate) const SILENT_MAX: usize = 3;

/// A topic or group that was created or changed, and where.
#[derive(Serialize)]
pub(crate) struct CreatedConfig<T> {
    /// Addresses of the brokers.
    pub brokers: Vec<String>,
    /// Created topic or group.
    pub config: T,
}

/// Parses changes of attributes, `+key=value,-key`. The keys keep their sign (`AttributeParser.parseToMap`).
pub(crate) fn attributes(text: Option<&str>) -> Result<BTreeMap<String, String>, Error> {
    let mut changes = BTreeMap::new();
    for change in text.unwrap_or_default().split(',').map(str::trim).filter(|change| !change.is_empty()) {
        let (key, value) = change.split_once('=').unwrap_or((change, ""));
        let is_valid = match key.chars().next() {
            Some('+') => change.contains('='),
            Some('-') => !change.contains('='),
            _ => false,
        };
        if !is_valid {
            return Err(Error::Usage(format!("expected attributes as +key=value or -key, found {change}")));
        }
        changes.insert(key.to_owned(), value.to_owned());
    }
    Ok(changes)
}

/// The list that the argument `file` names, as JSON.
pub(crate) fn list_of_file<T: DeserializeOwned>(arguments: &Arguments) -> Result<Vec<T>, Error> {
    let file = arguments.need("file")?;
    let text = std::fs::read(file).map_err(|why| Error::Usage(format!("cannot read {file}: {why}")))?;
    json::from_slice(&text).map_err(|why| Error::Usage(format!("expected a list as JSON in {file}: {why}")))
}

/// The topics that the name server knows, in order.
pub(crate) async fn topics(session: &Session) -> Result<Vec<String>, Error> {
    let ask = Request::new(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER);
    let (reply, server) = session.ask_name_server(&ask).await?;
    let mut topics = body::<TopicList>(server, &reply)?.topic_list;
    topics.sort_unstable();
    Ok(topics)
}

/// The groups that consume a topic, as the first broker of the topic that answers reports them.
/// Brokers are pairs of name and address.
pub(crate) async fn groups_of(
    session: &Session,
    brokers: &[(String, String)],
    topic: &str,
) -> Result<Vec<String>, Error> {
    let ask = Request::new(request::QUERY_TOPIC_CONSUME_BY_WHO).with("topic", topic);
    let (reply, broker) = session.ask_in_turn(addresses(brokers), &ask, no_broker(topic)).await?;
    Ok(body::<GroupList>(broker, &reply)?.group_list)
}

fn addresses(brokers: &[(String, String)]) -> Vec<&str> {
    brokers.iter().map(|(_, address)| address.as_str()).collect()
}

/// A broker of a group: the given broker, otherwise a broker that has the retry topic of the group.
pub(crate) async fn broker_of_group(
    session: &Session,
    group: &str,
    broker: Option<&str>,
) -> Result<String, Error> {
    match broker {
        Some(broker) => session.broker(broker).await,
        None => session.first_of(&format!("{RETRY_PREFIX}{group}")).await,
    }
}

/// The members of a group, as the given broker reports them, otherwise the first broker of the
/// group that answers.
pub(crate) async fn consumer_connection(
    session: &Session,
    group: &str,
    broker: Option<&str>,
) -> Result<ConsumerConnection, Error> {
    connection_and_broker(session, group, broker).await.map(|(connection, _)| connection)
}

/// Connection as in [`consumer_connection`], with the address of the broker, through which the members can be asked.
pub(crate) async fn connection_and_broker(
    session: &Session,
    group: &str,
    broker: Option<&str>,
) -> Result<(ConsumerConnection, String), Error> {
    let ask = Request::new(request::GET_CONSUMER_CONNECTION_LIST).with("consumerGroup", group);
    let topic = format!("{RETRY_PREFIX}{group}");
    let brokers = match broker {
        Some(broker) => vec![(String::new(), session.broker(broker).await?)],
        None => brokers_of_group(session, group, &Arguments::default()).await?,
    };
    let (reply, broker) = session.ask_in_turn(addresses(&brokers), &ask, no_broker(&topic)).await?;
    Ok((body(broker, &reply)?, broker.to_owned()))
}

/// Reason with which proxies refuse to ask a client of gRPC for its status (`GrpcClientChannel`).
const NO_STATUS: &str = "not supported by clients of gRPC";

/// Whether a refusal of [`running_info`] means that clients of this kind report no status.
pub(crate) fn has_no_status(refusal: &str) -> bool {
    refusal.contains(NO_STATUS)
}

/// Status that a member of a group reports, asked through a broker that the member is connected to.
pub(crate) async fn running_info(
    session: &Session,
    broker: &str,
    (group, client): (&str, &str),
    has_stack: bool,
) -> Result<ConsumerRunningInfo, Error> {
    let ask = ask_running_info(group, client).with("jstackEnable", has_stack);
    body(broker, &session.look(broker, &ask).await?)
}

/// Status as in [`running_info`] without stacks, for looks at many members: a member has [`MEMBER_TIMEOUT`] to answer.
pub(crate) async fn brief_running_info(
    session: &Session,
    broker: &str,
    (group, client): (&str, &str),
) -> Result<ConsumerRunningInfo, Error> {
    let ask = ask_running_info(group, client).with("jstackEnable", false);
    body(broker, &session.look_within(broker, &ask, MEMBER_TIMEOUT).await?)
}

fn ask_running_info(group: &str, client: &str) -> Request {
    Request::new(request::GET_CONSUMER_RUNNING_INFO).with("consumerGroup", group).with("clientId", client)
}

/// A queue as `MessageQueue.toString` writes it.
pub(crate) fn queue_text(queue: &MessageQueue) -> String {
    let MessageQueue { topic, broker_name, queue_id } = queue;
    format!("MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]")
}

/// A text as the name of one file. Clients choose such texts, for example their ids, and must not choose the directory.
pub(crate) fn file_name(text: &str) -> String {
    text.replace('/', "_")
}

/// Writes a file and the directories above it.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    path.parent().map(std::fs::create_dir_all).transpose()?;
    Ok(std::fs::write(path, text)?)
}

/// Name and address of each master of a group: those that have its retry topic, otherwise those that have its settings. The retry
/// topic of a group exists from the first connection of a member on. RocketMQ's own tool knows no group without it.
async fn brokers_of_group(
    session: &Session,
    group: &str,
    arguments: &Arguments,
) -> Result<Vec<(String, String)>, Error> {
    let missing = match session.brokers_in(&format!("{RETRY_PREFIX}{group}"), arguments).await {
        Err(why) if why.code() == Some(response::TOPIC_NOT_EXIST) && !session.is_mqadmin() => why,
        found => return found,
    };
    let is_wanted = |cluster: &str| arguments.get("cluster").is_none_or(|wanted| wanted == cluster);
    let tables = group_tables(session).await?.into_iter();
    let tables = tables.filter(|it| is_wanted(&it.cluster));
    let tables = tables.filter(|it| it.groups.subscription_group_table.contains_key(group));
    let brokers: Vec<_> = tables.map(|it| (it.broker, it.address)).collect();
    if brokers.is_empty() { Err(missing) } else { Ok(brokers) }
}

/// The groups of a master.
pub(crate) struct GroupTable {
    pub cluster: String,
    /// Name of the broker set.
    pub broker: String,
    pub address: String,
    pub groups: SubscriptionGroupTable,
}

/// The groups of all masters that answer.
pub(crate) async fn group_tables(session: &Session) -> Result<Vec<GroupTable>, Error> {
    // Not request 352, which may create a group that does not exist.
    let ask = Request::new(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG);
    let mut outcomes = Vec::new();
    for member in session.members(None).await?.into_iter().filter(|member| member.id == 0) {
        let (cluster, broker, address) = (member.cluster, member.name, member.address);
        let groups = session.look(&address, &ask).await.and_then(|reply| body(&address, &reply));
        outcomes.push(groups.map(|groups| GroupTable { cluster, broker, address, groups }));
    }
    session.answers(outcomes)
}

/// The progress of a group in a topic, or in all of its topics, on all brokers of the group, or of the topic if the group has none
/// (`DefaultMQAdminExtImpl.examineConsumeStats`).
pub(crate) async fn consume_stats(
    session: &Session,
    group: &str,
    topic: Option<&str>,
) -> Result<ConsumeStats, Error> {
    let (stats, failures) = consume_stats_in(session, (group, topic), &Arguments::default()).await?;
    failures.into_iter().next().map_or(Ok(stats), Err)
}

/// Statistics as in [`consume_stats`], on the brokers of one cluster alone if the arguments name a cluster. The
/// failures of brokers that did not answer come with them, if at least one broker has offsets of the group.
pub(crate) async fn consume_stats_in(
    session: &Session,
    (group, topic): (&str, Option<&str>),
    arguments: &Arguments,
) -> Result<(ConsumeStats, Vec<Error>), Error> {
    let brokers = match (brokers_of_group(session, group, arguments).await, topic) {
        (Err(_), Some(topic)) => session.brokers_in(topic, arguments).await,
        (found, _) => found,
    }?;
    let outcomes =
        for_each(
            brokers,
            |(_, address)| async move { consume_stats_of(session, &address, group, topic).await },
        );
    let (answers, mut failures) = split(outcomes.await)?;
    let mut all = ConsumeStats::default();
    for stats in answers {
        all.consume_tps += stats.consume_tps;
        all.offset_table.extend(stats.offset_table);
    }
    match all.offset_table.is_empty() {
        true if failures.is_empty() => Err(no_offsets(group)),
        true => Err(failures.swap_remove(0)),
        false => Ok((all, failures)),
    }
}

/// The progress of a group in a topic, or in all of its topics, on one broker.
pub(crate) async fn consume_stats_of(
    session: &Session,
    broker: &str,
    group: &str,
    topic: Option<&str>,
) -> Result<ConsumeStats, Error> {
    let ask = Request::new(request::GET_CONSUME_STATS).with("consumerGroup", group).maybe("topic", topic);
    let mut stats: ConsumeStats = body(broker, &session.look(broker, &ask).await?)?;
    lag::add_first_times(session, broker, vec![&mut stats.offset_table]).await;
    Ok(stats)
}

/// The error for a topic that no broker has.
pub(crate) fn no_broker(topic: &str) -> Error {
    Error::NotFound(format!("no broker has queues of the topic {topic}"))
}

/// The error for a group that has no offsets.
pub(crate) fn no_offsets(group: &str) -> Error {
    Error::NotFound(format!("the group {group} has no offsets; it has consumed nothing yet"))
}

/// Deletes a topic on brokers and its route on all name servers.
pub(crate) async fn delete_topic(
    session: &Session,
    topic: &str,
    cluster: &str,
    brokers: &[String],
) -> Result<(), Error> {
    let broker = Request::new(request::DELETE_TOPIC_IN_BROKER).with("topic", topic);
    session.change_all(brokers, &broker).await?;
    let route =
        Request::new(request::DELETE_TOPIC_IN_NAMESRV).with("topic", topic).with("clusterName", cluster);
    let on_name_servers = session.change_all(&session.name_servers, &route).await;
    on_name_servers.map(drop).map_err(|why| session.partly(brokers, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_a_sign() {
        let changes = attributes(Some("+message.type=FIFO, -reserve.time")).unwrap();
        let expected = [("+message.type", "FIFO"), ("-reserve.time", "")];
        assert_eq!(changes, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        for wrong in ["message.type=FIFO", "+message.type", "-a=b"] {
            assert!(attributes(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_name_of_a_file_leads_to_no_other_directory() {
        assert_eq!(file_name("10.0.0.1@7#8"), "10.0.0.1@7#8");
        assert_eq!(file_name("../../etc/cron.d/x"), ".._.._etc_cron.d_x");
        let joined = std::env::temp_dir().join(file_name("/etc/cron.d/x"));
        assert_eq!(joined.parent(), Some(&*std::env::temp_dir()));
    }
}
