//! The open files of a repeat.

use super::bench::Bench;
use super::probes::OfBroker;
use super::progress::Progress;
use crate::Error;
use crate::archive::{BrokerSecond, Event, Histograms, HostSecond, LoadSecond, RepeatDirectory, Rows};
use crate::generator::IntervalSample;
use crate::measure::HostProbe;
use std::collections::BTreeMap;

/// The open files of a repeat and what they need between two rows.
pub(super) struct Files {
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

impl Files {
    pub fn create(bench: &Bench, directory: &RepeatDirectory) -> Result<Self, Error> {
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

    /// Writes a second of the load and of this machine.
    pub fn second(
        &mut self,
        taken: &IntervalSample,
        probe: &mut HostProbe,
        progress: &Progress,
    ) -> Result<(), Error> {
        self.load(taken)?;
        if let Some(host) = probe.sample(taken.at_ms) {
            self.host.append(&host)?;
            if host.cpu_steal > 0.1 {
                let detail = format!("the hypervisor took {:.0} % of the processors", host.cpu_steal * 100.0);
                self.lasted(taken, "steal", detail)?;
            }
        }
        if taken.refused > 0 {
            self.lasted(taken, "flow-control", refused(taken))?;
        }
        if taken.failed > 0 {
            self.lasted(taken, "no-answer", format!("{} requests have no answer", taken.failed))?;
        }
        progress.second();
        Ok(())
    }

    /// Writes an interval of the load.
    pub fn load(&mut self, taken: &IntervalSample) -> Result<(), Error> {
        self.load.append(&taken.second())?;
        self.latencies(taken)
    }

    fn latencies(&mut self, taken: &IntervalSample) -> Result<(), Error> {
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
        Ok(())
    }

    pub fn event(&mut self, at_ms: u64, kind: &str, detail: String) -> Result<(), Error> {
        self.write(Event { at_ms, kind: kind.to_owned(), detail, ..Event::default() })
    }

    /// Writes an event that lasted for the whole second that ended.
    fn lasted(&mut self, taken: &IntervalSample, kind: &str, detail: String) -> Result<(), Error> {
        self.write(during(taken, kind, detail))
    }

    fn write(&mut self, event: Event) -> Result<(), Error> {
        self.events.append(&event)
    }

    /// Writes a second of a machine that an agent observes, or an event that the agent was lost.
    pub fn afar(
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

    /// Writes the figures or an event of a broker.
    pub fn broker(&mut self, bench: &Bench, seen: OfBroker) -> Result<(), Error> {
        match seen {
            OfBroker::Second(name, second) => self.broker_second(&name, &second),
            OfBroker::Event(event) => {
                bench.line(&format!("the broker {}: {}", event.node, event.detail));
                self.write(event)
            }
        }
    }

    fn broker_second(&mut self, name: &str, second: &BrokerSecond) -> Result<(), Error> {
        if !self.brokers.contains_key(name) {
            self.brokers.insert(name.to_owned(), self.directory.write_broker(name)?);
        }
        self.brokers.get_mut(name).expect("just inserted").append(second)
    }
}

/// The number of refused requests, with the answer to the first of them.
fn refused(taken: &IntervalSample) -> String {
    let first = taken.refusal.as_ref().map(|refusal| format!(", the first with {refusal}"));
    format!("{} requests were refused{}", taken.refused, first.unwrap_or_default())
}

/// An event that began with the second that ended.
pub(super) fn during(taken: &IntervalSample, kind: &str, detail: String) -> Event {
    let (at_ms, lasted_ms) = (taken.at_ms.saturating_sub(taken.lasted_ms), taken.lasted_ms);
    Event { at_ms, kind: kind.to_owned(), detail, lasted_ms, ..Event::default() }
}

fn agent_lost(node: String) -> Event {
    let (kind, detail) =
        ("agent-lost".to_owned(), "this machine is not seen until it answers again".to_owned());
    Event { node, kind, detail, ..Event::default() }
}
