//! Text about replication in the runtime status of a broker.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use wire::ha::BrokerId;

use crate::parts::{Replication, Runtime};
use crate::replicas::SlaveProgress;
use crate::retention::size;

/// Milliseconds beyond the heartbeat interval after which the peer of a connection counts as silent.
const SILENCE_MS: u64 = 2_000;

/// Returns the entries of the broker's runtime status about replication. A master has an entry for each slave, and a
/// slave has a single entry.
pub(super) fn status(replication: &Replication, runtime: &Runtime) -> BTreeMap<String, String> {
    if replication.role.is_slave() {
        return BTreeMap::from([("replicationMaster".to_owned(), of_master(replication, runtime))]);
    }
    let slaves = replication.replicas.slaves().into_iter();
    slaves
        .map(|slave| (format!("replicationSlave_{}", slave.remote), of_slave(replication, runtime, &slave)))
        .collect()
}

/// Returns the state of a slave's connection to its master.
fn of_master(replication: &Replication, runtime: &Runtime) -> String {
    let replicas = &replication.replicas;
    let address = replicas.master().borrow().ha.clone();
    let address = address.unwrap_or_else(|| "an unknown address".to_owned());
    let silent = silence(runtime, replicas.upstream.read_ms.load(Ordering::Relaxed));
    let text = match replicas.upstream.trouble() {
        _ if replication.acting.is_acting() => "acts for its master, which is gone".to_owned(),
        _ if replicas.follows() => match silent {
            Some(silent) => format!("heard nothing from {address} for {silent}"),
            None => format!("follows {address}"),
        },
        trouble if trouble.is_empty() => format!("does not follow {address} yet"),
        trouble => format!("does not follow {address}: {trouble}"),
    };
    match replicas.upstream.skew() {
        Some(skew) => format!("{text}; {skew}"),
        None => text,
    }
}

/// Returns the progress of a slave.
fn of_slave(replication: &Replication, runtime: &Runtime, slave: &SlaveProgress) -> String {
    if let Some(trouble) = slave.trouble() {
        return format!("cannot follow: {trouble}");
    }
    if !slave.has_reported() {
        return "has not said where its log ends".to_owned();
    }
    if let Some(silent) = silence(runtime, slave.heard_ms.load(Ordering::Relaxed)) {
        return format!("not in sync: heard nothing for {silent}");
    }
    let gap = replication.store.appended().get().saturating_sub(slave.acknowledged.load(Ordering::Relaxed));
    if !runtime.config.is_controlled() && !slave.is_known() {
        let gap = size(gap);
        return format!(
            "does not count: no broker at this address fetches the tables of this master, and no other slave lacks a connection; gap {gap}"
        );
    }
    let speed = slave.sent.per_second(runtime.now_ms());
    let state = if is_in_sync(replication, runtime, slave, gap) { "in sync" } else { "not in sync" };
    let text = format!("{state}: gap {}, {}/s", size(gap), size(speed));
    if gap == 0 || speed == 0 {
        return text;
    }
    format!("{text}, {:.1} s left", gap as f64 / speed as f64)
}

/// Time since the peer of a connection sent its last bytes, as text in whole seconds. `None` if the
/// peer has never sent bytes, or is silent for at most the heartbeat interval plus [`SILENCE_MS`].
fn silence(runtime: &Runtime, heard_ms: i64) -> Option<String> {
    let silent_ms = u64::try_from(runtime.now_ms().saturating_sub(heard_ms)).unwrap_or(0);
    let is_silent = heard_ms > 0 && silent_ms > runtime.config.replication.heartbeat_interval_ms + SILENCE_MS;
    is_silent.then(|| format!("{} s", silent_ms / 1000))
}

