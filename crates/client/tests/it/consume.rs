//! Pulling and push consumption.

use crate::cluster::{Cluster, QUEUES};
use crate::{OUTCOME_CAP, block_on, client_config, producer_config, until};
use client::{
    Allocation, Client, ConsumeFrom, ConsumeStatus, Message, MessageModel, MessageQueue, Producer,
    PullConsumer, PullRequest, PullStatus, PushConfig, PushConsumer,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use wire::body::ConsumerStatus;
use wire::codes::request;
use wire::json;

/// Address without a listener.
const NOBODY: &str = "127.0.0.1:1";

fn client(cluster: &Cluster) -> Client {
    Client::start(client_config(&cluster.address.to_string())).unwrap()
}

async fn send(client: &Client, range: std::ops::Range<usize>) {
    let producer = Producer::new(client, producer_config());
    for number in range {
        let tag = if number % 2 == 0 { "even" } else { "odd" };
        producer.send(&Message::new("T", format!("{number}")).tag(tag)).await.unwrap();
    }
}

/// Starts a consumer that passes bodies on; `verdict` decides by body.
async fn push(
    client: &Client,
    config: PushConfig,
    verdict: impl Fn(&str) -> ConsumeStatus + Send + Sync + 'static,
) -> (PushConsumer, UnboundedReceiver<String>) {
    let (sender, receiver) = unbounded_channel();
    let listener = move |messages: &[client::Received]| {
        let mut worst = ConsumeStatus::Done;
        for message in messages {
            let body = String::from_utf8(message.body.clone()).unwrap();
            if verdict(&body) == ConsumeStatus::Later {
                worst = ConsumeStatus::Later;
            }
            sender.send(body).unwrap();
        }
        worst
    };
    (PushConsumer::start(client, config, listener).await.unwrap(), receiver)
}

async fn take(receiver: &mut UnboundedReceiver<String>, count: usize) -> BTreeSet<usize> {
    let mut taken = BTreeSet::new();
    for _ in 0..count {
        taken.insert(receiver.recv().await.unwrap().parse().unwrap());
    }
    taken
}

fn first(config: PushConfig) -> PushConfig {
    PushConfig { from: ConsumeFrom::First, threads: 4, ..config }
}

#[test]
fn queues_are_read_sought_and_committed() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        send(&client, 0..20).await;
        let consumer = PullConsumer::new(&client, "g", "even");
        assert!(consumer.poll(Duration::ZERO).await.is_err(), "nothing is assigned");
        let queues = consumer.queues("T").await.unwrap();
        assert_eq!(queues.len(), QUEUES as usize);
        consumer.assign(&queues).await.unwrap();
        let mut seen = BTreeSet::new();
        while seen.len() < 10 {
            for message in consumer.poll(OUTCOME_CAP).await.unwrap() {
                assert_eq!(message.tag(), Some("even"));
                seen.insert(message.body);
            }
        }
        let whole = |consumer: &PullConsumer| {
            queues.iter().map(|queue| consumer.position(queue).unwrap()).sum::<i64>()
        };
        while whole(&consumer) < 20 {
            assert!(consumer.poll(Duration::ZERO).await.unwrap().is_empty());
        }
        consumer.commit().await.unwrap();
        let again = PullConsumer::new(&client, "g", "*");
        again.assign(&queues).await.unwrap();
        assert_eq!(whole(&again), 20);
        again.seek(&queues[0], 1).unwrap();
        let messages = again.poll(OUTCOME_CAP).await.unwrap();
        assert_eq!((messages[0].queue_offset, &*messages[0].queue), (1, &queues[0]));
        assert!(again.seek(&MessageQueue::new("T", "a", 99), 0).is_err());
        client.shutdown();
    });
}

#[test]
fn a_poll_waits_for_a_message() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let consumer = PullConsumer::new(&client, "g", "*");
        consumer.assign(&consumer.queues("T").await.unwrap()).await.unwrap();
        let (messages, ()) = tokio::join!(consumer.poll(OUTCOME_CAP), send(&client, 7..8));
        assert_eq!(messages.unwrap()[0].body, b"7");
        client.shutdown();
    });
}

