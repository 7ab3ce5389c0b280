//! Operations on connected clients.

mod status;

pub(crate) use status::verdict;

use crate::arguments::{optional, place, required, switch};
use crate::operation::{Operation, Typed, operations};
use crate::request::{Request, body};
use crate::text::{time, version};
use crate::{Arguments, Error, Session, stats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::body::{Connection, ConsumerConnection, ProducerConnection};
use wire::codes::request;

/// The operations on connected clients.
pub(crate) const OPERATIONS: &[Operation] = operations! { "client":
    "consumers", Look, ["consumerConnection"],
        "List the connected members of a consumer group and its subscriptions",
        [place("group", ("g", "consumerGroup"), "name of the consumer group"),
         optional("broker", ("b", "brokerAddr"), "the broker that is asked, otherwise one of the group")], consumers;
    "producers", Look, ["producerConnection"], "List the connected members of a producer group",
        [place("group", ("g", "producerGroup"), "name of the producer group"),
         place("topic", ("t", "topic"), "a topic to which it sends")], producers;
    "list-producers", Look, ["producer"], "List all producers that are connected to a broker",
        [required("broker", ("b", "broker"), "address of a broker, or name of a broker set")], list_producers;
    "status", Look, ["consumerStatus"],
        "Show what a member of a consumer group says of itself; without a member, write what each says to a file",
        [place("group", ("g", "consumerGroup"), "name of the consumer group"),
         optional("client", ("i", "clientId"), "id of the member"),
         optional("broker", ("b", "brokerAddr"), "the broker that is asked, otherwise one of the group"),
         switch("stack", ("s", "jstack"), "with the stacks of its threads")], status::status;
};

/// A client that is connected to a broker.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Member {
    /// Id of the client.
    pub client_id: String,
    /// Address of the client.
    pub address: String,
    /// Programming language of the client.
    pub language: String,
    /// Version of the client.
    pub version: String,
}

impl From<Connection> for Member {
    fn from(connection: Connection) -> Self {
        Self {
            client_id: connection.client_id,
            address: connection.client_addr,
            language: connection.language,
            version: version(connection.version),
        }
    }
}

impl From<&ProducerRow> for Member {
    fn from(row: &ProducerRow) -> Self {
        let ProducerRow { client_id, address, language, version, .. } = row.clone();
        Self { client_id, address, language, version }
    }
}

/// The members of a consumer group, and the settings of its consumption.
#[derive(Default, Serialize)]
pub struct Consumers {
    /// `CONSUME_ACTIVELY` for pull consumers, `CONSUME_PASSIVELY` for push consumers.
    pub consume_type: String,
    /// `CLUSTERING` or `BROADCASTING`.
    pub message_model: String,
    /// Place at which a member without an offset begins.
    pub consume_from_where: String,
    /// The members that are connected.
    pub members: Vec<Member>,
    /// Subscriptions of the group.
    pub subscriptions: Vec<Subscription>,
}

/// Subscription of a group.
#[derive(Serialize)]
pub struct Subscription {
    /// Name of the topic.
    pub topic: String,
    /// Filter of messages.
    pub expression: String,
}

impl Typed for Consumers {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{:<36} {:<22} {:<10} #Version", "#ClientId", "#ClientAddr", "#Language");
        for Member { client_id, address, language, version } in &self.members {
            let _ = writeln!(out, "{client_id:<36} {address:<22} {language:<10} {version}");
        }
        let _ = writeln!(out, "\nBelow is subscription:\n{:<20} #SubExpression", "#Topic");
        for Subscription { topic, expression } in &self.subscriptions {
            let _ = writeln!(out, "{topic:<20} {expression}");
        }
        let _ = writeln!(out, "\nConsumeType: {}", self.consume_type);
        let _ = writeln!(out, "MessageModel: {}", self.message_model);
        let _ = writeln!(out, "ConsumeFromWhere: {}", self.consume_from_where);
        out
    }
}

async fn consumers(session: &Session, arguments: &Arguments) -> Result<Consumers, Error> {
    let group = arguments.need("group")?;
    let found: ConsumerConnection =
        stats::consumer_connection(session, group, arguments.get("broker")).await?;
    let subscriptions = found.subscription_table.into_values();
    Ok(Consumers {
        consume_type: name(&found.consume_type),
        message_model: name(&found.message_model),
        consume_from_where: name(&found.consume_from_where),
        members: found.connection_set.into_iter().map(Member::from).collect(),
        subscriptions: subscriptions
            .map(|subscription| Subscription {
                topic: subscription.topic,
                expression: subscription.sub_string,
            })
            .collect(),
    })
}

/// The name under which an enum value is written.
fn name(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

impl Typed for Vec<Member> {
    fn mqadmin(&self, _: &Arguments) -> String {
        (1..).zip(self).fold(String::new(), |mut out, (number, member)| {
            let Member { client_id, address, language, version } = member;
            let _ = writeln!(out, "{number:04}  {client_id:<32} {address:<22} {language:<8} {version}");
            out
        })
    }
}

async fn producers(session: &Session, arguments: &Arguments) -> Result<Vec<Member>, Error> {
    let topic = arguments.need("topic")?;
    let broker = session.first_of(topic).await?;
    let ask =
        Request::new(request::GET_PRODUCER_CONNECTION_LIST).with("producerGroup", arguments.need("group")?);
    let found: ProducerConnection = body(&broker, &session.look(&broker, &ask).await?)?;
    Ok(found.connection_set.into_iter().map(Member::from).collect())
}

/// The answer to `GET_ALL_PRODUCER_INFO` (`ProducerTableInfo`).
#[derive(Deserialize, Default)]
#[serde(default)]
struct ProducerTable {
    data: BTreeMap<String, Vec<ProducerEntry>>,
}

/// A connected producer (`ProducerInfo`).
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ProducerEntry {
    client_id: String,
    #[serde(rename = "remoteIP")]
    remote_ip: String,
    language: String,
    version: i32,
    last_update_timestamp: i64,
}

/// A producer that is connected to a broker.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProducerRow {
    /// Name of the producer group.
    pub group: String,
    /// Id of the client.
    pub client_id: String,
    /// Address of the client.
    pub address: String,
    /// Programming language of the client.
    pub language: String,
    /// Version of the client.
    pub version: String,
    /// Time of the last heartbeat.
    pub last_heartbeat: String,
    #[serde(skip)]
    pub(crate) numbers: (i32, i64),
}

impl Typed for Vec<ProducerRow> {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.iter().fold(String::new(), |mut out, row| {
            let ProducerRow { group, client_id, address, language, numbers: (version, updated), .. } = row;
            let _ = writeln!(
                out,
                "producer group ({group}) instance : clientId={client_id},remoteIP={address}, language={language}, \
                 version={version}, lastUpdateTimestamp={updated}"
            );
            out
        })
    }
}

async fn list_producers(session: &Session, arguments: &Arguments) -> Result<Vec<ProducerRow>, Error> {
    let broker = session.broker(arguments.need("broker")?).await?;
    let reply = session.look(&broker, &Request::new(request::GET_ALL_PRODUCER_INFO)).await?;
    let table: ProducerTable = body(&broker, &reply)?;
    let rows = table.data.into_iter().flat_map(|(group, entries)| {
        entries.into_iter().map(move |entry| ProducerRow {
            group: group.clone(),
            client_id: entry.client_id,
            address: entry.remote_ip,
            language: entry.language,
            version: version(entry.version),
            last_heartbeat: time(entry.last_update_timestamp),
            numbers: (entry.version, entry.last_update_timestamp),
        })
    });
    Ok(rows.collect())
}
