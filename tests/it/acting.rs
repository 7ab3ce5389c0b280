//! A group with acting masters: a name server, a master and a slave, each a process.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use client::{Client, Config, ConsumeFrom, ConsumeStatus, PushConfig, PushConsumer, Received};
use wire::body::{ConsumerOffsetTable, TopicRouteData};
use wire::codes::{request, response};

use crate::common::patiently;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::{Connection, send_header};
use crate::stage::{eventually, make_group, open, setup};

const TOPIC: &str = "Kept";
const QUEUES: i32 = 4;
const BATCH: usize = 40;

/// A name server, and a master and its slave that are not started yet.
struct Group {
    name_server: SocketAddr,
    master: Setup,
    slave: Setup,
    _server: Server,
    _homes: [tempfile::TempDir; 3],
}

impl Group {
    fn new() -> Self {
        let (mut server, one) = setup(&["supportActingMaster=true", "notifyMinBrokerIdChanged=true"]);
        server.roles = "namesrv".to_owned();
        let name_server = server.namesrv();
        let running = server.spawn().unwrap();
        eventually("the name server answers", || Connection::open(name_server).ok());
        let broker = |lines: &[&str]| {
            let (mut setup, home) = setup(lines);
            setup.roles = "broker".to_owned();
            let setup = setup.line("brokerName=group-a").line("enableSlaveActingMaster=true");
            // A killed broker is known by the end of its connection, and a slow one is not taken for it.
            let setup = setup.line("brokerNotActiveTimeoutMillis=120000");
            (setup.line(format!("namesrvAddr={name_server}")), home)
        };
        let (master, two) = broker(&[]);
        let (slave, three) = broker(&["brokerRole=SLAVE", "brokerId=1", "slaveReadEnable=true"]);
        Self { name_server, master, slave, _server: running, _homes: [one, two, three] }
    }

    /// The addresses of the group in the route of the topic; `None` when there is no route.
    fn route(&self) -> Option<Vec<(i64, String)>> {
        route(self.name_server)
    }

    fn await_route(&self, what: &str, expected: &[(i64, SocketAddr)]) {
        let expected: Vec<_> = expected.iter().map(|(id, at)| (*id, at.to_string())).collect();
        eventually(what, || (self.route()? == expected).then_some(()));
    }
}

fn route(name_server: SocketAddr) -> Option<Vec<(i64, String)>> {
    let mut connection = Connection::open(name_server).ok()?;
    let answer = connection.call(request::GET_ROUTEINFO_BY_TOPIC, |writer| writer.text("topic", TOPIC), &[]);
    let data = (answer.code == 0).then(|| TopicRouteData::decode(&answer.body).unwrap())?;
    let brokers = data.broker_datas.into_iter().next()?;
    Some(brokers.broker_addrs.into_iter().collect())
}

/// The committed offset of a group in a queue, in the table of this broker. A slave that does not act passes a question for one
/// offset on to the master.
fn committed(address: SocketAddr, group: &str, queue: i32) -> Option<i64> {
    let answer = open(address).call(request::GET_ALL_CONSUMER_OFFSET, |writer| writer, &[]);
    let table: ConsumerOffsetTable = wire::json::from_slice(&answer.body).unwrap();
    table.offset_table.get(&format!("{TOPIC}@{group}"))?.get(&queue).copied()
}

/// Commits larger and larger offsets of a group at the broker that the route shows as the master.
struct Committer {
    stop: Arc<AtomicBool>,
    /// The largest offset whose commit was answered with success.
    acknowledged: Arc<AtomicI64>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    fn start(name_server: SocketAddr) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(-1)));
        let (told, largest) = (stop.clone(), acknowledged.clone());
        let run = move || {
            let mut offset = 0;
            while !told.load(Ordering::Relaxed) {
                offset += 1;
                if commit(name_server, offset).is_some() {
                    largest.store(offset, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(1));
            }
        };
        Self { stop, acknowledged, thread: Some(thread::spawn(run)) }
    }

    fn acknowledged(&self) -> i64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Ends, and returns the largest offset that was acknowledged.
    fn end(mut self) -> i64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.acknowledged()
    }
}

fn commit(name_server: SocketAddr, offset: i64) -> Option<()> {
    let (_, master) = route(name_server)?.into_iter().find(|(id, _)| *id == 0)?;
    let mut connection = Connection::open(master.parse().unwrap()).ok()?;
    let asked = connection.ask(
        request::UPDATE_CONSUMER_OFFSET,
        |writer| {
            let writer = writer.text("consumerGroup", "Committing").text("topic", TOPIC);
            writer.number("queueId", 0).number("commitOffset", offset)
        },
        &[],
    );
    let answer = connection.answer(asked.ok()?).ok()?;
    (answer.code == 0).then_some(())
}

fn send_batch(address: SocketAddr, number: usize) {
    let mut producer = open(address);
    for message in number * BATCH..(number + 1) * BATCH {
        producer.stored(&send_header(TOPIC, message as i32 % QUEUES), message.to_string().as_bytes());
    }
}

