//! `vostok auth`: users and acls between running brokers and files.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use client::{Credentials, SignedRequest};
use wire::codes::request;
use wire::frame::{Encoding, FrameWriter, Head, frame_length};

use crate::common::PATIENCE;
use crate::common::server::Setup;
use crate::common::wire_client::Connection;
use crate::grpc::{Grpc, text};
use crate::stage::{self, Stage, eventually, setup};

pub const LINES: [&str; 5] = [
    "authenticationEnabled=true",
    "authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled=true",
    "authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser={\"username\":\"root\",\"password\":\"rootsecret\"}",
];
const USERS: &str = r#"[{"password":"alice-secret","userStatus":"disable","userType":"Normal","username":"alice"},{"password":"rootsecret","userStatus":"enable","userType":"Super","username":"root"}]"#;
const ACLS: &str = r#"[{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:orders*","sourceIps":["10.0.0.0/8"]}],"policyType":"Custom"},{"entries":[{"actions":["All"],"decision":"Deny","resource":"Topic:*"}],"policyType":"Default"}],"subject":"User:alice"}]"#;

/// Runs `vostok auth` as a super user, unless the words name somebody else.
fn auth(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
    command.arg("auth").args(words);
    command.env("ROCKETMQ_ACCESS_KEY", "root").env("ROCKETMQ_SECRET_KEY", "rootsecret");
    stage::output(&mut command)
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn store(config: &Path) {
    std::fs::create_dir_all(config).unwrap();
    std::fs::write(config.join("users.json"), USERS).unwrap();
    std::fs::write(config.join("acls.json"), ACLS).unwrap();
}

fn files(config: &Path) -> [String; 2] {
    ["users.json", "acls.json"].map(|name| std::fs::read_to_string(config.join(name)).unwrap())
}

fn address(setup: &Setup) -> String {
    setup.broker().to_string()
}

#[test]
fn a51_users_and_acls_go_from_a_broker_to_files_and_back() {
    use std::os::unix::fs::MetadataExt as _;
    let (one, home) = setup(&LINES);
    store(&one.data.join("config"));
    let _one = one.start().unwrap();
    let out = home.path().join("imported");
    let words = ["import", "--from", &address(&one), "--out", out.to_str().unwrap()];
    let said = succeeded(&auth(&words));
    assert!(said.contains("2 users and the acls of 1 of them are in "), "{said}");
    assert_eq!(files(&out), [USERS, ACLS]);
    assert_eq!(std::fs::metadata(out.join("users.json")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2);
    assert!(refused(&auth(&words)).contains("users.json: exists already"));

    // To another broker, whose super user has another password until then.
    let lines = LINES.map(|line| line.replace("rootsecret", "other-secret"));
    let (two, _home) = setup(&lines.each_ref().map(String::as_str));
    let _two = two.start().unwrap();
    let words = ["export", "--to", &address(&two), "--in", out.to_str().unwrap()];
    assert!(refused(&auth(&words)).contains("check signature failed."));
    succeeded(&auth(&[&words[..], &["--ak", "root", "--sk", "other-secret"]].concat()));
    assert_eq!(files(&two.data.join("config")), [USERS, ACLS]);
    // With the password that was written, and over what is there.
    succeeded(&auth(&words));
    assert_eq!(files(&two.data.join("config")), [USERS, ACLS]);
}

#[test]
fn an_import_that_is_refused_leaves_nothing() {
    let (one, home) = setup(&LINES);
    let users = USERS.replace("disable", "enable");
    store(&one.data.join("config"));
    std::fs::write(one.data.join("config/users.json"), users).unwrap();
    std::fs::write(
        one.data.join("config/acls.json"),
        ACLS.replace("Topic:orders*", "Cluster:*")
            .replace("\"Pub\",\"Sub\"", "\"Get\"")
            .replace("10.0.0.0/8", "127.0.0.1"),
    )
    .unwrap();
    let _one = one.start().unwrap();
    let out = home.path().join("imported");
    let words = ["import", "--from", &address(&one), "--out", out.to_str().unwrap()];
    let check = |more: &[&str], expected: &str| {
        let text = refused(&auth(&[&words[..], more].concat()));
        assert!(text.contains(expected) && !text.contains("secret"), "{text}");
        assert!(!out.join("users.json").exists() && !out.join("acls.json").exists());
    };
    check(&["--ak", "alice", "--sk", "alice-secret"], "it tells passwords to super users only");
    check(&["--ak", "mallory", "--sk", "guess"], "User:mallory is not found.");
}

#[test]
fn a_call_of_nobody_is_refused_before_its_body_comes() {
    let (mut setup, _home) = setup(&LINES);
    setup.arguments = ["--grpc-port", "0"].map(str::to_owned).to_vec();
    let _server = setup.start().unwrap();
    let address = eventually("gRPC is served", || {
        let log = std::fs::read_to_string(setup.log()).unwrap();
        log.lines().find_map(|line| line.strip_prefix("gRPC for 5.x clients is at ")?.parse().ok())
    });
    let address: SocketAddr = address;
    let mut client = Grpc::connect(SocketAddr::from(([127, 0, 0, 1], address.port())), "one");
    for method in ["SendMessage", "ReceiveMessage"] {
        let stream = client.open(method);
        let answer = client.read(stream).unwrap();
        assert_eq!(text(&answer, &[1, 1]), "40100", "{method}");
        assert_eq!(text(&answer, &[1, 2]), "username cannot be null.", "{method}");
    }
}

/// Code and remark of the answer to a client of another machine, as a PROXY preamble names it.
pub fn ask_as_stranger(address: SocketAddr, code: i32) -> (i32, String) {
    let mut bytes = b"PROXY TCP4 10.0.0.7 127.0.0.1 5000 6000\r\n".to_vec();
    Head::request(Encoding::Json, code, 1).write(&mut bytes, b"");
    send(address, &bytes)
}

/// Sends a frame over a connection of its own; the code and the remark of the answer.
fn send(address: SocketAddr, frame: &[u8]) -> (i32, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(frame).unwrap();
    let mut answer = vec![0; 4];
    stream.read_exact(&mut answer).unwrap();
    answer.resize(frame_length(&answer).unwrap().unwrap_or(4), 0);
    stream.read_exact(&mut answer[4..]).unwrap();
    let answer = wire::frame::Command::decode(&mut answer).unwrap();
    (answer.code, answer.remark.unwrap_or_default().to_owned())
}

/// Replays of requests that were read from a connection of the console.
#[test]
fn a_recorded_request_is_no_request_with_another_code_and_none_at_another_time() {
    let (setup, _home) = setup(&[&LINES[..], &["authenticationSealedUsers=root"]].concat());
    let _server = setup.start().unwrap();
    let credentials = Credentials::new("root", "rootsecret");
    let (own, info) = (address(&setup), request::GET_BROKER_RUNTIME_INFO);
    let frame = |signed: SignedRequest, code| {
        let mut frame = Vec::new();
        signed.write(FrameWriter::begin(&mut frame, Head::request(Encoding::Json, code, 1)));
        frame
    };
    let sealed =
        |code, receiver: &str| SignedRequest::sealed(&credentials, code, receiver, |frame| frame.finish(b""));
    let recorded = frame(sealed(info, &own), info);
    assert_eq!(send(setup.broker(), &recorded), (0, String::new()));
    let (code, remark) = send(setup.broker(), &recorded);
    assert!(code == 16 && remark.contains("served before"), "{code} {remark}");
    let as_list = frame(sealed(info, &own), request::AUTH_LIST_USER);
    let (code, remark) = send(setup.broker(), &as_list);
    assert!(code == 16 && remark.contains("another code"), "{code} {remark}");
    let elsewhere = frame(sealed(info, "10.0.0.1:10911"), info);
    assert!(send(setup.broker(), &elsewhere).1.contains("another server"));
    // As a client of RocketMQ signs.
    let plain = || SignedRequest::new(&credentials, |frame| frame.finish(b""));
    assert!(send(setup.broker(), &frame(plain(), request::AUTH_LIST_USER)).1.contains("must be sealed"));
    // The tools of Vostok are served.
    succeeded(&auth(&["import", "--from", &own, "--out", setup.desk.join("out").to_str().unwrap()]));
}

#[test]
fn a_start_without_a_file_serves_this_machine_only() {
    let (mut setup, _home) = setup(&[]);
    setup.with_conf = false;
    let is_refused = |address, code| {
        let (answered, remark) = ask_as_stranger(address, code);
        assert_eq!(answered == 16, remark.contains("start it with --open"), "{answered} {remark}");
        answered == 16
    };
    let all = [
        (setup.broker(), request::GET_BROKER_RUNTIME_INFO),
        (setup.vip(), request::GET_BROKER_RUNTIME_INFO),
        (setup.namesrv(), request::GET_BROKER_CLUSTER_INFO),
    ];
    // That a client of this machine is served is part of the start.
    let server = setup.start().unwrap();
    assert!(all.iter().all(|(address, code)| is_refused(*address, *code)));
    server.terminate();
    // The data are now there, and they are not RocketMQ's.
    let server = setup.start().unwrap();
    assert!(all.iter().all(|(address, code)| is_refused(*address, *code)));
    server.terminate();
    setup.with_conf = true;
    let server = setup.start().unwrap();
    assert!(!all.iter().any(|(address, code)| is_refused(*address, *code)), "with -c as open as RocketMQ");
    assert!(std::fs::read_to_string(setup.log()).unwrap().contains("authentication is off"));
    drop(server);
}

#[test]
fn an_address_with_many_connections_gets_no_more_until_some_end() {
    // The address of this test is not one of a proxy then, which would stand for many clients.
    let lines = ["connectionsPerAddressMax=10", "proxyProtocolTrustedAddresses=10.0.0.7"];
    let stage = Stage::start(&lines);
    let address = stage.server.setup().broker();
    let served = || {
        let mut connection = Connection::open(address).ok()?;
        let opaque = connection.ask(9999, |writer| writer, &[]).ok()?;
        connection.answer(opaque).ok().map(|_| connection)
    };
    let (mut connections, began) = (Vec::new(), Instant::now());
    // The broker itself is connected to the name server of the process, and connections of the start may not have ended yet.
    eventually("most places are taken", || {
        connections.extend(served());
        (connections.len() >= 5).then_some(())
    });
    connections.extend((0..20).filter_map(|_| served()));
    assert!(connections.len() <= 10, "{}", connections.len());
    assert!(served().is_none());
    drop(connections);
    eventually("a place is free again", served);
    let log = std::fs::read_to_string(stage.server.setup().log()).unwrap();
    // A line a minute.
    let lines = log.matches("connectionsPerAddressMax is reached").count() as u64;
    assert!((1..=1 + began.elapsed().as_secs() / 60).contains(&lines), "{log}");
}

#[test]
fn decisions_are_explained_from_the_files() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("store/config");
    store(&config);
    let users = USERS.replace("disable", "enable");
    std::fs::write(config.join("users.json"), &users).unwrap();
    let broker = home.path().join("broker.conf");
    let file = format!(
        "{}\nstorePathRootDir={}\nbrokerClusterName=C\nauthorizationWhitelist=105\n",
        LINES.join("\n"),
        home.path().join("store").display()
    );
    std::fs::write(&broker, file).unwrap();
    let explain = |words: &[&str]| {
        let fixed = ["explain", "--from", "10.0.0.9", "-c", broker.to_str().unwrap()];
        succeeded(&auth(&[&fixed[..], words].concat()))
    };
    let said = explain(&["--user", "alice", "--request", "310", "--topic", "orders-eu"]);
    assert_eq!(
        said,
        "request 310 (SEND_MESSAGE_V2) of alice from 10.0.0.9\nneeds Pub on Topic:orders-eu\n  \
         Custom Allow Pub,Sub on Topic:orders* from 10.0.0.0/8: decides\n\
         Allow, because of: Custom Allow Pub,Sub on Topic:orders* from 10.0.0.0/8\n"
    );
    let said = explain(&["--user", "alice", "--request", "11", "--topic", "orders", "--group", "g"]);
    assert!(
        said.ends_with(
            "needs Sub on Group:g\n  no entry matches\nDeny, because of: no entry. The answer is code 16: \
         User:alice has no permission to access Group:g from 10.0.0.9, no matched policies.\n"
        ),
        "{said}"
    );
    let said = explain(&["--user", "alice", "--request", "25", "--strict"]);
    assert!(said.contains("needs Update on Cluster:C\n"), "{said}");
    assert!(
        explain(&["--user", "alice", "--request", "25"]).ends_with("Allow, because of: nothing needed\n")
    );
    assert!(
        explain(&["--user", "alice", "--request", "105", "--topic", "t"]).contains("authorizationWhitelist")
    );
    let said = explain(&["--user", "bob", "--request", "26"]);
    assert!(said.contains("User:bob is not found."), "nobody signs as bob: {said}");
    assert!(explain(&["--user", "root", "--request", "215", "--topic", "t"]).contains("super user"));
    let words =
        ["explain", "--user", "alice", "--request", "25", "--from", "::1", "--in", config.to_str().unwrap()];
    let said = succeeded(&auth(&words));
    assert!(said.contains("needs Update on Cluster:DefaultCluster\n"), "strict without a file: {said}");
    let unnamed = auth(&[
        "explain",
        "--from",
        "10.0.0.9",
        "-c",
        broker.to_str().unwrap(),
        "--user",
        "nobody",
        "--request",
        "310",
    ]);
    assert!(refused(&unnamed).contains("expected --topic"), "a send needs its topic");
    // The first user of the settings is not made by a question.
    assert_eq!(files(&config), [users, ACLS.to_owned()]);
    let missing = auth(&["explain", "--user", "a", "--request", "310", "--from", "::1", "--in", "/nowhere"]);
    assert!(refused(&missing).contains("vostok auth import"));
}
