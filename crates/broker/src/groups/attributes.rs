//! Attributes of groups: which there are, and how requests write them (`SubscriptionGroupAttributes`).

use std::collections::BTreeMap;

use wire::codes::response;

use crate::attributes::{self, Attribute, Values, changeable};
use crate::{Refusal, Result};

/// Name of the attribute for the percentage of a group's pops that take the highest priority of a topic first.
pub(crate) const PRIORITY_FACTOR: &str = "priority.factor";

/// Name of the attribute for the parent topic whose lite topics a group consumes.
pub(crate) const LITE_TOPIC: &str = "lite.bind.topic";
/// Name of the attribute for the number of clients of a lite topic: `Shared` or `Exclusive`.
pub(crate) const LITE_MODEL: &str = "lite.sub.model";
/// Name of the attribute for the reset of the offset by a take-over.
pub(crate) const LITE_RESETS_ON_TAKE_OVER: &str = "lite.sub.reset.offset.exclusive";
/// Name of the attribute for the reset of the offset by the end of a subscription.
pub(crate) const LITE_RESETS_ON_REMOVAL: &str = "lite.sub.reset.offset.unsubscribe";
/// Name of the attribute for the most events of a client: lite topics with messages that wait for a pop of the client.
pub(crate) const LITE_EVENTS_MAX: &str = "lite.sub.client.max.event.cnt";
/// Name of the attribute of groups that consume all lite topics of the parent.
pub(crate) const LITE_WILDCARD: &str = "lite.sub.wildcard";

const ATTRIBUTES: [Attribute; 8] = [
    changeable(PRIORITY_FACTOR, Values::Numbers(0..=100)),
    changeable(LITE_TOPIC, Values::Text),
    changeable(LITE_MODEL, Values::OneOf(&["Shared", "Exclusive"])),
    changeable(LITE_RESETS_ON_TAKE_OVER, Values::Flag),
    changeable(LITE_RESETS_ON_REMOVAL, Values::Flag),
    changeable("lite.sub.client.quota", Values::Numbers(-1..=i64::MAX)),
    changeable(LITE_EVENTS_MAX, Values::Numbers(10..=i64::MAX)),
    changeable(LITE_WILDCARD, Values::Text),
];

/// Returns the attributes after the alterations of a request: `+name` sets, `-name` removes. `known` is `None` if the
/// request creates the group. A name without a sign sets as well, because the files contain names in this form, but
/// Java refuses such a name. An attribute with the group's present value may have any name, so that the attributes of
/// a newer Java broker can be restored.
pub(super) fn altered(
    known: Option<&BTreeMap<String, String>>,
    changes: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    let mut alterations = Vec::with_capacity(changes.len());
    for (change, value) in changes {
        let name = change.strip_prefix(['+', '-']).unwrap_or(change);
        if name.is_empty() {
            let remark = format!("attribute name {change:?} is empty, expected +name or -name");
            return Err(Refusal::new(response::INVALID_PARAMETER, remark));
        }
        let is_same = !change.starts_with('-') && known.and_then(|known| known.get(name)) == Some(value);
        let sign = if change.starts_with('-') { '-' } else { '+' };
        if !is_same {
            alterations.push((format!("{sign}{name}"), value.clone()));
        }
    }
    attributes::altered(&ATTRIBUTES, known, &alterations)
}
