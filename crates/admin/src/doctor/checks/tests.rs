//! Every check: a fault that raises it and names the culprit, a healthy cluster that does not, and no data.

use super::all;
use crate::Lang;
use crate::doctor::bilingual::Phrase;
use crate::doctor::bundle::{
    Broker, BrokerSet, Bundle, Connection, Controller, DelayLevel, Departed, FORMAT, Group, Head, Later,
    LiteProgress, Lock, Member, NameServer, Owned, Progress, Queue, Replica, ReplicaSet, Replication, Route,
    Slave, Standing, Topic,
};
use crate::doctor::finding::{Finding, Severity, State, Verdict, judge};
use crate::doctor::secrets::EXAMPLE;
use host::{BrokerProcess, Facts, Mount};
use std::collections::{BTreeMap, BTreeSet};

const NOW_MS: i64 = 1_700_000_000_000;
const DAY_MS: i64 = 86_400_000;

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn broker(name: &str, id: i64, host: u8) -> Broker {
    let role = if id == 0 { "SYNC_MASTER" } else { "SLAVE" };
    Broker {
        cluster: "C".into(),
        name: name.into(),
        id,
        address: format!("10.0.0.{host}:10911"),
        error: None,
        error_code: None,
        asked_from_ms: 0,
        steady: BTreeSet::new(),
        asked_at_ms: NOW_MS,
        runtime: Some(texts(&[
            ("brokerVersionDesc", "V5_5_0"),
            ("vostokVersion", "0.1.0"),
            ("brokerActive", "true"),
            ("bootTimestamp", &(NOW_MS - 93_784_000).to_string()),
            ("runtime", "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"),
            ("commitLogDiskRatio", "0.3"),
            ("consumeQueueDiskRatio", "0.2"),
            ("sendsRefusedForSpace", "false"),
            ("stoppedThreads", ""),
            ("diskPendingMillis", "900"),
            ("unknownToControllers", "false"),
            ("subscriptionConflicts", ""),
            ("refusedFenced", "0"),
            ("refusedDiskFull", "0"),
            ("refusedBehind", "0"),
            ("refusedColdReads", "0"),
            ("refusedChanges", "0"),
            ("refusedHeldPulls", "0"),
            ("putMessageFailedTimes", "0"),
            ("sendThreadPoolQueueHeadWaitTimeMills", "0"),
            ("pageCacheLockTimeMills", "0"),
            ("remainTransientStoreBufferNumbs", "2147483647"),
            ("lostQueues", "0"),
            ("damagedMessages", "0"),
            ("undeliveredMessages", "0"),
            ("dispatchBehindBytes", "0"),
            ("rebuildLeftBytes", "0"),
            ("timerReadBehind", "0"),
            ("retentionHeldBy", ""),
            ("settingsWithoutEffect", ""),
        ])),
        settings: Some(texts(&[
            ("brokerName", name),
            ("brokerId", &id.to_string()),
            ("brokerPermission", "6"),
            ("brokerIP2", &format!("10.0.0.{host}")),
            ("brokerRole", role),
            ("flushDiskType", "SYNC_FLUSH"),
            ("fileReservedTime", "72"),
            ("inSyncReplicas", "1"),
            ("authenticationEnabled", "true"),
        ])),
        topics: Some(BTreeMap::from([("T".to_owned(), 6)])),
        topics_left_out: 0,
        replication: Some(Replication {
            connection: None,
            is_master: id == 0,
            in_sync: 1,
            slaves: vec![Slave { address: "10.0.0.9:4000".into(), behind_bytes: 0, is_in_sync: true }],
        }),
        levels: Some(vec![DelayLevel { level: 3, waiting: 5, due_ms: Some(NOW_MS + 1000) }]),
        halves: Some(vec![Head {
            waiting: 2,
            stored_ms: Some(NOW_MS - 1000),
            born_ms: Some(NOW_MS - 30_000),
            producer_group: "P".into(),
            checks: 1,
            ..Head::default()
        }]),
        revives: Some(vec![Head { waiting: 5, stored_ms: Some(NOW_MS - 60_000), ..Head::default() }]),
        certificate_ends_ms: Some(NOW_MS + 90 * DAY_MS),
    }
}

fn name_server(address: &str) -> NameServer {
    let set = |name: &str, addresses: &[(i64, &str)]| BrokerSet {
        cluster: "C".into(),
        name: name.into(),
        addresses: addresses.iter().map(|(id, address)| (*id, (*address).to_owned())).collect(),
    };
    let route = |name: &str| Route { broker: name.into(), read_queues: 1, write_queues: 1, perm: 6 };
    NameServer {
        address: address.into(),
        error: None,
        error_code: None,
        sets: vec![
            set("broker-a", &[(0, "10.0.0.1:10911"), (1, "10.0.0.2:10911")]),
            set("broker-b", &[(0, "10.0.0.3:10911")]),
        ],
        routes: BTreeMap::from([("T".to_owned(), vec![route("broker-a"), route("broker-b")])]),
        replaced: None,
        departed: None,
        certificate_ends_ms: Some(NOW_MS + 31 * DAY_MS),
    }
}

fn member(id: &str, broker: &str) -> Member {
    Member {
        client_id: id.into(),
        error: None,
        subscriptions: texts(&[("T", "TagA"), ("%RETRY%G", "*")]),
        queues: vec![Owned {
            topic: "T".into(),
            broker: broker.into(),
            queue: 0,
            last_pull_ms: NOW_MS - 1000,
            last_consume_ms: NOW_MS - 1000,
            cached: 0,
        }],
        failed: BTreeMap::from([("T".to_owned(), 0.0)]),
        standing: Some(Vec::new()),
    }
}

fn controller(address: &str) -> Controller {
    Controller { address: address.into(), error: None, leader: "10.0.0.5:9878".into() }
}

fn replica(id: i64, address: &str) -> Replica {
    Replica {
        id,
        address: address.into(),
        is_master: id == 1,
        is_in_sync: true,
        is_alive: true,
        lost_ms: None,
    }
}

