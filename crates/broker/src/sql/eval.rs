//! Evaluates an expression for a message (`ComparisonExpression`, `LogicExpression`, `UnaryExpression`).

use super::{Expr, Order, Part, Sense};
use std::cmp::Ordering;

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(&'a [u8]),
}

/// The error when values cannot be compared, so that the message does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Incomparable;

type Outcome<'a> = Result<Value<'a>, Incomparable>;

impl Value<'_> {
    fn of(value: Option<bool>) -> Self {
        value.map_or(Self::Null, Self::Bool)
    }

    /// The value as a condition, `None` for null. Only called on values of conditions.
    fn truth(self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(value) } else { None }
    }
}

pub(super) fn evaluate<'a>(expr: &'a Expr, get: &impl Fn(&str) -> Option<&'a [u8]>) -> Outcome<'a> {
    Ok(match expr {
        Expr::Property(name) => get(name).map_or(Value::Null, Value::Text),
        Expr::Null => Value::Null,
        Expr::Bool(value) => Value::Bool(*value),
        Expr::Int(value) => Value::Int(*value),
        Expr::Long(value) => Value::Long(*value),
        Expr::Double(value) => Value::Double(*value),
        Expr::Text(text) => Value::Text(text.as_bytes()),
        Expr::Negated(operand) => match evaluate(operand, get)? {
            Value::Int(value) => Value::Int(value.wrapping_neg()),
            Value::Long(value) => Value::Long(value.wrapping_neg()),
            Value::Double(value) => Value::Double(-value),
            _ => Value::Null,
        },
        Expr::Cast(operand) => match evaluate(operand, get)? {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            _ => Value::Bool(false),
        },
        Expr::Not(operand) => Value::of(evaluate(operand, get)?.truth().map(|value| !value)),
        Expr::And(operands) => logic(operands, false, get)?,
        Expr::Or(operands) => logic(operands, true, get)?,
        Expr::Equal(left, right) => Value::of(equal(evaluate(left, get)?, evaluate(right, get)?)?),
        Expr::IsNull(operand) => Value::Bool(evaluate(operand, get)? == Value::Null),
        Expr::Compare(left, order, right) => {
            // As in Java the right operand is not evaluated when the left one is null.
            let left = match evaluate(left, get)? {
                Value::Null => return Ok(Value::Null),
                left => left,
            };
            let right = evaluate(right, get)?;
            Value::of(by_size(left, right)?.map(|found| order.holds(found)))
        }
        Expr::In(name, texts) => {
            let is_listed = |value: &[u8]| texts.iter().any(|text| text.as_bytes() == value);
            Value::of(get(name).map(is_listed))
        }
        // No text contains the empty text, whatever the operand is.
        Expr::Affix(_, _, text, _) if text.is_empty() => Value::Bool(false),
        Expr::Affix(operand, part, text, sense) => Value::Bool(match evaluate(operand, get)? {
            Value::Text(value) => part.is_in(value, text.as_bytes()) == (*sense == Sense::Plain),
            _ => false,
        }),
    })
}

/// Evaluates three-valued AND (`decisive` is false) or OR (`decisive` is true). Operands behind a decisive operand
/// are not evaluated.
fn logic<'a>(operands: &'a [Expr], decisive: bool, get: &impl Fn(&str) -> Option<&'a [u8]>) -> Outcome<'a> {
    let mut known = true;
    for operand in operands {
        match evaluate(operand, get)?.truth() {
            Some(value) if value == decisive => return Ok(Value::Bool(decisive)),
            Some(_) => {}
            None => known = false,
        }
    }
    Ok(if known { Value::Bool(!decisive) } else { Value::Null })
}

fn equal(left: Value<'_>, right: Value<'_>) -> Result<Option<bool>, Incomparable> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => Some(true),
        (Value::Null, _) => None,
        (_, Value::Null) => Some(false),
        (Value::Text(left), Value::Text(right)) => Some(left == right),
        _ => Some(compare(left, right)? == Ordering::Equal),
    })
}

