//! `vostok doctor` as a process, against a server of its own: a healthy broker, and faults that are named.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use client::{
    Client, Config, ConsumeFrom, ConsumeStatus, Message, Producer, ProducerConfig, PushConfig, PushConsumer,
};
use serde_json::Value;
use wire::codes::request;

use crate::common::server::free_ports;
use crate::common::wire_client::send_header;
use crate::common::{PATIENCE, patiently};
use crate::stage::{Stage, await_registered, eventually, output};

fn stage() -> Stage {
    let stage = Stage::start(&["brokerName=broker-a"]);
    await_registered(&stage.server);
    stage
}

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
    command.args(words).env_remove("NAMESRV_ADDR").env_remove("ROCKETMQ_HOME").stdin(Stdio::null());
    output(&mut command)
}

/// The verdict on a cluster as data, and the exit code.
fn doctor(words: &[&str]) -> (i32, Value) {
    let output = run(&[&["doctor", "-o", "json"], words].concat());
    let code = output.status.code().expect("it was not killed");
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (code, value)
}

fn admin(namesrv: &str, line: &str) {
    let words: Vec<&str> = ["admin", "-n", namesrv].into_iter().chain(line.split(' ')).collect();
    let output = run(&words);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Findings as `code: subject: figure`.
fn findings(verdict: &Value) -> Vec<String> {
    let list = verdict["findings"].as_array().expect("a list of findings");
    let text = |finding: &Value, name: &str| finding[name].as_str().expect("text").to_owned();
    list.iter()
        .map(|it| format!("{}: {}: {}", text(it, "code"), text(it, "subject"), text(it, "figure")))
        .collect()
}

fn state<'a>(verdict: &'a Value, code: &str) -> &'a str {
    let checks = verdict["checks"].as_array().expect("a list of checks");
    checks
        .iter()
        .find(|check| check["code"] == code)
        .and_then(|check| check["state"].as_str())
        .expect("a check")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(3 * PATIENCE, future).await }).expect("it ends")
}

/// A client of its own with a member of a group that wants messages with a tag.
async fn member(namesrv: &str, name: &str, group: &str, topic: &str, tag: &str) -> (Client, PushConsumer) {
    let config = Config { instance_name: name.to_owned(), ..Config::new(namesrv) };
    let client = Client::start(config).expect("a client");
    let config = PushConfig { from: ConsumeFrom::First, ..PushConfig::new(group, topic, tag) };
    let start = async || PushConsumer::start(&client, config.clone(), |_| ConsumeStatus::Done).await;
    let consumer = patiently(start).await.expect("a consumer");
    (client, consumer)
}

/// Waits until the name server tells the route of a topic.
fn wait_for_route(namesrv: &str, topic: &str) {
    eventually("the topic has a route", || {
        run(&["admin", "-n", namesrv, "topic", "route", topic]).status.success().then_some(())
    });
}

/// Whether a group consumed everything of a topic.
fn is_done(namesrv: &str, group: &str, topic: &str, messages: i64) -> Option<()> {
    let output = run(&["admin", "-n", namesrv, "-o", "json", "group", "progress", group, "--topic", topic]);
    let progress: Value = serde_json::from_slice(&output.stdout).ok()?;
    let rows = progress["queues"].as_array()?.iter();
    let consumed: i64 = rows.filter_map(|row| row["consumer_offset"].as_i64()).sum();
    (progress["diff_total"] == 0 && consumed == messages).then_some(())
}

#[test]
fn nothing_is_found_on_a_healthy_broker() {
    let stage = stage();
    let namesrv = stage.server.setup().namesrv().to_string();
    admin(&namesrv, "topic create Orders --cluster DefaultCluster --read-queues 2 --write-queues 2");
    wait_for_route(&namesrv, "Orders");
    let verdict = block_on(async {
        let (client, consumer) = member(&namesrv, "one", "Payments", "Orders", "*").await;
        let producer =
            Producer::new(&client, ProducerConfig { timeout: PATIENCE, ..ProducerConfig::new("P") });
        for _ in 0..8 {
            producer.send(&Message::new("Orders", "x")).await.expect("stored");
        }
        let server = namesrv.clone();
        let verdict = tokio::task::spawn_blocking(move || {
            eventually("everything is consumed", || is_done(&server, "Payments", "Orders", 8));
            // A slow machine is late with heartbeats and answers, which the doctor finds.
            eventually("nothing is found", || {
                let (code, verdict) = doctor(&["-n", &server, "--host", "no", "--sample", "0"]);
                println!("{code}: {:?}", findings(&verdict));
                (code == 0 && findings(&verdict).is_empty()).then_some(verdict)
            })
        });
        let verdict = verdict.await.expect("no panic");
        consumer.shutdown().await;
        producer.shutdown().await;
        client.shutdown();
        verdict
    });
    for looked in [
        "queue-without-owner",
        "subscriptions-conflict",
        "refused-fenced",
        "write-permission-wiped",
        "clocks-differ",
    ] {
        assert_eq!(state(&verdict, looked), "PASS", "{looked}");
    }
    for without_data in ["name-servers-disagree", "huge-pages-always", "group-not-moving", "settings-differ"]
    {
        assert_eq!(state(&verdict, without_data), "SKIP", "{without_data}");
    }
}

