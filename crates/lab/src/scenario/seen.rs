//! What others see during a repeat: agents their machines, and brokers themselves.

use super::bench::{Bench, Watched};
use super::presence::Presence;
use super::record::epoch_ms;
use crate::agent::Link;
use crate::archive::{BrokerSecond, Event, HostSecond};
use crate::measure::BrokerProbe;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// Between two attempts to reach an agent that is gone.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// A second of a machine by its name; nothing when its agent is gone.
type OfMachine = (String, Option<HostSecond>);

/// What is seen of a broker.
#[derive(Debug)]
pub(super) enum OfBroker {
    /// Its figures, by its name.
    Second(String, BrokerSecond),
    /// It was away, came back or started again.
    Event(Event),
}

/// Tasks that take what is seen a second at a time. They end when this is dropped.
pub(super) struct Seen {
    brokers: UnboundedReceiver<OfBroker>,
    machines: UnboundedReceiver<OfMachine>,
    _tasks: JoinSet<()>,
}

impl Seen {
    /// Begins to connect to the agents and to look. An agent that does not answer is waited for, as one that is lost later:
    /// its machine is not seen meanwhile, and that is judged.
    pub fn start(bench: &Bench) -> Self {
        let mut tasks = JoinSet::new();
        let (sender, brokers) = unbounded_channel();
        watch_brokers(bench, &sender, &mut tasks);
        let (sender, machines) = unbounded_channel();
        for watched in bench.watched() {
            tasks.spawn(watch(watched.clone(), sender.clone()));
        }
        Self { brokers, machines, _tasks: tasks }
    }

    /// What has come of a broker next.
    pub fn broker(&mut self) -> Option<OfBroker> {
        self.brokers.try_recv().ok()
    }

    /// The next second of a machine that has come.
    pub fn machine(&mut self) -> Option<OfMachine> {
        self.machines.try_recv().ok()
    }
}

/// Hands on what an agent sees, and once that it is gone.
pub(super) async fn watch(Watched { address, asked, name }: Watched, sender: UnboundedSender<OfMachine>) {
    let mut is_told = false;
    loop {
        if let Ok(mut agent) = Link::connect(&address, &asked).await {
            is_told = false;
            while let Some(second) = agent.next().await {
                if sender.send((name.clone(), Some(second))).is_err() {
                    return;
                }
            }
        }
        if !is_told && sender.send((name.clone(), None)).is_err() {
            return;
        }
        is_told = true;
        tokio::time::sleep(CONNECT_AGAIN).await;
    }
}

/// Asks every broker once a second; a slow answer delays only itself.
fn watch_brokers(bench: &Bench, sender: &UnboundedSender<OfBroker>, tasks: &mut JoinSet<()>) {
    let brokers = &bench.cluster().target.brokers;
    for broker in brokers {
        let has_slaves =
            broker.id == 0 && brokers.iter().any(|other| other.name == broker.name && other.id > 0);
        let probe = BrokerProbe::new(&bench.cluster().client, broker, has_slaves);
        let name =
            if broker.id == 0 { broker.name.clone() } else { format!("{}-{}", broker.name, broker.id) };
        tasks.spawn(watch_broker(name, probe, sender.clone()));
    }
}

/// Hands on what a broker says of itself, and when it is away or another process.
pub(super) async fn watch_broker(name: String, mut probe: BrokerProbe, sender: UnboundedSender<OfBroker>) {
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut presence = Presence::of(&name);
    loop {
        clock.tick().await;
        let at_ms = epoch_ms();
        let sampled = probe.sample(at_ms).await;
        let event = presence.note(at_ms, &sampled).map(OfBroker::Event);
        let second = sampled.ok().map(|second| OfBroker::Second(name.clone(), second));
        if event.into_iter().chain(second).any(|seen| sender.send(seen).is_err()) {
            return;
        }
    }
}
