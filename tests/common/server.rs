//! A guard of one `vostok serve` process on free ports.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::os;
use super::wire_client::Connection;

/// First of the ports the tests use, below the range the system hands out by itself.
const PORTS_FROM: u16 = 11_000;
const PORTS: u16 = 20_000;
/// Ports that a program of the tests takes at a time.
const PORTS_OF_BLOCK: u16 = 500;
/// Settings with which neither the free space nor the speed of the machine's disk decides a test: limits of disk use in bytes, and a
/// wait for the disk that outlasts the test.
pub const ON_ANY_DISK: [&str; 4] = [
    "diskMaxUsedSpaceRatio=64m",
    "diskSpaceCleanForciblyRatio=64m",
    "diskSpaceWarningLevelRatio=64m",
    "syncFlushTimeout=300000",
];

/// What a server is started with; the same setup starts the same server again.
#[derive(Clone, Debug)]
pub struct Setup {
    pub binary: PathBuf,
    pub data: PathBuf,
    pub namesrv_port: u16,
    pub broker_port: u16,
    /// Lines of `broker.conf` beside the address.
    pub lines: Vec<String>,
    /// Settings about the disk, which count where `lines` has no value of its own; empty for the defaults.
    pub disk_limits: &'static [&'static str],
    /// Roles of the process; without `proxy`, because servers side by side cannot all have its port.
    pub roles: String,
    /// Whether the server is told of `broker.conf`.
    pub with_conf: bool,
    /// Where the configuration file and the output go; not in the data directory.
    pub desk: PathBuf,
    /// Environment of the process beside ours.
    pub environment: Vec<(String, String)>,
    /// A program that starts the server, with its arguments; empty for none.
    pub prefix: Vec<String>,
    /// More arguments of `vostok serve`.
    pub arguments: Vec<String>,
}

impl Setup {
    /// A server of `binary` with its data in `data` and everything else in `desk`.
    pub fn new(binary: impl Into<PathBuf>, data: impl Into<PathBuf>, desk: impl Into<PathBuf>) -> Self {
        let (namesrv_port, broker_port) = free_ports();
        Self {
            binary: binary.into(),
            data: data.into(),
            namesrv_port,
            broker_port,
            lines: Vec::new(),
            disk_limits: &ON_ANY_DISK,
            roles: "namesrv,broker".to_owned(),
            with_conf: true,
            desk: desk.into(),
            environment: Vec::new(),
            prefix: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// The same with a line of `broker.conf`.
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Address of the broker.
    pub fn broker(&self) -> SocketAddr {
        local(self.broker_port)
    }

    /// Address of the name server.
    pub fn namesrv(&self) -> SocketAddr {
        local(self.namesrv_port)
    }

    /// Address of the port for clients with `vipChannelEnabled`.
    pub fn vip(&self) -> SocketAddr {
        local(self.broker_port - 2)
    }

    /// Starts the process without waiting for it to serve.
    pub fn spawn(&self) -> io::Result<Server> {
        fs::create_dir_all(&self.desk)?;
        let mut text = String::from("brokerIP1=127.0.0.1\n");
        let key = |line: &str| line.split('=').next().map(str::to_owned);
        let is_given = |limit: &str| self.lines.iter().any(|line| key(line) == key(limit));
        let limits = self.disk_limits.iter().copied().filter(|limit| !is_given(limit));
        for line in limits.chain(self.lines.iter().map(String::as_str)) {
            text.push_str(line);
            text.push('\n');
        }
        let conf = self.desk.join("broker.conf");
        fs::write(&conf, text)?;
        let output = File::options().create(true).append(true).open(self.log())?;
        let mut command = match self.prefix.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        let child = command
            .arg("serve")
            .arg("--data")
            .arg(&self.data)
            .args(["--roles", &self.roles])
            .args(["--namesrv-port", &self.namesrv_port.to_string()])
            .args(["--broker-port", &self.broker_port.to_string()])
            .args(self.with_conf.then_some("-c"))
            .args(self.with_conf.then_some(&conf))
            .args(&self.arguments)
            .env("RUST_LOG", "info")
            .env_remove("NAMESRV_ADDR")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Server {
            child: Some(child),
            setup: self.clone(),
            born: Instant::now(),
            ready_after: Duration::ZERO,
        })
    }

    /// Starts the process and waits until both ports answer a request.
    pub fn start(&self) -> io::Result<Server> {
        let mut server = self.spawn()?;
        server.wait_ready()?;
        Ok(server)
    }

    /// Everything the processes of this setup printed.
    pub fn log(&self) -> PathBuf {
        self.desk.join("server.log")
    }

    /// The end of what they printed.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

/// A running process; killed when dropped.
pub struct Server {
    child: Option<Child>,
    setup: Setup,
    born: Instant,
    /// From the start of the process to the first answers on both ports.
    pub ready_after: Duration,
}

impl Server {
    /// What it was started with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("still ours").id()
    }

    /// Waits until the broker and the name server answer a request.
    pub fn wait_ready(&mut self) -> io::Result<()> {
        loop {
            if answers(self.setup.broker()) && answers(self.setup.namesrv()) {
                self.ready_after = self.born.elapsed();
                return Ok(());
            }
            let child = self.child.as_mut().expect("still ours");
            if let Some(status) = child.try_wait()? {
                let tail = self.setup.log_tail();
                // The last line of the log is the reason. It goes into the first line of the error, which CI shows.
                let reason = tail.lines().last().unwrap_or("it printed nothing");
                return Err(io::Error::other(format!("ended with {status}: {reason}\n{tail}")));
            }
            if self.born.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("does not serve:\n{}", self.setup.log_tail())));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// kill -9, and waits until the process is gone.
    pub fn kill9(mut self) {
        self.end_now();
    }

    /// SIGTERM, and waits for the end. Panics when the process runs on.
    pub fn terminate(self) -> ExitStatus {
        os::signal(self.pid(), os::SIGTERM).expect("our own child can be signalled");
        let setup = self.setup.clone();
        self.wait().unwrap_or_else(|| panic!("runs on after SIGTERM:\n{}", setup.log_tail()))
    }

    /// Waits for the end of the process; `None` when it runs on.
    pub fn wait(mut self) -> Option<ExitStatus> {
        await_end(self.child.as_mut().expect("still ours"))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().expect("still ours").try_wait().expect("our own child can be waited for")
    }

    /// Memory that the process occupies, in kilobytes.
    pub fn resident_kb(&self) -> u64 {
        self.memory_kb("VmRSS:")
    }

    /// Most memory that the process has occupied so far, in kilobytes.
    pub fn peak_kb(&self) -> u64 {
        self.memory_kb("VmHWM:")
    }

    fn memory_kb(&self, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = text.lines().find(|line| line.starts_with(name)).expect("Linux says so");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of kB")
    }

    fn end_now(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Errors mean that it has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_now();
    }
}

/// Waits for the end of a process; `None` when it runs on.
pub fn await_end(child: &mut Child) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("our own child can be waited for") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// True when a request of no known code is answered.
fn answers(address: SocketAddr) -> bool {
    let Ok(mut connection) = Connection::open(address) else { return false };
    connection.ask(9999, |writer| writer, &[]).and_then(|opaque| connection.answer(opaque)).is_ok()
}

/// A free port for a name server, and one for a broker whose VIP port and port for slaves are free as well.
pub fn free_ports() -> (u16, u16) {
    free_ports_of(1)
}

/// As [`free_ports`], with the port behind the name server's next one free for a controller, and every tenth port above the
/// broker's for as many brokers in all.
pub fn free_ports_of(brokers: u16) -> (u16, u16) {
    static OWN: Mutex<OwnPorts> = Mutex::new(OwnPorts { locks: Vec::new(), unused: 0..0 });
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let free = |port: u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    loop {
        let port = own.take(10 * brokers - 3);
        let wanted = (0..brokers).flat_map(|broker| [1, 3, 4, 6].map(|above| port + 10 * broker + above));
        if [port, port + 2].into_iter().chain(wanted).all(free) {
            return (port, port + 3);
        }
    }
}

/// Ports that no other test program in Rust takes, also while the server that uses them is down, until this process ends.
struct OwnPorts {
    /// A locked file for each block of ports.
    locks: Vec<File>,
    unused: Range<u16>,
}

impl OwnPorts {
    /// The first of `count` ports.
    fn take(&mut self, count: u16) -> u16 {
        assert!(count <= PORTS_OF_BLOCK, "servers whose {count} ports fit into a block");
        if self.unused.len() < usize::from(count) {
            self.unused = self.lock_block();
        }
        let first = self.unused.start;
        self.unused.start += count;
        first
    }

