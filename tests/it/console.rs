//! The web console: what browsers may do, and the way of a message through its pages.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use wire::codes::request;

use crate::common::PATIENCE;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::Connection;
use crate::stage::{await_registered, eventually};

const EVIL: &str = "<script>alert(1)</script>";

/// A server with a console on a port that the system chose.
pub struct Console {
    pub server: Server,
    /// `127.0.0.1:PORT`.
    pub host: String,
    pub _home: TempDir,
}

/// An answer: status, head, body.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

pub fn setup(home: &Path, address: &str) -> Setup {
    let mut setup = Setup::new(env!("CARGO_BIN_EXE_vostok"), home.join("data"), home.join("desk"));
    setup.roles = "namesrv,broker,console".to_owned();
    setup.arguments = vec!["--console".to_owned(), address.to_owned()];
    setup
}

/// Makes a login and returns its password.
pub fn login(home: &Path, name: &str, role: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
    command.args(["console", "user", name, "--role", role, "--data"]).arg(home.join("data"));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().rsplit_once(' ').unwrap_or_else(|| panic!("{text}")).1.to_owned()
}

/// Waits until the server printed a line with a text; what stands behind the text.
pub fn printed(setup: &Setup, text: &str) -> String {
    eventually(&format!("\"{text}\" is in {}", setup.log().display()), || {
        let log = std::fs::read_to_string(setup.log()).unwrap();
        log.lines().find_map(|line| line.split_once(text)).map(|line| line.1.to_owned())
    })
}

impl Console {
    pub fn start(home: TempDir) -> Self {
        let setup = setup(home.path(), "127.0.0.1:0");
        let console = Self::start_as(home, setup);
        await_registered(&console.server);
        console
    }

    pub fn start_as(home: TempDir, setup: Setup) -> Self {
        Self::of(home, setup.start().unwrap())
    }

    /// The console of a server that was started.
    pub fn of(home: TempDir, server: Server) -> Self {
        let line = printed(server.setup(), "Console:  ");
        let host = line.split("//").nth(1).unwrap().trim_end_matches('/').to_owned();
        Self { server, host, _home: home }
    }

    /// Sends a request with some header lines; a form makes it a POST. Repeats the request while the console itself got an answer of a
    /// broker too late.
    pub fn ask(&self, path: &str, headers: &[&str], form: Option<&str>) -> Answer {
        eventually(path, || {
            let mut stream = self.connect();
            stream.write_all(self.request(path, headers, form).as_bytes()).unwrap();
            Some(answer(&mut stream)).filter(|answer| !answer.body.contains("no answer from"))
        })
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn request(&self, path: &str, headers: &[&str], form: Option<&str>) -> String {
        let method = if form.is_some() { "POST" } else { "GET" };
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|line| line.starts_with("Host:")) {
            text += &format!("Host: {}\r\n", self.host);
        }
        headers.iter().for_each(|line| text += &format!("{line}\r\n"));
        let form = form.unwrap_or_default();
        text + &format!("Content-Length: {}\r\n\r\n{form}", form.len())
    }

    /// The cookie of a new session and the token that belongs to it.
    pub fn session(&self, path: &str) -> (String, String) {
        let page = self.ask(path, &[], None);
        let cookie = cookie(&page);
        let page = self.ask(path, &[&format!("Cookie: {cookie}")], None);
        let token =
            page.body.split("name=\"_token\" value=\"").nth(1).unwrap_or_else(|| panic!("{}", page.body));
        (cookie, token.split('"').next().unwrap().to_owned())
    }

    /// Sends a form as a page of the console does.
    pub fn post(&self, path: &str, (cookie, token): &(String, String), form: &str) -> Answer {
        let headers = [format!("Cookie: {cookie}"), format!("Origin: http://{}", self.host)];
        self.ask(path, &[&headers[0], &headers[1]], Some(&format!("_token={token}&{form}")))
    }

    /// Logs in; the session with its token.
    pub fn log_in(&self, name: &str, password: &str) -> (String, String) {
        let anonymous = self.session("/login");
        let answer = self.post("/login", &anonymous, &format!("name={name}&password={password}"));
        assert_eq!(answer.status, 303, "{}", answer.body);
        let cookie = cookie(&answer);
        let page = self.ask("/api/v1/session", &[&format!("Cookie: {cookie}")], None);
        let token = page.body.split("\"token\":\"").nth(1).unwrap_or_else(|| panic!("{}", page.body));
        (cookie, token.split('"').next().unwrap().to_owned())
    }
}

