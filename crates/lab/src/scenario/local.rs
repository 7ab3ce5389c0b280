//! A cluster of this program's own on this machine, as `vostok serve --cluster` starts it. Its members are processes that
//! can be killed, paused and started again, and its brokers may be behind network links that can be cut.

use super::design::{RunOptions, run_directory};
use crate::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// First word of the last line that the cluster prints once all of its members serve.
const SERVES: &str = "Clients:";

/// Text that the cluster prints before the name of the network namespace in which its links can be cut.
const LINKS: &str = "A broker is cut off with: ip -n ";

/// Attempts to find free ports.
const ATTEMPTS: u32 = 200;

/// Smallest port of a name server. The other members have higher ports.
const PORTS_FROM: u16 = 12_000;
/// Number of ports from [`PORTS_FROM`] on that a name server may have.
const PORTS_COUNT: u16 = 18_000;

/// Arguments of `vostok serve --cluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Which brokers there are: `1m2s` or `2m2s`.
    pub kind: String,
    /// File with the settings of all brokers.
    pub config: Option<PathBuf>,
    /// Settings of all brokers in addition to the file.
    pub settings: BTreeMap<String, String>,
    /// Whether each broker is behind a network link that can be cut.
    pub links: bool,
}

impl LocalOptions {
    /// The settings of all brokers as a file. Of several lines for one setting the last one counts. Only this machine is served
    /// unless the given file says otherwise, because requests need no user.
    fn text(&self) -> Result<String, Error> {
        // Brokers behind links are served to this machine only, and have an address each.
        let mut text = if self.links { String::new() } else { "bindAddress=127.0.0.1\n".to_owned() };
        if let Some(path) = &self.config {
            let given = std::fs::read_to_string(path);
            text += &given.map_err(|source| Error::File { path: path.clone(), source })?;
        }
        for (key, value) in &self.settings {
            text += &format!("\n{key}={value}");
        }
        Ok(text + "\n")
    }
}

/// A running cluster. Everything of it is stopped when this value is dropped.
#[derive(Debug)]
pub struct LocalCluster {
    program: PathBuf,
    home: PathBuf,
    ports: Ports,
    parent: Child,
    members: Vec<Member>,
    /// Process id of the name server, and where members and clients reach it.
    namesrv: (i32, String),
    /// Name of the network namespace with the links of the brokers; `None` when they have none.
    links: Option<String>,
}

#[derive(Debug)]
struct Member {
    name: String,
    address: String,
    id: i32,
    /// Whether the broker was a master when the cluster had started.
    was_master: bool,
    /// The process when this program started it again; the others belong to the cluster's own process.
    again: Option<Child>,
    is_paused: bool,
}

/// Ports from which the ports of the members are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    namesrv: u16,
    controller: u16,
    broker: u16,
}

impl LocalCluster {
    /// Starts the cluster of a run, in the run's directory, and points the run at it.
    ///
    /// # Errors
    /// Errors of [`Self::start`].
    pub fn of_run(options: &mut RunOptions, scenario: &str, local: &LocalOptions) -> Result<Self, Error> {
        let root = options.out.get_or_insert_with(|| run_directory(scenario));
        let cluster = Self::start(&root.join("cluster"), local)?;
        options.load.namesrv = cluster.namesrv();
        options.servers = cluster.hidden_servers();
        Ok(cluster)
    }

