//! Changes of subscriptions (200071, `LiteSubscriptionCtlProcessor`). The broker keeps every subscription, whichever
//! broker of the parent's route has the lite topic: a message that reaches this broker then has its subscriber.

use std::collections::HashSet;
use std::sync::Arc;

use wire::body::{LiteOffset, LiteOffsetType, LiteSubscription, LiteSubscriptionAction, LiteSubscriptions};
use wire::codes::response;

use super::{dispatch, rules};
use crate::client_link::{ClientLink, Notice};
use crate::parts::{Delivery, LiteParts, PopParts, Runtime, Tables};
use crate::state::{GroupRules, Subscriber};
use crate::{Refusal, names, pop};

/// Response code of a broker at its limit of subscriptions (`ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED`, 5.5).
const SUBSCRIPTION_QUOTA_EXCEEDED: i32 = 2018;

/// Most lite topics that are changed under one lock of the tables.
const PART: usize = 512;

/// Most new lite topics of a request whose events the request itself gives to the client. For more lite topics the engine
/// runs a full dispatch.
const FEW: usize = 64;

/// The policy for the first message (`OffsetOption.POLICY_MIN_VALUE`).
const POLICY_MIN: i64 = 1;
/// The policy for the end of the queue (`OffsetOption.POLICY_MAX_VALUE`).
const POLICY_MAX: i64 = 2;

/// Carries out changes of subscriptions in their order. `link` leads to the clients of the changes.
///
/// # Errors
/// `REQUEST_CODE_NOT_SUPPORTED` if the broker serves no lite topics, by which proxies know.
/// `ILLEGAL_OPERATION` without changes, for a group that may not consume or is not bound to the
/// topic, and for additions to a wildcard group. `LITE_SUBSCRIPTION_QUOTA_EXCEEDED` at
/// `maxLiteSubscriptionCount`. Changes before the refused change stay.
pub(crate) fn control(
    parts: &Arc<LiteParts>,
    link: &Arc<dyn ClientLink>,
    changes: &LiteSubscriptions,
) -> Result<(), Refusal> {
    if !parts.runtime.config.store.multi_dispatch {
        let text = "lite topics need enableLmq=true and enableMultiDispatch=true";
        return Err(Refusal::new(response::REQUEST_CODE_NOT_SUPPORTED, text));
    }
    if changes.subscription_set.is_empty() {
        return Err(illegal("LiteSubscriptionCtlRequestBody is empty."));
    }
    for change in &changes.subscription_set {
        let LiteSubscription { client_id, group, topic, action, .. } = change;
        let is_named = [client_id, group, topic].iter().all(|name| !name.trim().is_empty());
        if !is_named || client_id.len() > names::CLIENT_ID_BYTES_MAX {
            tracing::warn!(
                ?action,
                group,
                topic,
                "a change of lite topics without client id, group or topic is ignored"
            );
            continue;
        }
        match action {
            LiteSubscriptionAction::PartialAdd | LiteSubscriptionAction::CompleteAdd => {
                add(parts, link, change)?
            }
            LiteSubscriptionAction::PartialRemove => {
                remove(&parts.delivery, &parts.runtime, &parts.pops, change)
            }
            LiteSubscriptionAction::CompleteRemove => {
                leave(&parts.delivery, &parts.runtime, &parts.pops, group, client_id)
            }
        }
    }
    Ok(())
}

fn illegal(remark: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    Refusal::new(response::ILLEGAL_OPERATION, remark)
}

/// Names of the lite queues of a change, shared with the store's queues. Lite topics that can have no queue are left
/// out.
fn queues(tables: &Tables, change: &LiteSubscription) -> Vec<Arc<str>> {
    let names = change.lite_topic_set.iter().filter_map(|lite| names::lite_name(&change.topic, lite));
    let queue = |name: &str| tables.store.find_queue(name, 0);
    names
        .map(|name| queue(&name).map_or_else(|| name.as_str().into(), |queue| queue.shared_topic()))
        .collect()
}

