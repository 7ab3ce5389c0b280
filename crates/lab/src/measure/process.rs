//! The watched process, usually the broker's.

use crate::archive::HostSecond;
use procfs::process::{FDTarget, Process};
use std::path::Path;

/// Counters of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessCounts {
    /// User and system time, milliseconds.
    pub cpu_ms: u64,
    /// Context switches of all threads that live.
    pub switches: u64,
}

impl ProcessCounts {
    /// Reads the counters of a process, and writes its other figures to `now`. Zeros when there is none, or when it
    /// is another user's.
    pub fn read(pid: i32, now: &mut HostSecond) -> Self {
        let Ok(process) = Process::new(pid) else { return Self::default() };
        let Ok(stat) = process.stat() else { return Self::default() };
        if let Ok(status) = process.status() {
            now.process_memory = status.vmrss.unwrap_or(0) * 1024;
            now.process_anonymous = status.rssanon.unwrap_or(0) * 1024;
            now.process_threads = status.threads;
        }
        now.process_files = process.fd_count().unwrap_or(0) as u64;
        Self {
            cpu_ms: (stat.utime + stat.stime) * 1000 / procfs::ticks_per_second(),
            switches: switches(&process),
        }
    }
}

/// The status of a process counts its first thread alone.
fn switches(process: &Process) -> u64 {
    let Ok(tasks) = process.tasks() else { return 0 };
    let statuses = tasks.flatten().filter_map(|task| task.status().ok());
    let counts = statuses.map(|status| {
        status.voluntary_ctxt_switches.unwrap_or(0) + status.nonvoluntary_ctxt_switches.unwrap_or(0)
    });
    counts.sum()
}

/// The process of ours that listens on `port`.
#[must_use]
pub fn listener_of(port: u16) -> Option<i32> {
    let sockets = procfs::net::tcp().into_iter().chain(procfs::net::tcp6()).flatten();
    let listening = |socket: &procfs::net::TcpNetEntry| {
        socket.state == procfs::net::TcpState::Listen && socket.local_address.port() == port
    };
    let inodes: Vec<_> = sockets.filter(listening).map(|socket| socket.inode).collect();
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

/// Microseconds in which the quotas of the process's control group and those above it stopped it.
pub(super) fn throttled_us(pid: i32) -> u64 {
    over_groups(pid, "cpu.stat", |text| {
        let line = text.lines().find_map(|line| line.strip_prefix("throttled_usec "));
        line.and_then(|number| number.parse().ok())
    })
    .max()
    .unwrap_or(0)
}

/// Cores the control groups of the process let it use, where they say less than there are.
pub(super) fn cores_allowed(pid: i32) -> Option<f64> {
    let quotas = over_groups(pid, "cpu.max", |text| {
        let (quota, period) = text.trim().split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    quotas.min_by(f64::total_cmp)
}

/// Reads a file of the process's control group (version 2) and of every group above it.
fn over_groups<T>(
    pid: i32,
    file: &'static str,
    read: impl Fn(&str) -> Option<T> + Copy,
) -> impl Iterator<Item = T> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
    let groups: Vec<_> = Path::new(path.trim_start_matches('/')).ancestors().map(Path::to_owned).collect();
    groups.into_iter().filter_map(move |group| {
        let text = std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join(file)).ok()?;
        read(&text)
    })
}
