//! TLS with client certificates (mTLS) on the ports of a process, and on the calls that its roles make.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use net::tls::{Security, TlsSettings};
use net::{Budget, ConnectionHandle, Limits, ReplicationTls, Service, Workers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wire::codes::request;
use wire::frame::{Command, Encoding};

use crate::common::PATIENCE;
use crate::common::server::{Setup, free_ports};
use crate::common::wire_client::send_header;
use crate::stage::{eventually, open, output, setup};

/// A client that is asked nothing.
struct Silent;

impl Service for Silent {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, _: &mut (), _: &Arc<ConnectionHandle>, _: Command<'_>, _: &mut Vec<u8>) {}
}

fn golden(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crates/net/src/tls/golden").join(name);
    path.display().to_string()
}

/// Certificate and key of a client, and whom it trusts.
fn client() -> [(&'static str, String); 5] {
    [
        ("tls.enable", "true".to_owned()),
        ("tls.client.certPath", golden("certificate.pem")),
        ("tls.client.keyPath", golden("key.pem")),
        ("tls.client.authServer", "true".to_owned()),
        ("tls.client.trustCertPath", golden("ca.pem")),
    ]
}

/// The body of the answer to a request; `None` when the server ended the connection.
pub fn ask(address: SocketAddr, settings: &[(&str, String)], code: i32) -> Option<String> {
    let mut tls = TlsSettings::default();
    for (key, value) in settings {
        assert!(tls.set(key, value).unwrap(), "{key}");
    }
    let security = Security::new(&tls).unwrap();
    let workers = Workers::start_secured("mtls", 1, Limits::default(), security).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let peer = workers.dial(address, Arc::new(Silent)).await.ok()?;
        let call = peer.call(Encoding::Json, code, PATIENCE, |writer| writer.finish(b""));
        match call.await {
            Ok(reply) => Some(String::from_utf8_lossy(&reply.body).into_owned()),
            Err(net::CallError::Closed(_)) => None,
            Err(late) => panic!("{late}"),
        }
    });
    workers.shutdown();
    answer
}

