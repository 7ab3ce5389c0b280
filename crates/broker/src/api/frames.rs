//! The remoting protocol on a port of a front: the broker's own dispatcher, with the requests that a proxy serves.

use std::io;
use std::sync::Arc;

use net::{ConnectionSender, Workers};

use super::Api;
use crate::remoting::{Dispatcher, Port};

impl Api {
    /// Serves remoting on worker `index`. Routes name the address `advertised` (`host:port`); without it, the address that the
    /// client connected to.
    ///
    /// # Errors
    /// The workers have stopped.
    pub fn frames(
        &self,
        workers: &Workers,
        index: usize,
        advertised: Option<Arc<str>>,
    ) -> io::Result<ConnectionSender> {
        let dispatcher = Dispatcher::new(self.broker.clone(), Port::Proxy(advertised));
        workers.connection_sender(index, Arc::new(dispatcher))
    }
}
