//! Metrics of the broker itself: permission, topics, groups, and refused requests.

use super::catalogue::{
    BROKER_PERMISSION, GROUPS, PROCESSOR_WATERMARK, REFUSED, STOPPED_THREADS, TARGET_INFO, TOPICS,
};
use super::exposition::Exposition;
use crate::parts::{Figures, Runtime, Tables};

pub(super) fn write(tables: &Tables, figures: &Figures, runtime: &Runtime, text: &mut Exposition) {
    text.family(&TARGET_INFO).value(&["vostok", env!("CARGO_PKG_VERSION")], 1.0);
    text.single(&BROKER_PERMISSION, f64::from(runtime.config.broker_permission));
    text.single(&TOPICS, tables.topics.count() as f64);
    text.single(&GROUPS, tables.groups.count() as f64);
    let stopped = runtime.supervisor.names().len() + tables.store.stopped_threads().len();
    text.single(&STOPPED_THREADS, stopped as f64);
    let mut waiting = text.family(&PROCESSOR_WATERMARK);
    runtime.disk_pool.waiting().iter().for_each(|(name, count)| waiting.value(&[name], *count as f64));
    waiting.end();
    let mut refused = text.family(&REFUSED);
    for (name, count) in figures.refused.counts() {
        refused.value(&[&snake(name.trim_start_matches("refused"))], count as f64);
    }
    refused.end();
}

/// The name of a cause as labels are written: `DiskFull` is `disk_full`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}
