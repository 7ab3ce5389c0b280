//! The process: start, stop, locks, settings.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;

use wire::codes::request;

use crate::common::PATIENCE;
use crate::common::server::{Setup, exists_below, free_ports};
use crate::common::wire_client::{pull_header, send_header};
use crate::mtls;
use crate::stage::{Stage, await_registered, end_unless_serving, eventually, records, setup};

#[test]
fn a_start_takes_little_memory() {
    let stage = Stage::start(&[]);
    let resident = stage.server.resident_kb();
    assert!(resident < 60 * 1024, "{resident} kB idle");
}

#[test]
fn sigterm_leaves_a_clean_store() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    connection.stored(&send_header("Kept", 2), b"kept");
    let data = stage.server.setup().data.clone();
    assert!(exists_below(&data, "abort"), "a running store is marked");
    let stage = stage.restart(|server| {
        assert!(server.terminate().success());
        assert!(!exists_below(&data, "abort"), "a clean store is not marked");
    });
    let mut connection = stage.connect();
    let found = records(&connection.pull(&pull_header("CG", "Kept", 2, 0)));
    assert_eq!(found.iter().map(|record| record.1.as_slice()).collect::<Vec<_>>(), [b"kept"]);
    assert_eq!(connection.stored(&send_header("Kept", 2), b"next"), (2, 1));
}

#[test]
fn topics_and_messages_survive_a_kill() {
    let mut stage = Stage::start(&[]);
    for round in 0..5 {
        let mut connection = stage.connect();
        let (_, offset) = connection.stored(&send_header("Survivor", 3), b"x");
        assert_eq!(offset, round);
        connection.stored(&send_header(&format!("Topic{round}"), 3), b"x");
        stage = stage.restart(|server| server.kill9());
    }
    let mut connection = stage.connect();
    for round in 0..5 {
        let answer = connection.pull(&pull_header("CG", &format!("Topic{round}"), 3, 0));
        assert_eq!(records(&answer).len(), 1, "{answer:?}");
    }
}

#[test]
fn the_log_goes_to_files_as_lines_of_json() {
    let (mut setup, home) = setup(&[]);
    let logs = home.path().join("logs");
    setup.arguments = ["--log", "json", "--log-dir", logs.to_str().unwrap()].map(str::to_owned).into();
    let server = setup.start().expect("it starts");
    // Ports answer a moment before the lines are printed.
    let printed = eventually("the start is printed", || {
        fs::read_to_string(setup.log()).ok().filter(|printed| printed.contains("boot success"))
    });
    assert!(server.terminate().success());
    assert!(!printed.contains("INFO"), "{printed}");
    for (name, module) in [("broker.log", "broker"), ("store.log", "store"), ("broker_default.log", "vostok")]
    {
        let text = fs::read_to_string(logs.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!text.is_empty(), "{name}");
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let target = line["target"].as_str().unwrap();
            assert!(target.starts_with(module), "{target} in {name}");
            assert!(line["message"].is_string() && line["timestamp"].is_string(), "{line}");
        }
    }
    assert!(!logs.join("proxy.log").exists(), "a file appears with its first line");
}

#[test]
fn settings_changed_while_it_runs_count_after_a_kill_also_without_a_file() {
    let (mut setup, home) = setup(&[]);
    setup.with_conf = false;
    let server = setup.start().expect("it starts");
    let mut stage = Stage { server, home };
    let size_of = |stage: &Stage| {
        let text = stage.connect().call(request::GET_BROKER_CONFIG, |writer| writer, b"").body;
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix("maxMessageSize=")).map(str::to_owned)
    };
    for size in ["70000", "80000"] {
        let changed = format!("maxMessageSize={size}");
        let answer = stage.connect().call(request::UPDATE_BROKER_CONFIG, |writer| writer, changed.as_bytes());
        assert_eq!((answer.code, answer.remark()), (0, ""));
        stage = stage.restart(|server| server.kill9());
        assert_eq!(size_of(&stage).as_deref(), Some(size));
    }
    let file = stage.server.setup().data.join("config").join("broker.properties");
    assert_eq!(fs::read_to_string(&file).unwrap(), "maxMessageSize=80000\n");
}

