//! Three masters of one cluster, each with gRPC of its own: each serves the whole cluster (`LocalTopicRouteService`).

use std::collections::BTreeSet;
use std::net::SocketAddr;

use wire::codes::request;

use crate::common::server::{Server, Setup};
use crate::grpc::{Fields, Grpc, all, text};
use crate::proxy::{address_of, consumer, resource, send, topic_at};
use crate::stage::{Stage, eventually, setup};

const OK: &str = "20000";
const NAMES: [&str; 3] = ["broker-a", "broker-b", "broker-c"];

/// The masters, and the address of gRPC of each.
struct Masters {
    /// The first master and the name server.
    stage: Stage,
    others: Vec<Server>,
    grpc: Vec<SocketAddr>,
}

impl Masters {
    /// Starts masters at these hosts. At hosts of their own all have one port of gRPC.
    fn start(hosts: [&str; 3]) -> Self {
        let lines = |name: &str, host: &str| {
            [format!("brokerName={name}"), format!("brokerIP1={host}"), format!("bindAddress={host}")]
                .to_vec()
        };
        let (mut first, home) = setup(&[]);
        first.lines.extend(lines(NAMES[0], hosts[0]));
        first.arguments = ["--grpc-port", "0"].map(str::to_owned).to_vec();
        let stage = Stage { server: first.start().unwrap(), home };
        let own = grpc_of(&first);
        let port = if hosts[1] == hosts[0] { 0 } else { own.port() };
        let mut masters = Self { stage, others: Vec::new(), grpc: vec![own] };
        for (name, host) in NAMES.into_iter().zip(hosts).skip(1) {
            let home = masters.stage.home.path().join(name);
            let mut setup = Setup::new(env!("CARGO_BIN_EXE_vostok"), home.join("data"), home);
            setup.roles = "broker".to_owned();
            setup.lines.extend(lines(name, host));
            let (name_server, port) = (first.namesrv().to_string(), port.to_string());
            setup.arguments = ["-n", &name_server, "--grpc-port", &port].map(str::to_owned).to_vec();
            masters.others.push(setup.spawn().unwrap());
            masters.grpc.push(grpc_of(&setup));
        }
        for (server, host) in [&masters.stage.server].into_iter().chain(&masters.others).zip(hosts) {
            let broker = SocketAddr::new(host.parse().unwrap(), server.setup().broker_port);
            topic_at(broker, "T", "NORMAL");
        }
        eventually("the name server knows the topic on all masters", || {
            let code = request::GET_ROUTEINFO_BY_TOPIC;
            let answer = masters.stage.name_server().call(code, |writer| writer.text("topic", "T"), b"");
            let route = String::from_utf8_lossy(&answer.body).into_owned();
            NAMES.iter().all(|name| route.contains(name)).then_some(())
        });
        masters
    }
}

fn grpc_of(setup: &Setup) -> SocketAddr {
    address_of(setup, "gRPC for 5.x clients is at ")
}

/// Broker, host and port of a message queue.
fn place(queue: &[u8]) -> (String, String, String) {
    (text(queue, &[4, 1]), text(queue, &[4, 3, 2, 1]), text(queue, &[4, 3, 2, 2]))
}

/// The places of the queues of the topic, sorted.
fn route(client: &mut Grpc) -> Vec<(String, String, String)> {
    let [route] = &*client.call("QueryRoute", &Fields::default().message(1, resource("T"))) else { panic!() };
    assert_eq!(text(route, &[1, 1]), OK, "{}", text(route, &[1, 2]));
    let mut places: Vec<_> = all(route, 2).iter().map(|queue| place(queue)).collect();
    places.sort();
    places
}

/// Receives from a broker, and acknowledges at another client's server; the brokers of the handles.
fn consume(client: &mut Grpc, acks: &mut Grpc, broker: &str) -> Vec<String> {
    let seconds = |seconds| Fields::default().number(1, seconds);
    let queue = Fields::default().message(1, resource("T")).message(4, Fields::default().bytes(1, broker));
    let request = Fields::default()
        .message(1, resource("G"))
        .message(2, queue)
        .number(4, 32)
        .message(5, seconds(300))
        .message(7, seconds(5));
    let answers = client.call("ReceiveMessage", &request);
    let messages = answers.iter().flat_map(|answer| all(answer, 2));
    let took = messages.map(|message| {
        let handle = text(&message, &[3, 12]);
        let entry = Fields::default().bytes(1, text(&message, &[3, 3])).bytes(2, &handle);
        let ack = Fields::default().message(1, resource("G")).message(2, resource("T")).message(3, entry);
        let [acked] = &*acks.call("AckMessage", &ack) else { panic!() };
        assert_eq!(text(acked, &[1, 1]), OK, "{handle}: {}", text(acked, &[2, 3, 2]));
        NAMES.into_iter().find(|name| handle.contains(&format!(" {name} "))).unwrap().to_owned()
    });
    took.collect()
}

