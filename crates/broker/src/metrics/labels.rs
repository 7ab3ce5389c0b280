//! Values of labels.

use crate::names;

/// Text of a boolean label.
pub(super) fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Whether a topic or a group is the system's own (`BrokerMetricsManager.isSystem`).
pub(super) fn is_system(topic: &str, group: &str) -> bool {
    names::is_system_topic(topic) || is_system_group(group)
}

/// Whether a group is the system's own (`BrokerMetricsManager.isSystemGroup`).
pub(super) fn is_system_group(group: &str) -> bool {
    names::is_system_group(group) || names::SYSTEM_GROUPS.contains(&group)
}

/// The topic that a group's figures are shown for: for the retry topic of popped messages the topic they came from.
pub(super) fn shown_topic<'a>(topic: &'a str, group: &str) -> &'a str {
    let rest = topic.strip_prefix(names::RETRY_PREFIX).and_then(|rest| rest.strip_prefix(group));
    rest.and_then(|rest| rest.strip_prefix(['_', '+'])).filter(|rest| !rest.is_empty()).unwrap_or(topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_of_popped_messages_are_shown_for_their_topic() {
        let shown = |topic| shown_topic(topic, "G");
        assert_eq!(shown("%RETRY%G_T_1"), "T_1");
        assert_eq!(shown("%RETRY%G+T_1"), "T_1");
        assert_eq!(shown("%RETRY%G"), "%RETRY%G");
        assert_eq!(shown("%RETRY%G2"), "%RETRY%G2");
        assert_eq!(shown("T"), "T");
    }
}
