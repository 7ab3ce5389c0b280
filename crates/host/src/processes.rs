//! Broker processes of this machine and their limits.

use crate::text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// State of a listening socket in `/proc/PID/net/tcp`.
const LISTENS: &str = "0A";

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
    /// Number of open files. `None` if it is not readable.
    pub open_files: Option<u64>,
    /// TCP ports on which the process listens. `None` if they are not readable.
    pub ports: Option<Vec<u16>>,
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
    let open = std::fs::read_dir(directory.join("fd")).ok();
    let open: Option<Vec<PathBuf>> = open.map(|files| files.flatten().map(|file| file.path()).collect());
    Some(BrokerProcess {
        pid,
        program,
        open_files_max: open_files_max(&limits),
        open_files: open.as_ref().map(|files| files.len() as u64),
        ports: open.map(|files| ports(directory, &files)),
        resident_kib: text::named(&status, "VmRSS"),
    })
}

/// Returns the listening ports of a process: those of the listening sockets among its open files.
fn ports(directory: &Path, open: &[PathBuf]) -> Vec<u16> {
    let socket = |file: &PathBuf| {
        let target = std::fs::read_link(file).ok()?;
        Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    let sockets: BTreeSet<String> = open.iter().filter_map(socket).collect();
    let tables = ["net/tcp", "net/tcp6"].map(|name| std::fs::read_to_string(directory.join(name)));
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    let found: BTreeSet<u16> = lines.filter_map(|line| listening(line, &sockets)).collect();
    found.into_iter().collect()
}

/// Returns the port in a line of `/proc/PID/net/tcp`, if it is that of a listening socket in `sockets`.
fn listening(line: &str, sockets: &BTreeSet<String>) -> Option<u16> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (_, port) = local.rsplit_once(':')?;
    (*state == LISTENS && sockets.contains(*inode)).then(|| u16::from_str_radix(port, 16).ok())?
}

/// Returns the broker program that a command line starts. Its words end in zero bytes. `None` for other programs.
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
        std::os::unix::fs::symlink("socket:[77]", process.join("fd/3")).unwrap();
        std::fs::create_dir_all(process.join("net")).unwrap();
        let socket = |port: &str, state: &str, inode: &str| {
            format!(
                "0: 00000000:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1\n"
            )
        };
        let table = ["  sl  local_address rem_address st\n".to_owned(), socket("2A9F", "0A", "77")];
        let others = [socket("2694", "0A", "78"), socket("9999", "01", "77")];
        std::fs::write(process.join("net/tcp"), [table, others].concat().concat()).unwrap();
        let expected = BrokerProcess {
            pid: 42,
            program: "vostok".into(),
            open_files_max: Some(100),
            open_files: Some(1),
            ports: Some(vec![10911]),
            resident_kib: Some(2048),
        };
        assert_eq!(brokers(root.path()), [expected]);
    }
}