/// A cluster of two broker sets and one group in which every check finds data and none a fault.
pub(crate) fn healthy() -> Bundle {
    let progress = |broker: &str| Progress {
        topic: "T".into(),
        broker: broker.into(),
        queue: 0,
        max: 10,
        committed: 10,
        pulled: 10,
        last_ms: NOW_MS - 1000,
        first_ms: None,
        is_done: false,
        later: Some(Later { after_ms: 6000, committed: 10 }),
    };
    let connection = |id: &str, port: u16| Connection {
        broker: "10.0.0.1:10911".into(),
        client_id: id.into(),
        address: format!("10.0.0.7:{port}"),
        language: "JAVA".into(),
        version: "V5_5_0".into(),
    };
    let queue = |broker: &str, max: i64| Queue {
        broker: broker.into(),
        queue: 0,
        min: 0,
        max,
        last_ms: NOW_MS - 1000,
    };
    let topic = |name: &str, max: i64| Topic {
        name: name.into(),
        queues: vec![queue("broker-a", max), queue("broker-b", max)],
    };
    Bundle {
        format: FORMAT,
        tool: "0.1.0".into(),
        taken_at_ms: NOW_MS,
        name_servers: vec![name_server("10.0.0.5:9876"), name_server("10.0.0.6:9876")],
        brokers: vec![broker("broker-a", 0, 1), broker("broker-a", 1, 2), broker("broker-b", 0, 3)],
        controllers: vec![controller("10.0.0.5:9878"), controller("10.0.0.6:9878")],
        replica_sets: vec![ReplicaSet {
            name: "broker-a".into(),
            members: vec![replica(1, "10.0.0.1:10911"), replica(2, "10.0.0.2:10911")],
        }],
        departed: Some(Vec::new()),
        proxies: Vec::new(),
        topics_left_out: 0,
        topics: vec![topic("T", 10), topic("%DLQ%G", 0), topic("TRANS_CHECK_MAX_TIME_TOPIC", 0)],
        groups: vec![Group {
            name: "G".into(),
            is_enabled: Some(true),
            is_online: Some(true),
            consume_type: "CONSUME_PASSIVELY".into(),
            model: "CLUSTERING".into(),
            connections: vec![connection("one", 5000), connection("two", 5001)],
            members: vec![member("one", "broker-a"), member("two", "broker-b")],
            progress: vec![progress("broker-a"), progress("broker-b")],
            locks: Some(vec![lock("one", "broker-a"), lock("two", "broker-b")]),
        }],
        lite: Some(vec![LiteProgress {
            broker: "broker-a".into(),
            parent: "T".into(),
            group: "G".into(),
            lite_topic: "session-1".into(),
            lag: 1,
            first_ms: Some(NOW_MS - 1000),
            is_subscribed: Some(true),
        }]),
        host: Some(machine()),
    }
}

/// A lock on the queue of a broker.
fn lock(client: &str, broker: &str) -> Lock {
    let (group, topic) = ("G".into(), "T".into());
    Lock { group, topic, broker: broker.into(), queue: 0, client: client.into(), age_ms: 5000 }
}

fn machine() -> Facts {
    let settings = [
        ("vm.max_map_count", 655_360),
        ("vm.swappiness", 1),
        ("vm.dirty_ratio", 20),
        ("vm.dirty_writeback_centisecs", 500),
    ];
    Facts {
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        swap_kib: Some(1000),
        swap_free_kib: Some(1000),
        huge_pages: Some("madvise".into()),
        clock_source: Some("tsc".into()),
        group_memory_max: Some(8 << 30),
        group_memory_kills: Some(0),
        group_memory_kills_grown: Some(0),
        group_cpu_throttled: Some((0, 1000)),
        group_cpu_throttled_grown: Some((0, 1000)),
        mounts: vec![Mount {
            path: "/data".into(),
            mounted_at: "/data".into(),
            device: "/dev/nvme0n1".into(),
            file_system: "xfs".into(),
            options: "rw".into(),
            scheduler: Some("none".into()),
            is_rotational: Some(false),
        }],
        brokers: vec![BrokerProcess {
            pid: 42,
            program: "java".into(),
            open_files_max: Some(655_350),
            open_files: Some(100),
            ports: None,
            resident_kib: None,
        }],
        ..Facts::default()
    }
}

fn kernel(bundle: &mut Bundle, name: &str, value: i64) {
    bundle.host.as_mut().unwrap().settings.insert(name.into(), value);
}

fn runtime(bundle: &mut Bundle, name: &str, value: &str) {
    bundle.brokers[2].runtime.as_mut().unwrap().insert(name.into(), value.into());
}

fn setting(bundle: &mut Bundle, name: &str, value: &str) {
    bundle.brokers[2].settings.as_mut().unwrap().insert(name.into(), value.into());
}

fn address(bundle: &mut Bundle, address: &str) {
    bundle.brokers[2].address = address.into();
}

fn replication(bundle: &mut Bundle) -> &mut Replication {
    bundle.brokers[0].replication.as_mut().unwrap()
}

fn facts(bundle: &mut Bundle) -> &mut Facts {
    bundle.host.as_mut().unwrap()
}

fn row(bundle: &mut Bundle) -> &mut Progress {
    &mut bundle.groups[0].progress[1]
}

/// Messages wait in a queue.
fn lag(bundle: &mut Bundle) {
    row(bundle).max = 15;
}

/// Bundle of a queue whose messages wait for a minute, and whose offset did not move between two looks.
fn stuck(bundle: &mut Bundle) {
    lag(bundle);
    row(bundle).first_ms = Some(NOW_MS - 60_000);
    row(bundle).later = Some(Later { after_ms: 6000, committed: 10 });
}

fn owned(bundle: &mut Bundle) -> &mut Owned {
    &mut bundle.groups[0].members[1].queues[0]
}

/// A server that was there and is gone.
fn departed(name: &str, id: i64, address: &str, is_unregistered: bool) -> Departed {
    let seen_ms = NOW_MS - 600_000;
    Departed {
        cluster: "C".into(),
        name: name.into(),
        id,
        address: address.into(),
        is_unregistered,
        seen_ms,
        ..Departed::default()
    }
}

/// A check, the fault that raises it, and a word of the culprit in what it says.
type Fault = (&'static str, fn(&mut Bundle), &'static str);

