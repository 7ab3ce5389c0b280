//! The subscription of a group to a topic, in the form that a pull uses (`SubscriptionData`, `FilterAPI`,
//! `ExpressionMessageFilter.isMatchedByConsumeQueue`).

use std::collections::BTreeSet;

use wire::body::SubscriptionData;
use wire::hash::java_hash;

use crate::sql;

/// The tag expression that matches every message.
const ALL: &str = "*";

/// Messages of a topic that a consumer group selects, parsed from its expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Subscription {
    /// Version of the subscription. A newer version replaces an older version.
    pub sub_version: i64,
    filter: Filter,
    /// The subscription as the client sent it, for answers to administrators.
    data: SubscriptionData,
}

#[derive(Debug, Clone, PartialEq)]
enum Filter {
    /// Matches every message.
    All,
    /// Matches messages with a tags code of this sorted list.
    Codes(Box<[i32]>),
    /// Matches by a condition on the message's properties; the queue's index alone does not decide.
    Sql(sql::Filter),
    /// An expression that cannot be parsed: no message matches.
    Bad,
}

/// A tag expression without any tag, such as `||` (Java: "subString split error").
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tag expression {0:?} has no tag between its separators, expected tag || tag or *")]
pub(crate) struct BadExpression(String);

impl Subscription {
    /// Parses a tag expression (`FilterAPI.buildSubscriptionData`).
    pub(crate) fn parse(topic: &str, expression: &str, sub_version: i64) -> Result<Self, BadExpression> {
        let tags_set: BTreeSet<String> = tags(expression)?.map(str::to_owned).collect();
        let code_set: BTreeSet<i32> = tags_set.iter().map(|tag| java_hash(tag)).collect();
        let sub_string = if expression.is_empty() { ALL } else { expression }.to_owned();
        let filter = match sub_string.as_str() {
            ALL => Filter::All,
            _ => Filter::Codes(code_set.iter().copied().collect()),
        };
        let data = SubscriptionData {
            code_set,
            sub_string,
            sub_version,
            tags_set,
            topic: topic.to_owned(),
            ..SubscriptionData::default()
        };
        Ok(Self { sub_version, filter, data })
    }

    /// Parses an expression of any type, in the form of a pull.
    ///
    /// # Errors
    /// Text with the position at which the expression is invalid for its type.
    pub(crate) fn parse_typed(
        topic: &str,
        expression: &str,
        expression_type: &str,
        sub_version: i64,
    ) -> Result<Self, String> {
        if is_tag(expression_type) {
            return Self::parse(topic, expression, sub_version).map_err(|error| error.to_string());
        }
        let filter = Filter::Sql(sql(expression_type, expression)?);
        let data = SubscriptionData {
            sub_string: expression.to_owned(),
            sub_version,
            topic: topic.to_owned(),
            expression_type: expression_type.to_owned(),
            ..SubscriptionData::default()
        };
        Ok(Self { sub_version, filter, data })
    }

    /// Takes over the subscription of a heartbeat. The client's tag codes count, as in Java. Missing codes are
    /// computed from the expression, and an expression without a tag has no codes.
    pub(crate) fn from_heartbeat(data: &SubscriptionData) -> Self {
        let filter = if !is_tag(&data.expression_type) {
            sql(&data.expression_type, &data.sub_string).map_or(Filter::Bad, Filter::Sql)
        } else if matches!(data.sub_string.as_str(), "" | ALL) {
            Filter::All
        } else if data.code_set.is_empty() {
            let codes: BTreeSet<i32> = tags(&data.sub_string).into_iter().flatten().map(java_hash).collect();
            Filter::Codes(codes.into_iter().collect())
        } else {
            Filter::Codes(data.code_set.iter().copied().collect())
        };
        Self { sub_version: data.sub_version, filter, data: data.clone() }
    }

    /// Whether a message with this tags code may match. Only the hash of the tag is compared. Clients compare the tag
    /// itself, and [`Self::sql`] decides if it is set.
    #[inline]
    pub(crate) fn matches(&self, tags_code: i64) -> bool {
        match &self.filter {
            Filter::All => true,
            // Java casts the tags code to an int, too.
            Filter::Codes(codes) => codes.binary_search(&(tags_code as i32)).is_ok(),
            Filter::Sql(_) => true,
            Filter::Bad => false,
        }
    }

    /// Returns the SQL92 condition for messages whose tags code matches.
    pub(crate) fn sql(&self) -> Option<&sql::Filter> {
        if let Filter::Sql(filter) = &self.filter { Some(filter) } else { None }
    }

    /// Whether the expression of the heartbeat cannot be parsed.
    pub(crate) fn is_bad(&self) -> bool {
        self.filter == Filter::Bad
    }

    /// Whether the expression is a tag expression.
    pub(crate) fn is_tag(&self) -> bool {
        !matches!(self.filter, Filter::Sql(_) | Filter::Bad)
    }

    /// Returns `TAG`, `SQL92`, or the client's own text.
    pub(crate) fn expression_type(&self) -> &str {
        if self.is_tag() { "TAG" } else { &self.data.expression_type }
    }

    /// The subscription as the client sent it.
    pub(crate) fn data(&self) -> &SubscriptionData {
        &self.data
    }
}

/// Whether the name of an expression type stands for tags (`ExpressionType.isTagType`).
pub(crate) fn is_tag(expression_type: &str) -> bool {
    matches!(expression_type, "" | "TAG")
}

/// Parses an SQL92 condition, the only type of expression besides tags (`FilterFactory`).
fn sql(expression_type: &str, expression: &str) -> Result<sql::Filter, String> {
    if expression_type != "SQL92" {
        return Err(format!("the expression type is {expression_type:?}, expected TAG or SQL92"));
    }
    sql::Filter::parse(expression)
        .map_err(|error| format!("the expression {expression:?} is no filter: {error}"))
}

/// Checks that an expression can be used as a filter. The error has the reason.
pub(crate) fn check(expression_type: &str, expression: &str) -> Result<(), String> {
    if is_tag(expression_type) { Ok(()) } else { sql(expression_type, expression).map(|_| ()) }
}

/// The tags of an expression; none for `*`. As Java's `String.split` drops empty parts at the end, an expression of separators
/// alone has no part, and is refused; blanks between separators are accepted.
fn tags(expression: &str) -> Result<impl Iterator<Item = &str>, BadExpression> {
    let expression = if expression == ALL { "" } else { expression };
    if !expression.is_empty() && expression.split("||").all(str::is_empty) {
        return Err(BadExpression(expression.chars().take(64).collect()));
    }
    Ok(expression.split("||").map(str::trim).filter(|tag| !tag.is_empty()))
}

#[cfg(test)]
mod tests;
