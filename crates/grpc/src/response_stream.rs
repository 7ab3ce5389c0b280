//! Response messages of a call, and the status that ends the call.

use h2::RecvStream;
use h2::client::ResponseFuture;
use http::HeaderMap;
use prost::Message;

use crate::failure::Failure;
use crate::frame::Frames;

/// Stream of a call's response messages. Dropping the stream before its end cancels the call.
#[derive(Debug)]
pub struct ResponseStream {
    response: ResponseFuture,
    /// `None` until the response begins.
    body: Option<RecvStream>,
    frames: Frames,
}

impl ResponseStream {
    pub(crate) fn new(response: ResponseFuture) -> Self {
        Self { response, body: None, frames: Frames::default() }
    }

    /// Refuses messages of more than `bytes` bytes. Without this limit, any length is accepted.
    #[must_use]
    pub fn limited(mut self, bytes: usize) -> Self {
        self.frames.limit(bytes);
        self
    }

    /// Returns the next message, or `None` at the end of a successful call.
    ///
    /// # Errors
    /// [`Failure::Connection`] when the connection ends, or when the response is not gRPC. [`Failure::Status`] when
    /// the server ended the call with a status other than OK.
    pub async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Failure> {
        let body = match &mut self.body {
            Some(body) => body,
            None => {
                let response = (&mut self.response).await.map_err(Failure::connection)?;
                if !response.status().is_success() {
                    let text = format!("the answer is HTTP status {}", response.status());
                    return Err(Failure::Connection(text));
                }
                // A call without messages has its status here.
                if let Some(status) = status(response.headers()) {
                    return status.map(|()| None);
                }
                self.body.insert(response.into_body())
            }
        };
        loop {
            if let Some(message) = self.frames.next()? {
                return Ok(Some(message));
            }
            let Some(data) = body.data().await else { break };
            let data = data.map_err(Failure::connection)?;
            self.frames.push(&data);
            body.flow_control().release_capacity(data.len()).map_err(Failure::connection)?;
        }
        let trailers = body.trailers().await.map_err(Failure::connection)?.unwrap_or_default();
        status(&trailers).unwrap_or_else(|| Err(Failure::connection("the answer has no status")))?;
        if self.frames.is_cut() {
            return Err(Failure::connection("the answer ended within a message"));
        }
        Ok(None)
    }

    /// The only message of an answer.
    ///
    /// # Errors
    /// Errors of [`Self::next`], and [`Failure::Connection`] when there is no message.
    pub async fn only<M: Message + Default>(mut self) -> Result<M, Failure> {
        let message = self.next().await?;
        // The status follows the message, and a failure counts.
        if let Some(message) = message
            && self.next::<M>().await?.is_none()
        {
            return Ok(message);
        }
        Err(Failure::connection("expected one message as the answer"))
    }
}

/// Returns the result in the status header, or `None` without a status.
fn status(headers: &HeaderMap) -> Option<Result<(), Failure>> {
    let text = |name: &str| headers.get(name).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
    let status = text("grpc-status")?;
    if status == "0" {
        return Some(Ok(()));
    }
    let code = status.parse().unwrap_or(-1);
    Some(Err(Failure::Status { code, message: text("grpc-message").unwrap_or_default() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use crate::frame::framed;
    use crate::messages::Status;
    use bytes::Bytes;

    /// Returns the status of a call whose response has this body and these trailers, in this order.
    fn called(body: Vec<Bytes>, trailers: &[(&'static str, &str)]) -> Result<Status, Failure> {
        let mut told = HeaderMap::new();
        for (name, value) in trailers {
            told.insert(*name, value.parse().unwrap());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (near, far) = tokio::io::duplex(1 << 16);
            let serves = async move {
                let mut connection = h2::server::handshake(far).await.unwrap();
                while let Some(call) = connection.accept().await {
                    let (request, mut answer) = call.unwrap();
                    assert_eq!(request.uri().path(), "/apache.rocketmq.v2.MessagingService/Echo");
                    assert_eq!(request.headers()["grpc-timeout"], "3000m");
                    let response = http::Response::new(());
                    let mut stream = answer.send_response(response, false).unwrap();
                    body.iter().for_each(|data| stream.send_data(data.clone(), false).unwrap());
                    stream.send_trailers(told.clone()).unwrap();
                }
                std::future::pending::<()>().await;
            };
            let calls = async {
                let (channel, carried) = Channel::open(near, "http://h:1", HeaderMap::new()).await?;
                let called = async {
                    let method = channel.method("Echo", Some(std::time::Duration::from_secs(3)))?;
                    channel.call(&method, framed(&Status::ok())).await?.only().await
                };
                tokio::select! { answer = called => answer, failure = carried => Err(failure) }
            };
            tokio::select! { answer = calls => answer, () = serves => unreachable!("serves until it is dropped") }
        })
    }

    #[test]
    fn a_call_succeeds_when_its_status_says_so() {
        let ok = ("grpc-status", "0");
        let whole = framed(&Status::ok());
        let halves = vec![whole.slice(..3), whole.slice(3..)];
        assert_eq!(called(halves, &[ok]), Ok(Status::ok()));
        let failed = called(vec![whole.clone()], &[("grpc-status", "8"), ("grpc-message", "too much")]);
        assert_eq!(failed, Err(Failure::Status { code: 8, message: "too much".to_owned() }));
        let is_connection = |answer| matches!(answer, Err(Failure::Connection(_)));
        assert!(is_connection(called(vec![whole.clone()], &[])), "no status");
        assert!(is_connection(called(vec![whole.slice(..6)], &[ok])), "half a message");
        assert!(is_connection(called(vec![], &[ok])), "no message");
        assert!(is_connection(called(vec![whole.clone(), whole], &[ok])), "two messages");
    }
}
