//! Flags of the tools that neither stand in for a script nor run a scenario.

use super::values::{AccessFlags, address, bytes, name_servers};
use crate::agent::{self, AgentOptions};
use crate::archive::run_directory;
use crate::echo::{self, EchoOptions};
use crate::generator::Access;
use crate::{Error, scenario, selftest};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `vostok lab clean`.
#[derive(Args, Debug, Clone)]
pub struct CleanFlags {
    /// Directory of a run, or a file in it such as run.json.
    #[arg(value_name = "RUN", value_parser = run_directory)]
    pub run: PathBuf,
    /// Name servers, separated by semicolons; those of the run when absent.
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT", value_parser = name_servers)]
    pub namesrv: Option<String>,
    /// Flags of access control.
    #[command(flatten)]
    pub access: AccessFlags,
}

impl CleanFlags {
    /// Removes what a run left on its cluster.
    pub fn run(self) -> Result<(), Error> {
        let credentials = self.access.access().as_ref().map(Access::credentials);
        scenario::clean(&self.run, self.namesrv, credentials)
    }
}

/// Flags of `vostok lab selftest`.
#[derive(Args, Debug, Clone)]
pub struct SelftestFlags {
    /// Directory on the disk to measure.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Bytes that are written there and removed again.
    #[arg(long, value_name = "BYTES", default_value = "1g", value_parser = bytes)]
    pub size: u64,
    /// Seconds for each part.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub seconds: f64,
    /// Prints the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

impl SelftestFlags {
    /// Measures this machine and prints its limits.
    pub fn run(self) -> Result<(), Error> {
        let roofline = selftest::measure(&self.dir, self.size, Duration::from_secs_f64(self.seconds))?;
        selftest::print(&roofline, self.json);
        Ok(())
    }
}

/// Flags of `vostok lab agent`.
#[derive(Args, Debug, Clone)]
pub struct AgentFlags {
    /// Address to listen on. Every client that connects sees this machine's figures and, with --load, can make it send messages.
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:9870", value_parser = address)]
    pub listen: String,
    /// Machine to observe, and load.
    #[command(flatten)]
    pub options: AgentOptions,
    /// Measures the limits of this machine first, on the disk of this directory, for about ten seconds. Reports then
    /// compare a broker here with these limits, those of the disk only if its store is on the same disk. 256 MiB are
    /// written and freed again.
    #[arg(long, value_name = "DIR")]
    pub selftest: Option<PathBuf>,
}

impl AgentFlags {
    /// Serves until the process is killed.
    pub fn run(self) -> Result<(), Error> {
        agent::run(&self.listen, self.selftest.as_deref(), self.options)
    }
}

/// Flags of `vostok lab echo`.
#[derive(Args, Debug, Clone)]
pub struct EchoFlags {
    /// Port to listen on, for name server and broker requests alike.
    #[arg(long, default_value_t = 9876)]
    pub port: u16,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: std::net::IpAddr,
    /// Logging echo: appends requests to files in this directory before answering.
    #[arg(long, value_name = "DIR")]
    pub log: Option<PathBuf>,
    /// Number of queues that every topic is reported to have.
    #[arg(long, default_value_t = 8)]
    pub queues: u32,
    /// Port that answers sends over gRPC, decoded and without a log.
    #[arg(long, value_name = "PORT")]
    pub grpc_port: Option<u16>,
}

impl EchoFlags {
    /// Serves until the process is killed.
    pub fn run(self) -> Result<(), Error> {
        let Self { port, host, log, queues, grpc_port } = self;
        echo::run(&EchoOptions { address: SocketAddr::new(host, port), log, queues, grpc_port })
    }
}
