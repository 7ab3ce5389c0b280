//! Checks at the end of a run, long after the last fault.

use super::{SENDS_END_MS, SERVICE_MS, World};
use crate::broker::Broker;
use crate::check;
use crate::settings::{BROKERS, Faults, NodeId};

/// Longest time without an acknowledgement while a disk is slow: the stall is noticed, another broker is elected, and the slow
/// broker leaves the in-sync set.
const SLOW_SERVICE_MS: u64 = 12_000;

impl World {
    /// Fails when one slow disk keeps the group from acknowledging.
    pub(super) fn check_service(&self) -> Result<(), String> {
        let (last_ms, now_ms) = (self.history.last_ms, self.now_ms);
        let is_late = last_ms > 0 && now_ms < SENDS_END_MS && now_ms > last_ms + SLOW_SERVICE_MS;
        match self.settings.faults == Faults::SlowDisks && is_late {
            true => Err(format!("P14: nothing was acknowledged since {last_ms}, while one disk is slow")),
            false => Ok(()),
        }
    }

    pub(super) fn check_end(&self) -> Result<(), String> {
        let served_ms = self.served_ms.ok_or("P14: nothing was acknowledged after the heal")?;
        if served_ms > SERVICE_MS {
            return Err(format!("P14: the first acknowledgement after the heal came at {served_ms}"));
        }
        let last_ms = self.history.last_ms;
        if last_ms + 4_000 < SENDS_END_MS {
            return Err(format!("P14: the last acknowledgement came at {last_ms}, producers sent on"));
        }
        let mut brokers = Vec::new();
        for node in NodeId::brokers() {
            let broker = self.nodes[node.0].broker.as_deref();
            brokers.push((node, broker.ok_or(format!("P14: broker {} is down", node.name()))?));
        }
        let masters: Vec<_> = brokers.iter().filter(|(_, broker)| broker.is_master()).collect();
        let [(master_node, master)] = masters[..] else {
            return Err(format!("P14: {} brokers lead at the end", masters.len()));
        };
        let end = master.store().appended();
        for (node, broker) in &brokers {
            let (name, found) = (node.name(), broker.store().appended());
            check::same((*master_node, master.store()), (*node, broker.store()), end.min(found))?;
            let log = check::derived(*node, broker.store())?;
            if found != end {
                return Err(format!("P14: the log of {name} ends at {found}, the master's at {end}"));
            }
            let checked = self.history.check(&log, broker.store().min().get());
            checked.map_err(|what| format!("broker {name}: {what}"))?;
            Self::check_visible(name, broker)?;
        }
        let members = self.members().len();
        match !self.has_controllers() || members == BROKERS {
            true => self.check_controllers(),
            false => Err(format!("P14: the in-sync set has {members} members at the end")),
        }
    }

    fn check_visible(name: &str, broker: &Broker) -> Result<(), String> {
        let (visible, end) = (broker.store().visible(), broker.store().appended());
        match visible == end {
            true => Ok(()),
            false => Err(format!("P14: readers of {name} see the log up to {visible} of {end}")),
        }
    }
}
