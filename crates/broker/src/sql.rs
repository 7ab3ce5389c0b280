//! SQL92 message filters (`SelectorParser`, `org.apache.rocketmq.filter.expression`): parsed once per subscription,
//! evaluated on the stored properties of each message without allocating.
//!
//! ```text
//! selector   := or
//! or         := and ( OR and )*
//! and        := equality ( AND equality )*
//! equality   := comparison ( "=" comparison | "<>" comparison | IS [NOT] NULL )*
//! comparison := unary ( ( ">" | ">=" | "<" | "<=" ) unary | [NOT] ( CONTAINS | STARTSWITH | ENDSWITH ) string
//!                     | [NOT] BETWEEN unary AND unary | [NOT] IN "(" string ( "," string )* ")" )*
//! unary      := ( "+" | "-" | NOT ) unary | primary
//! primary    := string | number | TRUE | FALSE | NULL | property | "(" or ")"
//! ```
//!
//! What stands alone, behind NOT or beside AND and OR is a condition, TRUE, FALSE, NULL or a property; a text, a number or a
//! negation is refused there (`SelectorParser.asBooleanExpression`).
//!
//! As in Java, nothing is checked behind a complete expression except that the next token is one: `a > 3 garbage`
//! means `a > 3`. A property is a text or absent; the value of an absent one is null, and logic is three-valued.
//! A message matches when the value is true; null, false and anything that cannot be computed do not match.

mod eval;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use eval::Value;
use wire::properties;

/// A parsed filter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter(Expr);

/// Why a text is not a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {what}")]
pub(crate) struct SqlError {
    /// Where, counted from 1.
    at: usize,
    what: String,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
enum Expr {
    Property(Box<str>),
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Box<str>),
    Negated(Box<Self>),
    /// The boolean meaning of a value that is not one by itself (`BooleanCastExpression`).
    Cast(Box<Self>),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
    Equal(Box<Self>, Box<Self>),
    IsNull(Box<Self>),
    Compare(Box<Self>, Order, Box<Self>),
    /// Whether a property is one of some texts.
    In(Box<str>, Vec<Box<str>>),
    Affix(Box<Self>, Part, Box<str>, Sense),
}

/// `<`, `<=`, `>` or `>=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What of a text is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Contains,
    StartsWith,
    EndsWith,
}

/// Whether an operator was written with `NOT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sense {
    Plain,
    Not,
}

impl Filter {
    /// Parses an expression.
    ///
    /// # Errors
    /// When it does not follow the grammar or compares what can never be compared.
    pub(crate) fn parse(text: &str) -> Result<Self, SqlError> {
        parse::parse(text).map(Self)
    }

    /// Whether a message with these stored properties matches.
    pub(crate) fn matches(&self, stored: &[u8]) -> bool {
        self.evaluate(|name| properties::get(stored, name)) == Some(true)
    }

    /// The value for the properties `get` answers; `None` is null or an error.
    fn evaluate<'a>(&'a self, get: impl Fn(&str) -> Option<&'a [u8]>) -> Option<bool> {
        match eval::evaluate(&self.0, &get) {
            Ok(Value::Bool(value)) => Some(value),
            _ => None,
        }
    }
}
