//! The lab over gRPC: what it counts is what the broker has.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use lab::archive::Archive;
use wire::codes::request;

use crate::common::os::signal;
use crate::common::server::{await_end, free_ports};
use crate::stage::{Stage, eventually, setup};

const INTERRUPT: i32 = 2;

/// A server with gRPC on a free port beside the broker.
fn stage(lines: &[&str]) -> (Stage, SocketAddr) {
    let (mut setup, home) = setup(lines);
    setup.roles = "namesrv,broker,proxy".to_owned();
    setup.arguments = ["--grpc-port", "0", "--proxy-port", "0"].map(str::to_owned).into();
    let server = setup.start().unwrap();
    let port = eventually("gRPC", || {
        let log = std::fs::read_to_string(setup.log()).unwrap();
        let line = log.lines().find_map(|line| line.strip_prefix("gRPC for 5.x clients is at "))?.to_owned();
        Some(line.parse::<SocketAddr>().unwrap().port())
    });
    (Stage { server, home }, SocketAddr::from(([127, 0, 0, 1], port)))
}

/// `vostok lab` with these words, and the name server's address behind them.
fn lab(stage: &Stage, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
    command.arg("lab").args(words.split_whitespace());
    command.args(["-n", &stage.server.setup().namesrv().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(stage: &Stage, words: &str) -> Output {
    lab(stage, words).output().unwrap()
}

/// The result of a tool that must succeed.
fn outcome(stage: &Stage, words: &str) -> serde_json::Value {
    let file = stage.home.path().join("result.json");
    let told = run(stage, &format!("{words} --json {}", file.display()));
    assert!(told.status.success(), "{words}: {told:?}");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// Messages in all queues of a topic, by their offsets.
fn stored(stage: &Stage, topic: &str) -> i64 {
    let mut connection = stage.connect();
    let end = |queue: i64| {
        let code = request::GET_MAX_OFFSET;
        let answer =
            connection.call(code, |writer| writer.text("topic", topic).number("queueId", queue), &[]);
        answer.field("offset").map_or(0, |offset| offset.parse::<i64>().unwrap())
    };
    (0..8).map(end).sum()
}

#[test]
fn a_quantity_is_sent_exactly_and_received_once() {
    let (stage, grpc) = stage(&[]);
    let mut expected = 0;
    for (flags, count) in [
        ("-w 1 -q 50", 50),
        ("-w 60 -s 1024 -q 2001 -k true -l 3 -p 20", 2001),
        ("-w 7 --connections 3 --cores 2 -q 300", 300),
        ("-w 60 --rate 2000 -q 400", 400),
        ("-w 4 --tls -q 100", 100),
    ] {
        let found = outcome(&stage, &format!("producer --grpc {grpc} -t T --queues 8 {flags}"));
        // A message whose answer came too late may be stored, and counts as a failure.
        let [sent, failed] = ["messages", "failures"].map(|name| found[name].as_i64().unwrap());
        assert_eq!(sent + failed, count, "{flags}");
        assert!(found["latency_us"]["max"].as_u64().unwrap() > 0, "{flags}");
        let before = std::mem::replace(&mut expected, stored(&stage, "T"));
        assert!((sent..=count).contains(&(expected - before)), "{flags}: {before}, {expected}");
    }

    // Who sends to a topic that exists needs no name server.
    let nobody = free_ports().0;
    let words = format!("lab producer --grpc {grpc} -t T -w 2 -q 10 -n 127.0.0.1:{nobody}");
    let mut alone = Command::new(env!("CARGO_BIN_EXE_vostok"));
    let told = alone.args(words.split_whitespace()).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    expected = stored(&stage, "T");

    // A new group begins at the first message of a short queue. What is acknowledged does not come again.
    let file = stage.home.path().join("consumed.json");
    let words = format!("consumer --grpc {grpc} -t T -g G -w 4 --ri 100 --json {}", file.display());
    let mut consumer = lab(&stage, &words).spawn().unwrap();
    let mut lines = BufReader::new(consumer.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "Consumer Started."));
    eventually("every message is acknowledged", || (committed(&stage, "G", "T") == expected).then_some(()));
    signal(consumer.id(), INTERRUPT).unwrap();
    let complete =
        lines.map(Result::unwrap).find(|line| line.starts_with("[Complete] Consume Total: ")).unwrap();
    assert!(await_end(&mut consumer).expect("it ends").success());
    let found: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let [received, failed] = ["messages", "failures"].map(|name| found[name].as_i64().unwrap());
    assert!(complete.starts_with(&format!("[Complete] Consume Total: {received} |")), "{complete}");
    // A message whose acknowledgement failed comes again.
    assert!((expected..=expected + failed).contains(&received), "{expected}: {found}");
}

/// Messages of a topic that a group has behind it.
fn committed(stage: &Stage, group: &str, topic: &str) -> i64 {
    let mut connection = stage.connect();
    let at = |queue: i64| {
        let code = request::QUERY_CONSUMER_OFFSET;
        let answer = connection.call(
            code,
            |writer| writer.text("consumerGroup", group).text("topic", topic).number("queueId", queue),
            &[],
        );
        answer.field("offset").map_or(0, |offset| offset.parse::<i64>().unwrap())
    };
    (0..8).map(at).sum()
}

#[test]
fn what_is_no_grpc_server_is_told_from_one() {
    let (stage, grpc) = stage(&[]);
    let refused = |words: &str| {
        let told = run(&stage, words);
        assert!(!told.status.success(), "{words}");
        String::from_utf8(told.stderr).unwrap()
    };
    let broker = stage.server.setup().broker();
    let wrong = refused(&format!("producer --grpc {broker} -t T -q 1"));
    assert!(wrong.contains("does not answer gRPC") && wrong.contains("8081"), "{wrong}");
    let missing = refused(&format!("producer --grpc {grpc} -t Missing -q 1"));
    assert!(missing.contains("--queues N"), "{missing}");
    let missing = refused(&format!("consumer --grpc {grpc} -t Missing -g G --duration 1"));
    assert!(missing.contains("--queues N"), "{missing}");
}

#[test]
fn a_matrix_over_grpc_is_compared_with_itself() {
    let (stage, grpc) = stage(&[]);
    let matrix = |out: &Path| {
        let _ = std::fs::remove_dir_all(out);
        let words = format!(
            "matrix --grpc {grpc} --threads 4 --size 256 --queues 4 --rate 200 --groups 1 --consumer-threads 4 --warmup 1 \
             --duration 4 --repeats 1 --no-selftest --free-min 0 --out {}",
            out.display()
        );
        let told = run(&stage, &words);
        assert!(told.status.success(), "{told:?}");
        let record = Archive::open(out).unwrap().record().unwrap();
        let factors = &record.cells[0].cell.factors;
        assert_eq!(factors.more.get("protocol").map(String::as_str), Some("grpc"));
        let rows: Vec<_> = record.cells[0].repeats.iter().flat_map(|repeat| &repeat.load).collect();
        let (sent, consumed) =
            (rows.iter().map(|row| row.sent).sum::<u64>(), rows.iter().map(|row| row.consumed).sum::<u64>());
        let unsent = rows.iter().map(|row| row.failed + row.refused).sum::<u64>();
        println!("{sent} sent, {unsent} not, {consumed} consumed");
        // What is on its way at the end is missing; nothing comes twice.
        (unsent == 0 && sent > 300 && consumed > sent / 2 && consumed <= sent + 200).then_some(())
    };
    let (first, second) = (stage.home.path().join("first"), stage.home.path().join("second"));
    for out in [&first, &second] {
        eventually("a run that the machine did not hold up", || matrix(out));
    }
    let mut compare = Command::new(env!("CARGO_BIN_EXE_vostok"));
    let compared = compare.args(["lab", "compare"]).args([&first, &second]).output().unwrap();
    assert!(compared.status.success(), "{compared:?}");
}

#[test]
fn calls_are_signed() {
    let provider = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider";
    let (stage, grpc) = stage(&[
        "authenticationEnabled=true",
        &format!("authenticationMetadataProvider={provider}"),
        "initAuthenticationUser={\"username\":\"lab\",\"password\":\"hush-hush\"}",
    ]);
    let words = format!("producer --grpc {grpc} -t T --queues 2 -w 2 -q 20 -a true -ak lab -sk");
    let found = outcome(&stage, &format!("{words} hush-hush"));
    assert_eq!((&found["messages"], &found["failures"]), (&20.into(), &0.into()));
    let told = run(&stage, &format!("producer --grpc {grpc} -t T -w 2 -q 20 -a true -ak lab -sk wrong"));
    let text = String::from_utf8(told.stderr).unwrap();
    assert!(!told.status.success() && text.contains("40100"), "{text}");
}
