//! Sentences about the cost of a failed master for its clients.

use super::{Sentence, serialized};
use crate::judge::failover::{Failover, Gap, Outage, Spread, WentBack};
use crate::judge::{Text, both, numbers};

impl Sentence for Gap {
    fn sentence(&self) -> Text {
        match self {
            Self::Short => both!("failover.none-shows"),
            Self::Ms(ms) => Text::same(numbers::micros(ms * 1_000.0)),
            Self::Endless => both!("failover.without-end"),
        }
    }
}

impl Sentence for Spread {
    fn sentence(&self) -> Text {
        let Self { median, p99, max } = self;
        let [median, p99, max] = [median, p99, max].map(Gap::sentence);
        both!("failover.median-p99-p99-en-longest", median, p99, max)
    }
}

impl Sentence for WentBack {
    fn sentence(&self) -> Text {
        let (queues, messages, unknown) = (self.queues, self.messages, self.unknown);
        let mut parts = Vec::new();
        if self.queues > 0 {
            let age_us = self.age_ms * 1_000;
            parts.push(both!("failover.committed-offsets-queues-queues", queues, messages, age_us));
        }
        if unknown > 0 {
            parts.push(both!("failover.offsets-unknown-queues-could", unknown));
        }
        Text::joined(&parts).unwrap_or_else(|| both!("failover.no-committed-offset-went"))
    }
}

impl Sentence for Failover {
    fn sentence(&self) -> Text {
        let [service, longest, client] = [&self.service, &self.longest, &self.client].map(Spread::sentence);
        let mut parts = vec![
            both!("failover.fault-rounds", fault = &self.fault, rounds = self.rounds_text()),
            both!("failover.says-service", service),
            both!("failover.says-longest", longest),
            both!("failover.says-client", client),
        ];
        parts.extend(messages(self));
        let (refused, failed) = (self.sum(|round| round.refused), self.sum(|round| round.failed));
        parts.push(both!("failover.refused-sends-refused-failed", refused, failed));
        parts.push(self.worst_back().sentence());
        let stuck = self.count(|round| !round.is_whole);
        if stuck > 0 {
            parts.push(both!("failover.stuck-rounds-cluster-not", stuck));
        }
        Text::joined(&parts).unwrap_or_default()
    }
}

impl Failover {
    /// The number of rounds, beside the number that was planned when the run ended early.
    pub fn rounds_text(&self) -> Text {
        let (rounds, planned) = (self.rounds.len(), self.planned);
        if rounds < planned {
            return both!("failover.rounds-planned-rounds-interrupted", rounds, planned);
        }
        both!("failover.rounds-rounds", rounds)
    }
}

/// Sentence about the outcome of messages.
fn messages(all: &Failover) -> Vec<Text> {
    let (lost, doubled) = (all.lost(), all.sum(|round| round.doubled));
    let (late, changed) = (all.sum(|round| round.out_of_order), all.sum(|round| round.changed));
    let unread = all.count(|round| round.lost.is_none());
    let mut parts = vec![both!("failover.lost-acknowledged-messages-lost", lost, doubled, late, changed)];
    if unread > 0 {
        parts.push(both!("failover.unread-rounds-consumers-not", unread));
    }
    parts
}

serialized!(Outage, |round| {
    "round": round.number,
    "service_gap_ms": round.service.ms(),
    "longest_gap_ms": round.longest.ms(),
    "client_gaps_ms": round.clients.iter().map(|gap| gap.ms()).collect::<Vec<_>>(),
    "refused": round.refused,
    "unanswered": round.failed,
    "lost": round.lost,
    "doubled": round.doubled,
    "out_of_order": round.out_of_order,
    "changed": round.changed,
    "offsets_back": round.back.queues,
    "offsets_back_messages": round.back.messages,
    "offsets_back_age_ms": round.back.age_ms,
    "offsets_unknown": round.back.unknown,
    "whole": round.is_whole,
    "moved": round.moved,
});

serialized!(Spread, |spread| {
    "median_ms": spread.median.ms(),
    "p99_ms": spread.p99.ms(),
    "max_ms": spread.max.ms(),
});

serialized!(Failover, |failover| {
    "fault": failover.fault,
    "service_gap": failover.service,
    "longest_gap": failover.longest,
    "client_gap": failover.client,
    "rounds": failover.rounds,
    "says": failover.sentence(),
});