const FAULTS: &[Fault] = &[
    ("name-server-silent", |it| it.name_servers[1].error = Some("refused".into()), "10.0.0.6:9876"),
    ("broker-silent", |it| it.brokers[2].error = Some("refused".into()), "broker-b"),
    ("address-loopback", |it| address(it, "127.0.0.1:10911"), "broker-b"),
    ("address-bridge", |it| address(it, "172.17.0.2:10911"), "broker-b"),
    ("name-servers-disagree", |it| drop(it.name_servers[1].sets.pop()), "broker-b"),
    (
        "routes-disagree",
        |it| it.name_servers[1].routes.get_mut("T").unwrap()[0].read_queues = 2,
        "T on 10.0.0.5:9876",
    ),
    (
        "two-masters",
        |it| drop(it.name_servers[1].sets[1].addresses.insert(0, "10.0.0.8:10911".into())),
        "10.0.0.8:10911",
    ),
    (
        "two-slaves",
        |it| {
            let mut other = it.brokers[1].clone();
            other.address = "10.0.0.8:10911".into();
            it.brokers.push(other);
        },
        "broker-a id 1 of C: slaves at 10.0.0.2:10911, 10.0.0.8:10911",
    ),
    (
        "look-refused",
        |it| {
            it.brokers[2].error = Some("10.0.0.3:10911 answered NO_PERMISSION (16): signature".into());
            it.brokers[2].error_code = Some(16);
        },
        "broker-b",
    ),
    ("no-broker", |it| it.name_servers[1].sets.clear(), "10.0.0.6:9876"),
    ("no-master", |it| drop(it.name_servers[0].sets[0].addresses.remove(&0)), "broker-a"),
    (
        "broker-lost",
        |it| it.departed = Some(vec![departed("broker-a", 2, "10.0.0.4:10911", false)]),
        "broker-a (id 2, 10.0.0.4:10911): not heard of since 2023-11-14T22:03:20.000Z",
    ),
    (
        "set-lost",
        |it| it.departed = Some(vec![departed("broker-c", 0, "10.0.0.4:10911", false)]),
        "broker-c of C: none of its 1 brokers is registered",
    ),
    (
        "proxy-lost",
        |it| {
            let proxy = departed("10.0.0.4@7#p", 0, "10.0.0.4", false);
            it.departed = Some(vec![Departed { is_proxy: true, ..proxy }]);
        },
        "10.0.0.4@7#p: not heard of since 2023-11-14T22:03:20.000Z",
    ),
    ("write-permission-wiped", |it| it.name_servers[0].routes.get_mut("T").unwrap()[1].perm = 4, "broker-b"),
    ("broker-permission", |it| setting(it, "brokerPermission", "4"), "broker-b"),
    ("mixed-versions", |it| runtime(it, "vostokVersion", "0.0.9"), "broker-b"),
    (
        "group-offline-with-lag",
        |it| {
            lag(it);
            it.groups[0].is_online = Some(false)
        },
        "G",
    ),
    ("group-not-moving", stuck, "T/broker-b/0"),
    (
        "group-lag-expires",
        |it| {
            lag(it);
            row(it).last_ms = NOW_MS - 71 * 3_600_000;
            row(it).first_ms = Some(NOW_MS - 70 * 3_600_000)
        },
        "T/broker-b/0",
    ),
    ("group-offset-outside", |it| row(it).committed = 99, "T/broker-b/0"),
    ("group-dead-letters", |it| it.topics[1].queues[0].max = 3, "G"),
    (
        "group-retry-storm",
        |it| {
            row(it).topic = "%RETRY%G".into();
            row(it).max = 5000
        },
        "G",
    ),
    (
        "group-disabled",
        |it| {
            lag(it);
            it.groups[0].is_enabled = Some(false)
        },
        "G",
    ),
    ("member-silent", |it| it.groups[0].members[1].error = Some("timed out".into()), "two"),
    ("queue-without-owner", |it| it.groups[0].members[1].queues.clear(), "T/broker-b/0"),
    ("queue-with-two-owners", |it| owned(it).broker = "broker-a".into(), "one, two"),
    (
        "subscriptions-conflict",
        |it| drop(it.groups[0].members[1].subscriptions.insert("T".into(), "TagB".into())),
        "two wants T [TagB]",
    ),
    ("client-ids-equal", |it| it.groups[0].connections[1].client_id = "one".into(), "10.0.0.7:5001"),
    (
        "members-beyond-queues",
        |it| {
            it.groups[0].connections.push(Connection { client_id: "three".into(), ..Connection::default() });
        },
        "3 members, 2 queues of T",
    ),
    (
        "owner-does-not-pull",
        |it| {
            stuck(it);
            owned(it).last_pull_ms = NOW_MS - 600_000
        },
        "two of G in T/broker-b/0",
    ),
    (
        "owner-does-not-consume",
        |it| {
            stuck(it);
            owned(it).cached = 5;
            owned(it).last_consume_ms = NOW_MS - 600_000
        },
        "two of G in T/broker-b/0",
    ),
    (
        "listener-hangs",
        |it| {
            stuck(it);
            let at = "java.net.SocketInputStream.read(SocketInputStream.java:150)".into();
            let called_by = "shop.Billing.charge(Billing.java:42)".into();
            let standing = Standing { thread: "ConsumeMessageThread_G_1".into(), at, called_by };
            it.groups[0].members[1].standing = Some(vec![standing]);
        },
        "called by shop.Billing.charge(Billing.java:42)",
    ),
    (
        "lock-held-idle",
        |it| {
            stuck(it);
            it.groups[0].locks = Some(vec![lock("gone", "broker-b")]);
        },
        "G in T/broker-b/0: locked by gone, which is not connected; 5 messages wait",
    ),
    ("certificate-expired", |it| it.brokers[2].certificate_ends_ms = Some(NOW_MS - 1), "broker-b"),
    (
        "certificate-ends-soon",
        |it| it.name_servers[1].certificate_ends_ms = Some(NOW_MS + 29 * DAY_MS + 1),
        "name server 10.0.0.6:9876: ends at 2023-12-13",
    ),
    ("listener-fails", |it| *it.groups[0].members[1].failed.get_mut("T").unwrap() = 1.5, "two"),
    ("refused-fenced", |it| runtime(it, "refusedFenced", "1"), "broker-b"),
    ("refused-disk-full", |it| runtime(it, "refusedDiskFull", "1"), "broker-b"),
    ("refused-disk-slow", |it| runtime(it, "refusedBehind", "1"), "broker-b"),
    ("refused-cold-reads", |it| runtime(it, "refusedColdReads", "1"), "broker-b"),
    ("refused-changes", |it| runtime(it, "refusedChanges", "1"), "broker-b"),
    ("refused-held-pulls", |it| runtime(it, "refusedHeldPulls", "1"), "broker-b"),
    ("puts-failed", |it| runtime(it, "putMessageFailedTimes", "2"), "broker-b"),
    ("send-queue-waits", |it| runtime(it, "sendThreadPoolQueueHeadWaitTimeMills", "500"), "broker-b"),
    ("append-locked", |it| runtime(it, "pageCacheLockTimeMills", "1500"), "broker-b"),
    ("buffers-used-up", |it| runtime(it, "remainTransientStoreBufferNumbs", "0"), "broker-b"),
    (
        "disk-refuses",
        |it| {
            setting(it, "diskSpaceWarningLevelRatio", "99");
            runtime(it, "commitLogDiskRatio", "0.91")
        },
        "broker-b",
    ),
    ("disk-deletes-unexpired", |it| runtime(it, "consumeQueueDiskRatio", "0.87"), "broker-b"),
    ("disk-deletes-early", |it| runtime(it, "commitLogDiskRatio", "0.78"), "broker-b"),
    ("disk-full-soon", |it| runtime(it, "commitLogDiskFullInSeconds", "7200"), "full in 2.0 h"),
    ("sends-refused-for-space", |it| runtime(it, "sendsRefusedForSpace", "true"), "broker-b"),
    ("queues-lost", |it| runtime(it, "lostQueues", "1"), "broker-b"),
    ("messages-damaged", |it| runtime(it, "damagedMessages", "1"), "broker-b"),
    ("messages-undelivered", |it| runtime(it, "undeliveredMessages", "1"), "broker-b"),
    ("threads-stopped", |it| runtime(it, "stoppedThreads", "timer"), "timer"),
    ("disk-stalled", |it| runtime(it, "diskPendingMillis", "3200"), "broker-b"),
    ("unknown-to-controllers", |it| runtime(it, "unknownToControllers", "true"), "broker-b"),
    ("broker-inactive", |it| runtime(it, "brokerActive", "false"), "broker-b"),
    ("dispatch-behind", |it| runtime(it, "rebuildLeftBytes", "99999999"), "broker-b"),
    ("timer-behind", |it| runtime(it, "timerReadBehind", "61"), "broker-b"),
    ("slave-not-connected", |it| replication(it).slaves.clear(), "broker-a (id 1"),
    ("slave-not-in-sync", |it| replication(it).slaves[0].is_in_sync = false, "10.0.0.9:4000"),
    ("slave-behind", |it| replication(it).slaves[0].behind_bytes = 1 << 30, "10.0.0.9:4000"),
    ("too-few-in-sync", |it| setting(it, "minInSyncReplicas", "3"), "broker-b"),
    ("too-few-acks", |it| setting(it, "inSyncReplicas", "3"), "broker-b"),
    ("replica-lost", |it| it.replica_sets[0].members[1].is_alive = false, "10.0.0.2:10911"),
    ("controller-silent", |it| it.controllers[1].error = Some("refused".into()), "10.0.0.6:9878"),
    (
        "no-controller-leader",
        |it| it.controllers.iter_mut().for_each(|it| it.leader.clear()),
        "10.0.0.5:9878",
    ),
    ("open-to-everybody", |it| setting(it, "authenticationEnabled", "false"), "broker-b"),
    ("keys-of-the-examples", |it| setting(it, "innerClientAuthenticationCredentials", EXAMPLE), "broker-b"),
    ("settings-differ", |it| setting(it, "maxMessageSize", "1000"), "maxMessageSize in C"),
    ("clocks-differ", |it| it.brokers[2].asked_at_ms -= 60_000, "broker-b"),
    ("master-flushes-alone", |it| setting(it, "flushDiskType", "ASYNC_FLUSH"), "broker-b"),
    ("open-files-limit", |it| facts(it).brokers[0].open_files_max = Some(1024), "pid 42"),
    ("open-files-used-up", |it| facts(it).brokers[0].open_files = Some(655_000), "pid 42"),
    ("maps-limit", |it| kernel(it, "vm.max_map_count", 65_530), "vm.max_map_count"),
    ("huge-pages-always", |it| facts(it).huge_pages = Some("always".into()), "always"),
    ("swap-in-use", |it| facts(it).swap_free_kib = Some(10), "990 KiB"),
    ("swappiness", |it| kernel(it, "vm.swappiness", 60), "vm.swappiness"),
    ("dirty-limits", |it| kernel(it, "vm.dirty_ratio", 50), "vm.dirty_ratio"),
    ("write-back-rare", |it| kernel(it, "vm.dirty_writeback_centisecs", 360_000), "every 3600 s"),
    ("io-scheduler", |it| facts(it).mounts[0].scheduler = Some("bfq".into()), "/dev/nvme0n1"),
    (
        "delay-level-behind",
        |it| it.brokers[2].levels.as_mut().unwrap()[0].due_ms = Some(NOW_MS - 61_000),
        "level 3 of broker-b",
    ),
    ("halves-given-up", |it| it.topics[2].queues[1].max = 2, "broker-b"),
    (
        "halves-undecided",
        |it| it.brokers[2].halves.as_mut().unwrap()[0].born_ms = Some(NOW_MS - 300_000),
        "P on broker-b",
    ),
    (
        "pop-revive-behind",
        |it| it.brokers[2].revives.as_mut().unwrap()[0].stored_ms = Some(NOW_MS - 90_000),
        "revive queue 0 of broker-b",
    ),
    (
        "lite-topic-stuck",
        |it| it.lite.as_mut().unwrap()[0].first_ms = Some(NOW_MS - 400_000),
        "G in lite topic session-1 of T on broker-a",
    ),
    ("retention-held", |it| runtime(it, "retentionHeldBy", "G T/0"), "G in T/0"),
    ("settings-without-effect", |it| runtime(it, "settingsWithoutEffect", "brokerNmae"), "brokerNmae"),
    (
        "replication-address",
        |it| drop(it.brokers[0].settings.as_mut().unwrap().insert("brokerIP2".into(), "127.0.0.1".into())),
        "broker-a",
    ),
    ("file-system", |it| facts(it).mounts[0].file_system = "nfs4".into(), "/data is on nfs4"),
    ("clock-source", |it| facts(it).clock_source = Some("hpet".into()), "hpet"),
    ("control-group-memory", |it| facts(it).group_memory_kills_grown = Some(2), "2 processes ended"),
    ("control-group-processor", |it| facts(it).group_cpu_throttled_grown = Some((60, 1000)), "60 of 1000"),
];

