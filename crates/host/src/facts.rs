//! Facts about the machine in one value.

use crate::mounts::Mount;
use crate::processes::{BrokerProcess, brokers, open_files_max};
use crate::text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings below `/proc/sys` that are read, with dots as `sysctl` writes them.
const SETTINGS: &str = "vm.overcommit_memory vm.drop_caches vm.zone_reclaim_mode vm.max_map_count \
    vm.dirty_background_ratio vm.dirty_background_bytes vm.dirty_ratio vm.dirty_bytes \
    vm.dirty_writeback_centisecs vm.dirty_expire_centisecs vm.page-cluster vm.swappiness \
    vm.extra_free_kbytes vm.min_free_kbytes net.core.somaxconn fs.file-max";

/// Facts about the machine. Unavailable facts are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Processors that are online, as the kernel writes them, for example `0-3`.
    pub processors: Option<String>,
    /// Kernel settings by their names in `sysctl`.
    pub settings: BTreeMap<String, i64>,
    /// Memory of the machine in KiB.
    pub memory_kib: Option<u64>,
    /// Swap space in KiB.
    pub swap_kib: Option<u64>,
    /// Free swap space in KiB.
    pub swap_free_kib: Option<u64>,
    /// When the kernel uses huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Name of the clock source that the kernel uses, for example `tsc`.
    pub clock_source: Option<String>,
    /// Most files and sockets that this process may have open (soft limit); `None` without a limit.
    pub open_files_max: Option<u64>,
    /// Memory limit of the control group in bytes; `None` without a limit.
    pub group_memory_max: Option<u64>,
    /// Processor time of the control group in thousandths of a processor; `None` without a limit.
    pub group_cpu_milli: Option<u64>,
    /// Number of processes of the control group that the kernel killed for lack of memory since the group was made.
    pub group_memory_kills: Option<u64>,
    /// Growth of `group_memory_kills` between two looks; absent without a second look.
    pub group_memory_kills_grown: Option<u64>,
    /// Scheduling periods in which the control group used up its quota and was throttled, and all periods, since the group was
    /// made.
    pub group_cpu_throttled: Option<(u64, u64)>,
    /// Growth of `group_cpu_throttled` between two looks; absent without a second look.
    pub group_cpu_throttled_grown: Option<(u64, u64)>,
    /// Mounts of the requested directories.
    pub mounts: Vec<Mount>,
    /// The broker processes that can be seen.
    pub brokers: Vec<BrokerProcess>,
}

/// Source of the facts.
#[derive(Clone, Debug)]
pub struct Source {
    /// Directory that contains `proc` and `sys`: `/`, or another directory in tests.
    pub root: PathBuf,
    /// Directories whose mounts are read.
    pub paths: Vec<PathBuf>,
    /// Ports of the requested brokers. Empty for every visible broker process.
    pub broker_ports: Vec<u16>,
}

impl Source {
    /// Whether a process serves a requested broker. A process with unreadable ports may do so.
    fn wants(&self, broker: &BrokerProcess) -> bool {
        let is_wanted = |ports: &Vec<u16>| ports.iter().any(|port| self.broker_ports.contains(port));
        self.broker_ports.is_empty() || broker.ports.as_ref().is_none_or(is_wanted)
    }
}

impl Facts {
    /// Reads the facts. The machine is not changed.
    pub fn read(source: &Source) -> Self {
        let root = source.root.as_path();
        let at = |path: &str| root.join(path);
        let memory = text::line(&at("proc/meminfo")).unwrap_or_default();
        let limits = text::line(&at("proc/self/limits")).unwrap_or_default();
        let group = group_directory(root);
        let of_group = |name: &str| group.as_ref().and_then(|group| text::line(&group.join(name)));
        let settings = SETTINGS.split(' ').filter_map(|name| {
            let path = root.join("proc/sys").join(name.replace('.', "/"));
            Some((name.to_owned(), text::number(&path)?))
        });
        Self {
            kernel: text::line(&at("proc/sys/kernel/osrelease")),
            processors: text::line(&at("sys/devices/system/cpu/online")),
            settings: settings.collect(),
            memory_kib: text::named(&memory, "MemTotal"),
            swap_kib: text::named(&memory, "SwapTotal"),
            swap_free_kib: text::named(&memory, "SwapFree"),
            huge_pages: text::line(&at("sys/kernel/mm/transparent_hugepage/enabled"))
                .map(|text| text::chosen(&text)),
            clock_source: text::line(&at("sys/devices/system/clocksource/clocksource0/current_clocksource")),
            open_files_max: open_files_max(&limits),
            group_memory_max: of_group("memory.max").and_then(|text| text.parse().ok()),
            group_cpu_milli: of_group("cpu.max").and_then(|text| cpu_milli(&text)),
            group_memory_kills: of_group("memory.events").and_then(|text| text::named(&text, "oom_kill")),
            group_cpu_throttled: of_group("cpu.stat").and_then(|text| {
                Some((text::named(&text, "nr_throttled")?, text::named(&text, "nr_periods")?))
            }),
            group_memory_kills_grown: None,
            group_cpu_throttled_grown: None,
            mounts: source.paths.iter().filter_map(|path| Mount::of(root, path)).collect(),
            brokers: brokers(root).into_iter().filter(|broker| source.wants(broker)).collect(),
        }
    }