/// Takes `count` messages from all masters through one of them; how many came from each.
fn consume_all(masters: &Masters, count: usize) -> Vec<usize> {
    let mut client = Grpc::connect(masters.grpc[0], "reader");
    // Handles count at every server of the cluster.
    let mut acks = Grpc::connect(masters.grpc[1], "writer");
    let mut took: Vec<String> = Vec::new();
    eventually("all messages come", || {
        for name in NAMES {
            took.extend(consume(&mut client, &mut acks, name));
        }
        (took.len() >= count).then_some(())
    });
    assert_eq!(took.len(), count);
    NAMES.iter().map(|name| took.iter().filter(|took| took == name).count()).collect()
}

/// Makes the group on all masters: a master creates the group when a member registers.
fn join(masters: &Masters) {
    for address in &masters.grpc {
        consumer(&mut Grpc::connect(*address, "reader"));
    }
}

#[test]
fn one_of_three_masters_serves_the_queues_of_all() {
    let masters = Masters::start(["127.0.0.1"; 3]);
    join(&masters);
    let mut client = Grpc::connect(masters.grpc[0], "sender");
    // Other masters of the same host are reached here, whatever their port.
    let port = masters.grpc[0].port().to_string();
    let expected = NAMES.map(|name| (name.to_owned(), "127.0.0.1".to_owned(), port.clone()));
    let queues: Vec<_> = expected.iter().flat_map(|place| [place.clone(), place.clone()]).collect();
    assert_eq!(route(&mut client), queues);
    let asked = Fields::default().message(1, resource("T")).message(2, resource("G"));
    let [assigned] = &*client.call("QueryAssignment", &asked) else { panic!() };
    let assigned: Vec<_> = all(assigned, 2).iter().flat_map(|it| all(it, 1)).collect();
    assert_eq!(assigned.iter().map(|queue| place(queue)).collect::<BTreeSet<_>>(), expected.into());
    assert_eq!(assigned.len(), 3);

    let ids: Vec<String> = (0..12).map(|index| format!("id-{index}")).collect();
    for id in &ids {
        send(&mut client, "T", Fields::default().bytes(3, id));
    }
    assert_eq!(consume_all(&masters, ids.len()), [4, 4, 4]);
}

#[test]
fn masters_at_hosts_of_their_own_are_reached_there() {
    let masters = Masters::start(["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    join(&masters);
    let port = masters.grpc[0].port().to_string();
    let place = |name: &str, host: &str| (name.to_owned(), host.to_owned(), port.clone());
    let expected: Vec<_> = NAMES
        .into_iter()
        .zip(["127.0.0.1", "127.0.0.2", "127.0.0.3"])
        .flat_map(|(name, host)| [place(name, host), place(name, host)])
        .collect();
    for address in &masters.grpc {
        let mut client = Grpc::connect(*address, "sender");
        assert_eq!(route(&mut client), expected, "{address}");
        // Producers spread their messages over the endpoints themselves.
        for index in 0..4 {
            send(&mut client, "T", Fields::default().bytes(3, format!("{address}-{index}")));
        }
    }
    assert_eq!(consume_all(&masters, 12), [4, 4, 4]);
}

#[test]
fn a_master_whose_name_server_does_not_answer_serves_its_own_queues() {
    let (mut setup, _home) = setup(&["brokerName=broker-a"]);
    setup.roles = "broker".to_owned();
    // Nothing listens at the port of the name server.
    let name_server = setup.namesrv().to_string();
    setup.arguments = ["-n", &name_server, "--grpc-port", "0"].map(str::to_owned).to_vec();
    let _server = setup.spawn().unwrap();
    let address = grpc_of(&setup);
    topic_at(setup.broker(), "T", "NORMAL");
    let mut client = Grpc::connect(address, "sender");
    let own = ("broker-a".to_owned(), "127.0.0.1".to_owned(), address.port().to_string());
    assert_eq!(route(&mut client), [own.clone(), own]);
    send(&mut client, "T", Fields::default().bytes(3, "id"));
}
