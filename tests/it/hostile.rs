//! Hostile bytes on both ports: only their connection suffers, memory stays bounded.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use wire::codes::request;
use wire::fields::FIELDS_MAX;
use wire::frame::{Encoding, FRAME_BYTES_MAX, FrameWriter, Head};

use crate::common::random::Random;
use crate::common::wire_client::{Connection, pull_header, send_header};
use crate::stage::{Stage, eventually, open};

/// Somebody else at work; must never notice anything.
struct Bystander {
    broker: Connection,
    name_server: Connection,
}

impl Bystander {
    fn of(stage: &Stage) -> Self {
        Self { broker: stage.connect(), name_server: stage.name_server() }
    }

    /// Works on, on connections that were there before, and is answered before it gives up.
    fn works(&mut self) {
        self.broker.stored(&send_header("Bystander", 0), b"x");
        let answer = self.name_server.call(request::GET_BROKER_CLUSTER_INFO, |writer| writer, &[]);
        assert_eq!(answer.code, 0, "{answer:?}");
    }
}

fn ports(stage: &Stage) -> [SocketAddr; 3] {
    let setup = stage.server.setup();
    [setup.broker(), setup.namesrv(), setup.vip()]
}

/// A frame of these four parts, whether they fit each other or not.
fn frame(length: i32, encoding: u8, header_length: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(&(u32::from(encoding) << 24 | header_length).to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

#[test]
fn broken_frames_close_their_connection() {
    let stage = Stage::start(&[]);
    let mut bystander = Bystander::of(&stage);
    let too_long = FRAME_BYTES_MAX as i32 + 1;
    let fields: Vec<_> = (0..=FIELDS_MAX).map(|at| format!(r#""f{at}":"""#)).collect();
    let fields = format!(r#"{{"code":34,"extFields":{{{}}}}}"#, fields.join(","));
    let cases = [
        ("16 MiB and one", frame(too_long, 0, 10, b"{}")),
        ("2 GiB", frame(i32::MAX, 0, 10, b"{}")),
        ("negative length", frame(-1, 0, 10, b"{}")),
        ("smallest length", frame(i32::MIN, 0, 10, b"{}")),
        ("no length", frame(0, 0, 0, b"")),
        ("length without a header", frame(3, 0, 0, b"")),
        ("header longer than its frame", frame(6, 0, 100, b"{}")),
        ("header of 16 MiB", frame(6, 0, 0xff_ffff, b"{}")),
        ("unknown encoding", frame(6, 9, 2, b"{}")),
        ("cut JSON", frame(12, 0, 8, b"{\"code\":")),
        ("JSON of the wrong kind", frame(6, 0, 2, b"[]")),
        ("binary cut short", frame(7, 1, 3, b"abc")),
        ("binary with a huge remark", frame(25, 1, 21, &[0x7f; 21])),
        ("1,025 fields", frame(fields.len() as i32 + 4, 0, fields.len() as u32, fields.as_bytes())),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: vostok\r\n\r\n".to_vec()),
        ("TLS", [&[0x16, 3, 1, 0, 64][..], &[7; 64]].concat()),
    ];
    for address in ports(&stage) {
        for (name, bytes) in &cases {
            let mut connection = open(address);
            connection.write(bytes).unwrap();
            connection.await_close(&format!("{name} on {address}"));
            bystander.works();
        }
    }
}

#[test]
fn random_bytes_hurt_nobody() {
    let stage = Stage::start(&[]);
    let mut bystander = Bystander::of(&stage);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        for address in ports(&stage) {
            let mut connection = open(address);
            let size = random.within(1, 5000) as usize;
            let mut bytes = random.bytes(size);
            // Half of them look like a frame that fits, so that they get past the length.
            if random.one_in(2) && size > 8 {
                bytes[..4].copy_from_slice(&(size as u32 - 4).to_be_bytes());
                let header = random.within(0, size as u64 - 7) as u32;
                let encoding = random.within(0, 2) as u32;
                bytes[4..8].copy_from_slice(&(encoding << 24 | header).to_be_bytes());
            }
            // The server may have closed already.
            let _ = connection.write(&bytes);
        }
        if seed % 50 == 0 {
            bystander.works();
        }
    }
    bystander.works();
}

/// Requests with every known code and fields and bodies that make no sense.
#[test]
fn senseless_requests_are_answered() {
    let stage = Stage::start(&[]);
    let mut bystander = Bystander::of(&stage);
    let values = ["", "-1", "9223372036854775807", "99999999999999999999", "true", "\u{1}\u{2}", "Topic"];
    let names =
        ["topic", "consumerGroup", "group", "queueId", "queueOffset", "offset", "commitOffset", "timestamp"];
    for address in ports(&stage) {
        let mut connection = open(address);
        for code in (0..420).filter(|code| request::name(*code).is_some()) {
            // A request to stop is none of these; what is left must be answered or refused.
            for (round, value) in values.iter().enumerate() {
                let body = if round % 2 == 0 { &b"{\"a\":1}"[..] } else { b"" };
                let names = names.iter();
                let mut out = Vec::new();
                let opaque = connection.next_opaque();
                let mut writer = FrameWriter::begin(&mut out, Head::request(Encoding::Json, code, opaque));
                for name in names {
                    writer = writer.text(name, value);
                }
                writer.finish(body);
                connection.write(&out).unwrap();
                if code == request::END_TRANSACTION {
                    continue; // The protocol answers some of these with silence.
                }
                connection.answer(opaque).unwrap_or_else(|error| {
                    panic!("request {code} with {value:?} on {address} is not answered: {error}")
                });
            }
        }
    }
    bystander.works();
}

#[test]
fn a_slow_writer_holds_up_nobody() {
    let stage = Stage::start(&[]);
    let mut bystander = Bystander::of(&stage);
    for address in [stage.server.setup().broker(), stage.server.setup().namesrv()] {
        let mut connection = open(address);
        let mut bytes = Vec::new();
        Head::request(Encoding::Json, 9999, 1).write(&mut bytes, b"");
        for byte in bytes {
            connection.write(&[byte]).unwrap();
            bystander.works();
        }
        assert_eq!(connection.answer(1).unwrap().code, 3);
    }
}

#[test]
fn a_thousand_promises_of_huge_frames_cost_little() {
    let stage = Stage::start(&[]);
    let mut bystander = Bystander::of(&stage);
    bystander.works();
    let before = stage.server.resident_kb();
    let mut open_connections = Vec::new();
    for index in 0..1000 {
        let address = ports(&stage)[index % 2];
        let mut connection = open(address);
        connection.write(&frame(FRAME_BYTES_MAX as i32 - 4, 0, 0xff_0000, &[b' '; 1000])).unwrap();
        open_connections.push(connection);
    }
    bystander.works();
    let after = stage.server.resident_kb();
    assert!(after < before + 64 * 1024, "{before} kB grew to {after} kB");
    let last = open_connections.last_mut().expect("a thousand");
    assert!(!last.is_closed(), "a frame that is not complete may wait");
    drop(open_connections);
    bystander.works();
}

#[test]
fn a_reader_that_never_reads_costs_little() {
    let stage = Stage::start(&[]);
    let mut bystander = Bystander::of(&stage);
    let mut connection = stage.connect();
    connection.stored(&send_header("Big", 0), &vec![b'x'; 3 << 20]);
    let before = stage.server.peak_kb();
    let mut lazy = stage.connect();
    lazy.stream().set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut bytes = Vec::new();
    for opaque in 0..2000 {
        let head = Head::request(Encoding::Json, request::PULL_MESSAGE, opaque);
        pull_header("CG", "Big", 0, 0).write(FrameWriter::begin(&mut bytes, head)).finish(b"");
    }
    // Back-pressure may stop the writer, which is as good as taking everything.
    let _ = lazy.stream().write_all(&bytes);
    for _ in 0..50 {
        bystander.works();
        let opaque =
            connection.ask(request::PULL_MESSAGE, |writer| pull_header("CG", "Big", 0, 0).write(writer), &[]);
        connection.answer(opaque.unwrap()).unwrap();
    }
    let after = stage.server.peak_kb();
    assert!(after < before + 160 * 1024, "6 GB of answers nobody reads: {before} kB grew to {after} kB");
}

#[test]
fn unfinished_frames_on_many_connections_take_the_memory_that_is_theirs_and_no_more() {
    let stage = Stage::start(&["connectionBufferBytes=32m"]);
    let mut bystander = Bystander::of(&stage);
    bystander.works();
    let before = stage.server.resident_kb();
    // 190 MB that nobody finishes, on the ports of both roles.
    let mut bytes = frame(2_000_000, 0, 10, &[]);
    bytes.resize(1_900_000, 7);
    let open = |address: SocketAddr| {
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        (stream, 0)
    };
    let mut crowd: Vec<(std::net::TcpStream, usize)> =
        ports(&stage).iter().cycle().take(99).copied().map(open).collect();
    let says = |what: &str| std::fs::read_to_string(stage.server.setup().log()).unwrap().contains(what);
    let mut most = 0;
    eventually("some give way", || {
        crowd.retain_mut(|(stream, sent)| match stream.write(&bytes[*sent..]) {
            Ok(count) => {
                *sent += count;
                true
            }
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
        bystander.works();
        most = most.max(stage.server.resident_kb());
        says("closed for others to go on").then_some(())
    });
    assert!(most < before + 32 * 1024 / 2 * 3, "{most} kB of {before} kB before");
}

#[test]
fn memory_of_unfinished_frames_stays_within_the_bound_and_is_given_back() {
    const BOUND_KB: u64 = 64 << 10;
    let stage = Stage::start(&["connectionBufferBytes=64m"]);
    let mut bystander = Bystander::of(&stage);
    bystander.works();
    let before = stage.server.resident_kb();
    let mut bytes = frame(15_000_000, 0, 10, &[]);
    bytes.resize(14_000_000, 7);
    let bytes = std::sync::Arc::new(bytes);
    for _ in 0..2 {
        let writers: Vec<_> = ports(&stage)
            .into_iter()
            .cycle()
            .take(150)
            .map(|address| {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                stream.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
                let bytes = bytes.clone();
                std::thread::spawn(move || {
                    // Ends when the server closes the connection, or does not read it for long.
                    let _ = stream.write_all(&bytes);
                    stream
                })
            })
            .collect();
        let streams: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let most = stage.server.peak_kb();
        assert!(most < before + BOUND_KB / 2 * 3, "{most} kB of {before} kB before");
        drop(streams);
        eventually("the memory is given back", || {
            (stage.server.resident_kb() < before + BOUND_KB / 4).then_some(())
        });
    }
    bystander.works();
}
