//! Certificates of the ports that speak TLS.

use crate::doctor::bundle::Bundle;
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::text::time;

/// Time before its end from which on a certificate is a finding.
const SOON_MS: i64 = 30 * DAY_MS;
const DAY_MS: i64 = 86_400_000;
const FIX: &str = "put a new certificate and key where tls.server.certPath and tls.server.keyPath point; changed files are read without a restart";

pub(super) const CHECKS: &[Check] = checks! {
    "certificate-expired", Critical, expired,
        "The certificate of a port has ended, so that clients that verify it do not connect",
        "TLS handshakes with brokers and name servers";
    "certificate-ends-soon", Warning, ends_soon, "The certificate of a port ends within 30 days",
        "TLS handshakes with brokers and name servers";
};

/// The ports that speak TLS: the server, and when its certificate ends.
fn ports(bundle: &Bundle) -> impl Iterator<Item = (String, i64)> {
    let servers = bundle.name_servers.iter();
    let servers =
        servers.filter_map(|it| Some((format!("name server {}", it.address), it.certificate_ends_ms?)));
    servers.chain(bundle.brokers.iter().filter_map(|it| Some((it.title(), it.certificate_ends_ms?))))
}

fn expired(bundle: &Bundle) -> Look {
    Look::each(ports(bundle), |(server, ends_ms)| {
        Found::when(ends_ms <= bundle.taken_at_ms, || {
            Found::new(server, format!("ended at {}", time(ends_ms)), "TLS handshake", FIX)
        })
    })
}

fn ends_soon(bundle: &Bundle) -> Look {
    Look::each(ports(bundle), |(server, ends_ms)| {
        let left_ms = ends_ms - bundle.taken_at_ms;
        Found::when(left_ms > 0 && left_ms <= SOON_MS, || {
            let figure = format!("ends at {}, in {} days", time(ends_ms), left_ms / DAY_MS);
            Found::new(server, figure, "TLS handshake", FIX)
        })
    })
}
