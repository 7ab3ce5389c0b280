//! A cluster for tests, over real sockets of this machine: a name server that knows all of its brokers, and brokers that answer as the
//! test says.

use crate::Session;
use client::{Client, Config};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use wire::body::{BrokerData, ClusterInfo, QueueData, TopicRouteData};
use wire::codes::request;
use wire::frame::{Command, FrameWriter, Head};
use wire::json;

/// Longest wait of a test for an outcome. An outcome that comes late is as good as an early one.
const OUTCOME_CAP: Duration = Duration::from_secs(120);

/// Name of the cluster.
pub(crate) const CLUSTER: &str = "C";
/// Queues of each topic on each broker.
pub(crate) const QUEUES: i32 = 2;
/// The time of the sessions, ms since the epoch.
const NOW_MS: i64 = 1_000_000;

/// A request that reached a server.
pub(crate) struct Received {
    pub code: i32,
}

/// An answer of a server.
#[derive(Default)]
pub(crate) struct ServerAnswer {
    code: i32,
    remark: Option<&'static str>,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
    barrier: Option<Arc<Barrier>>,
}

impl ServerAnswer {
    /// Success without a body.
    pub fn success() -> Option<Self> {
        Some(Self::default())
    }

    /// Success with a body of JSON.
    pub fn body(body: &impl serde::Serialize) -> Option<Self> {
        Self::bytes(json::to_vec(body))
    }

    /// Success with a body.
    pub fn bytes(body: Vec<u8>) -> Option<Self> {
        Some(Self { body, ..Self::default() })
    }

    /// Success with a number in a header field.
    pub fn number(name: &'static str, number: i64) -> Option<Self> {
        Some(Self { fields: vec![(name, number.to_string())], ..Self::default() })
    }

    /// Adds a number in a header field.
    pub fn with(mut self, name: &'static str, number: i64) -> Self {
        self.fields.push((name, number.to_string()));
        self
    }

    /// A refusal.
    pub fn refused(code: i32) -> Option<Self> {
        Some(Self { code, ..Self::default() })
    }

    /// A refusal with a reason.
    pub fn refused_because(code: i32, remark: &'static str) -> Option<Self> {
        Some(Self { code, remark: Some(remark), ..Self::default() })
    }

    /// Answers once so many answers wait as the barrier wants.
    pub fn after(self, barrier: &Arc<Barrier>) -> Self {
        Self { barrier: Some(barrier.clone()), ..self }
    }
}

/// Answers of the server of a name. `None` closes the connection instead.
type Answers = Arc<dyn Fn(&str, &Received) -> Option<ServerAnswer> + Send + Sync>;

/// Performs a test in a session with a cluster of masters of these names.
pub(crate) fn with_cluster<T>(
    brokers: &[&str],
    answers: impl Fn(&str, &Received) -> Option<ServerAnswer> + Send + Sync + 'static,
    test: impl AsyncFnOnce(&Session) -> T,
) -> T {
    perform(brokers, Arc::new(answers), false, test)
}

/// Performs a test like [`with_cluster`], in a dry run.
pub(crate) fn with_planning_cluster<T>(
    brokers: &[&str],
    answers: impl Fn(&str, &Received) -> Option<ServerAnswer> + Send + Sync + 'static,
    test: impl AsyncFnOnce(&Session) -> T,
) -> T {
    perform(brokers, Arc::new(answers), true, test)
}

/// Performs a test in a session with a name server that answers as the test says.
pub(crate) fn with_name_server<T>(
    answers: impl Fn(&str, &Received) -> Option<ServerAnswer> + Send + Sync + 'static,
    test: impl AsyncFnOnce(Session) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (listener, name_server) = listen().await;
        let server = tokio::spawn(serve(listener, "namesrv".to_owned(), Arc::new(answers)));
        let config = Config { api_timeout_min: OUTCOME_CAP, ..Config::new(&name_server) };
        let client = Client::start(config).unwrap();
        let outcome = test(Session::new(client.clone(), vec![name_server], NOW_MS, false)).await;
        client.shutdown();
        server.abort();
        outcome
    })
}

fn perform<T>(
    brokers: &[&str],
    answers: Answers,
    is_dry_run: bool,
    test: impl AsyncFnOnce(&Session) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut servers = JoinSet::new();
        let mut sets = BTreeMap::new();
        for name in brokers {
            let (listener, address) = listen().await;
            let set = BrokerData {
                broker_addrs: [(0, address)].into(),
                broker_name: (*name).to_owned(),
                cluster: CLUSTER.to_owned(),
                ..BrokerData::default()
            };
            sets.insert((*name).to_owned(), set);
            servers.spawn(serve(listener, (*name).to_owned(), answers.clone()));
        }
        let (listener, name_server) = listen().await;
        servers.spawn(serve(listener, "namesrv".to_owned(), name_server_of(sets, answers)));
        let client =
            Client::start(Config { api_timeout_min: OUTCOME_CAP, ..Config::new(&name_server) }).unwrap();
        let session = Session::new(client.clone(), vec![name_server], NOW_MS, is_dry_run);
        let outcome = test(&session).await;
        client.shutdown();
        outcome
    })
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Answers of a name server that knows the broker sets. Every topic has queues on each of them.
fn name_server_of(sets: BTreeMap<String, BrokerData>, others: Answers) -> Answers {
    Arc::new(move |name, asked| match asked.code {
        request::GET_BROKER_CLUSTER_INFO => ServerAnswer::body(&ClusterInfo {
            cluster_addr_table: [(CLUSTER.to_owned(), sets.keys().cloned().collect())].into(),
            broker_addr_table: sets.clone(),
        }),
        request::GET_ROUTEINFO_BY_TOPIC => ServerAnswer::body(&TopicRouteData {
            queue_datas: sets.keys().map(|name| queues(name)).collect(),
            broker_datas: sets.values().cloned().collect(),
            ..TopicRouteData::default()
        }),
        _ => others(name, asked),
    })
}

fn queues(broker: &str) -> QueueData {
    QueueData {
        broker_name: broker.to_owned(),
        perm: 6,
        read_queue_nums: QUEUES,
        write_queue_nums: QUEUES,
        ..QueueData::default()
    }
}

async fn serve(listener: TcpListener, name: String, answers: Answers) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer(stream, name.clone(), answers.clone()));
    }
}

/// Answers the requests of a connection until an answer is missing.
async fn answer(mut stream: TcpStream, name: String, answers: Answers) {
    while let Ok(length) = stream.read_u32().await {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.resize(4 + length as usize, 0);
        stream.read_exact(&mut bytes[4..]).await.unwrap();
        let command = Command::decode(&mut bytes).unwrap();
        let asked = Received { code: command.code };
        if command.is_one_way() {
            continue;
        }
        let Some(said) = answers(&name, &asked) else { return };
        if let Some(barrier) = &said.barrier {
            barrier.wait().await;
        }
        let mut out = Vec::new();
        let head = Head { remark: said.remark, ..command.response(said.code) };
        let frame = FrameWriter::begin(&mut out, head);
        said.fields.iter().fold(frame, |frame, (name, value)| frame.text(name, value)).finish(&said.body);
        stream.write_all(&out).await.unwrap();
    }
}
