//! The byte stream of a connection, plain or TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A plain stream, as nearly all are, or a boxed TLS one.
pub enum Stream {
    /// Plain socket.
    Plain(TcpStream),
    /// A socket on which TLS is spoken, as the server or as the client.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Memory of a TLS session in bytes, with its keys and the record being read.
const SESSION_BYTES: usize = 32 << 10;

/// Further memory in bytes while the socket takes no bytes (the limit of `rustls`).
const SESSION_UNSENT_BYTES: usize = 64 << 10;

impl Stream {
    /// Memory in bytes that the connection uses below its frames.
    pub(crate) fn held(&self, has_unsent: bool) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(_) if has_unsent => SESSION_BYTES + SESSION_UNSENT_BYTES,
            Self::Tls(_) => SESSION_BYTES,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Writes slices, so that h2 writes the head and the payload of a frame with one system call.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    /// Flushes bytes that the TLS session took and the socket did not.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn several_slices_are_written_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut stream = Stream::Plain(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
            assert!(stream.is_write_vectored());
            let slices = [IoSlice::new(b"head"), IoSlice::new(b"payload")];
            let written = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &slices)).await;
            assert_eq!(written.unwrap(), 11);
        });
    }
}
