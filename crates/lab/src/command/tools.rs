//! Flags of the tools that neither stand in for a script nor run a scenario.

use super::values::{AccessFlags, LANGUAGES, address, bytes, choice, name_servers};
use crate::agent::{self, AgentOptions};
use crate::archive::{Slo, run_directory};
use crate::compare::{self, CompareOptions, Cost};
use crate::echo::{self, EchoOptions};
use crate::export::{self, Files, ReportOptions};
use crate::generator::Access;
use crate::judge::Language;
use crate::plan::{self, Hours, PlanOptions, Rate, Size, Target};
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
    /// Name of this machine in reports; its host name when absent.
    #[arg(long)]
    pub name: Option<String>,
    /// Run load, too, for a lab that names this agent in --load-agents. Only for trusted networks.
    #[arg(long)]
    pub load: bool,
    /// Process id of the broker; found by its port when absent.
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,
    /// Garbage collection log (JVM unified logging) of a Java broker; when absent, the JVM is asked to write one.
    #[arg(long, value_name = "FILE")]
    pub gc_log: Option<PathBuf>,
    /// Measures the limits of this machine first, on the disk of this directory, for about ten seconds. Reports then
    /// compare a broker here with these limits, those of the disk only if its store is on the same disk. 256 MiB are
    /// written and freed again.
    #[arg(long, value_name = "DIR")]
    pub selftest: Option<PathBuf>,
}

impl AgentFlags {
    /// Serves until the process is killed.
    pub fn run(self) -> Result<(), Error> {
        let Self { listen, name, load, pid, gc_log, selftest } = self;
        agent::run(&listen, selftest.as_deref(), AgentOptions { name, load, pid, gc_log, roofline: None })
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

/// Flags of `vostok lab report`.
#[derive(Args, Debug, Clone)]
pub struct ReportFlags {
    /// Directory of a run, or a file in it such as run.json.
    #[arg(value_name = "RUN", value_parser = run_directory)]
    run: PathBuf,
    /// Language in which the page opens (it can be switched), and of the Markdown.
    #[arg(long, value_parser = choice(LANGUAGES), default_value = "en")]
    lang: Language,
    /// Limits that a safe rate must keep, e.g. `e2e.p99<50ms,errors=0` [default: those of the run].
    #[arg(long, value_name = "SLO")]
    slo: Option<Slo>,
    /// Write report.html; without any of the four, all are written.
    #[arg(long)]
    html: bool,
    /// Write report.md.
    #[arg(long)]
    md: bool,
    /// Write cells.csv.
    #[arg(long)]
    csv: bool,
    /// Write report.json.
    #[arg(long)]
    json: bool,
}

impl ReportFlags {
    /// Judges the run and writes its report.
    pub fn run(self) -> Result<(), Error> {
        let Self { run, lang, slo, html, md, csv, json } = self;
        let named = Files { html, md, csv, json };
        let files = if html || md || csv || json { named } else { Files::ALL };
        export::run(&ReportOptions { run, lang, slo, files })
    }
}

/// Flags of `vostok lab compare`.
#[derive(Args, Debug, Clone)]
pub struct CompareFlags {
    /// Directory of the run to compare with, or a file in it such as run.json.
    #[arg(value_name = "A", value_parser = run_directory)]
    first: PathBuf,
    /// Directory of the run that is compared.
    #[arg(value_name = "B", value_parser = run_directory)]
    second: PathBuf,
    /// Cost of one of the two systems, e.g. `A=6900cny/mo`; also per `h`, `day` or `y`.
    #[arg(long, value_name = "RUN=PRICE")]
    cost: Vec<Cost>,
    /// Compares the machines together with the servers, such as a cluster in a cloud with one of your own. Without it
    /// nothing is judged when the self-tests of the two runs differ.
    #[arg(long)]
    across_machines: bool,
    /// File of the page [default: compare.html beside B's report].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Language of the text, and in which the page opens.
    #[arg(long, value_parser = choice(LANGUAGES), default_value = "en")]
    lang: Language,
}

impl CompareFlags {
    /// Compares the runs.
    pub fn run(self) -> Result<(), Error> {
        let Self { first, second, cost, across_machines, out, lang } = self;
        compare::run(&CompareOptions { first, second, cost, across_machines, out, lang })
    }
}

/// Flags of `vostok lab plan`.
#[derive(Args, Debug, Clone)]
pub struct PlanFlags {
    /// Most messages per second, e.g. 50k/s.
    #[arg(long, value_name = "RATE")]
    peak: Rate,
    /// Bytes of a message's body, e.g. 500 or 2k.
    #[arg(long, value_name = "BYTES")]
    size: Size,
    /// Consumer groups that read everything.
    #[arg(long, default_value_t = 1)]
    groups: u32,
    /// Time for which messages are kept, e.g. 72h or 3d.
    #[arg(long, value_name = "TIME", default_value = "72h")]
    retain: Hours,
    /// Machines that may fail at once.
    #[arg(long, default_value_t = 1)]
    survive: u32,
    /// Share by which the peak grows before the plan is made anew.
    #[arg(long, default_value_t = 0.0)]
    growth: f64,
    /// Mean rate over the time that messages are kept [default: the peak].
    #[arg(long, value_name = "RATE")]
    mean: Option<Rate>,
    /// Speed of one master's network, megabits per second each direction.
    #[arg(long, value_name = "MEGABITS", default_value_t = 10_000.0)]
    nic: f64,
    /// Directory of the run whose safe rate is planned with.
    #[arg(long, value_name = "RUN", value_parser = run_directory)]
    run: Option<PathBuf>,
    /// Safe rate of one master, instead of a run's.
    #[arg(long, value_name = "RATE")]
    safe_tps: Option<Rate>,
    /// Directory of the files, which are written only with this flag. The directory plan in that of a run adds the plan to
    /// the run's report.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Language of the text, and in which the page opens.
    #[arg(long, value_parser = choice(LANGUAGES), default_value = "en")]
    lang: Language,
}

impl PlanFlags {
    /// Plans the cluster.
    pub fn run(self) -> Result<(), Error> {
        let Self { peak, size, groups, retain, survive, growth, mean, nic, run, safe_tps, out, lang } = self;
        let target = Target { peak, size, groups, retain, survive, growth, mean, nic };
        plan::run(&PlanOptions { target, run, safe_tps, out, lang })
    }
}
