//! Requests of brokers to consumers, producers and requesters.

use crate::cluster::Cluster;
use crate::{OUTCOME_CAP, block_on, client_config, producer_config, until};
use client::{
    Client, ConsumeFrom, ConsumeStatus, Decision, Error, Message, MessageModel, MessageQueue, Producer,
    PushConfig, PushConsumer, TransactionProducer,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use wire::body::{ConsumerRunningInfo, ConsumerStatus, ResetOffsetBody};
use wire::codes::request;
use wire::frame::FrameWriter;
use wire::json;

fn client(cluster: &Cluster) -> Client {
    Client::start(client_config(&cluster.address.to_string())).unwrap()
}

/// Makes a client with a consumer of group `g` that passes bodies on and requests "bad" bodies again.
async fn consumer(cluster: &Cluster) -> (Client, PushConsumer, UnboundedReceiver<String>) {
    let client = client(cluster);
    let (sender, receiver) = unbounded_channel();
    let config = PushConfig { from: ConsumeFrom::First, threads: 2, ..PushConfig::new("g", "T", "*") };
    let consumer = PushConsumer::start(&client, config, move |messages| {
        let body = String::from_utf8(messages[0].body.clone()).unwrap();
        let verdict = if body == "bad" { ConsumeStatus::Later } else { ConsumeStatus::Done };
        sender.send(body).unwrap();
        verdict
    })
    .await
    .unwrap();
    (client, consumer, receiver)
}

async fn received(receiver: &mut UnboundedReceiver<String>, count: usize) -> Vec<String> {
    let mut bodies = Vec::new();
    for _ in 0..count {
        bodies.push(receiver.recv().await.unwrap());
    }
    bodies
}

#[test]
fn a_consumer_says_where_it_is_and_how_it_is() {
    let cluster = Cluster::start();
    block_on(async {
        let (client, consumer, mut receiver) = consumer(&cluster).await;
        let producer = Producer::new(&client, producer_config());
        for number in 0..8 {
            producer.send(&Message::new("T", format!("{number}"))).await.unwrap();
        }
        received(&mut receiver, 8).await;
        let ask = |code, group: &'static str| {
            cluster.ask("g", code, b"".to_vec(), move |frame| {
                frame.text("group", group).text("consumerGroup", group).text("topic", "T")
            })
        };
        let status = loop {
            let answer = ask(request::GET_CONSUMER_STATUS_FROM_CLIENT, "g").await;
            let status: ConsumerStatus = json::from_slice(&answer.body).unwrap();
            // The listener's last message counts as done a moment after it was seen.
            if status.message_queue_table.values().sum::<i64>() == 8 {
                break status;
            }
        };
        assert_eq!(status.message_queue_table.len(), 4);
        let answer = ask(request::GET_CONSUMER_STATUS_FROM_CLIENT, "other").await;
        assert!(json::from_slice::<ConsumerStatus>(&answer.body).unwrap().message_queue_table.is_empty());

        let answer = ask(request::GET_CONSUMER_RUNNING_INFO, "g").await;
        assert_eq!(answer.code, 0);
        let running: ConsumerRunningInfo = json::from_slice(&answer.body).unwrap();
        assert_eq!(running.properties["PROP_CONSUME_TYPE"], "CONSUME_PASSIVELY");
        assert_eq!(running.properties["PROP_CONSUMEORDERLY"], "false");
        let start: i64 = running.properties["PROP_CONSUMER_START_TIMESTAMP"].parse().unwrap();
        assert!(start > 0);
        assert_eq!(running.mq_table.keys().filter(|queue| queue.topic == "T").count(), 4);
        let topics: Vec<_> = running.subscription_set.iter().map(|data| data.topic.as_str()).collect();
        assert_eq!(topics, ["T", "%RETRY%g"]);
        let figure = |key: &str| running.status_table["T"][key].as_f64().unwrap();
        for key in ["pullRT", "pullTPS", "consumeRT", "consumeOKTPS"] {
            assert!(figure(key) > 0.0, "{key} is {}", figure(key));
        }
        assert_eq!((figure("consumeFailedTPS"), figure("consumeFailedMsgs")), (0.0, 0.0));
        for value in running.mq_table.values() {
            let time = |key: &str| value[key].as_i64().unwrap();
            assert!(time("lastPullTimestamp") >= start && time("lastConsumeTimestamp") >= start, "{value}");
        }
        let answer = ask(request::GET_CONSUMER_RUNNING_INFO, "other").await;
        let remark = "The Consumer Group <other> not exist in this consumer";
        assert_eq!((answer.code, answer.remark.as_deref()), (1, Some(remark)));
        consumer.shutdown().await;
        client.shutdown();
    });
}

