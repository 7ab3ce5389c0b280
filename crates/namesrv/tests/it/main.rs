//! The name server over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use namesrv::{Config, NameServer, StartError};
use tempfile::TempDir;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::settings::FileSettings as _;

/// Longest wait of a test for an outcome. An outcome that comes late is as good as an early one.
const PATIENCE: Duration = Duration::from_secs(120);

fn serve(properties: &str) -> (NameServer, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::new(home.path());
    config.read(format!("bindAddress=127.0.0.1\nlistenPort=0\n{properties}").as_bytes()).unwrap();
    (NameServer::start(config).unwrap(), home)
}

struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Reads one frame; empty at the end of the stream.
    fn read(&mut self) -> Vec<u8> {
        let mut frame = vec![0; 4];
        match self.0.read_exact(&mut frame) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer in time"),
            Err(_) => return Vec::new(),
        }
        let length = u32::from_be_bytes(frame[..4].try_into().unwrap());
        frame.resize(4 + length as usize, 0);
        self.0.read_exact(&mut frame[4..]).unwrap();
        frame
    }

    /// Makes a call; returns code, remark and body.
    fn call(
        &mut self,
        encoding: Encoding,
        code: i32,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> (i32, String, String) {
        let mut out = Vec::new();
        let writer = FrameWriter::begin(&mut out, Head::request(encoding, code, 5));
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(body);
        self.0.write_all(&out).unwrap();
        let mut frame = self.read();
        let answer = Command::decode(&mut frame).unwrap();
        assert_eq!((answer.opaque, answer.encoding, answer.is_response()), (5, encoding, true));
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        (answer.code, answer.remark.unwrap_or_default().to_owned(), body)
    }

    fn register(&mut self, broker: &str, id: &str, address: &str) {
        let fields = [
            ("brokerName", broker),
            ("brokerAddr", address),
            ("clusterName", "C"),
            ("haServerAddr", "h:1"),
            ("brokerId", id),
            ("enableActingMaster", "true"),
        ];
        let body =
            br#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"T1":{"perm":6},"T2":{"perm":6}}}}"#;
        assert_eq!(self.call(Encoding::Json, 103, &fields, body).0, 0);
    }

    fn unregister(&mut self, broker: &str, id: &str, address: &str) {
        let fields =
            [("brokerName", broker), ("brokerAddr", address), ("clusterName", "C"), ("brokerId", id)];
        assert_eq!(self.call(Encoding::Json, 104, &fields, b"").0, 0);
    }

    fn route_code(&mut self, topic: &str) -> i32 {
        self.call(Encoding::Json, 105, &[("topic", topic)], b"").0
    }
}

