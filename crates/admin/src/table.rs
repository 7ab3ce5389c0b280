//! The one table of operations: the rows of all nouns. A new noun is a module with its rows, and a line here.

use crate::{
    Operation, acl, broker, cluster, connection, container, controller, dlq, export, group, kv, lite,
    message, name_server, offset, rocksdb, topic, user,
};

/// The operations of each noun.
pub const OPERATIONS: [&[Operation]; 18] = [
    topic::OPERATIONS,
    cluster::OPERATIONS,
    broker::OPERATIONS,
    group::OPERATIONS,
    offset::OPERATIONS,
    message::OPERATIONS,
    dlq::OPERATIONS,
    connection::OPERATIONS,
    user::OPERATIONS,
    acl::OPERATIONS,
    name_server::OPERATIONS,
    kv::OPERATIONS,
    controller::OPERATIONS,
    controller::REPLICA_OPERATIONS,
    container::OPERATIONS,
    rocksdb::OPERATIONS,
    export::OPERATIONS,
    lite::OPERATIONS,
];

/// All operations, in the order of the table.
pub(crate) fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.into_iter().flatten()
}

/// The operation of a noun and a verb.
pub fn operation(noun: &str, verb: &str) -> Option<&'static Operation> {
    operations().find(|operation| operation.noun == noun && operation.verb == verb)
}
