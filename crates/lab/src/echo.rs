//! The two limit servers: plain threads and blocking sockets, with the framing of a broker and no store.
//!
//! The bare echo answers every send at once and shows what the network and framing alone cost. The logging echo first
//! computes the checksum of every body and appends the request with one positional write, which is the least that a
//! broker has to do. Both also answer the few requests that a load tool sends before: every topic exists, on one
//! broker, which has the address that the client connected to.

mod answer;
mod connection;
mod log;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::output::{alert, say};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use log::Log;

/// What a limit server listens on and does.
#[derive(Clone, Debug)]
pub struct EchoOptions {
    /// Address to listen on; port 0 chooses any free port.
    pub address: SocketAddr,
    /// Directory of the files to which the logging echo appends; `None` for the bare echo.
    pub log: Option<PathBuf>,
    /// Number of queues that every topic is reported to have.
    pub queues: u32,
}

impl EchoOptions {
    /// A bare echo on any free port of this machine.
    pub fn local(queues: u32) -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), log: None, queues }
    }
}

/// A listening limit server.
#[derive(Debug)]
pub struct Echo {
    listener: TcpListener,
    log: Option<Arc<Mutex<Log>>>,
    queues: u32,
}

impl Echo {
    /// Binds the listening socket; port 0 chooses any free port.
    ///
    /// # Errors
    /// [`Error::System`] when the port is in use, [`Error::File`] when the directory of the log cannot be written.
    pub fn bind(options: &EchoOptions) -> Result<Self, Error> {
        let address = options.address;
        let listener = TcpListener::bind(address).map_err(Error::system(format!("listen on {address}")))?;
        let log = match &options.log {
            Some(directory) => Some(Arc::new(Mutex::new(Log::create(directory)?))),
            None => None,
        };
        Ok(Self { listener, log, queues: options.queues })
    }

    /// The bound address.
    ///
    /// # Errors
    /// The error of the system when it does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections, with a thread each, until accepting fails.
    ///
    /// # Errors
    /// The error of accepting a connection.
    pub fn serve(self) -> io::Result<()> {
        for stream in self.listener.incoming() {
            let stream = stream?;
            let (log, queues) = (self.log.clone(), self.queues);
            std::thread::Builder::new().name("echo".to_owned()).spawn(move || {
                let remote = stream.peer_addr();
                if let Err(error) = connection::serve(stream, log.as_deref(), queues) {
                    alert!("connection of {remote:?} ended: {error}");
                }
            })?;
        }
        Ok(())
    }
}

/// `vostok lab echo`: serves until the process is killed.
///
/// # Errors
/// As for [`Echo::bind`] and [`Echo::serve`].
pub fn run(options: &EchoOptions) -> Result<(), Error> {
    let echo = Echo::bind(options)?;
    let address = echo.address().map_err(Error::system("read the address"))?;
    let kind = if options.log.is_some() { "logging echo" } else { "bare echo" };
    say!("{kind} on {address}, for name server and broker requests, {} queues per topic", options.queues);
    echo.serve().map_err(Error::system("accept connections"))
}
