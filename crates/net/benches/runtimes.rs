//! Connections pinned to single-threaded runtimes beside tokio's multi-thread runtime, same echo, same clients.
//!
//! `cargo bench -p vostok-net --bench runtimes`; docs/decisions/0001-workers.md holds a result.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::{ConnectionHandle, Limits, Service, Workers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::frame::{Command, Encoding, FrameWriter, Head, frame_length};

const RUN: Duration = Duration::from_secs(2);
const BODY: [u8; 1024] = [7; 1024];

fn answer(command: &Command<'_>, out: &mut Vec<u8>) {
    FrameWriter::begin(out, command.response(0)).text("queueOffset", "12345").finish(b"");
}

struct Echo;

impl Service for Echo {
    type ReadBatch = ();
    fn read_batch(&self) {}
    fn frame(
        &self,
        _read_batch: &mut (),
        _peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) {
        answer(&command, out);
    }
}

/// Echo as a task per connection of a multi-thread runtime, which may move the task between threads.
async fn echo(mut stream: tokio::net::TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut input = vec![0; 512 << 10];
    let mut output = Vec::new();
    let mut filled = 0;
    loop {
        match stream.read(&mut input[filled..]).await {
            Ok(0) | Err(_) => return,
            Ok(count) => filled += count,
        }
        let mut used = 0;
        while let Ok(Some(length)) = frame_length(&input[used..filled]) {
            if used + length > filled {
                break;
            }
            answer(&Command::decode(&mut input[used..used + length]).unwrap(), &mut output);
            used += length;
        }
        input.copy_within(used..filled, 0);
        filled -= used;
        if stream.write_all(&output).await.is_err() {
            return;
        }
        output.clear();
    }
}

/// Keeps `window` requests in flight until `end`; returns the answers.
fn load(address: SocketAddr, window: usize, end: Instant) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut request = Vec::new();
    Head::request(Encoding::Binary, 310, 1).write(&mut request, &BODY);
    let requests = request.repeat(window);
    stream.write_all(&requests).unwrap();
    let mut input = vec![0; 512 << 10];
    let (mut filled, mut answers) = (0, 0);
    while Instant::now() < end {
        filled += stream.read(&mut input[filled..]).unwrap();
        let mut used = 0;
        let mut count = 0;
        while let Ok(Some(length)) = frame_length(&input[used..filled]) {
            if used + length > filled {
                break;
            }
            used += length;
            count += 1;
        }
        input.copy_within(used..filled, 0);
        filled -= used;
        answers += count as u64;
        stream.write_all(&requests[..count * request.len()]).unwrap();
    }
    answers
}

fn cpu_us() -> u64 {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    usage.tv_sec as u64 * 1_000_000 + usage.tv_nsec as u64 / 1000
}

fn measure(name: &str, address: SocketAddr, connections: usize, window: usize) {
    let (end, before) = (Instant::now() + RUN, cpu_us());
    let threads: Vec<_> =
        (0..connections).map(|_| std::thread::spawn(move || load(address, window, end))).collect();
    let answers: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let cpu = (cpu_us() - before) as f64 / answers as f64;
    let rate = answers as f64 / RUN.as_secs_f64();
    println!(
        "{name:>12} {connections:>3} connections w={window:<3} {rate:>10.0}/s {cpu:>6.2} us CPU per message, both sides"
    );
}

fn main() {
    let any = "127.0.0.1:0".parse().unwrap();
    let workers = Workers::start("workers", 2, Limits::default()).unwrap();
    let pinned = workers.listen(any, Arc::new(Echo)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind(any)).unwrap();
    let moved = listener.local_addr().unwrap();
    runtime.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(echo(stream));
        }
    });
    for (connections, window) in [(1, 1), (1, 60), (1, 200), (4, 60), (16, 16), (64, 1)] {
        for _ in 0..2 {
            measure("workers", pinned, connections, window);
            measure("multi-thread", moved, connections, window);
        }
    }
    workers.shutdown();
}
