//! The parts that all scenarios share: the cluster, the archive, repeats, interruption and resuming.

use super::cleanup::{left_behind, remove};
use super::cluster::Cluster;
use super::design::{CellLoad, Design, RunOptions, run_directory};
use super::fault::Injector;
use super::machines::{Watched, hosts};
use super::progress::{Progress, joined, place, repeat_line};
use super::prune::is_dominated;
use super::record::{Recorded, record};
use super::resume::{begin_or_resume, held};
use super::settings::{prepare, put_back, try_all};
use crate::Error;
use crate::archive::{Archive, Cell, Factors, Phase, RecordedCell, Roofline, RunFile, Slo, TargetKind};
use crate::export::{self, ReportOptions};
use crate::generator::Workload;
use crate::generator::existing;
use crate::measure::{Collector, HostProbe, cores_allowed, device_of};
use crate::output::{alert, say};
use crate::runtime::{self, epoch_ms, signalled};
use crate::selftest;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The message for a cell whose only repeat was ended early.
const AGAIN: &str = "was ended early and is made again from its beginning";

/// A run in progress.
pub struct Bench {
    cluster: Cluster,
    archive: Archive,
    run: RunFile,
    /// The cells with which the run began.
    design: Design,
    progress: Progress,
    /// Number of the signal that ends the run; `None` while there was none.
    interrupt: watch::Receiver<Option<i32>>,
    free_bytes_min: u64,
    gc_log: Option<PathBuf>,
    watched: Vec<Watched>,
    load_agents: Vec<String>,
    /// Whether a broker runs on this machine. Reports of agents about other machines are taken into account.
    is_here: bool,
    /// The fault of a failover run.
    injector: Option<Injector>,
}

/// Runs a design from its beginning, or goes on with it, and writes its report.
///
/// # Errors
/// Errors of [`Bench::open`] and [`Bench::run`].
pub(super) fn run(options: &RunOptions, design: Design) -> Result<(), Error> {
    runtime::block_on(async { Bench::open(options, design).await?.run().await })
}

