//! Progress of the replicas of brokers.

use crate::operation::Typed;
use crate::request::{Request, body};
use crate::text::{Table, time_to_ms};
use crate::{Arguments, Error, Session};
use serde::Serialize;
use std::fmt::Write as _;
use wire::body::{HaConnectionRuntimeInfo, HaRuntimeInfo};
use wire::codes::request;

/// A replica, as its master or it itself sees it.
#[derive(Default, Serialize)]
pub struct ReplicaStatus {
    /// Address of the master.
    pub master: String,
    /// End of the master's commit log; absent if the row comes from the slave.
    pub master_offset: Option<i64>,
    /// Address of the slave.
    pub slave: String,
    /// End of the slave's commit log.
    pub slave_offset: Option<i64>,
    /// Bytes of the master's commit log that the slave does not have.
    pub behind_bytes: Option<i64>,
    /// Whether the slave is in sync; absent if the row comes from the slave.
    pub in_sync: Option<bool>,
    /// Bytes that the slave gets per second.
    pub bytes_per_second: i64,
    /// Local address of the slave's connection to its master; only slaves of Vostok report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
}

/// Finds the slave behind a connection of its master, among the addresses of the slaves of the set and their ends of connections. Brokers
/// of RocketMQ do not tell the latter; their slave is found if no other slave is on its machine.
#[must_use]
pub fn slave_behind<'a>(connection: &str, slaves: &[(&'a str, Option<&str>)]) -> Option<&'a str> {
    let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
    let mut exact = slaves.iter().filter(|(_, end)| *end == Some(connection));
    let mut near = slaves.iter().filter(|(address, _)| host(address) == host(connection));
    match (exact.next(), near.next(), near.next()) {
        (Some((address, _)), ..) | (None, Some((address, _)), None) => Some(address),
        _ => None,
    }
}

/// Progress of replicas, and the text that `mqadmin` prints about it.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub struct Replicas {
    /// The replicas of all brokers that were asked.
    pub rows: Vec<ReplicaStatus>,
    #[serde(skip)]
    text: String,
}

impl Typed for Replicas {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.text.clone()
    }
}

pub(super) async fn replication(session: &Session, arguments: &Arguments) -> Result<Replicas, Error> {
    let mut outcomes = Vec::new();
    for broker in session.masters(arguments).await? {
        let reply = session.look(&broker, &Request::new(request::GET_BROKER_HA_STATUS)).await;
        let status = reply.and_then(|reply| body::<HaRuntimeInfo>(&broker, &reply));
        outcomes.push(status.map(|status| (broker, status)));
    }
    let mut all = Replicas { rows: Vec::new(), text: String::new() };
    for (broker, status) in session.answers(outcomes)? {
        all.text.push_str(&replication_text(&broker, &status));
        all.rows.extend(replicas(&broker, status));
    }
    Ok(all)
}

fn replicas(broker: &str, status: HaRuntimeInfo) -> Vec<ReplicaStatus> {
    if !status.master {
        let own = status.ha_client_runtime_info;
        return vec![ReplicaStatus {
            master: own.master_addr.unwrap_or_default(),
            master_offset: None,
            slave: broker.to_owned(),
            slave_offset: Some(own.max_offset),
            behind_bytes: None,
            in_sync: None,
            bytes_per_second: own.transferred_byte_in_second,
            connection: own.connection_addr,
        }];
    }
    let slave = |slave: Option<HaConnectionRuntimeInfo>| ReplicaStatus {
        master: broker.to_owned(),
        master_offset: Some(status.master_commit_log_max_offset),
        slave_offset: slave.as_ref().map(|slave| slave.slave_ack_offset),
        behind_bytes: slave.as_ref().map(|slave| slave.diff),
        in_sync: slave.as_ref().map(|slave| slave.in_sync),
        bytes_per_second: slave.as_ref().map_or(0, |slave| slave.transferred_byte_in_second),
        slave: slave.map(|slave| slave.addr).unwrap_or_default(),
        connection: None,
    };
    match status.ha_connection_info.is_empty() {
        true => vec![slave(None)],
        false => status.ha_connection_info.into_iter().map(|found| slave(Some(found))).collect(),
    }
}

fn replication_text(broker: &str, status: &HaRuntimeInfo) -> String {
    let kilobytes = |bytes: i64| format!("{:.2}", bytes as f64 / 1024.0);
    let mut out = String::new();
    if !status.master {
        let own = &status.ha_client_runtime_info;
        let speed = kilobytes(own.transferred_byte_in_second);
        let (read, write) = (time_to_ms(own.last_read_timestamp), time_to_ms(own.last_write_timestamp));
        let _ = writeln!(out, "\n#MasterAddr\t{}", own.master_addr.as_deref().unwrap_or_default());
        let _ = writeln!(out, "#CommitLogMaxOffset\t{}", own.max_offset);
        let _ = writeln!(out, "#TransferSpeed(KB/s)\t{speed}");
        let _ = writeln!(out, "#LastReadTime\t{read}\n#LastWriteTime\t{write}");
        let _ = writeln!(out, "#MasterFlushOffset\t{}", own.master_flush_offset);
        return out;
    }
    let (slaves, in_sync) = (status.ha_connection_info.len(), status.in_sync_slave_nums);
    let _ = writeln!(out, "\n#MasterAddr\t{broker}");
    let _ = writeln!(out, "#MasterCommitLogMaxOffset\t{}", status.master_commit_log_max_offset);
    let _ = writeln!(out, "#SlaveNum\t{slaves}\n#InSyncSlaveNum\t{in_sync}");
    let mut table = Table::new(
        "{#SlaveAddr:<32}  {#SlaveAckOffset:<16} {#Diff:>16} {#TransferSpeed(KB/s):>16} {#Status:>16} {#TransferFromWhere:>16}",
    );
    for slave in &status.ha_connection_info {
        let state = if slave.in_sync { "OK" } else { "Fall Behind" };
        let (ack, speed) = (&slave.slave_ack_offset, kilobytes(slave.transferred_byte_in_second));
        table.row(&[&slave.addr, ack, &slave.diff, &speed, &state, &slave.transfer_from_where]);
    }
    out + &table.text
}