#[test]
fn settings_of_the_name_server_changed_while_it_runs_count_after_a_kill() {
    let mut stage = Stage::start(&[]);
    let topics = |stage: &Stage| {
        let code = request::GET_TOPICS_BY_CLUSTER;
        stage.name_server().call(code, |writer| writer.text("cluster", "DefaultCluster"), b"")
    };
    assert_eq!(topics(&stage).code, 0);
    let changed = b"enableTopicList=false";
    let answer = stage.name_server().call(request::UPDATE_NAMESRV_CONFIG, |writer| writer, changed);
    assert_eq!((answer.code, answer.remark()), (0, ""));
    stage = stage.restart(|server| server.kill9());
    assert_eq!((topics(&stage).code, topics(&stage).remark()), (1, "disable"));
}

#[test]
fn a_broker_encrypts_what_it_tells_name_servers_that_demand_it() {
    let (setup, _home) = setup(&["tls.server.mode=enforcing"]);
    let server = setup.spawn().expect("it can be started");
    let trusting = [("tls.enable", "true".to_owned()), ("tls.client.authServer", "false".to_owned())];
    eventually("the broker is registered", || {
        let cluster = mtls::ask(setup.namesrv(), &trusting, request::GET_BROKER_CLUSTER_INFO)?;
        cluster.contains(&setup.broker().to_string()).then_some(())
    });
    assert!(server.terminate().success());
    // The name server answered the last request of the broker.
    assert!(fs::read_to_string(setup.log()).unwrap().contains("unregistered"), "{}", setup.log_tail());
}

#[test]
fn clients_are_told_the_name_a_broker_is_given() {
    let stage = Stage::start(&["brokerIP1=localhost"]);
    stage.connect().stored(&send_header("Named", 0), b"x");
    let route = eventually("it is registered", || {
        let code = request::GET_ROUTEINFO_BY_TOPIC;
        let answer = stage.name_server().call(code, |writer| writer.text("topic", "Named"), b"");
        (answer.code == 0).then_some(String::from_utf8(answer.body).unwrap())
    });
    let address = format!("\"localhost:{}\"", stage.server.setup().broker_port);
    assert!(route.contains(&address), "{route}");
}

/// Whether the name server and the broker's ports can be reached at this address of the machine.
fn reached(stage: &Stage, host: &str) -> [bool; 3] {
    let setup = stage.server.setup();
    let ports = [setup.namesrv_port, setup.broker_port, setup.broker_port - 2];
    ports.map(|port| std::net::TcpStream::connect((host, port)).is_ok())
}

#[test]
fn both_roles_listen_on_the_bind_address_alone() {
    let everywhere = Stage::start(&[]);
    assert_eq!(reached(&everywhere, "127.0.0.2"), [true; 3]);
    drop(everywhere);
    let one = Stage::start(&["bindAddress=127.0.0.1"]);
    assert_eq!(reached(&one, "127.0.0.1"), [true; 3]);
    assert_eq!(reached(&one, "127.0.0.2"), [false; 3]);
    // The broker finds the name server where it listens.
    one.connect().stored(&send_header("Bound", 0), b"x");
    eventually("it is registered", || {
        let code = request::GET_ROUTEINFO_BY_TOPIC;
        let answer = one.name_server().call(code, |writer| writer.text("topic", "Bound"), b"");
        (answer.code == 0).then_some(())
    });
}

#[test]
fn a_name_server_may_listen_on_an_address_of_its_own() {
    let mut stage = Stage::start(&[]);
    let changed = b"bindAddress=127.0.0.1";
    let answer = stage.name_server().call(request::UPDATE_NAMESRV_CONFIG, |writer| writer, changed);
    assert_eq!(answer.code, 16, "no request says where a server listens: {answer:?}");
    let file = stage.server.setup().data.join("namesrv/namesrv.properties");
    fs::create_dir_all(file.parent().expect("a directory")).unwrap();
    fs::write(file, changed).unwrap();
    stage = stage.restart(|server| server.kill9());
    assert_eq!(reached(&stage, "127.0.0.2"), [false, true, true]);
}

#[test]
fn grpc_is_served_unless_another_program_has_its_port() {
    let is_served = |setup: &Setup| {
        eventually("the server says whether gRPC is served", || {
            let text = fs::read_to_string(setup.log()).unwrap();
            let is_served = text.contains("gRPC for 5.x clients is at 0.0.0.0:8081");
            (is_served || text.contains("NOT SERVED: port 8081 cannot be bound")).then_some(is_served)
        })
    };
    // Whether another program has the port of RocketMQ's proxy or not: both start, and one of them at most serves gRPC.
    let [(mut one, _home), (mut other, _other_home)] = [setup(&[]), setup(&[])];
    for setup in [&mut one, &mut other] {
        setup.roles = "namesrv,broker,proxy".to_owned();
    }
    let first = one.start().expect("it starts");
    let is_first_served = is_served(&one);
    let second = other.start().expect("it starts all the same");
    assert!(!is_first_served || !is_served(&other));
    assert!(first.terminate().success() && second.terminate().success());
}

