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
//! A whole expression, an operand of NOT, and an operand of AND or OR must be a condition, TRUE, FALSE, NULL or a
//! property. A text, a number or a negation is refused there (`SelectorParser.asBooleanExpression`).
//!
//! As in Java, text behind a complete expression is not checked, except that it must begin with a valid token: `a > 3 garbage`
//! means `a > 3`. The value of a property is a text, or null when the message does not have it, and logic is three-valued.
//! A message matches when the value of the expression is true. It does not match when the value is null or false, or cannot
//! be computed.

mod eval;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use eval::Value;
use wire::properties;

/// A filter expression in SQL92, parsed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter(Expr);

/// Error of a text that is not a valid filter expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {what}")]
pub(crate) struct SqlError {
    /// Position of the error in characters, counted from 1.
    at: usize,
    what: String,
}

/// A node of the expression tree.
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
    /// A property used as a condition (`BooleanCastExpression`).
    Cast(Box<Self>),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
    Equal(Box<Self>, Box<Self>),
    IsNull(Box<Self>),
    Compare(Box<Self>, Order, Box<Self>),
    /// Whether the value of a property is one of the texts.
    In(Box<str>, Vec<Box<str>>),
    Affix(Box<Self>, Part, Box<str>, Sense),
}

/// The operator of a comparison: `<`, `<=`, `>` or `>=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Which part of a text is compared: `CONTAINS`, `STARTSWITH` or `ENDSWITH`.
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
    /// [`SqlError`] when the text does not follow the grammar, or compares values that can never be compared.
    pub(crate) fn parse(text: &str) -> Result<Self, SqlError> {
        parse::parse(text).map(Self)
    }

    /// Whether a message with these encoded properties matches.
    pub(crate) fn matches(&self, stored: &[u8]) -> bool {
        self.evaluate(|name| properties::get(stored, name)) == Some(true)
    }

    /// Returns the value of the expression for the properties that `get` returns. `None` for null, and if the value
    /// cannot be computed.
    fn evaluate<'a>(&'a self, get: impl Fn(&str) -> Option<&'a [u8]>) -> Option<bool> {
        match eval::evaluate(&self.0, &get) {
            Ok(Value::Bool(value)) => Some(value),
            _ => None,
        }
    }
}