fn verdict_of(bundle: &Bundle, code: &str) -> Verdict {
    judge(bundle, all().filter(|check| check.code == code))
        .pop()
        .unwrap_or_else(|| panic!("{code} is no check"))
}

/// A healthy cluster in which the check of this fault has data too.
/// Checks of figures that Vostok answers with constants.
const ONLY_JAVA: [&str; 5] =
    ["puts-failed", "send-queue-waits", "append-locked", "buffers-used-up", "broker-inactive"];

fn with_data(code: &str) -> Bundle {
    let mut bundle = healthy();
    match code {
        // The master of the fault is synchronous and has the other one's setting.
        "settings-differ" => {
            for broker in &mut bundle.brokers {
                broker.settings.as_mut().unwrap().insert("maxMessageSize".into(), "4194304".into());
            }
        }
        code if ONLY_JAVA.contains(&code) => {
            for broker in &mut bundle.brokers {
                broker.runtime.as_mut().unwrap().remove("vostokVersion");
            }
        }
        "too-few-in-sync" | "too-few-acks" => bundle.brokers[2].replication.as_mut().unwrap().in_sync = 1,
        _ => {}
    }
    bundle
}

#[test]
fn every_check_is_raised_by_its_fault_and_names_the_culprit() {
    for (code, fault, culprit) in FAULTS {
        let mut bundle = with_data(code);
        fault(&mut bundle);
        let verdict = verdict_of(&bundle, code);
        assert_eq!(verdict.state, State::Finding, "{code}");
        let text = verdict
            .findings
            .iter()
            .map(|it| format!("{}: {}", it.subject.of(Lang::En), it.figure.of(Lang::En)))
            .collect::<Vec<_>>()
            .join("\n");
        assert!(text.contains(culprit), "{code} does not name {culprit}: {text}");
        for finding in &verdict.findings {
            assert!(
                !finding.advice.of(Lang::En).is_empty()
                    && !finding.source.of(Lang::En).is_empty()
                    && !finding.time.is_empty(),
                "{code}"
            );
        }
    }
}

