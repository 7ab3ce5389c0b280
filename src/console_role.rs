//! The role `console`: where it listens, which cluster it shows.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use admin::Cluster;
use clap::Args;
use console::RunningConsole;
use net::tls::Security;

use crate::roles::Error;

/// Port of the console, that of RocketMQ's dashboard.
const PORT: u16 = 8082;
/// Name server of a console that is told of none: that of `vostok serve` on the same machine.
const LOCAL: &str = "127.0.0.1:9876";

/// What the command line says about the console.
#[derive(Args, Clone, Debug, Default)]
pub struct Settings {
    /// Where the console listens; else 127.0.0.1:8082, which may be in use by another program: then there is no console, and
    /// the log says so. Other machines are served only with logins (vostok console user).
    #[arg(long = "console", value_name = "IP:PORT")]
    pub address: Option<SocketAddr>,
    /// Names under which browsers may ask the console, beside addresses and localhost.
    #[arg(long = "console-name", value_delimiter = ',', value_name = "NAME,...")]
    pub names: Vec<String>,
    /// File with accessKey and secretKey, with which the console signs its requests; else conf/tools.yml of ROCKETMQ_HOME.
    #[arg(long = "console-keys", value_name = "FILE")]
    pub keys: Option<PathBuf>,
}

/// Starts the console. A taken port stops the start only when `is_asked_for`, by an address or a process that does nothing
/// else.
///
/// # Errors
/// The console cannot be served as the command line says.
pub fn start(
    settings: &Settings,
    home: PathBuf,
    (name_servers, security): (&str, Security),
    is_asked_for: bool,
) -> Result<Option<RunningConsole>, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new("the console does not start", error);
    let mut reach = client::Config::new(if name_servers.is_empty() { LOCAL } else { name_servers });
    reach.security = security;
    let cluster = Cluster::connect(reach, settings.keys.as_deref()).map_err(|error| failed(&error))?;
    let listens = settings.address.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT));
    let config = console::Config { listens, names: settings.names.clone(), home: home.join("console") };
    match RunningConsole::start(config, cluster) {
        Ok(running) => Ok(Some(running)),
        Err(error) if error.is_port_taken() && !is_asked_for => {
            tracing::warn!("there is NO CONSOLE: {error}; choose another port with --console 127.0.0.1:PORT");
            Ok(None)
        }
        Err(error) => Err(failed(&error)),
    }
}
