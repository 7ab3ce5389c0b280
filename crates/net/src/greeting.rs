//! Bytes before a connection's first frame: its origin (PROXY protocol), and its encryption (TLS).
//!
//! The first byte decides. A frame begins with its length, at most 16 MiB, so with 0 or 1. A PROXY preamble of
//! version 1 or 2 begins with `P` or a carriage return, a TLS hello with 0x16
//! (`NettyRemotingServer.HandshakeHandler`). A plain connection costs one peek. A preamble is accepted only from
//! trusted proxies. RocketMQ accepts it from every host.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ppp::v1::Addresses as Text;
use ppp::v2::Addresses as Binary;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::admission::ConnectionPermit;
use crate::proxies::SETTING;
use crate::stream::Stream;
use crate::tls::Security;

/// Longest preamble of version 1 in bytes, with its line end.
const TEXT_BYTES_MAX: usize = 107;

/// Bytes of signature, command, family and length in a preamble of version 2.
const BINARY_HEAD_BYTES: usize = 16;

/// Most bytes of addresses and further fields in a preamble of version 2.
const BINARY_BYTES_MAX: usize = 4096;

/// Longest wait for everything before the first byte of HTTP/2, and for the first byte of a connection that may be
/// HTTP/2.
const HTTP2_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the first bytes and reads everything before the first frame. Returns the stream and the client's
/// address.
///
/// # Errors
/// The connection ended. The preamble is malformed or from an untrusted address. The TLS handshake failed, or is above
/// the limit of handshakes per second. The connection is plain where TLS is required, or encrypted where TLS is
/// disabled.
pub(crate) async fn greet(
    stream: TcpStream,
    security: &Security,
    permit: &ConnectionPermit,
) -> io::Result<(Stream, SocketAddr)> {
    let (stream, remote, _) = greet_as(stream, security, permit, ExpectedProtocol::Frames).await?;
    Ok((stream, remote))
}

/// Greets a connection of HTTP/2 like `greet`. Both `PRI` and a PROXY preamble begin with `P`, so more bytes decide.
/// TLS offers the protocol `h2`.
///
/// # Errors
/// The errors of `greet`, with [`io::ErrorKind::InvalidData`] for a refused connection. A timeout if the first bytes
/// took longer than ten seconds.
pub async fn greet_http2(
    stream: TcpStream,
    security: &Security,
    permit: &ConnectionPermit,
) -> io::Result<(Stream, SocketAddr)> {
    let greeted =
        tokio::time::timeout(HTTP2_TIMEOUT, greet_as(stream, security, permit, ExpectedProtocol::Http2));
    let (stream, remote, _) = greeted.await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok((stream, remote))
}

/// Connects to a server of HTTP/2, with TLS where dialed connections are encrypted.
///
/// # Errors
/// The server cannot be reached within ten seconds, or the TLS handshake fails.
pub async fn dial_http2(address: SocketAddr, security: &Security) -> io::Result<Stream> {
    let connected = tokio::time::timeout(HTTP2_TIMEOUT, TcpStream::connect(address));
    let stream = connected.await.map_err(|_| io::ErrorKind::TimedOut)??;
    stream.set_nodelay(true)?;
    match &security.client {
        Some(tls) => tls.connect_http2(stream).await,
        None => Ok(Stream::Plain(stream)),
    }
}

/// Like [`greet_http2`] for a port of both protocols: `PRI` at the beginning, or `h2` in the TLS handshake, is HTTP/2
/// (`ProtocolNegotiationHandler`).
///
/// # Errors
/// Errors of [`greet_http2`], except that bytes other than the preface of HTTP/2 are no error.
pub async fn greet_either(
    stream: TcpStream,
    security: &Security,
    permit: &ConnectionPermit,
) -> io::Result<(ProtocolStream, SocketAddr)> {
    let local = stream.local_addr()?;
    let greeted =
        tokio::time::timeout(HTTP2_TIMEOUT, greet_as(stream, security, permit, ExpectedProtocol::Either));
    let (stream, remote, is_http2) = greeted.await.map_err(|_| io::ErrorKind::TimedOut)??;
    let greeted = match is_http2 {
        true => ProtocolStream::Http2(stream),
        false => ProtocolStream::Frames(FrameStream { stream, remote, local }),
    };
    Ok((greeted, remote))
}

