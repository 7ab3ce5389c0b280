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
use crate::arguments::EchoFlags;
use crate::output::{alert, say};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use log::Log;

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
    pub fn bind(flags: &EchoFlags) -> Result<Self, Error> {
        let address = SocketAddr::new(flags.host, flags.port);
        let listener = TcpListener::bind(address).map_err(Error::system(format!("listen on {address}")))?;
        let log = match &flags.log {
            Some(directory) => Some(Arc::new(Mutex::new(Log::create(directory)?))),
            None => None,
        };
        Ok(Self { listener, log, queues: flags.queues })
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
pub fn run(flags: &EchoFlags) -> Result<(), Error> {
    let echo = Echo::bind(flags)?;
    let address = echo.address().map_err(Error::system("read the address"))?;
    let kind = if flags.log.is_some() { "logging echo" } else { "bare echo" };
    say!("{kind} on {address}, for name server and broker requests, {} queues per topic", flags.queues);
    echo.serve().map_err(Error::system("accept connections"))
}
