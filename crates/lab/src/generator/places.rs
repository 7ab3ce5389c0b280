//! Finds the queues to load, and creates the topic when a flag asks for that.

use crate::Error;
use crate::load::Target;
use client::{Client, Route};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::codes::response;

/// Number of attempts to find brokers and a created topic, and the time between two of them.
pub(super) const LOOKS: (u32, Duration) = (300, Duration::from_millis(100));

/// A broker with the queues of the topic that it holds.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Address at which the broker listens.
    pub address: SocketAddr,
    /// The queues to send to.
    pub targets: Vec<Target>,
}

/// The topics and queues that a load needs.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Name of the topic.
    pub topic: String,
    /// Number of topics. Several topics are named `topic` plus a number.
    pub topics: u32,
    /// Number of queues with which a missing topic is created on every master. `None` leaves the creation to the
    /// brokers at the first send.
    pub queues: Option<u32>,
    /// Cluster whose masters, all of them and no others, are to be loaded; a topic that exists on some of them is
    /// created on the others. Empty for the only cluster; `None` to use a topic as it is.
    pub cluster: Option<String>,
}

/// Finds the queues, grouped by broker.
pub(crate) async fn places(client: &Client, wanted: &Wanted) -> Result<Vec<Place>, Error> {
    let mut places = BTreeMap::new();
    let only = match wanted.cluster.as_deref() {
        None | Some("") => None,
        Some(cluster) => Some(client.masters(cluster).await?),
    };
    if wanted.topics == 1 {
        let found = route(client, wanted, &wanted.topic).await?;
        add(&mut places, (&found, only.as_ref()), None).await?;
    }
    for number in (0..wanted.topics).filter(|_| wanted.topics > 1) {
        let topic: Arc<str> = format!("{}_{number}", wanted.topic).into();
        let found = route(client, wanted, &topic).await?;
        add(&mut places, (&found, only.as_ref()), Some(topic)).await?;
    }
    if places.is_empty() {
        return Err(client::Error::NoQueue(wanted.topic.clone()).into());
    }
    Ok(places.into_values().collect())
}

async fn route(client: &Client, wanted: &Wanted, topic: &str) -> Result<Arc<Route>, Error> {
    match wanted.queues {
        Some(queues) => created(client, topic, (queues, wanted.cluster.as_deref())).await,
        None => Ok(client.publish_route(topic, 4).await?),
    }
}

/// Adds the queues of a route to their brokers, limited to these masters if there are any.
async fn add(
    places: &mut BTreeMap<String, Place>,
    (route, only): (&Route, Option<&BTreeSet<String>>),
    topic: Option<Arc<str>>,
) -> Result<(), Error> {
    for queue in &route.publish {
        let Some(master) = route.master(&queue.broker_name) else { continue };
        if only.is_some_and(|only| !only.contains(master)) {
            continue;
        }
        if !places.contains_key(master) {
            let place = Place { address: resolve(master).await?, targets: Vec::new() };
            places.insert(master.to_owned(), place);
        }
        let place = places.get_mut(master).expect("just inserted");
        let target =
            Target { broker: queue.broker_name.clone(), topic: topic.clone(), queue_id: queue.queue_id };
        place.targets.push(target);
    }
    Ok(())
}

async fn created(
    client: &Client,
    topic: &str,
    (queues, cluster): (u32, Option<&str>),
) -> Result<Arc<Route>, Error> {
    let found = existing(client, topic).await?;
    if let Some(route) = found.filter(|_| cluster.is_none()) {
        return Ok(route);
    }
    let cluster = cluster.unwrap_or_default();
    let mut masters = client.masters(cluster).await?;
    for look in 0..LOOKS.0 {
        if look > 0 {
            tokio::time::sleep(LOOKS.1).await;
        }
        if masters.is_empty() {
            // The cluster may just be starting, with brokers that have not registered yet.
            masters = client.masters(cluster).await?;
            continue;
        }
        let route = existing(client, topic).await?;
        let without = without(&masters, route.as_deref());
        if let Some(route) = route.filter(|_| without.is_empty()) {
            return Ok(route);
        }
        // The topic is created again from time to time, in case a broker lost the first request. This does no harm.
        if look % 20 <= 1 {
            for master in without {
                client.create_topic(master, topic, queues).await?;
            }
        }
    }
    Err(client::Error::NoQueue(topic.to_owned()).into())
}

/// The masters that a route does not contain.
fn without<'a>(masters: &'a BTreeSet<String>, route: Option<&Route>) -> Vec<&'a String> {
    let on_it = |master: &str| {
        let mut brokers = route.iter().flat_map(|route| route.brokers.keys());
        brokers.any(|broker| route.and_then(|route| route.master(broker)) == Some(master))
    };
    masters.iter().filter(|master| !on_it(master)).collect()
}

/// The route of a topic; `None` when the topic does not exist.
pub(crate) async fn existing(client: &Client, topic: &str) -> Result<Option<Arc<Route>>, Error> {
    match client.refresh_route(topic).await {
        Err(error) if error.code() == Some(response::TOPIC_NOT_EXIST) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(route) => Ok(Some(route)),
    }
}

pub(super) async fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let failed = Error::system(format!("resolve {address}"));
    let found = net::resolve(address).await;
    let no_address = || std::io::Error::other("the name has no address");
    found.and_then(|found| found.first().copied().ok_or_else(no_address)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::body::{BrokerData, TopicRouteData};

    #[test]
    fn masters_that_a_topic_was_not_made_on_are_told() {
        let broker = |name: &str, addresses: &[(i64, &str)]| BrokerData {
            broker_name: name.to_owned(),
            broker_addrs: addresses.iter().map(|(id, address)| (*id, (*address).to_owned())).collect(),
            ..BrokerData::default()
        };
        // A topic on two masters, one of which is gone, in a cluster that has grown to three masters.
        let broker_datas = vec![broker("a", &[(0, "a:1"), (1, "a:2")]), broker("b", &[(1, "b:2")])];
        let route = Route::new("t", &TopicRouteData { broker_datas, ..TopicRouteData::default() });
        let masters: BTreeSet<String> = ["a:1", "c:1", "d:1"].map(str::to_owned).into();
        assert_eq!(without(&masters, Some(&route)), ["c:1", "d:1"]);
        assert_eq!(without(&masters, None).len(), 3);
        let same: BTreeSet<String> = ["a:1".to_owned()].into();
        assert!(without(&same, Some(&route)).is_empty(), "a group without a master is not waited for");
    }
}
