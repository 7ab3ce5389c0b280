//! The servers of the cluster, to which alone the console connects for a visitor.

use crate::app::{App, Visitor, find};
use crate::refusal::Refusal;
use crate::users::Role;
use admin::{Arguments, BrokerRow, Settings};
use std::collections::{BTreeMap, BTreeSet};

/// Time for which the settings of a broker are not asked for again, ms.
const SETTINGS_MS: i64 = 30_000;

/// Refuses servers that are not of the cluster, so that visitors do not make the console connect to other servers. Only an
/// administrator may name containers of brokers, and controllers that no broker names.
///
/// # Errors
/// [`Refusal`] for a server that is not known, or when no name server tells which brokers there are.
pub(crate) async fn check(app: &App, who: &Visitor, arguments: &Arguments) -> Result<(), Refusal> {
    let stored_at = arguments.get("id").and_then(|id| wire::id::OffsetId::parse(id.trim()));
    let stored_at = stored_at.map(|id| id.store_host.to_string());
    let named = ["broker", "from", "to"].into_iter().filter_map(|name| arguments.get(name));
    let named = named.filter(|name| name.contains(':')).map(str::to_owned);
    let known = app.live.sample_unwatched().brokers;
    let is_of = |brokers: &[BrokerRow], address: &String| brokers.iter().any(|row| row.address == *address);
    let unknown: Vec<String> = named.chain(stored_at).filter(|address| !is_of(&known, address)).collect();
    if !unknown.is_empty() {
        let session = app.cluster.session(false);
        let list = find("cluster", "list")?;
        let brokers: Vec<BrokerRow> = list.perform_typed(&session, &Arguments::default()).await?;
        refuse(unknown.into_iter().find(|address| !is_of(&brokers, address)))?;
    }
    let others = ["controller", "container"].into_iter().filter_map(|name| arguments.get(name));
    let others: Vec<&str> = others.flat_map(addresses).collect();
    if others.is_empty() || who.role == Role::Admin {
        return Ok(());
    }
    let known: BTreeSet<String> = Box::pin(controllers(app, who)).await?.into_keys().collect();
    let is_known = |address: &str| known.iter().flat_map(|list| addresses(list)).any(|it| it == address);
    refuse(others.into_iter().find(|address| !is_known(address)).map(str::to_owned))
}

fn refuse(address: Option<String>) -> Result<(), Refusal> {
    match address {
        None => Ok(()),
        Some(address) => Err(Refusal::forbidden(format!("{address} is no server of this cluster"))),
    }
}

fn addresses(list: &str) -> impl Iterator<Item = &str> {
    list.split([';', ',']).map(str::trim).filter(|it| !it.is_empty())
}

/// Returns the groups of controllers: for each value of `controllerAddr` the broker sets that have this value, and the
/// cluster of each set.
///
/// # Errors
/// [`Refusal`] when no name server tells which brokers there are.
pub(crate) async fn controllers(
    app: &App,
    who: &Visitor,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, Refusal> {
    let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], 1000).await?;
    let mut asked = BTreeSet::new();
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for row in brokers.iter().filter(|row| row.error.is_none()) {
        if !asked.insert(&row.broker) {
            continue;
        }
        let given = [("broker", row.address.as_str())];
        let settings = app.typed::<Settings>(who, ("broker", "config"), &given, SETTINGS_MS).await;
        let Ok(settings) = settings else { continue };
        let value = |key: &str| settings.rows.iter().find(|row| row.key == key).map(|row| row.value.as_str());
        if let (Some("true"), Some(list)) = (value("enableControllerMode"), value("controllerAddr"))
            && !list.is_empty()
        {
            let sets = found.entry(list.to_owned()).or_default();
            sets.insert(row.broker.clone(), row.cluster.clone());
        }
    }
    Ok(found)
}
