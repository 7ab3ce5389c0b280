//! Address under which other machines reach this machine, for a broker without `brokerIP1`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Returns an address of this machine that other machines can reach. It is the source address that the system chooses
/// for a public address. On a machine without a default route, it is the source address for a local network. No
/// packet is sent.
pub fn reachable_ip() -> IpAddr {
    let public = [Ipv4Addr::new(192, 0, 2, 1)];
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let ours =
        public.into_iter().chain(neighbours(&routes)).find_map(|address| source_towards(address.into()));
    let six = || source_towards(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into());
    ours.or_else(six).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

fn source_towards(address: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((address, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Returns an address in each network of a routing table (`/proc/net/route`). Skips networks that exist only within
/// this machine, like loopback and bridges of containers (`NetworkUtil.getLocalInetAddress` skips the same).
fn neighbours(routes: &str) -> impl Iterator<Item = Ipv4Addr> {
    const OWN: [&str; 5] = ["lo", "docker", "br-", "veth", "virbr"];
    routes.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        let (device, network) = (words.next()?, words.next()?);
        let network = u32::from_str_radix(network, 16).ok().filter(|network| *network != 0)?;
        let first = u32::from_be_bytes(network.to_ne_bytes()).checked_add(1)?;
        (!OWN.iter().any(|own| device.starts_with(own))).then(|| Ipv4Addr::from(first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_way_out_the_address_is_one_of_the_networks() {
        let ours = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let table = format!(
            "Iface Destination Gateway\neth0 00000000 0102A8C0\nlo {}\ndocker0 {}\neth1 {}\n",
            ours([127, 0, 0, 0]),
            ours([172, 17, 0, 0]),
            ours([10, 1, 0, 0])
        );
        assert_eq!(neighbours(&table).collect::<Vec<_>>(), [Ipv4Addr::new(10, 1, 0, 1)]);
        assert_eq!(source_towards(Ipv4Addr::LOCALHOST.into()), None, "nobody else reaches us there");
    }
}
