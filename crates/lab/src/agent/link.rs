//! The lab's side of a connection to an agent.

use super::{Asked, Hello, PROTOCOL, line_of, now_us};
use crate::Error;
use crate::archive::HostSecond;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Longest time for an agent to answer.
const TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 10 });

/// Time without a line after which an agent counts as lost. A machine that stops does not close its connections.
const SILENCE_MAX: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 5 });

/// A connection to an agent that observes its machine.
#[derive(Debug)]
pub struct Link {
    lines: Lines<BufReader<OwnedReadHalf>>,
    /// Dropping the writer closes the connection, which ends the observation.
    _writer: OwnedWriteHalf,
    /// The first answer of the agent.
    pub hello: Hello,
    /// Microseconds that the agent's clock is ahead of this machine's.
    pub ahead_us: i64,
    /// Largest error of `ahead_us`, microseconds.
    pub skew_us: u64,
}

impl Link {
    /// Connects to an agent and asks it to observe.
    ///
    /// # Errors
    /// [`Error::System`] when nothing answers at the address, or what answers is no agent.
    pub async fn connect(address: &str, asked: &Asked) -> Result<Self, Error> {
        let failed = Error::system(format!("ask the agent at {address}"));
        match tokio::time::timeout(TIMEOUT, connect(address, asked)).await {
            Ok(linked) => linked.map_err(failed),
            Err(_) => Err(failed(io::Error::from(io::ErrorKind::TimedOut))),
        }
    }

    /// The next second of the machine, with its time by this machine's clock; `None` when the agent is lost.
    pub async fn next(&mut self) -> Option<HostSecond> {
        let line = tokio::time::timeout(SILENCE_MAX, self.lines.next_line()).await.ok()?.ok()??;
        let second: HostSecond = serde_json::from_str(&line).ok()?;
        let at_ms = second.at_ms.saturating_add_signed(-self.ahead_us / 1000);
        Some(HostSecond { at_ms, ..second })
    }
}

async fn connect(address: &str, asked: &Asked) -> io::Result<Link> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let before_us = now_us();
    writer.write_all(&line_of(asked)).await?;
    let mut lines = BufReader::new(reader).lines();
    let line = lines.next_line().await?.ok_or_else(|| io::Error::other("it closed the connection"))?;
    let hello: Hello = serde_json::from_str(&line).map_err(io::Error::other)?;
    if hello.protocol != PROTOCOL {
        let found = hello.protocol;
        let why = format!(
            "it speaks version {found} of the protocol, expected {PROTOCOL}: start the agent of this release"
        );
        return Err(io::Error::other(why));
    }
    let after_us = now_us();
    let (ahead_us, skew_us) = apart(before_us, &hello, after_us);
    Ok(Link { lines, _writer: writer, hello, ahead_us, skew_us })
}

/// Microseconds that another clock is ahead of this one, and the largest error of that. The other clock was read
/// between two readings of this one.
pub(super) fn apart(before_us: u64, hello: &Hello, after_us: u64) -> (i64, u64) {
    // The time that the agent spent before it read its clock was not spent on the network.
    let before_us = before_us.saturating_add(hello.took_us).min(after_us);
    let wide = after_us.saturating_sub(before_us);
    let middle = before_us + wide / 2;
    (hello.now_us.cast_signed() - middle.cast_signed(), wide.div_ceil(2))
}
