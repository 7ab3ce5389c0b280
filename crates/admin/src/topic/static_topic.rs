//! Static topics: a fixed number of queues that are mapped to queues of brokers (`UpdateStaticTopicSubCommand`).

use crate::operation::Written;
use crate::request::{Request, body};
use crate::session::Member;
use crate::{Arguments, Error, Session, stats};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::body::TopicConfig;
use wire::codes::{request, response};

/// A topic on a broker and its mapping (`TopicConfigAndQueueMapping`).
#[derive(Deserialize)]
struct Mapped {
    #[serde(flatten)]
    config: TopicConfig,
    #[serde(rename = "mappingDetail")]
    detail: Option<Detail>,
}

/// A mapping on one broker (`TopicQueueMappingDetail`).
#[derive(Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    topic: String,
    #[serde(default)]
    scope: Option<String>,
    total_queues: i32,
    bname: String,
    epoch: i64,
    #[serde(default)]
    dirty: bool,
    /// Queues on brokers, for each queue of the topic that the broker has. The current one is last.
    #[serde(default)]
    hosted_queues: Map<String, Value>,
}

/// The topic on each master that has it, by broker set.
async fn existing(
    session: &Session,
    masters: &[Member],
    topic: &str,
) -> Result<BTreeMap<String, Mapped>, Error> {
    let ask = Request::new(request::GET_TOPIC_CONFIG).with("topic", topic).with("lo", true);
    let mut found = BTreeMap::new();
    for master in masters {
        let reply = match session.look(&master.address, &ask).await {
            Err(why) if why.code() == Some(response::TOPIC_NOT_EXIST) => continue,
            reply => reply?,
        };
        let mapped: Mapped = body(&master.address, &reply)?;
        if mapped.detail.is_none() {
            return Err(Error::Usage(format!("Mapping info should not be null in broker {}", master.name)));
        }
        found.insert(master.name.clone(), mapped);
    }
    Ok(found)
}

/// Returns all masters, and the names of the masters that the arguments mean.
async fn targets(session: &Session, arguments: &Arguments) -> Result<(Vec<Member>, Vec<String>), Error> {
    let mut masters = session.members(None).await?;
    masters.retain(|member| member.id == 0);
    let names = |list: &str| list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let (brokers, mut clusters) = (arguments.get("brokers").map(names), arguments.get("clusters").map(names));
    if brokers.is_none() && clusters.is_none() {
        clusters = Some(vec![session.cluster(arguments).await?]);
    }
    let meant = |member: &&Member| match (&brokers, &clusters) {
        (Some(brokers), _) => brokers.contains(&member.name),
        (None, clusters) => clusters.as_ref().is_some_and(|names| names.contains(&member.cluster)),
    };
    let chosen: Vec<_> = masters.iter().filter(meant).map(|member| member.name.clone()).collect();
    if chosen.is_empty() {
        return Err(Error::Usage("Find none brokers, do nothing".to_owned()));
    }
    Ok((masters, chosen))
}

/// Writes the mapping of all brokers to a file, from which an operator can restore it by hand.
fn write_backup(
    topic: &str,
    epoch: i64,
    when: &str,
    mapped: &BTreeMap<String, Mapped>,
) -> Result<String, Error> {
    let details: BTreeMap<_, _> = mapped
        .iter()
        .map(|(name, mapped)| (name, json!({"mappingDetail": mapped.detail, "topicConfig": mapped.config})))
        .collect();
    let path = std::env::temp_dir().join(stats::file_name(&format!("{topic}-{epoch}.{when}")));
    let content =
        json!({"brokerConfigMap": details, "epoch": epoch, "topic": topic, "type": "CREATE_OR_UPDATE"});
    stats::write_file(&path, &content.to_string())?;
    Ok(path.display().to_string())
}

/// Creates a static topic, or gives it more queues; new queues go to the brokers that have the fewest of it
/// (`TopicQueueMappingUtils.createTopicConfigMapping`).
pub(super) async fn create(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let topic = arguments.need("topic")?;
    let count: i32 = arguments.parse("queues")?.unwrap_or_default();
    let (masters, chosen) = targets(session, arguments).await?;
    let mut mapped = existing(session, &masters, topic).await?;
    let epoch = mapped.values().filter_map(|it| Some(it.detail.as_ref()?.epoch)).max();
    let old = write_backup(topic, epoch.unwrap_or(session.now_ms), "before", &mapped)?;
    let hosted = |mapped: &Mapped| mapped.detail.as_ref().map_or(0, |detail| detail.hosted_queues.len());
    let first = i32::try_from(mapped.values().map(hosted).sum::<usize>()).unwrap_or(i32::MAX);
    if count <= first {
        return Err(Error::Usage(format!(
            "Cannot decrease the queue num for static topic {count} < {first}"
        )));
    }
    let epoch = epoch.map_or(session.now_ms, |epoch| session.now_ms.max(epoch + 1000));
    for name in chosen {
        mapped.entry(name.clone()).or_insert_with(|| Mapped {
            config: TopicConfig::new(topic, 0, TopicConfig::default().perm),
            detail: Some(Detail {
                topic: topic.to_owned(),
                scope: Some("__global__".to_owned()),
                total_queues: 0,
                bname: name,
                epoch,
                dirty: false,
                hosted_queues: Map::new(),
            }),
        });
    }
    for id in first..count {
        let Some((name, one)) = mapped.iter_mut().min_by_key(|(_, one)| hosted(one)) else { break };
        let queue = one.config.write_queue_nums;
        (one.config.write_queue_nums, one.config.read_queue_nums) =
            (queue + 1, one.config.read_queue_nums + 1);
        let item = json!({"bname": name, "endOffset": -1, "gen": 0, "logicOffset": 0, "queueId": queue,
            "startOffset": 0, "timeOfEnd": -1, "timeOfStart": -1});
        one.detail.as_mut().map(|detail| detail.hosted_queues.insert(id.to_string(), json!([item])));
    }
    for detail in mapped.values_mut().filter_map(|one| one.detail.as_mut()) {
        (detail.epoch, detail.total_queues) = (epoch, count);
    }
    let new = write_backup(topic, epoch, "after", &mapped)?;
    let mut rows = Vec::new();
    for (name, one) in &mapped {
        let Some(master) = masters.iter().find(|master| master.name == *name) else { continue };
        let ask = super::change::creation_by(request::UPDATE_AND_CREATE_STATIC_TOPIC, &one.config)
            .with("force", false)
            .body(serde_json::to_vec(&one.detail).unwrap_or_default());
        session.change(&master.address, &ask).await?;
        rows.push(json!({"broker": name, "queues": hosted(one)}));
    }
    let text = format!(
        "The old mapping data is written to file {old}\nThe new mapping data is written to file {new}\n"
    );
    Ok(Written::new(rows, text))
}

/// Refuses to move queues between brokers, because the move needs the offsets of its own moment. RocketMQ's own tool
/// does it.
pub(super) async fn remap(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let topic = arguments.need("topic")?;
    let (masters, _) = targets(session, arguments).await?;
    if existing(session, &masters, topic).await?.is_empty() {
        return Err(Error::NotFound("No topic route to do the remapping".to_owned()));
    }
    Err(Error::Usage(format!(
        "the queues of the static topic {topic} are not moved by this program; use RocketMQ's own mqadmin"
    )))
}
