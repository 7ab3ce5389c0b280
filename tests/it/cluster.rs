//! `vostok serve --cluster`: whole clusters on this machine, each member a process.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use store::timer::TimerCheck;
use wire::body::DelayOffsetTable;
use wire::codes::request;
use wire::header::SendHeader;

use crate::common::PATIENCE;
use crate::common::os;
use crate::common::server::{ON_ANY_DISK, await_end, free_ports, free_ports_of};
use crate::common::wire_client::{Connection, pull_header, send_header};
use crate::stage::{eventually, make_group, open, output, records};

const SIGKILL: i32 = 9;

/// Settings of sets of three. A killed broker is known by the end of its connection, and a slow one is not taken for it; sends wait for
/// slow slaves.
const SET_OF_THREE: &str =
    "mappedFileSizeCommitLog=1048576\ncontrollerHeartBeatTimeoutMills=120000\nslaveTimeout=30000\n";

/// A line of the table of members.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    role: String,
    address: SocketAddr,
    id: u32,
    data: PathBuf,
}

impl Member {
    fn is_running(&self) -> bool {
        // A zombie is one that its parent has not noticed yet.
        fs::read_to_string(format!("/proc/{}/stat", self.id)).is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// Sends a message to the first queue; `None` when this broker does not store it, or is gone.
    fn store(&self, body: &[u8]) -> Option<i64> {
        let mut connection = Connection::open(self.address).ok()?;
        let header = send_header("Copied", 0);
        let opaque = connection.ask(request::SEND_MESSAGE_V2, |writer| header.write(writer), body).ok()?;
        let answer = connection.answer(opaque).ok()?;
        (answer.code == 0).then(|| answer.number("queueOffset"))
    }

    /// Whether this broker serves consumers, which a slave does not without `slaveReadEnable`.
    fn is_master(&self) -> bool {
        let read =
            || Connection::open(self.address).ok().map(|mut at| at.pull(&pull_header("CG", "Copied", 0, 0)));
        read().is_some_and(|answer| answer.code == 0)
    }

    /// Commits an offset of the group. A broker refuses while others take too long to follow or to answer.
    fn commit(&self, offset: i64) {
        eventually("the offset is committed", || {
            let answer = open(self.address).call(
                request::UPDATE_CONSUMER_OFFSET,
                |writer| {
                    let writer = writer.text("consumerGroup", "CG").text("topic", "Copied");
                    writer.number("queueId", 0).number("commitOffset", offset)
                },
                &[],
            );
            (answer.code == 0).then_some(())
        });
    }

    /// The offset that the group has committed, by this broker's account.
    fn committed(&self) -> i64 {
        eventually("the broker answers with an offset", || {
            let answer = open(self.address).call(
                request::QUERY_CONSUMER_OFFSET,
                |writer| writer.text("consumerGroup", "CG").text("topic", "Copied").number("queueId", 0),
                &[],
            );
            (answer.code == 0).then(|| answer.number("offset"))
        })
    }

    /// Whether this slave has noted that so many messages of delay level 1, and so many timed ones that were due before `due_ms`, are
    /// delivered.
    fn has_noted(&self, count: i64, due_ms: i64) -> Option<()> {
        let timers = TimerCheck::from_bytes(&fs::read(self.data.join("config/timercheck")).ok()?);
        let answer = open(self.address).call(request::GET_ALL_DELAY_OFFSET, |writer| writer, &[]);
        let delays: DelayOffsetTable = wire::json::from_slice(&answer.body).ok()?;
        let has_delays = delays.offset_table.get(&1).is_some_and(|offset| *offset >= count);
        (has_delays && timers.master_queue_offset >= count && timers.read_ms >= due_ms).then_some(())
    }

    fn bodies(&self) -> Vec<Vec<u8>> {
        let found = open(self.address).pull(&pull_header("CG", "Copied", 0, 0));
        records(&found).into_iter().map(|record| record.1).collect()
    }
}

/// A running cluster; all of it is gone after the test.
struct Cluster {
    parent: Child,
    lines: Receiver<String>,
    members: Vec<Member>,
    home: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Members end with their parent.
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

impl Cluster {
    fn start(kind: &str, brokers: u16, settings: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let conf = home.path().join("given.conf");
        fs::write(&conf, format!("{}\n{settings}", ON_ANY_DISK.join("\n"))).unwrap();
        let (namesrv, broker) = free_ports_of(brokers);
        let (grpc, console) = free_ports();
        let mut parent = Command::new(env!("CARGO_BIN_EXE_vostok"))
            .args(["serve", "--cluster", kind, "--data"])
            .arg(home.path().join("data"))
            .args(["--namesrv-port", &namesrv.to_string(), "--broker-port", &broker.to_string()])
            .args(["--grpc-port", &grpc.to_string(), "--console", &format!("127.0.0.1:{console}"), "-c"])
            .arg(conf)
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(home.path().join("errors")).unwrap())
            .spawn()
            .unwrap();
        let output = BufReader::new(parent.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut cluster = Self { parent, lines, members: Vec::new(), home };
        assert!(cluster.line().starts_with("MEMBER "));
        cluster.members = (0..brokers + 2).map(|_| member(&cluster.line())).collect();
        cluster
    }