/// The answer to a request that was sent.
pub fn answer(stream: &mut impl Read) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn cookie(answer: &Answer) -> String {
    let line = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: vostok_console="));
    let value = line.unwrap_or_else(|| panic!("{}", answer.head)).split(';').next().unwrap();
    format!("vostok_console={value}")
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn a_topic_is_created_and_a_message_sent_and_found_by_its_key() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let session = console.session("/op/topic/create");
    let topic = "topic=Orders&cluster=DefaultCluster";
    let preview = console.post("/op/topic/create", &session, topic);
    assert!(preview.body.contains("UPDATE_AND_CREATE_TOPIC"), "{}", preview.body);
    assert_eq!(console.ask("/api/v1/topic?name=Orders", &[], None).status, 404, "only previewed");
    let created = console.post("/op/topic/create", &session, &format!("{topic}&_step=go"));
    assert_eq!(created.status, 200, "{}", created.body);
    let listed = console.ask("/api/v1/topics?q=orders", &[], None);
    assert!(listed.body.contains("\"topic\":\"Orders\""), "{}", listed.body);
    let evil = encoded(EVIL);
    let form = format!("topic=Orders&body={evil}&keys={evil}&_step=go");
    let sent = console.post("/op/message/send", &session, &form);
    assert!(sent.body.contains("SEND_OK"), "{}", sent.body);
    let by_key = format!("/messages?topic=Orders&by=key&value={evil}");
    // The key index is written behind the answer to the send.
    let found = eventually("the message is found by its key", || {
        Some(console.ask(&by_key, &[], None)).filter(|found| found.body.contains("/message?topic=Orders"))
    });
    let id = found.body.split("/message?topic=Orders&amp;id=").nth(1).unwrap().split('"').next().unwrap();
    let message = console.ask(&format!("/message?topic=Orders&id={id}"), &[], None);
    assert!(message.body.contains("&lt;script&gt;alert(1)&lt;/script&gt;</pre>"), "{}", message.body);
    for page in [&preview, &sent, &found, &message] {
        assert!(!page.body.contains(EVIL), "{}", page.body);
    }
    let delete = "topic=Orders&cluster=DefaultCluster&_step=go";
    assert_eq!(console.post("/op/topic/delete", &session, delete).status, 400, "the name was not typed");
    let deleted = console.post("/op/topic/delete", &session, &format!("{delete}&_confirm=Orders"));
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    let audit = console.ask("/api/v1/audit", &[], None).body;
    assert!(audit.contains("topic delete topic=Orders"), "{audit}");
    let page = console.ask("/audit", &[], None).body;
    assert!(page.contains("&lt;script&gt;") && !page.contains(EVIL), "{page}");
    assert!(audit.contains("body=(not shown)"), "{audit}");
    assert!(console.server.terminate().success());
}

#[test]
fn forms_that_change_a_topic_or_a_group_begin_with_what_they_have() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let session = console.session("/op/topic/create");
    let topic = "topic=Orders&cluster=DefaultCluster&read-queues=3&write-queues=3&perm=4&order=true&_step=go";
    assert_eq!(console.post("/op/topic/create", &session, topic).status, 200);
    let group = "group=CG&cluster=DefaultCluster&retry-max=3&broadcast=true&from-min=true&_step=go";
    assert_eq!(console.post("/op/group/create", &session, group).status, 200);
    let page = eventually("the topic is known", || {
        Some(console.ask("/topic?name=Orders", &[], None)).filter(|page| page.status == 200)
    });
    let link = "/op/topic/create?topic=Orders&amp;cluster=DefaultCluster&amp;read-queues=3&amp;write-queues=3&amp;perm=4&amp;order=true";
    assert!(page.body.contains(link), "{}", page.body);
    let page = console.ask("/group?name=CG", &[], None).body;
    let link =
        page.split("/op/group/create?").nth(1).unwrap_or_else(|| panic!("{page}")).split('"').next().unwrap();
    for given in ["group=CG", "cluster=DefaultCluster", "retry-max=3", "broadcast=true", "from-min=true"] {
        assert!(link.split("&amp;").any(|it| it == given), "{given} is not in {link}");
    }
    let form = console.ask(&format!("/op/group/create?{}", link.replace("&amp;", "&")), &[], None).body;
    assert!(form.contains("name=\"retry-max\" value=\"3\""), "{form}");
}

