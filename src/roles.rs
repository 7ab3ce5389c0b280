//! From settings to running roles and back.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use broker::RunningBroker;
use console::RunningConsole;
use controller::Controller;
use namesrv::NameServer;
use net::tls::Security;
use net::{Budget, Limits, ReplicationTls, Workers};
use wire::body::{format_key_values, line_of_key, parse_key_values};
use wire::settings::FileSettings as _;

use crate::address::reached_at;
use crate::settings::{Role, Settings};
use crate::{address, console_role, default_access, namesake, proxy_role, security};

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
    controller: Option<Controller>,
    broker: Option<RunningBroker>,
    proxy: Option<proxy_role::Running>,
    console: Option<RunningConsole>,
    name_servers: String,
    /// Whether clients of other machines are refused.
    is_local: bool,
}

/// Configuration files that a start has read, split by the roles that take them. The broker's settings are not in here.
struct Files {
    /// The file of -c, without the keys that `security` and `controls` are made of.
    text: Vec<u8>,
    /// The controller's keys, when this process has a controller.
    controls: Option<Vec<u8>>,
    security: Security,
}

impl RunningRoles {
    /// Starts the roles, the name server first.
    pub async fn start(settings: &Settings) -> Result<Self, Error> {
        let text = match &settings.config {
            Some(path) => std::fs::read(path).map_err(|error| unreadable(path, error))?,
            // What was changed while a broker ran that was started without a file.
            None => read_if_there(&broker::Config::file_of(settings.home()))?,
        };
        let (text, security) = security::take(&text)?;
        let (text, controls) = controller_keys(settings, text)?;
        let mut config = settings.has(Role::Broker).then(|| broker_config(settings, &text)).transpose()?;
        let has_home = [Role::Namesrv, Role::Controller, Role::Broker].iter().any(|role| settings.has(*role));
        let is_local = match has_home {
            true => default_access::is_local(settings.home(), settings.config.is_some(), settings.open)?,
            // A proxy alone keeps nothing, so there is no directory that could tell.
            false => settings.has(Role::Proxy) && !settings.has_file() && !settings.open,
        };
        match &mut config {
            Some(config) if is_local => config.serve_this_machine_only(default_access::REFUSAL),
            Some(config) => default_access::warn_of_open(config),
            None => {}
        }
        let mut running = Self {
            name_server: None,
            controller: None,
            broker: None,
            proxy: None,
            console: None,
            name_servers: String::new(),
            is_local,
        };
        let files = Files { text, controls, security };
        if let Err(error) = running.start_each(settings, files, config).await {
            if let Err(also) = running.stop() {
                tracing::error!(error = %also, "stopping after a failed start");
            }
            return Err(error);
        }
        Ok(running)
    }

    /// Starts one role after the other. Roles that run when another role fails are still running afterwards.
    async fn start_each(
        &mut self,
        settings: &Settings,
        files: Files,
        config: Option<broker::Config>,
    ) -> Result<(), Error> {
        let Files { text, controls, security } = files;
        if settings.has(Role::Namesrv) {
            let (security, is_local) = (security.clone(), self.is_local);
            let started = start_name_server(settings, &text, security, config.as_ref(), is_local);
            self.name_server = Some(started?);
        }
        if let Some(text) = controls {
            let server = self.name_server.as_ref();
            let started = start_controller(settings, &text, (security.clone(), self.is_local), server);
            self.controller = Some(started?);
        }
        if let Some(config) = config {
            let started = start_broker(settings, config, security.clone(), self.name_server.as_ref()).await?;
            self.broker = Some(started.broker);
            self.proxy = started.proxy;
            self.name_servers = started.name_servers;
        } else if settings.has(Role::Proxy) {
            self.proxy = Some(self.start_proxy(settings, &text, security.clone())?);
        }
        if settings.has(Role::Console) {
            self.console = self.start_console(settings, security)?;
        }
        Ok(())
    }