impl Bench {
    /// Examines the cluster and starts a run, or resumes the one in the directory.
    ///
    /// # Errors
    /// [`Error::Cluster`] when the cluster does not answer, [`Error::File`] when the directory cannot be written,
    /// [`Error::Flag`] when it holds a run that differs.
    pub async fn open(options: &RunOptions, design: Design) -> Result<Self, Error> {
        let machines = u32::try_from(options.load_agents.len() + 1).unwrap_or(u32::MAX);
        design.cells.iter().try_for_each(|cell| cell.load.check_over(machines))?;
        let mut cluster = Cluster::look(options).await?;
        let root = root_of(options, &design.scenario);
        if options.selftest && !root.join("run.json").exists() {
            cluster.host.roofline = roofline(&cluster.store).await;
        }
        let is_here = cluster.is_here();
        let (hosts, watched, clock_skew_us) = hosts(&mut cluster, options).await?;
        let run = RunFile {
            scenario: design.scenario.clone(),
            command_line: options.command_line.clone(),
            lab_version: env!("CARGO_PKG_VERSION").to_owned(),
            lab_threads: options.load.cores,
            // With several machines the busiest one is judged, which may be another machine than this one.
            lab_cores_allowed: (machines == 1)
                .then(|| cores_allowed(std::process::id().cast_signed()))
                .flatten(),
            started_ms: epoch_ms(),
            seed: options.load.seed,
            target: cluster.target.clone(),
            hosts,
            clock_skew_us,
            others_max: options.others_max,
            held: held(options, &design),
            cells: design.cells.iter().map(|cell| cell.factors.clone()).collect(),
            repeats: options.repeats,
            ..RunFile::default()
        };
        let (archive, run) = begin_or_resume(&root, run)?;
        // A run that was killed may have left settings changed; the settings before the run are those in its file.
        cluster.target.clone_from(&run.target);
        let each = (1..).zip(&design.cells).map(|(number, cell)| {
            let is_done = run.left_out.contains(&number) || archive.cell(number, &cell.factors).is_finished();
            let seconds = cell.seconds(run.repeats);
            (seconds, if is_done { seconds } else { 0 })
        });
        let (all, done) = each.fold((0, 0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
        let progress = Progress::new(all, done);
        progress.line(&format!(
            "{} of {} ({} cells, {} repeats) into {}",
            design.scenario,
            run.target.name,
            run.cells.len(),
            run.repeats,
            root.display()
        ));
        Ok(Self {
            cluster,
            archive,
            run,
            design,
            progress,
            interrupt: interrupt(root),
            free_bytes_min: options.free_bytes_min,
            gc_log: options.gc_log.clone(),
            watched,
            load_agents: options.load_agents.clone(),
            is_here,
            injector: None,
        })
    }

    /// The run with a fault that its stages inject and heal.
    pub(super) fn with_fault(mut self, injector: Injector) -> Self {
        self.injector = Some(injector);
        self
    }

    /// The fault of the run.
    pub(super) fn injector(&self) -> Option<&Injector> {
        self.injector.as_ref()
    }

    /// The cluster under load.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The machines that agents observe.
    pub(super) fn watched(&self) -> &[Watched] {
        &self.watched
    }

    /// Addresses of the agents that share the load with this machine.
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
    pub async fn run(&mut self) -> Result<(), Error> {
        let ran = match try_all(&self.cluster, self.left()).await {
            Ok(()) => self.cells().await.map(drop),
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
        // The last group, which commits offsets only, exists where clients follow the master.
        let groups = workload.groups + u32::from(workload.follows);
        made.groups.extend((0..groups).map(|number| workload.group(number)));
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
    pub(super) async fn cells(&mut self) -> Result<bool, Error> {
        let cells: Vec<_> = (1..).zip(self.design.cells.clone()).collect();
        let count = cells.len();
        for (number, cell) in cells {
            let factors = &cell.factors;
            if self.archive.cell(number, factors).is_finished() || self.run.left_out.contains(&number) {
                continue;
            }
            if self.design.prune && is_dominated(&self.archive, &self.run, factors)? {
                self.run.left_out.push(number);
                self.archive.save(&self.run)?;
                let name = factors.name(number);
                self.progress.line(&format!("{name} is left out: fewer threads reached the ceiling"));
                self.progress.skip(cell.seconds(self.run.repeats));
            } else if !self.cell((number, Some(count)), &cell).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a cell, also one that the run did not begin with, unless it is finished; `None` when the run was
    /// interrupted.
    ///
    /// # Errors
    /// Errors of [`Bench::run`].
    pub async fn add(&mut self, cell: &CellLoad) -> Result<Option<RecordedCell>, Error> {
        let known = self.run.cells.iter().position(|known| *known == cell.factors);
        let index = known.unwrap_or(self.run.cells.len());
        if known.is_none() {
            self.run.cells.push(cell.factors.clone());
            self.archive.save(&self.run)?;
        }
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let directory = self.archive.cell(number, &cell.factors);
        let (seconds, is_finished) = (cell.seconds(self.run.repeats), directory.is_finished());
        if index >= self.design.cells.len() {
            self.progress.more(seconds);
            self.progress.skip(if is_finished { seconds } else { 0 });
        }
        // The number of cells that a search still needs is unknown.
        if !is_finished && !self.cell((number, None), cell).await? {
            return Ok(None);
        }
        Ok(Some(directory.record()?))
    }

    /// Runs the missing repeats of a cell; returns false when the run was interrupted. The number of all cells is part
    /// of `number` when it is known.
    async fn cell(
        &mut self,
        (number, all): (u32, Option<usize>),
        CellLoad { factors, load, stages, repeats }: &CellLoad,
    ) -> Result<bool, Error> {
        let directory = self.archive.cell(number, factors);
        let new = Cell { number, name: directory.name(), factors: factors.clone(), ..Cell::default() };
        let before = directory.read_partial()?;
        if before.as_ref().is_some_and(|cell| cell.interrupted) {
            self.progress.line(&format!("{} {AGAIN}; what it left is kept beside it", new.name));
        }
        let mut cell = before.map_or(new, Cell::to_go_on);
        // Messages and groups of cells that use one topic are told apart by this number.
        let workload = Workload { run: epoch_ms() as u32, ..load.clone() };
        let repeats = repeats.unwrap_or(self.run.repeats);
        prepare(&self.cluster, &self.run.cells, factors).await?;
        self.note_made(&workload).await?;
        while cell.repeats < repeats {
            if self.is_interrupted() {
                return Ok(false);
            }
            let repeat = cell.repeats + 1;
            let place = place((number, all), (repeat, repeats));
            self.progress.doing(&format!("{place}: {}", cell.name));
            let planned = stages.iter().map(|stage| u64::from(stage.seconds)).sum::<u64>();
            let position = self.progress.position() + planned;
            let Recorded { phases, checked, ended } =
                record(self, &directory, &cell, &workload, stages).await?;
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
            self.progress.reach(position);
            // How many cells a search still needs is unknown.
            let of = if all.is_some() { "" } else { " of this cell" };
            let left = self.progress.left().map(|left| format!("{left} left{of}"));
            let line = repeat_line(&cell, repeat, &directory.repeat(repeat).load()?);
            self.progress.line(&format!("[{}] {line}", joined([Some(place), left])));
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
        export::run(&ReportOptions::of(self.archive.root()))
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
fn root_of(options: &RunOptions, scenario: &str) -> PathBuf {
    options.out.clone().unwrap_or_else(|| run_directory(scenario))
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
