//! Remoting port of a proxy without a broker (`RemotingProtocolServer`). The proxy answers requests about routes and
//! group members. Requests about messages, offsets and locks go to the broker that they name.

mod forward;

use std::sync::Arc;

use auth::ResponseTime;
use broker::Refusal;
use broker::api::{RouteForm, no_route, served_by_proxy};
use net::{ConnectionHandle, Response, Service};
use tokio::task::spawn_local;
use wire::body::{ConsumerListByGroup, HeartbeatData};
use wire::codes::{request, response};
use wire::frame::Command;
use wire::json;
use wire::record::sys_flag;

use super::Cluster;
use super::heartbeat_sync::ConsumerHeartbeat;
use super::remoting_clients::Kind;
use forward::{Forward, WAITING_BYTES, give, lacks_subscription, refusal};

/// Answers the requests of remoting connections.
pub struct Answers {
    cluster: Arc<Cluster>,
    /// Address in routes. `None` for the local address of the connection.
    route_address: Option<Arc<str>>,
}

/// The body of an answer; `None` when the answer comes later.
type PortResponse = Result<Option<Vec<u8>>, Refusal>;

impl Answers {
    /// Makes the handler of a cluster's port. Routes contain `route_address` if it is set.
    pub fn new(cluster: Arc<Cluster>, route_address: Option<Arc<str>>) -> Self {
        Self { cluster, route_address }
    }

    /// Checks that a request may be answered. An address with many failed authentications loses its connection, where
    /// a broker would answer late.
    fn admit(&self, command: &Command<'_>, connection: &ConnectionHandle) -> Result<(), Refusal> {
        let Some(users) = &self.cluster.users else { return Ok(()) };
        users.admit(client::now_ms(), command, connection, &self.cluster.name).map_err(|denied| {
            if denied.response_time != ResponseTime::Now {
                connection.abort();
            }
            denied.error.into()
        })
    }

    fn answer(&self, command: &Command<'_>, connection: &Arc<ConnectionHandle>) -> PortResponse {
        self.admit(command, connection)?;
        let group = command.fields.text("consumerGroup").unwrap_or_default();
        match command.code {
            request::GET_CONSUMER_CONNECTION_LIST => {
                let online = self.cluster.consumers.connections(group).ok_or_else(|| {
                    let text = format!("the consumer group[{group}] not online");
                    Refusal::new(response::CONSUMER_NOT_ONLINE, text)
                })?;
                Ok(Some(json::to_vec(&online)))
            }
            request::GET_CONSUMER_LIST_BY_GROUP => {
                let consumer_id_list = self.cluster.consumers.client_ids(group);
                Ok(Some(json::to_vec(&ConsumerListByGroup { consumer_id_list })))
            }
            request::HEART_BEAT => self.heartbeat(command, connection),
            request::UNREGISTER_CLIENT => Ok(self.unregister(command, connection)),
            request::GET_ROUTEINFO_BY_TOPIC => self.route(command, connection),
            code if served_by_proxy(code) => self.forward(command, connection),
            code => {
                let text =
                    format!("request {code} is not served by a proxy without a broker; ask the brokers");
                Err(Refusal::new(response::REQUEST_CODE_NOT_SUPPORTED, text))
            }
        }
    }

    /// Takes a heartbeat (34). Of these clients brokers hear only of producers of transactions (`super::heartbeat`).
    fn heartbeat(&self, command: &Command<'_>, connection: &Arc<ConnectionHandle>) -> PortResponse {
        let failed = |text: String| Refusal::new(response::SYSTEM_ERROR, text);
        let data: HeartbeatData =
            json::from_request(command.body).map_err(|error| failed(error.to_string()))?;
        self.cluster.remoting.enter(connection, &data)?;
        let heartbeat = ConsumerHeartbeat {
            remote: connection.remote(),
            stated: None,
            client_id: &data.client_id,
            language: command.language,
            version: command.version,
        };
        self.cluster.consumer_heard(&heartbeat, &data.consumer_data_set);
        Ok(Some(Vec::new()))
    }

