//! Pulls as frames: requests 11 `PULL_MESSAGE` and 361 `LITE_PULL_MESSAGE`.

use wire::codes::request;
use wire::header::PullHeader;

use super::incoming::Request;
use super::sink::{Call, Form};
use crate::Result;
use crate::pull::{self, PullRequest, PullScratch};

/// Serves both requests. A one-way pull is not performed, because it gets no response.
pub(super) fn pull(request: &Request<'_>, scratch: &mut PullScratch, out: &mut Vec<u8>) -> Result<()> {
    let Request { broker, peer, command, caller, .. } = *request;
    if command.is_one_way() {
        return Ok(());
    }
    let header = PullHeader::decode(&command.fields)?;
    let pull = PullRequest { caller, header, is_lite: command.code == request::LITE_PULL_MESSAGE };
    let call = Call::of(request, Form::Plain);
    pull::pull(&broker.pulls, scratch, &pull, &mut call.writer(out), &|| {
        call.later(peer, &broker.figures.rpc_latency)
    })
}
