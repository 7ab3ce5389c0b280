//! Order under churn: every second a member joins or leaves, in runs of a minute and more some are cut off without
//! leaving, and the messages of every key must come in the order they were sent in.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::{
    Client, Config, ConsumeFrom, ConsumeStatus, Message, MessageQueue, Producer, PushConfig, PushConsumer,
    Received,
};

use crate::Arguments;
use crate::common::random::Random;
use crate::common::server::Setup;
use crate::common::{PATIENCE, patiently};

const TOPIC: &str = "Churned";
const GROUP: &str = "Churners";
const QUEUES: u32 = 8;
const KEYS: usize = 32;
const MEMBERS: std::ops::Range<usize> = 2..7;
/// Runs of this length cut members off as well, whose locks last a minute.
const CUTS_FROM_S: u64 = 120;
/// Every so many departures.
const CUT_EVERY: usize = 10;

/// What all listeners saw together.
#[derive(Default)]
struct Seen {
    last: HashMap<usize, u64>,
    /// Who has messages of a queue in hand.
    inside: HashMap<Arc<MessageQueue>, usize>,
    messages: u64,
    duplicates: u64,
    violations: Vec<String>,
}

#[derive(Clone, Default)]
struct Judge(Arc<Mutex<Seen>>);

impl Judge {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, member: usize, messages: &[Received]) -> ConsumeStatus {
        let Some(first) = messages.first() else { return ConsumeStatus::Done };
        let other = self.seen().inside.insert(first.queue.clone(), member);
        if let Some(other) = other {
            let text = format!("members {other} and {member} both have queue {}", first.queue.queue_id);
            self.seen().violations.push(text);
        }
        for message in messages {
            self.note(member, message);
        }
        self.seen().inside.remove(&first.queue);
        ConsumeStatus::Done
    }

    fn note(&self, member: usize, message: &Received) {
        let text = String::from_utf8_lossy(&message.body);
        let (key, number) = text.split_once(' ').unwrap_or_default();
        let (Ok(key), Ok(number)) = (key.parse(), number.parse::<u64>()) else { return };
        let mut seen = self.seen();
        let last = seen.last.get(&key).copied().unwrap_or_default();
        if number <= last {
            seen.duplicates += 1;
        } else {
            if number != last + 1 {
                let text = format!("key {key} went from {last} to {number} at member {member}");
                seen.violations.push(text);
            }
            seen.messages += 1;
            seen.last.insert(key, number);
        }
    }
}

struct Member {
    client: Client,
    consumer: PushConsumer,
}

async fn join(namesrv: &str, judge: &Judge, number: usize) -> Result<Member, client::Error> {
    let client = Client::start(Config::new(namesrv))?;
    let config = PushConfig { from: ConsumeFrom::First, threads: 4, ..PushConfig::new(GROUP, TOPIC, "*") };
    let judge = judge.clone();
    let listener = move |messages: &[Received]| judge.look(number, messages);
    let consumer = PushConsumer::start_orderly(&client, config, listener).await?;
    Ok(Member { client, consumer })
}

/// Sends numbered messages of all keys in turn until told to end; answers the last number of each key.
async fn send(
    producer: &Producer,
    queues: &[MessageQueue],
    mut end: tokio::sync::oneshot::Receiver<()>,
) -> Result<u64, client::Error> {
    let mut number = 0;
    loop {
        number += 1;
        for key in 0..KEYS {
            let queue = &queues[key % queues.len()];
            producer.send_to(queue, &Message::new(TOPIC, format!("{key} {number}"))).await?;
        }
        if end.try_recv().is_ok() {
            return Ok(number);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lets members come and go until the time is over; answers those that are left and how many left in which way.
async fn churn(
    namesrv: &str,
    judge: &Judge,
    arguments: &Arguments,
) -> Result<(Vec<Member>, usize, usize), client::Error> {
    let mut random = Random::new(arguments.seed);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let (mut members, mut next, mut left, mut cut) = (Vec::new(), 0, 0, 0);
    while members.len() < 4 {
        members.push(patiently(async || join(namesrv, judge, next).await).await?);
        next += 1;
    }
    let mut second = tokio::time::interval(Duration::from_secs(1));
    while Instant::now() < end {
        second.tick().await;
        let joins = match members.len() {
            few if few <= MEMBERS.start => true,
            many if many + 1 >= MEMBERS.end => false,
            _ => random.one_in(2),
        };
        if joins {
            members.push(patiently(async || join(namesrv, judge, next).await).await?);
            next += 1;
            continue;
        }
        let member = members.swap_remove(random.within(0, members.len() as u64) as usize);
        left += 1;
        if arguments.seconds < CUTS_FROM_S || left % CUT_EVERY != 0 {
            member.consumer.shutdown().await;
        } else {
            // Its listener goes on with what it has, as one whose network is gone does.
            cut += 1;
        }
        // Joins the client's threads.
        let _ = tokio::task::spawn_blocking(move || member.client.shutdown()).await;
    }
    Ok((members, left, cut))
}

/// Says what was seen, or what was wrong.
pub async fn run(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let server = Setup::new(&arguments.binary, home.path().join("data"), home.path()).start()?;
    let namesrv = server.setup().namesrv().to_string();
    let client = Client::start(Config::new(&namesrv))?;
    crate::create(&client, &server.setup().broker().to_string(), TOPIC, QUEUES).await?;
    let producer = crate::producer(&client);
    let queues = patiently(async || producer.queues(TOPIC).await).await?;
    let judge = Judge::default();
    let (end, ended) = tokio::sync::oneshot::channel();
    let churned = async {
        let done = churn(&namesrv, &judge, arguments).await;
        let _ = end.send(());
        done
    };
    let (sent, churned) = tokio::join!(send(&producer, &queues, ended), churned);
    let (sent, (members, left, cut)) = (sent?, churned?);
    // The locks of a member that was cut off, or whose unlocking came too late, expire after a minute.
    let deadline = Instant::now() + PATIENCE;
    let is_complete = || {
        let seen = judge.seen();
        (0..KEYS).all(|key| seen.last.get(&key) == Some(&sent))
    };
    while !is_complete() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let complete = is_complete();
    for member in members {
        member.consumer.shutdown().await;
        let _ = tokio::task::spawn_blocking(move || member.client.shutdown()).await;
    }
    let seen = judge.seen();
    let total = sent * KEYS as u64;
    if let Some(first) = seen.violations.first() {
        return Err(format!("{} violations of the order, the first: {first}", seen.violations.len()).into());
    }
    if !complete {
        return Err(format!("{} of {total} messages did not come", total - seen.messages).into());
    }
    let duplicates = seen.duplicates;
    Ok(format!(
        "{total} messages of {KEYS} keys in {} s, {left} members left and {cut} of them without a word: 0 violations, 0 lost, {duplicates} duplicates",
        arguments.seconds
    ))
}
