//! What others see during a repeat: agents their machines, and brokers themselves.

use super::bench::{Bench, Watched};
use super::record::epoch_ms;
use crate::agent::Link;
use crate::archive::{BrokerSecond, HostSecond};
use crate::measure::BrokerProbe;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// Between two attempts to reach an agent that is gone.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// A second of a machine by its name; nothing when its agent is gone.
type OfMachine = (String, Option<HostSecond>);

/// Tasks that take what is seen a second at a time. They end when this is dropped.
pub(super) struct Seen {
    brokers: UnboundedReceiver<(String, BrokerSecond)>,
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

    /// The next second of a broker that has come.
    pub fn broker(&mut self) -> Option<(String, BrokerSecond)> {
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
fn watch_brokers(bench: &Bench, sender: &UnboundedSender<(String, BrokerSecond)>, tasks: &mut JoinSet<()>) {
    let brokers = &bench.cluster().target.brokers;
    for broker in brokers {
        let has_slaves =
            broker.id == 0 && brokers.iter().any(|other| other.name == broker.name && other.id > 0);
        let mut probe = BrokerProbe::new(&bench.cluster().client, broker, has_slaves);
        let name =
            if broker.id == 0 { broker.name.clone() } else { format!("{}-{}", broker.name, broker.id) };
        let sender = sender.clone();
        tasks.spawn(async move {
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
}