#[test]
fn faults_are_found_and_their_culprits_named() {
    let stage = stage();
    let setup = stage.server.setup();
    let (namesrv, broker) = (setup.namesrv().to_string(), setup.broker().to_string());
    for topic in ["Waiting", "Split"] {
        admin(
            &namesrv,
            &format!("topic create {topic} --cluster DefaultCluster --read-queues 1 --write-queues 1"),
        );
        wait_for_route(&namesrv, topic);
    }
    admin(&namesrv, "group create Away --cluster DefaultCluster");
    let mut connection = stage.connect();
    for _ in 0..3 {
        connection.stored(&send_header("Waiting", 0), b"a planted body");
    }
    let commit = connection.call(
        request::UPDATE_CONSUMER_OFFSET,
        |writer| {
            let writer = writer.text("consumerGroup", "Away").text("topic", "Waiting");
            writer.number("queueId", 0).number("commitOffset", 1)
        },
        &[],
    );
    assert_eq!(commit.code, 0);
    let bundle = stage.home.path().join("bundle.json");
    let (code, verdict) = block_on(async {
        let (one, first) = member(&namesrv, "one", "Both", "Split", "TagA").await;
        let (two, second) = member(&namesrv, "two", "Both", "Split", "TagB").await;
        let (server, file) = (namesrv.clone(), bundle.to_str().expect("text").to_owned());
        let verdict = tokio::task::spawn_blocking(move || {
            eventually("both members are known", || {
                let output = run(&["admin", "-n", &server, "-o", "json", "client", "consumers", "Both"]);
                let found: Value = serde_json::from_slice(&output.stdout).ok()?;
                (found["members"].as_array()?.len() == 2).then_some(())
            });
            // A registration with new topics gives the permission back.
            wait_for_route(&server, "%RETRY%Both");
            admin(&server, "namesrv wipe-write-perm broker-a");
            doctor(&["-n", &server, "--host", "no", "--sample", "0", "--save", &file])
        });
        let verdict = verdict.await.expect("no panic");
        first.shutdown().await;
        second.shutdown().await;
        one.shutdown();
        two.shutdown();
        verdict
    });
    let found = findings(&verdict);
    assert_eq!(code, 1, "{found:?}");
    let has = |words: &[&str]| found.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["group-offline-with-lag", "Away", "2 messages", "Waiting/broker-a/0"]), "{found:?}");
    assert!(
        has(&["subscriptions-conflict", "Both", "one wants Split [TagA]", "two wants Split [TagB]"]),
        "{found:?}"
    );
    assert!(has(&["write-permission-wiped", "broker-a"]), "{found:?}");
    assert!(has(&["members-beyond-queues", "Both", "2 members, 1 queues of Split"]), "{found:?}");
    the_bundle_is_judged_anywhere(&bundle, &verdict);
    let chain = ["queue", "Waiting/0", "-g", "Away", "-n", &namesrv, "--sample", "0"];
    let (code, chains) = doctor(&chain);
    assert_eq!((code, &chains["chains"][0]["breaks_at"]), (1, &"route".into()), "the permission is wiped");
    admin(&namesrv, "namesrv add-write-perm broker-a");
    let (code, chains) = doctor(&chain);
    assert_eq!((code, &chains["chains"][0]["breaks_at"]), (1, &"group online".into()), "{chains}");
    assert_eq!(chains["chains"][0]["queue"], "Waiting/broker-a/0", "{broker}");
}

/// A saved bundle gives the same verdict without the server, and has no body.
fn the_bundle_is_judged_anywhere(file: &Path, verdict: &Value) {
    let text = std::fs::read_to_string(file).expect("the bundle was saved");
    assert!(!text.contains("planted body"), "a bundle has no bodies");
    let (code, again) = doctor(&["--bundle", file.to_str().expect("text")]);
    assert_eq!((code, &again["findings"]), (1, &verdict["findings"]));
}

#[test]
fn brokers_of_one_name_and_id_are_found_whichever_registered_last() {
    let (stage, other) = (stage(), stage());
    let namesrv = stage.server.setup().namesrv().to_string();
    let addresses = [&stage, &other].map(|stage| stage.server.setup().broker().to_string());
    // Both are registered as brokers are that start in the same second, when none of them finds the other one running.
    let mut connection = stage.name_server();
    for address in &addresses {
        let answer = connection.call(
            request::REGISTER_BROKER,
            |writer| {
                let writer = writer.text("brokerName", "broker-a").text("clusterName", "DefaultCluster");
                writer.text("brokerAddr", address).number("brokerId", 0).text("haServerAddr", "")
            },
            &[],
        );
        assert_eq!(answer.code, 0, "{answer:?}");
    }
    let (code, verdict) = doctor(&["-n", &namesrv, "--host", "no", "--sample", "0"]);
    let found = findings(&verdict);
    let names_both = |line: &String| {
        line.starts_with("two-masters: broker-a of DefaultCluster")
            && addresses.iter().all(|address| line.contains(address))
    };
    assert!(code == 1 && found.iter().any(names_both), "{found:?}");
}

#[test]
fn who_cannot_look_says_so() {
    let nobody = format!("127.0.0.1:{}", free_ports().0);
    let output = run(&["doctor", "-n", &nobody]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&nobody), "{output:?}");
    assert_eq!(run(&["doctor", "--bundle", "/does/not/exist"]).status.code(), Some(2));
    assert_eq!(run(&["doctor", "queue", "Orders", "-g", "G"]).status.code(), Some(2));
}

#[test]
fn the_machine_is_judged_with_every_line_of_the_script() {
    let output = run(&["doctor", "host", "--store", "/", "-o", "json"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = verdict["os_sh"].as_array().expect("lines");
    assert!(
        lines.iter().any(|line| line["line"].as_str().unwrap().contains("dirty_writeback_centisecs=360000"))
    );
    for line in lines {
        assert!(["needed", "harmless", "harmful"].contains(&line["judgement"].as_str().unwrap()), "{line}");
    }
    assert_ne!(state(&verdict, "open-files-limit"), "SKIP");
}
