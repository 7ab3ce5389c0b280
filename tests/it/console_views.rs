//! What pages of the console cost and show of larger clusters: long lists, many viewers, replication, runs of the lab.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;
use wire::codes::{request, response};
use wire::frame::{Command, frame_length};

use crate::common::server::free_ports;
use crate::console::{Console, login, setup};
use crate::stage::eventually;

/// Largest page of a list in bytes.
const PAGE_BYTES_MAX: usize = 200_000;

type Asked = Arc<Mutex<BTreeMap<i32, usize>>>;

fn data(console: &Console, path: &str) -> Value {
    let answer = console.ask(&format!("/api/v1{path}"), &[], None);
    serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{path}: {}", answer.body))
}

/// A console whose broker has so many topics before its start, and retry topics of groups.
fn with_topics(count: usize) -> Console {
    let home = tempfile::tempdir().unwrap();
    let setup = setup(home.path(), "127.0.0.1:0");
    std::fs::create_dir_all(setup.data.join("config")).unwrap();
    let names = (0..count).map(|number| format!("Order{number:07}"));
    let names = names.chain((0..60).map(|number| format!("%RETRY%group{number:02}")));
    let mut text = String::from("{\"topicConfigTable\":{");
    for (number, name) in names.enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{comma}\"{name}\":{{\"order\":false,\"perm\":6,\"readQueueNums\":1,\"topicFilterType\":\"SINGLE_TAG\",\
             \"topicName\":\"{name}\",\"topicSysFlag\":0,\"writeQueueNums\":1}}"
        );
    }
    text += "},\"dataVersion\":{\"counter\":1,\"stateVersion\":0,\"timestamp\":1}}";
    std::fs::write(setup.data.join("config/topics.json"), text).unwrap();
    Console::start_as(home, setup)
}

#[test]
fn long_lists_are_paged_by_the_broker() {
    let console = with_topics(3000);
    let first = eventually("the topics are known", || {
        let first = data(&console, "/topics?type=normal");
        (first["topics"].as_array()?.len() == 50).then_some(first)
    });
    // Between topics that brokers make by themselves stand those of the test.
    let (last, number) =
        (first["topics"][49]["topic"].as_str().unwrap(), |name: &str| name[5..].parse::<u32>().unwrap());
    assert!(first["found"].is_null() && last.starts_with("Order"), "{first}");
    let page = console.ask("/topics?type=normal", &[], None).body;
    assert!(
        page.contains(&format!("/topics?type=normal&amp;after={last}\"")) && page.len() < PAGE_BYTES_MAX,
        "{page}"
    );
    let next = data(&console, &format!("/topics?type=normal&after={last}"));
    assert_eq!(number(next["topics"][0]["topic"].as_str().unwrap()), number(last) + 1);
    let found = data(&console, "/topics?q=er00029");
    assert_eq!(
        (found["topics"].as_array().unwrap().len(), &found["topics"][0]["topic"]),
        (50, &"Order0002900".into())
    );
    let retry = data(&console, "/topics?type=retry");
    let names: Vec<_> =
        retry["topics"].as_array().unwrap().iter().map(|row| row["topic"].as_str().unwrap()).collect();
    assert!(names.len() == 50 && names.iter().all(|name| name.starts_with("%RETRY%")), "{names:?}");
    let retry = data(&console, "/topics?type=retry&after=%25RETRY%25group49");
    assert_eq!(retry["topics"].as_array().unwrap().len(), 10, "and no topic of another kind");
    let system = data(&console, "/topics?type=system").to_string();
    assert!(
        system.contains("TBW102") && system.contains("SELF_TEST_TOPIC") && !system.contains("Order"),
        "{system}"
    );
    let operation = data(&console, "/op/topic/list");
    assert_eq!(operation.as_array().unwrap().len(), 100, "an operation shows no whole list either");
}

/// A name server and broker in one that counts what it is asked. The name server knows a second broker by this address.
fn counting(asked: &Asked, second: Option<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (asked, brokers) = (asked.clone(), brokers(address, second.as_deref()));
            thread::spawn(move || serve(stream, &brokers, &asked));
        }
    });
    address
}

fn brokers(address: SocketAddr, second: Option<&str>) -> String {
    let one = |name: &str, address: &str| {
        format!(
            "\"{name}\":{{\"brokerAddrs\":{{\"0\":\"{address}\"}},\"brokerName\":\"{name}\",\"cluster\":\"C\"}}"
        )
    };
    let (table, names) = match second {
        None => (one("a", &address.to_string()), "\"a\""),
        Some(second) => (format!("{},{}", one("a", &address.to_string()), one("b", second)), "\"a\",\"b\""),
    };
    format!("{{\"brokerAddrTable\":{{{table}}},\"clusterAddrTable\":{{\"C\":[{names}]}}}}")
}

