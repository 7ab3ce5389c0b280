//! Addresses in settings and arguments.

use std::net::Ipv6Addr;

/// Port of a name server whose address has no port (`NamesrvStartup`).
pub const NAMESRV_PORT: u16 = 9876;
/// Port of a controller whose address has no port. `ControllerStartup` has no default; `controllerDLegerPeers` in RocketMQ's examples has this one.
pub const CONTROLLER_PORT: u16 = 9878;
/// Port of a broker whose address has no port (`BrokerStartup`).
pub const BROKER_PORT: u16 = 10911;
/// Port of a master's replication service whose address has no port (`MessageStoreConfig.haListenPort`).
pub const HA_PORT: u16 = 10912;

/// Adds the default port to an address without a port: `localhost`, `[::1]`.
pub fn with_port(address: &str, default: u16) -> String {
    let has_port = match address.strip_prefix('[') {
        Some(rest) => !rest.ends_with(']'),
        None => address.is_empty() || address.contains(':'),
    };
    if has_port { address.to_owned() } else { format!("{address}:{default}") }
}

/// Reads addresses of name servers for arguments and environment, see [`addresses`].
///
/// # Errors
/// A text that says what was expected, and which part was found.
pub fn name_servers(text: &str) -> Result<String, String> {
    addresses(text, NAMESRV_PORT)
}

/// Reads addresses of servers, `host:port` separated by `;`. An address without a host is of this machine, as in RocketMQ
/// (`NetworkUtil.string2SocketAddress`); an address without a port gets the default. Names are resolved when a connection is opened.
///
/// # Errors
/// A text that says what was expected, and which part was found.
pub fn addresses(text: &str, default_port: u16) -> Result<String, String> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    let parts: Result<Vec<String>, String> =
        parts.map(|part| address(&with_port(part, default_port))).collect();
    parts.map(|parts| parts.join(";"))
}

fn address(text: &str) -> Result<String, String> {
    let unusable = || format!("expected host:port, as 10.0.0.1:9876, several separated by ;, found {text:?}");
    let (host, port) = text.rsplit_once(':').ok_or_else(unusable)?;
    let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(unusable)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let without_zone = bare.split_once('%').map_or(bare, |(address, _)| address);
    if without_zone.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{bare}]:{port}"));
    }
    match host {
        "" => Ok(format!("127.0.0.1:{port}")),
        host if is_host(host) => Ok(format!("{host}:{port}")),
        _ => Err(unusable()),
    }
}

/// Whether a text is an IPv4 address or can be the name of a machine.
pub fn is_host(text: &str) -> bool {
    let is_fit = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
    let is_name = text.bytes().any(|letter| letter.is_ascii_alphabetic());
    text.len() <= 253 && text.bytes().all(is_fit) && (is_name || text.parse::<std::net::Ipv4Addr>().is_ok())
}

/// Returns an unfilled template variable, such as `${BROKER_IP}` or `{{ .ip }}`.
pub fn variable(text: &str) -> Option<&str> {
    let (begin, open, close) = [("${", "}"), ("{{", "}}")]
        .into_iter()
        .find_map(|(open, close)| Some((text.find(open)?, open, close)))?;
    let name_at = begin + open.len();
    let name = &text[name_at..name_at + text[name_at..].find(close)?];
    let is_fit = |letter: char| letter.is_alphanumeric() || " _.:-".contains(letter);
    let is_name = name.chars().any(char::is_alphabetic) && name.chars().all(is_fit);
    is_name.then(|| &text[begin..name_at + name.len() + close.len()])
}
