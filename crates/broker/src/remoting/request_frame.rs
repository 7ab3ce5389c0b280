//! Received request with its row of the route table.

use wire::frame::Command;

use super::incoming::ParsedHeartbeat;
use super::port::Port;
use super::request_table::{self, Route};

/// Request frame during dispatch. The frame's row in the route table is found once, when this value is made.
pub(crate) struct RequestFrame<'a> {
    pub command: Command<'a>,
    /// Row of the request code, on whatever port. `None` for a code that no port serves.
    pub(super) route: Option<&'static Route>,
    pub(super) heartbeat: ParsedHeartbeat,
}

impl<'a> RequestFrame<'a> {
    /// Looks up the row of a request.
    pub(crate) fn new(command: Command<'a>) -> Self {
        let route = request_table::find(command.code);
        Self::of(command, route)
    }

    /// A request whose row is known.
    pub(super) fn of(command: Command<'a>, route: Option<&'static Route>) -> Self {
        Self { command, route, heartbeat: ParsedHeartbeat::default() }
    }

    /// Returns the row if the port serves the request.
    pub(super) fn route_on(&self, port: &Port) -> Option<&'static Route> {
        self.route.filter(|route| route.is_on(port))
    }
}
