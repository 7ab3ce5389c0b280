//! R0: may the figures of a cell be shown? An invalid cell has reasons instead of figures.
//!
//! - Little's law: in a closed loop, rate times mean latency is the number of requests in flight. Where it is not, rate
//!   and latency were taken at different times, or the generator itself spent the time.
//! - Steady state: the rate changes by less than 2 % per minute. A slope within its own error does not count, nor does
//!   one that amounts to less than 2 % over the window. Each repeat is checked too, so a rising repeat does not cancel
//!   a falling one.
//! - The servers kept running: no broker was away or restarted after the repeat began.
//! - The generator had headroom: it used below 70 % of its processors, and in an open loop sent less than 1 ms late.
//! - The machines were not shared: other programs used less than 10 % of the processors of the generator's and the
//!   servers' machines.
//! - There are at least three repeats, and no second is missing. A soak is run once and counts as one repeat per five
//!   minutes; for other cells one long run does not show how much another run would differ. A backlog takes as long as
//!   a soak: it may be run once, and its phases are then reported as those of one repeat. The probes of a search are
//!   run once and are never shown as figures.

mod reason;

pub use reason::Reason;

use super::figures::merged;
use super::figures::{broker_host_names, mean_latency_us, series};
use super::stats::{self, mean, quantile};
use crate::archive::{BROKER_RESTARTED, Factors, HostFile, LoadSecond, Purpose, RunFile, Window};

/// Fewest repeats from which the result of a further repeat can be estimated.
pub const REPEATS_MIN: usize = 3;

/// Seconds of a soak's single window that count as one repeat.
const LONG_SECONDS: usize = 300;

/// Seconds of a soak that count as [`REPEATS_MIN`] repeats.
pub const SOAK_SECONDS_MIN: u32 = (LONG_SECONDS * REPEATS_MIN) as u32;

/// Accepted range of rate times latency divided by requests in flight.
pub const LITTLE: std::ops::RangeInclusive<f64> = 0.93..=1.07;

/// Largest accepted change of the rate, as a share per minute.
pub const SLOPE_MAX: f64 = 0.02;

/// Largest share of its processors that the generator may use.
pub const GENERATOR_CPU_MAX: f64 = 0.7;

/// Largest share of a machine's processors that other programs may use, unless the run sets another limit.
const OTHERS_MAX: f64 = 0.1;

/// Number of seconds of a window for which a machine may have no figures; a longer window allows the share
/// `UNSEEN_SHARE`.
const UNSEEN_MAX: usize = 2;
const UNSEEN_SHARE: usize = 100;

/// Largest delay that the generator itself may add before sending, microseconds.
pub const LAG_US_MAX: f64 = 1_000.0;

