//! Routes of topics: QueryRoute and QueryAssignment (`RouteActivity`).

use std::net::IpAddr;

use grpc::messages::{
    Address, AddressScheme, Assignment, Broker, Code, Endpoints, MessageQueue, Permission,
    QueryAssignmentRequest, QueryAssignmentResponse, QueryRouteRequest, QueryRouteResponse, Status, name,
};
use http::uri::Authority;
use wire::body::topic::{PERM_READ, PERM_WRITE};

use super::{Call, lite, topic_missing};
use crate::checks;
use crate::convert::accepted_types;
use crate::failure::{Failure, Result};
use crate::topic::{QueuesOf, Topic};

/// QueryRoute.
pub async fn query_route(call: Call, request: QueryRouteRequest) -> Result<QueryRouteResponse> {
    let topic = name(&request.topic);
    checks::topic(topic)?;
    let known = call.proxy.brokers.whole_topic(topic).await?.ok_or_else(|| topic_missing(topic))?;
    let types = accepted_types(Some(&known.message_type));
    let accept_message_types: Vec<i32> = types.into_iter().map(i32::from).collect();
    let endpoints = ReachableEndpoints::by(&call, &request.endpoints, &known).await;
    let queues = |(of, id): (&QueuesOf, i32)| {
        let broker = Broker { name: of.broker.clone(), id, endpoints: Some(endpoints.of(of)) };
        let queue = |(id, permission): (i32, Permission)| MessageQueue {
            topic: request.topic.clone(),
            id,
            permission: permission.into(),
            broker: Some(broker.clone()),
            accept_message_types: accept_message_types.clone(),
        };
        (0..).zip(permissions(of)).map(queue).collect::<Vec<_>>()
    };
    let brokers = known.queues.iter().flat_map(|of| of.ids.iter().map(move |id| (of, *id)));
    Ok(QueryRouteResponse { status: Some(Status::ok()), message_queues: brokers.flat_map(queues).collect() })
}

/// Returns the permissions of a topic's queues, in the order of RocketMQ's proxy. With fewer read than write queues,
/// the ids are not those of the broker. Clients need only their number.
fn permissions(topic: &QueuesOf) -> Vec<Permission> {
    let count = |count: i32| usize::try_from(count).unwrap_or(0);
    let (read, write) = (count(topic.read), count(topic.write));
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

/// The endpoints at which a client reaches the brokers of a topic.
struct ReachableEndpoints<'a> {
    call: &'a Call,
    /// Endpoints of this proxy.
    here: Endpoints,
}

impl<'a> ReachableEndpoints<'a> {
    /// Finds the brokers with endpoints of their own.
    async fn by(call: &'a Call, dialled: &Option<Endpoints>, topic: &Topic) -> Self {
        let reached = Self { call, here: endpoints(call, dialled) };
        let addresses = topic.queues.iter().filter_map(|of| direct(call, reached.hosts(), of));
        if let Some(cluster) = call.proxy.brokers.cluster() {
            cluster.try_listeners(addresses.map(str::to_owned)).await;
        }
        reached
    }

    fn hosts(&self) -> impl Iterator<Item = &str> {
        self.here.addresses.iter().map(|address| address.host.as_str())
    }

    /// The endpoints of a broker.
    fn of(&self, queues: &QueuesOf) -> Endpoints {
        match is_direct_from(self.call, self.hosts(), queues) {
            true => endpoints_at(queues.host.clone(), self.call.proxy.port),
            false => self.here.clone(),
        }
    }
}

/// Whether the client of a call reaches a broker at endpoints of that broker's own.
pub fn is_direct(call: &Call, queues: &QueuesOf) -> bool {
    let dialled = call.authority.as_ref().map(|authority| authority.host().trim_matches(['[', ']']));
    is_direct_from(call, dialled.into_iter(), queues)
}

fn is_direct_from<'h>(call: &Call, dialled: impl Iterator<Item = &'h str>, queues: &QueuesOf) -> bool {
    let (address, cluster) = (direct(call, dialled, queues), call.proxy.brokers.cluster());
    address.zip(cluster).is_some_and(|(address, cluster)| cluster.listens(address))
}

