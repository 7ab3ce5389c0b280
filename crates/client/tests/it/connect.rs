//! Connections that cannot be made, end, or are slow.

use crate::cluster::Cluster;
use crate::{OUTCOME_CAP, block_on, client_config, producer_config, until};
use client::{
    Client, ConsumeFrom, ConsumeStatus, Error, Message, MessageQueue, Producer, ProducerConfig, PushConfig,
    PushConsumer,
};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use wire::codes::request;

fn client(cluster: &Cluster) -> Client {
    Client::start(client_config(&cluster.address.to_string())).unwrap()
}

/// Makes a server that passes its connections to `take`. Returns its address and the number of connections.
fn server(mut take: impl FnMut(TcpStream) + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap().to_string(), Arc::<AtomicUsize>::default());
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            take(stream.unwrap());
            counted.fetch_add(1, Relaxed);
        }
    });
    (address, count)
}

/// Makes a server that accepts no more connections, with the connections that fill it.
fn full() -> (String, tokio::net::TcpListener, Vec<TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let streams = std::iter::from_fn(connect).take(64).collect();
    (address.to_string(), listener, streams)
}

/// A server that takes connections and does not read from them, with their number.
fn silent() -> (String, Arc<AtomicUsize>, Arc<Mutex<Vec<TcpStream>>>) {
    let kept = Arc::<Mutex<Vec<TcpStream>>>::default();
    let keep = kept.clone();
    let (address, connections) = server(move |stream| keep.lock().unwrap().push(stream));
    (address, connections, kept)
}

/// Local ends of the attempts to connect to a server of this machine that are under way.
fn attempts(address: &str) -> BTreeSet<String> {
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let target = format!("0100007F:{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    // The state is SYN_SENT.
    rows.filter(|row| row[2] == target && row[3] == "02").map(|row| row[1].to_owned()).collect()
}

#[test]
fn callers_of_a_server_that_cannot_be_reached_share_one_attempt() {
    let cluster = Cluster::start();
    block_on(async {
        let (address, _listener, _streams) = full();
        // Callers that come late need an attempt of their own, so several rounds may be needed.
        until(async || attempts_of_callers(&cluster, &address).await == 1).await;
        let client = client(&cluster);
        // Who comes right after an attempt does not wait for another one, which takes three seconds.
        until(async || {
            let begin = Instant::now();
            assert!(matches!(client.consumer_ids(&address, "g").await, Err(Error::Connect { .. })));
            begin.elapsed() < Duration::from_secs(1)
        })
        .await;
        client.shutdown();
    });
}

/// The number of attempts to connect that calls of fifty callers at once lead to.
async fn attempts_of_callers(cluster: &Cluster, address: &str) -> usize {
    let client = client(cluster);
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let (client, address) = (client.clone(), address.to_owned());
        calls.spawn(async move { client.consumer_ids(&address, "g").await });
    }
    let mut seen = BTreeSet::new();
    while !calls.is_empty() {
        tokio::select! {
            ended = calls.join_next() => {
                assert!(matches!(ended.unwrap().unwrap(), Err(Error::Connect { .. })));
            }
            () = tokio::time::sleep(Duration::from_millis(20)) => seen.extend(attempts(address)),
        }
    }
    client.shutdown();
    seen.len()
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
        // An attempt to connect that ends by itself, after three seconds, has another text.
        until(async || {
            let sent = producer.send_to(&MessageQueue::new("T", "b", 0), &Message::new("T", "x")).await;
            let Err(Error::Connect { source, .. }) = sent else { panic!("{sent:?}") };
            source.to_string() == "no connection within 200ms"
        })
        .await;
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
        let _producer = Producer::new(&client, producer_config());
        client.route("T").await.unwrap();
        let begin = Instant::now();
        client.heartbeat().await;
        until(async || cluster.state().beats > 0).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let (beats, connections) = (cluster.state().beats, connections.load(Relaxed));
        let seconds = begin.elapsed().as_secs() as usize;
        assert!(
            beats <= 2 + seconds && connections <= 4 + seconds,
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
        let timeout = Duration::from_secs(3_600);
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
        for _ in 0..20 {
            while let Err(error) = producer.send_one_way(&Message::new("T", vec![7; 4 << 20])).await {
                assert!(matches!(error, Error::Busy { .. }), "{error:?}");
            }
        }
        producer.send(&Message::new("T", "x")).await.unwrap();
        assert_eq!(cluster.state().sends, 46);
        client.shutdown();
    });
}

/// Makes a producer of bodies that do not fit into the buffers of two sockets.
fn large(client: &Client, timeout: Duration) -> (Producer, Message) {
    let config =
        ProducerConfig { timeout, compress: None, body_bytes_max: 15 << 20, ..ProducerConfig::new("pg") };
    (Producer::new(client, config), Message::new("T", vec![7; 15 << 20]))
}

