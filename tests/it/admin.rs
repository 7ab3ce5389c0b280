//! `vostok admin` and `vostok mqadmin` as processes, against a server of their own.

use std::process::{Command, Output};

use serde_json::Value;
use wire::header::SendHeader;

use crate::common::wire_client::{pull_header, send_header};
use crate::stage::{Stage, await_registered, beat, eventually, heartbeat, output};

fn stage() -> Stage {
    start(&["brokerName=broker-a"])
}

/// A server whose broker the name server knows.
fn start(lines: &[&str]) -> Stage {
    let stage = Stage::start(lines);
    await_registered(&stage.server);
    stage
}

fn run(stage: &Stage, program: &str, line: &str) -> Output {
    let setup = stage.server.setup();
    let words = line.split(' ').map(|word| match word {
        "{b}" => setup.broker().to_string(),
        word => word.to_owned(),
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
    command.arg(program).args(words).args(["-n", &setup.namesrv().to_string()]);
    command.env_remove("NAMESRV_ADDR").env_remove("ROCKETMQ_HOME").stdin(std::process::Stdio::null());
    // Eight hours before UTC, without files that say so.
    command.env("TZ", "CST-8").env("LC_ALL", "C");
    output(&mut command)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The answer of an operation as data.
fn admin(stage: &Stage, line: &str) -> Value {
    let output = run(stage, "admin", &format!("{line} -o json"));
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// What a command of mqadmin prints.
fn mqadmin(stage: &Stage, line: &str) -> String {
    let output = run(stage, "mqadmin", line);
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What a command says on standard error, and its exit code.
fn refused(stage: &Stage, program: &str, line: &str) -> (i32, String) {
    let output = run(stage, program, line);
    (output.status.code().expect("it was not killed"), text(&output.stderr))
}

/// The words of each line.
fn words(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn names(rows: &Value, member: &str) -> Vec<String> {
    let rows = rows.as_array().expect("rows");
    rows.iter().filter_map(|row| row[member].as_str().map(str::to_owned)).collect()
}

#[test]
fn topics_are_created_shown_and_deleted() {
    let stage = stage();
    let planned =
        admin(&stage, "topic create One --cluster DefaultCluster --read-queues 4 --write-queues 4 --dry-run");
    assert_eq!(planned[0]["request"], "UPDATE_AND_CREATE_TOPIC");
    assert!(
        !names(&admin(&stage, "topic list"), "topic").contains(&"One".to_owned()),
        "a dry run changes nothing"
    );
    let created = admin(&stage, "topic create One --cluster DefaultCluster --read-queues 4 --write-queues 4");
    assert_eq!(created["brokers"][0], stage.server.setup().broker().to_string());
    stage.connect().stored(&send_header("One", 2), b"first");
    assert!(names(&admin(&stage, "topic list"), "topic").contains(&"One".to_owned()));
    let status = admin(&stage, "topic status One");
    assert_eq!((&status["queues"][2]["queue"], &status["queues"][2]["max_offset"]), (&2.into(), &1.into()));
    assert_eq!(admin(&stage, "topic route One")[0]["read_queues"], 4);
    assert_eq!(admin(&stage, "topic clusters One")[0]["cluster"], "DefaultCluster");
    assert_eq!(admin(&stage, "topic perm One 4 --broker broker-a")[0]["after"], "R--");
    assert_eq!(admin(&stage, "topic route One")[0]["perm"], "R--");
    let (code, why) = refused(&stage, "admin", "topic delete One --cluster DefaultCluster");
    assert!(code == 2 && why.contains("--yes"), "{why}");
    admin(&stage, "topic delete One --cluster DefaultCluster --yes");
    assert!(!names(&admin(&stage, "topic list"), "topic").contains(&"One".to_owned()));
    let (code, why) = refused(&stage, "admin", "topic route One");
    assert!(code == 1 && why.contains("TOPIC_NOT_EXIST (17)"), "{why}");
}

#[test]
fn brokers_and_name_servers_show_and_change_their_settings() {
    let stage = stage();
    let clusters = eventually("the broker is registered", || {
        Some(admin(&stage, "cluster list"))
            .filter(|clusters| clusters.as_array().is_some_and(|rows| !rows.is_empty()))
    });
    assert_eq!((&clusters[0]["broker"], &clusters[0]["version"]), (&"broker-a".into(), &"V5_5_0".into()));
    let figures = admin(&stage, "broker status --broker broker-a");
    assert!(names(&figures, "name").contains(&"msgPutTotalTodayNow".to_owned()));
    admin(&stage, "broker set maxMessageSize 1000 --broker {b}");
    let (code, why) = refused(&stage, "admin", "broker set maxMesageSize 1000 --broker {b}");
    assert!(code == 1 && why.contains("did you mean maxMessageSize?"), "{why}");
    let settings = admin(&stage, "broker config --broker {b}");
    let size = settings.as_array().unwrap().iter().find(|row| row["key"] == "maxMessageSize").unwrap();
    assert_eq!(size["value"], "1000");
    let (code, why) = refused(&stage, "admin", "broker set brokerConfigPath /x --broker {b}");
    assert!(code == 1 && why.contains("black list"), "{why}");
    assert!(names(&admin(&stage, "namesrv config"), "key").contains(&"orderMessageEnable".to_owned()));
    let set = |key| admin(&stage, &format!("namesrv set {key} true")).to_string();
    assert!(!set("orderMessageEnable").contains("shows no setting"));
    assert!(set("orderMesageEnable").contains("shows no setting orderMesageEnable"));
    assert!(admin(&stage, "namesrv wipe-write-perm broker-a")[0]["topics"].as_i64().unwrap() > 0);
    assert!(admin(&stage, "namesrv add-write-perm broker-a")[0]["topics"].as_i64().unwrap() > 0);
    admin(&stage, "kv put NS K V");
    assert_eq!(admin(&stage, "kv get NS K")[0]["value"], "V");
    admin(&stage, "kv delete NS K --yes");
    let (code, why) = refused(&stage, "admin", "kv get NS K");
    assert!(code == 1 && why.contains("(22)"), "{why}");
}

#[test]
fn an_operator_who_sends_sees_the_answer_of_a_master_without_its_slaves() {
    // The master answers later than producers wait by default (3 s).
    let lines = ["brokerName=broker-a", "brokerRole=SYNC_MASTER", "inSyncReplicas=2", "slaveTimeout=3100"];
    let stage = start(&lines);
    admin(&stage, "topic create One --cluster DefaultCluster --read-queues 1 --write-queues 1");
    let sent = admin(&stage, "message send One --body x --broker broker-a --queue 0");
    assert!(sent["status"] == "FLUSH_SLAVE_TIMEOUT" && sent["queue_offset"].is_i64(), "{sent}");
}

#[test]
fn groups_show_their_progress_and_are_reset() {
    let stage = stage();
    admin(&stage, "topic create One --cluster DefaultCluster --read-queues 1 --write-queues 1");
    admin(&stage, "group create G --cluster DefaultCluster --retry-max 5");
    let mut connection = stage.connect();
    for _ in 0..3 {
        connection.stored(&send_header("One", 0), b"body");
    }
    let (_, why) = refused(&stage, "admin", "group lag G");
    assert!(why.contains("the group G has no offsets"), "the group exists without a retry topic: {why}");
    connection.pull(&pull_header("G", "One", 0, 0));
    admin(&stage, "offset reset G One now --broker {b} --queue 0 --offset 1 --yes");
    let lag = admin(&stage, "group lag G");
    assert_eq!((&lag["diff_total"], &lag["causes"][0]["cause"]), (&2.into(), &"offline".into()), "{lag}");
    let progress = admin(&stage, "group progress G --topic One");
    assert_eq!((&progress["diff_total"], &progress["queues"][0]["consumer_offset"]), (&2.into(), &1.into()));
    let (code, why) =
        refused(&stage, "admin", "offset reset G One now --broker {b} --queue 0 --offset 9 --yes");
    assert!(code == 1 && why.contains("not in consume queue range"), "{why}");
    assert_eq!(admin(&stage, "offset skip G One --yes")[0]["offset"], 3);
    let (code, why) = refused(&stage, "admin", "offset clone Typo G One --yes");
    assert!(code == 1 && why.contains("the group Typo has committed no offset in the topic One"), "{why}");
    let (code, _) = refused(&stage, "mqadmin", "cloneGroupOffset -s Typo -d G -t One");
    assert_eq!(code, 1);
    assert_eq!(admin(&stage, "group progress G --topic One")["queues"][0]["consumer_offset"], 3, "it stays");
    let (code, why) = refused(&stage, "admin", "offset clone G Other One");
    assert!(code == 2 && why.contains("--yes"), "the offsets of the target are lost: {why}");
    assert_eq!(admin(&stage, "offset clone G Other One --yes")[0]["offset"], 3);
    let settings = admin(&stage, "group config G");
    let retries = settings.as_array().unwrap().iter().find(|row| row["key"] == "retryMaxTimes").unwrap();
    assert_eq!(retries["value"], 5);
    admin(&stage, "group delete G --cluster DefaultCluster --yes");
    let (code, why) = refused(&stage, "admin", "group config G");
    assert!(code == 1 && why.contains("no broker has settings of the group G"), "{why}");
    assert_eq!(mqadmin(&stage, "getConsumerConfig -g G"), "", "as mqadmin");
    let (code, why) = refused(&stage, "admin", "message dump-compaction /dev/null");
    assert!(code == 1 && why.contains("the file /dev/null does not begin with a message"), "{why}");
}

#[test]
fn messages_are_found_and_printed() {
    let stage = stage();
    admin(&stage, "topic create One --cluster DefaultCluster --read-queues 1 --write-queues 1");
    let mut connection = stage.connect();
    let unique = "7F00000100ABCD18B4AAC20000000001";
    for (body, properties) in [
        ("first", format!("KEYS\u{1}order-7\u{2}UNIQ_KEY\u{1}{unique}\u{2}TAGS\u{1}TagA\u{2}")),
        ("second", "TAGS\u{1}TagB\u{2}".to_owned()),
    ] {
        let header = SendHeader { properties: properties.as_bytes(), ..send_header("One", 0) };
        connection.stored(&header, body.as_bytes());
    }
    for (program, line) in [("admin", "topic queue One 0 7"), ("mqadmin", "queryCq -t One -q 0 -i 7")] {
        let (code, why) = refused(&stage, program, line);
        assert!(code == 1 && why.contains("Index 7 of 0@One is not exist!"), "{why}");
    }
    let message = admin(&stage, "message offset One broker-a 0 0");
    assert_eq!((&message["body"], &message["tags"]), (&"first".into(), &"TagA".into()));
    assert_eq!(message["message_id"], unique);
    let offset_id = message["offset_id"].as_str().unwrap();
    for id in [offset_id, unique] {
        assert_eq!(admin(&stage, &format!("message get One {id}"))["body"], "first");
    }
    assert_eq!(admin(&stage, &format!("message unique-key One {unique}"))[0]["body"], "first");
    assert_eq!(admin(&stage, "message key One order-7")[0]["message_id"], unique);
    let (code, why) = refused(&stage, "admin", "message key One no-such-key");
    assert!(code == 1 && why.contains("no message with the key no-such-key"), "{why}");
    let printed = |more: &str| names(&admin(&stage, &format!("message print One broker-a 0{more}")), "body");
    assert_eq!(printed(""), ["first", "second"]);
    assert_eq!(
        (printed(" --tags TagB"), printed(" --limit 1")),
        (vec!["second".into()], vec!["first".into()])
    );
    let said = words(&mqadmin(&stage, &format!("queryMsgById -i {offset_id} -t One")));
    assert_eq!(said[..3], [format!("OffsetID: {offset_id}"), "Topic: One".into(), "Tags: [TagA]".into()]);
    assert!(said.contains(&"WARN: No Consumer".to_owned()), "{said:?}");
    let stored =
        admin(&stage, &format!("message get One {offset_id}"))["store_time"].as_str().unwrap().to_owned();
    let local =
        said.iter().find_map(|line| line.strip_prefix("Store Timestamp: ")).unwrap().replace([' ', ','], "#");
    let local = local.replace('.', ":");
    let at =
        |time: &str| names(&admin(&stage, &format!("message print One broker-a 0 --begin {time}")), "body");
    assert_eq!((at(&local), at(&stored)), (at("0"), at("0")), "{local} is {stored}");
    let all = at("0");
    for time in ["-1h", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00+08:00", "2020-01-01"] {
        assert_eq!(at(time), all, "{time}");
    }
    assert_eq!(at("+1d"), [""; 0]);
    let (code, why) = refused(&stage, "admin", "message print One broker-a 0 --begin yesterday");
    assert!(code == 2 && why.contains("expected begin as a time") && why.contains("-1h"), "{why}");
    let hour = |text: &str| text[11..13].parse::<u32>().unwrap();
    assert_eq!(hour(&local), (hour(&stored) + 8) % 24, "mqadmin tells the local time");
    assert!(
        words(&mqadmin(&stage, "queryMsgByKey -t One -k order-7"))[1]
            .contains(&format!("@One@K@order-7@{unique}@0"))
    );
    let said = mqadmin(&stage, "printMsg -t One -s TagB");
    assert!(said.starts_with("minOffset=0, maxOffset=2, ") && said.contains("BODY: second"), "{said}");
    let said = words(&mqadmin(&stage, "printMsgByQueue -t One -a broker-a -i 0 -f true"));
    assert_eq!(said, ["Tag: TagA Count: 1", "Tag: TagB Count: 1"]);
}

#[test]
fn rates_and_progress_of_a_broker_are_shown() {
    let stage = stage();
    admin(&stage, "topic create One --cluster DefaultCluster --read-queues 1 --write-queues 1");
    stage.connect().stored(&send_header("One", 0), b"body");
    let rates = admin(&stage, "topic rates --topic One");
    assert_eq!((&rates[0]["topic"], &rates[0]["group"]), (&"One".into(), &"".into()));
    assert_eq!(admin(&stage, "broker progress --broker {b}")["diff_total"], 0);
    let said = words(&mqadmin(&stage, "statsAll -t One"));
    assert!(said[1].starts_with("One 0 ") && said[1].ends_with("NO_CONSUMER"), "{said:?}");
    assert!(mqadmin(&stage, "brokerConsumeStats -b {b}").ends_with("\nDiff Total: 0\n"));
}

#[test]
fn users_and_acls_are_managed() {
    let stage = start(&[
        "brokerName=broker-a",
        "authenticationEnabled=true",
        "authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
        "authorizationProvider=org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
        "authorizationEnabled=true",
        "initAuthenticationUser={\"username\":\"root\",\"password\":\"root-secret\"}",
        "innerClientAuthenticationCredentials={\"accessKey\":\"root\",\"secretKey\":\"root-secret\"}",
    ]);
    let place = |name: &str, content: &str| {
        let path = stage.home.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let tools = place("tools.yml", "accessKey: root\nsecretKey: root-secret\n");
    let password = place("password", "alice-secret\n");
    let signed = |line: &str| admin(&stage, &format!("{line} --broker {{b}} --credentials {tools}"));
    let planned = signed(&format!("user create alice --password-file {password} --dry-run"));
    assert_eq!(planned[0]["content"], "username=alice (not shown)");
    signed(&format!("user create alice --password-file {password}"));
    assert_eq!(names(&signed("user list --filter ali"), "type"), ["Normal"]);
    signed("user update alice --status disable");
    assert_eq!(signed("user get alice")[0]["status"], "disable");
    for wrong in ["--status disabled", "--type Admin", ""] {
        let (code, why) =
            refused(&stage, "admin", format!("user update alice --broker {{b}} {wrong}").trim_end());
        assert!(code == 2 && why.contains("expected"), "{wrong}: {why}");
    }
    signed("acl create User:alice --resources Topic:orders,Group:billing --actions Pub,Sub --decision Allow");
    assert_eq!(names(&signed("acl get User:alice"), "resource"), ["Topic:orders", "Group:billing"]);
    signed("acl delete User:alice --resources Topic:orders --yes");
    assert_eq!(names(&signed("acl list"), "resource"), ["Group:billing"]);
    signed("user delete alice --yes");
    let (code, why) = refused(&stage, "admin", "user list --broker {b}");
    assert!(code == 1 && why.contains("NO_PERMISSION"), "{why}");
}

#[test]
fn mqadmin_has_its_names_flags_and_texts() {
    let stage = stage();
    let broker = stage.server.setup().broker().to_string();
    let said = mqadmin(&stage, "updateTopic -b {b} -t One -r 4 -w 4 -a +message.type=NORMAL");
    assert!(
        said.starts_with(&format!("create topic to {broker} success.\nTopicConfig [topicName=One,")),
        "{said}"
    );
    let said = mqadmin(&stage, "updateTopic -b {b} -t Ordered -w 4 -o true");
    assert!(said.contains("\nset broker orderConf. isOrder=true, orderConf=[broker-a:4]\n"), "{said}");
    assert_eq!(admin(&stage, "kv get ORDER_TOPIC_CONFIG Ordered")[0]["value"], "broker-a:4");
    let (code, why) = refused(&stage, "admin", "topic status One --cluster NoSuch");
    assert!(
        code == 1 && why.contains("no broker of the cluster NoSuch has queues of the topic One"),
        "{why}"
    );
    assert!(words(&mqadmin(&stage, "TOPICLIST")).contains(&"One".to_owned()));
    let route = mqadmin(&stage, "topicRoute -t One");
    assert!(route.contains(&format!("0:\"{broker}\"")) && route.contains("\"readQueueNums\":4"), "{route}");
    let list = words(&mqadmin(&stage, "topicRoute -t One -l"));
    assert_eq!(list[1], format!("DefaultCluster broker-a {{0={broker}}} 4 4 6"));
    assert_eq!(list[3], "Total: 1 4 4");
    let said = mqadmin(&stage, "updateTopicPerm -b {b} -t One -p 4");
    assert!(said.starts_with(&format!("update topic perm from 6 to 4 in {broker} success.\n")), "{said}");
    let clusters = words(&mqadmin(&stage, "clusterList"));
    assert!(
        clusters[1].starts_with(&format!("DefaultCluster broker-a 0 {broker} V5_5_0 0.00(0,0ms)")),
        "{clusters:?}"
    );
    assert!(mqadmin(&stage, "brokerStatus -b {b}").contains("msgPutTotalTodayNow             : "));
    assert!(mqadmin(&stage, "haStatus -b {b}").contains("#SlaveNum\t0"));
    let (code, why) = refused(&stage, "mqadmin", "topicRoute -t NoSuch");
    assert!(code == 1 && why.contains("CODE: 17  DESC: "), "{why}");
    let (code, why) = refused(&stage, "mqadmin", "topicRoute");
    assert!(code == 1 && why.contains("Missing required option: t"), "{why}");
    let (code, why) = refused(&stage, "mqadmin", "getLiteGroupInfo -p One -g G");
    assert!(code == 1 && why.contains("CODE: 26  DESC: Group [G] not exist."), "{why}");
    let (code, why) = refused(&stage, "mqadmin", "fly");
    assert!(code == 1 && why.contains("The sub command fly not exist."), "{why}");
}

#[test]
fn a_link_named_mqadmin_is_mqadmin() {
    let stage = stage();
    let link = stage.home.path().join("mqadmin");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_vostok"), &link).unwrap();
    let output = Command::new(link).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.starts_with("The most commonly used mqadmin commands are:\n   updateTopic "), "{said}");
}

#[test]
fn topics_and_groups_are_shown_in_pages() {
    let stage = stage();
    let mut connection = stage.connect();
    for (topic, count) in [("Orders", 1), ("OrdersOld", 3), ("Other", 2)] {
        (0..count).for_each(|_| _ = connection.stored(&send_header(topic, 0), b"body"));
    }
    beat(&mut connection, &heartbeat("c1", "Reader", "Orders", "*", "", 1));
    let first = admin(&stage, "topic list --contains Orders --limit 1");
    assert_eq!((names(&first, "topic"), &first[0]["messages"]), (vec!["Orders".to_owned()], &1.into()));
    assert_eq!(names(&admin(&stage, "topic list --contains Orders --after Orders"), "topic"), ["OrdersOld"]);
    let busiest = admin(&stage, "topic list --contains O --sort messages --limit 2");
    assert_eq!(names(&busiest, "topic"), ["OrdersOld", "Other"]);
    let groups = admin(&stage, "group names --contains Reader");
    assert_eq!((names(&groups, "group"), &groups[0]["members"]), (vec!["Reader".to_owned()], &1.into()));
    let (code, why) = refused(&stage, "admin", "topic list --sort size");
    assert!(code == 1 && why.contains("expected name or messages"), "{why}");
}

#[test]
fn top_prints_the_figures_of_one_second() {
    let stage = stage();
    let mut connection = stage.connect();
    for _ in 0..3 {
        connection.stored(&send_header("Shown", 1), b"body");
    }
    admin(&stage, "topic create Alone --cluster DefaultCluster --read-queues 2 --write-queues 2");
    beat(&mut connection, &heartbeat("c1", "Reader", "Shown", "*", "", 1));
    let commit = connection.call(
        wire::codes::request::UPDATE_CONSUMER_OFFSET,
        |writer| {
            let writer = writer.text("consumerGroup", "Reader").text("topic", "Shown");
            writer.text("queueId", "1").text("commitOffset", "1")
        },
        b"",
    );
    assert_eq!(commit.code, 0, "{commit:?}");
    let sample = eventually("the name server knows the topics", || {
        let output = run(&stage, "top", "--once -o json");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let sample: Value = serde_json::from_slice(&output.stdout).unwrap();
        names(&sample["topics"], "topic").contains(&"Alone".to_owned()).then_some(sample)
    });
    let row = |table: &str, member: &str, value: &str| {
        let rows = sample[table].as_array().expect("rows");
        let found = rows.iter().find(|row| row[member] == value);
        found.unwrap_or_else(|| panic!("{value} is not in {table}: {sample}")).clone()
    };
    assert_eq!(row("brokers", "broker", "broker-a")["address"], stage.server.setup().broker().to_string());
    let topic = row("topics", "topic", "Shown");
    assert_eq!((&topic["end"], &topic["lag"], &topic["groups"]), (&3.into(), &2.into(), &1.into()));
    assert_eq!(topic["in_tps"], 0.0, "nothing was sent between the looks");
    let alone = row("topics", "topic", "Alone");
    assert_eq!((&alone["end"], &alone["groups"]), (&0.into(), &0.into()));
    let group = row("groups", "group", "Reader");
    assert_eq!((&group["lag"], &group["members"]), (&2.into(), &1.into()));
    assert!(group["lag_seconds"].is_i64(), "{group}");
    let queues = sample["queues"].as_array().expect("rows");
    let queue = queues.iter().find(|row| row["topic"] == "Shown" && row["queue"] == 1).expect("the queue");
    assert_eq!((&queue["consumer_offset"], &queue["broker_offset"]), (&1.into(), &3.into()));
    assert_eq!(row("clients", "client_id", "c1")["kind"], "consumer");
    assert_eq!(refused(&stage, "top", "").0, 2, "there is no terminal");
}

#[test]
fn the_language_changes_words_and_no_data() {
    let stage = stage();
    let said = |line: &str| text(&run(&stage, "admin", line).stdout);
    assert!(
        said("cluster list").starts_with("CLUSTER") && said("--lang zh cluster list").starts_with("集群")
    );
    for format in ["json", "yaml", "csv"] {
        let line = format!("topic list -o {format}");
        assert_eq!(said(&line), said(&format!("--lang zh {line}")), "{format}");
    }
    assert!(said("--lang zh topic create --help").contains("用法：vostok admin topic create"));
    let (code, why) = refused(&stage, "admin", "group progress nobody");
    assert!(
        code == 1 && why.contains("no broker knows the group nobody") && !why.contains("%RETRY%"),
        "{why}"
    );
    let (code, why) = refused(&stage, "admin", "--lang zh group progress nobody");
    assert!(code == 1 && why.contains("没有 broker 知道消费组 nobody"), "{why}");
    let (_, why) = refused(&stage, "mqadmin", "consumerProgress -g nobody");
    assert!(why.contains("%RETRY%nobody"), "{why}");
    let empty = run(&stage, "admin", "topic list --contains no-such-topic");
    assert_eq!((empty.status.code(), text(&empty.stdout)), (Some(0), String::new()));
    assert!(text(&empty.stderr).contains("topic list: nothing found"), "{empty:?}");
}
