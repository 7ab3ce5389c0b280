//! An operator's session with a cluster: its servers, and requests to them, which a dry run only collects.

use crate::error::texts;
use crate::request::{Request, body, split};
use crate::text::{TIME_HELP, parse_time_at};
use crate::{Arguments, Error};
use client::{Client, Response};
use serde::Serialize;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::body::{ClusterInfo, MessageQueue, TopicRouteData};
use wire::codes::request;
use wire::settings::{BROKER_PORT, with_port};

/// Longest time for a request (the default of `DefaultMQAdminExt`).
const TIMEOUT: Duration = Duration::from_secs(5);
/// Broker id of a master.
const MASTER: i64 = 0;

/// A request that a dry run did not send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Address of the server that would get it.
    pub server: String,
    /// Name of the request (`RequestCode`).
    pub request: String,
    /// Header fields and body of the request.
    pub content: String,
}

/// A broker of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub cluster: String,
    pub name: String,
    pub id: i64,
    pub address: String,
}

/// An operator's session with a cluster.
pub struct Session {
    /// Connections, routes and calls.
    pub(crate) client: Client,
    /// Addresses of the name servers.
    pub(crate) name_servers: Vec<String>,
    /// Time of the session's start, ms since the epoch.
    pub(crate) now_ms: i64,
    /// Requests that a dry run did not send; `None` when they are sent.
    planned: Option<Mutex<Vec<Planned>>>,
    /// Failures of servers whose part is missing in an answer of this session.
    failures: Mutex<Vec<Error>>,
    /// Index of the name server that answered last, which is asked first.
    last_answered: Arc<AtomicUsize>,
    /// Whether an operation that names neither broker nor cluster is refused, as by `mqadmin`.
    needs_target: bool,
}

impl Session {
    /// Begins a session. A dry run sends no request that changes anything.
    pub fn new(client: Client, name_servers: Vec<String>, now_ms: i64, is_dry_run: bool) -> Self {
        let planned = is_dry_run.then(Mutex::default);
        let (failures, last_answered) = (Mutex::default(), Arc::default());
        Self { client, name_servers, now_ms, planned, failures, last_answered, needs_target: false }
    }

    /// Refuses operations that name neither broker nor cluster.
    pub(crate) fn without_default_cluster(self) -> Self {
        Self { needs_target: true, ..self }
    }

    /// Remembers with other sessions which name server answered last.
    pub(crate) fn remembering(self, last_answered: Arc<AtomicUsize>) -> Self {
        Self { last_answered, ..self }
    }

    /// The requests that a dry run did not send so far; `None` when requests are sent.
    pub fn planned(&self) -> Option<Vec<Planned>> {
        self.planned.as_ref().map(|planned| planned.lock().expect("short section").clone())
    }

    /// Why the answers of this session are not complete, a text for each server that gave none; empty when all did.
    pub fn failures(&self) -> Vec<String> {
        texts(&self.failures.lock().expect("short section"))
    }

    /// Records failures of servers whose part is missing in an answer, and returns their texts.
    pub(crate) fn note(&self, failures: Vec<Error>) -> Vec<String> {
        let noted = texts(&failures);
        self.failures.lock().expect("short section").extend(failures);
        noted
    }

    /// Returns the answers of servers that were asked in turn. Failures are recorded, so that they are reported after
    /// the answer.
    ///
    /// # Errors
    /// The first failure when no server answered.
    pub(crate) fn answers<T>(&self, outcomes: Vec<Result<T, Error>>) -> Result<Vec<T>, Error> {
        let (answers, failures) = split(outcomes)?;
        self.note(failures);
        Ok(answers)
    }

    /// The failures that were noted, which are forgotten then.
    pub(crate) fn take_failures(&self) -> Vec<Error> {
        std::mem::take(&mut *self.failures.lock().expect("short section"))
    }

    /// Sends a request that only reads.
    pub(crate) async fn look(&self, server: &str, request: &Request) -> Result<Response, Error> {
        self.look_within(server, request, TIMEOUT).await
    }

