use bytes::Bytes;
use prost::Message;
use tokio::net::TcpListener;

use super::*;
use crate::config::Metrics;
use crate::testing::Fixture;

fn points(counts: &[usize]) -> Vec<Metric> {
    let mut points = Points { metrics: Vec::new(), start_ns: 1, time_ns: 2 };
    for count in counts {
        points.begin(&super::super::catalogue::TOPICS);
        (0..*count).for_each(|value| points.number(&[], value as f64));
    }
    points.metrics
}

#[test]
fn a_batch_has_a_bounded_number_of_points() {
    let check = |counts: &[usize], max, expected: &[&[usize]]| {
        let found: Vec<Vec<usize>> =
            batches(points(counts), max).iter().map(|batch| batch.iter().map(count).collect()).collect();
        assert_eq!(found, expected, "{counts:?} by {max}");
    };
    check(&[1, 2], 10, &[&[1, 2]]);
    check(&[3, 2], 3, &[&[3], &[2]]);
    check(&[1, 5, 1], 2, &[&[1, 1], &[2], &[2], &[1]]);
    check(&[], 2, &[]);
    let kept: Vec<_> = batches(points(&[5]), 2).into_iter().flatten().collect();
    let values = kept.iter().flat_map(|metric| match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.points.iter().filter_map(|point| point.value).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    });
    assert_eq!(values.collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn an_export_has_the_metrics_of_a_scrape() {
    let fixture = Fixture::with(|config| {
        config.read(b"metricsInDelta=true\nmetricsLabel=az:a1\n").unwrap();
    });
    fixture.put("T", 0, b"body", b"");
    let metrics = collect(&fixture.broker.metrics_parts(), 1, 2);
    let text = super::super::scrape::scrape(&fixture.broker.metrics_parts(), None);
    assert_eq!(metrics.len(), text.lines().filter(|line| line.starts_with("# TYPE")).count());
    let refused =
        metrics.iter().find(|metric| metric.name == "vostok_refused_requests_total").expect("a metric");
    let Some(Data::Sum(sum)) = &refused.data else { panic!("{refused:?}") };
    let point = &sum.points[0];
    assert_eq!((point.value, point.start_ns, point.time_ns), (Some(0.0), 1_000_000, 2_000_000));
    for (name, value) in
        [("cause", "behind"), ("az", "a1"), ("node_type", "broker"), ("aggregation", "delta")]
    {
        assert!(point.attributes.contains(&attribute((name, value))), "{name}: {point:?}");
    }
    assert!(!point.attributes.iter().any(|it| it.key == "otel_scope_name"), "{point:?}");
}

/// A request as a collector got it: its path, a header and its message.
type Taken = (String, String, Request);

/// Reads the requests of a connection like a collector, and answers each with this status.
async fn collect_requests(listener: TcpListener, status: &'static str) -> Vec<Taken> {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let mut requests = Vec::new();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (path, scope) =
            (request.uri().path().to_owned(), request.headers()["x-scope"].to_str().unwrap().to_owned());
        let mut body = request.into_body();
        let mut bytes = Vec::new();
        // The connection does its work when it is asked for the next request.
        let read = async {
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                bytes.extend_from_slice(&data);
            }
        };
        tokio::select! {
            () = read => {}
            _ = std::future::poll_fn(|context| connection.poll_closed(context)) => panic!("it ended early"),
        }
        let length = u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
        assert_eq!((bytes[0], length), (0, bytes.len() - 5));
        requests.push((path, scope, Request::decode(&bytes[5..]).unwrap()));
        let mut answer = respond.send_response(http::Response::new(()), false).unwrap();
        answer.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
        let trailers = [("grpc-status", status), ("grpc-message", "too much")];
        let trailers = trailers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        answer.send_trailers(trailers.into_iter().collect()).unwrap();
    }
    requests
}

/// Exports these requests. Returns the result and the requests that the collector received.
fn export(requests: &[Request], status: &'static str) -> (Result<(), String>, Vec<Taken>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = Metrics {
            otlp_target: format!("http://{}", listener.local_addr().unwrap()),
            otlp_headers: "X-Scope:tenant".to_owned(),
            ..Metrics::default()
        };
        tokio::join!(collector::export(&settings, requests), collect_requests(listener, status))
    })
}

#[test]
fn a_collector_gets_what_is_exported() {
    let fixture = Fixture::new();
    let sent: Vec<_> =
        [vec![1], vec![2, 30_000]].map(|counts| request(&fixture.broker.runtime, points(&counts))).into();
    let (outcome, got) = export(&sent, "0");
    assert_eq!(outcome, Ok(()));
    let path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    for ((found, scope, request), sent) in got.iter().zip(&sent) {
        assert_eq!((found.as_str(), scope.as_str()), (path, "tenant"));
        assert!(request == sent, "also more than a window of HTTP/2");
    }
    assert_eq!(got.len(), 2);
}

#[test]
fn a_collector_that_refuses_or_is_away_is_told() {
    let fixture = Fixture::new();
    let (outcome, _) = export(&[request(&fixture.broker.runtime, points(&[1]))], "8");
    assert_eq!(outcome, Err("gRPC status 8: too much".to_owned()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let away = runtime.block_on(async {
        // The port is taken, and nobody listens there.
        let taken = tokio::net::TcpSocket::new_v4().unwrap();
        taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let otlp_target = format!("http://{}", taken.local_addr().unwrap());
        collector::export(&Metrics { otlp_target, ..Metrics::default() }, &[Request::default()]).await
    });
    let text = away.unwrap_err();
    assert!(text.contains("refused"), "{text}");
}
