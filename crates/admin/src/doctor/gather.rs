//! Gathers a bundle: asks name servers and brokers with RocketMQ's own requests, which only read.

mod controllers;
mod departures;
mod groups;
mod levels;
mod lite;
mod namesakes;
mod own_queues;
mod stacks;

use super::bundle::{
    Broker, BrokerSet, Bundle, FORMAT, NameServer, Queue, Replication, Route, Slave, Topic, ip,
};
use super::secrets::without_secrets;
use crate::broker::slave_behind;
use crate::request::{Request, body, for_each};
use crate::{Error, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use wire::body::{
    BrokerData, ClusterInfo, DEPARTED_BROKERS, DepartedBroker, HaRuntimeInfo, REPLACED_BROKERS,
    ReplacedBroker, TopicRouteData, TopicStats, TopicTable, WITH_DEPARTED_BROKERS, WITH_REPLACED_BROKERS,
    parse_key_values,
};
use wire::codes::request;
use wire::json;

pub(super) use groups::{is_lagging, look_again};
pub(super) use namesakes::Watch;
pub(super) use stacks::{Dump, first as first_stacks, note_standing};

/// Longest time for a TLS handshake with a server that answers requests.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);
/// Broker id of a master.
const MASTER: i64 = 0;
/// Topics that are looked at. Each costs a request to every name server and master, and the bundle holds all of their queues.
const TOPICS_MAX: usize = if cfg!(test) { 4 } else { 10_000 };
/// Topics that are looked at in a brief look.
const BRIEF_TOPICS: usize = 100;
/// Topics of a broker that are asked for at once.
const PAGE: usize = 2000;
/// Topic of half messages that brokers gave up, which a check looks at.
const GIVEN_UP: &str = "TRANS_CHECK_MAX_TIME_TOPIC";

/// Scope of a bundle.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Only this topic and its retry topic; all without it.
    pub topic: Option<String>,
    /// Only this group; all without it.
    pub group: Option<String>,
    /// Whether groups are left out, and all topics except [`BRIEF_TOPICS`]. A look at the servers
    /// of a cluster with very many topics and groups is brief.
    pub is_brief: bool,
}

/// Gathers everything but the machine and the second look at groups. `clock` tells the time in ms since the epoch.
///
/// # Errors
/// The failure of the last name server when none answers.
pub(super) async fn gather(session: &Session, scope: &Scope, clock: fn() -> i64) -> Result<Bundle, Error> {
    let mut bundle = Bundle {
        format: FORMAT,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at_ms: clock(),
        ..Bundle::default()
    };
    // Servers are asked at the same time, because one that does not answer is waited for.
    bundle.name_servers = for_each(&session.name_servers, |address| name_server(session, address)).await;
    let known = members(&bundle.name_servers).into_iter().map(|(set, id, address)| Broker {
        cluster: set.cluster,
        name: set.name,
        id,
        address,
        ..Broker::default()
    });
    bundle.brokers = for_each(known, |known| broker(session, known, clock)).await;
    name_slaves(&mut bundle);
    (bundle.controllers, bundle.replica_sets) = controllers::gather(session, &bundle, clock).await;
    bundle.departed = departures::brokers(&bundle);
    bundle.proxies = departures::proxies(session, &bundle).await;
    if !scope.is_brief {
        bundle.groups = groups::gather(session, &bundle, scope).await;
    }
    bundle.lite = lite::gather(session, &bundle).await;
    let names = match &scope.topic {
        Some(topic) => vec![topic.clone()],
        None => {
            let (names, count) = names(session, &bundle).await?;
            let names = chosen(&bundle, names, if scope.is_brief { BRIEF_TOPICS } else { TOPICS_MAX });
            bundle.topics_left_out = count.saturating_sub(names.len());
            names
        }
    };
    for server in bundle.name_servers.iter_mut().filter(|server| server.error.is_none()) {
        server.routes = routes(session, &server.address, &names).await;
    }
    bundle.topics = ranges(session, &bundle, names).await;
    Ok(bundle)
}

/// When the certificate of a port ends; `None` when it speaks no TLS.
async fn certificate_ends_ms(address: &str) -> Option<i64> {
    tokio::time::timeout(HANDSHAKE_TIMEOUT, client::certificate_ends_ms(address)).await.ok()?.ok()
}

