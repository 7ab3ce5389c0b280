//! The parts that all scenarios share: the cluster, the archive, repeats, interruption and resuming.

use super::cleanup::{left_behind, remove};
use super::cluster::Cluster;
use super::machines::hosts;
use super::progress::Progress;
use super::prune::is_dominated;
use super::record::{Recorded, Stage, epoch_ms, record};
use super::resume::{begin_or_resume, held};
use super::settings::{put_back, try_all};
use crate::Error;
use crate::agent::Asked;
use crate::archive::{
    Archive, Cell, Factors, LoadSecond, Phase, RecordedCell, Roofline, RunFile, Slo, TargetKind,
};
use crate::arguments::without_secrets;
use crate::export::{self, ReportFlags};
use crate::generator::Workload;
use crate::judge::{numbers, stats};
use crate::measure::{Collector, HostProbe, cores_allowed, device_of};
use crate::output::{alert, say};
use crate::scenario_arguments::ScenarioArguments;
use crate::selftest;
use crate::session::{existing, signalled};
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The message for a cell whose only repeat was ended early.
const AGAIN: &str = "was ended early and is made again from its beginning";

/// A run in progress.
pub struct Bench {
    cluster: Cluster,
    archive: Archive,
    run: RunFile,
    progress: Progress,
    /// Number of the signal that ends the run; `None` while there was none.
    interrupt: watch::Receiver<Option<i32>>,
    free_bytes_min: u64,
    gc_log: Option<PathBuf>,
    watched: Vec<Watched>,
    load_agents: Vec<String>,
    /// Whether a broker runs on this machine, also by what agents say about other machines.
    is_here: bool,
}

/// A machine that an agent observes.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// Address of the agent.
    pub address: String,
    /// The request that tells the agent what to observe.
    pub asked: Asked,
    /// Name of the machine and of its series.
    pub name: String,
}

/// Defines how a scenario turns cells into load.
pub trait Plan {
    /// The load of a cell.
    fn workload(&self, cell: &Factors) -> Workload;

    /// The stages of every repeat of a cell.
    fn stages(&self, cell: &Factors) -> Vec<Stage>;

    /// Number of repeats of a cell; `None` for the run's own number.
    fn repeats(&self, _cell: &Factors) -> Option<u32> {
        None
    }

    /// Whether to skip the steps of a ladder of threads above its ceiling.
    fn prunes(&self) -> bool {
        false
    }