/// Checks of masters with controllers: every master is synchronous, and `minInSyncReplicas` alone decides whether sends are
/// refused.
#[test]
fn sends_are_refused_below_the_least_number_of_members_in_sync() {
    let check = |settings: &[(&str, &str)], in_sync, refused, waits| {
        let mut bundle = healthy();
        settings.iter().for_each(|(name, value)| setting(&mut bundle, name, value));
        bundle.brokers[2].replication.as_mut().unwrap().in_sync = in_sync;
        let state = |code| verdict_of(&bundle, code).state == State::Finding;
        assert_eq!(
            (state("too-few-in-sync"), state("too-few-acks")),
            (refused, waits),
            "{settings:?} {in_sync}"
        );
    };
    let controlled = [
        ("brokerRole", "ASYNC_MASTER"),
        ("enableControllerMode", "true"),
        ("allAckInSyncStateSet", "true"),
        ("inSyncReplicas", "2"),
        ("minInSyncReplicas", "2"),
    ];
    check(&controlled, 1, false, false);
    check(&controlled, 0, true, false);
    let synchronous = [("brokerRole", "SYNC_MASTER"), ("inSyncReplicas", "2")];
    check(&synchronous, 1, false, false);
    check(&synchronous, 0, false, true);
    check(
        &[("brokerRole", "SYNC_MASTER"), ("inSyncReplicas", "2"), ("enableAutoInSyncReplicas", "true")],
        0,
        false,
        false,
    );
    check(&[("brokerRole", "ASYNC_MASTER"), ("minInSyncReplicas", "2")], 0, false, false);
}

#[test]
fn a_value_that_counts_after_a_restart_raises_no_finding() {
    for (code, name, value) in [
        ("too-few-acks", "inSyncReplicas", "3"),
        ("too-few-in-sync", "minInSyncReplicas", "3"),
        ("settings-differ", "maxMessageSize", "1000"),
    ] {
        let mut bundle = with_data(code);
        setting(&mut bundle, name, value);
        setting(&mut bundle, "countsAfterRestart", name);
        let verdict = verdict_of(&bundle, code);
        assert_ne!(verdict.state, State::Finding, "{code}: {:?}", verdict.findings);
    }
}

#[test]
fn no_check_finds_anything_in_a_healthy_cluster() {
    for (code, _, _) in FAULTS {
        let verdict = verdict_of(&with_data(code), code);
        assert_eq!(verdict.state, State::Pass, "{code}: {:?}", verdict.findings);
    }
}

#[test]
fn no_check_passes_without_data() {
    for verdict in judge(&Bundle::default(), all()) {
        assert_eq!(verdict.state, State::Skip, "{}", verdict.code);
        assert!(!verdict.needs.of(Lang::En).is_empty(), "{}", verdict.code);
    }
}

#[test]
fn what_was_refused_or_not_asked_is_skipped() {
    // Servers and groups are known, and said nothing.
    let mut bundle = healthy();
    for broker in &mut bundle.brokers {
        (broker.runtime, broker.settings, broker.topics, broker.replication) = (None, None, None, None);
        (broker.levels, broker.halves, broker.revives) = (None, None, None);
        broker.certificate_ends_ms = None;
    }
    bundle.name_servers.iter_mut().for_each(|server| server.certificate_ends_ms = None);
    bundle.replica_sets.clear();
    bundle.departed = None;
    for group in &mut bundle.groups {
        *group = Group { name: group.name.clone(), ..Group::default() };
    }
    (bundle.host, bundle.topics, bundle.lite) = (None, Vec::new(), None);
    let told = ["name-server", "broker-silent", "address", "routes", "two-", "no-", "look", "controller"];
    for verdict in judge(&bundle, all()) {
        let is_told = told.iter().any(|start| verdict.code.starts_with(start));
        let expected = if is_told { State::Pass } else { State::Skip };
        assert_eq!(verdict.state, expected, "{}: {:?}", verdict.code, verdict.findings);
    }
}

#[test]
fn every_check_has_a_fault() {
    let tested: BTreeSet<_> = FAULTS.iter().map(|(code, _, _)| *code).collect();
    let known: BTreeSet<_> = all().map(|check| check.code).collect();
    assert_eq!(tested, known);
    assert_eq!(all().count(), known.len(), "codes differ");
}

/// Values of fixes that name no thing of the bundle.
const VALUES: [&str; 10] = [
    "now",
    "true",
    "6",
    "10",
    "brokerPermission",
    "fileReservedTime",
    "144",
    "0",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "P",
];

