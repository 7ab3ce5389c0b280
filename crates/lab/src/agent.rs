//! `vostok lab agent`: observes another machine for the lab, beside a broker of any kind, without privileges.
//!
//! The protocol is lines of JSON over TCP. The lab sends [`Asked`], which says what to observe. The agent answers once
//! with [`Hello`], which describes the machine and gives the time of its clock, and then sends one [`HostSecond`](crate::archive::HostSecond) per
//! second until the connection ends. The times of the rows are the agent's; from the hello the lab knows the difference
//! between the clocks and its error.
//!
//! With `--load` an agent also runs its share of a lab's load, on separate connections (`orders`).

mod fleet;
mod link;
mod orders;
#[cfg(test)]
mod tests;

pub(crate) use fleet::Fleet;
pub use link::Link;

use crate::Error;
use crate::archive::{HostFile, Roofline};
use crate::measure::{self, Collector, HostProbe, device_of, process_of, servers_on, store_of};
use crate::output::say;
use crate::{runtime, selftest};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Largest request in bytes.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Most connections that are served at the same time; further ones are closed at once.
const CONNECTIONS_MAX: usize = 64;

/// Version of the protocol between lab and agent. It is raised whenever [`Asked`] or an order gets a new field, because
/// an older agent would ignore that field.
pub(crate) const PROTOCOL: u32 = 2;

/// Request of the lab to an agent: the broker to observe, or load to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// Port on which the broker listens, by which its process is found.
    pub port: Option<u16>,
    /// Ports of the other servers under load on the same machine.
    pub beside: Vec<u16>,
    /// Store directory of the broker. Empty when it is unknown, so that no disk is observed; `None` to observe the disk
    /// of the agent's own directory.
    pub store: Option<PathBuf>,
    /// Whether the broker is Apache RocketMQ, whose garbage collection is observed.
    pub is_java: bool,
    /// Whether to run load instead of observing the machine; see [`orders`].
    pub load: bool,
    /// Whether the load comes over loopback, which then counts as network.
    pub loopback: bool,
}

impl Asked {
    /// Asks to observe no disk.
    pub fn without_disk(self) -> Self {
        Self { store: Some(PathBuf::new()), ..self }
    }
}

/// The first answer of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// [`PROTOCOL`] of the agent; 0 for an agent that is too old to send it.
    pub protocol: u32,
    /// Description of the agent's machine.
    pub host: HostFile,
    /// Time of the agent's clock, microseconds since 1970.
    pub now_us: u64,
    /// Microseconds from the request to this reading of the clock. They are spent on describing the machine and not on
    /// the network.
    pub took_us: u64,
    /// Whether the broker's process was found.
    pub has_process: bool,
}

/// Settings of an agent: the machine that it observes, and whether it runs load.
#[derive(Args, Clone, Debug, Default)]
pub struct AgentOptions {
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
    /// Figures of a self-test of this machine, and the device on which it ran.
    #[arg(skip)]
    pub roofline: Option<(String, Roofline)>,
}

/// Serves on an address until the process is killed, after a self-test of the disk of a directory if one was asked for.
///
/// # Errors
/// [`Error::System`] when the address cannot be listened on, [`Error::File`] when the directory of the self-test cannot
/// be written.
pub fn run(listen: &str, selftest: Option<&Path>, options: AgentOptions) -> Result<(), Error> {
    let measured = |directory: &Path| Ok::<_, Error>((device_of(directory), selftest::short(directory)?));
    let options = AgentOptions { roofline: selftest.map(measured).transpose()?, ..options };
    runtime::block_on(async {
        let failed = || Error::system(format!("listen on {listen}"));
        let listener = TcpListener::bind(listen).await.map_err(failed())?;
        // With port 0 the system chooses one.
        say!("agent on {}", listener.local_addr().map_err(failed())?);
        serve(listener, &options).await
    })
}

