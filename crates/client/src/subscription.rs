//! Tag expressions (`FilterAPI.buildSubscriptionData`).

use std::collections::BTreeSet;
use wire::body::SubscriptionData;
use wire::hash::java_hash;

/// The tags an expression asks for; none means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags {
    tags: BTreeSet<String>,
}

impl Tags {
    /// Reads `a || b`; an empty expression and `*` ask for everything.
    pub fn parse(expression: &str) -> Self {
        if matches!(expression.trim(), "" | "*") {
            return Self::default();
        }
        let tags = expression.split("||").map(str::trim).filter(|tag| !tag.is_empty());
        Self { tags: tags.map(str::to_owned).collect() }
    }

    /// Brokers compare hashes only; whoever reads compares the text.
    pub fn admit(&self, tag: Option<&str>) -> bool {
        self.tags.is_empty() || tag.is_some_and(|tag| self.tags.contains(tag))
    }
}

/// A subscription as heartbeats carry it. `version` is the clock in milliseconds: a newer one replaces an older.
pub(crate) fn data(topic: &str, expression: &str, version: i64) -> SubscriptionData {
    let tags = Tags::parse(expression).tags;
    let sub_string = if tags.is_empty() { "*" } else { expression.trim() };
    SubscriptionData {
        topic: topic.to_owned(),
        sub_string: sub_string.to_owned(),
        code_set: tags.iter().map(|tag| java_hash(tag)).collect(),
        tags_set: tags,
        sub_version: version,
        ..SubscriptionData::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_ask_for_tags() {
        let check = |expression, tag, expected| {
            assert_eq!(Tags::parse(expression).admit(tag), expected, "{expression}")
        };
        check("*", None, true);
        check("", Some("a"), true);
        check("a || b", Some("b"), true);
        check("a||b", Some("c"), false);
        check("a", None, false);
    }

    #[test]
    fn heartbeats_carry_tags_and_hashes() {
        let data = data("T", "TagA || TagB", 5);
        assert_eq!(data.code_set.into_iter().collect::<Vec<_>>(), [2_598_919, 2_598_920]);
        assert_eq!((data.sub_string.as_str(), data.sub_version, data.tags_set.len()), ("TagA || TagB", 5, 2));
        let all = super::data("T", " * ", 5);
        assert_eq!((all.sub_string.as_str(), all.tags_set.len()), ("*", 0));
    }
}
