//! Heartbeats, which tell brokers the groups of this client (`MQClientInstance.sendHeartbeatToAllBroker`), and the
//! refresh of routes.

use crate::client::Inner;
use crate::route::MASTER;
use crate::{Client, Error};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::codes::request;
use wire::json;

/// Interval of heartbeats, and of refreshing the routes in use (`heartbeatBrokerInterval`, `pollNameServerInterval`).
const INTERVAL: Duration = Duration::from_secs(30);

/// Time from a new connection to the heartbeat over it. Connections made together share one round of heartbeats.
const FRESH: Duration = Duration::from_millis(20);

/// Shortest interval between heartbeats for new connections, in case a server accepts connections and closes them at
/// once.
const FRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time for a heartbeat (`mqClientApiTimeout`).
const TIMEOUT: Duration = Duration::from_secs(3);

impl Client {
    /// Sends a heartbeat to every broker of the routes in use, now instead of at the next interval.
    pub async fn heartbeat(&self) {
        self.greet(|_| true).await;
    }

    /// Sends a heartbeat to the brokers for which `wanted` is true; returns false when there are none.
    async fn greet(&self, wanted: impl Fn(&String) -> bool) -> bool {
        let _in_order = self.inner.heartbeat.lock().await;
        let data = self.inner.groups.data(self.id());
        if data.producer_data_set.is_empty() && data.consumer_data_set.is_empty() {
            return false;
        }
        let slaves_too = !data.consumer_data_set.is_empty();
        let body: Arc<[u8]> = json::to_vec(&data).into();
        let mut calls = JoinSet::new();
        for address in self.brokers(slaves_too).into_iter().filter(wanted) {
            let (client, body) = (self.clone(), body.clone());
            calls.spawn(async move {
                let write = |frame: wire::frame::FrameWriter<'_>| frame.finish(&body);
                let sent = client.inner.remote.call(&address, request::HEART_BEAT, TIMEOUT, write).await;
                if let Err(error) = sent {
                    tracing::warn!(%error, "heartbeat failed");
                }
            });
        }
        let is_any = !calls.is_empty();
        while calls.join_next().await.is_some() {}
        is_any
    }

    /// Notifies every broker that this client has left a group (`UNREGISTER_CLIENT`). Brokers notice it as well when
    /// the connection ends. The caller has removed the group from this client.
    pub(crate) async fn unregister(&self, kind: &'static str, group: &str) {
        let _in_order = self.inner.heartbeat.lock().await;
        for address in self.brokers(true) {
            let write = |frame: wire::frame::FrameWriter<'_>| {
                frame.text("clientID", self.id()).text(kind, group).finish(b"");
            };
            let left = self.inner.remote.call(&address, request::UNREGISTER_CLIENT, TIMEOUT, write).await;
            if let Err(error) = left {
                tracing::warn!(%error, group, "could not leave the group");
            }
        }
    }

    /// Addresses of the brokers of the routes in use.
    fn brokers(&self, slaves_too: bool) -> BTreeSet<String> {
        let topics = self.topics();
        let routes = topics.iter().filter_map(|topic| self.known_route(topic));
        let mut addresses = BTreeSet::new();
        for route in routes {
            let brokers = route.brokers.values().flatten();
            let wanted = brokers.filter(|(id, _)| slaves_too || **id == MASTER);
            addresses.extend(wanted.map(|(_, address)| address.clone()));
        }
        addresses
    }

    async fn refresh_routes(&self) {
        for topic in self.topics() {
            match self.refresh_route(&topic).await {
                Ok(_) => {}
                Err(error @ Error::Refused { .. }) => tracing::debug!(%error, topic, "no route"),
                // No name server answers, so the other topics are not tried.
                Err(error) => return tracing::warn!(%error, "routes could not be refreshed"),
            }
        }
    }
}

/// Sends heartbeats and refreshes routes until the client is dropped.
pub(crate) async fn run(client: Weak<Inner>) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.reset();
    let mut next_fresh = Instant::now();
    loop {
        let Some(inner) = client.upgrade() else { return };
        // This task must not keep the client alive, so it holds only the record of connections while it waits.
        let dialed = inner.remote.dialed.clone();
        drop(inner);
        let is_time = tokio::select! {
            _ = interval.tick() => true,
            () = dialed.changed.notified() => {
                // Several connections are often made at the same time.
                tokio::time::sleep_until(next_fresh.max(Instant::now() + FRESH)).await;
                false
            }
        };
        let Some(inner) = client.upgrade() else { return };
        let (client, fresh) = (Client { inner }, dialed.take());
        if is_time {
            client.refresh_routes().await;
            client.heartbeat().await;
        } else if client.greet(|address| fresh.contains(address)).await {
            next_fresh = Instant::now() + FRESH_INTERVAL;
        }
    }
}
