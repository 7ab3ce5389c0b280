//! Tests of the request handler. Numbers are lines of the name server's conformance checklist.

mod brokers;
mod settings;
mod topics;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use wire::frame::Command;
use wire::settings::FileSettings as _;

use super::*;
use crate::{Config, KvStore};

const V4_4_0: i32 = 293;
const V5_3_3: i32 = 479;

/// A request handler with a clock, and a directory for its files.
struct Office {
    handler: RequestHandler,
    now: Instant,
    home: TempDir,
}

#[derive(Debug, PartialEq)]
struct Response {
    code: i32,
    remark: String,
    fields: BTreeMap<String, String>,
    body: String,
}

impl Office {
    fn new() -> Self {
        Self::with("")
    }

    fn with(properties: &str) -> Self {
        Self::at(tempfile::tempdir().unwrap(), properties)
    }

    fn at(home: TempDir, properties: &str) -> Self {
        let mut config = Config::new(home.path());
        assert_eq!(config.read(properties.as_bytes()).unwrap(), []);
        let kv = KvStore::open(&config.kv_config_path).unwrap();
        let now = Instant::now();
        Self { handler: RequestHandler::new(config, kv, now), now, home }
    }

    /// Restarts with the same files.
    fn reopen(self) -> Self {
        Self::at(self.home, "")
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Sends a request on connection 1 as a 5.3.3 client.
    fn ask(&self, code: i32, fields: Value, body: &str) -> Response {
        self.ask_as(1, V5_3_3, code, fields, body.as_bytes())
    }

    fn ask_as(&self, connection: u64, version: i32, code: i32, fields: Value, body: &[u8]) -> Response {
        let header = json!({"code": code, "extFields": fields, "flag": 0, "version": version});
        self.exchange(connection, header, body).expect("a request gets one answer")
    }

    /// Sends a request with any header; returns the response if there is one.
    fn exchange(&self, connection: u64, mut header: Value, body: &[u8]) -> Option<Response> {
        header["opaque"] = json!(7);
        header["language"] = json!("JAVA");
        let mut frame = framed(header.to_string().as_bytes(), body);
        let mut out = Vec::new();
        self.handler.respond(self.now, connection, &Command::decode(&mut frame).unwrap(), &mut out);
        if out.is_empty() {
            return None;
        }
        let response = Command::decode(&mut out).unwrap();
        assert_eq!((response.opaque, response.flag), (7, 1));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some(Response {
            code: response.code,
            remark: response.remark.unwrap_or_default().to_owned(),
            fields: response.fields.iter().map(|(key, value)| (text(key), text(value))).collect(),
            body: text(response.body),
        })
    }

    /// Registers a broker and settles.
    fn register(&self, broker: &Broker) -> Response {
        let response = self.ask_as(
            broker.connection,
            V5_3_3,
            103,
            broker.fields(),
            broker.body().to_string().as_bytes(),
        );
        self.handler.settle();
        response
    }

    fn unregister(&self, broker: &Broker) {
        assert_eq!(self.ask(104, broker.fields(), "").code, 0);
        self.handler.settle();
    }

    /// The route of a topic; null if there is none.
    fn route(&self, topic: &str) -> Value {
        let response = self.ask(105, json!({"topic": topic}), "");
        if response.code == 17 { Value::Null } else { serde_json::from_str(&response.body).unwrap() }
    }

    fn addresses(&self, topic: &str) -> Value {
        self.route(topic)["brokerDatas"][0]["brokerAddrs"].clone()
    }

    fn perm(&self, topic: &str) -> Value {
        self.route(topic)["queueDatas"][0]["perm"].clone()
    }
}

fn framed(header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(4 + header.len() + body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(&u32::try_from(header.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(header);
    frame.extend_from_slice(body);
    frame
}

/// A broker as the tests register it: by default id 0 of `broker-a` with the topics T1 and T2.
#[derive(Clone)]
struct Broker {
    name: &'static str,
    address: &'static str,
    id: i64,
    connection: u64,
    counter: i64,
    state_version: i64,
    topics: Vec<&'static str>,
    extra: Value,
}

impl Broker {
    fn new(id: i64, address: &'static str) -> Self {
        Self {
            name: "broker-a",
            address,
            id,
            connection: 1,
            counter: 1,
            state_version: 0,
            topics: vec!["T1", "T2"],
            extra: json!({}),
        }
    }

    fn acting(id: i64, address: &'static str) -> Self {
        Self { extra: json!({"enableActingMaster": "true"}), ..Self::new(id, address) }
    }

    fn fields(&self) -> Value {
        let mut fields = json!({
            "brokerName": self.name, "brokerAddr": self.address, "clusterName": "C",
            "haServerAddr": format!("ha-{}", self.address), "brokerId": self.id.to_string(),
        });
        fields.as_object_mut().unwrap().extend(self.extra.as_object().unwrap().clone());
        fields
    }

    fn version(&self) -> Value {
        json!({"counter": self.counter, "stateVersion": self.state_version, "timestamp": 1_700_000_000_000_i64})
    }

    fn body(&self) -> Value {
        let topics = self.topics.iter().map(|topic| {
            let config = json!({"topicName": topic, "readQueueNums": 8, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 1});
            ((*topic).to_owned(), config)
        });
        let table: serde_json::Map<_, _> = topics.collect();
        json!({
            "filterServerList": [],
            "topicConfigSerializeWrapper": {"dataVersion": self.version(), "topicConfigTable": table},
        })
    }
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn unknown_codes_are_refused_and_one_way_requests_stay_unanswered() {
    let office = Office::new();
    let response = office.ask(9999, json!({}), "");
    assert_eq!((response.code, response.remark.as_str()), (3, " request type 9999 not supported"));
    assert_eq!(office.exchange(1, json!({"code": 9999, "flag": 2}), b""), None);
    let broker = Broker::new(0, "a:1");
    let body = broker.body().to_string();
    let header = json!({"code": 103, "extFields": broker.fields(), "flag": 2, "version": V5_3_3});
    assert_eq!(office.exchange(1, header, body.as_bytes()), None);
    assert_eq!(office.addresses("T1"), json!({"0": "a:1"}));
}

#[test]
fn missing_and_malformed_fields_are_named() {
    let office = Office::new();
    let response = office.ask(103, json!({"brokerName": "b", "clusterName": "C", "brokerAddr": "a:1"}), "");
    assert_eq!(
        (response.code, response.remark.as_str()),
        (1, "the request header has no field brokerId, which is required")
    );
    let mut fields = Broker::new(0, "a:1").fields();
    fields["brokerId"] = json!("x");
    assert_eq!(
        office.ask(103, fields, "").remark,
        "the request header field brokerId is \"x\", expected i64"
    );
    assert_eq!(office.ask(105, json!({}), "").code, 1);
}

#[test]
fn requests_that_name_nothing_change_nothing() {
    let office = Office::new();
    office.register(&Broker::new(0, "a:1"));
    office.ask(100, json!({"namespace": "n", "key": "k", "value": "v"}), "");
    for (code, fields, count) in [
        (102, json!({"namespace": "n"}), None),
        (102, json!({"key": "k"}), None),
        (205, json!({}), Some("wipeTopicCount")),
        (216, json!({}), None),
        (216, json!({"clusterName": "C"}), None),
        (327, json!({}), Some("addTopicCount")),
    ] {
        let response = office.ask(code, fields, "");
        assert_eq!((response.code, response.remark.as_str()), (0, ""), "{code}");
        assert_eq!(count.map(|count| response.fields[count].as_str()), count.map(|_| "0"), "{code}");
    }
    assert_eq!((office.perm("T1"), office.perm("T2")), (json!(6), json!(6)));
    assert_eq!(office.ask(101, json!({"namespace": "n", "key": "k"}), "").fields["value"], "v");
}
