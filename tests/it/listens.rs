//! The addresses on which every role listens, with and without a configuration file.

use std::collections::HashSet;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use wire::codes::request;

use crate::access::ask_as_stranger;
use crate::common::server::free_ports;
use crate::stage::{Stage, eventually};

/// A process that is killed in the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts a role and waits until it serves.
    fn start(role: &str, home: &Path, file: Option<&str>, name_server: SocketAddr) -> Self {
        let (namesrv, broker) = free_ports();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
        command.args(["serve", "--roles", role, "--data"]).arg(home.join("data"));
        if let Some(text) = file {
            let text = text.replace("METRICS", &(broker + 4).to_string());
            fs::write(home.join("file.conf"), text).unwrap();
            command.arg("-c").arg(home.join("file.conf"));
        }
        let name_server = name_server.to_string();
        let (namesrv, broker) = (namesrv.to_string(), broker.to_string());
        let (more, served): (&[&str], &str) = match role {
            "namesrv" => (&["--namesrv-port", &namesrv], "Name Server boot success"),
            "controller" => (&["--controller-port", &namesrv], "Controller boot success"),
            "broker" => (&["--broker-port", &broker, "-n", &name_server], "boot success. serializeType"),
            "proxy" => (
                &["--grpc-port", "0", "--proxy-port", "0", "-n", &name_server],
                "proxy for remoting clients is at",
            ),
            _ => (&["--console", "127.0.0.1:0", "-n", &name_server], "Console:  "),
        };
        let log = home.join("output");
        let output = File::create(&log).unwrap();
        command.args(more).env_remove("NAMESRV_ADDR").stdin(Stdio::null());
        let child = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let mut process = Self(child);
        eventually("the role serves", || {
            let text = fs::read_to_string(&log).unwrap();
            assert!(process.0.try_wait().unwrap().is_none(), "{role}: {text}");
            text.contains(served).then_some(())
        });
        process
    }

    /// The addresses on which the process listens.
    fn listeners(&self) -> Vec<SocketAddr> {
        let sockets = fs::read_dir(format!("/proc/{}/fd", self.0.id())).unwrap().flatten();
        let names = sockets.filter_map(|socket| fs::read_link(socket.path()).ok());
        let own: HashSet<String> = names.map(|name| name.display().to_string()).collect();
        let lines = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap());
        let rows = lines.iter().flat_map(|table| table.lines().skip(1));
        rows.map(|line| line.split_whitespace().collect::<Vec<_>>())
            // State 0A of a socket is LISTEN.
            .filter(|row| row[3] == "0A" && own.contains(&format!("socket:[{}]", row[9])))
            .map(|row| address(row[1]))
            .collect()
    }
}

/// An address as `/proc/net` has it: words of the machine's byte order, and the port.
fn address(text: &str) -> SocketAddr {
    let (ip, port) = text.split_once(':').unwrap();
    let word = |at: usize| u32::from_str_radix(&ip[at..at + 8], 16).unwrap().to_ne_bytes();
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)).into(),
        _ => {
            let bytes: Vec<u8> = [0, 8, 16, 24].into_iter().flat_map(word).collect();
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).into()
        }
    };
    SocketAddr::new(ip, u16::from_str_radix(port, 16).unwrap())
}

#[test]
fn every_role_listens_where_it_is_told_and_without_a_file_serves_this_machine_only() {
    let stage = Stage::start(&["brokerName=stage"]);
    let name_server = stage.server.setup().namesrv();
    let metrics = "metricsExporterType=PROM\nmetricsPromExporterPort=METRICS\n";
    for role in ["namesrv", "controller", "broker", "proxy", "console"] {
        let listeners = |file: Option<&str>, check: &dyn Fn(&[SocketAddr])| {
            let home = tempfile::tempdir().unwrap();
            let process = Process::start(role, home.path(), file, name_server);
            let found = process.listeners();
            assert!(!found.is_empty(), "{role}");
            check(&found);
        };
        listeners(None, &|found| {
            for open in found.iter().filter(|listener| !listener.ip().is_loopback()) {
                assert_ne!(role, "proxy", "{found:?}");
                let port = (Ipv4Addr::LOCALHOST, open.port()).into();
                let (code, remark) = ask_as_stranger(port, request::GET_BROKER_CLUSTER_INFO);
                assert!(
                    code == 16 && remark.contains("start it with --open"),
                    "{role} {open}: {code} {remark}"
                );
            }
        });
        // The clients' address is another address, and no port listens on that address.
        let text = format!("bindAddress=127.0.0.1\n{}", if role == "broker" { metrics } else { "" });
        let text = if role == "broker" { text + "brokerIP1=127.0.0.2\n" } else { text };
        listeners(Some(&text), &|found| {
            let is_told = |listener: &SocketAddr| listener.ip() == IpAddr::from(Ipv4Addr::LOCALHOST);
            assert!(found.iter().all(is_told), "{role}: {found:?}");
        });
        listeners(Some("brokerName=anything\n"), &|found| {
            let is_open = found.iter().any(|listener| listener.ip().is_unspecified());
            assert_eq!(is_open, role != "console", "{role}: {found:?}");
        });
    }
}
