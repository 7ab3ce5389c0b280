//! Measures loopback: round trips of one byte, and bytes per second.

use crate::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of one write.
const BLOCK_BYTES: usize = 256 << 10;

/// Round trips per second of one request at a time, and bytes per second in one direction.
pub(super) fn measure(time: Duration) -> Result<(f64, f64), Error> {
    let trips = with_peer(echo, |stream| round_trips(stream, time));
    let bytes = with_peer(swallow, |stream| push(stream, time));
    let failed = Error::system("measure loopback");
    trips.and_then(|trips| Ok((trips, bytes?))).map_err(failed)
}

fn with_peer(
    peer: fn(TcpStream) -> io::Result<()>,
    measure: impl FnOnce(TcpStream) -> io::Result<f64>,
) -> io::Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    stream.set_nodelay(true)?;
    let (other, _) = listener.accept()?;
    other.set_nodelay(true)?;
    let thread = std::thread::Builder::new().name("selftest".to_owned()).spawn(move || peer(other))?;
    let measured = measure(stream);
    thread.join().map_err(|_| io::Error::other("the other side panicked"))??;
    measured
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

fn swallow(mut stream: TcpStream) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    while stream.read(&mut block)? > 0 {}
    Ok(())
}

fn round_trips(mut stream: TcpStream, time: Duration) -> io::Result<f64> {
    let (begin, mut count, mut byte) = (Instant::now(), 0_u64, [1]);
    while begin.elapsed() < time {
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        count += 1;
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

fn push(mut stream: TcpStream, time: Duration) -> io::Result<f64> {
    let block = vec![0x61; BLOCK_BYTES];
    let (begin, mut bytes) = (Instant::now(), 0);
    while begin.elapsed() < time {
        stream.write_all(&block)?;
        bytes += block.len();
    }
    Ok(bytes as f64 / begin.elapsed().as_secs_f64())
}