    /// Sends a request like [`Session::look`], with the longest time for the answer.
    pub(crate) async fn look_within(
        &self,
        server: &str,
        request: &Request,
        timeout: Duration,
    ) -> Result<Response, Error> {
        let reply = self.client.call(server, request.code, timeout, |frame| request.write(frame)).await;
        reply.map_err(Error::from)
    }

    /// Sends a request that changes something; `None` in a dry run.
    pub(crate) async fn change(&self, server: &str, request: &Request) -> Result<Option<Response>, Error> {
        let Some(planned) = &self.planned else {
            return self.look(server, request).await.map(Some);
        };
        let (name, content) = (request.name(), request.content());
        let step = Planned { server: server.to_owned(), request: name, content };
        planned.lock().expect("short section").push(step);
        Ok(None)
    }

    /// Sends a request that changes something to several servers, one after the other. Returns their remarks, each
    /// remark once.
    pub(crate) async fn change_all(
        &self,
        servers: &[String],
        request: &Request,
    ) -> Result<Vec<String>, Error> {
        let (mut done, mut remarks) = (Vec::new(), Vec::new());
        for server in servers {
            match self.change(server, request).await {
                Ok(reply) => {
                    done.push(server.clone());
                    let remark = reply.and_then(|reply| reply.remark).filter(|remark| !remark.is_empty());
                    remarks.extend(remark.filter(|remark| !remarks.contains(remark)));
                }
                Err(why) => return Err(self.partly(&done, why)),
            }
        }
        Ok(remarks)
    }

    /// A failure after a change was made on the servers `done`. A dry run changed nothing, so it has the failure alone.
    pub(crate) fn partly(&self, done: &[String], why: Error) -> Error {
        let (also_done, why) = match why {
            Error::Partly { done, why } => (done, why),
            why => (Vec::new(), Box::new(why)),
        };
        let also_done = also_done.into_iter().filter(|server| !done.contains(server));
        let done: Vec<_> = done.iter().cloned().chain(also_done).collect();
        if done.is_empty() || self.planned.is_some() { *why } else { Error::Partly { done, why } }
    }

