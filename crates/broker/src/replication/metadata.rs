//! Tables of a slave, which it copies from its master over remoting. From a RocketMQ master it copies whole tables
//! periodically (`SlaveSynchronize`), and from a Vostok master each change at once ([`crate::table_changes`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use net::{CallError, ConnectionHandle, Response, Workers};
use serde::de::DeserializeOwned;
use wire::body::{TableChanges, TopicTable};
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::json::{self, JsonError};

use crate::parts::{GroupParts, Replication, Sessions, Tables};
use crate::persist;
use crate::register::Silent;
use crate::replicas::Upstream;
use crate::state::TableVersions;
use crate::table_changes::NOT_MASTER;

/// Shortest and longest interval of copying offsets from a RocketMQ master, see [`offsets_interval`]. If that master is
/// lost, later commits are lost too, and their messages are delivered again.
const OFFSETS_INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3)];

/// Bytes of a copied table of offsets per millisecond of the pause before the next copy from a RocketMQ master. A larger table is
/// copied less often.
const OFFSETS_BYTES_PER_MS: usize = 1000;

/// Most parts of an answer about changes, of some megabytes each.
const PARTS_MAX: usize = 1_000;

/// Pause before the next request to a broker that is not master yet, because an election is under way.
const ELECTION_PAUSE: Duration = Duration::from_millis(20);

/// Pause before the next request to a failed master.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Interval in which topics, groups and request modes are taken from the master.
const TABLES_INTERVAL: Duration = Duration::from_secs(10);

/// Shortest interval between two requests for the whole table of offsets after re-created topics.
const WHOLE_OFFSETS_INTERVAL: Duration = Duration::from_secs(10);

