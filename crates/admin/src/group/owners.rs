//! Which members have the queues of a group, as far as the members say.

use crate::request::for_each;
use crate::stats::{self, SILENT_MAX};
use crate::{Error, Session};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use wire::body::{Connection, ConsumerRunningInfo, MessageQueue};
use wire::codes::response;

/// Queue id that stands for all queues of a topic on a broker, in reports of members that pop
/// (`QueryAssignmentProcessor`).
const ALL_QUEUES: i32 = -1;

/// The member that has a queue. Without an id no member has the queue, or the owner is unknown.
#[derive(Serialize, Clone, Default, Debug, PartialEq, Eq)]
pub struct QueueOwner {
    /// Address of the member without its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ip: Option<String>,
    /// Id of the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Number of members that pop from the queue, when several do; `client_id` is the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<usize>,
    /// Whether a member that did not say which queues it has may have this queue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_unknown: bool,
    #[serde(skip)]
    is_popping: bool,
}

impl QueueOwner {
    /// Address of a member that pulls the queue. `mqadmin` knows no others
    /// (`ConsumerProgressSubCommand.getMessageQueueAllocationResult`).
    pub(super) fn puller_ip(&self) -> Option<&str> {
        self.client_ip.as_deref().filter(|_| !self.is_popping)
    }
}

/// The members of a group by their queues.
#[derive(Default)]
pub(super) struct Owners {
    pulling: BTreeMap<MessageQueue, Connection>,
    popping: BTreeMap<MessageQueue, Vec<Connection>>,
    /// Whether all members said which queues they have.
    pub is_complete: bool,
    /// The members with the status of each; `None` for a member that did not report a status.
    pub members: Vec<(Connection, Option<ConsumerRunningInfo>)>,
    /// Ids of members that cannot report a status, such as clients of gRPC.
    without_status: BTreeSet<String>,
}

impl Owners {
    /// Asks the members, a few at once. After [`SILENT_MAX`] that did not answer in time, the others are not asked.
    pub async fn ask(session: &Session, group: &str) -> Self {
        let (members, broker) = match stats::connection_and_broker(session, group, None).await {
            Ok((connection, broker)) => (connection.connection_set, broker),
            Err(why) if why.code() == Some(response::CONSUMER_NOT_ONLINE) => return Self::new(Vec::new()),
            Err(_) => return Self::default(),
        };
        let silent = AtomicUsize::new(0);
        let (silent, broker) = (&silent, broker.as_str());
        let said = for_each(members, |member: Connection| async move {
            if silent.load(Relaxed) >= SILENT_MAX {
                return (member, None, false);
            }
            let info = stats::brief_running_info(session, broker, (group, &member.client_id)).await;
            if info.as_ref().is_err_and(is_silent) {
                silent.fetch_add(1, Relaxed);
            }
            let has_none = info.as_ref().is_err_and(|why| stats::has_no_status(&why.to_string()));
            (member, info.ok(), has_none)
        });
        let said = said.await;
        let without_status = said.iter().filter(|it| it.2).map(|it| it.0.client_id.clone()).collect();
        let members = said.into_iter().map(|(member, info, _)| (member, info)).collect();
        Self { without_status, ..Self::new(members) }
    }

    /// Whether a member, with its status, did not answer.
    pub fn is_silent(&self, (member, info): &(Connection, Option<ConsumerRunningInfo>)) -> bool {
        info.is_none() && !self.without_status.contains(&member.client_id)
    }

    fn new(members: Vec<(Connection, Option<ConsumerRunningInfo>)>) -> Self {
        let mut owners = Self { is_complete: true, ..Self::default() };
        for (member, info) in &members {
            owners.is_complete &= info.as_ref().is_some_and(tells_queues);
            let Some(ConsumerRunningInfo { mq_table, mq_pop_table, .. }) = info else { continue };
            owners.pulling.extend(mq_table.keys().map(|queue| (queue.clone(), member.clone())));
            for queue in mq_pop_table.keys() {
                owners.popping.entry(queue.clone()).or_default().push(member.clone());
            }
        }
        Self { members, ..owners }
    }

