//! Operations on name servers: their settings, and the write permission of brokers.

use crate::arguments::{place, required};
use crate::broker::{Settings, set_on};
use crate::operation::{Operation, Typed, Written, change_each, operations};
use crate::request::{Request, body, number};
use crate::{Argument, Arguments, Error, Session};
use serde::Serialize;
use std::fmt::Write as _;
use wire::body::ClusterInfo;
use wire::codes::request;

const BROKER_NAME: Argument = place("broker", ("b", "brokerName"), "name of the broker set");

/// The operations on name servers.
pub(crate) const OPERATIONS: &[Operation] = operations! { "namesrv":
    "config", Look, ["getNamesrvConfig"], "Show the settings of the name servers",
        [], |session, _| config(session);
    "set", Change, ["updateNamesrvConfig"], "Change a setting of all name servers",
        [place("key", ("k", "key"), "name of the setting"),
         place("value", ("v", "value"), "its new value")], set;
    "wipe-write-perm", Change, ["wipeWritePerm"],
        "Take the write permission of all topics of a broker set, so that producers leave it",
        [BROKER_NAME], wipe;
    "add-write-perm", Change, ["addWritePerm"], "Give the topics of a broker set their write permission back",
        [BROKER_NAME], add;
    "forget", Change, [],
        "Forget a broker that is gone for good, so that vostok doctor does not name it any more",
        [BROKER_NAME,
         required("cluster", ("c", "clusterName"), "cluster of the broker"),
         required("address", ("a", "brokerAddr"), "address of the broker"),
         required("id", ("i", "brokerId"), "id of the broker")], forget;
};

/// Unregisters a broker that is not registered, which makes a name server forget its departure.
async fn forget(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let (name, cluster, address) =
        (arguments.need("broker")?, arguments.need("cluster")?, arguments.need("address")?);
    let id: i64 = arguments.parse("id")?.unwrap_or_default();
    for server in &session.name_servers {
        let reply = session.look(server, &Request::new(request::GET_BROKER_CLUSTER_INFO)).await?;
        let info: ClusterInfo = body(server, &reply)?;
        if info.broker_addr_table.values().any(|set| set.broker_addrs.values().any(|it| it == address)) {
            let why = format!("expected a broker that is gone, found {address} registered at {server}");
            return Err(Error::Usage(why));
        }
    }
    let ask = Request::new(request::UNREGISTER_BROKER)
        .with("brokerName", name)
        .with("clusterName", cluster)
        .with("brokerAddr", address)
        .with("brokerId", id);
    let line = format!("{address} is forgotten at {{}}");
    change_each(session, &session.name_servers, &ask, &line).await
}

async fn config(session: &Session) -> Result<Settings, Error> {
    Settings::of_servers(session, &session.name_servers, request::GET_NAMESRV_CONFIG).await
}

async fn set(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let codes = (request::GET_NAMESRV_CONFIG, request::UPDATE_NAMESRV_CONFIG);
    set_on(session, arguments, ("servers", "name server", &session.name_servers), codes).await
}

/// Number of topics that a name server changed.
#[derive(Serialize)]
struct Permission {
    server: String,
    topics: i64,
    #[serde(skip)]
    verb: &'static str,
}

impl Typed for Vec<Permission> {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let broker = arguments.get("broker").unwrap_or_default();
        self.iter().fold(String::new(), |mut out, Permission { server, topics, verb }| {
            let _ =
                writeln!(out, "{verb} write perm of broker[{broker}] in name server[{server}] OK, {topics}");
            out
        })
    }
}

async fn wipe(session: &Session, arguments: &Arguments) -> Result<Vec<Permission>, Error> {
    permit(session, arguments, request::WIPE_WRITE_PERM_OF_BROKER, ("wipe", "wipeTopicCount")).await
}

async fn add(session: &Session, arguments: &Arguments) -> Result<Vec<Permission>, Error> {
    permit(session, arguments, request::ADD_WRITE_PERM_OF_BROKER, ("add", "addTopicCount")).await
}

async fn permit(
    session: &Session,
    arguments: &Arguments,
    code: i32,
    (verb, count): (&'static str, &str),
) -> Result<Vec<Permission>, Error> {
    let ask = Request::new(code).with("brokerName", arguments.need("broker")?);
    let mut rows = Vec::new();
    for server in &session.name_servers {
        if let Some(reply) = session.change(server, &ask).await? {
            let topics = number(server, &reply, count)?;
            rows.push(Permission { server: server.clone(), topics, verb });
        }
    }
    Ok(rows)
}
