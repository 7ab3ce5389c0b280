//! The remoting protocol on a port of a front: the broker's own dispatcher, with the requests that a proxy serves.

use std::io;
use std::sync::Arc;

use net::{Adopter, FrameStream, Place, Workers};

use super::Api;
use crate::remoting::{Dispatcher, Port};

/// Serves connections of the remoting protocol on one worker as the broker's own port does.
pub struct Frames(Adopter);

impl Frames {
    /// Serves a connection until it ends. Must be called on the worker's thread.
    pub fn serve(&self, stream: FrameStream, place: Place) {
        self.0.adopt(stream, place);
    }
}

impl Api {
    /// What serves remoting on worker `index`. Routes name `told`, `host:port`, or the address that a client connected to.
    ///
    /// # Errors
    /// The workers have stopped.
    pub fn frames(&self, workers: &Workers, index: usize, told: Option<Arc<str>>) -> io::Result<Frames> {
        let dispatcher = Dispatcher::new(self.broker.clone(), Port::Proxy(told));
        workers.adopter(index, Arc::new(dispatcher)).map(Frames)
    }
}