    /// The facts with the growth of the counts of the control group since `earlier`.
    pub fn since(mut self, earlier: &Self) -> Self {
        let grown = |(now, before): (u64, u64)| now.saturating_sub(before);
        self.group_memory_kills_grown = self.group_memory_kills.zip(earlier.group_memory_kills).map(grown);
        let throttled = self.group_cpu_throttled.zip(earlier.group_cpu_throttled);
        self.group_cpu_throttled_grown =
            throttled.map(|(now, before)| (grown((now.0, before.0)), grown((now.1, before.1))));
        self
    }

    /// Whether the control group was ever throttled.
    pub fn was_throttled(&self) -> bool {
        self.group_cpu_throttled.is_some_and(|(throttled, _)| throttled > 0)
    }

    /// The counts of the control group alone.
    pub fn counts(&self) -> Self {
        let (group_memory_kills, group_cpu_throttled) = (self.group_memory_kills, self.group_cpu_throttled);
        Self { group_memory_kills, group_cpu_throttled, ..Self::default() }
    }
}

/// The directory of this process's control group, of version 2.
fn group_directory(root: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?.trim();
    Some(root.join("sys/fs/cgroup").join(path.trim_start_matches('/')))
}

/// Thousandths of a processor in `cpu.max`: quota and period in microseconds, or `max`.
fn cpu_milli(text: &str) -> Option<u64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota * 1000).checked_div(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/sys/vm/swappiness", "60\n");
        write("proc/sys/vm/page-cluster", "3\n");
        write("proc/sys/net/core/somaxconn", "4096\n");
        write("proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n");
        write("proc/self/cgroup", "0::/box\n");
        write("sys/fs/cgroup/box/memory.max", "1048576\n");
        write("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
        write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
        write("proc/mounts", "/dev/vda1 / ext4 rw 0 0\n");
        write("sys/class/block/vda1/queue/scheduler", "none [mq-deadline]\n");
        let source =
            Source { root: root.path().to_owned(), paths: vec!["/data".into()], broker_ports: Vec::new() };
        let facts = Facts::read(&source);
        assert_eq!((facts.settings["vm.swappiness"], facts.settings["vm.page-cluster"]), (60, 3));
        assert_eq!(facts.settings["net.core.somaxconn"], 4096);
        assert_eq!((facts.memory_kib, facts.swap_kib, facts.swap_free_kib), (Some(1000), Some(10), Some(4)));
        assert_eq!((facts.group_memory_max, facts.group_cpu_milli), (Some(1_048_576), Some(1500)));
        assert_eq!(facts.huge_pages.as_deref(), Some("always"));
        assert_eq!(facts.mounts[0].scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!((facts.clock_source, facts.group_cpu_throttled), (None, None));
        assert_eq!(cpu_milli("max 100000"), None);
    }

    #[test]
    fn counts_of_a_control_group_are_compared() {
        let facts = |kills, group_cpu_throttled| Facts {
            group_memory_kills: kills,
            group_cpu_throttled,
            swap_kib: Some(7),
            ..Facts::default()
        };
        let (earlier, now) = (facts(Some(3), Some((50, 100))), facts(Some(3), Some((52, 180))));
        assert!(earlier.was_throttled() && !facts(Some(1), Some((0, 9))).was_throttled());
        let compared = Facts {
            group_memory_kills_grown: Some(0),
            group_cpu_throttled_grown: Some((2, 80)),
            ..now.clone()
        };
        assert_eq!(now.clone().since(&earlier), compared);
        assert_eq!(now.clone().since(&Facts::default()), now);
    }

    #[test]
    fn brokers_of_other_clusters_are_left_out() {
        let source = |broker_ports| Source { root: "/".into(), paths: Vec::new(), broker_ports };
        let broker = |ports: Option<Vec<u16>>| BrokerProcess { ports, ..BrokerProcess::default() };
        assert!(source(vec![10911]).wants(&broker(Some(vec![9876, 10911]))));
        assert!(!source(vec![10911]).wants(&broker(Some(vec![20911]))));
        assert!(source(vec![10911]).wants(&broker(None)), "it may not be looked into");
        assert!(source(Vec::new()).wants(&broker(Some(vec![20911]))));
    }

    #[test]
    fn a_machine_that_says_nothing_has_no_facts() {
        let root = tempfile::tempdir().unwrap();
        let source =
            Source { root: root.path().to_owned(), paths: vec!["/data".into()], broker_ports: Vec::new() };
        assert_eq!(Facts::read(&source), Facts::default());
    }
}
