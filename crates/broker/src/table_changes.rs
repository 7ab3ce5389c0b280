//! The tables of a master for its slaves (request 22097, which only Vostok has). A slave asks for what changed after the versions that
//! it has; the question waits until there is something, and says which versions the slave has safely.

use std::sync::Arc;
use std::time::Duration;

use wire::body::ConsumerOffsetTable;
use wire::codes::response;
use wire::ha::BrokerId;

use crate::Refusal;
use crate::broker::Broker;
use crate::clock::within;
use crate::role::Part;
use crate::state::TableVersions;

/// How long a question waits for a change.
const HELD: Duration = Duration::from_secs(1);

/// How long an answer waits for slaves. Clients wait for three seconds.
const SLAVES_PATIENCE_MS: i64 = 2_000;

/// Pause after which the in-sync set is looked at again, when no slave asks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What a slave learns of its master's tables.
pub(crate) struct TableChanges {
    /// The versions of the moment. Topics and groups are fetched by requests of their own.
    pub versions: TableVersions,
    /// The offsets that changed.
    pub offsets: ConsumerOffsetTable,
    /// How many entries of groups and topics were looked at to find them.
    pub looked_at: usize,
}

/// The versions of this broker's tables at the moment.
fn versions(broker: &Broker) -> TableVersions {
    TableVersions {
        offsets: broker.offsets.newest(),
        topics: broker.topics.generation(),
        groups: broker.groups.generation(),
    }
}

/// Gives `then` what changed after the versions that a slave has, once something did.
///
/// # Errors
/// `SYSTEM_ERROR` when this broker is not master, `SERVICE_NOT_AVAILABLE` while it starts or stops.
pub(crate) fn changes_for(
    broker: &Arc<Broker>,
    slave: BrokerId,
    has: TableVersions,
    then: impl FnOnce(Result<TableChanges, Refusal>) + Send + 'static,
) -> Result<(), Refusal> {
    check_master(broker)?;
    broker.table_copies.note(slave, has);
    let handle = broker.clone();
    broker.client_calls.spawn(move || async move {
        let (mut topics, mut groups) = (handle.topics.changes(), handle.groups.changes());
        if !versions(&handle).is_newer_than(&has) {
            let changed = async {
                tokio::select! {
                    () = handle.offsets.wait_for_change(has.offsets) => {}
                    _ = topics.changed() => {}
                    _ = groups.changed() => {}
                }
            };
            within(HELD, changed).await;
        }
        // Before the offsets, so that what is fetched afterwards is at least as new.
        let now = versions(&handle);
        let changed = handle.offsets.changed_after(has.offsets);
        let versions = TableVersions { offsets: changed.generation, ..now };
        let (offsets, looked_at) = (changed.table, changed.looked_at);
        then(check_master(&handle).map(|()| TableChanges { versions, offsets, looked_at }));
    })
}

fn check_master(broker: &Broker) -> Result<(), Refusal> {
    if broker.role.part() == Part::Master {
        return Ok(());
    }
    Err(Refusal::error("this broker is not the master, and its tables are copies"))
}

/// Whether the slaves of the in-sync set have the topics and groups of the moment.
pub(crate) fn have_topics_and_groups(broker: &Broker) -> bool {
    have(broker, &topics_and_groups(broker))
}

/// Waits until they have, or until they took too long: they may still get them.
///
/// # Errors
/// `SYSTEM_BUSY` when this broker is not master any more.
pub(crate) async fn wait_for_topics_and_groups(broker: &Broker) -> Result<(), Refusal> {
    match wait(broker, topics_and_groups(broker)).await {
        Err(_) if broker.role.part() == Part::Master => Ok(()),
        outcome => outcome,
    }
}

fn topics_and_groups(broker: &Broker) -> TableVersions {
    TableVersions { offsets: 0, ..versions(broker) }
}

/// Whether the slaves of the in-sync set have the offsets of the moment.
pub(crate) fn have_offsets(broker: &Broker) -> bool {
    have(broker, &TableVersions { offsets: broker.offsets.newest(), ..TableVersions::default() })
}

/// Calls `then` once the slaves of the in-sync set have the offsets of the moment, or once it is known that they may not get them.
///
/// # Errors
/// `SERVICE_NOT_AVAILABLE` while the broker starts or stops.
pub(crate) fn when_they_have_offsets(
    broker: &Arc<Broker>,
    then: impl FnOnce(Result<(), Refusal>) + Send + 'static,
) -> Result<(), Refusal> {
    let wanted = TableVersions { offsets: broker.offsets.newest(), ..TableVersions::default() };
    let handle = broker.clone();
    broker.client_calls.spawn(move || async move { then(wait(&handle, wanted).await) })
}

fn have(broker: &Broker, wanted: &TableVersions) -> bool {
    if !broker.config.is_controlled() {
        return true;
    }
    let slaves: Vec<BrokerId> = {
        let elected = broker.replicas.elected();
        elected.in_sync.members.iter().copied().filter(|member| member.get() != elected.own).collect()
    };
    broker.table_copies.have(&slaves, wanted, broker.now_ms())
}

async fn wait(broker: &Broker, wanted: TableVersions) -> Result<(), Refusal> {
    let until_ms = broker.now_ms() + SLAVES_PATIENCE_MS;
    loop {
        // Before the role is looked at: a broker that is deposed has no slaves any more.
        let has = have(broker, &wanted);
        if broker.role.part() != Part::Master {
            let remark = "this broker is no longer the master, and the new one may not have what was changed; try again";
            return Err(Refusal::new(response::SYSTEM_BUSY, remark));
        }
        if has {
            return Ok(());
        }
        if broker.now_ms() >= until_ms {
            let remark = format!(
                "the slaves of the in-sync set did not take the offsets of groups within {SLAVES_PATIENCE_MS} ms; try again"
            );
            return Err(Refusal::new(response::SYSTEM_BUSY, remark));
        }
        broker.table_copies.wait(LOOK_AGAIN).await;
    }
}
