//! Classic replication: a master and its slave, each a process.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use wire::codes::{request, response};

use crate::common::server::{Server, Setup};
use crate::common::wire_client::{Connection, pull_header, pull_reply, send_header};
use crate::stage::{eventually, open, records, setup};

const MESSAGES: usize = 10_000;
const QUEUES: i32 = 4;
/// Requests in flight; the slave is cut off, and killed, between them.
const STEP: usize = 50;

/// A wire between slave and master that can be cut.
struct Wire {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let wire = Self { port: listener.local_addr().unwrap().port(), open: Arc::default() };
        let open = wire.open.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let Ok(far) = TcpStream::connect(target) else { continue };
                open.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                let (back, forth) = (far.try_clone().unwrap(), near.try_clone().unwrap());
                thread::spawn(move || copy(near, far));
                thread::spawn(move || copy(back, forth));
            }
        });
        wire
    }

    /// Ends all connections.
    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Passes bytes on in odd pieces until one side ends.
fn copy(mut source: TcpStream, mut target: TcpStream) {
    let mut buffer = [0; 4099];
    while let Ok(length @ 1..) = source.read(&mut buffer) {
        if target.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = target.shutdown(Shutdown::Both);
}

/// A master and a slave of it that are not started yet; the slave reaches the master through the wire.
struct Pair {
    master: Setup,
    slave: Setup,
    wire: Wire,
    _homes: [tempfile::TempDir; 2],
}

impl Pair {
    fn new(master_lines: &[&str], slave_lines: &[&str]) -> Self {
        let common =
            ["brokerName=group-a", "mappedFileSizeCommitLog=1048576", "registerNameServerPeriod=1000"];
        let (master, one) = setup(&[&common, master_lines].concat());
        let wire = Wire::to(SocketAddr::from((Ipv4Addr::LOCALHOST, master.broker_port + 1)));
        let (slave, other) = setup(&[&common, slave_lines].concat());
        let slave = slave
            .line("brokerRole=SLAVE")
            .line("brokerId=1")
            .line("slaveReadEnable=true")
            .line(format!("namesrvAddr=127.0.0.1:{}", master.namesrv_port))
            .line(format!("haMasterAddress=127.0.0.1:{}", wire.port));
        Self { master, slave, wire, _homes: [one, other] }
    }
}

/// The end of each queue of a topic; `None` while the broker does not know the topic.
fn ends(connection: &mut Connection, topic: &str) -> Option<Vec<i64>> {
    (0..QUEUES)
        .map(|queue| {
            let answer = connection.call(
                request::GET_MAX_OFFSET,
                |writer| writer.text("topic", topic).number("queueId", queue),
                &[],
            );
            (answer.code == 0).then(|| answer.number("offset"))
        })
        .collect()
}

/// What a broker says about replication.
fn status(connection: &mut Connection) -> serde_json::Value {
    let answer = connection.call(request::GET_BROKER_HA_STATUS, |writer| writer, &[]);
    serde_json::from_slice(&answer.body).unwrap()
}

/// The commit log files by name.
fn log_files(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(data.join("commitlog")).unwrap().flatten();
    files
        .map(|file| (file.file_name().to_string_lossy().into_owned(), fs::read(file.path()).unwrap()))
        .collect()
}

/// All bodies of a topic, in order of queues.
fn bodies(connection: &mut Connection, topic: &str) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for queue in 0..QUEUES {
        let mut offset = 0;
        loop {
            let found = records(&connection.pull(&pull_header("CG", topic, queue, offset)));
            let Some(last) = found.last() else { break };
            offset = last.0 + 1;
            bodies.extend(found.into_iter().map(|record| record.1));
        }
    }
    bodies
}

fn start(setup: &Setup) -> Server {
    setup.start().unwrap_or_else(|error| panic!("the server does not start: {error}"))
}

