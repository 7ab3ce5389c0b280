//! Reports of the members of consumer groups, and whether the reports fit together.

use crate::doctor::bilingual::{Phrase, Text, text};
use crate::doctor::bundle::{Bundle, Connection, Group, Lock, Member, Owned, Progress, Standing};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::Fix;
use crate::text::time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::body::PERM_READ;
use wire::names::RETRY_PREFIX;

/// Time without a pull after which a member is said not to pull: twice the longest hold of a pull by a broker.
const PULL_MS: i64 = 60_000;
/// Time without consumption of cached messages after which a listener is said to hang.
const CONSUME_MS: i64 = 60_000;
/// Messages of a queue that a client holds before it stops pulling (`pullThresholdForQueue`).
const CACHE: i64 = 1000;
const RUNNING: &str = "GET_CONSUMER_RUNNING_INFO (307)";
const LOCKS: Phrase = Phrase("table of locks (22094)");
const CONNECTIONS: &str = "GET_CONSUMER_CONNECTION_LIST (203)";
const NEEDS_PUSH: Phrase = Phrase("answers of members of push groups");

pub(super) const CHECKS: &[Check] = checks! {
    "member-silent", Warning, silent,
        "A connected member does not answer the broker", Phrase("members of groups");
    "queue-without-owner", Critical, queue_without_owner,
        "A queue is consumed by no member of an online group",
        Phrase("answers of all members of a push group in clustering mode");
    "queue-with-two-owners", Warning, queue_with_two_owners,
        "Two members of a group in clustering mode have the same queue", Phrase("answers of two members of a group");
    "subscriptions-conflict", Critical, subscriptions_conflict,
        "Members of one group want different topics or expressions, so that each loses messages",
        Phrase("answers of two members of a group, or subscriptionConflicts of a Vostok broker");
    "client-ids-equal", Critical, client_ids_equal,
        "Two members of a group have the same client id, and get the same queues", Phrase("connections of groups");
    "members-beyond-queues", Advice, members_beyond_queues,
        "A group has more members than its topic has queues; the others get nothing",
        Phrase("connections of groups, routes, subscriptions");
    "owner-does-not-pull", Critical, owner_does_not_pull,
        "The member that has a queue with waiting messages does not pull", NEEDS_PUSH;
    "owner-does-not-consume", Critical, owner_does_not_consume,
        "A member holds messages, or as many as it may, and its listener finishes none", NEEDS_PUSH;
    "lock-held-idle", Critical, lock_held_idle,
        "A queue of ordered consumption is locked by a client that does not consume it, while messages wait",
        Phrase("locks of groups with lag (Vostok brokers), two looks at their progress (--sample), answers of members");
    "listener-hangs", Critical, listener_hangs,
        "A thread of a listener stands at the same place in two thread dumps, while its group does not move",
        Phrase("two thread dumps of members that hold messages of a group with lag (--sample; clients of Java)");
    "listener-fails", Warning, listener_fails, "The listener of a member fails on messages", NEEDS_PUSH;
};

/// Members that answered, with their group.
fn members(bundle: &Bundle) -> impl Iterator<Item = (&Group, &Member)> {
    bundle.groups.iter().flat_map(|group| answered(group).map(move |member| (group, member)))
}

fn answered(group: &Group) -> impl Iterator<Item = &Member> {
    group.members.iter().filter(|member| member.error.is_none())
}

fn is_clustering(group: &Group) -> bool {
    group.model == "CLUSTERING" && group.consume_type == "CONSUME_PASSIVELY"
}

fn member_title(client: &str, group: &str) -> Text {
    text!("{client} of {group}", client, group)
}

/// A member of a group in one of its queues.
fn owner_title(member: &Member, group: &Group, owned: &Owned) -> Text {
    let (client, group, Owned { topic, broker, queue, .. }) = (&member.client_id, &group.name, owned);
    text!("{client} of {group} in {topic}/{broker}/{queue}", client, group, topic, broker, queue)
}

