//! The state of a broker, composed of its parts, and loading of it.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use store::Store;

use crate::clients::Clients;
use crate::clock::Clock;
use crate::config::{Config, Exporter, Live};
use crate::disk_pool::DiskPool;
use crate::durability::Durability;
use crate::gate::Gate;
use crate::groups::Groups;
use crate::locks::Locks;
use crate::offsets::Offsets;
use crate::parts::{
    Delivery, DeliveryParts, Figures, GroupParts, HousekeepingParts, Identity, LiteParts, MetadataParts,
    MetricsParts, OperatorParts, PopParts, PullParts, Replication, RetentionParts, Runtime, SendParts,
    Sessions, Tables,
};
use crate::persist::{self, ConfigFiles};
use crate::refusal_counts::RefusalCounts;
use crate::replicas::Replicas;
use crate::role::Role;
use crate::rpc_latency::RpcLatency;
use crate::slow::SlowOperations;
use crate::state::{
    Acting, ClientCalls, DeliveryNotes, DiskWatch, Light, Lite, MetadataQueue, Modes, PollTimeouts, Pops,
    Ranking, RegistrationAcks, Retention, Routes, Schedule, Stats, TableCopies, TimerState, Transactions,
};
use crate::topics::Topics;

/// The state that all handlers of a broker share: the composition of its parts.
pub struct Broker {
    pub(crate) store: Arc<Store>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pulls: Arc<PullParts>,
    pub(crate) pops: Arc<PopParts>,
    pub(crate) sends: Arc<SendParts>,
    pub(crate) engines: Arc<DeliveryParts>,
}

/// Errors of loading a broker's state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Table(#[from] persist::Error),
    #[error(transparent)]
    Auth(#[from] auth::StartError),
}

/// The parts of a broker's state that are loaded from files before it starts.
pub(crate) struct Loaded {
    pub clock: Clock,
    pub config: Config,
    pub gate: Gate,
    pub store: Arc<Store>,
    pub files: ConfigFiles,
    pub topics: Topics,
    pub groups: Groups,
    pub offsets: Offsets,
    pub schedule: Schedule,
    pub delivery_notes: DeliveryNotes,
    pub modes: Modes,
    pub disk_pool: DiskPool,
}

impl Loaded {
    /// Loads the tables of `files` that need no other state.
    pub(crate) fn read(
        config: Config,
        topics: Topics,
        store: Arc<Store>,
        files: ConfigFiles,
        disk_pool: DiskPool,
    ) -> Result<Self, LoadError> {
        let gate = Gate::open(&config)?;
        let light = config.store.multi_dispatch;
        Ok(Self {
            clock: Clock::default(),
            gate,
            groups: Groups::load(files.file("subscriptionGroup.json"))?.with_light(light),
            offsets: if light { Offsets::load_light(&files, store.clone()) } else { Offsets::load(&files) }?,
            schedule: Schedule::load(files.file("delayOffset.json"))?,
            delivery_notes: DeliveryNotes::load(
                files.at(config.store.root.join("vostok/deliveryNotes")),
                store.appended(),
            ),
            modes: Modes::load(files.file("messageRequestMode.json"))?,
            topics,
            store,
            files,
            disk_pool,
            config,
        })
    }
}

/// Makes a value of a family in `crate::parts::families`, such as `PullParts`. Each part comes from the local
/// variable, or from the field of a value, with the name of the part.
macro_rules! share {
    ($from:ident, $name:ident { $($part:ident),* }) => { Arc::new($name { $($part: $from.$part.clone()),* }) };
    ($name:ident { $($part:ident),* }) => { Arc::new($name { $($part: $part.clone()),* }) };
}

