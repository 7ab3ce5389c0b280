//! `vostok doctor queue`: the way of messages through a queue, from producer to commit, and where it breaks.

use super::bundle::{Bundle, Group, Member, Owned, Progress, Queue};
use crate::text::{permission, time};
use serde::Serialize;
use wire::body::{PERM_READ, PERM_WRITE};

/// Time without a pull after which the owner is said not to pull.
const PULL_MS: i64 = 60_000;

/// Topic, queue and group to trace.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub topic: String,
    pub queue: i32,
    /// Name of the broker set; `None` for all broker sets that have the queue.
    pub broker: Option<String>,
    pub group: String,
}

/// State of a link of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Link {
    /// Messages pass.
    Passes,
    /// The chain breaks here.
    Broken,
    /// The state was not reported.
    Unknown,
}

/// A step on the way of messages.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub step: &'static str,
    pub state: Link,
    pub figure: String,
}

/// The chain of one queue.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Chain {
    pub queue: String,
    pub group: String,
    pub steps: Vec<Step>,
    /// The first step at which it breaks; absent when it does not.
    pub breaks_at: Option<&'static str>,
}

/// The chain of each queue that is meant.
pub(super) fn chains(bundle: &Bundle, target: &Target) -> Vec<Chain> {
    let routes = bundle.name_servers.iter().filter_map(|server| server.routes.get(&target.topic)).flatten();
    let mut brokers: Vec<&str> = routes.map(|row| row.broker.as_str()).collect();
    brokers.sort_unstable();
    brokers.dedup();
    brokers.retain(|broker| target.broker.as_deref().is_none_or(|wanted| wanted == *broker));
    brokers.into_iter().map(|broker| chain(bundle, target, broker)).collect()
}

fn chain(bundle: &Bundle, target: &Target, broker: &str) -> Chain {
    let queue = bundle.topics.iter().find(|topic| topic.name == target.topic).and_then(|topic| {
        topic.queues.iter().find(|queue| queue.broker == broker && queue.queue == target.queue)
    });
    let group = bundle.groups.iter().find(|group| group.name == target.group);
    let is_meant =
        |topic: &str, name: &str, id: i32| topic == target.topic && name == broker && id == target.queue;
    let progress = group
        .and_then(|group| group.progress.iter().find(|row| is_meant(&row.topic, &row.broker, row.queue)));
    let owner = group.and_then(|group| {
        group.members.iter().find_map(|member| {
            let owned = member.queues.iter().find(|it| is_meant(&it.topic, &it.broker, it.queue))?;
            Some((member, owned))
        })
    });
    let steps = vec![
        route(bundle, target, broker),
        stored(queue),
        online(group),
        subscribed(group, &target.topic),
        owned(group, owner),
        pulled(bundle, owner, progress),
        consumed(owner, progress),
        committed(progress),
    ];
    let breaks_at = steps.iter().find(|step| step.state == Link::Broken).map(|step| step.step);
    let name = format!("{}/{broker}/{}", target.topic, target.queue);
    Chain { queue: name, group: target.group.clone(), steps, breaks_at }
}

fn step(step: &'static str, is_passing: bool, figure: String) -> Step {
    Step { step, state: if is_passing { Link::Passes } else { Link::Broken }, figure }
}

fn unknown(step: &'static str, why: &str) -> Step {
    Step { step, state: Link::Unknown, figure: why.to_owned() }
}

fn route(bundle: &Bundle, target: &Target, broker: &str) -> Step {
    let rows = bundle.name_servers.iter().filter_map(|server| server.routes.get(&target.topic)).flatten();
    let Some(row) = rows.filter(|row| row.broker == broker).min_by_key(|row| row.perm) else {
        return unknown("route", "no name server has a route");
    };
    let has_queue = target.queue < row.read_queues;
    let may_both = row.perm & PERM_READ != 0 && row.perm & PERM_WRITE != 0;
    let figure = format!(
        "permission {}, {} queues to read, {} to write",
        permission(row.perm),
        row.read_queues,
        row.write_queues
    );
    step("route", has_queue && may_both, figure)
}

fn stored(queue: Option<&Queue>) -> Step {
    match queue {
        None => unknown("producer and store", "the broker does not tell the range of the queue"),
        Some(queue) if queue.max == 0 => {
            step("producer and store", false, "nothing was ever stored".to_owned())
        }
        Some(queue) => {
            let figure = format!(
                "offsets {} to {}, the last message of {}",
                queue.min,
                queue.max,
                time(queue.last_ms)
            );
            step("producer and store", true, figure)
        }
    }
}

fn online(group: Option<&Group>) -> Step {
    let Some((group, is_online)) = group.and_then(|group| Some((group, group.is_online?))) else {
        return unknown("group online", "no broker knows the group");
    };
    if group.is_enabled == Some(false) {
        return step("group online", false, "consumeEnable=false".to_owned());
    }
    step("group online", is_online, format!("{} connections", group.connections.len()))
}