/// Returns the address of another broker's own gRPC, whose port is that of this proxy (`ProxyTopicRouteData`). `None`
/// for a client that did not dial the registered host of the broker of this process. Behind a load balancer or
/// address translation, only the dialled address is certainly reachable.
fn direct<'h, 'q>(
    call: &Call,
    mut dialled: impl Iterator<Item = &'h str>,
    queues: &'q QueuesOf,
) -> Option<&'q str> {
    let own = call.proxy.brokers.own_host()?;
    let is_other = !queues.host.is_empty() && queues.host != own;
    (is_other && dialled.any(|host| host == own)).then(|| queues.address(call.proxy.port))
}

fn endpoints_at(host: String, port: u16) -> Endpoints {
    let scheme = match host.parse() {
        Ok(IpAddr::V4(_)) => AddressScheme::Ipv4,
        Ok(IpAddr::V6(_)) => AddressScheme::Ipv6,
        Err(_) => AddressScheme::DomainName,
    };
    Endpoints { scheme: scheme.into(), addresses: vec![Address { host, port: port.into() }] }
}

/// The endpoints of this proxy: the endpoints that the client states as dialled, else the authority of its request, else the host
/// of the server.
fn endpoints(call: &Call, dialled: &Option<Endpoints>) -> Endpoints {
    let proxy = &call.proxy;
    let advertised = || {
        let dialled = call.authority.as_ref();
        let host = dialled.map(|it| it.host().trim_matches(['[', ']']).to_owned());
        let host = host.unwrap_or_else(|| proxy.brokers.host());
        endpoints_at(host, dialled.and_then(Authority::port_u16).unwrap_or(proxy.port))
    };
    let mut endpoints =
        dialled.clone().filter(|dialled| !dialled.addresses.is_empty()).unwrap_or_else(advertised);
    if !proxy.config.names_dialled_port {
        endpoints.addresses.iter_mut().for_each(|address| address.port = proxy.port.into());
    }
    endpoints
}

/// QueryAssignment.
pub async fn query_assignment(
    call: Call,
    request: QueryAssignmentRequest,
) -> Result<QueryAssignmentResponse> {
    let (topic, group) = (name(&request.topic), name(&request.group));
    checks::topic(topic)?;
    checks::group(group)?;
    let brokers = &call.proxy.brokers;
    let known = brokers.whole_topic(topic).await?.ok_or_else(|| topic_missing(topic))?;
    let readable: Vec<&QueuesOf> = known.queues.iter().filter(|queues| queues.is_readable()).collect();
    if readable.is_empty() {
        return Err(Failure::new(Code::Forbidden, "no readable queue"));
    }
    let known_group = brokers.group(group).await?;
    let is_ordered =
        known_group.is_some_and(|it| it.consume_message_orderly && lite::bound_topic(&it).is_none());
    let endpoints = ReachableEndpoints::by(&call, &request.endpoints, &known).await;
    let assigned = |of: &QueuesOf| {
        let ids = if is_ordered { 0..of.read } else { -1..0 };
        let permission = if of.perm & PERM_WRITE == 0 { Permission::Read } else { Permission::ReadWrite };
        let id = of.ids.first().copied().unwrap_or(0);
        let broker = Broker { name: of.broker.clone(), id, endpoints: Some(endpoints.of(of)) };
        let assignment = |id| Assignment {
            message_queue: Some(MessageQueue {
                topic: request.topic.clone(),
                id,
                permission: permission.into(),
                broker: Some(broker.clone()),
                accept_message_types: Vec::new(),
            }),
        };
        ids.map(assignment).collect::<Vec<_>>()
    };
    let assignments = readable.into_iter().flat_map(assigned).collect();
    Ok(QueryAssignmentResponse { status: Some(Status::ok()), assignments })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(read: i32, write: i32, perm: i32, expected: &str) {
        let topic = QueuesOf {
            broker: "b".to_owned(),
            ids: vec![0],
            host: String::new(),
            address: Default::default(),
            perm,
            read,
            write,
        };
        let letter = |permission| match permission {
            Permission::Read => 'r',
            Permission::Write => 'w',
            Permission::ReadWrite => 'b',
            _ => '-',
        };
        assert_eq!(permissions(&topic).into_iter().map(letter).collect::<String>(), expected);
    }

    #[test]
    fn queues_by_permission() {
        check(8, 8, 6, "bbbbbbbb");
        check(4, 8, 6, "wwwwbbbb");
        check(3, 2, 6, "rbb");
        check(2, 4, 4, "rr");
        check(2, 4, 2, "wwww");
        check(2, 4, 0, "----");
        check(0, 0, 0, "-");
    }
}
