#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
//! Handshakes over a real socket, with this crate on both sides. `golden/` holds a certificate signed by `ca.pem`, its key,
//! and the key encrypted with the password `1234`, all made by OpenSSL.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wire::frame::{Command, Encoding, FrameWriter, Head};

use super::{ClientAuth, KeyPair, Security, TlsMode, TlsSettings};
use crate::{Budget, CallError, ConnectionHandle, ConnectionLimits, Limits, Service, Workers, greet_http2};

/// Answers with the request's body and the client's address.
struct Echo;

impl Service for Echo {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, _turn: &mut (), peer: &Arc<ConnectionHandle>, command: Command<'_>, out: &mut Vec<u8>) {
        FrameWriter::begin(out, command.response(0))
            .text("from", &peer.remote().to_string())
            .finish(command.body);
    }
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/tls/golden").join(name)
}

fn identity() -> Option<KeyPair> {
    Some(KeyPair { certificate: golden("certificate.pem"), key: golden("key.pem"), password: None })
}

/// Longest wait of a test for an outcome. An outcome that comes late is as good as an early one.
const OUTCOME_CAP: Duration = Duration::from_secs(120);

fn started(settings: &TlsSettings) -> Workers {
    let security = Security::new(settings).unwrap();
    Workers::start_secured("tls", 1, Limits::default(), security).unwrap()
}

fn serve(settings: &TlsSettings) -> (Workers, SocketAddr) {
    let workers = started(settings);
    let address = workers.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Echo)).unwrap();
    (workers, address)
}

/// Whether a client with these settings gets its echo, with a body larger than TLS takes at once.
fn reaches(address: SocketAddr, settings: &TlsSettings) -> bool {
    let workers = started(settings);
    let body = vec![7_u8; 1 << 20];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let Ok(peer) = workers.dial(address, Arc::new(Echo)).await else { return false };
        let sent = body.clone();
        let call = peer.call(Encoding::Binary, 1, OUTCOME_CAP, move |writer| writer.finish(&sent));
        match call.await {
            Ok(reply) => reply.body == body,
            Err(CallError::Closed(_)) => false,
            Err(late) => panic!("{late}"),
        }
    });
    workers.shutdown();
    answer
}

fn check(server: &TlsSettings, callers: &[(&TlsSettings, bool)]) {
    let (workers, address) = serve(server);
    for (caller, expected) in callers {
        assert_eq!(reaches(address, caller), *expected, "server {server:?} caller {caller:?}");
    }
    workers.shutdown();
}

fn calling() -> TlsSettings {
    TlsSettings { client_enabled: Some(true), ..TlsSettings::default() }
}

#[test]
fn the_mode_says_which_connections_are_served() {
    let plain = TlsSettings::default();
    for (mode, takes_plain, takes_tls) in [
        (TlsMode::Disabled, true, false),
        (TlsMode::Permissive, true, true),
        (TlsMode::Enforcing, false, true),
    ] {
        let server = TlsSettings { mode, ..TlsSettings::default() };
        check(&server, &[(&plain, takes_plain), (&calling(), takes_tls)]);
    }
}

#[test]
fn a_server_is_trusted_by_who_signed_it() {
    let server = TlsSettings { server: identity(), ..TlsSettings::default() };
    let trusting = |file| TlsSettings { verify_server: true, client_trust: Some(golden(file)), ..calling() };
    check(&server, &[(&trusting("ca.pem"), true), (&trusting("other-ca.pem"), false), (&calling(), true)]);
    let own = TlsSettings { server: identity(), test: Some(true), ..TlsSettings::default() };
    check(&own, &[(&trusting("ca.pem"), false)]);
}

#[test]
fn the_end_of_a_servers_certificate_is_told_whoever_signed_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ends_ms = |settings: &TlsSettings| {
        let (workers, address) = serve(settings);
        let ends_ms = runtime.block_on(super::certificate_ends_ms(&address.to_string()));
        workers.shutdown();
        ends_ms.ok()
    };
    let server = TlsSettings { server: identity(), test: Some(false), ..TlsSettings::default() };
    assert_eq!(ends_ms(&server), Some(4_948_897_447_000), "2126-10-28 21:44:07 UTC");
    let plain = TlsSettings { mode: TlsMode::Disabled, ..server };
    assert_eq!(ends_ms(&plain), None);
}

