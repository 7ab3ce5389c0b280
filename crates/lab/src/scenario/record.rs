//! Repeat of a cell: stages of load, recorded second by second.

use super::bench::Bench;
use super::fault::{Victim, is_whole, master_of};
use super::files::Files;
use super::offsets::Offsets;
use super::probes::Probes;
use super::stage::{Action, Stage, Until};
use crate::Error;
use crate::agent::Fleet;
use crate::archive::{Cell, CellDirectory, Phase, RepeatDirectory, Round};
use crate::generator::{Generator, IntervalSample, Workload};
use crate::measure::HostProbe;
use crate::runtime::epoch_ms;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of checks for requests without an answer at the end of a repeat, and the time between two checks.
const ANSWER_LOOKS: (u32, Duration) = (70, Duration::from_millis(50));

/// Record of a repeat.
#[derive(Debug)]
pub(super) struct Recorded {
    pub phases: Vec<Phase>,
    /// Counts of messages, when content was checked.
    pub checked: BTreeMap<String, u64>,
    /// Whether the repeat was completed (`true`) or interrupted (`false`), or the error that ended it. The figures
    /// measured until then are recorded in each case.
    pub ended: Result<bool, Error>,
}

/// Performs the stages of a repeat and records every second.
///
/// # Errors
/// When the repeat could not begin: [`Error::Cluster`] or [`Error::File`]. Later errors are in [`Recorded::ended`].
pub(super) async fn record(
    bench: &Bench,
    directory: &CellDirectory,
    cell: &Cell,
    workload: &Workload,
    stages: &[Stage],
) -> Result<Recorded, Error> {
    let repeat = cell.repeats + 1;
    let place = directory.repeat(repeat);
    let files =
        || begin(directory, cell, &place).and_then(|()| Files::create(&bench.cluster().host.name, &place));
    let mut course = RunningRepeat::start(bench, workload, files).await?;
    let mut recorded = Recorded { phases: Vec::new(), checked: BTreeMap::new(), ended: Ok(true) };
    for stage in stages {
        let from_ms = course.last_ms;
        let ended = course.stage(stage).await;
        // After an interruption it is unknown whether the condition would have been met.
        let met = match ended {
            Ok(Ended::Met) => Some(true),
            Ok(Ended::Over) => Some(false),
            Ok(Ended::Interrupted) | Err(_) => None,
        };
        if course.last_ms > from_ms {
            let (name, to_ms) = (stage.name.to_owned(), course.last_ms);
            let met = met.filter(|_| stage.until != Until::Time);
            recorded.phases.push(Phase { repeat, name, from_ms, to_ms, met });
        }
        recorded.ended = ended.map(|ended| ended != Ended::Interrupted);
        if !matches!(recorded.ended, Ok(true)) {
            break;
        }
    }
    recorded.checked = course.generator.checked();
    if let Some(round) = course.round(&recorded).await {
        place.write_round(&round)?;
    }
    course.end().await;
    Ok(recorded)
}

/// Prepares the directory of the next repeat of a cell. The files of a repeat that was ended early are put aside and no
/// longer count for the cell.
pub(super) fn begin(directory: &CellDirectory, cell: &Cell, place: &RepeatDirectory) -> Result<(), Error> {
    let before = directory.read_partial()?;
    directory.save_partial(cell)?;
    if before.is_some_and(|before| before.interrupted) {
        place.put_aside()?;
    }
    place.begin()
}

/// End of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The time limit was reached.
    Over,
    /// The condition was met.
    Met,
    /// A signal interrupted the run.
    Interrupted,
}

/// A fault that was injected.
#[derive(Clone, Debug)]
struct Injected {
    victim: Victim,
    /// When the injection began, milliseconds since 1970.
    fault_ms: u64,
    /// When it was done.
    injected_ms: u64,
}

struct RunningRepeat<'a> {
    bench: &'a Bench,
    /// This machine's share of the load.
    workload: Workload,
    generator: Generator,
    fleet: Fleet,
    probe: HostProbe,
    probes: Probes,
    files: Files,
    clock: tokio::time::Interval,
    /// End of the last recorded second, milliseconds since 1970.
    last_ms: u64,
    /// Whether producers are sending.
    sending: bool,
    /// The fault that was injected; `None` before.
    fault: Option<Injected>,
    /// When the fault was ended; `None` before.
    healed_ms: Option<u64>,
    /// Offsets that are committed until the fault.
    offsets: Option<Offsets>,
}

