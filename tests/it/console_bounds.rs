//! What the console bounds: connections, the time of a request, attempts to log in; TLS; brokers that ask for authentication.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::common::PATIENCE;
use crate::console::{Console, answer, login, printed, setup};
use crate::stage::eventually;

/// Connections that the console serves at once.
const CONNECTIONS: usize = 256;
/// Time after which the console ends a connection on which no request came.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn a_head_that_does_not_end_is_not_waited_for() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let mut stream = console.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: 127").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the console ends the connection");
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[test]
fn connections_above_the_limit_are_told_so() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let request = console.request("/api/v1/session", &[], None);
    let read = |stream: &mut TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text).unwrap_or_default()
    };
    // Connections that were made too slowly have ended before the last one was made.
    let (held, refused, served) = eventually("all connections are open at once", || {
        let began = Instant::now();
        let mut held: Vec<TcpStream> = (0..CONNECTIONS).map(|_| console.connect()).collect();
        let refused = read(&mut console.connect());
        let mut first = held.swap_remove(0);
        let sent = first.write_all(request.as_bytes());
        let served = sent.map(|()| read(&mut first)).unwrap_or_default();
        (began.elapsed() < HEAD_TIMEOUT).then_some((held, refused, served))
    });
    assert!(refused.contains(" 503 ") && refused.ends_with("Too many open connections"), "{refused}");
    assert!(served.contains(" 200 "), "one that came first is served: {served}");
    eventually("there is room after a connection ended", || {
        (console.ask("/api/v1/session", &[], None).status == 200).then_some(())
    });
    drop(held);
}

#[test]
fn attempts_to_log_in_are_slowed_down() {
    let home = tempfile::tempdir().unwrap();
    login(home.path(), "root", "admin");
    let console = Console::start(home);
    let (cookie, token) = console.session("/login");
    let headers = [format!("Cookie: {cookie}"), format!("Origin: http://{}", console.host)];
    let form = format!("_token={token}&name=root&password=wrong");
    let request = console.request("/login", &[&headers[0], &headers[1]], Some(&form));
    let began = Instant::now();
    let send = |mut stream: TcpStream| {
        stream.write_all(request.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut sent: Vec<TcpStream> = (0..200).map(|_| send(console.connect())).collect();
    // Ten at once, then one a second, and above a minute of those none.
    let (mut checked, mut refused) = (0, 0);
    while checked == 0 || refused < 130_u64.saturating_sub(began.elapsed().as_secs()) {
        sent.retain_mut(|stream| {
            let mut begin = [0; 12];
            match stream.read(&mut begin) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                read => assert_eq!(read.unwrap(), begin.len()),
            }
            match &begin[9..] {
                b"200" => checked += 1,
                b"429" => refused += 1,
                other => panic!("{other:?}"),
            }
            false
        });
        assert!(began.elapsed() < PATIENCE, "{refused} of 200 refused");
        std::thread::yield_now();
    }
    assert!(checked <= 10 + began.elapsed().as_secs(), "{checked} in {:?}", began.elapsed());
    let audit = std::fs::read_to_string(console.server.setup().data.join("console/audit.log")).unwrap();
    assert!(audit.lines().count() as u64 <= 10 + began.elapsed().as_secs(), "{audit}");
}

fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/net/src/tls/golden").join(name);
    path.display().to_string()
}

#[test]
fn the_console_has_tls_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    login(home.path(), "root", "admin");
    let mut setup = setup(home.path(), "0.0.0.0:0");
    let certificate = ["--console-cert", &golden("certificate.pem"), "--console-key", &golden("key.pem")];
    setup.arguments.extend(certificate.map(str::to_owned));
    let console = Console::start_as(home, setup);
    printed(console.server.setup(), "Console:  https://");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(golden("ca.pem")).unwrap()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connection =
        ClientConnection::new(Arc::new(client), ServerName::try_from("broker").unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, console.connect());
    stream.write_all(console.request("/login", &[], None).as_bytes()).unwrap();
    let page = answer(&mut stream);
    assert!(page.status == 200 && page.head.contains("SameSite=Strict; Secure"), "{}", page.head);
    let mut plain = console.connect();
    plain.write_all(console.request("/login", &[], None).as_bytes()).unwrap();
    let mut told = Vec::new();
    // The end of a refused connection may be a reset.
    let _ = plain.read_to_end(&mut told);
    assert!(!told.starts_with(b"HTTP"), "a password could be typed without TLS");
    let log = std::fs::read_to_string(console.server.setup().log()).unwrap();
    assert!(!log.contains("has no TLS"), "{log}");
}

#[test]
fn a_console_without_keys_says_what_brokers_with_users_want() {
    let provider = "org.apache.rocketmq.auth.authentication.provider";
    let lines = [
        "authenticationEnabled=true".to_owned(),
        format!("authenticationProvider={provider}.DefaultAuthenticationProvider"),
        format!("authenticationMetadataProvider={provider}.LocalAuthenticationMetadataProvider"),
        "initAuthenticationUser={\"username\":\"root\",\"password\":\"root-secret\"}".to_owned(),
        "innerClientAuthenticationCredentials={\"accessKey\":\"root\",\"secretKey\":\"root-secret\"}"
            .to_owned(),
    ];
    let home = tempfile::tempdir().unwrap();
    let mut guarded = setup(home.path(), "127.0.0.1:0");
    guarded.lines = lines.to_vec();
    let keys = home.path().join("keys.yml");
    std::fs::write(&keys, "accessKey: root\nsecretKey: root-secret\n").unwrap();
    let mut with_keys = guarded.clone();
    with_keys.arguments.extend(["--console-keys".to_owned(), keys.display().to_string()]);
    let console = Console::start_as(home, guarded);
    // Before the broker is registered there are no groups, and nobody refuses anything.
    let groups = eventually("the broker is asked", || {
        Some(console.ask("/api/v1/groups", &[], None)).filter(|groups| groups.status != 200)
    });
    assert!(groups.status == 502 && groups.body.contains("--console-keys FILE"), "{}", groups.body);
    printed(console.server.setup(), "a broker refuses the console: where brokers ask for authentication");
    let overview = console.ask("/", &[], None);
    assert!(overview.body.contains("A broker refuses the console"), "{}", overview.body);
    let Console { server, _home: home, .. } = console;
    assert!(server.terminate().success());
    std::fs::remove_file(with_keys.log()).unwrap();
    let console = Console::start_as(home, with_keys);
    let groups = console.ask("/api/v1/groups", &[], None);
    assert_eq!(groups.status, 200, "{}", groups.body);
    printed(console.server.setup(), "whoever reaches the console on this machine acts with the keys");
}
