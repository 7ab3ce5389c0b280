//! Subscription conflicts: members of a consumer group that subscribe to different topics or expressions. RocketMQ
//! assigns the queues of all topics to all members, and the newest heartbeat counts for the whole group. So the other
//! members miss messages silently. The broker logs the conflict when it begins and when it ends.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use wire::body::SubscriptionData;

use super::Member;

/// The subscriptions that the members of a group stated, as a hash by connection.
#[derive(Default)]
pub(super) struct Stated {
    wishes: HashMap<u64, u64>,
    is_conflict: bool,
}

impl Stated {
    /// Whether members have different subscriptions.
    pub(super) fn is_conflict(&self) -> bool {
        self.is_conflict
    }

    /// Records the subscriptions of a member.
    pub(super) fn note(&mut self, group: &str, member: &Member, wanted: &[SubscriptionData]) {
        if self.wishes.insert(member.link.id(), digest(wanted)) == Some(digest(wanted)) {
            return;
        }
        let before = self.is_conflict;
        self.judge(group);
        if self.is_conflict && !before {
            let list = |data: &SubscriptionData| format!("{} {}", data.topic, data.sub_string);
            let wants: Vec<String> = wanted.iter().map(list).collect();
            tracing::warn!(
                group,
                client = member.client_id,
                remote = %member.link.remote(),
                ?wants,
                "members of a consumer group subscribe to different things; some of them miss messages. Give each application a group of its own"
            );
        }
    }

    /// Removes a member that left.
    pub(super) fn forget(&mut self, group: &str, link_id: u64) {
        self.wishes.remove(&link_id);
        self.judge(group);
    }

    fn judge(&mut self, group: &str) {
        let mut wishes = self.wishes.values();
        let first = wishes.next();
        let is_conflict = wishes.any(|other| Some(other) != first);
        if self.is_conflict && !is_conflict {
            tracing::info!(group, "the members of the consumer group subscribe to the same things again");
        }
        self.is_conflict = is_conflict;
    }
}

/// Returns a hash of topics and expressions in any order. The version of a subscription is left out, because it
/// differs between clients.
fn digest(wanted: &[SubscriptionData]) -> u64 {
    let mut rows: Vec<(&str, &str, &str)> = wanted
        .iter()
        .map(|data| (data.topic.as_str(), data.sub_string.as_str(), data.expression_type.as_str()))
        .collect();
    rows.sort_unstable();
    let mut hasher = DefaultHasher::new();
    rows.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::ADDRESS;

    fn member(id: u64) -> Member {
        let link = crate::remoting::link(&Arc::new(net::ConnectionHandle::detached(id, ADDRESS)));
        Member { client_id: format!("c{id}"), language: None, version: 0, link, seen_ms: 0 }
    }

    fn wants(list: &[(&str, &str)], sub_version: i64) -> Vec<SubscriptionData> {
        let data = |(topic, text): &(&str, &str)| SubscriptionData {
            topic: (*topic).to_owned(),
            sub_string: (*text).to_owned(),
            sub_version,
            ..SubscriptionData::default()
        };
        list.iter().map(data).collect()
    }

    #[test]
    fn the_same_in_another_order_and_version_is_no_conflict() {
        let mut stated = Stated::default();
        stated.note("g", &member(1), &wants(&[("T", "a"), ("U", "*")], 1));
        stated.note("g", &member(2), &wants(&[("U", "*"), ("T", "a")], 2));
        assert!(!stated.is_conflict());
    }

    #[test]
    fn another_tag_or_topic_is_a_conflict_until_it_is_gone() {
        for other in [&[("T", "b")][..], &[("U", "a")], &[("T", "a"), ("U", "a")], &[]] {
            let mut stated = Stated::default();
            stated.note("g", &member(1), &wants(&[("T", "a")], 1));
            stated.note("g", &member(2), &wants(other, 1));
            assert!(stated.is_conflict());
            stated.note("g", &member(2), &wants(&[("T", "a")], 9));
            assert!(!stated.is_conflict());
            stated.note("g", &member(2), &wants(other, 10));
            stated.forget("g", 1);
            assert!(!stated.is_conflict(), "one alone agrees with itself");
        }
    }
}
