//! Counters of the watched process, usually the broker's.

use crate::archive::HostSecond;
use procfs::process::{FDTarget, Process};
use std::path::{Path, PathBuf};

/// Counters of a process at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessCounts {
    /// User and system time, milliseconds.
    pub cpu_ms: u64,
    /// Context switches of all live threads.
    pub switches: u64,
    /// Time in which the threads were ready to run but had no processor, milliseconds.
    pub waited_ms: u64,
}

impl ProcessCounts {
    /// Reads the counters of a process, and writes its other figures to `now`. All are 0 when the process does not
    /// exist or belongs to another user.
    pub fn read(pid: i32, now: &mut HostSecond) -> Self {
        let Ok(process) = Process::new(pid) else { return Self::default() };
        let Ok(stat) = process.stat() else { return Self::default() };
        if let Ok(status) = process.status() {
            now.process_memory = status.vmrss.unwrap_or(0) * 1024;
            now.process_anonymous = status.rssanon.unwrap_or(0) * 1024;
            now.process_threads = status.threads;
        }
        now.process_files = process.fd_count().unwrap_or(0) as u64;
        let cpu_ms = (stat.utime + stat.stime) * 1000 / procfs::ticks_per_second();
        let mut counts = Self { cpu_ms, ..Self::default() };
        counts.add_threads(&process, now);
        counts
    }

    /// Adds the counters of all threads: the files of the process itself cover only its first thread.
    fn add_threads(&mut self, process: &Process, now: &mut HostSecond) {
        let Ok(tasks) = process.tasks() else { return };
        let mut waited_ns = 0;
        for task in tasks.flatten() {
            waited_ns += task.schedstat().map_or(0, |stat| stat.run_delay);
            let Ok(status) = task.status() else { continue };
            let (own, forced) = (status.voluntary_ctxt_switches, status.nonvoluntary_ctxt_switches);
            self.switches += own.unwrap_or(0) + forced.unwrap_or(0);
            // The state `D (disk sleep)`: the thread waits for the disk.
            now.process_blocked += u64::from(status.state.starts_with('D'));
        }
        self.waited_ms = waited_ns / 1_000_000;
    }
}

/// User and system time of a process in milliseconds; `None` when the process is gone.
pub(super) fn cpu_ms(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name before the last `)` may contain any characters.
    let mut fields = text.rsplit(')').next()?.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?) * 1000 / procfs::ticks_per_second())
}

/// Process ids of the kernel's threads; none when they are not visible, as in a container.
pub(super) fn kernel_threads() -> Vec<i32> {
    const PARENT: &str = "/proc/2";
    let read = |file: &str| std::fs::read_to_string(format!("{PARENT}/{file}")).unwrap_or_default();
    if read("comm").trim() != "kthreadd" {
        return Vec::new();
    }
    read("task/2/children").split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The processes that listen on the given ports of this machine, each once, without `known`. `None` when the process
/// that listens on one of the ports cannot be found, because it belongs to another user.
pub fn servers_on(ports: &[u16], known: Option<i32>) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for port in ports {
        let sockets = listening(*port);
        if sockets.is_empty() {
            continue;
        }
        let pid = owner_of(&sockets)?;
        if Some(pid) != known && !found.contains(&pid) {
            found.push(pid);
        }
    }
    Some(found)
}

/// Inodes of the sockets of this machine, of any user, that listen on `port`.
fn listening(port: u16) -> Vec<u64> {
    let sockets = procfs::net::tcp().into_iter().chain(procfs::net::tcp6()).flatten();
    let listening = |socket: &procfs::net::TcpNetEntry| {
        socket.state == procfs::net::TcpState::Listen && socket.local_address.port() == port
    };
    sockets.filter(listening).map(|socket| socket.inode).collect()
}

fn owner_of(inodes: &[u64]) -> Option<i32> {
    let owns = |process: &Process| {
        let Ok(files) = process.fd() else { return false };
        let mut sockets = files.flatten().filter_map(|file| match file.target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        });
        sockets.any(|inode| inodes.contains(&inode))
    };
    let found = procfs::process::all_processes().ok()?.flatten().find(owns);
    found.map(|process| process.pid())
}

