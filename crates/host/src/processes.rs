//! Broker processes of this machine and their limits.

use crate::text;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A process that serves a broker, of Vostok or Apache RocketMQ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerProcess {
    /// Process id.
    pub pid: u32,
    /// `vostok` or `java`.
    pub program: String,
    /// Most files and sockets that the process may have open; `None` without a limit.
    pub open_files_max: Option<u64>,
    /// How many it has open; `None` where that may not be read.
    pub open_files: Option<u64>,
    /// Memory in use in KiB.
    pub resident_kib: Option<u64>,
}

/// The broker processes that can be seen, in the order of their ids.
pub(crate) fn brokers(root: &Path) -> Vec<BrokerProcess> {
    let entries = std::fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            read(&entry.path(), pid)
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

fn read(directory: &Path, pid: u32) -> Option<BrokerProcess> {
    let command = std::fs::read(directory.join("cmdline")).ok()?;
    let program = program(&String::from_utf8_lossy(&command))?.to_owned();
    let limits = std::fs::read_to_string(directory.join("limits")).unwrap_or_default();
    let status = std::fs::read_to_string(directory.join("status")).unwrap_or_default();
    let open = std::fs::read_dir(directory.join("fd")).ok().map(|entries| entries.count() as u64);
    Some(BrokerProcess {
        pid,
        program,
        open_files_max: open_files_max(&limits),
        open_files: open,
        resident_kib: text::named(&status, "VmRSS"),
    })
}

/// Which broker a command line, whose words end in zero bytes, starts; `None` for other programs.
fn program(command: &str) -> Option<&'static str> {
    let mut words = command.split('\0');
    let name = Path::new(words.next()?).file_name()?.to_str()?.to_owned();
    let rest: Vec<&str> = words.collect();
    if rest.first() == Some(&"serve") && name.starts_with("vostok") {
        return Some("vostok");
    }
    rest.contains(&"org.apache.rocketmq.broker.BrokerStartup").then_some("java")
}

/// The soft limit of open files in `/proc/PID/limits`.
pub(crate) fn open_files_max(limits: &str) -> Option<u64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_told_from_other_processes() {
        assert_eq!(program("/opt/vostok\0serve\0--data\0/d\0"), Some("vostok"));
        assert_eq!(program("java\0-Xmx8g\0org.apache.rocketmq.broker.BrokerStartup\0"), Some("java"));
        assert_eq!(program("/opt/vostok\0doctor\0"), None);
        assert_eq!(program("bash\0-c\0vostok serve\0"), None);
        let limits = "Limit  Soft Limit Hard Limit Units\nMax open files            1024                 524288               files\n";
        assert_eq!(open_files_max(limits), Some(1024));
        assert_eq!(open_files_max("Max open files  unlimited unlimited files\n"), None);
    }

    #[test]
    fn a_process_is_read_with_its_limits() {
        let root = tempfile::tempdir().unwrap();
        let process = root.path().join("proc/42");
        std::fs::create_dir_all(process.join("fd")).unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys")).unwrap();
        std::fs::write(process.join("cmdline"), "vostok\0serve\0").unwrap();
        std::fs::write(process.join("limits"), "Max open files 100 200 files\n").unwrap();
        std::fs::write(process.join("status"), "Name: x\nVmRSS:\t 2048 kB\n").unwrap();
        std::fs::write(process.join("fd/0"), "").unwrap();
        let expected = BrokerProcess {
            pid: 42,
            program: "vostok".into(),
            open_files_max: Some(100),
            open_files: Some(1),
            resident_kib: Some(2048),
        };
        assert_eq!(brokers(root.path()), [expected]);
    }
}
