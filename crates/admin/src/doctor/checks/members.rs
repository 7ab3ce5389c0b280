//! What the members of consumer groups say of themselves, and how they fit together.

use crate::doctor::bundle::{Bundle, Group, Lock, Member, Owned, Progress};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::text::time;
use std::collections::{BTreeMap, BTreeSet};
use wire::body::PERM_READ;
use wire::names::RETRY_PREFIX;

/// Time without a pull after which a member is said not to pull: twice the longest hold of a pull by a broker.
const PULL_MS: i64 = 60_000;
/// Time without consumption of cached messages after which a listener is said to hang.
const CONSUME_MS: i64 = 60_000;
/// Messages of a queue that a client holds before it stops pulling (`pullThresholdForQueue`).
const CACHE: i64 = 1000;
const RUNNING: &str = "GET_CONSUMER_RUNNING_INFO (307)";
const LOCKS: &str = "table of locks (22094)";

pub(super) const CHECKS: &[Check] = checks! {
    "member-silent", Warning, silent, "A connected member does not answer the broker",
        "members of groups";
    "queue-without-owner", Critical, queue_without_owner, "A queue is consumed by no member of an online group",
        "answers of all members of a push group in clustering mode";
    "queue-with-two-owners", Warning, queue_with_two_owners,
        "Two members of a group in clustering mode have the same queue", "answers of two members of a group";
    "subscriptions-conflict", Critical, subscriptions_conflict,
        "Members of one group want different topics or expressions, so that each loses messages",
        "answers of two members of a group, or subscriptionConflicts of a Vostok broker";
    "client-ids-equal", Critical, client_ids_equal,
        "Two members of a group have the same client id, and get the same queues", "connections of groups";
    "members-beyond-queues", Advice, members_beyond_queues,
        "A group has more members than its topic has queues; the others get nothing",
        "connections of groups, routes, subscriptions";
    "owner-does-not-pull", Critical, owner_does_not_pull,
        "The member that has a queue with waiting messages does not pull", "answers of members of push groups";
    "owner-does-not-consume", Critical, owner_does_not_consume,
        "A member holds messages, or as many as it may, and its listener finishes none",
        "answers of members of push groups";
    "lock-held-idle", Critical, lock_held_idle,
        "A queue of ordered consumption is locked by a client that does not consume it, while messages wait",
        "locks of groups with lag (Vostok brokers), two looks at their progress (--sample), answers of members";
    "listener-hangs", Critical, listener_hangs,
        "A thread of a listener stands at the same place in two thread dumps, while its group does not move",
        "two thread dumps of members that hold messages of a group with lag (--sample; clients of Java)";
    "listener-fails", Warning, listener_fails, "The listener of a member fails on messages",
        "answers of members of push groups";
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

fn silent(bundle: &Bundle) -> Look {
    let all = bundle.groups.iter().flat_map(|group| group.members.iter().map(move |member| (group, member)));
    Look::each(all, |(group, member)| {
        Found::when(member.error.is_some(), || {
            let why = member.error.clone().unwrap_or_default();
            let fix = "look at its process; a client that cannot be asked often cannot consume either";
            Found::new(format!("{} of {}", member.client_id, group.name), why, RUNNING, fix)
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
            let (topic, broker, queue) = lost[0];
            let figure = format!("{} queues, the first is {topic}/{broker}/{queue}", lost.len());
            let fix = format!(
                "make the members of {} alike in version, subscription and allocation strategy, and restart them",
                group.name
            );
            Found::new(format!("{} in {topic}/{broker}/{queue}", group.name), figure, RUNNING, fix)
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
        Some(twice.map(|((topic, broker, queue), members)| {
            let figure = members.into_iter().collect::<Vec<_>>().join(" and ");
            let fix = "make the allocation strategy of the members alike; if it stays after a minute, restart them";
            Found::new(format!("{} in {topic}/{broker}/{queue}", group.name), figure, RUNNING, fix)
        }).collect())
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
            let list: Vec<_> = wants.iter().map(|(id, wanted)| format!("{id} wants {wanted}")).collect();
            let (figure, source) = match differs {
                true => (list.join("; "), RUNNING),
                false => (
                    "the broker saw heartbeats with different subscriptions".to_owned(),
                    "subscriptionConflicts (28)",
                ),
            };
            let fix =
                format!("give all members of {} the same subscriptions, or a group of their own", group.name);
            Found::new(&group.name, figure, source, fix)
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
        Some(
            twice
                .map(|((broker, id), addresses)| {
                    let figure =
                        format!("{id} from {}", addresses.into_iter().collect::<Vec<_>>().join(" and "));
                    let fix = "give each process its own instanceName (or clientIP), and restart them";
                    Found::new(
                        format!("{id} of {}", group.name),
                        figure,
                        format!("GET_CONSUMER_CONNECTION_LIST (203) at {broker}"),
                        fix,
                    )
                })
                .collect(),
        )
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
            let figure = format!("{members} members, {queues} queues of {topic}");
            let fix = format!(
                "vostok admin topic create {topic} --cluster CLUSTER --read-queues {members} --write-queues {members}"
            );
            Found::new(&group.name, figure, "routes, GET_CONSUMER_CONNECTION_LIST (203)", fix)
        })
    })
}

/// Messages that wait in a queue of a group, by the broker's account; 0 when the group went on between two looks.
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
        Some(
            stuck
                .map(|queue| {
                    let figure = format!(
                        "last pull at {}, {} messages wait",
                        time(queue.last_pull_ms),
                        lag(group, queue)
                    );
                    let subject = format!(
                        "{} of {} in {}/{}/{}",
                        member.client_id, group.name, queue.topic, queue.broker, queue.queue
                    );
                    Found::new(
                        subject,
                        figure,
                        RUNNING,
                        format!("restart the member {}; compare its clock", member.client_id),
                    )
                })
                .collect(),
        )
    })
}