/// Adds to the lite topics of a client, or sets them.
fn add(parts: &Arc<LiteParts>, link: &Arc<dyn ClientLink>, change: &LiteSubscription) -> Result<(), Refusal> {
    let LiteSubscription { client_id, group, topic, .. } = change;
    let refused = |text: &str| Err(illegal(format!("java.lang.IllegalStateException: {text}")));
    if parts.tables.groups.find(group).is_none_or(|config| !config.consume_enable) {
        return refused("Consumer group is not allowed to consume.");
    }
    let Some(rules) = rules(&parts.tables, &parts.runtime, group).filter(|rules| *rules.topic == **topic)
    else {
        return refused(&format!("lite group {group} is not bound to topic {topic}"));
    };
    let is_partial = change.action == LiteSubscriptionAction::PartialAdd;
    let queues = queues(&parts.tables, change);
    check_quota(parts, &rules, change, queues.len())?;
    if rules.wildcard && is_partial {
        return refused("subscribe lite operation is not supported for this group");
    }
    let now_ms = parts.runtime.now_ms();
    parts.tables.lite.begin_use();
    let additions = parts.tables.lite.tables().note_request((group, &rules), client_id, link, now_ms);
    if rules.wildcard {
        parts.tables.lite.wakeup().wake();
        return Ok(());
    }
    let mut added = Vec::new();
    let mut count = queues.len();
    for part in queues.chunks(PART) {
        let mut tables = parts.tables.lite.tables();
        let changed = match is_partial {
            true => tables.add(group, client_id, part),
            false => tables.repeat(group, client_id, part),
        };
        drop(tables);
        count -= changed.lost.len();
        lost(&parts.tables, &parts.delivery, group, &rules, changed.lost);
        added.extend(changed.added);
    }
    if !is_partial {
        // An addition that came meanwhile is not undone. The client's next complete list ends the other subscriptions.
        let additions = additions + queues.chunks(PART).len();
        let before = parts.tables.lite.tables().queues_above(count, additions, (group, client_id));
        let wanted: HashSet<&str> = queues.iter().map(|name| &**name).collect();
        let gone: Vec<_> = before.into_iter().filter(|name| !wanted.contains(&**name)).collect();
        end(&parts.delivery, &parts.runtime, &parts.pops, (group, client_id), &gone);
    }
    if let Some(option) = change.offset_option.filter(|_| is_partial) {
        // A group that moved has messages again, also of a lite topic that the client had before.
        let moved = |queue: &&Arc<str>| reset(&parts.tables, &parts.delivery, group, queue, option);
        added.extend(queues.iter().filter(moved).cloned());
    }
    if added.len() <= FEW {
        added
            .iter()
            .for_each(|queue| dispatch(&parts.delivery, &parts.runtime, &parts.pops, Some(group), queue));
    } else {
        parts.tables.lite.tables().demand((group.as_str().into(), Some(client_id.as_str().into())));
        parts.tables.lite.wakeup().wake();
    }
    Ok(())
}

/// Refuses a change that would exceed `maxLiteSubscriptionCount`, which bounds the subscriptions and the clients of the
/// broker. Apache's broker performs the change that exceeds the bound, and refuses the next changes.
fn check_quota(
    parts: &LiteParts,
    rules: &GroupRules,
    change: &LiteSubscription,
    count: usize,
) -> Result<(), Refusal> {
    let max = parts.runtime.config.lite.subscriptions_max;
    let tables = parts.tables.lite.tables();
    let known = tables.client(&change.group, &change.client_id);
    let of_client = known.map_or(0, |client| client.queues.len());
    let wanted = if rules.wildcard { 1 } else { count };
    let after = match change.action {
        LiteSubscriptionAction::CompleteAdd => tables.active().saturating_sub(of_client) + wanted,
        // Most additions repeat nothing. A client that is at the bound and repeats itself is refused as in Java.
        _ => tables.active() + wanted,
    };
    let is_full = known.is_none() && tables.clients() >= max;
    if after > max || is_full {
        let text =
            "org.apache.rocketmq.broker.tables.lite.LiteQuotaException: lite subscription quota exceeded";
        return Err(Refusal::new(SUBSCRIPTION_QUOTA_EXCEEDED, format!("{text} {max}")));
    }
    Ok(())
}