#[test]
fn a_listener_gets_everything_once_and_offsets_are_stored() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        send(&client, 0..30).await;
        let (consumer, mut receiver) =
            push(&client, first(PushConfig::new("g", "T", "*")), |_| ConsumeStatus::Done).await;
        assert_eq!(take(&mut receiver, 30).await, (0..30).collect());
        send(&client, 30..50).await;
        assert_eq!(take(&mut receiver, 20).await, (30..50).collect());
        consumer.shutdown().await;
        assert!(receiver.recv().await.is_none(), "nothing came twice");
        client.shutdown();
    });
    let state = cluster.state();
    let stored = |id| state.offsets[&("g".to_owned(), ("T".to_owned(), id))];
    assert_eq!((0..QUEUES).map(stored).sum::<i64>(), 50);
}

#[test]
fn failed_messages_are_sent_back_and_passed() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        send(&client, 0..10).await;
        let verdict = |body: &str| match body {
            "3" => ConsumeStatus::Later,
            "4" => panic!("a listener's mistake"),
            _ => ConsumeStatus::Done,
        };
        let (consumer, mut receiver) = push(&client, first(PushConfig::new("g", "T", "*")), verdict).await;
        assert_eq!(take(&mut receiver, 9).await.len(), 9);
        until(async || cluster.state().sent_back.len() >= 2).await;
        consumer.shutdown().await;
        client.shutdown();
    });
    let state = cluster.state();
    assert_eq!(state.sent_back.len(), 2);
}

#[test]
fn two_members_share_the_queues_and_one_takes_over() {
    let cluster = Cluster::start();
    block_on(async {
        let (one, two) = (client(&cluster), client(&cluster));
        let config = || first(PushConfig::new("g", "T", "*"));
        let (first, mut received_first) = push(&one, config(), |_| ConsumeStatus::Done).await;
        let of =
            |consumer: &PushConsumer| consumer.queues().iter().filter(|queue| queue.topic == "T").count();
        assert_eq!(of(&first), 4);
        let (second, mut received_second) = push(&two, config(), |_| ConsumeStatus::Done).await;
        until(async || of(&first) == 2 && of(&second) == 2).await;
        // Three rounds of the eight queues that can be sent to.
        send(&one, 0..24).await;
        let (left, right) = tokio::join!(take(&mut received_first, 12), take(&mut received_second, 12));
        assert_eq!(left.union(&right).copied().collect::<Vec<_>>(), (0..24).collect::<Vec<_>>());
        second.shutdown().await;
        until(async || of(&first) == 4).await;
        send(&one, 24..40).await;
        assert_eq!(take(&mut received_first, 16).await, (24..40).collect());
        first.shutdown().await;
        one.shutdown();
        two.shutdown();
    });
}

#[test]
fn a_heartbeat_on_its_way_does_not_bring_a_member_back_that_left() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let (consumer, _received) =
            push(&client, first(PushConfig::new("g", "T", "*")), |_| ConsumeStatus::Done).await;
        cluster.state().delays_beats = true;
        let beat = client.clone();
        let beat = tokio::spawn(async move { beat.heartbeat().await });
        until(async || cluster.state().late_beats() > 0).await;
        let mut left = std::pin::pin!(consumer.shutdown());
        let ended = tokio::time::timeout(Duration::from_millis(300), &mut left).await;
        cluster.state().take_late_beats();
        if ended.is_err() {
            left.await;
        }
        beat.await.unwrap();
        assert_eq!(cluster.state().members("g"), 0);
        client.shutdown();
    });
}

