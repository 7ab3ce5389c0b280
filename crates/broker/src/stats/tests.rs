use wire::codes::request;

use super::*;
use crate::state::SAMPLE_MS;
use crate::testing::Fixture;

fn view(fixture: &Fixture, name: &str, key: &str) -> Result<(u64, f64), String> {
    let fields = [("statsName", name), ("statsKey", key)];
    let (code, remark, body) = fixture.ask(request::VIEW_BROKER_STATS_DATA, &fields, b"");
    if code != 0 {
        return Err(remark);
    }
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let minute = &body["statsMinute"];
    Ok((minute["sum"].as_u64().unwrap(), minute["tps"].as_f64().unwrap()))
}

#[test]
fn messages_in_and_out_are_counted_by_topic_group_and_broker() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    fixture.put("T", 0, b"before the start", b"");
    sample(&broker.tables, &broker.figures, &broker.runtime, 0);
    for _ in 0..5 {
        fixture.put("T", 0, b"body", b"");
    }
    fixture.put("SCHEDULE_TOPIC_XXXX", 0, b"body", b"");
    let reader = broker.tables.offsets.reader("g", "T");
    broker.tables.offsets.note_pull(&reader, 0, 4, 4, 400);
    broker.tables.offsets.note_pull(&reader, 0, 4, 0, 0);
    broker.tables.groups.make("g", 1).unwrap();
    broker.figures.stats.count(Name::SendBack, "T", "g");
    sample(&broker.tables, &broker.figures, &broker.runtime, SAMPLE_MS);
    let cluster = broker.runtime.config.broker_cluster_name.clone();
    let view = |name: &str, key: &str| view(&fixture, name, key);
    assert_eq!(view("TOPIC_PUT_NUMS", "T"), Ok((5, 0.5)));
    assert_eq!(view("GROUP_GET_NUMS", "T@g"), Ok((4, 0.4)));
    assert_eq!(view("GROUP_GET_SIZE", "T@g"), Ok((400, 40.0)));
    assert_eq!(view("SNDBCK_PUT_NUMS", "T@g"), Ok((1, 0.1)));
    assert_eq!(view("BROKER_PUT_NUMS", &cluster), Ok((6, 0.6)));
    assert_eq!(view("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", &cluster), Ok((5, 0.5)));
    assert_eq!(view("BROKER_GET_NUMS", &cluster), Ok((4, 0.4)));
    assert_eq!(view("TOPIC_PUT_NUMS", "U"), Err("The stats <TOPIC_PUT_NUMS> <U> not exist".to_owned()));
    assert_eq!(view("NO_SUCH", "T"), Err("The stats <NO_SUCH> <T> not exist".to_owned()));
}

#[test]
fn bytes_and_times_of_sends_are_counted_by_topic_and_queue() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    let queue = fixture.queue("T", 3);
    sample(&broker.tables, &broker.figures, &broker.runtime, 0);
    let send = |body: &[u8]| {
        let fields = [
            ("a", "PG"),
            ("b", "T"),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", "3"),
            ("f", "0"),
            ("g", "1"),
            ("h", "0"),
        ];
        assert_eq!(fixture.ask(request::SEND_MESSAGE_V2, &fields, body).0, 0);
    };
    send(&[7; 1000]);
    send(&[7; 2000]);
    (0..2).for_each(|_| queue.sent.took(std::time::Duration::from_millis(15)));
    sample(&broker.tables, &broker.figures, &broker.runtime, SAMPLE_MS);
    let stored = broker.store.appended().get();
    assert_eq!(view(&fixture, "TOPIC_PUT_SIZE", "T").unwrap().0, stored);
    assert!(view(&fixture, "TOPIC_PUT_LATENCY", "3@T").unwrap().0 >= 30);
    for end in 2..=6 {
        sample(&broker.tables, &broker.figures, &broker.runtime, end * SAMPLE_MS);
    }
    let (_, _, body) = fixture.ask(request::GET_BROKER_RUNTIME_INFO, &[], b"");
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let counted = body["table"]["putMessageDistributeTime"].as_str().unwrap();
    let puts = counted.split_whitespace().filter_map(|it| it.rsplit_once(':')?.1.parse::<u64>().ok());
    assert_eq!(puts.sum::<u64>(), 2, "{counted}");
}

