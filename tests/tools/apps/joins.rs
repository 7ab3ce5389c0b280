//! A newcomer to a group gets messages, and others go on with the queues of a member that is gone. How soon is measured.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::{
    Client, Config, ConsumeFrom, ConsumeStatus, Message, MessageQueue, Producer, PushConfig, PushConsumer,
    Received,
};

use crate::Arguments;
use crate::common::server::Setup;
use crate::common::{PATIENCE, patiently};

const TOPIC: &str = "Joined";
const QUEUES: u32 = 32;
const MEMBERS: usize = 10;

/// The last message each member had of each queue.
type Last = Arc<Mutex<BTreeMap<(usize, Arc<MessageQueue>), Instant>>>;

fn start(member: usize, last: &Last) -> impl Fn(&[Received]) -> ConsumeStatus + Send + Sync + 'static {
    let last = last.clone();
    move |messages: &[Received]| {
        for message in messages {
            let key = (member, message.queue.clone());
            last.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Instant::now());
        }
        ConsumeStatus::Done
    }
}

async fn join(namesrv: &str, member: usize, last: &Last) -> Result<(Client, PushConsumer), client::Error> {
    let client = Client::start(Config::new(namesrv))?;
    let config =
        PushConfig { from: ConsumeFrom::First, threads: 1, ..PushConfig::new("Joiners", TOPIC, "*") };
    let consumer = PushConsumer::start(&client, config, start(member, last)).await?;
    Ok((client, consumer))
}

/// Waits until `holds`, and says how long that was.
async fn until(mut holds: impl FnMut() -> bool) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() > PATIENCE {
            return Err(format!("not within {PATIENCE:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(begin.elapsed())
}

async fn measure(namesrv: &str) -> Result<(Duration, Duration), Box<dyn Error>> {
    let last = Last::default();
    let mut members = Vec::new();
    for number in 0..MEMBERS {
        members.push(patiently(async || join(namesrv, number, &last).await).await?);
    }
    let owns = |consumer: &PushConsumer| {
        let queues = consumer.queues();
        queues.into_iter().filter(|queue| queue.topic == TOPIC).collect::<Vec<_>>()
    };
    until(|| members.iter().map(|(_, consumer)| owns(consumer).len()).sum::<usize>() == QUEUES as usize)
        .await?;
    let begin = Instant::now();
    let newcomer = patiently(async || join(namesrv, MEMBERS, &last).await).await?;
    let has = |member: usize, queue: Option<&MessageQueue>, since: Instant| {
        let last = last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().any(|((who, which), when)| {
            (*who == member) && *when > since && queue.is_none_or(|queue| **which == *queue)
        })
    };
    until(|| has(MEMBERS, None, begin)).await?;
    let joined = begin.elapsed();
    // The connection ends without a word, as when the process is killed.
    let queues = owns(&newcomer.1);
    let (client, consumer) = newcomer;
    let closing = tokio::task::spawn_blocking(move || client.shutdown());
    let killed = Instant::now();
    closing.await?;
    until(|| queues.iter().all(|queue| (0..MEMBERS).any(|member| has(member, Some(queue), killed)))).await?;
    let taken_over = killed.elapsed();
    drop(consumer);
    for (client, consumer) in members {
        consumer.shutdown().await;
        let _ = tokio::task::spawn_blocking(move || client.shutdown()).await;
    }
    Ok((joined, taken_over))
}

/// Sends to every queue again and again.
async fn send(producer: &Producer, queues: &[MessageQueue]) -> Result<Infallible, client::Error> {
    loop {
        for queue in queues {
            producer.send_to(queue, &Message::new(TOPIC, "x")).await?;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Says how long it took, or what was wrong.
pub async fn run(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let server = Setup::new(&arguments.binary, home.path().join("data"), home.path()).start()?;
    let namesrv = server.setup().namesrv().to_string();
    let client = Client::start(Config::new(&namesrv))?;
    crate::create(&client, &server.setup().broker().to_string(), TOPIC, QUEUES).await?;
    let producer = crate::producer(&client);
    let queues = patiently(async || producer.queues(TOPIC).await).await?;
    let (joined, taken_over) = tokio::select! {
        failed = send(&producer, &queues) => match failed {
            Ok(never) => match never {},
            Err(error) => return Err(error.into()),
        },
        measured = measure(&namesrv) => measured?,
    };
    Ok(format!(
        "first message {joined:?} after joining {MEMBERS} others; queues of a killed member go on after {taken_over:?}"
    ))
}
