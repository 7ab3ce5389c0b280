//! Operations on controllers and their decisions: master and in-sync set of each broker set.

use crate::arguments::{INTERVAL, optional, place, required, switch};
use crate::broker::{Settings, set_on};
use crate::operation::{Operation, Typed, Written, operations};
use crate::request::{Request, body};
use crate::{Argument, Arguments, Error, Session};
use client::Response;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use wire::body::{BrokerReplicasInfo, ReplicaIdentity};
use wire::codes::request;
use wire::json;
use wire::settings::{CONTROLLER_PORT, with_port};

const CONTROLLER: Argument =
    required("controller", ("a", "controllerAddress"), "controllers, separated by semicolons");
const CLUSTER: Argument = required("cluster", ("c", "clusterName"), "cluster of the broker set");
const SET: Argument = optional("broker", ("b", "brokerName"), "name of the broker set");
const SETS: Argument = optional("cluster", ("c", "clusterName"), "the cluster, instead of one broker set");

/// The operations on controllers.
pub(crate) const OPERATIONS: &[Operation] = operations! { "controller":
    "metadata", Look, ["getControllerMetaData"], "Show which controller of a group leads, and all its members",
        [CONTROLLER], metadata;
    "config", Look, ["getControllerConfig"], "Show the settings of controllers",
        [CONTROLLER], config;
    "set", Change, ["updateControllerConfig"], "Change a setting of controllers",
        [place("key", ("k", "key"), "name of the setting"), place("value", ("v", "value"), "its new value"),
         CONTROLLER], set;
};

/// The operations on replicas.
pub(crate) const REPLICA_OPERATIONS: &[Operation] = operations! { "replica":
    "in-sync", Look, ["getSyncStateSet"],
        "Show who is master of a broker set, or of those of a cluster, and which of its brokers are in sync",
        [CONTROLLER, SET, SETS, INTERVAL], in_sync;
    "epochs", Look, ["getBrokerEpoch"],
        "Show which master wrote which part of the log of each broker of a set, or of a cluster",
        [SET, SETS, INTERVAL], epochs;
    "elect", Change, ["electMaster"], "Make a broker of a set its master",
        [place("id", ("b", "brokerId"), "id of the broker at the controllers"),
         required("broker", ("bn", "brokerName"), "name of the broker set"), CLUSTER, CONTROLLER], elect;
    "forget", Destroy, ["cleanBrokerMetadata"],
        "Let the controllers forget brokers that are gone for good, or a whole broker set",
        [required("broker", ("bn", "brokerName"), "name of the broker set"), CONTROLLER,
         optional("ids", ("b", "brokerControllerIdsToClean"), "ids of the brokers, separated by semicolons; without them the whole set is forgotten"),
         optional("cluster", ("c", "clusterName"), "cluster of the set; not needed with --living"),
         switch("living", ("l", "cleanLivingBroker"), "also forget brokers whose heartbeats come")], forget;
};

/// The addresses of the controllers that were given.
fn controllers(arguments: &Arguments) -> Result<Vec<String>, Error> {
    let text = arguments.need("controller")?;
    Ok(text
        .split([';', ','])
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .map(|it| with_port(it, CONTROLLER_PORT))
        .collect())
}

/// The broker set or the cluster that was given.
fn one_of(arguments: &Arguments) -> Result<(Option<&str>, Option<&str>), Error> {
    match (arguments.get("broker"), arguments.get("cluster")) {
        (Some(_), Some(_)) | (None, None) => {
            Err(Error::Usage("expected either a broker set or a cluster".to_owned()))
        }
        either => Ok(either),
    }
}

/// Group of controllers, as one of its controllers reports it.
#[derive(Serialize)]
pub struct Metadata {
    /// Name of the group.
    pub group: String,
    /// Id of the controller that leads; empty if no controller leads.
    pub leader_id: String,
    /// Address of the controller that leads; empty if no controller leads.
    pub leader: String,
    /// Ids and addresses of all controllers of the group.
    pub peers: Vec<String>,
}

