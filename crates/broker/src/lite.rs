//! Lite topics (RIP-83): names below a parent topic, each with its own light queue, order and subscribers
//! (`LiteEventDispatcher`, `LiteSubscriptionCtlProcessor`, `LiteManagerProcessor`, `LiteLifecycleManager`).
//!
//! | step | where |
//! |---|---|
//! | a client subscribes to lite topics | [`mod@control`]; tables in `state/lite` |
//! | a message is appended to a lite queue, or a queue is no longer blocked: a client gets an event | [`dispatch`] |
//! | the client pops its events | `pop/lite.rs` |
//! | a client with a full set has room again: its lite queues are searched (full dispatch) | [`engine`] |
//! | a client is silent, a lite topic expires | [`engine`], [`mod@expiry`] |
//! | operators ask | [`mod@figures`] |

mod control;
mod engine;
mod expiry;
mod figures;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use control::control;
pub(crate) use engine::LiteEngine;
pub(crate) use expiry::{of_parents, remove};
pub(crate) use figures::{broker_info, client_info, group_info, parent_info, sharded, topic_info, trigger};

use crate::parts::{Delivery, PopParts, Replication, Runtime, Tables};
use crate::pop;
use crate::state::{GroupRules, Offered};

/// Gives an event for a lite queue to a client of `group`, or of each subscribing group, if the queue has messages for
/// the group. Runs a suspended pop of the client.
pub(crate) fn dispatch(
    delivery: &Delivery,
    runtime: &Runtime,
    pops: &Arc<PopParts>,
    group: Option<&str>,
    name: &Arc<str>,
) {
    match group {
        Some(group) => {
            dispatch_to(delivery, runtime, pops, group, name);
        }
        None => {
            for group in delivery.tables.lite.groups_of(name) {
                dispatch_to(delivery, runtime, pops, &group, name);
            }
        }
    }
}

/// Gives an event for a lite queue to a client of a group.
fn dispatch_to(delivery: &Delivery, runtime: &Runtime, pops: &Arc<PopParts>, group: &str, name: &Arc<str>) {
    if is_ready(delivery, runtime, group, name) {
        let offered = delivery.tables.lite.tables().offer(group, name);
        if let Offered::To(waiters) = offered {
            pop::wake(pops, group, &waiters);
        }
    }
}

/// Whether a lite queue has messages that a group can get now.
fn is_ready(delivery: &Delivery, runtime: &Runtime, group: &str, name: &str) -> bool {
    // The acknowledgement or the timer gives an event for a blocked queue. Both look for messages afterwards.
    has_messages(&delivery.tables, &delivery.replication, group, name)
        && !pop::is_blocked(delivery, runtime, group, name)
}

/// Whether a lite queue has messages that a group has not consumed.
fn has_messages(tables: &Tables, replication: &Replication, group: &str, name: &str) -> bool {
    let Some(queue) = tables.store.find_queue(name, 0) else { return false };
    let end = replication.visible_end_of(&queue);
    let next =
        tables.offsets.pending_reset(group, name, 0).or_else(|| tables.offsets.committed(group, name, 0));
    // A group without an offset begins at the last message at the latest.
    end > next.unwrap_or(0).max(queue.min().to_i64())
}

/// Whether a group consumes lite topics.
pub(crate) fn is_lite_group(tables: &Tables, runtime: &Runtime, group: &str) -> bool {
    rules(tables, runtime, group).is_some()
}

/// The attributes of a lite group; `None` for a missing group, and for a group that consumes no lite topics.
fn rules(tables: &Tables, runtime: &Runtime, group: &str) -> Option<GroupRules> {
    GroupRules::of(&*tables.groups.find(group)?, runtime.config.lite.events_max)
}
