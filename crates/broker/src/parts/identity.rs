//! Address and names that a broker writes into messages.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use wire::id::UniqKeys;
use wire::properties::{self, key};

use crate::config::Config;

/// Milliseconds of a month of 31 days: the creation time in unique keys counts modulo this.
const MONTH_MS: i64 = 31 * 24 * 3_600_000;

/// Address, properties and unique keys for the messages that a broker stores.
pub(crate) struct Identity {
    /// Address that is written into records as the store host and is part of message ids.
    pub(crate) store_host: SocketAddr,
    /// Properties that every sent message gets: region, trace switch, cluster.
    pub(crate) sent_properties: Vec<u8>,
    address: String,
    ha_address: String,
    ha_port: u16,
    unique_keys: UniqKeys,
    unique_counter: AtomicU32,
    spread_counter: AtomicU32,
}

impl Identity {
    /// Makes the identity of a broker with these settings.
    pub(crate) fn new(config: &Config, ip: IpAddr, port: u16) -> Self {
        let mut sent_properties = Vec::new();
        properties::append(&mut sent_properties, key::MSG_REGION, config.region_id.as_bytes());
        let trace: &[u8] = if config.trace_on { b"true" } else { b"false" };
        properties::append(&mut sent_properties, key::TRACE_SWITCH, trace);
        properties::append(&mut sent_properties, key::CLUSTER, config.broker_cluster_name.as_bytes());
        let process_id = std::process::id() as u16;
        let reached_at = |host: &str, port: u16| match host.parse() {
            Ok(ip) => SocketAddr::new(ip, port).to_string(),
            Err(_) => format!("{host}:{port}"),
        };
        let ha_host =
            if config.replication.ip.is_empty() { &config.broker_ip1 } else { &config.replication.ip };
        let ha_port = match config.replication.port {
            0 => port.wrapping_add(1),
            port => port,
        };
        Self {
            store_host: SocketAddr::new(ip, port),
            sent_properties,
            address: reached_at(&config.broker_ip1, port),
            ha_address: reached_at(ha_host, ha_port),
            ha_port,
            unique_keys: UniqKeys::new(ip, process_id, 0x0766_6f73),
            unique_counter: AtomicU32::new(0),
            spread_counter: AtomicU32::new(0),
        }
    }

    /// A queue id below `count`, taken in turn.
    pub(crate) fn spread(&self, count: i32) -> i32 {
        let next = self.spread_counter.fetch_add(1, Ordering::Relaxed);
        let count = u32::try_from(count).unwrap_or(0).max(1);
        (next % count) as i32
    }

    /// Appends to `out` a unique key for a message without a key from its producer.
    pub(crate) fn unique_key(&self, now_ms: i64, out: &mut Vec<u8>) {
        let month_ms = now_ms.rem_euclid(MONTH_MS) as u32;
        let counter = self.unique_counter.fetch_add(1, Ordering::Relaxed) as u16;
        self.unique_keys.append_to(out, month_ms, counter);
    }

    /// Address that clients use: the configured `brokerIP1`, and the port.
    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// The port that slaves of this broker connect to.
    pub(crate) fn ha_port(&self) -> u16 {
        self.ha_port
    }

    /// Address that slaves of this broker connect to: `brokerIP2` and the port for slaves.
    pub(crate) fn ha_address(&self) -> String {
        self.ha_address.clone()
    }

    /// Whether a seal ([`wire::seal`]) that names this address as the receiver is for this broker.
    pub(crate) fn is_named(&self, address: &str) -> bool {
        address == self.address || address == self.store_host.to_string()
    }
}