impl Typed for Metadata {
    fn mqadmin(&self, _: &Arguments) -> String {
        let Self { group, leader_id, leader, peers } = self;
        let mut out = format!(
            "\n#ControllerGroup\t{group}\n#ControllerLeaderId\t{leader_id}\n#ControllerLeaderAddress\t{leader}\n"
        );
        peers.iter().for_each(|peer| _ = writeln!(out, "#Peer:\t{peer}"));
        out
    }
}

/// Asks the controllers in order until one names the leader. A controller without contact to its group names none. If
/// no controller names a leader, returns the first answer.
async fn metadata(session: &Session, arguments: &Arguments) -> Result<Metadata, Error> {
    let mut failure = Error::Usage("expected the address of a controller".to_owned());
    let mut without_leader = None;
    for controller in controllers(arguments)? {
        match session.look(&controller, &Request::new(request::CONTROLLER_GET_METADATA_INFO)).await {
            Ok(reply) => {
                let text = |name: &str| reply.text(name).unwrap_or_default().to_owned();
                let peers = text("peers").split(';').filter(|it| !it.is_empty()).map(str::to_owned).collect();
                let found = Metadata {
                    group: text("group"),
                    leader_id: text("controllerLeaderId"),
                    leader: text("controllerLeaderAddress"),
                    peers,
                };
                if !found.leader.is_empty() {
                    return Ok(found);
                }
                without_leader.get_or_insert(found);
            }
            Err(error) => failure = error,
        }
    }
    without_leader.ok_or(failure)
}

/// The address of the leading controller.
async fn leader(session: &Session, arguments: &Arguments) -> Result<String, Error> {
    let found = metadata(session, arguments).await?;
    if found.leader.is_empty() {
        return Err(Error::NotFound(format!(
            "no controller of the group {} leads at the moment",
            found.group
        )));
    }
    Ok(found.leader)
}

/// The settings of controllers. `mqadmin` prints them without empty lines, unlike the settings of name servers.
#[derive(Serialize)]
#[serde(transparent)]
struct ControllerSettings(Settings);

impl Typed for ControllerSettings {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let text = self.0.mqadmin(arguments);
        text.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
    }

    fn redact(&mut self, sees_bodies: bool) {
        Typed::redact(&mut self.0, sees_bodies);
    }
}

async fn config(session: &Session, arguments: &Arguments) -> Result<ControllerSettings, Error> {
    let controllers = controllers(arguments)?;
    Settings::of_servers(session, &controllers, request::GET_CONTROLLER_CONFIG).await.map(ControllerSettings)
}

async fn set(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let codes = (request::GET_CONTROLLER_CONFIG, request::UPDATE_CONTROLLER_CONFIG);
    set_on(session, arguments, ("controllers", "controller", &controllers(arguments)?), codes).await
}

/// A broker of a set that has controllers.
#[derive(Serialize)]
pub struct Replica {
    /// Name of the broker set.
    pub set: String,
    /// Id of the broker at the controllers.
    pub id: i64,
    /// Address of the broker.
    pub address: String,
    /// Whether the broker is the master of its set.
    pub master: bool,
    /// Whether the broker is in the in-sync set.
    pub in_sync: bool,
    /// Whether the controllers get heartbeats of the broker.
    pub alive: bool,
}

/// The brokers of sets that have controllers.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub struct InSync {
    /// The brokers, by set.
    pub rows: Vec<Replica>,
    #[serde(skip)]
    found: BrokerReplicasInfo,
}