/// Waits for an outcome of another thread.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn both_encodings_are_answered_in_kind() {
    let (server, _home) = serve("");
    let mut client = Client::connect(server.local_addr());
    client.register("broker-a", "0", "127.0.0.1:10911");
    for encoding in [Encoding::Json, Encoding::Binary] {
        let (code, _, body) = client.call(encoding, 105, &[("topic", "T1")], b"");
        assert_eq!(code, 0);
        assert!(body.starts_with(r#"{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"#), "{body}");
        let (code, remark, _) = client.call(encoding, 9999, &[], b"");
        assert_eq!((code, remark.as_str()), (3, " request type 9999 not supported"));
    }
    server.shutdown();
}

#[test]
fn a_killed_connection_takes_its_broker_along() {
    let (server, _home) = serve("");
    let mut client = Client::connect(server.local_addr());
    let mut broker = Client::connect(server.local_addr());
    broker.register("broker-a", "0", "127.0.0.1:10911");
    assert_eq!(client.route_code("T1"), 0);
    drop(broker);
    until("the topic has no route", || client.route_code("T1") != 0);
    assert_eq!(client.route_code("T1"), 17);
    server.shutdown();
}

#[test]
fn a_silent_broker_is_removed_and_disconnected() {
    let (server, _home) = serve("scanNotActiveBrokerInterval=10");
    let mut broker = Client::connect(server.local_addr());
    let fields = [
        ("brokerName", "broker-a"),
        ("brokerAddr", "127.0.0.1:10911"),
        ("clusterName", "C"),
        ("brokerId", "0"),
        ("heartbeatTimeoutMillis", "1"),
    ];
    // A machine under load may remove the broker before the answer to its registration is sent.
    let mut request = Vec::new();
    let writer = FrameWriter::begin(&mut request, Head::request(Encoding::Json, 103, 5));
    fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(b"");
    broker.0.write_all(&request).unwrap();
    while !broker.read().is_empty() {}
    let mut client = Client::connect(server.local_addr());
    let empty = r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#;
    until("the broker is gone", || client.call(Encoding::Json, 106, &[], b"").2 == empty);
    server.shutdown();
}

#[test]
fn unregistered_brokers_are_gone() {
    let (server, _home) = serve("");
    let mut broker = Client::connect(server.local_addr());
    broker.register("broker-a", "0", "127.0.0.1:10911");
    broker.unregister("broker-a", "0", "127.0.0.1:10911");
    until("the topic has no route", || broker.route_code("T1") != 0);
    server.shutdown();
}

#[test]
fn brokers_are_told_of_a_new_smallest_id() {
    let (server, _home) = serve("notifyMinBrokerIdChanged=true");
    let slave = TcpListener::bind("127.0.0.1:0").unwrap();
    let slave_address = slave.local_addr().unwrap().to_string();
    let mut broker = Client::connect(server.local_addr());
    slave.set_nonblocking(true).unwrap();
    let mut told = Vec::new();
    // A notice that cannot be sent soon is given up, so several may be needed.
    until("the slave is told of its master", || {
        broker.register("broker-a", "1", &slave_address);
        broker.register("broker-a", "0", "127.0.0.1:1");
        while let Ok((stream, _)) = slave.accept() {
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            told = Client(stream).read();
            let mut frame = told.clone();
            let notice = Command::decode(&mut frame).ok();
            if notice.is_some_and(|notice| notice.fields.text("minBrokerId") == Some("0")) {
                return true;
            }
        }
        broker.unregister("broker-a", "0", "127.0.0.1:1");
        false
    });
    let notice = Command::decode(&mut told).unwrap();
    assert_eq!((notice.code, notice.is_one_way()), (905, true));
    let field = |key| notice.fields.text(key);
    assert_eq!((field("minBrokerId"), field("minBrokerAddr")), (Some("0"), Some("127.0.0.1:1")));
    assert_eq!((field("haBrokerAddr"), field("offlineBrokerAddr")), (Some("h:1"), None));
    server.shutdown();
}

#[test]
fn hostile_bytes_end_their_connection_only() {
    let (server, _home) = serve("");
    let mut client = Client::connect(server.local_addr());
    client.register("broker-a", "0", "127.0.0.1:10911");
    let hostile: [&[u8]; 5] = [
        b"\xff\xff\xff\xff",
        b"\x01\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\xff\xff\xff{}{}",
        b"\x00\x00\x00\x08\x07\x00\x00\x04\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
    ];
    for bytes in hostile {
        let mut enemy = Client::connect(server.local_addr());
        enemy.0.write_all(bytes).unwrap();
        assert_eq!(enemy.read(), b"", "{bytes:?}");
    }
    assert_eq!(client.route_code("T1"), 0);
    server.shutdown();
}

/// A user and a request with its signature, of RocketMQ's own client.
const USERS: &str = "authenticationEnabled=true
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={\"username\":\"rocketmq2\",\"password\":\"12345678\"}";
const SIGNED: [(&str, &str); 3] =
    [("topic", "TopicTest"), ("AccessKey", "rocketmq2"), ("Signature", "GeeGoP9mRvDhoVp4PD5omX0prgE=")];

#[test]
fn requests_are_signed_where_users_are_asked_for() {
    let (server, home) = serve(USERS);
    let ask = |fields: &[(&str, &str)]| {
        let (code, remark, _) = Client::connect(server.local_addr()).call(Encoding::Json, 105, fields, b"");
        (code, remark)
    };
    assert_eq!(ask(&SIGNED).0, 17, "the topic has no route");
    assert_eq!(ask(&SIGNED[..1]), (16, "username cannot be null.".to_owned()));
    assert_eq!(ask(&SIGNED[..2]), (16, "check signature failed.".to_owned()));
    assert!(home.path().join("namesrv/users.json").exists());
    server.shutdown();
}

#[test]
fn a_right_guess_on_a_new_connection_is_answered_in_turn_and_the_connection_is_the_users_then() {
    let (server, _home) = serve(USERS);
    let mut earlier = Client::connect(server.local_addr());
    assert_eq!(earlier.call(Encoding::Json, 105, &SIGNED, b"").0, 17);
    let wrong = |client: &mut Client| {
        let mut out = Vec::new();
        let writer = FrameWriter::begin(&mut out, Head::request(Encoding::Json, 105, 5));
        SIGNED[..2].iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(b"");
        client.0.write_all(&out).unwrap();
    };
    // Failures of a minute count, so another attempt may be needed.
    until("a right guess waits for its turn", || {
        for _ in 0..10 {
            let mut client = Client::connect(server.local_addr());
            wrong(&mut client);
            assert_ne!(client.read(), b"");
        }
        // An answer that waits, and whose connection is gone.
        wrong(&mut Client::connect(server.local_addr()));
        let mut guess = Client::connect(server.local_addr());
        let (code, remark, _) = guess.call(Encoding::Json, 105, &SIGNED, b"");
        let has_waited = code == 2;
        assert!(!has_waited || remark.contains("send it again later"), "{code} {remark}");
        assert_eq!(guess.call(Encoding::Json, 105, &SIGNED, b"").0, 17, "now it is a connection of the user");
        has_waited
    });
    assert_eq!(earlier.call(Encoding::Json, 105, &SIGNED, b"").0, 17);
    server.shutdown();
}

#[test]
fn users_that_are_wrong_stop_the_start() {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::new(home.path());
    config.read(USERS.as_bytes()).unwrap();
    std::fs::create_dir_all(home.path().join("namesrv")).unwrap();
    std::fs::write(home.path().join("namesrv/users.json"), "[").unwrap();
    let error = NameServer::start(config).err().unwrap();
    assert!(matches!(error, StartError::Auth(_)) && error.to_string().contains("is damaged"), "{error}");
}

#[test]
fn a_taken_port_and_a_bad_address_are_named() {
    // No other test gets a port of this address.
    let (server, home) = serve("bindAddress=127.0.0.77");
    let start = |properties: String| {
        let mut config = Config::new(home.path());
        config.read(properties.as_bytes()).unwrap();
        NameServer::start(config).err().unwrap()
    };
    let port = server.local_addr().port();
    let error = start(format!("bindAddress=127.0.0.77\nlistenPort={port}"));
    assert!(matches!(&error, StartError::Listen { address, .. } if address.port() == port), "{error}");
    assert_eq!(
        start("bindAddress=here".to_owned()).to_string(),
        "bindAddress is `here`, expected an ip address"
    );
    server.shutdown();
    assert!(TcpStream::connect(server.local_addr()).is_err());
}

/// The file of the settings is a pipe without a reader, so that the change of a setting does not end.
#[test]
fn routes_are_answered_while_settings_are_written() {
    let (server, home) = serve("");
    let directory = home.path().join("namesrv");
    std::fs::create_dir_all(&directory).unwrap();
    let pipe = directory.join("kvConfig.json.tmp");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut broker = Client::connect(server.local_addr());
    broker.register("broker-a", "0", "127.0.0.1:10911");
    let mut writers: Vec<_> = (0..4).map(|_| Client::connect(server.local_addr())).collect();
    for client in &mut writers {
        let mut out = Vec::new();
        let writer = FrameWriter::begin(&mut out, Head::request(Encoding::Json, 100, 5));
        let fields = [("namespace", "n"), ("key", "k"), ("value", "v")];
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(b"");
        client.0.write_all(&out).unwrap();
    }
    let codes: Vec<_> = (0..8).map(|_| Client::connect(server.local_addr()).route_code("T1")).collect();
    assert_eq!(codes, [0; 8]);
    // A pipe cannot be made durable: each setting is refused with an answer.
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        while std::fs::File::open(&pipe).and_then(|mut file| file.read_to_end(&mut text)).is_ok() {}
    });
    let refused = writers.iter_mut().filter_map(|client| {
        let mut frame = client.read();
        Some(Command::decode(&mut frame).ok()?.code)
    });
    assert_eq!(refused.count(), 4);
    server.shutdown();
    std::fs::remove_file(directory.join("kvConfig.json.tmp")).unwrap();
    drop(reader);
}

/// The connection ends while its registration waits behind others.
#[test]
fn a_broker_whose_connection_ended_before_it_was_registered_leaves() {
    let (server, _home) = serve("");
    let mut client = Client::connect(server.local_addr());
    for _ in 0..20 {
        let mut broker = Client::connect(server.local_addr());
        let mut out = Vec::new();
        let writer = FrameWriter::begin(&mut out, Head::request(Encoding::Json, 103, 5));
        let fields = [("brokerName", "b"), ("brokerAddr", "b:1"), ("clusterName", "C"), ("brokerId", "0")];
        let body = br#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"T1":{},"T2":{}}}}"#;
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(body);
        broker.0.write_all(&out).unwrap();
    }
    until("the brokers are gone", || {
        client.call(Encoding::Json, 106, &[], b"").2.contains(r#""brokerAddrTable":{}"#)
    });
    server.shutdown();
}
