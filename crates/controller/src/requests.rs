//! Parsing of requests (`ControllerRequestProcessor`): header fields and bodies become values.

use std::collections::BTreeMap;

use replica::consensus::NodeId;
use replica::in_sync::{CommittedSet, SetEpoch};
use replica::roster::{
    AlterSet, Broker, BrokerSet, Clean, ConnectionId, Election, Heartbeat, Registration, Request,
};
use wire::body::{BrokerReplicasInfo, ReplicaIdentity, SyncStateSet};
use wire::codes::{request, response};
use wire::fields::{FieldError, Fields};
use wire::frame::Command;
use wire::ha::{BrokerId, Epoch};
use wire::json;
use wire::units::LogOffset;

/// Time after which a silent broker is gone, if its heartbeats have no timeout
/// (`DEFAULT_BROKER_CHANNEL_EXPIRED_TIME`).
const HEARTBEAT_TIMEOUT_MS: i64 = 10_000;

/// A refused request: code and remark of the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub code: i32,
    pub remark: String,
}

impl Refusal {
    pub fn new(code: i32, remark: impl Into<String>) -> Self {
        Self { code, remark: remark.into() }
    }
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Self::new(response::SYSTEM_ERROR, error.to_string())
    }
}

/// Values of a request that its response repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    /// The request code.
    pub code: i32,
    pub cluster: String,
    /// Name of the broker set.
    pub name: String,
}

/// A request that has been parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientRequest {
    /// Request about broker sets, which the table of the controllers answers.
    Ask(Echo, Request),
    /// Heartbeat of a broker.
    Heartbeat(Heartbeat),
    /// Message of a peer.
    Peer(NodeId, Vec<u8>),
    /// Query for the leader.
    Metadata,
    /// Query for the configuration.
    Config,
    /// Change of the configuration.
    Configure,
}

/// Reads a request that came on a connection to a controller of this group.
pub(crate) fn read(command: &Command<'_>, connection: u64, group: &str) -> Result<ClientRequest, Refusal> {
    match command.code {
        request::BROKER_HEARTBEAT => {
            return heartbeat(&command.fields, connection).map(ClientRequest::Heartbeat);
        }
        request::CONTROLLER_GET_METADATA_INFO => return Ok(ClientRequest::Metadata),
        request::GET_CONTROLLER_CONFIG => return Ok(ClientRequest::Config),
        request::UPDATE_CONTROLLER_CONFIG => return Ok(ClientRequest::Configure),
        request::VOSTOK_CONTROLLER_MESSAGE => return peer(command, group),
        _ => {}
    }
    let fields = &command.fields;
    let text = |key| fields.text(key).unwrap_or_default().to_owned();
    let asked = Echo { code: command.code, cluster: text("clusterName"), name: text("brokerName") };
    let name = || fields.need("brokerName").map(str::to_owned);
    let request = match command.code {
        request::CONTROLLER_GET_NEXT_BROKER_ID => Request::NextId(name()?),
        request::CONTROLLER_APPLY_BROKER_ID => Request::ApplyId {
            cluster: asked.cluster.clone(),
            name: name()?,
            broker: broker(fields, "appliedBrokerId")?,
            check_code: fields.need("registerCheckCode")?.to_owned(),
        },
        request::CONTROLLER_REGISTER_BROKER => Request::Register(Registration {
            name: name()?,
            broker: broker(fields, "brokerId")?,
            address: fields.need("brokerAddress")?.to_owned(),
            may_have_lost: fields.flag_or("mayHaveLost", false),
            log_epoch: Epoch::from_i32(fields.number_or("logEpoch", -1)?),
            log_end: offset(fields, "logEnd")?,
        }),
        request::CONTROLLER_ALTER_SYNC_STATE_SET => Request::AlterSet(alter(command, name()?)?),
        request::CONTROLLER_ELECT_MASTER => Request::Elect(Election {
            name: name()?,
            broker: BrokerId::from_i64(fields.number_or("brokerId", -1)?),
            is_designated: fields.flag_or("designateElect", false),
        }),
        request::CONTROLLER_GET_REPLICA_INFO => Request::ReplicaInfo(name()?),
        request::CONTROLLER_GET_SYNC_STATE_DATA => Request::SyncState(names(command.body)?),
        request::CLEAN_BROKER_DATA => Request::Clean(Clean {
            name: name()?,
            ids: text("brokerControllerIdsToClean"),
            is_forced: fields.flag_or("isCleanLivingBroker", false),
        }),
        request::VOSTOK_CONTROLLER_IMPORT => import(&asked.cluster, name()?, command.body)?,
        code => {
            let remark = format!(" request type {code} not supported");
            return Err(Refusal::new(response::REQUEST_CODE_NOT_SUPPORTED, remark));
        }
    };
    Ok(ClientRequest::Ask(asked, request))
}

/// Position in a log. `None` if the field is missing or negative.
fn offset(fields: &Fields<'_>, key: &'static str) -> Result<Option<LogOffset>, Refusal> {
    Ok(u64::try_from(fields.number_or::<i64>(key, -1)?).ok().map(LogOffset::new))
}

fn broker(fields: &Fields<'_>, key: &'static str) -> Result<BrokerId, Refusal> {
    let number: i64 = fields.need_number(key)?;
    let remark = || format!("the field {key} is {number}, expected an id of 0 or more");
    BrokerId::from_i64(number).ok_or_else(|| Refusal::new(response::SYSTEM_ERROR, remark()))
}