fn serve(mut stream: TcpStream, brokers: &str, asked: &Asked) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
        while let Some(length) = frame_length(&bytes).unwrap().filter(|length| *length <= bytes.len()) {
            let mut frame: Vec<u8> = bytes.drain(..length).collect();
            let command = Command::decode(&mut frame).unwrap();
            *asked.lock().unwrap().entry(command.code).or_default() += 1;
            let (code, body) = match command.code {
                request::GET_BROKER_CLUSTER_INFO => (response::SUCCESS, brokers.to_owned()),
                request::GET_BROKER_RUNTIME_INFO => (response::SUCCESS, "{\"table\":{}}".to_owned()),
                _ => (response::REQUEST_CODE_NOT_SUPPORTED, String::new()),
            };
            let mut out = Vec::new();
            command.response(code).write(&mut out, body.as_bytes());
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    }
}

/// A console in a process of its own.
fn alone(name_server: SocketAddr) -> Console {
    let home = tempfile::tempdir().unwrap();
    let mut setup = setup(home.path(), "127.0.0.1:0");
    setup.roles = "console".to_owned();
    setup.with_conf = false;
    setup.arguments.extend(["-n".to_owned(), name_server.to_string()]);
    Console::of(home, setup.spawn().unwrap())
}

#[test]
fn pages_of_all_masters_name_those_that_do_not_answer() {
    let nobody = format!("127.0.0.1:{}", free_ports().0);
    let console = alone(counting(&Asked::default(), Some(nobody.clone())));
    eventually("the brokers are sampled", || {
        (data(&console, "/live")["brokers"].as_array()?.len() == 2).then_some(())
    });
    for path in ["/storage", "/delays", "/pops", "/clients", "/proxies"] {
        let data = data(&console, path);
        let failures = data["failures"].to_string();
        assert!(failures.contains(&format!("b {nobody}: ")), "{path}: {data}");
    }
}

#[test]
fn ten_viewers_of_the_overview_cost_the_brokers_what_one_costs() {
    let asked = Asked::default();
    let console = alone(counting(&asked, None));
    let samples =
        || asked.lock().unwrap().get(&request::GET_BROKER_RUNTIME_INFO).copied().unwrap_or_default();
    let at = || data(&console, "/live")["at_ms"].as_i64().unwrap();
    let started = Instant::now();
    thread::scope(|scope| {
        let began = (samples(), at());
        let viewers: Vec<_> = (0..10)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..20 {
                        assert!(console.ask("/", &[], None).status == 200 && at() >= 0);
                    }
                })
            })
            .collect();
        viewers.into_iter().for_each(|viewer| viewer.join().unwrap());
        let (mut last, mut seen) = (began.1, 0);
        eventually("three more samples", || {
            let now = at();
            seen += usize::from(now != last);
            last = now;
            (seen == 3).then_some(())
        });
        // One sample a second for 400 answers. The doctor and the look at groups ask the same once each, and again each minute.
        let made = samples() - began.0;
        let seconds = usize::try_from(started.elapsed().as_secs()).unwrap();
        assert!(made >= 2 && made <= seconds + 6 + seconds / 20, "{made} samples in {seconds} s");
    });
    let all = asked.lock().unwrap().clone();
    let seconds = usize::try_from(started.elapsed().as_secs()).unwrap();
    println!("in {seconds} s: {all:?}");
    assert!(all.values().sum::<usize>() < 200 + 10 * seconds, "{all:?}");
}

#[test]
fn replication_of_a_set_with_controllers_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let (port, _) = free_ports();
    let mut setup = setup(home.path(), "127.0.0.1:0");
    setup.roles = "namesrv,controller,broker,console".to_owned();
    setup.arguments.extend(["--controller-port".to_owned(), port.to_string()]);
    let setup = setup
        .line("enableControllerMode=true")
        .line(format!("controllerAddr=127.0.0.1:{port}"))
        .line("brokerName=a");
    let console = Console::start_as(home, setup);
    let told = eventually("the broker is in sync", || {
        let told = data(&console, "/replication");
        (told["replicas"][0]["in_sync"] == true && told["elections"][0]["epoch"].is_number()).then_some(told)
    });
    let broker = console.server.setup().broker().to_string();
    assert_eq!(
        (&told["replicas"][0]["master"], &told["replicas"][0]["set"]),
        (&true.into(), &"a".into()),
        "{told}"
    );
    assert_eq!(told["controllers"][0]["leader"], format!("127.0.0.1:{port}"));
    assert_eq!(
        (&told["positions"][0]["master"], &told["failures"]),
        (&broker.into(), &Value::Array(Vec::new()))
    );
    let page = console.ask("/replication", &[], None).body;
    assert!(page.contains("In-sync sets") && page.contains("Elections"), "{page}");
}

