//! Every line of the script `os.sh` of Apache RocketMQ 5.5.0, and of the kernel settings that guides to RocketMQ repeat:
//! whether Vostok needs it, and why.

use host::Facts;
use serde::Serialize;

/// Effect of a line on a broker of Vostok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Judgement {
    /// Vostok needs it too.
    Needed,
    /// The line changes nothing that Vostok would notice.
    Harmless,
    /// The line costs messages, time or memory.
    Harmful,
}

/// A line of the script.
pub(crate) struct Line {
    /// Text about the effect of the line.
    pub text: &'static str,
    /// The kernel setting that it sets, as in `sysctl`; empty for others.
    pub setting: &'static str,
    pub judgement: Judgement,
    pub why: &'static str,
}

const fn line(text: &'static str, setting: &'static str, judgement: Judgement, why: &'static str) -> Line {
    Line { text, setting, judgement, why }
}

use Judgement::{Harmful, Harmless, Needed};

/// The lines in their order; those that the script only prints are left out.
pub(crate) const LINES: [Line; 16] = [
    line(
        "sysctl -w vm.extra_free_kbytes=2000000",
        "vm.extra_free_kbytes",
        Harmless,
        "commented out since the setting exists only in kernels of Red Hat 6; others refuse it",
    ),
    line(
        "sysctl -w vm.min_free_kbytes=1000000",
        "vm.min_free_kbytes",
        Harmful,
        "commented out; on a small machine it takes the memory that the page cache needs, Vostok does not allocate in bursts",
    ),
    line(
        "sysctl -w vm.overcommit_memory=1",
        "vm.overcommit_memory",
        Harmless,
        "is for the heap and the maps of a JVM; Vostok reserves no memory that it does not use",
    ),
    line(
        "sysctl -w vm.drop_caches=1",
        "vm.drop_caches",
        Harmful,
        "empties the page cache once: consumers that were read from memory are read from the disk until it is warm again",
    ),
    line(
        "sysctl -w vm.zone_reclaim_mode=0",
        "vm.zone_reclaim_mode",
        Needed,
        "is the default of today; another value makes a node of memory drop the page cache while the others are free",
    ),
    line(
        "sysctl -w vm.max_map_count=655360",
        "vm.max_map_count",
        Harmless,
        "Java maps every file of log and queues; Vostok writes without maps and opens files on demand",
    ),
    line(
        "sysctl -w vm.dirty_background_ratio=50",
        "vm.dirty_background_ratio",
        Harmful,
        "half of the memory may wait to be written: a power cut takes more, and the write-back that comes stalls everybody; Vostok writes back in small steps",
    ),
    line(
        "sysctl -w vm.dirty_ratio=50",
        "vm.dirty_ratio",
        Harmful,
        "the same with writers stopped at the limit; leave 20",
    ),
    line(
        "sysctl -w vm.dirty_writeback_centisecs=360000",
        "vm.dirty_writeback_centisecs",
        Harmful,
        "the kernel looks for old data once an hour; under ASYNC_FLUSH other files of the machine, such as tables, are lost with a power cut",
    ),
    line(
        "sysctl -w vm.page-cluster=3",
        "vm.page-cluster",
        Harmless,
        "is the default, and only about reading from swap",
    ),
    line(
        "sysctl -w vm.swappiness=1",
        "vm.swappiness",
        Needed,
        "a broker that was swapped out answers late; without swap it changes nothing",
    ),
    line(
        "ulimit -n 655350 in /etc/profile",
        "",
        Needed,
        "each connection and each open file counts; a service of systemd does not read /etc/profile and needs LimitNOFILE",
    ),
    line(
        "* hard nofile 655350 in limits.conf",
        "",
        Needed,
        "sets only the hard limit, which Vostok cannot do without either; the soft one must be raised too",
    ),
    line(
        "* hard and soft memlock unlimited in limits.conf",
        "",
        Harmless,
        "Java locks the file that it writes in memory (mlock); Vostok locks nothing",
    ),
    line(
        "echo deadline > /sys/block/DISK/queue/scheduler",
        "",
        Harmless,
        "the name was of old kernels, today it is mq-deadline; disks that do not turn do well with none",
    ),
    line(
        "ln -s /dev/shm tmpfs",
        "",
        Harmless,
        "nothing of Vostok uses it, and a store in it is gone after a restart of the machine",
    ),
];

/// A line as it is shown.
#[derive(Serialize)]
pub(crate) struct Row {
    line: &'static str,
    judgement: Judgement,
    /// The value of the setting on this machine; empty where there is none.
    here: String,
    why: &'static str,
}

/// The lines with the values of this machine.
pub(crate) fn rows(facts: &Facts) -> Vec<Row> {
    let row = |line: &Line| {
        let here = match line.text {
            text if text.contains("nofile") || text.contains("ulimit") => {
                facts.open_files_max.map(|it| it.to_string())
            }
            text if text.contains("scheduler") => {
                facts.mounts.iter().find_map(|mount| mount.scheduler.clone())
            }
            _ => facts.settings.get(line.setting).map(ToString::to_string),
        };
        Row { line: line.text, judgement: line.judgement, here: here.unwrap_or_default(), why: line.why }
    };
    LINES.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_value_of_the_machine_beside_it() {
        let mut facts = Facts { open_files_max: Some(1024), ..Facts::default() };
        facts.settings.insert("vm.swappiness".to_owned(), 60);
        let rows = rows(&facts);
        let here = |part: &str| rows.iter().find(|row| row.line.contains(part)).unwrap().here.clone();
        assert_eq!(
            (here("swappiness"), here("ulimit"), here("page-cluster")),
            ("60".into(), "1024".into(), String::new())
        );
    }

    #[test]
    fn settings_of_lines_are_those_that_the_machine_is_asked_for() {
        // The facts of this machine name every setting but those that its kernel does not have.
        let source = host::Source { root: "/".into(), paths: Vec::new(), broker_ports: Vec::new() };
        let settings = Facts::read(&source).settings;
        if settings.is_empty() {
            return;
        }
        let optional = ["vm.extra_free_kbytes", "vm.zone_reclaim_mode", "vm.drop_caches", ""];
        for line in LINES.iter().filter(|line| !optional.contains(&line.setting)) {
            assert!(settings.contains_key(line.setting), "{}", line.setting);
        }
    }
}
