//! R2: readings of guards in words.

use super::{Sentence, serialized};
use crate::judge::conclusion::Case;
use crate::judge::guards::{Guard, Missing, Path, Reading, Watch};
use crate::judge::{Text, both};

impl Sentence for Guard {
    fn sentence(&self) -> Text {
        match &self.reading {
            Reading::Measured { value, limit } => measured(self.watch, *value, *limit),
            Reading::Processors { busy, others: Some(others), limit } => {
                both!("guards.cpu-busy-value-other", busy, others, limit)
            }
            Reading::Processors { busy, others: None, limit } => {
                both!("guards.cpu-busy-value-limit", busy, limit)
            }
            Reading::Network { path, bytes, limit } => network((self.watch, *path), *bytes, *limit),
            Reading::AskedInVain { limit_us } => {
                both!("guards.asked-stay-below-limit", latency = latency(self.watch), limit_us)
            }
            Reading::NotMeasured(missing) => missing.sentence(),
        }
    }
}

/// A figure and its limit, in the unit of what is watched.
fn measured(watch: Watch, value: f64, limit: f64) -> Text {
    match watch {
        Watch::Machine | Watch::CpuBusy | Watch::NetworkIn | Watch::NetworkOut => Text::default(),
        Watch::Load => both!("guards.load-short-limit-most", value, limit),
        Watch::Memory => both!("guards.memory-use-used-limit", used = 1.0 - value, most = 1.0 - limit),
        Watch::Swap => both!("guards.count-pages-swapped-limit", value, limit),
        Watch::DiskUtil => both!("guards.disk-busy-share-limit", value, limit),
        Watch::DiskWait => both!("guards.write-await-p99-short", value, limit),
        Watch::IoPressure => both!("guards.everything-waits-disk-short", value, limit),
        Watch::Errors => both!("guards.count-requests-failed-limit", value, limit),
        Watch::Refusals => both!("guards.count-requests-refused-limit", value, limit),
        Watch::Rate => {
            both!(
                "guards.missing-intended-rate-missing",
                missing = (1.0 - value).max(0.0),
                most = 1.0 - limit
            )
        }
        Watch::Drift => both!("guards.consumers-fell-behind-share", value, limit),
        Watch::SendP99 | Watch::EndToEndP99 => {
            both!("guards.value-limit-limit", latency = latency(watch), value, limit)
        }
        Watch::FullCollections => both!("guards.count-full-collections-limit", value, limit),
        Watch::CollectorPause => both!("guards.longest-collector-pause-short", value, limit),
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
    match limit {
        Some(limit) => both!("guards.path-value-s-limit", path, bytes, limit),
        None => both!("guards.path-value-s-its", path, bytes),
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