    fn lock_block(&mut self) -> Range<u16> {
        let blocks = PORTS / PORTS_OF_BLOCK;
        // Processes begin at different blocks: servers of a program that ended a moment ago may still hold its ports.
        let start = std::process::id() % u32::from(blocks);
        for block in (0..blocks).map(|number| (number + start as u16) % blocks) {
            let path = std::env::temp_dir().join(format!("vostok-test-ports-{block}"));
            // A lock needs no right to write: another user may have made the file.
            let lock = File::open(&path).or_else(|_| File::create_new(&path)).or_else(|_| File::open(&path));
            if let Some(lock) = lock.ok().filter(|lock| lock.try_lock().is_ok()) {
                self.locks.push(lock);
                let first = PORTS_FROM + block * PORTS_OF_BLOCK;
                return first..first + PORTS_OF_BLOCK;
            }
        }
        panic!(
            "all {blocks} blocks of ports from {PORTS_FROM} on are locked by other test programs, or their files cannot be opened"
        );
    }
}

/// The server that was built with this program: `target/debug/vostok` beside `target/debug/examples/crash`.
pub fn built_binary() -> PathBuf {
    let own = std::env::current_exe().expect("Linux knows the program");
    let built = own.parent().and_then(Path::parent).expect("a program in target/debug/examples");
    built.join("vostok")
}

/// Whether a server has the bugs of `store::planted`, which VOSTOK_PLANTED switches on.
pub fn has_planted_bugs(binary: &Path) -> io::Result<bool> {
    let name = b"VOSTOK_PLANTED";
    Ok(fs::read(binary)?.windows(name.len()).any(|bytes| bytes == name))
}

/// True when a directory holds a file of this name somewhere below.
pub fn exists_below(directory: &Path, name: &str) -> bool {
    fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| {
        entry.file_name() == name || (entry.path().is_dir() && exists_below(&entry.path(), name))
    })
}
