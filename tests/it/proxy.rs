//! A proxy in a process of its own, before the broker of another (cluster mode).

use std::net::SocketAddr;

use wire::body::ConsumerConnection;
use wire::codes::{request, response};

use crate::common::server::{Server, Setup};
use crate::grpc::{Fields, Grpc, at, text};
use crate::stage::{Stage, eventually, open, setup};

const OK: &str = "20000";
/// Users and acls as a broker keeps them.
pub const USERS: &str = r#"[{"username":"inner","password":"inner-secret","userType":"Super","userStatus":"enable"},{"username":"alice","password":"alice-secret","userType":"Normal","userStatus":"enable"}]"#;
const ACLS: &str = r#"[{"subject":"User:alice","policies":[{"policyType":"Custom","entries":[{"resource":"Topic:T","actions":["Pub"],"decision":"Allow"}]}]}]"#;

/// A proxy before the broker of a stage, and where it listens.
pub struct Proxy {
    server: Server,
    address: SocketAddr,
}

impl Proxy {
    /// Starts a proxy with these settings, in a directory of its own.
    pub fn start(stage: &Stage, name: &str, settings: &str) -> Self {
        let home = stage.home.path().join(name);
        std::fs::create_dir_all(&home).unwrap();
        let file = home.join("rmq-proxy.json");
        std::fs::write(&file, settings).unwrap();
        let mut setup = Setup::new(env!("CARGO_BIN_EXE_vostok"), home.join("data"), home.join("desk"));
        (setup.roles, setup.with_conf) = ("proxy".to_owned(), false);
        let name_server = stage.server.setup().namesrv().to_string();
        setup.arguments = ["-n", &name_server, "--grpc-port", "0", "--proxy-config", file.to_str().unwrap()]
            .map(str::to_owned)
            .to_vec();
        let server = setup.spawn().unwrap();
        let address = address_of(&setup, "gRPC for 5.x clients is at ");
        Self { server, address }
    }

    /// Where the proxy serves remoting clients.
    pub fn remoting(&self) -> SocketAddr {
        address_of(self.server.setup(), "the proxy for remoting clients is at ")
    }

    /// The client ids of a consumer group that the proxy tells operators; none when the group is not online.
    fn consumers(&self, group: &str) -> Vec<String> {
        let address = self.remoting();
        let code = request::GET_CONSUMER_CONNECTION_LIST;
        let answer = open(address).call(code, |writer| writer.text("consumerGroup", group), b"");
        let online: ConsumerConnection = match answer.code {
            response::CONSUMER_NOT_ONLINE => ConsumerConnection::default(),
            _ => wire::json::from_slice(&answer.body).unwrap(),
        };
        online.connection_set.into_iter().map(|connection| connection.client_id).collect()
    }
}

/// The address in a line that a server writes when it serves.
pub fn address_of(setup: &Setup, prefix: &str) -> SocketAddr {
    eventually(&format!("\"{prefix}\" is in {}", setup.log().display()), || {
        let log = std::fs::read_to_string(setup.log()).unwrap();
        log.lines().find_map(|line| line.strip_prefix(prefix)).map(port)
    })
}

/// The address at which clients reach a proxy that listens at one address, or at all addresses.
fn port(listens: &str) -> SocketAddr {
    let listens: SocketAddr = listens.parse().unwrap();
    match listens.ip().is_unspecified() {
        true => SocketAddr::from(([127, 0, 0, 1], listens.port())),
        false => listens,
    }
}

/// Creates a topic on the broker, and waits until the name server knows it.
pub fn topic(stage: &Stage, name: &str, kind: &str) {
    topic_at(stage.server.setup().broker(), name, kind);
    eventually(&format!("{name} has a route"), || {
        let code = request::GET_ROUTEINFO_BY_TOPIC;
        let answer = stage.name_server().call(code, |writer| writer.text("topic", name), b"");
        (answer.code == 0).then_some(())
    });
}

/// Creates a topic with two queues on a broker.
pub fn topic_at(broker: SocketAddr, name: &str, kind: &str) {
    let made = open(broker).call(
        request::UPDATE_AND_CREATE_TOPIC,
        |writer| {
            writer
                .text("topic", name)
                .text("defaultTopic", "TBW102")
                .number("readQueueNums", 2)
                .number("writeQueueNums", 2)
                .number("perm", 6)
                .text("topicFilterType", "SINGLE_TAG")
                .number("topicSysFlag", 0)
                .flag("order", false)
                .text("attributes", &format!("+message.type={kind}"))
        },
        &[],
    );
    assert_eq!(made.code, 0, "{made:?}");
}

