use std::io::{Read, Write};

use wire::body::topic::TopicConfig;

use super::*;
use crate::metrics::catalogue::METRICS;
use crate::testing::Fixture;

/// The value of the series with this beginning, up to the label values given.
fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let is_wanted = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|label| line.contains(label))
    };
    text.lines().find(is_wanted)?.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn lag_is_counted_from_committed_and_read_offsets() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    broker.tables.topics.put(TopicConfig::new("T", 2, 6), 0).unwrap();
    (0..5).for_each(|_| fixture.put("T", 0, b"body", b""));
    (0..2).for_each(|_| fixture.put("T", 1, b"body", b""));
    assert!(broker.tables.offsets.commit("G", "T", 0, 1));
    let reader = broker.tables.offsets.reader("G", "T");
    broker.tables.offsets.note_pull(&reader, 0, 3, 2, 300);
    assert!(broker.tables.offsets.commit("G", "T", 1, 2));
    let text = scrape(&broker.metrics_parts(), None);
    let of = |name: &str| value(&text, name, &["consumer_group=\"G\"", "topic=\"T\"", "is_retry=\"false\""]);
    assert_eq!(of("rocketmq_consumer_lag_messages"), Some(4.0));
    assert_eq!(of("rocketmq_consumer_inflight_messages"), Some(2.0));
    assert_eq!(of("rocketmq_consumer_ready_messages"), Some(2.0));
    assert_eq!(of("rocketmq_messages_out_total"), Some(2.0));
    assert_eq!(of("rocketmq_throughput_out_total"), Some(300.0));
    let oldest_ms = of("rocketmq_consumer_lag_latency_milliseconds").expect("a series");
    let unread_ms = of("rocketmq_consumer_queueing_latency_milliseconds").expect("a series");
    assert!(oldest_ms >= unread_ms, "{oldest_ms} and {unread_ms}");
}

#[test]
fn every_series_has_the_common_labels_and_every_family_is_in_the_catalogue() {
    let fixture = Fixture::with(|config| {
        let found = config.read(b"metricsLabel=az:a1,cluster:mine\n").unwrap();
        assert!(found.is_empty(), "{found:?}");
    });
    fixture.put("T", 0, b"body", b"");
    let text = scrape(&fixture.broker.metrics_parts(), None);
    let name = format!("node_id=\"{}\"", fixture.broker.runtime.config.broker_name);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        for label in ["az=\"a1\"", "cluster=\"DefaultCluster\"", "node_type=\"broker\"", &name] {
            assert!(line.contains(label), "{label} is missing in {line}");
        }
    }
    let typed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(typed.len() > 10, "{text}");
    assert!(typed.iter().all(|name| METRICS.iter().any(|metric| metric.name == *name)), "{typed:?}");
}

fn start(change: impl FnOnce(&mut crate::Config)) -> (Fixture, MetricsExporter) {
    let fixture = Fixture::with(|config| {
        config.metrics.exporter = Exporter::Prom;
        (config.metrics.host, config.metrics.port) = ("127.0.0.1".to_owned(), 0);
        change(config);
    });
    let exporter = MetricsExporter::start(&fixture.broker.metrics_parts()).unwrap().expect("it is on");
    (fixture, exporter)
}

/// Head and body of the answer to a request. A request that is too long is answered before all of it is read, and the
/// connection is then reset; the answer precedes the reset.
fn ask(exporter: &MetricsExporter, line: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(exporter.address).unwrap();
    let _reset = stream.write_all(format!("{line}\r\nHost: here\r\n\r\n").as_bytes());
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    (head.to_owned(), body.to_owned())
}

/// Status and body of the page at a path.
fn get(exporter: &MetricsExporter, path: &str) -> (String, String) {
    let (head, body) = ask(exporter, &format!("GET {path} HTTP/1.1"));
    let body = if head.contains("chunked") { without_chunks(&body) } else { body };
    (head.split(' ').nth(1).unwrap_or_default().to_owned(), body)
}

/// The text of a body that was sent in chunks.
fn without_chunks(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let (chunk, rest) = rest.split_at(usize::from_str_radix(length, 16).unwrap());
        text.push_str(chunk);
        body = rest.strip_prefix("\r\n").expect("each chunk has its end");
    }
    text
}

