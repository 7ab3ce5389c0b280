//! The one table of operations: the rows of all nouns. A new noun is a module with its rows, and a line here.

use crate::{
    Operation, acl, broker, cluster, connection, controller, group, kv, message, name_server, offset, topic,
    user,
};

/// The operations of each noun.
pub const OPERATIONS: [&[Operation]; 12] = [
    &topic::OPERATIONS,
    &cluster::OPERATIONS,
    &broker::OPERATIONS,
    &group::OPERATIONS,
    &offset::OPERATIONS,
    &message::OPERATIONS,
    &connection::OPERATIONS,
    &user::OPERATIONS,
    &acl::OPERATIONS,
    &name_server::OPERATIONS,
    &kv::OPERATIONS,
    &controller::OPERATIONS,
];

/// All operations, in the order of the table.
pub(crate) fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.into_iter().flatten()
}
