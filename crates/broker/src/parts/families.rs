//! Parts that families of operations take: one value each where an operation needs more parts than fit into its
//! parameters, or where a task or a waiting request keeps them.

use std::sync::Arc;

use super::{Delivery, Figures, Identity, Replication, Runtime, Sessions, Tables};

/// Declares families by the names and types of their parts. A part is shared by all families that take it.
macro_rules! families {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $part:ident),* $(,)? })*) => {$(
        $(#[$doc])*
        pub(crate) struct $name {
            $(pub(crate) $field: Arc<$part>,)*
        }
    )*};
}

families! {
    /// Parts that pulls and their suspension take.
    PullParts {
        tables: Tables, sessions: Sessions, replication: Replication, figures: Figures, runtime: Runtime,
    }

    /// Parts that pops, acknowledgements and the revive engine take.
    PopParts {
        identity: Identity, tables: Tables, delivery: Delivery, replication: Replication, figures: Figures,
        runtime: Runtime, pulls: PullParts,
    }

    /// Parts that sends, send-backs and replies take.
    SendParts {
        identity: Identity, tables: Tables, sessions: Sessions, delivery: Delivery, replication: Replication,
        figures: Figures, runtime: Runtime,
    }

    /// Parts that delay levels, the timer, the revive engine and transaction checks take.
    DeliveryParts {
        identity: Identity, tables: Tables, sessions: Sessions, delivery: Delivery, replication: Replication,
        runtime: Runtime, pops: PopParts,
    }

    /// Parts that the small engines that save, sample and expire take.
    HousekeepingParts {
        tables: Tables, sessions: Sessions, delivery: Delivery, figures: Figures, runtime: Runtime,
        pops: PopParts,
    }

    /// Parts that metrics read.
    MetricsParts {
        identity: Identity, tables: Tables, sessions: Sessions, delivery: Delivery, replication: Replication,
        figures: Figures, runtime: Runtime, operator: OperatorParts,
    }

    /// Parts that replication, registration and acting masters take.
    GroupParts {
        identity: Identity, tables: Tables, sessions: Sessions, delivery: Delivery, replication: Replication,
        runtime: Runtime, pops: PopParts, engines: DeliveryParts,
    }

    /// Parts that changes of topics and groups, and their copies at slaves take.
    MetadataParts {
        tables: Tables, sessions: Sessions, delivery: Delivery, replication: Replication, figures: Figures,
        runtime: Runtime, pops: PopParts,
    }

    /// Parts that the engine that deletes old messages takes.
    RetentionParts {
        tables: Tables, sessions: Sessions, delivery: Delivery, runtime: Runtime,
    }

    /// Parts that operations of operators take.
    OperatorParts {
        identity: Identity, tables: Tables, sessions: Sessions, delivery: Delivery, replication: Replication,
        figures: Figures, runtime: Runtime, pops: PopParts,
    }
}
