//! What the console bounds: connections, the time of a request, attempts to log in; TLS; brokers that ask for authentication.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::common::PATIENCE;
use crate::common::server::Setup;
use crate::console::{Console, answer, login, printed, setup};
use crate::stage::eventually;

/// Connections that the console serves at once, and those of one address.
const CONNECTIONS: usize = 256;
const CONNECTIONS_PER_ADDRESS: usize = 64;
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

/// A connection to the console from an address of this machine.
fn connect_from(source: Ipv4Addr, console: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        socket.connect(console.parse().unwrap()).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn connections_above_the_limit_are_told_so() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let request = console.request("/api/v1/session", &[], None);
    let read = |stream: &mut TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text).unwrap_or_default()
    };
    let ask = |stream: &mut TcpStream| stream.write_all(request.as_bytes()).map(|()| read(stream));
    let is_refused = |text: &str| text.contains(" 503 ") && text.ends_with("Too many open connections");
    // Connections that were made too slowly have ended before the last one was made.
    let held = eventually("all connections are open at once", || {
        let began = Instant::now();
        let mut held = Vec::new();
        for address in 1..=CONNECTIONS / CONNECTIONS_PER_ADDRESS {
            let from = |last: usize| connect_from(Ipv4Addr::new(127, 0, 0, last as u8), &console.host);
            held.extend((0..CONNECTIONS_PER_ADDRESS).map(|_| from(address)));
            let of_the_same = read(&mut from(address));
            let of_another = ask(&mut from(address + 1)).unwrap_or_default();
            if began.elapsed() >= HEAD_TIMEOUT {
                return None;
            }
            assert!(is_refused(&of_the_same), "{of_the_same}");
            let has_room = held.len() < CONNECTIONS;
            assert_eq!(of_another.contains(" 200 "), has_room, "{address}: {of_another}");
        }
        let first = ask(&mut held.swap_remove(0)).unwrap_or_default();
        if began.elapsed() >= HEAD_TIMEOUT {
            return None;
        }
        assert!(first.contains(" 200 "), "a connection that came first is served: {first}");
        Some(held)
    });
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
                // A connection above the bound of an address is closed before its request is read.
                Err(_) => refused += 1,
                Ok(read) => match &begin[9..read] {
                    b"200" => checked += 1,
                    b"429" | b"503" => refused += 1,
                    other => panic!("{other:?}"),
                },
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
fn damaged_logins_keep_the_console_down_and_no_broker() {
    for damage in ["", "{\"root\":", "[1]"] {
        let home = tempfile::tempdir().unwrap();
        login(home.path(), "root", "admin");
        let setup = setup(home.path(), "127.0.0.1:0");
        std::fs::write(setup.data.join("console/users.json"), damage).unwrap();
        let server = setup.start().unwrap();
        let line = printed(&setup, "there is NO CONSOLE");
        assert!(line.contains("users.json") && line.contains("console user NAME"), "{line}");
        drop(server);
        // A process without another role has nothing to serve.
        let alone = Setup { roles: "console".to_owned(), with_conf: false, ..setup.clone() };
        let ended = alone.spawn().unwrap().wait().unwrap();
        assert!(!ended.success() && alone.log_tail().contains("users.json"), "{}", alone.log_tail());
        std::fs::remove_file(setup.data.join("console/users.json")).unwrap();
        login(home.path(), "root", "admin");
        Console::start_as(home, setup);
    }
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