fn queue_title(group: &Group, topic: &str, broker: &str, queue: i32) -> Text {
    text!("{group} in {topic}/{broker}/{queue}", group = &group.name, topic, broker, queue)
}

/// The operation that lists the members of a group.
fn members_fix(group: &Group) -> Fix {
    Fix::new("client", "consumers", &[("group", &group.name)])
}

/// The operation that shows the status of a member.
fn status_fix(group: &Group, client: &str) -> Fix {
    Fix::new("client", "status", &[("group", &group.name), ("client", client)])
}

/// The operation that shows the stacks of a member.
fn stack_fix(group: &Group, client: &str) -> Fix {
    Fix::new("client", "status", &[("group", &group.name), ("client", client), ("stack", "true")])
}

/// Whether silence of a member is a fault. Clients of gRPC in other languages than Java that receive messages themselves may leave
/// the question of RocketMQ's proxy unanswered (`ProxyClientRemotingProcessor`). Their ids begin with the name of the host, those of
/// remoting clients with an address (`ClientConfig.buildMQClientId`).
fn must_answer(group: &Group, member: &Member) -> bool {
    let is_java = |it: &Connection| it.client_id == member.client_id && it.language == "JAVA";
    let host = member.client_id.split('@').next().unwrap_or_default();
    let is_remoting = host.parse::<IpAddr>().is_ok();
    group.consume_type != "CONSUME_ACTIVELY" || is_remoting || group.connections.iter().any(is_java)
}

fn silent(bundle: &Bundle) -> Look {
    let all = bundle.groups.iter().flat_map(|group| group.members.iter().map(move |member| (group, member)));
    Look::each(all.filter(|(group, member)| must_answer(group, member)), |(group, member)| {
        Found::when(member.is_silent(), || {
            let why = member.error.clone().unwrap_or_default();
            let advice =
                text!("look at its process; a client that cannot be asked often cannot consume either");
            Found::new(member_title(&member.client_id, &group.name), why, RUNNING, advice)
                .fix(members_fix(group))
                .of_group(&group.name)
        })
    })
}

fn queue_without_owner(bundle: &Bundle) -> Look {
    Look::each(bundle.groups.iter().filter(|group| is_clustering(group)), |group| {
        // One member that did not answer, or was not asked, may have any queue.
        let ids: BTreeSet<_> = group.connections.iter().map(|connection| &connection.client_id).collect();
        let is_known = answered(group).map(|member| &member.client_id).collect::<BTreeSet<_>>() == ids;
        let server = bundle.name_servers.iter().find(|server| server.error.is_none()).filter(|_| is_known)?;
        let owned: BTreeSet<_> = answered(group)
            .flat_map(|member| &member.queues)
            .map(|queue| (queue.topic.as_str(), queue.broker.as_str(), queue.queue))
            .collect();
        // A group that is just rebalanced has no queue at all for a moment.
        (!owned.is_empty()).then_some(())?;
        // The retry topic of a young group has its route later than its members look for it.
        let topics = answered(group).flat_map(|member| member.subscriptions.keys());
        let topics: BTreeSet<_> = topics.filter(|topic| !topic.starts_with(RETRY_PREFIX)).collect();
        let queues = topics.into_iter().filter_map(|topic| Some((topic, server.routes.get(topic)?)));
        let readable = queues.flat_map(|(topic, rows)| {
            let rows = rows.iter().filter(|row| row.perm & PERM_READ != 0);
            rows.flat_map(move |row| {
                (0..row.read_queues).map(move |queue| (topic.as_str(), row.broker.as_str(), queue))
            })
        });
        let lost: Vec<_> = readable.filter(|queue| !owned.contains(queue)).collect();
        Found::when(!lost.is_empty(), || {
            let ((topic, broker, queue), count) = (lost[0], lost.len());
            let figure =
                text!("{count} queues, the first is {topic}/{broker}/{queue}", count, topic, broker, queue);
            let name = &group.name;
            let advice = text!(
                "make the members of {name} alike in version, subscription and allocation strategy, and restart them",
                name
            );
            Found::new(queue_title(group, topic, broker, queue), figure, RUNNING, advice)
                .fix(members_fix(group))
                .of_group(name)
        })
    })
}