fn owner_does_not_consume(bundle: &Bundle) -> Look {
    Look::each(members(bundle).filter(|(group, _)| is_clustering(group)), |(group, member)| {
        let stuck = member.queues.iter().filter(|queue| {
            let age_ms = bundle.taken_at_ms - queue.last_consume_ms;
            queue.cached > 0 && queue.last_consume_ms > 0 && age_ms > CONSUME_MS && lag(group, queue) > 0
        });
        Some(
            stuck
                .map(|queue| {
                    let figure = format!(
                        "holds {} messages and finished the last at {}, {} wait",
                        queue.cached,
                        time(queue.last_consume_ms),
                        lag(group, queue)
                    );
                    let subject = format!(
                        "{} of {} in {}/{}/{}",
                        member.client_id, group.name, queue.topic, queue.broker, queue.queue
                    );
                    let fix = format!(
                        "see where its listener hangs: vostok mqadmin consumerStatus -g {} -i {} -s",
                        group.name, member.client_id
                    );
                    Found::new(subject, figure, RUNNING, fix)
                })
                .collect(),
        )
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
                None => "which is not connected".to_owned(),
            };
            let figure = format!("locked by {}, {why}; {} messages wait", lock.client, row.lag());
            Some(Found::new(format!("{} in {}", group.name, row.title()), figure, LOCKS, lock_fix(lock)))
        });
        Some(found.collect())
    })
}

/// Why the holder of a lock does not consume the queue, of which it says `owned`; `None` when it does.
fn idle_reason(bundle: &Bundle, owned: Option<&Owned>) -> Option<String> {
    let Some(owned) = owned else { return Some("which does not have the queue".to_owned()) };
    let is_old = |at_ms: i64, limit_ms| at_ms > 0 && bundle.taken_at_ms - at_ms > limit_ms;
    match (owned.cached, owned.last_consume_ms, owned.last_pull_ms) {
        (1.., at_ms, _) if is_old(at_ms, CONSUME_MS) => {
            Some(format!("which finished its last message at {}", time(at_ms)))
        }
        (_, _, at_ms) if is_old(at_ms, PULL_MS) => Some(format!("whose last pull was at {}", time(at_ms))),
        _ => None,
    }
}

fn lock_fix(lock: &Lock) -> String {
    format!(
        "restart {}; its lock ends 60 s after it was renewed last, and another member takes the queue",
        lock.client
    )
}

fn listener_hangs(bundle: &Bundle) -> Look {
    Look::each(members(bundle), |(group, member)| {
        let standing = member.standing.as_ref()?;
        // A group whose offsets move has slow messages, and no thread that hangs.
        let is_moving = |row: &Progress| row.later.is_some_and(|later| later.committed > row.committed);
        let is_stuck = !group.progress.iter().any(is_moving);
        let found = standing.iter().filter(|_| is_stuck).map(|thread| {
            let figure = match thread.called_by.as_str() {
                "" => format!("{} stands in {}", thread.thread, thread.at),
                called_by => format!("{} stands in {}, called by {called_by}", thread.thread, thread.at),
            };
            let fix = format!(
                "give what it waits for a time limit, and restart it; all stacks: vostok mqadmin consumerStatus -g {} -i {} -s",
                group.name, member.client_id
            );
            Found::new(format!("{} of {}", member.client_id, group.name), figure, RUNNING, fix)
        });
        Some(found.collect())
    })
}

fn listener_fails(bundle: &Bundle) -> Look {
    Look::each(members(bundle), |(group, member)| {
        let failing = member.failed.iter().filter(|(_, rate)| **rate > 0.0);
        Some(
            failing
                .map(|(topic, rate)| {
                    let subject = format!("{} of {} in {topic}", member.client_id, group.name);
                    let fix = format!(
                        "read the log of {}; what fails comes again and ends in %DLQ%{}",
                        member.client_id, group.name
                    );
                    Found::new(subject, format!("{rate:.2} messages per second fail"), RUNNING, fix)
                })
                .collect(),
        )
    })
}
