//! R13: how many masters, slaves, name servers and controllers are needed, how much disk, and is the network fast
//! enough?
//!
//! - A master is planned with 70 % of its highest safe rate, so that it can drain a backlog beside the live load.
//! - There is one more master for every failure that must be survived, because the others carry its share. As many
//!   slaves per master keep its messages, and a send is acknowledged only when all of them have it.
//! - Each master sends every message to every slave and every group, and answers: at most 80 % of its network.
//! - A disk is filled to three quarters. The rest is for files that wait for deletion, the index and recovery.

use super::target::Target;
use crate::judge::RecordedVerdict;
use crate::judge::balance::Quantity;
use crate::judge::balance::properties;
use crate::judge::conclusion::{Case, Conclusion, SUSTAINED_SECONDS};
use crate::judge::figures::{Figures, broker_host_names};
use crate::judge::guards::Guard;
use crate::judge::planned::{
    DELIVERED_BESIDE, FILLED, NETWORK, PLANNED, Reservation, STORED_BESIDE, Source, Step,
};
use serde::{Deserialize, Serialize};

/// Share by which a planned message size may exceed the measured size and count as the same. Beyond it the rate is
/// scaled by the bytes, because bytes are the limit then.
const SAME_SIZE: f64 = 0.05;

/// The figures of one master on which a plan is based.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    /// Safe messages per second of one master, at the planned message size.
    pub safe_tps: f64,
    /// Bytes stored per message beside its body.
    pub stored_beside: f64,
    /// Number of consumer groups, and of slaves per master, in the run that measured the rate; `None` for a rate that
    /// the user gave.
    pub beside: Option<(u32, u32)>,
    /// Source of the rate.
    pub source: Source,
    /// Reservations about the rate.
    pub careful: Vec<Reservation>,
}

/// A topology with the arithmetic behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Number of masters, spares included.
    pub masters: u32,
    /// Number of slaves per master.
    pub slaves: u32,
    /// Number of name servers.
    pub name_servers: u32,
    /// Number of controllers for automatic failover of slaves; the generated files work without.
    pub controllers: u32,
    /// Bytes of disk per broker.
    pub disk_bytes: f64,
    /// Bytes per second that each master sends after as many failures as must be survived.
    pub send_bytes: f64,
    /// Every step of the arithmetic, for people to check.
    pub steps: Vec<RecordedVerdict<Step>>,
}

impl Basis {
    /// The basis for a rate that the user gives.
    pub fn named(safe_tps: f64, size: f64) -> Self {
        let source = Source::Named { tps: safe_tps, size };
        Self { safe_tps, stored_beside: STORED_BESIDE, beside: None, source, careful: Vec::new() }
    }

    /// The basis by the best safe cell of a run; `None` without one. Messages larger than in the run are planned by
    /// their bytes.
    pub fn measured(run: &Conclusion<'_>, size: f64) -> Option<Self> {
        let masters =
            run.record.file.target.brokers.iter().filter(|broker| broker.id == 0).count().max(1) as f64;
        let (case, figures) = best(run, size)?;
        let measured = case.factors().size as f64;
        // The lower end of the interval is used, because the plan must hold.
        let tps = figures.tps.low / masters;
        let scaled = if size > measured * (1.0 + SAME_SIZE) { tps * measured / size } else { tps };
        let disk =
            case.balance.iter().find(|term| term.quantity == Quantity::DiskWritten).map(|term| term.beside);
        let stored_beside = disk
            .filter(|beside| (20.0..1_000.0 + properties(case.factors())).contains(beside))
            .unwrap_or(STORED_BESIDE);
        let source = Source::Measured {
            run: run.record.file.id.clone(),
            cell: case.judged.cell.cell.name.clone(),
            tps,
            measured,
            planned: scaled,
            size,
        };
        let slaves = run.record.file.target.brokers.iter().filter(|broker| broker.id > 0).count();
        let beside = Some((case.factors().groups, (slaves as f64 / masters) as u32));
        Some(Self { safe_tps: scaled, stored_beside, beside, source, careful: careful(run, case) })
    }
}

