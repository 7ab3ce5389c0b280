//! Settings of clients, completed by the server (`GrpcClientSettingsManager`).

use grpc::messages::{
    ClientType, CustomizedBackoff, Duration, ExponentialBackoff, Metric, PubSub, RetryPolicy, Settings,
    Strategy,
};
use wire::body::SubscriptionGroupConfig;

use crate::config::Config;

/// Delays between the deliveries of a group without a policy of its own, in seconds.
const DELAYS_S: [i64; 18] =
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

/// Most lite topics of a client, if its group has no setting (`lite.sub.client.quota`).
const LITE_QUOTA: i32 = 2000;

/// Bytes of the longest lite topic.
const LITE_TOPIC_BYTES: i32 = 64;

fn exponential(initial_ms: i64, max_ms: i64, multiplier: f32) -> Strategy {
    let (initial, max) = (Some(Duration::of_ms(initial_ms)), Some(Duration::of_ms(max_ms)));
    Strategy::ExponentialBackoff(ExponentialBackoff { initial, max, multiplier })
}

/// Whether the settings are those of a consumer of lite topics.
pub fn is_lite(settings: &Settings) -> bool {
    matches!(settings.client_type(), ClientType::LitePushConsumer | ClientType::LiteSimpleConsumer)
}

/// Returns the most lite topics of a client of the group.
pub fn lite_quota(group: &SubscriptionGroupConfig) -> i32 {
    let quota = group.attributes.get("lite.sub.client.quota").and_then(|quota| quota.parse().ok());
    quota.unwrap_or(LITE_QUOTA)
}

/// The settings of a producer, completed.
pub fn of_producer(config: &Config, mut settings: Settings) -> Settings {
    let strategy = Some(exponential(
        config.producer_backoff_ms_first,
        config.producer_backoff_ms_max,
        config.producer_backoff_multiplier as f32,
    ));
    settings.backoff_policy = Some(RetryPolicy { max_attempts: config.producer_attempts_max, strategy });
    if let Some(PubSub::Publishing(publishing)) = &mut settings.pub_sub {
        publishing.validate_message_type = config.checks_message_type;
        // Producers check this themselves, and know no sign for any size.
        let max = i32::try_from(config.body_bytes_max).ok().filter(|max| *max > 0);
        publishing.max_body_size = max.unwrap_or(i32::MAX);
    }
    settings.metric = Some(Metric { on: false, endpoints: None });
    settings
}

/// The settings of a consumer of `group`, completed.
pub fn of_consumer(config: &Config, mut settings: Settings, group: &SubscriptionGroupConfig) -> Settings {
    settings.backoff_policy = Some(RetryPolicy {
        max_attempts: group.retry_max_times.saturating_add(1),
        strategy: Some(strategy(&group.group_retry_policy)),
    });
    if let Some(PubSub::Subscription(subscription)) = &mut settings.pub_sub {
        subscription.receive_batch_size = Some(config.batch_max);
        subscription.long_polling_timeout = Some(Duration::of_ms(config.polling_ms_max));
        subscription.fifo = Some(group.consume_message_orderly);
        subscription.lite_subscription_quota = Some(lite_quota(group));
        subscription.max_lite_topic_size = Some(LITE_TOPIC_BYTES);
    }
    settings.metric = Some(Metric { on: false, endpoints: None });
    settings
}

/// Reads the policy of a group (`GroupRetryPolicy`), whose times are in milliseconds.
fn strategy(policy: &serde_json::Value) -> Strategy {
    if policy["type"] == "EXPONENTIAL" {
        let own = &policy["exponentialRetryPolicy"];
        let number = |name: &str, default| own[name].as_i64().unwrap_or(default);
        return exponential(
            number("initial", 5000),
            number("max", 7_200_000),
            number("multiplier", 2) as f32,
        );
    }
    let own = policy["customizedRetryPolicy"]["next"].as_array();
    let next = match own {
        Some(own) => own.iter().filter_map(serde_json::Value::as_i64).map(Duration::of_ms).collect(),
        None => DELAYS_S.map(|seconds| Duration::of_ms(seconds * 1000)).to_vec(),
    };
    Strategy::CustomizedBackoff(CustomizedBackoff { next })
}

/// Returns the delay before a message that the server gives back is delivered again, in milliseconds. It depends on
/// the number of deliveries (`CustomizedRetryPolicy.nextDelayDuration`, `ExponentialRetryPolicy`).
pub fn retry_ms(group: &SubscriptionGroupConfig, reconsume_times: i32) -> i64 {
    let times = usize::try_from(reconsume_times).unwrap_or(0);
    let ms = |duration: &Option<Duration>| duration.map_or(0, |duration| duration.ms());
    match strategy(&group.group_retry_policy) {
        Strategy::CustomizedBackoff(CustomizedBackoff { next }) => {
            next.get(times.saturating_add(2)).or(next.last()).map_or(0, |duration| duration.ms())
        }
        Strategy::ExponentialBackoff(ExponentialBackoff { initial, max, multiplier }) => {
            let power = f64::from(multiplier).powi(reconsume_times.clamp(0, 32));
            (ms(&initial) as f64 * power).min(ms(&max) as f64) as i64
        }
    }
}

#[cfg(test)]
mod tests;