    /// Removes a client from its groups (35).
    fn unregister(&self, command: &Command<'_>, connection: &ConnectionHandle) -> Option<Vec<u8>> {
        if let Some(group) = command.fields.text("producerGroup") {
            self.cluster.remoting.left(connection.id(), Kind::Producer, group);
        }
        if let Some(group) = command.fields.text("consumerGroup")
            && let Some(client_id) = self.cluster.remoting.left(connection.id(), Kind::Consumer, group)
        {
            self.cluster.consumer_left(connection.remote(), group.to_owned(), client_id);
        }
        Some(Vec::new())
    }

    /// Answers with the route of a topic (105), after the name servers' response.
    fn route(&self, command: &Command<'_>, connection: &Arc<ConnectionHandle>) -> PortResponse {
        let topic = command.fields.need("topic").map_err(Refusal::from)?.to_owned();
        if topic.is_empty() {
            return Err(no_route(&topic));
        }
        let form = RouteForm::new(command, self.route_address.as_deref(), connection.local());
        let (cluster, connection, head) =
            (self.cluster.clone(), connection.clone(), command.response(response::SUCCESS));
        let charge = connection.charge(topic.len() + WAITING_BYTES);
        spawn_local(async move {
            let found = cluster.route(&topic).await.map_err(refusal);
            let reply = match found.and_then(|route| route.ok_or_else(|| no_route(&topic))) {
                Ok(route) => Response { body: form.body(route.as_ref().clone()), ..Response::default() },
                Err(Refusal { code, remark, .. }) => {
                    Response { code, remark: Some(remark.into_owned()), ..Response::default() }
                }
            };
            give(&connection, head, reply);
            drop(charge);
        });
        Ok(None)
    }

    fn forward(&self, command: &Command<'_>, connection: &Arc<ConnectionHandle>) -> PortResponse {
        self.note_half_message(command, connection);
        let subscription = lacks_subscription(command).then(|| {
            let text = |name| command.fields.text(name).unwrap_or_default();
            self.cluster.consumers.subscription(text("consumerGroup"), text("topic"))
        });
        let forward = Forward::new(command, subscription.transpose()?.as_ref())?;
        let bound = forward.bound(&self.cluster, connection)?;
        spawn_local(forward.run(self.cluster.clone(), connection.clone(), bound));
        Ok(None)
    }

    /// Prepares for the later check-back of a half message's broker: the broker must know the producer's group by
    /// then.
    fn note_half_message(&self, command: &Command<'_>, connection: &Arc<ConnectionHandle>) {
        let (flags, group) = match command.code {
            request::SEND_MESSAGE => ("sysFlag", "producerGroup"),
            request::SEND_MESSAGE_V2 => ("f", "a"),
            _ => return,
        };
        let flags = command.fields.number_or(flags, 0).unwrap_or(0);
        if sys_flag::transaction(flags) == sys_flag::TRANSACTION_PREPARED
            && let Some(group) = command.fields.text(group)
            && self.cluster.remoting.half_sent(connection, group)
        {
            self.cluster.producers_changed.notify_one();
        }
    }
}

impl Service for Answers {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(
        &self,
        (): &mut (),
        connection: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) {
        if command.is_response() {
            return;
        }
        let answer = self.answer(&command, connection);
        if command.is_one_way() {
            return;
        }
        match answer {
            Ok(Some(body)) => command.response(response::SUCCESS).write(out, &body),
            Ok(None) => {}
            Err(refused) => command.response(refused.code).remark(&refused.remark).write(out, b""),
        }
    }

    fn closed(&self, connection: &Arc<ConnectionHandle>) {
        for (group, client_id) in self.cluster.remoting.closed(connection.id()) {
            self.cluster.consumer_left(connection.remote(), group, client_id);
        }
    }
}
