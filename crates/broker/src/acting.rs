//! Task `acting-master` of a broker in a group with acting masters (`enableSlaveActingMaster`).
//!
//! When the master of a group is gone, name servers show its slave with the smallest id as a read-only master. That
//! slave acts. It serves committed offsets and locks itself, which it otherwise passes on to the master. It takes no
//! tables of the master, whose offsets get older. It pops from memory ([`crate::pop`]) and appends nothing.
//!
//! A starting broker waits, neither registered nor serving, until it has the state of the other brokers in its group
//! ([`online`], `BrokerPreOnlineService`). The name servers tell which brokers are alive. This task asks them every
//! second, and after each of their notices (`BrokerController.syncBrokerMemberGroup`, `updateMinBroker`). A notice
//! (request 905) is only a reason to ask. Only the responses of the configured name servers count, because any host
//! can send a notice.

mod members;
mod online;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use net::{CallError, ConnectionHandle, Response, Workers};
use serde::de::DeserializeOwned;
use wire::body::{BrokerMemberGroupBody, ConsumerOffsetTable};
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::json::{self, JsonError};

use crate::clock::{pause, within};
use crate::offsets::{Generation, ONLY_RAISES};
use crate::parts::GroupParts;
use crate::persist;
use crate::register::Silent;
use members::{Duty, Members, duty};

/// Timeout for the response of another server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 3 });

/// Codes with which a master refuses an offset that it will not take later either. Every other code may be temporary: a group
/// that the master does not know waits until it is stored.
const REFUSED_FOR_GOOD: [i32; 3] =
    [response::SUBSCRIPTION_GROUP_NOT_EXIST, response::TOPIC_NOT_EXIST, response::INVALID_PARAMETER];

/// Errors of an exchange with another broker or a name server.
#[derive(Debug, thiserror::Error)]
enum GroupError {
    #[error("{0} cannot be reached: {1}")]
    Unreachable(String, std::io::Error),
    #[error("{0} does not answer: {1}")]
    Call(String, CallError),
    #[error("{0} answers with code {1}: {2}")]
    Refused(String, i32, String),
    #[error("the answer of {0} cannot be read: {1}")]
    Content(String, JsonError),
    #[error("no name server says which brokers the group has")]
    NoMembers,
    #[error("the broker at {0} is not connected for the log")]
    NotConnected(String),
    #[error(transparent)]
    Disk(#[from] persist::Error),
}

/// Task that follows the living brokers of the group, with its connections to name servers.
struct Group {
    parts: Arc<GroupParts>,
    workers: Workers,
    /// Connections to name servers by their names.
    name_servers: HashMap<String, Arc<ConnectionHandle>>,
    /// Generation after which offsets were committed here, while the master still must take them over.
    handover_from: Option<Generation>,
}

/// Runs until the workers stop.
pub(crate) async fn run(parts: Arc<GroupParts>, workers: Workers) {
    let mut notices = parts.replication.acting.notices();
    let interval = parts.runtime.config.replication.acting.members_interval();
    let mut group = Group { parts, workers, name_servers: HashMap::new(), handover_from: None };
    group.come_online().await;
    loop {
        group.look().await;
        // Ends at a notice or after the interval.
        let _ = within(interval, notices.changed()).await;
    }
}

impl Group {
    /// Asks for the living brokers of the group, and acts on the response.
    async fn look(&mut self) {
        let Some(members) = self.members().await else { return };
        let own = self.parts.replication.role.id();
        self.parts.replication.acting.set_alive(members.len().max(1));
        if !self.parts.runtime.config.is_slave() {
            return;
        }
        match duty(&members, own) {
            Duty::Act => self.act(),
            Duty::StandBy => {
                self.parts.replication.acting.set_acting(false);
                self.parts.replication.replicas.lose_master();
            }
            Duty::Follow(master) => self.follow(master).await,
        }
    }

    /// Acts for the master, which is gone.
    fn act(&mut self) {
        let parts = &self.parts;
        // First, so that no offset of the master replaces an offset that is committed here from now on.
        parts.replication.replicas.lose_master();
        if self.handover_from.is_none() {
            self.handover_from = Some(parts.tables.offsets.begin_acting(parts.runtime.now_ms()));
        }
        if !parts.replication.acting.is_acting() {
            tracing::warn!(id = parts.replication.role.id(), "the master is gone: this slave acts for it");
            parts.replication.acting.set_acting(true);
        }
    }

    /// Follows the master at this address, after the master has taken over the offsets that were committed here while it was away.
    async fn follow(&mut self, master: String) {
        let parts = self.parts.clone();
        let is_known = parts.replication.replicas.master().borrow().broker.as_deref() == Some(&*master);
        let was_acting = parts.replication.acting.is_acting();
        if is_known && !was_acting && !parts.replication.replicas.lacks_master() {
            return;
        }
        // The slave may have stood by since it acted, because a slave with a smaller id came up.
        let has_acted = self.handover_from.is_some();
        // From here on requests for the master are held until its address is known.
        parts.replication.acting.set_acting(false);
        match self.hand_over(&master).await {
            Ok(ha) => {
                tracing::info!(%master, ha, has_acted, "this slave follows its master");
                if has_acted {
                    // The master has the offsets now, and pops again what was not acknowledged here.
                    parts.delivery.pops.forget_all();
                }
                parts.replication.replicas.learn(Some(&master), ha.as_deref());
            }
            Err(error) => {
                tracing::warn!(%master, %error, "the master cannot be followed; it is tried again");
                parts.replication.acting.set_acting(was_acting);
            }
        }
    }

