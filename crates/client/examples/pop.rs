//! Jobs any worker may take, which come again when a worker does not finish them:
//! `cargo run -p vostok-client --example pop -- 127.0.0.1:9876 Jobs`.

use client::{Client, Config, Error, Message, PopConfig, PopConsumer, Producer, ProducerConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), client::Error> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "Jobs".to_owned());
    run(&name_server, &topic).await
}

/// Sends twelve jobs. The first attempt at every third job fails, and another job takes long.
pub async fn run(name_server: &str, topic: &str) -> Result<(), Error> {
    let client = Client::start(Config::new(name_server))?;
    let producer = Producer::new(&client, ProducerConfig::new("example_bosses"));
    for number in 0..12 {
        producer.send(&Message::new(topic, format!("job {number}"))).await?;
    }
    let config = PopConfig {
        invisible: Duration::from_secs(3),
        from_first: true,
        ..PopConfig::new("example_workers", topic, "*")
    };
    let worker = PopConsumer::start(&client, config).await?;
    let mut attempts: BTreeMap<String, i32> = BTreeMap::new();
    let mut done = BTreeSet::new();
    while done.len() < 12 {
        for job in worker.pop(Duration::from_secs(20)).await? {
            let text = String::from_utf8_lossy(&job.message.body).into_owned();
            let attempt = attempts.entry(text.clone()).or_default();
            *attempt += 1;
            match text.as_str() {
                // Without a word it comes again after three seconds.
                "job 0" | "job 3" | "job 6" | "job 9" if *attempt == 1 => println!("{text}: failed"),
                "job 5" => {
                    println!("{text}: takes longer");
                    let job = worker.keep(&job, Duration::from_secs(60)).await?;
                    worker.ack(&job).await?;
                    done.insert(text);
                }
                _ => {
                    println!("{text}: done at attempt {attempt}");
                    worker.ack(&job).await?;
                    done.insert(text);
                }
            }
        }
    }
    let failed_once: Vec<_> = attempts.iter().filter(|(_, attempts)| **attempts > 1).collect();
    println!("done; came again: {failed_once:?}");
    worker.shutdown().await;
    producer.shutdown().await;
    client.shutdown();
    Ok(())
}