fn queue_with_two_owners(bundle: &Bundle) -> Look {
    Look::each(bundle.groups.iter().filter(|group| is_clustering(group)), |group| {
        (answered(group).count() > 1).then_some(())?;
        let mut owners: BTreeMap<(&str, &str, i32), BTreeSet<&str>> = BTreeMap::new();
        for member in answered(group) {
            for queue in &member.queues {
                owners
                    .entry((&queue.topic, &queue.broker, queue.queue))
                    .or_default()
                    .insert(&member.client_id);
            }
        }
        let twice = owners.into_iter().filter(|(_, members)| members.len() > 1);
        let found = twice.map(|((topic, broker, queue), members)| {
            let figure = members.into_iter().collect::<Vec<_>>().join(", ");
            let advice = text!(
                "make the allocation strategy of the members alike; if it stays after a minute, restart them"
            );
            Found::new(queue_title(group, topic, broker, queue), figure, RUNNING, advice)
                .fix(members_fix(group))
                .of_group(&group.name)
        });
        Some(found.collect())
    })
}

fn subscriptions_conflict(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        let wants: BTreeMap<&str, String> = answered(group)
            .map(|member| {
                let own = member.subscriptions.iter().filter(|(topic, _)| !topic.starts_with(RETRY_PREFIX));
                let text: Vec<_> = own.map(|(topic, expression)| format!("{topic} [{expression}]")).collect();
                (member.client_id.as_str(), text.join(", "))
            })
            .collect();
        let named = bundle.brokers.iter().filter_map(|broker| broker.text("subscriptionConflicts"));
        let mut named = named.map(|names| names.split(',').any(|name| name == group.name)).peekable();
        let is_named = named.peek().is_some();
        (wants.len() > 1 || is_named).then_some(())?;
        let differs = wants.values().collect::<BTreeSet<_>>().len() > 1;
        let is_named = named.any(|is_named| is_named);
        Found::when(differs || is_named, || {
            let wants: Vec<_> =
                wants.iter().map(|(id, wanted)| text!("{id} wants {wanted}", id, wanted)).collect();
            let (figure, source) = match differs {
                true => (Text::joined(&wants), RUNNING),
                false => (
                    text!("the broker saw heartbeats with different subscriptions"),
                    "subscriptionConflicts (28)",
                ),
            };
            let name = &group.name;
            let advice =
                text!("give all members of {name} the same subscriptions, or a group of their own", name);
            Found::new(name, figure, source, advice).fix(members_fix(group)).of_group(name)
        })
    })
}

fn client_ids_equal(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        (!group.connections.is_empty()).then_some(())?;
        let mut addresses: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for connection in &group.connections {
            let key = (connection.broker.as_str(), connection.client_id.as_str());
            addresses.entry(key).or_default().insert(&connection.address);
        }
        let twice = addresses.into_iter().filter(|(_, addresses)| addresses.len() > 1);
        let found = twice.map(|((broker, id), addresses)| {
            let list = addresses.into_iter().collect::<Vec<_>>().join(", ");
            let figure = text!("{id} from {list}", id, list);
            let advice = text!("give each process its own instanceName (or clientIP), and restart them");
            let source = text!("{CONNECTIONS} at {broker}", CONNECTIONS, broker);
            Found::new(member_title(id, &group.name), figure, source, advice)
                .fix(members_fix(group))
                .of_group(&group.name)
        });
        Some(found.collect())
    })
}