    /// The next line that the parent prints.
    fn line(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        line.unwrap_or_else(|error| {
            let text = fs::read_to_string(self.home.path().join("errors")).unwrap_or_default();
            panic!("the parent says nothing ({error}):\n{text}")
        })
    }

    /// What the parent says about the end of a member.
    fn line_about(&self, name: &str) -> String {
        loop {
            let line = self.line();
            if line.starts_with(name) {
                return line;
            }
        }
    }

    /// Waits until the parent has told the end of each of these members, in any order.
    fn await_ends(&self, names: &[&str]) {
        let mut left = names.to_vec();
        while !left.is_empty() {
            let line = self.line();
            left.retain(|name| !line.starts_with(name));
        }
    }

    fn brokers(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.name.starts_with("broker-"))
    }

    /// SIGTERM, and waits for the end of all.
    fn stop(mut self) -> ExitStatus {
        os::signal(self.parent.id(), os::SIGTERM).unwrap();
        let status = await_end(&mut self.parent).expect("the parent ends");
        assert!(!self.members.iter().any(Member::is_running), "{:?}", self.members);
        status
    }
}

fn member(line: &str) -> Member {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, role, address, id, data] = fields.as_slice() else { panic!("{line}") };
    let (address, id) = (address.parse().unwrap(), id.parse().unwrap());
    Member { name: (*name).to_owned(), role: (*role).to_owned(), address, id, data: data.into() }
}

fn roles(cluster: &Cluster) -> Vec<(&str, &str)> {
    cluster.members.iter().map(|member| (member.name.as_str(), member.role.as_str())).collect()
}

#[test]
fn a_set_of_three_fails_over_when_its_master_is_killed() {
    let cluster = Cluster::start("1m2s", 3, SET_OF_THREE);
    assert_eq!(roles(&cluster)[0], ("namesrv", "namesrv,controller"));
    let (master, others): (Vec<&Member>, Vec<&Member>) =
        cluster.brokers().partition(|member| member.role == "master");
    let [master] = master.as_slice() else { panic!("{:?}", cluster.members) };
    eventually("the set is large enough to take messages", || master.store(b"before"));
    os::signal(master.id, SIGKILL).unwrap();
    assert!(cluster.line_about(&master.name).contains("signal: 9"));
    let next = eventually("another one takes messages", || {
        others.iter().find(|member| member.store(b"after").is_some() && member.is_master())
    });
    assert!(next.bodies().iter().any(|body| body == b"before"), "the acknowledged message is there");
    // The killed one comes back by hand and follows.
    let conf = master.data.with_extension("conf");
    let mut returned = Command::new(env!("CARGO_BIN_EXE_vostok"))
        .args(["serve", "--roles", "broker", "--data"])
        .arg(&master.data)
        .arg("-c")
        .arg(conf)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let follows = || {
        let mut connection = Connection::open(master.address).ok()?;
        let answer = connection.ask(
            request::GET_MAX_OFFSET,
            |writer| writer.text("topic", "Copied").number("queueId", 0),
            &[],
        );
        let answer = connection.answer(answer.ok()?).ok()?;
        (answer.code == 0 && answer.number("offset") >= 2).then_some(())
    };
    eventually("the killed one has what it missed", follows);
    os::signal(returned.id(), os::SIGTERM).unwrap();
    assert!(await_end(&mut returned).expect("it ends").success());
    assert!(cluster.stop().success());
}

/// A member that was started by hand; it is killed in the end.
struct ByHand(Child);

