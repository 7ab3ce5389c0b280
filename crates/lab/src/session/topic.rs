//! Finds the queues to load, creating the topic when that is asked for.

use crate::Error;
use crate::command::Run;
use crate::load::Target;
use client::{Client, Config, Route};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::codes::response;

/// How often, and how long between, brokers and a created topic are looked for.
const LOOKS: (u32, Duration) = (300, Duration::from_millis(100));

/// A broker and its queues of the topic.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Where it listens.
    pub address: SocketAddr,
    /// Queues to send to.
    pub targets: Vec<Target>,
}

/// Which queues are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Topic.
    pub topic: String,
    /// How many topics, named after it with a number when there are several.
    pub topics: u32,
    /// Queues a missing topic is created with on every master; without, it is left to the brokers to create it on
    /// the first send.
    pub queues: Option<u32>,
}

/// Starts a client and finds the queues of the topic.
pub(crate) async fn find(run: &Run) -> Result<(Client, Vec<Place>), Error> {
    let client = Client::start(Config { credentials: run.credentials(), ..Config::new(&run.namesrv) })?;
    let wanted = Wanted { topic: run.topic.clone(), topics: run.topics, queues: run.queues };
    let places = places(&client, &wanted).await?;
    Ok((client, places))
}

/// Finds the queues wanted, broker by broker.
pub(crate) async fn places(client: &Client, wanted: &Wanted) -> Result<Vec<Place>, Error> {
    let mut places = BTreeMap::new();
    if wanted.topics == 1 {
        let found = route(client, wanted.queues, &wanted.topic).await?;
        add(&mut places, &found, None).await?;
    }
    for number in (0..wanted.topics).filter(|_| wanted.topics > 1) {
        let topic: Arc<str> = format!("{}_{number}", wanted.topic).into();
        let found = route(client, wanted.queues, &topic).await?;
        add(&mut places, &found, Some(topic)).await?;
    }
    if places.is_empty() {
        return Err(client::Error::NoQueue(wanted.topic.clone()).into());
    }
    Ok(places.into_values().collect())
}

async fn route(client: &Client, queues: Option<u32>, topic: &str) -> Result<Arc<Route>, Error> {
    match queues {
        Some(queues) => created(client, topic, queues).await,
        None => Ok(client.publish_route(topic, 4).await?),
    }
}

/// Adds the queues of a route to those of their brokers.
async fn add(
    places: &mut BTreeMap<String, Place>,
    route: &Route,
    topic: Option<Arc<str>>,
) -> Result<(), Error> {
    for queue in &route.publish {
        let Some(master) = route.master(&queue.broker_name) else { continue };
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

async fn created(client: &Client, topic: &str, queues: u32) -> Result<Arc<Route>, Error> {
    if let Some(route) = existing(client, topic).await? {
        return Ok(route);
    }
    let mut masters = client.masters("").await?;
    for look in 0..LOOKS.0 {
        if look > 0 {
            tokio::time::sleep(LOOKS.1).await;
        }
        if masters.is_empty() {
            // A cluster that is just starting: its brokers have not registered yet.
            masters = client.masters("").await?;
            continue;
        }
        if let Some(route) = existing(client, topic).await?
            && route.brokers.len() == masters.len()
        {
            return Ok(route);
        }
        // Creating it once more does no harm, should a broker have lost the first request.
        if look % 20 <= 1 {
            for master in &masters {
                client.create_topic(master, topic, queues).await?;
            }
        }
    }
    Err(client::Error::NoQueue(topic.to_owned()).into())
}

async fn existing(client: &Client, topic: &str) -> Result<Option<Arc<Route>>, Error> {
    match client.refresh_route(topic).await {
        Err(error) if error.code() == Some(response::TOPIC_NOT_EXIST) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(route) => Ok(Some(route)),
    }
}

async fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let failed = Error::system(format!("resolve {address}"));
    let found = net::resolve(address).await;
    let no_address = || std::io::Error::other("the name has no address");
    found.and_then(|found| found.first().copied().ok_or_else(no_address)).map_err(failed)
}
