//! Starting and stopping the console: its thread, its listener, conditions of the start.

use crate::app::{App, Config};
use crate::connections;
use crate::sampler;
use crate::users::{Users, random_hex};
use admin::Cluster;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Why the console does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use or not of this machine.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// Others could come in, and there is no login.
    #[error(
        "{0} can be reached from other machines, and there is no login. Make one with: vostok console user NAME --role admin --data {1}"
    )]
    NoLogin(SocketAddr, String),
    /// The logins cannot be read.
    #[error("{0}")]
    Users(io::Error),
    /// The system refuses something.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl StartError {
    /// Whether another program has the port.
    #[must_use]
    pub fn is_port_taken(&self) -> bool {
        matches!(self, Self::Listen { error, .. } if error.kind() == io::ErrorKind::AddrInUse)
    }

    /// Whether the cause is the file of logins, which does not affect further roles of the process.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Users(_))
    }
}

/// A running console.
pub struct RunningConsole {
    address: SocketAddr,
    scheme: &'static str,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl RunningConsole {
    /// Starts the console on a thread of its own.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(config: Config, cluster: Cluster) -> Result<Self, StartError> {
        let users = Users::read(&config.home).map_err(StartError::Users)?;
        let is_local = config.listens.ip().is_loopback();
        if users.is_empty() && !is_local {
            let home = config.home.parent().unwrap_or(&config.home).display().to_string();
            return Err(StartError::NoLogin(config.listens, home));
        }
        let failed = |error| StartError::Listen { address: config.listens, error };
        let listener = TcpListener::bind(config.listens).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        if !is_local && config.tls.is_none() {
            tracing::warn!(%address, "the console has no TLS: passwords and pages can be read on the way; start it with --console-cert and --console-key, or put a proxy with TLS before it");
        }
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let secret = random_hex(32)?;
        let app = Arc::new(App::new(cluster, config, users, secret.as_bytes()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = connections::serve(listener, app.clone()) => {}
                    () = sampler::sample_brokers(&app) => {}
                    () = sampler::sample_topics(&app) => {}
                    () = sampler::sample_health(&app) => {}
                    () = sampler::sample_lags(&app) => {}
                    () = sampler::sample_objects(&app) => {}
                    _ = stopped => {}
                }
            });
            app.lab.end();
            app.cluster.close();
        })?;
        Ok(Self { address, scheme, stop, thread })
    }

    /// Address and port on which browsers are served; the real port where any was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Scheme of the address for browsers: `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Stops the console and waits for its thread.
    pub fn stop(self) {
        // Fails only when the thread has ended.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}
