//! Metrics for Prometheus, and the pages for probes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use wire::codes::request;
use wire::header::SendHeader;

use crate::common::PATIENCE;
use crate::common::wire_client::{pull_header, send_header};
use crate::stage::{Stage, beat, eventually, heartbeat, records};

/// The settings of a broker with metrics on a free port.
const SETTINGS: [&str; 4] =
    ["metricsExporterType=PROM", "metricsPromExporterPort=0", "metricsLabel=az:a1", "brokerName=broker-m"];

/// Where the server says that it serves metrics.
fn address(stage: &Stage) -> SocketAddr {
    let line = eventually("the server says where metrics are", || {
        let log = std::fs::read_to_string(stage.server.setup().log()).unwrap();
        log.lines().find(|line| line.contains("metrics are served")).map(str::to_owned)
    });
    let port: String =
        line.split("127.0.0.1:").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    SocketAddr::new([127, 0, 0, 1].into(), port.parse().unwrap())
}

/// Status without the version, head in lower case, and body of a page. The request is of HTTP/1.0, which has no chunks.
fn get(address: SocketAddr, path: &str) -> (String, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nUser-Agent: test\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let (status, head) = head.split_once("\r\n").unwrap();
    let (_version, status) = status.split_once(' ').unwrap();
    (status.to_owned(), head.to_lowercase(), body.to_owned())
}

/// The value of the only series with these labels.
fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |line: &str, (name, value): &(&str, &str)| line.contains(&format!("{name}=\"{value}\""));
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')))
        .filter(|line| labels.iter().all(|label| has(line, label)))
        .collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?} in {text}");
    found[0].rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn what_is_sent_and_consumed_is_counted() {
    let stage = Stage::start(&SETTINGS);
    let mut connection = stage.connect();
    beat(&mut connection, &heartbeat("c1", "CG", "Counted", "*", "", 1));
    let small = |properties| SendHeader { properties, ..send_header("Counted", 0) };
    for _ in 0..3 {
        connection.stored(&small(b""), b"body");
    }
    connection.stored(&small(b""), &[7; 5000]);
    for _ in 0..2 {
        connection.stored(&small(b"__SHARDINGKEY\x01k\x02"), b"body");
    }
    connection.stored(&small(b"DELAY\x0118\x02"), b"body");
    connection.stored(&small(b"DELAY\x0118\x02__SHARDINGKEY\x01k\x02"), b"body");
    let pulled = connection.pull(&pull_header("CG", "Counted", 0, 0));
    let sizes: usize = pulled.body.len();
    assert_eq!(records(&pulled).len(), 6);
    let commit = connection.call(
        request::UPDATE_CONSUMER_OFFSET,
        |writer| {
            writer
                .text("consumerGroup", "CG")
                .text("topic", "Counted")
                .text("queueId", "0")
                .text("commitOffset", "4")
        },
        &[],
    );
    assert_eq!(commit.code, 0, "{commit:?}");

    let (status, head, text) = get(address(&stage), "/metrics");
    assert_eq!(status, "200 OK");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let of = |name: &str, labels: &[(&str, &str)]| value(&text, name, labels);
    let kind = |kind| [("topic", "Counted"), ("message_type", kind), ("is_system", "false")];
    assert_eq!(of("rocketmq_messages_in_total", &kind("normal")), 4.0);
    assert_eq!(of("rocketmq_messages_in_total", &kind("fifo")), 2.0);
    let delayed = [("topic", "SCHEDULE_TOPIC_XXXX"), ("message_type", "delay"), ("is_system", "true")];
    assert_eq!(of("rocketmq_messages_in_total", &delayed), 1.0);
    let in_order = [("topic", "SCHEDULE_TOPIC_XXXX"), ("message_type", "fifo"), ("is_system", "true")];
    assert_eq!(of("rocketmq_messages_in_total", &in_order), 1.0, "a sharding key counts before a delay");
    let stored = of("rocketmq_throughput_in_total", &kind("normal"))
        + of("rocketmq_throughput_in_total", &kind("fifo"));
    assert_eq!(stored, sizes as f64);
    let bucket = |le| {
        let labels = [("topic", "Counted"), ("message_type", "normal"), ("le", le)];
        of("rocketmq_message_size_bucket", &labels)
    };
    assert_eq!(
        ["1024.0", "4096.0", "524288.0", "1048576.0", "2097152.0", "4194304.0", "+Inf"].map(bucket),
        [3.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0]
    );
    assert_eq!(of("rocketmq_message_size_count", &kind("normal")), 4.0);
    let group =
        [("topic", "Counted"), ("consumer_group", "CG"), ("is_retry", "false"), ("is_system", "false")];
    assert_eq!(of("rocketmq_messages_out_total", &group), 6.0);
    assert_eq!(of("rocketmq_throughput_out_total", &group), sizes as f64);
    assert_eq!(of("rocketmq_consumer_lag_messages", &group), 2.0);
    assert_eq!(of("rocketmq_consumer_inflight_messages", &group), 2.0);
    assert_eq!(of("rocketmq_consumer_ready_messages", &group), 0.0);
    let consumers = [("consumer_group", "CG"), ("consume_mode", "push"), ("protocol_type", "remoting")];
    assert_eq!(of("rocketmq_consumer_connections", &consumers), 1.0);
    assert_eq!(of("rocketmq_producer_connections", &[("protocol_type", "remoting")]), 1.0);
    let everywhere =
        [("az", "a1"), ("node_id", "broker-m"), ("node_type", "broker"), ("cluster", "DefaultCluster")];
    assert_eq!(of("rocketmq_broker_permission", &everywhere), 6.0);
    let request = |code| [("request_code", code), ("response_code", "success"), ("result", "success")];
    assert_eq!(of("rocketmq_rpc_latency_milliseconds_count", &request("send_message_v2")), 8.0);
    assert_eq!(of("rocketmq_rpc_latency_milliseconds_count", &request("pull_message")), 1.0);
    assert_eq!(of("rocketmq_rpc_latency_milliseconds_count", &request("update_consumer_offset")), 1.0);
    assert_eq!(of("vostok_stopped_threads", &everywhere), 0.0);
    assert!(of("rocketmq_storage_size_bytes", &[("storage_type", "local")]) > 0.0);

    let (status, _, text) = get(address(&stage), "/metrics/exporter");
    assert_eq!(status, "200 OK");
    let of = |name: &str, labels: &[(&str, &str)]| value(&text, name, labels);
    assert_eq!(of("rocketmq_producer_offset", &[("topic", "Counted"), ("broker", "broker-m")]), 6.0);
    let group = [("group", "CG"), ("topic", "Counted"), ("countOfOnlineConsumers", "1"), ("msgModel", "1")];
    assert_eq!(of("rocketmq_group_diff", &group), 2.0);
    assert_eq!(of("rocketmq_group_count", &[("group", "CG"), ("localaddr", "c1")]), 1.0);
    assert!(of("rocketmq_brokeruntime_commitlog_maxoffset", &[("des", "V5_5_0")]) > 0.0);
}

