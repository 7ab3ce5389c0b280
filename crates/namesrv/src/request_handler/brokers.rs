//! Requests that brokers send about themselves.

use std::collections::HashMap;
use std::io::Read;
use std::time::Duration;

use flate2::read::ZlibDecoder;
use serde::Deserialize;
use wire::body::{
    DataVersion, PART_OF_TABLE, PackedError, RegisterBrokerBody, TopicConfig, TopicQueueMapping,
};
use wire::codes::{VERSION_3_0_11, response};
use wire::fields::Fields;
use wire::json::{self, JsonError};

use super::{Refusal, RequestContext, RequestHandler};
use crate::kv::ORDER_TOPIC_CONFIG;
use crate::{Content, Departure, RegisterResult, Registration, TopicQueues};

/// Time without heartbeat after which a broker counts as lost, unless it registered another timeout
/// (`DEFAULT_BROKER_CHANNEL_EXPIRED_TIME`).
const TIMEOUT: Duration = Duration::from_secs(120);

/// Used members of `RegisterBrokerBody`. Others are not even allocated.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RegisterBody {
    filter_server_list: Option<Vec<String>>,
    topic_config_serialize_wrapper: RegisterTopics,
}

/// The members of `TopicConfigAndMappingSerializeWrapper` that are used.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RegisterTopics {
    data_version: DataVersion,
    topic_config_table: HashMap<String, TopicQueues>,
    topic_queue_mapping_info_map: HashMap<String, TopicQueueMapping>,
}

impl From<RegisterBody> for Content {
    fn from(body: RegisterBody) -> Self {
        let topics = body.topic_config_serialize_wrapper;
        Self {
            filter_servers: body.filter_server_list,
            version: topics.data_version,
            topics: topics.topic_config_table,
            mappings: topics.topic_queue_mapping_info_map,
        }
    }
}

impl From<RegisterBrokerBody> for Content {
    fn from(body: RegisterBrokerBody) -> Self {
        let topics = body.topic_config_serialize_wrapper;
        let queues = |topic: TopicConfig| TopicQueues {
            perm: topic.perm,
            read_queue_nums: topic.read_queue_nums,
            topic_sys_flag: topic.topic_sys_flag,
            write_queue_nums: topic.write_queue_nums,
        };
        Self {
            filter_servers: body.filter_server_list,
            version: topics.data_version,
            topics: topics
                .topic_config_table
                .into_iter()
                .map(|(name, topic)| (name, queues(topic)))
                .collect(),
            mappings: topics.topic_queue_mapping_info_map.into_iter().collect(),
        }
    }
}

/// Parses the body of a registration in any of its formats.
///
/// RocketMQ 5.x brokers compress by their configuration but always send `compressed=false`, so the first byte decides.
fn content(body: &[u8], version: i32, bytes_max: usize, topics_max: usize) -> Result<Content, Refusal> {
    let undecodable = |error: String| Refusal::error(format!("Failed to decode RegisterBrokerBody, {error}"));
    let malformed = |error: JsonError| {
        let is_full = error.reason == json::TOO_MANY_ELEMENTS;
        let bound = if is_full { format!(" (topicsPerBrokerMax is {topics_max})") } else { String::new() };
        undecodable(format!("{error}{bound}"))
    };
    if body.is_empty() {
        return Ok(Content::default());
    }
    // Topics, their mappings and filter servers.
    let elements_max = topics_max.saturating_mul(3);
    if version < VERSION_3_0_11 {
        let topics: RegisterTopics = json::from_slice_within(body, elements_max).map_err(malformed)?;
        return Ok(RegisterBody { topic_config_serialize_wrapper: topics, ..RegisterBody::default() }.into());
    }
    if body[0] != b'x' {
        let body: RegisterBody = json::from_slice_within(body, elements_max).map_err(malformed)?;
        return Ok(body.into());
    }
    let mut packed = Vec::new();
    let read = ZlibDecoder::new(body).take(bytes_max as u64 + 1).read_to_end(&mut packed);
    read.map_err(|error| undecodable(error.to_string()))?;
    if packed.len() > bytes_max {
        return Err(undecodable(format!(
            "expected at most {bytes_max} bytes when inflated (registrationBytesMax), found more"
        )));
    }
    match RegisterBrokerBody::from_packed(&packed, version, topics_max) {
        Ok(body) => Ok(body.into()),
        Err(PackedError::Json(error)) => Err(malformed(error)),
        Err(error @ PackedError::TooMany { .. }) => Err(undecodable(format!("{error} (topicsPerBrokerMax)"))),
        Err(error) => Err(undecodable(error.to_string())),
    }
}

