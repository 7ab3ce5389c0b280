//! Flags of a scenario that differ between the cells of a matrix: `--vary groups=0,1,3`.

use crate::archive::SETTING;
use crate::generator::{Workload, choice_name};
use crate::scenario::is_secret;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::str::FromStr;

/// A load, and the broker settings that it is run with.
pub type Load = (Workload, BTreeMap<String, String>);

/// A flag with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary(Vec<Setting>);

/// Value of a flag.
#[derive(Clone, Debug, PartialEq)]
struct Setting {
    name: String,
    value: String,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) =
            text.split_once('=').ok_or_else(|| format!("expected NAME=VALUE,…, found {text:?}"))?;
        let setting = |value: &str| Setting { name: name.to_owned(), value: value.to_owned() };
        let settings: Vec<_> = values.split(',').map(setting).collect();
        let mut tried = Load::default();
        settings.iter().try_for_each(|setting| setting.apply(&mut tried))?;
        Ok(Self(settings))
    }
}

impl Vary {
    /// A load with each of the values.
    pub fn over(&self, load: &Load) -> Vec<Load> {
        let with = |setting: &Setting| {
            let mut load = load.clone();
            setting.apply(&mut load).expect("checked when it was read");
            load
        };
        self.0.iter().map(with).collect()
    }
}

impl Setting {
    fn apply(&self, (load, settings): &mut Load) -> Result<(), String> {
        match self.name.as_str() {
            "send" => load.send = self.one_of()?,
            "consume" => load.consume = self.one_of()?,
            "headers" => {
                load.json_headers = match self.value.as_str() {
                    "json" => true,
                    "binary" => false,
                    other => return Err(format!("headers: expected binary or json, found {other:?}")),
                };
            }
            "keys" => load.keys = self.parsed("true or false")?,
            "property-size" => load.property_size = self.number()?,
            "groups" => load.groups = self.number()?,
            "batch" => load.batch = self.number()?,
            "tags" => load.tags = self.number()?,
            "delay" => load.delay_level = self.number::<i32>()?.saturating_abs(),
            "consumers" => load.consumers = self.at_least_one()?,
            "consumer-threads" => load.consumer_threads = Some(self.at_least_one()?),
            "producers" => load.producers = self.at_least_one()?,
            "connections" => load.connections = self.at_least_one()?,
            "topics" => load.topics = self.at_least_one()?,
            "compression" => load.compression = self.one_of()?,
            other => {
                let key = other.strip_prefix(SETTING).filter(|key| !key.is_empty() && !self.value.is_empty());
                if let Some(key) = key {
                    if is_secret(key) {
                        return Err(format!(
                            "{other}: what the run keeps would show its values; set it at the broker"
                        ));
                    }
                    settings.insert(key.to_owned(), self.value.clone());
                    return Ok(());
                }
                return Err(format!(
                    "expected send, consume, headers, groups, consumers, consumer-threads, batch, tags, keys, \
                     property-size, delay, producers, connections, topics, compression or set:KEY, found {other:?}"
                ));
            }
        }
        Ok(())
    }

    fn one_of<T: ValueEnum>(&self) -> Result<T, String> {
        T::from_str(&self.value, true).map_err(|_| {
            let names: Vec<_> = T::value_variants().iter().map(choice_name).collect();
            format!("{}: expected {}, found {:?}", self.name, names.join(", "), self.value)
        })
    }

    fn number<T: FromStr>(&self) -> Result<T, String> {
        self.parsed("a number")
    }

    fn parsed<T: FromStr>(&self, what: &str) -> Result<T, String> {
        self.value.parse().map_err(|_| format!("{}: expected {what}, found {:?}", self.name, self.value))
    }

    fn at_least_one(&self) -> Result<u32, String> {
        let number = self.number()?;
        if number == 0 { Err(format!("{}: expected at least 1", self.name)) } else { Ok(number) }
    }
}
