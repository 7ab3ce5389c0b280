//! Body of a request in transit, charged to the memory budget.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tonic::Status;

use crate::memory::{Charge, Memory};

/// Memory of a request that is charged to the budget, owned by the call that serves the request.
#[derive(Clone)]
pub struct RequestMemory(Arc<Mutex<Charge>>);

impl RequestMemory {
    /// Charges bytes that are in memory already.
    pub fn new(memory: &Arc<Memory>, bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(memory.charge(bytes))))
    }
}

/// The empty message of gRPC.
const EMPTY_MESSAGE: &[u8] = &[0; 5];

/// A body that counts its bytes.
pub struct ChargedBody {
    body: Source,
    charged: RequestMemory,
}

/// Source of a body's bytes.
enum Source {
    Client(Incoming),
    /// The client's body is not read. An empty message replaces it.
    Unread(Option<Bytes>),
}

impl ChargedBody {
    /// Wraps a body; the charge is kept by both.
    pub fn new(body: Incoming, memory: &Arc<Memory>) -> (Self, RequestMemory) {
        let charged = RequestMemory::new(memory, 0);
        (Self { body: Source::Client(body), charged: charged.clone() }, charged)
    }

    /// Drops the client's body, and replaces it by an empty message.
    pub fn left_unread(self) -> Self {
        Self { body: Source::Unread(Some(Bytes::from_static(EMPTY_MESSAGE))), ..self }
    }
}

impl Body for ChargedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let body = match &mut self.body {
            Source::Client(body) => body,
            Source::Unread(message) => return Poll::Ready(message.take().map(|it| Ok(Frame::data(it)))),
        };
        let Some(frame) = ready!(Pin::new(body).poll_frame(cx)) else { return Poll::Ready(None) };
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let grown = self.charged.0.lock().grow(bytes);
        Poll::Ready(Some(match grown {
            Ok(()) => Ok(frame),
            Err(failure) => Err(Status::resource_exhausted(failure.message)),
        }))
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Source::Client(body) => body.is_end_stream(),
            Source::Unread(message) => message.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Source::Client(body) => body.size_hint(),
            Source::Unread(_) => SizeHint::default(),
        }
    }
}

/// Body of a response that owns a value until the response is written.
pub struct Keeping<T> {
    body: tonic::body::Body,
    _kept: T,
}

impl<T: Send + Unpin + 'static> Keeping<T> {
    /// Keeps `kept` until the body is written or dropped.
    pub fn until_written(
        response: http::Response<tonic::body::Body>,
        kept: T,
    ) -> http::Response<tonic::body::Body> {
        response.map(|body| tonic::body::Body::new(Self { body, _kept: kept }))
    }
}

impl<T: Unpin> Body for Keeping<T> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
