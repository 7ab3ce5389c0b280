//! Connections over loopback: batching, answers out of order, calls both ways, hostile bytes, back-pressure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod memory;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use net::{CallError, ConnectionHandle, Limits, MemoryCharge, Service, Workers};
use wire::frame::{Command, Encoding, FRAME_BYTES_MAX, FrameWriter, Head, frame_length};

/// Longest wait of a test for an outcome. An outcome that comes late is as good as an early one.
const OUTCOME_CAP: Duration = Duration::from_secs(120);

const ECHO: i32 = 1;
const LATER: i32 = 2;
const SILENT: i32 = 3;
const CLOSE: i32 = 4;
const PANIC: i32 = 5;
const SLOW: i32 = 6;
/// Makes the client known.
const KNOWN: i32 = 7;
/// Memory charge of a slow request.
const SLOW_BYTES: usize = 1 << 10;

/// Answers echoes with their body, holds `LATER` until the next echo, never answers `SILENT`,
/// and `SLOW` when a test does.
#[derive(Default)]
struct Probe {
    held: Mutex<Vec<(Arc<ConnectionHandle>, i32)>>,
    slow: Mutex<Vec<(Arc<ConnectionHandle>, i32, MemoryCharge)>>,
    most_slow: AtomicUsize,
    turns: AtomicUsize,
    frames: AtomicUsize,
    closed: AtomicUsize,
    /// Signal that the next turn awaits after its response.
    gate: Mutex<Option<Receiver<()>>>,
    /// Longest frame of clients that sent no `KNOWN` yet.
    frame_bytes_max: Option<usize>,
}

impl Service for Probe {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, _turn: &mut (), peer: &Arc<ConnectionHandle>, command: Command<'_>, out: &mut Vec<u8>) {
        self.frames.fetch_add(1, Ordering::SeqCst);
        match command.code {
            ECHO => {
                FrameWriter::begin(out, command.response(0)).text("k", "v").finish(command.body);
                for (peer, opaque) in self.held.lock().unwrap().drain(..) {
                    let _ = peer.push(|out| Head::response(Encoding::Json, 7, opaque).write(out, b"late"));
                }
            }
            LATER => self.held.lock().unwrap().push((peer.clone(), command.opaque)),
            SLOW => {
                let mut slow = self.slow.lock().unwrap();
                slow.push((peer.clone(), command.opaque, peer.charge(SLOW_BYTES)));
                self.most_slow.fetch_max(slow.len(), Ordering::SeqCst);
            }
            KNOWN => peer.limit_frames(FRAME_BYTES_MAX),
            CLOSE => peer.close(),
            PANIC => panic!("asked for by a test"),
            _ => {}
        }
    }

    fn end(&self, _turn: &mut (), _peer: &Arc<ConnectionHandle>, _out: &mut Vec<u8>) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }

    fn answered(&self, _turn: &mut ()) {
        let gate = self.gate.lock().unwrap().take();
        if let Some(gate) = gate {
            gate.recv().unwrap();
        }
    }

    fn opened(&self, peer: &Arc<ConnectionHandle>, _out: &mut Vec<u8>) {
        if let Some(bytes) = self.frame_bytes_max {
            peer.limit_frames(bytes);
        }
    }

    fn closed(&self, _peer: &Arc<ConnectionHandle>) {
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

/// Reads one frame.
fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame)?;
    let length = frame_length(&frame).unwrap().unwrap();
    frame.resize(length, 0);
    stream.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// Reads one frame and returns its code, id and body.
fn answer(stream: &mut TcpStream) -> (i32, i32, Vec<u8>) {
    let mut frame = read_frame(stream).unwrap();
    let command = Command::decode(&mut frame).unwrap();
    (command.code, command.opaque, command.body.to_vec())
}

fn closes(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(OUTCOME_CAP)).unwrap();
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
    assert!(probe.turns.load(Ordering::SeqCst) < 250, "frames of one read are one read batch");
    workers.shutdown();
}