    /// Passes the offsets that were committed here during the master's absence to the master, if they are larger than
    /// its own. Returns the address for slaves of the master.
    async fn hand_over(&mut self, master: &str) -> Result<Option<String>, GroupError> {
        let peer = self.dial(master).await?;
        let ha = self.ask(master, &peer, request::EXCHANGE_BROKER_HA_INFO, no_fields).await?;
        let ha = ha.text("masterHaAddress").map(str::to_owned);
        if let Some(handover_from) = self.handover_from {
            let ours = self.parts.tables.offsets.changed_after(handover_from, "", usize::MAX).changed.table;
            if !ours.offset_table.is_empty() {
                let theirs: ConsumerOffsetTable =
                    self.read(master, &peer, request::GET_ALL_CONSUMER_OFFSET).await?;
                self.send_offsets(master, &peer, ours, &theirs).await?;
            }
            self.handover_from = None;
        }
        Ok(ha)
    }

    async fn send_offsets(
        &self,
        master: &str,
        peer: &ConnectionHandle,
        ours: ConsumerOffsetTable,
        theirs: &ConsumerOffsetTable,
    ) -> Result<(), GroupError> {
        for (key, queue, offset) in members::behind(&ours, theirs) {
            let Some((topic, group)) = key.split_once('@') else { continue };
            let taken_over = self.ask(master, peer, request::UPDATE_CONSUMER_OFFSET, |writer| {
                let writer = writer.text("consumerGroup", group).text("topic", topic);
                let writer = writer.number("queueId", queue).number("commitOffset", offset);
                writer.flag(ONLY_RAISES, true).finish(b"");
            });
            match taken_over.await {
                Ok(_) => tracing::info!(key, queue, offset, "the master has taken over an offset"),
                // The topic, the group or the queue was removed.
                Err(GroupError::Refused(_, code, remark)) if REFUSED_FOR_GOOD.contains(&code) => {
                    tracing::warn!(key, queue, offset, code, remark, "the master does not take an offset");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The brokers of the group that any name server knows; `None` when none answers.
    async fn members(&mut self) -> Option<Members> {
        let mut all: Option<Members> = None;
        for name_server in self.parts.runtime.config.name_servers() {
            match self.members_at(&name_server).await {
                Ok(members) => all.get_or_insert_default().extend(members),
                Err(error) => {
                    self.name_servers.remove(&name_server);
                    tracing::warn!(%error, "the brokers of the group are not known");
                }
            }
        }
        all
    }

    async fn members_at(&mut self, name_server: &str) -> Result<Members, GroupError> {
        let peer = match self.name_servers.get(name_server).filter(|peer| !peer.is_closed()) {
            Some(peer) => peer.clone(),
            None => {
                let peer = self.dial(name_server).await?;
                self.name_servers.insert(name_server.to_owned(), peer.clone());
                peer
            }
        };
        let parts = &self.parts;
        let write = |writer: FrameWriter<'_>| {
            let writer = writer.text("clusterName", &parts.runtime.config.broker_cluster_name);
            writer.text("brokerName", &parts.runtime.config.broker_name).finish(b"");
        };
        let reply = self.ask(name_server, &peer, request::GET_BROKER_MEMBER_GROUP, write).await?;
        let body: BrokerMemberGroupBody = parse(name_server, &reply)?;
        Ok(body.broker_member_group.broker_addrs)
    }

    async fn dial(&self, address: &str) -> Result<Arc<ConnectionHandle>, GroupError> {
        let dialed = self.workers.dial_name(address, Arc::new(Silent)).await;
        dialed.map_err(|error| GroupError::Unreachable(address.to_owned(), error))
    }

    /// Asks another server, and returns its answer when that is a success.
    async fn ask(
        &self,
        address: &str,
        peer: &ConnectionHandle,
        code: i32,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Response, GroupError> {
        match self.parts.sessions.call(peer, code, ANSWER_TIMEOUT, write).await {
            Ok(reply) if reply.code == response::SUCCESS => Ok(reply),
            Ok(reply) => {
                Err(GroupError::Refused(address.to_owned(), reply.code, reply.remark.unwrap_or_default()))
            }
            Err(error) => Err(GroupError::Call(address.to_owned(), error)),
        }
    }

    /// Asks another broker for a table.
    async fn read<T: DeserializeOwned>(
        &self,
        address: &str,
        peer: &ConnectionHandle,
        code: i32,
    ) -> Result<T, GroupError> {
        parse(address, &self.ask(address, peer, code, no_fields).await?)
    }
}

fn no_fields(writer: FrameWriter<'_>) {
    writer.finish(b"");
}

fn parse<T: DeserializeOwned>(address: &str, reply: &Response) -> Result<T, GroupError> {
    json::from_slice(&reply.body).map_err(|error| GroupError::Content(address.to_owned(), error))
}

#[cfg(test)]
mod tests;
