use super::*;
use crate::testing::Fixture;

#[test]
fn every_part_says_another_version_and_the_last_one_the_true_one() {
    let version = DataVersion { counter: 7, state_version: 0, timestamp: 1000 };
    let times = |count| part_versions(version, count).map(|part| part.timestamp).collect::<Vec<_>>();
    assert_eq!(times(1), [1000]);
    assert_eq!(times(3), [998, 999, 1000]);
    assert!(part_versions(version, 3).all(|part| part.counter == 7));
}

#[test]
fn a_name_server_is_reminded_of_a_small_table_every_time_and_of_a_large_one_in_turns() {
    let mut reminder = Reminder::default();
    assert_eq!([20, 20, 21].map(|count| reminder.take(count)), [0..20, 0..20, 0..21]);
    let mut reminder = Reminder::default();
    let large = [12_000, 12_000, 12_000, 12_000, 4_000];
    assert_eq!(
        large.map(|count| reminder.take(count)),
        [0..5_000, 5_000..10_000, 10_000..12_000, 0..5_000, 0..4_000]
    );
}

#[test]
fn a_broker_that_may_not_be_written_registers_topics_without_that_permission() {
    let config = TopicConfig::new("T", 4, PERM_READ | PERM_WRITE);
    assert_eq!(*masked(6, &config), config);
    assert_eq!(masked(PERM_READ, &config).perm, PERM_READ);
    assert_eq!(masked(PERM_READ, &config).read_queue_nums, 4);
}

#[test]
fn topics_with_an_order_configuration_are_marked_once_and_stay_as_they_are_otherwise() {
    let fixture = Fixture::new();
    let config = TopicConfig { topic_sys_flag: 2, ..TopicConfig::new("T", 3, PERM_READ) };
    fixture.broker.topics.put(config.clone(), 1).unwrap();
    let body = br#"{"table":{"T":"broker-a:3","Elsewhere":"broker-b:4"}}"#;
    take_order(&fixture.broker, body);
    let broker = &fixture.broker;
    assert_eq!(broker.topics.find("T").unwrap().config, TopicConfig { order: true, ..config });
    assert!(broker.topics.find("Elsewhere").is_none());
    let version = broker.topics.version();
    take_order(broker, body);
    take_order(broker, b"{");
    assert_eq!(broker.topics.version(), version);
    assert!(fixture.reopened().broker.topics.find("T").unwrap().config.order);
}
