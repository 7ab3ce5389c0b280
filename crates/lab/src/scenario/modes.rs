//! `vostok lab modes`: what flush and replication modes cost.
//!
//! Vostok changes its flush mode while it runs. RocketMQ chooses its flush threads at the start (constructor of
//! `CommitLog`). Against RocketMQ the run therefore ends where another mode is due, and is resumed with the same
//! `--out` after the brokers were restarted in that mode; or each mode is a run of its own, and the runs are compared.
//!
//! The replication mode depends on how each broker is started and on which brokers there are, and another cluster needs
//! another run. Of the modes in `--repl` only the cluster's own is run; the next run gets the same `--rate`, and
//! `vostok lab compare` shows the difference.

use super::bench::{Bench, Plan};
use super::cluster::Cluster;
use super::record::Stage;
use super::safe_tps::mean_rate;
use super::settings::set;
use crate::Error;
use crate::archive::{FLUSH, Factors};
use crate::generator::Workload;
use crate::judge::conclusion::EQUAL_RATE;
use crate::judge::factor::Factor;
use crate::output::say;
use crate::scenario_arguments::{ModesFlags, ScenarioArguments};
use crate::session;

/// Replication modes; the empty one stands for the mode of the cluster.
const REPLICATIONS: [&str; 5] = ["", "none", "async", "sync", "quorum"];

/// Share of the slowest mode's rate at which all modes are compared.
const SHARE: f64 = 0.7;

/// Requests in flight that an open loop has places for, so that a pause of the server does not stop it.
const ROOM: u32 = 10_000;

/// Runs the scenario.
///
/// # Errors
/// [`Error::Flag`] when there is no such mode, [`Error::Broken`] when the cluster cannot be brought into a mode,
/// otherwise as for [`super::matrix`].
pub fn run(flags: &ModesFlags) -> Result<(), Error> {
    flags.flush.iter().try_for_each(|word| disk_type(word).map(drop))?;
    if let Some(other) = flags.repl.iter().find(|word| !REPLICATIONS.contains(&word.as_str())) {
        let why = format!("expected none, async, sync or quorum, found {other}");
        return Err(Error::Flag { flag: "--repl", why });
    }
    session::block_on(async {
        let cluster = Cluster::look(&flags.arguments).await?;
        let repl = possible(&flags.repl, replication(&cluster))?;
        cluster.client.shutdown();
        let flags = &ModesFlags { repl: vec![repl], ..flags.clone() };
        let plan = Modes { arguments: flags.arguments.clone() };
        let mut bench = Bench::open(&flags.arguments, "modes", cells(flags), &plan).await?;
        let ran = measure(&mut bench, &plan, flags).await;
        bench.close(ran).await
    })
}

/// The mode among those asked for that can be run: the cluster's own. Prints which other modes need further runs.
fn possible(asked: &[String], found: &str) -> Result<String, Error> {
    let Some(one) = asked.iter().find(|word| word.is_empty() || *word == found) else {
        return Err(Error::Broken(format!(
            "replication {} was asked for, the cluster has {found}; start its brokers that way",
            asked.join(", ")
        )));
    };
    let others: Vec<&str> = asked.iter().filter(|word| *word != one).map(String::as_str).collect();
    if !others.is_empty() {
        say!(
            "replication {} is left out: the cluster has {found}; start its brokers that way for a run of its own, then \
             vostok lab compare",
            others.join(", ")
        );
    }
    Ok(one.clone())
}

/// The factors of all cells. Modes change slowest, because RocketMQ must be restarted for each of them.
fn cells(flags: &ModesFlags) -> Vec<Factors> {
    let mut cells = Vec::new();
    for (flush, replication) in modes(flags) {
        for threads in &flags.threads {
            for size in &flags.sizes {
                let cell = flags.arguments.factors(*threads, size, flags.queues);
                cells.push(Factors { flush: flush.clone(), replication: replication.clone(), ..cell });
            }
        }
    }
    cells
}

fn modes(flags: &ModesFlags) -> Vec<(&String, &String)> {
    let pairs = flags.repl.iter().flat_map(|repl| flags.flush.iter().map(move |flush| (flush, repl)));
    pairs.collect()
}

