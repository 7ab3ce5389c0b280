//! Requests of the program itself to servers that it knows by their addresses.

use std::convert::Infallible;
use std::time::Duration;

use client::{Client, Config, Credentials, Response};
use net::tls::Security;
use wire::json;
use wire::settings::{BROKER_PORT, with_port};

use crate::roles::Error;

/// Parses the address of a broker for an argument.
pub fn broker(text: &str) -> Result<String, Infallible> {
    Ok(with_port(text, BROKER_PORT))
}

/// Starts a client for calls that name their server. `security` and `credentials` apply to all of its connections.
/// `server` is any of the called servers: it takes the place of a name server in the configuration.
///
/// # Errors
/// The threads of the client cannot be started.
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
) -> Result<Response, Error> {
    let answer = client.call(address, code, patience, |writer| {
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(body);
    });
    answer.await.map_err(|error| Error::new(address, error))
}

/// Parses the JSON body of an answer from the server `address`.
///
/// # Errors
/// The body is not JSON of type `T`.
pub fn parse<'a, T: serde::Deserialize<'a>>(address: &str, body: &'a [u8]) -> Result<T, Error> {
    json::from_slice(body).map_err(|error| Error::new(format!("the answer of {address}"), error))
}