#[test]
fn broadcasting_members_each_get_everything_and_remember_where_they_were() {
    let cluster = Cluster::start();
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let (one, two) = (client(&cluster), client(&cluster));
        send(&one, 0..10).await;
        let config = |name: &str| PushConfig {
            model: MessageModel::Broadcasting,
            broadcast_offsets: Some(directory.path().join(name)),
            ..first(PushConfig::new("g", "T", "*"))
        };
        let (left, mut received_left) = push(&one, config("left"), |_| ConsumeStatus::Later).await;
        let (right, mut received_right) = push(&two, config("right"), |_| ConsumeStatus::Done).await;
        assert_eq!(take(&mut received_left, 10).await, (0..10).collect());
        assert_eq!(take(&mut received_right, 10).await, (0..10).collect());
        left.shutdown().await;
        right.shutdown().await;
        let (again, mut received) = push(&one, config("left"), |_| ConsumeStatus::Done).await;
        send(&one, 10..15).await;
        assert_eq!(take(&mut received, 5).await, (10..15).collect(), "not from the beginning");
        again.shutdown().await;
        one.shutdown();
        two.shutdown();
    });
    assert!(cluster.state().sent_back.is_empty(), "broadcast messages are given up");
}

#[test]
fn a_group_starts_once_per_client_and_an_offset_outside_the_queue_is_corrected() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        for id in 0..QUEUES {
            cluster.state().offsets.insert(("g".to_owned(), ("T".to_owned(), id)), 1000);
        }
        let calls = Arc::new(Mutex::new(0));
        let (consumer, mut receiver) = push(&client, first(PushConfig::new("g", "T", "*")), move |_| {
            *calls.lock().unwrap() += 1;
            ConsumeStatus::Done
        })
        .await;
        let second =
            PushConsumer::start(&client, PushConfig::new("g", "T", "*"), |_| ConsumeStatus::Done).await;
        assert!(second.is_err());
        send(&client, 0..4).await;
        assert_eq!(take(&mut receiver, 4).await.len(), 4);
        consumer.shutdown().await;
        client.shutdown();
    });
}

#[test]
fn a_consumer_that_ends_takes_no_queues_again() {
    let cluster = Cluster::start();
    block_on(async {
        let clients = [client(&cluster), client(&cluster)];
        let config = || PushConfig { threads: 1, ..PushConfig::new("g", "T", "*") };
        let start = |index: usize| PushConsumer::start(&clients[index], config(), |_| ConsumeStatus::Done);
        let mut leaving = start(0).await.unwrap();
        for round in 1..=10 {
            // The newcomer has the broker tell the other one to look at the queues, while that one leaves.
            let ((), joined) = tokio::join!(leaving.shutdown(), start(round % 2));
            let joined = joined.unwrap();
            assert_eq!(leaving.queues(), [] as [MessageQueue; 0]);
            until(async || {
                joined.queues().iter().filter(|queue| queue.topic == "T").count() == QUEUES as usize
            })
            .await;
            assert_eq!(leaving.queues(), [] as [MessageQueue; 0]);
            leaving = joined;
        }
        leaving.shutdown().await;
    });
}

#[test]
fn members_share_queues_as_configured() {
    let cluster = Cluster::start();
    block_on(async {
        let clients = [client(&cluster), client(&cluster)];
        let mut members = Vec::new();
        for client in &clients {
            let config = PushConfig { allocation: Allocation::Circle, ..PushConfig::new("g", "T", "*") };
            members.push(PushConsumer::start(client, config, |_| ConsumeStatus::Done).await.unwrap());
        }
        let of_topic = |consumer: &PushConsumer| {
            let queues = consumer.queues().into_iter().filter(|queue| queue.topic == "T");
            queues.map(|queue| queue.queue_id).collect::<Vec<_>>()
        };
        let all = |index: i32| (0..QUEUES).filter(|id| id % 2 == index).collect::<Vec<i32>>();
        // Who is first is a matter of names.
        let expected = BTreeSet::from([all(0), all(1)]);
        until(async || members.iter().map(of_topic).collect::<BTreeSet<_>>() == expected).await;
        for member in members {
            member.shutdown().await;
        }
    });
}