fn subscribed(group: Option<&Group>, topic: &str) -> Step {
    let members: Vec<&Member> =
        group.into_iter().flat_map(|group| &group.members).filter(|member| member.error.is_none()).collect();
    if members.is_empty() {
        return unknown("subscription", "no member tells what it wants");
    }
    let wants: Vec<_> = members
        .iter()
        .map(|member| (member.client_id.as_str(), member.subscriptions.get(topic).map(String::as_str)))
        .collect();
    let is_alike = wants.iter().all(|(_, wanted)| wanted.is_some() && *wanted == wants[0].1);
    let figure: Vec<_> =
        wants.iter().map(|(id, wanted)| format!("{id}: {}", wanted.unwrap_or("nothing"))).collect();
    step("subscription", is_alike, figure.join("; "))
}

fn owned(group: Option<&Group>, owner: Option<(&Member, &Owned)>) -> Step {
    if let Some((member, _)) = owner {
        return step("owner", true, member.client_id.clone());
    }
    let members = group.map(|group| group.members.as_slice()).unwrap_or_default();
    let silent: Vec<_> = members
        .iter()
        .filter(|member| member.error.is_some())
        .map(|member| member.client_id.as_str())
        .collect();
    match (members.is_empty(), silent.is_empty()) {
        (true, _) => unknown("owner", "no member tells what it has"),
        (_, true) => step("owner", false, "no member has the queue".to_owned()),
        (_, false) => unknown("owner", &format!("none of those that answer; silent: {}", silent.join(", "))),
    }
}

fn pulled(bundle: &Bundle, owner: Option<(&Member, &Owned)>, progress: Option<&Progress>) -> Step {
    let Some((_, owned)) = owner.filter(|(_, owned)| owned.last_pull_ms > 0) else {
        return match progress {
            Some(row) => Step {
                step: "pull",
                state: if row.pulled >= row.max { Link::Passes } else { Link::Unknown },
                figure: format!("next pull at {} of {}", row.pulled, row.max),
            },
            None => unknown("pull", "nobody tells of a pull"),
        };
    };
    let is_recent = bundle.taken_at_ms - owned.last_pull_ms <= PULL_MS;
    let figure = format!("last pull at {}, {} messages held", time(owned.last_pull_ms), owned.cached);
    step("pull", is_recent || owned.cached > 0, figure)
}

/// Whether the committed offset moved between two looks; `None` without a second look.
fn is_moving(row: &Progress) -> Option<bool> {
    row.later.map(|later| later.committed > row.committed)
}

fn consumed(owner: Option<(&Member, &Owned)>, progress: Option<&Progress>) -> Step {
    let Some((_, owned)) = owner else { return unknown("listener", "the owner is not known") };
    let figure = format!("last at {}, {} messages held", time(owned.last_consume_ms), owned.cached);
    let is_waiting = owned.cached > 0 && progress.and_then(is_moving) == Some(false);
    step("listener", !is_waiting, figure)
}

fn committed(progress: Option<&Progress>) -> Step {
    let Some(row) = progress else { return unknown("commit", "the group has no offset in the queue") };
    let figure = format!("committed {} of {}, {} messages wait", row.committed, row.max, row.lag());
    match is_moving(row) {
        _ if row.lag() <= 0 => step("commit", true, figure),
        Some(is_moving) => step("commit", is_moving, figure),
        None => Step { step: "commit", state: Link::Unknown, figure },
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::tests::healthy;
    use super::*;

    fn target() -> Target {
        Target { topic: "T".into(), queue: 0, broker: None, group: "G".into() }
    }

    fn break_of(change: impl Fn(&mut Bundle)) -> Option<&'static str> {
        let mut bundle = healthy();
        change(&mut bundle);
        let chains = chains(&bundle, &target());
        chains.iter().find(|chain| chain.queue == "T/broker-a/0").expect("the queue has a route").breaks_at
    }

    #[test]
    fn the_chain_breaks_where_the_fault_is() {
        assert_eq!(break_of(|_| {}), None);
        assert_eq!(break_of(|it| it.name_servers[0].routes.get_mut("T").unwrap()[0].perm = 4), Some("route"));
        assert_eq!(break_of(|it| it.topics[0].queues[0].max = 0), Some("producer and store"));
        assert_eq!(break_of(|it| it.groups[0].is_online = Some(false)), Some("group online"));
        let other =
            |it: &mut Bundle| drop(it.groups[0].members[0].subscriptions.insert("T".into(), "TagB".into()));
        assert_eq!(break_of(other), Some("subscription"));
        assert_eq!(break_of(|it| it.groups[0].members[0].queues.clear()), Some("owner"));
        assert_eq!(break_of(|it| it.groups[0].members[0].queues[0].last_pull_ms = 1), Some("pull"));
        let stuck = |it: &mut Bundle, cached: i64| {
            let row = &mut it.groups[0].progress[0];
            row.max = row.committed + 5;
            row.later = Some(super::super::bundle::Later { after_ms: 6000, committed: row.committed });
            it.groups[0].members[0].queues[0].cached = cached;
        };
        assert_eq!(break_of(|it| stuck(it, 5)), Some("listener"));
        assert_eq!(break_of(|it| stuck(it, 0)), Some("commit"));
    }

    #[test]
    fn what_nobody_says_breaks_nothing() {
        let bundle = Bundle::default();
        assert!(chains(&bundle, &target()).is_empty());
        assert_eq!(break_of(|it| it.groups.clear()), None);
    }
}
