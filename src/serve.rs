//! `vostok serve`: starts roles, says where they are, stops them cleanly.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::roles::{self, Role, RunningRoles, Settings};
use crate::{cluster, console_role, logs, notify};

/// Arguments of `vostok serve`.
#[derive(Args)]
#[command(after_long_help = broker::settings_help())]
pub struct Serve {
    /// Roles to run in this process.
    #[arg(long, value_delimiter = ',', default_values_t = [Role::Namesrv, Role::Broker, Role::Proxy, Role::Console], value_name = "ROLE,...")]
    roles: Vec<Role>,
    /// Directory of all data: the store of a RocketMQ broker, or a new one.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Port of the name server.
    #[arg(long, value_name = "PORT")]
    namesrv_port: Option<u16>,
    /// Port of the broker; clients with vipChannelEnabled also use the port two below it.
    #[arg(long, value_name = "PORT")]
    broker_port: Option<u16>,
    /// Port of the controller when controllerDLegerPeers does not say it; else 9878.
    #[arg(long, value_name = "PORT")]
    controller_port: Option<u16>,
    /// Port of gRPC for 5.x clients; else that of --proxy-config, or 8081, which may be in use by another program: then
    /// gRPC is not served, and the log says so.
    #[arg(long, value_name = "PORT")]
    grpc_port: Option<u16>,
    /// Port for remoting clients of a RocketMQ proxy (there 8080), which serves gRPC too; else that of --proxy-config, or none.
    #[arg(long, value_name = "PORT")]
    proxy_port: Option<u16>,
    /// Settings of gRPC, a file like RocketMQ's rmq-proxy.json.
    #[arg(long, value_name = "FILE")]
    proxy_config: Option<PathBuf>,
    #[command(flatten)]
    console: console_role::Settings,
    /// Name servers the broker registers with, and whose brokers a proxy without a broker serves, beside the one of this process; else namesrvAddr of the file. A process
    /// without a name server then looks at the environment's NAMESRV_ADDR.
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT;...", value_parser = wire::settings::name_servers)]
    name_servers: Option<String>,
    /// A RocketMQ properties file (broker.conf, namesrv.conf or controller.conf).
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    log: logs::Settings,
    /// Start a whole cluster on this machine, each member a process of its own: a broker set of three with a
    /// controller, or two or four masters with a slave each. A further process serves gRPC and the console. The file of
    /// -c is for all brokers, and their ports are ten apart. The port of the controller is two above that of the name
    /// server unless it is given.
    #[arg(long, value_name = "KIND", conflicts_with_all = ["roles", "name_servers"])]
    cluster: Option<cluster::Kind>,
    /// Give each broker of --cluster a network link of its own that can be cut: a network namespace for each, which no other
    /// machine reaches. Needs root and the program ip.
    #[arg(long, requires = "cluster", conflicts_with = "open")]
    links: bool,
    /// Stop when the process that started this one ends, which has this id.
    #[arg(long, hide = true, value_name = "PID")]
    stop_with_parent: Option<u32>,
    /// Serve clients of other machines although there is neither a file (-c) nor users: every client that reaches the ports may do
    /// everything.
    #[arg(long)]
    open: bool,
}

/// Has the system send this process SIGTERM, so that the roles stop cleanly, when its parent ends.
fn stop_with_parent(parent: u32) -> Result<(), roles::Error> {
    let what = "the end of the parent process cannot be noticed";
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|error| roles::Error::new(what, error))?;
    // A parent that ended before sends no signal.
    if rustix::process::getppid().is_none_or(|pid| pid.as_raw_nonzero().get().cast_unsigned() != parent) {
        return Err(roles::Error::new(what, format!("process {parent} has ended already")));
    }
    Ok(())
}

/// Starts the roles and waits for SIGTERM or SIGINT.
pub fn run(serve: Serve) -> Result<(), roles::Error> {
    // The process that starts a cluster has no roles itself.
    serve.log.begin(if serve.cluster.is_some() { &[] } else { &serve.roles })?;
    allow_open_files();
    if let Some(parent) = serve.stop_with_parent {
        stop_with_parent(parent)?;
    }
    if let Some(kind) = serve.cluster {
        return cluster::run(&cluster::Settings {
            kind,
            data: serve.data,
            namesrv_port: serve.namesrv_port,
            controller_port: serve.controller_port,
            broker_port: serve.broker_port,
            config: serve.config,
            open: serve.open,
            links: serve.links,
            front: cluster::FrontSettings {
                grpc_port: serve.grpc_port,
                proxy_port: serve.proxy_port,
                proxy_config: serve.proxy_config,
                console: serve.console,
            },
            log: serve.log,
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| roles::Error::new("the signal handler cannot be started", error))?;
    runtime.block_on(async {
        // Before the roles, so that a signal during recovery is not lost.
        let stop =
            |kind| signal(kind).map_err(|error| roles::Error::new("signals cannot be received", error));
        let (mut terminate, mut interrupt) = (stop(SignalKind::terminate())?, stop(SignalKind::interrupt())?);
        let running = RunningRoles::start(&Settings {
            roles: serve.roles,
            data: serve.data,
            namesrv_port: serve.namesrv_port,
            broker_port: serve.broker_port,
            controller_port: serve.controller_port,
            grpc_port: serve.grpc_port,
            proxy_port: serve.proxy_port,
            proxy_config: serve.proxy_config,
            console: serve.console,
            name_servers: serve.name_servers,
            config: serve.config,
            open: serve.open,
        })
        .await?;
        // Nobody may be reading; the roles run all the same.
        let _ = writeln!(std::io::stdout(), "{}", running.greeting());
        notify::notify(notify::READY);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        notify::notify(notify::STOPPING);
        running.stop()
    })
}

/// Raises the soft limit of open files to the hard one, as a Java virtual machine does: a shell's 1024 are used up by
/// a thousand clients.
fn allow_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is; `ulimit -n` says which");
    }
}
