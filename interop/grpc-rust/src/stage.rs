//! Clients of scenarios, receiving until a number of messages came, and comparisons.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::{Duration, Instant};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::TransactionChecker;
use rocketmq::{Producer, SimpleConsumer};

pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Time for which received messages stay invisible.
pub const INVISIBLE: Duration = Duration::from_secs(300);
/// Cap of every wait.
const PATIENCE: Duration = Duration::from_secs(240);

/// Ends a scenario with the expression and both values, unless they are equal.
#[macro_export]
macro_rules! expect {
    ($found:expr, $expected:expr) => {
        let (found, expected) = (&$found, &$expected);
        if found != expected {
            return Err(format!("{}: found {found:?}, expected {expected:?}", stringify!($found)).into());
        }
    };
}

/// A topic and a group for one scenario, which the runner made.
pub struct Stage {
    pub topic: String,
    endpoint: String,
    group: String,
    has_tls: bool,
}

impl Stage {
    pub fn new(endpoint: &str, scenario: &str, run: &str) -> Self {
        // The runner names the server's certificate as one that the machine trusts.
        let has_tls = scenario == "tls";
        let name = format!("rust_{}_{run}", scenario.replace('-', "_"));
        Self {
            topic: format!("T_{name}"),
            endpoint: endpoint.to_owned(),
            group: format!("G_{name}"),
            has_tls,
        }
    }

    pub fn client(&self) -> ClientOption {
        let mut client = ClientOption::default();
        client.set_access_url(self.endpoint.clone());
        client.set_enable_tls(self.has_tls);
        client.set_timeout(Duration::from_secs(60));
        // The deadline of a receive as well, of which the server waits 20 s.
        client.set_long_polling_timeout(Duration::from_secs(60));
        client
    }

    fn producing(&self) -> ProducerOption {
        let mut producer = ProducerOption::default();
        producer.set_topics(vec![self.topic.clone()]);
        producer
    }

    pub async fn producer(&self) -> Outcome<Producer> {
        let mut producer = Producer::new(self.producing(), self.client())?;
        producer.start().await?;
        Ok(producer)
    }

    pub async fn transaction_producer(&self, checker: Box<TransactionChecker>) -> Outcome<Producer> {
        let mut producer = Producer::new_transaction_producer(self.producing(), self.client(), checker)?;
        producer.start().await?;
        Ok(producer)
    }

    pub async fn consumer(&self) -> Outcome<SimpleConsumer> {
        let mut consumer = SimpleConsumerOption::default();
        consumer.set_consumer_group(self.group.clone());
        consumer.set_topics(vec![self.topic.clone()]);
        let mut consumer = SimpleConsumer::new(consumer, self.client())?;
        consumer.start().await?;
        Ok(consumer)
    }

    pub fn message(&self, body: &str) -> MessageBuilder {
        MessageBuilder::builder().set_topic(self.topic.clone()).set_body(body.as_bytes().to_vec())
    }

    /// Receives once; no message where none came within the time of a long poll.
    pub async fn receive_once(
        &self,
        consumer: &SimpleConsumer,
        filter: &FilterExpression,
    ) -> Outcome<Vec<MessageView>> {
        Ok(consumer.receive_with(&self.topic, filter, 32, INVISIBLE).await?)
    }

    /// Receives and acknowledges until `count` messages came.
    pub async fn receive(
        &self,
        consumer: &SimpleConsumer,
        filter: &FilterExpression,
        count: usize,
    ) -> Outcome<Vec<MessageView>> {
        let (mut found, begin) = (Vec::new(), Instant::now());
        while found.len() < count && begin.elapsed() < PATIENCE {
            for message in self.receive_once(consumer, filter).await? {
                consumer.ack(&message).await?;
                found.push(message);
            }
        }
        Ok(found)
    }

    /// Receives once and expects that no message is there.
    pub async fn nothing(&self, consumer: &SimpleConsumer, filter: &FilterExpression) -> Outcome {
        let beyond = texts(&self.receive_once(consumer, filter).await?);
        expect!(beyond, set(&[]));
        Ok(())
    }
}

/// The subscription to all messages of a topic.
pub fn all() -> FilterExpression {
    FilterExpression::new(FilterType::Tag, "*")
}

pub fn text(message: &MessageView) -> String {
    String::from_utf8_lossy(message.body()).into_owned()
}

pub fn texts(messages: &[MessageView]) -> BTreeSet<String> {
    messages.iter().map(text).collect()
}

pub fn set(bodies: &[&str]) -> BTreeSet<String> {
    bodies.iter().map(|body| (*body).to_owned()).collect()
}
