//! Admin calls, for operators, tests and the lab.

use crate::remote::accept;
use crate::{Client, Error};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::body::{
    ClusterInfo, ConsumerListByGroup, HaRuntimeInfo, PERM_READ, PERM_WRITE, SubscriptionGroupConfig,
};
use wire::codes::{request, response};
use wire::json;

/// Longest time for an admin call (the default of `MQAdminExt`).
const TIMEOUT: Duration = Duration::from_secs(5);

/// State of a master's slaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// Number of connected slaves.
    pub slaves: usize,
    /// Bytes of the commit log that the slowest of them has not replicated; 0 without slaves.
    pub behind_bytes: u64,
}

impl Client {
    /// Sends any request to a server and returns its answer with the code of success. `write` adds fields and finishes
    /// the frame.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the server does not answer within `timeout`, [`Error::Refused`] when
    /// it answers with another code.
    pub async fn call(
        &self,
        address: &str,
        code: i32,
        timeout: Duration,
        write: impl FnOnce(wire::frame::FrameWriter<'_>),
    ) -> Result<net::Response, Error> {
        self.inner.remote.call(address, code, timeout, write).await
    }

    /// Sends any request to a server and returns its response, whatever its code. `limits` are the timeout and, for a
    /// large request, about its size in bytes: the request waits while too many bytes are in flight.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::Busy`] or [`Error::Call`] when the server does not answer in time.
    pub async fn ask(
        &self,
        address: &str,
        code: i32,
        (timeout, bytes): (Duration, usize),
        write: impl FnOnce(wire::frame::FrameWriter<'_>),
    ) -> Result<net::Response, Error> {
        self.inner.remote.ask_large(address, code, timeout, bytes, write).await
    }

    /// Returns the id of the connection to a server, and makes a connection if there is none. A server that was
    /// restarted has another connection.
    ///
    /// # Errors
    /// [`Error::Connect`] when there is no connection in time.
    pub async fn connection(&self, address: &str, timeout: Duration) -> Result<u64, Error> {
        self.inner.remote.connection(address, timeout).await
    }

    /// Sends any one-way request of about `bytes` bytes to a server.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::Busy`] or [`Error::Call`] when it cannot be sent.
    pub async fn send_one_way(
        &self,
        address: &str,
        code: i32,
        bytes: usize,
        write: impl FnOnce(wire::frame::FrameWriter<'_>),
    ) -> Result<(), Error> {
        self.inner.remote.send_one_way(address, code, bytes, write).await
    }

    /// Passes brokers' requests to clients of a proxy to `take` from now on, on the thread of the connection. These
    /// are all transaction checks (`CHECK_TRANSACTION_STATE`), which then do not go to producers of this client, and
    /// all lite topics that a consumer lost (`NOTIFY_UNSUBSCRIBE_LITE`). The first caller counts.
    pub fn on_request_to_relay(&self, take: impl Fn(&wire::frame::Command<'_>) + Send + Sync + 'static) {
        self.inner.remote.server_requests.pass_to(Box::new(take));
    }

    /// The clusters and broker groups that a name server knows (`GET_BROKER_CLUSTER_INFO`).
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when no name server answers, [`Error::Answer`] when the answer is
    /// malformed.
    pub async fn cluster_info(&self) -> Result<ClusterInfo, Error> {
        let code = request::GET_BROKER_CLUSTER_INFO;
        let (reply, server) = self.inner.remote.ask_name_server(code, |frame| frame.finish(b"")).await?;
        let server = server.to_owned();
        let reply = accept(&server, reply)?;
        json::from_slice(&reply.body).map_err(|why| Error::Answer { address: server, why: why.to_string() })
    }

    /// Addresses of all masters of a cluster; of all clusters when `cluster` is empty.
    ///
    /// # Errors
    /// Errors of [`Client::cluster_info`].
    pub async fn masters(&self, cluster: &str) -> Result<BTreeSet<String>, Error> {
        let info = self.cluster_info().await?;
        let groups = info.broker_addr_table.into_values();
        let wanted = groups.filter(|group| cluster.is_empty() || group.cluster == cluster);
        Ok(wanted.filter_map(|mut group| group.broker_addrs.remove(&crate::route::MASTER)).collect())
    }

    /// Creates a topic on a broker, or changes its number of queues (`UPDATE_AND_CREATE_TOPIC`).
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses the
    /// name or number.
    pub async fn create_topic(&self, broker: &str, topic: &str, queues: u32) -> Result<(), Error> {
        let write = |frame: wire::frame::FrameWriter<'_>| {
            frame
                .text("topic", topic)
                .text("defaultTopic", wire::names::DEFAULT_TOPIC)
                .number("readQueueNums", queues)
                .number("writeQueueNums", queues)
                .number("perm", PERM_READ | PERM_WRITE)
                .text("topicFilterType", "SINGLE_TAG")
                .number("topicSysFlag", 0)
                .flag("order", false)
                .finish(b"");
        };
        self.inner.remote.call(broker, request::UPDATE_AND_CREATE_TOPIC, TIMEOUT, write).await.map(|_| ())
    }

    /// Returns the client ids of the members of a consumer group. Empty without members.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses.
    pub async fn consumer_ids(&self, broker: &str, group: &str) -> Result<Vec<String>, Error> {
        let write = |frame: wire::frame::FrameWriter<'_>| frame.text("consumerGroup", group).finish(b"");
        let reply = self.inner.remote.call(broker, request::GET_CONSUMER_LIST_BY_GROUP, TIMEOUT, write).await;
        match reply {
            Err(error) if error.code() == Some(response::SYSTEM_ERROR) => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(reply) => json::from_slice::<ConsumerListByGroup>(&reply.body)
                .map(|list| list.consumer_id_list)
                .map_err(|why| Error::Answer { address: broker.to_owned(), why: why.to_string() }),
        }
    }

    /// Runtime information of a broker (`GET_BROKER_RUNTIME_INFO`): figures as text, by name.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses.
    pub async fn broker_runtime(&self, broker: &str) -> Result<BTreeMap<String, String>, Error> {
        #[derive(serde::Deserialize)]
        struct Table {
            table: BTreeMap<String, String>,
        }
        let reply = self.inner.remote.call(broker, request::GET_BROKER_RUNTIME_INFO, TIMEOUT, |frame| {
            frame.finish(b"");
        });
        json::from_slice::<Table>(&reply.await?.body)
            .map(|table| table.table)
            .map_err(|why| Error::Answer { address: broker.to_owned(), why: why.to_string() })
    }

    /// Settings of a broker (`GET_BROKER_CONFIG`), by name.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses.
    pub async fn broker_config(&self, broker: &str) -> Result<BTreeMap<String, String>, Error> {
        let reply = self.inner.remote.call(broker, request::GET_BROKER_CONFIG, TIMEOUT, |frame| {
            frame.finish(b"");
        });
        let text = String::from_utf8_lossy(&reply.await?.body).into_owned();
        let settings = text.lines().filter_map(|line| line.split_once('='));
        Ok(settings.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
    }

    /// Changes a setting of a running broker (`UPDATE_BROKER_CONFIG`). Returns the remark of the broker, for example
    /// that the setting has no effect. Empty without a remark.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses the
    /// setting.
    pub async fn set_broker_config(&self, broker: &str, key: &str, value: &str) -> Result<String, Error> {
        let body = format!("{key}={value}\n");
        let write = |frame: wire::frame::FrameWriter<'_>| frame.finish(body.as_bytes());
        let reply = self.inner.remote.call(broker, request::UPDATE_BROKER_CONFIG, TIMEOUT, write).await?;
        Ok(reply.remark.unwrap_or_default())
    }

    /// Returns the slaves of a master (`GET_BROKER_HA_STATUS`).
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it does not know
    /// the request.
    pub async fn replication(&self, broker: &str) -> Result<Replication, Error> {
        let reply = self.inner.remote.call(broker, request::GET_BROKER_HA_STATUS, TIMEOUT, |frame| {
            frame.finish(b"");
        });
        let slaves = json::from_slice::<HaRuntimeInfo>(&reply.await?.body)
            .map_err(|why| Error::Answer { address: broker.to_owned(), why: why.to_string() })?
            .ha_connection_info;
        let behind = slaves.iter().map(|slave| slave.diff.max(0).unsigned_abs()).max();
        Ok(Replication { slaves: slaves.len(), behind_bytes: behind.unwrap_or_default() })
    }

    /// Deletes a topic on a broker (`DELETE_TOPIC_IN_BROKER`). Succeeds also if the topic does not exist.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses.
    pub async fn delete_topic(&self, broker: &str, topic: &str) -> Result<(), Error> {
        let write = |frame: wire::frame::FrameWriter<'_>| frame.text("topic", topic).finish(b"");
        self.inner.remote.call(broker, request::DELETE_TOPIC_IN_BROKER, TIMEOUT, write).await.map(|_| ())
    }

    /// Deletes the route of a topic from a name server (`DELETE_TOPIC_IN_NAMESRV`), because brokers do not remove it
    /// there.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the name server does not answer, [`Error::Refused`] when it refuses.
    pub async fn delete_route(&self, name_server: &str, topic: &str) -> Result<(), Error> {
        let write = |frame: wire::frame::FrameWriter<'_>| frame.text("topic", topic).finish(b"");
        self.inner
            .remote
            .call(name_server, request::DELETE_TOPIC_IN_NAMESRV, TIMEOUT, write)
            .await
            .map(|_| ())
    }

    /// Creates a consumer group with the defaults on a broker (`UPDATE_AND_CREATE_SUBSCRIPTIONGROUP`). Replaces the
    /// settings of an existing group.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses.
    pub async fn create_group(&self, broker: &str, group: &str) -> Result<(), Error> {
        let body = json::to_vec(&SubscriptionGroupConfig::new(group));
        let write = |frame: wire::frame::FrameWriter<'_>| frame.finish(&body);
        let code = request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
        self.inner.remote.call(broker, code, TIMEOUT, write).await.map(|_| ())
    }

    /// Deletes a consumer group and its offsets on a broker (`DELETE_SUBSCRIPTIONGROUP`). Succeeds also if the group
    /// does not exist.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses.
    pub async fn delete_group(&self, broker: &str, group: &str) -> Result<(), Error> {
        let write = |frame: wire::frame::FrameWriter<'_>| {
            frame.text("groupName", group).flag("cleanOffset", true).finish(b"");
        };
        self.inner.remote.call(broker, request::DELETE_SUBSCRIPTIONGROUP, TIMEOUT, write).await.map(|_| ())
    }
}