#[test]
fn a_reader_has_one_request_held_at_each_queue() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let consumer = PullConsumer::new(&client, "g", "*");
        let queues = consumer.queues("T").await.unwrap();
        consumer.assign(&queues).await.unwrap();
        let producer = Producer::new(&client, producer_config());
        let send = async |queue: &MessageQueue, body: &str| {
            producer.send_to(queue, &Message::new("T", body)).await.unwrap();
        };
        let poll = async || consumer.poll(OUTCOME_CAP).await.unwrap();
        for number in 0..5 {
            let late = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                send(&queues[0], &number.to_string()).await;
            };
            let (messages, ()) = tokio::join!(poll(), late);
            assert_eq!(messages[0].body, number.to_string().as_bytes());
        }
        let held = cluster.state().held();
        assert!(held <= QUEUES as usize, "{held} requests are held");
        // What comes between two calls is there at the next ones; where somebody sought, reading begins anew.
        send(&queues[1], "one").await;
        send(&queues[2], "two").await;
        consumer.seek(&queues[0], 4).unwrap();
        let mut bodies = BTreeSet::new();
        while bodies.len() < 3 {
            bodies.extend(poll().await.into_iter().map(|message| message.body));
        }
        assert_eq!(bodies, [&b"4"[..], b"one", b"two"].map(<[u8]>::to_vec).into());
        assert!(consumer.poll(Duration::ZERO).await.unwrap().is_empty());
        client.shutdown();
    });
}

#[test]
fn an_unreadable_message_is_passed() {
    let cluster = Cluster::start();
    cluster.store_unreadable("T", 0);
    block_on(async {
        let client = client(&cluster);
        let queue = MessageQueue::new("T", "a", 0);
        let pulled = client.pull(&PullRequest::new("p", &queue, 0)).await.unwrap();
        assert_eq!((pulled.status, pulled.next_offset), (PullStatus::Found, 1));
        assert!(pulled.messages.is_empty());
        let (consumer, mut receiver) =
            push(&client, first(PushConfig::new("g", "T", "*")), |_| ConsumeStatus::Done).await;
        let producer = Producer::new(&client, producer_config());
        producer.send_to(&queue, &Message::new("T", "7")).await.unwrap();
        assert_eq!(take(&mut receiver, 1).await, [7].into());
        consumer.shutdown().await;
        client.shutdown();
    });
    assert_eq!(cluster.state().offsets[&("g".to_owned(), ("T".to_owned(), 0))], 2);
}

#[test]
fn a_message_that_cannot_be_sent_back_does_not_hold_up_others() {
    let cluster = Cluster::start();
    cluster.state().unreturnable.insert(0);
    block_on(async {
        let client = client(&cluster);
        let (consumer, mut receiver) =
            push(&client, first(PushConfig::new("g", "T", "*")), |_| ConsumeStatus::Later).await;
        send(&client, 0..1).await;
        until(async || cluster.state().refused_back > 0).await;
        send(&client, 1..4).await;
        until(async || cluster.state().sent_back.len() == 3).await;
        cluster.state().unreturnable.clear();
        until(async || cluster.state().sent_back.contains(&0)).await;
        assert_eq!(take(&mut receiver, 4).await, (0..4).collect());
        consumer.shutdown().await;
        client.shutdown();
    });
}

#[test]
fn an_offset_that_got_lost_is_told_again() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let (consumer, _receiver) =
            push(&client, first(PushConfig::new("g", "T", "*")), |_| ConsumeStatus::Done).await;
        let is_told = async || {
            let state = cluster.state();
            state.offsets.keys().filter(|(_, (topic, _))| topic == "T").count() == QUEUES as usize
        };
        until(&is_told).await;
        cluster.state().offsets.clear();
        until(&is_told).await;
        consumer.shutdown().await;
        client.shutdown();
    });
}

#[test]
fn any_broker_says_who_the_members_are() {
    let cluster = Cluster::start();
    cluster.state().elsewhere.insert("a".to_owned(), NOBODY.to_owned());
    block_on(async {
        let client = client(&cluster);
        let (consumer, _receiver) =
            push(&client, first(PushConfig::new("g", "T", "*")), |_| ConsumeStatus::Done).await;
        let of_topic: Vec<_> = consumer.queues().into_iter().filter(|queue| queue.topic == "T").collect();
        let of_b: Vec<_> = (0..QUEUES).map(|id| MessageQueue::new("T", "b", id)).collect();
        assert_eq!(of_topic, of_b);
        consumer.shutdown().await;
        client.shutdown();
    });
}

