//! Attributes of topics and groups: how requests change them, and which values they may have (`AttributeUtil`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::change::Alterations;
use crate::{Refusal, Result};

/// The values that an attribute may have.
pub(crate) enum Values {
    OneOf(&'static [&'static str]),
    Numbers(RangeInclusive<i64>),
    /// `true` or `false`, in any case.
    Flag,
    Text,
}

/// An attribute that a topic or a group may have.
pub(crate) struct Attribute {
    pub name: &'static str,
    /// Whether the attribute of an existing topic or group may be changed.
    pub changeable: bool,
    pub values: Values,
}

/// Returns the attributes after a request changes them. `table` lists the valid attributes. `known` holds the present
/// attributes, or `None` if the request creates the object.
///
/// # Errors
/// The refusal, with Java's text, of a name outside the table, an invalid value, or a forbidden change. The content
/// of `known` is not checked.
pub(crate) fn altered(
    table: &[Attribute],
    known: Option<&BTreeMap<String, String>>,
    alterations: &Alterations,
) -> Result<BTreeMap<String, String>> {
    let mut attributes = known.cloned().unwrap_or_default();
    let creates = known.is_none();
    for (at, (signed, value)) in alterations.iter().enumerate() {
        let name = &signed[1..];
        let refuse = |why: &str| Err(Refusal::error(format!("{why} {name}")));
        if alterations[..at].iter().any(|(other, _)| other[1..] == *name) {
            return refuse("alter duplication key. key:");
        }
        let removes = signed.starts_with('-');
        if creates && removes {
            return refuse("only add attribute is supported while creating topic. key:");
        }
        if removes && !attributes.contains_key(name) {
            return refuse("attempt to delete a nonexistent key:");
        }
        let Some(attribute) = table.iter().find(|attribute| attribute.name == name) else {
            return refuse("unsupported key:");
        };
        if !creates && !attribute.changeable {
            return refuse("attempt to update an unchangeable attribute. key:");
        }
        if removes {
            attributes.remove(name);
        } else {
            attribute.check(value)?;
            attributes.insert(name.to_owned(), value.clone());
        }
    }
    Ok(attributes)
}

/// An attribute that may be changed at any time.
pub(crate) const fn changeable(name: &'static str, values: Values) -> Attribute {
    Attribute { name, changeable: true, values }
}

/// An attribute that keeps the value it was created with.
pub(crate) const fn fixed(name: &'static str, values: Values) -> Attribute {
    Attribute { name, changeable: false, values }
}

impl Attribute {
    fn check(&self, value: &str) -> Result<()> {
        let (is_valid, fault, expected) = match &self.values {
            Values::Text => return Ok(()),
            Values::Flag => {
                let is_valid = value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false");
                (is_valid, "boolean attribute format is wrong.", "true or false".to_owned())
            }
            Values::OneOf(words) => {
                (words.contains(&value), "value is not in set:", format!("one of {}", words.join(", ")))
            }
            Values::Numbers(range) => {
                let expected = match *range.end() {
                    i64::MAX => format!("{} or more", range.start()),
                    last => format!("{} to {last}", range.start()),
                };
                let is_valid = value.parse().is_ok_and(|number| range.contains(&number));
                (is_valid, "value is not in range:", expected)
            }
        };
        if is_valid {
            return Ok(());
        }
        Err(Refusal::error(format!("{fault} {} is {value}, expected {expected}", self.name)))
    }
}
