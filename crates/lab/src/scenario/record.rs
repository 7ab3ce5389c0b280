//! One repeat: stages of load, every second of them on disk.

use super::bench::{Bench, Watched};
use super::progress::Progress;
use crate::Error;
use crate::agent::{Fleet, Link};
use crate::archive::{BrokerSecond, Event, Histograms, HostSecond, LoadSecond, Phase, RepeatDirectory, Rows};
use crate::generator::{Generator, Taken, Workload};
use crate::measure::{BrokerProbe, HostProbe};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// A part of a repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name of its phase.
    pub name: &'static str,
    /// How long it lasts at most.
    pub seconds: u32,
    /// What happens at its beginning.
    pub action: Action,
    /// What ends it early.
    pub until: Until,
}

/// Between two attempts to reach an agent that is gone.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// What ends a stage before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Nothing.
    Time,
    /// The groups have read everything.
    Drained,
    /// So many bytes of bodies were sent in it.
    Sent(u64),
}

impl Until {
    fn is_met(self, sent_bytes: u64, is_drained: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Time => false,
            Self::Drained => is_drained(),
            Self::Sent(bytes) => sent_bytes >= bytes,
        }
    }
}

/// What happens at the beginning of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing new.
    None,
    /// Consumers start.
    StartReaders,
    /// Consumers stop; they go on from there when they start again.
    StopReaders,
    /// Producers start.
    StartLanes,
    /// Producers stop.
    StopLanes,
}

impl Stage {
    /// A stage without an action.
    #[must_use]
    pub fn new(name: &'static str, seconds: u32) -> Self {
        Self { name, seconds, action: Action::None, until: Until::Time }
    }

    /// Consumers and producers, warm-up, then what counts.
    #[must_use]
    pub fn plain(warmup: u32, steady: u32) -> Vec<Self> {
        vec![
            Self { action: Action::StartReaders, ..Self::new("start", 0) },
            Self { action: Action::StartLanes, ..Self::new("warmup", warmup) },
            Self::new("steady", steady),
        ]
    }
}

/// What a repeat left.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub phases: Vec<Phase>,
    /// Counts of messages, where content was checked.
    pub checked: BTreeMap<String, u64>,
    /// False when it was interrupted.
    pub whole: bool,
}

/// The open files of a repeat.
struct Files {
    load: Rows<LoadSecond>,
    latency: Histograms,
    end_to_end: Option<Histograms>,
    late: Option<Histograms>,
    host: Rows<HostSecond>,
    others: BTreeMap<String, Rows<HostSecond>>,
    brokers: BTreeMap<String, Rows<BrokerSecond>>,
    events: Rows<Event>,
    directory: RepeatDirectory,
}

/// Performs the stages and writes what is seen.
pub(super) async fn record(
    bench: &Bench,
    directory: &RepeatDirectory,
    repeat: u32,
    workload: &Workload,
    stages: &[Stage],
) -> Result<Recorded, Error> {
    directory.begin()?;
    let mut files = Files::create(bench, directory)?;
    let (sender, mut brokers) = mpsc::unbounded_channel();
    let watchers = watch_brokers(bench, &sender);
    let (seen, mut afar) = mpsc::unbounded_channel();
    let agents = watch_agents(bench, &seen).await?;
    let (mut fleet, share) = Fleet::prepare(bench.load_agents(), workload).await?;
    let workload = &share;
    let mut generator = Generator::prepare(workload).await?;
    let mut probe = bench.host_probe();
    probe.sample(epoch_ms());
    let mut first = generator.take();
    fleet.add_to(&mut first).await?;
    let mut last_ms = first.at_ms;
    let mut recorded = Recorded { whole: true, ..Recorded::default() };
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    clock.tick().await;
    let mut sending = false;
    'stages: for stage in stages {
        begin((&mut generator, &mut fleet), workload, stage, &mut files).await?;
        sending = match stage.action {
            Action::StartLanes => true,
            Action::StopLanes => false,
            _ => sending,
        };
        let (from_ms, mut sent_bytes) = (last_ms, 0);
        let mut met = (stage.until != Until::Time).then_some(false);
        for second in 0..stage.seconds {
            tokio::select! {
                _ = clock.tick() => {}
                () = bench.interrupted() => {
                    recorded.whole = false;
                    break 'stages;
                }
            }
            let mut taken = generator.take();
            fleet.add_to(&mut taken).await?;
            last_ms = taken.at_ms;
            sent_bytes += taken.sent_bytes;
            files.second(&taken, &mut probe, bench.progress())?;
            while let Ok((name, second)) = brokers.try_recv() {
                files.broker(&name, &second)?;
            }
            while let Ok((name, second)) = afar.try_recv() {
                files.afar(bench, last_ms, name, second)?;
            }
            bench.check_space()?;
            let waits = Waits { behind: generator.behind(), in_flight: generator.in_flight(), sending };
            let is_drained =
                || second > 0 && generator.knows_positions() && waits.is_drained(&taken, workload.groups);
            if stage.until.is_met(sent_bytes, is_drained) {
                met = Some(true);
                files.event(last_ms, stage.name, "it ended by what it waited for".to_owned())?;
                break;
            }
        }
        if stage.seconds > 0 {
            let name = stage.name.to_owned();
            recorded.phases.push(Phase { repeat, name, from_ms, to_ms: last_ms, met });
        }
    }
    recorded.checked = generator.checked();
    drop((watchers, agents));
    generator.stop().await;
    Ok(recorded)
}

