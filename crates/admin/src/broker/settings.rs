//! Settings of brokers, read and changed.

use crate::operation::{Typed, Written};
use crate::request::Request;
use crate::session::Member;
use crate::{Arguments, Error, Session, without_secrets};
use client::Response;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use wire::body::{format_key_values, parse_key_values};
use wire::codes::request;
use wire::settings::{AFTER_RESTART, SOURCES};

/// Broker id of a master.
const MASTER: i64 = 0;

/// The settings of servers, one row each.
#[derive(Serialize, Default)]
#[serde(transparent)]
pub struct Settings {
    /// Settings of all servers that were asked.
    pub rows: Vec<Setting>,
    /// Servers: the line above the settings of each server, and the number of its rows.
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
    /// `after restart` if the broker uses the value only after its next start; absent if it uses the value now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<&'static str>,
    /// Source of the value: `file`, `command-line`, `environment`, `run-time` or `default`; absent if the server does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Settings {
    /// Adds the settings of a server; `title` is the line that `mqadmin` prints above them.
    pub(crate) fn add(&mut self, server: &str, title: String, values: BTreeMap<String, String>) {
        self.servers.push((title, values.len()));
        let later = after_restart(&values);
        let setting = |(key, value)| {
            let counts = later.contains(&key).then_some("after restart");
            Setting { server: server.to_owned(), key, value, counts, source: None }
        };
        self.rows.extend(values.into_iter().map(setting));
    }

    /// Notes the sources of the settings of a server, as `name=source;name=source`; other settings have their default.
    fn add_sources(&mut self, server: &str, sources: &str) {
        let sources: BTreeMap<&str, &str> = sources.split(';').filter_map(|it| it.split_once('=')).collect();
        for row in self.rows.iter_mut().filter(|row| row.server == server) {
            row.source = Some((*sources.get(row.key.as_str()).unwrap_or(&"default")).to_owned());
        }
    }

    /// The settings of name servers or controllers.
    pub(crate) async fn of_servers(session: &Session, servers: &[String], code: i32) -> Result<Self, Error> {
        let mut settings = Self::default();
        for server in servers {
            let reply = session.look(server, &Request::new(code)).await?;
            settings.add(server, format!("============{server}============"), values(server, &reply)?);
        }
        Ok(settings)
    }

    /// Remarks after a change of `key`, for servers that report no such setting. Servers of Vostok and of RocketMQ
    /// ignore an unknown setting without an error.
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
        let reply = ask(session, &broker.address).await;
        let found = reply.and_then(|reply| Ok((broker, values(&broker.address, &reply)?, reply)));
        outcomes.push(found);
    }
    let mut settings = Settings::default();
    for (broker, values, reply) in session.answers(outcomes)? {
        settings.add(&broker.address, title(broker, &brokers), values);
        if let Some(sources) = reply.text(SOURCES) {
            settings.add_sources(&broker.address, sources);
        }
    }
    Ok(settings)
}

/// The settings of one broker.
pub(crate) async fn read(session: &Session, address: &str) -> Result<BTreeMap<String, String>, Error> {
    values(address, &ask(session, address).await?)
}

async fn ask(session: &Session, address: &str) -> Result<Response, Error> {
    session.look(address, &Request::new(request::GET_BROKER_CONFIG)).await
}

fn values(address: &str, reply: &Response) -> Result<BTreeMap<String, String>, Error> {
    parse_key_values(&reply.body).map_err(|why| {
        Error::from(client::Error::Answer { address: address.to_owned(), why: why.to_string() })
    })
}

/// Names of the settings whose values a broker uses only after its next start.
fn after_restart(values: &BTreeMap<String, String>) -> BTreeSet<String> {
    let names = values.get(AFTER_RESTART).map(|names| names.split(';').map(str::to_owned));
    names.into_iter().flatten().collect()
}

/// Reads the settings of one broker. `(set, counts after restart)` is appended to a value that the broker uses only
/// after its next start.
pub(crate) async fn told(session: &Session, address: &str) -> Result<BTreeMap<String, String>, Error> {
    let mut values = read(session, address).await?;
    let later = after_restart(&values);
    values.remove(AFTER_RESTART);
    for (_, value) in values.iter_mut().filter(|(key, _)| later.contains(*key)) {
        value.push_str(" (set, counts after restart)");
    }
    Ok(values)
}

/// The line that `mqadmin` prints above the settings of one broker.
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
pub(super) struct ChangedSetting {
    brokers: Vec<String>,
    key: String,
    value: String,
    /// Remarks of the brokers, such as that no setting has this name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
}

impl Typed for ChangedSetting {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.brokers.iter().map(|broker| format!("update broker config success, {broker}\n")).collect()
    }
}