#[test]
fn bytes_that_the_broker_itself_stores_are_counted_by_topic() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    fixture.queue("T", 0);
    sample(&broker.tables, &broker.figures, &broker.runtime, 0);
    let before = broker.store.appended().get();
    fixture.put("T", 0, &[7; 1000], b"");
    let once = broker.store.appended().get() - before;
    sample(&broker.tables, &broker.figures, &broker.runtime, SAMPLE_MS);
    assert_eq!(view(&fixture, "TOPIC_PUT_SIZE", "T").unwrap().0, once);
    fixture.put("T", 0, &[7; 1000], b"");
    sample(&broker.tables, &broker.figures, &broker.runtime, 2 * SAMPLE_MS);
    assert_eq!(view(&fixture, "TOPIC_PUT_SIZE", "T").unwrap().0, 2 * once);
    sample(&broker.tables, &broker.figures, &broker.runtime, 3 * SAMPLE_MS);
    assert_eq!(view(&fixture, "TOPIC_PUT_SIZE", "T").unwrap().0, 2 * once, "counted once");
}

#[test]
fn a_dead_letter_was_given_back_too() {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    for topic in ["T", "%RETRY%g", "%DLQ%g"] {
        fixture.queue(topic, 0);
    }
    fixture.put("T", 0, b"x", b"");
    sample(&fixture.broker.tables, &fixture.broker.figures, &fixture.broker.runtime, 0);
    let fields = [("group", "g"), ("offset", "0"), ("delayLevel", "-1")];
    assert_eq!(fixture.ask(wire::codes::request::CONSUMER_SEND_MSG_BACK, &fields, b"").0, 0);
    sample(&fixture.broker.tables, &fixture.broker.figures, &fixture.broker.runtime, SAMPLE_MS);
    assert_eq!(view(&fixture, "SNDBCK_PUT_NUMS", "T@g").unwrap().0, 1);
}

#[test]
fn what_is_gone_is_forgotten_and_stays_in_the_sums() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    broker.tables.groups.make("g", 1).unwrap();
    fixture.queue("T", 0);
    let reader = broker.tables.offsets.reader("g", "T");
    sample(&broker.tables, &broker.figures, &broker.runtime, 0);
    broker.tables.offsets.note_pull(&reader, 0, 4, 4, 400);
    broker.figures.stats.count(Name::SendBack, "T", "g");
    sample(&broker.tables, &broker.figures, &broker.runtime, SAMPLE_MS);
    assert_eq!(view(&fixture, "SNDBCK_PUT_NUMS", "T@g").unwrap().0, 1);
    let change = crate::change::GroupChange::Remove { group: "g".to_owned(), clean_offsets: false };
    broker.tables.groups.commit(vec![vec![change]], 1);
    broker.tables.offsets.forget_group("g");
    sample(&broker.tables, &broker.figures, &broker.runtime, 2 * SAMPLE_MS);
    for name in ["GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS"] {
        assert!(view(&fixture, name, "T@g").is_err(), "{name}");
    }
    let cluster = broker.runtime.config.broker_cluster_name.clone();
    assert_eq!(view(&fixture, "BROKER_GET_NUMS", &cluster).unwrap().0, 4);
    assert!(broker.figures.stats.events(|_| true).is_empty());
}

#[test]
fn a_deleted_topic_has_no_counters_and_stays_in_the_sums() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    sample(&broker.tables, &broker.figures, &broker.runtime, 0);
    (0..3).for_each(|_| fixture.put("T", 0, b"body", b""));
    sample(&broker.tables, &broker.figures, &broker.runtime, SAMPLE_MS);
    assert_eq!(view(&fixture, "TOPIC_PUT_NUMS", "T").unwrap().0, 3);
    broker.store.remove_topic("T").unwrap();
    assert!(view(&fixture, "TOPIC_PUT_NUMS", "T").is_err());
    fixture.put("U", 0, b"body", b"");
    sample(&broker.tables, &broker.figures, &broker.runtime, 2 * SAMPLE_MS);
    let cluster = broker.runtime.config.broker_cluster_name.clone();
    assert_eq!(view(&fixture, "BROKER_PUT_NUMS", &cluster).unwrap().0, 4);
    // An hour later the counters are gone as well.
    sample(&broker.tables, &broker.figures, &broker.runtime, 3_600_000);
    let tables = broker.figures.stats.tables();
    assert!(!tables.put.contains_key("T") && tables.windows.read(Name::TopicPutNums, "T").is_none());
    assert_eq!(tables.put.get("U"), Some(&1));
}