/// What is not consumed yet.
pub(super) struct Waits {
    /// Messages that wait at the brokers, summed over the groups.
    pub behind: u64,
    /// Requests without an answer.
    pub in_flight: u64,
    /// Producers go on.
    pub sending: bool,
}

impl Waits {
    /// Whether the groups have read everything. Live messages always wait a moment: while producers go on, drained is
    /// what a tenth of a second's worth for each group explains. Once they stopped it is nothing at all, and nothing
    /// that came within the last second: what is missing then is called lost.
    pub fn is_drained(&self, taken: &Taken, groups: u32) -> bool {
        if self.sending {
            return self.behind <= taken.sent.max(100) / 10 * u64::from(groups.max(1));
        }
        self.behind == 0 && self.in_flight == 0 && taken.consumed == 0
    }
}

/// Does what happens at the beginning of a stage.
async fn begin(
    (generator, fleet): (&mut Generator, &mut Fleet),
    workload: &Workload,
    stage: &Stage,
    files: &mut Files,
) -> Result<(), Error> {
    let kind = match stage.action {
        Action::None => return Ok(()),
        Action::StartReaders => {
            generator.start_readers(workload).await?;
            "consumers-start"
        }
        Action::StopReaders => {
            generator.stop_readers().await;
            "consumers-stop"
        }
        Action::StartLanes => {
            tokio::time::sleep(fleet.start().await?).await;
            generator.start_lanes(workload)?;
            "producers-start"
        }
        Action::StopLanes => {
            fleet.stop().await?;
            generator.stop_lanes();
            "producers-stop"
        }
    };
    files.event(epoch_ms(), kind, stage.name.to_owned())
}

impl Files {
    fn create(bench: &Bench, directory: &RepeatDirectory) -> Result<Self, Error> {
        Ok(Self {
            load: directory.write_load()?,
            latency: directory.write_latency()?,
            end_to_end: None,
            late: None,
            host: directory.write_host(&bench.cluster().host.name)?,
            others: BTreeMap::new(),
            brokers: BTreeMap::new(),
            events: directory.write_events()?,
            directory: directory.clone(),
        })
    }

    fn second(&mut self, taken: &Taken, probe: &mut HostProbe, progress: &Progress) -> Result<(), Error> {
        let second = taken.second();
        self.load.append(&second)?;
        self.latency.append(taken.at_ms, taken.lasted_ms, &taken.latency)?;
        if !taken.end_to_end.is_empty() {
            if self.end_to_end.is_none() {
                self.end_to_end = Some(self.directory.write_end_to_end()?);
            }
            let log = self.end_to_end.as_mut().expect("just opened");
            log.append(taken.at_ms, taken.lasted_ms, &taken.end_to_end)?;
        }
        if !taken.late.is_empty() {
            if self.late.is_none() {
                self.late = Some(self.directory.write_late()?);
            }
            let log = self.late.as_mut().expect("just opened");
            log.append(taken.at_ms, taken.lasted_ms, &taken.late)?;
        }
        if let Some(host) = probe.sample(taken.at_ms) {
            self.host.append(&host)?;
            if host.cpu_steal > 0.1 {
                let detail = format!("the hypervisor took {:.0} % of the processors", host.cpu_steal * 100.0);
                self.lasted(taken, "steal", detail)?;
            }
        }
        if taken.refused > 0 {
            self.lasted(taken, "flow-control", format!("{} requests were refused", taken.refused))?;
        }
        if taken.failed > 0 {
            self.lasted(taken, "no-answer", format!("{} requests have no answer", taken.failed))?;
        }
        progress.second();
        Ok(())
    }

