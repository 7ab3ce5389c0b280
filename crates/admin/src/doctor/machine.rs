//! Checks of the machine that a broker runs on. Needs of Java alone are checked where a Java broker runs.

use super::bilingual::{Phrase, Text, text};
use super::bundle::Bundle;
use super::finding::{Check, Found, Look, Severity, checks};
use host::{BrokerProcess, Facts};

/// Open files that a broker with many connections and queues needs.
const OPEN_FILES: u64 = 65_536;
/// Maps that Java's broker needs for its files.
const MAPS: i64 = 262_144;
/// Time between write-backs of the kernel that is a finding, hundredths of a second.
const WRITEBACK_CENTISECS: i64 = 6000;
/// Share of memory that may be dirty before writers are stopped, in percent.
const DIRTY_PERCENT: i64 = 40;
/// Memory of a control group below which a broker has no room for files, in bytes.
const GROUP_BYTES: u64 = 256 << 20;
const NEEDS: Phrase = Phrase("facts of the machine");
const CONTROL_GROUP: Phrase = Phrase("control group");
const NEEDS_GROUPS: Phrase = Phrase("facts of a machine with control groups");
const KILLED_BEFORE: Phrase =
    Phrase("Processes of the control group were killed for lack of memory at an unknown time");
const NEEDS_PERIODS: Phrase = Phrase("two looks at a machine with control groups (--sample)");
/// Least number of scheduling periods between two looks, after which their counts are judged.
const PERIODS_MIN: u64 = 10;

pub(crate) const CHECKS: &[Check] = checks! {
    "open-files-limit", Warning, open_files,
        "A broker, or a process that this session would start, may open fewer than 65536 files and connections", NEEDS;
    "open-files-used-up", Critical, open_files_used_up,
        "A broker has more than nine tenths of its files open",
        Phrase("facts of a machine with a broker that may be looked into");
    "maps-limit", Warning, maps,
        "vm.max_map_count is so low that a Java broker cannot map its files",
        Phrase("facts of a machine with a Java broker");
    "huge-pages-always", Advice, huge_pages,
        "Transparent huge pages are always on, which stalls processes while the kernel moves memory", NEEDS;
    "swap-in-use", Warning, swap_in_use, "Memory was swapped out", NEEDS;
    "swappiness", Advice, swappiness,
        "The machine has swap, and the kernel is eager to use it (vm.swappiness above 10)", NEEDS;
    "dirty-limits", Warning, dirty_limits,
        "The kernel lets much unwritten data pile up and then stops all writers (vm.dirty_ratio above 40)", NEEDS;
    "write-back-rare", Critical, writeback,
        "The kernel begins to write back so rarely that a power cut takes minutes of messages (vm.dirty_writeback_centisecs)",
        NEEDS;
    "io-scheduler", Advice, scheduler,
        "A disk of the store that does not turn has a scheduler that reorders for turning disks",
        Phrase("facts of the machine with the disk of a store");
    "file-system", Warning, file_system,
        "The store is on a file system that is shared over a network, in memory, or a layer of a container",
        Phrase("facts of the machine with the directory of a store");
    "clock-source", Warning, clock_source,
        "Reading the clock needs the kernel or the hypervisor each time", NEEDS;
    "control-group-memory", Warning, group_memory,
        "The control group has little memory, or the kernel ended processes in it between two looks", NEEDS_GROUPS;
    "control-group-processor", Warning, group_cpu,
        "The control group has to wait for processor time in more than one of twenty periods", NEEDS_PERIODS;
};

/// Looks at the facts of the machine, if there are any.
fn facts(bundle: &Bundle, look: impl Fn(&Facts) -> Option<Vec<Found>>) -> Look {
    Look::each(&bundle.host, look)
}

/// A broker's process.
fn process(broker: &BrokerProcess) -> Text {
    text!("{program} broker, pid {pid}", program = &broker.program, pid = broker.pid)
}

fn open_files(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let found = |subject: Text, limit: u64, source: &str| {
            let advice = text!(
                "LimitNOFILE=655350 in the unit of systemd, or nofile in /etc/security/limits.conf; then restart the broker"
            );
            let figure = text!("{limit} files", limit);
            (limit < OPEN_FILES).then(|| Found::new(subject, figure, source, advice))
        };
        if facts.brokers.is_empty() {
            let limit = facts.open_files_max?;
            let session = text!("this session");
            return Some(found(session, limit, "/proc/self/limits").into_iter().collect());
        }
        let limits = facts
            .brokers
            .iter()
            .filter_map(|broker| found(process(broker), broker.open_files_max?, "/proc/PID/limits"));
        Some(limits.collect())
    })
}

fn open_files_used_up(bundle: &Bundle) -> Look {
    Look::each(bundle.host.iter().flat_map(|facts| &facts.brokers), |broker| {
        let (open, limit) = (broker.open_files?, broker.open_files_max?);
        Found::when(open * 10 > limit * 9, || {
            let figure = text!("{open} of {limit} files", open, limit);
            let advice = text!("raise LimitNOFILE and restart the broker");
            Found::new(process(broker), figure, "/proc/PID/fd", advice)
        })
    })
}

fn maps(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let limit = *facts.settings.get("vm.max_map_count")?;
        facts.brokers.iter().any(|broker| broker.program == "java").then_some(())?;
        Found::when(limit < MAPS, || {
            Found::new(
                "vm.max_map_count",
                limit.to_string(),
                "/proc/sys/vm",
                "sysctl -w vm.max_map_count=655360",
            )
        })
    })
}

