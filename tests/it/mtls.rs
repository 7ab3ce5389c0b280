//! TLS with client certificates (mTLS) on the ports of a process, and on the calls that its roles make.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use net::tls::{Security, TlsSettings};
use net::{ConnectionHandle, Limits, Service, Workers};
use wire::codes::request;
use wire::frame::{Command, Encoding};

use crate::stage::{eventually, setup};

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
fn ask(address: SocketAddr, settings: &[(&str, String)], code: i32) -> Option<String> {
    let mut tls = TlsSettings::default();
    for (key, value) in settings {
        assert!(tls.set(key, value).unwrap(), "{key}");
    }
    let security = Security::new(&tls).unwrap();
    let workers = Workers::start_secured("mtls", 1, Limits::default(), security).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let peer = workers.dial(address, Arc::new(Silent)).await.ok()?;
        let call = peer.call(Encoding::Json, code, Duration::from_secs(10), |writer| writer.finish(b""));
        match call.await {
            Ok(reply) => Some(String::from_utf8_lossy(&reply.body).into_owned()),
            Err(net::CallError::Closed(_)) => None,
            Err(late) => panic!("{late}"),
        }
    });
    workers.shutdown();
    answer
}

#[test]
fn a60_ports_that_require_certificates_serve_nobody_without_one() {
    let server = [
        ("tls.server.mode", "enforcing".to_owned()),
        ("tls.test.mode.enable", "false".to_owned()),
        ("tls.server.need.client.auth", "require".to_owned()),
        ("tls.server.authClient", "true".to_owned()),
        ("tls.server.certPath", golden("certificate.pem")),
        ("tls.server.keyPath", golden("key.pem")),
        ("tls.server.trustCertPath", golden("ca.pem")),
    ];
    let lines: Vec<_> = server.iter().chain(&client()).map(|(key, value)| format!("{key}={value}")).collect();
    let (setup, _home) = setup(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let server = setup.spawn().expect("it can be started");
    let says = |what: &str| fs::read_to_string(setup.log()).unwrap().contains(what).then_some(());
    eventually("it serves", || says("The broker["));
    let known = client();
    let stranger = [known[0].clone(), known[3].clone(), known[4].clone()];
    // The broker showed its own certificate, or the name server would not know it.
    eventually("it is registered", || {
        let found = ask(setup.namesrv(), &known, request::GET_BROKER_CLUSTER_INFO)?;
        found.contains("brokerAddrs").then_some(())
    });
    for (address, code) in [
        (setup.namesrv(), request::GET_BROKER_CLUSTER_INFO),
        (setup.broker(), request::GET_BROKER_CONFIG),
        (setup.vip(), request::GET_BROKER_CONFIG),
    ] {
        assert!(ask(address, &known, code).is_some_and(|body| !body.is_empty()), "{address}");
        assert_eq!(ask(address, &stranger, code), None, "{address} without a certificate");
        assert_eq!(ask(address, &[], code), None, "{address} without TLS");
    }
    assert!(server.terminate().success());
}