/// Returns names of topics, and the number of all topics. A name server with very many topics refuses to list them,
/// because a frame does not hold them. The names then come from brokers.
///
/// # Errors
/// The failure of the last name server when none answers.
async fn names(session: &Session, bundle: &Bundle) -> Result<(Vec<String>, usize), Error> {
    match crate::stats::topics(session).await {
        Ok(names) => {
            let count = names.len();
            Ok((names, count))
        }
        Err(error) if error.code().is_some() && masters(bundle).any(|broker| broker.topics.is_some()) => {
            let listed = || {
                masters(bundle).filter_map(|broker| Some((broker.topics.as_ref()?, broker.topics_left_out)))
            };
            let names: BTreeSet<&String> = listed().flat_map(|(topics, _)| topics.keys()).collect();
            let most = listed().map(|(topics, left_out)| topics.len() + left_out).max().unwrap_or_default();
            let count = most.max(names.len());
            Ok((names.into_iter().cloned().collect(), count))
        }
        Err(error) => Err(error),
    }
}

/// The topics to look at. If there are more than `most`: first topics that groups consume, then the first ones
/// by name, among which dead letter topics are.
fn chosen(bundle: &Bundle, names: Vec<String>, most: usize) -> Vec<String> {
    if names.len() < most {
        return names;
    }
    let consumed = bundle.groups.iter().flat_map(|group| &group.progress).map(|row| row.topic.clone());
    let mut chosen: BTreeSet<String> = [GIVEN_UP.to_owned()].into();
    for name in consumed.chain(names) {
        if chosen.len() < most {
            chosen.insert(name);
        }
    }
    chosen.into_iter().collect()
}

/// Asks a name server for brokers and routes. A name server that does not answer is asked nothing more.
async fn name_server(session: &Session, address: &str) -> NameServer {
    let server = NameServer { address: address.to_owned(), ..NameServer::default() };
    match table(session, address).await {
        Ok((sets, replaced, departed)) => {
            let certificate_ends_ms = certificate_ends_ms(address).await;
            NameServer { sets, replaced, departed, certificate_ends_ms, ..server }
        }
        Err(why) => NameServer { error: Some(why.to_string()), error_code: why.code(), ..server },
    }
}

/// A name server's broker table; brokers that are registered while another address has their name and id; brokers that
/// left. The lists are `None` if the name server does not report them.
type Table = (Vec<BrokerSet>, Option<Vec<ReplacedBroker>>, Option<Vec<DepartedBroker>>);

async fn table(session: &Session, address: &str) -> Result<Table, Error> {
    let ask = Request::new(request::GET_BROKER_CLUSTER_INFO)
        .with(WITH_REPLACED_BROKERS, true)
        .with(WITH_DEPARTED_BROKERS, true);
    let reply = session.look(address, &ask).await?;
    let info: ClusterInfo = body(address, &reply)?;
    let set = |set: BrokerData| BrokerSet {
        cluster: set.cluster,
        name: set.broker_name,
        addresses: set.broker_addrs,
    };
    let replaced = reply.text(REPLACED_BROKERS).and_then(|text| json::from_str(text).ok());
    let departed = reply.text(DEPARTED_BROKERS).and_then(|text| json::from_str(text).ok());
    Ok((info.broker_addr_table.into_values().map(set).collect(), replaced, departed))
}

/// The queues of topics, as a name server reports them.
async fn routes(session: &Session, address: &str, topics: &[String]) -> BTreeMap<String, Vec<Route>> {
    let routes = for_each(topics, async |topic| {
        let ask = Request::new(request::GET_ROUTEINFO_BY_TOPIC).with("topic", topic);
        let reply = session.look(address, &ask).await?;
        body::<TopicRouteData>(address, &reply)
    });
    // A topic without a route at this name server has none in the bundle.
    let found = topics.iter().zip(routes.await).filter_map(|(topic, route)| {
        let route: TopicRouteData = route.ok()?;
        let rows = route.queue_datas.into_iter().map(|row| Route {
            broker: row.broker_name,
            read_queues: row.read_queue_nums,
            write_queues: row.write_queue_nums,
            perm: row.perm,
        });
        Some((topic.clone(), rows.collect()))
    });
    found.collect()
}

