//! From settings to running roles and back.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use broker::RunningBroker;
use clap::ValueEnum;
use namesrv::NameServer;
use net::tls::Security;
use net::{Budget, Limits, Workers};
use wire::body::parse_key_values;

use crate::{address, security};

/// What a process can be.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Name server.
    Namesrv,
    /// Broker.
    Broker,
}

impl Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Namesrv => "namesrv",
            Self::Broker => "broker",
        })
    }
}

/// What the command line says.
pub struct Settings {
    pub roles: Vec<Role>,
    pub data: Option<PathBuf>,
    pub namesrv_port: Option<u16>,
    pub broker_port: Option<u16>,
    pub name_servers: Option<String>,
    pub config: Option<PathBuf>,
}

/// Why the process does not run; nothing is left running.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// `what` failed because of `cause`.
    pub fn new(what: impl Display, cause: impl Display) -> Self {
        Self(format!("{what}: {cause}"))
    }
}

/// The roles of this process.
pub struct RunningRoles {
    name_server: Option<NameServer>,
    broker: Option<RunningBroker>,
    name_servers: String,
}

impl RunningRoles {
    /// Starts the roles, the name server first.
    pub fn start(settings: &Settings) -> Result<Self, Error> {
        let text = match &settings.config {
            Some(path) => std::fs::read(path).map_err(|error| unreadable(path, error))?,
            // What was changed while a broker ran that was started without a file.
            None => read_if_there(&broker::Config::file_of(settings.home()))?,
        };
        let (text, security) = security::take(&text)?;
        let config = settings.has(Role::Broker).then(|| broker_config(settings, &text)).transpose()?;
        let mut running = Self { name_server: None, broker: None, name_servers: String::new() };
        if settings.has(Role::Namesrv) {
            let started = start_name_server(settings, &text, security.clone(), config.as_ref());
            running.name_server = Some(started?);
        }
        if let Some(config) = config {
            match start_broker(settings, config, security, running.name_server.as_ref()) {
                Ok((broker, name_servers)) => {
                    running.broker = Some(broker);
                    running.name_servers = name_servers;
                }
                Err(error) => {
                    running.stop()?;
                    return Err(error);
                }
            }
        }
        Ok(running)
    }

    /// What is printed once everything serves: where it is and how to use it.
    pub fn greeting(&self) -> String {
        let mut lines = Vec::new();
        if let Some(name_server) = &self.name_server {
            let address = name_server.local_addr();
            lines.push(format!("The Name Server boot success. serializeType=JSON, address {address}"));
        }
        if let Some(broker) = &self.broker {
            let name = broker.name();
            let told = broker.told_address();
            lines.push(format!(
                "The broker[{name}, {told}] boot success. serializeType=JSON and name server is {}",
                self.name_servers
            ));
            lines.extend(address::advice(broker.address(), &told));
        }
        if let (Some(name_server), Some(broker)) = (&self.name_server, &self.broker) {
            let listens = name_server.local_addr();
            let ip = if listens.ip().is_unspecified() { broker.address().ip() } else { listens.ip() };
            lines.push(address::snippet(SocketAddr::new(ip, listens.port())));
        }
        lines.join("\n")
    }

    /// Stops the broker, then the name server.
    pub fn stop(self) -> Result<(), Error> {
        let stopped = self.broker.map_or(Ok(()), RunningBroker::stop);
        if let Some(name_server) = self.name_server {
            name_server.shutdown();
        }
        stopped.map_err(|error| Error::new("the store could not be closed cleanly", error))
    }
}

impl Settings {
    fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    fn home(&self) -> &Path {
        self.data.as_deref().unwrap_or(Path::new("./data"))
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::new(format!("the configuration file {}", path.display()), error)
}

/// A file that was written while the roles ran; empty when none was.
fn read_if_there(path: &Path) -> Result<Vec<u8>, Error> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|error| unreadable(path, error)),
    }
}

