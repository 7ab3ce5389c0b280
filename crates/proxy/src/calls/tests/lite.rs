//! Calls about lite topics against the broker of the process.

use tokio::sync::mpsc;

use super::*;

/// Settings of a broker that serves lite topics.
const SERVED: &str = "enableLmq=true\nenableMultiDispatch=true\n";

impl Fixture {
    /// A broker with parent topic `T`, and group `g` with attributes in JSON.
    fn of_lite(attributes: &str) -> Self {
        let fixture = Self::made(SERVED, |_| {});
        fixture.remoting(request::UPDATE_AND_CREATE_TOPIC, |frame| {
            let frame = frame.text("topic", "T").text("defaultTopic", "TBW102").number("readQueueNums", 1);
            let frame =
                frame.number("writeQueueNums", 1).number("perm", 6).text("topicFilterType", "SINGLE_TAG");
            frame.text("attributes", "+message.type=LITE").finish(b"");
        });
        fixture.change_group(&format!(
            r#""consumeMessageOrderly":true,"attributes":{{"+lite.bind.topic":"T"{attributes}}}"#
        ));
        fixture
    }

    fn call_of(&self, client_id: &str) -> Call {
        Call { client_id: client_id.to_owned(), ..self.call() }
    }

    /// Registers a lite push consumer. Returns the receiver of its commands.
    fn register(&self, client_id: &str) -> mpsc::Receiver<Result<Box<TelemetryCommand>, tonic::Status>> {
        let entry = SubscriptionEntry { topic: topic(), ..Default::default() };
        let subscription = Subscription { group: group(), subscriptions: vec![entry], ..Default::default() };
        let settings = Settings {
            client_type: Some(ClientType::LitePushConsumer.into()),
            pub_sub: Some(PubSub::Subscription(subscription)),
            ..Default::default()
        };
        let call = self.call_of(client_id);
        let client = self.proxy.registry.enter(client_id, &call.caller).unwrap();
        let stated = ClientSettings { settings, at_ms: 1 };
        self.run(clients::register(&call, &client, &stated)).unwrap();
        let (writer, commands) = mpsc::channel(4);
        client.set_settings(stated, &writer);
        commands
    }

    fn sync(&self, client_id: &str, action: LiteSubscriptionAction, names: &[&str]) {
        let request = SyncLiteSubscriptionRequest {
            action: action.into(),
            topic: topic(),
            group: group(),
            lite_topic_set: names.iter().map(|name| (*name).to_owned()).collect(),
            offset_option: Some(OffsetOption { offset_type: Some(OffsetType::Policy(Policy::Min.into())) }),
            ..Default::default()
        };
        let synced = self.run(sync_lite(self.call_of(client_id), request)).unwrap();
        assert_eq!(synced.status, Some(Status::ok()));
    }

    fn send_lite(&self, name: &str) {
        self.send(|system| system.lite_topic = Some(name.to_owned()));
    }

    /// Receives messages: lite topic, offset and attempt of each, and the handles.
    fn receive_lite(&self, client_id: &str) -> (Vec<String>, Vec<String>) {
        let received =
            self.run(async { contents(receive(self.call_of(client_id), Self::request()).await).await });
        let found = received.into_iter().filter_map(|part| match part {
            ReceiveContent::Message(message) => message.system_properties,
            _ => None,
        });
        let text = |it: &SystemProperties| {
            format!("{} {} {}", it.lite_topic(), it.queue_offset(), it.delivery_attempt())
        };
        found.map(|it| (text(&it), it.receipt_handle.unwrap())).unzip()
    }

    fn ack_lite(&self, name: &str, handle: &str) -> Status {
        let entry = AckMessageEntry {
            receipt_handle: handle.to_owned(),
            lite_topic: Some(name.to_owned()),
            ..Default::default()
        };
        let request = AckMessageRequest { group: group(), topic: topic(), entries: vec![entry] };
        self.run(ack(self.call(), request)).unwrap().entries[0].status.clone().unwrap()
    }
}