#[test]
fn answers_leave_before_the_service_does_what_nobody_of_the_turn_waits_for() {
    let (workers, address, probe) = served(Limits::default());
    let (open, gate) = channel();
    *probe.gate.lock().unwrap() = Some(gate);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(OUTCOME_CAP)).unwrap();
    stream.write_all(&request(ECHO, 1, b"now")).unwrap();
    assert_eq!(answer(&mut stream), (0, 1, b"now".to_vec()));
    open.send(()).unwrap();
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
fn a_client_that_is_not_known_may_send_short_frames_only() {
    let workers = Workers::start("probe", 1, Limits::default()).unwrap();
    let probe = Arc::new(Probe { frame_bytes_max: Some(100), ..Probe::default() });
    let address = workers.listen("127.0.0.1:0".parse().unwrap(), probe.clone()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[request(ECHO, 1, b"short"), request(KNOWN, 2, b"")].concat()).unwrap();
    assert_eq!(answer(&mut stream), (0, 1, b"short".to_vec()));
    stream.write_all(&request(ECHO, 3, &[7; 1 << 20])).unwrap();
    assert_eq!(answer(&mut stream).1, 3, "a known client may send more");
    // The prefix alone ends the connection of another: no byte of the frame is waited for.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&request(ECHO, 1, &[7; 1 << 10])[..8]).unwrap();
    assert!(closes(&mut stream));
    workers.shutdown();
}

#[test]
fn a_peer_that_does_not_read_stops_being_read() {
    let limits = Limits { unsent_bytes_high: 64 << 10, read_batch_bytes: 32 << 10, ..Limits::default() };
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
    let limit = Duration::from_millis(500);
    let (workers, address, _) = served(Limits { idle: limit, ..Limits::default() });
    let end = Instant::now() + OUTCOME_CAP;
    'attempt: loop {
        assert!(Instant::now() < end, "no idle connection is closed");
        let mut idle = TcpStream::connect(address).unwrap();
        idle.set_nonblocking(true).unwrap();
        let mut last = Instant::now();
        let mut busy = TcpStream::connect(address).unwrap();
        for opaque in 0.. {
            let begin = Instant::now();
            let asked = busy.write_all(&request(ECHO, opaque, b""));
            if asked.and_then(|()| read_frame(&mut busy)).is_err() {
                // The test itself may have been silent for that long: then it says nothing.
                assert!(last.elapsed() >= limit, "a busy connection is closed");
                continue 'attempt;
            }
            last = begin;
            match idle.read(&mut [0; 8]) {
                Ok(0) => break 'attempt,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                other => panic!("{other:?}"),
            }
        }
    }
    workers.shutdown();
}

