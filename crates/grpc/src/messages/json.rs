//! Settings as protobuf's JSON, which Java's proxies read (`JsonFormat`). Enumerations are numbers, which parsers take as well as names.

use serde_json::{Map, Value, json};

use super::*;

/// The JSON of a client's settings.
pub fn settings_json(settings: &Settings) -> Value {
    object([
        ("clientType", settings.client_type.map(Value::from)),
        ("accessPoint", settings.access_point.as_ref().map(endpoints)),
        ("backoffPolicy", settings.backoff_policy.as_ref().map(policy)),
        ("requestTimeout", settings.request_timeout.map(duration)),
        ("publishing", published(settings)),
        ("subscription", subscribed(settings)),
        ("userAgent", settings.user_agent.as_ref().map(agent)),
        ("metric", settings.metric.as_ref().map(|metric| json!({ "on": metric.on }))),
    ])
}

/// Makes an object of the members that have a value.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let known = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect::<Map<_, _>>())
}

fn duration(duration: Duration) -> Value {
    let nanos = duration.nanos.unsigned_abs();
    let sign = if duration.seconds < 0 || duration.nanos < 0 { "-" } else { "" };
    Value::from(format!("{sign}{}.{nanos:09}s", duration.seconds.unsigned_abs()))
}

fn resource(resource: &Resource) -> Value {
    json!({ "resourceNamespace": resource.resource_namespace, "name": resource.name })
}

fn endpoints(endpoints: &Endpoints) -> Value {
    let addresses = endpoints.addresses.iter().map(|it| json!({ "host": it.host, "port": it.port }));
    json!({ "scheme": endpoints.scheme, "addresses": addresses.collect::<Vec<_>>() })
}

fn policy(policy: &RetryPolicy) -> Value {
    let (exponential, customized) = match &policy.strategy {
        Some(Strategy::ExponentialBackoff(backoff)) => (
            Some(object([
                ("initial", backoff.initial.map(duration)),
                ("max", backoff.max.map(duration)),
                ("multiplier", Some(Value::from(backoff.multiplier))),
            ])),
            None,
        ),
        Some(Strategy::CustomizedBackoff(backoff)) => {
            (None, Some(json!({ "next": backoff.next.iter().map(|it| duration(*it)).collect::<Vec<_>>() })))
        }
        None => (None, None),
    };
    object([
        ("maxAttempts", Some(Value::from(policy.max_attempts))),
        ("exponentialBackoff", exponential),
        ("customizedBackoff", customized),
    ])
}

fn published(settings: &Settings) -> Option<Value> {
    let Some(PubSub::Publishing(publishing)) = &settings.pub_sub else { return None };
    Some(json!({
        "topics": publishing.topics.iter().map(resource).collect::<Vec<_>>(),
        "maxBodySize": publishing.max_body_size,
        "validateMessageType": publishing.validate_message_type,
    }))
}

fn subscribed(settings: &Settings) -> Option<Value> {
    let Some(PubSub::Subscription(subscription)) = &settings.pub_sub else { return None };
    let expression = |it: &FilterExpression| json!({ "type": it.r#type, "expression": it.expression });
    let entry = |entry: &SubscriptionEntry| {
        let topic = entry.topic.as_ref().map(resource);
        object([("topic", topic), ("expression", entry.expression.as_ref().map(expression))])
    };
    Some(object([
        ("group", subscription.group.as_ref().map(resource)),
        ("subscriptions", Some(subscription.subscriptions.iter().map(entry).collect())),
        ("fifo", subscription.fifo.map(Value::from)),
        ("receiveBatchSize", subscription.receive_batch_size.map(Value::from)),
        ("longPollingTimeout", subscription.long_polling_timeout.map(duration)),
    ]))
}

fn agent(agent: &UA) -> Value {
    let UA { language, version, platform, hostname } = agent;
    json!({ "language": language, "version": version, "platform": platform, "hostname": hostname })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_consumer_are_the_json_of_java() {
        let entry = SubscriptionEntry {
            topic: Some(Resource::named("T")),
            expression: Some(FilterExpression { r#type: 1, expression: "A".to_owned() }),
        };
        let subscription = Subscription {
            group: Some(Resource::named("g")),
            subscriptions: vec![entry],
            fifo: Some(true),
            long_polling_timeout: Some(Duration::of_ms(20_500)),
            ..Default::default()
        };
        let backoff = CustomizedBackoff { next: vec![Duration::of_ms(1000)] };
        let settings = Settings {
            client_type: Some(ClientType::PushConsumer.into()),
            backoff_policy: Some(RetryPolicy {
                max_attempts: 17,
                strategy: Some(Strategy::CustomizedBackoff(backoff)),
            }),
            pub_sub: Some(PubSub::Subscription(subscription)),
            ..Default::default()
        };
        let expected = json!({
            "clientType": 2,
            "backoffPolicy": { "maxAttempts": 17, "customizedBackoff": { "next": ["1.000000000s"] } },
            "subscription": {
                "group": { "name": "g", "resourceNamespace": "" },
                "subscriptions": [{
                    "topic": { "name": "T", "resourceNamespace": "" },
                    "expression": { "type": 1, "expression": "A" },
                }],
                "fifo": true,
                "longPollingTimeout": "20.500000000s",
            },
        });
        assert_eq!(settings_json(&settings), expected);
    }
}
