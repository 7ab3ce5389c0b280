//! The two limit servers: plain threads and blocking sockets, the same framing as a broker, and nothing behind it.
//!
//! The bare echo answers every send at once and shows what the network and framing alone cost. The logging echo
//! first computes the checksum of every body and appends what arrived with one positional write, which is the least
//! a broker has to do. Both also answer the few requests a load tool makes before it sends: every topic exists, on
//! one broker, which is the address the client connected to.

mod answer;
mod connection;
mod log;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::command::EchoFlags;
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
    /// Listens; port 0 means any free one.
    ///
    /// # Errors
    /// The port is taken, or the directory of the log cannot be written.
    pub fn bind(flags: &EchoFlags) -> Result<Self, Error> {
        let address = SocketAddr::new(flags.host, flags.port);
        let listener = TcpListener::bind(address).map_err(Error::system(format!("listen on {address}")))?;
        let log = match &flags.log {
            Some(directory) => Some(Arc::new(Mutex::new(Log::create(directory)?))),
            None => None,
        };
        Ok(Self { listener, log, queues: flags.queues })
    }

    /// The address bound.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections, a thread each, until accepting fails.
    ///
    /// # Errors
    /// What ended it.
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

/// `vostok lab echo`: serves until it is killed.
///
/// # Errors
/// As [`Echo::bind`] and [`Echo::serve`].
pub fn run(flags: &EchoFlags) -> Result<(), Error> {
    let echo = Echo::bind(flags)?;
    let address = echo.address().map_err(Error::system("read the address"))?;
    let kind = if flags.log.is_some() { "logging echo" } else { "bare echo" };
    say!("{kind} on {address}, for name server and broker requests, {} queues per topic", flags.queues);
    echo.serve().map_err(Error::system("accept connections"))
}