/// Protocol of a connection that may use either protocol.
pub enum ProtocolStream {
    /// HTTP/2.
    Http2(Stream),
    /// Frames of the remoting protocol.
    Frames(FrameStream),
}

/// A connection that speaks the remoting protocol, with its remote and local address.
pub struct FrameStream {
    pub(crate) stream: Stream,
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Possible protocols of a connection after its greeting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectedProtocol {
    Frames,
    Http2,
    Either,
}

async fn greet_as(
    mut stream: TcpStream,
    security: &Security,
    permit: &ConnectionPermit,
    expected: ExpectedProtocol,
) -> io::Result<(Stream, SocketAddr, bool)> {
    let may_be_http2 = expected != ExpectedProtocol::Frames;
    let mut remote = stream.peer_addr()?;
    let mut first = first_byte(&stream).await?;
    let mut is_http2 = may_be_http2 && first == b'P' && begins_http2(&stream).await?;
    if matches!(first, b'P' | b'\r') && !is_http2 {
        if !security.proxies.contains(remote.ip()) {
            return Err(refused(format!(
                "{remote} begins a PROXY preamble and is not trusted; if it is your proxy, add its address to {SETTING}"
            )));
        }
        let source = if first == b'P' { text(&mut stream).await? } else { binary(&mut stream).await? };
        remote = source.unwrap_or(remote);
        first = first_byte(&stream).await?;
        is_http2 = may_be_http2 && first == b'P' && begins_http2(&stream).await?;
    }
    let encrypted = first == 0x16;
    match security.server.as_deref() {
        Some(tls) if encrypted => {
            let (stream, is_http2) = tls.accept(stream, permit, may_be_http2).await?;
            Ok((stream, remote, is_http2))
        }
        None if encrypted => Err(refused("a TLS hello arrived, but tls.server.mode is disabled")),
        Some(tls) if tls.is_required() => {
            Err(refused("plain bytes arrived, but tls.server.mode is enforcing; connect with TLS"))
        }
        _ => Ok((Stream::Plain(stream), remote, is_http2)),
    }
}

async fn first_byte(stream: &TcpStream) -> io::Result<u8> {
    let mut byte = [0];
    match stream.peek(&mut byte).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(byte[0]),
    }
}

/// Whether the stream begins with `PRI`, as HTTP/2 does, and not with `PROXY`. Clients send these bytes together.
/// Single bytes are polled every few milliseconds.
async fn begins_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut bytes = [0; 3];
    loop {
        match stream.peek(&mut bytes).await? {
            3 => return Ok(&bytes == b"PRI"),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Reads a preamble such as `PROXY TCP4 10.0.0.1 10.0.0.2 56324 10911`; `None` for `UNKNOWN`, which names no address.
async fn text(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut line = Vec::with_capacity(TEXT_BYTES_MAX);
    while !line.ends_with(b"\r\n") {
        if line.len() == TEXT_BYTES_MAX {
            return Err(refused("a PROXY line without its end arrived"));
        }
        line.push(stream.read_u8().await?);
    }
    let header = ppp::v1::Header::try_from(line.as_slice()).map_err(refused)?;
    Ok(match header.addresses {
        Text::Tcp4(tcp) => Some((tcp.source_address, tcp.source_port).into()),
        Text::Tcp6(tcp) => Some((tcp.source_address, tcp.source_port).into()),
        Text::Unknown => None,
    })
}

/// Reads a preamble of version 2; `None` for a local one (a health check by the proxy itself).
async fn binary(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut bytes = vec![0; BINARY_HEAD_BYTES];
    stream.read_exact(&mut bytes).await?;
    let length = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    if length > BINARY_BYTES_MAX {
        return Err(refused(format!(
            "a PROXY preamble of {length} bytes arrived, at most {BINARY_BYTES_MAX}"
        )));
    }
    bytes.resize(BINARY_HEAD_BYTES + length, 0);
    stream.read_exact(&mut bytes[BINARY_HEAD_BYTES..]).await?;
    let header = ppp::v2::Header::try_from(bytes.as_slice()).map_err(refused)?;
    if header.command == ppp::v2::Command::Local {
        return Ok(None);
    }
    Ok(match header.addresses {
        Binary::IPv4(ip) => Some((ip.source_address, ip.source_port).into()),
        Binary::IPv6(ip) => Some((ip.source_address, ip.source_port).into()),
        Binary::Unspecified | Binary::Unix(_) => None,
    })
}

fn refused(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}
