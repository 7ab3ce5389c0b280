//! The tables of a slave, which it takes from its master over remoting (`SlaveSynchronize`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use net::{CallError, ConnectionHandle, Reply, Workers};
use serde::de::DeserializeOwned;
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::json::{self, JsonError};

use crate::broker::Broker;
use crate::persist;
use crate::register::Silent;

/// Shortest and longest interval in which offsets are taken from the master. What was committed in between is lost when the master
/// is, and its messages are delivered again.
const OFFSETS_INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3)];

/// Bytes of offsets that are taken per millisecond: the table of many groups comes less often.
const OFFSETS_BYTES_PER_MS: usize = 1000;

/// Interval in which positions of delay levels are taken from the master.
const DELAYS_INTERVAL: Duration = Duration::from_secs(3);

/// Interval in which topics, groups and request modes are taken from the master.
const TABLES_INTERVAL: Duration = Duration::from_secs(10);

/// How long the master may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a table was not taken from the master.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it answered code {0}: {1}")]
    Refused(i32, String),
    #[error("its answer cannot be read: {0}")]
    Content(#[from] JsonError),
    #[error(transparent)]
    Disk(#[from] persist::Error),
    #[error("this broker is the master now")]
    Master,
}

/// Takes the tables of the master again and again until the workers stop.
pub(crate) async fn run(broker: Arc<Broker>, workers: Workers) {
    let mut addresses = broker.replicas.master();
    let mut peer: Option<(String, Arc<ConnectionHandle>)> = None;
    let (mut tables_due, mut delays_due) = (Instant::now(), Instant::now());
    loop {
        let mut interval = OFFSETS_INTERVALS[1];
        let address = addresses.borrow_and_update().broker.clone();
        let Some(address) = address.filter(|address| *address != broker.address()) else {
            let _ = addresses.changed().await;
            continue;
        };
        if peer.take_if(|(at, peer)| *at != address || peer.is_closed()).is_some() || peer.is_none() {
            match workers.dial_name(&address, Arc::new(Silent)).await {
                Ok(dialed) => {
                    peer = Some((address, dialed));
                    (tables_due, delays_due) = (Instant::now(), Instant::now());
                }
                Err(error) => {
                    tracing::warn!(master = address, %error, "the master's tables cannot be taken; it is tried again");
                }
            }
        }
        if let Some((_, peer)) = &peer {
            if is_due(&mut tables_due, TABLES_INTERVAL) {
                note("topics", topics(&broker, peer).await);
                note("groups", groups(&broker, peer).await);
                note("request modes", modes(&broker, peer).await);
            }
            if is_due(&mut delays_due, DELAYS_INTERVAL) {
                note("positions of delay levels", delays(&broker, peer).await);
            }
            let taken = offsets(&broker, peer).await;
            interval = taken.as_ref().map_or(interval, |bytes| offsets_interval(*bytes));
            note("offsets", taken.map(drop));
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            _ = addresses.changed() => {}
        }
    }
}

/// Whether the time has come; then it comes again after `interval`.
fn is_due(due: &mut Instant, interval: Duration) -> bool {
    let is_due = Instant::now() >= *due;
    if is_due {
        *due = Instant::now() + interval;
    }
    is_due
}

/// Time until offsets are taken again, after a table of so many bytes.
fn offsets_interval(bytes: usize) -> Duration {
    let [min, max] = OFFSETS_INTERVALS;
    Duration::from_millis((bytes / OFFSETS_BYTES_PER_MS) as u64).clamp(min, max)
}

/// Logs a table that was not taken. The others are taken all the same.
fn note(table: &str, done: Result<(), SyncError>) {
    if let Err(error) = done {
        tracing::warn!(table, %error, "a table of the master was not taken; it is tried again");
    }
}

async fn topics(broker: &Broker, peer: &ConnectionHandle) -> Result<(), SyncError> {
    let asked_ms = broker.now_ms();
    let table: wire::body::TopicTable = ask(broker, peer, request::GET_ALL_TOPIC_CONFIG).await?;
    broker.topics.adopt(table.data_version, table.topic_config_table)?;
    broker.replicas.took_tables(asked_ms);
    Ok(())
}

async fn groups(broker: &Broker, peer: &ConnectionHandle) -> Result<(), SyncError> {
    Ok(broker.groups.adopt(ask(broker, peer, request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG).await?)?)
}

async fn modes(broker: &Broker, peer: &ConnectionHandle) -> Result<(), SyncError> {
    Ok(broker.modes.adopt(ask(broker, peer, request::GET_ALL_MESSAGE_REQUEST_MODE).await?)?)
}

/// Takes the offsets of groups; returns the size of the table in bytes.
async fn offsets(broker: &Broker, peer: &ConnectionHandle) -> Result<usize, SyncError> {
    let body = ask_bytes(broker, peer, request::GET_ALL_CONSUMER_OFFSET).await?;
    broker.offsets.merge(json::from_slice(&body)?);
    Ok(body.len())
}

async fn delays(broker: &Broker, peer: &ConnectionHandle) -> Result<(), SyncError> {
    Ok(broker.schedule.adopt(ask(broker, peer, request::GET_ALL_DELAY_OFFSET).await?)?)
}

/// Asks the master for a table.
async fn ask<T: DeserializeOwned>(
    broker: &Broker,
    peer: &ConnectionHandle,
    code: i32,
) -> Result<T, SyncError> {
    Ok(json::from_slice(&ask_bytes(broker, peer, code).await?)?)
}

/// Asks the master for a table as it comes. No paging is asked for, so that the answer holds everything.
async fn ask_bytes(broker: &Broker, peer: &ConnectionHandle, code: i32) -> Result<Vec<u8>, SyncError> {
    let write = |writer: FrameWriter<'_>| writer.finish(b"");
    let Reply { code, remark, body, .. } = broker.call(peer, code, ANSWER_TIMEOUT, write).await?;
    match code {
        // Tables of the master before must not replace those of the one that this broker has become.
        _ if !broker.role.is_slave() => Err(SyncError::Master),
        response::SUCCESS => Ok(body),
        code => Err(SyncError::Refused(code, remark.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_table_of_offsets_is_taken_less_often() {
        let cases = [(0, 100), (99_999, 100), (450_000, 450), (3_000_000, 3000), (100_000_000, 3000)];
        for (bytes, ms) in cases {
            assert_eq!(offsets_interval(bytes), Duration::from_millis(ms), "{bytes}");
        }
    }
}