#[test]
fn a_slave_that_is_killed_and_cut_off_gets_the_same_log_and_serves_it_alone() {
    let pair = Pair::new(&[], &[]);
    let master = start(&pair.master);
    let mut slave = start(&pair.slave);
    let mut producer = open(pair.master.broker());
    let body = |number: usize| format!("{number:0width$}", width = 20 + number % 400).into_bytes();
    // The first one makes the topic.
    producer.stored(&send_header("Copied", 0), &body(0));
    for first in (0..MESSAGES).step_by(STEP) {
        let send = |number: usize| {
            let header = send_header("Copied", number as i32 % QUEUES);
            producer.ask(request::SEND_MESSAGE_V2, |writer| header.write(writer), &body(number)).unwrap()
        };
        let asked: Vec<i32> = (first.max(1)..first + STEP).map(send).collect();
        for opaque in asked {
            let answer = producer.answer(opaque).unwrap();
            assert_eq!(answer.code, 0, "{answer:?}");
        }
        match first {
            2_000 | 3_500 | 9_000 => pair.wire.cut(),
            5_000 | 7_000 => {
                slave.kill9();
                slave = start(&pair.slave);
            }
            _ => {}
        }
    }
    let wanted = ends(&mut producer, "Copied").unwrap();
    assert_eq!(wanted.iter().sum::<i64>(), MESSAGES as i64);
    let mut consumer = open(pair.slave.broker());
    eventually("the slave has all", || (ends(&mut consumer, "Copied")? == wanted).then_some(()));
    eventually("the master counts the slave", || {
        let seen = status(&mut producer);
        (seen["master"] == true && seen["inSyncSlaveNums"] == 1).then_some(())
    });
    let refused = consumer.send(&send_header("Copied", 0), b"no");
    assert_eq!(refused.code, response::SYSTEM_BUSY, "{refused:?}");
    assert_eq!(refused.remark(), "[REJECTREQUEST]system busy, start flow control for a while");

    // The master may have more than its slave: nobody is set back, and consumers go to the master.
    for beyond in [0, 5] {
        let answer = consumer.pull(&pull_header("CG", "Copied", 0, wanted[0] + beyond));
        let reply = pull_reply(&answer);
        assert_eq!(answer.code, response::PULL_RETRY_IMMEDIATELY, "{answer:?}");
        assert_eq!((reply.suggest_broker_id, reply.next_offset), (0, wanted[0] + beyond), "{answer:?}");
    }

    assert!(master.terminate().success());
    let mut found = bodies(&mut consumer, "Copied");
    found.sort_by_key(|body| String::from_utf8_lossy(body).parse::<usize>().unwrap());
    let numbers: Vec<usize> =
        found.iter().map(|body| String::from_utf8_lossy(body).parse().unwrap()).collect();
    assert_eq!(numbers, (0..MESSAGES).collect::<Vec<_>>());
    assert!(slave.terminate().success());
    let (one, other) = (log_files(&pair.master.data), log_files(&pair.slave.data));
    assert!(one.len() > 2 && one.keys().eq(other.keys()), "{:?} and {:?}", one.keys(), other.keys());
    assert!(one == other, "the logs differ");
}

#[test]
fn a_slave_has_the_tables_of_its_master() {
    let pair = Pair::new(&[], &[]);
    let _master = start(&pair.master);
    let _slave = start(&pair.slave);
    let mut producer = open(pair.master.broker());
    producer.stored(&send_header("Known", 1), b"known");
    producer.pull(&pull_header("CG", "Known", 1, 0));
    let committed = producer.call(
        request::UPDATE_CONSUMER_OFFSET,
        |writer| {
            writer
                .text("consumerGroup", "CG")
                .text("topic", "Known")
                .number("queueId", 1)
                .number("commitOffset", 1)
        },
        &[],
    );
    assert_eq!(committed.code, 0, "{committed:?}");
    let mut client = open(pair.slave.broker());
    eventually("the slave has the offset", || {
        let answer = client.call(
            request::QUERY_CONSUMER_OFFSET,
            |writer| writer.text("consumerGroup", "CG").text("topic", "Known").number("queueId", 1),
            &[],
        );
        (answer.code == 0 && answer.number("offset") == 1).then_some(())
    });
    let mut tables = |code: i32| {
        let of = |connection: &mut Connection| connection.call(code, |writer| writer, &[]).body;
        eventually("both have the same table", || (of(&mut client) == of(&mut producer)).then_some(()));
    };
    tables(request::GET_ALL_TOPIC_CONFIG);
    tables(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG);
}

#[test]
fn a_sync_master_answers_when_its_slave_has_the_message() {
    let sync = ["brokerRole=SYNC_MASTER", "inSyncReplicas=2", "slaveTimeout=400"];
    for flush in ["ASYNC_FLUSH", "SYNC_FLUSH"] {
        let flush = format!("flushDiskType={flush}");
        let pair = Pair::new(&[&sync[..], &[flush.as_str()]].concat(), &[flush.as_str()]);
        let _master = start(&pair.master);
        let mut producer = open(pair.master.broker());
        let alone = producer.send(&send_header("Safe", 0), b"alone");
        assert_eq!(alone.code, response::FLUSH_SLAVE_TIMEOUT, "{alone:?}");
        assert_eq!(alone.number("queueOffset"), 0, "it is stored");

        let slave = start(&pair.slave);
        let mut consumer = open(pair.slave.broker());
        eventually("the slave follows", || {
            status(&mut consumer)["haClientRuntimeInfo"]["activated"].as_bool().filter(|follows| *follows)
        });
        eventually("a send is answered with success", || {
            (producer.send(&send_header("Safe", 0), b"both").code == 0).then_some(())
        });
        eventually("the slave knows the topic", || (ends(&mut consumer, "Safe")?[0] > 0).then_some(()));
        for _ in 0..200 {
            let sent = eventually("a send that the slave is not late for", || {
                let sent = producer.send(&send_header("Safe", 0), b"both");
                assert!([0, response::FLUSH_SLAVE_TIMEOUT].contains(&sent.code), "{sent:?}");
                (sent.code == 0).then_some(sent)
            });
            let offset = sent.number("queueOffset");
            let seen = ends(&mut consumer, "Safe");
            assert!(
                seen.as_ref().is_none_or(|ends| ends[0] > offset),
                "{flush}: {offset} was answered while the slave ended at {seen:?}"
            );
        }

        slave.kill9();
        let alone = producer.send(&send_header("Safe", 0), b"alone");
        assert_eq!(alone.code, response::FLUSH_SLAVE_TIMEOUT, "{alone:?}");
        let unsafe_send =
            wire::header::SendHeader { properties: b"WAIT\x01false\x02", ..send_header("Safe", 0) };
        // An answer that had waited would say that there is no slave.
        assert_eq!(producer.send(&unsafe_send, b"not safe").code, 0);
    }
}