/// Runs every mode in closed loops, then every mode at the same rate, because in a closed loop the faster mode is the
/// more loaded one.
async fn measure(bench: &mut Bench, plan: &Modes, flags: &ModesFlags) -> Result<(), Error> {
    // With `--rate`, all modes were run at the same rate already.
    if !bench.cells(plan).await? || flags.arguments.rate.is_some() {
        return Ok(());
    }
    let mut closed = Vec::new();
    for cell in cells(flags) {
        let Some(found) = bench.add(&cell, plan).await? else { return Ok(()) };
        closed.push((cell, mean_rate(&found)));
    }
    for cell in at_one_rate(&closed) {
        if bench.add(&cell, plan).await?.is_none() {
            break;
        }
    }
    Ok(())
}

/// A cell for each mode and size with the most threads, where all modes of a size have a rate that the slowest one can
/// keep. The modes come in reverse order, because the brokers are still in the last mode.
fn at_one_rate(closed: &[(Factors, f64)]) -> Vec<Factors> {
    let mut best: Vec<(Factors, f64)> = Vec::new();
    for (cell, rate) in closed {
        let load = Factor::Threads.without(cell);
        match best.iter_mut().find(|(known, _)| Factor::Threads.without(known) == load) {
            Some((known, most)) => {
                (known.threads, *most) = (known.threads.max(cell.threads), most.max(*rate));
            }
            None => best.push((cell.clone(), *rate)),
        }
    }
    let size = |cell: &Factors| Factor::Flush.without(&Factor::Replication.without(cell));
    let open = best.iter().rev().filter_map(|(cell, _)| {
        let beside = best.iter().filter(|(other, _)| size(other) == size(cell)).map(|(_, rate)| *rate);
        let rate = (beside.clone().fold(f64::INFINITY, f64::min) * SHARE).round();
        (beside.count() > 1 && rate >= 1.0).then(|| {
            let mut cell = Factors { rate: Some(rate), ..cell.clone() };
            cell.more.insert("purpose".to_owned(), EQUAL_RATE.to_owned());
            cell
        })
    });
    open.collect()
}

#[derive(Clone, Debug)]
struct Modes {
    arguments: ScenarioArguments,
}

impl Plan for Modes {
    fn workload(&self, cell: &Factors) -> Workload {
        let is_added = cell.rate.is_some() && self.arguments.rate.is_none();
        let threads = if is_added { cell.threads.max(ROOM) } else { cell.threads };
        Workload { threads, ..self.arguments.workload(cell) }
    }

    fn stages(&self, _cell: &Factors) -> Vec<Stage> {
        Stage::plain(self.arguments.warmup(), self.arguments.duration())
    }

    async fn prepare(&self, cluster: &Cluster, cell: &Factors) -> Result<(), Error> {
        set_flush(cluster, &cell.flush).await?;
        // A run that an earlier version of the lab began may hold cells of other replication modes.
        possible(std::slice::from_ref(&cell.replication), replication(cluster)).map(drop)
    }
}

/// Sets the flush mode of every master, or returns an error that says how to. An empty mode stands for the one that the
/// master had when the run began.
pub(super) async fn set_flush(cluster: &Cluster, wanted: &str) -> Result<(), Error> {
    set(cluster, FLUSH, disk_type(wanted)?).await
}

/// The value of `flushDiskType` for a mode; `None` for the mode that the brokers had when the run began.
fn disk_type(word: &str) -> Result<Option<&'static str>, Error> {
    match word {
        "" => Ok(None),
        "sync" => Ok(Some("SYNC_FLUSH")),
        "async" => Ok(Some("ASYNC_FLUSH")),
        other => {
            let why = format!("expected async or sync, found {other}");
            Err(Error::Flag { flag: "--flush", why })
        }
    }
}

