//! Tables of a master for its slaves (request 22097, which only Vostok has). A slave asks for changes after its
//! versions of the tables. The request waits until a table changes, and tells the master the slave's versions. A
//! response that is too large for a frame comes in parts, which the slave requests one after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use wire::body::{SubscriptionGroupTable, TableChanges, TableDelta, TopicTable};
use wire::codes::response;
use wire::ha::BrokerId;
use wire::json;

use crate::clock::{pause, within};
use crate::offsets::Generation;
use crate::parts::{MetadataParts, Replication, Runtime, Tables};
use crate::role::BrokerRole;
use crate::state::TableVersions;
use crate::{Refusal, Result};

/// Longest wait of a request for a change.
const HELD: Duration = Duration::from_secs(1);

/// Shortest time between two searches for changes for a slave, so that many commits make few answers.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Number of examined entries of groups and topics that lengthens [`LOOK_INTERVAL`] by a millisecond. So searches take
/// a small part of the time.
const ENTRIES_PER_MS: u64 = 2_000;

/// Longest wait of a response for slaves. Clients wait for three seconds.
const SLAVES_PATIENCE: Duration = Duration::from_secs(2);

/// Pause after which the in-sync set is examined again, when no slave asks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The remark of the refusal of a slave's question by a broker that is not master.
pub(crate) const NOT_MASTER: &str = "this broker is not the master, and its tables are copies";

/// Approximate most bytes of entries in an answer. An answer of this size fits the master's memory for
/// answers and a frame of 16 MiB.
const PART_BYTES: usize = if cfg!(test) { 4 << 10 } else { 4 << 20 };

/// Tables, in the order of the response.
const TABLES: [&str; 3] = ["topics", "groups", "offsets"];

/// Request of a slave.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub slave: BrokerId,
    /// The versions that the slave has.
    pub has: TableVersions,
    /// End of the last received part, in the form of that part.
    pub after: Option<String>,
}

/// The part of an answer that is put together.
#[derive(Debug)]
struct AnswerPart {
    /// Table and key behind which the part begins.
    from: (usize, String),
    /// About how many bytes are still free.
    room: usize,
    /// End of the part, if further parts follow.
    more: Option<String>,
}

/// The present versions of this broker's tables.
pub(crate) fn versions(tables: &Tables) -> TableVersions {
    TableVersions {
        offsets: tables.offsets.newest(),
        topics: tables.topics.generation(),
        groups: tables.groups.generation(),
    }
}

/// Passes `then` the present versions and the changes after a slave's versions, as soon as a change
/// exists. The request proves that the slave has its versions. After [`HELD`] without a change,
/// `then` gets the slave's versions and no changes.
///
/// # Errors
/// `SYSTEM_ERROR` when this broker is not master, or too many slaves ask. `INVALID_PARAMETER` when
/// the requested position is malformed. `SERVICE_NOT_AVAILABLE` while this broker starts or stops.
pub(crate) fn changes_for(
    parts: &Arc<MetadataParts>,
    question: Question,
    then: impl FnOnce(Result<(TableVersions, TableChanges)>) + Send + 'static,
) -> Result<()> {
    check_master(&parts.replication)?;
    let part = AnswerPart::after(question.after.as_deref())?;
    let expectations = parts.replication.table_copies.expectations();
    let Question { slave, has, after } = question;
    if !parts.replication.table_copies.note(slave, has, parts.runtime.clock.steady()) {
        return Err(Refusal::error("too many slaves ask for tables"));
    }
    let handle = parts.clone();
    parts.sessions.client_calls.spawn(move || async move {
        let changes = match after {
            Some(_) => look(&handle.tables, &handle.replication, &has, part),
            None if wait_for_change(&handle.tables, &has, expectations).await => {
                pause_before_look(&handle.replication, &handle.runtime, slave).await;
                look(&handle.tables, &handle.replication, &has, part)
            }
            None => (has, TableChanges::default()),
        };
        then(check_master(&handle.replication).map(|()| changes));
    })
}

