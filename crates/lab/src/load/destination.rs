//! Destination of a connection: a fixed address, or the master of a broker set, for which name servers are asked as
//! clients do.

use client::Client;
use std::net::SocketAddr;
use std::time::Duration;

/// Interval at which RocketMQ's clients ask for routes again (`ClientConfig.pollNameServerInterval`).
const POLL: Duration = Duration::from_secs(30);

/// Destination of a connection.
#[derive(Clone, Debug)]
pub struct Destination {
    address: SocketAddr,
    set: Option<BrokerSet>,
}

/// A broker set whose master may change.
#[derive(Clone)]
struct BrokerSet {
    client: Client,
    topic: String,
    name: String,
}

impl std::fmt::Debug for BrokerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerSet")
            .field("topic", &self.topic)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Destination {
    /// An address that never changes.
    pub fn fixed(address: SocketAddr) -> Self {
        Self { address, set: None }
    }

    /// The master of the broker set `name`, which is at `address` now. Name servers are asked for the route of `topic`.
    pub fn master(address: SocketAddr, client: &Client, (topic, name): (&str, &str)) -> Self {
        let (client, topic, name) = (client.clone(), topic.to_owned(), name.to_owned());
        Self { address, set: Some(BrokerSet { client, topic, name }) }
    }

    /// Whether the address may change.
    pub fn may_change(&self) -> bool {
        self.set.is_some()
    }

    /// Interval at which the address is looked for without a reason.
    pub fn poll(&self) -> Duration {
        POLL
    }

    /// The address as it was found last.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Looks for the address again; returns whether it changed. Without a master, or without an answer, the address stays
    /// as it was found last.
    pub async fn look(&mut self) -> bool {
        let Some(set) = &self.set else { return false };
        let before = self.address;
        if let Some(address) = set.master().await {
            self.address = address;
        }
        self.address != before
    }
}

impl BrokerSet {
    async fn master(&self) -> Option<SocketAddr> {
        let route = self.client.refresh_route(&self.topic).await.ok()?;
        net::resolve(route.master(&self.name)?).await.ok()?.first().copied()
    }
}
