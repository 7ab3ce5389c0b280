//! Controllers, each a process: alone beside a name server, and three of which one is killed.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use wire::codes::{request, response};

use crate::common::server::free_ports;
use crate::common::wire_client::{Arrived, Connection};
use crate::stage::{eventually, output};

/// A process with a controller; it is killed in the end.
struct Controller {
    child: Child,
    address: SocketAddr,
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Starts `vostok serve` with these arguments and waits until the controller's port answers.
fn start(home: &Path, port: u16, arguments: &[&str]) -> Controller {
    let output = File::options().create(true).append(true).open(home.join("output")).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_vostok"))
        .args(["serve", "--data"])
        .arg(home)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let controller = Controller { child, address: local(port) };
    eventually("the controller listens", || Connection::open(controller.address).ok());
    controller
}

fn metadata(address: SocketAddr) -> Option<Arrived> {
    let mut connection = Connection::open(address).ok()?;
    let opaque = connection.ask(request::CONTROLLER_GET_METADATA_INFO, |frame| frame, &[]).ok()?;
    connection.answer(opaque).ok()
}

/// Gives a broker of the set `a` its id and has it elected; the address of the master in the answer. `None` when the controller does
/// not lead any more.
fn elect_first(leader: SocketAddr) -> Option<String> {
    let mut connection = Connection::open(leader).unwrap();
    let applied = connection.call(
        request::CONTROLLER_APPLY_BROKER_ID,
        |frame| {
            let frame = frame.text("clusterName", "c").text("brokerName", "a").number("appliedBrokerId", 1);
            frame.text("registerCheckCode", "10.0.0.1:10911;5")
        },
        &[],
    );
    let elected = connection.call(
        request::CONTROLLER_ELECT_MASTER,
        |frame| frame.text("clusterName", "c").text("brokerName", "a").number("brokerId", 1),
        &[],
    );
    let codes = [applied.code, elected.code];
    if codes.contains(&response::CONTROLLER_NOT_LEADER) {
        return None;
    }
    assert_eq!(codes, [response::SUCCESS; 2], "{} {}", applied.remark(), elected.remark());
    Some(elected.field("masterAddress").unwrap().to_owned())
}

/// Who is master of the set `a`, by the controller at this address; `None` while it does not answer or lead.
fn master(address: SocketAddr) -> Option<(String, i64)> {
    let mut connection = Connection::open(address).ok()?;
    let asked =
        connection.ask(request::CONTROLLER_GET_REPLICA_INFO, |frame| frame.text("brokerName", "a"), &[]);
    let answer = connection.answer(asked.ok()?).ok()?;
    (answer.code == 0)
        .then(|| (answer.field("masterAddress").unwrap().to_owned(), answer.number("masterEpoch")))
}

#[test]
fn a_controller_alone_beside_a_name_server_remembers_what_it_decided() {
    let home = tempfile::tempdir().unwrap();
    let ((namesrv, _), (_, port)) = (free_ports(), free_ports());
    let (namesrv, text) = (namesrv.to_string(), port.to_string());
    let arguments = [
        "--roles",
        "namesrv,controller",
        "--namesrv-port",
        namesrv.as_str(),
        "--controller-port",
        text.as_str(),
    ];
    let controller = start(home.path(), port, &arguments);
    let told = eventually("it leads", || {
        metadata(controller.address).filter(|told| told.field("isLeader") == Some("true"))
    });
    assert_eq!(told.field("controllerLeaderAddress"), Some(controller.address.to_string().as_str()));
    assert_eq!(told.field("peers"), Some(format!("n0:{};", controller.address).as_str()));
    assert_eq!(elect_first(controller.address).as_deref(), Some("10.0.0.1:10911"));
    drop(controller);
    let controller = start(home.path(), port, &arguments);
    let known = eventually("it knows the master", || master(controller.address));
    assert_eq!(known, ("10.0.0.1:10911".to_owned(), 1));
    let mut connection = Connection::open(controller.address).unwrap();
    let change =
        connection.call(request::UPDATE_CONTROLLER_CONFIG, |frame| frame, b"enableElectUncleanMaster=true\n");
    assert_eq!(change.code, response::SUCCESS, "{}", change.remark());
    let text = connection.call(request::GET_CONTROLLER_CONFIG, |frame| frame, &[]).body;
    assert!(String::from_utf8(text).unwrap().contains("enableElectUncleanMaster=true\n"));
    let locked = connection.call(request::UPDATE_CONTROLLER_CONFIG, |frame| frame, b"configStorePath=/x\n");
    assert_eq!(locked.code, response::NO_PERMISSION);
}

#[test]
fn a_setting_that_a_controller_does_not_have_is_remarked() {
    let home = tempfile::tempdir().unwrap();
    let (_, port) = free_ports();
    let text = port.to_string();
    let controller = start(home.path(), port, &["--roles", "controller", "--controller-port", text.as_str()]);
    let address = controller.address.to_string();
    let set = |key: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
        command.args(["admin", "-o", "json", "controller", "set", key, "true", "--controller", &address]);
        let output = output(command.env_remove("ROCKETMQ_HOME").stdin(Stdio::null()));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    assert_eq!(set("enableElectUncleanMaster")["remarks"], serde_json::Value::Null);
    let remark = format!("{address} shows no setting enableElectUnclean, so nothing was changed there");
    assert_eq!(set("enableElectUnclean")["remarks"], serde_json::json!([remark]));
}

#[test]
fn three_controllers_go_on_when_the_leader_is_killed() {
    let homes: Vec<tempfile::TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let ports: Vec<u16> = (0..3).map(|_| free_ports().1).collect();
    let peers: Vec<String> =
        ports.iter().enumerate().map(|(number, port)| format!("n{number}-127.0.0.1:{port}")).collect();
    let run = |number: usize| {
        let conf = homes[number].path().join("controller.conf");
        let text = format!(
            "controllerDLegerGroup=group1\ncontrollerDLegerPeers={}\ncontrollerDLegerSelfId=n{number}\n",
            peers.join(";")
        );
        fs::write(&conf, text).unwrap();
        start(homes[number].path(), ports[number], &["--roles", "controller", "-c", conf.to_str().unwrap()])
    };
    let mut controllers: Vec<Controller> = (0..3).map(run).collect();
    let leader_of = |controllers: &[Controller]| {
        eventually("one leads", || {
            let leads = |told: &Arrived| told.field("isLeader") == Some("true");
            controllers.iter().position(|it| metadata(it.address).is_some_and(|told| leads(&told)))
        })
    };
    // A slow machine may have them elect another leader at any time.
    eventually("the leader has a master elected", || {
        elect_first(controllers[leader_of(&controllers)].address)
    });
    let leader = eventually("a follower refuses, and knows the leader", || {
        let leader = leader_of(&controllers);
        let follower = controllers[(leader + 1) % 3].address;
        let mut connection = Connection::open(follower).unwrap();
        let refused = connection.call(
            request::CONTROLLER_GET_NEXT_BROKER_ID,
            |frame| frame.text("clusterName", "c").text("brokerName", "a"),
            &[],
        );
        let leads = controllers[leader].address.to_string();
        let told = metadata(follower)?;
        let knows = told.field("controllerLeaderAddress") == Some(leads.as_str());
        (refused.code == response::CONTROLLER_NOT_LEADER && knows).then_some(leader)
    });
    drop(controllers.remove(leader));
    // A new leader answers as soon as it has committed an entry of its own.
    let known = eventually("a leader answers", || controllers.iter().find_map(|it| master(it.address)));
    assert_eq!(known, ("10.0.0.1:10911".to_owned(), 1));
    // And with the killed one back all three can lose another one.
    let next = leader_of(&controllers);
    let returned = run(leader);
    drop(controllers.remove(next));
    controllers.push(returned);
    let known = eventually("a leader answers", || controllers.iter().find_map(|it| master(it.address)));
    assert_eq!(known, ("10.0.0.1:10911".to_owned(), 1));
}

#[test]
fn a_controller_without_a_leader_is_passed_over_for_one_that_knows_it() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let ports: Vec<u16> = (0..4).map(|_| free_ports().1).collect();
    let conf = homes[0].path().join("controller.conf");
    let [own, second, third, other] = ports[..] else { unreachable!() };
    // n1 and n2 do not run.
    let text = format!(
        "controllerDLegerGroup=group1\ncontrollerDLegerSelfId=n0\ncontrollerDLegerPeers=n0-127.0.0.1:{own};n1-127.0.0.1:{second};n2-127.0.0.1:{third}\n"
    );
    fs::write(&conf, text).unwrap();
    let lonely = start(homes[0].path(), own, &["--roles", "controller", "-c", conf.to_str().unwrap()]);
    let text = other.to_string();
    let leading = start(homes[1].path(), other, &["--roles", "controller", "--controller-port", &text]);
    eventually("it leads", || {
        metadata(leading.address).filter(|told| told.field("isLeader") == Some("true"))
    });
    let leader = |controllers: String| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
        command.args(["admin", "-o", "json", "controller", "metadata", "--controller", &controllers]);
        let output = output(command.env_remove("ROCKETMQ_HOME"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["leader"].clone()
    };
    assert_eq!(leader(lonely.address.to_string()), "");
    assert_eq!(leader(format!("{};{}", lonely.address, leading.address)), leading.address.to_string());
}

#[test]
fn the_raft_data_of_a_java_controller_is_refused_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("controller/dledger-n0/data")).unwrap();
    let port = free_ports().1.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_vostok"))
        .args(["serve", "--roles", "controller", "--controller-port", &port, "--data"])
        .arg(home.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("dledger-n0"), "{text}");
    assert!(text.contains("vostok controller import --from"), "{text}");
}
