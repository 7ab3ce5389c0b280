//! Metrics of request latency, and of the creation of topics and groups.

use std::collections::BTreeMap;

use wire::codes::{request, response};

use super::catalogue::{GROUP_CREATION, Metric, RPC_LATENCY, TOPIC_CREATION};
use super::exposition::Exposition;
use super::labels::flag;
use crate::parts::Figures;
use crate::rpc_latency::{Latencies, code_names};

/// Bounds of the ranges of request times in milliseconds (`RemotingMetricsManager.getMetricsView`).
const LATENCY_BOUNDS_MS: [u64; 9] = [1, 3, 5, 7, 10, 100, 1000, 2000, 3000];
/// Bounds for requests that make topics and groups (`BrokerMetricsManager`).
const CREATION_BOUNDS_MS: [u64; 5] = [10, 100, 1000, 3000, 5000];

/// Requests that create topics. A system topic is refused, so no system topic counts.
const TOPIC_REQUESTS: [i32; 2] = [request::UPDATE_AND_CREATE_TOPIC, request::UPDATE_AND_CREATE_TOPIC_LIST];
/// Requests that make groups.
const GROUP_REQUESTS: [i32; 2] =
    [request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST];

pub(super) fn write(figures: &Figures, text: &mut Exposition) {
    let table = figures.rpc_latency.table();
    let mut family = text.family(&RPC_LATENCY);
    for (answered, latencies) in &table {
        let (request, response) = code_names(answered);
        let labels =
            ["remoting", &request, &response, flag(answered.is_long_polling), answered.written.word()];
        let counts = latencies.within(&LATENCY_BOUNDS_MS);
        family.histogram(&labels, &LATENCY_BOUNDS_MS, &counts, latencies.ms as f64);
    }
    family.end_histogram(&LATENCY_BOUNDS_MS);
    let creations = |requests: &[i32]| {
        let mut sums: BTreeMap<&str, Latencies> = BTreeMap::new();
        for (answered, latencies) in table.iter().filter(|(answered, _)| requests.contains(&answered.request))
        {
            let status = if answered.response == response::SUCCESS { "success" } else { "failure" };
            sums.entry(status).or_default().add(latencies);
        }
        sums
    };
    write_creations(text, &TOPIC_CREATION, creations(&TOPIC_REQUESTS), &["false"]);
    write_creations(text, &GROUP_CREATION, creations(&GROUP_REQUESTS), &[]);
}

/// Writes the durations of creations by their status. `more` has the values of the labels behind the status.
fn write_creations(
    text: &mut Exposition,
    metric: &'static Metric,
    sums: BTreeMap<&str, Latencies>,
    more: &[&str],
) {
    let mut family = text.family(metric);
    for (status, latencies) in sums {
        let labels: Vec<&str> = [status].into_iter().chain(more.iter().copied()).collect();
        let counts = latencies.within(&CREATION_BOUNDS_MS);
        family.histogram(&labels, &CREATION_BOUNDS_MS, &counts, latencies.ms as f64);
    }
    family.end_histogram(&CREATION_BOUNDS_MS);
}
