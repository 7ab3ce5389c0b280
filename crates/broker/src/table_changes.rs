//! The tables of a master for its slaves (request 22097, which only Vostok has). A slave asks for what changed after the versions that
//! it has; the question waits until there is something, and tells the master which versions the slave has.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use wire::body::ConsumerOffsetTable;
use wire::codes::response;
use wire::ha::BrokerId;

use crate::Refusal;
use crate::broker::Broker;
use crate::clock::{pause, within};
use crate::offsets::Generation;
use crate::role::Part;
use crate::state::TableVersions;

/// How long a question waits for a change.
const HELD: Duration = Duration::from_secs(1);

/// Shortest time between two looks for changes for a slave, so that many commits make few answers.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Entries of groups and topics per millisecond of that time: a look at them takes a small part of it.
const ENTRIES_PER_MS: u64 = 2_000;

/// How long an answer waits for slaves. Clients wait for three seconds.
const SLAVES_PATIENCE: Duration = Duration::from_secs(2);

/// Pause after which the in-sync set is looked at again, when no slave asks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The remark of the refusal of a slave's question by a broker that is not master.
pub(crate) const NOT_MASTER: &str = "this broker is not the master, and its tables are copies";

/// What a slave learns of its master's tables.
pub(crate) struct TableChanges {
    /// The versions of the moment. Topics and groups are fetched by requests of their own.
    pub versions: TableVersions,
    /// The offsets that changed.
    pub offsets: ConsumerOffsetTable,
}

/// The versions of this broker's tables at the moment.
pub(crate) fn versions(broker: &Broker) -> TableVersions {
    TableVersions {
        offsets: broker.offsets.newest(),
        topics: broker.topics.generation(),
        groups: broker.groups.generation(),
    }
}

/// Gives `then` what changed after the versions that a slave has, once something did. The question says that the slave has them.
///
/// # Errors
/// `SYSTEM_ERROR` when this broker is not master, or too many slaves ask; `SERVICE_NOT_AVAILABLE` while it starts or stops.
pub(crate) fn changes_for(
    broker: &Arc<Broker>,
    slave: BrokerId,
    has: TableVersions,
    then: impl FnOnce(Result<TableChanges, Refusal>) + Send + 'static,
) -> Result<(), Refusal> {
    check_master(broker)?;
    let expectations = broker.table_copies.expectations();
    if !broker.table_copies.note(slave, has) {
        return Err(Refusal::error("too many slaves ask for tables"));
    }
    let handle = broker.clone();
    broker.client_calls.spawn(move || async move {
        let changes = match wait_for_change(&handle, &has, expectations).await {
            true => look(&handle, slave, has).await,
            false => TableChanges { versions: has, offsets: ConsumerOffsetTable::default() },
        };
        then(check_master(&handle).map(|()| changes));
    })
}

/// Waits until a table is newer than the slave has it; false when none is after [`HELD`], or the slave has to ask again.
async fn wait_for_change(
    broker: &Broker,
    has: &TableVersions,
    mut expectations: watch::Receiver<u64>,
) -> bool {
    let (mut topics, mut groups) = (broker.topics.changes(), broker.groups.changes());
    if versions(broker).is_newer_than(has) {
        return true;
    }
    let changed = async {
        tokio::select! {
            () = broker.offsets.wait_for_change(has.offsets) => true,
            _ = topics.changed() => true,
            _ = groups.changed() => true,
            _ = expectations.changed() => false,
        }
    };
    within(HELD, changed).await == Some(true)
}

async fn look(broker: &Broker, slave: BrokerId, has: TableVersions) -> TableChanges {
    let entries = broker.table_copies.entries.load(Ordering::Relaxed);
    let interval = LOOK_INTERVAL + Duration::from_millis(entries / ENTRIES_PER_MS);
    let now = broker.clock.steady();
    let before = broker.table_copies.note_look(slave, now);
    pause((before + interval).saturating_sub(now)).await;
    // Before the offsets, so that topics and groups that are fetched afterwards are at least as new.
    let now = versions(broker);
    let changed = broker.offsets.changed_after(has.offsets);
    broker.table_copies.entries.store(changed.looked_at as u64, Ordering::Relaxed);
    TableChanges { versions: TableVersions { offsets: changed.generation, ..now }, offsets: changed.table }
}

fn check_master(broker: &Broker) -> Result<(), Refusal> {
    if broker.role.part() == Part::Master { Ok(()) } else { Err(Refusal::error(NOT_MASTER)) }
}

/// The topics and groups of the moment, for [`are_copied`] and [`wait`].
pub(crate) fn topics_and_groups(broker: &Broker) -> TableVersions {
    TableVersions { offsets: 0, ..versions(broker) }
}

/// The offsets up to a generation, for [`are_copied`] and [`wait`].
pub(crate) fn offsets_up_to(generation: Generation) -> TableVersions {
    TableVersions { offsets: generation, ..TableVersions::default() }
}

/// Whether every slave that may be elected next has these versions. False on a broker that is not master any more: [`wait`] says why.
pub(crate) fn are_copied(broker: &Broker, wanted: &TableVersions) -> bool {
    if !broker.config.is_controlled() {
        return true;
    }
    let slaves: Vec<BrokerId> = {
        let elected = broker.replicas.elected();
        let members = elected.in_sync.members.union(&elected.proposed);
        members.copied().filter(|member| member.get() != elected.own).collect()
    };
    // After the set was read: a broker that is deposed first stops being master, and then forgets the set.
    broker.role.part() == Part::Master && broker.table_copies.cover(&slaves, wanted, broker.clock.steady())
}

/// Waits until every slave that may be elected next has these versions.
///
/// # Errors
/// `SYSTEM_BUSY` when that takes too long, or this broker is not master any more. The slaves may still get them.
pub(crate) async fn wait(broker: &Broker, wanted: TableVersions) -> Result<(), Refusal> {
    let mut copies = broker.table_copies.changes();
    let until = broker.clock.steady() + SLAVES_PATIENCE;
    loop {
        copies.mark_unchanged();
        if are_copied(broker, &wanted) {
            return Ok(());
        }
        if check_master(broker).is_err() {
            let remark = "this broker is no longer the master, and the new one may not have what was changed; try again";
            return Err(Refusal::new(response::SYSTEM_BUSY, remark));
        }
        if broker.clock.steady() >= until {
            let remark = format!(
                "a slave of the in-sync set did not take the master's tables within {} ms; try again",
                SLAVES_PATIENCE.as_millis()
            );
            return Err(Refusal::new(response::SYSTEM_BUSY, remark));
        }
        within(LOOK_AGAIN, copies.changed()).await;
    }
}

#[cfg(test)]
mod tests;
