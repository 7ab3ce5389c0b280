//! Groups of consumers on the Rust client against a real server: consumption in order while members join and leave every
//! second; then a newcomer to a group of ten gets its first message, and others go on with the queues of a member that was
//! killed. Or, with `transactions`, producers of transactions while everything is killed.
//!
//! `cargo run --example apps -- [churn|transactions] [--binary PATH] [--seconds 20] [--seed N]`: the server is the one that was built with
//! this program, unless `--binary` names another.

#[path = "../../common/mod.rs"]
mod common;

mod churn;
mod halves;
mod joins;

use std::error::Error;
use std::path::PathBuf;

use client::{Client, Producer, ProducerConfig};

use common::{PATIENCE, patiently};

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The server.
    pub binary: PathBuf,
    /// How long members come and go, or everything is killed again and again.
    pub seconds: u64,
    /// What the random decisions follow.
    pub seed: u64,
}

fn arguments(words: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
    let seed = std::process::id().into();
    let mut found = Arguments { binary: common::server::built_binary(), seconds: 20, seed };
    let mut words = words;
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--binary" => found.binary = value.into(),
            "--seconds" => found.seconds = value.parse()?,
            "--seed" => found.seed = value.parse()?,
            _ => return Err(format!("{word} is none of --binary, --seconds, --seed").into()),
        }
    }
    Ok(found)
}

/// A producer that waits for late answers.
fn producer(client: &Client) -> Producer {
    Producer::new(client, ProducerConfig { timeout: PATIENCE, ..ProducerConfig::new("Senders") })
}

/// Creates a topic and waits until the name server routes it.
async fn create(client: &Client, broker: &str, topic: &str, queues: u32) -> Result<(), client::Error> {
    patiently(async || client.create_topic(broker, topic, queues).await).await?;
    patiently(async || client.refresh_route(topic).await.map(drop)).await
}

fn block_on<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1).peekable();
    let tool = words.next_if(|word| !word.starts_with("--")).unwrap_or_else(|| "churn".to_owned());
    let arguments = arguments(words)?;
    let parts = match tool.as_str() {
        "churn" => vec![
            ("orderly under churn", block_on(churn::run(&arguments))?),
            ("joining and killing", block_on(joins::run(&arguments))?),
        ],
        "transactions" => vec![("transactions under kill -9", block_on(halves::run(&arguments))?)],
        _ => return Err(format!("{tool} is neither churn nor transactions").into()),
    };
    let mut failed = 0;
    for (name, outcome) in &parts {
        match outcome {
            Ok(note) => println!("{name}: ok, {note}"),
            Err(why) => {
                failed += 1;
                println!("FAILED: {name} (seed {}): {why}", arguments.seed);
            }
        }
    }
    println!("{tool}: {} passed, {failed} failed, 0 skipped", parts.len() - failed);
    if failed == 0 { Ok(()) } else { Err("something failed".into()) }
}
