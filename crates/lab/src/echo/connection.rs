//! Connection of a limit server: reads arrived bytes, answers their frames, writes once.

use super::answer::Answers;
use super::log::Log;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use wire::frame::{FRAME_BYTES_MAX, frame_length};

/// Bytes of the read buffer that a single read may fill.
const READ_BYTES: usize = 1 << 20;

/// Serves until the other side closes.
pub(super) fn serve(mut stream: TcpStream, log: Option<&Mutex<Log>>, queues: u32) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let answers = Answers::new(stream.local_addr()?, queues);
    let mut input = vec![0; READ_BYTES];
    let mut output = Vec::with_capacity(64 << 10);
    // Bytes of `input` that hold the begin of an incomplete frame.
    let mut kept = 0;
    loop {
        let count = stream.read(&mut input[kept..])?;
        if count == 0 {
            return Ok(());
        }
        let filled = kept + count;
        let used = split(&input[..filled])?;
        if used > 0 {
            take(&mut input[..used], log, &answers, &mut output)?;
            stream.write_all(&output)?;
            output.clear();
        }
        input.copy_within(used..filled, 0);
        kept = filled - used;
        if kept == input.len() {
            input.resize((input.len() * 2).min(FRAME_BYTES_MAX + READ_BYTES), 0);
        }
    }
}

/// Total size in bytes of the complete frames at the start of `bytes`.
fn split(bytes: &[u8]) -> io::Result<usize> {
    let mut used = 0;
    while let Some(length) = frame_length(&bytes[used..]).map_err(io::Error::other)? {
        if used + length > bytes.len() {
            break;
        }
        used += length;
    }
    Ok(used)
}

/// Logs and answers complete frames.
fn take(
    bytes: &mut [u8],
    log: Option<&Mutex<Log>>,
    answers: &Answers,
    output: &mut Vec<u8>,
) -> io::Result<()> {
    if let Some(log) = log {
        let mut rest = &*bytes;
        while let Some(length) = frame_length(rest).map_err(io::Error::other)? {
            let (frame, after) = rest.split_at(length);
            std::hint::black_box(crc32fast::hash(body(frame)));
            rest = after;
        }
        log.lock().expect("appending does not panic").append(bytes)?;
    }
    let mut rest = bytes;
    while let Some(length) = frame_length(rest).map_err(io::Error::other)? {
        let (frame, after) = rest.split_at_mut(length);
        answers.append(frame, output)?;
        rest = after;
    }
    Ok(())
}

/// The body of a complete frame; empty when its header length is wrong, which the answer will report.
fn body(frame: &[u8]) -> &[u8] {
    let header = u32::from_be_bytes([0, frame[5], frame[6], frame[7]]) as usize;
    frame.get(8 + header..).unwrap_or_default()
}
