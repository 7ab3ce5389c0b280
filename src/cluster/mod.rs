//! `vostok serve --cluster`: a whole cluster on one machine, for trying out and for the lab.
//!
//! Every member is a process of its own, so that one of them can be killed or paused as in production. This process starts
//! the members, prints their addresses, reports members that end, and stops all members. The process restarts no member:
//! the user who kills a member decides when the member comes back.

mod front;
mod members;
mod network;
mod process;
mod signals;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::Client;
use net::tls::Security;
use wire::body::parse_key_values;

use crate::roles::{Error, unreadable};
use crate::{address, logs, notify, security, settings, words};
use front::Front;
pub use members::Kind;
use members::{Member, Members, Ports};
use network::Network;
use process::Process;
use signals::{Event, Signals};

/// Time between two requests to the name server for the registered brokers.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two lines with the members that do not serve yet.
const WAITING_INTERVAL: Duration = Duration::from_secs(10);
/// Time that a member may take to stop before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at the members when no signal comes.
const WATCH_INTERVAL: Duration = Duration::from_secs(60);

/// Arguments of the command line about a local cluster.
pub struct Settings<'a> {
    /// Brokers of the cluster.
    pub kind: Kind,
    /// Whether each broker is behind a network link of its own.
    pub links: bool,
    /// Ports, files, gRPC and console. The file has the settings of all brokers.
    pub shared: &'a settings::Settings,
    /// The log of this process and of all members.
    pub log: &'a logs::Settings,
}

impl Settings<'_> {
    fn ports(&self) -> Ports {
        let namesrv = self.shared.namesrv_port.unwrap_or(9876);
        Ports {
            namesrv,
            controller: self.shared.controller_port.unwrap_or(namesrv.wrapping_add(2)),
            broker: self.shared.broker_port.unwrap_or(10911),
        }
    }
}

/// Starts a cluster, prints its members, and stops it on SIGTERM or SIGINT.
///
/// # Errors
/// A setting cannot be used, a member ends before all serve, or all members have ended. No member is left running.
pub fn run(settings: &Settings<'_>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new("the signal handler cannot be started", error))?;
    runtime.block_on(async {
        // Before the members, so that no signal is lost.
        let mut signals = Signals::receive()?;
        let home = settings.shared.home().to_path_buf();
        let front = Front::default();
        let mut cluster = Cluster { home, processes: Vec::new(), network: None, front };
        let outcome = cluster.run(settings, &mut signals).await;
        tracing::info!("stopping");
        cluster.stop(&mut signals).await;
        outcome
    })
}

/// The members that were started.
struct Cluster {
    home: PathBuf,
    processes: Vec<Process>,
    /// The links of the brokers; they are removed after all processes have ended.
    network: Option<Network>,
    /// gRPC and console.
    front: Front,
}

impl Cluster {
    async fn run(&mut self, settings: &Settings<'_>, signals: &mut Signals) -> Result<(), Error> {
        let text = match &settings.shared.config {
            Some(path) => std::fs::read(path).map_err(|error| unreadable(path, error))?,
            None => Vec::new(),
        };
        let (_, security) = security::take(&text)?;
        let mut given =
            parse_key_values(&text).map_err(|error| Error::new("the configuration file", error))?;
        if settings.shared.config.is_none() && !settings.shared.open && !settings.links {
            // The members are started with files, which would open them to other machines.
            given.insert("bindAddress".to_owned(), "127.0.0.1".to_owned());
        }
        let ports = settings.ports();
        if settings.links {
            self.network = Some(Network::make(&self.home, settings.kind.brokers().collect())?);
        }
        let subnet = self.network.as_ref().map(Network::subnet);
        let Members { mut stages, overruled } = members::members(settings.kind, ports, &given, subnet)?;
        for key in overruled {
            tracing::warn!(key, "the cluster decides this setting; that of the file has no effect");
        }
        let name_server = stages[0][0].address();
        self.front = match &self.network {
            Some(network) => Front::within_links(network.hub(), &name_server),
            None => Front::new(
                settings.shared,
                (&stages[0][0].host, &name_server),
                members::shared(&given).collect(),
            ),
        };
        stages.extend(self.front.member.clone().map(|member| vec![member]));
        let client = asking(&name_server, security)?;
        let started = self.start(stages, settings, (&client, &name_server), signals).await;
        client.shutdown();
        let Some(ids) = started? else { return Ok(()) };
        say(&self.table(&ids));
        self.front.lines.iter().for_each(|line| say(line));
        say("A broker that ended starts again with: vostok serve --roles broker --data DATA -c DATA.conf");
        if let Some(network) = &self.network {
            say(&format!("A broker is cut off with: ip -n {} link set MEMBER down (or up)", network.hub()));
        }
        if let Ok(address) = name_server.parse::<SocketAddr>() {
            say(&address::snippet(address));
        }
        notify::notify(notify::READY);
        self.watch(signals).await
    }

    /// Starts all members and waits until they serve; the brokers' addresses and ids by their ports, `None` when the process
    /// is to stop before.
    async fn start(
        &mut self,
        stages: Vec<Vec<Member>>,
        settings: &Settings<'_>,
        (client, name_server): (&Client, &str),
        signals: &mut Signals,
    ) -> Result<Option<Registered>, Error> {
        let mut registered = Registered::new();
        for stage in stages {
            for member in stage {
                let mut further = settings.log.of_member(&member.name);
                if self.front.is(&member) {
                    further.extend(self.front.arguments.iter().cloned());
                }
                let by = self.network.as_ref().map(|network| network.within(&member.name));
                let by = by.iter().flatten().cloned().collect::<Vec<_>>();
                self.processes.push(Process::start(member, &self.home, (&by, &further))?);
            }
            let mut since = Instant::now();
            loop {
                let known = registered_brokers(client, name_server).await;
                if let Some(text) = self.ended().first() {
                    if !self.give_up_front() {
                        return Err(Error::new("the cluster does not start", text));
                    }
                    self.front = Front::ended(text);
                }
                let missing = self.missing(known.as_ref());
                if missing.is_empty() {
                    registered = known.unwrap_or_default();
                    break;
                }
                if since.elapsed() > WAITING_INTERVAL {
                    since = Instant::now();
                    tracing::info!(members = missing.join(","), "waiting for members to serve");
                }
                if signals.next(LOOK_INTERVAL).await == Event::Stop {
                    return Ok(None);
                }
            }
        }
        Ok(Some(registered))
    }

