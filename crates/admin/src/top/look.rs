//! Answers of the operations at one moment. The number of requests does not grow with the number of topics and groups.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wire::names::{DLQ_PREFIX, RETRY_PREFIX};

use crate::shell::Cluster;
use crate::{
    Arguments, BrokerProgress, BrokerRow, Consumers, Error, GroupQueue, Health, Member, Memory, ProducerRow,
    QueueStatus, Session, TopicRow, TopicStatus, diagnose, operation,
};

/// Time between two looks; longer when a look takes longer.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Largest number of topics without a consuming group whose ends are asked in one look.
const TOPICS_AT_ONCE: usize = 16;
/// Most groups whose members are asked in one look.
const GROUPS_AT_ONCE: usize = 8;
/// Number of topics, retry topics included, from which on the doctor does not look.
const DOCTOR_TOPICS_MAX: usize = 2000;
/// Broker id of a master.
const MASTER: i64 = 0;

/// Answers at one moment.
#[derive(Default)]
pub(super) struct Look {
    /// Time of the look, ms since the epoch.
    pub at_ms: i64,
    pub brokers: Vec<BrokerRow>,
    /// Names of all topics except retry topics and dead letter topics.
    pub topics: BTreeSet<String>,
    /// Names of all groups.
    pub groups: BTreeSet<String>,
    pub progress: Vec<GroupQueue>,
    /// Queues of the topics that were asked this time.
    pub ends: BTreeMap<String, Vec<QueueStatus>>,
    pub producers: Vec<ProducerRow>,
    /// Members of the groups that were asked this time.
    pub members: BTreeMap<String, Vec<Member>>,
    /// Failures of requests.
    pub errors: Vec<String>,
}

/// Last topic and last group that were asked, so that the next look asks the names after them.
#[derive(Default)]
pub(super) struct Turns {
    topic: String,
    group: String,
}

/// Asks the cluster. Brokers that do not answer are named in the look.
///
/// # Errors
/// No name server answers.
pub(super) async fn look(session: &Session, turns: &mut Turns) -> Result<Look, Error> {
    let mut look = Look { at_ms: session.now_ms, ..Look::default() };
    look.brokers = ask(session, ("cluster", "list"), &[]).await?;
    let masters: Vec<String> = look
        .brokers
        .iter()
        .filter(|it| it.id == MASTER && it.error.is_none())
        .map(|it| it.address.clone())
        .collect();
    for master in &masters {
        let broker = [("broker", master.as_str())];
        match ask::<BrokerProgress>(session, ("broker", "progress"), &broker).await {
            Ok(answer) => look.progress.extend(answer.queues),
            Err(error) => look.errors.push(error.to_string()),
        }
        match ask::<Vec<ProducerRow>>(session, ("client", "list-producers"), &broker).await {
            Ok(answer) => look.producers.extend(answer),
            Err(error) => look.errors.push(error.to_string()),
        }
    }
    // A producer is connected to every broker to which it sends.
    look.producers.sort_by(|one, other| (&one.group, &one.client_id).cmp(&(&other.group, &other.client_id)));
    look.producers.dedup_by(|one, other| (&one.group, &one.client_id) == (&other.group, &other.client_id));
    let named: Vec<TopicRow> = ask(session, ("topic", "list"), &[]).await?;
    look.take_names(named.into_iter().map(|named| named.topic));
    look.ask_in_turn(session, turns).await;
    Ok(look)
}

/// Health by the doctor, which looks at the servers alone in a cluster of very many topics.
pub(super) async fn health_of(cluster: &Cluster, memory: &mut Memory) -> Health {
    let session = cluster.session(false);
    let names = crate::stats::topics(&session).await;
    // A name server refuses a list that is too long for a response.
    let is_brief = !names.is_ok_and(|names| names.len() < DOCTOR_TOPICS_MAX);
    diagnose(&session, memory, is_brief).await.health
}

