//! Attributes of topics and groups: how requests change them, and which values they may have (`AttributeUtil`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::Refusal;
use crate::change::Alterations;

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
) -> Result<BTreeMap<String, String>, Refusal> {
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

impl Attribute {
    fn check(&self, value: &str) -> Result<(), Refusal> {
        let name = self.name;
        match &self.values {
            Values::Text => Ok(()),
            Values::Flag if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") => {
                Ok(())
            }
            Values::Flag => Err(Refusal::error(format!(
                "boolean attribute format is wrong. {name} is {value}, expected true or false"
            ))),
            Values::OneOf(words) if words.contains(&value) => Ok(()),
            Values::OneOf(words) => {
                let words = words.join(", ");
                Err(Refusal::error(format!(
                    "value is not in set: {name} is {value}, expected one of {words}"
                )))
            }
            Values::Numbers(range) if value.parse().is_ok_and(|number| range.contains(&number)) => Ok(()),
            Values::Numbers(range) => {
                let (first, last) = (range.start(), range.end());
                let expected = match *last {
                    i64::MAX => format!("{first} or more"),
                    last => format!("{first} to {last}"),
                };
                Err(Refusal::error(format!("value is not in range: {name} is {value}, expected {expected}")))
            }
        }
    }
}
