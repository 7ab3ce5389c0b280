//! Calls against a broker on a temporary directory, without gRPC.

use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use broker::RunningBroker;
use broker::api::Subject;
use bytes::Bytes;
use grpc::messages::*;
use net::{Limits, Workers};
use tokio_stream::StreamExt;
use wire::codes::request;
use wire::frame::{Encoding, FrameWriter, Head};
use wire::header::SendHeader;

use super::*;
use crate::body::RequestMemory;
use crate::dispatch::{Origin, Receive, Rejected, Telemetry, opened};
use crate::registry::ClientSettings;

mod lite;
mod others;

struct Fixture {
    broker: Option<RunningBroker>,
    proxy: Arc<Proxy>,
    sends: Option<Arc<Sends>>,
    runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.broker.take().unwrap().stop().unwrap();
    }
}

impl Fixture {
    /// A broker on which `topic` exists, because the type of messages is not checked.
    fn new() -> Self {
        Self::made("", |_| {})
    }

    /// Makes a fixture with other settings of gRPC.
    fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::made("", change)
    }

    /// Makes a fixture with further settings of the broker.
    fn made(settings: &str, change: impl FnOnce(&mut Config)) -> Self {
        Self::reaching("", settings, change)
    }

    /// A proxy with these name servers.
    fn reaching(name_servers: &str, settings: &str, change: impl FnOnce(&mut Config)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Limits of disk use in bytes: what else lies on the disk of the machine does not decide a test.
        let disk = ["diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio"];
        let disk: String = disk.iter().map(|limit| format!("{limit}=64m\n")).collect();
        let settings = format!("brokerIP1=127.0.0.1\nbindAddress=127.0.0.1\n{disk}{settings}");
        let (mut config, _) = broker::Config::from_properties(settings.as_bytes()).unwrap();
        config.set_store_root(directory.path());
        config.listen_port = 0;
        let workers = Workers::start("test", 1, Limits::default()).unwrap();
        let broker = RunningBroker::start(config, workers).unwrap();
        let mut config = Config { checks_message_type: false, polling_ms_min: 0, ..Config::default() };
        change(&mut config);
        let brokers = Brokers::of_process(broker.api(), client::Config::new(name_servers), &config).unwrap();
        let proxy = Proxy::new(brokers, config, 8081);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sends = proxy.brokers.sends();
        Self { broker: Some(broker), proxy, sends, runtime, _directory: directory }
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::task::LocalSet::new().block_on(&self.runtime, future)
    }

    fn call(&self) -> Call {
        Call {
            proxy: self.proxy.clone(),
            client_id: "c".to_owned(),
            language: Some(wire::codes::Language::Java),
            version: "5.0.4".to_owned(),
            caller: Caller {
                remote: "127.0.0.1:5".parse().unwrap(),
                version: 0,
                user: broker::api::Subject::Off,
            },
            left_ms: Some(25_000),
            sends: self.sends.clone(),
            authority: None,
        }
    }

    fn origin(&self) -> Origin {
        Origin {
            proxy: self.proxy.clone(),
            remote: "127.0.0.1:5".parse().unwrap(),
            mark: Arc::default(),
            authority: None,
            places: Arc::new(tokio::sync::Semaphore::new(1)),
            sends: self.sends.clone(),
        }
    }

    /// Makes the client a simple consumer of group `g`.
    fn consume(&self) {
        self.consume_within(17);
    }

    /// Serves a request of the remoting protocol by the broker.
    fn remoting(&self, code: i32, write: impl FnOnce(FrameWriter<'_>)) {
        let mut bytes = Vec::new();
        write(FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, code, 1)));
        let mut stream = TcpStream::connect(self.broker.as_ref().unwrap().bound()).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut answer = vec![0; 4];
        stream.read_exact(&mut answer).unwrap();
        let length = u32::from_be_bytes([answer[0], answer[1], answer[2], answer[3]]) as usize;
        answer.resize(4 + length, 0);
        stream.read_exact(&mut answer[4..]).unwrap();
        assert_eq!(wire::frame::Command::decode(&mut answer).unwrap().code, 0);
    }

    /// Changes group `g` as an operator does, by its members in JSON.
    fn change_group(&self, members: &str) {
        let body = format!(r#"{{"groupName":"g",{members}}}"#);
        let code = request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
        self.remoting(code, |frame| frame.finish(body.as_bytes()));
    }

    /// Sends a message that was delivered so often.
    fn send_again(&self, topic: &str, reconsume_times: i32) {
        let header = SendHeader {
            producer_group: "p",
            topic,
            default_topic: "TBW102",
            default_topic_queue_nums: 1,
            reconsume_times,
            ..SendHeader::default()
        };
        self.remoting(request::SEND_MESSAGE_V2, |frame| header.write(frame).finish(b"body"));
    }

    /// Makes the client a simple consumer of group `g`, whose messages are delivered so many times at most.
    fn consume_within(&self, max_attempts: i32) {
        self.change_group(&format!(r#""retryMaxTimes":{}"#, max_attempts - 1));
        let backoff_policy = Some(RetryPolicy { max_attempts, strategy: None });
        let settings = Settings { backoff_policy, ..consumer() };
        self.enter(&self.call(), settings);
    }

    fn enter(&self, call: &Call, settings: Settings) {
        let client = self.proxy.registry.enter("c", &call.caller).unwrap();
        let stated = ClientSettings { settings, at_ms: 1 };
        self.run(clients::register(call, &client, &stated)).unwrap();
        let (writer, _) = tokio::sync::mpsc::channel(1);
        client.set_settings(stated, &writer);
    }

    fn send(&self, change: impl FnOnce(&mut SystemProperties)) -> SendResultEntry {
        let mut system = SystemProperties { message_id: "id".to_owned(), ..Default::default() };
        change(&mut system);
        let message = Message {
            topic: topic(),
            body: Bytes::from_static(b"body"),
            system_properties: Some(system),
            ..Default::default()
        };
        let sent = self.run(send(self.call(), SendMessageRequest { messages: vec![message] })).unwrap();
        assert_eq!(sent.status, Some(Status::ok()), "{sent:?}");
        sent.entries[0].clone()
    }

    fn receive(&self) -> Vec<ReceiveContent> {
        self.run(async { contents(receive(self.call(), Self::request()).await).await })
    }

    fn request() -> ReceiveMessageRequest {
        ReceiveMessageRequest {
            group: group(),
            message_queue: Some(MessageQueue { topic: topic(), ..Default::default() }),
            batch_size: 100,
            invisible_duration: Some(Duration::of_ms(120_000)),
            long_polling_timeout: Some(Duration::of_ms(1)),
            ..Default::default()
        }
    }

    /// The only message that is received.
    fn message(&self) -> SystemProperties {
        let received = self.receive();
        let [
            ReceiveContent::Status(status),
            ReceiveContent::Message(message),
            ReceiveContent::DeliveryTimestamp(_),
        ] = &*received
        else {
            panic!("{received:?}")
        };
        assert_eq!((status, &*message.body), (&Status::ok(), &b"body"[..]));
        message.system_properties.clone().unwrap()
    }

    fn ack(&self, handle: &str) -> Status {
        let entry = AckMessageEntry { receipt_handle: handle.to_owned(), ..Default::default() };
        let request = AckMessageRequest { group: group(), topic: topic(), entries: vec![entry] };
        self.run(ack(self.call(), request)).unwrap().entries[0].status.clone().unwrap()
    }

    fn change(&self, handle: &str, ms: i64) -> Result<String, Failure> {
        let request = ChangeInvisibleDurationRequest {
            group: group(),
            topic: topic(),
            receipt_handle: handle.to_owned(),
            invisible_duration: Some(Duration::of_ms(ms)),
            ..Default::default()
        };
        self.run(change_invisible(self.call(), request)).map(|response| response.receipt_handle)
    }
}

/// Settings of a simple consumer of group `g`.
fn consumer() -> Settings {
    let subscription = Subscription { group: group(), ..Default::default() };
    Settings {
        client_type: Some(ClientType::SimpleConsumer.into()),
        pub_sub: Some(PubSub::Subscription(subscription)),
        ..Default::default()
    }
}

/// Returns the parts of a receive's response, in order.
async fn contents(delivery: Delivery) -> Vec<ReceiveContent> {
    let responses: Vec<_> = delivery.collect().await;
    responses.into_iter().filter_map(|response| response.unwrap().content).collect()
}

fn topic() -> Option<Resource> {
    Some(Resource::named("T"))
}

fn group() -> Option<Resource> {
    Some(Resource::named("g"))
}

/// Checks an empty response: status and time of the delivery.
fn nothing(received: &[ReceiveContent]) {
    let [ReceiveContent::Status(status), ReceiveContent::DeliveryTimestamp(_)] = received else {
        panic!("{received:?}")
    };
    let text = (status.code, status.message.as_str());
    assert_eq!(text, (Code::MessageNotFound as i32, "no new message"));
}

#[test]
fn a_call_without_client_id_is_refused() {
    let fixture = Fixture::new();
    let failure = Call { client_id: " ".to_owned(), ..fixture.call() }.check().unwrap_err();
    assert_eq!((failure.code as i32, failure.message.as_str()), (40_017, "client id cannot be empty"));
}

#[test]
fn what_is_sent_is_received_and_acknowledged() {
    let fixture = Fixture::new();
    let sent = fixture.send(|system| system.tag = Some("A".to_owned()));
    assert_eq!((sent.message_id.as_str(), sent.transaction_id.as_str()), ("id", "id"));
    fixture.consume();
    let found = fixture.message();
    assert_eq!((found.tag.as_deref(), found.delivery_attempt), (Some("A"), Some(1)));
    assert_eq!(fixture.ack(&found.receipt_handle.unwrap()), Status::ok());
    nothing(&fixture.receive());
    assert_eq!(fixture.ack("x").code, Code::InvalidReceiptHandle as i32);
}

#[test]
fn a_message_of_a_retry_topic_is_acknowledged_by_the_topic_that_its_client_is_told() {
    let fixture = Fixture::made("popResponseReturnActualRetryTopic=true", |_| {});
    fixture.send(|_| {});
    fixture.consume();
    fixture.ack(&fixture.message().receipt_handle.unwrap());
    fixture.send_again("%RETRY%g_T", 1);
    let received = fixture.receive();
    let ReceiveContent::Message(message) = &received[1] else { panic!("{received:?}") };
    assert_eq!(message.topic, topic());
    let handle = message.system_properties.clone().unwrap().receipt_handle.unwrap();
    assert_eq!(fixture.ack(&handle), Status::ok());
    nothing(&fixture.receive());
}

/// A request of messages in these message groups; the bodies are their places.
fn batch(topic: &str, groups: &[Option<&str>]) -> SendMessageRequest {
    let message = |(at, group): (usize, &Option<&str>)| Message {
        topic: Some(Resource::named(topic)),
        body: Bytes::from(at.to_string()),
        system_properties: Some(SystemProperties {
            message_id: format!("id{at}"),
            message_group: group.map(str::to_owned),
            ..Default::default()
        }),
        ..Default::default()
    };
    SendMessageRequest { messages: groups.iter().enumerate().map(message).collect() }
}

#[test]
fn the_messages_of_a_request_are_in_one_queue_in_its_order() {
    let fixture = Fixture::new();
    let sent = |topic: &str, groups: &[Option<&str>]| {
        let sent = fixture.run(send(fixture.call(), batch(topic, groups))).unwrap();
        assert_eq!(sent.status, Some(Status::ok()), "{sent:?}");
        sent.entries.iter().map(|entry| entry.offset).collect::<Vec<_>>()
    };
    // The first send makes the topic, in the queue that its group has later.
    assert_eq!(sent("T", &[Some("g"); 6]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(sent("T", &[Some("g")]), [6]);
    assert_eq!(sent("T", &[Some("g"); 6]), [7, 8, 9, 10, 11, 12]);
    // The first group that is named decides for all.
    assert_eq!(sent("T", &[None, Some("g"), Some("h")]), [13, 14, 15]);
    assert_eq!(sent("U", &[None; 5]), [0, 1, 2, 3, 4]);
    fixture.consume();
    let received = fixture.receive();
    let body = |received: &ReceiveContent| match received {
        ReceiveContent::Message(message) => Some(String::from_utf8(message.body.to_vec()).unwrap()),
        _ => None,
    };
    let bodies: Vec<_> = received.iter().filter_map(body).collect();
    assert_eq!(bodies.concat(), "0123450012345012");
}

/// Sends four messages, the third of which is too large. Returns the outcome of each: `O` for success, `R` for the refusal.
fn sent_with_a_failure(fixture: &Fixture, group: Option<&str>) -> String {
    let mut request = batch("T", &[group; 4]);
    request.messages[2].body = Bytes::from(vec![b'x'; 1000]);
    let sent = fixture.run(send(fixture.call(), request)).unwrap();
    assert_eq!(sent.status.unwrap().code, Code::MultipleResults as i32);
    let codes: Vec<_> = sent.entries.iter().map(|entry| entry.status.as_ref().unwrap().code).collect();
    let name = |code: &i32| match *code {
        ok if ok == Code::Ok as i32 => 'O',
        refused if refused == codes[2] => 'R',
        _ => '?',
    };
    codes.iter().map(name).collect()
}

#[test]
fn a_message_behind_a_failed_one_of_its_message_group_is_not_stored() {
    let fixture = Fixture::made("maxMessageSize=100", |_| {});
    assert_eq!(sent_with_a_failure(&fixture, Some("g")), "OORR");
    let next = fixture.run(send(fixture.call(), batch("T", &[Some("g")]))).unwrap();
    assert_eq!(next.entries[0].offset, 2);
}

#[test]
fn a_failed_message_leaves_others_of_its_request_when_there_is_no_message_group() {
    let fixture = Fixture::made("maxMessageSize=100", |_| {});
    assert_eq!(sent_with_a_failure(&fixture, None), "OORO");
}

#[test]
fn a_changed_handle_takes_the_place_of_the_old_one() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    fixture.consume();
    let handle = fixture.message().receipt_handle.unwrap();
    let changed = fixture.change(&handle, 60_000).unwrap();
    assert_ne!(changed, handle);
    // The place in the log stays: without it the message could not be given up.
    assert_eq!(changed.rsplit(' ').next(), handle.rsplit(' ').next());
    assert_eq!(fixture.change(&changed, 43_200_001).unwrap_err().code, Code::IllegalInvisibleTime);
    assert_eq!(fixture.ack(&changed), Status::ok());
}

#[test]
fn a_message_that_is_given_up_is_in_the_dead_letter_topic() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    fixture.consume();
    let request = ForwardMessageToDeadLetterQueueRequest {
        group: group(),
        topic: topic(),
        receipt_handle: fixture.message().receipt_handle.unwrap(),
        ..Default::default()
    };
    let done = fixture.run(dead_letter(fixture.call(), request)).unwrap();
    assert_eq!(done.status, Some(Status::ok()));
    assert!(fixture.run(fixture.proxy.brokers.topic("%DLQ%g")).unwrap().is_some());
    nothing(&fixture.receive());
}

#[test]
fn a_dead_letter_is_not_given_up_again_by_whoever_reads_it() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    fixture.consume();
    let request = ForwardMessageToDeadLetterQueueRequest {
        group: group(),
        topic: topic(),
        receipt_handle: fixture.message().receipt_handle.unwrap(),
        ..Default::default()
    };
    fixture.run(dead_letter(fixture.call(), request)).unwrap();
    fixture.consume_within(1);
    let dead = Some(Resource::named("%DLQ%g"));
    let queue = Some(MessageQueue { topic: dead, ..Default::default() });
    let request = ReceiveMessageRequest { message_queue: queue, ..Fixture::request() };
    let received = fixture.run(async { contents(receive(fixture.call(), request).await).await });
    let [ReceiveContent::Status(_), ReceiveContent::Message(message), ReceiveContent::DeliveryTimestamp(_)] =
        &*received
    else {
        panic!("{received:?}")
    };
    assert_eq!(message.system_properties.clone().unwrap().delivery_attempt, Some(2));
}

#[test]
fn a_change_of_the_group_counts_for_the_next_receive() {
    let fixture = Fixture::new();
    fixture.consume();
    fixture.send_again("T", 2);
    let found = fixture.message();
    assert_eq!(found.delivery_attempt, Some(3));
    assert_eq!(fixture.ack(&found.receipt_handle.unwrap()), Status::ok());
    // The client was told 17 deliveries.
    fixture.change_group(r#""retryMaxTimes":1"#);
    fixture.send_again("T", 2);
    let received = fixture.receive();
    let [ReceiveContent::Status(status), ReceiveContent::DeliveryTimestamp(_)] = &*received else {
        panic!("{received:?}")
    };
    assert_eq!((status.code, &*status.message), (Code::MessageNotFound as i32, "no match message"));
    assert!(fixture.run(fixture.proxy.brokers.topic("%DLQ%g")).unwrap().is_some());
    // The client was not told that messages come in order.
    fixture.change_group(r#""retryMaxTimes":1,"consumeMessageOrderly":true"#);
    let ordered = || fixture.send(|system| system.message_group = Some("m".to_owned()));
    ordered();
    let first = fixture.message();
    ordered();
    nothing(&fixture.receive());
    assert_eq!(fixture.ack(&first.receipt_handle.unwrap()), Status::ok());
    fixture.message();
}

#[test]
fn a_message_is_visible_once_its_transaction_is_committed() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    fixture.consume();
    fixture.ack(&fixture.message().receipt_handle.unwrap());
    let end = |resolution: TransactionResolution| {
        let sent = fixture.send(|system| system.message_type = MessageType::Transaction.into());
        nothing(&fixture.receive());
        let request = EndTransactionRequest {
            topic: topic(),
            message_id: sent.message_id,
            transaction_id: sent.transaction_id,
            resolution: resolution.into(),
            source: TransactionSource::Client.into(),
            ..Default::default()
        };
        fixture.run(end_transaction(fixture.call(), request)).unwrap();
    };
    end(TransactionResolution::Rollback);
    nothing(&fixture.receive());
    end(TransactionResolution::Commit);
    assert_eq!(fixture.message().message_id, "id");
}

#[test]
fn a_transaction_needs_its_id() {
    let fixture = Fixture::new();
    let request = EndTransactionRequest { topic: topic(), ..Default::default() };
    let failure = fixture.run(end_transaction(fixture.call(), request)).unwrap_err();
    assert_eq!(
        (failure.code, failure.message.as_str()),
        (Code::InvalidTransactionId, "transaction id cannot be empty")
    );
}

#[test]
fn a_heartbeat_needs_settings() {
    let fixture = Fixture::new();
    let beat = || {
        let request = HeartbeatRequest { group: group(), ..Default::default() };
        fixture.run(heartbeat(fixture.call(), request)).map_err(|failure| failure.code)
    };
    assert_eq!(beat().unwrap_err(), Code::UnrecognizedClientType);
    fixture.consume();
    assert_eq!(beat().unwrap().status, Some(Status::ok()));
    let request = NotifyClientTerminationRequest { group: group() };
    fixture.run(terminate(fixture.call(), request)).unwrap();
    assert_eq!(beat().unwrap_err(), Code::UnrecognizedClientType);
}

#[test]
fn a_receive_without_settings_is_served_as_its_group_is_configured() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    let received = fixture.receive();
    let ReceiveContent::Status(status) = &received[0] else { panic!("{received:?}") };
    assert_eq!(status.code, Code::UnrecognizedClientType as i32, "there is no group");
    fixture.change_group(r#""retryMaxTimes":0"#);
    let received = fixture.receive();
    assert!(received.iter().any(|it| matches!(it, ReceiveContent::Message(_))), "{received:?}");
}

#[test]
fn a_broken_filter_is_refused_when_messages_are_received() {
    let outcome = |expression: &str| {
        let fixture = Fixture::new();
        fixture.send(|_| {});
        fixture.change_group(r#""retryMaxTimes":16"#);
        let filter =
            Some(FilterExpression { r#type: FilterType::Sql.into(), expression: expression.to_owned() });
        let entry = SubscriptionEntry { topic: topic(), expression: filter.clone() };
        let subscription = Subscription { group: group(), subscriptions: vec![entry], ..Default::default() };
        let settings = Settings { pub_sub: Some(PubSub::Subscription(subscription)), ..consumer() };
        let call = fixture.call();
        let client = fixture.proxy.registry.enter("c", &call.caller).unwrap();
        let stated = ClientSettings { settings, at_ms: 1 };
        fixture.run(clients::register(&call, &client, &stated)).unwrap();
        client.set_settings(stated, &tokio::sync::mpsc::channel(1).0);
        let request = ReceiveMessageRequest { filter_expression: filter, ..Fixture::request() };
        let received = fixture.run(async { contents(receive(call, request).await).await });
        let ReceiveContent::Status(status) = &received[0] else { panic!("{received:?}") };
        (status.code, status.message.clone())
    };
    // The broker's answer 23 (`ResponseBuilder.buildCode`).
    let text = "parse the consumer's subscription failed".to_owned();
    for broken in ["a = ", "a > > 5", "a ="] {
        assert_eq!(outcome(broken), (Code::InternalServerError as i32, text.clone()), "{broken}");
    }
    let text = "the SQL expression is blank".to_owned();
    assert_eq!(outcome("  "), (Code::IllegalFilterExpression as i32, text));
}

#[test]
fn a_client_id_belongs_to_the_user_who_took_it() {
    let fixture = Fixture::new();
    let call = |user: Subject| Call { caller: Caller { user, ..fixture.call().caller }, ..fixture.call() };
    let alice = || call(Subject::User("alice".into()));
    fixture.enter(&alice(), consumer());
    let leave = |call: Call, group: &str| {
        let request = NotifyClientTerminationRequest { group: Some(Resource::named(group)) };
        fixture.run(terminate(call, request)).map(drop).map_err(|failure| failure.code)
    };
    for other in [Subject::User("bob".into()), Subject::Anonymous] {
        let beat = HeartbeatRequest { group: group(), ..Default::default() };
        let failure = fixture.run(heartbeat(call(other.clone()), beat)).unwrap_err();
        let text = "expected a client id of the user's own, found c, which is another user's";
        assert_eq!(failure, Failure::new(Code::Unauthorized, text));
        let entered = fixture.proxy.registry.enter("c", &call(other.clone()).caller);
        assert_eq!(entered.map(drop), Err(failure));
        assert_eq!(leave(call(other), "g"), Err(Code::Unauthorized));
    }
    assert_eq!(leave(alice(), "g"), Ok(()));
    fixture.enter(&call(Subject::User("bob".into())), consumer());
}

#[test]
fn a_client_is_not_ended_in_the_name_of_another_group() {
    let fixture = Fixture::new();
    fixture.consume();
    let leave = |group: &str| {
        let request = NotifyClientTerminationRequest { group: Some(Resource::named(group)) };
        fixture.run(terminate(fixture.call(), request)).map(drop)
    };
    let text = "expected the group g of the client's settings, found h";
    assert_eq!(leave("h"), Err(Failure::new(Code::IllegalConsumerGroup, text)));
    assert!(fixture.proxy.registry.find("c").is_some());
    assert_eq!(leave("g"), Ok(()));
    assert!(fixture.proxy.registry.find("c").is_none());
}

#[test]
fn a_short_deadline_is_refused_by_the_version_of_the_client() {
    let fixture = Fixture::with(|config| config.polling_ms_min = 5000);
    fixture.consume();
    let code = |version: &str| {
        let call = Call { left_ms: Some(4000), version: version.to_owned(), ..fixture.call() };
        let responses =
            fixture.run(async { contents(receive(call, ReceiveMessageRequest::default()).await).await });
        let ReceiveContent::Status(status) = &responses[0] else { panic!() };
        status.code
    };
    assert_eq!((code("5.0.4"), code("5.0.2")), (40_018, 40_000));
}

#[test]
fn a_receive_without_messages_is_answered_before_the_deadline() {
    let fixture = Fixture::with(|config| config.polling_ms_min = 5000);
    let waits = |left_ms, asked_ms: Option<i64>| {
        let call = Call { left_ms, ..fixture.call() };
        let request = ReceiveMessageRequest {
            long_polling_timeout: asked_ms.map(Duration::of_ms),
            ..Fixture::request()
        };
        let settings = Settings { request_timeout: Some(Duration::of_ms(8000)), ..Settings::default() };
        super::receive::polling_ms(&call, &request, &settings).unwrap()
    };
    assert_eq!(waits(Some(10_000), Some(10_000)), 9000);
    assert_eq!(waits(Some(6000), Some(15_000)), 5400);
    assert_eq!(waits(Some(20_500), Some(20_000)), 19_500);
    assert_eq!(waits(Some(23_000), Some(20_000)), 20_000);
    assert_eq!(waits(Some(10_000), None), 6000);
    assert_eq!(waits(None, None), 20_000);
}

#[test]
fn the_longest_wait_counts_when_it_is_below_the_least() {
    let fixture = Fixture::with(|config| (config.polling_ms_min, config.polling_ms_max) = (5000, 1000));
    let waits = super::receive::polling_ms(&fixture.call(), &Fixture::request(), &Settings::default());
    assert_eq!(waits, Ok(1000));
}

#[test]
fn assignments_and_routes() {
    let fixture = Fixture::new();
    let route = |name: &str| {
        let topic = Some(Resource::named(name));
        fixture.run(query_route(fixture.call(), QueryRouteRequest { topic, endpoints: None }))
    };
    assert_eq!(route("T").unwrap_err().code, Code::TopicNotFound);
    fixture.send(|_| {});
    assert_eq!(route("T").unwrap().message_queues.len(), 4);
    fixture.consume();
    let request = QueryAssignmentRequest { topic: topic(), group: group(), endpoints: None };
    let assigned = fixture.run(query_assignment(fixture.call(), request)).unwrap().assignments;
    let ids: Vec<i32> = assigned.into_iter().filter_map(|one| Some(one.message_queue?.id)).collect();
    assert_eq!(ids, [-1]);
}

/// Makes a fixture with a user and with rules.
fn guarded() -> Fixture {
    let class = |kind: &str, word: &str| {
        format!("org.apache.rocketmq.auth.{kind}.provider.Local{word}MetadataProvider")
    };
    Fixture::made(
        &format!(
            "authenticationEnabled=true\nauthenticationMetadataProvider={}\nauthorizationEnabled=true\n\
         authorizationMetadataProvider={}\ninitAuthenticationUser={{\"username\":\"root\",\"password\":\"12345678\"}}\n\
         authenticationWhitelist=apache.rocketmq.v2.QueryRouteRequest\n",
            class("authentication", "Authentication"),
            class("authorization", "Authorization"),
        ),
        |_| {},
    )
}

/// A request of the client with this message, which takes 1000 bytes of the memory budget.
fn charged<M>(proxy: &Proxy, message: M) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("x-mq-client-id", "c".parse().unwrap());
    request.extensions_mut().insert(RequestMemory::new(&proxy.memory, 1000));
    request
}

/// The call of a message whose head is this, when its user may make it.
fn admitted<M: Guarded>(
    origin: &Origin,
    metadata: &tonic::metadata::MetadataMap,
    message: &M,
) -> Result<Call, Rejected> {
    crate::dispatch::admitted(origin.authenticated::<M>(metadata.as_ref()), message)
}

/// Polls a future once.
fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn a_refusal_that_waits_keeps_nothing_of_its_request() {
    let fixture = guarded();
    let (origin, memory) = (fixture.origin(), &fixture.proxy.memory);
    let message = SendMessageRequest::default();
    for _ in 0..3 * auth::FREE_FAILURES {
        assert!(admitted(&origin, &Default::default(), &message).is_err());
    }
    let caller = origin.authenticated::<SendMessageRequest>(&Default::default());
    fixture.run(async {
        let mut waits = std::pin::pin!(opened(caller, charged(&fixture.proxy, message)));
        assert_eq!(memory.used(), 1000);
        assert!(once(waits.as_mut()).is_none());
        assert_eq!(memory.used(), 0);
    });
}

#[test]
fn a_stream_that_waits_for_its_refusal_ends_with_its_client() {
    let fixture = Fixture::new();
    let rejected = |wait| Rejected { failure: Failure::new(Code::Unauthorized, ""), wait, mark: None };
    let minute = Some(std::time::Duration::from_secs(60));
    fixture.run(async {
        let (writer, commands) = tokio::sync::mpsc::channel(1);
        assert_eq!(once(rejected(None).due_on(&writer, &fixture.proxy)), Some(None), "no answer may wait");
        assert_eq!(once(rejected(minute).due_on(&writer, &fixture.proxy)), None, "the answer waits");
        drop(commands);
        assert_eq!(once(rejected(minute).due_on(&writer, &fixture.proxy)), Some(None), "the client has gone");
        let (writer, _commands) = tokio::sync::mpsc::channel(1);
        fixture.proxy.stop.send_replace(true);
        assert_eq!(once(rejected(minute).due_on(&writer, &fixture.proxy)), Some(None), "the server stops");
    });
}

/// The stream of a request of one message, whose bytes are text.
fn streamed<M: prost::Message + Default + 'static>(message: &M) -> tonic::Streaming<M> {
    let mut body = vec![0; 5];
    message.encode(&mut body).unwrap();
    body[4] = u8::try_from(body.len() - 5).unwrap();
    stream_of(String::from_utf8(body).unwrap(), None)
}

/// The stream of a request with this body, whose messages may have so many bytes.
fn stream_of<M>(body: String, bytes_max: Option<usize>) -> tonic::Streaming<M>
where
    M: prost::Message + Default + 'static,
{
    use tonic::codec::Codec as _;
    let decoder = grpc::ProstCodec::<M, M>::default().decoder();
    tonic::Streaming::new_request(decoder, body, None, bytes_max)
}

#[test]
fn a_receive_whose_request_cannot_be_read_ends_with_the_status_of_a_single_request() {
    use tonic::server::StreamingService as _;
    let fixture = Fixture::new();
    let ended = |body: &str| {
        let request = charged(&fixture.proxy, stream_of(body.to_owned(), Some(4)));
        let mut received = Receive(Some(Box::new(Ok(fixture.call())))).call(request);
        once(received.as_mut()).unwrap().map(drop).unwrap_err()
    };
    fixture.run(async {
        let empty = ended("");
        assert_eq!((empty.code(), empty.message()), (tonic::Code::Internal, "Missing request message."));
        assert_eq!(ended("\0\0\0\0\u{5}aaaaa").code(), tonic::Code::OutOfRange);
    });
}

#[test]
fn a_receive_that_waits_is_charged_for_its_request() {
    use tonic::server::StreamingService as _;
    let fixture = Fixture::new();
    fixture.send(|_| {});
    fixture.consume();
    fixture.message();
    let waits = Some(Duration::of_ms(20_000));
    let request = ReceiveMessageRequest { long_polling_timeout: waits, ..Fixture::request() };
    fixture.run(async {
        let request = charged(&fixture.proxy, streamed(&request));
        let mut received = Receive(Some(Box::new(Ok(fixture.call())))).call(request);
        assert!(once(received.as_mut()).is_none());
        assert_eq!(fixture.proxy.memory.used(), 1000);
        drop(received);
        assert_eq!(fixture.proxy.memory.used(), 0);
    });
}

/// Checks the size of values that live as long as an idle client, of which there are thousands.
#[test]
fn what_waits_for_a_client_is_small() {
    use tonic::codec::Codec as _;
    let fixture = Fixture::new();
    let receive = receive(fixture.call(), Fixture::request());
    assert!(size_of_val(&receive) <= 1664, "a receive takes {} bytes", size_of_val(&receive));
    let decoder = grpc::ProstCodec::<TelemetryCommand, TelemetryCommand>::default().decoder();
    let inbound = tonic::Streaming::new_empty(decoder, tonic::body::Body::empty());
    let stream = telemetry::serve(fixture.call(), inbound, tokio::sync::mpsc::channel(1).0);
    assert!(size_of_val(&stream) <= 896, "a stream of settings takes {} bytes", size_of_val(&stream));
}

/// The Rust client receives as soon as the head of the response is there.
#[test]
fn the_response_to_a_client_begins_when_its_settings_are_known() {
    use tonic::server::StreamingService as _;
    let fixture = Fixture::new();
    let said = |settings: Settings| {
        let said = TelemetryCommand { command: Some(Command::Settings(settings)), ..Default::default() };
        let mut request = tonic::Request::new(streamed(&said));
        request.metadata_mut().insert("x-mq-client-id", "c".parse().unwrap());
        Telemetry(fixture.origin()).call(request)
    };
    fixture.run(async {
        let mut response = said(consumer());
        assert!(once(response.as_mut()).is_none(), "the response begins before the settings are read");
        response.await.unwrap();
        assert!(fixture.proxy.registry.find("c").is_some_and(|client| client.stated().is_some()));
        let refused = said(Settings::default()).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    });
}

/// Checks the test vector of RocketMQ's signature: user, secret, date-time and signature.
#[test]
fn calls_of_nobody_are_unauthorized() {
    let fixture = guarded();
    let origin = fixture.origin();
    let message = Message { topic: Some(Resource::named("t")), ..Default::default() };
    let message = SendMessageRequest { messages: vec![message] };
    let ask = |user: &str, signature: &str| {
        let mut metadata = tonic::metadata::MetadataMap::new();
        let authorization = format!("MQv2-HMAC-SHA1 Credential={user}/r/s, Signature={signature}");
        for (key, value) in [("x-mq-client-id", "c"), ("x-mq-date-time", "20240101T000000Z")] {
            metadata.insert(key, value.parse().unwrap());
        }
        if !user.is_empty() {
            metadata.insert("authorization", authorization.parse().unwrap());
        }
        let admitted = admitted(&origin, &metadata, &message).map_err(|rejected| rejected.failure);
        admitted.map(|call| call.caller.user).map_err(|failure| (failure.code, failure.message))
    };
    let right = "c6fc09021280e20533c17364f135c0e3217d83e9";
    let refused = |text: &str| Err((Code::Unauthorized, text.to_owned()));
    assert_eq!(ask("root", right), Ok(broker::api::Subject::User("root".into())));
    assert_eq!(ask("root", &right.replace('c', "d")), refused("check signature failed."));
    assert_eq!(ask("nobody", right), refused("User:nobody is not found."));
    assert_eq!(ask("", ""), refused("username cannot be null."));
    let mut metadata = tonic::metadata::MetadataMap::new();
    metadata.insert("x-mq-client-id", "c".parse().unwrap());
    let route = QueryRouteRequest { topic: Some(Resource::named("t")), endpoints: None };
    let admitted = admitted(&origin, &metadata, &route).map(drop).map_err(|rejected| rejected.failure);
    let text = "Authorization failed. Please verify your access rights and try again.";
    assert_eq!(
        admitted,
        Err(Failure::new(Code::Unauthorized, text)),
        "the white list spares the signature only"
    );
}

/// An attacker who guesses on new connections learns of a right guess no sooner than of a wrong guess.
#[test]
fn guesses_on_new_connections_are_answered_one_a_second_whether_right_or_wrong() {
    let fixture = guarded();
    let [wrong, right] =
        ["d6fc09021280e20533c17364f135c0e3217d83e9", "c6fc09021280e20533c17364f135c0e3217d83e9"];
    let ask = |origin: &Origin, signature: &str| {
        let mut metadata = tonic::metadata::MetadataMap::new();
        let authorization = format!("MQv2-HMAC-SHA1 Credential=root, Signature={signature}");
        for (key, value) in [("x-mq-client-id", "c"), ("x-mq-date-time", "20240101T000000Z")] {
            metadata.insert(key, value.parse().unwrap());
        }
        metadata.insert("authorization", authorization.parse().unwrap());
        origin.authenticated::<HeartbeatRequest>(metadata.as_ref()).map(drop)
    };
    let earlier = fixture.origin();
    assert!(ask(&earlier, right).is_ok());
    assert_eq!(ask(&fixture.origin(), wrong).unwrap_err().wait, Some(std::time::Duration::ZERO));
    // Guesses that come more than a second after those before them do not wait, so more than these may be needed.
    let end = Instant::now() + std::time::Duration::from_secs(120);
    let (connection, late) = loop {
        assert!(Instant::now() < end, "a right guess never waits for its turn");
        for _ in 0..auth::FREE_FAILURES {
            ask(&fixture.origin(), wrong).unwrap_err();
        }
        let connection = fixture.origin();
        let refused = ask(&fixture.origin(), wrong).unwrap_err();
        assert_eq!(refused.failure.code, Code::Unauthorized);
        let Err(late) = ask(&connection, right) else { continue };
        assert_eq!(late.failure.code, Code::TooManyRequests);
        if refused.wait > Some(std::time::Duration::ZERO) && late.wait > refused.wait {
            break (connection, late);
        }
    };
    assert!(ask(&earlier, right).is_ok(), "a connection from before does not wait");
    fixture.run(async {
        let late = Rejected { wait: Some(std::time::Duration::ZERO), ..late };
        let (writer, _commands) = tokio::sync::mpsc::channel(1);
        assert!(late.due_on(&writer, &fixture.proxy).await.is_some());
    });
    assert!(ask(&connection, right).is_ok(), "from now on this is a connection of the user");
}

/// Sends the names under which RocketMQ's own interceptors store address and user (`InterceptorConstants`,
/// `GrpcConstants`), and those of HTTP proxies. Clients can send them, too.
#[test]
fn hole_neither_user_nor_address_is_taken_from_metadata() {
    let fixture = guarded();
    let origin = fixture.origin();
    let message = Message { topic: Some(Resource::named("t")), ..Default::default() };
    let message = SendMessageRequest { messages: vec![message] };
    let mut metadata = tonic::metadata::MetadataMap::new();
    for (key, value) in [
        ("x-mq-client-id", "c"),
        ("x-mq-date-time", "20240101T000000Z"),
        ("rpc-remote-address", "192.0.2.66:1"),
        ("rpc-local-address", "192.0.2.66:2"),
        ("x-forwarded-for", "192.0.2.66"),
        ("x-real-ip", "192.0.2.66"),
        ("x-mq-authorization-ak", "root"),
        ("accesskey", "root"),
    ] {
        metadata.insert(key, value.parse().unwrap());
    }
    let refused =
        admitted(&origin, &metadata, &message).map(drop).map_err(|rejected| rejected.failure.message);
    assert_eq!(refused, Err("username cannot be null.".to_owned()));
    let signed = "MQv2-HMAC-SHA1 Credential=root, Signature=c6fc09021280e20533c17364f135c0e3217d83e9";
    metadata.insert("authorization", signed.parse().unwrap());
    let call = admitted(&origin, &metadata, &message).map_err(|rejected| rejected.failure).unwrap();
    assert_eq!(call.caller.remote, origin.remote);
}

/// Renews whenever a round is made.
fn renewing() -> Fixture {
    Fixture::with(|config| config.renew_ahead_ms = i64::MAX)
}

#[test]
fn a_renewed_message_is_acknowledged_with_the_handle_that_its_client_has() {
    let fixture = renewing();
    fixture.send(|_| {});
    fixture.consume();
    let request = ReceiveMessageRequest { auto_renew: true, invisible_duration: None, ..Fixture::request() };
    let received = fixture.run(async { contents(receive(fixture.call(), request).await).await });
    let ReceiveContent::Message(message) = &received[1] else { panic!("{received:?}") };
    let handle = message.system_properties.clone().unwrap().receipt_handle.unwrap();
    let newest = || {
        let changes = fixture.proxy.renewals.due(fixture.proxy.brokers.now_ms());
        changes.iter().for_each(|change| fixture.proxy.renewals.done(change, Ok(change.handle.clone()), 0));
        changes[0].handle.clone()
    };
    assert_eq!(newest(), handle);
    fixture.run(crate::renewer::round(&fixture.proxy));
    let renewed = newest();
    assert_ne!(renewed, handle);
    assert_eq!(fixture.ack(&handle), Status::ok());
    assert_eq!(fixture.proxy.renewals.len(), 0);
    nothing(&fixture.receive());
}

#[test]
fn what_was_renewed_is_given_back_when_the_server_stops() {
    let fixture = renewing();
    fixture.send(|_| {});
    fixture.consume();
    let request = ReceiveMessageRequest { auto_renew: true, ..Fixture::request() };
    fixture.run(async { contents(receive(fixture.call(), request).await).await });
    fixture.run(crate::renewer::round(&fixture.proxy));
    assert_eq!(fixture.proxy.renewals.len(), 1);
    let (_, end) = tokio::sync::oneshot::channel();
    fixture.run(crate::renewer::run(fixture.proxy.clone(), end));
    assert_eq!(fixture.proxy.renewals.len(), 0);
}

#[test]
fn what_a_client_has_is_given_back_when_it_leaves() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    fixture.consume();
    let request = ReceiveMessageRequest { auto_renew: true, ..Fixture::request() };
    let received = fixture.run(async { contents(receive(fixture.call(), request).await).await });
    assert_eq!((received.len(), fixture.proxy.renewals.len()), (3, 1));
    fixture.run(crate::renewer::round(&fixture.proxy));
    assert_eq!(fixture.proxy.renewals.len(), 1);
    fixture.run(terminate(fixture.call(), NotifyClientTerminationRequest { group: group() })).unwrap();
    fixture.run(crate::renewer::round(&fixture.proxy));
    assert_eq!(fixture.proxy.renewals.len(), 0);
}

#[test]
fn messages_of_a_call_that_ended_are_given_back() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    fixture.consume();
    let delivery = fixture.run(receive(fixture.call(), Fixture::request()));
    assert!(fixture.proxy.memory.used() > 0);
    drop(delivery);
    assert_eq!((fixture.proxy.renewals.len(), fixture.proxy.memory.used()), (1, 0));
    fixture.run(crate::renewer::round(&fixture.proxy));
    assert_eq!(fixture.proxy.renewals.len(), 0);
}

#[test]
fn a_receive_is_answered_when_the_server_stops() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    fixture.consume();
    fixture.ack(&fixture.message().receipt_handle.unwrap());
    fixture.proxy.stop.send_replace(true);
    let request =
        ReceiveMessageRequest { long_polling_timeout: Some(Duration::of_ms(20_000)), ..Fixture::request() };
    nothing(&fixture.run(async { contents(receive(fixture.call(), request).await).await }));
}