/// Main classes of a Java broker: the broker's own, and since 5.x the proxy's, which may contain a broker (`mqbroker
/// --enable-proxy`).
const JAVA_BROKERS: [&str; 2] =
    ["org.apache.rocketmq.broker.BrokerStartup", "org.apache.rocketmq.proxy.ProxyStartup"];

/// The broker's process: the one that listens on `port`; when that belongs to another user, the only Java broker of the
/// machine. `None` for a broker that is not Java's and for one that is not on this machine.
pub fn process_of(port: u16, is_java: bool) -> Option<i32> {
    let sockets = listening(port);
    let by_words = is_java && !sockets.is_empty();
    owner_of(&sockets).or_else(|| java_broker().filter(|_| by_words))
}

/// The only Java broker of this machine. Any user may read the command line of a process.
fn java_broker() -> Option<i32> {
    let all = procfs::process::all_processes().ok()?.flatten();
    only_broker(all.filter_map(|process| Some((process.pid(), process.cmdline().ok()?))))
}

/// The only Java broker among processes with their command lines; `None` when there are two, since either could be
/// meant. The shell that started a broker has the same words after its own name (`runbroker.sh`) and is not taken.
pub(super) fn only_broker(processes: impl Iterator<Item = (i32, Vec<String>)>) -> Option<i32> {
    let is_java = |program: &String| Path::new(program).file_name().is_some_and(|name| name == "java");
    let is_broker = |words: &[String]| words.iter().any(|word| JAVA_BROKERS.contains(&word.as_str()));
    let mut found = processes.filter(|(_, words)| words.first().is_some_and(is_java) && is_broker(words));
    let (pid, _) = found.next()?;
    found.next().is_none().then_some(pid)
}

/// Microseconds in which the CPU quotas of the process's control groups and their parents stopped it.
pub(super) fn throttled_us(pid: i32) -> u64 {
    let texts = cpu_groups(pid).filter_map(|group| std::fs::read_to_string(group.join("cpu.stat")).ok());
    texts.filter_map(|text| throttled(&text)).max().unwrap_or(0)
}

/// Microseconds in the text of `cpu.stat` for which a CPU quota stopped the control group. Version
/// 1 of control groups counts nanoseconds, version 2 microseconds.
pub(super) fn throttled(stat: &str) -> Option<u64> {
    let number =
        |name: &str| stat.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok();
    number("throttled_usec ").or_else(|| Some(number("throttled_time ")? / 1000))
}

/// Number of cores that the control groups of the process allow; `None` when they do not limit it.
pub fn cores_allowed(pid: i32) -> Option<f64> {
    cpu_groups(pid).filter_map(|group| quota(&group)).min_by(f64::total_cmp)
}

/// Number of cores that a control group allows: from `cpu.max` in version 2, from two files in version 1.
pub(super) fn quota(group: &Path) -> Option<f64> {
    let read = |file: &str| std::fs::read_to_string(group.join(file)).ok();
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    if let Some(text) = read("cpu.max") {
        let (quota, period) = text.trim().split_once(' ')?;
        return Some(number(quota)? / number(period)?);
    }
    Some(number(&read("cpu.cfs_quota_us")?)? / number(&read("cpu.cfs_period_us")?)?)
}

/// Directories of the control groups that may limit the processor time of a process, in both versions.
fn cpu_groups(pid: i32) -> impl Iterator<Item = PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let roots = match controllers {
            "" => vec!["/sys/fs/cgroup".to_owned(), "/sys/fs/cgroup/unified".to_owned()],
            some if some.split(',').any(|name| name == "cpu") => vec![format!("/sys/fs/cgroup/{some}")],
            _ => continue,
        };
        let above = Path::new(path.trim_start_matches('/')).ancestors();
        groups.extend(
            above.flat_map(|group| roots.iter().map(|root| Path::new(root).join(group)).collect::<Vec<_>>()),
        );
    }
    groups.into_iter()
}