pub fn resource(name: &str) -> Fields {
    Fields::default().bytes(2, name)
}

/// Opens a telemetry stream with the settings of a client; the stream, once the server answered.
fn settings(client: &mut Grpc, settings: Fields) -> u32 {
    let stream = client.open("Telemetry");
    client.write(stream, &Fields::default().message(2, settings), false);
    let answer = client.read(stream).unwrap();
    assert_eq!(text(&answer, &[1, 1]), OK, "{answer:?}");
    assert!(at(&answer, &[2, 3]).is_some(), "the settings are completed: {answer:?}");
    stream
}

/// Sends a message; the entry of the answer.
pub fn send(client: &mut Grpc, topic: &str, system: Fields) -> Vec<u8> {
    let message = Fields::default().message(1, resource(topic)).message(3, system).bytes(4, "body");
    let [answer] = &*client.call("SendMessage", &Fields::default().message(1, message)) else { panic!() };
    assert_eq!(text(answer, &[1, 1]), OK, "{}", text(answer, &[2, 1, 2]));
    at(answer, &[2]).unwrap()
}

/// Receives the only message of a topic.
fn receive(client: &mut Grpc, topic: &str) -> Vec<u8> {
    let seconds = |seconds| Fields::default().number(1, seconds);
    let request = Fields::default()
        .message(1, resource("G"))
        .message(2, Fields::default().message(1, resource(topic)))
        .number(4, 1)
        .message(5, seconds(300))
        .message(7, seconds(10));
    eventually("a message comes", || {
        client.call("ReceiveMessage", &request).iter().find_map(|answer| at(answer, &[2]))
    })
}

pub fn consumer(client: &mut Grpc) {
    let subscription = Fields::default().message(1, resource("G"));
    settings(client, Fields::default().number(1, 3).message(6, subscription));
}

#[test]
fn a_message_passes_a_proxy_of_another_process() {
    let stage = Stage::start(&["brokerName=broker-a"]);
    topic(&stage, "T", "NORMAL");
    let proxy = Proxy::start(&stage, "proxy", "{}");
    let mut client = Grpc::connect(proxy.address, "one");
    consumer(&mut client);

    let named = Fields::default().message(1, resource("T"));
    let [route] = &*client.call("QueryRoute", &named) else { panic!() };
    assert_eq!((text(route, &[1, 1]), text(route, &[2, 4, 1])), (OK.to_owned(), "broker-a".to_owned()));
    assert_eq!(text(route, &[2, 4, 3, 2, 2]), proxy.address.port().to_string());
    let missing = Fields::default().message(1, resource("Missing"));
    assert_eq!(text(&client.call("QueryRoute", &missing)[0], &[1, 1]), "40402");

    let entry = send(&mut client, "T", Fields::default().bytes(3, "id-1"));
    assert_eq!(text(&entry, &[2]), "id-1");
    let message = receive(&mut client, "T");
    assert_eq!((text(&message, &[4]), text(&message, &[3, 3])), ("body".to_owned(), "id-1".to_owned()));

    // The handle of the change acknowledges the message at another proxy.
    let handle = text(&message, &[3, 12]);
    assert!(handle.contains(" broker-a "), "{handle}");
    let change = Fields::default()
        .message(1, resource("G"))
        .message(2, resource("T"))
        .bytes(3, &handle)
        .message(4, Fields::default().number(1, 60));
    let [changed] = &*client.call("ChangeInvisibleDuration", &change) else { panic!() };
    assert_eq!(text(changed, &[1, 1]), OK, "{}", text(changed, &[1, 2]));
    let other = Proxy::start(&stage, "other", "{}");
    let mut client = Grpc::connect(other.address, "two");
    consumer(&mut client);
    let entry = Fields::default().bytes(1, "id-1").bytes(2, text(changed, &[2]));
    let ack = Fields::default().message(1, resource("G")).message(2, resource("T")).message(3, entry);
    let [acked] = &*client.call("AckMessage", &ack) else { panic!() };
    assert_eq!(text(acked, &[1, 1]), OK, "{}", text(acked, &[2, 3, 2]));
}