    /// The flags, beside those of every scenario and the stages, that hold for every cell, with their values.
    fn held(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Prepares the cluster for a cell, for example by changing a setting of the brokers.
    fn prepare(&self, _cluster: &Cluster, _cell: &Factors) -> impl Future<Output = Result<(), Error>> {
        std::future::ready(Ok(()))
    }
}

impl Bench {
    /// Examines the cluster and starts a run, or resumes the one in the directory.
    ///
    /// # Errors
    /// [`Error::Cluster`] when the cluster does not answer, [`Error::File`] when the directory cannot be written,
    /// [`Error::Flag`] when it holds a run that differs.
    pub async fn open(
        arguments: &ScenarioArguments,
        scenario: &str,
        cells: Vec<Factors>,
        plan: &impl Plan,
    ) -> Result<Self, Error> {
        let machines = u32::try_from(arguments.load_agents.len() + 1).unwrap_or(u32::MAX);
        cells.iter().try_for_each(|cell| plan.workload(cell).check_over(machines))?;
        let mut cluster = Cluster::look(arguments).await?;
        let root = root_of(arguments, scenario);
        if !arguments.no_selftest && !root.join("run.json").exists() {
            cluster.host.roofline = roofline(&cluster.store).await;
        }
        let is_here = cluster.is_here();
        let (hosts, watched, clock_skew_us) = hosts(&mut cluster, arguments).await?;
        let run = RunFile {
            scenario: scenario.to_owned(),
            command_line: without_secrets(std::env::args()),
            lab_version: env!("CARGO_PKG_VERSION").to_owned(),
            lab_threads: arguments.cores,
            // With several machines the busiest one is judged, which may be another machine than this one.
            lab_cores_allowed: (machines == 1)
                .then(|| cores_allowed(std::process::id().cast_signed()))
                .flatten(),
            started_ms: epoch_ms(),
            seed: arguments.seed,
            target: cluster.target.clone(),
            hosts,
            clock_skew_us,
            others_max: arguments.others_max.map(|percent| percent / 100.0),
            held: held(arguments, plan, &cells),
            cells,
            repeats: arguments.repeats(),
            ..RunFile::default()
        };
        let (archive, run) = begin_or_resume(&root, run)?;
        // A run that was killed may have left settings changed; the settings before the run are those in its file.
        cluster.target.clone_from(&run.target);
        let each: Vec<u64> = run.cells.iter().map(|cell| seconds_of(plan, cell, run.repeats)).collect();
        let finished = (1..).zip(&run.cells).zip(&each);
        let done = finished.filter(|((number, cell), _)| {
            run.left_out.contains(number) || archive.cell(*number, cell).is_finished()
        });
        let progress = Progress::new(each.iter().sum(), done.map(|(_, seconds)| seconds).sum());
        progress.line(&format!(
            "{scenario} of {} ({} cells, {} repeats) into {}",
            run.target.name,
            run.cells.len(),
            run.repeats,
            root.display()
        ));
        Ok(Self {
            cluster,
            archive,
            run,
            progress,
            interrupt: interrupt(root),
            free_bytes_min: arguments.free_min,
            gc_log: arguments.gc_log.clone(),
            watched,
            load_agents: arguments.load_agents.clone(),
            is_here,
        })
    }

    /// The cluster under load.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The archive of the run.
    #[must_use]
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The machines that agents observe.
    pub(super) fn watched(&self) -> &[Watched] {
        &self.watched
    }