#[test]
fn a_second_start_on_the_same_data_says_who_is_there() {
    let stage = Stage::start(&[]);
    let mut second = stage.server.setup().clone();
    (second.namesrv_port, second.broker_port) = free_ports();
    second.desk = stage.home.path().join("second");
    let status = second.spawn().expect("it can be started").wait().expect("it ends");
    assert!(!status.success());
    let text = fs::read_to_string(second.log()).unwrap();
    assert!(text.contains(&stage.server.pid().to_string()), "names the process:\n{text}");
    assert!(!text.contains("panicked"), "{text}");
    stage.connect().stored(&send_header("Still", 0), b"x");
}

#[test]
fn a_port_in_use_is_named() {
    let stage = Stage::start(&[]);
    let (mut second, _home) = setup(&[]);
    second.broker_port = stage.server.setup().broker_port;
    let status = second.spawn().expect("it can be started").wait().expect("it ends");
    assert!(!status.success());
    let text = fs::read_to_string(second.log()).unwrap();
    assert!(text.contains(&second.broker_port.to_string()), "names the port:\n{text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn values_that_cannot_be_read_stop_the_start() {
    let lines = [
        "flushDiskType=SYNC_FLUHS",
        "maxMessageSize=big",
        "autoCreateTopicEnable=yes",
        "namesrvAddr=host:Port",
    ];
    for line in lines {
        let (broken, _home) = setup(&[line]);
        let status = broken.spawn().expect("it can be started").wait();
        let text = fs::read_to_string(broken.log()).unwrap();
        assert!(status.is_some_and(|status| !status.success()), "it runs with {line}:\n{text}");
        assert!(text.contains(line) && text.contains("line "), "names setting, value and line:\n{text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn unknown_settings_are_warnings() {
    let stage = Stage::start(&["noSuchSetting=1"]);
    let text = fs::read_to_string(stage.server.setup().log()).unwrap();
    assert!(text.contains("noSuchSetting"), "{text}");
}

#[test]
fn many_connections_and_topics_do_not_stop_the_end() {
    let stage = Stage::start(&[]);
    let mut connections: Vec<_> = (0..100).map(|_| stage.connect()).collect();
    for (index, connection) in connections.iter_mut().enumerate() {
        connection.stored(&send_header(&format!("Topic{index}"), 0), b"x");
        let answer = connection.call(request::GET_BROKER_CLUSTER_INFO, |writer| writer, &[]);
        assert_eq!(answer.code, 3, "not a request for a broker");
    }
    assert!(stage.server.terminate().success());
}

#[test]
fn the_version_says_commit_build_and_target() {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_vostok")).arg("--version").output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("a line of text");
    let wanted = ["vostok 0.1.0 (commit ", " build, ", "linux"];
    assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn systemd_is_told_when_everything_serves_and_when_it_ends() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut setup, _desk) = setup(&[]);
    setup.environment = vec![("NOTIFY_SOCKET".to_owned(), path.display().to_string())];
    let server = setup.spawn().unwrap();
    let told = || {
        let mut text = [0; 64];
        let count = socket.recv(&mut text).expect("the process tells");
        String::from_utf8_lossy(&text[..count]).into_owned()
    };
    assert_eq!(told(), "READY=1");
    for address in [setup.namesrv(), setup.broker()] {
        TcpStream::connect(address).expect("what is ready serves");
    }
    assert!(server.terminate().success());
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn a_broker_does_not_start_beside_one_of_its_name_and_id() {
    let stage = Stage::start(&[]);
    let (mut twin, _home) = setup(&[]);
    twin.roles = "broker".to_owned();
    twin.arguments = vec!["-n".to_owned(), stage.server.setup().namesrv().to_string()];
    // The twin waits a second for the first one's answer, and starts without.
    let status = eventually("the twin does not start", || {
        await_registered(&stage.server);
        end_unless_serving(twin.spawn().unwrap())
    });
    let log = fs::read_to_string(twin.log()).unwrap();
    let first = stage.server.setup().broker();
    assert!(!status.success() && log.contains(&format!("it answers at {first}")), "{log}");
    stage.server.kill9();
    let again = end_unless_serving(twin.spawn().unwrap());
    assert_eq!(again, None, "it starts when the first is gone:\n{}", twin.log_tail());
}