#[test]
fn a_server_of_http2_is_trusted_by_name_and_signature() {
    let serving = TlsSettings { server: identity(), test: Some(false), ..TlsSettings::default() };
    let mut config = (*super::files::server_config(&serving).unwrap()).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = |host: &str, trust: &str| {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let accepted = async { acceptor.accept(listener.accept().await.unwrap().0).await };
            let trust = golden(trust);
            let (client, server) = tokio::join!(super::connect_http2(host, stream, &trust), accepted);
            let protocol = server.ok().and_then(|it| it.get_ref().1.alpn_protocol().map(<[u8]>::to_vec));
            client.map(|_| protocol).map_err(|error| error.to_string())
        })
    };
    assert_eq!(outcome("broker", "ca.pem"), Ok(Some(b"h2".to_vec())));
    for (host, trust) in [("other", "ca.pem"), ("broker", "other-ca.pem"), ("broker", "key.pem")] {
        assert!(outcome(host, trust).is_err(), "{host} {trust}");
    }
}

#[test]
fn callers_show_certificates_when_asked() {
    let known = TlsSettings { client: identity(), ..calling() };
    let asking = |client_auth, trust: Option<&str>| TlsSettings {
        server: identity(),
        client_auth,
        verify_client: trust.is_some(),
        server_trust: trust.map(golden),
        ..TlsSettings::default()
    };
    check(&asking(ClientAuth::Require, None), &[(&known, true), (&calling(), false)]);
    check(&asking(ClientAuth::Require, Some("ca.pem")), &[(&known, true), (&calling(), false)]);
    check(&asking(ClientAuth::Require, Some("other-ca.pem")), &[(&known, false)]);
    check(&asking(ClientAuth::Optional, Some("ca.pem")), &[(&known, true), (&calling(), true)]);
}

/// Whether a client with these settings gets its bytes back from a server that greets connections of HTTP/2, as that of gRPC does.
fn reaches_http2(server: &TlsSettings, caller: &TlsSettings) -> bool {
    let (server, client) = (Security::new(server).unwrap(), Security::new(caller).unwrap().client.unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (stream, remote) = listener.accept().await.unwrap();
            let place = Budget::unbounded().admit(remote.ip(), &server).unwrap();
            let Ok((mut stream, _)) = greet_http2(stream, &server, &place).await else { return };
            let mut bytes = [0; 3];
            if stream.read_exact(&mut bytes).await.is_ok() {
                // The client may have ended the connection.
                let _ = stream.write_all(&bytes).await;
                let _ = stream.flush().await;
            }
        };
        let ask = async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            // With TLS 1.3 a client learns only after its handshake that its certificate is missing.
            let Ok(mut stream) = client.connect(stream).await else { return false };
            let mut bytes = [0; 3];
            stream.write_all(b"PRI").await.is_ok()
                && stream.flush().await.is_ok()
                && stream.read_exact(&mut bytes).await.is_ok()
                && bytes == *b"PRI"
        };
        tokio::join!(serve, ask).1
    })
}

#[test]
fn callers_of_grpc_show_certificates_when_asked() {
    let known = TlsSettings { client: identity(), ..calling() };
    let asking = |trust: &str| TlsSettings {
        server: identity(),
        client_auth: ClientAuth::Require,
        verify_client: true,
        server_trust: Some(golden(trust)),
        ..TlsSettings::default()
    };
    assert!(reaches_http2(&asking("ca.pem"), &known));
    assert!(!reaches_http2(&asking("ca.pem"), &calling()), "without a certificate");
    assert!(!reaches_http2(&asking("other-ca.pem"), &known), "signed by somebody else");
}

#[test]
fn handshakes_of_a_second_are_bounded_and_plain_connections_are_not() {
    let settings = TlsSettings { server: identity(), ..TlsSettings::default() };
    let limits = ConnectionLimits { handshakes_per_second: 0, ..ConnectionLimits::default() };
    let budget = Budget::limited(0, limits);
    let security = Security::new(&settings).unwrap();
    let workers = Workers::start_within("tls", 1, Limits::default(), security, budget).unwrap();
    let address = workers.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Echo)).unwrap();
    assert!(!reaches(address, &calling()), "no handshake is allowed");
    assert!(reaches(address, &TlsSettings::default()), "a plain connection needs none");
    workers.shutdown();
}

#[test]
fn a_hello_that_is_not_complete_takes_no_handshake_from_others() {
    let settings = TlsSettings { server: identity(), ..TlsSettings::default() };
    let limits = ConnectionLimits { handshakes_per_second: 1, ..ConnectionLimits::default() };
    let security = Security::new(&settings).unwrap();
    let budget = Budget::limited(0, limits);
    let workers = Workers::start_within("tls", 1, Limits::default(), security, budget).unwrap();
    let address = workers.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Echo)).unwrap();
    let silent: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[0x16]).unwrap();
            stream
        })
        .collect();
    assert!(reaches(address, &calling()));
    drop(silent);
    workers.shutdown();
}

