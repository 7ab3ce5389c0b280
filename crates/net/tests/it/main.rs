//! Connections over loopback: batching, answers out of order, calls both ways, hostile bytes, back-pressure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::{CallError, Limits, Peer, Service, Workers};
use wire::frame::{Command, Encoding, FrameWriter, Head, frame_length};

const ECHO: i32 = 1;
const LATER: i32 = 2;
const SILENT: i32 = 3;
const CLOSE: i32 = 4;
const PANIC: i32 = 5;

/// Answers echoes with their body, holds `LATER` until the next echo, never answers `SILENT`.
#[derive(Default)]
struct Probe {
    held: Mutex<Vec<(Arc<Peer>, i32)>>,
    turns: AtomicUsize,
    frames: AtomicUsize,
    closed: AtomicUsize,
}

impl Service for Probe {
    type Turn = ();

    fn turn(&self) {}

    fn frame(&self, _turn: &mut (), peer: &Arc<Peer>, command: Command<'_>, out: &mut Vec<u8>) {
        self.frames.fetch_add(1, Ordering::SeqCst);
        match command.code {
            ECHO => {
                FrameWriter::begin(out, command.reply(0)).text("k", "v").finish(command.body);
                for (peer, opaque) in self.held.lock().unwrap().drain(..) {
                    let _ = peer.push(|out| Head::response(Encoding::Json, 7, opaque).write(out, b"late"));
                }
            }
            LATER => self.held.lock().unwrap().push((peer.clone(), command.opaque)),
            CLOSE => peer.close(),
            PANIC => panic!("asked for by a test"),
            _ => {}
        }
    }

    fn end(&self, _turn: &mut (), _peer: &Arc<Peer>, _out: &mut Vec<u8>) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }

    fn closed(&self, _peer: &Arc<Peer>) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

fn served(limits: Limits) -> (Workers, SocketAddr, Arc<Probe>) {
    let workers = Workers::start("probe", 2, limits).unwrap();
    let probe = Arc::new(Probe::default());
    let address = workers.listen("127.0.0.1:0".parse().unwrap(), probe.clone()).unwrap();
    (workers, address, probe)
}

fn request(code: i32, opaque: i32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Head::request(Encoding::Binary, code, opaque).write(&mut out, body);
    out
}

/// Reads one frame and returns its code, id and body.
fn answer(stream: &mut TcpStream) -> (i32, i32, Vec<u8>) {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).unwrap();
    let length = frame_length(&frame).unwrap().unwrap();
    frame.resize(length, 0);
    stream.read_exact(&mut frame[4..]).unwrap();
    let command = Command::decode(&mut frame).unwrap();
    (command.code, command.opaque, command.body.to_vec())
}

fn closes(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn pipelined_requests_are_answered_by_id_also_out_of_order() {
    let (workers, address, probe) = served(Limits::default());
    let mut stream = TcpStream::connect(address).unwrap();
    let mut bytes = request(LATER, 1, b"");
    for opaque in 2..500 {
        bytes.extend(request(ECHO, opaque, format!("body {opaque}").as_bytes()));
    }
    stream.write_all(&bytes).unwrap();
    let mut late = None;
    let mut next = 2;
    for _ in 1..500 {
        let (code, opaque, body) = answer(&mut stream);
        if code == 7 {
            late = Some((opaque, body));
        } else {
            assert_eq!((opaque, body), (next, format!("body {next}").into_bytes()));
            next += 1;
        }
    }
    assert_eq!(late, Some((1, b"late".to_vec())));
    assert!(probe.turns.load(Ordering::SeqCst) < 250, "frames of one read are one turn");
    workers.shutdown();
}

#[test]
fn a_frame_split_into_single_bytes_and_a_frame_of_the_largest_size_arrive_whole() {
    let (workers, address, _) = served(Limits::default());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in request(ECHO, 1, b"dribble") {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(answer(&mut stream), (0, 1, b"dribble".to_vec()));
    let overhead = request(ECHO, 2, b"").len();
    let large = vec![0xA5; wire::frame::FRAME_BYTES_MAX - overhead];
    stream.write_all(&request(ECHO, 2, &large)).unwrap();
    stream.write_all(&request(ECHO, 3, b"after")).unwrap();
    let mut reader = stream.try_clone().unwrap();
    // The answer is larger than the request by its field, beyond what a peer accepts, so only its size is checked.
    let mut prefix = [0; 4];
    reader.read_exact(&mut prefix).unwrap();
    let length = u32::from_be_bytes(prefix) as usize;
    assert!(length > large.len());
    let mut rest = vec![0; length];
    reader.read_exact(&mut rest).unwrap();
    assert!(rest.ends_with(&large));
    assert_eq!(answer(&mut reader), (0, 3, b"after".to_vec()));
    workers.shutdown();
}

#[test]
fn hostile_bytes_close_only_their_connection() {
    let (workers, address, probe) = served(Limits::default());
    let mut good = TcpStream::connect(address).unwrap();
    let mut hostile: Vec<Vec<u8>> = vec![
        16_777_213_i32.to_be_bytes().to_vec(),
        (-1_i32).to_be_bytes().to_vec(),
        vec![0, 0, 0, 8, 0, 0, 0, 200, 1, 2, 3, 4],
        vec![0, 0, 0, 4, 9, 0, 0, 0],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc],
    ];
    // Answers made before the broken frame still leave.
    let mut mixed = request(ECHO, 9, b"first");
    mixed.extend_from_slice(&[0, 0, 0, 8, 0, 0, 0, 200, 1, 2, 3, 4]);
    hostile.push(mixed);
    let count = hostile.len();
    for bytes in hostile {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&bytes).unwrap();
        if bytes.len() > 40 {
            assert_eq!(answer(&mut stream), (0, 9, b"first".to_vec()));
        }
        assert!(closes(&mut stream), "{bytes:?}");
    }
    good.write_all(&request(ECHO, 1, b"fine")).unwrap();
    assert_eq!(answer(&mut good), (0, 1, b"fine".to_vec()));
    drop(good);
    workers.shutdown();
    // The TLS hello never became a connection of the service; the good one did.
    assert_eq!(probe.closed.load(Ordering::SeqCst), count);
}

