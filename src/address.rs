//! The address clients are given: whether they can reach it, and how to use it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for a connection to the broker's own address.
const PROBE_TIMEOUT: Duration = Duration::from_millis(200);

/// Lines that say how to mend an address that clients cannot use; empty when the address is fine. `advertised` is the address as
/// clients get it.
pub fn advice(address: SocketAddr, advertised: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if let Err(error) = TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
        lines.push(format!(
            "WARNING: clients are told to connect to {advertised}, which does not answer ({error}). Fix: put brokerIP1=<an address of this machine> into a file and start with -c FILE"
        ));
    }
    if address.ip().is_loopback() {
        lines.push(format!(
            "Note: clients are told to connect to {advertised}, which only works on this machine. For others: put brokerIP1=<an address of this machine> into a file and start with -c FILE"
        ));
    } else if is_container_bridge(address.ip()) {
        lines.push(format!(
            "Note: {advertised} looks like a container's own address; clients outside cannot reach it. Fix: put brokerIP1=<the host's address> into a file and start with -c FILE"
        ));
    }
    lines
}

/// Docker's default bridge, 172.17.0.0/16.
fn is_container_bridge(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.octets()[..2] == [172, 17])
}

/// Address at which this machine reaches a listener of its own.
pub fn reached_at(listens: SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens.port())
}

/// Text for the user of a new server: the line that configures a client, and commands that send messages, print them
/// and run the doctor.
pub fn snippet(name_server: SocketAddr) -> String {
    format!(
        "Clients:  producer.setNamesrvAddr(\"{name_server}\");   // Java, Go and others: the name server's address
Next:     vostok lab producer -n {name_server} -t Hello -w 1 -s 128 -q 10
          vostok admin message print-topic Hello -n {name_server}
          vostok doctor -n {name_server}"
    )
}