impl ByHand {
    fn start(member: &Member) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
        let role = if member.role.starts_with("namesrv") { member.role.as_str() } else { "broker" };
        command.args(["serve", "--roles", role, "--data"]).arg(&member.data);
        command.arg("-c").arg(member.data.with_extension("conf"));
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn controllers_that_lost_their_disks_are_told_again_and_nothing_acknowledged_is_lost() {
    let cluster = Cluster::start("1m2s", 3, SET_OF_THREE);
    let (masters, slaves): (Vec<&Member>, Vec<&Member>) =
        cluster.brokers().partition(|member| member.role == "master");
    eventually("the set is large enough to take messages", || masters[0].store(b"before"));
    let all_in_sync = || in_sync(&cluster).as_array().unwrap().iter().all(|row| row["in_sync"] == true);
    eventually("all are in sync", || all_in_sync().then_some(()));
    let controllers = &cluster.members[0];
    os::signal(controllers.id, SIGKILL).unwrap();
    os::signal(slaves[0].id, SIGKILL).unwrap();
    // A process that has not ended still has its ports and the lock of its store.
    cluster.await_ends(&[&controllers.name, &slaves[0].name]);
    fs::remove_dir_all(controllers.data.join("controller")).unwrap();
    let _controllers = ByHand::start(controllers);
    let _slave = ByHand::start(slaves[0]);
    // The restarted broker and the running brokers report the cause, and no broker is elected.
    for member in cluster.brokers() {
        eventually("the broker tells that it is not known", || {
            let mut connection = Connection::open(member.address).ok()?;
            let opaque = connection.ask(request::GET_BROKER_RUNTIME_INFO, |writer| writer, &[]).ok()?;
            let body = connection.answer(opaque).ok()?.body;
            let figures: serde_json::Value = wire::json::from_slice(&body).ok()?;
            (figures["table"]["unknownToControllers"] == "true").then_some(())
        });
    }
    let controller = SocketAddr::new(controllers.address.ip(), controllers.address.port() + 2).to_string();
    let rebuild = |brokers: &[&Member]| {
        let addresses: Vec<String> = brokers.iter().map(|member| member.address.to_string()).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
        command.args(["controller", "rebuild", "--to", &controller, "--brokers", &addresses.join(",")]);
        output(&mut command)
    };
    let all: Vec<&Member> = cluster.brokers().collect();
    let first = in_order_of_ids(&all)[1..].to_vec();
    let refused = rebuild(&first);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("broker 1 of the set is missing"), "{why}");
    let told = rebuild(&all);
    assert!(told.status.success(), "{told:?}");
    eventually("the master goes on", || masters[0].store(b"between"));
    eventually("all are in sync", || {
        let rows = in_sync(&cluster);
        let rows = rows.as_array().unwrap();
        (rows.len() == 3 && rows.iter().all(|row| row["in_sync"] == true)).then_some(())
    });
    os::signal(masters[0].id, SIGKILL).unwrap();
    let next = eventually("another one takes messages", || {
        slaves.iter().find(|member| member.store(b"after").is_some() && member.is_master())
    });
    let bodies = next.bodies();
    assert!([&b"before"[..], b"between"].iter().all(|body| bodies.iter().any(|it| it == body)), "{bodies:?}");
}

/// These brokers in the order of the ids that the controllers gave them.
fn in_order_of_ids<'a>(members: &[&'a Member]) -> Vec<&'a Member> {
    let id = |member: &Member| {
        let text = fs::read_to_string(member.data.join("brokerIdentity")).unwrap();
        text.rsplit('#').next().unwrap().trim().parse::<u64>().unwrap()
    };
    let mut members = members.to_vec();
    members.sort_by_key(|member| id(member));
    members
}

/// `vostok admin replica in-sync` as JSON.
fn in_sync(cluster: &Cluster) -> serde_json::Value {
    replicas(cluster, &["in-sync"])
}

/// `vostok admin replica` with these words, as JSON.
fn replicas(cluster: &Cluster, words: &[&str]) -> serde_json::Value {
    let namesrv = cluster.members[0].address;
    let controller = SocketAddr::new(namesrv.ip(), namesrv.port() + 2);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
    command.args(["admin", "-o", "json", "-n", &namesrv.to_string(), "replica"]).args(words);
    command.args(["--controller", &controller.to_string(), "--broker", "broker-a"]);
    let told = output(&mut command);
    assert!(told.status.success(), "{told:?}");
    serde_json::from_slice(&told.stdout).unwrap()
}

