//! Connection of a slave to its master over remoting, on which it copies tables ([`super::metadata`]) and positions
//! ([`super::positions`]).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use net::{CallError, ConnectionHandle, Response, Workers};
use serde::de::DeserializeOwned;
use wire::codes::response;
use wire::frame::FrameWriter;
use wire::json::{self, JsonError};

use crate::parts::GroupParts;
use crate::persist;
use crate::register::Silent;

/// Timeout of the master's response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Errors of copying a table from the master.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it answered code {0}: {1}")]
    Refused(i32, String),
    #[error("its answer lacks the field {0}, or that is no number")]
    Field(&'static str),
    #[error("its answer cannot be read: {0}")]
    Content(#[from] JsonError),
    #[error(transparent)]
    Disk(#[from] persist::Error),
    #[error("how far timed messages are delivered cannot be noted: {0}")]
    Timers(io::Error),
    #[error("the parts of its answer do not fit together")]
    Torn,
    #[error("this broker is the master now")]
    Master,
}

/// Connection to the master.
pub(super) struct MasterLink {
    pub parts: Arc<GroupParts>,
    pub address: String,
    pub peer: Arc<ConnectionHandle>,
}

/// Runs `round` repeatedly until the workers stop. A round gets a connection to the master and the state that `begin`
/// made for the connection, or the master's address and the error. The result is the pause before the next round.
pub(super) async fn run_rounds<S>(
    parts: Arc<GroupParts>,
    workers: Workers,
    begin: impl Fn() -> S,
    round: impl AsyncFn(Result<&mut (MasterLink, S), (String, io::Error)>) -> Duration,
) {
    let mut addresses = parts.replication.replicas.master();
    let mut link: Option<(MasterLink, S)> = None;
    loop {
        let address = addresses.borrow_and_update().broker.clone();
        let Some(address) = address.filter(|address| *address != parts.identity.address()) else {
            // This broker's tables may change meanwhile, so that they are no longer copies.
            link = None;
            let _ = addresses.changed().await;
            continue;
        };
        link.take_if(|(link, _)| link.address != address || link.peer.is_closed());
        let connected = match &mut link {
            Some(link) => Ok(link),
            None => match workers.dial_name(&address, Arc::new(Silent)).await {
                Ok(peer) => Ok(link.insert((MasterLink { parts: parts.clone(), address, peer }, begin()))),
                Err(error) => Err((address, error)),
            },
        };
        // Abandoned when the master changes: a question may wait at the former one.
        let round = async { tokio::time::sleep(round(connected).await).await };
        tokio::select! {
            () = round => {}
            _ = addresses.changed() => {}
        }
    }
}

impl MasterLink {
    /// Asks the master for a table.
    pub async fn ask<T: DeserializeOwned>(&self, code: i32) -> Result<T, SyncError> {
        Ok(json::from_slice(&self.ask_bytes(code).await?)?)
    }

    /// Requests a table as bytes. The request has no paging, so that the response holds everything.
    pub async fn ask_bytes(&self, code: i32) -> Result<Vec<u8>, SyncError> {
        Ok(self.ask_for(code, |writer| writer.finish(b"")).await?.body)
    }

    /// Asks the master, and returns its answer when that is a success.
    pub async fn ask_for(
        &self,
        code: i32,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Response, SyncError> {
        let reply = self.parts.sessions.call(&self.peer, code, ANSWER_TIMEOUT, write).await?;
        match reply.code {
            // Tables of the former master must not replace those of this broker, which has become master.
            _ if !self.parts.replication.role.is_slave() => Err(SyncError::Master),
            response::SUCCESS => Ok(reply),
            code => Err(SyncError::Refused(code, reply.remark.unwrap_or_default())),
        }
    }
}

/// Logs a table that was not copied. The other tables are copied anyway.
pub(super) fn note(table: &str, done: Result<(), SyncError>) {
    if let Err(error) = done {
        tracing::warn!(table, %error, "a table of the master was not taken; it is tried again");
    }
}
