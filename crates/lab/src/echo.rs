//! The limit servers: plain threads and blocking sockets, with the framing of a broker and no store.
//!
//! The bare echo answers every send at once and shows what the network and framing alone cost. The logging echo first
//! computes the checksum of every body and appends the request with one positional write, which is the least that a
//! broker has to do. Both also answer the few requests that a load tool sends before: every topic exists, on one
//! broker, which has the address that the client connected to.
//!
//! A further port may answer sends over gRPC, decoded by the same library as in the proxy: a thread for each connection too.

mod answer;
mod connection;
mod grpc;
mod log;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::output::{alert, say};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use log::Log;

/// Address and behaviour of a limit server.
#[derive(Clone, Debug)]
pub struct EchoOptions {
    /// Address to listen on; port 0 chooses any free port.
    pub address: SocketAddr,
    /// Directory of the files to which the logging echo appends; `None` for the bare echo.
    pub log: Option<PathBuf>,
    /// Number of queues that every topic is reported to have.
    pub queues: u32,
    /// Port that answers over gRPC, 0 for any; such an answer never waits for the log. `None` for no such port.
    pub grpc_port: Option<u16>,
}

impl EchoOptions {
    /// A bare echo on any free port of this machine.
    pub fn local(queues: u32) -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), log: None, queues, grpc_port: None }
    }
}

/// A listening limit server.
#[derive(Debug)]
pub struct Echo {
    listener: TcpListener,
    grpc: Option<TcpListener>,
    log: Option<Arc<Mutex<Log>>>,
    queues: u32,
}

impl Echo {
    /// Binds the listening sockets; port 0 chooses any free port.
    ///
    /// # Errors
    /// [`Error::System`] when the port is in use, [`Error::File`] when the directory of the log cannot be written.
    pub fn bind(options: &EchoOptions) -> Result<Self, Error> {
        let bound = |address: SocketAddr| {
            TcpListener::bind(address).map_err(Error::system(format!("listen on {address}")))
        };
        let listener = bound(options.address)?;
        let grpc =
            options.grpc_port.map(|port| bound(SocketAddr::new(options.address.ip(), port))).transpose()?;
        let log = match &options.log {
            Some(directory) => Some(Arc::new(Mutex::new(Log::create(directory)?))),
            None => None,
        };
        Ok(Self { listener, grpc, log, queues: options.queues })
    }

    /// The bound address.
    ///
    /// # Errors
    /// The error of the system when it does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The bound address of the port of gRPC; `None` without such a port.
    ///
    /// # Errors
    /// The error of the system when it does not report the address.
    pub fn grpc_address(&self) -> io::Result<Option<SocketAddr>> {
        self.grpc.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// Serves connections, with a thread each, until accepting fails.
    ///
    /// # Errors
    /// The error of accepting a connection.
    pub fn serve(self) -> io::Result<()> {
        let Self { listener, grpc, log, queues } = self;
        if let Some(grpc) = grpc {
            let accepts = move || accept(&grpc, move |stream| grpc::serve(stream, queues));
            std::thread::Builder::new().name("echo-grpc".to_owned()).spawn(accepts)?;
        }
        accept(&listener, move |stream| connection::serve(stream, log.as_deref(), queues))
    }
}

/// Serves the connections of one port, with a thread each.
fn accept(
    listener: &TcpListener,
    serve: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static,
) -> io::Result<()> {
    for stream in listener.incoming() {
        let (stream, serve) = (stream?, serve.clone());
        std::thread::Builder::new().name("echo".to_owned()).spawn(move || {
            let remote = stream.peer_addr();
            if let Err(error) = serve(stream) {
                alert!("connection of {remote:?} ended: {error}");
            }
        })?;
    }
    Ok(())
}

/// `vostok lab echo`: serves until the process is killed.
///
/// # Errors
/// Errors of [`Echo::bind`] and [`Echo::serve`].
pub fn run(options: &EchoOptions) -> Result<(), Error> {
    let echo = Echo::bind(options)?;
    let address = echo.address().map_err(Error::system("read the address"))?;
    let kind = if options.log.is_some() { "logging echo" } else { "bare echo" };
    say!("{kind} on {address}, for name server and broker requests, {} queues per topic", options.queues);
    if let Some(address) = echo.grpc_address().map_err(Error::system("read the address"))? {
        say!("echo of gRPC on {address}");
    }
    echo.serve().map_err(Error::system("accept connections"))
}
