//! Settings of brokers, read and changed.

use crate::operation::Typed;
use crate::request::Request;
use crate::session::Member;
use crate::{Arguments, Error, Session, without_secrets};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use wire::body::{format_key_values, parse_key_values};
use wire::codes::request;
use wire::settings::AFTER_RESTART;

/// Broker id of a master.
const MASTER: i64 = 0;

/// The settings of servers, one row each.
#[derive(Serialize, Default)]
#[serde(transparent)]
pub struct Settings {
    /// Settings of all servers that were asked.
    pub rows: Vec<Setting>,
    /// For each server the line above its settings, and how many of the rows are its own.
    #[serde(skip)]
    servers: Vec<(String, usize)>,
}

/// A setting of a server.
#[derive(Serialize)]
pub struct Setting {
    /// Address of the server.
    pub server: String,
    /// Name of the setting.
    pub key: String,
    /// Value of the setting.
    pub value: String,
    /// When the value counts, if not at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<&'static str>,
}

impl Settings {
    /// Adds the settings of a server; `title` is the line that `mqadmin` prints above them.
    pub(crate) fn add(&mut self, server: &str, title: String, values: BTreeMap<String, String>) {
        self.servers.push((title, values.len()));
        let later = after_restart(&values);
        let setting = |(key, value)| {
            let counts = later.contains(&key).then_some("after restart");
            Setting { server: server.to_owned(), key, value, counts }
        };
        self.rows.extend(values.into_iter().map(setting));
    }

    /// What to remark after a change of `key`: the servers that show no such setting pass it over without a word, those of RocketMQ
    /// too.
    pub(crate) fn remarks(&self, servers: &[String], key: &str) -> Vec<String> {
        let shows = |server: &str| self.rows.iter().any(|row| row.server == server && row.key == key);
        let remark = |server| format!("{server} shows no setting {key}, so nothing was changed there");
        servers.iter().filter(|server| !shows(server)).map(remark).collect()
    }
}

impl Typed for Settings {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut out = String::new();
        let mut rows = self.rows.iter();
        for (title, count) in &self.servers {
            let _ = writeln!(out, "{title}");
            for Setting { key, value, .. } in rows.by_ref().take(*count) {
                let _ = writeln!(out, "{key:<50}=  {value}");
            }
            out.push('\n');
        }
        out
    }

    fn redact(&mut self, _: bool) {
        for row in &mut self.rows {
            let shown = without_secrets(BTreeMap::from([(row.key.clone(), std::mem::take(&mut row.value))]));
            row.value = shown.into_values().next().unwrap_or_default();
        }
    }
}

pub(super) async fn config(session: &Session, arguments: &Arguments) -> Result<Settings, Error> {
    let brokers = session.targets(arguments).await?;
    let mut outcomes = Vec::new();
    for broker in &brokers {
        outcomes.push(read(session, &broker.address).await.map(|values| (broker, values)));
    }
    let mut settings = Settings::default();
    for (broker, values) in session.answers(outcomes)? {
        settings.add(&broker.address, title(broker, &brokers), values);
    }
    Ok(settings)
}

/// The settings of one broker.
pub(crate) async fn read(session: &Session, address: &str) -> Result<BTreeMap<String, String>, Error> {
    let reply = session.look(address, &Request::new(request::GET_BROKER_CONFIG)).await?;
    parse_key_values(&reply.body).map_err(|why| {
        Error::from(client::Error::Answer { address: address.to_owned(), why: why.to_string() })
    })
}

/// The settings whose values count after the next start of their broker.
fn after_restart(values: &BTreeMap<String, String>) -> BTreeSet<String> {
    let names = values.get(AFTER_RESTART).map(|names| names.split(';').map(str::to_owned));
    names.into_iter().flatten().collect()
}

/// The settings of one broker; a value that does not count yet says so.
pub(crate) async fn told(session: &Session, address: &str) -> Result<BTreeMap<String, String>, Error> {
    let mut values = read(session, address).await?;
    let later = after_restart(&values);
    values.remove(AFTER_RESTART);
    for (_, value) in values.iter_mut().filter(|(key, _)| later.contains(*key)) {
        value.push_str(" (set, counts after restart)");
    }
    Ok(values)
}

/// The line that `mqadmin` prints above what it says of one broker.
pub(super) fn title(broker: &Member, brokers: &[Member]) -> String {
    let Member { name, id, address, .. } = broker;
    let master = brokers.iter().find(|other| other.name == *name && other.id == MASTER);
    match master {
        _ if name.is_empty() => format!("============{address}============"),
        Some(master) if *id != MASTER => {
            format!("============My Master: {}=====Slave: {address}============", master.address)
        }
        _ => format!("============Master: {address}============"),
    }
}

/// A setting that was changed on brokers.
#[derive(Serialize)]
pub(super) struct Changed {
    brokers: Vec<String>,
    key: String,
    value: String,
    /// What the brokers remark, such as that no setting has this name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
}

impl Typed for Changed {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.brokers.iter().map(|broker| format!("update broker config success, {broker}\n")).collect()
    }
}

pub(super) async fn set(session: &Session, arguments: &Arguments) -> Result<Changed, Error> {
    let (key, value) = (arguments.need("key")?.to_owned(), arguments.need("value")?.to_owned());
    let targets = session.targets(arguments).await?;
    let is_meant = |broker: &Member| broker.id == MASTER || arguments.is_on("all");
    let brokers: Vec<_> = targets.into_iter().filter(is_meant).map(|broker| broker.address).collect();
    let text = format_key_values(&BTreeMap::from([(key.clone(), value.clone())]));
    let remarks =
        session.change_all(&brokers, &Request::new(request::UPDATE_BROKER_CONFIG).body(text)).await?;
    Ok(Changed { brokers, key, value, remarks })
}