#[test]
fn what_a_master_answered_about_its_tables_outlives_it() {
    let cluster = Cluster::start("1m2s", 3, SET_OF_THREE);
    let (masters, others): (Vec<&Member>, Vec<&Member>) =
        cluster.brokers().partition(|member| member.role == "master");
    eventually("the set is large enough to take messages", || masters[0].store(b"one"));
    let is_whole = || in_sync(&cluster).as_array().unwrap().iter().all(|row| row["in_sync"] == true);
    eventually("all are in sync", || is_whole().then_some(()));
    let mut master = open(masters[0].address);
    let group = br#"{"groupName":"Made","retryMaxTimes":3}"#;
    let answer = master.call(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, |writer| writer, group);
    assert_eq!(answer.code, 0, "{answer:?}");
    let answer = master.call(
        request::UPDATE_AND_CREATE_TOPIC,
        |writer| {
            let writer = writer.text("topic", "Made").text("defaultTopic", "TBW102").number("perm", 6);
            let writer = writer.text("topicFilterType", "SINGLE_TAG").number("topicSysFlag", 0);
            writer.number("readQueueNums", 7).number("writeQueueNums", 7)
        },
        &[],
    );
    assert_eq!(answer.code, 0, "{answer:?}");
    make_group(&mut master, "CG");
    for offset in 1..=200 {
        masters[0].commit(offset);
    }
    os::signal(masters[0].id, SIGKILL).unwrap();
    let next = eventually("another one takes messages", || {
        others.iter().find(|member| member.store(b"after").is_some() && member.is_master())
    });
    assert_eq!(next.committed(), 200);
    let mut next = open(next.address);
    let answer = next.call(request::GET_SUBSCRIPTIONGROUP_CONFIG, |writer| writer.text("group", "Made"), &[]);
    let config: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(config["retryMaxTimes"], 3, "{answer:?}");
    let answer = next.call(request::GET_TOPIC_CONFIG, |writer| writer.text("topic", "Made"), &[]);
    let config: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(config["readQueueNums"], 7, "{answer:?}");
    assert!(cluster.stop().success());
}

#[test]
fn delayed_and_timed_messages_are_delivered_once_although_the_master_is_killed() {
    let cluster = Cluster::start("1m2s", 3, SET_OF_THREE);
    let (masters, others): (Vec<&Member>, Vec<&Member>) =
        cluster.brokers().partition(|member| member.role == "master");
    eventually("the set is large enough to take messages", || masters[0].store(b"first"));
    make_group(&mut open(masters[0].address), "CG");
    let send = |member: &Member, body: String, properties: &str| {
        let header = SendHeader { properties: properties.as_bytes(), ..send_header("Copied", 0) };
        let answer = open(member.address).send(&header, body.as_bytes());
        assert_eq!(answer.code, 0, "{answer:?}");
    };
    let kinds = ["TIMER_DELAY_MS\x01100\x02", "DELAY\x011\x02"];
    let both = |member: &Member, number: usize| {
        kinds.iter().for_each(|kind| send(member, format!("{number} {}", &kind[..5]), kind));
    };
    (0..10).for_each(|number| both(masters[0], number));
    // Of the messages that show who is master there may be any number.
    let delivered = |member: &Member| {
        let mut bodies = member.bodies();
        bodies.retain(|body| body.first().is_some_and(u8::is_ascii_digit));
        bodies.sort();
        bodies
    };
    eventually("all are delivered", || (delivered(masters[0]).len() == 20).then_some(()));
    let due_ms = client::now_ms();
    for slave in &others {
        eventually("the slave has noted that", || slave.has_noted(10, due_ms));
    }
    os::signal(masters[0].id, SIGKILL).unwrap();
    let next = eventually("another one takes messages", || {
        others.iter().find(|member| member.store(b"after").is_some() && member.is_master())
    });
    both(next, 10);
    let found = eventually("the new master delivers", || {
        let found = delivered(next);
        (found.iter().filter(|body| body.starts_with(b"10 ")).count() == kinds.len()).then_some(found)
    });
    let mut once = found.clone();
    once.dedup();
    assert_eq!((once.len(), found.len()), (22, 22), "{found:?}");
    assert!(cluster.stop().success());
}

