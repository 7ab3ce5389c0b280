//! Metrics as OpenTelemetry's protocol has them (`opentelemetry/proto/metrics/v1/metrics.proto`): the messages that the exports
//! use, and making them of figures.

use std::collections::HashMap;

use prost::{Message, Oneof};

use super::catalogue::{self, Kind};

/// Aggregation temporality of values that have grown since the last export (`AggregationTemporality`).
const DELTA: i32 = 1;
/// Aggregation temporality of values that have grown since the broker started.
const CUMULATIVE: i32 = 2;

/// Request to export metrics (`ExportMetricsServiceRequest`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Request {
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// Name of the code that made the metrics (`InstrumentationScope`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub description: String,
    #[prost(string, tag = "3")]
    pub unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    pub data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Numbers),
    #[prost(message, tag = "7")]
    Sum(Numbers),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

/// Points of a gauge, or of a sum with its temporality (`Gauge`, `Sum`). A gauge has only points.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Numbers {
    #[prost(message, repeated, tag = "1")]
    pub points: Vec<Point>,
    #[prost(int32, tag = "2")]
    pub temporality: i32,
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    pub temporality: i32,
}

/// Value of a series at a time, or its increase since a start time (`NumberDataPoint`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Point {
    #[prost(fixed64, tag = "2")]
    pub start_ns: u64,
    #[prost(fixed64, tag = "3")]
    pub time_ns: u64,
    #[prost(double, optional, tag = "4")]
    pub value: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
}

/// Histogram of a series since a start time (`HistogramDataPoint`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct HistogramPoint {
    #[prost(fixed64, tag = "2")]
    pub start_ns: u64,
    #[prost(fixed64, tag = "3")]
    pub time_ns: u64,
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub buckets: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// Value of a label, as text (`AnyValue`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub text: Option<String>,
}

/// A name and its value.
pub(super) fn attribute((key, value): (&str, &str)) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { text: Some(value.to_owned()) }) }
}

/// Metrics under construction, from figures of a single moment.
pub(super) struct Points {
    pub metrics: Vec<Metric>,
    pub start_ns: u64,
    pub time_ns: u64,
}

impl Points {
    /// Begins a metric, whose points follow. Its OpenTelemetry name has no unit.
    pub fn begin(&mut self, metric: &catalogue::Metric) {
        let unit = ["milliseconds", "bytes"]
            .into_iter()
            .find(|unit| metric.name.ends_with(unit))
            .unwrap_or_default();
        let data = match metric.kind {
            Kind::Gauge => Data::Gauge(Numbers::default()),
            Kind::Counter => {
                Data::Sum(Numbers { temporality: CUMULATIVE, is_monotonic: true, points: Vec::new() })
            }
            Kind::Histogram => Data::Histogram(Histogram { temporality: CUMULATIVE, points: Vec::new() }),
        };
        self.metrics.push(Metric {
            name: metric.name.trim_end_matches(unit).trim_end_matches('_').to_owned(),
            description: metric.doc.to_owned(),
            unit: unit.to_owned(),
            data: Some(data),
        });
    }

    /// Adds a point of a counter or gauge to the last metric.
    pub fn number(&mut self, labels: &[(&str, &str)], value: f64) {
        let Self { start_ns, time_ns, .. } = *self;
        let attributes = labels.iter().copied().map(attribute).collect();
        let point = Point { start_ns, time_ns, value: Some(value), attributes };
        if let Some(Data::Gauge(numbers) | Data::Sum(numbers)) =
            self.metrics.last_mut().and_then(|metric| metric.data.as_mut())
        {
            numbers.points.push(point);
        }
    }

    /// Adds a point to the last metric, which is a histogram.
    pub fn histogram(&mut self, labels: &[(&str, &str)], bounds: &[u64], counts: &[u64], sum: f64) {
        let point = HistogramPoint {
            start_ns: self.start_ns,
            time_ns: self.time_ns,
            count: counts.iter().sum(),
            sum: Some(sum),
            buckets: counts.to_vec(),
            bounds: bounds.iter().map(|bound| *bound as f64).collect(),
            attributes: labels.iter().copied().map(attribute).collect(),
        };
        if let Some(Data::Histogram(histogram)) =
            self.metrics.last_mut().and_then(|metric| metric.data.as_mut())
        {
            histogram.points.push(point);
        }
    }
}

/// Counts of the last export, for the increase since then (`metricsInDelta`).
#[derive(Default)]
pub(super) struct Deltas {
    last: HashMap<String, Counts>,
    last_ns: u64,
}