#[test]
fn a_group_that_was_deleted_and_came_again_counts_on() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    sample(&broker.tables, &broker.figures, &broker.runtime, 0);
    let deliver = |messages| {
        broker.tables.offsets.note_pull(&broker.tables.offsets.reader("g", "T"), 0, 9, messages, 1)
    };
    deliver(7);
    sample(&broker.tables, &broker.figures, &broker.runtime, SAMPLE_MS);
    broker.tables.offsets.forget_group("g");
    deliver(2);
    sample(&broker.tables, &broker.figures, &broker.runtime, 2 * SAMPLE_MS);
    assert_eq!(view(&fixture, "GROUP_GET_NUMS", "T@g").unwrap().0, 9);
}

/// The RocketMQ exporter skips a broker whose status lacks one of these entries, or has no number in it.
#[test]
fn the_runtime_table_has_what_tools_split_into_numbers() {
    let fixture = Fixture::new();
    fixture.put("T", 0, b"body", b"");
    sample(
        &fixture.broker.tables,
        &fixture.broker.figures,
        &fixture.broker.runtime,
        fixture.broker.runtime.now_ms(),
    );
    fixture.put("T", 0, b"body", b"");
    let (_, _, body) = fixture.ask(request::GET_BROKER_RUNTIME_INFO, &[], b"");
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let text =
        |key: &str| body["table"][key].as_str().unwrap_or_else(|| panic!("{key} is missing")).to_owned();
    for key in ["putTps", "getMissTps", "getTransferredTps", "getTotalTps", "getFoundTps"] {
        let speeds: Vec<f64> = text(key).split(' ').map(|word| word.parse().unwrap()).collect();
        assert_eq!(speeds.len(), 3, "{key}");
    }
    for key in [
        "bootTimestamp",
        "brokerVersion",
        "commitLogDiskRatio",
        "commitLogMaxOffset",
        "commitLogMinOffset",
        "consumeQueueDiskRatio",
        "dispatchBehindBytes",
        "dispatchMaxBuffer",
        "earliestMessageTimeStamp",
        "getMessageEntireTimeMax",
        "msgGetTotalTodayMorning",
        "msgGetTotalTodayNow",
        "msgGetTotalYesterdayMorning",
        "msgPutTotalTodayMorning",
        "msgPutTotalTodayNow",
        "msgPutTotalYesterdayMorning",
        "pageCacheLockTimeMills",
        "pullThreadPoolQueueCapacity",
        "pullThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueSize",
        "putMessageAverageSize",
        "putMessageEntireTimeMax",
        "putMessageSizeTotal",
        "putMessageTimesTotal",
        "queryThreadPoolQueueCapacity",
        "queryThreadPoolQueueHeadWaitTimeMills",
        "queryThreadPoolQueueSize",
        "remainTransientStoreBufferNumbs",
        "sendThreadPoolQueueCapacity",
        "sendThreadPoolQueueHeadWaitTimeMills",
        "sendThreadPoolQueueSize",
        "startAcceptSendRequestTimeStamp",
        "timerReadBehind",
        "timerOffsetBehind",
    ] {
        assert!(text(key).parse::<f64>().is_ok(), "{key}: {}", text(key));
    }
    assert_eq!(text("putMessageDistributeTime").split_ascii_whitespace().count(), 13);
    assert_eq!(text("msgPutTotalTodayNow"), "1");
    let words: Vec<String> = text("commitLogDirCapacity").split(' ').map(str::to_owned).collect();
    assert!(words[2].parse::<f64>().is_ok() && words[6].parse::<f64>().is_ok(), "{words:?}");
    assert_eq!((text("brokerActive"), text("brokerVersionDesc")), ("true".to_owned(), "V5_5_0".to_owned()));
    assert!(text("runtime").starts_with("[ 0 days, 0 hours, "));
}

#[test]
fn a_broker_says_whether_it_serves_its_own_machine_only() {
    let said = |fixture: &Fixture| {
        status(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime)["servesThisMachineOnly"].clone()
    };
    assert_eq!(said(&Fixture::new()), "false");
    assert_eq!(said(&Fixture::with(|config| config.serve_this_machine_only("only here"))), "true");
}