impl Typed for InSync {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut out = String::new();
        for (name, set) in &self.found.replicas_info_table {
            let id = set.master_broker_id.map_or("null".to_owned(), |id| id.to_string());
            let _ = write!(
                out,
                "\n#brokerName\t{name}\n#MasterBrokerId\t{id}\n#MasterAddr\t{}\n#MasterEpoch\t{}\n#SyncStateSetEpoch\t{}\n\
                 #SyncStateSetNums\t{}\n",
                set.master_address.as_deref().unwrap_or("null"),
                set.master_epoch,
                set.sync_state_set_epoch,
                set.in_sync_replicas.len()
            );
            for (title, replicas) in
                [("InSyncReplica", &set.in_sync_replicas), ("NotInSyncReplica", &set.not_in_sync_replicas)]
            {
                for ReplicaIdentity { alive, broker_address, broker_id, broker_name, .. } in replicas {
                    let _ = writeln!(
                        out,
                        "\n{title}:\tReplicaIdentity{{brokerName='{broker_name}', brokerId={broker_id}, \
                         brokerAddress='{broker_address}', alive={alive}}}"
                    );
                }
            }
        }
        out
    }

    fn missing(&self, arguments: &Arguments) -> Option<String> {
        let broker = arguments.get("broker").filter(|_| self.rows.is_empty())?;
        Some(format!("the controllers know no broker set {broker}"))
    }
}

async fn in_sync(session: &Session, arguments: &Arguments) -> Result<InSync, Error> {
    let names: Vec<String> = match one_of(arguments)? {
        (Some(name), _) => vec![name.to_owned()],
        (None, cluster) => {
            let info = session.cluster_info().await?;
            let sets = info.broker_addr_table.into_values();
            sets.filter(|set| cluster.is_none_or(|cluster| cluster == set.cluster))
                .map(|set| set.broker_name)
                .collect()
        }
    };
    let leader = leader(session, arguments).await?;
    let ask = Request::new(request::CONTROLLER_GET_SYNC_STATE_DATA).body(json::to_vec(&names));
    let found: BrokerReplicasInfo = body(&leader, &session.look(&leader, &ask).await?)?;
    let mut rows = Vec::new();
    for (name, set) in &found.replicas_info_table {
        for (in_sync, replicas) in [(true, &set.in_sync_replicas), (false, &set.not_in_sync_replicas)] {
            rows.extend(replicas.iter().map(|replica| Replica {
                set: name.clone(),
                id: replica.broker_id,
                address: replica.broker_address.clone(),
                master: set.master_broker_id == Some(replica.broker_id),
                in_sync,
                alive: replica.alive,
            }));
        }
    }
    Ok(InSync { rows, found })
}

/// The answer to `GET_BROKER_EPOCH_CACHE` (`EpochEntryCache`).
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct EpochCache {
    broker_id: i64,
    broker_name: String,
    cluster_name: String,
    epoch_list: Vec<CachedEpoch>,
    max_offset: i64,
}

#[derive(Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct CachedEpoch {
    epoch: i32,
    start_offset: i64,
    end_offset: i64,
}

/// A part of a broker's log that one master wrote.
#[derive(Clone, Debug, Serialize)]
pub struct Epoch {
    /// Name of the broker set.
    pub broker: String,
    /// Address of the broker.
    pub address: String,
    /// Id of the broker at the controllers.
    pub id: i64,
    /// Number of the epoch, which an election begins.
    pub epoch: i32,
    /// Offset in the log at which the epoch begins.
    pub start: i64,
    /// Offset in the log at which the epoch ends.
    pub end: i64,
}

/// The epochs of brokers.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Epochs {
    /// The epochs, by broker.
    pub rows: Vec<Epoch>,
    #[serde(skip)]
    text: String,
}

impl Typed for Epochs {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.text.clone()
    }
}

