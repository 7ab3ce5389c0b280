//! Starts a client: its connections, its id and its heartbeats.

use crate::client::Inner;
use crate::remote::Remote;
use crate::{Client, Config, Error, clock, heartbeat};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

impl Client {
    /// Starts the client's threads. Servers are contacted on first use.
    ///
    /// # Errors
    /// [`Error::NoNameServer`] when there is no name server address, [`Error::System`] when threads cannot be started.
    pub fn start(config: Config) -> Result<Self, Error> {
        let ip = config.client_ip.or_else(|| own_address(config.name_servers.first()?));
        let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let seed = clock::seed();
        let instance = match config.instance_name.as_str() {
            "" | "DEFAULT" => format!("{}#{seed}", std::process::id()),
            name => name.to_owned(),
        };
        let remote = Remote::start(&config, seed)?;
        let id = format!("{ip}@{instance}");
        let inner = Arc::new(Inner::new(remote, id, ip));
        let weak = Arc::downgrade(&inner);
        inner.remote.workers.spawn(0, move || heartbeat::run(weak))?;
        Ok(Self { inner })
    }
}

/// Returns the local address of connections to a server. No packet is sent: connecting a UDP socket only selects a
/// route.
fn own_address(server: &str) -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect(server).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
