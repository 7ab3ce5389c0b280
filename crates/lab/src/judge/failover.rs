//! Time for which clients are without service when a master fails, and messages and offsets that are lost, duplicated,
//! reordered or forgotten.
//!
//! A cell of a failover run has a round in each repeat. A gap is the time between two acknowledgements. The service gap is the
//! one that the fault made: it begins with the last acknowledgement before the fault, or with one that was under way then.
//! Another, longer one may follow later when the new master fails to serve.

use crate::archive::{CommittedOffset, LoadSecond, RecordedCell, Repeat, Round, RunFile, Silence};

/// Milliseconds after the injection of a fault within which its gap begins.
const UNDER_WAY_MS: f64 = 1_000.0;

/// A time without an acknowledgement. The variants are in the order of their lengths.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Gap {
    /// Too short to be noticed.
    Short,
    /// Milliseconds.
    Ms(f64),
    /// No acknowledgement came until producers stopped.
    Endless,
}

/// A gap on the time axis of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Begin, milliseconds after the fault; negative before it.
    pub from_ms: f64,
    /// End, milliseconds after the fault; `None` when there was none.
    pub to_ms: Option<f64>,
}

/// Gaps of all rounds, by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Gap that half of the gaps do not exceed.
    pub median: Gap,
    /// Gap that 99 % of the gaps do not exceed.
    pub p99: Gap,
    /// The longest gap.
    pub max: Gap,
}

/// Committed offsets that were smaller after a fault than before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WentBack {
    /// Number of queues.
    pub queues: usize,
    /// Most messages by which the offset of a queue went back.
    pub messages: i64,
    /// Age at the fault of the oldest commit that was lost, milliseconds.
    pub age_ms: u64,
    /// Number of queues whose offset could not be asked for.
    pub unknown: usize,
}

/// Effects of a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// Number of the round, from 1.
    pub number: u32,
    /// The time from the last acknowledgement before the fault to the first after it.
    pub service: Gap,
    /// The longest time without any acknowledgement, from the fault on.
    pub longest: Gap,
    /// The longest gap of each client, shortest first.
    pub clients: Vec<Gap>,
    /// The gaps of all clients together, for the timeline.
    pub spans: Vec<Span>,
    /// Milliseconds from the fault to its end.
    pub healed_ms: f64,
    /// Requests that got no answer since the fault.
    pub failed: u64,
    /// Requests that were refused since the fault.
    pub refused: u64,
    /// Acknowledged messages that never arrived; `None` when consumers had not caught up.
    pub lost: Option<u64>,
    /// Messages that arrived more than once.
    pub doubled: u64,
    /// Messages that arrived after later ones of their queue and client.
    pub out_of_order: u64,
    /// Messages that arrived with another body.
    pub changed: u64,
    /// Committed offsets that went back.
    pub back: WentBack,
    /// Whether the cluster was whole again in time.
    pub is_whole: bool,
    /// Whether another broker was master at the end.
    pub moved: bool,
}

/// The verdict on the faults of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Failover {
    /// Name of the fault.
    pub fault: String,
    /// Effects of each fault.
    pub rounds: Vec<Outage>,
    /// Number of rounds that the run was meant to have.
    pub planned: usize,
    /// Service gaps.
    pub service: Spread,
    /// Longest times without any acknowledgement.
    pub longest: Spread,
    /// Gaps of all clients in all rounds.
    pub client: Spread,
}

/// Judges a cell of a failover run; `None` for any other cell, and without a complete round.
pub fn failover(file: &RunFile, cell: &RecordedCell) -> Option<Failover> {
    let rounds: Vec<Outage> = (1..)
        .zip(&cell.repeats)
        .filter_map(|(number, repeat)| {
            let rest = cell.cell.phases.iter().find(|phase| phase.repeat == number && phase.name == "rest");
            let is_read = rest.is_some_and(|phase| phase.met == Some(true));
            Some(outage(number, repeat, repeat.round.as_ref()?, is_read))
        })
        .collect();
    Some(Failover {
        fault: cell.cell.factors.more.get("fault").cloned().unwrap_or_default(),
        service: spread(rounds.iter().map(|round| round.service))?,
        longest: spread(rounds.iter().map(|round| round.longest))?,
        client: spread(rounds.iter().flat_map(|round| round.clients.iter().copied()))?,
        planned: file.repeats as usize,
        rounds,
    })
}

