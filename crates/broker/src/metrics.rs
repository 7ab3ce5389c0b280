//! Metrics of a running broker for Prometheus, an OpenTelemetry collector or the log (`BrokerMetricsManager`,
//! `DefaultStoreMetricsManager`, `PopMetricsManager`), and its liveness and readiness.
//!
//! Metrics alone need only a few counts beside those of statistics. A scrape or export sums up the broker's tables at
//! that moment, on the exporter's own thread `metrics-0`. The thread may wait for the disk, because it reads store
//! times of messages.

mod catalogue;
mod clients;
mod collector;
mod decisions;
mod export;
mod exporter;
mod exposition;
mod labels;
mod lag;
mod logging;
mod node;
mod otlp;
#[cfg(test)]
mod page_tests;
mod parts;
mod rocketmq_exporter;
mod rpc;
mod scrape;
mod store_figures;
mod traffic;

pub(crate) use exporter::MetricsExporter;
