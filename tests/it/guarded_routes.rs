//! A name server that asks for users, which RocketMQ's does not.

use std::net::SocketAddr;
use std::path::Path;

use wire::codes::request;

use crate::access::LINES;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::{Arrived, Connection};
use crate::stage::{end_unless_serving, eventually, open, setup};

const INNER: &str =
    "innerClientAuthenticationCredentials={\"accessKey\":\"inner\",\"secretKey\":\"inner-secret\"}";
const ALICE: &str =
    r#"[{"username":"alice","password":"alice-secret","userType":"Normal","userStatus":"enable"}]"#;
const ROOT: (&str, &str) = ("root", "rootsecret");
const CHANGES_ROUTES: &str =
    "User:alice has no permission to access Cluster: from 127.0.0.1, no matched policies.";

/// Asks with a signature.
pub fn ask(address: SocketAddr, (user, secret): (&str, &str), code: i32, fields: &[(&str, &str)]) -> Arrived {
    let mut fields = [fields, &[(client::ACCESS_KEY, user)]].concat();
    fields.sort_unstable();
    let signature =
        client::Credentials::new(user, secret).sign(fields.iter().map(|(_, value)| value.as_bytes()));
    open(address).call(
        code,
        |writer| {
            let writer = fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value));
            writer.bytes(client::SIGNATURE, &signature)
        },
        b"",
    )
}

fn said(answer: &Arrived) -> (i32, String) {
    (answer.code, answer.remark().to_owned())
}

/// Starts a process of one role, and waits until it answers.
fn start(mut setup: Setup, role: &str, address: SocketAddr) -> Server {
    setup.roles = role.to_owned();
    let server = setup.spawn().unwrap();
    eventually("the process answers", || {
        let mut connection = Connection::open(address).ok()?;
        let opaque = connection.ask(9999, |writer| writer, &[]).ok()?;
        connection.answer(opaque).ok()
    });
    server
}

/// Starts a broker of a guarded name server with these lines.
fn start_broker(name_server: &Setup, name: &str, lines: &[&str]) -> (Server, tempfile::TempDir) {
    let name = format!("brokerName={name}");
    let (mut setup, home) = setup(&[lines, &[&name]].concat());
    setup.arguments = ["-n", &name_server.namesrv().to_string()].map(str::to_owned).to_vec();
    let address = setup.broker();
    (start(setup, "broker", address), home)
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[test]
fn a_name_server_with_authentication_serves_users_and_brokers_with_credentials_only() {
    let (name_server, _home) = setup(&[&LINES[..], &[INNER]].concat());
    let users = name_server.data.join("namesrv/users.json");
    write(&users, ALICE);
    let address = name_server.namesrv();
    let _name_server = start(name_server.clone(), "namesrv", address);
    let route = |topic: &str| ask(address, ROOT, request::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)]);
    let (_guarded, _home_of_guarded) = start_broker(&name_server, "guarded", &[INNER]);
    let (nobody, _home_of_nobody) = start_broker(&name_server, "nobody", &[]);
    eventually("the broker with credentials has registered", || (route("TBW102").code == 0).then_some(()));
    eventually("the broker without credentials was refused", || {
        let log = std::fs::read_to_string(nobody.setup().log()).unwrap();
        log.contains("username cannot be null.").then_some(())
    });
    let cluster = ask(address, ROOT, request::GET_BROKER_CLUSTER_INFO, &[]);
    let cluster = String::from_utf8(cluster.body).unwrap();
    assert!(cluster.contains("guarded") && !cluster.contains("nobody"), "{cluster}");

    let unsigned = |code| said(&open(address).call(code, |writer| writer.text("topic", "TBW102"), b""));
    for code in [request::GET_ROUTEINFO_BY_TOPIC, request::REGISTER_BROKER, 9999] {
        assert_eq!(unsigned(code), (16, "username cannot be null.".to_owned()), "{code}");
    }
    let of = |user, secret, code| said(&ask(address, (user, secret), code, &[("topic", "TBW102")]));
    let code = request::GET_ROUTEINFO_BY_TOPIC;
    assert_eq!(of("inner", "guess", code), (16, "check signature failed.".to_owned()));
    assert_eq!(of("mallory", "guess", code), (16, "User:mallory is not found.".to_owned()));
    assert_eq!(of("alice", "alice-secret", code).0, 0);
    let shown = String::from_utf8(ask(address, ROOT, request::GET_NAMESRV_CONFIG, &[]).body).unwrap();
    assert!(shown.contains("initAuthenticationUser=***") && !shown.contains("rootsecret"), "{shown}");
    // With authorization, a normal user reads routes and changes none.
    assert_eq!(
        of("alice", "alice-secret", request::DELETE_TOPIC_IN_NAMESRV),
        (16, CHANGES_ROUTES.to_owned())
    );
    // Files that are replaced count without a restart, and broken ones do not.
    write(&users, "[");
    write(&users.with_file_name("acls.json"), "[]");
    let broken = "the users of the name server stay as they were";
    eventually(broken, || std::fs::read_to_string(name_server.log()).unwrap().contains(broken).then_some(()));
    assert_eq!(of("alice", "alice-secret", code).0, 0);
    write(&users, &ALICE.replace("alice", "bob"));
    eventually("the new users count", || (of("bob", "bob-secret", code).0 == 0).then_some(()));
    assert_eq!(of("alice", "alice-secret", code), (16, "User:alice is not found.".to_owned()));
    assert_eq!(route("TBW102").code, 0, "the users of the settings stay");
}

#[test]
fn a_broker_with_credentials_does_not_start_beside_one_of_its_name_and_id() {
    let lines = [&LINES[..], &[INNER]].concat();
    let (name_server, _home) = setup(&lines);
    let address = name_server.namesrv();
    let _name_server = start(name_server.clone(), "namesrv", address);
    let (first, _home_of_first) = start_broker(&name_server, "twin", &lines);
    let first = first.setup().broker().to_string();
    let (mut second, _home_of_second) = setup(&[&lines[..], &["brokerName=twin"]].concat());
    second.roles = "broker".to_owned();
    second.arguments = ["-n", &address.to_string()].map(str::to_owned).to_vec();
    // The second waits a second for the first one's answer, and starts without.
    let status = eventually("the second does not start", || {
        eventually("the first has registered", || {
            let cluster = ask(address, ROOT, request::GET_BROKER_CLUSTER_INFO, &[]);
            String::from_utf8_lossy(&cluster.body).contains(&first).then_some(())
        });
        end_unless_serving(second.spawn().unwrap())
    });
    let log = std::fs::read_to_string(second.log()).unwrap();
    assert!(!status.success() && log.contains(&format!("it answers at {first}")), "{log}");
}

#[test]
fn settings_of_authentication_that_contradict_each_other_stop_the_name_server() {
    let (mut name_server, _home) = setup(&["authorizationEnabled=true"]);
    name_server.roles = "namesrv".to_owned();
    assert!(!name_server.spawn().unwrap().wait().unwrap().success());
    let log = std::fs::read_to_string(name_server.log()).unwrap();
    assert!(log.contains("authorizationEnabled needs authenticationEnabled"), "{log}");
}