#[test]
fn a_slave_of_an_elected_master_passes_on_what_only_the_master_does() {
    let cluster = Cluster::start("1m2s", 3, SET_OF_THREE);
    let (masters, slaves): (Vec<&Member>, Vec<&Member>) =
        cluster.brokers().partition(|member| member.role == "master");
    let mut last =
        eventually("the set is large enough to take messages", || masters[0].store(b"by the master"));
    make_group(&mut open(masters[0].address), "CG");
    for slave in &slaves {
        // Once the slave has heard who is master, which may be after the master has. What was answered too late is stored all the same.
        last = eventually("a slave passes a message on", || {
            slave.store(b"by a slave").filter(|found| *found > last)
        });
        slave.commit(last);
        assert_eq!((masters[0].committed(), slave.committed()), (last, last));
    }
    let mut bodies = masters[0].bodies();
    bodies.dedup();
    assert_eq!(bodies, [&b"by the master"[..], b"by a slave"]);
    // A planned switch, as an operator makes it.
    let next = eventually("a slave is in sync", || {
        let rows = in_sync(&cluster);
        let is_next = |row: &&serde_json::Value| row["in_sync"] == true && row["master"] == false;
        rows.as_array().unwrap().iter().find(is_next).cloned()
    });
    let elected = replicas(&cluster, &["elect", &next["id"].to_string(), "--cluster", "DefaultCluster"]);
    assert_eq!(elected["master"], next["address"]);
    let is_master = |row: &serde_json::Value| row["master"] == true && row["id"] == next["id"];
    assert!(in_sync(&cluster).as_array().unwrap().iter().any(is_master));
    // Also at the address of the former master.
    eventually("messages are taken again", || masters[0].store(b"after the switch"));
    assert!(cluster.stop().success());
}

#[test]
fn masters_have_a_slave_each_and_wait_for_it_when_told_to() {
    let settings =
        "brokerRole=SYNC_MASTER\nslaveReadEnable=true\nslaveTimeout=30000\nmetricsExporterType=PROM\n";
    let cluster = Cluster::start("2m2s", 4, settings);
    let wanted = [
        ("namesrv", "namesrv"),
        ("broker-a-0", "master"),
        ("broker-b-0", "master"),
        ("broker-a-1", "slave"),
        ("broker-b-1", "slave"),
        ("proxy", "proxy,console"),
    ];
    assert_eq!(roles(&cluster), wanted);
    let [grpc, console] = [cluster.line(), cluster.line()];
    let grpc: SocketAddr = grpc.strip_prefix("gRPC for 5.x clients is at ").unwrap().parse().unwrap();
    assert!(std::net::TcpStream::connect(grpc).is_ok());
    let console = console.strip_prefix("Console:  http://").unwrap().trim_end_matches('/').to_owned();
    eventually("the console shows all brokers", || {
        let mut stream = std::net::TcpStream::connect(&console).ok()?;
        write!(stream, "GET /brokers HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n\r\n").ok()?;
        let page = crate::console::answer(&mut stream).body;
        cluster.brokers().all(|broker| page.contains(&broker.address.to_string())).then_some(())
    });
    for (master, slave) in [(1, 3), (2, 4)] {
        let (master, slave) = (&cluster.members[master], &cluster.members[slave]);
        eventually("the slave follows", || master.store(b"copied"));
        eventually("the slave has the topic", || {
            let mut connection = Connection::open(slave.address).ok()?;
            let asked = connection.ask(
                request::GET_MAX_OFFSET,
                |writer| writer.text("topic", "Copied").number("queueId", 0),
                &[],
            );
            let answer = connection.answer(asked.ok()?).ok()?;
            (answer.code == 0 && answer.number("offset") >= 1).then_some(())
        });
    }
    for broker in cluster.brokers() {
        let metrics = (broker.address.ip(), broker.address.port() + 3);
        eventually(&format!("{} serves metrics", broker.name), || std::net::TcpStream::connect(metrics).ok());
    }
    assert!(cluster.stop().success());
}

#[test]
fn members_stop_when_the_parent_is_killed() {
    let mut cluster = Cluster::start("2m2s", 4, "");
    cluster.parent.kill().unwrap();
    cluster.parent.wait().unwrap();
    eventually("all members have ended", || (!cluster.members.iter().any(Member::is_running)).then_some(()));
    let marks = cluster.brokers().filter(|broker| broker.data.join("abort").exists()).count();
    assert_eq!(marks, 0, "they stop cleanly");
}

#[test]
fn a_cluster_that_cannot_start_says_why_and_leaves_nothing_running() {
    let home = tempfile::tempdir().unwrap();
    let (namesrv, broker) = free_ports_of(3);
    let _taken = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, broker + 10)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_vostok"))
        .args(["serve", "--cluster", "1m2s", "--data"])
        .arg(home.path())
        .args(["--namesrv-port", &namesrv.to_string(), "--broker-port", &broker.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("broker-a-1"), "{text}");
    assert!(text.contains(&(broker + 10).to_string()) && !text.contains("panicked"), "{text}");
    assert!(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, namesrv)).is_ok(), "the name server is gone");
}

#[test]
fn flags_that_a_cluster_cannot_have_are_refused() {
    for flags in [["--roles", "broker"], ["-n", "h:1"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_vostok"))
            .args(["serve", "--cluster", "2m2s"])
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("--cluster"), "{text}");
    }
}
