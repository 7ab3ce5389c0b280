//! The role `proxy`: beside the broker of this process, or alone before the brokers of a cluster.

use std::net::IpAddr;
use std::sync::Arc;

use broker::RunningBroker;
use net::tls::Security;
use net::{Budget, Limits, Workers};
use proxy::{Brokers, RunningProxy};

use crate::roles::{Error, of_environment, unreadable};
use crate::settings::{Role, Settings};

/// A proxy, with the threads it has for itself.
pub struct Running {
    pub proxy: RunningProxy,
    /// `None` on the threads of a broker.
    workers: Option<Workers>,
}

impl Running {
    /// Stops the proxy, and its threads.
    pub fn stop(self) {
        self.proxy.stop();
        if let Some(workers) = self.workers {
            workers.shutdown();
        }
    }

    /// Lines that are printed once the proxy serves.
    pub fn greeting(&self) -> Vec<String> {
        let remoting = self.proxy.remoting_address();
        let mut lines = vec![format!("gRPC for 5.x clients is at {}", self.proxy.address())];
        lines.extend(remoting.map(|address| format!("the proxy for remoting clients is at {address}")));
        lines
    }
}

/// Starts a proxy without a broker, in front of the brokers in the name servers `given`. The proxy listens on `bind`.
///
/// # Errors
/// Without a name server, with settings that a proxy without a broker cannot keep, and when a port cannot be bound.
pub fn start_alone(
    settings: &Settings,
    given: Option<&str>,
    (security, budget): (Security, Arc<Budget>),
    bind: IpAddr,
) -> Result<Running, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new("the proxy does not start", error);
    let config = config(settings)?;
    if config.authenticates && config.credentials.is_empty() {
        return Err(failed(
            &"authenticationEnabled needs innerClientAuthenticationCredentials, the keys of a super user of the brokers, with which their users are read",
        ));
    }
    let own = wire::settings::name_servers(&config.name_servers)
        .map_err(|error| failed(&format!("namesrvAddr: {error}")))?;
    let own = Some(own.as_str()).filter(|own| !own.is_empty());
    let named = given.or(settings.name_servers.as_deref()).or(own);
    let environment = if named.is_none() { of_environment()? } else { None };
    let name_servers = named.or(environment.as_deref());
    let mut reach = client::Config::new(name_servers.unwrap_or_default());
    if reach.name_servers.is_empty() {
        return Err(failed(&"expected the addresses of the name servers (-n), found none"));
    }
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    reach.workers = threads;
    reach.security = security.clone();
    reach.credentials = config.credentials().map_err(|error| failed(&error))?;
    let brokers = Brokers::of_cluster(reach, &config).map_err(|error| failed(&error))?;
    let workers = Workers::start_within("proxy", threads, Limits::default(), security, budget);
    let workers = workers.map_err(|error| failed(&error))?;
    match RunningProxy::start(config, brokers, bind, &workers) {
        Ok(proxy) => Ok(Running { proxy, workers: Some(workers) }),
        Err(error) => {
            workers.shutdown();
            Err(failed(&error))
        }
    }
}

/// The settings of gRPC; `None` when this process does not serve it.
///
/// # Errors
/// A file that cannot be read or has values that cannot be; gRPC asked for on a slave.
pub fn config_beside(settings: &Settings, role: broker::Role) -> Result<Option<proxy::Config>, Error> {
    if !settings.wants_grpc() && !settings.has(Role::Proxy) {
        return Ok(None);
    }
    if role == broker::Role::Slave {
        if !settings.wants_grpc() {
            tracing::info!("gRPC is not served, because a slave stores nothing for its clients");
            return Ok(None);
        }
        let expected = std::io::Error::other("expected brokerRole=ASYNC_MASTER or SYNC_MASTER, found SLAVE");
        return Err(Error::new(
            "--grpc-port is for masters: a slave stores nothing for its clients",
            expected,
        ));
    }
    config(settings).map(Some)
}

/// The settings of gRPC.
fn config(settings: &Settings) -> Result<proxy::Config, Error> {
    let mut config = match &settings.proxy_config {
        Some(path) => {
            let text = std::fs::read(path).map_err(|error| unreadable(path, error))?;
            let read = proxy::Config::from_json(&text);
            let (config, notes) = read.map_err(|error| Error::new(path.display(), error))?;
            notes.iter().for_each(|note| tracing::warn!(file = %path.display(), "the setting {note}"));
            config
        }
        None => proxy::Config::default(),
    };
    config.port = settings.grpc_port.unwrap_or(config.port);
    config.remoting_port = settings.proxy_port.map_or(config.remoting_port, i32::from);
    Ok(config)
}

/// Starts gRPC. A taken port stops the start only when the command line asks for gRPC.
pub fn start_beside(
    settings: &Settings,
    config: proxy::Config,
    (broker, bind, reach): (&RunningBroker, IpAddr, client::Config),
    workers: &Workers,
) -> Result<Option<Running>, Error> {
    let brokers = Brokers::of_process(broker.api(), reach, &config)
        .map_err(|error| Error::new("gRPC does not start", error))?;
    match RunningProxy::start(config, brokers, bind, workers) {
        Ok(proxy) => Ok(Some(Running { proxy, workers: None })),
        Err(error) if error.is_port_taken() && !settings.wants_grpc() => {
            tracing::warn!(
                "gRPC for 5.x clients is NOT SERVED: {error}; choose another port with --grpc-port"
            );
            Ok(None)
        }
        Err(error) => Err(Error::new("gRPC does not start", error)),
    }
}
