//! The role `console`: where it listens, which cluster it shows.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use admin::Cluster;
use clap::Args;
use console::RunningConsole;
use net::tls::{KeyPair, Security, ServerTls, TlsError, TlsMode, TlsSettings};

use crate::roles::Error;

/// Port of the console: the port of RocketMQ's dashboard.
const PORT: u16 = 8082;
/// Default name server: `vostok serve` on the same machine.
const LOCAL: &str = "127.0.0.1:9876";

/// Arguments of the command line about the console.
#[derive(Args, Clone, Debug, Default)]
pub struct Settings {
    /// Address of the console; else 127.0.0.1:8082. If another program uses that port, there is no console, and the log
    /// says so. Other machines are served only with logins (vostok console user).
    #[arg(long = "console", value_name = "IP:PORT")]
    pub address: Option<SocketAddr>,
    /// Names under which browsers may ask the console, beside addresses and localhost.
    #[arg(long = "console-name", value_delimiter = ',', value_name = "NAME,...")]
    pub names: Vec<String>,
    /// File with accessKey and secretKey, with which the console signs its requests; else conf/tools.yml of ROCKETMQ_HOME.
    #[arg(long = "console-keys", value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Directory below which runs of vostok lab lie (their --out); else lab in the data directory. The console shows their
    /// reports, and an administrator starts runs there.
    #[arg(long = "console-runs", value_name = "DIR")]
    pub runs: Option<PathBuf>,
    /// PEM file of the certificate chain with which the console serves HTTPS; a changed file is read again.
    #[arg(long = "console-cert", value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// PEM file of the certificate's private key.
    #[arg(long = "console-key", value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
}

impl Settings {
    /// The address on which the console listens.
    pub fn listens(&self) -> SocketAddr {
        self.address.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT))
    }

    /// Scheme of the console's address in a browser.
    pub fn scheme(&self) -> &'static str {
        if self.certificate.is_some() { "https" } else { "http" }
    }

    /// The arguments that give these settings to another process.
    pub fn arguments(&self) -> Vec<OsString> {
        let files = [
            ("--console-keys", &self.keys),
            ("--console-runs", &self.runs),
            ("--console-cert", &self.certificate),
            ("--console-key", &self.key),
        ];
        let names = (!self.names.is_empty()).then(|| ("--console-name", self.names.join(",").into()));
        let given = files.into_iter().filter_map(|(flag, file)| Some((flag, file.clone()?.into_os_string())));
        let all = std::iter::once(("--console", OsString::from(self.listens().to_string())));
        all.chain(names).chain(given).flat_map(|(flag, value)| [flag.into(), value]).collect()
    }

    /// TLS with browsers. It is separate from the TLS of the cluster, because a browser wants a certificate that it
    /// trusts.
    fn tls(&self) -> Result<Option<Arc<ServerTls>>, TlsError> {
        let (Some(certificate), Some(key)) = (self.certificate.clone(), self.key.clone()) else {
            return Ok(None);
        };
        let identity = KeyPair { certificate, key, password: None };
        let settings =
            TlsSettings { mode: TlsMode::Enforcing, server: Some(identity), ..TlsSettings::default() };
        Security::new(&TlsSettings { client_enabled: Some(false), ..settings })
            .map(|security| security.server)
    }
}

/// Starts the console. A damaged file of logins stops the start of a process that `is_alone`, with no other role. A taken port also
/// stops the start of a process whose console has an address of its own.
///
/// # Errors
/// The console cannot be served as the command line says.
pub fn start(
    settings: &Settings,
    home: PathBuf,
    (name_servers, security): (&str, Security),
    is_alone: bool,
) -> Result<Option<RunningConsole>, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new("the console does not start", error);
    let mut reach = client::Config::new(if name_servers.is_empty() { LOCAL } else { name_servers });
    reach.security = security;
    let cluster = Cluster::connect(reach, settings.keys.as_deref()).map_err(|error| failed(&error))?;
    let tls = settings.tls().map_err(|error| failed(&error))?;
    let listens = settings.listens();
    if settings.keys.is_some() && !home.join("console/users.json").exists() {
        tracing::warn!(
            "whoever reaches the console on this machine acts with the keys of --console-keys; make logins with: vostok console user NAME --data DIR"
        );
    }
    let names = settings.names.clone();
    let runs = settings.runs.clone().unwrap_or_else(|| home.join("lab"));
    let config = console::Config { listens, names, home: home.join("console"), runs, tls };
    match RunningConsole::start(config, cluster) {
        Ok(running) => Ok(Some(running)),
        Err(error) if error.is_damage() && !is_alone => {
            tracing::error!("there is NO CONSOLE, the other roles serve: {error}");
            Ok(None)
        }
        Err(error) if error.is_port_taken() && !is_alone && settings.address.is_none() => {
            tracing::warn!("there is NO CONSOLE: {error}; choose another port with --console 127.0.0.1:PORT");
            Ok(None)
        }
        Err(error) => Err(failed(&error)),
    }
}