/// Serves the connections of a listener.
pub(crate) async fn serve(listener: TcpListener, options: &AgentOptions) -> Result<(), Error> {
    let mut watched = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.map_err(Error::system("accept connections"))?;
                if watched.len() < CONNECTIONS_MAX {
                    let options = options.clone();
                    watched.spawn(async move {
                        // Observation ends when its connection fails, so the error means nothing else.
                        let _ = watch(stream, &options).await;
                    });
                }
            }
            Some(_) = watched.join_next() => {}
        }
    }
}

async fn watch(stream: TcpStream, options: &AgentOptions) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(tokio::io::AsyncReadExt::take(reader, REQUEST_BYTES_MAX as u64)).lines();
    let Some(line) = lines.next_line().await? else { return Ok(()) };
    let began = Instant::now();
    let asked: Asked = serde_json::from_str(&line).map_err(std::io::Error::other)?;
    if asked.load {
        return if options.load { run_load(lines, writer).await } else { Ok(()) };
    }
    let pid = options.pid.or_else(|| process_of(asked.port?, asked.is_java));
    let store = store_of(asked.store.clone(), pid);
    let name = options.name.clone().unwrap_or_else(measure::hostname);
    let mut host = measure::host(&name, &store, pid);
    host.roofline = options.roofline.as_ref().map(|(device, roofline)| {
        if host.disk == *device && !store.as_os_str().is_empty() {
            return roofline.clone();
        }
        if let Some(store) = &asked.store {
            say!("{}: reports leave the disk's self-test out", other_disk(store));
        }
        without_disk(roofline)
    });
    let log = asked.is_java.then(|| Collector::of(pid, options.gc_log.as_deref())).flatten();
    // A broker whose process is not found would be counted among the other programs.
    let is_seen = pid.is_some() || asked.port.is_none();
    let servers = servers_on(&asked.beside, pid).filter(|_| is_seen);
    let probe = HostProbe::new(pid, &device_of(&store), asked.loopback).with_servers(servers);
    let mut probe = probe.with_collector(log);
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let hello = Hello { protocol: PROTOCOL, host, now_us: now_us(), took_us, has_process: pid.is_some() };
    writer.write_all(&line_of(&hello)).await?;
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = clock.tick() => {}
            // The lab sends nothing more, so anything that arrives is the end of the connection.
            _ = lines.next_line() => return Ok(()),
        }
        if let Some(second) = probe.sample(now_us() / 1000) {
            writer.write_all(&line_of(&second)).await?;
        }
    }
}

/// The reason that a self-test says nothing about the disk of a store.
fn other_disk(store: &Path) -> String {
    if store.as_os_str().is_empty() {
        return "nobody knows which disk the broker's store is on".to_owned();
    }
    format!("the self-test was of another disk than that of {}", store.display())
}

/// The figures of a self-test without those of the disk; 0 means not measured.
fn without_disk(roofline: &Roofline) -> Roofline {
    let Roofline { net_bytes, net_round_trips, lab_messages, cpu_crc_bytes, .. } = *roofline;
    Roofline { net_bytes, net_round_trips, lab_messages, cpu_crc_bytes, ..Roofline::default() }
}

/// Runs load for as long as the lab wants. The size limit of the request is lifted, because each order has its own.
async fn run_load(
    lines: tokio::io::Lines<BufReader<tokio::io::Take<OwnedReadHalf>>>,
    mut writer: OwnedWriteHalf,
) -> std::io::Result<()> {
    let mut reader = lines.into_inner();
    reader.get_mut().set_limit(u64::MAX);
    writer.write_all(&line_of(&Hello { protocol: PROTOCOL, now_us: now_us(), ..Hello::default() })).await?;
    orders::obey(&mut reader, &mut writer).await
}

fn line_of(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("texts and numbers become JSON");
    line.push(b'\n');
    line
}

/// Microseconds since 1970.
fn now_us() -> u64 {
    runtime::since_epoch().as_micros() as u64
}
