//! The remoting port of a proxy without a broker: what operators ask about consumers (`ConsumerManagerActivity`).

use std::sync::Arc;
use std::time::Duration;

use auth::{Action, Actions, Needed, Resource};
use net::{ConnectionHandle, Service};
use wire::body::ConsumerListByGroup;
use wire::codes::{request, response};
use wire::frame::Command;
use wire::json;

use super::Cluster;

/// Answers the requests of remoting connections.
pub struct Answers(pub Arc<Cluster>);

impl Answers {
    /// Whether a request may be answered. An address that fails often loses its connection instead of an answer that comes late.
    fn admit(&self, command: &Command<'_>, connection: &ConnectionHandle) -> Result<(), (i32, String)> {
        let Some(users) = &self.0.users else { return Ok(()) };
        let actions: &[Action] = match command.code {
            request::GET_CONSUMER_LIST_BY_GROUP => &[Action::Sub, Action::Get],
            _ => &[Action::Get],
        };
        let group = Resource::group(command.fields.text("consumerGroup").unwrap_or_default());
        let needed = Needed { resource: group, actions: Actions::of(actions) };
        users.admit(client::now_ms(), command, connection, needed).map_err(|refused| {
            if refused.wait != Some(Duration::ZERO) {
                connection.abort();
            }
            (refused.refusal.code, refused.refusal.remark.into_owned())
        })
    }

    fn answer(&self, command: &Command<'_>, connection: &ConnectionHandle) -> Result<Vec<u8>, (i32, String)> {
        self.admit(command, connection)?;
        let consumers = &self.0.consumers;
        let group = command.fields.text("consumerGroup").unwrap_or_default();
        match command.code {
            request::GET_CONSUMER_CONNECTION_LIST => {
                let online = consumers.connections(group).ok_or_else(|| {
                    (response::CONSUMER_NOT_ONLINE, format!("the consumer group[{group}] not online"))
                });
                online.map(|found| json::to_vec(&found))
            }
            request::GET_CONSUMER_LIST_BY_GROUP => {
                Ok(json::to_vec(&ConsumerListByGroup { consumer_id_list: consumers.client_ids(group) }))
            }
            code => {
                let text = format!(
                    "request {code} is not served by a proxy without a broker; clients of remoting connect to the brokers"
                );
                Err((response::REQUEST_CODE_NOT_SUPPORTED, text))
            }
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
        if command.is_response() || command.is_one_way() {
            return;
        }
        match self.answer(&command, connection) {
            Ok(body) => command.reply(response::SUCCESS).write(out, &body),
            Err((code, remark)) => command.reply(code).remark(&remark).write(out, b""),
        }
    }
}
