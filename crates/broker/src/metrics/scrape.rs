//! Scrape: the present values of all metrics of the broker.

use std::collections::BTreeMap;

use tokio::sync::mpsc::UnboundedSender;

use super::exposition::Exposition;
use super::{clients, decisions, lag, node, rpc, store_figures, traffic};
use crate::parts::{MetricsParts, Runtime};

/// The labels of every series.
pub(super) fn common_labels(runtime: &Runtime) -> Vec<(String, String)> {
    let config = &runtime.config;
    let own = [
        ("cluster", config.broker_cluster_name.as_str()),
        ("node_id", &config.broker_name),
        ("node_type", "broker"),
        ("otel_scope_name", "broker-meter"),
    ];
    let mut common = BTreeMap::new();
    // The last of two labels with one name counts, as in Java's map, so the broker's own win.
    for (name, value) in config.metrics.labels().chain(own) {
        common.insert(name.to_owned(), value.to_owned());
    }
    common.into_iter().collect()
}

/// All metrics as text; `parts` gets all of it but the last part.
pub(super) fn scrape(state: &MetricsParts, parts: Option<UnboundedSender<String>>) -> String {
    let mut text =
        Exposition::new(common_labels(&state.runtime), state.runtime.config.metrics.series_max, parts);
    figures(state, &mut text);
    text.finish()
}

/// Sums up all metrics.
pub(super) fn figures(state: &MetricsParts, text: &mut Exposition) {
    node::write(&state.tables, &state.figures, &state.runtime, text);
    traffic::write(&state.tables, &state.figures, text);
    clients::write(&state.sessions, text);
    lag::write(state, text);
    decisions::write(&state.delivery, text);
    rpc::write(&state.figures, text);
    store_figures::write(&state.tables, &state.delivery, &state.runtime, text);
}
