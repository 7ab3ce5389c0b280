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

/// Interval in which offsets and positions are taken from the master.
const OFFSETS_INTERVAL: Duration = Duration::from_secs(3);

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
    let mut tables_due = Instant::now();
    loop {
        let address = addresses.borrow_and_update().broker.clone();
        let Some(address) = address.filter(|address| *address != broker.address()) else {
            let _ = addresses.changed().await;
            continue;
        };
        if peer.take_if(|(at, peer)| *at != address || peer.is_closed()).is_some() || peer.is_none() {
            match workers.dial_name(&address, Arc::new(Silent)).await {
                Ok(dialed) => (peer, tables_due) = (Some((address, dialed)), Instant::now()),
                Err(error) => {
                    tracing::warn!(master = address, %error, "the master's tables cannot be taken; it is tried again");
                }
            }
        }
        if let Some((_, peer)) = &peer {
            let is_due = Instant::now() >= tables_due;
            if is_due {
                tables_due = Instant::now() + TABLES_INTERVAL;
            }
            sync(&broker, peer, is_due).await;
        }
        tokio::select! {
            () = tokio::time::sleep(OFFSETS_INTERVAL) => {}
            _ = addresses.changed() => {}
        }
    }
}

/// Takes what is due. A table that fails does not stop the others.
async fn sync(broker: &Broker, peer: &ConnectionHandle, with_tables: bool) {
    if with_tables {
        note("topics", topics(broker, peer).await);
        note("groups", groups(broker, peer).await);
        note("request modes", modes(broker, peer).await);
    }
    note("offsets", offsets(broker, peer).await);
    note("positions of delay levels", delays(broker, peer).await);
}

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

async fn offsets(broker: &Broker, peer: &ConnectionHandle) -> Result<(), SyncError> {
    broker.offsets.merge(ask(broker, peer, request::GET_ALL_CONSUMER_OFFSET).await?);
    Ok(())
}

async fn delays(broker: &Broker, peer: &ConnectionHandle) -> Result<(), SyncError> {
    Ok(broker.schedule.adopt(ask(broker, peer, request::GET_ALL_DELAY_OFFSET).await?)?)
}

/// Asks the master for a table. No paging is asked for, so that the answer holds everything.
async fn ask<T: DeserializeOwned>(
    broker: &Broker,
    peer: &ConnectionHandle,
    code: i32,
) -> Result<T, SyncError> {
    let write = |writer: FrameWriter<'_>| writer.finish(b"");
    let Reply { code, remark, body, .. } = broker.call(peer, code, ANSWER_TIMEOUT, write).await?;
    match code {
        // Tables of the master before must not replace those of the one that this broker has become.
        _ if !broker.role.is_slave() => Err(SyncError::Master),
        response::SUCCESS => Ok(json::from_slice(&body)?),
        code => Err(SyncError::Refused(code, remark.unwrap_or_default())),
    }
}