#[test]
fn calls_are_correlated_and_end_with_the_connection() {
    let (workers, address, _) = served(Limits::default());
    block_on(async {
        let peer = workers.dial(address, Arc::new(Probe::default())).await.unwrap();
        let one = peer.call(Encoding::Json, ECHO, OUTCOME_CAP, |writer| writer.finish(b"1"));
        let two = peer.call(Encoding::Binary, ECHO, OUTCOME_CAP, |writer| writer.text("a", "b").finish(b"2"));
        let (two, one) = (two.await.unwrap(), one.await.unwrap());
        assert_eq!((one.code, two.text("k")), (0, Some("v")));
        assert_eq!((one.body, two.body), (b"1".to_vec(), b"2".to_vec()));
        let short = Duration::from_millis(20);
        let silent = peer.call(Encoding::Json, SILENT, short, |writer| writer.finish(b"")).await;
        assert_eq!(silent.unwrap_err(), CallError::TimedOut(address, short));
        let lost = peer.call(Encoding::Json, CLOSE, OUTCOME_CAP, |writer| writer.finish(b"")).await;
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
    let workers = Workers::start("probe", 2, Limits::default()).unwrap();
    let probe = Arc::new(Probe::default());
    // No other test gets a port of this address.
    let address = workers.listen("127.0.0.77:0".parse().unwrap(), probe.clone()).unwrap();
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
    // One that was answered already is ahead of it: its answer is nobody else's.
    let frames = [request(ECHO, 1, b"staged"), request(PANIC, 1, b"")].concat();
    broken.write_all(&frames).unwrap();
    assert!(closes(&mut broken));
    for other in &mut others {
        other.write_all(&request(ECHO, 2, b"alive")).unwrap();
        assert_eq!(answer(other), (0, 2, b"alive".to_vec()));
    }
    drop(others);
    workers.shutdown();
    assert_eq!(probe.closed.load(Ordering::SeqCst), 5);
}

#[test]
fn any_address_means_both_families_and_peers_keep_their_own() {
    let (workers, probe) =
        (Workers::start("both", 1, Limits::default()).unwrap(), Arc::new(Probe::default()));
    let address = workers.listen("0.0.0.0:0".parse().unwrap(), probe.clone()).unwrap();
    assert_eq!(address.ip().to_string(), "0.0.0.0");
    let mut stream = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
    stream.write_all(&request(LATER, 1, b"")).unwrap();
    until(|| !probe.held.lock().unwrap().is_empty());
    assert_eq!(probe.held.lock().unwrap()[0].0.remote(), stream.local_addr().unwrap());
    match TcpStream::connect(("::1", address.port())) {
        Ok(mut stream) => {
            stream.write_all(&request(ECHO, 2, b"six")).unwrap();
            assert_eq!(answer(&mut stream), (0, 2, b"six".to_vec()));
        }
        Err(error) => eprintln!("SKIPPED: this machine has no IPv6 loopback ({error})"),
    }
    workers.shutdown();
}

#[test]
fn every_address_of_a_name_is_tried() {
    let (workers, address, _) = served(Limits::default());
    // The system gives this port to nobody.
    let nobody = "127.0.0.1:1".parse().unwrap();
    block_on(async {
        let found = net::resolve(&format!("localhost:{}", address.port())).await.unwrap();
        assert!(found.contains(&address) && found.is_sorted_by_key(SocketAddr::is_ipv6), "{found:?}");
        let dial = |addresses: Vec<SocketAddr>| {
            let workers = workers.clone();
            async move { workers.dial_first(&addresses, Arc::new(Probe::default())).await }
        };
        assert_eq!(dial(vec![nobody, address]).await.unwrap().remote(), address);
        assert!(dial(vec![nobody]).await.is_err() && dial(Vec::new()).await.is_err());
    });
    workers.shutdown();
}

impl Probe {
    /// Answers the slow request that came first; false when there is none.
    fn answer_slow(&self) -> bool {
        let first = {
            let mut slow = self.slow.lock().unwrap();
            if slow.is_empty() { None } else { Some(slow.remove(0)) }
        };
        let Some((peer, opaque, charge)) = first else { return false };
        let _ = peer.push(|out| Head::response(Encoding::Json, 0, opaque).write(out, b"done"));
        drop(charge);
        true
    }
}

/// Waits until the expected state.
fn until(holds: impl Fn() -> bool) {
    let end = Instant::now() + OUTCOME_CAP;
    while !holds() {
        assert!(Instant::now() < end, "not within {OUTCOME_CAP:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_connection_with_many_unanswered_requests_is_read_as_they_are_answered() {
    const FRAMES: i32 = 2000;
    let limits = Limits { unanswered_bytes_high: 16 * SLOW_BYTES, ..Limits::default() };
    let (workers, address, probe) = served(limits);
    let mut stream = TcpStream::connect(address).unwrap();
    let mut bytes = Vec::new();
    for opaque in 0..FRAMES {
        bytes.extend(request(SLOW, opaque, &[7; 100]));
    }
    bytes.extend(request(ECHO, FRAMES, b"behind them"));
    stream.write_all(&bytes).unwrap();
    until(|| probe.slow.lock().unwrap().len() == 16);
    // Another connection is served meanwhile.
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(&request(ECHO, 1, b"")).unwrap();
    assert_eq!(answer(&mut other).1, 1);
    let answers = std::thread::spawn(move || (0..=FRAMES).map(|_| answer(&mut stream)).collect::<Vec<_>>());
    until(|| {
        probe.answer_slow();
        answers.is_finished()
    });
    // The echo is answered while slow ones before it wait.
    let (echo, slow): (Vec<_>, Vec<_>) = answers.join().unwrap().into_iter().partition(|it| it.1 == FRAMES);
    assert_eq!(echo, [(0, FRAMES, b"behind them".to_vec())]);
    assert!(slow.iter().enumerate().all(|(index, it)| it.1 == index as i32 && it.2 == b"done"));
    assert_eq!(probe.most_slow.load(Ordering::SeqCst), 16);
    workers.shutdown();
}

#[test]
fn unanswered_requests_are_bounded_over_all_connections_and_none_starves() {
    const FRAMES: i32 = 100;
    const CONNECTIONS: usize = 8;
    let limits = Limits { unanswered_bytes_total: 16 * SLOW_BYTES, ..Limits::default() };
    let (workers, address, probe) = served(limits);
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut streams {
        let frames = (0..FRAMES).flat_map(|opaque| request(SLOW, opaque, b""));
        stream.write_all(&frames.collect::<Vec<_>>()).unwrap();
    }
    // Nothing is answered before the bound is reached.
    until(|| probe.slow.lock().unwrap().len() >= 16);
    let total = FRAMES as usize * CONNECTIONS;
    until(|| {
        probe.answer_slow();
        probe.frames.load(Ordering::SeqCst) == total && probe.slow.lock().unwrap().is_empty()
    });
    for stream in &mut streams {
        for opaque in 0..FRAMES {
            assert_eq!(answer(stream).1, opaque);
        }
    }
    // One of each connection that has no other, and one that is admitted while another worker admits one.
    let most = probe.most_slow.load(Ordering::SeqCst);
    assert!((16..=16 + CONNECTIONS + 1).contains(&most), "{most} were unanswered at once");
    workers.shutdown();
}

#[test]
fn a_connection_that_ends_gives_back_what_its_requests_were_charged_with() {
    let limits = Limits { unanswered_bytes_total: 4 * SLOW_BYTES, ..Limits::default() };
    let (workers, address, probe) = served(limits);
    let mut gone = TcpStream::connect(address).unwrap();
    gone.write_all(&(0..4).flat_map(|opaque| request(SLOW, opaque, b"")).collect::<Vec<_>>()).unwrap();
    until(|| probe.slow.lock().unwrap().len() == 4);
    let held: Vec<_> = probe.slow.lock().unwrap().drain(..).collect();
    for (peer, _, charge) in held {
        // Some of it may never be done, because the connection ends.
        let _ = peer.enqueue(Box::new(move |_, _| drop(charge)));
        peer.close();
    }
    assert!(closes(&mut gone));
    let mut next = TcpStream::connect(address).unwrap();
    next.write_all(&(0..4).flat_map(|opaque| request(SLOW, opaque, b"")).collect::<Vec<_>>()).unwrap();
    until(|| probe.slow.lock().unwrap().len() == 4);
    workers.shutdown();
}

#[test]
fn an_aborted_connection_ends_without_what_is_unsent() {
    let workers = Workers::start("probe", 1, Limits::default()).unwrap();
    let probe = Arc::new(Probe::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // More than the buffers of both sockets take.
    let bytes = vec![0; 48 << 20];
    block_on(async {
        let peer = workers.dial(address, probe.clone()).await.unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        peer.push(|out| out.extend_from_slice(&bytes)).unwrap();
        let kept = Arc::new(());
        let work = kept.clone();
        peer.enqueue(Box::new(move |_, _| drop(work))).unwrap();
        let call = peer.call(Encoding::Json, SILENT, OUTCOME_CAP, |writer| writer.finish(b""));
        peer.abort();
        assert_eq!(call.await.unwrap_err(), CallError::Closed(address));
        assert!(peer.is_closing() && peer.push(|_| {}).is_err());
        assert_eq!(Arc::strong_count(&kept), 1, "what was put back is gone");
        let mut rest = vec![0; bytes.len()];
        let mut read = 0;
        while let Ok(count @ 1..) = stream.read(&mut rest) {
            read += count;
        }
        assert!(read < bytes.len(), "all of it was written");
        until(|| probe.closed.load(Ordering::SeqCst) == 1);
    });
    workers.shutdown();
}

#[test]
fn a_connection_knows_for_how_long_nothing_came() {
    let (workers, address, _) = served(Limits::default());
    block_on(async {
        let peer = workers.dial(address, Arc::new(Probe::default())).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(peer.silence() >= Duration::from_millis(20));
        let begin = Instant::now();
        peer.call(Encoding::Json, ECHO, OUTCOME_CAP, |writer| writer.finish(b"")).await.unwrap();
        assert!(peer.silence() <= begin.elapsed());
    });
    workers.shutdown();
}
