//! Parts that families of operations take: one value each where an operation needs more parts than fit into its
//! parameters, or where a task or a waiting request keeps them.

use std::sync::Arc;

use super::{Delivery, Figures, Identity, Replication, Runtime, Sessions, Tables};

/// Parts that pulls and their suspension take.
pub(crate) struct PullParts {
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runtime: Arc<Runtime>,
}

/// Parts that pops, acknowledgements and the revive engine take.
pub(crate) struct PopParts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pulls: Arc<PullParts>,
}

/// Parts that sends, send-backs and replies take.
pub(crate) struct SendParts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runtime: Arc<Runtime>,
}

/// Parts that delay levels, the timer, the revive engine and transaction checks take.
pub(crate) struct DeliveryParts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pops: Arc<PopParts>,
}

/// Parts that the small engines that save, sample and expire take.
pub(crate) struct HousekeepingParts {
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pops: Arc<PopParts>,
}

/// Parts that metrics read.
pub(crate) struct MetricsParts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) operator: Arc<OperatorParts>,
}

/// Parts that replication, registration and acting masters take.
pub(crate) struct GroupParts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pops: Arc<PopParts>,
    pub(crate) engines: Arc<DeliveryParts>,
}

/// Parts that changes of topics and groups, and their copies at slaves take.
pub(crate) struct MetadataParts {
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pops: Arc<PopParts>,
}

/// Parts that the engine that deletes old messages takes.
pub(crate) struct RetentionParts {
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) runtime: Arc<Runtime>,
}

/// Parts that lite topics take.
pub(crate) struct LiteParts {
    pub(crate) tables: Arc<Tables>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pops: Arc<PopParts>,
}

/// Parts that operations of operators take.
pub(crate) struct OperatorParts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pops: Arc<PopParts>,
}