    /// Goes on without gRPC and console if their process alone has ended and its ports were not asked for: another program may
    /// have taken a port meanwhile.
    fn give_up_front(&mut self) -> bool {
        let is_ended_front = |it: &Process| !it.is_running() && self.front.is(&it.member);
        let is_possible = !self.front.is_required
            && self.processes.iter().all(|process| process.is_running() || is_ended_front(process));
        if is_possible {
            self.processes.retain(Process::is_running);
        }
        is_possible
    }

    /// Names of the members that were started and do not serve yet. `known` are the brokers that the name server knows.
    fn missing(&self, known: Option<&Registered>) -> Vec<&str> {
        let serves = |member: &Member| {
            let is_served = !self.front.is(member) || self.front.serves();
            known.is_some_and(|known| !member.is_broker() || known.contains_key(&member.port)) && is_served
        };
        let members = self.processes.iter().map(|process| &process.member);
        members.filter(|member| !serves(member)).map(|member| member.name.as_str()).collect()
    }

    /// A sentence about each member that has ended since the last call.
    fn ended(&mut self) -> Vec<String> {
        let mut sentences = Vec::new();
        for process in &mut self.processes {
            if let Some(status) = process.ended() {
                let (name, id, log) = (&process.member.name, process.id(), process.log.display());
                sentences.push(match process.last_words() {
                    _ if status.success() => format!("{name} (process {id}) ended: {status}"),
                    last => format!("{name} (process {id}) ended: {status}; the last line of {log}: {last}"),
                });
            }
        }
        sentences
    }

    /// Table of the members: a heading and a line for each member.
    fn table(&self, brokers: &Registered) -> String {
        let mut lines = vec![line(["MEMBER", "ROLE", "ADDRESS", "PID", "DATA"])];
        for process in &self.processes {
            let member = &process.member;
            let (role, address) = match brokers.get(&member.port).filter(|_| member.is_broker()) {
                Some((0, address)) => ("master", address.clone()),
                Some((_, address)) => ("slave", address.clone()),
                None => (member.roles, member.address()),
            };
            let (id, data) = (process.id().to_string(), process.data.display().to_string());
            lines.push(line([&member.name, role, &address, &id, &data]));
        }
        lines.join("\n")
    }

    /// Prints the end of each member, until the process is to stop.
    async fn watch(&mut self, signals: &mut Signals) -> Result<(), Error> {
        while signals.next(WATCH_INTERVAL).await == Event::Look {
            self.ended().iter().for_each(|sentence| say(sentence));
            if !self.processes.iter().any(Process::is_running) {
                return Err(Error::new("the cluster", "all of its members have ended"));
            }
        }
        Ok(())
    }

    /// Stops the brokers, then the name server. A process that does not stop in time, or before another signal, is killed.
    async fn stop(&mut self, signals: &mut Signals) {
        self.network.iter().for_each(Network::mend);
        for is_broker in [true, false] {
            let since = Instant::now();
            let is_wanted = |process: &Process| process.member.is_broker() == is_broker;
            self.processes.iter().filter(|process| is_wanted(process)).for_each(Process::terminate);
            let mut is_patient = true;
            while self.processes.iter().any(|process| is_wanted(process) && process.is_running()) {
                let event = signals.next(LOOK_INTERVAL).await;
                if is_patient && (event == Event::Stop || since.elapsed() > STOP_PATIENCE) {
                    is_patient = false;
                    self.processes.iter_mut().filter(|process| is_wanted(process)).for_each(Process::kill);
                }
                let ends = self.ended();
                ends.iter().for_each(|sentence| tracing::info!("{sentence}"));
            }
        }
    }
}

/// The brokers that a name server knows: id and address by port.
type Registered = BTreeMap<u16, (i64, String)>;

/// Starts a client that asks the name server for registered brokers.
fn asking(name_server: &str, security: Security) -> Result<Client, Error> {
    let config = client::Config { security, ..client::Config::new(name_server) };
    Client::start(config).map_err(|error| Error::new("the name server cannot be asked", error))
}

/// The brokers that the name server knows; `None` while it does not answer.
async fn registered_brokers(client: &Client, name_server: &str) -> Option<Registered> {
    // The client would warn of a name server that is only starting.
    tokio::net::TcpStream::connect(name_server).await.ok()?;
    let sets = client.cluster_info().await.ok()?.broker_addr_table.into_values();
    let brokers = sets.flat_map(|set| set.broker_addrs);
    let by_port = |(id, address): (i64, String)| {
        let port = address.rsplit_once(':')?.1.parse().ok()?;
        Some((port, (id, address)))
    };
    Some(brokers.filter_map(by_port).collect())
}

fn line(fields: [&str; 5]) -> String {
    let [member, role, address, id, data] = fields;
    format!("{member:<12} {role:<18} {address:<22} {id:<8} {data}")
}

/// Prints a line at once. The output may be closed.
fn say(text: &str) {
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{}", words::said(text)).and_then(|()| output.flush());
}