    /// Addresses of the agents that share the load with this machine.
    #[must_use]
    pub fn load_agents(&self) -> &[String] {
        &self.load_agents
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits for a signal that ends the run.
    pub(super) async fn interrupted(&self) {
        let mut interrupt = self.interrupt.clone();
        // The sender lives as long as the process, so waiting cannot fail.
        let _ = interrupt.wait_for(Option::is_some).await;
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.borrow().is_some()
    }

    /// Makes a probe of this machine.
    pub(super) fn host_probe(&self) -> HostProbe {
        let device = device_of(&self.cluster.store);
        let pid = self.cluster.pid();
        let probe = HostProbe::new(pid, &device, self.is_here).with_servers(self.cluster.servers(pid));
        let is_java = self.cluster.target.kind == TargetKind::Rocketmq;
        let log = is_java.then(|| Collector::of(pid, self.gc_log.as_deref())).flatten();
        probe.with_collector(log)
    }

    /// Returns an error before the run fills the disk of a broker on this machine.
    pub(super) fn check_space(&self) -> Result<(), Error> {
        // A store that cannot be entered is assumed to be on the disk of its parent directory, an unknown one on that
        // of the working directory.
        let places = self.cluster.store.ancestors().chain([Path::new(".")]);
        let mut spaces = places.filter_map(|place| Some((place, rustix::fs::statvfs(place).ok()?)));
        let Some((place, space)) = spaces.next() else { return Ok(()) };
        let free = space.f_bavail * space.f_frsize;
        if !self.is_here || free >= self.free_bytes_min {
            return Ok(());
        }
        let (free, place) = (free >> 30, place.display());
        let least = self.free_bytes_min >> 30;
        Err(Error::Broken(format!(
            "{free} GiB are left below {place}, --free-min asks for {least}; free some and start again with the same --out"
        )))
    }

    /// Runs every cell that is not finished.
    ///
    /// # Errors
    /// [`Error::Broken`] when a broker refuses a value of a swept setting, [`Error::Cluster`] when the cluster is lost
    /// at the beginning of a repeat, [`Error::File`] when files cannot be written.
    pub async fn run(&mut self, plan: &impl Plan) -> Result<(), Error> {
        let ran = match try_all(&self.cluster, self.left()).await {
            Ok(()) => self.cells(plan).await.map(drop),
            refused => refused,
        };
        self.close(ran).await
    }

    /// Restores the settings of the brokers, removes what the run created, and ends the run. `ran` is the result of its
    /// cells.
    ///
    /// # Errors
    /// The error in `ran`; otherwise that a setting cannot be restored, that something cannot be removed, or that files
    /// cannot be written; otherwise [`Error::Signal`] when a signal ended the run early.
    pub(super) async fn close(&mut self, ran: Result<(), Error>) -> Result<(), Error> {
        let put_back = put_back(&self.cluster, &self.run.cells).await;
        let removed = self.remove_made().await;
        // Only the first error is returned, so the others are printed.
        let later = [&put_back, &removed].into_iter().filter_map(|outcome| outcome.as_ref().err());
        later.skip(usize::from(ran.is_ok())).for_each(|error| self.progress.line(&error.to_string()));
        let ended = self.end();
        ran.and(put_back).and(removed).and(ended)
    }

    /// Removes the topics and groups of the run from the cluster.
    async fn remove_made(&mut self) -> Result<(), Error> {
        let left = remove(&self.cluster.client, &mut self.run).await;
        self.archive.save(&self.run)?;
        left.map_err(|why| left_behind(&self.run.made, self.archive.root(), &why))
    }

    /// Records in the run's file what a cell will create, before it is created, so that `vostok lab clean` works after
    /// a kill.
    async fn note_made(&mut self, workload: &Workload) -> Result<(), Error> {
        let mut made = self.run.made.clone();
        made.groups.extend((0..workload.groups).map(|number| workload.group(number)));
        for topic in workload.topics() {
            if !made.topics.contains(&topic) && existing(&self.cluster.client, &topic).await?.is_none() {
                made.topics.insert(topic);
            }
        }
        if made != self.run.made {
            self.run.made = made;
            self.archive.save(&self.run)?;
        }
        Ok(())
    }

    /// Runs every cell that is not finished; returns false when the run was interrupted.
    pub(super) async fn cells(&mut self, plan: &impl Plan) -> Result<bool, Error> {
        let cells: Vec<_> = (1..).zip(self.run.cells.clone()).collect();
        for (number, factors) in cells {
            if self.archive.cell(number, &factors).is_finished() || self.run.left_out.contains(&number) {
                continue;
            }
            if plan.prunes() && is_dominated(&self.archive, &self.run, &factors)? {
                self.run.left_out.push(number);
                self.archive.save(&self.run)?;
                let name = factors.name(number);
                self.progress.line(&format!("{name} is left out: fewer threads reached the ceiling"));
                self.progress.skip(seconds_of(plan, &factors, self.run.repeats));
            } else if !self.cell((number, Some(self.run.cells.len())), &factors, plan).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a cell in addition to those that the run began with, unless it is finished; `None` when the run was
    /// interrupted.
    ///
    /// # Errors
    /// As for [`Bench::run`].
    pub async fn add(&mut self, factors: &Factors, plan: &impl Plan) -> Result<Option<RecordedCell>, Error> {
        let known = (1..).zip(&self.run.cells).find(|(_, cell)| *cell == factors).map(|(number, _)| number);
        let number = match known {
            Some(number) => number,
            None => {
                self.run.cells.push(factors.clone());
                self.archive.save(&self.run)?;
                self.progress.more(seconds_of(plan, factors, self.run.repeats));
                u32::try_from(self.run.cells.len()).unwrap_or(u32::MAX)
            }
        };
        let directory = self.archive.cell(number, factors);
        // The number of cells that a search still needs is unknown.
        if !directory.is_finished() && !self.cell((number, None), factors, plan).await? {
            return Ok(None);
        }
        Ok(Some(directory.record()?))
    }

    /// Runs the missing repeats of a cell; returns false when the run was interrupted. The number of all cells is part
    /// of `number` when it is known.
    async fn cell(
        &mut self,
        (number, all): (u32, Option<usize>),
        factors: &Factors,
        plan: &impl Plan,
    ) -> Result<bool, Error> {
        let directory = self.archive.cell(number, factors);
        let new = Cell { number, name: directory.name(), factors: factors.clone(), ..Cell::default() };
        let before = directory.read_partial()?;
        if before.as_ref().is_some_and(|cell| cell.interrupted) {
            self.progress.line(&format!("{} {AGAIN}; what it left is kept beside it", new.name));
        }
        let mut cell = before.map_or(new, Cell::to_go_on);
        let workload = plan.workload(factors);
        let repeats = plan.repeats(factors).unwrap_or(self.run.repeats);
        plan.prepare(&self.cluster, factors).await?;
        self.note_made(&workload).await?;
        while cell.repeats < repeats {
            if self.is_interrupted() {
                return Ok(false);
            }
            let repeat = cell.repeats + 1;
            let place = place((number, all), (repeat, repeats));
            self.progress.doing(&format!("{place}: {}", cell.name));
            let Recorded { phases, checked, ended } =
                record(self, &directory, &cell, &workload, &plan.stages(factors)).await?;
            cell.interrupted = !matches!(ended, Ok(true));
            // Part of a repeat is useful only when it is the single repeat of its cell. Among others it would be judged
            // as a whole one.
            if cell.interrupted && (repeats > 1 || !phases.iter().any(Phase::counts)) {
                return ended;
            }
            cell.phases.extend(phases);
            for (name, count) in checked {
                *cell.checked.entry(name).or_default() += count;
            }
            cell.repeats = repeat;
            directory.save_partial(&cell)?;
            let left = self.progress.left().map(|left| format!(", {left} left")).unwrap_or_default();
            let told = told(&cell, repeat, &directory.repeat(repeat).load()?);
            self.progress.line(&format!("[{place}{left}] {told}"));
            if cell.interrupted {
                self.progress.line(&format!(
                    "{} ended early: going on with the run makes it again from its beginning",
                    cell.name
                ));
                return ended;
            }
        }
        directory.finish(&cell)?;
        Ok(true)
    }

    /// Prints a line that stays on the screen.
    pub fn line(&self, text: &str) {
        self.progress.line(text);
    }

    /// Records the limits that the run was told to keep.
    ///
    /// # Errors
    /// [`Error::File`] when `run.json` cannot be written.
    pub fn keep(&mut self, slo: &Slo) -> Result<(), Error> {
        self.run.slo = slo.clone();
        self.archive.save(&self.run)
    }

    /// The current content of the run's file.
    #[must_use]
    pub fn run_file(&self) -> &RunFile {
        &self.run
    }

    /// The factors of the cells that are not finished.
    fn left(&self) -> impl Iterator<Item = &Factors> {
        let all = (1..).zip(&self.run.cells);
        all.filter(|(number, cell)| {
            !self.run.left_out.contains(number) && !self.archive.cell(*number, cell).is_finished()
        })
        .map(|(_, cell)| cell)
    }

    /// Closes the connection to the cluster and writes the report, also for an incomplete run.
    fn report(&self) -> Result<(), Error> {
        self.progress.end();
        self.cluster.client.shutdown();
        export::run(&ReportFlags::of(self.archive.root()))
    }

    fn end(&mut self) -> Result<(), Error> {
        let left = self.left().count();
        let root = self.archive.root().display().to_string();
        if left == 0 {
            self.run.ended_ms = Some(epoch_ms());
            self.archive.save(&self.run)?;
            self.progress.line("finished");
        } else {
            self.progress.line(&format!("{left} cells are left; the same command with --out {root} goes on"));
        }
        self.report()?;
        match *self.interrupt.borrow() {
            Some(number) if left > 0 => Err(Error::Signal(number)),
            _ => Ok(()),
        }
    }
}

/// Reports the first signal to the receiver; a second signal ends the process at once.
fn interrupt(root: PathBuf) -> watch::Receiver<Option<i32>> {
    let (sender, interrupt) = watch::channel(None);
    tokio::spawn(async move {
        sender.send_replace(Some(signalled().await));
        let number = signalled().await;
        alert!("ended at once: vostok lab clean {} removes what the run made", root.display());
        std::process::exit(128 + number);
    });
    interrupt
}

/// The directory of the run.
fn root_of(arguments: &ScenarioArguments, scenario: &str) -> PathBuf {
    let named = || format!("lab-{}-{}", scenario.replace(' ', "-"), epoch_ms() / 1000).into();
    arguments.out.clone().unwrap_or_else(named)
}

/// The limits of this machine by a self-test; `None` when it cannot be run, for example on another user's disk. The
/// self-test blocks, so it has its own thread.
pub(super) async fn roofline(store: &Path) -> Option<Roofline> {
    let place = store.to_owned();
    let why = match tokio::task::spawn_blocking(move || selftest::short(&place)).await {
        Ok(Ok(roofline)) => return Some(roofline),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic.to_string(),
    };
    say!("no self-test, so nobody knows how far from this machine's limits the run is: {why}");
    None
}

fn seconds_of(plan: &impl Plan, cell: &Factors, repeats: u32) -> u64 {
    let once: u64 = plan.stages(cell).iter().map(|stage| u64::from(stage.seconds)).sum();
    once * u64::from(plan.repeats(cell).unwrap_or(repeats))
}

/// Describes the position in a run: `cell 3 of 24, repeat 1 of 3`.
fn place((number, all): (u32, Option<usize>), (repeat, repeats): (u32, u32)) -> String {
    let all = all.map(|all| format!(" of {all}")).unwrap_or_default();
    let repeat = if repeats > 1 { format!(", repeat {repeat} of {repeats}") } else { String::new() };
    format!("cell {number}{all}{repeat}")
}

/// The line that is printed about a repeat.
fn told(cell: &Cell, repeat: u32, seconds: &[LoadSecond]) -> String {
    let phases = cell.phases.iter().filter(|phase| phase.repeat == repeat && phase.name != "warmup");
    let phase = |phase: &Phase| {
        let rows: Vec<_> =
            seconds.iter().filter(|row| row.at_ms > phase.from_ms && row.at_ms <= phase.to_ms).collect();
        let mean = |of: fn(&LoadSecond) -> f64| {
            let rates: Vec<f64> = rows.iter().map(|row| of(row)).collect();
            numbers::count(stats::mean(&rates))
        };
        let p99 = rows.iter().map(|row| row.p99_us).max().unwrap_or_default();
        let failures: u64 = rows.iter().map(|row| row.failed + row.refused).sum();
        let consumed = if rows.iter().any(|row| row.consumed > 0) {
            format!(", consumed {}/s", mean(LoadSecond::consumed_rate))
        } else {
            String::new()
        };
        let failed = if failures > 0 { format!(", {failures} failed") } else { String::new() };
        format!(
            "{}: {}/s{consumed}, worst second's p99 {:.2} ms{failed}",
            phase.name,
            mean(LoadSecond::sent_rate),
            p99 as f64 / 1000.0
        )
    };
    let mut phases: Vec<_> = phases.map(phase).collect();
    if !cell.checked.is_empty() {
        let counts: Vec<_> = cell.checked.iter().map(|(name, count)| format!("{name} {count}")).collect();
        phases.push(counts.join(", "));
    }
    format!("{} {repeat}: {}", cell.name, phases.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_how_far_it_is() {
        assert_eq!(place((3, Some(24)), (1, 3)), "cell 3 of 24, repeat 1 of 3");
        assert_eq!(place((3, None), (1, 1)), "cell 3");
    }
}
