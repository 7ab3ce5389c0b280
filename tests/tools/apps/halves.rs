//! Transactions while the broker and its producers are killed: in every round producers begin, commit, roll back or say
//! nothing; then broker and producers go without a word. What a producer decided stands in a book, as in the database of
//! an application, and the producers of later rounds answer from it what the broker asks. In the end everything is
//! decided, what was committed is visible once and what was rolled back is not.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::{
    Client, Config, Decision, Message, ProducerConfig, PullConsumer, Received, TransactionProducer,
};
use wire::codes::request;

use crate::Arguments;
use crate::common::random::Random;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::Connection;
use crate::common::{PATIENCE, patiently};

const TOPIC: &str = "Decided";
const GROUP: &str = "Deciders";
const QUEUES: u32 = 4;
const SENDERS: u64 = 8;
/// Half messages that are acknowledged before a kill.
const HALVES_PER_ROUND: usize = 20;
const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// The group whose offset is the progress of transactions.
const PROGRESS_GROUP: &str = "CID_RMQ_SYS_TRANS";
const SETTINGS: [&str; 4] = [
    "transactionTimeOut=200",
    "transactionCheckInterval=200",
    "transactionCheckMax=1000000",
    "flushConsumerOffsetInterval=500",
];
/// What a producer knows of a message.
#[derive(Clone, Copy)]
struct Order {
    commits: bool,
    /// Questions that are answered with "not yet".
    unknown: u64,
    /// The half message was acknowledged.
    stored: bool,
}

/// All messages by number.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<HashMap<u64, Order>>>);

impl Book {
    fn orders(&self) -> MutexGuard<'_, HashMap<u64, Order>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a new message; answers its number and what is decided.
    fn enter(&self, random: &mut Random) -> (u64, Decision) {
        let order = Order { commits: random.one_in(2), unknown: random.within(0, 3), stored: false };
        let mut orders = self.orders();
        let number = orders.len() as u64;
        orders.insert(number, order);
        (number, decision(order))
    }

    fn answer(&self, message: &Received) -> Decision {
        let number = number(message);
        let mut orders = self.orders();
        let Some(order) = number.and_then(|number| orders.get_mut(&number)) else { return Decision::Unknown };
        if order.unknown > 0 {
            order.unknown -= 1;
            return Decision::Unknown;
        }
        decision(*order)
    }

    /// Number of half messages that were acknowledged.
    fn stored(&self) -> usize {
        self.orders().values().filter(|order| order.stored).count()
    }

    /// What is wrong with the messages that are visible, and how many were committed and rolled back.
    fn judge(&self, visible: &HashMap<u64, u64>) -> (Vec<String>, usize, usize) {
        let orders = self.orders();
        let mut wrong = Vec::new();
        for (number, order) in orders.iter() {
            let times = visible.get(number).copied().unwrap_or_default();
            match (order.commits, times) {
                (false, 0) | (true, 1) => {}
                // The broker may have died before it had the message.
                (true, 0) if !order.stored => {}
                (commits, times) => wrong.push(format!(
                    "message {number} (commits: {commits}, acknowledged: {}) is visible {times} times",
                    order.stored
                )),
            }
        }
        wrong.extend(
            visible
                .keys()
                .filter(|number| !orders.contains_key(number))
                .map(|number| format!("message {number} is visible and was never sent")),
        );
        let commits = orders.values().filter(|order| order.commits && order.stored).count();
        let rollbacks = orders.values().filter(|order| !order.commits && order.stored).count();
        (wrong, commits, rollbacks)
    }
}

fn decision(order: Order) -> Decision {
    if order.commits { Decision::Commit } else { Decision::Rollback }
}

fn number(message: &Received) -> Option<u64> {
    std::str::from_utf8(&message.body).ok()?.parse().ok()
}

/// The producers of one round, which know what those before decided.
struct Producers {
    client: Client,
    producer: Arc<TransactionProducer>,
}

impl Producers {
    fn start(namesrv: &str, book: &Book) -> Result<Self, client::Error> {
        let client = Client::start(Config::new(namesrv))?;
        // An attempt that is repeated would be two messages.
        let config = ProducerConfig { retries: 0, timeout: PATIENCE, ..ProducerConfig::new(GROUP) };
        let book = book.clone();
        let producer = TransactionProducer::new(&client, config, move |message| book.answer(message))?;
        Ok(Self { client, producer: Arc::new(producer) })
    }

    /// Ends them without a word to the broker.
    async fn kill(self) -> Result<(), tokio::task::JoinError> {
        tokio::task::spawn_blocking(move || self.client.shutdown()).await
    }
}

