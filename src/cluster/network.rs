//! Network links that can be cut: each broker of a local cluster in a network namespace of its own.
//!
//! ```text
//! this machine   vostok4711 --- machine |
//!                                       | bridge  namespace vostok-4711, where name server and controller are
//! namespace of a broker   eth0 --- NAME |
//! ```
//!
//! A pair of virtual interfaces leads from each broker to the bridge. The end at the bridge has the broker's name. Taking
//! that end down cuts the broker off: packets are lost from then on, and no connection is closed. The bridge has a namespace of
//! its own, so that no packet filter of this machine is between two members. This machine only opens connections to the members,
//! none of them opens one to it, and no other machine has a route to any of them.
//!
//! Everything is made with the program `ip`, and removed when the [`Network`] is dropped.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use crate::roles::Error;

/// The networks to choose from, 198.18.0.0 to 198.19.255.0: RFC 2544 sets them aside for measuring networks.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const COUNT: u32 = 512;

/// Bits of an address that all members share.
const PREFIX_BITS: u32 = 24;

/// Last numbers of the addresses of name server and controller, of the first broker, and of this machine.
const NAME_SERVER: u32 = 1;
const BROKER: u32 = 10;
const MACHINE: u32 = 254;

/// Name of the file in the directory of a cluster that holds its network, so that brokers keep their addresses.
const FILE: &str = "network";

/// Requirements of links, for machines on which links cannot be made.
const NEEDS: &str =
    "links need root, the program ip (iproute2), and a kernel with network namespaces, veth and bridges";

/// A network of 256 addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subnet(u32);

impl Subnet {
    /// Address of the name server and the controller.
    pub fn name_server(self) -> Ipv4Addr {
        self.address(NAME_SERVER)
    }

    /// Address of broker number `number`, counted from 0.
    pub fn broker(self, number: u16) -> Ipv4Addr {
        self.address(BROKER + u32::from(number))
    }

    fn address(self, last: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.0 + last)
    }

    /// The network that a cluster had before.
    fn read(text: &str) -> Option<Self> {
        let address: Ipv4Addr = text.trim().parse().ok()?;
        (0..COUNT).map(Self::number).find(|subnet| subnet.address(0) == address)
    }

    fn number(number: u32) -> Self {
        Self(FIRST + (number << (32 - PREFIX_BITS)))
    }

    /// A network that no route of this machine leads to; the search begins at this number.
    pub(super) fn free(routes: &[Range], from: u32) -> Option<Self> {
        let is_free = |subnet: &Self| !routes.iter().any(|range| range.meets(*subnet));
        (0..COUNT).map(|step| Self::number((from + step) % COUNT)).find(is_free)
    }
}

impl Display for Subnet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.address(0).fmt(f)
    }
}

/// Addresses that a route leads to. They agree with `address` in the first `bits` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    address: u32,
    bits: u32,
}

impl Range {
    /// The destinations in the output of `ip -4 route show table all`. A default route leads anywhere and is left out.
    fn all(routes: &str) -> Vec<Self> {
        // A destination follows the kind of a route, where it is no ordinary one.
        let of_line = |line: &str| line.split_whitespace().take(2).find_map(Self::read);
        routes.lines().filter_map(of_line).collect()
    }

    fn read(word: &str) -> Option<Self> {
        let (address, bits) = word.split_once('/').unwrap_or((word, "32"));
        let (address, bits) = (address.parse::<Ipv4Addr>().ok()?, bits.parse().ok()?);
        (1..=32).contains(&bits).then_some(Self { address: address.to_bits(), bits })
    }

    fn meets(self, subnet: Subnet) -> bool {
        let ignored = 32 - self.bits.min(PREFIX_BITS);
        self.address >> ignored == subnet.0 >> ignored
    }
}

/// The namespaces and links of a running cluster.
pub struct Network {
    /// Name of the namespace with the bridge.
    hub: String,
    /// Name of the interface on this machine.
    machine: String,
    subnet: Subnet,
    brokers: Vec<String>,
}