impl<'a> RunningRepeat<'a> {
    /// Connects to the cluster before it creates the files, so that the files of an earlier repeat stay untouched if
    /// that fails.
    async fn start(
        bench: &'a Bench,
        workload: &Workload,
        files: impl FnOnce() -> Result<Files, Error>,
    ) -> Result<Self, Error> {
        let probes = Probes::start(bench.cluster(), bench.watched());
        let (mut fleet, workload) = Fleet::prepare(bench.load_agents(), workload).await?;
        let mut generator = Generator::prepare(&workload).await?;
        let files = files()?;
        let mut probe = bench.host_probe();
        probe.sample(epoch_ms());
        let mut first = generator.take();
        fleet.add_to(&mut first).await?;
        let mut clock = tokio::time::interval(Duration::from_secs(1));
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        clock.tick().await;
        let (last_ms, sending) = (first.at_ms, false);
        Ok(Self {
            bench,
            workload,
            generator,
            fleet,
            probe,
            probes,
            files,
            clock,
            last_ms,
            sending,
            fault: None,
            healed_ms: None,
            offsets: None,
        })
    }

    async fn stage(&mut self, stage: &Stage) -> Result<Ended, Error> {
        self.begin(stage).await?;
        let mut sent_bytes = 0;
        for second in 0..stage.seconds {
            tokio::select! {
                _ = self.clock.tick() => {}
                () = self.bench.interrupted() => return Ok(Ended::Interrupted),
            }
            let sample = self.second().await?;
            sent_bytes += sample.sent_bytes;
            let (generator, sending) = (&self.generator, self.sending);
            let waits = Waits { behind: generator.behind(), in_flight: generator.in_flight(), sending };
            let groups = self.workload.groups;
            let is_drained =
                || second > 0 && generator.knows_positions() && waits.is_drained(&sample, groups);
            let brokers = &self.bench.run_file().target.brokers;
            let is_whole = stage.until == Until::Whole
                && second > 0
                && is_whole(&self.bench.cluster().client, brokers).await;
            if is_whole || stage.until.is_met(sent_bytes, is_drained) {
                let what = "it ended by what it waited for".to_owned();
                self.files.event(self.last_ms, stage.name, what)?;
                return Ok(Ended::Met);
            }
        }
        Ok(Ended::Over)
    }

    /// Records the second that ended.
    async fn second(&mut self) -> Result<IntervalSample, Error> {
        let mut sample = self.generator.take();
        self.fleet.add_to(&mut sample).await?;
        self.last_ms = sample.at_ms;
        self.files.second(&sample, &mut self.probe, self.bench.progress())?;
        while let Some(second) = self.probes.broker() {
            self.files.broker(self.bench.progress(), second)?;
        }
        while let Some((name, second)) = self.probes.machine() {
            self.files.afar(self.bench.progress(), self.last_ms, name, second)?;
        }
        self.bench.check_space()?;
        Ok(sample)
    }

    /// Performs the action at the beginning of a stage.
    async fn begin(&mut self, stage: &Stage) -> Result<(), Error> {
        let kind = match stage.action {
            Action::None => return Ok(()),
            Action::StartReaders => {
                self.generator.start_readers(&self.workload).await?;
                "consumers-start"
            }
            Action::StopReaders => {
                self.generator.stop_readers().await;
                "consumers-stop"
            }
            Action::StartProducers => {
                tokio::time::sleep(self.fleet.start().await?).await;
                self.generator.start_producers(&self.workload)?;
                self.sending = true;
                self.offsets = self.workload.follows.then(|| {
                    let group = self.workload.group(self.workload.groups);
                    Offsets::start(&self.bench.cluster().client, &self.workload.topic, &group)
                });
                "producers-start"
            }
            Action::StopProducers => {
                self.sending = false;
                self.fleet.stop().await?;
                self.generator.stop_producers();
                "producers-stop"
            }
            Action::Inject => {
                self.inject().await?;
                "fault"
            }
            Action::Heal => {
                self.heal().await?;
                "heal"
            }
        };
        self.files.event(epoch_ms(), kind, stage.name.to_owned())
    }

    /// Injects the run's fault into the master of the first broker set.
    async fn inject(&mut self) -> Result<(), Error> {
        let Some(injector) = self.bench.injector() else { return Ok(()) };
        let client = &self.bench.cluster().client;
        let set = self.bench.run_file().target.brokers.first().map(|broker| broker.name.clone());
        let set = set.unwrap_or_default();
        let address = master_of(client, &set).await;
        let nobody = || Error::Broken(format!("{set} has no master, so no fault can meet it"));
        let victim = Victim { address: address.ok_or_else(nobody)?, set };
        self.offsets.iter_mut().for_each(Offsets::stop);
        let fault = self.fault.insert(Injected { victim, fault_ms: epoch_ms(), injected_ms: 0 });
        let done = injector.inject(client, &fault.victim).await;
        fault.injected_ms = epoch_ms();
        done
    }

