//! Parts of the broker's state. [`crate::broker::Broker`] is composed of them. No part knows the broker, and an
//! operation takes only the parts that it needs.

mod delivery;
mod families;
mod figures;
mod identity;
mod replication;
mod runtime;
mod sessions;
mod tables;

pub(crate) use delivery::{Arrivals, Delivery};
pub(crate) use families::{
    DeliveryParts, GroupParts, HousekeepingParts, LiteParts, MetadataParts, MetricsParts, OperatorParts,
    PopParts, PullParts, RetentionParts, SendParts,
};
pub(crate) use figures::Figures;
pub(crate) use identity::Identity;
pub(crate) use replication::Replication;
pub(crate) use runtime::Runtime;
pub(crate) use sessions::Sessions;
pub(crate) use tables::Tables;