#[test]
fn a_consumer_goes_on_where_it_is_told() {
    let cluster = Cluster::start();
    block_on(async {
        let (client, consumer, mut receiver) = consumer(&cluster).await;
        let producer = Producer::new(&client, producer_config());
        let queue = MessageQueue::new("T", "a", 1);
        for number in 0..5 {
            producer.send_to(&queue, &Message::new("T", format!("{number}"))).await.unwrap();
        }
        received(&mut receiver, 5).await;
        let offset_table = BTreeMap::from([(queue, 3)]);
        let body = json::to_vec(&ResetOffsetBody { offset_table });
        cluster.tell("g", request::RESET_CONSUMER_CLIENT_OFFSET, &body, |frame| {
            frame.text("group", "g").text("topic", "T").number("timestamp", 0)
        });
        let mut again = received(&mut receiver, 2).await;
        again.sort();
        assert_eq!(again, ["3", "4"]);
        consumer.shutdown().await;
        client.shutdown();
    });
    let stored = cluster.state().offsets[&("g".to_owned(), ("T".to_owned(), 1))];
    assert_eq!(stored, 5);
}

#[test]
fn a_broadcasting_consumer_goes_on_where_it_is_told() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let (sender, mut receiver) = unbounded_channel();
        let model = MessageModel::Broadcasting;
        let config =
            PushConfig { from: ConsumeFrom::First, threads: 1, model, ..PushConfig::new("g", "T", "*") };
        let consumer = PushConsumer::start(&client, config, move |messages| {
            sender.send(String::from_utf8(messages[0].body.clone()).unwrap()).unwrap();
            ConsumeStatus::Done
        });
        let consumer = consumer.await.unwrap();
        let producer = Producer::new(&client, producer_config());
        let queue = MessageQueue::new("T", "a", 1);
        for number in 0..5 {
            producer.send_to(&queue, &Message::new("T", format!("{number}"))).await.unwrap();
        }
        received(&mut receiver, 5).await;
        let body = json::to_vec(&ResetOffsetBody { offset_table: BTreeMap::from([(queue, 3)]) });
        cluster.tell("g", request::RESET_CONSUMER_CLIENT_OFFSET, &body, |frame| {
            frame.text("group", "g").text("topic", "T").number("timestamp", 0)
        });
        assert_eq!(received(&mut receiver, 2).await, ["3", "4"]);
        consumer.shutdown().await;
        client.shutdown();
    });
    assert!(cluster.state().offsets.is_empty(), "they are its own");
}

