//! Certificates of the ports that speak TLS.

use crate::doctor::bilingual::{Phrase, Text, text};
use crate::doctor::bundle::Bundle;
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::text::time;

/// Time before its end from which on a certificate is a finding.
const SOON_MS: i64 = 30 * DAY_MS;
const DAY_MS: i64 = 86_400_000;
const ADVICE: Phrase = Phrase(
    "put a new certificate and key where tls.server.certPath and tls.server.keyPath point; changed files are read without a restart",
);
const HANDSHAKE: Phrase = Phrase("TLS handshake");
const NEEDS: Phrase = Phrase("TLS handshakes with brokers and name servers");

pub(super) const CHECKS: &[Check] = checks! {
    "certificate-expired", Critical, expired,
        "The certificate of a port has ended, so that clients that verify it do not connect", NEEDS;
    "certificate-ends-soon", Warning, ends_soon, "The certificate of a port ends within 30 days", NEEDS;
};

/// The ports that speak TLS: the server, its address, and when its certificate ends.
fn ports(bundle: &Bundle) -> impl Iterator<Item = (Text, &str, i64)> {
    let servers = bundle.name_servers.iter().filter_map(|it| {
        let address = it.address.as_str();
        Some((text!("name server {address}", address), address, it.certificate_ends_ms?))
    });
    let brokers = bundle.brokers.iter();
    servers.chain(
        brokers.filter_map(|it| Some((it.title().into(), it.address.as_str(), it.certificate_ends_ms?))),
    )
}

fn expired(bundle: &Bundle) -> Look {
    Look::each(ports(bundle), |(server, address, ends_ms)| {
        Found::when(ends_ms <= bundle.taken_at_ms, || {
            Found::new(server, text!("ended at {end}", end = time(ends_ms)), HANDSHAKE, ADVICE).at(address)
        })
    })
}

fn ends_soon(bundle: &Bundle) -> Look {
    Look::each(ports(bundle), |(server, address, ends_ms)| {
        let left_ms = ends_ms - bundle.taken_at_ms;
        Found::when(left_ms > 0 && left_ms <= SOON_MS, || {
            let figure = text!("ends at {end}, in {days} days", end = time(ends_ms), days = left_ms / DAY_MS);
            Found::new(server, figure, HANDSHAKE, ADVICE).at(address)
        })
    })
}
