use super::*;

/// Routes of a machine with a network, a network of containers, and the first subnet to choose from.
const ROUTES: &str = "\
default via 192.0.2.1 dev eth0
192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2
blackhole 198.18.0.0/23
198.18.3.9 via 192.0.2.7 dev eth0
local 127.0.0.0/8 dev lo table local proto kernel scope host src 127.0.0.1
broadcast 192.0.2.255 dev eth0 table local proto kernel scope link src 192.0.2.2
";

fn free(routes: &str, from: u32) -> Option<String> {
    Subnet::free(&Range::all(routes), from).map(|subnet| subnet.to_string())
}

fn network(brokers: &[&str]) -> std::mem::ManuallyDrop<Network> {
    // Nothing is made here, so nothing may be removed either.
    std::mem::ManuallyDrop::new(Network {
        hub: "vostok-7".to_owned(),
        machine: "vostok7".to_owned(),
        subnet: Subnet::number(2),
        brokers: brokers.iter().map(|name| (*name).to_owned()).collect(),
    })
}

#[test]
fn a_network_is_chosen_that_no_route_leads_to() {
    let check = |from, found: Option<&str>| assert_eq!(free(ROUTES, from).as_deref(), found, "{from}");
    check(0, Some("198.18.2.0"));
    check(2, Some("198.18.2.0"));
    check(3, Some("198.18.4.0"));
    check(511, Some("198.19.255.0"));
    check(512 + 3, Some("198.18.4.0"));
    assert_eq!(free("default via 192.0.2.1 dev eth0", 1).as_deref(), Some("198.18.1.0"));
    assert_eq!(free("198.18.0.0/15 dev tunnel", 1), None);
    assert_eq!(free("unreachable 198.0.0.0/8", 1), None);
    assert_eq!(free("0.0.0.0/0 dev tunnel", 1).as_deref(), Some("198.18.1.0"), "leads anywhere, too");
}

#[test]
fn a_cluster_keeps_its_network() {
    let subnet = Subnet::number(300);
    assert_eq!(subnet.to_string(), "198.19.44.0");
    assert_eq!(Subnet::read(&format!("{subnet}\n")), Some(subnet));
    for other in ["", "10.0.0.0", "198.18.0.1", "198.20.0.0", "x"] {
        assert_eq!(Subnet::read(other), None, "{other}");
    }
    assert_eq!((subnet.name_server(), subnet.broker(2)), ([198, 19, 44, 1].into(), [198, 19, 44, 12].into()));
}

#[test]
fn each_broker_has_a_link_with_its_name() {
    let network = network(&["broker-a-0", "broker-a-1"]);
    let lines: Vec<String> = network.commands().iter().map(|words| words.join(" ")).collect();
    for line in [
        "link add vostok7 type veth peer name machine netns vostok-7",
        "-n vostok-7 link add broker-a-1 type veth peer name eth0 netns vostok-7-broker-a-1",
        "-n vostok-7-broker-a-1 addr add 198.18.2.11/24 dev eth0",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
    }
    assert_eq!(network.within("broker-a-1"), ["ip", "netns", "exec", "vostok-7-broker-a-1"]);
    assert_eq!(network.within("namesrv"), ["ip", "netns", "exec", "vostok-7"]);
}

#[test]
fn names_of_interfaces_are_short_enough_for_the_kernel() {
    // IFNAMSIZ is 16 with the zero at the end, and process ids have at most seven digits.
    for name in ["broker-d-1", "machine", "bridge", "vostok4194304"] {
        assert!(name.len() < 16, "{name}");
    }
}