    /// Starts a cluster with its data in `home`, and waits until all members serve. A cluster whose data is there already
    /// gets the ports that it had.
    ///
    /// # Errors
    /// [`Error::File`] when the directory cannot be used, [`Error::Broken`] when the cluster does not start.
    pub fn start(home: &Path, options: &LocalOptions) -> Result<Self, Error> {
        let at = |path: PathBuf| |source| Error::File { path, source };
        std::fs::create_dir_all(home).map_err(at(home.to_owned()))?;
        let known = home.join("ports");
        let ports = match std::fs::read_to_string(&known).ok().and_then(|text| Ports::read(&text)) {
            Some(ports) => ports,
            None => Ports::free(brokers(&options.kind)).ok_or_else(|| broken("no free ports were found"))?,
        };
        std::fs::write(&known, ports.text()).map_err(at(known))?;
        let program = std::env::current_exe().map_err(Error::system("find this program"))?;
        let errors = home.join("errors.log");
        let log = File::options().create(true).append(true).open(&errors).map_err(at(errors.clone()))?;
        let mut command = Command::new(&program);
        command.args([
            "serve",
            "--stop-with-parent",
            &std::process::id().to_string(),
            "--cluster",
            &options.kind,
        ]);
        // The lines of the cluster are read below.
        command.args(["--lang", "en", "--data"]).arg(home).args(options.links.then_some("--links"));
        for (flag, port) in [
            ("--namesrv-port", ports.namesrv),
            ("--controller-port", ports.controller),
            ("--broker-port", ports.broker),
        ] {
            command.arg(flag).arg(port.to_string());
        }
        let given = home.join("given.conf");
        std::fs::write(&given, options.text()?).map_err(at(given.clone()))?;
        command.arg("-c").arg(&given);
        // An interrupt of the terminal reaches the lab alone, which stops the cluster when it has put everything back.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let parent = command.spawn().map_err(Error::system("start a cluster"))?;
        let (members, namesrv) = (Vec::new(), (0, format!("127.0.0.1:{}", ports.namesrv)));
        let mut cluster =
            Self { program, home: home.to_owned(), ports, parent, members, namesrv, links: None };
        cluster.read_members()?;
        Ok(cluster)
    }

    /// Reads the table of members, which the cluster prints when all of them serve.
    fn read_members(&mut self) -> Result<(), Error> {
        let output = self.parent.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines());
        for line in output.map_while(Result::ok) {
            self.members.extend(Member::read(&line));
            self.namesrv = name_server(&line).unwrap_or_else(|| self.namesrv.clone());
            self.links = links(&line).or_else(|| self.links.take());
            if line.starts_with(SERVES) {
                return Ok(());
            }
        }
        let log = self.home.join("errors.log");
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().last().unwrap_or("it says nothing").to_owned();
        Err(broken(&format!("the cluster does not start, see {}: {last}", log.display())))
    }

    /// Address of the name server.
    pub fn namesrv(&self) -> String {
        self.namesrv.1.clone()
    }

    /// Address of the controller.
    pub fn controller(&self) -> String {
        let host = self.namesrv.1.rsplit_once(':').map_or("127.0.0.1", |(host, _)| host);
        format!("{host}:{}", self.ports.controller)
    }

    /// Process ids of the servers, beginning with a master, where they cannot be found by the ports of this machine, because
    /// the servers are in other network namespaces.
    fn hidden_servers(&self) -> Vec<i32> {
        if self.links.is_none() {
            return Vec::new();
        }
        let mut brokers: Vec<&Member> = self.members.iter().collect();
        brokers.sort_by_key(|member| !member.was_master);
        brokers.into_iter().map(|member| member.id).chain([self.namesrv.0]).collect()
    }

    /// Kills the broker at an address with SIGKILL.
    ///
    /// # Errors
    /// [`Error::Broken`] when there is no such broker, [`Error::System`] when it cannot be killed.
    pub fn kill(&mut self, address: &str) -> Result<(), Error> {
        let member = self.member(address)?;
        member.signal(Signal::KILL)?;
        if let Some(mut child) = member.again.take() {
            // The child was killed, so this does not wait for long.
            let _ = child.wait();
        }
        Ok(())
    }

    /// Stops the broker at an address with SIGSTOP.
    ///
    /// # Errors
    /// Errors of [`Self::kill`].
    pub fn pause(&mut self, address: &str) -> Result<(), Error> {
        let member = self.member(address)?;
        member.is_paused = true;
        member.signal(Signal::STOP)
    }

    /// Lets a paused broker go on.
    ///
    /// # Errors
    /// Errors of [`Self::kill`].
    pub fn go_on(&mut self, address: &str) -> Result<(), Error> {
        let member = self.member(address)?;
        member.is_paused = false;
        member.signal(Signal::CONT)
    }

    /// Takes the network link of the broker at an address down: what is sent to it or by it is lost from now on, and no
    /// connection is closed.
    ///
    /// # Errors
    /// [`Error::Broken`] when there is no such broker, or the cluster has no links, or the link cannot be taken down.
    pub fn cut(&mut self, address: &str) -> Result<(), Error> {
        self.set_link(address, "down")
    }

    /// Takes the network link of a broker up again.
    ///
    /// # Errors
    /// Errors of [`Self::cut`].
    pub fn join(&mut self, address: &str) -> Result<(), Error> {
        self.set_link(address, "up")
    }

    fn set_link(&mut self, address: &str, state: &str) -> Result<(), Error> {
        let links = self.links.clone().ok_or_else(|| broken("the brokers of the cluster have no links"))?;
        let name = &self.member(address)?.name;
        ip(&["-n", &links, "link", "set", name, state]).map_err(|why| broken(&why))
    }

    /// Starts a killed broker again as a child of this process, with the data and the settings file that it had.
    ///
    /// # Errors
    /// Errors of [`Self::kill`].
    pub fn restart(&mut self, address: &str) -> Result<(), Error> {
        let (program, home) = (self.program.clone(), self.home.clone());
        let member = self.member(address)?;
        let log_path = home.join(format!("{}.log", member.name));
        let log = File::options().create(true).append(true).open(&log_path);
        let log = log.map_err(|source| Error::File { path: log_path, source })?;
        let errors = log.try_clone().map_err(Error::system("start a broker again"))?;
        let child = Command::new(program)
            .args([
                "serve",
                "--roles",
                "broker",
                "--stop-with-parent",
                &std::process::id().to_string(),
                "--data",
            ])
            .arg(home.join(&member.name))
            .arg("-c")
            .arg(home.join(format!("{}.conf", member.name)))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(Error::system("start a broker again"))?;
        member.id = child.id().cast_signed();
        member.again = Some(child);
        Ok(())
    }

    fn member(&mut self, address: &str) -> Result<&mut Member, Error> {
        let found = self.members.iter_mut().find(|member| member.address == address);
        found.ok_or_else(|| broken(&format!("no broker of the cluster is at {address}")))
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        for member in self.members.iter().filter(|member| member.is_paused) {
            // A paused process would not see that it is to stop.
            let _ = member.signal(Signal::CONT);
        }
        for child in self.members.iter_mut().filter_map(|member| member.again.as_mut()) {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            let _ = child.wait();
        }
        let _ = kill_process(Pid::from_child(&self.parent), Signal::TERM);
        let _ = self.parent.wait();
    }
}