    /// Starts a proxy before the brokers of the name server of this process, otherwise before the brokers of the name
    /// servers in the settings.
    fn start_proxy(
        &self,
        settings: &Settings,
        text: &[u8],
        security: Security,
    ) -> Result<proxy_role::Running, Error> {
        let own = self.name_server.as_ref();
        let address = own.map(|server| reached_at(server.local_addr()).to_string());
        // A proxy's own file has no settings of connections. In the file of -c these settings have a broker's names.
        let (shared, _) = broker::Config::from_properties(text).map_err(|error| {
            refused(settings.config.as_deref().unwrap_or(Path::new("-c")), error.key(), &error)
        })?;
        let limited = || Budget::limited(shared.connection_bytes_max, shared.connection_limits);
        let budget = own.map_or_else(limited, |server| server.budget().clone());
        let bind = if self.is_local { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { shared.bind_address };
        let security = Security { proxies: shared.trusted_proxies, ..security };
        proxy_role::start_alone(settings, address.as_deref(), (security, budget), bind)
    }

    /// Starts the console. It shows the cluster of this process, otherwise the cluster of the command line or the
    /// environment.
    fn start_console(
        &self,
        settings: &Settings,
        security: Security,
    ) -> Result<Option<RunningConsole>, Error> {
        let own = self.name_server.as_ref().map(|server| reached_at(server.local_addr()).to_string());
        let brokers = (!self.name_servers.is_empty()).then(|| self.name_servers.clone());
        let given = brokers.or(own).or_else(|| settings.name_servers.clone());
        let given = given.or_else(|| std::env::var("NAMESRV_ADDR").ok()).unwrap_or_default();
        let is_alone = settings.roles == [Role::Console];
        let home = settings.home().to_path_buf();
        console_role::start(&settings.console, home, (&given, security), is_alone)
    }

    /// Text that is printed once everything serves: addresses, and how to use them.
    pub fn greeting(&self) -> String {
        let mut lines = Vec::new();
        if let Some(name_server) = &self.name_server {
            let address = name_server.local_addr();
            lines.push(format!("The Name Server boot success. serializeType=JSON, address {address}"));
        }
        if let Some(controller) = &self.controller {
            lines.push(format!("The Controller boot success. address {}", controller.local_addr()));
        }
        if let Some(broker) = &self.broker {
            let name = broker.name();
            let advertised = broker.advertised_address();
            lines.push(format!(
                "The broker[{name}, {advertised}] boot success. serializeType=JSON and name server is {}",
                self.name_servers
            ));
            lines.extend(address::advice(broker.address(), &advertised));
        }
        if let Some(proxy) = &self.proxy {
            lines.extend(proxy.greeting());
        }
        if let Some(console) = &self.console {
            lines.push(format!("Console:  {}://{}/", console.scheme(), reached_at(console.address())));
        }
        if let (Some(name_server), Some(broker)) = (&self.name_server, &self.broker) {
            let listens = name_server.local_addr();
            let ip = if listens.ip().is_unspecified() { broker.address().ip() } else { listens.ip() };
            lines.push(address::snippet(SocketAddr::new(ip, listens.port())));
        }
        if self.is_local {
            lines.push(default_access::ADVICE.to_owned());
        }
        lines.join("\n")
    }

    /// Stops the console, gRPC, the broker, the controller, then the name server.
    pub fn stop(self) -> Result<(), Error> {
        if let Some(console) = self.console {
            console.stop();
        }
        if let Some(proxy) = self.proxy {
            proxy.stop();
        }
        let stopped = self.broker.map_or(Ok(()), RunningBroker::stop);
        if let Some(controller) = self.controller {
            controller.shutdown();
        }
        if let Some(name_server) = self.name_server {
            name_server.shutdown();
        }
        stopped.map_err(|error| Error::new("the store could not be closed cleanly", error))
    }
}

pub fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::new(format!("the configuration file {}", path.display()), error)
}

/// Why the configuration file `path` is refused, with the line of the setting.
fn refused(path: &Path, key: Option<&str>, error: impl Display) -> Error {
    let text = std::fs::read(path).ok();
    let line = key.zip(text).and_then(|(key, text)| line_of_key(&text, key));
    match line {
        Some(line) => Error::new(format!("the configuration file {}, line {line}", path.display()), error),
        None => Error::new(format!("the configuration file {}", path.display()), error),
    }
}

/// Reads a file of settings that were changed while a role ran without a configuration file; empty if no setting was
/// changed.
fn read_if_there(path: &Path) -> Result<Vec<u8>, Error> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|error| unreadable(path, error)),
    }
}

