//! Checks of the machine that a broker runs on. What Java needs and Vostok does not, is checked where a Java broker runs.

use super::bundle::Bundle;
use super::finding::{Check, Found, Look, checks};
use host::Facts;

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
const NEEDS: &str = "facts of the machine";

pub(crate) const CHECKS: &[Check] = checks! {
    "open-files-limit", Warning, open_files,
        "A broker, or a process that this session would start, may open fewer than 65536 files and connections",
        NEEDS;
    "open-files-used-up", Critical, open_files_used_up, "A broker has more than nine tenths of its files open",
        "facts of a machine with a broker that may be looked into";
    "maps-limit", Warning, maps, "vm.max_map_count is so low that a Java broker cannot map its files",
        "facts of a machine with a Java broker";
    "huge-pages-always", Advice, huge_pages,
        "Transparent huge pages are always on, which stalls processes while the kernel moves memory", NEEDS;
    "swap-in-use", Warning, swap_in_use, "Memory was swapped out",
        NEEDS;
    "swappiness", Advice, swappiness,
        "The machine has swap, and the kernel is eager to use it (vm.swappiness above 10)", NEEDS;
    "dirty-limits", Warning, dirty_limits,
        "The kernel lets much unwritten data pile up and then stops all writers (vm.dirty_ratio above 40)",
        NEEDS;
    "write-back-rare", Critical, writeback,
        "The kernel begins to write back so rarely that a power cut takes minutes of messages (vm.dirty_writeback_centisecs)",
        NEEDS;
    "io-scheduler", Advice, scheduler,
        "A disk of the store that does not turn has a scheduler that reorders for turning disks",
        "facts of the machine with the disk of a store";
    "file-system", Warning, file_system,
        "The store is on a file system that is shared over a network, in memory, or a layer of a container",
        "facts of the machine with the directory of a store";
    "clock-source", Warning, clock_source, "Reading the clock needs the kernel or the hypervisor each time",
        NEEDS;
    "control-group-memory", Warning, group_memory,
        "The control group has little memory, or the kernel already ended processes in it",
        "facts of a machine with control groups";
    "control-group-processor", Warning, group_cpu,
        "The control group has to wait for processor time in more than one of a hundred periods",
        "facts of a machine with control groups";
};

/// Looks at the facts of the machine, if there are any.
fn facts(bundle: &Bundle, look: impl Fn(&Facts) -> Option<Vec<Found>>) -> Look {
    Look::each(&bundle.host, look)
}

fn open_files(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let found = |subject: String, limit: u64, source: &str| {
            let fix = "LimitNOFILE=655350 in the unit of systemd, or nofile in /etc/security/limits.conf; then restart the broker";
            (limit < OPEN_FILES).then(|| Found::new(subject, format!("{limit} files"), source, fix))
        };
        if facts.brokers.is_empty() {
            let limit = facts.open_files_max?;
            return Some(found("this session".to_owned(), limit, "/proc/self/limits").into_iter().collect());
        }
        let limits = facts.brokers.iter().filter_map(|broker| {
            let subject = format!("{} broker, pid {}", broker.program, broker.pid);
            found(subject, broker.open_files_max?, "/proc/PID/limits")
        });
        Some(limits.collect())
    })
}

fn open_files_used_up(bundle: &Bundle) -> Look {
    Look::each(bundle.host.iter().flat_map(|facts| &facts.brokers), |broker| {
        let (open, limit) = (broker.open_files?, broker.open_files_max?);
        Found::when(open * 10 > limit * 9, || {
            let subject = format!("{} broker, pid {}", broker.program, broker.pid);
            Found::new(
                subject,
                format!("{open} of {limit} files"),
                "/proc/PID/fd",
                "raise LimitNOFILE and restart the broker",
            )
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
            Found::new(
                "swap",
                format!("{used} KiB swapped out"),
                "/proc/meminfo",
                "find who needs the memory; then swapoff -a && swapon -a",
            )
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
            Found::new("vm.dirty_ratio", format!("{ratio} % of the memory"), "/proc/sys/vm", fix)
        })
    })
}

fn writeback(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let period = *facts.settings.get("vm.dirty_writeback_centisecs")?;
        Found::when(period > WRITEBACK_CENTISECS || period == 0, || {
            let figure = match period {
                0 => "never".to_owned(),
                period => format!("every {} s", period / 100),
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
            let name = mount.device.trim_start_matches("/dev/");
            let fix = format!(
                "echo none > /sys/class/block/{name}/queue/scheduler (of the disk, if {name} is a partition)"
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
            let figure = format!("{} is on {kind} ({})", mount.path, mount.device);
            Found::new(
                &mount.path,
                figure,
                "/proc/mounts",
                "put the store on ext4 or xfs of a disk of its own: storePathRootDir, or a volume of the container",
            )
        })
    })
}

fn clock_source(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let source = facts.clock_source.as_deref()?;
        Found::when(matches!(source, "hpet" | "acpi_pm" | "xen" | "jiffies" | "refined-jiffies"), || {
            let fix = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
            Found::new("clock source", source, "/sys/devices/system/clocksource", fix)
        })
    })
}

fn group_memory(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let kills = facts.group_memory_kills?;
        let limit = facts.group_memory_max;
        Found::when(kills > 0 || limit.is_some_and(|limit| limit < GROUP_BYTES), || {
            let limit = limit.map_or("no limit".to_owned(), |limit| format!("limit {} MiB", limit >> 20));
            let fix = "give the container more memory; the page cache of the log counts in it";
            Found::new(
                "control group",
                format!("{limit}, {kills} processes ended"),
                "memory.max, memory.events",
                fix,
            )
        })
    })
}

fn group_cpu(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let (throttled, periods) = facts.group_cpu_throttled?;
        Found::when(throttled * 100 > periods, || {
            let limit = facts.group_cpu_milli.map_or(String::new(), |milli| format!(", limit {milli} m"));
            let figure = format!("{throttled} of {periods} periods{limit}");
            Found::new(
                "control group",
                figure,
                "cpu.stat",
                "give the container more processor time, or none of a limit",
            )
        })
    })
}
