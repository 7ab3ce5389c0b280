//! The page of request codes, made from the route table.

use std::fmt::Write as _;

use wire::codes::request;

use super::needs::{NeededResources, Needs};
use super::port::Port;
use super::request_table::{ROUTES, Runs};

/// The needs of a request as the page shows them.
fn shown(needs: &Needs) -> String {
    let actions: Vec<_> = needs.actions.iter().map(auth::Action::name).collect();
    let on = match needs.resources {
        NeededResources::Cluster => "cluster".to_owned(),
        NeededResources::Send => "its topic; Sub on the group of a retry topic".to_owned(),
        NeededResources::Consumption => {
            "group `consumerGroup`, topic `topic` unless it is a retry topic".to_owned()
        }
        NeededResources::Body(..) => "what its body names".to_owned(),
        NeededResources::Fields(fields) => {
            let field = |(name, kind): &(&str, auth::ResourceType)| {
                format!("{} `{name}`", kind.name().to_lowercase())
            };
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }
    };
    let strict = if needs.only_if_strict { " (strict)" } else { "" };
    format!("{}: {on}{strict}", actions.join(" or "))
}

/// The text of `docs/requests.md`.
fn page() -> String {
    let mut text = "# Requests of the broker\n\n\
        The request codes of the remoting protocol that the broker serves. This page is made from the route table the broker itself uses.\n\n\
        *Runs*: `connection` requests never wait for the disk; `disk pool` requests may; `operators` requests have threads of their own, so that\n\
        consumers do not wait for a console. *ports*: `VIP` is the port two below the broker's own, `proxy` that of `--proxy-port` (8080). *Needs*: what a caller needs when\n\
        authorization is on; *(strict)*: Apache RocketMQ 5.5.0 asks for nothing. With `authorizationStrict` 33, 36, 37 and 323 need the same on\n\
        the topic of the message they name by its place in the log, and a retry topic counts as its group everywhere.\n\n\
        | code | name | runs | ports | needs |\n|---|---|---|---|---|\n"
        .to_owned();
    for route in &ROUTES {
        let name = request::name(route.code).unwrap_or_default();
        let runs = match route.runs {
            Runs::Connection => "connection".to_owned(),
            Runs::ConnectionUpTo(bytes) => format!("connection; disk pool above {} KiB", bytes >> 10),
            Runs::DiskPool => "disk pool".to_owned(),
            Runs::Operators => "operators".to_owned(),
        };
        let ports = [("own", Port::Own), ("VIP", Port::Fast), ("proxy", Port::Proxy(None))];
        let ports = ports.iter().filter(|(_, port)| route.is_on(port)).map(|(name, _)| *name);
        let ports = ports.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| {} | {name} | {runs} | {ports} | {} |", route.code, shown(&route.needs));
    }
    text.push_str(
        "\nEvery other code is refused with code 3; [conformance.md](conformance.md) names those a RocketMQ broker serves, with reasons.\n",
    );
    text
}

/// Checks the page. `VOSTOK_WRITE_DOCS=1` writes the page after a change of the table.
#[test]
fn the_page_in_docs_is_made_from_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/requests.md");
    if std::env::var_os("VOSTOK_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == page(),
        "docs/requests.md is not what the table says; run this test with VOSTOK_WRITE_DOCS=1"
    );
}

#[test]
fn rows_are_sorted_by_code_and_every_code_has_a_name() {
    assert!(ROUTES.is_sorted_by(|one, next| one.code < next.code));
    assert!(ROUTES.iter().all(|route| request::name(route.code).is_some()));
}
