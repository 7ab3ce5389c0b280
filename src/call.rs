//! Single requests of the program itself, each over a connection of its own.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use wire::codes::response;
use wire::frame::{Command, Encoding, FrameWriter, Head, frame_length};
use wire::json;

use crate::roles::Error;

/// Sends an unsigned request to a server; returns the fields and the body of its answer. `patience` bounds the wait for a
/// connection to each of the server's addresses, and that for each part of the answer.
pub fn call(
    address: &str,
    patience: Duration,
    code: i32,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Result<(BTreeMap<String, String>, Vec<u8>), Error> {
    let failed = |error: io::Error| Error::new(address, error);
    let mut stream = connect(address, patience).map_err(failed)?;
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    let mut frame = Vec::new();
    let writer = FrameWriter::begin(&mut frame, Head::request(Encoding::Json, code, 1));
    fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(body);
    stream.write_all(&frame).map_err(failed)?;
    let mut answer = vec![0; 4];
    stream.read_exact(&mut answer).map_err(failed)?;
    let length = frame_length(&answer).map_err(|error| Error::new(address, error))?;
    answer.resize(length.unwrap_or(answer.len()), 0);
    stream.read_exact(&mut answer[4..]).map_err(failed)?;
    let answer = Command::decode(&mut answer).map_err(|error| Error::new(address, error))?;
    if answer.code != response::SUCCESS {
        let why = format!("code {}: {}", answer.code, answer.remark.unwrap_or_default());
        return Err(Error::new(format!("{address} refuses"), why));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = answer.fields.iter().map(|(key, value)| (text(key), text(value))).collect();
    Ok((fields, answer.body.to_vec()))
}

/// Connects to the first address that takes a connection: `localhost` may be `::1` as well as 127.0.0.1.
fn connect(address: impl ToSocketAddrs, patience: Duration) -> io::Result<TcpStream> {
    let mut failure = None;
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::other("the name has no address")))
}

/// The JSON of an answer that `address` gave.
pub fn parse<'a, T: serde::Deserialize<'a>>(address: &str, body: &'a [u8]) -> Result<T, Error> {
    json::from_slice(body).map_err(|error| Error::new(format!("the answer of {address}"), error))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn the_second_address_of_a_name_is_tried_when_the_first_is_closed() {
        let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let (closed, open) = (bind(), bind());
        let addresses = [&closed, &open].map(|listener| listener.local_addr().expect("bound"));
        drop(closed);
        let stream = connect(&addresses[..], Duration::from_secs(60)).expect("the second is open");
        assert_eq!(stream.peer_addr().expect("connected"), addresses[1]);
    }
}