#[test]
fn the_data_of_a_group_says_null_for_no_owner_in_both_languages() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let session = console.session("/op/topic/create");
    // The offsets of a group are asked of the brokers of its retry topic.
    for topic in ["Orders", "%25RETRY%25CG"] {
        let form =
            format!("topic={topic}&cluster=DefaultCluster&read-queues=1&write-queues=1&perm=6&_step=go");
        assert_eq!(console.post("/op/topic/create", &session, &form).status, 200);
    }
    let group = "group=CG&cluster=DefaultCluster&_step=go";
    assert_eq!(console.post("/op/group/create", &session, group).status, 200);
    let mut broker = Connection::open(console.server.setup().broker()).unwrap();
    let committed = broker.call(
        request::UPDATE_CONSUMER_OFFSET,
        |frame| {
            let frame = frame.text("consumerGroup", "CG").text("topic", "Orders");
            frame.number("queueId", 0).number("commitOffset", 0)
        },
        &[],
    );
    assert_eq!(committed.code, 0);
    for language in ["en", "zh"] {
        let cookie = format!("Cookie: vostok_lang={language}");
        let queues = eventually("the group is known", || {
            let answer = console.ask("/api/v1/group?name=CG", &[&cookie], None).body;
            let group: serde_json::Value = serde_json::from_str(&answer).ok()?;
            Some(group["progress"]["queues"].clone()).filter(|queues| queues[0].is_object())
        });
        assert!(queues[0]["client_id"].is_null(), "{queues}");
    }
}

#[test]
fn only_pages_of_the_console_change_anything() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let session = console.session("/op/topic/create");
    let form = "topic=Orders&cluster=DefaultCluster&_step=go";
    let without = (session.0.clone(), String::new());
    assert_eq!(console.post("/op/topic/create", &without, form).status, 403, "no token");
    let of_another = (console.session("/op/topic/create").0, session.1.clone());
    assert_eq!(console.post("/op/topic/create", &of_another, form).status, 403, "a token of another session");
    let whole = format!("_token={}&{form}", session.1);
    let cookie = format!("Cookie: {}", session.0);
    for origin in ["Origin: http://evil.example", "Origin: null", "X: y"] {
        let answer = console.ask("/op/topic/create", &[&cookie, origin], Some(&whole));
        assert_eq!(answer.status, 403, "{origin}");
    }
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1"] {
        assert_eq!(console.ask("/", &[&format!("Host: {host}")], None).status, 403, "{host}");
    }
    for host in ["[::1].evil", "[::1]evil:80", "localhost:80.evil", "localhost\r\nHost: localhost"] {
        assert_eq!(console.ask("/", &[&format!("Host: {host}")], None).status, 400, "{host:?}");
    }
    assert!(!console.ask("/api/v1/topics", &[], None).body.contains("Orders"));
    let page = console.ask(&format!("/topic?name={}", encoded(EVIL)), &[], None);
    assert!(page.status >= 400 && !page.body.contains(EVIL), "{}", page.body);
    assert!(page.head.contains("script-src 'self'") && !page.head.contains("unsafe"), "{}", page.head);
    let elsewhere = console.ask("/api/v1/op/client/list-producers?broker=10.0.0.1:22", &[], None);
    assert_eq!(elsewhere.status, 403, "{}", elsewhere.body);
}

#[test]
fn no_file_of_the_machine_is_written_or_read_for_a_browser() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let config = console.server.setup().data.join("config");
    eventually("the broker is registered", || {
        Some(()).filter(|()| console.ask("/api/v1/brokers", &[], None).body.contains("DefaultCluster"))
    });
    let before = std::fs::read(config.join("subscriptionGroup.json")).ok();
    let export =
        format!("cluster=DefaultCluster&groups=true&directory={}", encoded(config.to_str().unwrap()));
    assert_eq!(console.ask(&format!("/op/export/metadata?{export}"), &[], None).status, 404);
    assert_eq!(std::fs::read(config.join("subscriptionGroup.json")).ok(), before, "the broker's own table");
    assert_eq!(console.ask("/op/message/dump-compaction?file=/dev/null", &[], None).status, 404);
    assert_eq!(console.ask("/api/v1/op/client/status?group=CG", &[], None).status, 400, "a file for each");
    assert!(!console.ask("/operations", &[], None).body.contains("/op/export/"));
    assert!(console.server.terminate().success());
}

