//! Connections that cannot be made, end, or are slow.

use crate::block_on;
use crate::cluster::Cluster;
use client::{Client, Config, Error, Message, MessageQueue, Producer, ProducerConfig};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

fn client(cluster: &Cluster) -> Client {
    Client::start(Config::new(&cluster.address.to_string())).unwrap()
}

/// A server that gives its connections to `take`, and their number.
fn server(mut take: impl FnMut(TcpStream) + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap().to_string(), Arc::<AtomicUsize>::default());
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Relaxed);
            take(stream.unwrap());
        }
    });
    (address, count)
}

/// A server that takes no more connections, with those that fill it up.
fn full() -> (String, tokio::net::TcpListener, Vec<TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let streams = std::iter::from_fn(connect).take(64).collect();
    (address.to_string(), listener, streams)
}

#[test]
fn callers_of_a_server_that_cannot_be_reached_share_one_attempt() {
    let cluster = Cluster::start();
    block_on(async {
        let (address, _listener, _streams) = full();
        let client = client(&cluster);
        let begin = Instant::now();
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let (client, address) = (client.clone(), address.clone());
            calls.spawn(async move { client.consumer_ids(&address, "g").await });
        }
        while let Some(ended) = calls.join_next().await {
            assert!(matches!(ended.unwrap(), Err(Error::Connect { .. })));
        }
        // One attempt takes three seconds; a call alone would have had five.
        assert!(begin.elapsed() < Duration::from_millis(4500), "{:?}", begin.elapsed());
        // Who comes right after it does not wait for another one.
        let begin = Instant::now();
        assert!(matches!(client.consumer_ids(&address, "g").await, Err(Error::Connect { .. })));
        assert!(begin.elapsed() < Duration::from_secs(1));
        client.shutdown();
    });
}

#[test]
fn the_time_for_a_send_is_also_that_for_its_connection() {
    let cluster = Cluster::start();
    block_on(async {
        let (address, _listener, _streams) = full();
        cluster.state().elsewhere.insert("b".to_owned(), address);
        let client = client(&cluster);
        let timeout = Duration::from_millis(200);
        let producer = Producer::new(&client, ProducerConfig { timeout, ..ProducerConfig::new("pg") });
        producer.queues("T").await.unwrap();
        let begin = Instant::now();
        let sent = producer.send_to(&MessageQueue::new("T", "b", 0), &Message::new("T", "x")).await;
        assert!(matches!(sent, Err(Error::Connect { .. })), "{sent:?}");
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        client.shutdown();
    });
}

#[test]
fn a_server_that_hangs_up_does_not_have_everybody_greeted_over_and_over() {
    let cluster = Cluster::start();
    let (address, connections) = server(drop);
    cluster.state().elsewhere.insert("b".to_owned(), address);
    block_on(async {
        let client = client(&cluster);
        let _producer = Producer::new(&client, ProducerConfig::new("pg"));
        client.route("T").await.unwrap();
        client.heartbeat().await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let (beats, connections) = (cluster.state().beats, connections.load(Relaxed));
        assert!(
            (1..=3).contains(&beats) && connections <= 5,
            "{beats} heartbeats, {connections} connections"
        );
        client.shutdown();
    });
}

#[test]
fn large_sends_wait_for_each_other_instead_of_losing_their_connection() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let timeout = Duration::from_secs(60);
        let config = ProducerConfig { retries: 0, compress: None, timeout, ..ProducerConfig::new("pg") };
        let producer = Arc::new(Producer::new(&client, config));
        producer.send(&Message::new("T", "x")).await.unwrap();
        let (shut, gate) = mpsc::channel();
        cluster.state().gate = Some(gate);
        let mut sends = JoinSet::new();
        for _ in 0..24 {
            let producer = producer.clone();
            sends.spawn(async move { producer.send(&Message::new("T", vec![7; 4 << 20])).await });
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(shut);
        while let Some(sent) = sends.join_next().await {
            sent.unwrap().unwrap();
        }
        for _ in 0..12 {
            producer.send_one_way(&Message::new("T", vec![7; 4 << 20])).await.unwrap();
        }
        producer.send(&Message::new("T", "x")).await.unwrap();
        assert_eq!(cluster.state().sends, 38);
        client.shutdown();
    });
}

#[test]
fn a_connection_without_answers_is_replaced() {
    let cluster = Cluster::start();
    let mut kept = Vec::new();
    let (address, connections) = server(move |stream| kept.push(stream));
    cluster.state().elsewhere.insert("b".to_owned(), address);
    block_on(async {
        let client = client(&cluster);
        let timeout = Duration::from_millis(300);
        let producer = Producer::new(&client, ProducerConfig { timeout, ..ProducerConfig::new("pg") });
        producer.queues("T").await.unwrap();
        for count in 1..=2 {
            let sent = producer.send_to(&MessageQueue::new("T", "b", 0), &Message::new("T", "x")).await;
            assert!(matches!(sent, Err(Error::Call(net::CallError::TimedOut(..)))), "{sent:?}");
            assert_eq!(connections.load(Relaxed), count);
        }
        client.shutdown();
    });
}
