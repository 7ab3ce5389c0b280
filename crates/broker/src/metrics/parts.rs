//! Body of a response whose first parts are sent while later parts are made.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{mpsc, oneshot};

/// A page in parts: all finished parts, then the rest.
pub(super) struct Parts {
    parts: mpsc::UnboundedReceiver<String>,
    /// `None` after the end.
    rest: Option<oneshot::Receiver<String>>,
}

impl Parts {
    pub(super) fn new(parts: mpsc::UnboundedReceiver<String>, rest: oneshot::Receiver<String>) -> Self {
        Self { parts, rest: Some(rest) }
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = io::Error;

    /// Returns the next part. A page without a rest could not be made. The error lets the client see a truncated body.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(part) = ready!(self.parts.poll_recv(context)) {
            return Poll::Ready(Some(Ok(Frame::data(part.into()))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let rest = ready!(Pin::new(rest).poll(context));
        self.rest = None;
        Poll::Ready(Some(rest.map(|rest| Frame::data(rest.into())).map_err(io::Error::other)))
    }
}