    /// The member that has a queue.
    pub fn of(&self, queue: &MessageQueue) -> QueueOwner {
        if let Some(member) = self.pulling.get(queue) {
            return owner(member);
        }
        let all = MessageQueue { queue_id: ALL_QUEUES, ..queue.clone() };
        let popping = [queue, &all].into_iter().filter_map(|queue| self.popping.get(queue));
        let popping: Vec<_> = popping.flatten().collect();
        match popping.first() {
            Some(member) => {
                let clients = Some(popping.len()).filter(|count| *count > 1);
                QueueOwner { clients, is_popping: true, ..owner(member) }
            }
            None => QueueOwner { owner_unknown: !self.is_complete, ..QueueOwner::default() },
        }
    }
}

/// Whether a member says which queues it has. A `DefaultMQPullConsumer` and an older `DefaultLitePullConsumer` name none
/// (`consumerRunningInfo` of both).
fn tells_queues(info: &ConsumerRunningInfo) -> bool {
    let pulls = info.properties.get("PROP_CONSUME_TYPE").is_some_and(|kind| kind == "CONSUME_ACTIVELY");
    !pulls || !info.mq_table.is_empty()
}

/// Whether an error is a timeout: of the operator's wait for the broker, or of the broker's wait for the member. Other
/// refusals come at once.
fn is_silent(why: &Error) -> bool {
    why.code().is_none_or(|code| code == response::CONSUME_MSG_TIMEOUT)
}

fn owner(member: &Connection) -> QueueOwner {
    let address = member.client_addr.as_str();
    let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
    QueueOwner {
        client_ip: Some(ip.to_owned()),
        client_id: Some(member.client_id.clone()),
        ..QueueOwner::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Received, ServerAnswer, with_cluster};
    use std::sync::Arc;
    use wire::body::ConsumerConnection;
    use wire::codes::request;

    fn member(id: &str) -> Connection {
        Connection { client_id: id.to_owned(), client_addr: format!("{id}:1"), ..Connection::default() }
    }

    fn queue(id: i32) -> MessageQueue {
        MessageQueue::new("T", "a", id)
    }

    fn pulls(id: i32) -> Option<ConsumerRunningInfo> {
        let mq_table = [(queue(id), serde_json::Value::Null)].into();
        Some(ConsumerRunningInfo { mq_table, ..ConsumerRunningInfo::default() })
    }

    fn pops(id: i32) -> Option<ConsumerRunningInfo> {
        let mq_pop_table = [(queue(id), serde_json::Value::Null)].into();
        Some(ConsumerRunningInfo { mq_pop_table, ..ConsumerRunningInfo::default() })
    }

    fn check(members: &[(&str, Option<ConsumerRunningInfo>)], id: i32) -> String {
        let members = members.iter().map(|(id, info)| (member(id), info.clone())).collect();
        let owner = Owners::new(members).of(&queue(id));
        let (id, ip) = (owner.client_id.clone().unwrap_or_default(), owner.puller_ip().unwrap_or("N/A"));
        format!("{id} {ip} {:?} {}", owner.clients, owner.owner_unknown)
    }

    #[test]
    fn members_that_pop_have_queues_too() {
        assert_eq!(check(&[("x", pulls(0)), ("y", pulls(1))], 1), "y y None false");
        assert_eq!(check(&[("x", pops(0)), ("y", pops(1))], 1), "y N/A None false");
        assert_eq!(check(&[("x", pops(-1)), ("y", pops(-1))], 1), "x N/A Some(2) false");
    }

    #[test]
    fn a_queue_that_a_silent_member_may_have_is_not_said_to_be_nobodys() {
        assert_eq!(check(&[("x", pulls(0)), ("y", None)], 1), " N/A None true");
        assert_eq!(check(&[("x", pulls(0)), ("y", None)], 0), "x x None false");
        assert_eq!(check(&[("x", pulls(0))], 1), " N/A None false");
    }

    #[test]
    fn only_a_few_silent_members_are_waited_for() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let answers = move |_: &str, asked: &Received| match asked.code {
            request::GET_CONSUMER_CONNECTION_LIST => {
                let connection_set = (0..100).map(|id| member(&id.to_string())).collect();
                ServerAnswer::body(&ConsumerConnection { connection_set, ..ConsumerConnection::default() })
            }
            _ => {
                count.fetch_add(1, Relaxed);
                ServerAnswer::refused(response::CONSUME_MSG_TIMEOUT)
            }
        };
        with_cluster(&["a"], answers, async |session: &Session| {
            assert!(Owners::ask(session, "G").await.of(&queue(0)).owner_unknown);
        });
        assert!(asked.load(Relaxed) < 40, "{asked:?}");
    }
}