    /// Sends a request that only reads to servers in turn until one answers. A refusal is an answer.
    ///
    /// # Errors
    /// The refusal, or the failure of the last server; `missing` when there are no servers.
    pub(crate) async fn ask_in_turn<'a>(
        &self,
        servers: Vec<&'a str>,
        request: &Request,
        missing: Error,
    ) -> Result<(Response, &'a str), Error> {
        let mut failure = missing;
        for server in servers {
            match self.look(server, request).await {
                Ok(reply) => return Ok((reply, server)),
                Err(error) if error.code().is_some() => return Err(error),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Sends a request that only reads to the first name server that answers. The name server that answered last is
    /// asked first, because a lost name server would delay each request.
    pub(crate) async fn ask_name_server(&self, request: &Request) -> Result<(Response, &str), Error> {
        let first = self.last_answered.load(Relaxed).min(self.name_servers.len());
        let (before, servers) = self.name_servers.split_at(first);
        let servers = servers.iter().chain(before).map(String::as_str).collect();
        let missing = client::Error::NoNameServer.into();
        let (reply, server) = self.ask_in_turn(servers, request, missing).await?;
        if let Some(place) = self.name_servers.iter().position(|it| it == server) {
            self.last_answered.store(place, Relaxed);
        }
        Ok((reply, server))
    }

    /// The clusters and broker sets that the name server knows.
    pub(crate) async fn cluster_info(&self) -> Result<ClusterInfo, Error> {
        let (reply, server) = self.ask_name_server(&Request::new(request::GET_BROKER_CLUSTER_INFO)).await?;
        body(server, &reply)
    }

    /// The brokers of a cluster, or of all clusters, in the order of their names and ids.
    pub(crate) async fn members(&self, cluster: Option<&str>) -> Result<Vec<Member>, Error> {
        let info = self.cluster_info().await?;
        let mut members = Vec::new();
        for (name, brokers) in &info.cluster_addr_table {
            for set in brokers.iter().filter_map(|broker| info.broker_addr_table.get(broker)) {
                members.extend(set.broker_addrs.iter().map(|(id, address)| Member {
                    cluster: name.clone(),
                    name: set.broker_name.clone(),
                    id: *id,
                    address: address.clone(),
                }));
            }
        }
        members.retain(|member| cluster.is_none_or(|cluster| member.cluster == cluster));
        match cluster {
            Some(cluster) if members.is_empty() => {
                Err(Error::NotFound(format!("the name server knows no broker of the cluster {cluster}")))
            }
            _ => Ok(members),
        }
    }

    /// Address of a broker that is named by its address, or by its broker set, which stands for the master. An IP
    /// address without a port has port 10911.
    pub(crate) async fn broker(&self, name: &str) -> Result<String, Error> {
        if name.contains(':') || name.parse::<Ipv4Addr>().is_ok() {
            return Ok(with_port(name, BROKER_PORT));
        }
        let members = self.members(None).await?;
        let master = members.into_iter().find(|member| member.name == name && member.id == MASTER);
        let missing = || Error::NotFound(format!("the name server knows no master of the broker set {name}"));
        master.map(|master| master.address).ok_or_else(missing)
    }

    /// Address of the master of a queue.
    pub(crate) async fn master_of(&self, queue: &MessageQueue) -> Result<String, Error> {
        let route = self.client.route(&queue.topic).await?;
        let missing = || client::Error::NoBroker(queue.broker_name.clone()).into();
        route.master(&queue.broker_name).map(str::to_owned).ok_or_else(missing)
    }

    /// Addresses of the broker that the arguments name, or of the masters of the cluster that they name.
    pub(crate) async fn masters(&self, arguments: &Arguments) -> Result<Vec<String>, Error> {
        let members = self.targets(arguments).await?;
        Ok(members.into_iter().filter(|member| member.id == MASTER).map(|member| member.address).collect())
    }

    /// The brokers that the arguments name: one broker, or all brokers of a cluster. A broker that is named by its
    /// address counts as a master and has no name.
    pub(crate) async fn targets(&self, arguments: &Arguments) -> Result<Vec<Member>, Error> {
        match (arguments.get("broker"), arguments.get("cluster")) {
            (Some(broker), _) => {
                let address = self.broker(broker).await?;
                Ok(vec![Member { cluster: String::new(), name: String::new(), id: MASTER, address }])
            }
            (None, Some(cluster)) => self.members(Some(cluster)).await,
            (None, None) => self.members(Some(&self.cluster(arguments).await?)).await,
        }
    }

    /// Whether operations answer as RocketMQ's own tool does.
    pub(crate) fn is_mqadmin(&self) -> bool {
        self.needs_target
    }

    /// The cluster that the arguments name, otherwise the only cluster that the name server knows.
    ///
    /// # Errors
    /// [`Error::Usage`] with the names when there are several clusters, [`Error::NotFound`] when there is none.
    pub(crate) async fn cluster(&self, arguments: &Arguments) -> Result<String, Error> {
        const EXPECTED: &str = "expected a broker or a cluster";
        if let Some(cluster) = arguments.get("cluster") {
            return Ok(cluster.to_owned());
        }
        if self.needs_target {
            return Err(Error::Usage(EXPECTED.to_owned()));
        }
        let mut names: Vec<String> =
            self.members(None).await?.into_iter().map(|member| member.cluster).collect();
        names.sort_unstable();
        names.dedup();
        match names.as_slice() {
            [] => Err(Error::NotFound("the name server knows no broker".to_owned())),
            [only] => Ok(only.clone()),
            several => Err(Error::Usage(format!("{EXPECTED}; there are several: {}", several.join(", ")))),
        }
    }

    /// The time that an argument names; `None` when it was not given.
    ///
    /// # Errors
    /// [`Error::Usage`] when the value is no time.
    pub(crate) fn time(&self, arguments: &Arguments, name: &str) -> Result<Option<i64>, Error> {
        let parse = |text: &str| {
            let wrong = || Error::Usage(format!("expected {name} as a time, found {text}. {TIME_HELP}"));
            parse_time_at(text, self.now_ms).ok_or_else(wrong)
        };
        arguments.get(name).map(parse).transpose()
    }

    /// The route of a topic.
    pub(crate) async fn route(&self, topic: &str) -> Result<TopicRouteData, Error> {
        Ok(self.client.fetch_route(topic).await?)
    }

    /// Address of a broker that has queues of a topic.
    pub(crate) async fn first_of(&self, topic: &str) -> Result<String, Error> {
        let brokers = self.brokers_of(topic).await?;
        let missing = || crate::stats::no_broker(topic);
        brokers.into_iter().next().map(|(_, address)| address).ok_or_else(missing)
    }

    /// Name and address of a broker of each broker set that has queues of a topic: the master, otherwise any slave
    /// (`BrokerData.selectBrokerAddr`).
    pub(crate) async fn brokers_of(&self, topic: &str) -> Result<Vec<(String, String)>, Error> {
        Ok(chosen(self.route(topic).await?, None))
    }

    /// Brokers as in [`Session::brokers_of`], but of one cluster alone if the arguments name a cluster.
    pub(crate) async fn brokers_in(
        &self,
        topic: &str,
        arguments: &Arguments,
    ) -> Result<Vec<(String, String)>, Error> {
        let cluster = arguments.get("cluster");
        match (chosen(self.route(topic).await?, cluster), cluster) {
            (found, Some(cluster)) if found.is_empty() => Err(Error::NotFound(format!(
                "no broker of the cluster {cluster} has queues of the topic {topic}"
            ))),
            (found, _) => Ok(found),
        }
    }
}

/// Name and address of a broker of each broker set of a route, or of the broker sets of one cluster.
fn chosen(route: TopicRouteData, cluster: Option<&str>) -> Vec<(String, String)> {
    let sets = route.broker_datas.into_iter().filter(|set| cluster.is_none_or(|name| set.cluster == name));
    let chosen = sets.filter_map(|set| {
        let addresses = set.broker_addrs;
        let address = addresses.get(&MASTER).or_else(|| addresses.values().next())?;
        Some((set.broker_name, address.clone()))
    });
    chosen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CLUSTER, Received, ServerAnswer, with_cluster, with_name_server};
    use wire::body::{BrokerData, ClusterInfo, KvTable};
    use wire::codes::response;

    /// Every operation that shows or writes a part of each broker.
    #[test]
    fn a_broker_that_does_not_answer_hides_nothing_of_those_behind_it() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().to_str().unwrap().to_owned();
        let answers = |broker: &str, asked: &Received| match asked.code {
            _ if broker != "b" => None,
            request::GET_BROKER_RUNTIME_INFO => ServerAnswer::body(&KvTable::default()),
            request::GET_BROKER_CONFIG => ServerAnswer::bytes(b"brokerName=b\n".to_vec()),
            request::AUTH_LIST_USER | request::AUTH_LIST_ACL => ServerAnswer::bytes(b"[]".to_vec()),
            request::AUTH_GET_USER => ServerAnswer::bytes(br#"{"username":"u"}"#.to_vec()),
            request::AUTH_GET_ACL => ServerAnswer::bytes(br#"{"subject":"User:u"}"#.to_vec()),
            request::VOSTOK_PAGE => ServerAnswer::refused(response::REQUEST_CODE_NOT_SUPPORTED),
            request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => {
                let body = br#"{"subscriptionGroupTable":{"G":{"groupName":"G"}}}"#;
                ServerAnswer::bytes(body.to_vec())
            }
            _ => ServerAnswer::bytes(b"{}".to_vec()),
        };
        let names = [
            "group config",
            "acl list",
            "acl get",
            "user list",
            "user get",
            "broker status",
            "broker config",
            "broker replication",
            "broker cold-reads",
            "export metadata",
            "export configs",
            "export metrics",
        ];
        for name in names {
            let operation =
                crate::table::operations().find(|it| format!("{} {}", it.noun, it.verb) == name).expect(name);
            let mut arguments = Arguments::default();
            for (key, value) in [
                ("group", "G"),
                ("subject", "User:u"),
                ("user", "u"),
                ("cluster", CLUSTER),
                ("directory", &directory),
            ] {
                arguments.set(key, value);
            }
            with_cluster(&["a", "b"], answers, async |session: &Session| {
                let outcome = (operation.call)(session, &arguments).await;
                assert!(outcome.is_ok(), "{name}: {}", outcome.err().unwrap());
                assert_eq!(session.take_failures().len(), 1, "{name}: the operator learns of a");
            });
            with_cluster(&["a"], answers, async |session: &Session| {
                assert!((operation.call)(session, &arguments).await.is_err(), "{name}");
            });
        }
    }

    /// Clusters with a broker each, of which the name server tells.
    fn clusters(names: &'static [&'static str]) -> impl Fn(&str, &Received) -> Option<ServerAnswer> {
        move |server, asked| match (server, asked.code) {
            (_, request::GET_BROKER_CLUSTER_INFO) => {
                let set = |name: &&str| BrokerData {
                    broker_addrs: [(0, format!("{name}:1"))].into(),
                    broker_name: format!("of-{name}"),
                    cluster: (*name).to_owned(),
                    ..BrokerData::default()
                };
                ServerAnswer::body(&ClusterInfo {
                    cluster_addr_table: names
                        .iter()
                        .map(|name| ((*name).to_owned(), [format!("of-{name}")].into()))
                        .collect(),
                    broker_addr_table: names.iter().map(|name| (format!("of-{name}"), set(name))).collect(),
                })
            }
            _ => None,
        }
    }

    #[test]
    fn the_only_cluster_is_meant_where_none_is_named() {
        let masters = |names: &'static [&'static str], needs_target: bool| {
            with_name_server(clusters(names), async |session: Session| {
                let session = if needs_target { session.without_default_cluster() } else { session };
                session.masters(&Arguments::default()).await.map_err(|why| why.to_string())
            })
        };
        assert_eq!(masters(&["One"], false), Ok(vec!["One:1".to_owned()]));
        let several = "expected a broker or a cluster; there are several: One, Two".to_owned();
        assert_eq!(masters(&["Two", "One"], false), Err(several));
        assert_eq!(masters(&["One"], true), Err("expected a broker or a cluster".to_owned()), "mqadmin");
    }

    #[test]
    fn a_name_server_that_does_not_answer_is_asked_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let answers = move |_: &str, _: &_| {
            count.fetch_add(1, Relaxed);
            None
        };
        with_cluster(&["a"], answers, async |session: &Session| {
            let silent = session.broker("a").await.unwrap();
            let name_servers = vec![silent, session.name_servers[0].clone()];
            let last_answered = Arc::default();
            for _ in 0..3 {
                let session = Session::new(session.client.clone(), name_servers.clone(), 0, false);
                session.remembering(Arc::clone(&last_answered)).members(None).await.unwrap();
            }
        });
        assert_eq!(asked.load(Relaxed), 1);
    }

    #[test]
    fn brokers_of_a_route_are_those_of_the_cluster_that_is_named() {
        let set = |cluster: &str, name: &str, id: i64| BrokerData {
            broker_addrs: [(id, format!("{name}:{id}"))].into(),
            broker_name: name.to_owned(),
            cluster: cluster.to_owned(),
            ..BrokerData::default()
        };
        let route = TopicRouteData {
            broker_datas: vec![set("One", "a", 0), set("Two", "b", 0), set("Two", "c", 1)],
            ..TopicRouteData::default()
        };
        let names =
            |cluster| chosen(route.clone(), cluster).into_iter().map(|(name, _)| name).collect::<String>();
        assert_eq!(
            (names(None), names(Some("Two")), names(Some("None"))),
            ("abc".into(), "bc".into(), "".into())
        );
    }
}