/// Takes over what a broker's file says about the connections of the process: it counts for the name server beside it as
/// well, before the name server's own file.
fn share(config: &mut namesrv::Config, broker: &broker::Config, text: &[u8]) -> Result<(), Error> {
    for (key, _) in parse_key_values(text).map_err(|error| Error::new("the configuration file", error))? {
        match key.as_str() {
            "bindAddress" => config.bind_address = broker.bind_address.to_string(),
            "proxyProtocolTrustedAddresses" => config.trusted_proxies = broker.trusted_proxies.clone(),
            "connectionBufferBytes" => config.connection_bytes_max = broker.connection_bytes_max,
            _ => {}
        }
    }
    Ok(())
}

fn start_name_server(
    settings: &Settings,
    text: &[u8],
    security: Security,
    beside: Option<&broker::Config>,
) -> Result<NameServer, Error> {
    let mut config = namesrv::Config::new(settings.home());
    // A file given to both roles is a broker's; its listenPort is the broker's too.
    let file = settings.config.as_ref().filter(|_| beside.is_none());
    let own = match file {
        Some(_) => text.to_vec(),
        // What was changed while a name server ran without a file.
        None => read_if_there(&config.config_store_path)?,
    };
    for warning in config.read(&own).map_err(|error| Error::new("the configuration file", error))? {
        tracing::warn!("{warning}");
    }
    if let Some(broker) = beside {
        share(&mut config, broker, text)?;
    }
    if let Some(file) = file {
        config.config_store_path.clone_from(file);
    }
    if let Some(port) = settings.namesrv_port {
        config.listen_port = port;
    }
    NameServer::start_secured(config, security)
        .map_err(|error| Error::new("the name server does not start", error))
}

/// Where a listener of this machine is reached from this machine.
fn reached_at(listens: SocketAddr) -> SocketAddr {
    let ip = if listens.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listens.ip() };
    SocketAddr::new(ip, listens.port())
}

fn broker_config(settings: &Settings, text: &[u8]) -> Result<broker::Config, Error> {
    let (mut config, notes) =
        broker::Config::from_properties(text).map_err(|error| Error::new("the configuration file", error))?;
    for note in notes {
        if note.is_warning() {
            tracing::warn!("{note}");
        } else {
            tracing::info!("{note}");
        }
    }
    if settings.data.is_some() || !config.has_store_path() {
        config.set_store_root(settings.home());
    }
    if let Some(path) = &settings.config {
        config.set_file(path);
    }
    if let Some(port) = settings.broker_port {
        config.listen_port = port;
    }
    Ok(config)
}

fn start_broker(
    settings: &Settings,
    mut config: broker::Config,
    security: Security,
    name_server: Option<&NameServer>,
) -> Result<(RunningBroker, String), Error> {
    let local = name_server.map(|server| reached_at(server.local_addr()).to_string());
    let given = settings.name_servers.clone().or_else(|| config.namesrv_addr.clone());
    // It stands for what is not said at all; with a name server of its own the process says enough.
    let given = given.or_else(|| std::env::var("NAMESRV_ADDR").ok().filter(|_| name_server.is_none()));
    let mut name_servers: Vec<String> = local.into_iter().collect();
    name_servers.extend(given.iter().flat_map(|list| list.split(';')).map(|name| name.trim().to_owned()));
    name_servers.retain(|name| !name.is_empty());
    name_servers.dedup();
    config.namesrv_addr = Some(name_servers.join(";"));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let security = Security { proxies: config.trusted_proxies.clone(), ..security };
    let budget = match name_server {
        Some(name_server) => name_server.budget().clone(),
        None => Budget::new(config.connection_bytes_max),
    };
    let workers = Workers::start_within("broker", threads, Limits::default(), security, budget)
        .map_err(|error| Error::new("the broker's threads cannot be started", error))?;
    match RunningBroker::start(config, workers.clone()) {
        Ok(broker) => Ok((broker, name_servers.join(";"))),
        Err(error) => {
            workers.shutdown();
            Err(Error::new("the broker does not start", error))
        }
    }
}
