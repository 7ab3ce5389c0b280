//! R2: readings of guards in words.

use super::{Sentence, serialized};
use crate::judge::conclusion::Case;
use crate::judge::guards::{Guard, Missing, Path, Reading, Watch};
use crate::judge::{Text, both, numbers};

impl Sentence for Guard {
    fn sentence(&self) -> Text {
        match &self.reading {
            Reading::Measured { value, limit } => measured(self.watch, *value, *limit),
            Reading::Processors { busy, others, limit } => {
                let [value, limit] = [*busy, *limit].map(numbers::percent);
                match others.map(numbers::percent) {
                    Some(rest) => both!("guards.cpu-busy-value-other", value, rest, limit),
                    None => both!("guards.cpu-busy-value-limit", value, limit),
                }
            }
            Reading::Network { path, bytes, limit } => network((self.watch, *path), *bytes, *limit),
            Reading::AskedInVain { limit_us } => {
                let (latency, limit) = (latency(self.watch), numbers::micros(*limit_us));
                both!("guards.asked-stay-below-limit", latency, limit)
            }
            Reading::NotMeasured(missing) => missing.sentence(),
        }
    }
}

/// A figure and its limit, in the unit of what is watched.
fn measured(watch: Watch, value: f64, limit: f64) -> Text {
    let [count, allowed] = [value, limit].map(|number| format!("{number:.0}"));
    let [short, most] = [value, limit].map(numbers::short);
    let [share, least] = [value, limit].map(numbers::percent);
    match watch {
        Watch::Machine | Watch::CpuBusy | Watch::NetworkIn | Watch::NetworkOut => Text::default(),
        Watch::Load => both!("guards.load-short-limit-most", short, most),
        Watch::Memory => {
            let [used, most] = [1.0 - value, 1.0 - limit].map(numbers::percent);
            both!("guards.memory-use-used-limit", used, most)
        }
        Watch::Swap => both!("guards.count-pages-swapped-limit", count, allowed),
        Watch::DiskUtil => both!("guards.disk-busy-share-limit", share, least),
        Watch::DiskWait => both!("guards.write-await-p99-short", short, most),
        Watch::IoPressure => both!("guards.everything-waits-disk-short", short, most),
        Watch::Errors => both!("guards.count-requests-failed-limit", count, allowed),
        Watch::Refusals => both!("guards.count-requests-refused-limit", count, allowed),
        Watch::Rate => {
            let [missing, most] = [(1.0 - value).max(0.0), 1.0 - limit].map(numbers::percent);
            both!("guards.missing-intended-rate-missing", missing, most)
        }
        Watch::Drift => both!("guards.consumers-fell-behind-share", share, least),
        Watch::SendP99 | Watch::EndToEndP99 => {
            let [value, limit] = [value, limit].map(numbers::micros);
            both!("guards.value-limit-limit", latency = latency(watch), value, limit)
        }
        Watch::FullCollections => both!("guards.count-full-collections-limit", count, allowed),
        Watch::CollectorPause => both!("guards.longest-collector-pause-short", short, most),
    }
}

fn latency(watch: Watch) -> Text {
    if watch == Watch::EndToEndP99 { both!("guards.end-to-end-p99") } else { both!("guards.send-p99") }
}

fn network((watch, path): (Watch, Path), bytes: f64, limit: Option<f64>) -> Text {
    let path = match (path, watch == Watch::NetworkIn) {
        (Path::Cards, true) => both!("guards.network-in"),
        (Path::Cards, false) => both!("guards.network-out"),
        (Path::Loopback, true) => both!("guards.loopback-in"),
        (Path::Loopback, false) => both!("guards.loopback-out"),
    };
    let value = numbers::bytes(bytes);
    match limit.map(numbers::bytes) {
        Some(limit) => both!("guards.path-value-s-limit", path, value, limit),
        None => both!("guards.path-value-s-its", path, value),
    }
}

impl Sentence for Missing {
    fn sentence(&self) -> Text {
        match self {
            Self::Agent => both!("guards.its-machine-run-vostok"),
            Self::Disk { filesystem } if filesystem.is_empty() => both!("guards.disk-which-one-store"),
            Self::Disk { filesystem } => both!("guards.disk-no-block-device", filesystem),
            Self::IdleDisk => both!("guards.write-await-no-self"),
            Self::Pressure => both!("guards.how-long-everything-waits"),
            Self::Delayed => both!("guards.whether-consumers-keep-up"),
            Self::Consumers => both!("guards.whether-consumers-keep-up-nothing"),
            Self::Collector => both!("guards.collector-pauses-none-seen"),
        }
    }
}

serialized!(Guard, |guard| {
    "watch": guard.watch,
    "node": guard.node,
    "used": guard.used,
    "reading": guard.sentence(),
});

/// Sources that the guards without figures of a cell would have needed, with the machine. Guards that miss the same
/// source give one text.
pub fn unseen(case: &Case<'_>) -> Vec<Text> {
    not_looked_at(case.not_measured())
}

/// Sentences about the quantities that guards without figures did not look at, each sentence once.
pub(super) fn not_looked_at<'a>(guards: impl Iterator<Item = &'a Guard>) -> Vec<Text> {
    let mut parts: Vec<Text> = Vec::new();
    for guard in guards {
        let node = if guard.node.is_empty() { String::new() } else { format!(" [{}]", guard.node) };
        let part = both!("guards.node", text = guard.sentence(), node);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}
