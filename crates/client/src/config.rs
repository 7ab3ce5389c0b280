//! Connection of a client to a cluster.

use crate::Credentials;
use net::tls::Security;
use std::net::IpAddr;
use std::time::Duration;
use wire::frame::Encoding;
use wire::settings::{NAMESRV_PORT, with_port};

/// Connection of a client to a cluster: name servers, encryption, keys.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses of the name servers, `host:port`.
    pub name_servers: Vec<String>,
    /// Distinguishes the clients of one process (`ClientConfig.instanceName`); the process id when empty.
    pub instance_name: String,
    /// IP address in the client id; `None` to find it automatically.
    pub client_ip: Option<IpAddr>,
    /// Number of threads that carry connections.
    pub workers: usize,
    /// Encoding of request headers.
    pub encoding: Encoding,
    /// Whether connections are encrypted with TLS.
    pub security: Security,
    /// Keys to sign requests with; `None` for unsigned requests.
    pub credentials: Option<Credentials>,
    /// Least time limit of connecting, and of calls other than sends, pulls and pops (`ClientConfig.mqClientApiTimeout`). By default
    /// most of these calls have a few seconds.
    pub api_timeout_min: Duration,
}

impl Config {
    /// The defaults of RocketMQ's Java client. Several name servers are separated by semicolons; a name server without a port has port 9876.
    pub fn new(name_servers: &str) -> Self {
        let name_servers = name_servers.split([';', ',']).map(str::trim).filter(|server| !server.is_empty());
        Self {
            name_servers: name_servers.map(|server| with_port(server, NAMESRV_PORT)).collect(),
            instance_name: String::new(),
            client_ip: None,
            workers: 1,
            encoding: Encoding::Json,
            security: Security::default(),
            credentials: None,
            api_timeout_min: Duration::ZERO,
        }
    }
}