async fn send(producer: Arc<TransactionProducer>, book: Book, seed: u64, ends: Arc<AtomicBool>) {
    let mut random = Random::new(seed);
    while !ends.load(Ordering::Relaxed) {
        let (number, decided) = book.enter(&mut random);
        if let Ok(half) = producer.begin(&Message::new(TOPIC, number.to_string())).await {
            if let Some(order) = book.orders().get_mut(&number) {
                order.stored = true;
            }
            // A word that gets lost is asked for again; one in three is never said.
            if !random.one_in(3) {
                let _ = half.end(decided).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(random.within(0, 20))).await;
    }
}

/// Lets producers work until the broker is killed among them; answers the next broker.
async fn round(server: Server, book: &Book, random: &mut Random) -> Result<Server, Box<dyn Error>> {
    let setup = server.setup().clone();
    let producers = Producers::start(&setup.namesrv().to_string(), book)?;
    let ends = Arc::new(AtomicBool::new(false));
    let (mut senders, before, begin) = (tokio::task::JoinSet::new(), book.stored(), Instant::now());
    for _ in 0..SENDERS {
        senders.spawn(send(producers.producer.clone(), book.clone(), random.next(), ends.clone()));
    }
    while book.stored() < before + HALVES_PER_ROUND && begin.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(random.within(100, 1500))).await;
    tokio::task::spawn_blocking(move || server.kill9()).await?;
    ends.store(true, Ordering::Relaxed);
    senders.join_all().await;
    producers.kill().await?;
    Ok(tokio::task::spawn_blocking(move || setup.start()).await??)
}

/// Waits until the broker has nothing left to ask.
async fn decided(server: &Server) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    loop {
        let mut connection = Connection::open(server.setup().broker())?;
        let mut ask = |code| {
            let answer = connection.call(
                code,
                |frame| {
                    let frame = frame.text("consumerGroup", PROGRESS_GROUP);
                    frame.text("topic", HALF_TOPIC).number("queueId", 0)
                },
                b"",
            );
            answer.field("offset").map(str::to_owned)
        };
        let (end, done) = (ask(request::GET_MAX_OFFSET), ask(request::QUERY_CONSUMER_OFFSET));
        if end.is_some() && end == done {
            return Ok(begin.elapsed());
        }
        if begin.elapsed() > PATIENCE {
            return Err(
                format!("half messages are decided up to {done:?} of {end:?} after {PATIENCE:?}").into()
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// How often each message is visible.
async fn visible(client: &Client) -> Result<HashMap<u64, u64>, Box<dyn Error>> {
    let consumer = PullConsumer::new(client, "Readers", "*");
    let queues = patiently(async || consumer.queues(TOPIC).await).await?;
    patiently(async || consumer.assign(&queues).await).await?;
    for queue in &queues {
        consumer.seek(queue, 0)?;
    }
    let mut found = HashMap::new();
    loop {
        let messages = patiently(async || consumer.poll(Duration::ZERO).await).await?;
        if messages.is_empty() {
            return Ok(found);
        }
        for message in &messages {
            *found.entry(number(message).ok_or("a message without a number")?).or_default() += 1;
        }
    }
}

/// Says what was seen, or what was wrong.
pub async fn run(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let mut setup = Setup::new(&arguments.binary, home.path().join("data"), home.path());
    setup.lines.extend(SETTINGS.map(str::to_owned));
    let mut server = setup.start()?;
    let namesrv = setup.namesrv().to_string();
    let client = Client::start(Config::new(&namesrv))?;
    crate::create(&client, &setup.broker().to_string(), TOPIC, QUEUES).await?;
    let (book, mut random) = (Book::default(), Random::new(arguments.seed));
    let (end, mut kills) = (Instant::now() + Duration::from_secs(arguments.seconds), 0);
    while Instant::now() < end {
        server = round(server, &book, &mut random).await?;
        kills += 1;
    }
    let last = Producers::start(&namesrv, &book)?;
    // Brokers ask only producers they know.
    let asked = Instant::now();
    let half = loop {
        match last.producer.begin(&Message::new(TOPIC, book.enter(&mut random).0.to_string())).await {
            Ok(half) => break half,
            Err(error) if asked.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    drop(half);
    let waited = decided(&server).await?;
    let (wrong, commits, rollbacks) = book.judge(&visible(&client).await?);
    if let Some(first) = wrong.first() {
        return Err(format!("{} messages are wrong, the first: {first}", wrong.len()).into());
    }
    if commits == 0 || rollbacks == 0 {
        return Err(format!("{commits} messages committed and {rollbacks} rolled back show nothing").into());
    }
    Ok(format!(
        "{kills} kills of broker and producers, {commits} messages committed and visible once, {rollbacks} rolled back and never visible, the last decided after {waited:?}"
    ))
}
