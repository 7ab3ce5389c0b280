//! Tests of orderly consumption, against the cluster of the integration tests.

use super::*;
use crate::Config;
use cluster::{Cluster, QUEUES};
use std::sync::mpsc::channel;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;

#[path = "../../../tests/it/cluster.rs"]
#[allow(dead_code, reason = "the integration tests use the rest")]
mod cluster;

/// Longest wait of a test for an outcome. An outcome that comes late is as good as an early one.
const OUTCOME_CAP: Duration = Duration::from_secs(120);

/// Waits until a condition holds that must become true.
async fn until(holds: impl Fn() -> bool) {
    let end = Instant::now() + OUTCOME_CAP;
    while !holds() {
        assert!(Instant::now() < end, "not within {OUTCOME_CAP:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn consume_with_a_refused_lock(cluster: &Cluster) {
    let client =
        Client::start(Config { api_timeout_min: OUTCOME_CAP, ..Config::new(&cluster.address.to_string()) })
            .unwrap();
    let (calls, mut called) = unbounded_channel();
    let (open, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let config = PushConfig { from: ConsumeFrom::First, threads: 2, ..PushConfig::new("g", "T", "*") };
    let consumer = PushConsumer::start_orderly(&client, config, move |messages| {
        calls.send(messages[0].queue_offset).unwrap();
        let _ = gate.lock().unwrap().recv();
        ConsumeStatus::Done
    });
    let consumer = consumer.await.unwrap();
    let producer = crate::Producer::new(
        &client,
        crate::ProducerConfig { timeout: OUTCOME_CAP, ..crate::ProducerConfig::new("pg") },
    );
    let queue = MessageQueue::new("T", "a", 0);
    producer.send_to(&queue, &crate::Message::new("T", "x")).await.unwrap();
    assert_eq!(called.recv().await, Some(0));
    cluster.state().refuses_locks = true;
    {
        let _as_if_in_the_background = consumer.state.rebalancing.lock().await;
        consumer.state.renew().await;
    }
    assert!(!consumer.queues().contains(&queue));
    cluster.state().refuses_locks = false;
    let of_topic = || consumer.queues().iter().filter(|queue| queue.topic == "T").count();
    until(|| of_topic() == QUEUES as usize - 1).await;
    assert!(
        !consumer.queues().contains(&queue) && called.try_recv().is_err(),
        "the listener has its message"
    );
    drop(open);
    // The message is delivered again, because it is unknown whether another member has consumed it meanwhile.
    assert_eq!(called.recv().await, Some(0));
    assert_eq!(of_topic(), QUEUES as usize);
    consumer.shutdown().await;
    client.shutdown();
}

#[test]
fn a_queue_whose_lock_is_refused_is_taken_again_when_the_listener_is_out_of_it() {
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(consume_with_a_refused_lock(&cluster));
}
