//! `vostok serve`: starts roles, says where they are, stops them cleanly.

use std::io::Write;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::roles::{self, RunningRoles};
use crate::settings::Settings;
use crate::{cluster, logs, notify, words};

/// Arguments of `vostok serve`.
#[derive(Args)]
#[command(after_long_help = broker::settings_help())]
pub struct Serve {
    #[command(flatten)]
    settings: Settings,
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
    let Serve { settings, log, cluster, links, stop_with_parent: parent } = serve;
    log.begin(if cluster.is_some() { &[] } else { &settings.roles })?;
    allow_open_files();
    if let Some(parent) = parent {
        stop_with_parent(parent)?;
    }
    if let Some(kind) = cluster {
        return cluster::run(&cluster::Settings { kind, links, shared: &settings, log: &log });
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
        let running = RunningRoles::start(&settings).await?;
        // The output may have no reader; the roles run all the same.
        let _ = writeln!(std::io::stdout(), "{}", words::said(&running.greeting()));
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
