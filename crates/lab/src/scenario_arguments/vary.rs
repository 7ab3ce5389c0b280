//! Flags of a scenario that differ between the cells of a matrix: `--vary groups=0,1,3`.

use super::ScenarioArguments;
use crate::archive::SETTING;
use crate::arguments::is_secret;
use clap::ValueEnum;
use std::str::FromStr;

/// A flag with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary(Vec<Setting>);

/// One value of a flag.
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
        let mut probe = ScenarioArguments::probe();
        settings.iter().try_for_each(|setting| setting.apply(&mut probe))?;
        Ok(Self(settings))
    }
}

impl Vary {
    /// The scenario arguments with each of the values.
    #[must_use]
    pub fn over(&self, arguments: &ScenarioArguments) -> Vec<ScenarioArguments> {
        let with = |setting: &Setting| {
            let mut arguments = arguments.clone();
            setting.apply(&mut arguments).expect("checked when it was read");
            arguments
        };
        self.0.iter().map(with).collect()
    }
}

impl Setting {
    fn apply(&self, arguments: &mut ScenarioArguments) -> Result<(), String> {
        match self.name.as_str() {
            "send" => arguments.send = self.one_of()?,
            "consume" => arguments.consume = self.one_of()?,
            "headers" => {
                arguments.json_headers = match self.value.as_str() {
                    "json" => true,
                    "binary" => false,
                    other => return Err(format!("headers: expected binary or json, found {other:?}")),
                };
            }
            "keys" => arguments.keys = self.parsed("true or false")?,
            "property-size" => arguments.property_size = self.number()?,
            "groups" => arguments.groups = self.number()?,
            "batch" => arguments.batch = self.number()?,
            "tags" => arguments.tags = self.number()?,
            "delay" => arguments.delay = self.number()?,
            "consumers" => arguments.consumers = self.at_least_one()?,
            "consumer-threads" => arguments.consumer_threads = Some(self.at_least_one()?),
            "producers" => arguments.producers = self.at_least_one()?,
            "connections" => arguments.connections = self.at_least_one()?,
            "topics" => arguments.topics = self.at_least_one()?,
            "compression" => arguments.compression.clone_from(&self.value),
            other => {
                let key = other.strip_prefix(SETTING).filter(|key| !key.is_empty() && !self.value.is_empty());
                if let Some(key) = key {
                    if is_secret(key) {
                        return Err(format!(
                            "{other}: what the run keeps would show its values; set it at the broker"
                        ));
                    }
                    arguments.settings.insert(key.to_owned(), self.value.clone());
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
            let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let names: Vec<_> = names.map(|name| name.get_name().to_owned()).collect();
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