/// Operations that destroy are offered only where nothing is lost that the cluster would keep: files that have expired, and an
/// offset outside of its queue.
const DESTROYS: [&str; 6] = [
    "group-offset-outside",
    "disk-refuses",
    "disk-deletes-unexpired",
    "disk-deletes-early",
    "disk-full-soon",
    "sends-refused-for-space",
];

/// Findings of each fault, with the bundle.
fn findings_of_faults() -> impl Iterator<Item = (&'static str, Bundle, Finding)> {
    FAULTS.iter().flat_map(|(code, fault, _)| {
        let mut bundle = with_data(code);
        fault(&mut bundle);
        let found = verdict_of(&bundle, code).findings;
        found.into_iter().map(move |finding| (*code, bundle.clone(), finding))
    })
}

#[test]
fn fixes_are_operations_with_arguments_that_exist() {
    let command = <crate::AdminCommand as clap::Args>::augment_args(clap::Command::new("vostok admin"));
    let mut count = 0;
    for (code, bundle, finding) in findings_of_faults() {
        let Some(fix) = finding.fix else { continue };
        count += 1;
        let line = fix.command();
        let words = line.strip_prefix("vostok ").expect("a command of ours").split(' ');
        let parsed = command.clone().try_get_matches_from(words);
        assert!(parsed.is_ok(), "{code}: {line}: {}", parsed.unwrap_err());
        let known = serde_json::to_string(&bundle).unwrap();
        for argument in fix.operation().arguments {
            let Some(value) = fix.arguments().get(argument.name) else {
                assert!(!argument.is_required(), "{code}: {line} lacks {}", argument.name);
                continue;
            };
            let is_known = known.contains(&format!("\"{value}\"")) || VALUES.contains(&value);
            // An offset outside of its queue is set to an end of the queue.
            assert!(is_known || argument.name == "offset", "{code}: {line}: {value} names nothing");
        }
        let destroys = fix.operation().effect == crate::Effect::Destroy;
        assert!(!destroys || DESTROYS.contains(&code) || code == "refused-disk-full", "{code}: {line}");
    }
    assert!(count > 40, "{count}");
}

/// Fails for a sentence that is the same in both languages. Names, figures and commands are the same.
#[test]
fn every_sentence_of_a_finding_is_in_both_languages() {
    let is_sentence = |text: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        let is_word = |word: &&str| word.len() > 2 && word.chars().all(|it| it.is_ascii_lowercase());
        words.windows(3).any(|three| three.iter().all(is_word))
    };
    for (code, _, finding) in findings_of_faults() {
        for text in [&finding.title, &finding.subject, &finding.figure, &finding.source, &finding.advice] {
            let (english, chinese) = (text.of(Lang::En), text.of(Lang::Zh));
            // Commands in advice are the same in both languages.
            let is_chinese = chinese.chars().any(|letter| letter > '\u{2e7f}');
            assert!(is_chinese || english == chinese && !is_sentence(chinese), "{code}: {chinese}");
        }
        assert!(
            finding.advice.of(Lang::En) != finding.advice.of(Lang::Zh)
                || finding.advice.of(Lang::Zh).contains("sys"),
            "{code}: {:?}",
            finding.advice
        );
    }
    let is_translated = |it: Phrase| it.of(Lang::Zh) != it.0;
    for part in super::PARTS {
        assert!(is_translated(part.title), "{:?}", part.title);
        for check in part.checks {
            assert!(is_translated(check.about) && is_translated(check.needs), "{}", check.code);
        }
    }
}

#[test]
fn delayed_messages_that_hold_a_full_disk_are_not_to_be_deleted() {
    let mut bundle = healthy();
    runtime(&mut bundle, "retentionHeldBy", "delayed messages SCHEDULE_TOPIC_XXXX/2");
    runtime(&mut bundle, "commitLogDiskFullInSeconds", "7200");
    for code in ["retention-held", "disk-full-soon"] {
        let finding = verdict_of(&bundle, code).findings.remove(0);
        assert!(finding.fix.is_none(), "{code}: {:?}", finding.fix);
        let advice = finding.advice.of(Lang::En);
        assert!(advice.contains("delayed messages") && !advice.contains("group"), "{code}: {advice}");
    }
    runtime(&mut bundle, "retentionHeldBy", "G T/0");
    for code in ["retention-held", "disk-full-soon"] {
        let finding = verdict_of(&bundle, code).findings.remove(0);
        assert_eq!(finding.fix.expect("a fix").command(), "vostok admin group progress G", "{code}");
    }
}

#[test]
fn constants_of_vostok_are_not_said_to_pass() {
    for code in ONLY_JAVA {
        assert_eq!(verdict_of(&healthy(), code).state, State::Skip, "{code}");
    }
}

#[test]
fn brokers_that_controllers_elect_are_not_two_masters() {
    let mut bundle = healthy();
    for broker in &mut bundle.brokers {
        let settings = broker.settings.as_mut().unwrap();
        settings.insert("enableControllerMode".into(), "true".into());
        settings.insert("brokerId".into(), "0".into());
    }
    assert_eq!(verdict_of(&bundle, "two-masters").state, State::Pass);
}

#[test]
fn java_brokers_are_not_said_to_pass_what_they_do_not_tell() {
    let mut bundle = healthy();
    for broker in &mut bundle.brokers {
        let own = [
            "refused",
            "lost",
            "damaged",
            "undelivered",
            "stopped",
            "sendsRefused",
            "subscription",
            "rebuild",
            "diskPending",
            "unknownTo",
            "vostok",
        ];
        broker.runtime.as_mut().unwrap().retain(|name, _| !own.iter().any(|start| name.starts_with(start)));
    }
    for code in ["refused-fenced", "queues-lost", "messages-damaged", "threads-stopped", "disk-full-soon"] {
        assert_eq!(verdict_of(&bundle, code).state, State::Skip, "{code}");
    }
    assert_eq!(verdict_of(&bundle, "append-locked").state, State::Pass);
    runtime(&mut bundle, "dispatchBehindBytes", "99999999");
    assert_eq!(verdict_of(&bundle, "dispatch-behind").state, State::Finding);
}

#[test]
fn a_broker_that_answers_late_has_no_other_clock() {
    let mut bundle = healthy();
    let broker = &mut bundle.brokers[2];
    (broker.asked_from_ms, broker.asked_at_ms) = (broker.asked_at_ms, broker.asked_at_ms + 9000);
    assert_eq!(verdict_of(&bundle, "clocks-differ").state, State::Pass);
    bundle.brokers[2].asked_from_ms += 8000;
    assert_eq!(verdict_of(&bundle, "clocks-differ").state, State::Finding);
}

