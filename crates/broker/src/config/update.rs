//! Changing settings while the broker runs, and writing them to the configuration file (`UPDATE_BROKER_CONFIG`,
//! `Configuration.update`).

use std::collections::BTreeMap;

use wire::settings::Fault;

use super::aliases::{self, present_name};
use super::property::property;
use super::{Config, Effect, Exporter, Property, Source, own_ip, refused, unknown};

/// Reasons why a request changes no setting at all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotChanged {
    /// A setting may not be changed by a request.
    Forbidden(String),
    /// A value does not fit its setting.
    Invalid(String),
}

/// The result of a request to change settings.
#[derive(Debug)]
pub(crate) struct Update {
    /// All settings after the change.
    pub config: Config,
    /// The values for the configuration file, by present name.
    pub written: BTreeMap<String, String>,
    /// Remarks on changes without effect, for the requesting operator.
    pub notes: Vec<String>,
    /// Remarks on changes that count after the next start.
    pub planned: Vec<String>,
}

/// Names that no request may change (`Configuration.isBlackListKey`, `BrokerConfig.configBlackList`).
const BLACK_LIST: [&str; 3] = ["brokerConfigPath", "configBlackList", "rocketmqHome"];

/// Settings that a request from the network cannot change (CVE-2023-33246, CVE-2023-37582). They decide about opened
/// files, listening addresses, trust, and the destination of metrics.
const FILE_ONLY: [&str; 8] = [
    "bindAddress",
    "metricsGrpcExporterHeader",
    "metricsGrpcExporterTarget",
    "metricsPromExporterHost",
    "proxyProtocolTrustedAddresses",
    "readOnlyCommitLogStorePaths",
    "storePathCommitLog",
    "storePathRootDir",
];

/// Whether only the file itself can change a setting.
fn is_file_only(name: &str) -> bool {
    FILE_ONLY.contains(&name)
        || auth::AuthConfig::names().any(|key| key == name)
        || net::tls::TlsSettings::NAMES.contains(&name)
}

/// Whether a setting with this default takes a text, such as a path or the name of a class.
fn is_text(default: &str) -> bool {
    default.parse::<f64>().is_err() && !["true", "false"].contains(&default)
}

/// The settings of a running broker after an operator's `changes`, by names of settings.
pub(crate) fn update(config: &Config, changes: BTreeMap<String, String>) -> Result<Update, NotChanged> {
    let mut update =
        Update { config: config.clone(), written: BTreeMap::new(), notes: Vec::new(), planned: Vec::new() };
    let listed = config.shown("configBlackList");
    for (key, value) in changes {
        let value = value.trim().to_owned();
        let name = present_name(&key).unwrap_or(key.as_str());
        if BLACK_LIST.contains(&name) || listed.split(';').any(|listed| listed.trim() == name) {
            return Err(NotChanged::Forbidden("Can not update config in black list.".to_owned()));
        }
        if value.contains(|letter: char| letter.is_control()) {
            let text =
                format!("setting {name} has a control character in its value, expected one line of text");
            return Err(NotChanged::Invalid(text));
        }
        update.change(name, value)?;
    }
    Ok(update)
}

/// Settings that decide which ports a broker listens on.
const PORTS: [&str; 4] = ["haListenPort", "listenPort", "metricsExporterType", "metricsPromExporterPort"];