/// Takes over the settings of the broker's file about connections. They count for the name server of the same process
/// too, before the name server's own file.
fn share(config: &mut namesrv::Config, broker: &broker::Config, text: &[u8]) -> Result<(), Error> {
    for (key, _) in parse_key_values(text).map_err(|error| Error::new("the configuration file", error))? {
        match key.as_str() {
            "bindAddress" => config.bind_address = broker.bind_address.to_string(),
            "proxyProtocolTrustedAddresses" => config.trusted_proxies = broker.trusted_proxies.clone(),
            "connectionBufferBytes" => config.connection_bytes_max = broker.connection_bytes_max,
            "connectionsMax" => config.connections_max = broker.connection_limits.total,
            "connectionsPerAddressMax" => {
                config.connections_per_address_max = broker.connection_limits.per_address;
            }
            "tlsHandshakesPerSecondMax" => {
                config.tls_handshakes_per_second_max = broker.connection_limits.handshakes_per_second;
            }
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
    is_local: bool,
) -> Result<NameServer, Error> {
    let mut config = namesrv::Config::new(settings.home());
    config.refusal_of_others = is_local.then_some(default_access::REFUSAL);
    // A file given to both roles is a broker's; its listenPort is the broker's too.
    let file = settings.config.as_ref().filter(|_| beside.is_none());
    let own = match file {
        Some(_) => text.to_vec(),
        // What was changed while a name server ran without a file.
        None => read_if_there(&config.config_store_path)?,
    };
    let path = file.cloned().unwrap_or_else(|| config.config_store_path.clone());
    for warning in config.read(&own).map_err(|error| refused(&path, error.key(), &error))? {
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

/// Splits the file of -c: the text for the other roles, and the controller's keys if a controller runs in this process.
/// A controller that is alone gets the whole file.
fn controller_keys(settings: &Settings, text: Vec<u8>) -> Result<(Vec<u8>, Option<Vec<u8>>), Error> {
    if settings.roles == [Role::Controller] {
        return Ok((Vec::new(), Some(text)));
    }
    let is_named = settings.has(Role::Controller);
    let has_controller = |embeds| is_named || embeds && settings.has(Role::Namesrv);
    with_controller(&text, has_controller).map_err(|error| Error::new("the configuration file", error))
}

/// Splits the text of a configuration file if the process has a controller. Returns the text for
/// the other roles and the text for the controller. `has_controller` returns whether the process
/// has a controller, and gets whether the text switches `enableControllerInNamesrv` on.
pub(crate) fn with_controller(
    text: &[u8],
    has_controller: impl Fn(bool) -> bool,
) -> Result<(Vec<u8>, Option<Vec<u8>>), wire::body::KeyValuesError> {
    let entries = parse_key_values(text)?;
    let embeds = entries
        .get("enableControllerInNamesrv")
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    if !has_controller(embeds) {
        return Ok((text.to_vec(), None));
    }
    let (mut others, mut own) = (entries.clone(), entries);
    others.retain(|key, _| !controller::Config::owns(key));
    own.retain(|key, _| controller::Config::knows(key));
    Ok((format_key_values(&others).into_bytes(), Some(format_key_values(&own).into_bytes())))
}

fn start_controller(
    settings: &Settings,
    text: &[u8],
    (security, is_local): (Security, bool),
    beside: Option<&NameServer>,
) -> Result<Controller, Error> {
    let mut config = controller::Config::new(settings.home());
    config.refusal_of_others = is_local.then_some(default_access::REFUSAL);
    let text = match &settings.config {
        Some(_) => text.to_vec(),
        // What was changed while a controller ran without a file.
        None => read_if_there(&config.config_store_path)?,
    };
    let path = settings.config.clone().unwrap_or_else(|| config.config_store_path.clone());
    for warning in config.read(&text).map_err(|error| refused(&path, error.key(), &error))? {
        tracing::warn!("{warning}");
    }
    if let Some(file) = &settings.config {
        config.config_store_path.clone_from(file);
    }
    config.listen_port = settings.controller_port;
    let budget = beside.map_or_else(|| Budget::new(0), |name_server| name_server.budget().clone());
    Controller::start(config, security, budget)
        .map_err(|error| Error::new("the controller does not start", error))
}

fn broker_config(settings: &Settings, text: &[u8]) -> Result<broker::Config, Error> {
    // Only a file of RocketMQ, which may come with RocketMQ's clients, leaves open what RocketMQ does.
    let strict: &[u8] = if settings.config.is_none() { b"authorizationStrict=true\n" } else { b"" };
    let (mut config, notes) = broker::Config::from_properties(&[strict, text].concat()).map_err(|error| {
        let own = || broker::Config::file_of(settings.home());
        refused(&settings.config.clone().unwrap_or_else(own), error.key(), &error)
    })?;
    for note in notes {
        if note.is_warning() {
            tracing::warn!("{note}");
        } else {
            tracing::info!("{note}");
        }
    }
    if settings.data.is_some() || !config.has_store_path() {
        config.set_store_root(settings.home());
        config.set_source("storePathRootDir", broker::Source::CommandLine);
    }
    if let Some(path) = &settings.config {
        config.set_file(path);
    }
    if let Some(port) = settings.broker_port {
        config.listen_port = port;
        config.set_source("listenPort", broker::Source::CommandLine);
    }
    Ok(config)
}

/// The name servers of `NAMESRV_ADDR`.
pub fn of_environment() -> Result<Option<String>, Error> {
    let given = std::env::var("NAMESRV_ADDR").ok().map(|text| wire::settings::name_servers(&text));
    given.transpose().map_err(|error| Error::new("NAMESRV_ADDR", error))
}

/// A broker, the proxy that was started with it, and their name servers.
struct StartedBroker {
    broker: RunningBroker,
    proxy: Option<proxy_role::Running>,
    name_servers: String,
}

async fn start_broker(
    settings: &Settings,
    mut config: broker::Config,
    security: Security,
    name_server: Option<&NameServer>,
) -> Result<StartedBroker, Error> {
    let local = name_server.map(|server| reached_at(server.local_addr()).to_string());
    config.own_name_server.clone_from(&local);
    let given = settings.name_servers.clone().or_else(|| config.namesrv_addr.clone());
    // It stands for what is not said at all; with a name server of its own the process says enough.
    if settings.name_servers.is_some() {
        config.set_source("namesrvAddr", broker::Source::CommandLine);
    }
    let given = match given {
        None if name_server.is_none() => {
            let found = of_environment()?;
            if found.is_some() {
                config.set_source("namesrvAddr", broker::Source::Environment);
            }
            found
        }
        given => given,
    };
    let mut name_servers: Vec<String> = local.into_iter().collect();
    name_servers.extend(given.iter().flat_map(|list| list.split(';')).map(|name| name.trim().to_owned()));
    name_servers.retain(|name| !name.is_empty());
    name_servers.dedup();
    // The one of this process has only started.
    namesake::refuse(&config, &name_servers[usize::from(name_server.is_some())..], &security).await?;
    config.namesrv_addr = Some(name_servers.join(";"));
    let proxy_config = proxy_role::config_beside(settings, config.replication.role)?;
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let security = Security { proxies: config.trusted_proxies.clone(), ..security };
    let budget = match name_server {
        Some(name_server) => name_server.budget().clone(),
        None => Budget::limited(config.connection_bytes_max, config.connection_limits),
    };
    config.replication.tls = ReplicationTls::new(&security, &budget);
    let reach = client::Config {
        security: security.clone(),
        credentials: config.own_credentials(),
        ..client::Config::new(&name_servers.join(";"))
    };
    let workers = Workers::start_within("broker", threads, Limits::default(), security, budget)
        .map_err(|error| Error::new("the broker's threads cannot be started", error))?;
    let bind = config.bind_address;
    let broker = match RunningBroker::start(config, workers.clone()) {
        Ok(broker) => broker,
        Err(error) => {
            workers.shutdown();
            return Err(Error::new("the broker does not start", error));
        }
    };
    let start = |config| proxy_role::start_beside(settings, config, (&broker, bind, reach.clone()), &workers);
    match proxy_config.map(start).transpose() {
        Ok(proxy) => {
            Ok(StartedBroker { broker, proxy: proxy.flatten(), name_servers: name_servers.join(";") })
        }
        Err(error) => {
            // Nothing was stored; the error that is told is that of gRPC.
            let _ = broker.stop();
            Err(error)
        }
    }
}