impl Network {
    /// Makes a network link for each broker. `home` is the data directory of the cluster.
    ///
    /// # Errors
    /// This machine cannot have links, or the cluster's addresses are in use. No namespace and no interface is left.
    pub fn make(home: &Path, brokers: Vec<String>) -> Result<Self, Error> {
        let id = std::process::id();
        let routes = Range::all(&ip(&words("-4 route show table all"))?);
        let known = home.join(FILE);
        let before = fs::read_to_string(&known).ok().and_then(|text| Subnet::read(&text));
        let subnet = match before {
            Some(subnet) if routes.iter().any(|range| range.meets(subnet)) => {
                let cause = format!("the cluster's own, {subnet}/{PREFIX_BITS}, is in use: see `ip route`");
                return Err(Error::new("the network of --links", cause));
            }
            Some(subnet) => subnet,
            None => Subnet::free(&routes, id)
                .ok_or_else(|| Error::new("the network of --links", "none of 198.18.0.0/15 is free"))?,
        };
        let failed = |error| Error::new(format!("the file {}", known.display()), error);
        fs::create_dir_all(home).map_err(failed)?;
        fs::write(&known, format!("{subnet}\n")).map_err(failed)?;
        // What is made is removed, also when the rest cannot be made.
        let network = Self { hub: format!("vostok-{id}"), machine: format!("vostok{id}"), subnet, brokers };
        network.commands().iter().try_for_each(|command| ip(command).map(drop))?;
        Ok(network)
    }

    /// The addresses of the members.
    pub fn subnet(&self) -> Subnet {
        self.subnet
    }

    /// Name of the namespace in which the ends of all links are.
    pub fn hub(&self) -> &str {
        &self.hub
    }

    /// The words that start a program in the namespace of a member.
    pub fn within(&self, member: &str) -> [String; 4] {
        let space = if self.brokers.iter().any(|name| name == member) {
            self.space(member)
        } else {
            self.hub.clone()
        };
        ["ip".to_owned(), "netns".to_owned(), "exec".to_owned(), space]
    }

    /// Ends every cut, so that all members can be stopped in their order.
    pub fn mend(&self) {
        for name in &self.brokers {
            if let Err(error) = ip(&words(&format!("-n {} link set {name} up", self.hub))) {
                tracing::warn!(%error, "a broker stays cut off");
            }
        }
    }

    fn space(&self, broker: &str) -> String {
        format!("{}-{broker}", self.hub)
    }

    /// Commands that make the network, each as words for `ip`.
    fn commands(&self) -> Vec<Vec<String>> {
        let Self { hub, machine, subnet, brokers } = self;
        let mut lines = vec![
            format!("netns add {hub}"),
            format!("-n {hub} link set lo up"),
            format!("-n {hub} link add bridge type bridge"),
            format!("-n {hub} addr add {}/{PREFIX_BITS} dev bridge", subnet.name_server()),
            format!("-n {hub} link set bridge up"),
            format!("link add {machine} type veth peer name machine netns {hub}"),
            format!("-n {hub} link set machine master bridge up"),
            format!("addr add {}/{PREFIX_BITS} dev {machine}", subnet.address(MACHINE)),
            format!("link set {machine} up"),
        ];
        for (number, name) in (0..).zip(brokers) {
            let (space, address) = (self.space(name), subnet.broker(number));
            lines.extend([
                format!("netns add {space}"),
                format!("-n {hub} link add {name} type veth peer name eth0 netns {space}"),
                format!("-n {hub} link set {name} master bridge up"),
                format!("-n {space} addr add {address}/{PREFIX_BITS} dev eth0"),
                format!("-n {space} link set lo up"),
                format!("-n {space} link set eth0 up"),
            ]);
        }
        lines.iter().map(|line| words(line)).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Some of them are not there when not everything was made.
        let _ = ip(&words(&format!("link del {}", self.machine)));
        for name in &self.brokers {
            let _ = ip(&words(&format!("netns del {}", self.space(name))));
        }
        let _ = ip(&words(&format!("netns del {}", self.hub)));
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Calls `ip` with these words and returns its output.
fn ip(words: &[String]) -> Result<String, Error> {
    let what = format!("ip {}", words.join(" "));
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|error| Error::new(&what, format!("{error}; {NEEDS}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(what, format!("{}; {NEEDS}", said.trim().replace('\n', ", "))))
}

#[cfg(test)]
mod tests;
