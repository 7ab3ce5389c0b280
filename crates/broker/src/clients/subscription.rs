//! What a group wants of a topic, in the form a pull needs (`SubscriptionData`, `FilterAPI`,
//! `ExpressionMessageFilter.isMatchedByConsumeQueue`).

use std::collections::BTreeSet;

use wire::body::SubscriptionData;
use wire::hash::java_hash;

use crate::sql;

/// The expression that matches everything.
const ALL: &str = "*";

/// A parsed subscription.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Subscription {
    /// Version: a newer one replaces an older one.
    pub sub_version: i64,
    filter: Filter,
    /// As the client sent it, for admin answers.
    data: SubscriptionData,
}

#[derive(Debug, Clone, PartialEq)]
enum Filter {
    /// Everything.
    All,
    /// Messages whose tag hashes to one of these, sorted.
    Codes(Box<[i32]>),
    /// A condition on properties; the index alone does not decide.
    Sql(sql::Filter),
    /// An expression that is not understood: nothing matches.
    Bad,
}

/// A tag expression without any tag, as `||` (Java: "subString split error").
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

    /// Parses an expression of any type, as a pull brings it.
    ///
    /// # Errors
    /// When it is no expression of that type; the text says where.
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

    /// Takes over what a heartbeat states. Its codes count, as in Java; a client that left them out gets those of its
    /// expression, and one whose expression has no tag gets nothing.
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

    /// True when a message with this tags code may be wanted. Only the hash is compared: clients compare the tag itself, and
    /// [`Self::sql`] decides where it is set.
    #[inline]
    pub(crate) fn matches(&self, tags_code: i64) -> bool {
        match &self.filter {
            Filter::All => true,
            // Java casts the code to an int.
            Filter::Codes(codes) => codes.binary_search(&(tags_code as i32)).is_ok(),
            Filter::Sql(_) => true,
            Filter::Bad => false,
        }
    }

    /// The condition on the properties of messages, for those whose tags code matches.
    pub(crate) fn sql(&self) -> Option<&sql::Filter> {
        if let Filter::Sql(filter) = &self.filter { Some(filter) } else { None }
    }

    /// True for an expression that was stated by a heartbeat and is not understood.
    pub(crate) fn is_bad(&self) -> bool {
        self.filter == Filter::Bad
    }

    /// True for tag expressions.
    pub(crate) fn is_tag(&self) -> bool {
        !matches!(self.filter, Filter::Sql(_) | Filter::Bad)
    }

    /// `TAG`, `SQL92`, or what the client sent.
    pub(crate) fn expression_type(&self) -> &str {
        if self.is_tag() { "TAG" } else { &self.data.expression_type }
    }

    /// As the client sent it.
    pub(crate) fn data(&self) -> &SubscriptionData {
        &self.data
    }
}

/// True when the name of an expression type stands for tags (`ExpressionType.isTagType`).
pub(crate) fn is_tag(expression_type: &str) -> bool {
    matches!(expression_type, "" | "TAG")
}

/// The one other type of expression (`FilterFactory`).
fn sql(expression_type: &str, expression: &str) -> Result<sql::Filter, String> {
    if expression_type != "SQL92" {
        return Err(format!("the expression type is {expression_type:?}, expected TAG or SQL92"));
    }
    sql::Filter::parse(expression)
        .map_err(|error| format!("the expression {expression:?} is no filter: {error}"))
}

/// Whether an expression can be used as a filter; says why not.
pub(crate) fn check(expression_type: &str, expression: &str) -> Result<(), String> {
    if is_tag(expression_type) { Ok(()) } else { sql(expression_type, expression).map(|_| ()) }
}

/// The tags of an expression; none for everything. Java's `String.split` drops what is empty at the end, so that an
/// expression of separators only has no part at all, which it refuses; blanks between separators it accepts.
fn tags(expression: &str) -> Result<impl Iterator<Item = &str>, BadExpression> {
    let expression = if expression == ALL { "" } else { expression };
    if !expression.is_empty() && expression.split("||").all(str::is_empty) {
        return Err(BadExpression(expression.chars().take(64).collect()));
    }
    Ok(expression.split("||").map(str::trim).filter(|tag| !tag.is_empty()))
}

#[cfg(test)]
mod tests;
