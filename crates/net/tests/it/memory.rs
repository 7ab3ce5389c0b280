//! Many connections that take much memory and give none back.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use net::tls::Security;
use net::{Budget, Limits, Workers};

use super::{ECHO, Probe, answer, request, until};

const BUDGET_BYTES: usize = 8 << 20;

/// Memory that two workers may use beyond the bound until they have closed a connection.
const STEP_BYTES: usize = 2 << 20;

/// Connections that send the same bytes and read nothing.
struct Crowd {
    address: SocketAddr,
    count: usize,
    bytes: Vec<u8>,
    members: Vec<(TcpStream, usize)>,
}

impl Crowd {
    /// Connects, and replaces closed connections.
    fn connect(&mut self) {
        while self.members.len() < self.count {
            let stream = TcpStream::connect(self.address).unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 16 << 10).unwrap();
            stream.set_nonblocking(true).unwrap();
            self.members.push((stream, 0));
        }
    }

    /// Sends as much as the sockets take. Closed connections are removed.
    fn send(&mut self) {
        let bytes = &self.bytes;
        self.members.retain_mut(|(stream, sent)| match stream.write(&bytes[*sent..]) {
            Ok(count) => {
                *sent += count;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
    }
}

/// Sends from many connections until some of them are closed. Checks another connection and the bound all the time.
fn check(count: usize, bytes: Vec<u8>) {
    let budget = Budget::new(BUDGET_BYTES);
    let workers =
        Workers::start_within("crowd", 2, Limits::default(), Security::default(), budget.clone()).unwrap();
    let address = workers.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Probe::default())).unwrap();
    let mut neighbours = [(); 4].map(|()| TcpStream::connect(address).unwrap());
    let mut crowd = Crowd { address, count, bytes, members: Vec::new() };
    let (mut rounds, mut most) = (0, 0);
    // What is held is only looked at now and then, so a peak may be missed; others follow.
    while budget.closed() == 0 || rounds < 200 || most <= BUDGET_BYTES / 4 * 3 {
        assert!(rounds < 100_000, "{most} bytes were held at most");
        crowd.connect();
        crowd.send();
        for neighbour in &mut neighbours {
            neighbour.write_all(&request(ECHO, rounds, &[7; 1000])).unwrap();
            assert_eq!(answer(neighbour), (0, rounds, vec![7; 1000]));
        }
        most = most.max(budget.held());
        assert!(most <= BUDGET_BYTES + STEP_BYTES, "{most} bytes were held");
        rounds += 1;
    }
    drop(crowd);
    until(|| budget.held() == 0);
    workers.shutdown();
}

#[test]
fn unfinished_frames_stay_within_the_budget_and_neighbours_are_served() {
    let mut frame = request(ECHO, 1, &[7; 1 << 20]);
    frame.pop();
    check(64, frame);
}

#[test]
fn answers_nobody_reads_stay_within_the_budget_and_neighbours_are_served() {
    check(32, request(ECHO, 1, &[7; 64 << 10]).repeat(100));
}

#[test]
fn a_frame_as_large_as_the_budget_admits_arrives_beside_idle_ones() {
    let budget = Budget::new(BUDGET_BYTES);
    let workers =
        Workers::start_within("beside", 1, Limits::default(), Security::default(), budget.clone()).unwrap();
    let address = workers.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Probe::default())).unwrap();
    // Unfinished frames that take nearly all of it and wait for nothing.
    let mut frame = request(ECHO, 1, &[7; 1 << 20]);
    frame.pop();
    let mut idle: Vec<TcpStream> = Vec::new();
    while budget.held() < BUDGET_BYTES / 4 * 3 {
        let mut stream = TcpStream::connect(address).unwrap();
        let before = budget.held();
        stream.write_all(&frame).unwrap();
        until(|| budget.held() >= before + frame.len());
        idle.push(stream);
    }
    let mut stream = TcpStream::connect(address).unwrap();
    let large = vec![7; 4 << 20];
    stream.write_all(&request(ECHO, 2, &large)).unwrap();
    let (_, _, body) = answer(&mut stream);
    assert_eq!(body.len(), large.len());
    assert!(budget.closed() >= 1);
    drop((idle, stream));
    until(|| budget.held() == 0);
    workers.shutdown();
}