fn by_size(left: Value<'_>, right: Value<'_>) -> Result<Option<Ordering>, Incomparable> {
    Ok(match (left, right) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Text(left), Value::Text(right)) => Some(double(left)?.total_cmp(&double(right)?)),
        _ => Some(compare(left, right)?),
    })
}

/// Compares two values of which at most one is a text. The text is parsed as the type of the other value.
fn compare(left: Value<'_>, right: Value<'_>) -> Result<Ordering, Incomparable> {
    use Value::{Bool, Text};
    Ok(match (left, right) {
        (Text(text), other) => order(read_as(text, other)?, other),
        // Java converts a text on the right of a number, but not on the right of TRUE or FALSE.
        (Bool(_), Text(_)) => return Err(Incomparable),
        (other, Text(text)) => order(other, read_as(text, other)?),
        (left, right) => order(left, right),
    })
}

/// Parses a text as a value of the type of `other`.
fn read_as<'a>(text: &[u8], other: Value<'_>) -> Outcome<'a> {
    let number = || std::str::from_utf8(text).map_err(|_| Incomparable);
    Ok(match other {
        Value::Int(_) => Value::Int(number()?.parse().map_err(|_| Incomparable)?),
        Value::Long(_) => Value::Long(number()?.parse().map_err(|_| Incomparable)?),
        Value::Double(_) => Value::Double(double(text)?),
        Value::Bool(_) => Value::Bool(text.eq_ignore_ascii_case(b"true")),
        Value::Null | Value::Text(_) => return Err(Incomparable),
    })
}

fn order(left: Value<'_>, right: Value<'_>) -> Ordering {
    use Value::{Bool, Double, Int, Long};
    match (left, right) {
        (Bool(left), Bool(right)) => left.cmp(&right),
        (Int(left), Int(right)) => left.cmp(&right),
        (Int(left), Long(right)) => i64::from(left).cmp(&right),
        (Long(left), Int(right)) => left.cmp(&i64::from(right)),
        (Long(left), Long(right)) => left.cmp(&right),
        (Double(left), right) => left.total_cmp(&widened(right)),
        (left, Double(right)) => widened(left).total_cmp(&right),
        // A boolean and a number are never equal; Java orders the left one first.
        _ => Ordering::Less,
    }
}

#[allow(clippy::cast_precision_loss)]
fn widened(value: Value<'_>) -> f64 {
    match value {
        Value::Int(value) => f64::from(value),
        Value::Long(value) => value as f64,
        Value::Double(value) => value,
        _ => f64::NAN,
    }
}

/// Parses a number like Java's `Double.valueOf`, without its hexadecimal form.
fn double(text: &[u8]) -> Result<f64, Incomparable> {
    let text = std::str::from_utf8(text).map_err(|_| Incomparable)?;
    let text = text.trim_matches(|letter: char| letter <= ' ');
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match digits {
        "NaN" => return Ok(f64::NAN),
        "Infinity" => return Ok(sign * f64::INFINITY),
        _ => {}
    }
    let digits = digits.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(digits);
    let begins = digits.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    let value = if begins { digits.parse::<f64>().ok() } else { None };
    value.map(|value| sign * value).ok_or(Incomparable)
}

impl Order {
    fn holds(self, found: Ordering) -> bool {
        match self {
            Self::Less => found.is_lt(),
            Self::LessOrEqual => found.is_le(),
            Self::Greater => found.is_gt(),
            Self::GreaterOrEqual => found.is_ge(),
        }
    }
}

impl Part {
    fn is_in(self, value: &[u8], text: &[u8]) -> bool {
        match self {
            Self::Contains => value.windows(text.len()).any(|window| window == text),
            Self::StartsWith => value.starts_with(text),
            Self::EndsWith => value.ends_with(text),
        }
    }
}