/// Prometheus' own checker, from `$PROMTOOL` or the path; `None` when this machine has none.
fn promtool() -> Option<Command> {
    let path = std::env::var("PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let found = Command::new(&path).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!(
            "SKIPPED: promtool is not installed (package prometheus); metrics and alert rules are not checked by it"
        );
    }
    found.then(|| Command::new(path))
}

/// What promtool says against names that are Java's and so cannot be others.
const OF_JAVA: [&str; 4] = [
    "use base unit \"seconds\" instead of \"milliseconds\"",
    // Of rocketmq-exporter.
    "non-counter metrics should not have \"_total\" suffix",
    "non-histogram and non-summary metrics should not have \"_count\" suffix",
    "label names should be written in 'snake_case' not 'camelCase'",
];

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics_and_the_rules() {
    let Some(mut check) = promtool() else { return };
    let stage = Stage::start(&SETTINGS);
    let mut connection = stage.connect();
    beat(&mut connection, &heartbeat("c1", "CG", "Counted", "*", "", 1));
    connection.stored(&send_header("Counted", 0), b"body");
    connection.pull(&pull_header("CG", "Counted", 0, 0));
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for page in ["/metrics", "/metrics/exporter"] {
        let (_, _, text) = get(address(&stage), page);
        let mut running = check.spawn().unwrap();
        running.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = running.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let wrong: Vec<&str> =
            said.lines().filter(|line| !OF_JAVA.iter().any(|known| line.contains(known))).collect();
        assert!(wrong.is_empty(), "{page}: {wrong:#?}");
    }
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/ops/alerts-test.yml");
    for arguments in [["check", "rules", &rules.replace("-test", "")], ["test", "rules", rules]] {
        let output = promtool().unwrap().args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn probes_and_strangers_are_answered() {
    let stage = Stage::start(&SETTINGS);
    let address = address(&stage);
    let (status, _, body) = get(address, "/healthz");
    assert_eq!((status.as_str(), body.as_str()), ("200 OK", "ok\n"));
    assert_eq!(get(address, "/readyz").0, "200 OK");
    assert_eq!(get(address, "/").0, "404 Not Found");
    // Garbage ends its own connection only.
    let mut garbage = TcpStream::connect(address).unwrap();
    garbage.write_all(&[b'x'; 20_000]).unwrap();
    drop(garbage);
    assert_eq!(get(address, "/healthz").0, "200 OK");
    assert!(stage.server.terminate().success());
}

#[test]
fn without_the_setting_nothing_is_served() {
    let stage = Stage::start(&[]);
    let log = std::fs::read_to_string(stage.server.setup().log()).unwrap();
    assert!(!log.contains("metrics are served"), "{log}");
}

#[test]
fn metrics_are_written_to_a_log_of_their_own() {
    let lines =
        ["metricsExporterType=LOG", "metricLoggingExporterIntervalInMills=100", "brokerName=broker-m"];
    let (mut setup, home) = crate::stage::setup(&lines);
    let logs = home.path().join("logs");
    setup.arguments = ["--log", "json", "--log-dir", logs.to_str().unwrap()].map(str::to_owned).into();
    let server = setup.start().expect("it starts");
    let line = eventually("a metric is logged", || {
        let text = std::fs::read_to_string(logs.join("broker_metrics.log")).ok()?;
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.find(|line| line["name"] == "rocketmq_broker_permission")
    });
    assert_eq!(line["value"], "6.0");
    assert!(line["labels"].as_str().is_some_and(|labels| labels.contains("node_id=broker-m")), "{line}");
    assert!(server.terminate().success());
}