/// The ends of all queues; `None` when a broker does not know the topic.
fn ends(address: SocketAddr) -> Option<Vec<i64>> {
    let mut connection = open(address);
    let end = |queue| {
        let answer = connection.call(
            request::GET_MAX_OFFSET,
            |writer| writer.text("topic", TOPIC).number("queueId", queue),
            &[],
        );
        (answer.code == 0).then(|| answer.number("offset"))
    };
    (0..QUEUES).map(end).collect()
}

/// A consumer of the project's client, with the numbers of the messages that it got.
struct Consumer {
    got: Arc<Mutex<BTreeSet<usize>>>,
    /// While set, the listener waits.
    waits: Arc<AtomicBool>,
    stop: tokio::sync::oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Consumer {
    fn start(name_server: SocketAddr) -> Self {
        let (got, waits) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicBool::new(false)));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (gets, held) = (got.clone(), waits.clone());
        let run = async move || {
            let client = Client::start(Config::new(&name_server.to_string())).unwrap();
            let config =
                PushConfig { from: ConsumeFrom::First, threads: 1, ..PushConfig::new("CG", TOPIC, "*") };
            let listener = Arc::new(move |messages: &[Received]| {
                while held.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                let number = |body: &[u8]| String::from_utf8_lossy(body).parse::<usize>().unwrap();
                gets.lock().unwrap().extend(messages.iter().map(|message| number(&message.body)));
                ConsumeStatus::Done
            });
            let consumer = patiently(async || {
                let listener = listener.clone();
                PushConsumer::start(&client, config.clone(), move |messages: &[Received]| listener(messages))
                    .await
            });
            let consumer = consumer.await.unwrap();
            stopped.await.unwrap();
            consumer.shutdown().await;
            client.shutdown();
        };
        let thread = thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run());
        });
        Self { got, waits, stop, thread }
    }

    fn await_batches(&self, what: &str, count: usize) {
        eventually(what, || (self.got.lock().unwrap().len() == count * BATCH).then_some(()));
    }

    fn end(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

#[test]
fn a_slave_serves_consumers_while_its_master_is_killed_and_no_offset_goes_back() {
    let group = Group::new();
    let (at_master, at_slave) = (group.master.broker(), group.slave.broker());
    let master = group.master.spawn().unwrap();
    eventually("the master takes messages", || {
        let mut connection = Connection::open(at_master).ok()?;
        (connection.send(&send_header(TOPIC, 0), b"0").code == 0).then_some(())
    });
    make_group(&mut open(at_master), "Committing");
    let _slave = group.slave.spawn().unwrap();
    group.await_route("both are registered", &[(0, at_master), (1, at_slave)]);
    let consumer = Consumer::start(group.name_server);
    let committer = Committer::start(group.name_server);
    send_batch(at_master, 0);
    consumer.await_batches("the consumer gets the first messages", 1);

    consumer.waits.store(true, Ordering::Relaxed);
    send_batch(at_master, 1);
    eventually("the slave has all messages", || (ends(at_slave) == ends(at_master)).then_some(()));
    eventually("the slave has the group", || committed(at_slave, "Committing", 0).filter(|it| *it > 0));
    master.kill9();
    group.await_route("the slave is shown as the master", &[(0, at_slave)]);
    let before = committer.acknowledged();
    consumer.waits.store(false, Ordering::Relaxed);
    consumer.await_batches("the consumer gets from the slave what the master had", 2);
    eventually("offsets are committed at the slave", || {
        (committer.acknowledged() > before + 50).then_some(())
    });
    let own = eventually("the slave has the consumer's offsets", || {
        let all: Option<Vec<i64>> = (0..QUEUES).map(|queue| committed(at_slave, "CG", queue)).collect();
        (all.as_ref() == ends(at_slave).as_ref()).then_some(all).flatten()
    });
    let refused = open(at_slave).send(&send_header(TOPIC, 0), b"no");
    assert_eq!(refused.code, response::SYSTEM_BUSY, "{refused:?}");

    let _master = group.master.spawn().unwrap();
    group.await_route("the master is back", &[(0, at_master), (1, at_slave)]);
    let known: Vec<_> = (0..QUEUES).map(|queue| committed(at_master, "CG", queue)).collect();
    assert_eq!(
        known,
        own.iter().copied().map(Some).collect::<Vec<_>>(),
        "it serves with the slave's offsets"
    );
    let since = committer.acknowledged();
    eventually("offsets are committed at the master", || {
        (committer.acknowledged() > since + 50).then_some(())
    });
    let acknowledged = committer.end();
    eventually("both have what was acknowledged last", || {
        let found = [at_master, at_slave].map(|at| committed(at, "Committing", 0));
        (found == [Some(acknowledged); 2]).then_some(())
    });
    send_batch(at_master, 2);
    consumer.await_batches("the consumer gets what comes later", 3);
    consumer.end();
}
