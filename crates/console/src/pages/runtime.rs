//! Runtime figures of brokers for several pages, with one request to each broker.

use super::list::NAMES_MS;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::broker_link;
use admin::{BrokerRow, Figure};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Most brokers whose figures are on a page.
const BROKERS_MAX: usize = 128;
/// Time for which runtime figures are not asked for again, ms.
const RUNTIME_MS: i64 = 2000;

/// The runtime figures of a broker by name.
pub(super) type Runtime = BTreeMap<String, String>;

/// Names of the masters that answer.
pub(super) async fn masters(app: &App, who: &Visitor) -> Result<Vec<String>, Refusal> {
    let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], NAMES_MS).await?;
    let masters = brokers.iter().filter(|row| row.id == 0 && row.error.is_none());
    Ok(masters.map(|row| row.broker.clone()).collect())
}

/// Brokers that did not answer the last sample, each with the reason. A page lacks their part.
pub(super) fn silent(app: &App) -> Vec<String> {
    let brokers = app.live.sample_unwatched().brokers;
    let silent = brokers.iter().filter_map(|row| {
        let error = row.error.as_deref()?;
        Some(format!("{} {}: {error}", row.broker, row.address))
    });
    silent.collect()
}

/// Runtime figures of all brokers that answer, masters and slaves, and a text for each broker that refused or did not answer.
pub(super) async fn runtimes(
    app: &App,
    who: &Visitor,
) -> Result<(Vec<(BrokerRow, Runtime)>, Vec<String>), Refusal> {
    let (mut found, mut failures) = (Vec::new(), silent(app));
    let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], NAMES_MS).await?;
    if brokers.len() > BROKERS_MAX {
        failures.push(format!("{BROKERS_MAX} / {}", brokers.len()));
    }
    for row in brokers.iter().filter(|row| row.error.is_none()).take(BROKERS_MAX) {
        let given = [("broker", row.address.as_str())];
        match app.typed::<Vec<Figure>>(who, ("broker", "status"), &given, RUNTIME_MS).await {
            Ok(figures) => {
                let figures = figures.iter().map(|it| (it.name.clone(), it.value.clone()));
                found.push((row.clone(), figures.collect()));
            }
            Err(refusal) => failures.push(format!("{} {}: {}", row.broker, row.address, refusal.text)),
        }
    }
    Ok((found, failures))
}

/// A broker with its address if it is a slave, because its name is that of its set.
pub(super) fn broker_cell(name: &str, id: i64, address: &str) -> Markup {
    html! { (broker_link(name, id, address)) @if id != 0 { " " span.soft { (address) } } }
}

/// A runtime figure as a number; 0 without one.
pub(super) fn number(runtime: &Runtime, name: &str) -> i64 {
    runtime.get(name).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Failures of servers, above the part of the page that the other servers answered.
pub(super) fn shown_failures(failures: &[String]) -> Markup {
    html! { @for failure in failures { p.failure role="alert" { "✗ " (failure) } } }
}