/// The fields of `BrokerHeartbeatRequestHeader`, as `DefaultBrokerHeartbeatManager.onBrokerHeartbeat` takes them.
fn heartbeat(fields: &Fields<'_>, connection: u64) -> Result<Heartbeat, Refusal> {
    if fields.bytes("brokerId").is_none() {
        return Err(Refusal::new(response::CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId"));
    }
    let timeout_ms: i64 = fields.number_or("heartbeatTimeoutMills", HEARTBEAT_TIMEOUT_MS)?;
    let end: i64 = fields.number_or("maxOffset", -1)?;
    Ok(Heartbeat {
        name: fields.need("brokerName")?.to_owned(),
        broker: broker(fields, "brokerId")?,
        connection: ConnectionId(connection),
        timeout_ms: u64::try_from(timeout_ms).unwrap_or_default(),
        epoch: Epoch::from_i32(fields.number_or("epoch", -1)?),
        end: LogOffset::new(u64::try_from(end).unwrap_or_default()),
        kept: offset(fields, "keptOffset")?,
        priority: fields.number_or("electionPriority", i32::MAX)?,
    })
}

fn alter(command: &Command<'_>, name: String) -> Result<AlterSet, Refusal> {
    let fields = &command.fields;
    let malformed = |error: &dyn std::fmt::Display| {
        Refusal::new(response::SYSTEM_ERROR, format!("the set in the body cannot be read: {error}"))
    };
    let set: SyncStateSet = json::from_request(command.body).map_err(|error| malformed(&error))?;
    let members = set.sync_state_set.into_iter().map(BrokerId::from_i64).collect::<Option<_>>();
    let epoch: i32 = fields.need_number("masterEpoch")?;
    Ok(AlterSet {
        name,
        master: broker(fields, "masterBrokerId")?,
        // A negative number is no epoch that a controller ever gave.
        master_epoch: Epoch::from_i32(epoch).unwrap_or(Epoch::new(i32::MAX as u32)),
        members: members.ok_or_else(|| malformed(&"an id is negative"))?,
        epoch: SetEpoch(u32::try_from(set.sync_state_set_epoch).unwrap_or(u32::MAX)),
    })
}

fn names(body: &[u8]) -> Result<Vec<String>, Refusal> {
    let names: Vec<String> = match body {
        [] => Vec::new(),
        body => json::from_request(body)
            .map_err(|error| Refusal::new(response::SYSTEM_ERROR, format!("names of brokers: {error}")))?,
    };
    // Java leaves its answer as it was made.
    match names.is_empty() {
        true => Err(Refusal::new(response::SYSTEM_ERROR, "not set any response code")),
        false => Ok(names),
    }
}

/// Largest epoch and id that are accepted in an import from another group of controllers.
const NUMBER_MAX: u32 = 1 << 30;

/// Reads a set from another group of controllers (the body of `CONTROLLER_GET_SYNC_STATE_DATA`). The body has no
/// check codes, because the brokers have their ids already.
fn import(cluster: &str, name: String, body: &[u8]) -> Result<Request, Refusal> {
    let wrong =
        |why: String| Refusal::new(response::SYSTEM_ERROR, format!("the broker set cannot be read: {why}"));
    let replicas: BrokerReplicasInfo = json::from_request(body).map_err(|error| wrong(error.to_string()))?;
    let info =
        replicas.replicas_info_table.get(&name).ok_or_else(|| wrong(format!("{name} is not in it")))?;
    let negative = || wrong("a number is negative".to_owned());
    let id = |replica: &ReplicaIdentity| {
        let id = BrokerId::from_i64(replica.broker_id).ok_or_else(negative)?;
        if id.get() > u64::from(NUMBER_MAX) {
            return Err(wrong(format!("expected ids up to {NUMBER_MAX}, found {id}")));
        }
        Ok(id)
    };
    let mut brokers = BTreeMap::new();
    for replica in info.in_sync_replicas.iter().chain(&info.not_in_sync_replicas) {
        let address = replica.broker_address.clone();
        brokers.insert(id(replica)?, Broker { address, check_code: String::new() });
    }
    let next_id = brokers.last_key_value().map_or(BrokerId::FIRST, |(last, _)| BrokerId::new(last.get() + 1));
    let set = BrokerSet {
        cluster: cluster.to_owned(),
        brokers,
        next_id,
        master: info.master_broker_id.and_then(BrokerId::from_i64),
        master_epoch: Epoch::from_i32(info.master_epoch).ok_or_else(negative)?,
        in_sync: CommittedSet {
            members: info.in_sync_replicas.iter().map(id).collect::<Result<_, _>>()?,
            epoch: SetEpoch(u32::try_from(info.sync_state_set_epoch).map_err(|_| negative())?),
        },
        former: None,
    };
    // Elections and new brokers count on from here.
    if set.master_epoch.get() > NUMBER_MAX || set.in_sync.epoch.0 > NUMBER_MAX {
        return Err(wrong(format!("expected numbers up to {NUMBER_MAX}, found a larger one")));
    }
    Ok(Request::Import(name, set))
}

fn peer(command: &Command<'_>, group: &str) -> Result<ClientRequest, Refusal> {
    let theirs = command.fields.need("group")?;
    if theirs != group {
        let remark = format!("this controller belongs to the group {group}, not {theirs}");
        return Err(Refusal::new(response::CONTROLLER_INVALID_REQUEST, remark));
    }
    Ok(ClientRequest::Peer(NodeId(command.fields.need_number("from")?), command.body.to_vec()))
}

#[cfg(test)]
mod tests;
