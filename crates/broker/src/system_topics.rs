//! The system topics, which every broker has.

use wire::body::topic::{PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig};

use crate::change::TopicChange;
use crate::parts::{Delivery, Runtime, Tables};
use crate::{Result, names};

const READ_WRITE: i32 = PERM_READ | PERM_WRITE;

/// Name, number of queues and permissions of the system topics (`TopicConfigManager.init`).
fn system_topics(delivery: &Delivery, runtime: &Runtime) -> Vec<(String, i32, i32)> {
    let config = &runtime.config;
    let (cluster, name) = (&config.broker_cluster_name, &config.broker_name);
    let levels = runtime.delay_levels();
    let mut topics = vec![
        (names::SELF_TEST_TOPIC.to_owned(), 1, READ_WRITE),
        (names::BENCHMARK_TOPIC.to_owned(), 1024, READ_WRITE),
        (cluster.clone(), 16, READ_WRITE | PERM_INHERIT),
        (name.clone(), 1, READ_WRITE | PERM_INHERIT),
        (names::OFFSET_MOVED_TOPIC.to_owned(), 1, READ_WRITE),
        (names::SCHEDULE_TOPIC.to_owned(), levels, READ_WRITE),
        (format!("{cluster}_REPLY_TOPIC"), 1, READ_WRITE),
        (delivery.pops.revive_topic.clone(), config.pop.revive_queues, READ_WRITE),
        (format!("{}{name}", names::SYNC_MEMBER_PREFIX), 1, PERM_INHERIT),
        (names::HALF_TOPIC.to_owned(), 1, READ_WRITE),
        (names::OP_HALF_TOPIC.to_owned(), 1, READ_WRITE),
        (names::TIMER_TOPIC.to_owned(), 1, READ_WRITE),
    ];
    if config.trace_topic_enable {
        topics.push((config.trace_topic.clone(), 1, READ_WRITE));
    }
    let template_perm = if config.auto_create_topic_enable { READ_WRITE | PERM_INHERIT } else { READ_WRITE };
    topics.push((names::DEFAULT_TOPIC.to_owned(), config.default_topic_queue_nums, template_perm));
    topics
}

/// Names of the system topics.
pub(crate) fn system_topic_names(delivery: &Delivery, runtime: &Runtime) -> Vec<String> {
    system_topics(delivery, runtime).into_iter().map(|(name, ..)| name).collect()
}

/// Whether a topic is reserved for the broker or for tools. Some of these topics have the names of the cluster and the broker
/// (`TopicConfigManager.init`, `TopicValidator.isSystemTopic`).
pub(crate) fn is_system_topic(delivery: &Delivery, runtime: &Runtime, name: &str) -> bool {
    names::is_system_topic(name) || system_topics(delivery, runtime).iter().any(|(system, ..)| system == name)
}

/// The configuration of a system topic in a new broker. `None` for any other topic.
pub(crate) fn system_topic_config(delivery: &Delivery, runtime: &Runtime, name: &str) -> Option<TopicConfig> {
    let found = system_topics(delivery, runtime).into_iter().find(|(system, ..)| system == name);
    found.map(|(name, queues, perm)| TopicConfig::new(name, queues, perm))
}

/// Creates missing system topics, and updates system topics that depend on the configuration.
pub(crate) fn create_system_topics(tables: &Tables, delivery: &Delivery, runtime: &Runtime) -> Result<()> {
    let missing = system_topics(delivery, runtime).into_iter().filter(|(name, queues, perm)| {
        match tables.topics.find(name) {
            // The template and the delay levels follow the configuration.
            Some(topic) if name == names::DEFAULT_TOPIC => topic.config.perm != *perm,
            Some(topic) if name == names::SCHEDULE_TOPIC || *name == delivery.pops.revive_topic => {
                topic.queue_count() < *queues
            }
            Some(_) => false,
            None => true,
        }
    });
    put(tables, runtime, missing)
}

/// Sets the number of queues and the permissions of the template of new topics (`TBW102`) from the settings. Runs
/// when an operator changes a setting. A start keeps the number of queues found in the store.
pub(crate) fn renew_template(tables: &Tables, delivery: &Delivery, runtime: &Runtime) -> Result<()> {
    put(
        tables,
        runtime,
        system_topics(delivery, runtime).into_iter().filter(|(name, ..)| name == names::DEFAULT_TOPIC),
    )
}

fn put(tables: &Tables, runtime: &Runtime, topics: impl Iterator<Item = (String, i32, i32)>) -> Result<()> {
    let configs = topics.map(|(name, queues, perm)| TopicConfig::new(name, queues, perm));
    let changes = configs.map(|config| TopicChange::Put(config, Vec::new())).collect();
    tables.topics.commit(vec![changes], runtime.now_ms()).into_iter().collect()
}
