//! Tests of lite topics with a small server as all brokers. It answers the requests of a test, and records them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use broker::api::{Caller, Subject};
use grpc::messages::*;
use net::{ConnectionHandle, Limits, Service, Workers};
use tokio_stream::StreamExt;
use wire::body::{
    BrokerData, ClusterInfo, LiteSubscriptionAction, LiteSubscriptions, QueueData, TopicConfig,
    TopicRouteData,
};
use wire::codes::{request, response};
use wire::frame::{Encoding, FrameWriter, Head};
use wire::properties::{self, key};
use wire::{json, record};

use super::*;
use crate::calls::position::lite_deliveries;
use crate::calls::{ack, change_invisible, clients, dead_letter, receive, terminate};
use crate::config::Config;
use crate::registry::ClientSettings;

/// A name server and the brokers `a` and `b` of topic `T`, all in one.
struct Servers {
    address: OnceLock<SocketAddr>,
    /// The topic that group `g` is bound to; empty for none.
    bound: &'static str,
    serves_lite: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    subscriptions: Vec<LiteSubscription>,
    /// Other requests about lite topics: code and fields, those of the handle without its times.
    asked: Vec<String>,
    peer: Option<Arc<ConnectionHandle>>,
    /// `retryMaxTimes` of group `g`, where that is not the default.
    retry_max_times: Option<i32>,
    /// Whether additions of lite topics wait for their answers.
    holds_additions: bool,
    /// Additions without an answer.
    additions: Vec<(Arc<ConnectionHandle>, Head<'static>)>,
    /// Whether pops wait.
    holds_pops: bool,
    /// Waiting pop, and its connection.
    held: Option<(Arc<ConnectionHandle>, Head<'static>)>,
}

impl Servers {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn route(&self) -> TopicRouteData {
        let address = self.address.get().unwrap().to_string();
        let broker = |name: &str| BrokerData {
            broker_addrs: [(0, address.clone())].into(),
            broker_name: name.to_owned(),
            cluster: "c".to_owned(),
            ..BrokerData::default()
        };
        let queues = |name: &str| QueueData {
            broker_name: name.to_owned(),
            perm: 6,
            read_queue_nums: 2,
            write_queue_nums: 2,
            ..QueueData::default()
        };
        let names = ["a", "b"];
        TopicRouteData {
            broker_datas: names.map(broker).to_vec(),
            queue_datas: names.map(queues).to_vec(),
            ..TopicRouteData::default()
        }
    }
}

/// A message of the lite topic `x`, the eighth of it.
fn message() -> Vec<u8> {
    let mut stored = Vec::new();
    let given = [
        (key::UNIQ_KEY, "id"),
        ("__LITE_TOPIC", "x"),
        (key::INNER_MULTI_DISPATCH, "%LMQ%$T$x"),
        (key::INNER_MULTI_QUEUE_OFFSET, "7"),
    ];
    given.iter().for_each(|(name, value)| properties::append(&mut stored, name, value.as_bytes()));
    let host = "127.0.0.1:1".parse().unwrap();
    let fields = record::RecordFields {
        topic: "T",
        queue_id: 1,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"body",
        properties: &stored,
        crc_property: false,
    };
    let mut bytes = Vec::new();
    record::encode(&fields, &mut bytes).unwrap();
    bytes
}

/// The answer to a pop.
fn popped(frame: FrameWriter<'_>) {
    let frame = frame.number("popTime", client::now_ms()).number("invisibleTime", 60_000);
    frame.number("reviveQid", 999).text("orderCountInfo", "2").finish(&message());
}

impl Service for Servers {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(
        &self,
        (): &mut (),
        peer: &Arc<ConnectionHandle>,
        command: wire::frame::Command<'_>,
        out: &mut Vec<u8>,
    ) {
        let done = command.response(response::SUCCESS);
        let text = |name: &str| command.fields.text(name).unwrap_or_default();
        let asked = |names: &[&str]| {
            let fields = names.iter().map(|name| format!(" {name}={}", text(name))).collect::<String>();
            self.state().asked.push(format!("{}{fields}", command.code));
        };
        match command.code {
            request::GET_ROUTEINFO_BY_TOPIC => {
                done.write(out, &self.route().encode(json::Dialect::Standard));
            }
            request::GET_BROKER_CLUSTER_INFO => {
                let brokers = self.route().broker_datas.into_iter();
                let broker_addr_table = brokers.map(|it| (it.broker_name.clone(), it)).collect();
                done.write(out, &json::to_vec(&ClusterInfo { broker_addr_table, ..Default::default() }));
            }
            request::GET_TOPIC_CONFIG => {
                let mut config = TopicConfig::new("T", 2, 6);
                config.attributes.insert("message.type".to_owned(), "LITE".to_owned());
                done.write(out, &json::to_vec(&config));
            }
            request::GET_SUBSCRIPTIONGROUP_CONFIG => {
                let mut config = SubscriptionGroupConfig::new("g");
                config.retry_max_times = self.state().retry_max_times.unwrap_or(config.retry_max_times);
                if !self.bound.is_empty() {
                    config.attributes.insert("lite.bind.topic".to_owned(), self.bound.to_owned());
                    config.attributes.insert("lite.sub.client.quota".to_owned(), "1".to_owned());
                }
                done.write(out, &json::to_vec(&config));
            }
            request::LITE_SUBSCRIPTION_CTL if !self.serves_lite => {
                command.response(response::REQUEST_CODE_NOT_SUPPORTED).write(out, b"");
            }
            request::LITE_SUBSCRIPTION_CTL => {
                let body: LiteSubscriptions = json::from_slice(command.body).unwrap();
                let is_addition = |it: &LiteSubscription| it.action == LiteSubscriptionAction::PartialAdd;
                let mut state = self.state();
                state.peer = Some(peer.clone());
                if state.holds_additions && body.subscription_set.iter().any(is_addition) {
                    state.additions.push((peer.clone(), done));
                } else {
                    done.write(out, b"");
                }
                state.subscriptions.extend(body.subscription_set);
            }
            request::POP_LITE_MESSAGE => {
                asked(&["bname", "clientId", "consumerGroup", "topic", "maxMsgNum", "invisibleTime"]);
                if self.state().holds_pops {
                    self.state().held = Some((peer.clone(), done));
                } else {
                    popped(FrameWriter::begin(out, done));
                }
            }
            request::CONSUMER_SEND_MSG_BACK => {
                asked(&["bname", "group", "originTopic", "offset"]);
                done.write(out, b"");
            }
            request::ACK_MESSAGE => {
                asked(&["bname", "topic", "queueId", "offset", "liteTopic"]);
                done.write(out, b"");
            }
            request::CHANGE_MESSAGE_INVISIBLETIME => {
                asked(&["bname", "topic", "queueId", "offset", "liteTopic", "suspend", "invisibleTime"]);
                let writer = FrameWriter::begin(out, done);
                writer
                    .text("popTime", text("extraInfo").split(' ').nth(1).unwrap())
                    .number("invisibleTime", 90_000)
                    .number("reviveQid", 999)
                    .finish(b"");
            }
            _ => done.write(out, b""),
        }
    }
}

/// A proxy before such brokers.
struct Fixture {
    proxy: Arc<crate::calls::Proxy>,
    brokers: Arc<Servers>,
    workers: Workers,
    runtime: tokio::runtime::Runtime,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Brokers::Cluster(cluster) = &self.proxy.brokers {
            cluster.client.shutdown();
        }
        self.workers.shutdown();
    }
}

impl Fixture {
    fn new(bound: &'static str, serves_lite: bool) -> Self {
        Self::with((bound, serves_lite), 5000)
    }

