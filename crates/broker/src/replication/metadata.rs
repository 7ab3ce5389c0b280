//! Tables of a slave, which it copies from its master over remoting. From a RocketMQ master it copies whole tables
//! periodically (`SlaveSynchronize`), and from a Vostok master each change at once ([`crate::table_changes`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use net::Workers;
use wire::body::{TableChanges, TopicTable};
use wire::codes::{request, response};
use wire::json;

use super::master_link::{MasterLink, SyncError, note, run_rounds};
use crate::parts::GroupParts;
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

/// State copied over a connection to the master.
struct Copies {
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
    run_rounds(parts, workers, Copies::new, async |connected| match connected {
        Ok((link, copies)) => copies.round(link).await,
        Err((master, error)) => {
            tracing::warn!(master, %error, "the master's tables cannot be taken; it is tried again");
            RETRY_PAUSE
        }
    })
    .await;
}

impl Copies {
    fn new() -> Self {
        let now = Instant::now();
        Self { has: TableVersions::default(), lacks_changes: false, tables_due: now, offsets_due: now }
    }

    /// Copies the due tables, and returns the pause before the next round.
    async fn round(&mut self, link: &MasterLink) -> Duration {
        if is_due(&mut self.tables_due, TABLES_INTERVAL) {
            note("request modes", link.modes().await);
            if self.lacks_changes {
                note("topics", link.topics().await);
                note("groups", link.groups().await);
            }
        }
        if self.lacks_changes {
            let taken = link.offsets().await;
            let pause = taken.as_ref().map_or(OFFSETS_INTERVALS[1], |bytes| offsets_interval(*bytes));
            note("offsets", taken.map(drop));
            return pause;
        }
        match self.changes(link).await {
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
    async fn changes(&mut self, link: &MasterLink) -> Result<(), SyncError> {
        let parts = &*link.parts;
        self.demand_offsets(&parts.replication.replicas.upstream, Instant::now());
        let asked_ms = parts.runtime.now_ms();
        let (now, changes) = self.ask_changes(link).await?;
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
    async fn ask_changes(&self, link: &MasterLink) -> Result<(TableVersions, TableChanges), SyncError> {
        let (has, own) = (self.has, link.parts.replication.replicas.elected().own);
        let mut answer: Option<(TableVersions, TableChanges)> = None;
        for _ in 0..PARTS_MAX {
            let after = answer.as_ref().and_then(|(_, changes)| changes.more.clone());
            let reply = link.ask_for(request::VOSTOK_TABLE_CHANGES, |writer| {
                let writer = writer.number("brokerId", own).number("offsets", has.offsets);
                let writer = writer.number("topics", has.topics).number("groups", has.groups);
                writer.maybe("after", after.as_deref()).finish(b"");
            });
            let reply = reply.await?;
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

impl MasterLink {
    /// Takes the topics of a master of RocketMQ. Offsets of groups in topics that are gone go with them.
    async fn topics(&self) -> Result<(), SyncError> {
        let parts = &self.parts;
        let asked_ms = parts.runtime.now_ms();
        let table: TopicTable = self.ask(request::GET_ALL_TOPIC_CONFIG).await?;
        let known: Vec<_> = parts.tables.topics.all().collect();
        parts.tables.topics.adopt(table.data_version, table.topic_config_table)?;
        let gone = known.iter().filter(|topic| parts.tables.topics.find(topic.name()).is_none());
        gone.for_each(|topic| parts.tables.offsets.forget_topic(topic.name()));
        parts.replication.replicas.took_tables(asked_ms);
        Ok(())
    }

    async fn groups(&self) -> Result<(), SyncError> {
        Ok(self.parts.tables.groups.adopt(self.ask(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG).await?)?)
    }

    async fn modes(&self) -> Result<(), SyncError> {
        Ok(self.parts.tables.modes.adopt(self.ask(request::GET_ALL_MESSAGE_REQUEST_MODE).await?)?)
    }

    /// Takes the offsets of groups; returns the size of the table in bytes.
    async fn offsets(&self) -> Result<usize, SyncError> {
        let body = self.ask_bytes(request::GET_ALL_CONSUMER_OFFSET).await?;
        self.parts.tables.offsets.merge(json::from_slice(&body)?);
        Ok(body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn an_offset_that_came_before_its_re_created_topic_comes_again() {
        let (master, slave) = (Fixture::new(), Fixture::new());
        let (from, to) = (&master.broker.tables.offsets, &slave.broker.tables.offsets);
        let upstream = &slave.broker.replication.replicas.upstream;
        let mut copies = Copies::new();
        let mut copy = || {
            copies.demand_offsets(upstream, Instant::now());
            let found = from.changed_after(copies.has.offsets, "", usize::MAX);
            to.take_changes(found.changed, |_, _| false);
            copies.has.offsets = found.generation;
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
        let (upstream, mut copies) = (Upstream::default(), Copies::new());
        let begin = copies.offsets_due;
        let mut is_whole = |after: Duration| {
            copies.has.offsets = 7;
            copies.demand_offsets(&upstream, begin + after);
            copies.has.offsets == 0
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