/// Timeout of the master's response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Errors of copying a table from the master.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it answered code {0}: {1}")]
    Refused(i32, String),
    #[error("its answer lacks the field {0}, or that is no number")]
    Field(&'static str),
    #[error("its answer cannot be read: {0}")]
    Content(#[from] JsonError),
    #[error(transparent)]
    Disk(#[from] persist::Error),
    #[error("how far timed messages are delivered cannot be noted: {0}")]
    Timers(io::Error),
    #[error("the parts of its answer do not fit together")]
    Torn,
    #[error("this broker is the master now")]
    Master,
}

/// Connection to the master, and the state copied over it.
struct Link {
    address: String,
    peer: Arc<ConnectionHandle>,
    /// Versions of the copied tables.
    has: TableVersions,
    /// Whether the master refused the request for changes, as a RocketMQ master does. Its whole tables are copied then.
    lacks_changes: bool,
    tables_due: Instant,
    /// Earliest time of the next request for the whole table of offsets.
    offsets_due: Instant,
}

/// Copies the tables of the master repeatedly until the workers stop.
pub(super) async fn run(parts: Arc<GroupParts>, workers: Workers) {
    let mut addresses = parts.replication.replicas.master();
    let mut link: Option<Link> = None;
    loop {
        let address = addresses.borrow_and_update().broker.clone();
        let Some(address) = address.filter(|address| *address != parts.identity.address()) else {
            // This broker's tables may change meanwhile, so that they are no longer copies.
            link = None;
            let _ = addresses.changed().await;
            continue;
        };
        if link.take_if(|link| link.address != address || link.peer.is_closed()).is_some() || link.is_none() {
            match workers.dial_name(&address, Arc::new(Silent)).await {
                Ok(peer) => link = Some(Link::new(address, peer)),
                Err(error) => {
                    tracing::warn!(master = address, %error, "the master's tables cannot be taken; it is tried again");
                }
            }
        }
        // Abandoned when the master changes: a question may wait at the former one.
        let round = async {
            let pause = match &mut link {
                Some(link) => link.round(&parts).await,
                None => RETRY_PAUSE,
            };
            tokio::time::sleep(pause).await;
        };
        tokio::select! {
            () = round => {}
            _ = addresses.changed() => {}
        }
    }
}

impl Link {
    fn new(address: String, peer: Arc<ConnectionHandle>) -> Self {
        let now = Instant::now();
        let has = TableVersions::default();
        Self { address, peer, has, lacks_changes: false, tables_due: now, offsets_due: now }
    }

    /// Copies the due tables, and returns the pause before the next round.
    async fn round(&mut self, parts: &GroupParts) -> Duration {
        let peer = &*self.peer;
        if is_due(&mut self.tables_due, TABLES_INTERVAL) {
            note("request modes", modes(&parts.tables, &parts.sessions, &parts.replication, peer).await);
            if self.lacks_changes {
                note("topics", topics(parts, peer).await);
                note("groups", groups(&parts.tables, &parts.sessions, &parts.replication, peer).await);
            }
        }
        if self.lacks_changes {
            let taken = offsets(&parts.tables, &parts.sessions, &parts.replication, peer).await;
            let pause = taken.as_ref().map_or(OFFSETS_INTERVALS[1], |bytes| offsets_interval(*bytes));
            note("offsets", taken.map(drop));
            return pause;
        }
        match self.changes(parts).await {
            Ok(()) => Duration::ZERO,
            Err(SyncError::Refused(response::REQUEST_CODE_NOT_SUPPORTED | response::NO_PERMISSION, _)) => {
                self.lacks_changes = true;
                self.tables_due = Instant::now();
                Duration::ZERO
            }
            Err(SyncError::Refused(_, remark)) if remark == NOT_MASTER => ELECTION_PAUSE,
            Err(error) => {
                note("changes", Err(error));
                RETRY_PAUSE
            }
        }
    }

    /// Requests the changes after this broker's versions, and applies them. The master holds the request until a
    /// change exists.
    async fn changes(&mut self, parts: &GroupParts) -> Result<(), SyncError> {
        self.demand_offsets(&parts.replication.replicas.upstream, Instant::now());
        let asked_ms = parts.runtime.now_ms();
        let (now, changes) = self.ask_changes(&parts.sessions, &parts.replication).await?;
        // Each for itself: a table that cannot be taken does not hold up the others.
        let topics = changes.topics.map_or(Ok(()), |topics| parts.tables.topics.take_changes(topics));
        if topics.is_ok() {
            self.has.topics = now.topics;
            parts.replication.replicas.took_tables(asked_ms);
        }
        let groups = changes.groups.map_or(Ok(()), |groups| parts.tables.groups.take_changes(groups));
        if groups.is_ok() {
            self.has.groups = now.groups;
        }
        if let Some(offsets) = changes.offsets {
            // Without controllers a master may come back with less than this slave has.
            let may_stay = !parts.runtime.config.is_controlled();
            let is_known = |topic: &str, group: &str| {
                parts.tables.topics.find(topic).is_some() && parts.tables.groups.find(group).is_some()
            };
            parts.tables.offsets.take_changes(offsets, |topic, group| may_stay && is_known(topic, group));
        }
        self.has.offsets = now.offsets;
        Ok(topics.and(groups)?)
    }

    /// Makes the next request ask for the whole table of offsets, if the log brought a re-created topic. Its groups
    /// went back to offset 0 here, although their offsets may have come from the master before the log did.
    fn demand_offsets(&mut self, upstream: &Upstream, now: Instant) {
        if now >= self.offsets_due && upstream.topics_restarted.swap(false, Ordering::AcqRel) {
            self.has.offsets = 0;
            self.offsets_due = now + WHOLE_OFFSETS_INTERVAL;
        }
    }

    /// All parts of the answer, and the versions that the tables had at its beginning.
    async fn ask_changes(
        &self,
        sessions: &Sessions,
        replication: &Replication,
    ) -> Result<(TableVersions, TableChanges), SyncError> {
        let (has, own) = (self.has, replication.replicas.elected().own);
        let mut answer: Option<(TableVersions, TableChanges)> = None;
        for _ in 0..PARTS_MAX {
            let after = answer.as_ref().and_then(|(_, changes)| changes.more.clone());
            let reply = ask_for(sessions, replication, &self.peer, request::VOSTOK_TABLE_CHANGES, |writer| {
                let writer = writer.number("brokerId", own).number("offsets", has.offsets);
                let writer = writer.number("topics", has.topics).number("groups", has.groups);
                writer.maybe("after", after.as_deref()).finish(b"");
            })
            .await?;
            let number = |key: &'static str| {
                let field = reply.text(key).and_then(|text| text.parse::<u64>().ok());
                field.ok_or(SyncError::Field(key))
            };
            let part: TableChanges = json::from_slice(&reply.body)?;
            if let Some((_, changes)) = &mut answer {
                changes.extend(part).then_some(()).ok_or(SyncError::Torn)?;
            } else {
                let [offsets, topics, groups] = [number("offsets")?, number("topics")?, number("groups")?];
                answer = Some((TableVersions { offsets, topics, groups }, part));
            }
            if let Some(answer) = answer.take_if(|(_, changes)| changes.more.is_none()) {
                return Ok(answer);
            }
        }
        Err(SyncError::Torn)
    }
}

/// Whether the time has come; then it comes again after `interval`.
fn is_due(due: &mut Instant, interval: Duration) -> bool {
    let is_due = Instant::now() >= *due;
    if is_due {
        *due = Instant::now() + interval;
    }
    is_due
}

/// Time until offsets are taken again, after a table of so many bytes.
fn offsets_interval(bytes: usize) -> Duration {
    let [min, max] = OFFSETS_INTERVALS;
    Duration::from_millis((bytes / OFFSETS_BYTES_PER_MS) as u64).clamp(min, max)
}

/// Logs a table that was not copied. The other tables are copied anyway.
pub(super) fn note(table: &str, done: Result<(), SyncError>) {
    if let Err(error) = done {
        tracing::warn!(table, %error, "a table of the master was not taken; it is tried again");
    }
}

/// Takes the topics of a master of RocketMQ. Offsets of groups in topics that are gone go with them.
async fn topics(parts: &GroupParts, peer: &ConnectionHandle) -> Result<(), SyncError> {
    let asked_ms = parts.runtime.now_ms();
    let table: TopicTable =
        ask(&parts.sessions, &parts.replication, peer, request::GET_ALL_TOPIC_CONFIG).await?;
    let known: Vec<_> = parts.tables.topics.all().collect();
    parts.tables.topics.adopt(table.data_version, table.topic_config_table)?;
    let gone = known.iter().filter(|topic| parts.tables.topics.find(topic.name()).is_none());
    gone.for_each(|topic| parts.tables.offsets.forget_topic(topic.name()));
    parts.replication.replicas.took_tables(asked_ms);
    Ok(())
}

async fn groups(
    tables: &Tables,
    sessions: &Sessions,
    replication: &Replication,
    peer: &ConnectionHandle,
) -> Result<(), SyncError> {
    Ok(tables
        .groups
        .adopt(ask(sessions, replication, peer, request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG).await?)?)
}

async fn modes(
    tables: &Tables,
    sessions: &Sessions,
    replication: &Replication,
    peer: &ConnectionHandle,
) -> Result<(), SyncError> {
    Ok(tables.modes.adopt(ask(sessions, replication, peer, request::GET_ALL_MESSAGE_REQUEST_MODE).await?)?)
}

/// Takes the offsets of groups; returns the size of the table in bytes.
async fn offsets(
    tables: &Tables,
    sessions: &Sessions,
    replication: &Replication,
    peer: &ConnectionHandle,
) -> Result<usize, SyncError> {
    let body = ask_bytes(sessions, replication, peer, request::GET_ALL_CONSUMER_OFFSET).await?;
    tables.offsets.merge(json::from_slice(&body)?);
    Ok(body.len())
}

/// Asks the master for a table.
pub(super) async fn ask<T: DeserializeOwned>(
    sessions: &Sessions,
    replication: &Replication,
    peer: &ConnectionHandle,
    code: i32,
) -> Result<T, SyncError> {
    Ok(json::from_slice(&ask_bytes(sessions, replication, peer, code).await?)?)
}

/// Requests a table as bytes. The request has no paging, so that the response holds everything.
pub(super) async fn ask_bytes(
    sessions: &Sessions,
    replication: &Replication,
    peer: &ConnectionHandle,
    code: i32,
) -> Result<Vec<u8>, SyncError> {
    ask_for(sessions, replication, peer, code, |writer| writer.finish(b"")).await.map(|reply| reply.body)
}

/// Asks the master, and returns its answer when that is a success.
async fn ask_for(
    sessions: &Sessions,
    replication: &Replication,
    peer: &ConnectionHandle,
    code: i32,
    write: impl FnOnce(FrameWriter<'_>),
) -> Result<Response, SyncError> {
    let reply = sessions.call(peer, code, ANSWER_TIMEOUT, write).await?;
    match reply.code {
        // Tables of the former master must not replace those of this broker, which has become master.
        _ if !replication.role.is_slave() => Err(SyncError::Master),
        response::SUCCESS => Ok(reply),
        code => Err(SyncError::Refused(code, reply.remark.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use net::ConnectionHandle;

    use super::*;
    use crate::testing::{ADDRESS, Fixture};

    fn link() -> Link {
        Link::new("master".to_owned(), Arc::new(ConnectionHandle::detached(1, ADDRESS)))
    }

    #[test]
    fn an_offset_that_came_before_its_re_created_topic_comes_again() {
        let (master, slave) = (Fixture::new(), Fixture::new());
        let (from, to) = (&master.broker.tables.offsets, &slave.broker.tables.offsets);
        let upstream = &slave.broker.replication.replicas.upstream;
        let mut link = link();
        let mut copy = || {
            link.demand_offsets(upstream, Instant::now());
            let found = from.changed_after(link.has.offsets, "", usize::MAX);
            to.take_changes(found.changed, |_, _| false);
            link.has.offsets = found.generation;
        };
        from.commit("g", "X", 0, 50);
        copy();
        assert_eq!(to.committed("g", "X", 0), Some(50));
        // The slave's log reaches the first record of the topic X that the offset belongs to.
        to.restart_topic("X");
        upstream.topics_restarted.store(true, Ordering::Release);
        copy();
        assert_eq!(to.committed("g", "X", 0), Some(50), "a new master would deliver 50 messages again");
    }

    #[test]
    fn many_re_created_topics_cause_few_requests_for_the_whole_table() {
        let (upstream, mut link) = (Upstream::default(), link());
        let begin = link.offsets_due;
        let mut is_whole = |after: Duration| {
            link.has.offsets = 7;
            link.demand_offsets(&upstream, begin + after);
            link.has.offsets == 0
        };
        assert!(!is_whole(Duration::ZERO), "no topic began anew");
        upstream.topics_restarted.store(true, Ordering::Release);
        assert!(is_whole(Duration::ZERO));
        upstream.topics_restarted.store(true, Ordering::Release);
        assert!(!is_whole(WHOLE_OFFSETS_INTERVAL / 2));
        assert!(is_whole(WHOLE_OFFSETS_INTERVAL), "the later topic waits, and is not forgotten");
        assert!(!is_whole(2 * WHOLE_OFFSETS_INTERVAL));
    }

    #[test]
    fn a_large_table_of_offsets_is_taken_less_often() {
        let cases = [(0, 100), (99_999, 100), (450_000, 450), (3_000_000, 3000), (100_000_000, 3000)];
        for (bytes, ms) in cases {
            assert_eq!(offsets_interval(bytes), Duration::from_millis(ms), "{bytes}");
        }
    }
}