/// Sum of a series, and the counts of a histogram's ranges.
type Counts = (f64, Vec<u64>);

impl Deltas {
    /// Converts the counters and histograms of an export to the increase since the last export. A series
    /// whose count decreased begins again, such as the series of a re-created topic.
    pub fn apply(&mut self, metrics: &mut [Metric], time_ns: u64) {
        let mut now = HashMap::new();
        for metric in metrics {
            let Metric { name, data, .. } = metric;
            match data {
                Some(Data::Sum(sum)) => {
                    sum.temporality = DELTA;
                    for point in &mut sum.points {
                        let counts = (point.value.unwrap_or_default(), Vec::new());
                        let added = self.added(&mut now, name, &point.attributes, counts);
                        point.value = Some(added.0);
                        point.start_ns = point.start_ns.max(self.last_ns);
                    }
                }
                Some(Data::Histogram(histogram)) => {
                    histogram.temporality = DELTA;
                    for point in &mut histogram.points {
                        let counts = (point.sum.unwrap_or_default(), std::mem::take(&mut point.buckets));
                        let (sum, buckets) = self.added(&mut now, name, &point.attributes, counts);
                        point.count = buckets.iter().sum();
                        (point.sum, point.buckets) = (Some(sum), buckets);
                        point.start_ns = point.start_ns.max(self.last_ns);
                    }
                }
                _ => {}
            }
        }
        (self.last, self.last_ns) = (now, time_ns);
    }

    fn added(
        &self,
        now: &mut HashMap<String, Counts>,
        name: &str,
        attributes: &[KeyValue],
        counts: Counts,
    ) -> Counts {
        let series = format!("{name}{attributes:?}");
        let added = match self.last.get(&series) {
            Some((sum, buckets)) if *sum <= counts.0 => {
                let before = buckets.iter().copied().chain(std::iter::repeat(0));
                let added = counts.1.iter().zip(before).map(|(count, before)| count.saturating_sub(before));
                (counts.0 - sum, added.collect())
            }
            _ => counts.clone(),
        };
        now.insert(series, counts);
        added
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::{FINISH_LATENCY, MESSAGES_OUT, STORAGE_SIZE};
    use super::*;

    fn metrics(time_ns: u64, count: f64, buckets: &[u64]) -> Vec<Metric> {
        let mut points = Points { metrics: Vec::new(), start_ns: 1, time_ns };
        points.begin(&MESSAGES_OUT);
        points.number(&[("topic", "T")], count);
        points.begin(&FINISH_LATENCY);
        points.histogram(&[("topic", "T")], &[5, 60], buckets, count);
        points.begin(&STORAGE_SIZE);
        points.number(&[], 7.0);
        points.metrics
    }

    #[test]
    fn names_have_no_unit_and_points_survive_the_encoding() {
        let sent = metrics(2, 5.0, &[1, 2, 0]);
        let names: Vec<_> = sent.iter().map(|it| (it.name.as_str(), it.unit.as_str())).collect();
        let expected = [
            ("rocketmq_messages_out_total", ""),
            ("rocketmq_finish_message_latency", "milliseconds"),
            ("rocketmq_storage_size", "bytes"),
        ];
        assert_eq!(names, expected);
        let read: Vec<_> = sent.iter().map(|it| Metric::decode(&*it.encode_to_vec()).unwrap()).collect();
        assert_eq!(read, sent);
    }

    #[test]
    fn deltas_are_what_was_added_since_the_export_before() {
        let mut deltas = Deltas::default();
        let mut export = |time_ns, count, buckets: &[u64]| {
            let mut metrics = metrics(time_ns, count, buckets);
            deltas.apply(&mut metrics, time_ns);
            let [Some(Data::Sum(sum)), Some(Data::Histogram(histogram)), Some(Data::Gauge(gauge))] =
                [0, 1, 2].map(|index: usize| metrics[index].data.clone())
            else {
                panic!("{metrics:?}")
            };
            assert_eq!(
                (sum.temporality, histogram.temporality, gauge.points[0].value),
                (DELTA, DELTA, Some(7.0))
            );
            let point = &histogram.points[0];
            (sum.points[0].start_ns, sum.points[0].value, point.buckets.clone(), point.count)
        };
        assert_eq!(export(10, 5.0, &[1, 2, 0]), (1, Some(5.0), vec![1, 2, 0], 3));
        assert_eq!(export(20, 6.0, &[1, 2, 1]), (10, Some(1.0), vec![0, 0, 1], 1));
        assert_eq!(export(30, 2.0, &[1, 0, 0]), (20, Some(2.0), vec![1, 0, 0], 1), "made again");
    }
}