#[test]
fn a_producer_behind_a_proxy_is_asked_for_its_decision() {
    let stage = Stage::start(&["transactionTimeOut=1000", "transactionCheckInterval=1000"]);
    topic(&stage, "X", "TRANSACTION");
    let proxy = Proxy::start(&stage, "proxy", "{}");
    let mut producer = Grpc::connect(proxy.address, "producer");
    let publishing = Fields::default().message(1, resource("X"));
    let telemetry = settings(&mut producer, Fields::default().number(1, 1).message(5, publishing));
    let half = send(&mut producer, "X", Fields::default().bytes(3, "id-2").number(6, 4));

    // The broker asks the proxy, which asks the producer. The half message may have moved: brokers store it again for a check.
    let asked = producer.read(telemetry).expect("a command");
    let (id, topic) = (text(&asked, &[5, 2]), text(&asked, &[5, 1, 1, 2]));
    let is_same = |id: &str| id.starts_with("id-2-") && id.contains('@');
    assert!(is_same(&text(&half, &[3])) && is_same(&id) && topic == "X", "{id} of {topic}");
    let end =
        Fields::default().message(1, resource("X")).bytes(2, "id-2").bytes(3, &id).number(4, 1).number(5, 2);
    let [ended] = &*producer.call("EndTransaction", &end) else { panic!() };
    assert_eq!(text(ended, &[1, 1]), OK, "{}", text(ended, &[1, 2]));
    let mut client = Grpc::connect(proxy.address, "consumer");
    consumer(&mut client);
    assert_eq!(text(&receive(&mut client, "X"), &[3, 3]), "id-2");
}