impl Member {
    /// Reads a line of the table: name, role, address, process id and data directory. `None` for other lines, and for
    /// members that are no brokers.
    fn read(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, role @ ("master" | "slave"), address, id, ..] = fields[..] else { return None };
        let (name, address, was_master) = (name.to_owned(), address.to_owned(), role == "master");
        Some(Self { name, address, id: id.parse().ok()?, was_master, again: None, is_paused: false })
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = Pid::from_raw(self.id).ok_or_else(|| broken("a process without a number"))?;
        kill_process(pid, signal)
            .map_err(|error| Error::system(format!("signal {}", self.name))(error.into()))
    }
}

impl Ports {
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { namesrv: next()?, controller: next()?, broker: next()? })
    }

    fn text(&self) -> String {
        format!("{} {} {}\n", self.namesrv, self.controller, self.broker)
    }

    /// Unused ports for this many brokers. The ports are below the range that the system gives to connections, because
    /// such a connection could take the port of a broker that is away.
    fn free(brokers: u16) -> Option<Self> {
        (0..ATTEMPTS).find_map(|attempt| {
            let place =
                std::process::id().wrapping_mul(37).wrapping_add(attempt * 101) % u32::from(PORTS_COUNT);
            let namesrv = PORTS_FROM + u16::try_from(place).ok()?;
            let ports = Self { namesrv, controller: namesrv + 1, broker: namesrv + 12 };
            ports
                .all(brokers)
                .all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
                .then_some(ports)
        })
    }

    /// The ports of all members. A broker uses its own, the one two below, the one above, and the third above.
    fn all(self, brokers: u16) -> impl Iterator<Item = u16> {
        let of_brokers = (0..brokers)
            .map(move |number| self.broker + 10 * number)
            .flat_map(|port| [port - 2, port, port + 1, port + 3]);
        [self.namesrv, self.controller].into_iter().chain(of_brokers)
    }
}