#[test]
fn a_consumer_consumes_a_message_it_is_given() {
    let cluster = Cluster::start();
    block_on(async {
        let (client, consumer, mut receiver) = consumer(&cluster).await;
        for (text, result) in [("good", "CR_SUCCESS"), ("bad", "CR_LATER")] {
            let body = cluster.record("Elsewhere", text.as_bytes(), b"");
            let answer = cluster
                .ask("g", request::CONSUME_MESSAGE_DIRECTLY, body, |frame| {
                    frame.text("consumerGroup", "g").text("brokerName", "a")
                })
                .await;
            assert_eq!(answer.code, 0);
            let found: serde_json::Value = json::from_slice(&answer.body).unwrap();
            assert_eq!((&found["consumeResult"], &found["order"]), (&result.into(), &false.into()));
            assert_eq!(receiver.recv().await.unwrap(), text);
        }
        let answer = cluster
            .ask("g", request::CONSUME_MESSAGE_DIRECTLY, b"rubbish".to_vec(), |frame| {
                frame.text("consumerGroup", "g")
            })
            .await;
        assert_eq!(answer.code, 1);
        consumer.shutdown().await;
        client.shutdown();
    });
    assert!(cluster.state().sent_back.is_empty(), "only its listener was asked");
}

#[test]
fn a_producer_of_transactions_answers_for_its_group() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let decide = |half: &client::Received| match half.body.as_slice() {
            b"good" => Decision::Commit,
            b"bad" => Decision::Rollback,
            b"broken" => panic!("an application's mistake"),
            _ => Decision::Unknown,
        };
        let producer = TransactionProducer::new(&client, producer_config(), decide).unwrap();
        let second = TransactionProducer::new(&client, producer_config(), decide);
        assert!(matches!(second, Err(Error::Illegal(_))));
        producer.begin(&Message::new("T", "x")).await.unwrap().commit().await.unwrap();
        for (number, text) in ["open", "broken", "bad", "good"].into_iter().enumerate() {
            let body = cluster.record("T", text.as_bytes(), b"PGROUP\x01pg\x02UNIQ_KEY\x01U\x02");
            cluster.tell_producer("pg", request::CHECK_TRANSACTION_STATE, &body, |frame| {
                frame.number("tranStateTableOffset", number).number("commitLogOffset", 7).text("msgId", "U")
            });
        }
        until(async || cluster.state().ended.len() == 3).await;
        assert_eq!(cluster.state().ended, [(0, 8, false), (2, 12, true), (3, 8, true)]);
        producer.shutdown().await;
        client.shutdown();
    });
}

#[test]
fn a_reply_finds_its_request_and_silence_ends() {
    let cluster = Cluster::start();
    block_on(async {
        let client = client(&cluster);
        let producer = Producer::new(&client, producer_config());
        let question = Message::new("T", "question");
        let reply = async {
            until(async || cluster.state().stored_request().is_some()).await;
            let (correlation, target) = cluster.state().stored_request().unwrap();
            assert_eq!(target, client.id());
            let write = |correlation: String| {
                move |frame: FrameWriter<'_>| {
                    let properties = format!("CORRELATION_ID\u{1}{correlation}\u{2}");
                    frame
                        .text("topic", "C_REPLY_TOPIC")
                        .number("queueId", 0)
                        .number("sysFlag", 0)
                        .number("bornTimestamp", 1)
                        .number("flag", 0)
                        .number("storeTimestamp", 2)
                        .text("bornHost", "127.0.0.1:1")
                        .text("properties", &properties)
                        .finish(b"answer");
                }
            };
            let code = request::PUSH_REPLY_MESSAGE_TO_CLIENT;
            let answer = cluster.ask_producer("pg", code, write("nobody".to_owned())).await;
            assert_eq!(answer.code, 0, "a reply nobody waits for is taken");
            assert_eq!(cluster.ask_producer("pg", code, write(correlation)).await.code, 0);
            let answer = cluster.ask_producer("pg", code, |frame: FrameWriter<'_>| frame.finish(b"")).await;
            assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("process reply message fail")));
        };
        let (answer, ()) = tokio::join!(producer.request(&question, OUTCOME_CAP), reply);
        assert_eq!(answer.unwrap().body, b"answer");
        let silent = producer.request(&question, Duration::from_millis(50)).await;
        assert!(matches!(silent, Err(Error::NoReply(_))), "{silent:?}");
        producer.shutdown().await;
        client.shutdown();
    });
}
