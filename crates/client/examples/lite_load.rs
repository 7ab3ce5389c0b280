//! Load of lite topics and of ordered pops over remoting, which `bench/lite.py` drives:
//! `cargo run --release -p vostok-client --example lite_load -- broker 127.0.0.1:10911 topic Parent group Readers`.
//!
//! Every line of the standard input is a step. Its result is a line of JSON.
//!
//! | step | what |
//! |---|---|
//! | `fill` | sends one message to every lite topic |
//! | `subscribe` | gives every client its share of the lite topics |
//! | `consume` | starts the clients, and waits for a message of every lite topic |
//! | `load SECONDS` | sends at the rate, and waits for the messages |
//! | `expire` | sends to queues of the topic one by one until the broker has no lite topic of the parent `expires` |
//!
//! A wait for messages ends early when no message comes for `quiet` seconds. Every client waits with one pop and acknowledges each message by itself. The clients share a few connections, as the
//! clients of a proxy do.

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use net::{ConnectionHandle, Limits, Response, Service, Workers};
use serde_json::{Value, json};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{sleep, sleep_until};
use wire::frame::{Command, Encoding, FrameWriter};
use wire::pop::{Handle, Kind};
use wire::{properties, record::RecordView};

/// Sends in flight of the step `fill`.
const WINDOW: u64 = 128;
/// Longest wait of a pop, and invisible time of its messages, in milliseconds.
const POLL_MS: u64 = 15_000;
const INVISIBLE_MS: u64 = 60_000;
/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which a step that waits for messages counts them, and time until all clients of an ordered topic pop.
const LOOK: Duration = Duration::from_millis(50);
const START: Duration = Duration::from_secs(2);

/// Settings of the load, from pairs of name and value on the command line.
struct Settings {
    topic: String,
    group: String,
    /// Parent topic whose lite topics the step `expire` waits for.
    expires: String,
    /// `lite`: random lite topics. `new`: each message begins a lite topic. `ordered`: the queues of a FIFO topic.
    kind: String,
    topics: u64,
    clients: u64,
    /// Messages per second, and messages that are sent at once.
    rate: u64,
    burst: u64,
    /// Bytes of a body beside its send time.
    size: usize,
    /// Time without messages after which a step ends although messages are missing.
    quiet: Duration,
}

/// Answers that no call waits for, such as notices to clients, are ignored.
struct Quiet;

impl Service for Quiet {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, (): &mut (), _: &Arc<ConnectionHandle>, _: Command<'_>, _: &mut Vec<u8>) {}
}

/// Counts since the begin of a step.
#[derive(Default)]
struct Counts {
    received: u64,
    /// Refused sends, pops and acknowledgements.
    failures: HashMap<i32, u64>,
    /// Milliseconds from send to receive.
    times: Vec<f64>,
}

/// Clients, producers and their connections.
struct Load {
    settings: Settings,
    peers: Vec<Arc<ConnectionHandle>>,
    began: Instant,
    counts: Mutex<Counts>,
    /// Number of messages that were sent.
    number: AtomicU64,
    consumes: AtomicBool,
}

