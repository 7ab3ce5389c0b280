//! R6: what a backlog costs, and how it is drained.

use super::{Sentence, serialized};
use crate::judge::backlog::{Backlog, Drain, Stage};
use crate::judge::{Text, both};

/// The name of a phase as reports print it.
pub fn phase_name(name: &str) -> Text {
    Text::named("phase", name)
}

impl Sentence for Backlog {
    fn sentence(&self) -> Text {
        let parts = [
            self.rests.then(|| both!("answer.nothing-produced-meanwhile")),
            cost(&self.stages),
            Some(draining(&self.drain)),
            cold(&self.drain),
            (self.filled == Some(false)).then(|| both!("backlog.time-filling-over-before")),
            (self.repeats == 1).then(|| both!("backlog.one-repeat")),
        ];
        let parts: Vec<Text> =
            parts.into_iter().flatten().chain(self.stages.iter().filter_map(unsteady)).collect();
        Text::joined(&parts).unwrap_or_default()
    }
}

serialized!(Backlog, |backlog| {
    "stages": backlog.stages,
    "drain_tps": backlog.drain.tps,
    "drain_seconds": backlog.drain.seconds,
    "drained": backlog.drain.met,
    "cold_ratio": backlog.drain.cold_ratio,
    "cold_bytes": backlog.drain.cold_bytes,
    "says": backlog.sentence(),
});

/// Describes how the send rate changed in each phase.
fn cost(stages: &[Stage]) -> Option<Text> {
    let known =
        || stages.iter().filter_map(|stage| Some((phase_name(&stage.name), stage.producers.as_ref()?)));
    let texts = known().map(|(name, ratio)| {
        let [value, low, high] = ratio.changes();
        both!("backlog.value-low-high", name, value, low, high)
    });
    let (en, zh): (Vec<String>, Vec<String>) = texts.map(|text| (text.en, text.zh)).unzip();
    let shows = known().any(|(_, ratio)| ratio.low > 1.0 || ratio.high < 1.0);
    let (en, zh) = (en.join(", "), zh.join("，"));
    (!en.is_empty()).then(|| {
        if shows {
            both!("backlog.what-producers-reach-against", en, zh)
        } else {
            both!("backlog.backlog-costs-producers-nothing", en, zh)
        }
    })
}

/// Describes a phase in which the send rate fluctuates; `None` for a steady phase.
fn unsteady(stage: &Stage) -> Option<Text> {
    let stability = stage.stability.as_ref().filter(|stability| stability.fluctuates)?;
    Some(both!("backlog.says", text = phase_name(&stage.name), says = stability.sentence()))
}

fn draining(drain: &Drain) -> Text {
    let (rate, time) = (drain.tps, drain.seconds);
    if drain.ended_early {
        both!("backlog.ended-early-while-draining", rate, time)
    } else if drain.met == Some(false) {
        both!("backlog.not-drained-read-rate", rate, time)
    } else {
        both!("backlog.drained-rate-time-s", rate, time)
    }
}

fn cold(drain: &Drain) -> Option<Text> {
    let (ratio, bytes) = drain.cold_ratio.zip(drain.cold_bytes)?;
    Some(both!("backlog.share-read-from-disk", share = ratio.min(1.0), bytes))
}
