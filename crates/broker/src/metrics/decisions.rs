//! Metrics of producers' decisions about half messages.

use super::catalogue::{COMMITS, FINISH_LATENCY, ROLLBACKS};
use super::exposition::Exposition;
use crate::parts::Delivery;
use crate::state::{Decisions, FINISH_BOUNDS_S};

pub(super) fn write(delivery: &Delivery, text: &mut Exposition) {
    let decisions = delivery.transactions.lock().decisions();
    let commits: fn(&Decisions) -> u64 = |decisions| decisions.commits.iter().sum();
    let rollbacks: fn(&Decisions) -> u64 = |decisions| decisions.rollbacks;
    for (metric, figure) in [(&COMMITS, commits), (&ROLLBACKS, rollbacks)] {
        let mut family = text.family(metric);
        for (topic, decisions) in &decisions {
            family.value(&[topic], figure(decisions) as f64);
        }
        family.end();
    }
    let mut family = text.family(&FINISH_LATENCY);
    for (topic, decisions) in &decisions {
        family.histogram(&[topic], &FINISH_BOUNDS_S, &decisions.commits, decisions.ages_s as f64);
    }
    family.end_histogram(&FINISH_BOUNDS_S);
}

#[cfg(test)]
mod tests {
    use wire::body::topic::TopicConfig;

    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn decisions_are_counted_by_topic_and_age() {
        let fixture = Fixture::new();
        let broker = &fixture.broker;
        broker.tables.topics.put(TopicConfig::new("T", 2, 6), 0).unwrap();
        let mut state = broker.delivery.transactions.lock();
        state.count_commit("T", 5);
        state.count_commit("T", 61);
        state.count_rollback("T");
        state.count_rollback("gone");
        state.forget_topic("gone");
        drop(state);
        let mut text = Exposition::new(Vec::new(), 10, None);
        write(&broker.delivery, &mut text);
        let text = text.finish();
        for line in [
            "rocketmq_commit_messages_total{topic=\"T\"} 2.0",
            "rocketmq_rollback_messages_total{topic=\"T\"} 1.0",
            "rocketmq_finish_message_latency_milliseconds_bucket{le=\"5.0\",topic=\"T\"} 1",
            "rocketmq_finish_message_latency_milliseconds_bucket{le=\"60.0\",topic=\"T\"} 1",
            "rocketmq_finish_message_latency_milliseconds_bucket{le=\"600.0\",topic=\"T\"} 2",
            "rocketmq_finish_message_latency_milliseconds_sum{topic=\"T\"} 66.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
        }
        assert!(!text.contains("gone"), "{text}");
    }
}