impl Broker {
    pub(crate) fn new(loaded: Loaded, ip: IpAddr, port: u16) -> Arc<Self> {
        let Loaded {
            clock,
            config,
            gate,
            store,
            files,
            topics,
            groups,
            offsets,
            schedule,
            delivery_notes,
            modes,
            disk_pool,
        } = loaded;
        let rpc_clock = (config.metrics.exporter != Exporter::Disable).then(|| clock.clone());
        let durability =
            Durability::new(store.clone(), config.store.flush, config.replication.slave_timeout());
        let tables = Arc::new(Tables {
            store: store.clone(),
            clock: clock.clone(),
            topics,
            groups,
            offsets,
            locks: Locks::default(),
            modes,
            routes: Routes::default(),
            ranking: Ranking::default(),
            light: Light::of(&store, config.store.multi_dispatch),
            lite: Lite::default(),
            files,
        });
        let replication = Arc::new(Replication {
            store: store.clone(),
            role: Role::new(&config),
            replicas: Replicas::default(),
            acting: Acting::new(store.appended()),
            table_copies: TableCopies::default(),
            durability: Arc::new(durability),
            registration_acks: RegistrationAcks::default(),
        });
        let figures = Arc::new(Figures {
            clock: clock.clone(),
            stats: Stats::default(),
            slow: SlowOperations::default(),
            refused: RefusalCounts::default(),
            rpc_latency: Arc::new(RpcLatency::new(rpc_clock)),
        });
        let delivery = Arc::new(Delivery {
            schedule,
            timer: TimerState::default(),
            delivery_notes,
            transactions: Transactions::default(),
            pops: Pops::new(&config.broker_cluster_name),
            arrivals: OnceLock::new(),
            clock: clock.clone(),
            tables: tables.clone(),
            replication: replication.clone(),
            figures: figures.clone(),
        });
        let sessions = Arc::new(Sessions {
            clients: Clients::default(),
            client_calls: ClientCalls::default(),
            gate,
            poll_timeouts: PollTimeouts::default(),
        });
        let identity = Arc::new(Identity::new(&config, ip, port));
        let runtime = Arc::new(Runtime {
            clock,
            config: Live::new(config),
            settings_changing: Mutex::default(),
            disk_pool,
            metadata_queue: MetadataQueue::default(),
            supervisor: Arc::default(),
            retention: Retention::default(),
            disk_watch: DiskWatch::default(),
            draining: AtomicBool::new(false),
        });
        let pulls = share!(PullParts { tables, sessions, replication, figures, runtime });
        let pops = share!(PopParts { identity, tables, delivery, replication, figures, runtime, pulls });
        let sends = share!(SendParts { identity, tables, sessions, delivery, replication, figures, runtime });
        let engines =
            share!(DeliveryParts { identity, tables, sessions, delivery, replication, runtime, pops });
        Arc::new(Self {
            store,
            identity,
            tables,
            sessions,
            delivery,
            replication,
            figures,
            runtime,
            pulls,
            pops,
            sends,
            engines,
        })
    }

    pub(crate) fn housekeeping_parts(&self) -> Arc<HousekeepingParts> {
        share!(self, HousekeepingParts { tables, sessions, delivery, figures, runtime, pops })
    }

    pub(crate) fn metrics_parts(&self) -> Arc<MetricsParts> {
        Arc::new(MetricsParts {
            identity: self.identity.clone(),
            tables: self.tables.clone(),
            sessions: self.sessions.clone(),
            delivery: self.delivery.clone(),
            replication: self.replication.clone(),
            figures: self.figures.clone(),
            runtime: self.runtime.clone(),
            operator: self.operator_parts(),
        })
    }

    pub(crate) fn group_parts(&self) -> Arc<GroupParts> {
        share!(self, GroupParts { identity, tables, sessions, delivery, replication, runtime, pops, engines })
    }

    pub(crate) fn metadata_parts(&self) -> Arc<MetadataParts> {
        share!(self, MetadataParts { tables, sessions, delivery, replication, figures, runtime, pops })
    }

    pub(crate) fn retention_parts(&self) -> Arc<RetentionParts> {
        share!(self, RetentionParts { tables, sessions, delivery, runtime })
    }

    pub(crate) fn lite_parts(&self) -> Arc<LiteParts> {
        share!(self, LiteParts { tables, delivery, runtime, pops })
    }

    pub(crate) fn operator_parts(&self) -> Arc<OperatorParts> {
        share!(
            self,
            OperatorParts { identity, tables, sessions, delivery, replication, figures, runtime, pops }
        )
    }
}

#[cfg(test)]
mod tests;