impl Look {
    /// Takes over names of topics. The names of groups follow from their retry topics.
    fn take_names(&mut self, names: impl Iterator<Item = String>) {
        let mut retried = BTreeSet::new();
        for name in names.filter(|name| !name.starts_with(DLQ_PREFIX)) {
            match name.strip_prefix(RETRY_PREFIX) {
                Some(group) => retried.insert(group.to_owned()),
                None => self.topics.insert(name),
            };
        }
        // The retry topic of popped messages has the name of their topic after that of the group.
        let is_group = |name: &&String| {
            let mut parts = name.match_indices(['_', '+']).map(|(at, _)| (&name[..at], &name[at + 1..]));
            !parts.any(|(group, topic)| retried.contains(group) && self.topics.contains(topic))
        };
        let known = self.progress.iter().map(|row| &row.group);
        self.groups = retried.iter().filter(is_group).chain(known).cloned().collect();
    }

    /// Asks for figures that need a request for each object, in turn: ends of topics that no group consumes, and
    /// members of groups.
    async fn ask_in_turn(&mut self, session: &Session, turns: &mut Turns) {
        let consumed: BTreeSet<&str> = self.progress.iter().map(|row| row.topic.as_str()).collect();
        let others = self.topics.iter().filter(|topic| !consumed.contains(topic.as_str()));
        for topic in next(&mut turns.topic, others, TOPICS_AT_ONCE) {
            // A topic may be deleted meanwhile, or have no queue yet.
            let answer = ask::<TopicStatus>(session, ("topic", "status"), &[("topic", &topic)]).await;
            self.ends.insert(topic, answer.map(|answer| answer.queues).unwrap_or_default());
        }
        for group in next(&mut turns.group, self.groups.iter(), GROUPS_AT_ONCE) {
            // A group without members is refused.
            let answer = ask::<Consumers>(session, ("client", "consumers"), &[("group", &group)]).await;
            self.members.insert(group, answer.map(|answer| answer.members).unwrap_or_default());
        }
    }
}

/// The next `count` names after `last`; after the last name the first one follows. Sets `last` to the last returned
/// name.
fn next<'a>(last: &mut String, names: impl Iterator<Item = &'a String> + Clone, count: usize) -> Vec<String> {
    let behind = names.clone().filter(|name| *name > last);
    let before = names.filter(|name| *name <= last);
    let chosen: Vec<String> = behind.chain(before).take(count).cloned().collect();
    *last = chosen.last().cloned().unwrap_or_default();
    chosen
}

/// Performs an operation of the table, whose answer is a `T`.
async fn ask<T: Any>(
    session: &Session,
    (noun, verb): (&str, &str),
    given: &[(&'static str, &str)],
) -> Result<T, Error> {
    let operation =
        operation(noun, verb).ok_or_else(|| Error::Usage(format!("no operation {noun} {verb}")))?;
    let mut arguments = Arguments::default();
    given.iter().for_each(|(name, value)| arguments.set(name, *value));
    operation.perform_typed(session, &arguments).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn() {
        let names: BTreeSet<String> = (0..5).map(|number| format!("T{number}")).collect();
        let mut last = String::new();
        let mut turn = || next(&mut last, names.iter(), 2).join(" ");
        assert_eq!([turn(), turn(), turn()], ["T0 T1", "T2 T3", "T4 T0"]);
        let few: BTreeSet<String> = ["A".to_owned()].into();
        assert_eq!(next(&mut "Z".to_owned(), few.iter(), 2), ["A"], "nobody has two turns");
    }

    #[test]
    fn groups_are_known_by_their_offsets_and_retry_topics() {
        let row = GroupQueue { group: "Reader".to_owned(), ..GroupQueue::default() };
        let mut look = Look { progress: vec![row], ..Look::default() };
        let names =
            ["T", "%RETRY%Other_T2", "%RETRY%Reader", "%RETRY%Reader_T", "%RETRY%Reader+T", "%DLQ%Other"];
        look.take_names(names.into_iter().map(str::to_owned));
        assert_eq!(look.groups.into_iter().collect::<Vec<_>>(), ["Other_T2", "Reader"]);
        assert_eq!(look.topics.into_iter().collect::<Vec<_>>(), ["T"]);
    }
}