/// A connection to the port for slaves that reports `offset` and acknowledges all data without storing data.
fn stranger(master: &Setup, offset: u64) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, master.broker_port + 1))?;
    stream.write_all(&offset.to_be_bytes())?;
    let open = stream.try_clone()?;
    thread::spawn(move || -> io::Result<()> {
        loop {
            let mut header = [0; 12];
            stream.read_exact(&mut header)?;
            let from = u64::from_be_bytes(header[..8].try_into().unwrap());
            let size = u32::from_be_bytes(header[8..].try_into().unwrap());
            stream.read_exact(&mut vec![0; size as usize])?;
            stream.write_all(&(from + u64::from(size)).to_be_bytes())?;
        }
    });
    Ok(open)
}

const SYNC: [&str; 3] = ["brokerRole=SYNC_MASTER", "inSyncReplicas=2", "slaveTimeout=400"];

#[test]
fn a_connection_that_acknowledges_everything_and_is_no_slave_makes_no_send_safe() {
    let pair = Pair::new(&SYNC, &[]);
    let _master = start(&pair.master);
    let mut producer = open(pair.master.broker());
    let first = producer.send(&send_header("Safe", 0), b"alone");
    assert_eq!(first.code, response::FLUSH_SLAVE_TIMEOUT, "{first:?}");
    let _open = stranger(&pair.master, 0).unwrap();
    eventually("the stranger has got the log", || {
        let found = status(&mut producer);
        let slave = &found["haConnectionInfo"][0];
        (slave["slaveAckOffset"].as_u64()? > 0).then_some(())
    });
    for _ in 0..3 {
        let sent = producer.send(&send_header("Safe", 0), b"still alone");
        assert_eq!(sent.code, response::FLUSH_SLAVE_TIMEOUT, "{sent:?}");
    }
    // A slave of RocketMQ asks for the delay offsets of its master.
    assert_eq!(producer.call(request::GET_ALL_DELAY_OFFSET, |writer| writer, &[]).code, 0);
    eventually("a slave on the machine counts", || {
        (producer.send(&send_header("Safe", 0), b"both").code == 0).then_some(())
    });
}

#[test]
fn connections_that_report_nothing_keep_no_slave_out() {
    let pair = Pair::new(&SYNC, &[]);
    let _master = start(&pair.master);
    let mut producer = open(pair.master.broker());
    let flood = || -> Vec<TcpStream> { (0..80).filter_map(|_| silent(&pair.master).ok()).collect() };
    let _before = flood();
    let _slave = start(&pair.slave);
    let is_safe = |producer: &mut Connection| {
        eventually("the slave follows", || {
            (producer.send(&send_header("Safe", 0), b"both").code == 0).then_some(())
        });
    };
    is_safe(&mut producer);
    // The slave's machine now has more connections than places.
    let _after = flood();
    is_safe(&mut producer);
    pair.wire.cut();
    is_safe(&mut producer);
}

/// A connection to the port for slaves that reports offset 0 and reads nothing.
fn silent(master: &Setup) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, master.broker_port + 1))?;
    stream.write_all(&0_u64.to_be_bytes())?;
    Ok(stream)
}

/// The master serves sends without a signature here, and everything else to users only.
#[test]
fn a40_a_slave_takes_the_tables_of_a_guarded_master_with_credentials_only() {
    let provider = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider";
    let provider = format!("authenticationMetadataProvider={provider}");
    let inner =
        "innerClientAuthenticationCredentials={\"accessKey\":\"inner\",\"secretKey\":\"inner-secret\"}";
    let guarded = ["authenticationEnabled=true", &provider, "authenticationWhitelist=310", inner];
    for (lines, expected) in [
        (&guarded[..], "\"Known\""),
        (
            &guarded[..3],
            "a table of the master was not taken; it is tried again table=\"topics\" error=it answered code 16",
        ),
    ] {
        let pair = Pair::new(&guarded, lines);
        let _master = start(&pair.master);
        let _slave = start(&pair.slave);
        open(pair.master.broker()).stored(&send_header("Known", 1), b"known");
        let tables = pair.slave.data.join("config").join("topics.json");
        eventually("the slave has the topic, or was refused", || {
            let text = fs::read_to_string(&tables).unwrap_or_default()
                + &fs::read_to_string(pair.slave.log()).unwrap();
            text.contains(expected).then_some(())
        });
    }
}