/// Replication mode of the cluster.
fn replication(cluster: &Cluster) -> &'static str {
    cluster.target.replication().unwrap_or("none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::conclusion::Conclusion;
    use crate::judge::fixture;
    use crate::judge::guards::Limits;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ModesFlags,
    }

    fn flags(line: &str) -> ModesFlags {
        Line::parse_from(std::iter::once("x").chain(line.split(' '))).flags
    }

    #[test]
    fn of_several_replications_that_of_the_cluster_is_run() {
        let asked = ["async", "sync", "quorum"].map(str::to_owned);
        assert_eq!(possible(&asked, "sync").unwrap(), "sync");
        assert_eq!(possible(&[String::new()], "none").unwrap(), "");
        let said = possible(&asked, "none").unwrap_err().to_string();
        assert!(
            said.starts_with("replication async, sync, quorum was asked for, the cluster has none"),
            "{said}"
        );
    }

    #[test]
    fn modes_that_are_none_are_refused_before_the_first_cell() {
        let said = |line: &str| run(&flags(line)).unwrap_err().to_string();
        assert_eq!(said("--flush async,quick"), "--flush: expected async or sync, found quick");
        assert_eq!(said("--repl foo"), "--repl: expected none, async, sync or quorum, found foo");
    }

    #[test]
    fn modes_are_compared_at_a_rate_that_the_slowest_keeps() {
        let flags = flags("--threads 8,64 --size 1k,4k");
        // Each mode with 8 threads and then 64, each with small and then large messages.
        let (quick, slow) = ([20_000.0, 9_000.0, 30_000.0, 8_000.0], [5_000.0, 4_000.0, 10_000.0, 4_000.0]);
        let closed: Vec<_> = cells(&flags).into_iter().zip([quick, slow].concat()).collect();
        let open = at_one_rate(&closed);
        let found = open.iter().map(|cell| (cell.size, cell.flush.as_str(), cell.threads, cell.rate));
        let expected = [
            (4_096, "sync", 64, Some(2_800.0)),
            (1_024, "sync", 64, Some(7_000.0)),
            (4_096, "async", 64, Some(2_800.0)),
            (1_024, "async", 64, Some(7_000.0)),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(open.iter().all(|cell| cell.more["purpose"] == EQUAL_RATE), "no rates to rely on");
        let all: Vec<&str> =
            closed.iter().map(|(cell, _)| cell).chain(&open).map(|cell| cell.flush.as_str()).collect();
        let changes = all.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 2, "Java is started again for each: {all:?}");
        let plan = Modes { arguments: flags.arguments.clone() };
        assert_eq!((plan.workload(&open[0]).threads, plan.workload(&closed[0].0).threads), (ROOM, 8));
        // A single mode has nothing to be compared with.
        assert_eq!(at_one_rate(&closed[..1]), []);
    }

    #[test]
    fn the_rate_and_the_latency_of_a_mode_are_one_effect() {
        let flags = flags("--threads 8,64 --size 1k");
        let rate = |cell: &Factors| if cell.flush == "sync" { 5_000.0 } else { 20_000.0 };
        let closed: Vec<_> = cells(&flags).into_iter().map(|cell| (cell.clone(), rate(&cell))).collect();
        let open = at_one_rate(&closed).into_iter().filter_map(|cell| Some((cell.clone(), cell.rate?)));
        let all: Vec<_> = closed.iter().cloned().chain(open).collect();
        let mut record = fixture::record(&all);
        let sync = record.cells.iter_mut().filter(|cell| cell.cell.factors.flush == "sync");
        for second in sync.flat_map(|cell| &mut cell.repeats).flat_map(|repeat| &mut repeat.load) {
            second.p99_us *= 3;
        }
        let found = Conclusion::new(&record, &Limits::default());
        let of_flush: Vec<_> = found.effects.iter().filter(|effect| effect.factor.en == "flush").collect();
        let [effect] = of_flush[..] else { panic!("one line for the mode: {of_flush:?}") };
        assert_eq!((effect.from.as_str(), effect.to.as_str(), effect.pairs), ("async", "sync", 3));
        assert!((effect.tps.mean - 0.25).abs() < 0.01, "{:?}", effect.tps);
        assert!(effect.equal_rate && (effect.p99.mean - 3.0).abs() < 0.1, "{:?}", effect.p99);
    }
}