/// Waits until a table is newer than the slave's version. Returns false after [`HELD`] without a change, or if the
/// slave has to ask again.
async fn wait_for_change(
    tables: &Tables,
    has: &TableVersions,
    mut expectations: watch::Receiver<u64>,
) -> bool {
    let (mut topics, mut groups) = (tables.topics.changes(), tables.groups.changes());
    if versions(tables).is_newer_than(has) {
        return true;
    }
    let changed = async {
        tokio::select! {
            () = tables.offsets.wait_for_change(has.offsets) => true,
            _ = topics.changed() => true,
            _ = groups.changed() => true,
            _ = expectations.changed() => false,
        }
    };
    within(HELD, changed).await == Some(true)
}

async fn pause_before_look(replication: &Replication, runtime: &Runtime, slave: BrokerId) {
    let entries = replication.table_copies.entries.load(Ordering::Relaxed);
    let interval = LOOK_INTERVAL + Duration::from_millis(entries / ENTRIES_PER_MS);
    let now = runtime.clock.steady();
    let before = replication.table_copies.note_look(slave, now);
    pause((before + interval).saturating_sub(now)).await;
}

/// Returns a part of the changes, and the versions of the tables before the part was made.
fn look(
    tables: &Tables,
    replication: &Replication,
    has: &TableVersions,
    mut part: AnswerPart,
) -> (TableVersions, TableChanges) {
    let mut versions = versions(tables);
    let mut changes = TableChanges::default();
    if versions.topics != has.topics {
        changes.topics = part.topics(tables, has.topics);
    }
    if versions.groups != has.groups {
        changes.groups = part.groups(tables, has.groups);
    }
    if let Some(after) = part.begin(2) {
        let found = tables.offsets.changed_after(has.offsets, &after, part.room);
        replication.table_copies.entries.store(found.looked_at as u64, Ordering::Relaxed);
        versions.offsets = found.generation;
        changes.offsets = Some(found.changed);
        part.more = found.more.map(|key| format!("{} {key}", TABLES[2]));
    }
    changes.more = part.more;
    (versions, changes)
}

impl AnswerPart {
    fn after(end: Option<&str>) -> Result<Self> {
        let unknown =
            || Refusal::new(response::INVALID_PARAMETER, "after is not where a part of the answer ends");
        let from = match end.map(|end| end.split_once(' ').ok_or_else(unknown)).transpose()? {
            None => (0, String::new()),
            Some((table, key)) => {
                (TABLES.iter().position(|known| *known == table).ok_or_else(unknown)?, key.to_owned())
            }
        };
        Ok(Self { from, room: PART_BYTES, more: None })
    }

