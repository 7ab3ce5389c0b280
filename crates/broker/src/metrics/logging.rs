//! Metrics in the log: with `--log-dir` the file `broker_metrics.log`, as Java's logger `RocketmqBrokerMetrics` has.

use super::exposition::number;
use super::otlp::{Data, KeyValue, Metric};

/// Writes a line for each series.
pub(super) fn write(metrics: &[Metric]) {
    for metric in metrics {
        let name = metric.name.as_str();
        match &metric.data {
            Some(Data::Gauge(numbers) | Data::Sum(numbers)) => {
                numbers.points.iter().for_each(|it| line(name, &it.attributes, it.value));
            }
            Some(Data::Histogram(histogram)) => {
                for point in &histogram.points {
                    let (labels, sum) = (labels(&point.attributes), number(point.sum.unwrap_or_default()));
                    let (count, buckets) = (point.count, &point.buckets);
                    tracing::info!(name, labels, count, sum, ?buckets, "metric");
                }
            }
            None => {}
        }
    }
}

fn line(name: &str, attributes: &[KeyValue], value: Option<f64>) {
    let (labels, value) = (labels(attributes), number(value.unwrap_or_default()));
    tracing::info!(name, labels, value, "metric");
}

/// Returns labels as a text, `name=value` separated by commas.
fn labels(attributes: &[KeyValue]) -> String {
    let text = |it: &KeyValue| it.value.as_ref().and_then(|value| value.text.clone()).unwrap_or_default();
    let labels = attributes.iter().map(|it| format!("{}={}", it.key, text(it)));
    labels.collect::<Vec<_>>().join(",")
}