/// The safe cell for a plan: the one of the nearest size, then one that was held long enough, then the highest rate.
fn best<'a>(run: &'a Conclusion<'_>, size: f64) -> Option<(&'a Case<'a>, &'a Figures)> {
    let safe = run.cells.iter().filter(|case| case.is_safe());
    let safe = safe.filter_map(|case| Some((case, case.judged.figures()?)));
    let is_short = |case: &Case<'_>| case.seconds() < SUSTAINED_SECONDS;
    let away = |case: &Case<'_>| ((case.factors().size as f64).max(1.0) / size).ln().abs();
    safe.min_by(|(one, of_one), (other, of_other)| {
        let by_time = is_short(one).cmp(&is_short(other));
        away(one).total_cmp(&away(other)).then(by_time).then(of_other.tps.mean.total_cmp(&of_one.tps.mean))
    })
}

/// Reservations about the rate of a safe cell: it was held too briefly, or not every guard was measured.
fn careful(run: &Conclusion<'_>, case: &Case<'_>) -> Vec<Reservation> {
    let (seconds, needed) = (case.seconds(), SUSTAINED_SECONDS);
    let brief = (seconds < needed).then_some(Reservation::HeldBriefly { seconds, needed });
    let unseen = broker_host_names(&run.record.file).is_empty().then_some(Reservation::BrokersUnseen);
    let guards: Vec<Guard> = case.not_measured().cloned().collect();
    let guards = (!guards.is_empty()).then_some(Reservation::NotLookedAt(guards));
    brief.into_iter().chain(unseen).chain(guards).collect()
}

/// Computes the topology.
pub fn plan(target: &Target, basis: &Basis) -> Plan {
    let mut steps = vec![Step::SafeRate(basis.source.clone())];
    steps.extend(
        less_than_wanted(target, basis).into_iter().chain(basis.careful.iter().cloned()).map(Step::Careful),
    );
    let (peak, size) = (target.peak.0 * (1.0 + target.growth), target.size.0);
    let by_rate = (peak / (basis.safe_tps * PLANNED)).ceil().max(1.0);
    let growth = target.growth;
    steps.push(Step::ByRate { peak: target.peak.0, growth, safe: basis.safe_tps, masters: by_rate });
    let (slaves, groups) = (target.survive, target.groups);
    let copies = f64::from(slaves + groups);
    let each = size + DELIVERED_BESIDE;
    let most = target.nic * 125_000.0 * NETWORK;
    let by_network = (peak * each * copies / most).ceil().max(1.0);
    let carrying = by_rate.max(by_network);
    let send_bytes = peak / carrying * each * copies;
    let (nic, masters) = (target.nic, by_network);
    steps.push(Step::ByNetwork { peak, each, slaves, groups, nic, most, masters, sends: send_bytes });
    let masters = carrying as u32 + target.survive;
    steps.push(Step::Masters { carrying, survive: target.survive, masters, slaves });
    let (disk, disk_bytes) = disk(target, basis, carrying);
    steps.push(disk);
    let (name_servers, controllers) = ((slaves + 1).max(2), if slaves > 0 { 2 * slaves + 1 } else { 0 });
    steps.push(Step::NameServers { survive: target.survive, name_servers, controllers });
    let steps = steps.into_iter().map(RecordedVerdict::Verdict).collect();
    Plan { masters, slaves, name_servers, controllers, disk_bytes, send_bytes, steps }
}

/// The reservation that the measured master had fewer groups or slaves than planned, so its rate is too high for the
/// plan.
fn less_than_wanted(target: &Target, basis: &Basis) -> Option<Reservation> {
    let measured = basis.beside?;
    let wanted = (target.groups, target.survive);
    (measured.0 < wanted.0 || measured.1 < wanted.1).then_some(Reservation::FewerReaders { measured, wanted })
}

/// The step for the disk of each broker, and its bytes. After failures, fewer masters keep all messages.
fn disk(target: &Target, basis: &Basis, masters: f64) -> (Step, f64) {
    let rate = target.mean.unwrap_or(target.peak).0 * (1.0 + target.growth);
    let (stored, hours) = (target.size.0 + basis.stored_beside, target.retain.0);
    let each = rate * stored * hours * 3_600.0 / masters / FILLED;
    let total = each * (masters + f64::from(target.survive)) * f64::from(1 + target.survive);
    (Step::Disk { rate, stored, hours, masters, each, total }, each)
}