    fn event(&mut self, at_ms: u64, kind: &str, detail: String) -> Result<(), Error> {
        self.write(Event { at_ms, kind: kind.to_owned(), detail, ..Event::default() })
    }

    /// Something that was there for the whole second that is over now.
    fn lasted(&mut self, taken: &Taken, kind: &str, detail: String) -> Result<(), Error> {
        self.write(during(taken, kind, detail))
    }

    fn write(&mut self, event: Event) -> Result<(), Error> {
        self.events.append(&event)
    }

    /// A second of a machine that an agent watches, or the loss of that agent.
    fn afar(
        &mut self,
        bench: &Bench,
        at_ms: u64,
        name: String,
        second: Option<HostSecond>,
    ) -> Result<(), Error> {
        let Some(second) = second else {
            bench.line(&format!(
                "the agent on {name} is gone; its machine is not seen until it answers again"
            ));
            return self.write(Event { at_ms, ..agent_lost(name) });
        };
        self.other_host(&name, &second)
    }

    fn other_host(&mut self, name: &str, second: &HostSecond) -> Result<(), Error> {
        if !self.others.contains_key(name) {
            self.others.insert(name.to_owned(), self.directory.write_host(name)?);
        }
        self.others.get_mut(name).expect("just inserted").append(second)
    }

    fn broker(&mut self, name: &str, second: &BrokerSecond) -> Result<(), Error> {
        if !self.brokers.contains_key(name) {
            self.brokers.insert(name.to_owned(), self.directory.write_broker(name)?);
        }
        self.brokers.get_mut(name).expect("just inserted").append(second)
    }
}

/// An event that began when the second began.
pub(super) fn during(taken: &Taken, kind: &str, detail: String) -> Event {
    let (at_ms, lasted_ms) = (taken.at_ms.saturating_sub(taken.lasted_ms), taken.lasted_ms);
    Event { at_ms, kind: kind.to_owned(), detail, lasted_ms, ..Event::default() }
}

fn agent_lost(node: String) -> Event {
    let (kind, detail) =
        ("agent-lost".to_owned(), "this machine is not seen until it answers again".to_owned());
    Event { node, kind, detail, ..Event::default() }
}

/// Tasks that take what agents on other machines see: a second each, and nothing when an agent is gone. They end when
/// they are dropped.
async fn watch_agents(
    bench: &Bench,
    sender: &mpsc::UnboundedSender<(String, Option<HostSecond>)>,
) -> Result<tokio::task::JoinSet<()>, Error> {
    let mut watchers = tokio::task::JoinSet::new();
    for watched in bench.watched() {
        let link = Link::connect(&watched.address, &watched.asked).await?;
        watchers.spawn(watch(link, watched.clone(), sender.clone()));
    }
    Ok(watchers)
}

pub(super) async fn watch(
    mut link: Link,
    Watched { address, asked, name }: Watched,
    sender: mpsc::UnboundedSender<(String, Option<HostSecond>)>,
) {
    loop {
        let second = link.next().await;
        let is_there = second.is_some();
        if sender.send((name.clone(), second)).is_err() {
            return;
        }
        if is_there {
            continue;
        }
        link = loop {
            tokio::time::sleep(CONNECT_AGAIN).await;
            if let Ok(again) = Link::connect(&address, &asked).await {
                break again;
            }
        };
    }
}

/// Tasks that ask every broker once a second; a slow answer delays only itself. They end when they are dropped.
fn watch_brokers(
    bench: &Bench,
    sender: &mpsc::UnboundedSender<(String, BrokerSecond)>,
) -> tokio::task::JoinSet<()> {
    let mut watchers = tokio::task::JoinSet::new();
    let brokers = &bench.cluster().target.brokers;
    for broker in brokers {
        let has_slaves =
            broker.id == 0 && brokers.iter().any(|other| other.name == broker.name && other.id > 0);
        let mut probe = BrokerProbe::new(&bench.cluster().client, broker, has_slaves);
        let name =
            if broker.id == 0 { broker.name.clone() } else { format!("{}-{}", broker.name, broker.id) };
        let sender = sender.clone();
        watchers.spawn(async move {
            let mut clock = tokio::time::interval(Duration::from_secs(1));
            clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                clock.tick().await;
                if let Some(second) = probe.sample(epoch_ms()).await
                    && sender.send((name.clone(), second)).is_err()
                {
                    return;
                }
            }
        });
    }
    watchers
}

/// Milliseconds since 1970.
pub(super) fn epoch_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}