/// Each broker that a name server knows, once.
fn members(servers: &[NameServer]) -> Vec<(BrokerSet, i64, String)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for set in servers.iter().flat_map(|server| &server.sets) {
        for (id, address) in &set.addresses {
            if seen.insert((set.name.clone(), *id, address.clone())) {
                found.push((set.clone(), *id, address.clone()));
            }
        }
    }
    found
}

/// Gathers the facts that a broker reports about itself. A broker that does not answer is asked nothing more.
async fn broker(session: &Session, known: Broker, clock: fn() -> i64) -> Broker {
    let address = known.address.clone();
    let known = Broker { asked_from_ms: clock(), ..known };
    let runtime = match session.client.broker_runtime(&address).await {
        Ok(runtime) => runtime,
        Err(why) => return Broker { error: Some(why.to_string()), error_code: why.code(), ..known },
    };
    let asked_at_ms = clock();
    // What a broker refuses or does not know is absent, and its checks are skipped.
    let settings = session.look(&address, &Request::new(request::GET_BROKER_CONFIG)).await.ok();
    let settings = settings.and_then(|reply| parse_key_values(&reply.body).ok()).map(without_secrets);
    let (topics, topics_left_out) = match topics(session, &address).await {
        Ok((topics, left_out)) => (Some(topics), left_out),
        Err(_) => (None, 0),
    };
    let status = session.look(&address, &Request::new(request::GET_BROKER_HA_STATUS)).await;
    let status = status.and_then(|reply| body::<HaRuntimeInfo>(&address, &reply)).ok();
    let replication = status.map(|status| Replication {
        is_master: status.master,
        in_sync: status.in_sync_slave_nums,
        connection: status.ha_client_runtime_info.connection_addr,
        slaves: status
            .ha_connection_info
            .into_iter()
            .map(|slave| Slave { address: slave.addr, behind_bytes: slave.diff, is_in_sync: slave.in_sync })
            .collect(),
    });
    let certificate_ends_ms = certificate_ends_ms(&address).await;
    let runtime = Some(runtime);
    let mut broker = Broker { asked_at_ms, runtime, settings, topics, topics_left_out, replication, ..known };
    broker.certificate_ends_ms = certificate_ends_ms;
    if broker.id == MASTER {
        broker.levels = levels::gather(session, &broker).await;
        broker.halves = own_queues::halves(session, &broker).await;
        broker.revives = own_queues::revives(session, &broker).await;
    }
    broker
}

/// Replaces the addresses from which slaves connected to their masters by the addresses of the
/// slaves, as far as the slaves are known.
fn name_slaves(bundle: &mut Bundle) {
    let brokers = bundle.brokers.clone();
    for master in bundle.brokers.iter_mut().filter(|broker| broker.id == MASTER) {
        let is_slave =
            |it: &&Broker| it.name == master.name && it.cluster == master.cluster && it.id != MASTER;
        let connection =
            |it: &'_ Broker| it.replication.as_ref().and_then(|status| status.connection.clone());
        let slaves: Vec<_> = brokers.iter().filter(is_slave).map(|it| (it, connection(it))).collect();
        let slaves: Vec<_> = slaves.iter().map(|(it, end)| (it.address.as_str(), end.as_deref())).collect();
        for slave in master.replication.iter_mut().flat_map(|status| &mut status.slaves) {
            if let Some(address) = slave_behind(&slave.address, &slaves) {
                address.clone_into(&mut slave.address);
            }
        }
    }
}

/// Returns the permission bits of a broker's topics, a page at a time up to [`TOPICS_MAX`], and the number of topics
/// that were left out. Brokers without pages answer with all topics at once.
async fn topics(session: &Session, address: &str) -> Result<(BTreeMap<String, i32>, usize), Error> {
    let mut topics = BTreeMap::new();
    loop {
        let first = topics.len();
        let ask =
            Request::new(request::GET_ALL_TOPIC_CONFIG).with("topicSeq", first).with("maxTopicNum", PAGE);
        let reply = session.look(address, &ask).await?;
        let table: TopicTable = body(address, &reply)?;
        topics.extend(table.topic_config_table.into_iter().map(|(name, config)| (name, config.perm)));
        let count: Option<usize> = reply.text("totalTopicNum").and_then(|count| count.parse().ok());
        let left_out = count.unwrap_or_default().saturating_sub(topics.len());
        if left_out == 0 || topics.len() >= TOPICS_MAX || topics.len() == first {
            return Ok((topics, left_out));
        }
    }
}

