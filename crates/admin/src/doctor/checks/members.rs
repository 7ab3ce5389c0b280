//! Reports of the members of consumer groups, and whether the reports fit together.

use crate::Lang;
use crate::doctor::bilingual::{Both, Text, text};
use crate::doctor::bundle::{Bundle, Group, Lock, Member, Owned, Progress, Standing};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::Fix;
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
const LOCKS: Both = ("table of locks (22094)", "锁表（22094）");
const CONNECTIONS: &str = "GET_CONSUMER_CONNECTION_LIST (203)";
const NEEDS_PUSH: Both = ("answers of members of push groups", "push 消费组成员的应答");

pub(super) const CHECKS: &[Check] = checks! {
    "member-silent", Warning, silent, "A connected member does not answer the broker",
        "已连接的成员不回答 broker", ("members of groups", "消费组的成员");
    "queue-without-owner", Critical, queue_without_owner, "A queue is consumed by no member of an online group",
        "在线消费组中没有成员消费某个队列",
        ("answers of all members of a push group in clustering mode", "集群模式 push 消费组所有成员的应答");
    "queue-with-two-owners", Warning, queue_with_two_owners,
        "Two members of a group in clustering mode have the same queue", "集群模式下两个成员持有同一队列",
        ("answers of two members of a group", "同组两个成员的应答");
    "subscriptions-conflict", Critical, subscriptions_conflict,
        "Members of one group want different topics or expressions, so that each loses messages",
        "同组成员的订阅不同，各自都会丢消息",
        ("answers of two members of a group, or subscriptionConflicts of a Vostok broker",
         "同组两个成员的应答，或 Vostok broker 的 subscriptionConflicts");
    "client-ids-equal", Critical, client_ids_equal,
        "Two members of a group have the same client id, and get the same queues",
        "同组两个成员的 client id 相同，分到相同的队列", ("connections of groups", "消费组的连接");
    "members-beyond-queues", Advice, members_beyond_queues,
        "A group has more members than its topic has queues; the others get nothing",
        "成员数多于主题的队列数，多出的成员分不到消息",
        ("connections of groups, routes, subscriptions", "消费组的连接、路由、订阅");
    "owner-does-not-pull", Critical, owner_does_not_pull,
        "The member that has a queue with waiting messages does not pull",
        "持有队列的成员不拉取，而消息在等待", NEEDS_PUSH;
    "owner-does-not-consume", Critical, owner_does_not_consume,
        "A member holds messages, or as many as it may, and its listener finishes none",
        "成员缓存着消息，但监听器一条也没有完成", NEEDS_PUSH;
    "lock-held-idle", Critical, lock_held_idle,
        "A queue of ordered consumption is locked by a client that does not consume it, while messages wait",
        "顺序消费的队列被一个并不消费它的客户端锁住，而消息在等待",
        ("locks of groups with lag (Vostok brokers), two looks at their progress (--sample), answers of members",
         "有堆积的消费组的锁（Vostok broker）、对其进度看两次（--sample）、成员的应答");
    "listener-hangs", Critical, listener_hangs,
        "A thread of a listener stands at the same place in two thread dumps, while its group does not move",
        "消费组没有进展，而监听器的某个线程在两次线程转储中停在同一处",
        ("two thread dumps of members that hold messages of a group with lag (--sample; clients of Java)",
         "有堆积的消费组中持有消息的成员的两次线程转储（--sample；Java 客户端）");
    "listener-fails", Warning, listener_fails, "The listener of a member fails on messages",
        "成员的监听器消费失败", NEEDS_PUSH;
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

/// A member of a group.
fn member_title(client: &str, group: &str) -> Text {
    text!("{client} of {group}", "消费组 {group} 的成员 {client}")
}

/// A member of a group in one of its queues.
fn owner_title(member: &Member, group: &Group, owned: &Owned) -> Text {
    let (client, group, Owned { topic, broker, queue, .. }) = (&member.client_id, &group.name, owned);
    text!(
        "{client} of {group} in {topic}/{broker}/{queue}",
        "消费组 {group} 的成员 {client}，队列 {topic}/{broker}/{queue}"
    )
}

fn queue_title(group: &Group, topic: &str, broker: &str, queue: i32) -> Text {
    let group = &group.name;
    text!("{group} in {topic}/{broker}/{queue}", "消费组 {group}，队列 {topic}/{broker}/{queue}")
}

/// The operation that lists the members of a group.
fn members_fix(group: &Group) -> Fix {
    Fix::new("client", "consumers", &[("group", &group.name)])
}

/// The operation that shows what a member does.
fn status_fix(group: &Group, client: &str) -> Fix {
    Fix::new("client", "status", &[("group", &group.name), ("client", client)])
}

/// The operation that shows the stacks of a member.
fn stack_fix(group: &Group, client: &str) -> Fix {
    Fix::new("client", "status", &[("group", &group.name), ("client", client), ("stack", "true")])
}

fn silent(bundle: &Bundle) -> Look {
    let all = bundle.groups.iter().flat_map(|group| group.members.iter().map(move |member| (group, member)));
    Look::each(all, |(group, member)| {
        Found::when(member.is_silent(), || {
            let why = member.error.clone().unwrap_or_default();
            let advice = text!(
                "look at its process; a client that cannot be asked often cannot consume either",
                "检查它的进程；无法应答的客户端往往也无法消费"
            );
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
            let figure = text!(
                "{count} queues, the first is {topic}/{broker}/{queue}",
                "{count} 个队列，第一个是 {topic}/{broker}/{queue}"
            );
            let name = &group.name;
            let advice = text!(
                "make the members of {name} alike in version, subscription and allocation strategy, and restart them",
                "让 {name} 的成员版本、订阅和分配策略一致，然后重启它们"
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
                "make the allocation strategy of the members alike; if it stays after a minute, restart them",
                "让成员的分配策略一致；如果一分钟后仍然如此，重启它们"
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
            let wanted = |template: fn(&str, &str) -> Text, lang| {
                let each = wants.iter().map(|(id, wanted)| template(id, wanted).of(lang).to_owned());
                each.collect::<Vec<_>>().join(lang.pick("; ", "；"))
            };
            let template = |id: &str, wanted: &str| text!("{id} wants {wanted}", "{id} 订阅了 {wanted}");
            let (figure, source) = match differs {
                true => (Text::new(wanted(template, Lang::En), wanted(template, Lang::Zh)), RUNNING),
                false => (
                    text!(
                        "the broker saw heartbeats with different subscriptions",
                        "broker 收到了订阅不同的心跳"
                    ),
                    "subscriptionConflicts (28)",
                ),
            };
            let name = &group.name;
            let advice = text!(
                "give all members of {name} the same subscriptions, or a group of their own",
                "让 {name} 的所有成员订阅一致，或者各用自己的消费组"
            );
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
            let figure = text!("{id} from {list}", "{id} 来自 {list}");
            let advice = text!(
                "give each process its own instanceName (or clientIP), and restart them",
                "给每个进程各自的 instanceName（或 clientIP），然后重启它们"
            );
            let source = text!("{CONNECTIONS} at {broker}", "{broker} 的 {CONNECTIONS}");
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
            let figure = text!(
                "{members} members, {queues} queues of {topic}",
                "{members} 个成员，{topic} 只有 {queues} 个队列"
            );
            let advice = text!(
                "give {topic} {members} queues, unless its messages are consumed in order; or start fewer members",
                "给 {topic} {members} 个队列（顺序消费的主题除外），或者减少成员"
            );
            let source = text!("routes, {CONNECTIONS}", "路由、{CONNECTIONS}");
            Found::new(&group.name, figure, source, advice)
                .fix(Fix::new("topic", "route", &[("topic", topic)]))
                .of_group(&group.name)
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
        let found = stuck.map(|queue| {
            let (at, lag) = (time(queue.last_pull_ms), lag(group, queue));
            let figure =
                text!("last pull at {at}, {lag} messages wait", "最后一次拉取在 {at}，{lag} 条消息在等待");
            let client = &member.client_id;
            let advice =
                text!("restart the member {client}; compare its clock", "重启成员 {client}；核对它的时钟");
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
            let figure = text!(
                "holds {cached} messages and finished the last at {at}, {lag} wait",
                "缓存了 {cached} 条消息，最后一条完成于 {at}，{lag} 条在等待"
            );
            let advice = text!(
                "see in the stacks of its threads where its listener hangs",
                "从它的线程栈中查看监听器停在哪里"
            );
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
                None => text!("which is not connected", "它没有连接"),
            };
            Some(locked(group, lock, row.lag(), &why))
        });
        Some(found.collect())
    })
}

/// Why the holder of a lock does not consume the queue, of which it says `owned`; `None` when it does.
fn idle_reason(bundle: &Bundle, owned: Option<&Owned>) -> Option<Text> {
    let Some(owned) = owned else {
        return Some(text!("which does not have the queue", "它并不持有该队列"));
    };
    let is_old = |at_ms: i64, limit_ms| at_ms > 0 && bundle.taken_at_ms - at_ms > limit_ms;
    let (consumed, pulled) = (time(owned.last_consume_ms), time(owned.last_pull_ms));
    match (owned.cached, owned.last_consume_ms, owned.last_pull_ms) {
        (1.., at_ms, _) if is_old(at_ms, CONSUME_MS) => {
            Some(text!("which finished its last message at {consumed}", "它最后一条消息完成于 {consumed}"))
        }
        (_, _, at_ms) if is_old(at_ms, PULL_MS) => {
            Some(text!("whose last pull was at {pulled}", "它最后一次拉取在 {pulled}"))
        }
        _ => None,
    }
}

/// The finding of a lock whose holder does not consume, and the reason why.
fn locked(group: &Group, lock: &Lock, lag: i64, why: &Text) -> Found {
    let Lock { topic, broker, queue, client, .. } = lock;
    let (why_en, why_zh) = (why.of(Lang::En), why.of(Lang::Zh));
    let figure = text!(
        "locked by {client}, {why_en}; {lag} messages wait",
        "被 {client} 锁住，{why_zh}；{lag} 条消息在等待"
    );
    let advice = text!(
        "restart {client}; its lock ends 60 s after it was renewed last, and another member takes the queue",
        "重启 {client}；它的锁在最后一次续期 60 秒后失效，由其他成员接管队列"
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
                "" => text!("{thread} stands in {at}", "{thread} 停在 {at}"),
                called_by => text!(
                    "{thread} stands in {at}, called by {called_by}",
                    "{thread} 停在 {at}，由 {called_by} 调用"
                ),
            };
            let advice = text!(
                "give what it waits for a time limit, and restart the member",
                "给它等待的操作设置超时，并重启该成员"
            );
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
            let subject =
                text!("{client} of {name} in {topic}", "消费组 {name} 的成员 {client}，主题 {topic}");
            let figure = text!("{rate:.2} messages per second fail", "每秒 {rate:.2} 条消息消费失败");
            let advice = text!(
                "read the log of {client}; what fails comes again and ends in %DLQ%{name}",
                "查看 {client} 的日志；失败的消息会重试，最后进入 %DLQ%{name}"
            );
            Found::new(subject, figure, RUNNING, advice).fix(status_fix(group, client)).of_group(name)
        });
        Some(found.collect())
    })
}