fn outage(number: u32, repeat: &Repeat, round: &Round, is_read: bool) -> Outage {
    let since = |of: fn(&LoadSecond) -> u64| {
        repeat.load.iter().filter(|second| second.at_ms > round.fault_ms).map(of).sum::<u64>()
    };
    let count = |name: &str| round.checked.get(name).copied().unwrap_or_default();
    let of = |connection: Option<u32>| {
        let own = round.silences.iter().filter(move |silence| silence.connection == connection);
        own.filter_map(|silence| span(silence, round.fault_ms)).collect::<Vec<_>>()
    };
    let spans = of(None);
    let mut clients: Vec<Gap> = (0..round.connections).map(|client| longest(&of(Some(client)))).collect();
    clients.sort_by(order);
    let begins_before_ms = round.injected_ms.saturating_sub(round.fault_ms) as f64 + UNDER_WAY_MS;
    Outage {
        number,
        service: longest(spans.iter().filter(|span| span.from_ms < begins_before_ms)),
        longest: longest(&spans),
        clients,
        spans,
        healed_ms: round.heal_ms.saturating_sub(round.fault_ms) as f64,
        failed: since(|second| second.failed),
        refused: since(|second| second.refused),
        lost: is_read.then(|| count("missing")),
        doubled: count("doubled"),
        out_of_order: count("out_of_order"),
        changed: count("changed"),
        back: went_back(&round.offsets, round.fault_ms),
        is_whole: round.is_whole == Some(true),
        moved: !round.master_after.is_empty() && round.master_after != round.master,
    }
}

/// A silence on the time axis of its round; `None` when it had ended before the fault.
fn span(silence: &Silence, fault_ms: u64) -> Option<Span> {
    let after = |us: u64| us as f64 / 1_000.0 - fault_ms as f64;
    let span = Span { from_ms: after(silence.from_us), to_ms: silence.to_us.map(after) };
    span.to_ms.is_none_or(|to_ms| to_ms > 0.0).then_some(span)
}

fn longest<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Gap {
    spans.into_iter().map(Span::gap).max_by(order).unwrap_or(Gap::Short)
}

/// The offsets that are smaller than an earlier committed offset.
fn went_back(offsets: &[CommittedOffset], fault_ms: u64) -> WentBack {
    let mut all = WentBack::default();
    for CommittedOffset { commits, found, .. } in offsets {
        let (Some((_, last)), Some(found)) = (commits.last(), found) else {
            all.unknown += usize::from(!commits.is_empty());
            continue;
        };
        let Some((at_ms, _)) = commits.iter().find(|(_, offset)| offset > found) else { continue };
        all.queues += 1;
        all.messages = all.messages.max(last - found);
        all.age_ms = all.age_ms.max(fault_ms.saturating_sub(*at_ms));
    }
    all
}

/// The spread of gaps; `None` when there are none.
pub fn spread(gaps: impl Iterator<Item = Gap>) -> Option<Spread> {
    let mut all: Vec<Gap> = gaps.collect();
    all.sort_by(order);
    let at = |percent: usize| all.get((all.len() * percent).div_ceil(100).checked_sub(1)?).copied();
    Some(Spread { median: at(50)?, p99: at(99)?, max: at(100)? })
}

/// The order of gaps. Their lengths are numbers, so every two of them can be compared.
fn order(one: &Gap, other: &Gap) -> std::cmp::Ordering {
    one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal)
}

impl Span {
    fn gap(&self) -> Gap {
        self.to_ms.map_or(Gap::Endless, |to_ms| Gap::Ms(to_ms - self.from_ms))
    }
}

impl Gap {
    /// Milliseconds; 0 for a gap that was too short to be noticed, `None` for one without an end.
    pub fn ms(self) -> Option<f64> {
        match self {
            Self::Short => Some(0.0),
            Self::Ms(ms) => Some(ms),
            Self::Endless => None,
        }
    }
}

impl Failover {
    /// The sum of a count over all rounds.
    pub fn sum(&self, of: fn(&Outage) -> u64) -> u64 {
        self.rounds.iter().map(of).sum()
    }

    /// Acknowledged messages that were lost in the rounds of which that is known.
    pub fn lost(&self) -> u64 {
        self.sum(|round| round.lost.unwrap_or_default())
    }

    /// Number of rounds for which this holds.
    pub fn count(&self, is_so: fn(&Outage) -> bool) -> usize {
        self.rounds.iter().filter(|round| is_so(round)).count()
    }

    /// Worst outcome of committed offsets.
    pub fn worst_back(&self) -> WentBack {
        self.rounds.iter().fold(WentBack::default(), |worst, Outage { back, .. }| WentBack {
            queues: worst.queues.max(back.queues),
            messages: worst.messages.max(back.messages),
            age_ms: worst.age_ms.max(back.age_ms),
            unknown: worst.unknown.max(back.unknown),
        })
    }
}

#[cfg(test)]
mod tests;
