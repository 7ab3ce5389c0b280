//! The probes of a repeat: agents observe their machines, and brokers report their figures.

use super::cluster::Cluster;
use super::machines::Watched;
use super::presence::Presence;
use crate::agent::Link;
use crate::archive::{BrokerSecond, Event, HostSecond};
use crate::measure::BrokerProbe;
use crate::runtime::epoch_ms;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// Time between two attempts to reach a lost agent.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// The name of a machine and its figures of a second; `None` when its agent was lost.
type OfMachine = (String, Option<HostSecond>);

/// An observation of a broker.
#[derive(Debug)]
pub(super) enum OfBroker {
    /// The name of the broker and its figures of a second.
    Second(String, BrokerSecond),
    /// The broker was away, came back or was restarted.
    Event(Event),
}

/// The tasks that collect the observations once a second. They end when this value is dropped.
pub(super) struct Probes {
    brokers: UnboundedReceiver<OfBroker>,
    machines: UnboundedReceiver<OfMachine>,
    _tasks: JoinSet<()>,
}

impl Probes {
    /// Starts to connect to the agents and to ask the brokers. An agent that does not answer is waited for; meanwhile
    /// its machine is not observed, which the judgement takes into account.
    pub fn start(cluster: &Cluster, machines: &[Watched]) -> Self {
        let mut tasks = JoinSet::new();
        let (sender, brokers) = unbounded_channel();
        watch_brokers(cluster, &sender, &mut tasks);
        let (sender, seconds) = unbounded_channel();
        for watched in machines {
            tasks.spawn(watch(watched.clone(), sender.clone()));
        }
        Self { brokers, machines: seconds, _tasks: tasks }
    }

    /// The next observation of a broker, if there is one.
    pub fn broker(&mut self) -> Option<OfBroker> {
        self.brokers.try_recv().ok()
    }

    /// The next observation of a machine, if there is one.
    pub fn machine(&mut self) -> Option<OfMachine> {
        self.machines.try_recv().ok()
    }
}

/// Forwards what an agent observes, and once that the agent was lost.
pub(super) async fn watch(Watched { address, asked, name }: Watched, sender: UnboundedSender<OfMachine>) {
    let mut is_reported = false;
    loop {
        if let Ok(mut agent) = Link::connect(&address, &asked).await {
            is_reported = false;
            while let Some(second) = agent.next().await {
                if sender.send((name.clone(), Some(second))).is_err() {
                    return;
                }
            }
        }
        if !is_reported && sender.send((name.clone(), None)).is_err() {
            return;
        }
        is_reported = true;
        tokio::time::sleep(CONNECT_AGAIN).await;
    }
}

/// Asks every broker once a second. A slow answer delays only the broker that gave it.
fn watch_brokers(cluster: &Cluster, sender: &UnboundedSender<OfBroker>, tasks: &mut JoinSet<()>) {
    let brokers = &cluster.target.brokers;
    for broker in brokers {
        let has_slaves =
            broker.id == 0 && brokers.iter().any(|other| other.name == broker.name && other.id > 0);
        let probe = BrokerProbe::new(&cluster.client, broker, has_slaves);
        let name =
            if broker.id == 0 { broker.name.clone() } else { format!("{}-{}", broker.name, broker.id) };
        tasks.spawn(watch_broker(name, probe, sender.clone()));
    }
}

/// Forwards the figures of a broker, and the events that it is away, back or restarted.
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