/// The reason that there are too few repeats, or `None`.
pub fn too_few(windows: &[Window<'_>]) -> Option<Reason> {
    let factors = windows.first().and_then(|window| window.factors);
    let count: usize = windows.iter().map(repeats).sum();
    if factors.is_some_and(|factors| factors.purpose() == Some(Purpose::Probe)) {
        return Some(Reason::Probe);
    }
    if count >= REPEATS_MIN {
        return None;
    }
    Some(Reason::TooFew { count, is_backlog: factors.is_some_and(Factors::is_backlog) })
}

/// The reasons not to trust the repeats, apart from their number; empty when there are none.
pub fn faults(windows: &[Window<'_>], file: &RunFile) -> Vec<Reason> {
    let mut found = outages(windows);
    if windows.iter().all(|window| window.load.is_empty()) {
        found.push(Reason::EndedEarly);
        return found;
    }
    let is_silent = |window: &Window<'_>| window.load.iter().all(|second| second.sent == 0);
    let silent = windows.iter().filter(|window| is_silent(window)).count();
    if silent == windows.len() {
        found.push(silence(windows));
        return found;
    }
    if silent > 0 {
        found.push(Reason::SilentRepeats(silent));
        return found;
    }
    let rules =
        [missing_seconds(windows), little(windows), unsteady(windows), busy(windows, file), late(windows)];
    let machines = others(windows, file).into_iter().chain(unobserved(windows, file));
    found.extend(rules.into_iter().flatten().chain(machines));
    found
}

/// Brokers that were away or restarted, each once per repeat. Later figures belong to another process with
/// cold caches, and meanwhile no request was served.
pub fn outages(windows: &[Window<'_>]) -> Vec<Reason> {
    let mut found = Vec::new();
    for window in windows {
        let mut counted: Vec<&str> = Vec::new();
        for event in &window.outages {
            let (repeat, broker) = (window.repeat, event.node.as_str());
            if counted.contains(&broker) {
                continue;
            }
            counted.push(broker);
            let is_restart =
                window.outages.iter().any(|other| other.node == broker && other.kind == BROKER_RESTARTED);
            let broker = broker.to_owned();
            found.push(if is_restart {
                Reason::BrokerRestarted { broker, repeat }
            } else {
                Reason::BrokerAway { broker, repeat }
            });
        }
    }
    found
}

/// The reason of a cell without any acknowledgement, with the answers of brokers.
fn silence(windows: &[Window<'_>]) -> Reason {
    let mut events = windows.iter().flat_map(|window| window.events);
    let last = events.rfind(|event| ["flow-control", "no-answer"].contains(&event.kind.as_str()));
    Reason::Silence { answer: last.map(|event| event.detail.clone()) }
}

/// The machines that were not observed all the time.
pub fn unobserved(windows: &[Window<'_>], file: &RunFile) -> impl Iterator<Item = Reason> {
    file.hosts.iter().filter_map(|host| unseen(windows, &host.name))
}

/// The reasons not to trust a phase of a backlog. In a phase the rate may change, and nothing need be sent.
pub fn phase(windows: &[Window<'_>], file: &RunFile) -> Vec<Reason> {
    let law = if sends(windows) { little(windows) } else { None };
    let rules = [missing_seconds(windows), law, busy(windows, file), late(windows)];
    let machines = others(windows, file).into_iter().chain(unobserved(windows, file));
    let rest = rules.into_iter().flatten().chain(machines);
    outages(windows).into_iter().chain(rest).collect()
}

/// Whether producers were sending. Answers to requests in flight when they stopped arrive in the first second and do
/// not count.
pub fn sends(windows: &[Window<'_>]) -> bool {
    let seconds = windows.iter().flat_map(|window| window.load);
    seconds.clone().filter(|second| second.sent > 0).count() * 2 > seconds.count()
}

/// Number of repeats that a window counts as: one, or for a soak one per `LONG_SECONDS`.
fn repeats(window: &Window<'_>) -> usize {
    let is_soak = window.factors.is_some_and(Factors::is_soak);
    match window.load.len() {
        0 => 0,
        seconds if is_soak => (seconds / LONG_SECONDS).max(1),
        _ => 1,
    }
}

/// The reasons why the load generator itself was the limit; empty when it had headroom.
pub fn generator(windows: &[Window<'_>], file: &RunFile) -> Vec<Reason> {
    [busy(windows, file), late(windows)].into_iter().flatten().collect()
}

/// The reason that seconds of the series are missing: more than 1.5 s between two rows.
fn missing_seconds(windows: &[Window<'_>]) -> Option<Reason> {
    let gap = |pair: &[crate::archive::LoadSecond]| {
        let milliseconds = pair[1].at_ms.saturating_sub(pair[0].at_ms);
        (milliseconds.saturating_sub(500)) / 1_000
    };
    let missing: u64 = windows.iter().flat_map(|window| window.load.windows(2)).map(gap).sum();
    (missing > 0).then_some(Reason::MissingSeconds(missing))
}

/// The reason that a machine of the run was not observed all the time, or `None`.
fn unseen(windows: &[Window<'_>], name: &str) -> Option<Reason> {
    let missing = |window: &Window<'_>| {
        let seen = window.hosts.iter().find(|(host, _)| host.name == name).map_or(0, |(_, rows)| rows.len());
        // The seconds of a machine do not begin with those of the window, and its first one may end after the window's
        // first one.
        let most = UNSEEN_MAX.max(window.load.len() / UNSEEN_SHARE);
        Some(window.load.len().saturating_sub(seen)).filter(|missing| *missing > most)
    };
    let missing: usize = windows.iter().filter_map(missing).sum();
    (missing > 0).then(|| Reason::Unobserved { machine: name.to_owned(), seconds: missing })
}

fn little(windows: &[Window<'_>]) -> Option<Reason> {
    let factors = windows.first()?.factors?;
    if factors.rate.is_some() || factors.is_one_way() {
        return None;
    }
    let each = factors.more.get("batch").and_then(|batch| batch.parse().ok()).unwrap_or(1.0);
    let shares: Vec<f64> = windows
        .iter()
        .filter_map(|window| {
            let in_flight = in_flight(window)?;
            let tps = mean(&window.load.iter().map(LoadSecond::sent_rate).collect::<Vec<_>>());
            Some(tps / each * mean_latency_us(window.load) / 1e6 / in_flight)
        })
        .collect();
    let share = mean(&shares);
    if shares.is_empty() || LITTLE.contains(&share) {
        return None;
    }
    Some(Reason::Little(share))
}

/// Requests in flight: the counted mean, otherwise the configured number.
pub(super) fn in_flight(window: &Window<'_>) -> Option<f64> {
    let counted = mean(&window.load.iter().map(|second| second.in_flight as f64).collect::<Vec<_>>());
    let configured = window.factors.map_or(0.0, |factors| f64::from(factors.threads));
    Some(if counted > 0.0 { counted } else { configured }).filter(|count| *count > 0.0)
}

/// Change of a rate: share per minute, the error of that share, and the minutes of observation.
#[derive(Clone, Copy)]
struct Change {
    per_minute: f64,
    error: f64,
    minutes: f64,
}

impl Change {
    /// Whether the change exceeds the limit by `errors` standard errors and amounts to the limit within the observed
    /// time.
    fn is_too_much(&self, errors: f64) -> bool {
        let (surely, amounts) =
            (self.per_minute.abs() - errors * self.error, self.per_minute.abs() * self.minutes);
        surely > SLOPE_MAX && amounts > SLOPE_MAX
    }
}

/// Minutes of a repeat from which on its own slope is checked.
const ALONE_MINUTES: f64 = 0.5;

/// Checks the slope of all repeats together, at two standard errors, and of each long enough repeat, at three because
/// there are several of them.
fn unsteady(windows: &[Window<'_>]) -> Option<Reason> {
    let changes: Vec<Change> = series(windows, LoadSecond::sent_rate)
        .iter()
        .filter(|seconds| seconds.len() >= 3 && mean(seconds) > 0.0)
        .map(|seconds| {
            let (line, centre) = (stats::slope(seconds), mean(seconds));
            let (per_minute, error) = (line.per_step * 60.0 / centre, line.error * 60.0 / centre);
            Change { per_minute, error, minutes: seconds.len() as f64 / 60.0 }
        })
        .collect();
    let mean_of = |value: fn(&Change) -> f64| mean(&changes.iter().map(value).collect::<Vec<_>>());
    let squares = changes.iter().map(|change| change.error.powi(2)).sum::<f64>();
    let together = Change {
        per_minute: mean_of(|change| change.per_minute),
        error: squares.sqrt() / changes.len().max(1) as f64,
        minutes: mean_of(|change| change.minutes),
    };
    let alone =
        changes.into_iter().filter(|change| change.minutes >= ALONE_MINUTES && change.is_too_much(3.0));
    let worst = alone.max_by(|one, other| one.per_minute.abs().total_cmp(&other.per_minute.abs()));
    let found = if together.is_too_much(2.0) { Some(together) } else { worst };
    found.map(|change| Reason::Unsteady(change.per_minute))
}

/// Share of its processors that the generator used: of those of the machine, or of as many as it has threads. Every
/// machine that sends has at least as many processors as the lab has threads.
pub fn generator_share(windows: &[Window<'_>], file: &RunFile) -> Option<f64> {
    let machine = file.hosts.first().map(|host| host.cores).filter(|cores| *cores > 0)?;
    let cores = f64::from(if file.lab_threads > 0 { machine.min(file.lab_threads) } else { machine });
    let cores = file.lab_cores_allowed.map_or(cores, |allowed| cores.min(allowed));
    Some(mean(&series(windows, |second| second.lab_cores).concat()) / cores)
}

fn busy(windows: &[Window<'_>], file: &RunFile) -> Option<Reason> {
    generator_share(windows, file).filter(|share| *share >= GENERATOR_CPU_MAX).map(Reason::GeneratorBusy)
}

/// The machines of the generator and the servers on which other programs used too much processor time, by the worst
/// repeat.
pub fn others(windows: &[Window<'_>], file: &RunFile) -> Vec<Reason> {
    let found = used_machines(file).filter_map(|host| {
        let shares = windows.iter().filter_map(|window| Some((window.repeat, others_on(window, host)?)));
        let worst = shares.max_by(|one, other| one.1.total_cmp(&other.1));
        let limit = others_max(file);
        let (repeat, share) = worst.filter(|(_, share)| *share > limit)?;
        Some(Reason::OtherPrograms { machine: host.name.clone(), share, limit, repeat: Some(repeat) })
    });
    found.collect()
}

/// Like [`others`], for machines observed without load.
pub fn others_now(window: &Window<'_>, file: &RunFile) -> Vec<Reason> {
    let found = used_machines(file).filter_map(|host| {
        let limit = others_max(file);
        let share = others_on(window, host).filter(|share| *share > limit)?;
        Some(Reason::OtherPrograms { machine: host.name.clone(), share, limit, repeat: None })
    });
    found.collect()
}

/// The machines of the generator and of the brokers.
fn used_machines(file: &RunFile) -> impl Iterator<Item = &HostFile> {
    let brokers = broker_host_names(file);
    let is_used =
        move |(place, host): &(usize, &HostFile)| *place == 0 || brokers.contains(&host.name.as_str());
    file.hosts.iter().enumerate().filter(is_used).map(|(_, host)| host)
}

fn others_max(file: &RunFile) -> f64 {
    file.others_max.unwrap_or(OTHERS_MAX)
}

/// Share of a machine's processors that other programs used.
fn others_on(window: &Window<'_>, host: &HostFile) -> Option<f64> {
    let (_, seconds) = window.hosts.iter().find(|(found, _)| found.name == host.name)?;
    let cores: Vec<f64> = seconds.iter().map(|second| second.others_cores).collect();
    Some(mean(&cores) / f64::from(host.cores.max(1)))
}

/// 99th percentile of the delay that the generator itself added, over all requests, microseconds; 0 in a closed loop.
pub fn lag_p99_us(windows: &[Window<'_>]) -> f64 {
    match merged(windows.iter().flat_map(|window| window.late)) {
        Some(all) => all.value_at_quantile(0.99) as f64,
        // Runs of earlier versions recorded only a percentile per second.
        None => quantile(&series(windows, |second| second.lag_p99_us as f64).concat(), 0.95),
    }
}

fn late(windows: &[Window<'_>]) -> Option<Reason> {
    let lag = lag_p99_us(windows);
    (lag >= LAG_US_MAX).then_some(Reason::GeneratorLate(lag))
}

/// Whether end-to-end latencies may be shown: the clock difference must be at most a tenth of the measured latency.
pub fn clock_is_good_enough(skew_us: u64, end_to_end_us: f64) -> bool {
    skew_us as f64 * 10.0 <= end_to_end_us
}

#[cfg(test)]
mod tests;
