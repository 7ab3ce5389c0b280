//! The arguments of operations: how they are described, and the values that were given.

use crate::Error;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Form of an argument of `vostok admin`. In `mqadmin` all arguments have flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value without a flag; required.
    Place,
    /// `--name VALUE`; required.
    Required,
    /// `--name VALUE`; may be left out.
    Optional,
    /// `--name`; its presence is its value.
    Switch,
}

/// An argument of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Name on the command line of `vostok admin`, and in [`Arguments`].
    pub name: &'static str,
    /// Short name of `mqadmin`'s option, without the dash; empty where `mqadmin` has no such option.
    pub short: &'static str,
    /// Long name of `mqadmin`'s option, without the dashes.
    pub long: &'static str,
    /// Form of the argument in `vostok admin`.
    pub kind: Kind,
    /// Meaning of the value.
    pub help: &'static str,
}

impl Argument {
    /// Whether the operation cannot do without it.
    pub fn is_required(&self) -> bool {
        matches!(self.kind, Kind::Place | Kind::Required)
    }
}

/// Short and long name of an option of `mqadmin`; both empty where it has no such option.
type Names = (&'static str, &'static str);

/// A required argument that is given by its place.
pub(crate) const fn place(name: &'static str, (short, long): Names, help: &'static str) -> Argument {
    Argument { name, short, long, kind: Kind::Place, help }
}

/// A required option.
pub(crate) const fn required(name: &'static str, (short, long): Names, help: &'static str) -> Argument {
    Argument { name, short, long, kind: Kind::Required, help }
}

/// An option that may be left out.
pub(crate) const fn optional(name: &'static str, (short, long): Names, help: &'static str) -> Argument {
    Argument { name, short, long, kind: Kind::Optional, help }
}

/// An option without a value.
pub(crate) const fn switch(name: &'static str, (short, long): Names, help: &'static str) -> Argument {
    Argument { name, short, long, kind: Kind::Switch, help }
}

/// A broker.
pub(crate) const BROKER: Argument =
    optional("broker", ("b", "brokerAddr"), "address of a broker, or name of a broker set");
/// The masters of a cluster.
pub(crate) const MASTERS: Argument = optional("cluster", ("c", "clusterName"), "all masters of this cluster");
/// All brokers of a cluster.
pub(crate) const BROKERS: Argument = optional("cluster", ("c", "clusterName"), "all brokers of this cluster");

/// A cluster, when several clusters have a topic.
pub(crate) const CLUSTER: Argument =
    optional("cluster", ("c", "cluster"), "only the brokers of this cluster");

/// Messages of a test.
pub(crate) const COUNT: Argument = optional("count", ("a", "amount"), "messages; 100 if left out");
/// Bytes of a message of a test.
pub(crate) const TEST_SIZE: Argument = optional("size", ("s", "size"), "bytes of a message; 128 if left out");
/// Seconds between two runs of an operation that repeats itself in `mqadmin`.
pub(crate) const INTERVAL: Argument =
    optional("interval", ("i", "interval"), "do it again after so many seconds, until interrupted");

/// The values that were given for the arguments of an operation, by name.
#[derive(Clone, Debug, Default)]
pub struct Arguments(BTreeMap<&'static str, String>);

impl Arguments {
    /// Sets a value. The value of a switch is `true`.
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.insert(name, value.into());
    }

    /// A value; `None` when it was not given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A required value.
    ///
    /// # Errors
    /// [`Error::Usage`] when it was not given.
    pub fn need(&self, name: &str) -> Result<&str, Error> {
        self.get(name).ok_or_else(|| Error::Usage(format!("expected a value for {name}")))
    }

    /// A number or another type that is parsed; `None` when it was not given.
    ///
    /// # Errors
    /// [`Error::Usage`] when the value cannot be parsed.
    pub fn parse<T: FromStr>(&self, name: &str) -> Result<Option<T>, Error> {
        let parse = |text: &str| {
            let kind = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
            text.trim()
                .parse()
                .map_err(|_| Error::Usage(format!("expected {name} of type {kind}, found {text}")))
        };
        self.get(name).map(parse).transpose()
    }

    /// Whether a switch is on, or the value `true` was given, in any case.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_or_named() {
        let mut arguments = Arguments::default();
        arguments.set("queue", "7");
        arguments.set("offset", "many");
        arguments.set("more", "TRUE");
        assert_eq!(arguments.parse::<i32>("queue").unwrap(), Some(7));
        assert_eq!(arguments.parse::<i32>("absent").unwrap(), None);
        let why = arguments.parse::<i64>("offset").unwrap_err().to_string();
        assert_eq!(why, "expected offset of type i64, found many");
        assert_eq!(arguments.need("topic").unwrap_err().to_string(), "expected a value for topic");
        assert!(arguments.is_on("more") && !arguments.is_on("queue"));
    }
}
