//! Request and reply: an application sends requests to another and prints the replies: `cargo run -p vostok-client
//! --example requests -- 127.0.0.1:9876 Questions`.

use client::{
    Client, Config, ConsumeFrom, ConsumeStatus, Error, Message, Producer, ProducerConfig, PushConfig,
    PushConsumer,
};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), client::Error> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "Questions".to_owned());
    run(&name_server, &topic).await
}

/// Sends ten requests to a replier in the same process. Usually the replier is another process.
pub async fn run(name_server: &str, topic: &str) -> Result<(), Error> {
    let replying = Client::start(Config::new(name_server))?;
    let replier = Producer::new(&replying, ProducerConfig::new("example_replier"));
    let asking = Client::start(Config::new(name_server))?;
    let requester = Producer::new(&asking, ProducerConfig::new("example_requester"));
    // A topic is there once something was sent to it.
    requester.send(&Message::new(topic, "nobody needs to answer this")).await?;

    // The listener hands questions over; replies are sent beside it.
    let (questions, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let config = PushConfig { from: ConsumeFrom::First, ..PushConfig::new("example_repliers", topic, "*") };
    let consumer = PushConsumer::start(&replying, config, move |messages| {
        messages.iter().for_each(|message| drop(questions.send(message.clone())));
        ConsumeStatus::Done
    })
    .await?;
    let reply = async {
        while let Some(question) = asked.recv().await {
            // The first message is no request and cannot be replied to.
            if question.property("REPLY_TO_CLIENT").is_some() {
                let text = format!("{} to you", String::from_utf8_lossy(&question.body));
                replier.reply(&question, text).await?;
            }
        }
        Ok::<(), Error>(())
    };
    let ask = async {
        for number in 0..10 {
            let question = Message::new(topic, format!("good morning {number}"));
            let answer = requester.request(&question, Duration::from_secs(10)).await?;
            println!("{}", String::from_utf8_lossy(&answer.body));
            assert_eq!(answer.body, format!("good morning {number} to you").as_bytes());
        }
        Ok::<(), Error>(())
    };
    tokio::select! {
        outcome = ask => outcome?,
        outcome = reply => outcome?,
    }

    consumer.shutdown().await;
    for (client, producer) in [(&replying, replier), (&asking, requester)] {
        producer.shutdown().await;
        client.shutdown();
    }
    Ok(())
}