fn run(home: &TempDir, id: &str, tps: f64) {
    let run = home.path().join("runs").join(id);
    std::fs::create_dir_all(&run).unwrap();
    let write = |name: &str, text: String| std::fs::write(run.join(name), text).unwrap();
    write(
        "run.json",
        format!("{{\"id\":\"{id}\",\"scenario\":\"matrix\",\"started_ms\":1000,\"cells\":[{{}}]}}"),
    );
    write(
        "report.json",
        format!(
            "{{\"verdict\":[{{\"name\":{{\"en\":\"Safe rate\",\"zh\":\"x\"}},\"text\":{{\"en\":\"none\",\"zh\":\"x\"}}}}],\
             \"cells\":[{{\"name\":\"c1\",\"figures\":{{\"tps\":{{\"mean\":{tps}}},\"latency\":{{\"p99_us\":900}}}}}}]}}"
        ),
    );
    write("report.html", "<p>the report</p><script>alert(1)</script>".to_owned());
}

#[test]
fn runs_of_the_lab_are_listed_opened_and_compared() {
    let home = tempfile::tempdir().unwrap();
    run(&home, "one", 200.0);
    run(&home, "two", 300.0);
    std::fs::write(home.path().join("report.html"), "outside").unwrap();
    let mut setup = setup(home.path(), "127.0.0.1:0");
    setup.arguments.extend(["--console-runs".to_owned(), home.path().join("runs").display().to_string()]);
    let console = Console::start_as(home, setup);
    let listed = data(&console, "/runs");
    assert_eq!((&listed["found"], &listed["runs"][0]["scenario"]), (&2.into(), &"matrix".into()), "{listed}");
    let compared = data(&console, "/run?id=two&with=one");
    assert_eq!((&compared["cells"][0]["tps"], &compared["cells"][0]["ratio"]), (&300.0.into(), &1.5.into()));
    let report = console.ask("/report?id=two&file=report.html", &[], None);
    assert!(
        report.body.contains("the report")
            && report.head.contains("sandbox allow-scripts; default-src 'none'"),
        "{}",
        report.head
    );
    for outside in [
        "id=..&file=report.html",
        "id=two&file=..%2F..%2Freport.html",
        "id=two&file=run.json",
        "id=three&file=report.html",
    ] {
        assert_eq!(console.ask(&format!("/report?{outside}"), &[], None).status, 404, "{outside}");
    }
}

#[test]
fn an_administrator_starts_and_stops_a_run_of_the_lab() {
    let home = tempfile::tempdir().unwrap();
    let console = Console::start(home);
    let session = console.session("/runs");
    assert_eq!(console.post("/runs", &session, "what=start&kind=kill&threads=--out").status, 400);
    let form = "what=start&kind=async&threads=2&size=100&duration=600";
    assert_eq!(console.post("/runs", &session, form).status, 303);
    eventually("the run is listed", || (data(&console, "/runs")["found"] == 1).then_some(()));
    let started = data(&console, "/runs")["started_here"].clone();
    assert!(
        started["goes_on"] == true && started["run"].as_str().unwrap().starts_with("async-"),
        "{started}"
    );
    assert_eq!(console.post("/runs", &session, form).status, 409, "one at a time");
    assert_eq!(console.post("/runs", &session, "what=stop").status, 303);
    eventually("the run ends", || {
        (data(&console, "/runs")["started_here"]["goes_on"] == false).then_some(())
    });
    let audit = console.ask("/api/v1/audit", &[], None).body;
    assert!(
        audit.contains("lab modes --local 2m2s --repl async") && audit.contains("lab run stop"),
        "{audit}"
    );
}

#[test]
fn an_operator_starts_no_run() {
    let home = tempfile::tempdir().unwrap();
    let (_, password) = (login(home.path(), "root", "admin"), login(home.path(), "op", "operator"));
    let console = Console::start(home);
    let session = console.log_in("op", &password);
    assert_eq!(console.post("/runs", &session, "what=start&kind=kill").status, 403);
}