/// Whether a slave that is `gap` bytes behind is in the in-sync set, or without controllers counts as in sync. A silent slave is
/// not in sync, because a master that is cut off keeps its last set.
pub(crate) fn is_in_sync(
    replication: &Replication,
    runtime: &Runtime,
    slave: &SlaveProgress,
    gap: u64,
) -> bool {
    if silence(runtime, slave.heard_ms.load(Ordering::Relaxed)).is_some() {
        return false;
    }
    if runtime.config.is_controlled() {
        let id = BrokerId::new(slave.broker.load(Ordering::Relaxed));
        return replication.replicas.elected().in_sync.members.contains(&id);
    }
    slave.is_known() && gap < runtime.config.replication.max_gap_bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Role;
    use crate::testing::Fixture;

    #[test]
    fn the_runtime_status_says_of_each_slave_how_far_it_is() {
        let fixture = Fixture::with(|config| config.replication.max_gap_bytes = 1000);
        fixture.put("T", 0, &[7; 5000], b"");
        let (broker, slave) = (&fixture.broker, Arc::new(SlaveProgress::new("10.0.0.1:1".parse().unwrap())));
        broker.replication.replicas.join(slave.clone());
        let said = || status(&broker.replication, &broker.runtime)["replicationSlave_10.0.0.1:1"].clone();
        assert_eq!(said(), "has not said where its log ends");
        let end = broker.store.appended().get();
        let now_ms = broker.runtime.now_ms();
        slave.sent.add(1 << 20, now_ms - 1010);
        broker.replication.replicas.note_report(&slave, end - 4096);
        assert!(said().starts_with("does not count: ") && said().ends_with("; gap 4.0 KiB"), "{}", said());
        slave.is_known.store(true, Ordering::Relaxed);
        let text = said();
        assert!(text.starts_with("not in sync: gap 4.0 KiB, ") && text.ends_with("/s, 0.0 s left"), "{text}");
        broker.replication.replicas.note_report(&slave, end - 512);
        assert!(said().starts_with("in sync: gap 512 B, "), "{}", said());
        slave.note_trouble("its log ends too early".to_owned());
        assert_eq!(said(), "cannot follow: its log ends too early");
    }

    /// A master with controllers and its slave with broker id 2.
    fn controlled() -> (Fixture, Arc<SlaveProgress>) {
        let fixture = Fixture::with(|config| config.replication.controller.is_enabled = true);
        fixture.broker.replication.role.lead();
        let slave = Arc::new(SlaveProgress::new("10.0.0.1:1".parse().unwrap()));
        slave.broker.store(2, Ordering::Relaxed);
        fixture.broker.replication.replicas.join(slave.clone());
        fixture.broker.replication.replicas.note_report(&slave, 0);
        (fixture, slave)
    }

    #[test]
    fn with_controllers_a_slave_is_in_sync_when_it_is_in_the_set() {
        let (fixture, _slave) = controlled();
        let broker = &fixture.broker;
        for (members, is_in_sync) in [(vec![1], false), (vec![1, 2], true)] {
            let members = members.into_iter().map(BrokerId::new).collect();
            broker.replication.replicas.elected().in_sync.members = members;
            let (_, _, body) = fixture.ask(wire::codes::request::GET_BROKER_HA_STATUS, &[], b"");
            let found: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(found["haConnectionInfo"][0]["inSync"], is_in_sync, "{found}");
            let text = &status(&broker.replication, &broker.runtime)["replicationSlave_10.0.0.1:1"];
            assert_eq!(text.starts_with("in sync"), is_in_sync, "{text}");
        }
    }

    #[test]
    fn a_slave_that_is_silent_is_not_in_sync() {
        let (fixture, slave) = controlled();
        let broker = &fixture.broker;
        broker.replication.replicas.elected().in_sync.members = [1, 2].map(BrokerId::new).into();
        for (silent_ms, is_in_sync) in [(6_900, true), (7_500, false)] {
            slave.heard_ms.store(broker.runtime.now_ms() - silent_ms, Ordering::Relaxed);
            let (_, _, body) = fixture.ask(wire::codes::request::GET_BROKER_HA_STATUS, &[], b"");
            let found: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(found["haConnectionInfo"][0]["inSync"], is_in_sync, "{found}");
            let text = &status(&broker.replication, &broker.runtime)["replicationSlave_10.0.0.1:1"];
            assert_eq!(text == "not in sync: heard nothing for 7 s", !is_in_sync, "{text}");
        }
    }

    #[test]
    fn the_runtime_status_of_a_slave_says_why_it_does_not_follow() {
        let fixture = Fixture::with(|config| {
            config.replication.role = Role::Slave;
        });
        let replicas = &fixture.broker.replication.replicas;
        let said =
            || status(&fixture.broker.replication, &fixture.broker.runtime)["replicationMaster"].clone();
        assert_eq!(said(), "does not follow an unknown address yet");
        replicas.learn(None, Some("10.0.0.1:10912"));
        replicas.upstream.note_trouble("it cannot be reached".to_owned());
        assert_eq!(said(), "does not follow 10.0.0.1:10912: it cannot be reached");
        replicas.set_follows(true);
        assert_eq!(said(), "follows 10.0.0.1:10912");
        replicas.upstream.note_read(20, fixture.broker.runtime.now_ms() - 12_500);
        assert_eq!(said(), "heard nothing from 10.0.0.1:10912 for 12 s");
        fixture.broker.replication.acting.set_acting(true);
        assert_eq!(said(), "acts for its master, which is gone");
        fixture.broker.replication.acting.set_acting(false);
        replicas.upstream.note_read(20, fixture.broker.runtime.now_ms());
        replicas.upstream.note_clock(8_000, 1_000, 1_400);
        assert!(
            said().starts_with("follows 10.0.0.1:10912; the master's clock is 6.6 s ahead of"),
            "{}",
            said()
        );
        replicas.upstream.note_clock(0, 3_000, 3_400);
        assert!(said().contains("is 3.0 s behind this broker's: synchronize them"), "{}", said());
        replicas.upstream.note_clock(4_200, 3_000, 3_400);
        assert_eq!(said(), "follows 10.0.0.1:10912");
    }
}
