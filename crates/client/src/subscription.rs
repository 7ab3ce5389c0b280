//! Filter expressions of consumers (`MessageSelector`, `FilterAPI.buildSubscriptionData`).

use std::collections::BTreeSet;
use wire::body::SubscriptionData;
use wire::hash::java_hash;

/// The filter expression of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Messages with any of the tags in `a || b`. All messages for `*`.
    Tags(String),
    /// SQL condition on the properties of messages, such as `a > 3 AND region = 'north'`, if the broker allows it
    /// (`enablePropertyFilter`).
    Sql(String),
}

impl Expression {
    /// The expression in the form that brokers parse.
    pub fn text(&self) -> &str {
        let (Self::Tags(text) | Self::Sql(text)) = self;
        text
    }

    /// Type of the expression: `TAG` or `SQL92` (`ExpressionType`).
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tags(_) => "TAG",
            Self::Sql(_) => "SQL92",
        }
    }

    /// The tags that the consumer itself must check. An SQL condition needs no check, because brokers evaluate it
    /// completely.
    pub(crate) fn tags(&self) -> Tags {
        match self {
            Self::Tags(text) => Tags::parse(text),
            Self::Sql(_) => Tags::default(),
        }
    }
}

impl Default for Expression {
    fn default() -> Self {
        Self::Tags("*".to_owned())
    }
}

impl From<&str> for Expression {
    fn from(tags: &str) -> Self {
        Self::Tags(tags.to_owned())
    }
}

impl From<String> for Expression {
    fn from(tags: String) -> Self {
        Self::Tags(tags)
    }
}

/// The tags of an expression; an empty set means all messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags {
    tags: BTreeSet<String>,
}

impl Tags {
    /// Parses `a || b`. An empty expression and `*` mean all messages.
    pub fn parse(expression: &str) -> Self {
        if matches!(expression.trim(), "" | "*") {
            return Self::default();
        }
        let tags = expression.split("||").map(str::trim).filter(|tag| !tag.is_empty());
        Self { tags: tags.map(str::to_owned).collect() }
    }

    /// Whether a message with this tag matches. Brokers compare only hashes of tags, so consumers compare the text.
    pub fn admit(&self, tag: Option<&str>) -> bool {
        self.tags.is_empty() || tag.is_some_and(|tag| self.tags.contains(tag))
    }
}

/// A subscription as heartbeats contain it. `version` is a time in milliseconds; a newer version replaces an older one.
pub(crate) fn data(topic: &str, expression: &Expression, version: i64) -> SubscriptionData {
    let tags = expression.tags().tags;
    let sub_string = match expression {
        Expression::Tags(_) if tags.is_empty() => "*",
        _ => expression.text().trim(),
    };
    SubscriptionData {
        topic: topic.to_owned(),
        expression_type: expression.kind().to_owned(),
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
        let data = data("T", &"TagA || TagB".into(), 5);
        assert_eq!(data.code_set.into_iter().collect::<Vec<_>>(), [2_598_919, 2_598_920]);
        assert_eq!((data.sub_string.as_str(), data.sub_version, data.tags_set.len()), ("TagA || TagB", 5, 2));
        let all = super::data("T", &" * ".into(), 5);
        assert_eq!((all.sub_string.as_str(), all.tags_set.len()), ("*", 0));
        let sql = super::data("T", &Expression::Sql("a > 3".to_owned()), 5);
        assert_eq!((sql.sub_string.as_str(), sql.expression_type.as_str()), ("a > 3", "SQL92"));
        assert!(sql.tags_set.is_empty() && sql.code_set.is_empty());
    }
}