async fn epochs(session: &Session, arguments: &Arguments) -> Result<Epochs, Error> {
    let (set, cluster) = one_of(arguments)?;
    let members = session.members(cluster).await?;
    let mut all = Epochs { rows: Vec::new(), text: String::new() };
    for member in members.iter().filter(|member| set.is_none_or(|set| set == member.name)) {
        let address = &member.address;
        let reply = session.look(address, &Request::new(request::GET_BROKER_EPOCH_CACHE)).await?;
        let mut found: EpochCache = body(address, &reply)?;
        let _ = write!(
            all.text,
            "\n#clusterName\t{}\n#brokerName\t{}\n#brokerAddr\t{address}\n#brokerId\t{}\n",
            found.cluster_name, found.broker_name, found.broker_id
        );
        if let Some(last) = found.epoch_list.last_mut() {
            // That of the master is open.
            last.end_offset = found.max_offset;
        }
        for CachedEpoch { epoch, start_offset: start, end_offset: end } in found.epoch_list {
            let _ = writeln!(
                all.text,
                "#Epoch: EpochEntry{{epoch={epoch}, startOffset={start}, endOffset={end}}}"
            );
            let (broker, address) = (found.broker_name.clone(), address.clone());
            all.rows.push(Epoch { broker, address, id: found.broker_id, epoch, start, end });
        }
    }
    Ok(all)
}

/// A broker set that has another master; the numbers are absent in a dry run.
#[derive(Serialize)]
struct Elected {
    cluster: String,
    broker: String,
    master: String,
    master_epoch: String,
    in_sync_epoch: String,
}

impl Typed for Elected {
    fn mqadmin(&self, _: &Arguments) -> String {
        format!(
            "\n#ClusterName\t{}\n#BrokerName\t{}\n#BrokerMasterAddr\t{}\n#MasterEpoch\t{}\n#SyncStateSetEpoch\t{}\n",
            self.cluster, self.broker, self.master, self.master_epoch, self.in_sync_epoch
        )
    }
}

async fn elect(session: &Session, arguments: &Arguments) -> Result<Elected, Error> {
    let leader = leader(session, arguments).await?;
    let (cluster, broker) = (arguments.need("cluster")?.to_owned(), arguments.need("broker")?.to_owned());
    let ask = Request::new(request::CONTROLLER_ELECT_MASTER)
        .with("clusterName", &cluster)
        .with("brokerName", &broker)
        .with("brokerId", arguments.need("id")?)
        .with("designateElect", true);
    let reply: Response = session.change(&leader, &ask).await?.unwrap_or_default();
    let text = |name: &str| reply.text(name).unwrap_or_default().to_owned();
    let (master_epoch, in_sync_epoch) = (text("masterEpoch"), text("syncStateSetEpoch"));
    Ok(Elected { cluster, broker, master: text("masterAddress"), master_epoch, in_sync_epoch })
}

/// Brokers that the controllers know no more.
#[derive(Serialize)]
struct Forgotten {
    broker: String,
    ids: Option<String>,
}

impl Typed for Forgotten {
    fn mqadmin(&self, _: &Arguments) -> String {
        format!("clear broker {} metadata from controller success! \n", self.broker)
    }
}

async fn forget(session: &Session, arguments: &Arguments) -> Result<Forgotten, Error> {
    let (living, cluster) = (arguments.is_on("living"), arguments.get("cluster"));
    if !living && cluster.is_none() {
        return Err(Error::Usage(
            "cleanLivingBroker option is false, clusterName option can not be empty.".to_owned(),
        ));
    }
    let ids = arguments.get("ids").map(str::to_owned);
    if let Some(wrong) =
        ids.iter().flat_map(|ids| ids.split(';')).find(|id| id.trim().parse::<i64>().is_err())
    {
        return Err(Error::Usage(format!(
            "expected ids of brokers separated by semicolons, found {wrong:?}"
        )));
    }
    let broker = arguments.need("broker")?.to_owned();
    let leader = leader(session, arguments).await?;
    let ask = Request::new(request::CLEAN_BROKER_DATA)
        .maybe("clusterName", cluster)
        .with("brokerName", &broker)
        .maybe("brokerControllerIdsToClean", ids.as_deref())
        .with("isCleanLivingBroker", living);
    session.change(&leader, &ask).await?;
    Ok(Forgotten { broker, ids })
}