    /// Makes a fixture that allows a number of additions of lite topics in a second.
    fn with((bound, serves_lite): (&'static str, bool), lite_additions_max: u32) -> Self {
        let brokers = Servers { address: OnceLock::new(), bound, serves_lite, state: Mutex::default() };
        let brokers = Arc::new(brokers);
        let workers = Workers::start("lite", 1, Limits::default()).unwrap();
        let address = workers.listen("127.0.0.1:0".parse().unwrap(), brokers.clone()).unwrap();
        brokers.address.set(address).unwrap();
        let config = Config { lite_additions_max, lite_unacked_max: 0, ..Config::default() };
        let reach = client::Config {
            api_timeout_min: std::time::Duration::from_secs(120),
            ..client::Config::new(&address.to_string())
        };
        let proxy = crate::calls::Proxy::new(Brokers::of_cluster(reach, &config).unwrap(), config, 8081);
        if let Brokers::Cluster(cluster) = &proxy.brokers {
            cluster.relay_requests(&proxy.registry);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { proxy, brokers, workers, runtime }
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::task::LocalSet::new().block_on(&self.runtime, future)
    }

    fn call(&self) -> Call {
        Call {
            proxy: self.proxy.clone(),
            client_id: "c".to_owned(),
            language: None,
            version: "5.2.0".to_owned(),
            caller: Caller { remote: "127.0.0.1:5".parse().unwrap(), version: 0, user: Subject::Off },
            left_ms: Some(25_000),
            sends: None,
            authority: None,
        }
    }

    /// Registers a client of this type as a member of `g` that subscribes to a topic.
    fn register(&self, kind: ClientType, topic: &str) -> Result<Arc<Client>, Failure> {
        let call = self.call();
        let client = self.proxy.registry.enter("c", &call.caller).unwrap();
        let entry = SubscriptionEntry { topic: Some(Resource::named(topic)), ..Default::default() };
        let subscription = Subscription {
            group: Some(Resource::named("g")),
            subscriptions: vec![entry],
            ..Default::default()
        };
        let settings = Settings {
            client_type: Some(kind.into()),
            pub_sub: Some(PubSub::Subscription(subscription)),
            ..Default::default()
        };
        let stated = ClientSettings { settings, at_ms: 1 };
        self.run(clients::register(&call, &client, &stated))?;
        let (writer, _) = tokio::sync::mpsc::channel(1);
        client.set_settings(stated, &writer);
        Ok(client)
    }

    fn sync(&self, action: Action, topic: &str, lite: &[&str]) -> Result<(), Failure> {
        let request = SyncLiteSubscriptionRequest {
            action: action.into(),
            topic: Some(Resource::named(topic)),
            group: Some(Resource::named("g")),
            lite_topic_set: lite.iter().map(|name| (*name).to_owned()).collect(),
            version: Some(5),
            offset_option: Some(OffsetOption { offset_type: Some(OffsetType::Policy(Policy::Min.into())) }),
        };
        self.run(sync_lite(self.call(), request)).map(|answer| assert_eq!(answer.status, Some(Status::ok())))
    }
}

fn failure(code: Code, text: &str) -> Failure {
    Failure::new(code, text)
}

#[test]
fn lite_topics_are_subscribed_received_and_acknowledged_at_their_brokers() {
    let fixture = Fixture::new("T", true);
    let client = fixture.register(ClientType::LitePushConsumer, "T").unwrap();
    fixture.sync(Action::PartialAdd, "T", &["x"]).unwrap();
    let expected = LiteSubscription {
        action: LiteSubscriptionAction::PartialAdd,
        client_id: "c".to_owned(),
        group: "g".to_owned(),
        lite_topic_set: ["x".to_owned()].into(),
        offset_option: Some(LiteOffset { r#type: LiteOffsetType::Policy, value: 1 }),
        topic: "T".to_owned(),
        version: 5,
    };
    let subscribed = || std::mem::take(&mut fixture.brokers.state().subscriptions);
    assert_eq!(subscribed(), [expected.clone(), expected], "at both brokers");

    let queue = MessageQueue {
        topic: Some(Resource::named("T")),
        broker: Some(Broker { name: "b".to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let received = ReceiveMessageRequest {
        group: Some(Resource::named("g")),
        message_queue: Some(queue),
        batch_size: 5,
        auto_renew: true,
        ..Default::default()
    };
    let answers: Vec<_> =
        fixture.run(async { receive(fixture.call(), received.clone()).await.collect().await });
    let found = answers.into_iter().find_map(|answer| match answer.unwrap().content {
        Some(ReceiveContent::Message(message)) => message.system_properties,
        _ => None,
    });
    let found = found.unwrap();
    assert_eq!((found.lite_topic(), found.queue_offset(), found.delivery_attempt()), ("x", 7, 3));
    let handle = found.receipt_handle.unwrap();
    let fields: Vec<&str> = handle.split(' ').collect();
    assert_eq!((fields[0], &fields[2..]), ("0", &["60000", "999", "0", "b", "0", "7", "0"][..]));

    // The client has one message that it did not acknowledge, and may have none.
    assert_eq!(fixture.proxy.renewals.unacked(&client), 1);
    let answers: Vec<_> = fixture.run(async { receive(fixture.call(), received).await.collect().await });
    let Some(ReceiveContent::Status(status)) = &answers[0].as_ref().unwrap().content else {
        panic!("{answers:?}")
    };
    let text = "The client [c] has too many unacked messages. Unacked count: 1";
    assert_eq!(*status, failure(Code::Forbidden, text).status());

    let (topic, group) = (Some(Resource::named("T")), Some(Resource::named("g")));
    let change = ChangeInvisibleDurationRequest {
        group: group.clone(),
        topic: topic.clone(),
        receipt_handle: handle,
        invisible_duration: Some(Duration::of_ms(90_000)),
        message_id: "id".to_owned(),
        lite_topic: Some("x".to_owned()),
        suspend: Some(true),
    };
    let receipt_handle = fixture.run(change_invisible(fixture.call(), change)).unwrap().receipt_handle;
    let entry =
        AckMessageEntry { message_id: "id".to_owned(), receipt_handle, lite_topic: Some("x".to_owned()) };
    let acked = fixture.run(ack(fixture.call(), AckMessageRequest { group, topic, entries: vec![entry] }));
    assert_eq!(acked.unwrap().status, Some(Status::ok()));
    let expected = [
        "200070 bname=b clientId=c consumerGroup=g topic=T maxMsgNum=5 invisibleTime=60000",
        "200053 bname=b topic=T queueId=0 offset=7 liteTopic=x suspend=true invisibleTime=90000",
        "200051 bname=b topic=T queueId=0 offset=7 liteTopic=x",
    ];
    assert_eq!(fixture.brokers.state().asked, expected);

    let request = NotifyClientTerminationRequest { group: Some(Resource::named("g")) };
    fixture.run(terminate(fixture.call(), request)).unwrap();
    let removed: Vec<_> = subscribed().into_iter().map(|it| (it.action, it.client_id)).collect();
    let expected = (LiteSubscriptionAction::CompleteRemove, "c".to_owned());
    assert_eq!(removed, [expected.clone(), expected]);
}

#[test]
fn a_receive_from_a_broker_that_is_not_known_goes_to_one_that_is() {
    let fixture = Fixture::new("T", true);
    fixture.register(ClientType::LitePushConsumer, "T").unwrap();
    for named in ["removed", " ", "a"] {
        let queue = MessageQueue {
            topic: Some(Resource::named("T")),
            broker: Some(Broker { name: named.to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let received = ReceiveMessageRequest {
            group: Some(Resource::named("g")),
            message_queue: Some(queue),
            invisible_duration: Some(Duration::of_ms(60_000)),
            ..Default::default()
        };
        let answers: Vec<_> = fixture.run(async { receive(fixture.call(), received).await.collect().await });
        assert_eq!(answers.len(), 3, "{named}: {answers:?}");
    }
    let asked = std::mem::take(&mut fixture.brokers.state().asked);
    let brokers: Vec<&str> = asked.iter().filter_map(|asked| asked.split(' ').nth(1)).collect();
    assert_eq!(brokers, ["bname=a", "bname=b", "bname=a"]);
}

#[test]
fn what_is_popped_for_a_receive_that_ended_with_the_server_is_given_back() {
    let fixture = Fixture::new("T", true);
    fixture.register(ClientType::LitePushConsumer, "T").unwrap();
    fixture.brokers.state().holds_pops = true;
    let queue = MessageQueue { topic: Some(Resource::named("T")), ..Default::default() };
    let received = ReceiveMessageRequest {
        group: Some(Resource::named("g")),
        message_queue: Some(queue),
        auto_renew: true,
        ..Default::default()
    };
    let until = async |is_so: &dyn Fn() -> bool| {
        let turns = async {
            while !is_so() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(120), turns).await.expect("it comes to that");
    };
    let waits = || fixture.brokers.state().held.is_some();
    fixture.run(async {
        let mut receiving = std::pin::pin!(receive(fixture.call(), received));
        tokio::select! {
            _ = &mut receiving => panic!("the pop does not wait"),
            () = until(&waits) => {}
        }
        fixture.proxy.stop.send_replace(true);
        let answers: Vec<_> = receiving.await.collect().await;
        let Some(ReceiveContent::Status(status)) = &answers[0].as_ref().unwrap().content else {
            panic!("{answers:?}")
        };
        assert_eq!(*status, failure(Code::MessageNotFound, "no new message").status());
        let (peer, head) = fixture.brokers.state().held.take().unwrap();
        assert!(peer.push(|out| popped(FrameWriter::begin(out, head))).is_ok());
        until(&|| fixture.proxy.renewals.len() > 0).await;
        crate::renewer::round(&fixture.proxy).await;
    });
    let asked = std::mem::take(&mut fixture.brokers.state().asked);
    let given_back = asked.last().unwrap();
    assert!(
        given_back.starts_with("200053 ") && given_back.ends_with("suspend=true invisibleTime=1000"),
        "{asked:?}"
    );
}

#[test]
fn a_handle_of_a_removed_broker_is_named_invalid() {
    let fixture = Fixture::new("", false);
    let handle = format!("0 {} 60000 0 0 removed 0 7 100", client::now_ms());
    let [topic, group] = ["T", "g"].map(|name| Some(Resource::named(name)));
    let entry = AckMessageEntry { receipt_handle: handle.clone(), ..Default::default() };
    let request = AckMessageRequest { group: group.clone(), topic: topic.clone(), entries: vec![entry] };
    let acked = fixture.run(ack(fixture.call(), request)).unwrap();
    let expected = failure(Code::InvalidReceiptHandle, "cannot find broker removed");
    assert_eq!(acked.entries[0].status, Some(expected.status()));
    let request = ChangeInvisibleDurationRequest {
        group: group.clone(),
        topic: topic.clone(),
        receipt_handle: handle.clone(),
        ..Default::default()
    };
    let changed = fixture.run(change_invisible(fixture.call(), request)).map(drop);
    assert_eq!(changed, Err(expected.clone()));
    let request =
        ForwardMessageToDeadLetterQueueRequest { group, topic, receipt_handle: handle, ..Default::default() };
    assert_eq!(fixture.run(dead_letter(fixture.call(), request)).map(drop), Err(expected));
}

#[test]
fn a_broker_behind_a_new_connection_gets_the_lite_topics_of_a_client_again() {
    let fixture = Fixture::new("T", true);
    fixture.register(ClientType::LitePushConsumer, "T").unwrap();
    let received = || {
        let queue = MessageQueue {
            topic: Some(Resource::named("T")),
            broker: Some(Broker { name: "b".to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let request = ReceiveMessageRequest {
            group: Some(Resource::named("g")),
            message_queue: Some(queue),
            batch_size: 5,
            auto_renew: true,
            ..Default::default()
        };
        fixture.brokers.state().subscriptions.clear();
        let _: Vec<_> = fixture.run(async { receive(fixture.call(), request).await.collect().await });
        let sent = std::mem::take(&mut fixture.brokers.state().subscriptions);
        let names =
            |it: LiteSubscription| (it.action, it.lite_topic_set.into_iter().collect::<Vec<_>>().join(","));
        sent.into_iter().map(names).collect::<Vec<_>>()
    };
    fixture.sync(Action::PartialAdd, "T", &["w"]).unwrap();
    assert_eq!(received(), [], "the client may have more lite topics");
    fixture.sync(Action::CompleteAdd, "T", &["w", "x"]).unwrap();
    let again = |names: &str| [(LiteSubscriptionAction::CompleteAdd, names.to_owned())];
    assert_eq!(received(), again("w,x"));
    assert_eq!(received(), []);
    fixture.sync(Action::PartialAdd, "T", &["y"]).unwrap();
    fixture.sync(Action::PartialRemove, "T", &["w"]).unwrap();
    let peer = fixture.brokers.state().peer.clone().unwrap();
    peer.abort();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let mut sent = Vec::new();
    // The end of the connection arrives a little later.
    while sent.is_empty() && std::time::Instant::now() < end {
        sent = received();
    }
    assert_eq!(sent, again("x,y"));
}

#[test]
fn an_addition_is_not_undone_by_lite_topics_that_are_repeated_meanwhile() {
    let fixture = Fixture::new("T", true);
    fixture.register(ClientType::LitePushConsumer, "T").unwrap();
    fixture.sync(Action::CompleteAdd, "T", &["w"]).unwrap();
    fixture.brokers.state().holds_additions = true;
    let received = ReceiveMessageRequest {
        group: Some(Resource::named("g")),
        message_queue: Some(MessageQueue {
            topic: Some(Resource::named("T")),
            broker: Some(Broker { name: "b".to_owned(), ..Default::default() }),
            ..Default::default()
        }),
        auto_renew: true,
        ..Default::default()
    };
    fixture.run(async {
        let receives = async {
            while fixture.brokers.state().additions.len() < 2 {
                tokio::task::yield_now().await;
            }
            let receiving = async { receive(fixture.call(), received).await.collect::<Vec<_>>().await };
            let mut receiving = std::pin::pin!(receiving);
            // A receive that does not wait for the addition ends in this time, on most machines.
            let early = tokio::time::timeout(std::time::Duration::from_millis(500), &mut receiving).await;
            for (peer, head) in std::mem::take(&mut fixture.brokers.state().additions) {
                assert!(peer.push(|out| head.write(out, b"")).is_ok());
            }
            if early.is_err() {
                let end = std::time::Duration::from_secs(120);
                tokio::time::timeout(end, &mut receiving).await.expect("the receive goes on");
            }
        };
        let request = SyncLiteSubscriptionRequest {
            action: Action::PartialAdd.into(),
            topic: Some(Resource::named("T")),
            group: Some(Resource::named("g")),
            lite_topic_set: vec!["x".to_owned()],
            ..Default::default()
        };
        let (added, ()) = tokio::join!(sync_lite(fixture.call(), request), receives);
        added.unwrap();
    });
    let sent = std::mem::take(&mut fixture.brokers.state().subscriptions);
    let complete = |it: &&LiteSubscription| it.action == LiteSubscriptionAction::CompleteAdd;
    let last = sent.iter().rfind(complete).unwrap();
    assert_eq!(last.lite_topic_set, ["w".to_owned(), "x".to_owned()].into());
}

#[test]
fn a_message_of_a_lite_topic_that_was_delivered_too_often_is_given_up() {
    let fixture = Fixture::new("T", true);
    fixture.brokers.state().retry_max_times = Some(1);
    fixture.register(ClientType::LitePushConsumer, "T").unwrap();
    let queue = MessageQueue { topic: Some(Resource::named("T")), ..Default::default() };
    let received = ReceiveMessageRequest {
        group: Some(Resource::named("g")),
        message_queue: Some(queue),
        auto_renew: true,
        ..Default::default()
    };
    let answers: Vec<_> = fixture.run(async { receive(fixture.call(), received).await.collect().await });
    assert_eq!(answers.len(), 2, "a status and the time: {answers:?}");
    let asked = std::mem::take(&mut fixture.brokers.state().asked);
    let broker = asked[0].split(' ').nth(1).unwrap();
    assert_eq!(asked[1], format!("36 {broker} group=g originTopic=T offset=0"));
    assert_eq!(asked[2], format!("200051 {broker} topic=T queueId=0 offset=7 liteTopic=x"));
}

#[test]
fn deliveries_count_when_they_are_known_of_each_message() {
    let check = |counts: &str, messages: usize, expected: &[i32]| {
        let texts = wire::pop::OffsetTexts { counts: counts.to_owned(), ..Default::default() };
        let found = lite_deliveries(texts.lite_deliveries(), &message().repeat(messages));
        assert_eq!(found, expected, "{counts}");
    };
    check("0;2", 2, &[0, 2]);
    check("0 qo0%7 1", 1, &[1]);
    check("0 qo0%7 1", 2, &[]);
    check("", 1, &[]);
}

#[test]
fn a_consumer_hears_that_it_lost_a_lite_topic() {
    let fixture = Fixture::new("T", true);
    let client = fixture.register(ClientType::LiteSimpleConsumer, "T").unwrap();
    let (writer, mut commands) = tokio::sync::mpsc::channel(1);
    client.set_settings((*client.stated().unwrap()).clone(), &writer);
    fixture.sync(Action::CompleteAdd, "T", &["x"]).unwrap();
    let peer = fixture.brokers.state().peer.clone().unwrap();
    for (id, lite_topic) in [("stranger", "y"), ("c", "x")] {
        let pushed = peer.push(|out| {
            let head = Head::one_way(Encoding::Json, request::NOTIFY_UNSUBSCRIBE_LITE, 1);
            let frame = FrameWriter::begin(out, head).text("clientId", id).text("consumerGroup", "g");
            frame.text("liteTopic", lite_topic).finish(b"");
        });
        assert!(pushed.is_ok());
    }
    let command = fixture.run(commands.recv()).unwrap().unwrap().command;
    let lost = NotifyUnsubscribeLiteCommand { lite_topic: "x".to_owned() };
    assert_eq!(command, Some(Command::NotifyUnsubscribeLiteCommand(lost)));
}

#[test]
fn the_lite_topics_of_a_request_have_bounds() {
    let fixture = Fixture::with(("T", true), 0);
    let names: Vec<String> = (0..=301).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    fixture.sync(Action::CompleteAdd, "T", &names[..301]).unwrap();
    let text = "lite subscription quota exceeded: 1";
    let refused = failure(Code::LiteSubscriptionQuotaExceeded, text);
    assert_eq!(fixture.sync(Action::CompleteAdd, "T", &names), Err(refused));
    let text = "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)";
    assert_eq!(fixture.sync(Action::PartialAdd, "T", &["x y"]), Err(failure(Code::IllegalLiteTopic, text)));
    let text = "lite group g is expected to bind topic T, but actual is U";
    assert_eq!(fixture.sync(Action::PartialAdd, "U", &["x"]), Err(failure(Code::IllegalTopic, text)));
    let text = "Too many syncLiteSubscription requests, topic=T, group=g, clientId=c";
    assert_eq!(fixture.sync(Action::PartialAdd, "T", &["x"]), Err(failure(Code::TooManyRequests, text)));
    let additions = Additions::default();
    let allowed = [1000, 1999, 2000].map(|now_ms| additions.count(now_ms, 1));
    assert_eq!(allowed, [true, false, true], "one in each second");
}

#[test]
fn lite_consumers_and_lite_groups_go_together() {
    let refused = |bound, serves_lite, kind, topic| {
        let fixture = Fixture::new(bound, serves_lite);
        let failure = fixture.register(kind, topic).err();
        failure.map(|failure| (failure.code, failure.message))
    };
    let check = |outcome: Option<(Code, String)>, code, text: &str| {
        assert_eq!(outcome, Some((code, text.to_owned())));
    };
    let (lite, normal) = (ClientType::LitePushConsumer, ClientType::PushConsumer);
    assert_eq!(refused("T", true, lite, "T"), None);
    assert_eq!(refused("", true, normal, "T"), None);
    let code = Code::IllegalConsumerGroup;
    check(refused("", true, lite, "T"), code, "regular group cannot use LITE mode: g");
    check(refused("T", true, normal, "T"), code, "lite group must use LITE mode: g");
    let text = "lite group g is expected to bind topic T, but actual is U";
    check(refused("T", true, lite, "U"), Code::IllegalTopic, text);
    check(refused("T", false, lite, "T"), Code::UnrecognizedClientType, NOT_SERVED);
    let fixture = Fixture::new("T", false);
    let outcome = fixture.sync(Action::CompleteAdd, "T", &["x"]);
    assert_eq!(outcome, Err(failure(Code::Unsupported, NOT_SERVED)));
}