#[test]
fn a_receive_is_refused_when_the_memory_is_used_up() {
    let fixture = Fixture::with(|config| config.held_bytes_max = 10);
    fixture.send(|_| {});
    fixture.consume();
    let held = fixture.proxy.memory.charge(10);
    let received = fixture.receive();
    let ReceiveContent::Status(status) = &received[0] else { panic!("{received:?}") };
    assert_eq!(status.code, Code::TooManyRequests as i32);
    drop(held);
    fixture.message();
}

#[test]
fn a_route_names_where_the_request_went() {
    let fixture = Fixture::new();
    fixture.send(|_| {});
    let route = |authority: Option<&'static str>| {
        let call = Call { authority: authority.map(Authority::from_static), ..fixture.call() };
        let request = QueryRouteRequest { topic: topic(), endpoints: None };
        let route = fixture.run(query_route(call, request)).unwrap();
        let address =
            &route.message_queues[0].broker.as_ref().unwrap().endpoints.as_ref().unwrap().addresses[0];
        (address.host.clone(), address.port)
    };
    assert_eq!(route(Some("proxy.example:9000")), ("proxy.example".to_owned(), 9000));
    assert_eq!(route(Some("[::1]:9000")), ("::1".to_owned(), 9000));
    assert_eq!(route(None), ("127.0.0.1".to_owned(), 8081));
}

#[test]
fn clients_of_lite_topics_are_told_that_those_are_not_served() {
    let fixture = Fixture::new();
    let call = fixture.call();
    let client = fixture.proxy.registry.enter("c", &call.caller).unwrap();
    for kind in [ClientType::LitePushConsumer, ClientType::LiteSimpleConsumer] {
        let settings = Settings { client_type: Some(kind.into()), ..consumer() };
        let refused = fixture.run(clients::register(&call, &client, &ClientSettings { settings, at_ms: 1 }));
        let expected = "lite topics are not served by this server";
        assert_eq!(refused, Err(Failure::new(Code::UnrecognizedClientType, expected)));
    }
}
