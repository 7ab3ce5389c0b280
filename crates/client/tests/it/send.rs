//! Sending.

use crate::cluster::Cluster;
use crate::{block_on, client_config, producer_config};
use client::{Client, Config, Error, Message, Producer};

fn started(cluster: &Cluster) -> (Client, Producer) {
    let client = Client::start(client_config(&cluster.address.to_string())).unwrap();
    let producer = Producer::new(&client, producer_config());
    (client, producer)
}

#[test]
fn queues_take_turns() {
    let cluster = Cluster::start();
    block_on(async {
        let (client, producer) = started(&cluster);
        for number in 0..16 {
            let sent = producer.send(&Message::new("T", format!("m{number}"))).await.unwrap();
            assert_eq!((sent.message_id.len(), sent.queue.topic.as_str()), (32, "T"));
        }
        producer.shutdown().await;
        client.shutdown();
    });
    let state = cluster.state();
    let sizes: Vec<_> = (0..4).map(|id| state.queues[&("T".to_owned(), id)].len()).collect();
    assert_eq!(sizes, [4, 4, 4, 4]);
}

#[test]
fn failures_are_retried_on_another_broker_and_the_last_is_told() {
    let cluster = Cluster::start();
    block_on(async {
        let (client, producer) = started(&cluster);
        cluster.state().failures.extend([2, 14]);
        let sent = producer.send(&Message::new("T", "x")).await.unwrap();
        assert_eq!((sent.queue_offset, cluster.state().sends), (0, 3));
        cluster.state().failures.extend([2, 14, 1]);
        let error = producer.send(&Message::new("T", "x")).await.unwrap_err();
        assert_eq!(error.code(), Some(1));
        assert!(error.to_string().ends_with("answered SYSTEM_ERROR (1): told to fail"), "{error}");
        cluster.state().failures.extend([13]);
        let error = producer.send(&Message::new("T", "x")).await.unwrap_err();
        assert_eq!((error.code(), cluster.state().sends), (Some(13), 7), "an illegal message is not retried");
        client.shutdown();
    });
}

#[test]
fn a_send_to_one_queue_is_not_retried() {
    let cluster = Cluster::start();
    block_on(async {
        let (client, producer) = started(&cluster);
        let queue = producer.queues("T").await.unwrap()[0].clone();
        cluster.state().failures.extend([13]);
        assert!(producer.send_to(&queue, &Message::new("T", "x")).await.is_err(), "no other attempt");
        assert_eq!(producer.send_to(&queue, &Message::new("T", "x")).await.unwrap().queue, queue);
        client.shutdown();
    });
}

#[test]
fn a_batch_is_one_request_and_a_one_way_send_waits_for_nothing() {
    let cluster = Cluster::start();
    block_on(async {
        let (client, producer) = started(&cluster);
        let batch: Vec<_> = (0..5).map(|number| Message::new("T", format!("b{number}"))).collect();
        let sent = producer.send_batch(&batch).await.unwrap();
        assert_eq!(sent.message_id.split(',').count(), 5);
        {
            let state = cluster.state();
            assert_eq!((state.sends, state.queues.values().map(Vec::len).sum::<usize>()), (1, 5));
        }
        producer.send_one_way(&Message::new("U", "x")).await.unwrap();
        // The next answer on the same connection comes after the one-way send was taken.
        producer.send(&Message::new("T", "x")).await.unwrap();
        assert_eq!(cluster.state().sends, 3);
        client.shutdown();
    });
}

#[test]
fn a_missing_topic_is_created_by_the_first_send() {
    let cluster = Cluster::start();
    cluster.state().unknown_topics.push("New".to_owned());
    block_on(async {
        let (client, producer) = started(&cluster);
        assert!(client.route("New").await.is_err());
        producer.send(&Message::new("New", "x")).await.unwrap();
        assert!(client.refresh_route("New").await.is_ok());
        client.shutdown();
    });
}

#[test]
fn a_topic_whose_master_was_away_is_sent_to_as_soon_as_it_is_back() {
    let cluster = Cluster::start();
    cluster.state().masterless = true;
    block_on(async {
        let (client, producer) = started(&cluster);
        let message = Message::new("T", "x");
        assert!(matches!(producer.send(&message).await, Err(Error::NoQueue(_))));
        cluster.state().masterless = false;
        producer.send(&message).await.unwrap();
        // It goes away while a message is sent: why that failed is what counts.
        cluster.state().masterless = true;
        cluster.state().failures.extend([14]);
        assert_eq!(producer.send(&message).await.unwrap_err().code(), Some(14));
        client.shutdown();
    });
}

#[test]
fn a_group_is_left_with_its_last_producer() {
    let cluster = Cluster::start();
    block_on(async {
        let (client, producer) = started(&cluster);
        let second = Producer::new(&client, producer_config());
        producer.send(&Message::new("T", "x")).await.unwrap();
        producer.shutdown().await;
        assert!(cluster.state().left.is_empty(), "another one is there");
        second.shutdown().await;
        assert_eq!(cluster.state().left, ["pg"]);
        client.shutdown();
    });
}

#[test]
fn another_name_server_is_asked_when_one_is_gone() {
    let cluster = Cluster::start();
    // The port is taken, and nobody listens there.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = &taken.local_addr().unwrap().to_string();
    block_on(async {
        let client = Client::start(client_config(&format!("{gone};{}", cluster.address))).unwrap();
        for _ in 0..3 {
            client.fetch_route("T").await.unwrap();
        }
        client.shutdown();
        let client = Client::start(Config::new(gone)).unwrap();
        let route = client.fetch_route("T").await;
        assert!(matches!(route, Err(Error::Connect { .. })), "{route:?}");
        client.shutdown();
        assert!(matches!(Client::start(Config::new(" ; ")), Err(Error::NoNameServer)));
    });
}