#[test]
fn proxies_tell_each_other_their_consumers_and_brokers_know_none() {
    let stage = Stage::start(&[]);
    topic(&stage, "T", "NORMAL");
    let [one, other] = ["one", "other"].map(|name| Proxy::start(&stage, name, r#"{"remotingListenPort":0}"#));
    let mut client = Grpc::connect(one.address, "c");
    consumer(&mut client);
    assert_eq!(one.consumers("G"), ["c"]);
    let at_broker = stage.connect().call(
        request::GET_CONSUMER_CONNECTION_LIST,
        |writer| writer.text("consumerGroup", "G"),
        b"",
    );
    assert_eq!(at_broker.code, response::CONSUMER_NOT_ONLINE);
    // A proxy that does not listen yet hears of the consumer with a later heartbeat.
    eventually("the other proxy knows the consumer", || {
        let [beat] = &*client.call("Heartbeat", &Fields::default().message(1, resource("G"))) else {
            panic!()
        };
        assert_eq!(text(beat, &[1, 1]), OK);
        (other.consumers("G") == ["c"]).then_some(())
    });
    let leaves = Fields::default().message(1, resource("G"));
    let [left] = &*client.call("NotifyClientTermination", &leaves) else { panic!() };
    assert_eq!(text(left, &[1, 1]), OK);
    assert!(one.consumers("G").is_empty());
    eventually("the other proxy forgets it", || other.consumers("G").is_empty().then_some(()));
}

#[test]
fn a_client_whose_calls_are_spread_over_proxies_is_served_by_each() {
    let stage = Stage::start(&[]);
    topic(&stage, "T", "NORMAL");
    let [one, other] = ["one", "other"].map(|name| Proxy::start(&stage, name, r#"{"remotingListenPort":0}"#));
    let group = || Fields::default().message(1, resource("G"));
    // One client behind a balancer: its settings go to one proxy.
    let mut client = Grpc::connect(one.address, "c");
    consumer(&mut client);
    let mut spread = Grpc::connect(other.address, "c");
    send(&mut spread, "T", Fields::default().bytes(3, "id-1"));
    let message = receive(&mut spread, "T");
    assert_eq!(text(&message, &[3, 3]), "id-1");
    let entry = Fields::default().bytes(1, "id-1").bytes(2, text(&message, &[3, 12]));
    let [acked] = &*client.call("AckMessage", &group().message(2, resource("T")).message(3, entry)) else {
        panic!()
    };
    assert_eq!(text(acked, &[1, 1]), OK, "{}", text(acked, &[1, 2]));
    eventually("the other proxy takes heartbeats of the client", || {
        let [beat] = &*client.call("Heartbeat", &group()) else { panic!() };
        assert_eq!(text(beat, &[1, 1]), OK);
        let [beat] = &*spread.call("Heartbeat", &group()) else { panic!() };
        (text(beat, &[1, 1]) == OK).then_some(())
    });
    assert_eq!(other.consumers("G"), ["c"]);
    // A client ends at one proxy, whichever had the last heartbeat.
    let [left] = &*spread.call("NotifyClientTermination", &group()) else { panic!() };
    assert_eq!(text(left, &[1, 1]), OK, "{}", text(left, &[1, 2]));
    assert!(other.consumers("G").is_empty());
    eventually("the first proxy forgets the client", || one.consumers("G").is_empty().then_some(()));
}

#[test]
fn a40_a_proxy_signs_its_requests() {
    let provider = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider";
    let provider = format!("authenticationMetadataProvider={provider}");
    let inner =
        "innerClientAuthenticationCredentials={\"accessKey\":\"inner\",\"secretKey\":\"inner-secret\"}";
    // Only the request with which the test creates the topic needs no user.
    let stage = Stage::start(&["authenticationEnabled=true", &provider, "authenticationWhitelist=17", inner]);
    topic(&stage, "T", "NORMAL");
    let signs = r#"{"innerClientAuthenticationCredentials":"{\"accessKey\":\"inner\",\"secretKey\":\"inner-secret\"}"}"#;
    for (name, settings, expected) in [("signs", signs, OK), ("unsigned", "{}", "50001")] {
        let proxy = Proxy::start(&stage, name, settings);
        let mut client = Grpc::connect(proxy.address, "one");
        let [route] = &*client.call("QueryRoute", &Fields::default().message(1, resource("T"))) else {
            panic!()
        };
        assert_eq!(text(route, &[1, 1]), expected, "{name}: {}", text(route, &[1, 2]));
    }
}

/// HMAC-SHA1 of the time with the secrets of alice and of nobody.
const OF_ALICE: &str = "74B9E65EC699EB3110E8032EBAAA1C1AC59A2EAC";
const OF_NOBODY: &str = "B46028C77AF9175B0AD1B9E946755B3EFE96E1B2";

/// A broker with these users, at which the test makes topics and changes a user without a signature.
pub fn guarded(users: &str, lines: &[&str]) -> (Setup, tempfile::TempDir) {
    let class = |word: &str, kind: &str| {
        format!("{kind}MetadataProvider=org.apache.rocketmq.auth.{kind}.provider.Local{word}MetadataProvider")
    };
    let (mut setup, home) = setup(lines);
    let fixed = ["authenticationEnabled=true", "authorizationEnabled=true"].map(str::to_owned);
    let open = ["authenticationWhitelist=17,3002", "authorizationWhitelist=17,3002"].map(str::to_owned);
    let classes = [class("Authentication", "authentication"), class("Authorization", "authorization")];
    setup.lines.extend(fixed.into_iter().chain(classes).chain(open));
    let config = setup.data.join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("users.json"), users).unwrap();
    std::fs::write(config.join("acls.json"), ACLS).unwrap();
    (setup, home)
}

/// A proxy that serves the users of the brokers only.
pub fn guarded_proxy(stage: &Stage) -> Proxy {
    Proxy::start(stage, "guarded", &guarded_settings(""))
}

/// Settings of such a proxy, behind the `first` ones.
fn guarded_settings(first: &str) -> String {
    let keys = r#""{\"accessKey\":\"inner\",\"secretKey\":\"inner-secret\"}""#;
    format!(
        "{{{first}\"remotingListenPort\":0,\"authenticationEnabled\":true,\"authorizationEnabled\":true,\"innerClientAuthenticationCredentials\":{keys}}}"
    )
}

/// Code and text of the answer to a send to a topic.
fn code_of_send(proxy: &Proxy, (user, signature): (&str, &str), to: &str) -> (String, String) {
    let mut client = Grpc::connect(proxy.address, "one");
    if !user.is_empty() {
        client.authorization =
            format!("MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, Signature={signature}");
    }
    let message = Fields::default()
        .message(1, resource(to))
        .message(3, Fields::default().bytes(3, "id-1"))
        .bytes(4, "body");
    let [answer] = &*client.call("SendMessage", &Fields::default().message(1, message)) else { panic!() };
    (text(answer, &[1, 1]), text(answer, &[1, 2]))
}

#[test]
fn a40_a_proxy_without_a_broker_serves_users_of_the_brokers_and_nobody_else() {
    let (setup, home) = guarded(USERS, &[]);
    let stage = Stage { server: setup.start().unwrap(), home };
    topic(&stage, "T", "NORMAL");
    topic(&stage, "U", "NORMAL");
    let proxy = guarded_proxy(&stage);
    let alice = ("alice", OF_ALICE);
    eventually("the proxy knows the users", || (code_of_send(&proxy, alice, "T").0 == OK).then_some(()));
    for (user, to, expected) in [
        (("", ""), "T", ""),
        (("alice", OF_NOBODY), "T", "check signature failed."),
        (("nobody", OF_ALICE), "T", "User:nobody is not found."),
        (alice, "U", "no matched policies."),
    ] {
        let (code, text) = code_of_send(&proxy, user, to);
        assert!(code == "40100" && text.contains(expected), "{user:?} to {to}: {code} {text}");
    }
    // What is changed at the broker counts at the proxy.
    let body = br#"{"username":"alice","userStatus":"disable"}"#;
    let changed = stage.connect().call(3002, |writer| writer.text("username", "alice"), body);
    assert_eq!(changed.code, 0, "{changed:?}");
    let disabled = || code_of_send(&proxy, alice, "T").1.contains("is disabled").then_some(());
    eventually("the proxy knows that alice is disabled", disabled);
}

/// A broker that anybody may register at a name server without users.
#[test]
fn a_proxy_does_not_believe_the_users_of_a_broker_that_does_not_know_its_secret() {
    let class = |word: &str, kind: &str| {
        format!("{kind}MetadataProvider=org.apache.rocketmq.auth.{kind}.provider.Local{word}MetadataProvider")
    };
    let classes = [class("Authentication", "authentication"), class("Authorization", "authorization")];
    let (setup, home) = setup(&classes.each_ref().map(String::as_str));
    let config = setup.data.join("config");
    std::fs::create_dir_all(&config).unwrap();
    // All settings are as at the real brokers, except the secret that only these brokers and the proxy know.
    std::fs::write(config.join("users.json"), USERS.replace("inner-secret", "guessed-secret")).unwrap();
    std::fs::write(config.join("acls.json"), ACLS).unwrap();
    let stage = Stage { server: setup.start().unwrap(), home };
    topic(&stage, "T", "NORMAL");
    let alice = ("alice", OF_ALICE);
    let proxy = guarded_proxy(&stage);
    let log = || std::fs::read_to_string(proxy.server.setup().log()).unwrap();
    eventually("the answer is not believed", || log().contains("found no proof of that").then_some(()));
    let (code, text) = code_of_send(&proxy, alice, "T");
    assert!(code == "40100" && text.contains("has not read the users"), "{code} {text}");
    // As operators of brokers without proofs do.
    let pinned = format!("\"vostokUserBrokers\":\"10.0.0.9:1;{}\",", stage.server.setup().broker());
    let proxy = Proxy::start(&stage, "pinned", &guarded_settings(&pinned));
    eventually("a named broker is believed", || (code_of_send(&proxy, alice, "T").0 == OK).then_some(()));
}

#[test]
fn a_proxy_reads_the_users_of_another_broker_when_one_is_gone() {
    let disabled =
        USERS.replacen(r#""Normal","userStatus":"enable""#, r#""Normal","userStatus":"disable""#, 1);
    assert_ne!(disabled, USERS);
    let (setup, home) = guarded(&disabled, &["brokerName=last"]);
    let stage = Stage { server: setup.start().unwrap(), home };
    topic(&stage, "T", "NORMAL");
    // The users of the broker whose name comes first are read first.
    let (mut setup, _home_of_first) = guarded(USERS, &["brokerName=first"]);
    let name_server = stage.server.setup().namesrv().to_string();
    setup.roles = "broker".to_owned();
    setup.arguments = ["-n", &name_server].map(str::to_owned).to_vec();
    let first = setup.spawn().unwrap();
    eventually("both brokers have registered", || {
        let answer = stage.name_server().call(request::GET_BROKER_CLUSTER_INFO, |writer| writer, b"");
        String::from_utf8(answer.body).unwrap().contains("\"first\"").then_some(())
    });
    let proxy = guarded_proxy(&stage);
    let alice = ("alice", OF_ALICE);
    eventually("alice is a user", || (code_of_send(&proxy, alice, "T").0 == OK).then_some(()));
    first.kill9();
    let disabled = || code_of_send(&proxy, alice, "T").1.contains("is disabled").then_some(());
    eventually("the users of the other broker count", disabled);
}