#[test]
fn a_peer_that_does_not_read_stops_being_read() {
    let limits = Limits { unsent_bytes_high: 64 << 10, turn_bytes: 32 << 10, ..Limits::default() };
    let (workers, address, probe) = served(limits);
    let stream = TcpStream::connect(address).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let mut reader = stream;
    const FRAMES: i32 = 40_000;
    let sending = std::thread::spawn(move || {
        for opaque in 0..FRAMES {
            writer.write_all(&request(ECHO, opaque, &[7; 1024])).unwrap();
        }
    });
    // 40 MiB of answers do not fit in the socket buffers: the server must have stopped reading before we start.
    for opaque in 0..FRAMES {
        let (_, found, body) = answer(&mut reader);
        assert_eq!((found, body.len()), (opaque, 1024));
    }
    sending.join().unwrap();
    assert_eq!(probe.frames.load(Ordering::SeqCst), FRAMES as usize);
    workers.shutdown();
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let (workers, address, _) = served(Limits { idle: Duration::from_millis(200), ..Limits::default() });
    let mut idle = TcpStream::connect(address).unwrap();
    let mut busy = TcpStream::connect(address).unwrap();
    let mut opaque = 0;
    idle.set_nonblocking(true).unwrap();
    loop {
        busy.write_all(&request(ECHO, opaque, b"")).unwrap();
        assert_eq!(answer(&mut busy).1, opaque);
        opaque += 1;
        match idle.read(&mut [0; 8]) {
            Ok(0) => break,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            other => panic!("{other:?}"),
        }
    }
    workers.shutdown();
}

#[test]
fn calls_are_correlated_and_end_with_the_connection() {
    let (workers, address, _) = served(Limits::default());
    block_on(async {
        let peer = workers.dial(address, Arc::new(Probe::default())).await.unwrap();
        let second = Duration::from_secs(10);
        let one = peer.call(Encoding::Json, ECHO, second, |writer| writer.finish(b"1"));
        let two = peer.call(Encoding::Binary, ECHO, second, |writer| writer.text("a", "b").finish(b"2"));
        let (two, one) = (two.await.unwrap(), one.await.unwrap());
        assert_eq!((one.code, two.text("k")), (0, Some("v")));
        assert_eq!((one.body, two.body), (b"1".to_vec(), b"2".to_vec()));
        let short = Duration::from_millis(20);
        let silent = peer.call(Encoding::Json, SILENT, short, |writer| writer.finish(b"")).await;
        assert_eq!(silent.unwrap_err(), CallError::TimedOut(address, short));
        let lost = peer.call(Encoding::Json, CLOSE, second, |writer| writer.finish(b"")).await;
        assert_eq!(lost.unwrap_err(), CallError::Closed(address));
        while !peer.is_closed() {
            tokio::task::yield_now().await;
        }
        assert!(peer.push(|_| {}).is_err());
    });
    workers.shutdown();
}

#[test]
fn shutdown_delivers_what_was_answered_and_joins() {
    let (workers, address, probe) = served(Limits::default());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&request(ECHO, 1, b"last")).unwrap();
    assert_eq!(answer(&mut stream), (0, 1, b"last".to_vec()));
    workers.shutdown();
    assert!(closes(&mut stream));
    assert_eq!(probe.closed.load(Ordering::SeqCst), 1);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_handler_that_panics_ends_its_connection_and_no_other() {
    let (workers, address, probe) = served(Limits::default());
    let mut others: Vec<_> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut broken = TcpStream::connect(address).unwrap();
    broken.write_all(&request(PANIC, 1, b"")).unwrap();
    assert!(closes(&mut broken));
    for other in &mut others {
        other.write_all(&request(ECHO, 2, b"alive")).unwrap();
        assert_eq!(answer(other), (0, 2, b"alive".to_vec()));
    }
    drop(others);
    workers.shutdown();
    assert_eq!(probe.closed.load(Ordering::SeqCst), 5);
}
