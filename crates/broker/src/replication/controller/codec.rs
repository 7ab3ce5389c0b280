//! Requests of a broker to the controllers, and their answers (`BrokerOuterAPI`).

use std::collections::BTreeMap;

use net::Response;
use replica::in_sync::{CommittedSet, SetEpoch};
use replica::roster::{Content, ControllerResponse, Mastership, Request};
use wire::body::SyncStateSet;
use wire::codes::request;
use wire::frame::FrameWriter;
use wire::ha::{BrokerId, Epoch};
use wire::json;
use wire::units::LogOffset;

/// The set of a body, with the epoch of a header field if there is one.
fn committed(set: SyncStateSet, epoch: Option<i64>) -> CommittedSet {
    let epoch = epoch.unwrap_or(i64::from(set.sync_state_set_epoch));
    CommittedSet {
        members: set.sync_state_set.into_iter().filter_map(BrokerId::from_i64).collect(),
        epoch: SetEpoch(u32::try_from(epoch).unwrap_or(0)),
    }
}

pub(super) fn code(request: &Request) -> i32 {
    match request {
        Request::NextId(_) => request::CONTROLLER_GET_NEXT_BROKER_ID,
        Request::ApplyId { .. } => request::CONTROLLER_APPLY_BROKER_ID,
        Request::Register(_) => request::CONTROLLER_REGISTER_BROKER,
        Request::Elect(_) => request::CONTROLLER_ELECT_MASTER,
        Request::ReplicaInfo(_) => request::CONTROLLER_GET_REPLICA_INFO,
        Request::AlterSet(_) => request::CONTROLLER_ALTER_SYNC_STATE_SET,
        // No broker asks these.
        Request::SyncState(_) => request::CONTROLLER_GET_SYNC_STATE_DATA,
        Request::Clean(_) => request::CLEAN_BROKER_DATA,
        Request::Import(..) => request::VOSTOK_CONTROLLER_IMPORT,
    }
}

/// Writes fields and body of a request of a broker of `cluster`, at `now_ms` of the day.
pub(super) fn write(request: &Request, cluster: &str, now_ms: i64, writer: FrameWriter<'_>) {
    match request {
        Request::NextId(name) => writer.text("clusterName", cluster).text("brokerName", name).finish(b""),
        Request::ApplyId { cluster, name, broker, check_code } => writer
            .text("clusterName", cluster)
            .text("brokerName", name)
            .number("appliedBrokerId", broker.to_i64())
            .text("registerCheckCode", check_code)
            .finish(b""),
        Request::Register(registration) => writer
            .text("clusterName", cluster)
            .text("brokerName", &registration.name)
            .number("brokerId", registration.broker.to_i64())
            .text("brokerAddress", &registration.address)
            .number("invokeTime", now_ms)
            // Controllers of ours know these fields; Java's ignore them.
            .flag("mayHaveLost", registration.may_have_lost)
            .number("logEpoch", registration.log_epoch.map_or(-1, Epoch::to_i32))
            .number("logEnd", registration.log_end.map_or(-1, LogOffset::to_i64))
            .finish(b""),
        Request::Elect(election) => writer
            .text("clusterName", cluster)
            .text("brokerName", &election.name)
            .number("brokerId", election.broker.map_or(-1, BrokerId::to_i64))
            .flag("designateElect", election.is_designated)
            .number("invokeTime", now_ms)
            .finish(b""),
        Request::ReplicaInfo(name) => writer.text("brokerName", name).finish(b""),
        Request::AlterSet(alter) => {
            let body = SyncStateSet {
                sync_state_set: alter.members.iter().map(|member| member.to_i64()).collect(),
                sync_state_set_epoch: alter.epoch.0.cast_signed(),
            };
            writer
                .text("brokerName", &alter.name)
                .number("masterBrokerId", alter.master.to_i64())
                .number("masterEpoch", alter.master_epoch.to_i32())
                .number("invokeTime", now_ms)
                .finish(&json::to_vec(&body));
        }
        Request::SyncState(_) | Request::Clean(_) | Request::Import(..) => writer.finish(b""),
    }
}

/// Reads the response to a request. A rejection may name the master (`CONTROLLER_MASTER_STILL_EXIST`).
pub(super) fn answer(request: &Request, reply: &Response) -> ControllerResponse {
    let content = match request {
        Request::NextId(_) => number(reply, "nextBrokerId").and_then(BrokerId::from_i64).map(Content::NextId),
        Request::AlterSet(_) => set(reply).map(Content::Set),
        Request::Register(_) | Request::Elect(_) | Request::ReplicaInfo(_) => Some(Content::Master(
            mastership(|key| number(reply, key), reply.text("masterAddress"), &reply.body),
        )),
        Request::ApplyId { .. } | Request::SyncState(_) | Request::Clean(_) | Request::Import(..) => None,
    };
    ControllerResponse {
        code: reply.code,
        remark: reply.remark.clone(),
        content: content.unwrap_or(Content::None),
    }
}

fn number(reply: &Response, key: &str) -> Option<i64> {
    reply.text(key)?.parse().ok()
}

/// The set of an answer; none when there is none in it, which must not count as an empty set.
fn set(reply: &Response) -> Option<CommittedSet> {
    let body: SyncStateSet = json::from_slice(&reply.body).ok()?;
    let set = committed(body, number(reply, "newSyncStateSetEpoch").filter(|epoch| *epoch > 0));
    (!set.members.is_empty()).then_some(set)
}

/// Returns the master from the fields and the body of a response.
fn mastership(number: impl Fn(&str) -> Option<i64>, address: Option<&str>, body: &[u8]) -> Mastership {
    let set: SyncStateSet = json::from_slice(body).unwrap_or_default();
    let id = number("masterBrokerId").and_then(BrokerId::from_i64);
    let address = address.filter(|address| !address.is_empty()).map(str::to_owned);
    Mastership {
        master: id.map(|id| (id, address)),
        epoch: number("masterEpoch")
            .and_then(|epoch| Epoch::from_i32(i32::try_from(epoch).ok()?))
            .unwrap_or(Epoch::ZERO),
        in_sync: committed(set, number("syncStateSetEpoch")),
        members: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests;