    /// Ends the fault, unless there is none or it has ended.
    async fn heal(&mut self) -> Result<(), Error> {
        let (Some(injector), Some(fault), None) = (self.bench.injector(), &self.fault, self.healed_ms) else {
            return Ok(());
        };
        self.healed_ms = Some(epoch_ms());
        injector.heal(&fault.victim).await
    }

    /// Findings of the round beside its rows; `None` when no fault was injected.
    async fn round(&mut self, recorded: &Recorded) -> Option<Round> {
        let Injected { victim: Victim { set, address }, fault_ms, injected_ms } = self.fault.clone()?;
        if let Err(error) = self.heal().await {
            self.bench.line(&format!("the fault could not be ended: {error}"));
        }
        // A connection without an acknowledgement until now counts as silent to the end.
        self.generator.stop_producers();
        let offsets = match &self.offsets {
            Some(offsets) => offsets.found().await,
            None => Vec::new(),
        };
        let heal = recorded.phases.iter().find(|phase| phase.name == "heal");
        Some(Round {
            fault_ms,
            injected_ms,
            heal_ms: self.healed_ms.unwrap_or_default(),
            is_whole: heal.and_then(|phase| phase.met),
            master: address,
            master_after: master_of(&self.bench.cluster().client, &set).await.unwrap_or_default(),
            connections: self.generator.connections(),
            silences: self.generator.silences(),
            offsets,
            checked: recorded.checked.clone(),
        })
    }

    /// Stops the producers and records the last answers, so that the sum of the rows equals the acknowledgements of the
    /// brokers.
    async fn end(mut self) {
        let last = self.last_answers().await;
        let written = last.and_then(|last| self.files.load(&last));
        if let Err(error) = written {
            self.bench.line(&format!("what was answered after the last second is not in the files: {error}"));
        }
        self.generator.stop().await;
    }

    /// The figures of the answers since the last second. Requests in flight have their own time limit.
    async fn last_answers(&mut self) -> Result<IntervalSample, Error> {
        if self.sending {
            self.fleet.stop().await?;
            self.generator.stop_producers();
        }
        let (mut last, mut lasted_ms) = (IntervalSample::default(), 0);
        let mut is_over = false;
        for _ in 0..ANSWER_LOOKS.0 {
            let mut sample = self.generator.take();
            self.fleet.add_to(&mut sample).await?;
            lasted_ms += sample.lasted_ms;
            last.add(&sample);
            // An answer may arrive between counting and the check of requests in flight; it is counted by the next
            // call.
            if is_over {
                break;
            }
            is_over = sample.in_flight == 0;
            tokio::time::sleep(ANSWER_LOOKS.1).await;
        }
        Ok(IntervalSample { lasted_ms, in_flight: 0, ..last })
    }
}

/// Messages and requests that are not finished yet.
pub(super) struct Waits {
    /// Messages that wait at the brokers, summed over the groups.
    pub behind: u64,
    /// Requests without an answer.
    pub in_flight: u64,
    /// Whether producers are sending.
    pub sending: bool,
}

impl Waits {
    /// Whether the groups have consumed everything. While producers send, some messages always wait, so the backlog
    /// counts as drained when it is no more than what is sent in 0.1 s, for each group. When producers have stopped,
    /// nothing may wait and nothing may have arrived in the last second, because a message that is missing then counts
    /// as lost.
    pub fn is_drained(&self, sample: &IntervalSample, groups: u32) -> bool {
        if self.sending {
            return self.behind <= sample.sent.max(100) / 10 * u64::from(groups.max(1));
        }
        self.behind == 0 && self.in_flight == 0 && sample.consumed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Archive, Factors, RunFile};

    #[test]
    fn what_was_ended_early_is_put_aside_and_no_longer_told() {
        let place = tempfile::tempdir().unwrap();
        let run = RunFile { cells: vec![Factors::default()], ..RunFile::default() };
        let archive = Archive::create(place.path(), &run).unwrap();
        let directory = archive.cell(1, &run.cells[0]);
        let repeat = directory.repeat(1);
        repeat.begin().unwrap();
        repeat.write_load().unwrap();
        let ended = Cell { number: 1, repeats: 1, interrupted: true, ..Cell::default() };
        directory.save_partial(&ended).unwrap();
        assert_eq!(archive.cells().unwrap().len(), 1);
        begin(&directory, &ended.to_go_on(), &repeat).unwrap();
        assert!(archive.record().unwrap().cells.is_empty(), "until it is there again");
        assert!(directory.path().join("1-ended-early/load.csv").exists());
        assert!(std::fs::read_dir(repeat.path()).unwrap().next().is_none());
        begin(&directory, &Cell::default(), &repeat).unwrap();
        assert!(directory.path().join("1-ended-early/load.csv").exists());
    }
}