#[test]
fn roles_bound_what_a_login_may_do() {
    let home = tempfile::tempdir().unwrap();
    let [viewer, admin] =
        [("eve", "viewer"), ("root", "admin")].map(|(name, role)| login(home.path(), name, role));
    let console = Console::start(home);
    assert_eq!(console.ask("/topics", &[], None).status, 303, "to the login");
    assert_eq!(console.ask("/api/v1/topics", &[], None).status, 401);
    let anonymous = console.session("/login");
    let wrong = console.post("/login", &anonymous, "name=eve&password=wrong");
    assert!(wrong.status == 200 && !wrong.head.contains("set-cookie"), "{}", wrong.body);
    let (eve, root) = (console.log_in("eve", &viewer), console.log_in("root", &admin));
    let form = "topic=Orders&cluster=DefaultCluster&_step=go";
    assert_eq!(console.post("/op/topic/create", &eve, form).status, 403, "a viewer");
    assert_eq!(console.post("/op/topic/create", &root, form).status, 200);
    let body = "topic=Orders&body=planted&_step=go";
    assert_eq!(console.post("/op/message/send", &root, body).status, 200);
    let read = |session: &(String, String), path: &str| {
        console.ask(path, &[&format!("Cookie: {}", session.0)], None)
    };
    let found = read(&eve, "/api/v1/messages?topic=Orders&by=time").body;
    assert!(found.contains("message_id") && !found.contains("planted"), "{found}");
    assert_eq!((read(&eve, "/audit").status, read(&eve, "/logins").status), (403, 403));
    let audit = read(&root, "/api/v1/audit").body;
    assert!(audit.contains("refused: role") && audit.contains("\"user\":\"eve\""), "{audit}");
    assert_eq!(console.post("/logout", &eve, "").status, 303);
    assert_eq!(read(&eve, "/topics").status, 303, "logged out");
}

#[test]
fn a_new_password_ends_the_sessions_of_the_one_before() {
    let home = tempfile::tempdir().unwrap();
    let [viewer, admin] =
        [("eve", "viewer"), ("root", "admin")].map(|(name, role)| login(home.path(), name, role));
    let console = Console::start(home);
    let (eve, root) = (console.log_in("eve", &viewer), console.log_in("root", &admin));
    let status = |session: &(String, String)| {
        console.ask("/api/v1/topics", &[&format!("Cookie: {}", session.0)], None).status
    };
    assert_eq!(status(&eve), 200);
    assert_eq!(console.post("/logins", &root, "what=set&name=eve&role=viewer").status, 200);
    assert_eq!((status(&eve), status(&root)), (401, 200));
    let demoted = console.post("/logins", &root, "what=set&name=root&role=viewer");
    assert!(demoted.status == 400 && demoted.body.contains("nobody would be admin"), "{}", demoted.body);
    assert_eq!(status(&root), 200);
}

#[test]
fn a_link_from_another_site_leads_to_its_page_and_ends_no_session() {
    let home = tempfile::tempdir().unwrap();
    let password = login(home.path(), "root", "admin");
    let console = Console::start(home);
    let session = console.log_in("root", &password);
    let cookie = format!("Cookie: {}", session.0);
    // Browsers keep a cookie with SameSite=Strict back when another site leads here.
    let linked = console.ask("/topic?name=a%26b", &[], None);
    let login = "/login?next=%2Ftopic%3Fname%3Da%2526b";
    assert!(
        linked.status == 303 && linked.head.contains(&format!("location: {login}\r\n")),
        "{}",
        linked.head
    );
    assert!(!linked.head.contains("set-cookie"), "it would replace the session's: {}", linked.head);
    let sent_on = console.ask(login, &[], None);
    let again = format!("{login}&again=1");
    assert!(sent_on.head.contains(&format!("refresh: 0; url={again}\r\n")), "{}", sent_on.head);
    assert!(!sent_on.head.contains("set-cookie"), "{}", sent_on.head);
    let shown = console.ask(&again, &[&cookie], None);
    assert!(shown.head.contains("location: /topic?name=a%26b\r\n"), "{}", shown.head);
    let stranger = console.ask(&again, &[], None);
    assert!(
        stranger.body.contains("name=\"password\"") && stranger.head.contains("set-cookie"),
        "{}",
        stranger.head
    );
    let session = console.session(&again);
    let form = format!("name=root&password={password}&next=%2Ftopic%3Fname%3Da%2526b");
    let entered = console.post("/login", &session, &form);
    assert!(entered.head.contains("location: /topic?name=a%26b\r\n"), "{}", entered.head);
}

#[test]
fn a_console_for_others_wants_a_login() {
    let home = tempfile::tempdir().unwrap();
    let setup = setup(home.path(), "0.0.0.0:0");
    let status = setup.spawn().unwrap().wait().expect("it does not start");
    let log = std::fs::read_to_string(setup.log()).unwrap();
    assert!(!status.success() && log.contains("vostok console user NAME --role admin"), "{log}");
    login(home.path(), "root", "admin");
    let server = setup.start().unwrap();
    printed(&setup, "the console has no TLS");
    drop(server);
}
