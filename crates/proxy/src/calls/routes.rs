//! Where the queues of a topic are: QueryRoute and QueryAssignment (`RouteActivity`).

use std::net::IpAddr;

use http::uri::Authority;
use wire::body::TopicConfig;
use wire::body::topic::{PERM_READ, PERM_WRITE};

use super::{Call, topic_missing};
use crate::checks;
use crate::convert::accepted_types;
use crate::failure::Failure;
use crate::messages::{
    Address, AddressScheme, Assignment, Broker, Code, Endpoints, MessageQueue, Permission,
    QueryAssignmentRequest, QueryAssignmentResponse, QueryRouteRequest, QueryRouteResponse, Status, name,
};

/// The attribute of a topic that says which messages it takes.
pub const MESSAGE_TYPE: &str = "message.type";

/// QueryRoute.
pub async fn query_route(call: Call, request: QueryRouteRequest) -> Result<QueryRouteResponse, Failure> {
    let topic = name(&request.topic);
    checks::topic(topic)?;
    let config = call.proxy.api.topic(topic).ok_or_else(|| topic_missing(topic))?;
    let broker = broker(&call, &request.endpoints);
    let types = accepted_types(config.attributes.get(MESSAGE_TYPE).map(String::as_str));
    let accept_message_types: Vec<i32> = types.into_iter().map(i32::from).collect();
    let queue = |(id, permission): (i32, Permission)| MessageQueue {
        topic: request.topic.clone(),
        id,
        permission: permission.into(),
        broker: Some(broker.clone()),
        accept_message_types: accept_message_types.clone(),
    };
    Ok(QueryRouteResponse {
        status: Some(Status::ok()),
        message_queues: (0..).zip(permissions(&config)).map(queue).collect(),
    })
}

/// The permissions of a topic's queues, in the order of the reference. With fewer read than write queues the ids are not those of
/// the broker; clients need only their number.
fn permissions(topic: &TopicConfig) -> Vec<Permission> {
    let count = |count: i32| usize::try_from(count).unwrap_or(0);
    let (read, write) = (count(topic.read_queue_nums), count(topic.write_queue_nums));
    let both = read.min(write);
    let parts = match (topic.perm & PERM_READ != 0, topic.perm & PERM_WRITE != 0) {
        (true, true) => {
            vec![
                (Permission::Read, read - both),
                (Permission::Write, write - both),
                (Permission::ReadWrite, both),
            ]
        }
        (true, false) => vec![(Permission::Read, read)],
        (false, true) => vec![(Permission::Write, write)],
        (false, false) => vec![(Permission::None, read.max(write).max(1))],
    };
    parts.into_iter().flat_map(|(permission, count)| std::iter::repeat_n(permission, count)).collect()
}

/// This broker as the client reaches it: at the endpoints the client dialled when it says which, else where its request went, else
/// at the broker's host.
fn broker(call: &Call, dialled: &Option<Endpoints>) -> Broker {
    let api = &call.proxy.api;
    let told = || {
        let dialled = call.authority.as_ref();
        let host = dialled.map_or(api.host(), |it| it.host().trim_matches(['[', ']'])).to_owned();
        let port = dialled.and_then(Authority::port_u16).unwrap_or(call.proxy.port);
        let scheme = match host.parse() {
            Ok(IpAddr::V4(_)) => AddressScheme::Ipv4,
            Ok(IpAddr::V6(_)) => AddressScheme::Ipv6,
            Err(_) => AddressScheme::DomainName,
        };
        let addresses = vec![Address { host, port: port.into() }];
        Endpoints { scheme: scheme.into(), addresses }
    };
    let mut endpoints = dialled.clone().filter(|dialled| !dialled.addresses.is_empty()).unwrap_or_else(told);
    if !call.proxy.config.names_dialled_port {
        endpoints.addresses.iter_mut().for_each(|address| address.port = call.proxy.port.into());
    }
    Broker { name: api.name().to_owned(), id: api.id(), endpoints: Some(endpoints) }
}

/// QueryAssignment.
pub async fn query_assignment(
    call: Call,
    request: QueryAssignmentRequest,
) -> Result<QueryAssignmentResponse, Failure> {
    let (topic, group) = (name(&request.topic), name(&request.group));
    checks::topic(topic)?;
    checks::group(group)?;
    let api = &call.proxy.api;
    let config = api.topic(topic).ok_or_else(|| topic_missing(topic))?;
    if config.perm & PERM_READ == 0 || config.read_queue_nums <= 0 {
        return Err(Failure::new(Code::Forbidden, "no readable queue"));
    }
    let is_ordered = api.group(group).is_some_and(|group| group.consume_message_orderly);
    let ids = if is_ordered { 0..config.read_queue_nums } else { -1..0 };
    let broker = broker(&call, &request.endpoints);
    let assignment = |id| Assignment {
        message_queue: Some(MessageQueue {
            topic: request.topic.clone(),
            id,
            permission: if config.perm & PERM_WRITE == 0 { Permission::Read } else { Permission::ReadWrite }
                .into(),
            broker: Some(broker.clone()),
            accept_message_types: Vec::new(),
        }),
    };
    Ok(QueryAssignmentResponse { status: Some(Status::ok()), assignments: ids.map(assignment).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(read: i32, write: i32, perm: i32, expected: &str) {
        let topic =
            TopicConfig { read_queue_nums: read, write_queue_nums: write, perm, ..TopicConfig::default() };
        let letter = |permission| match permission {
            Permission::Read => 'r',
            Permission::Write => 'w',
            Permission::ReadWrite => 'b',
            _ => '-',
        };
        assert_eq!(permissions(&topic).into_iter().map(letter).collect::<String>(), expected);
    }

    #[test]
    fn g30_to_g32_queues_by_permission() {
        check(8, 8, 6, "bbbbbbbb");
        check(4, 8, 6, "wwwwbbbb");
        check(3, 2, 6, "rbb");
        check(2, 4, 4, "rr");
        check(2, 4, 2, "wwww");
        check(2, 4, 0, "----");
        check(0, 0, 0, "-");
    }
}