/// Parses an optional number in a header field.
fn maybe_number<T: TryFrom<i64>>(fields: &Fields<'_>, key: &'static str) -> Result<Option<T>, Refusal> {
    if fields.bytes(key).is_none() { Ok(None) } else { Ok(Some(fields.need_number(key)?)) }
}

impl RequestHandler {
    /// Serves `REGISTER_BROKER`.
    pub(super) fn register(&self, mut context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let command = context.command;
        let fields = &command.fields;
        let crc = fields.number_or::<u32>("bodyCrc32", 0)?;
        if crc != 0 && crc != crc32fast::hash(command.body) & 0x7fff_ffff {
            return Err(Refusal::error("crc32 not match"));
        }
        let timeout = maybe_number(fields, "heartbeatTimeoutMillis")?.map_or(TIMEOUT, Duration::from_millis);
        let (bounds, bytes_max, prune, with_order) = {
            let config = self.config.read();
            let prune = config.delete_topic_with_broker_registration && !fields.flag_or(PART_OF_TABLE, false);
            let with_order = config.return_order_topic_config_to_broker;
            (config.bounds(), config.registration_bytes_max, prune, with_order)
        };
        let registration = Registration {
            cluster: fields.need("clusterName")?,
            broker: fields.need("brokerName")?,
            address: fields.need("brokerAddr")?,
            id: fields.need_number("brokerId")?,
            ha_address: fields.text("haServerAddr").unwrap_or_default(),
            zone: fields.text("__ZONE_NAME"),
            acting_master: fields.bytes("enableActingMaster").map(|text| text.eq_ignore_ascii_case(b"true")),
            timeout,
            connection: context.connection,
            content: content(command.body, command.version, bytes_max, bounds.topics_per_broker)?,
        };
        let master = match self.routes.register(context.now, &registration, prune, &bounds) {
            RegisterResult::Incomplete => return Err(Refusal::error("register broker failed")),
            RegisterResult::Refused(excess) => {
                let Registration { broker, address, .. } = registration;
                tracing::warn!(broker, address, %excess, "a registration was refused");
                return Err(Refusal::error(format!("register broker failed: {excess}")));
            }
            RegisterResult::Fenced => None,
            RegisterResult::Accepted { master, notice, replaced } => {
                self.notify(notice);
                if let Some(replaced) = replaced {
                    let Registration { broker, id, address, .. } = registration;
                    tracing::warn!(
                        broker,
                        id,
                        address,
                        replaced,
                        "a broker took the name and id of another one that was heard of shortly before; if both run, clients reach only one of them: \
                         stop one, or give it another brokerName"
                    );
                }
                master
            }
        };
        let order = if with_order { self.kv_table(ORDER_TOPIC_CONFIG) } else { None };
        let body = order.unwrap_or_default();
        let master = master.as_ref();
        context
            .response()
            .maybe("haServerAddr", master.map(|master| master.ha_address.as_str()))
            .maybe("masterAddr", master.map(|master| master.address.as_str()))
            .finish(&body);
        Ok(())
    }

    /// Serves `UNREGISTER_BROKER` at once; the broker is removed by the next [`RequestHandler::settle`].
    pub(super) fn unregister(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let fields = &context.command.fields;
        let departure = Departure {
            cluster: fields.need("clusterName")?.to_owned(),
            broker: fields.need("brokerName")?.to_owned(),
            address: fields.need("brokerAddr")?.to_owned(),
            id: fields.need_number("brokerId")?,
            connection: None,
        };
        let max = self.config.read().departures_max;
        if !self.depart([departure], max) {
            return Err(Refusal { code: response::SYSTEM_ERROR, remark: None });
        }
        context.finish(&[])
    }

    /// Serves `QUERY_DATA_VERSION`: a heartbeat that asks whether a full registration is needed.
    pub(super) fn query_data_version(&self, mut context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let fields = &context.command.fields;
        let (cluster, address) = (fields.need("clusterName")?, fields.need("brokerAddr")?);
        let given: DataVersion = match context.command.body {
            [] => DataVersion::default(),
            body => json::from_slice(body).map_err(|error| Refusal::error(error.to_string()))?,
        };
        self.routes.touch(context.now, cluster, address);
        let stored = self.routes.read().live(cluster, address).map(|live| live.version);
        let body = stored.map(|version| json::to_vec(&version)).unwrap_or_default();
        context.response().flag("changed", stored != Some(given)).finish(&body);
        Ok(())
    }

    /// Serves `BROKER_HEARTBEAT`: an unregistered broker is no error and stays unregistered.
    pub(super) fn heartbeat(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let fields = &context.command.fields;
        let (cluster, address) = (fields.need("clusterName")?, fields.need("brokerAddr")?);
        self.routes.touch(context.now, cluster, address);
        context.finish(&[])
    }
}
