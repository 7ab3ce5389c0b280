//! Checks of the machine that a broker runs on. What Java needs and Vostok does not, is checked where a Java broker runs.

use super::bilingual::{Both, Text, text};
use super::bundle::Bundle;
use super::finding::{Check, Found, Look, checks};
use crate::Lang;
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
const NEEDS: Both = ("facts of the machine", "机器的信息");
const CONTROL_GROUP: Both = ("control group", "控制组");
const NEEDS_GROUPS: Both = ("facts of a machine with control groups", "有控制组的机器的信息");

pub(crate) const CHECKS: &[Check] = checks! {
    "open-files-limit", Warning, open_files,
        "A broker, or a process that this session would start, may open fewer than 65536 files and connections",
        "broker（或从此会话启动的进程）可打开的文件和连接少于 65536", NEEDS;
    "open-files-used-up", Critical, open_files_used_up, "A broker has more than nine tenths of its files open",
        "broker 已打开的文件超过上限的九成",
        ("facts of a machine with a broker that may be looked into", "可查看其 broker 进程的机器的信息");
    "maps-limit", Warning, maps, "vm.max_map_count is so low that a Java broker cannot map its files",
        "vm.max_map_count 过低，Java broker 无法映射文件",
        ("facts of a machine with a Java broker", "运行 Java broker 的机器的信息");
    "huge-pages-always", Advice, huge_pages,
        "Transparent huge pages are always on, which stalls processes while the kernel moves memory",
        "透明大页始终开启，内核搬移内存时进程会停顿", NEEDS;
    "swap-in-use", Warning, swap_in_use, "Memory was swapped out", "有内存被换出", NEEDS;
    "swappiness", Advice, swappiness,
        "The machine has swap, and the kernel is eager to use it (vm.swappiness above 10)",
        "机器有交换区，而内核倾向于使用它（vm.swappiness 大于 10）", NEEDS;
    "dirty-limits", Warning, dirty_limits,
        "The kernel lets much unwritten data pile up and then stops all writers (vm.dirty_ratio above 40)",
        "内核允许堆积大量未写数据，之后阻塞所有写入者（vm.dirty_ratio 大于 40）", NEEDS;
    "write-back-rare", Critical, writeback,
        "The kernel begins to write back so rarely that a power cut takes minutes of messages (vm.dirty_writeback_centisecs)",
        "内核很少开始回写，断电会丢失数分钟的消息（vm.dirty_writeback_centisecs）", NEEDS;
    "io-scheduler", Advice, scheduler,
        "A disk of the store that does not turn has a scheduler that reorders for turning disks",
        "存储所在的非旋转磁盘使用了面向旋转磁盘的调度器",
        ("facts of the machine with the disk of a store", "存储磁盘所在机器的信息");
    "file-system", Warning, file_system,
        "The store is on a file system that is shared over a network, in memory, or a layer of a container",
        "存储位于网络、内存文件系统或容器层上",
        ("facts of the machine with the directory of a store", "存储目录所在机器的信息");
    "clock-source", Warning, clock_source, "Reading the clock needs the kernel or the hypervisor each time",
        "每次读取时钟都要经过内核或虚拟机管理程序", NEEDS;
    "control-group-memory", Warning, group_memory,
        "The control group has little memory, or the kernel already ended processes in it",
        "控制组内存过小，或内核已在其中结束过进程", NEEDS_GROUPS;
    "control-group-processor", Warning, group_cpu,
        "The control group has to wait for processor time in more than one of a hundred periods",
        "控制组在百分之一以上的周期里要等待处理器时间", NEEDS_GROUPS;
};

/// Looks at the facts of the machine, if there are any.
fn facts(bundle: &Bundle, look: impl Fn(&Facts) -> Option<Vec<Found>>) -> Look {
    Look::each(&bundle.host, look)
}

/// A broker's process.
fn process(broker: &BrokerProcess) -> Text {
    let (program, pid) = (&broker.program, broker.pid);
    text!("{program} broker, pid {pid}", "{program} broker，pid {pid}")
}

