//! A server of its own for a test.

use std::net::SocketAddr;
use std::process::{Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use wire::codes::request;
use wire::record::RecordView;

use crate::common::PATIENCE;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::{Arrived, Connection};

/// Suffix of remarks that point to the FAQ.
pub const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

/// A running server and its data; both are gone after the test.
pub struct Stage {
    pub server: Server,
    pub home: tempfile::TempDir,
}

impl Stage {
    /// Starts a server with these lines of `broker.conf`.
    pub fn start(lines: &[&str]) -> Self {
        let (setup, home) = setup(lines);
        let server = setup.start().unwrap_or_else(|error| panic!("the server does not start: {error}"));
        Self { server, home }
    }

    /// A connection to the broker.
    pub fn connect(&self) -> Connection {
        open(self.server.setup().broker())
    }

    /// A connection to the name server.
    pub fn name_server(&self) -> Connection {
        open(self.server.setup().namesrv())
    }

    /// Starts the server again on the same data after `end` ended it.
    pub fn restart(self, end: impl FnOnce(Server)) -> Self {
        let setup = self.server.setup().clone();
        end(self.server);
        let server = setup.start().unwrap_or_else(|error| panic!("the server does not restart: {error}"));
        Self { server, home: self.home }
    }
}

/// Waits until the name server knows the broker, after which operations on its cluster find it.
pub fn await_registered(server: &Server) {
    let broker = format!("\"{}\"", server.setup().broker());
    let mut name_server = open(server.setup().namesrv());
    eventually("the broker is registered", || {
        let answer = name_server.call(request::GET_BROKER_CLUSTER_INFO, |writer| writer, &[]);
        String::from_utf8_lossy(&answer.body).contains(&broker).then_some(())
    });
}

/// A setup of the binary under test with its data in a new directory.
pub fn setup(lines: &[&str]) -> (Setup, tempfile::TempDir) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut setup = Setup::new(env!("CARGO_BIN_EXE_vostok"), home.path().join("data"), home.path());
    setup.lines = lines.iter().map(|line| (*line).to_owned()).collect();
    (setup, home)
}

/// Connects.
pub fn open(address: SocketAddr) -> Connection {
    Connection::open(address).unwrap_or_else(|error| panic!("no connection to {address}: {error}"))
}

/// The records of an answer to a pull, as `(queue offset, body, properties, times consumed before)`.
pub fn records(answer: &Arrived) -> Vec<(i64, Vec<u8>, String, i32)> {
    let mut rest = answer.body.as_slice();
    let mut records = Vec::new();
    while !rest.is_empty() {
        let record = RecordView::parse(rest).expect("pull answers hold whole records");
        record.check_crc().expect("the body is as it was stored");
        records.push((
            record.raw_queue_offset(),
            record.body().to_vec(),
            String::from_utf8_lossy(record.properties()).into_owned(),
            record.reconsume_times(),
        ));
        rest = &rest[record.size()..];
    }
    records
}

/// The value of a property in a properties text.
pub fn property<'a>(properties: &'a str, name: &str) -> Option<&'a str> {
    wire::properties::get_str(properties.as_bytes(), name)
}

/// Tries until `attempt` gives something. Panics after [`PATIENCE`].
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command until each of its requests was answered in time: tools wait 5 s for an answer, and what a slow machine answers
/// later says nothing about them. A request that was answered too late may have been served.
pub fn output(command: &mut Command) -> Output {
    eventually("a command whose requests are answered", || {
        let output = command.output().expect("the binary runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        let is_late = ["no answer from", "no connection"].iter().any(|text| errors.contains(text));
        (output.status.success() || !is_late).then_some(output)
    })
}

/// Waits until a process ends or its broker serves; how the process ended. One that serves is killed.
pub fn end_unless_serving(mut server: Server) -> Option<ExitStatus> {
    let address = server.setup().broker();
    eventually("the process ends, or serves", || {
        server.ended().map(Some).or_else(|| Connection::open(address).is_ok().then_some(None))
    })
}

/// A heartbeat of one consumer with one subscription.
pub fn heartbeat(
    client: &str,
    group: &str,
    topic: &str,
    expression: &str,
    codes: &str,
    version: i64,
) -> String {
    format!(
        "{{\"clientID\":\"{client}\",\"consumerDataSet\":[{{\"consumeFromWhere\":\"CONSUME_FROM_FIRST_OFFSET\",\"consumeType\":\"CONSUME_PASSIVELY\",\"groupName\":\"{group}\",\"messageModel\":\"CLUSTERING\",\"subscriptionDataSet\":[{{\"classFilterMode\":false,\"codeSet\":[{codes}],\"expressionType\":\"TAG\",\"subString\":\"{expression}\",\"subVersion\":{version},\"tagsSet\":[],\"topic\":\"{topic}\"}}],\"unitMode\":false}}],\"producerDataSet\":[{{\"groupName\":\"PG\"}}]}}"
    )
}

/// Makes a group with the defaults.
pub fn make_group(connection: &mut Connection, group: &str) {
    let body = format!("{{\"groupName\":\"{group}\"}}");
    let code = request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
    let answer = connection.call(code, |writer| writer, body.as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
}

/// Sends a heartbeat that must be taken.
pub fn beat(connection: &mut Connection, body: &str) -> Arrived {
    let answer = connection.call(request::HEART_BEAT, |writer| writer, body.as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
    answer
}