#[test]
fn a_broker_that_refuses_is_not_silent() {
    let mut bundle = healthy();
    bundle.brokers[2].error = Some("10.0.0.3:10911 answered NO_PERMISSION (16): signature".into());
    bundle.brokers[2].error_code = Some(16);
    assert_eq!(verdict_of(&bundle, "broker-silent").state, State::Pass);
    let found = verdict_of(&bundle, "look-refused").findings;
    assert!(found[0].advice.of(Lang::En).contains("--credentials"), "{:?}", found[0].advice);
    bundle.brokers[2].error_code = None;
    assert_eq!(verdict_of(&bundle, "broker-silent").state, State::Finding);
    assert_eq!(verdict_of(&bundle, "look-refused").state, State::Pass);
}

#[test]
fn a_broker_that_serves_its_own_machine_only_is_not_open_to_everybody() {
    let mut bundle = healthy();
    setting(&mut bundle, "authenticationEnabled", "false");
    runtime(&mut bundle, "servesThisMachineOnly", "true");
    assert_eq!(verdict_of(&bundle, "open-to-everybody").state, State::Pass);
    runtime(&mut bundle, "servesThisMachineOnly", "false");
    assert_eq!(verdict_of(&bundle, "open-to-everybody").state, State::Finding);
}

#[test]
fn members_far_from_a_broker_are_not_taken_for_hidden_ones() {
    // A cluster on one machine with loopback addresses alone is as it was meant.
    let mut bundle = healthy();
    bundle.name_servers.iter_mut().for_each(|server| server.address = "127.0.0.1:9876".into());
    bundle.brokers.iter_mut().for_each(|broker| broker.address = "127.0.0.1:10911".into());
    assert_eq!(verdict_of(&bundle, "address-loopback").state, State::Pass);
    // Whoever reached the name server through the bridge reaches the broker too.
    bundle.name_servers[0].address = "172.17.0.3:9876".into();
    bundle.brokers[0].address = "172.17.0.2:10911".into();
    assert_eq!(verdict_of(&bundle, "address-bridge").state, State::Pass);
}

#[test]
fn clients_of_grpc_that_cannot_tell_their_state_are_not_silent() {
    let mut bundle = with_data("member-silent");
    let why = "b:10911 answered SYSTEM_ERROR (1): not supported by clients of gRPC";
    bundle.groups[0].members[1].error = Some(why.to_owned());
    assert_eq!(verdict_of(&bundle, "member-silent").state, State::Pass);
    // RocketMQ's proxy waits for an answer of a client that receives messages itself.
    bundle.groups[0].members[1].error = Some("no answer from b:10911 within 3s".to_owned());
    assert_eq!(verdict_of(&bundle, "member-silent").state, State::Finding);
    bundle.groups[0].consume_type = "CONSUME_ACTIVELY".to_owned();
    let mut count = |language: &str, id: &str| {
        bundle.groups[0].members[1].client_id = id.to_owned();
        bundle.groups[0].connections[1].client_id = id.to_owned();
        bundle.groups[0].connections[1].language = language.to_owned();
        verdict_of(&bundle, "member-silent").findings.len()
    };
    let (grpc, rust, remoting) = ("host@4711@0@1hxl7x0cw9kq", "host@4711#0", "10.0.0.7@4711#77");
    assert_eq!([count("RUST", rust), count("GO", grpc), count("JAVA", grpc)], [0, 0, 1]);
    assert_eq!([count("GO", remoting), count("CPP", remoting), count("JAVA", remoting)], [1, 1, 1]);
}

#[test]
fn a_group_that_goes_on_is_not_stuck() {
    let mut bundle = healthy();
    stuck(&mut bundle);
    owned(&mut bundle).cached = 5;
    owned(&mut bundle).last_consume_ms = NOW_MS - 600_000;
    row(&mut bundle).later = Some(Later { after_ms: 6000, committed: 12 });
    for code in ["group-not-moving", "owner-does-not-consume", "owner-does-not-pull"] {
        assert_eq!(verdict_of(&bundle, code).state, State::Pass, "{code}");
    }
}

#[test]
fn a_group_whose_filter_selects_little_is_not_stuck() {
    let check = |change: fn(&mut Progress), expected| {
        let mut bundle = healthy();
        stuck(&mut bundle);
        change(row(&mut bundle));
        assert_eq!(verdict_of(&bundle, "group-not-moving").state, expected);
    };
    check(|_| (), State::Finding);
    check(|row| row.is_done = true, State::Pass);
    check(|row| row.first_ms = Some(NOW_MS - 20_000), State::Pass);
    // A broker of RocketMQ: the last consumed message is as old as a long poll.
    check(|row| (row.first_ms, row.last_ms) = (None, NOW_MS - 20_000), State::Pass);
    check(|row| (row.first_ms, row.last_ms) = (None, 0), State::Finding);
}

#[test]
fn the_holder_of_a_lock_is_idle_for_what_it_says_of_the_queue() {
    let figure = |change: fn(&mut Bundle)| {
        let mut bundle = healthy();
        stuck(&mut bundle);
        change(&mut bundle);
        let findings = verdict_of(&bundle, "lock-held-idle").findings;
        findings.first().map(|it| it.figure.of(Lang::En).to_owned()).unwrap_or_default()
    };
    assert_eq!(figure(|_| ()), "", "it consumes");
    let at = "2023-11-14T22:03:20.000Z";
    let pulls = figure(|it| owned(it).last_pull_ms = NOW_MS - 600_000);
    assert!(pulls.starts_with(&format!("locked by two, whose last pull was at {at}")), "{pulls}");
    let consumes = figure(|it| {
        owned(it).cached = 5;
        owned(it).last_consume_ms = NOW_MS - 600_000;
    });
    assert!(
        consumes.starts_with(&format!("locked by two, which finished its last message at {at}")),
        "{consumes}"
    );
    let lost = figure(|it| it.groups[0].members[1].queues.clear());
    assert!(lost.starts_with("locked by two, which does not have the queue"), "{lost}");
    let silent = figure(|it| it.groups[0].members[1].error = Some("timed out".into()));
    assert_eq!(silent, "", "nobody knows whether a member that does not answer consumes");
    let moves = figure(|it| {
        it.groups[0].locks = Some(vec![lock("gone", "broker-b")]);
        row(it).later = Some(Later { after_ms: 6000, committed: 12 });
    });
    assert_eq!(moves, "", "the queue goes on");
}

