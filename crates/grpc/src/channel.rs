//! A connection to a server of RocketMQ's gRPC protocol, over which any number of calls run at the same time.

use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Request, Uri};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::failure::Failure;
use crate::response_stream::ResponseStream;

/// Most bytes of one response that the server may send before the client reads them.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;

/// Flow-control window for all responses of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// A connection. Clones share the connection.
#[derive(Clone)]
pub struct Channel {
    sender: SendRequest<Bytes>,
    /// The server, with `http` or `https`.
    origin: String,
    headers: HeaderMap,
}

/// The head of all calls of a method.
#[derive(Clone)]
pub struct Method(Request<()>);

impl Channel {
    /// Begins HTTP/2 on a stream. `headers` are sent with every call. Also returns the future that carries the
    /// connection and ends with it.
    ///
    /// # Errors
    /// [`Failure::Connection`] when the stream ends at once.
    pub async fn open<S: AsyncRead + AsyncWrite + Unpin>(
        stream: S,
        origin: &str,
        mut headers: HeaderMap,
    ) -> Result<(Self, impl Future<Output = Failure> + use<S>), Failure> {
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        builder.enable_push(false);
        let (sender, connection) = builder.handshake(stream).await.map_err(Failure::connection)?;
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let carried =
            async move {
                let ended = connection.await;
                Failure::connection(ended.map_or_else(
                    |error| error.to_string(),
                    |()| "the server closed the connection".to_owned(),
                ))
            };
        Ok((Self { sender, origin: origin.to_owned(), headers }, carried))
    }

    /// Makes the head of the calls of a method of RocketMQ, such as `SendMessage`. The head tells the server that a
    /// call ends after `timeout`.
    ///
    /// # Errors
    /// [`Failure::Connection`] when the name of the server is not valid in an address.
    pub fn method(&self, name: &str, timeout: Option<Duration>) -> Result<Method, Failure> {
        self.method_of("apache.rocketmq.v2.MessagingService", name, timeout)
    }

    /// Makes the head of the calls of a method of any service, like [`Channel::method`].
    ///
    /// # Errors
    /// [`Failure::Connection`] when the name of the server is not valid in an address.
    pub fn method_of(&self, service: &str, name: &str, timeout: Option<Duration>) -> Result<Method, Failure> {
        let uri = format!("{}/{service}/{name}", self.origin);
        let uri: Uri = uri.parse().map_err(Failure::connection)?;
        let mut request = Request::post(uri).body(()).map_err(Failure::connection)?;
        *request.headers_mut() = self.headers.clone();
        if let Some(timeout) = timeout {
            let text = format!("{}m", timeout.as_millis());
            let value = HeaderValue::try_from(text).map_err(Failure::connection)?;
            request.headers_mut().insert("grpc-timeout", value);
        }
        Ok(Method(request))
    }

    /// Makes a call with one message, which is framed already.
    ///
    /// # Errors
    /// [`Failure::Connection`] when the connection ended.
    pub async fn call(&self, method: &Method, message: Bytes) -> Result<ResponseStream, Failure> {
        Ok(self.begin(method, message, true).await?.1)
    }

    /// Begins a call to which further messages may be added; dropping the send stream tells the server that
    /// no message follows.
    ///
    /// # Errors
    /// [`Failure::Connection`] when the connection ended.
    pub async fn stream(
        &self,
        method: &Method,
        message: Bytes,
    ) -> Result<(SendStream<Bytes>, ResponseStream), Failure> {
        self.begin(method, message, false).await
    }

    async fn begin(
        &self,
        method: &Method,
        message: Bytes,
        is_last: bool,
    ) -> Result<(SendStream<Bytes>, ResponseStream), Failure> {
        // Waits while the server takes no further call.
        let mut sender = self.sender.clone().ready().await.map_err(Failure::connection)?;
        let (response, mut stream) =
            sender.send_request(method.0.clone(), false).map_err(Failure::connection)?;
        stream.send_data(message, is_last).map_err(Failure::connection)?;
        Ok((stream, ResponseStream::new(response)))
    }
}
