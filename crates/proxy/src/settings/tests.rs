use grpc::messages::{Publishing, Resource, Subscription};
use serde_json::json;

use super::*;

fn policy(settings: &Settings) -> &RetryPolicy {
    settings.backoff_policy.as_ref().unwrap()
}

#[test]
fn what_producers_are_told() {
    let topics = vec![Resource::named("T")];
    let pub_sub = PubSub::Publishing(Publishing { topics: topics.clone(), ..Default::default() });
    let found = of_producer(&Config::default(), Settings { pub_sub: Some(pub_sub), ..Default::default() });
    assert_eq!(policy(&found).max_attempts, 3);
    assert_eq!(policy(&found).strategy, Some(exponential(10, 1000, 2.0)));
    let Some(PubSub::Publishing(publishing)) = found.pub_sub else { panic!() };
    assert_eq!((publishing.max_body_size, publishing.validate_message_type), (4_194_304, true));
    assert_eq!(publishing.topics, topics);
}

#[test]
fn producers_may_send_bodies_of_any_size_where_there_is_no_maximum() {
    let config = Config { body_bytes_max: -1, ..Config::default() };
    let pub_sub = Some(PubSub::Publishing(Publishing::default()));
    let Some(PubSub::Publishing(publishing)) =
        of_producer(&config, Settings { pub_sub, ..Default::default() }).pub_sub
    else {
        panic!()
    };
    assert_eq!(publishing.max_body_size, i32::MAX);
}

fn consumer(group: &SubscriptionGroupConfig) -> Settings {
    let pub_sub = PubSub::Subscription(Subscription::default());
    of_consumer(&Config::default(), Settings { pub_sub: Some(pub_sub), ..Default::default() }, group)
}

#[test]
fn what_consumers_of_a_default_group_are_told() {
    let found = consumer(&SubscriptionGroupConfig::default());
    assert_eq!(policy(&found).max_attempts, 17);
    let Some(Strategy::CustomizedBackoff(backoff)) = &policy(&found).strategy else { panic!() };
    assert_eq!((backoff.next.len(), backoff.next[0].ms(), backoff.next[17].ms()), (18, 1000, 7_200_000));
    let Some(PubSub::Subscription(subscription)) = found.pub_sub else { panic!() };
    assert_eq!((subscription.receive_batch_size, subscription.fifo), (Some(32), Some(false)));
    assert_eq!(subscription.long_polling_timeout.unwrap().ms(), 20_000);
}

#[test]
fn an_exponential_policy_has_defaults() {
    let group = SubscriptionGroupConfig {
        group_retry_policy: json!({ "type": "EXPONENTIAL" }),
        ..Default::default()
    };
    assert_eq!(policy(&consumer(&group)).strategy, Some(exponential(5000, 7_200_000, 2.0)));
}