/// A reload uses new certificates for new connections. Open connections continue.
#[test]
fn a_changed_certificate_ends_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    for name in ["certificate.pem", "key.pem"] {
        std::fs::copy(golden(name), place(name)).unwrap();
    }
    let files = KeyPair { certificate: place("certificate.pem"), key: place("key.pem"), password: None };
    let settings = TlsSettings { server: Some(files), ..TlsSettings::default() };
    let security = Security::new(&settings).unwrap();
    let tls = security.server.clone().unwrap();
    let workers = Workers::start_secured("tls", 1, Limits::default(), security).unwrap();
    let address = workers.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Echo)).unwrap();
    let clients = started(&calling());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let open = runtime.block_on(clients.dial(address, Arc::new(Echo))).unwrap();
    let echoes = || {
        let call = open.call(Encoding::Json, 1, OUTCOME_CAP, |writer| writer.finish(b"x"));
        runtime.block_on(call).is_ok_and(|reply| reply.body == b"x")
    };
    assert!(echoes());
    let before = tls.current();
    {
        let mut loaded = tls.loaded.lock().unwrap();
        loaded.looked -= super::RELOAD_INTERVAL;
        loaded.stamps = Vec::new();
    }
    assert!(reaches(address, &calling()), "a new connection");
    assert!(!Arc::ptr_eq(&before, &tls.current()), "the files were read again");
    assert!(echoes(), "the connection from before");
    clients.shutdown();
    workers.shutdown();
}

#[test]
fn an_encrypted_key_needs_its_password() {
    let with = |password: Option<&str>| TlsSettings {
        server: Some(KeyPair {
            key: golden("key-1234.pem"),
            password: password.map(str::to_owned),
            ..identity().unwrap()
        }),
        ..TlsSettings::default()
    };
    check(&with(Some("1234")), &[(&calling(), true)]);
    for (password, expected) in [(None, "the key is encrypted"), (Some("4321"), "wrong password")] {
        let error = Security::new(&with(password)).unwrap_err().to_string();
        assert!(error.contains("key-1234.pem") && error.contains(expected), "{error}");
    }
}

#[test]
fn settings_are_read_by_their_names() {
    let mut settings = TlsSettings::default();
    for name in TlsSettings::NAMES {
        assert!(settings.set(name, "").unwrap(), "{name}");
    }
    assert!(!settings.set("listenPort", "1").unwrap());
    for (name, value, expected) in [
        ("tls.server.mode", "on", "tls.server.mode=on: expected disabled, permissive or enforcing"),
        (
            "tls.server.need.client.auth",
            "yes",
            "tls.server.need.client.auth=yes: expected none, optional or require",
        ),
    ] {
        assert_eq!(settings.set(name, value).unwrap_err().to_string(), expected);
    }
    settings.set("tls.protocols", "TLSv1.3").unwrap();
    settings.set("tls.ciphers", "TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").unwrap();
    Security::new(&settings).unwrap();
    settings.set("tls.ciphers", "TLS_RSA_WITH_RC4_128_MD5").unwrap();
    let error = Security::new(&settings).unwrap_err().to_string();
    assert!(error.contains("TLS_AES_256_GCM_SHA384"), "{error}");
}

#[test]
fn changed_certificates_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let put = |certificate: &str| std::fs::copy(golden(certificate), place("certificate.pem")).unwrap();
    std::fs::copy(golden("key.pem"), place("key.pem")).unwrap();
    put("certificate.pem");
    let files = KeyPair { certificate: place("certificate.pem"), key: place("key.pem"), password: None };
    let settings = TlsSettings { server: Some(files), ..TlsSettings::default() };
    let server = Security::new(&settings).unwrap().server.unwrap();
    let before = server.current();
    let age = |server: &super::ServerTls| {
        let mut loaded = server.loaded.lock().unwrap();
        loaded.looked -= super::RELOAD_INTERVAL;
        loaded.stamps = Vec::new();
    };
    assert!(Arc::ptr_eq(&before, &server.current()));
    age(&server);
    let after = server.current();
    assert!(!Arc::ptr_eq(&before, &after));
    // A certificate that does not belong to the key is not loaded.
    put("ca.pem");
    age(&server);
    assert!(Arc::ptr_eq(&after, &server.current()));
}