impl Update {
    /// Checks that the next start takes `text`, the configuration file after the change. May wait for the name of a machine.
    pub(crate) fn check_next_start(&self, text: &str) -> Result<(), NotChanged> {
        let refused = |error: &dyn std::fmt::Display| {
            NotChanged::Invalid(format!("the next start would refuse it: {error}"))
        };
        let (next, _) = Config::from_properties(text.as_bytes()).map_err(|error| refused(&error))?;
        if self.written.contains_key("brokerIP1") {
            own_ip(&next.broker_ip1).map_err(|error| refused(&error))?;
        }
        if self.written.keys().any(|name| PORTS.contains(&name.as_str())) {
            self.check_ports(&next).map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// Checks that each port of the next start is used once. A port that the command line gave stays.
    fn check_ports(&self, next: &Config) -> Result<(), String> {
        let is_planned = self.config.after_restart.contains_key("listenPort");
        let listen = if is_planned { next.listen_port } else { self.config.listen_port };
        let mut ports = vec![(listen, "listenPort")];
        if listen > 2 {
            ports.push((listen - 2, "the second port, two below listenPort"));
        }
        ports.push(match next.replication.port {
            0 => (listen.wrapping_add(1), "haListenPort, one above listenPort"),
            port => (port, "haListenPort"),
        });
        if next.metrics.exporter == Exporter::Prom {
            ports.push((next.metrics.port, "metricsPromExporterPort"));
        }
        // Any free port is used once.
        ports.retain(|(port, _)| *port != 0);
        for (place, (port, name)) in ports.iter().enumerate() {
            if let Some((_, other)) = ports[..place].iter().find(|(other, _)| other == port) {
                return Err(format!("{port} is the port of {name} and of {other}, expected different ports"));
            }
        }
        Ok(())
    }
}

impl Update {
    fn change(&mut self, name: &str, value: String) -> Result<(), NotChanged> {
        if is_file_only(name) && property(name).is_none_or(|it| it.value(&self.config) != value) {
            let text =
                format!("{name} cannot be set by a request; write it into its file and start it again");
            return Err(NotChanged::Forbidden(text));
        }
        if let Some(property) = property(name) {
            return self.set(property, value);
        }
        if let Err(error) = refused::check(name, &value) {
            return Err(NotChanged::Forbidden(error.to_string()));
        }
        match unknown::lookup(name) {
            // RocketMQ, which may be given the file again, would open the path or load the class.
            Some(known) if known.is_missed && is_text(&known.default) && known.default != value => {
                let text = format!("{name} cannot be set by a request: {}", known.reason);
                return Err(NotChanged::Forbidden(text));
            }
            Some(known) => self.notes.push(format!("{name} has no effect: {}", known.reason)),
            None if refused::is_known(name) => {}
            None => {
                if let Some(now) = aliases::successor(name) {
                    self.notes.push(format!("{name} is left out: {}", aliases::outdated(now)));
                    return Ok(());
                }
                if aliases::is_dropped(name) {
                    self.notes.push(format!("{name} is left out: RocketMQ 5.5.0 has no such setting, too"));
                    return Ok(());
                }
                // RocketMQ takes any name, and tools that set one expect success. `vostok admin` looks whether the setting is there.
                let near = unknown::nearest(name).map(|near| format!("; did you mean {near}?"));
                self.notes.push(format!("{name} is no setting and is left out{}", near.unwrap_or_default()));
                return Ok(());
            }
        }
        self.config.sources.insert(name.to_owned(), Source::RunTime);
        self.config.others.insert(name.to_owned(), value.clone());
        self.written.insert(name.to_owned(), value);
        Ok(())
    }

    fn set(&mut self, property: &Property, value: String) -> Result<(), NotChanged> {
        let name = property.name;
        let present = property.value(&self.config);
        let shown = self.config.after_restart.get(name).unwrap_or(&present).clone();
        if shown == value {
            // The file keeps the value that an operator asked for, as RocketMQ's does, except a shown value that stands for a secret.
            if !is_file_only(name) {
                self.written.insert(name.to_owned(), value);
            }
            return Ok(());
        }
        let invalid = |expected: &str| {
            let text = format!("setting {name} is {value:?}, expected {expected}; it stays {shown}");
            Err(NotChanged::Invalid(text))
        };
        let mut changed = self.config.clone();
        match property.set(&mut changed, &value) {
            Ok(()) => {}
            Err(Fault::Invalid(expected) | Fault::Above(_, expected)) => return invalid(&expected),
            Err(Fault::Refused(reason)) => return invalid(reason.trim_start_matches("expected ")),
        }
        if property.effect == Effect::Live {
            self.config = changed;
            self.config.keep_own_name_server();
            // Java goes on with an empty address that no broker can connect to (`BrokerOuterAPI.updateNameServerAddressList`).
            if name == "namesrvAddr" && self.config.name_servers().is_empty() {
                return invalid("at least one host:port, because clients find the broker by name servers");
            }
            self.config.sources.insert(name.to_owned(), Source::RunTime);
        } else if property.value(&changed) == present {
            self.config.after_restart.remove(name);
        } else {
            self.config.after_restart.insert(name.to_owned(), value.clone());
            self.config.sources.insert(name.to_owned(), Source::RunTime);
            self.planned.push(format!("{name} is set and counts after the next start of the broker"));
        }
        self.written.insert(name.to_owned(), value);
        Ok(())
    }
}

impl Config {
    /// Adds the name server of this process to the list again.
    fn keep_own_name_server(&mut self) {
        let Some(own) = &self.own_name_server else { return };
        let mut all = self.name_servers();
        if !all.contains(own) {
            all.insert(0, own.clone());
            self.namesrv_addr = Some(all.join(";"));
        }
    }
}

/// Returns a properties text with some values changed. All other text, including comments, stays unchanged.
pub(crate) fn merged(text: &str, changes: &BTreeMap<String, String>) -> String {
    let mut left: BTreeMap<&str, &str> =
        changes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        let mut whole = vec![first];
        while is_continued(whole.last().expect("never empty")) && !is_comment(first) {
            let Some(next) = lines.next() else { break };
            whole.push(next);
        }
        let key = if is_comment(first) { "" } else { key_of(first) };
        let key = present_name(key).unwrap_or(key);
        if let Some(value) = left.remove(key) {
            out.push_str(&line(key, value));
        } else if !changes.contains_key(key) {
            whole.iter().for_each(|line| out.extend([line, "\n"]));
        }
    }
    left.iter().for_each(|(key, value)| out.push_str(&line(key, value)));
    out
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with(['#', '!'])
}

fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn key_of(line: &str) -> &str {
    let line = line.trim_start();
    line.split(|letter: char| matches!(letter, '=' | ':') || letter.is_whitespace()).next().unwrap_or(line)
}

fn line(key: &str, value: &str) -> String {
    format!("{key}={}\n", value.replace('\\', "\\\\"))
}

#[cfg(test)]
mod tests;
