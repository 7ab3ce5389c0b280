//! The open files of a repeat.

use super::probes::OfBroker;
use super::progress::Progress;
use crate::Error;
use crate::archive::{
    BrokerSecond, END_TO_END, Event, Histograms, HostSecond, LATE, LoadSecond, RepeatDirectory, Rows,
    SEND_LATENCY,
};
use crate::generator::IntervalSample;
use crate::measure::HostProbe;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The open files of a repeat, and the state between two rows.
pub(super) struct Files {
    load: Rows<LoadSecond>,
    latency: Histograms,
    /// Histograms that only some loads have, opened with their first values.
    more: BTreeMap<String, Histograms>,
    host: Rows<HostSecond>,
    others: BTreeMap<String, Rows<HostSecond>>,
    brokers: BTreeMap<String, Rows<BrokerSecond>>,
    events: Rows<Event>,
    directory: RepeatDirectory,
}

impl Files {
    /// Creates the files of a repeat; `host` is the name of this machine.
    pub fn create(host: &str, directory: &RepeatDirectory) -> Result<Self, Error> {
        Ok(Self {
            load: directory.write_load()?,
            latency: directory.write_histograms(SEND_LATENCY)?,
            more: BTreeMap::new(),
            host: directory.write_host(host)?,
            others: BTreeMap::new(),
            brokers: BTreeMap::new(),
            events: directory.write_events()?,
            directory: directory.clone(),
        })
    }

    /// Writes a second of the load and of this machine.
    pub fn second(
        &mut self,
        sample: &IntervalSample,
        probe: &mut HostProbe,
        progress: &Progress,
    ) -> Result<(), Error> {
        self.load(sample)?;
        if let Some(host) = probe.sample(sample.at_ms) {
            self.host.append(&host)?;
            if host.cpu_steal > 0.1 {
                let detail = format!("the hypervisor took {:.0} % of the processors", host.cpu_steal * 100.0);
                self.lasted(sample, "steal", detail)?;
            }
        }
        if sample.refused > 0 {
            self.lasted(sample, "flow-control", refused(sample))?;
        }
        if sample.failed > 0 {
            self.lasted(sample, "no-answer", format!("{} requests have no answer", sample.failed))?;
        }
        progress.second();
        Ok(())
    }

    /// Writes an interval of the load.
    pub fn load(&mut self, sample: &IntervalSample) -> Result<(), Error> {
        self.load.append(&sample.second())?;
        self.latencies(sample)
    }

    fn latencies(&mut self, sample: &IntervalSample) -> Result<(), Error> {
        self.latency.append(sample.at_ms, sample.lasted_ms, &sample.latency)?;
        for (name, histogram) in [(END_TO_END, &sample.end_to_end), (LATE, &sample.late)] {
            if !histogram.is_empty() {
                let log = opened(&mut self.more, name, || self.directory.write_histograms(name))?;
                log.append(sample.at_ms, sample.lasted_ms, histogram)?;
            }
        }
        Ok(())
    }

    pub fn event(&mut self, at_ms: u64, kind: &str, detail: String) -> Result<(), Error> {
        self.write(Event { at_ms, kind: kind.to_owned(), detail, ..Event::default() })
    }

    /// Writes an event that lasted for the whole second that ended.
    fn lasted(&mut self, sample: &IntervalSample, kind: &str, detail: String) -> Result<(), Error> {
        self.write(during(sample, kind, detail))
    }

    fn write(&mut self, event: Event) -> Result<(), Error> {
        self.events.append(&event)
    }

    /// Writes a second of a machine that an agent observes, or an event that the agent was lost.
    pub fn afar(
        &mut self,
        progress: &Progress,
        at_ms: u64,
        name: String,
        second: Option<HostSecond>,
    ) -> Result<(), Error> {
        let Some(second) = second else {
            progress.line(&format!(
                "the agent on {name} is gone; its machine is not seen until it answers again"
            ));
            return self.write(Event { at_ms, ..agent_lost(name) });
        };
        self.other_host(&name, &second)
    }

    fn other_host(&mut self, name: &str, second: &HostSecond) -> Result<(), Error> {
        opened(&mut self.others, name, || self.directory.write_host(name))?.append(second)
    }

    /// Writes the figures or an event of a broker.
    pub fn broker(&mut self, progress: &Progress, seen: OfBroker) -> Result<(), Error> {
        match seen {
            OfBroker::Second(name, second) => self.broker_second(&name, &second),
            OfBroker::Event(event) => {
                progress.line(&format!("the broker {}: {}", event.node, event.detail));
                self.write(event)
            }
        }
    }

    fn broker_second(&mut self, name: &str, second: &BrokerSecond) -> Result<(), Error> {
        opened(&mut self.brokers, name, || self.directory.write_broker(name))?.append(second)
    }
}

/// The file of a name, which is opened when something is written to it for the first time.
fn opened<'a, T>(
    files: &'a mut BTreeMap<String, T>,
    name: &str,
    open: impl FnOnce() -> Result<T, Error>,
) -> Result<&'a mut T, Error> {
    match files.entry(name.to_owned()) {
        Entry::Occupied(file) => Ok(file.into_mut()),
        Entry::Vacant(place) => Ok(place.insert(open()?)),
    }
}

/// The number of refused requests, with the answer to the first of them.
fn refused(sample: &IntervalSample) -> String {
    let first = sample.refusal.as_ref().map(|refusal| format!(", the first with {refusal}"));
    format!("{} requests were refused{}", sample.refused, first.unwrap_or_default())
}

/// An event that began with the second that ended.
pub(super) fn during(sample: &IntervalSample, kind: &str, detail: String) -> Event {
    let (at_ms, lasted_ms) = (sample.at_ms.saturating_sub(sample.lasted_ms), sample.lasted_ms);
    Event { at_ms, kind: kind.to_owned(), detail, lasted_ms, ..Event::default() }
}

fn agent_lost(node: String) -> Event {
    let (kind, detail) =
        ("agent-lost".to_owned(), "this machine is not seen until it answers again".to_owned());
    Event { node, kind, detail, ..Event::default() }
}
