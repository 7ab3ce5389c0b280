//! Scrape: the present values of all metrics of the broker.

use std::collections::BTreeMap;

use tokio::sync::mpsc::UnboundedSender;

use super::exposition::Exposition;
use super::{clients, decisions, lag, node, rpc, store_figures, traffic};
use crate::broker::Broker;

/// The labels of every series.
pub(super) fn common_labels(broker: &Broker) -> Vec<(String, String)> {
    let config = &broker.runtime.config;
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
pub(super) fn scrape(broker: &Broker, parts: Option<UnboundedSender<String>>) -> String {
    let mut text = Exposition::new(common_labels(broker), broker.runtime.config.metrics.series_max, parts);
    figures(broker, &mut text);
    text.finish()
}

/// Sums up all metrics.
pub(super) fn figures(broker: &Broker, text: &mut Exposition) {
    node::write(broker, text);
    traffic::write(broker, text);
    clients::write(broker, text);
    lag::write(broker, text);
    decisions::write(broker, text);
    rpc::write(broker, text);
    store_figures::write(broker, text);
}
