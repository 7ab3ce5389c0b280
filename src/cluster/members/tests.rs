use std::collections::BTreeMap;

use super::{Kind, Member, Members, Ports, Subnet, members};

const PORTS: Ports = Ports { namesrv: 9876, controller: 9878, broker: 10911 };

fn given(text: &str) -> BTreeMap<String, String> {
    wire::body::parse_key_values(text.as_bytes()).expect("properties")
}

fn made(kind: Kind, text: &str) -> Members {
    members(kind, PORTS, &given(text), None).expect("usable settings")
}

fn settings<'a>(members: &'a [Member], key: &str) -> Vec<&'a str> {
    members.iter().map(|member| member.settings.get(key).map_or("-", String::as_str)).collect()
}

#[test]
fn three_brokers_under_a_controller_are_alike_but_for_their_ports() {
    let made = made(Kind::SetOfThree, "");
    let [namesrv, brokers] = made.stages.as_slice() else { panic!("{made:?}") };
    assert_eq!((namesrv[0].roles, namesrv[0].address()), ("namesrv,controller", "127.0.0.1:9876".to_owned()));
    assert_eq!(settings(namesrv, "controllerDLegerPeers"), ["n0-127.0.0.1:9878"]);
    let names: Vec<&str> = brokers.iter().map(|broker| broker.name.as_str()).collect();
    assert_eq!(names, ["broker-a-0", "broker-a-1", "broker-a-2"]);
    assert_eq!(settings(brokers, "listenPort"), ["10911", "10921", "10931"]);
    assert_eq!(settings(brokers, "haListenPort"), ["10912", "10922", "10932"]);
    assert_eq!(settings(brokers, "metricsPromExporterPort"), ["10914", "10924", "10934"]);
    assert_eq!(settings(brokers, "controllerAddr"), ["127.0.0.1:9878"; 3]);
    for (key, value) in
        [("brokerName", "broker-a"), ("enableControllerMode", "true"), ("minInSyncReplicas", "2")]
    {
        assert_eq!(settings(brokers, key), [value; 3], "{key}");
    }
}

#[test]
fn masters_are_started_before_their_slaves() {
    for (kind, sets) in [(Kind::TwoMasters, 2), (Kind::FourMasters, 4)] {
        let made = made(kind, "");
        let [namesrv, masters, slaves] = made.stages.as_slice() else { panic!("{made:?}") };
        assert_eq!((namesrv[0].roles, masters.len(), slaves.len()), ("namesrv", sets, sets));
        assert_eq!(settings(masters, "brokerRole"), vec!["ASYNC_MASTER"; sets]);
        assert_eq!(settings(slaves, "brokerRole"), vec!["SLAVE"; sets]);
        assert_eq!(settings(slaves, "brokerId"), vec!["1"; sets]);
        assert_eq!(settings(masters, "brokerName"), settings(slaves, "brokerName"));
        assert_eq!(settings(masters, "inSyncReplicas"), vec!["-"; sets]);
    }
}

#[test]
fn given_settings_reach_every_broker_and_the_role_the_masters() {
    let made = made(Kind::TwoMasters, "brokerRole=SYNC_MASTER\nflushDiskType=SYNC_FLUSH\n");
    let [_, masters, slaves] = made.stages.as_slice() else { panic!("{made:?}") };
    assert_eq!(settings(masters, "brokerRole"), ["SYNC_MASTER"; 2]);
    assert_eq!(settings(slaves, "brokerRole"), ["SLAVE"; 2]);
    assert_eq!(settings(masters, "inSyncReplicas"), ["2"; 2], "or it would wait for nobody");
    assert_eq!(
        [settings(masters, "flushDiskType"), settings(slaves, "flushDiskType")],
        [["SYNC_FLUSH"; 2]; 2]
    );
    assert!(made.overruled.is_empty(), "{:?}", made.overruled);
    let alone = self::made(Kind::TwoMasters, "brokerRole=SYNC_MASTER\ninSyncReplicas=1\n");
    assert_eq!(settings(&alone.stages[1], "inSyncReplicas"), ["1"; 2]);
}

#[test]
fn what_makes_a_member_cannot_be_given() {
    let text =
        "brokerName=x\nlistenPort=1\nstorePathRootDir=/one/for/all\nhaMasterAddress=h:1\nmaxMessageSize=9\n";
    let made = made(Kind::SetOfThree, text);
    assert_eq!(made.overruled, ["brokerName", "haMasterAddress", "listenPort", "storePathRootDir"]);
    let brokers = &made.stages[1];
    assert_eq!(settings(brokers, "storePathRootDir"), ["-"; 3]);
    assert_eq!(settings(brokers, "maxMessageSize"), ["9"; 3]);
}

#[test]
fn all_members_listen_at_the_address_that_is_given() {
    let made = made(Kind::SetOfThree, "bindAddress=::1\ntls.server.mode=permissive\n");
    assert_eq!(made.stages[0][0].address(), "[::1]:9876");
    assert_eq!(settings(&made.stages[0], "tls.server.mode"), ["permissive"]);
    assert_eq!(settings(&made.stages[1], "controllerAddr"), ["[::1]:9878"; 3]);
    assert_eq!(settings(&made.stages[1], "brokerIP1"), ["::1"; 3]);
}

#[test]
fn brokers_with_links_have_an_address_each_whatever_is_given() {
    let subnet = Subnet::free(&[], 4);
    let text = "bindAddress=0.0.0.0\nbrokerIP1=10.0.0.1\n";
    let made = members(Kind::SetOfThree, PORTS, &given(text), subnet).expect("usable settings");
    let [namesrv, brokers] = made.stages.as_slice() else { panic!("{made:?}") };
    assert_eq!(namesrv[0].address(), "198.18.4.1:9876");
    assert_eq!(settings(namesrv, "bindAddress"), ["198.18.4.1"]);
    assert_eq!(settings(namesrv, "brokerIP1"), ["-"], "it is no broker");
    assert_eq!(settings(namesrv, "controllerDLegerPeers"), ["n0-198.18.4.1:9878"]);
    let hosts = ["198.18.4.10", "198.18.4.11", "198.18.4.12"];
    for key in ["bindAddress", "brokerIP1", "brokerIP2"] {
        assert_eq!(settings(brokers, key), hosts, "{key}");
    }
    assert_eq!(settings(brokers, "namesrvAddr"), ["198.18.4.1:9876"; 3]);
    assert_eq!(settings(brokers, "controllerAddr"), ["198.18.4.1:9878"; 3]);
    let addresses: Vec<String> = brokers.iter().map(Member::address).collect();
    assert_eq!(addresses, ["198.18.4.10:10911", "198.18.4.11:10921", "198.18.4.12:10931"]);
    assert_eq!(made.overruled, ["bindAddress", "brokerIP1"]);
    assert!(Kind::SetOfThree.brokers().eq(brokers.iter().map(|broker| broker.name.clone())));
}

#[test]
fn settings_that_no_cluster_can_have_are_refused() {
    let refused = |ports, text: &str| {
        members(Kind::FourMasters, ports, &given(text), None).expect_err("unusable").to_string()
    };
    assert!(refused(PORTS, "brokerRole=SLAVE\n").contains("found SLAVE"));
    for broker in [2, 65_500, 65_535] {
        assert!(refused(Ports { broker, ..PORTS }, "").contains("--broker-port"), "{broker}");
    }
}