fn open_files(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let found = |subject: Text, limit: u64, source: &str| {
            let advice = text!(
                "LimitNOFILE=655350 in the unit of systemd, or nofile in /etc/security/limits.conf; then restart the broker",
                "在 systemd 单元中设置 LimitNOFILE=655350，或在 /etc/security/limits.conf 中设置 nofile；然后重启 broker"
            );
            let figure = text!("{limit} files", "{limit} 个文件");
            (limit < OPEN_FILES).then(|| Found::new(subject, figure, source, advice))
        };
        if facts.brokers.is_empty() {
            let limit = facts.open_files_max?;
            let session = text!("this session", "此会话");
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
            let figure = text!("{open} of {limit} files", "{limit} 个文件中已打开 {open} 个");
            let advice = text!("raise LimitNOFILE and restart the broker", "调大 LimitNOFILE 并重启 broker");
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
            let figure = text!("{used} KiB swapped out", "换出了 {used} KiB");
            let advice = text!(
                "find who needs the memory; then swapoff -a && swapon -a",
                "找出占用内存的进程；然后 swapoff -a && swapon -a"
            );
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
            let figure = text!("{ratio} % of the memory", "内存的 {ratio} %");
            Found::new("vm.dirty_ratio", figure, "/proc/sys/vm", fix)
        })
    })
}

fn writeback(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let period = *facts.settings.get("vm.dirty_writeback_centisecs")?;
        Found::when(period > WRITEBACK_CENTISECS || period == 0, || {
            let figure = match period {
                0 => text!("never", "从不"),
                period => {
                    let seconds = period / 100;
                    text!("every {seconds} s", "每 {seconds} 秒")
                }
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
            let fix = text!(
                "echo none > /sys/class/block/{name}/queue/scheduler (of the disk, if {name} is a partition)",
                "echo none > /sys/class/block/{name}/queue/scheduler（如果 {name} 是分区，用其所在的磁盘）"
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
            let figure = text!("{path} is on {kind} ({device})", "{path} 位于 {kind}（{device}）");
            let advice = text!(
                "put the store on ext4 or xfs of a disk of its own: storePathRootDir, or a volume of the container",
                "把存储放到独立磁盘的 ext4 或 xfs 上：storePathRootDir，或容器的卷"
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
            Found::new(text!("clock source", "时钟源"), source, "/sys/devices/system/clocksource", fix)
        })
    })
}

fn group_memory(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let kills = facts.group_memory_kills?;
        let limit = facts.group_memory_max;
        Found::when(kills > 0 || limit.is_some_and(|limit| limit < GROUP_BYTES), || {
            let limit = match limit.map(|limit| limit >> 20) {
                Some(limit) => text!("limit {limit} MiB", "上限 {limit} MiB"),
                None => text!("no limit", "没有上限"),
            };
            let (en, zh) = (limit.of(Lang::En), limit.of(Lang::Zh));
            let figure = text!("{en}, {kills} processes ended", "{zh}，{kills} 个进程被结束");
            let advice = text!(
                "give the container more memory; the page cache of the log counts in it",
                "给容器更多内存；日志的页缓存也计算在内"
            );
            Found::new(CONTROL_GROUP, figure, "memory.max, memory.events", advice)
        })
    })
}

fn group_cpu(bundle: &Bundle) -> Look {
    facts(bundle, |facts| {
        let (throttled, periods) = facts.group_cpu_throttled?;
        Found::when(throttled * 100 > periods, || {
            let limit = facts.group_cpu_milli.map_or(String::new(), |milli| format!(" ({milli} m)"));
            let figure = text!(
                "{throttled} of {periods} periods{limit}",
                "{periods} 个周期中有 {throttled} 个{limit}"
            );
            let advice = text!(
                "give the container more processor time, or none of a limit",
                "给容器更多处理器时间，或者取消上限"
            );
            Found::new(CONTROL_GROUP, figure, "cpu.stat", advice)
        })
    })
}
