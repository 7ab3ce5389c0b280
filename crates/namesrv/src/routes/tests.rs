use std::time::{Duration, Instant};

use proptest::prelude::*;
use wire::body::{DataVersion, QueueData};

use super::*;

/// A step of a random history over two clusters, three broker groups and four addresses.
#[derive(Debug, Clone)]
enum Step {
    Register {
        cluster: u8,
        broker: u8,
        address: u8,
        id: i64,
        state_version: i64,
        topics: Vec<u8>,
        acting: Option<bool>,
    },
    Unregister {
        cluster: u8,
        broker: u8,
        address: u8,
        id: i64,
    },
    Lose {
        connection: u64,
    },
    Expire {
        seconds: u64,
    },
    Delete {
        topic: u8,
        cluster: Option<u8>,
    },
    Add {
        topic: u8,
        brokers: Vec<u8>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let acting = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    let topics = prop::collection::vec(0..5u8, 0..4);
    prop_oneof![
        6 => (0..2u8, 0..3u8, 0..4u8, 0..3i64, 0..3i64, topics, acting).prop_map(
            |(cluster, broker, address, id, state_version, topics, acting)| Step::Register {
                cluster, broker, address, id, state_version, topics, acting
            }
        ),
        3 => (0..2u8, 0..3u8, 0..4u8, 0..3i64)
            .prop_map(|(cluster, broker, address, id)| Step::Unregister { cluster, broker, address, id }),
        2 => (0..8u64).prop_map(|connection| Step::Lose { connection }),
        1 => (0..200u64).prop_map(|seconds| Step::Expire { seconds }),
        1 => (0..5u8, prop::option::of(0..2u8)).prop_map(|(topic, cluster)| Step::Delete { topic, cluster }),
        1 => (0..5u8, prop::collection::vec(0..3u8, 0..3)).prop_map(|(topic, brokers)| Step::Add { topic, brokers }),
    ]
}

const BOUNDS: Bounds = Bounds { brokers: 100, topics_per_broker: 100, bytes: 1 << 20 };

fn name(kind: &str, number: u8) -> String {
    format!("{kind}{number}")
}

fn apply(routes: &SharedRoutes, now: &mut Instant, step: &Step) {
    match step {
        Step::Register { cluster, broker, address, id, state_version, topics, acting } => {
            let topic = |topic: &u8| (name("t", *topic), TopicQueues::default());
            let mapping = |topic: &u8| {
                let bname = name("b", *broker);
                let curr_id_map = (0..i32::from(*topic)).map(|id| (id, id)).collect();
                (name("t", *topic), TopicQueueMapping { bname, curr_id_map, ..TopicQueueMapping::default() })
            };
            let registration = Registration {
                cluster: &name("c", *cluster),
                broker: &name("b", *broker),
                address: &name("a", *address),
                id: *id,
                ha_address: "ha",
                zone: None,
                acting_master: *acting,
                timeout: Duration::from_secs(120),
                connection: u64::from(*cluster) * 4 + u64::from(*address),
                content: Content {
                    version: DataVersion { state_version: *state_version, ..DataVersion::default() },
                    topics: topics.iter().map(topic).collect(),
                    mappings: topics.iter().filter(|topic| **topic > 2).map(mapping).collect(),
                    filter_servers: (*id > 0).then(|| topics.iter().map(|topic| name("f", *topic)).collect()),
                },
            };
            routes.register(*now, &registration, topics.len() == 3, &BOUNDS);
        }
        Step::Unregister { cluster, broker, address, id } => {
            let departure = Departure {
                cluster: name("c", *cluster),
                broker: name("b", *broker),
                address: name("a", *address),
                id: *id,
                connection: None,
            };
            routes.unregister(&[departure]);
        }
        Step::Lose { connection } => {
            let lost = routes.read().owner(*connection);
            routes.unregister(lost.as_slice());
        }
        Step::Expire { seconds } => {
            *now += Duration::from_secs(*seconds);
            let silent = routes.read().silent(*now);
            routes.unregister(&silent);
            assert_eq!(routes.read().silent(*now), []);
        }
        Step::Delete { topic, cluster } => {
            routes.delete_topic(&name("t", *topic), cluster.map(|cluster| name("c", cluster)).as_deref());
        }
        Step::Add { topic, brokers } => {
            let data = |broker: &u8| QueueData { broker_name: name("b", *broker), ..QueueData::default() };
            routes.add_topic(&name("t", *topic), &brokers.iter().map(data).collect::<Vec<_>>(), &BOUNDS);
        }
    }
}

fn check_agreement(routes: &Routes) {
    let clustered: BTreeSet<&String> = routes.clusters.values().flatten().collect();
    assert_eq!(clustered, routes.groups.keys().collect());
    assert!(routes.clusters.values().all(|brokers| !brokers.is_empty()));
    for group in routes.groups.values() {
        let distinct: BTreeSet<&String> = group.addresses.values().collect();
        assert!(!distinct.is_empty() && distinct.len() == group.addresses.len());
    }
    let (mut bytes, mut counts) = (0, BTreeMap::new());
    for (number, shard) in routes.shards.iter().enumerate() {
        for (topic, placement) in &shard.topics {
            assert_eq!(routes.shard_of(topic), number);
            assert!(!placement.is_empty() && placement.is_sorted_by(|(one, _), (two, _)| one < two));
            assert!(placement.iter().all(|(broker, _)| routes.groups.contains_key(&**broker)));
            assert!(routes.route(topic, RouteOptions::default()).is_some());
            bytes += cost::TOPIC + topic.len() + placement.len() * cost::PLACE;
            placement.iter().for_each(|(broker, _)| *counts.entry(broker.to_string()).or_insert(0) += 1);
        }
        assert!(shard.mappings.keys().all(|topic| shard.topics.contains_key(topic)));
        bytes += shard.mappings.values().flat_map(BTreeMap::values).map(cost::mapping).sum::<usize>();
    }
    bytes += routes.filters.values().map(|servers| cost::servers(servers)).sum::<usize>();
    assert_eq!(routes.bytes, bytes);
    for (name, group) in &routes.groups {
        assert_eq!(group.topics, counts.get(name).copied().unwrap_or(0), "{name}");
    }
}

proptest! {
    #[test]
    fn the_tables_agree_after_any_history(steps in prop::collection::vec(step(), 1..40)) {
        let routes = SharedRoutes::default();
        let mut now = Instant::now();
        for step in &steps {
            apply(&routes, &mut now, step);
            check_agreement(&routes.read());
        }
    }
}

#[test]
fn departures_of_one_batch_leave_together() {
    let routes = SharedRoutes::default();
    let mut now = Instant::now();
    for (broker, address) in [(0, 0), (0, 1), (1, 2)] {
        let acting = Some(true);
        let step = Step::Register {
            cluster: 0,
            broker,
            address,
            id: i64::from(address),
            state_version: 0,
            topics: vec![0, 1],
            acting,
        };
        apply(&routes, &mut now, &step);
    }
    let departures: Vec<_> =
        [0, 1].into_iter().filter_map(|connection| routes.read().owner(connection)).collect();
    assert_eq!(departures.len(), 2);
    let notices = routes.unregister(&departures);
    assert_eq!(notices, []);
    assert_eq!(routes.topics(&TopicFilter::Cluster("c0")), ["t0", "t1"]);
    assert_eq!(routes.read().clusters().broker_addr_table.keys().collect::<Vec<_>>(), [&"b1"]);
}

#[test]
fn a_live_broker_whose_name_and_id_another_one_takes_is_named() {
    let (routes, now) = (SharedRoutes::default(), Instant::now());
    let register = |address: &str, id: i64, state_version: i64| {
        let version = DataVersion { state_version, ..DataVersion::default() };
        let registration = Registration {
            cluster: "c",
            broker: "b",
            address,
            id,
            ha_address: "ha",
            zone: None,
            acting_master: None,
            timeout: Duration::from_secs(120),
            connection: 1,
            content: Content { version, ..Content::default() },
        };
        match routes.register(now, &registration, false, &BOUNDS) {
            RegisterResult::Accepted { replaced, .. } => replaced,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((register("a1", 0, 0), register("a1", 0, 0), register("a2", 1, 0)), (None, None, None));
    assert_eq!(register("a3", 0, 0).as_deref(), Some("a1"));
    assert_eq!(register("a4", 0, 1), None, "elected");
}