/// The masters that answer: name and address.
pub(super) fn masters(bundle: &Bundle) -> impl Iterator<Item = &Broker> {
    bundle.brokers.iter().filter(|broker| broker.id == MASTER && broker.error.is_none())
}

/// The offset range of each queue of the topics, as the masters report it.
async fn ranges(session: &Session, bundle: &Bundle, names: Vec<String>) -> Vec<Topic> {
    let topics = for_each(names, async |name| {
        let has = |broker: &&Broker| {
            let has_topic = |own: &BTreeMap<_, _>| own.contains_key(&name) || broker.topics_left_out > 0;
            broker.topics.as_ref().is_none_or(has_topic)
        };
        let mut queues = Vec::new();
        let mut is_known = false;
        for broker in masters(bundle).filter(has) {
            let ask = Request::new(request::GET_TOPIC_STATS_INFO).with("topic", &name);
            let Ok(reply) = session.look(&broker.address, &ask).await else { continue };
            let Ok(stats) = body::<TopicStats>(&broker.address, &reply) else { continue };
            is_known = true;
            queues.extend(stats.offset_table.into_iter().map(|(queue, range)| Queue {
                broker: queue.broker_name,
                queue: queue.queue_id,
                min: range.min_offset,
                max: range.max_offset,
                last_ms: range.last_update_timestamp,
            }));
        }
        is_known.then_some(Topic { name, queues })
    });
    topics.await.into_iter().flatten().collect()
}

/// Processes and disks to read when brokers of the bundle are on this machine.
pub(super) fn local_brokers(bundle: &Bundle) -> Option<host::Source> {
    let is_here = |broker: &&Broker| ip(&broker.address).is_some_and(host::is_own_address);
    let (mut paths, mut broker_ports) = (BTreeSet::new(), Vec::new());
    for broker in bundle.brokers.iter().filter(is_here) {
        // The port that others dial may be mapped to that of the process.
        let ports = [broker.address.rsplit_once(':').map(|(_, port)| port), broker.setting("listenPort")];
        broker_ports.extend(ports.into_iter().flatten().filter_map(|port| port.parse::<u16>().ok()));
        let settings = ["storePathRootDir", "storePathCommitLog"].into_iter();
        let of_broker = settings.filter_map(|name| broker.setting(name));
        paths.extend(of_broker.filter(|path| path.starts_with('/')).map(PathBuf::from));
    }
    let paths = paths.into_iter().collect();
    (!broker_ports.is_empty()).then(|| host::Source { root: "/".into(), paths, broker_ports })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::bundle::{Group, Progress};

    #[test]
    fn processes_and_disks_are_those_of_brokers_on_this_machine() {
        let broker = |address: &str, settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Broker { address: address.to_owned(), settings: Some(settings.collect()), ..Broker::default() }
        };
        let far = broker("192.0.2.1:10911", &[("storePathRootDir", "/far")]);
        let here = broker("[::1]:30911", &[("listenPort", "10921"), ("storePathRootDir", "/here")]);
        let bundle = |brokers| Bundle { brokers, ..Bundle::default() };
        assert!(local_brokers(&bundle(vec![far.clone()])).is_none());
        let found = local_brokers(&bundle(vec![far, here])).expect("one is here");
        assert_eq!((found.broker_ports, found.paths), (vec![30911, 10921], vec!["/here".into()]));
    }

    #[test]
    fn of_very_many_topics_those_that_groups_consume_come_first() {
        let row = |topic: &str| Progress { topic: topic.to_owned(), ..Progress::default() };
        let group = Group { progress: ["Y", "X", "X"].map(row).into(), ..Group::default() };
        let bundle = Bundle { groups: vec![group], ..Bundle::default() };
        let names = |list: &str| list.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let look_at = |list: &str| chosen(&bundle, names(list), TOPICS_MAX).join(" ");
        assert_eq!(look_at("A B C"), "A B C");
        assert_eq!(look_at("%DLQ%g A B C X Y"), "%DLQ%g TRANS_CHECK_MAX_TIME_TOPIC X Y");
    }
}