/// The client's address as the server saw it; nothing when the server closed the connection.
fn seen(address: SocketAddr, preamble: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(OUTCOME_CAP)).unwrap();
    let mut bytes = preamble.to_vec();
    Head::request(Encoding::Json, 1, 1).write(&mut bytes, b"");
    stream.write_all(&bytes).unwrap();
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).ok()?;
    let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
    frame.resize(4 + length, 0);
    stream.read_exact(&mut frame[4..]).ok()?;
    let command = Command::decode(&mut frame).unwrap();
    Some(command.fields.text("from").unwrap().to_owned())
}

#[test]
fn a_proxy_says_who_calls() {
    let (workers, address) = serve(&TlsSettings::default());
    let second = |command: u8, family: u8, addresses: &[u8]| {
        let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        bytes.extend([0x20 | command, family]);
        bytes.extend((addresses.len() as u16).to_be_bytes());
        bytes.extend(addresses);
        bytes
    };
    let four = [10, 0, 0, 9, 10, 0, 0, 2, 0x1F, 0x90, 0x2A, 0x9F];
    let mut six = [0_u8; 36];
    six[15] = 1;
    six[31] = 2;
    six[32..34].copy_from_slice(&443_u16.to_be_bytes());
    for (preamble, expected) in [
        (b"PROXY TCP4 10.0.0.9 10.0.0.2 56324 10911\r\n".to_vec(), "10.0.0.9:56324"),
        (b"PROXY TCP6 2001:db8::9 ::1 443 10911\r\n".to_vec(), "[2001:db8::9]:443"),
        (second(1, 0x11, &four), "10.0.0.9:8080"),
        (second(1, 0x21, &six), "[::1]:443"),
        (second(1, 0x11, &[&four[..], &[0xE0, 0, 2, b'h', b'i']].concat()), "10.0.0.9:8080"),
    ] {
        assert_eq!(seen(address, &preamble).as_deref(), Some(expected));
    }
    for preamble in [b"".to_vec(), b"PROXY UNKNOWN\r\n".to_vec(), second(0, 0, &[])] {
        assert!(seen(address, &preamble).unwrap().starts_with("127.0.0.1:"), "{preamble:?}");
    }
    for broken in [b"PROXY TCP4 10.0.0.9\r\n".to_vec(), [b"PROXY ".to_vec(), vec![b'x'; 200]].concat()] {
        assert_eq!(seen(address, &broken), None, "{broken:?}");
    }
    workers.shutdown();
}

#[test]
fn a_preamble_is_believed_from_trusted_addresses_alone() {
    // A listener for both families sees IPv4 clients as ::ffff:127.0.0.1.
    for (trusted, believed) in [
        ("127.0.0.0/8;::1", [true, true]),
        ("127.0.0.1", [true, false]),
        ("::/0", [false, true]),
        ("10.0.0.0/8", [false, false]),
        ("", [false, false]),
    ] {
        let security = Security { proxies: trusted.parse().unwrap(), ..Security::default() };
        let workers = Workers::start_secured("proxies", 1, Limits::default(), security).unwrap();
        let port = workers.listen("0.0.0.0:0".parse().unwrap(), Arc::new(Echo)).unwrap().port();
        for (loopback, believed) in ["127.0.0.1", "::1"].into_iter().zip(believed) {
            let address = SocketAddr::new(loopback.parse().unwrap(), port);
            if let Err(error) = TcpStream::connect(address) {
                eprintln!("SKIPPED: {address} cannot be reached ({error})");
                continue;
            }
            let text = b"PROXY TCP4 10.0.0.9 10.0.0.2 56324 10911\r\n";
            let expected = believed.then_some("10.0.0.9:56324");
            assert_eq!(seen(address, text).as_deref(), expected, "{loopback} by {trusted:?}");
            assert_eq!(seen(address, b"PROXY UNKNOWN\r\n").is_some(), believed);
            assert!(seen(address, b"").is_some(), "without a preamble everybody is served");
        }
        workers.shutdown();
    }
}

#[test]
fn what_tls_keeps_is_counted() {
    let (server, address) = serve(&TlsSettings::default());
    let callers = started(&TlsSettings { client_enabled: Some(true), ..TlsSettings::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let peer = callers.dial(address, Arc::new(Echo)).await.unwrap();
        peer.call(Encoding::Binary, 1, OUTCOME_CAP, |writer| writer.finish(b"")).await.unwrap();
    });
    // The connection counts its memory before it waits for more bytes.
    let deadline = std::time::Instant::now() + OUTCOME_CAP;
    while server.budget().held() == 0 {
        assert!(std::time::Instant::now() < deadline, "not counted within {OUTCOME_CAP:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    callers.shutdown();
    server.shutdown();
    assert_eq!(server.budget().held(), 0);
}