fn members_beyond_queues(bundle: &Bundle) -> Look {
    Look::each(bundle.groups.iter().filter(|group| is_clustering(group)), |group| {
        let server = bundle.name_servers.iter().find(|server| server.error.is_none())?;
        let ids: BTreeSet<_> = group.connections.iter().map(|connection| &connection.client_id).collect();
        let of_members = answered(group).flat_map(|member| member.subscriptions.keys());
        let of_progress = group.progress.iter().map(|row| &row.topic);
        let topics: BTreeSet<_> =
            of_members.chain(of_progress).filter(|topic| !topic.starts_with(RETRY_PREFIX)).collect();
        let counts = topics.into_iter().filter_map(|topic| {
            let rows = server.routes.get(topic)?.iter().filter(|row| row.perm & PERM_READ != 0);
            Some((topic, rows.map(|row| i64::from(row.read_queues)).sum::<i64>()))
        });
        let (topic, queues) = counts.max_by_key(|(_, queues)| *queues)?;
        let members = i64::try_from(ids.len()).unwrap_or(i64::MAX);
        Found::when(members > queues, || {
            let figure = text!("{members} members, {queues} queues of {topic}", members, queues, topic);
            let advice = text!(
                "give {topic} {members} queues, unless its messages are consumed in order; or start fewer members",
                topic,
                members
            );
            let source = text!("routes, {CONNECTIONS}", CONNECTIONS);
            Found::new(&group.name, figure, source, advice)
                .fix(Fix::new("topic", "route", &[("topic", topic)]))
                .of_group(&group.name)
        })
    })
}

/// Number of waiting messages in a queue of a group, as the broker reports it; 0 if the group
/// consumed messages between two looks.
fn lag(group: &Group, owned: &Owned) -> i64 {
    let same =
        |row: &&Progress| row.topic == owned.topic && row.broker == owned.broker && row.queue == owned.queue;
    let is_moving = |row: &Progress| row.later.is_some_and(|later| later.committed > row.committed);
    group.progress.iter().find(same).filter(|row| !is_moving(row)).map_or(0, Progress::lag)
}

fn owner_does_not_pull(bundle: &Bundle) -> Look {
    Look::each(members(bundle).filter(|(group, _)| is_clustering(group)), |(group, member)| {
        let stuck = member.queues.iter().filter(|queue| {
            // A client that holds as much as it may does not pull, which is another finding.
            let age_ms = bundle.taken_at_ms - queue.last_pull_ms;
            queue.last_pull_ms > 0 && age_ms > PULL_MS && lag(group, queue) > 0 && queue.cached < CACHE
        });
        let found = stuck.map(|queue| {
            let (at, lag) = (time(queue.last_pull_ms), lag(group, queue));
            let figure = text!("last pull at {at}, {lag} messages wait", at, lag);
            let client = &member.client_id;
            let advice = text!("restart the member {client}; compare its clock", client);
            Found::new(owner_title(member, group, queue), figure, RUNNING, advice)
                .fix(status_fix(group, client))
                .of_group(&group.name)
        });
        Some(found.collect())
    })
}

fn owner_does_not_consume(bundle: &Bundle) -> Look {
    Look::each(members(bundle).filter(|(group, _)| is_clustering(group)), |(group, member)| {
        let stuck = member.queues.iter().filter(|queue| {
            let age_ms = bundle.taken_at_ms - queue.last_consume_ms;
            queue.cached > 0 && queue.last_consume_ms > 0 && age_ms > CONSUME_MS && lag(group, queue) > 0
        });
        let found = stuck.map(|queue| {
            let (cached, at, lag) = (queue.cached, time(queue.last_consume_ms), lag(group, queue));
            let figure =
                text!("holds {cached} messages and finished the last at {at}, {lag} wait", cached, at, lag);
            let advice = text!("see in the stacks of its threads where its listener hangs");
            Found::new(owner_title(member, group, queue), figure, RUNNING, advice)
                .fix(stack_fix(group, &member.client_id))
                .of_group(&group.name)
        });
        Some(found.collect())
    })
}