    /// Returns the key behind which the part of a table begins. `None` if former parts contain the table, or later
    /// parts will.
    fn begin(&self, table: usize) -> Option<String> {
        match self.from.0.cmp(&table) {
            _ if self.more.is_some() => None,
            std::cmp::Ordering::Less => Some(String::new()),
            std::cmp::Ordering::Equal => Some(self.from.1.clone()),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Calls `add` with these sorted names until the part is full. `add` returns the number of bytes that it
    /// used.
    fn add_names(&mut self, table: usize, names: Vec<String>, mut add: impl FnMut(&str) -> usize) {
        let mut last = self.begin(table).unwrap_or_default();
        let first = names.partition_point(|name| *name <= last);
        for name in names.into_iter().skip(first) {
            if self.room == 0 {
                self.more = Some(format!("{} {last}", TABLES[table]));
                return;
            }
            self.room = self.room.saturating_sub(name.len() + add(&name));
            last = name;
        }
    }

    fn topics(&mut self, tables: &Tables, has: u64) -> Option<TableDelta<TopicTable>> {
        self.begin(0)?;
        let (data_version, names) = tables.topics.changed_since(has);
        let is_whole = names.is_none();
        let all = || tables.topics.all().map(|topic| topic.name().to_owned()).collect();
        let table = TopicTable { data_version, ..Default::default() };
        let mut changed = TableDelta { is_whole, table, gone: Vec::new() };
        self.add_names(0, names.unwrap_or_else(all), |name| {
            let Some(topic) = tables.topics.find(name) else {
                changed.gone.push(name.to_owned());
                return 0;
            };
            changed.table.topic_config_table.insert(name.to_owned(), topic.config.clone());
            json::to_vec(&topic.config).len()
        });
        Some(changed)
    }

    fn groups(&mut self, tables: &Tables, has: u64) -> Option<TableDelta<SubscriptionGroupTable>> {
        self.begin(1)?;
        let (data_version, names) = tables.groups.changed_since(has);
        let is_whole = names.is_none();
        let forbidden_table = tables.groups.forbidden();
        let table = SubscriptionGroupTable { data_version, forbidden_table, ..Default::default() };
        let mut changed = TableDelta { is_whole, table, gone: Vec::new() };
        self.add_names(1, names.unwrap_or_else(|| tables.groups.names()), |name| {
            let Some(group) = tables.groups.in_table(name) else {
                changed.gone.push(name.to_owned());
                return 0;
            };
            let size = json::to_vec(&*group).len();
            changed.table.subscription_group_table.insert(name.to_owned(), Arc::unwrap_or_clone(group));
            size
        });
        Some(changed)
    }
}

fn check_master(replication: &Replication) -> Result<()> {
    if replication.role.current() == BrokerRole::Master { Ok(()) } else { Err(Refusal::error(NOT_MASTER)) }
}

/// The present versions of topics and groups, for [`are_copied`] and [`wait`].
pub(crate) fn topics_and_groups(tables: &Tables) -> TableVersions {
    TableVersions { offsets: 0, ..versions(tables) }
}

/// The offsets up to a generation, for [`are_copied`] and [`wait`].
pub(crate) fn offsets_up_to(generation: Generation) -> TableVersions {
    TableVersions { offsets: generation, ..TableVersions::default() }
}

/// Whether every slave that may be elected next has these versions. True without controllers. False
/// on a broker that is no longer master. [`wait`] explains the reason.
pub(crate) fn are_copied(replication: &Replication, runtime: &Runtime, wanted: &TableVersions) -> bool {
    if !runtime.config.is_controlled() {
        return true;
    }
    let slaves = electable_slaves(replication);
    // After the set was read: a broker that is deposed first stops being master, and then forgets the set.
    replication.role.current() == BrokerRole::Master
        && replication.table_copies.cover(&slaves, wanted, runtime.clock.steady())
}

/// The slaves that may be elected next.
fn electable_slaves(replication: &Replication) -> Vec<BrokerId> {
    let elected = replication.replicas.elected();
    let members = elected.in_sync.members.union(&elected.proposed);
    members.copied().filter(|member| member.get() != elected.own).collect()
}

/// Waits until every slave that may be elected next has these versions. The master removes a slave from the in-sync
/// set that does not even ask for the versions in that time.
///
/// # Errors
/// `SYSTEM_BUSY` when that takes too long, or this broker is no longer master. The slaves may still get the versions.
pub(crate) async fn wait(replication: &Replication, runtime: &Runtime, wanted: TableVersions) -> Result<()> {
    let mut copies = replication.table_copies.changes();
    let until = runtime.clock.steady() + SLAVES_PATIENCE;
    loop {
        copies.mark_unchanged();
        if are_copied(replication, runtime, &wanted) {
            return Ok(());
        }
        if check_master(replication).is_err() {
            let remark = "this broker is no longer the master, and the new one may not have what was changed; try again";
            return Err(Refusal::new(response::SYSTEM_BUSY, remark));
        }
        if runtime.clock.steady() >= until {
            let since = until.saturating_sub(SLAVES_PATIENCE);
            replication.table_copies.note_silent(&electable_slaves(replication), &wanted, since);
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
