//! Calls of administrators, tests and the lab.

use crate::remote::accept;
use crate::{Client, Error};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::body::{ClusterInfo, ConsumerListByGroup, PERM_READ, PERM_WRITE};
use wire::codes::{request, response};
use wire::json;

/// How long an administrative call may take (`MQAdminExt` default).
const TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// The broker groups a name server knows.
    ///
    /// # Errors
    /// No name server answers.
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
    /// No name server answers.
    pub async fn masters(&self, cluster: &str) -> Result<BTreeSet<String>, Error> {
        let info = self.cluster_info().await?;
        let groups = info.broker_addr_table.into_values();
        let wanted = groups.filter(|group| cluster.is_empty() || group.cluster == cluster);
        Ok(wanted.filter_map(|mut group| group.broker_addrs.remove(&crate::route::MASTER)).collect())
    }

    /// Creates a topic on one broker, or changes its number of queues (`UPDATE_AND_CREATE_TOPIC`).
    ///
    /// # Errors
    /// The broker does not answer or refuses the name or number.
    pub async fn create_topic(&self, broker: &str, topic: &str, queues: u32) -> Result<(), Error> {
        let write = |frame: wire::frame::FrameWriter<'_>| {
            frame
                .text("topic", topic)
                .text("defaultTopic", crate::client::TEMPLATE_TOPIC)
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

    /// Client ids of the members of a consumer group, empty when there are none.
    ///
    /// # Errors
    /// The broker does not answer.
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
}