#[test]
fn what_was_consumed_last_does_not_tell_how_old_the_waiting_messages_are() {
    let mut bundle = healthy();
    lag(&mut bundle);
    row(&mut bundle).last_ms = NOW_MS - 71 * 3_600_000;
    row(&mut bundle).first_ms = Some(NOW_MS - 1000);
    assert_eq!(verdict_of(&bundle, "group-lag-expires").state, State::Pass);
    // Nobody looked.
    row(&mut bundle).first_ms = None;
    bundle.groups[0].progress.remove(0);
    assert_eq!(verdict_of(&bundle, "group-lag-expires").state, State::Skip);
}

#[test]
fn an_offset_of_zero_where_the_queue_begins_later_may_mean_that_there_is_none() {
    let mut bundle = healthy();
    row(&mut bundle).committed = 0;
    let (topic, broker) = (row(&mut bundle).topic.clone(), row(&mut bundle).broker.clone());
    let topic = bundle.topics.iter_mut().find(|it| it.name == topic).unwrap();
    topic.queues.iter_mut().find(|it| it.broker == broker).unwrap().min = 5;
    assert!(verdict_of(&bundle, "group-offset-outside").findings.is_empty());
    row(&mut bundle).committed = 3;
    assert_eq!(verdict_of(&bundle, "group-offset-outside").findings.len(), 1);
}

#[test]
fn sends_of_a_java_broker_are_refused_at_the_limits_of_its_settings() {
    let mut bundle = with_data("append-locked");
    let mut check = |code: &str, name: &str, value: &str, limit: (&str, &str), expected: State| {
        runtime(&mut bundle, name, value);
        setting(&mut bundle, limit.0, limit.1);
        assert_eq!(verdict_of(&bundle, code).state, expected, "{name}={value}, {limit:?}");
    };
    let (name, limit) = ("sendThreadPoolQueueHeadWaitTimeMills", "waitTimeMillsInSendQueue");
    check("send-queue-waits", name, "150", (limit, "200"), State::Pass);
    check("send-queue-waits", name, "199", (limit, "200"), State::Finding);
    check("send-queue-waits", name, "500", (limit, "3000"), State::Pass);
    check("send-queue-waits", name, "180", (limit, "200"), State::Pass);
    check("send-queue-waits", name, "181", (limit, "200"), State::Finding);
    check("send-queue-waits", name, "209", (limit, "200"), State::Finding);
    let (name, limit) = ("pageCacheLockTimeMills", "osPageCacheBusyTimeOutMills");
    check("append-locked", name, "1500", (limit, "1000"), State::Finding);
    check("append-locked", name, "1500", (limit, "120000"), State::Pass);
}

#[test]
fn sends_that_wait_nearly_as_long_as_the_limit_are_not_called_refused() {
    let said = |value: &str| {
        let mut bundle = with_data("send-queue-waits");
        runtime(&mut bundle, "sendThreadPoolQueueHeadWaitTimeMills", value);
        let finding = verdict_of(&bundle, "send-queue-waits").findings.remove(0);
        [finding.title, finding.figure].map(|text| text.of(Lang::En).to_owned())
    };
    for value in ["181", "199"] {
        let [title, figure] = said(value);
        assert!(title.contains("nearly") && figure.contains("near the limit of 200"), "{title}: {figure}");
    }
    for value in ["200", "209"] {
        let [title, figure] = said(value);
        assert!(title.contains("so long") && figure.contains("the limit is 200"), "{title}: {figure}");
    }
}

/// Bundles of format 1 hold the counts since the control group was made.
#[test]
fn counts_of_a_control_group_without_a_second_look_have_no_time() {
    let mut bundle = healthy();
    let old =
        r#"{"group_memory_kills": 3, "group_cpu_throttled": [900, 1000], "group_memory_max": 8589934592}"#;
    bundle.host = Some(serde_json::from_str(old).unwrap());
    assert_eq!(verdict_of(&bundle, "control-group-processor").state, State::Skip);
    let finding = verdict_of(&bundle, "control-group-memory").findings.remove(0);
    assert_eq!(finding.severity, Severity::Advice);
    let (title, figure) = (finding.title.of(Lang::En), finding.figure.of(Lang::En));
    assert!(title.contains("unknown") && figure.contains("3 processes ended"), "{title}: {figure}");
}

#[test]
fn a_member_that_was_not_asked_may_own_any_queue() {
    let mut bundle = healthy();
    bundle.groups[0].members[1].queues.clear();
    assert_eq!(verdict_of(&bundle, "queue-without-owner").state, State::Finding);
    bundle.groups[0].members.remove(1);
    assert_eq!(verdict_of(&bundle, "queue-without-owner").state, State::Skip);
}

#[test]
fn a_broker_that_was_taken_away_on_purpose_is_not_lost_for_ever() {
    let state = |code: &str, is_unregistered, hours: i64| {
        let mut bundle = healthy();
        let broker = departed("broker-c", 0, "10.0.0.4:10911", is_unregistered);
        bundle.departed = Some(vec![Departed { seen_ms: NOW_MS - hours * 3_600_000 + 1, ..broker }]);
        verdict_of(&bundle, code).state
    };
    let (found, passed) = (State::Finding, State::Pass);
    assert_eq!((state("broker-lost", false, 24), state("set-lost", false, 24)), (found, found));
    assert_eq!((state("broker-lost", false, 25), state("set-lost", false, 25)), (passed, passed));
    assert_eq!((state("broker-lost", true, 1), state("set-lost", true, 1)), (found, passed));
    assert_eq!(state("broker-lost", true, 2), passed);
}

#[test]
fn a_lost_member_of_a_set_with_controllers_is_found_once() {
    let mut bundle = healthy();
    bundle.replica_sets[0].members[1].is_alive = false;
    bundle.departed = Some(vec![departed("broker-a", 1, "10.0.0.2:10911", false)]);
    assert_eq!(verdict_of(&bundle, "broker-lost").state, State::Pass);
    assert_eq!(verdict_of(&bundle, "replica-lost").state, State::Finding);
    bundle.replica_sets[0].members[1].lost_ms = Some(NOW_MS - 5000);
    let figure = verdict_of(&bundle, "replica-lost").findings[0].figure.of(Lang::En).to_owned();
    assert!(figure.starts_with("no heartbeat since 2023-11-14T22:13:15.000Z; 2 of 2"), "{figure}");
}
