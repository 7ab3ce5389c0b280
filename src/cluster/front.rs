//! The process of a local cluster that serves gRPC to 5.x clients, and the console.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::members::Member;
use crate::address::reached_at;
use crate::settings::Settings;

/// Port of gRPC (`rmq-proxy.json`, `grpcServerPort`).
const GRPC_PORT: u16 = 8081;
/// Longest wait for a connection to a port of this machine.
const PROBE_TIMEOUT: Duration = Duration::from_millis(200);

/// The process, its arguments, and lines for the operator: the addresses that it serves, and the services that are
/// missing.
#[derive(Default)]
pub struct Front {
    /// `None` when neither gRPC nor the console is served.
    pub member: Option<Member>,
    /// Further arguments of the process.
    pub arguments: Vec<OsString>,
    /// Lines for the operator.
    pub lines: Vec<String>,
    /// Whether the command line asks for one of the ports, so that the cluster does not start without it.
    pub is_required: bool,
    /// Addresses that answer once the process serves.
    probes: Vec<SocketAddr>,
}

impl Front {
    /// Finds out which of gRPC and console can be served. `shared` are the settings of connections of all members.
    pub fn new(
        settings: &Settings,
        (host, name_server): (&str, &str),
        shared: BTreeMap<String, String>,
    ) -> Self {
        let ip = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut front = Self { arguments: vec!["-n".into(), name_server.into()], ..Self::default() };
        front.is_required = settings.wants_grpc() || settings.console.address.is_some();
        let mut roles = Vec::new();
        let grpc = SocketAddr::new(ip, settings.grpc_port.unwrap_or(GRPC_PORT));
        if settings.wants_grpc() || is_free(grpc) {
            roles.push("proxy");
            front.serve_grpc(settings, grpc);
        } else {
            front.lines.push(format!(
                "gRPC for 5.x clients is not served: port {GRPC_PORT} is in use. Choose another port with --grpc-port PORT"
            ));
        }
        let console = settings.console.listens();
        if settings.console.address.is_some() || is_free(console) {
            roles.push("console");
            front.arguments.extend(settings.console.arguments());
            front.probes.push(reached_at(console));
            front.lines.push(format!("Console:  {}://{}/", settings.console.scheme(), reached_at(console)));
        } else {
            front.lines.push(format!(
                "There is no console: port {} is in use. Choose another address with --console 127.0.0.1:PORT",
                console.port()
            ));
        }
        let roles = match roles[..] {
            [] => return front,
            ["proxy"] => "proxy",
            ["console"] => "console",
            _ => "proxy,console",
        };
        let port = front.port();
        front.member =
            Some(Member { name: "proxy".to_owned(), roles, host: host.to_owned(), port, settings: shared });
        front
    }

    /// The lines of a cluster in networks of its own, which no browser or client reaches.
    pub fn within_links(hub: &str, name_server: &str) -> Self {
        let line = format!(
            "There is no console and no gRPC, because --links gives the cluster networks of its own. Start both in them with: \
             ip netns exec {hub} vostok serve --roles proxy,console -n {name_server}"
        );
        Self { lines: vec![line], ..Self::default() }
    }

    /// The lines of a cluster whose process for gRPC and console has ended.
    pub fn ended(why: &str) -> Self {
        let line = format!(
            "There is no console and no gRPC: {why}. Choose other ports with --grpc-port PORT and --console 127.0.0.1:PORT"
        );
        Self { lines: vec![line], ..Self::default() }
    }

    fn serve_grpc(&mut self, settings: &Settings, listens: SocketAddr) {
        if let Some(file) = &settings.proxy_config {
            self.arguments.extend(["--proxy-config".into(), file.into()]);
        }
        if let Some(port) = settings.proxy_port {
            self.arguments.extend(["--proxy-port".into(), port.to_string().into()]);
        }
        // A file may name another port, which only the process itself learns.
        if settings.grpc_port.is_some() || settings.proxy_config.is_none() {
            self.arguments.extend(["--grpc-port".into(), listens.port().to_string().into()]);
            self.probes.push(listens);
            self.lines.push(format!("gRPC for 5.x clients is at {listens}"));
        }
    }

    /// Port of the process in the table of members. The file of a proxy may name another port.
    fn port(&self) -> u16 {
        self.probes.first().map_or(GRPC_PORT, SocketAddr::port)
    }

    /// Whether `member` is this process.
    pub fn is(&self, member: &Member) -> bool {
        self.member.as_ref() == Some(member)
    }

    /// Whether all ports answer.
    pub fn serves(&self) -> bool {
        self.probes.iter().all(|address| TcpStream::connect_timeout(address, PROBE_TIMEOUT).is_ok())
    }
}

fn is_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console_role;

    fn front(grpc: u16, console: u16) -> Front {
        let console = Some(SocketAddr::from(([127, 0, 0, 1], console)));
        let console = console_role::Settings { address: console, ..console_role::Settings::default() };
        let settings = Settings { grpc_port: Some(grpc), console, ..Settings::default() };
        Front::new(&settings, ("127.0.0.1", "127.0.0.1:9876"), BTreeMap::new())
    }

    #[test]
    fn the_process_is_told_its_ports_and_the_name_server() {
        let front = front(18081, 18082);
        assert_eq!(front.member.as_ref().map(|it| (it.roles, it.port)), Some(("proxy,console", 18081)));
        let words: Vec<_> = front.arguments.iter().map(|it| it.to_string_lossy()).collect();
        let expected = "-n 127.0.0.1:9876 --grpc-port 18081 --console 127.0.0.1:18082";
        assert_eq!(words.join(" "), expected);
        assert_eq!(
            front.lines,
            ["gRPC for 5.x clients is at 127.0.0.1:18081", "Console:  http://127.0.0.1:18082/"]
        );
    }

    #[test]
    fn a_proxy_with_a_file_alone_has_a_port() {
        let settings = Settings { proxy_config: Some("rmq-proxy.json".into()), ..Settings::default() };
        let mut front = Front::default();
        front.serve_grpc(&settings, SocketAddr::from(([127, 0, 0, 1], GRPC_PORT)));
        assert_eq!((front.probes.len(), front.port()), (0, GRPC_PORT));
    }

    #[test]
    fn links_tell_how_to_get_console_and_grpc() {
        let front = Front::within_links("hub", "10.0.0.1:9876");
        assert!(front.member.is_none() && front.lines[0].contains("ip netns exec hub vostok serve"));
    }
}
