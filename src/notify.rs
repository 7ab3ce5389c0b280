//! Notifies systemd of the state of the process (`sd_notify`), if it was started with `Type=notify`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Everything serves.
pub const READY: &str = "READY=1";
/// The process ends.
pub const STOPPING: &str = "STOPPING=1";

/// Sends a state to the socket that the environment names; without a socket no state is sent.
pub fn notify(state: &str) {
    let Some(socket) = std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, socket, state, "systemd cannot be told");
    }
}

/// Sends a state to a socket by its path, or by its name in the abstract namespace after `@`.
fn send(socket: &str, state: &str) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}