pub(super) async fn set(session: &Session, arguments: &Arguments) -> Result<ChangedSetting, Error> {
    let (key, value) = (arguments.need("key")?.to_owned(), arguments.need("value")?.to_owned());
    let targets = session.targets(arguments).await?;
    let is_meant = |broker: &Member| broker.id == MASTER || arguments.is_on("all");
    let brokers: Vec<_> = targets.into_iter().filter(is_meant).map(|broker| broker.address).collect();
    let text = format_key_values(&BTreeMap::from([(key.clone(), value.clone())]));
    let remarks =
        session.change_all(&brokers, &Request::new(request::UPDATE_BROKER_CONFIG).body(text)).await?;
    // `mqadmin` tells of success whatever the name is.
    let is_checked = session.planned().is_none() && !session.is_mqadmin();
    for broker in brokers.iter().filter(|_| is_checked) {
        needs_setting(session, broker, &key).await?;
    }
    Ok(ChangedSetting { brokers, key, value, remarks })
}

/// Changes a setting of name servers or controllers, and reads it again. `member` is the member of the answer with the
/// addresses of the servers, `kind` is their name in the text of `mqadmin`. `read` and `change` are the request codes.
pub(crate) async fn set_on(
    session: &Session,
    arguments: &Arguments,
    (member, kind, servers): (&str, &str, &[String]),
    (read, change): (i32, i32),
) -> Result<Written, Error> {
    let (key, value) = (arguments.need("key")?, arguments.need("value")?);
    let text = format_key_values(&BTreeMap::from([(key.to_owned(), value.to_owned())]));
    session.change_all(servers, &Request::new(change).body(text)).await?;
    let mut answer = json!({member: servers, "key": key, "value": value});
    // The change is made, whether or not the settings can be read afterwards.
    let shown = Settings::of_servers(session, servers, read).await;
    let remarks = shown.map(|shown| shown.remarks(servers, key)).unwrap_or_default();
    if !remarks.is_empty() {
        answer["remarks"] = json!(remarks);
    }
    let text = format!("update {kind} config success![{}]\n{key} : {value}\n", servers.join(", "));
    Ok(Written::new(answer, text))
}

/// Checks that a broker has a setting before the setting is changed. Brokers ignore an unknown name and answer with
/// success.
///
/// # Errors
/// [`Error::NotFound`] with the setting whose name is most similar. A broker that does not answer is not an error: the
/// change is made.
async fn needs_setting(session: &Session, broker: &str, key: &str) -> Result<(), Error> {
    let Ok(reply) = ask(session, broker).await else { return Ok(()) };
    let Ok(shown) = values(broker, &reply) else { return Ok(()) };
    if shown.is_empty() || shown.contains_key(key) {
        return Ok(());
    }
    let near = nearest(key, shown.keys()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Err(Error::NotFound(format!("{broker} has no setting {key}, so nothing was changed there{near}")))
}

/// The name that is spelled most similarly, with at most a third of the letters changed.
fn nearest<'n>(key: &str, names: impl Iterator<Item = &'n String>) -> Option<&'n String> {
    let distances = names.map(|name| (strsim::levenshtein(&key.to_lowercase(), &name.to_lowercase()), name));
    distances.min().filter(|(distance, _)| *distance * 3 <= key.len()).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Received, ServerAnswer, with_cluster, with_name_server};

    fn answers(_: &str, asked: &Received) -> Option<ServerAnswer> {
        match asked.code {
            request::GET_BROKER_CONFIG => {
                ServerAnswer::bytes(b"fileReservedTime=72\nlistenPort=1\n".to_vec())
            }
            request::UPDATE_BROKER_CONFIG => ServerAnswer::success(),
            _ => None,
        }
    }

    #[test]
    fn mqadmin_tells_of_success_whatever_the_name_is() {
        let changed = with_name_server(answers, async |session: Session| {
            let session = session.without_default_cluster();
            let mut arguments = Arguments::default();
            let address = session.name_servers[0].clone();
            [("broker", address.as_str()), ("key", "fileReservedTme"), ("value", "24")]
                .iter()
                .for_each(|(name, value)| arguments.set(name, *value));
            set(&session, &arguments).await.map(|changed| changed.key).map_err(|error| error.to_string())
        });
        assert_eq!(changed.as_deref(), Ok("fileReservedTme"));
    }

    #[test]
    fn a_setting_that_a_broker_does_not_have_is_an_error() {
        let change = |key: &'static str| {
            let mut arguments = Arguments::default();
            [("broker", "a"), ("key", key), ("value", "24")]
                .iter()
                .for_each(|(name, value)| arguments.set(name, *value));
            with_cluster(&["a"], answers, async move |session: &Session| {
                set(session, &arguments).await.map(|changed| changed.key).map_err(|error| error.to_string())
            })
        };
        assert_eq!(change("fileReservedTime").unwrap(), "fileReservedTime");
        let text = change("fileReservedTme").unwrap_err();
        assert!(text.contains("did you mean fileReservedTime?"), "{text}");
        assert!(!change("zzzz").unwrap_err().contains("did you mean"));
    }
}