fn lock_held_idle(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        let found = group.locks.as_ref()?.iter().filter_map(|lock| {
            let is_meant = |topic: &str, broker: &str, queue| {
                topic == lock.topic && broker == lock.broker && queue == lock.queue
            };
            let row = group.progress.iter().find(|row| is_meant(&row.topic, &row.broker, row.queue))?;
            if row.lag() <= 0 || row.later?.committed > row.committed {
                return None;
            }
            let why = match answered(group).find(|member| member.client_id == lock.client) {
                Some(holder) => {
                    let owned = holder.queues.iter().find(|it| is_meant(&it.topic, &it.broker, it.queue));
                    idle_reason(bundle, owned)?
                }
                // A member that is connected and did not answer may consume.
                None if group.connections.iter().any(|it| it.client_id == lock.client) => return None,
                None => text!("which is not connected"),
            };
            Some(locked(group, lock, row.lag(), &why))
        });
        Some(found.collect())
    })
}

/// Why the holder of a lock does not consume the queue; `None` if it does. `owned` is what the holder reports about the
/// queue; `None` if it does not report the queue.
fn idle_reason(bundle: &Bundle, owned: Option<&Owned>) -> Option<Text> {
    let Some(owned) = owned else {
        return Some(text!("which does not have the queue"));
    };
    let is_old = |at_ms: i64, limit_ms| at_ms > 0 && bundle.taken_at_ms - at_ms > limit_ms;
    let (consumed, pulled) = (time(owned.last_consume_ms), time(owned.last_pull_ms));
    match (owned.cached, owned.last_consume_ms, owned.last_pull_ms) {
        (1.., at_ms, _) if is_old(at_ms, CONSUME_MS) => {
            Some(text!("which finished its last message at {consumed}", consumed))
        }
        (_, _, at_ms) if is_old(at_ms, PULL_MS) => Some(text!("whose last pull was at {pulled}", pulled)),
        _ => None,
    }
}

/// The finding of a lock whose holder does not consume, and the reason why.
fn locked(group: &Group, lock: &Lock, lag: i64, why: &Text) -> Found {
    let Lock { topic, broker, queue, client, .. } = lock;
    let figure = text!("locked by {client}, {why}; {lag} messages wait", client, why, lag);
    let advice = text!(
        "restart {client}; its lock ends 60 s after it was renewed last, and another member takes the queue",
        client
    );
    Found::new(queue_title(group, topic, broker, *queue), figure, LOCKS, advice)
        .fix(members_fix(group))
        .of_group(&group.name)
}

fn listener_hangs(bundle: &Bundle) -> Look {
    Look::each(members(bundle), |(group, member)| {
        let standing = member.standing.as_ref()?;
        // A group whose offsets move has slow messages, and no thread that hangs.
        let is_moving = |row: &Progress| row.later.is_some_and(|later| later.committed > row.committed);
        let is_stuck = !group.progress.iter().any(is_moving);
        let found = standing.iter().filter(|_| is_stuck).map(|thread| {
            let Standing { thread, at, called_by } = thread;
            let figure = match called_by.as_str() {
                "" => text!("{thread} stands in {at}", thread, at),
                called_by => text!("{thread} stands in {at}, called by {called_by}", thread, at, called_by),
            };
            let advice = text!("give what it waits for a time limit, and restart the member");
            Found::new(member_title(&member.client_id, &group.name), figure, RUNNING, advice)
                .fix(stack_fix(group, &member.client_id))
                .of_group(&group.name)
        });
        Some(found.collect())
    })
}

fn listener_fails(bundle: &Bundle) -> Look {
    Look::each(members(bundle), |(group, member)| {
        let failing = member.failed.iter().filter(|(_, rate)| **rate > 0.0);
        let found = failing.map(|(topic, rate)| {
            let (client, name) = (&member.client_id, &group.name);
            let subject = text!("{client} of {name} in {topic}", client, name, topic);
            let figure = text!("{rate} messages per second fail", rate = format!("{rate:.2}"));
            let advice = text!(
                "read the log of {client}; what fails comes again and ends in %DLQ%{name}",
                client,
                name
            );
            Found::new(subject, figure, RUNNING, advice).fix(status_fix(group, client)).of_group(name)
        });
        Some(found.collect())
    })
}
