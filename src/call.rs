//! Requests of the program itself to servers that it knows by their addresses.

use std::convert::Infallible;
use std::time::Duration;

use client::{Client, Config, Credentials, Reply};
use net::tls::Security;
use wire::json;
use wire::settings::{BROKER_PORT, with_port};

use crate::roles::Error;

/// Parses the address of a broker for an argument.
pub fn broker(text: &str) -> Result<String, Infallible> {
    Ok(with_port(text, BROKER_PORT))
}

/// A client that encrypts and signs as it is told, for servers that every call names; `server` is one of them.
///
/// # Errors
/// Its threads cannot be started.
pub fn client(server: &str, security: Security, credentials: Option<Credentials>) -> Result<Client, Error> {
    let config = Config { security, credentials, ..Config::new(server) };
    Client::start(config).map_err(|error| Error::new(server, error))
}

/// Sends a request to a server. `patience` bounds the wait for the connection and the answer.
///
/// # Errors
/// The server does not answer in time, or refuses.
pub async fn call(
    client: &Client,
    address: &str,
    patience: Duration,
    code: i32,
    (fields, body): (&[(&str, &str)], &[u8]),
) -> Result<Reply, Error> {
    let answer = client.call(address, code, patience, |writer| {
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(body);
    });
    answer.await.map_err(|error| Error::new(address, error))
}

/// The JSON of an answer that `address` gave.
///
/// # Errors
/// It is not what was asked for.
pub fn parse<'a, T: serde::Deserialize<'a>>(address: &str, body: &'a [u8]) -> Result<T, Error> {
    json::from_slice(body).map_err(|error| Error::new(format!("the answer of {address}"), error))
}