#[test]
fn a_connection_without_answers_is_replaced_and_what_is_unsent_is_not_sent() {
    let cluster = Cluster::start();
    let (address, connections, kept) = silent();
    cluster.state().elsewhere.insert("b".to_owned(), address);
    block_on(async {
        let client = client(&cluster);
        let (producer, message) = large(&client, Duration::from_secs(2));
        producer.queues("T").await.unwrap();
        for count in 1..=2 {
            // The time of a send may be over before there is a connection.
            until(async || {
                let sent = producer.send_to(&MessageQueue::new("T", "b", 0), &message).await;
                let has_no_answer = matches!(sent, Err(Error::Call(net::CallError::TimedOut(..))));
                assert!(has_no_answer || matches!(sent, Err(Error::Connect { .. })), "{sent:?}");
                has_no_answer
            })
            .await;
            until(async || connections.load(Relaxed) >= count).await;
            let mut stream = kept.lock().unwrap().remove(0);
            stream.set_read_timeout(Some(OUTCOME_CAP)).unwrap();
            let (mut buffer, mut read) = (vec![0; 1 << 20], 0);
            while let Ok(some @ 1..) = stream.read(&mut buffer) {
                read += some;
            }
            assert!(read < message.body.len(), "all of it came");
        }
        client.shutdown();
    });
}

#[test]
fn an_impatient_call_does_not_end_its_connection() {
    let cluster = Cluster::start();
    let (address, connections, kept) = silent();
    cluster.state().elsewhere.insert("b".to_owned(), address);
    block_on(async {
        let client = client(&cluster);
        let timeout = Duration::from_millis(300);
        let producer = Producer::new(&client, ProducerConfig { timeout, ..ProducerConfig::new("pg") });
        producer.queues("T").await.unwrap();
        // A call that waited a second, or for the connection itself, may end it.
        let mut late = 0;
        for _ in 0..3 {
            let begin = Instant::now();
            let sent = producer.send_to(&MessageQueue::new("T", "b", 0), &Message::new("T", "x")).await;
            match sent {
                Err(Error::Call(net::CallError::TimedOut(..))) => {
                    late += usize::from(begin.elapsed() >= Duration::from_secs(1));
                }
                Err(Error::Connect { .. }) => late += 1,
                sent => panic!("{sent:?}"),
            }
        }
        until(async || connections.load(Relaxed) > 0).await;
        let found = connections.load(Relaxed);
        assert!(found <= 1 + late, "{found} connections, {late} late calls");
        kept.lock().unwrap().clear();
        client.shutdown();
    });
}

#[test]
fn a_send_without_room_says_so() {
    let cluster = Cluster::start();
    let (address, connections, kept) = silent();
    cluster.state().elsewhere.insert("b".to_owned(), address);
    block_on(async {
        let client = client(&cluster);
        let queue = MessageQueue::new("T", "b", 0);
        let mut sends = JoinSet::new();
        for _ in 0..2 {
            let ((producer, message), queue) = (large(&client, Duration::from_secs(3_600)), queue.clone());
            sends.spawn(async move { producer.send_to(&queue, &message).await });
        }
        until(async || connections.load(Relaxed) == 1).await;
        let (producer, message) = large(&client, Duration::from_millis(200));
        until(async || {
            let sent = producer.send_to(&queue, &message).await;
            // Otherwise the room was this one's before the two others came to it.
            let has_no_room = matches!(sent, Err(Error::Busy { .. }));
            assert!(
                has_no_room || matches!(sent, Err(Error::Call(net::CallError::TimedOut(..)))),
                "{sent:?}"
            );
            has_no_room
        })
        .await;
        kept.lock().unwrap().clear();
        client.shutdown();
    });
}

#[test]
fn a_consumer_answers_while_it_cannot_tell_a_broker_its_offsets() {
    let cluster = Cluster::start();
    let here = cluster.address.to_string();
    cluster.state().elsewhere.insert("a".to_owned(), here.clone());
    block_on(async {
        let (address, _listener, _streams) = full();
        let client = client(&cluster);
        let config = PushConfig { from: ConsumeFrom::First, threads: 1, ..PushConfig::new("g", "T", "*") };
        let consumer = PushConsumer::start(&client, config, |_| ConsumeStatus::Done).await.unwrap();
        until(async || consumer.queues().iter().filter(|queue| queue.topic == "T").count() == 8).await;
        let move_to = async |address: String| {
            cluster.state().elsewhere.insert("b".to_owned(), address);
            for topic in ["T", "%RETRY%g"] {
                client.refresh_route(topic).await.unwrap();
            }
        };
        until(async || !cluster.state().offsets.is_empty()).await;
        move_to(address.clone()).await;
        until(async || answers_during_attempts(&cluster, &address).await).await;
        move_to(here).await;
        consumer.shutdown().await;
        client.shutdown();
    });
}

/// Queries a consumer repeatedly until it has reported its offsets to the broker. Returns false if a response came
/// only after the end of a connect attempt to the other broker. The consumer, or the test, was delayed then.
async fn answers_during_attempts(cluster: &Cluster, address: &str) -> bool {
    let code = request::GET_CONSUMER_STATUS_FROM_CLIENT;
    let mut is_held_up = false;
    cluster.state().offsets.clear();
    while cluster.state().offsets.is_empty() {
        let begun = attempts(address);
        cluster.ask("g", code, Vec::new(), |frame| frame.text("group", "g").text("topic", "T")).await;
        is_held_up |= !begun.is_empty() && attempts(address).is_disjoint(&begun);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    !is_held_up
}