/// Notifies clients that lost a lite topic to another client. Resets the offset of the group in
/// this lite topic if the attributes of the group require that.
fn lost(tables: &Tables, delivery: &Delivery, group: &str, rules: &GroupRules, lost: Vec<Subscriber>) {
    for Subscriber { client, link, queue } in lost {
        if rules.resets_on_take_over {
            set_offset(tables, delivery, group, &queue, 0);
        }
        if let (Some(link), Some((_, lite_topic))) = (link, names::lite_parts(&queue)) {
            link.notify(&Notice::UnsubscribeLite { client_id: &client, group, lite_topic });
        }
    }
}

fn remove(delivery: &Delivery, runtime: &Runtime, pops: &Arc<PopParts>, change: &LiteSubscription) {
    let group = &*change.group;
    let removed = end(delivery, runtime, pops, (group, &change.client_id), &queues(&delivery.tables, change));
    if rules(&delivery.tables, runtime, group).is_some_and(|rules| rules.resets_on_removal) {
        for queue in removed {
            set_offset(&delivery.tables, delivery, group, &queue, 0);
            dispatch(delivery, runtime, pops, Some(group), &queue);
        }
    }
}

/// Ends subscriptions of a client and returns the ended subscriptions. The client loses its events for these lite queues,
/// so other subscribers of the group get them.
fn end(
    delivery: &Delivery,
    runtime: &Runtime,
    pops: &Arc<PopParts>,
    (group, client): (&str, &str),
    queues: &[Arc<str>],
) -> Vec<Arc<str>> {
    let mut ended = Vec::new();
    for part in queues.chunks(PART) {
        let removed = delivery.tables.lite.tables().remove(group, client, part);
        removed.iter().for_each(|queue| dispatch(delivery, runtime, pops, Some(group), queue));
        ended.extend(removed);
    }
    ended
}

/// Removes a client. Other clients of the group get its events.
fn leave(delivery: &Delivery, runtime: &Runtime, pops: &Arc<PopParts>, group: &str, client: &str) {
    let (events, waiters) = delivery.tables.lite.tables().remove_client(group, client);
    events.iter().for_each(|event| dispatch(delivery, runtime, pops, Some(group), event));
    waiters.iter().for_each(|waiters| pop::wake_all(pops, waiters));
    delivery.tables.lite.wakeup().wake();
}

/// Moves a group in a lite queue as the offset option of a subscription says (`LiteSubscriptionRegistryImpl.resetOffset`).
/// A time has no effect, as in Java. Returns whether the group moves.
fn reset(tables: &Tables, delivery: &Delivery, group: &str, queue: &str, option: LiteOffset) -> bool {
    let Some(index) = tables.store.find_queue(queue, 0) else { return false };
    let committed = tables.offsets.committed(group, queue, 0);
    let target = match (option.r#type, option.value) {
        (LiteOffsetType::Policy, POLICY_MIN) => Some(0),
        (LiteOffsetType::Policy, POLICY_MAX) => Some(index.max().to_i64()),
        (LiteOffsetType::Offset, offset) => Some(offset.max(0)),
        (LiteOffsetType::TailN, count) => committed.map(|at| at.saturating_sub(count).max(0)),
        (LiteOffsetType::Policy | LiteOffsetType::Timestamp, _) => None,
    };
    let Some(target) = target.filter(|target| committed != Some(*target)) else { return false };
    set_offset(tables, delivery, group, queue, target);
    true
}

/// Makes a reset pending, which the next pop takes. Messages in flight no longer block the queue.
fn set_offset(tables: &Tables, delivery: &Delivery, group: &str, queue: &str, offset: i64) {
    if tables.store.find_queue(queue, 0).is_none() {
        return;
    }
    tables.offsets.set_reset(group, queue, 0, offset);
    if let Some(cell) = delivery.pops.in_flight_queues.find(group, queue, 0) {
        cell.in_flight().order = None;
    }
}
