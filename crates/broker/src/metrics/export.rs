//! Exports: all metrics at an interval, to an OpenTelemetry collector or to the log (`metricsExporterType` OTLP_GRPC and LOG).

use std::sync::Arc;
use std::time::Duration;

use super::exposition::Exposition;
use super::otlp::{
    Data, Deltas, Histogram, KeyValue, Metric, Numbers, Points, Request, Resource, ResourceMetrics, Scope,
    ScopeMetrics, attribute,
};
use super::scrape::{common_labels, figures};
use super::{collector, logging};
use crate::clock::{pause, within};
use crate::parts::{MetricsParts, Runtime};

/// Name of the meter, as in Java.
const METER: &str = "broker-meter";

const NS_PER_MS: i64 = 1_000_000;

/// Destination of the metrics (`metricsExporterType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Collector,
    Log,
}

/// Exports for ever.
pub(super) async fn run(state: Arc<MetricsParts>, destination: Destination) {
    let settings = state.runtime.config.metrics.clone();
    let interval = match destination {
        Destination::Collector => settings.otlp_interval,
        Destination::Log => settings.log_interval,
    };
    let start_ms = state.runtime.now_ms();
    let mut deltas = settings.is_delta.then(Deltas::default);
    let mut failures = 0_u64;
    loop {
        pause(interval).await;
        let now_ms = state.runtime.now_ms();
        let mut metrics = collect(&state, start_ms, now_ms);
        if let Some(deltas) = &mut deltas {
            deltas.apply(&mut metrics, ns(now_ms));
        }
        if destination == Destination::Log {
            logging::write(&metrics);
            continue;
        }
        let batches = batches(metrics, settings.batch_max).into_iter();
        let requests: Vec<_> = batches.map(|batch| request(&state.runtime, batch)).collect();
        let outcome = within(settings.otlp_timeout, collector::export(&settings, &requests)).await;
        match outcome.unwrap_or_else(|| Err(late(settings.otlp_timeout))) {
            Ok(()) => failures = 0,
            // Once until it works again: a collector may be away for days.
            Err(error) if failures == 0 => {
                failures += 1;
                tracing::warn!(error, collector = settings.otlp_target, "metrics cannot be exported");
            }
            Err(_) => failures += 1,
        }
    }
}

fn late(patience: Duration) -> String {
    format!("no answer within {patience:?}")
}

fn ns(ms: i64) -> u64 {
    u64::try_from(ms.saturating_mul(NS_PER_MS)).unwrap_or_default()
}

/// Returns the present values of all metrics.
pub(super) fn collect(state: &MetricsParts, start_ms: i64, now_ms: i64) -> Vec<Metric> {
    let points = Points { metrics: Vec::new(), start_ns: ns(start_ms), time_ns: ns(now_ms) };
    let config = &state.runtime.config;
    // The meter's name stands beside the metrics of an export.
    let mut common: Vec<_> =
        common_labels(&state.runtime).into_iter().filter(|(name, _)| name != "otel_scope_name").collect();
    if config.metrics.is_delta {
        common.push(("aggregation".to_owned(), "delta".to_owned()));
    }
    let mut points = Exposition::points(common, config.metrics.series_max, points);
    figures(state, &mut points);
    points.into_metrics()
}

/// Metrics in batches of at most `points_max` points; a metric with more than that is split.
fn batches(metrics: Vec<Metric>, points_max: usize) -> Vec<Vec<Metric>> {
    let (mut full, mut batch, mut room) = (Vec::new(), Vec::new(), points_max);
    let filled = |metric| Some(metric).filter(|metric| count(metric) > 0);
    for mut metric in metrics {
        while let Some(rest) = split(&mut metric, room) {
            batch.extend(filled(metric));
            full.push(std::mem::take(&mut batch));
            (metric, room) = (rest, points_max);
        }
        room -= count(&metric);
        batch.extend(filled(metric));
    }
    full.push(batch);
    full.retain(|batch| !batch.is_empty());
    full
}

fn count(metric: &Metric) -> usize {
    match &metric.data {
        Some(Data::Gauge(numbers) | Data::Sum(numbers)) => numbers.points.len(),
        Some(Data::Histogram(histogram)) => histogram.points.len(),
        None => 0,
    }
}

/// Leaves at most `room` points in a metric. Returns a metric with the remaining points, or `None` if no points
/// remain.
fn split(metric: &mut Metric, room: usize) -> Option<Metric> {
    if count(metric) <= room {
        return None;
    }
    let rest = match metric.data.as_mut()? {
        Data::Gauge(it) => Data::Gauge(Numbers { points: it.points.split_off(room), ..*it }),
        Data::Sum(it) => Data::Sum(Numbers { points: it.points.split_off(room), ..*it }),
        Data::Histogram(it) => Data::Histogram(Histogram { points: it.points.split_off(room), ..*it }),
    };
    let [name, description, unit] = [&metric.name, &metric.description, &metric.unit].map(String::clone);
    Some(Metric { name, description, unit, data: Some(rest) })
}

/// The request that exports some metrics.
fn request(runtime: &Runtime, metrics: Vec<Metric>) -> Request {
    let own = [
        ("service.name", "vostok"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", runtime.config.broker_name.as_str()),
    ];
    let attributes: Vec<KeyValue> = own.map(attribute).into();
    let scope_metrics = vec![ScopeMetrics { scope: Some(Scope { name: METER.to_owned() }), metrics }];
    let resource = Some(Resource { attributes });
    Request { resource_metrics: vec![ResourceMetrics { resource, scope_metrics }] }
}

#[cfg(test)]
mod tests;