/// Reads process id and address of the name server from a line of the table; `None` for other lines.
fn name_server(line: &str) -> Option<(i32, String)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let ["namesrv", _, address, id, ..] = fields[..] else { return None };
    Some((id.parse().ok()?, address.to_owned()))
}

/// Reads the name of the namespace with the links; `None` for other lines.
fn links(line: &str) -> Option<String> {
    line.strip_prefix(LINKS)?.split_whitespace().next().map(str::to_owned)
}

/// Whether this machine can give brokers links of their own. The attempt leaves no traces.
///
/// # Errors
/// The reason why the machine cannot.
pub(super) fn can_link() -> Result<(), String> {
    let name = format!("vostok-lab-{}", std::process::id());
    ip(&["netns", "add", &name])?;
    let bridge = ip(&["-n", &name, "link", "add", "bridge", "type", "bridge"]);
    let made =
        bridge.and_then(|()| ip(&["-n", &name, "link", "add", "one", "type", "veth", "peer", "other"]));
    made.and(ip(&["netns", "del", &name]))
}

/// Calls the program `ip` with these arguments. The error is a sentence without a full stop, so
/// that callers can add to it.
fn ip(words: &[&str]) -> Result<(), String> {
    let what = words.join(" ");
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|error| format!("the program ip cannot be started ({error})"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", ");
    if output.status.success() { Ok(()) } else { Err(format!("`ip {what}` failed ({said})")) }
}

fn brokers(kind: &str) -> u16 {
    if kind == "1m2s" { 3 } else { 4 }
}

fn broken(why: &str) -> Error {
    Error::Broken(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_what_the_cluster_prints() {
        let read = |line: &str| Member::read(line).map(|member| (member.name, member.address, member.id));
        let line = "broker-a-1   slave              127.0.0.1:10921        4711     ./my data/broker-a-1";
        assert_eq!(read(line), Some(("broker-a-1".to_owned(), "127.0.0.1:10921".to_owned(), 4711)));
        assert_eq!((name_server(line), links(line)), (None, None));
        for other in [
            "MEMBER       ROLE               ADDRESS                PID      DATA",
            "namesrv      namesrv,controller 127.0.0.1:9876         4700     ./data/namesrv",
            "broker-a-0 (process 4711) ended: signal: 9 (SIGKILL)",
            "A broker is cut off with: ip -n vostok-4711 link set MEMBER down (or up)",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        let line = "namesrv      namesrv,controller 198.18.7.1:9876        4700     ./data/namesrv";
        assert_eq!(name_server(line), Some((4700, "198.18.7.1:9876".to_owned())));
        let line = "A broker is cut off with: ip -n vostok-4711 link set MEMBER down (or up)";
        assert_eq!(links(line).as_deref(), Some("vostok-4711"));
    }

    #[test]
    fn settings_of_a_run_come_after_those_of_the_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("given");
        std::fs::write(&path, "brokerRole=ASYNC_MASTER").unwrap();
        let settings = [("brokerRole".to_owned(), "SYNC_MASTER".to_owned())].into();
        let options = LocalOptions { kind: "2m2s".to_owned(), config: Some(path), settings, links: false };
        let text = "bindAddress=127.0.0.1\nbrokerRole=ASYNC_MASTER\nbrokerRole=SYNC_MASTER\n";
        assert_eq!(options.text().unwrap(), text);
        let text = "brokerRole=ASYNC_MASTER\nbrokerRole=SYNC_MASTER\n";
        assert_eq!(LocalOptions { links: true, ..options.clone() }.text().unwrap(), text);
        let config = Some(place.path().join("missing"));
        assert!(LocalOptions { config, ..options }.text().is_err());
    }

    #[test]
    fn a_cluster_is_started_again_at_its_own_ports() {
        let ports = Ports::free(3).expect("some ports are free");
        assert_eq!(Ports::read(&ports.text()), Some(ports));
        assert_eq!(Ports::read("1 2"), None);
        let all: std::collections::BTreeSet<u16> = ports.all(4).collect();
        assert_eq!(all.len(), 18, "no port is used twice");
    }
}