fn huge_pages(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let mode = facts.huge_pages.as_deref()?;
        Found::when(mode == "always", || {
            let fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
            Found::new("transparent_hugepage", mode, "/sys/kernel/mm", fix)
        })
    })
}

fn swap_in_use(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let used = facts.swap_kib?.saturating_sub(facts.swap_free_kib?);
        Found::when(used > 0, || {
            let figure = text!("{used} KiB swapped out", used);
            let advice = text!("find who needs the memory; then swapoff -a && swapon -a");
            Found::new("swap", figure, "/proc/meminfo", advice)
        })
    })
}

fn swappiness(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let (swap, value) = (facts.swap_kib?, *facts.settings.get("vm.swappiness")?);
        Found::when(swap > 0 && value > 10, || {
            Found::new("vm.swappiness", value.to_string(), "/proc/sys/vm", "sysctl -w vm.swappiness=1")
        })
    })
}

fn dirty_limits(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let ratio = *facts.settings.get("vm.dirty_ratio")?;
        Found::when(ratio > DIRTY_PERCENT, || {
            let fix = "sysctl -w vm.dirty_ratio=20 vm.dirty_background_ratio=10";
            let figure = text!("{ratio} % of the memory", ratio);
            Found::new("vm.dirty_ratio", figure, "/proc/sys/vm", fix)
        })
    })
}

fn writeback(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let period = *facts.settings.get("vm.dirty_writeback_centisecs")?;
        Found::when(period > WRITEBACK_CENTISECS || period == 0, || {
            let figure = match period {
                0 => text!("never"),
                period => text!("every {seconds} s", seconds = period / 100),
            };
            Found::new(
                "vm.dirty_writeback_centisecs",
                figure,
                "/proc/sys/vm",
                "sysctl -w vm.dirty_writeback_centisecs=500",
            )
        })
    })
}

fn scheduler(bundle: &Bundle) -> Look {
    Look::each(bundle.host.iter().flat_map(|facts| &facts.mounts), |mount| {
        let (scheduler, is_rotational) = (mount.scheduler.as_deref()?, mount.is_rotational?);
        Found::when(!is_rotational && matches!(scheduler, "bfq" | "cfq"), || {
            let fix = text!(
                "echo none > /sys/class/block/{name}/queue/scheduler (of the disk, if {name} is a partition)",
                name = mount.device.trim_start_matches("/dev/")
            );
            Found::new(&mount.device, scheduler, "/sys/class/block", fix)
        })
    })
}

fn file_system(bundle: &Bundle) -> Look {
    Look::each(bundle.host.iter().flat_map(|facts| &facts.mounts), |mount| {
        let kind = mount.file_system.as_str();
        let is_far = ["nfs", "cifs", "smb", "fuse", "9p", "ceph", "gluster", "virtiofs"]
            .iter()
            .any(|it| kind.starts_with(it));
        Found::when(is_far || matches!(kind, "tmpfs" | "ramfs" | "overlay"), || {
            let (path, device) = (&mount.path, &mount.device);
            let figure = text!("{path} is on {kind} ({device})", path, kind, device);
            let advice = text!(
                "put the store on ext4 or xfs of a disk of its own: storePathRootDir, or a volume of the container"
            );
            Found::new(path, figure, "/proc/mounts", advice)
        })
    })
}

fn clock_source(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let source = facts.clock_source.as_deref()?;
        Found::when(matches!(source, "hpet" | "acpi_pm" | "xen" | "jiffies" | "refined-jiffies"), || {
            let fix = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
            Found::new(text!("clock source"), source, "/sys/devices/system/clocksource", fix)
        })
    })
}

fn group_memory(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let limit = facts.group_memory_max;
        let grown = facts.group_memory_kills_grown;
        // The console leaves out kills before its first look.
        let total = facts.group_memory_kills;
        let kills = grown.or(total.or(limit).map(|_| 0))?;
        let earlier = total.unwrap_or_default().saturating_sub(kills);
        let found = |figure: Text| {
            let advice = text!("give the container more memory; the page cache of the log counts in it");
            Found::new(CONTROL_GROUP, figure, "memory.max, memory.events", advice)
        };
        let now = (kills > 0 || limit.is_some_and(|limit| limit < GROUP_BYTES)).then(|| {
            let limit = match limit.map(|limit| limit >> 20) {
                Some(limit) => text!("limit {limit} MiB", limit),
                None => text!("no limit"),
            };
            found(text!("{limit}, {kills} processes ended", limit, kills))
        });
        let before = (earlier > 0).then(|| {
            let figure =
                text!("{earlier} processes ended since the group was made, at an unknown time", earlier);
            found(figure).lesser(Severity::Advice, KILLED_BEFORE)
        });
        Some(now.into_iter().chain(before).collect())
    })
}

fn group_cpu(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let (throttled, periods) =
            facts.group_cpu_throttled_grown.filter(|(_, periods)| *periods >= PERIODS_MIN)?;
        Found::when(throttled * 20 > periods, || {
            let limit = facts.group_cpu_milli.map_or(String::new(), |milli| format!(" ({milli} m)"));
            let figure = text!("{throttled} of {periods} periods{limit}", throttled, periods, limit);
            let advice = text!("give the container more processor time, or none of a limit");
            Found::new(CONTROL_GROUP, figure, "cpu.stat", advice)
        })
    })
}
