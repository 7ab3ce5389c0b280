//! Start of a broker before it serves (`BrokerPreOnlineService`). A master lets each slave connect for the log. It
//! takes back the offsets that groups committed there, and the delivery progress of delayed messages. A slave waits
//! until it follows its master, if the group has a master.
//!
//! A broker that fails to do this retries, like Java's. A master that serves with older offsets would cause repeated
//! consumption. With `skipPreOnline` the broker serves at once.

use std::time::Duration;

use net::ConnectionHandle;
use wire::body::{ConsumerOffsetTable, DelayOffsetTable};
use wire::codes::request;
use wire::frame::FrameWriter;

use super::members::{MASTER, slaves};
use super::{Group, GroupError, no_fields, pause, within};
use crate::master_services;
use crate::parts::{Delivery, GroupParts, Replication, Runtime};
use crate::role::BrokerRole;

/// Longest wait for a connection for the log (`HAConnectionStateNotificationService`).
const CONNECTION_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 10 });

/// Pause before a failed exchange is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Group {
    /// Prepares this broker until that succeeds, and then lets it serve. Returns at once unless the broker is fenced.
    pub(super) async fn come_online(&mut self) {
        if self.parts.replication.role.current() != BrokerRole::Fenced {
            return;
        }
        let mut logged = String::new();
        while let Err(error) = self.prepare().await {
            let text = error.to_string();
            if text != logged {
                tracing::warn!(%error, "this broker does not serve yet; it tries again every second (skipPreOnline)");
                logged = text;
            }
            pause(RETRY_PAUSE).await;
        }
        serve(&self.parts.delivery, &self.parts.replication, &self.parts.runtime);
    }

    /// Makes a slave follow its master, or lets a master take back the newer state of its slaves.
    async fn prepare(&mut self) -> Result<(), GroupError> {
        if self.parts.runtime.config.name_servers().is_empty() {
            // No name server shows a slave as master.
            return Ok(());
        }
        let members = self.members().await.ok_or(GroupError::NoMembers)?;
        if self.parts.runtime.config.is_slave() {
            return match members.get(&MASTER) {
                Some(master) => self.connect_to(master).await,
                None => Ok(()),
            };
        }
        for slave in slaves(members, &self.parts.identity.address()) {
            self.take_back(&slave).await?;
        }
        Ok(())
    }

    /// Follows the master at this address.
    async fn connect_to(&self, master: &str) -> Result<(), GroupError> {
        let peer = self.dial(master).await?;
        let reply = self.ask(master, &peer, request::EXCHANGE_BROKER_HA_INFO, no_fields).await?;
        let Some(ha) = reply.text("masterHaAddress").filter(|ha| !ha.is_empty()) else { return Ok(()) };
        self.parts.replication.replicas.learn(None, Some(ha));
        let follows = |parts: &GroupParts| parts.replication.replicas.follows();
        self.wait_for(follows).await.ok_or_else(|| GroupError::NotConnected(master.to_owned()))
    }

    /// Waits until the slave at this address connects for the log, and takes back its newer state.
    async fn take_back(&self, slave: &str) -> Result<(), GroupError> {
        let parts = &*self.parts;
        let resolved = net::resolve(slave).await;
        let addresses = resolved.map_err(|error| GroupError::Unreachable(slave.to_owned(), error))?;
        let peer = self.dial(slave).await?;
        let write = |writer: FrameWriter<'_>| {
            let writer = writer.text("masterHaAddress", &parts.identity.ha_address());
            let writer =
                writer.number("masterFlushOffset", parts.replication.acting.log_end_at_start().get());
            writer.text("masterAddress", &parts.identity.address()).finish(b"");
        };
        self.ask(slave, &peer, request::EXCHANGE_BROKER_HA_INFO, write).await?;
        // A connection says which machine it comes from, and not from which broker of it.
        let has_connected = |parts: &GroupParts| {
            let slaves = parts.replication.replicas.slaves();
            let mut reported = slaves.iter().filter(|slave| slave.has_reported());
            reported.any(|slave| {
                addresses.iter().any(|at| at.ip().to_canonical() == slave.remote.ip().to_canonical())
            })
        };
        self.wait_for(has_connected).await.ok_or_else(|| GroupError::NotConnected(slave.to_owned()))?;
        self.take_positions(slave, &peer).await
    }

    async fn take_positions(&self, slave: &str, peer: &ConnectionHandle) -> Result<(), GroupError> {
        let parts = &*self.parts;
        let offsets: ConsumerOffsetTable = self.read(slave, peer, request::GET_ALL_CONSUMER_OFFSET).await?;
        let delays: DelayOffsetTable = self.read(slave, peer, request::GET_ALL_DELAY_OFFSET).await?;
        tracing::info!(slave, entries = offsets.offset_table.len(), "the offsets of a slave are taken back");
        let is_known = |topic: &str, group: &str| {
            parts.tables.topics.find(topic).is_some() && parts.tables.groups.find(group).is_some()
        };
        parts.tables.offsets.take_back(offsets, is_known);
        Ok(parts.delivery.schedule.take_back(delays)?)
    }

    /// Waits until `is_so` holds after a change of the connections for the log. Returns `None` after a timeout.
    async fn wait_for(&self, is_so: impl Fn(&GroupParts) -> bool) -> Option<()> {
        let mut news = self.parts.replication.replicas.connections();
        within(CONNECTION_PATIENCE, async {
            while !is_so(&self.parts) {
                // The sender is part of the broker.
                let _ = news.changed().await;
            }
        })
        .await
    }
}

/// Registers this broker and lets it serve.
fn serve(delivery: &Delivery, replication: &Replication, runtime: &Runtime) {
    if runtime.config.is_slave() {
        replication.role.follow(runtime.config.broker_id);
        replication.role.agree();
    } else {
        replication.role.lead();
        master_services::wake(delivery);
    }
    tracing::info!(id = replication.role.id(), "this broker has what its group has, and serves");
}