impl Load {
    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().expect("short section")
    }

    fn peer(&self, number: u64) -> &ConnectionHandle {
        &self.peers[(number % self.peers.len() as u64) as usize]
    }

    async fn call(&self, number: u64, code: i32, write: impl FnOnce(FrameWriter<'_>)) -> Response {
        let reply = self.peer(number).call(Encoding::Json, code, TIMEOUT, write).await;
        let reply = reply.unwrap_or_else(|error| panic!("request {code}: {error}"));
        // 210 is the end of a pop without messages.
        if !matches!(reply.code, 0 | 210) {
            *self.counts().failures.entry(reply.code).or_default() += 1;
        }
        reply
    }

    /// Sends a message to a queue or lite topic. A refused message is sent again, as a client does.
    async fn send(&self, number: u64, queue: u64, lite_topic: Option<String>) {
        let mut text = format!("UNIQ_KEY\u{1}{number:032X}\u{2}");
        if let Some(lite_topic) = lite_topic {
            text += &format!("__LITE_TOPIC\u{1}{lite_topic}\u{2}");
        }
        let mut body = (self.began.elapsed().as_nanos() as u64).to_be_bytes().to_vec();
        body.resize(8 + self.settings.size, b'x');
        loop {
            let write = |frame: FrameWriter<'_>| {
                let frame = frame.text("a", "PG").text("b", &self.settings.topic).text("c", "TBW102");
                let frame =
                    frame.number("d", 4).number("e", queue).number("f", 0).number("g", client::now_ms());
                let frame =
                    frame.number("h", 0).text("i", &text).number("j", 0).flag("k", false).number("l", 0);
                frame.flag("m", false).finish(&body);
            };
            if self.call(number, 310, write).await.code == 0 {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends a message to the place that the kind of load wants.
    async fn send_one(&self, number: u64) {
        // A multiplicative hash instead of random numbers: the same load in every run.
        let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        match self.settings.kind.as_str() {
            "lite" => self.send(number, 0, Some(format!("s{}", random % self.settings.topics))).await,
            "new" => self.send(number, 0, Some(format!("n{number}"))).await,
            _ => self.send(number, random % self.settings.clients, None).await,
        }
    }

    async fn fill(self: Arc<Self>) -> Value {
        let began = Instant::now();
        let next = Arc::new(AtomicU64::new(0));
        let mut senders = JoinSet::new();
        for _ in 0..WINDOW {
            let (load, next) = (self.clone(), next.clone());
            senders.spawn_local(async move {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= load.settings.topics {
                        return;
                    }
                    load.send(number, 0, Some(format!("s{number}"))).await;
                }
            });
        }
        while let Some(ended) = senders.join_next().await {
            ended.expect("a sender does not panic");
        }
        json!({ "seconds": began.elapsed().as_secs_f64(), "failures": self.counts().failures })
    }

    async fn subscribe(self: Arc<Self>) -> Value {
        let Settings { topic, group, topics, clients, .. } = &self.settings;
        let began = Instant::now();
        for client in 0..*clients {
            let names: Vec<String> =
                (client..*topics).step_by(*clients as usize).map(|number| format!("s{number}")).collect();
            let change = json!({ "action": "COMPLETE_ADD", "clientId": format!("c{client}"), "group": group, "topic": topic,
                                 "liteTopicSet": names, "version": 1 });
            let body = json!({ "subscriptionSet": [change] }).to_string();
            self.call(client, 200_071, |frame| frame.finish(body.as_bytes())).await;
        }
        json!({ "seconds": began.elapsed().as_secs_f64(), "failures": self.counts().failures })
    }

    /// Receives and acknowledges for ever.
    async fn client(self: Arc<Self>, client: u64) {
        let Settings { topic, group, .. } = &self.settings;
        let is_lite = self.settings.kind != "ordered";
        loop {
            let pop = |frame: FrameWriter<'_>| {
                let frame = frame.text("consumerGroup", group).text("topic", topic);
                let frame = frame.number("invisibleTime", INVISIBLE_MS).number("pollTime", POLL_MS);
                let frame = frame.number("bornTime", client::now_ms());
                match is_lite {
                    true => frame.text("clientId", &format!("c{client}")).number("maxMsgNum", 32).finish(&[]),
                    false => {
                        let frame =
                            frame.number("queueId", -1).number("maxMsgNums", 32).number("initMode", 0);
                        frame.text("expType", "TAG").text("exp", "*").flag("order", true).finish(&[]);
                    }
                }
            };
            let reply = self.call(client, if is_lite { 200_070 } else { 200_050 }, pop).await;
            if reply.code == 0 {
                self.take(client, is_lite, &reply).await;
            } else if reply.code != 210 {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Counts and acknowledges the messages of a pop.
    async fn take(&self, client: u64, is_lite: bool, reply: &Response) {
        let arrived = self.began.elapsed().as_nanos() as u64;
        let number = |key| reply.text(key).and_then(|text| text.parse().ok()).unwrap_or(0);
        let starts: HashMap<i32, i64> = (reply.text("startOffsetInfo").unwrap_or_default().split(';'))
            .filter_map(|entry| {
                let mut words = entry.split(' ').skip(1);
                Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
            })
            .collect();
        let mut rest = &reply.body[..];
        while let Ok(record) = RecordView::parse(rest) {
            rest = &rest[record.size()..];
            let sent = record.body().first_chunk().map_or(arrived, |time| u64::from_be_bytes(*time));
            {
                let mut counts = self.counts();
                counts.received += 1;
                counts.times.push(arrived.saturating_sub(sent) as f64 / 1e6);
            }
            let property = |name| properties::get_str(record.properties(), name);
            let (mut queue, mut offset) = (record.queue_id(), record.raw_queue_offset());
            if is_lite {
                let of_queue = property("INNER_MULTI_QUEUE_OFFSET").and_then(|text| text.parse().ok());
                (queue, offset) = (0, of_queue.unwrap_or(-1));
            }
            let handle = Handle {
                start_offset: starts.get(&queue).copied().unwrap_or(0),
                pop_ms: number("popTime"),
                invisible_ms: number("invisibleTime"),
                revive_queue: i32::try_from(number("reviveQid")).unwrap_or(0),
                kind: Kind::Normal,
                broker_name: "broker-a",
                queue_id: Some(queue),
                offset: Some(offset),
            };
            let ack = |frame: FrameWriter<'_>| {
                let frame =
                    frame.text("consumerGroup", &self.settings.group).text("topic", &self.settings.topic);
                let frame = frame.number("queueId", queue).text("extraInfo", &handle.to_string());
                frame.number("offset", offset).maybe("liteTopic", property("__LITE_TOPIC")).finish(&[]);
            };
            self.call(client, 200_051, ack).await;
        }
    }

    /// Waits for a number of messages, and no longer than `quiet` for the next one. Returns the number of messages so far.
    async fn received(&self, expected: u64) -> u64 {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let received = self.counts().received;
            if received >= expected || received == before && since.elapsed() >= self.settings.quiet {
                return received;
            }
            if received != before {
                (before, since) = (received, Instant::now());
            }
            sleep(LOOK).await;
        }
    }

    async fn consume(self: Arc<Self>) -> Value {
        let began = Instant::now();
        if !self.consumes.swap(true, Relaxed) {
            for client in 0..self.settings.clients {
                spawn_local(self.clone().client(client));
            }
        }
        let received = match self.settings.kind.as_str() {
            "ordered" => {
                sleep(START).await;
                self.received(0).await
            }
            _ => self.received(self.settings.topics).await,
        };
        json!({ "seconds": began.elapsed().as_secs_f64(), "received": received, "failures": self.counts().failures })
    }

    /// Sends at the rate, whether or not earlier sends have ended.
    async fn load(self: Arc<Self>, seconds: u64) -> Value {
        *self.counts() = Counts::default();
        let Settings { rate, burst, .. } = self.settings;
        let (began, count) = (tokio::time::Instant::now(), rate * seconds);
        let mut senders = JoinSet::new();
        for number in 0..count {
            if number.is_multiple_of(burst) {
                sleep_until(began + Duration::from_nanos(number * 1_000_000_000 / rate)).await;
            }
            let (load, number) = (self.clone(), self.number.fetch_add(1, Relaxed));
            senders.spawn_local(async move { load.send_one(number).await });
            while senders.try_join_next().is_some() {}
        }
        while senders.join_next().await.is_some() {}
        let seconds = began.elapsed().as_secs_f64();
        self.received(count).await;
        let counts = std::mem::take(&mut *self.counts());
        json!({ "sent": count, "received": counts.received, "seconds": seconds, "failures": counts.failures,
                "times": quantiles(counts.times) })
    }

    /// Times of sends one by one while lite topics expire, and as long as none has gone.
    async fn expire(self: Arc<Self>) -> Value {
        let times: Arc<Mutex<Vec<(Instant, f64)>>> = Arc::default();
        let sent = times.clone();
        let load = self.clone();
        let sending = spawn_local(async move {
            for number in 0.. {
                let began = Instant::now();
                load.send(number, 0, None).await;
                sent.lock().expect("short section").push((began, began.elapsed().as_secs_f64() * 1e3));
                sleep(Duration::from_millis(1)).await;
            }
        });
        let (mut first, mut begin) = (None, Instant::now());
        loop {
            let write = |frame: FrameWriter<'_>| frame.text("topic", &self.settings.expires).finish(&[]);
            let reply = self.call(1, 200_075, write).await;
            let info: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            let left = info["liteTopicCount"].as_u64();
            if first.is_none() || left == first {
                (first, begin) = (left, Instant::now());
            } else if left == Some(0) {
                break;
            }
            sleep(Duration::from_millis(500)).await;
        }
        let seconds = begin.elapsed().as_secs_f64();
        sending.abort();
        let times = std::mem::take(&mut *times.lock().expect("short section"));
        let (during, before): (Vec<_>, Vec<_>) = times.into_iter().partition(|(at, _)| *at >= begin);
        let of = |times: Vec<(Instant, f64)>| quantiles(times.into_iter().map(|(_, time)| time).collect());
        json!({ "seconds": seconds, "times": of(during), "before": of(before), "failures": self.counts().failures })
    }

    async fn step(self: Arc<Self>, line: String) -> Value {
        match line.split_once(' ').unwrap_or((&line, "10")) {
            ("fill", _) => self.fill().await,
            ("subscribe", _) => self.subscribe().await,
            ("consume", _) => self.consume().await,
            ("load", seconds) => self.load(seconds.parse().expect("a number of seconds")).await,
            ("expire", _) => self.expire().await,
            _ => panic!("the step {line} is unknown"),
        }
    }
}

/// Quantiles of milliseconds.
fn quantiles(mut times: Vec<f64>) -> Value {
    times.sort_unstable_by(f64::total_cmp);
    let at =
        |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    json!({ "count": times.len(), "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": at(1.0),
            "above_100": times.iter().filter(|time| **time > 100.0).count() })
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let given: HashMap<&str, &str> = words.chunks_exact(2).map(|pair| (&*pair[0], &*pair[1])).collect();
    let text = |name, default: &str| given.get(name).map_or(default, |text| *text).to_owned();
    let number = |name, default| text(name, default).parse::<u64>().expect("a number");
    let settings = Settings {
        topic: text("topic", "Parent"),
        group: text("group", "Readers"),
        expires: text("expires", ""),
        kind: text("kind", "lite"),
        topics: number("topics", "1000"),
        clients: number("clients", "10"),
        rate: number("rate", "500"),
        burst: number("burst", "1"),
        size: number("size", "200") as usize,
        quiet: Duration::from_secs(number("quiet", "60")),
    };
    let (address, connections) = (text("broker", "127.0.0.1:10911"), number("connections", "8"));
    let workers = Workers::start("load", 1, Limits::default()).expect("a thread for the connections");
    let (sender, receiver) = mpsc::channel();
    let dialing = workers.clone();
    let dial = move || async move {
        let mut peers = Vec::new();
        for _ in 0..connections {
            peers.push(
                dialing.dial_name(&address, Arc::new(Quiet)).await.expect("a connection to the broker"),
            );
        }
        sender.send(peers).expect("the main thread waits");
    };
    workers.spawn(0, dial).expect("the workers run");
    let (counts, number) = Default::default();
    let peers = receiver.recv().expect("connections to the broker");
    let load = Arc::new(Load {
        settings,
        peers,
        began: Instant::now(),
        counts,
        number,
        consumes: AtomicBool::new(false),
    });
    for line in std::io::stdin().lock().lines() {
        let (line, load, (sender, receiver)) = (line.expect("text"), load.clone(), mpsc::channel());
        let run = move || async move { sender.send(load.step(line).await).expect("the main thread waits") };
        workers.spawn(0, run).expect("the workers run");
        println!("{}", receiver.recv().expect("the step does not panic"));
    }
    // Clients wait for answers, which no longer come.
    std::process::exit(0);
}
