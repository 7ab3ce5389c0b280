//! Answers as frames: the response headers and bodies of `org.apache.rocketmq.remoting.protocol.header.controller`.

use std::collections::BTreeMap;

use replica::in_sync::CommittedSet;
use replica::roster::{Content, ControllerResponse, Mastership, ReplicaStatus};
use wire::body::{
    BrokerMemberGroup, BrokerReplicasInfo, ElectMasterBody, ReplicaIdentity, ReplicasInfo, SyncStateSet,
};
use wire::codes::request;
use wire::frame::{FrameWriter, Head};
use wire::json;

use crate::requests::Echo;

/// Appends the frame of an answer. `head` has the answer's code already.
pub(crate) fn write(out: &mut Vec<u8>, head: Head<'_>, asked: &Echo, answer: &ControllerResponse) {
    let frame = FrameWriter::begin(out, head);
    match &answer.content {
        Content::None if asked.code == request::CONTROLLER_APPLY_BROKER_ID => names(frame, asked).finish(&[]),
        Content::None => frame.finish(&[]),
        Content::NextId(id) => names(frame, asked).number("nextBrokerId", id.get()).finish(&[]),
        Content::Set(set) => {
            frame.number("newSyncStateSetEpoch", set.epoch.0).finish(&json::to_vec(&set_body(set)));
        }
        Content::Master(mastership) => master(frame, asked, mastership),
        Content::Replicas(sets) => frame.finish(&json::to_vec(&replicas(sets))),
    }
}

fn names<'b>(frame: FrameWriter<'b>, asked: &Echo) -> FrameWriter<'b> {
    frame.text("clusterName", &asked.cluster).text("brokerName", &asked.name)
}

/// Writes the master, with the fields and the body of the request's response.
fn master(frame: FrameWriter<'_>, asked: &Echo, current: &Mastership) {
    let frame = match asked.code {
        request::CONTROLLER_REGISTER_BROKER => names(frame, asked),
        _ => frame,
    };
    let frame = mastership(frame, current);
    match asked.code {
        request::CONTROLLER_GET_REPLICA_INFO => frame.finish(&json::to_vec(&set_body(&current.in_sync))),
        request::CONTROLLER_ELECT_MASTER => {
            let body = ElectMasterBody {
                broker_member_group: BrokerMemberGroup {
                    broker_addrs: current.members.iter().map(|(id, it)| (id.to_i64(), it.clone())).collect(),
                    broker_name: asked.name.clone(),
                    cluster: asked.cluster.clone(),
                },
                sync_state_set: set_body(&current.in_sync).sync_state_set,
            };
            // `MQClientAPIImpl.electMaster` reads the body as another class and skips the group, which only works when the ids
            // are in quotes.
            let body = json::to_vec_as(&body, json::Dialect::Standard);
            frame.number("syncStateSetEpoch", current.in_sync.epoch.0).finish(&body);
        }
        _ => {
            let body = json::to_vec(&set_body(&current.in_sync));
            frame.number("syncStateSetEpoch", current.in_sync.epoch.0).finish(&body);
        }
    }
}

fn mastership<'b>(frame: FrameWriter<'b>, current: &Mastership) -> FrameWriter<'b> {
    let frame = match &current.master {
        Some((master, address)) => {
            frame.number("masterBrokerId", master.get()).maybe("masterAddress", address.as_deref())
        }
        None => frame,
    };
    frame.number("masterEpoch", current.epoch.get())
}

/// Appends the frame that notifies a broker of the master (`NotifyBrokerRoleChangedRequestHeader`).
pub(crate) fn write_notice(out: &mut Vec<u8>, head: Head<'_>, current: &Mastership) {
    let frame = mastership(FrameWriter::begin(out, head), current);
    let body = json::to_vec(&set_body(&current.in_sync));
    frame.number("syncStateSetEpoch", current.in_sync.epoch.0).finish(&body);
}

fn set_body(set: &CommittedSet) -> SyncStateSet {
    SyncStateSet {
        sync_state_set: set.members.iter().map(|member| member.to_i64()).collect(),
        sync_state_set_epoch: set.epoch.0.cast_signed(),
    }
}

fn replicas(sets: &BTreeMap<String, (Mastership, Vec<ReplicaStatus>)>) -> BrokerReplicasInfo {
    let table = sets.iter().map(|(name, (current, brokers))| {
        let identity = |status: &ReplicaStatus| ReplicaIdentity {
            alive: status.is_alive,
            broker_address: status.address.clone(),
            broker_id: status.broker.to_i64(),
            broker_name: name.clone(),
            silent_ms: status.silent_ms,
        };
        let are =
            |is_in_sync| brokers.iter().filter(move |it| it.is_in_sync == is_in_sync).map(identity).collect();
        let info = ReplicasInfo {
            in_sync_replicas: are(true),
            master_address: current.master.as_ref().and_then(|(_, address)| address.clone()),
            master_broker_id: current.master.as_ref().map(|(master, _)| master.to_i64()),
            master_epoch: current.epoch.to_i32(),
            not_in_sync_replicas: are(false),
            sync_state_set_epoch: current.in_sync.epoch.0.cast_signed(),
        };
        (name.clone(), info)
    });
    BrokerReplicasInfo { replicas_info_table: table.collect() }
}

#[cfg(test)]
mod tests;