/// What servers show and ask for.
fn server() -> [(&'static str, String); 6] {
    [
        ("tls.test.mode.enable", "false".to_owned()),
        ("tls.server.need.client.auth", "require".to_owned()),
        ("tls.server.authClient", "true".to_owned()),
        ("tls.server.certPath", golden("certificate.pem")),
        ("tls.server.keyPath", golden("key.pem")),
        ("tls.server.trustCertPath", golden("ca.pem")),
    ]
}

fn lines(mode: &str, more: &[&str]) -> Vec<String> {
    let settings = server().into_iter().chain(client()).map(|(key, value)| format!("{key}={value}"));
    settings.chain([mode.to_owned()]).chain(more.iter().map(|line| (*line).to_owned())).collect()
}

fn prepared(lines: &[String]) -> (Setup, tempfile::TempDir) {
    setup(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

fn says(setup: &Setup, what: &str) -> Option<String> {
    let text = fs::read_to_string(setup.log()).unwrap();
    text.lines().find(|line| line.contains(what)).map(str::to_owned)
}

#[test]
fn a60_ports_that_require_certificates_serve_nobody_without_one() {
    let controller = free_ports().0;
    let address = format!("controllerAddr=127.0.0.1:{controller}");
    let lines = lines("tls.server.mode=enforcing", &["enableControllerMode=true", &address]);
    let (mut setup, _home) = prepared(&lines);
    setup.roles = "namesrv,broker,proxy,controller".to_owned();
    setup.arguments =
        ["--grpc-port", "0", "--proxy-port", "0", "--controller-port"].map(str::to_owned).into();
    setup.arguments.push(controller.to_string());
    let server = setup.spawn().expect("it can be started");
    let proxy = eventually("it serves", || says(&setup, "the proxy for remoting clients is at "));
    let proxy = proxy.rsplit(':').next().unwrap().parse().unwrap();
    // The broker showed its own certificate, or the controller would not have elected it.
    eventually("it is elected", || says(&setup, "this broker is master"));
    let known = client();
    let stranger = [known[0].clone(), known[3].clone(), known[4].clone()];
    // The same, or the name server would not know it.
    eventually("it is registered", || {
        let found = ask(setup.namesrv(), &known, request::GET_BROKER_CLUSTER_INFO)?;
        found.contains("brokerAddrs").then_some(())
    });
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for (address, code) in [
        (setup.namesrv(), request::GET_BROKER_CLUSTER_INFO),
        (setup.broker(), request::GET_BROKER_CONFIG),
        (setup.vip(), request::GET_BROKER_CONFIG),
        (local(proxy), request::GET_BROKER_CLUSTER_INFO),
        (local(controller), request::CONTROLLER_GET_METADATA_INFO),
    ] {
        eventually(&format!("{address} answers"), || ask(address, &known, code));
        assert_eq!(ask(address, &stranger, code), None, "{address} without a certificate");
        assert_eq!(ask(address, &[], code), None, "{address} without TLS");
    }
    assert!(server.terminate().success());
}

/// The output of a command of operators at a server, with TLS settings in the environment.
fn operate(setup: &Setup, words: &[&str], settings: &[(&str, String)]) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vostok"));
    command.args(words).args(["-n", &setup.namesrv().to_string()]).env("LC_ALL", "C");
    command.env_remove("NAMESRV_ADDR").env_remove("ROCKETMQ_HOME");
    let name = |key: &str| format!("ROCKETMQ_{}", key.replace('.', "_").to_uppercase());
    output(command.envs(settings.iter().map(|(key, value)| (name(key), value))))
}

/// The environment of `mqadmin` has the `tls.*` settings of RocketMQ's clients (`TlsSystemConfig`).
#[test]
fn operators_reach_servers_that_require_tls_with_the_settings_of_clients() {
    let (setup, home) = prepared(&lines("tls.server.mode=enforcing", &["brokerName=broker-a"]));
    let server = setup.spawn().expect("it can be started");
    let known = client();
    eventually("it is registered", || {
        let found = ask(setup.namesrv(), &known, request::GET_BROKER_CLUSTER_INFO)?;
        found.contains("brokerAddrs").then_some(())
    });
    let commands: [(&[&str], &str); 3] = [
        (&["admin", "cluster", "list"], "broker-a"),
        (&["mqadmin", "clusterList"], "broker-a"),
        (&["doctor"], "1 brokers"),
    ];
    for (words, expected) in commands {
        let shows = |settings: &[_]| {
            let text = operate(&setup, words, settings).stdout;
            String::from_utf8_lossy(&text).contains(expected)
        };
        assert!(shows(&known), "{words:?}");
        assert!(!shows(&known[..1]), "{words:?} without the certificate of a client");
        assert!(!shows(&[]), "{words:?} without TLS");
    }
    let file = home.path().join("tls.properties");
    let text: String = known.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    fs::write(&file, text).unwrap();
    let of_file = [("tls.config.file", file.display().to_string())];
    let found = operate(&setup, commands[0].0, &of_file);
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let absent = [("tls.config.file", "/absent/tls.properties".to_owned())];
    let refused = String::from_utf8_lossy(&operate(&setup, commands[0].0, &absent).stderr).into_owned();
    assert!(refused.contains("/absent/tls.properties"), "{refused}");
    assert!(server.terminate().success());
}

/// Whether a master sends something to a slave with these settings that reports an empty log.
fn replicates(address: SocketAddr, settings: &[(&str, String)]) -> bool {
    let mut tls = TlsSettings::default();
    for (key, value) in settings {
        assert!(tls.set(key, value).unwrap(), "{key}");
    }
    let tls = ReplicationTls::new(&Security::new(&tls).unwrap(), &Budget::unbounded());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let Ok(mut stream) = tls.connect(stream).await else { return false };
        stream.write_all(&[0; 8]).await.is_ok()
            && stream.flush().await.is_ok()
            && stream.read_exact(&mut [0; 12]).await.is_ok()
    })
}

#[test]
fn a60_the_port_of_replication_serves_slaves_with_certificates_only() {
    let enforcing = "tls.replication.mode=enforcing";
    let common = [
        "brokerName=group-a",
        "registerNameServerPeriod=1000",
        "tls.enable=false",
        // The test reads and compares whole files.
        "mappedFileSizeCommitLog=8388608",
    ];
    let (master, _home) = prepared(&lines(enforcing, &common));
    let port = SocketAddr::from((Ipv4Addr::LOCALHOST, master.broker_port + 1));
    let serving = master.start().expect("it starts");
    let (slave, _other) = prepared(&lines(enforcing, &common));
    let slave = slave.line("brokerRole=SLAVE").line("brokerId=1").line(format!("haMasterAddress={port}"));
    let following = slave.start().expect("it starts");
    // More than TLS and socket take at once.
    let body = vec![7; 3 << 20];
    open(master.broker()).stored(&send_header("T", 1), &body);
    let log = |setup: &Setup| {
        let log = fs::read(setup.data.join("commitlog/00000000000000000000")).unwrap_or_default();
        log.windows(64).any(|bytes| bytes == &body[..64]).then_some(log)
    };
    let expected = log(&master).expect("it was stored");
    eventually("the slave has the log", || log(&slave).filter(|found| *found == expected));
    let mut known = Vec::from(client());
    known.push(("tls.replication.mode", "enforcing".to_owned()));
    eventually("the master replicates", || replicates(port, &known).then_some(()));
    known.drain(1..3);
    assert!(!replicates(port, &known), "without a certificate");
    assert!(!replicates(port, &[]), "without TLS");
    assert!(following.terminate().success() && serving.terminate().success());
}
