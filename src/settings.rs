//! Arguments of the command line that the roles and a local cluster share.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::console_role;

/// Role of a process.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Name server.
    Namesrv,
    /// Controller: elects the masters of broker sets.
    Controller,
    /// Broker.
    Broker,
    /// gRPC for 5.x clients, on the broker of this process or, without one, before the brokers that the name servers of -n know.
    Proxy,
    /// The web console, of the cluster of this process or that of -n.
    Console,
}

impl Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Namesrv => "namesrv",
            Self::Controller => "controller",
            Self::Broker => "broker",
            Self::Proxy => "proxy",
            Self::Console => "console",
        })
    }
}

/// Arguments of the command line.
#[derive(Args, Default)]
#[group(skip)]
pub struct Settings {
    /// Roles to run in this process.
    #[arg(long, value_delimiter = ',', default_values_t = [Role::Namesrv, Role::Broker, Role::Proxy, Role::Console], value_name = "ROLE,...")]
    pub roles: Vec<Role>,
    /// Directory of all data: the store of a RocketMQ broker, or a new one.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Port of the name server.
    #[arg(long, value_name = "PORT")]
    pub namesrv_port: Option<u16>,
    /// Port of the broker; clients with vipChannelEnabled also use the port two below it.
    #[arg(long, value_name = "PORT")]
    pub broker_port: Option<u16>,
    /// Port of the controller when controllerDLegerPeers does not say it; else 9878.
    #[arg(long, value_name = "PORT")]
    pub controller_port: Option<u16>,
    /// Port of gRPC for 5.x clients; else that of --proxy-config, or 8081, which may be in use by another program: then
    /// gRPC is not served, and the log says so.
    #[arg(long, value_name = "PORT")]
    pub grpc_port: Option<u16>,
    /// Port for remoting clients of a RocketMQ proxy (there 8080), which serves gRPC too; else that of --proxy-config, or none.
    #[arg(long, value_name = "PORT")]
    pub proxy_port: Option<u16>,
    /// Settings of gRPC, a file like RocketMQ's rmq-proxy.json.
    #[arg(long, value_name = "FILE")]
    pub proxy_config: Option<PathBuf>,
    #[command(flatten)]
    pub console: console_role::Settings,
    /// Name servers the broker registers with, and whose brokers a proxy without a broker serves, beside the one of this process; else namesrvAddr of the file. A process
    /// without a name server then looks at the environment's NAMESRV_ADDR.
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT;...", value_parser = wire::settings::name_servers)]
    pub name_servers: Option<String>,
    /// A RocketMQ properties file (broker.conf, namesrv.conf or controller.conf).
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve clients of other machines although there is neither a file (-c) nor users: every client that reaches the ports may do
    /// everything.
    #[arg(long)]
    pub open: bool,
}

impl Settings {
    /// Whether the process has a role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether the command line names a file of settings.
    pub fn has_file(&self) -> bool {
        self.config.is_some() || self.proxy_config.is_some()
    }

    /// Whether the command line asks for gRPC with a port or a file of the proxy (`--grpc-port`, `--proxy-port`,
    /// `--proxy-config`), not only with a role.
    pub fn wants_grpc(&self) -> bool {
        self.grpc_port.is_some() || self.proxy_port.is_some() || self.proxy_config.is_some()
    }

    /// Directory of all data.
    pub fn home(&self) -> &Path {
        self.data.as_deref().unwrap_or(Path::new("./data"))
    }
}