#[test]
fn a_page_of_metrics_is_the_same_in_chunks_and_whole() {
    let (fixture, exporter) = start(|_| ());
    (0..20).for_each(|topic| fixture.put(&format!("T{topic}"), 0, b"body", b""));
    let lines = |text: &str| {
        let names = text.lines().filter(|line| line.starts_with("rocketmq_messages_in_total"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let (head, whole) = ask(&exporter, "GET /metrics HTTP/1.0");
    assert!(!head.contains("chunked") && whole.ends_with('\n'), "{head}");
    let (status, text) = get(&exporter, "/metrics");
    assert_eq!((status.as_str(), lines(&text)), ("200", lines(&whole)));
    assert_eq!(lines(&text), lines(&scrape(&fixture.broker.metrics_parts(), None)));
    let (head, body) = ask(&exporter, "HEAD /metrics HTTP/1.1");
    assert!(head.starts_with("HTTP/1.1 200 OK") && body.is_empty(), "{head} {body}");
}

#[test]
fn requests_are_served_or_refused() {
    let (_fixture, exporter) = start(|_| ());
    let check = |line: &str, expected: &str| {
        let (head, body) = ask(&exporter, line);
        assert!(head.starts_with(&format!("HTTP/1.1 {expected}\r\n")), "{line}: {head}");
        assert!(head.to_lowercase().contains("\r\nconnection: close"), "{line}: {head}");
        (head.to_lowercase(), body)
    };
    let (head, _) = check("GET /metrics?name=x HTTP/1.1", "200 OK");
    assert!(head.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    check("GET /metrics/exporter HTTP/1.1", "200 OK");
    let (head, body) = check("GET /healthz HTTP/1.1", "200 OK");
    assert!(head.contains("\r\ncontent-length: 3") && body == "ok\n", "{head} {body}");
    let (head, body) = check("HEAD /readyz HTTP/1.1", "200 OK");
    assert!(head.contains("\r\ncontent-length: 3") && body.is_empty(), "{head} {body}");
    let (_, body) = check("GET / HTTP/1.1", "404 Not Found");
    assert_eq!(body, "404 Not Found");
    check("POST /metrics HTTP/1.1", "405 Method Not Allowed");
    check("GET /metrics", "400 Bad Request");
    check("GET /metrics HTTP/2", "400 Bad Request");
    check("\u{7f}", "400 Bad Request");
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
    check(&long, "431 Request Header Fields Too Large");
}

#[test]
fn a_client_may_close_its_half_after_the_request() {
    let (_fixture, exporter) = start(|_| ());
    let mut stream = std::net::TcpStream::connect(exporter.address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("rocketmq_broker_permission"), "{text}");
}

#[test]
fn readiness_and_health_differ() {
    let (fixture, exporter) = start(|_| ());
    let broker = &fixture.broker;
    let ask = |path| get(&exporter, path);
    let fine = ("200".to_owned(), "ok\n".to_owned());
    assert_eq!((ask("/healthz"), ask("/readyz")), (fine.clone(), fine.clone()));
    broker.runtime.draining.store(true, std::sync::atomic::Ordering::Relaxed);
    let leaving = ("503".to_owned(), "the broker stops\n".to_owned());
    assert_eq!((ask("/healthz"), ask("/readyz")), (fine, leaving));
    broker.runtime.supervisor.spawn(SupervisedWork::Delay, "delay", || ()).unwrap().join().unwrap();
    let ill = ("503".to_owned(), "threads have stopped: delay\n".to_owned());
    assert_eq!((ask("/healthz"), ask("/readyz")), (ill.clone(), ill));
    assert_eq!(value(&scrape(&broker.metrics_parts(), None), "vostok_stopped_threads", &[]), Some(1.0));
}

#[test]
fn probes_do_not_wait_for_a_scrape_that_hangs() {
    let (_fixture, exporter) = start(|_| ());
    let disk = Arc::new(parking_lot::Mutex::new(()));
    let hanging = disk.lock();
    let waits = disk.clone();
    exporter.workers.spawn(SCRAPES, move || async move { drop(waits.lock()) }).unwrap();
    let exporter = &exporter;
    std::thread::scope(|scope| {
        let scrape = scope.spawn(|| get(exporter, "/metrics"));
        assert_eq!(get(exporter, "/healthz"), ("200".to_owned(), "ok\n".to_owned()));
        assert!(!scrape.is_finished());
        drop(hanging);
        let (status, text) = scrape.join().unwrap();
        assert!(status == "200" && text.contains("rocketmq_broker_permission"), "{status} {text}");
    });
}