#[test]
fn lite_topics_are_received_in_order_and_acknowledged() {
    let fixture = Fixture::of_lite("");
    let _commands = fixture.register("c");
    fixture.sync("c", LiteSubscriptionAction::PartialAdd, &["x", "y"]);
    for name in ["x", "x", "other"] {
        fixture.send_lite(name);
    }
    let (found, handles) = fixture.receive_lite("c");
    assert_eq!(found, ["x 0 1", "x 1 1"]);
    fixture.send_lite("x");
    assert!(fixture.receive_lite("c").0.is_empty(), "messages of x are in flight");
    for handle in &handles {
        assert_eq!(fixture.ack_lite("x", handle), Status::ok());
    }
    let (found, handles) = fixture.receive_lite("c");
    assert_eq!(found, ["x 2 1"]);
    // The handle of a message leads to the queue of its own lite topic only.
    assert_ne!(fixture.ack_lite("y", &handles[0]).code, Code::Ok as i32);

    fixture.sync("c", LiteSubscriptionAction::PartialRemove, &["x"]);
    fixture.ack_lite("x", &handles[0]);
    fixture.send_lite("x");
    fixture.send_lite("y");
    assert_eq!(fixture.receive_lite("c").0, ["y 0 1"]);
}

#[test]
fn an_exclusive_consumer_is_told_that_it_lost_a_lite_topic() {
    let fixture = Fixture::of_lite(r#","+lite.sub.model":"Exclusive""#);
    let mut former = fixture.register("former");
    let _newest = fixture.register("newest");
    for client_id in ["former", "newest"] {
        fixture.sync(client_id, LiteSubscriptionAction::PartialAdd, &["x"]);
    }
    let command = former.try_recv().unwrap().unwrap().command;
    let expected = NotifyUnsubscribeLiteCommand { lite_topic: "x".to_owned() };
    assert_eq!(command, Some(Command::NotifyUnsubscribeLiteCommand(expected)));
    fixture.send_lite("x");
    assert!(fixture.receive_lite("former").0.is_empty());
    assert_eq!(fixture.receive_lite("newest").0, ["x 0 1"]);
}

#[test]
fn the_lite_topics_of_a_client_that_leaves_go_to_another_client() {
    let fixture = Fixture::of_lite("");
    let clients = ["gone", "stays"].map(|client_id| {
        let commands = fixture.register(client_id);
        fixture.sync(client_id, LiteSubscriptionAction::PartialAdd, &["x"]);
        commands
    });
    let request = NotifyClientTerminationRequest { group: group() };
    fixture.run(terminate(fixture.call_of("gone"), request)).unwrap();
    fixture.send_lite("x");
    assert_eq!(fixture.receive_lite("stays").0, ["x 0 1"]);
    drop(clients);
}

#[test]
fn a_message_that_is_given_up_does_not_come_again() {
    let fixture = Fixture::of_lite("");
    let _commands = fixture.register("c");
    fixture.sync("c", LiteSubscriptionAction::PartialAdd, &["x"]);
    fixture.send_lite("x");
    fixture.send_lite("x");
    let (found, handles) = fixture.receive_lite("c");
    assert_eq!(found, ["x 0 1", "x 1 1"]);
    let request = ForwardMessageToDeadLetterQueueRequest {
        group: group(),
        topic: topic(),
        receipt_handle: handles[0].clone(),
        message_id: "id".to_owned(),
        delivery_attempt: 1,
        max_delivery_attempts: 1,
        lite_topic: Some("x".to_owned()),
    };
    let given_up = fixture.run(dead_letter(fixture.call(), request)).unwrap();
    assert_eq!(given_up.status, Some(Status::ok()));
    assert_eq!(fixture.ack_lite("x", &handles[1]), Status::ok());
    assert!(fixture.receive_lite("c").0.is_empty());
}
