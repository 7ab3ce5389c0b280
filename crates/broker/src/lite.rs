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
pub(crate) use figures::{broker_info, client_info, group_info, parent_info, topic_info, trigger};

use crate::broker::Broker;
use crate::pop;
use crate::state::{GroupRules, Offered};

/// Gives an event for a lite queue to a client of `group`, or of each subscribing group, if the queue has messages for
/// the group. Runs a suspended pop of the client.
pub(crate) fn dispatch(broker: &Arc<Broker>, group: Option<&str>, name: &Arc<str>) {
    match group {
        Some(group) => {
            dispatch_to(broker, group, name);
        }
        None => {
            for group in broker.tables.lite.groups_of(name) {
                dispatch_to(broker, &group, name);
            }
        }
    }
}

/// Gives an event for a lite queue to a client of a group. Returns false if no client has room for it.
fn dispatch_to(broker: &Arc<Broker>, group: &str, name: &Arc<str>) -> bool {
    // The acknowledgement or the timer gives an event for a blocked queue. Both look for messages afterwards.
    if !has_messages(broker, group, name) || pop::is_blocked(broker, group, name) {
        return true;
    }
    let offered = broker.tables.lite.tables().offer(group, name, broker.runtime.now_ms());
    match offered {
        Offered::To(waiters) => pop::wake(broker, group, &waiters),
        Offered::Nobody => {}
        Offered::Full => return false,
    }
    true
}

/// Whether a lite queue has messages that a group has not consumed.
fn has_messages(broker: &Broker, group: &str, name: &str) -> bool {
    let Some(queue) = broker.store.find_queue(name, 0) else { return false };
    let end = broker.replication.visible_end_of(&queue);
    let next = broker
        .tables
        .offsets
        .pending_reset(group, name, 0)
        .or_else(|| broker.tables.offsets.committed(group, name, 0));
    // A group without an offset begins at the last message at the latest.
    end > next.unwrap_or(0).max(queue.min().to_i64())
}

/// The attributes of a lite group; `None` for a missing group, and for a group that consumes no lite topics.
fn rules(broker: &Broker, group: &str) -> Option<GroupRules> {
    GroupRules::of(&*broker.tables.groups.find(group)?, broker.runtime.config.lite.events_max)
}