#[test]
fn a_broker_that_is_gone_does_not_keep_a_reader_from_waiting() {
    let cluster = Cluster::start();
    cluster.state().elsewhere.insert("a".to_owned(), cluster.address.to_string());
    block_on(async {
        let client = client(&cluster);
        let consumer = PullConsumer::new(&client, "g", "*");
        let queues = [MessageQueue::new("T", "a", 0), MessageQueue::new("T", "b", 1)];
        consumer.assign(&queues).await.unwrap();
        cluster.state().elsewhere.insert("a".to_owned(), NOBODY.to_owned());
        client.refresh_route("T").await.unwrap();
        let begin = Instant::now();
        for _ in 0..2 {
            until(async || consumer.poll(Duration::from_millis(100)).await.is_err()).await;
        }
        assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
        // The other broker's messages come all the same.
        let producer = Producer::new(&client, producer_config());
        producer.send_to(&queues[1], &Message::new("T", "7")).await.unwrap();
        until(async || {
            let messages = consumer.poll(Duration::from_millis(100)).await.unwrap_or_default();
            messages.first().is_some_and(|message| message.body == b"7")
        })
        .await;
        client.shutdown();
    });
}

#[test]
fn a_member_in_order_does_not_turn_while_a_broker_is_gone() {
    let cluster = Cluster::start();
    cluster.state().elsewhere.insert("a".to_owned(), NOBODY.to_owned());
    block_on(async {
        let client = client(&cluster);
        let config = first(PushConfig::new("g", "T", "*"));
        let consumer = PushConsumer::start_orderly(&client, config, |_| ConsumeStatus::Done).await.unwrap();
        let of_topic = || consumer.queues().iter().filter(|queue| queue.topic == "T").count();
        until(async || of_topic() == QUEUES as usize).await;
        let (before, begin) = (cluster.state().lists, Instant::now());
        tokio::time::sleep(Duration::from_millis(1500)).await;
        // One for each topic because the member itself has come, and some where the pause took long.
        let lists = cluster.state().lists - before;
        let most = 4 + begin.elapsed().as_secs() as usize;
        assert!(lists <= most, "asked {lists} times for the members");
        consumer.shutdown().await;
        client.shutdown();
    });
}

#[test]
fn a_broadcasting_consumer_goes_on_where_it_was_when_a_queue_comes_back() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let model = MessageModel::Broadcasting;
        let config = PushConfig { model, ..first(PushConfig::new("g", "T", "*")) };
        let (consumer, mut receiver) = push(&client, config, |_| ConsumeStatus::Done).await;
        send(&client, 0..10).await;
        assert_eq!(take(&mut receiver, 10).await, (0..10).collect());
        // The last one counts as done a moment after it was seen.
        until(async || progress(&cluster).await == 10).await;
        for (hidden, count) in [(true, 0), (false, QUEUES as usize)] {
            cluster.state().hidden = hidden;
            client.refresh_route("T").await.unwrap();
            let code = request::NOTIFY_CONSUMER_IDS_CHANGED;
            cluster.tell("g", code, b"", |frame| frame.text("consumerGroup", "g"));
            until(async || consumer.queues().len() == count).await;
        }
        send(&client, 10..12).await;
        assert_eq!(take(&mut receiver, 2).await, [10, 11].into());
        consumer.shutdown().await;
        assert!(receiver.recv().await.is_none(), "nothing came twice");
        client.shutdown();
    });
}

/// Returns the progress of a consumer of group `g`, summed over all queues.
async fn progress(cluster: &Cluster) -> i64 {
    let code = request::GET_CONSUMER_STATUS_FROM_CLIENT;
    let asked = cluster.ask("g", code, Vec::new(), |frame| frame.text("group", "g").text("topic", "T"));
    let status: ConsumerStatus = json::from_slice(&asked.await.body).unwrap();
    status.message_queue_table.values().sum()
}
