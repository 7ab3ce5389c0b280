//! Resignation: a master whose disk stalls asks the controllers to elect another member of the in-sync set, as an
//! operator would (`electMaster`). It names only a member that has all messages reported as stored to senders. The
//! controllers reject a member that is not alive, so the role never goes to a lost broker.
//!
//! A message that is acknowledged after the choice of the heir may be missing there. So until the controllers have
//! decided, a send also waits for the heir ([`Agent::heirs`]). A request without a rejection may still be performed,
//! for as long as a proposal of the in-sync set.
//!
//! Two slow disks must not pass the role back and forth: after each success the broker doubles the pause before the next
//! resignation.

use super::{Agent, AgentAction, CallId};
use crate::in_sync::PROPOSAL_LIFE_MAX_MS;
use crate::roster::{ControllerResponse, Election, Request};
use std::collections::BTreeSet;
use wire::codes::response;
use wire::ha::BrokerId;

/// First pause between two resignations, in multiples of the time that the disk may take. The pause is short, so that a
/// master whose disk stalls again soon does not keep the group from service. The doubling ends the exchange of the role.
const PAUSE_FACTOR: u64 = 2;
/// Longest pause between two resignations. After a longer time with the role the pause starts again at the first value.
const PAUSE_MAX_MS: u64 = 3_600_000;

/// Whether a response excludes the requested election. A controller that stops leading answers
/// `CONTROLLER_NOT_LEADER` while its proposal may still be committed, and Java's controllers answer `SYSTEM_ERROR`. After
/// `CONTROLLER_MASTER_STILL_EXIST` the named member is master already.
fn is_rejection(code: i32) -> bool {
    matches!(
        code,
        response::CONTROLLER_ELECT_MASTER_FAILED | response::CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    )
}

/// Resignations of a broker.
#[derive(Clone, Debug, Default)]
pub(super) struct Resignation {
    /// The request for an election that is in flight.
    pub(super) call: Option<CallId>,
    /// Member named in the last request.
    heir: Option<BrokerId>,
    /// Members of requests that the controllers may still perform.
    heirs: BTreeSet<BrokerId>,
    /// Time of the last response that was lost, left the election open, or named a new master.
    open_since_ms: Option<u64>,
    pause_ms: u64,
    next_ms: u64,
}

impl Resignation {
    pub(super) fn heirs(&self) -> &BTreeSet<BrokerId> {
        &self.heirs
    }

    /// Forgets requests that the controllers cannot perform any more.
    pub(super) fn expire(&mut self, now_ms: u64) {
        let is_over = |since_ms| now_ms >= since_ms + PROPOSAL_LIFE_MAX_MS;
        if self.call.is_none() && self.open_since_ms.is_some_and(is_over) {
            self.decided();
        }
    }

    /// Records that no request can be performed any more.
    pub(super) fn decided(&mut self) {
        self.heirs.clear();
        self.open_since_ms = None;
    }
}

impl Agent {
    /// Whether this broker is a master whose disk stalls too long, and may request an election now.
    #[must_use]
    pub fn resigns(&self, now_ms: u64, stalled_ms: u64) -> bool {
        let timeout_ms = self.config.disk_stall_timeout_ms;
        let is_due = timeout_ms > 0 && stalled_ms >= timeout_ms && now_ms >= self.resignation.next_ms;
        is_due && self.is_master() && self.leader.is_some() && self.resignation.call.is_none()
    }

    /// Requests the election of the first of `heirs` if the disk of this master stalls too long, or of the next
    /// member after a rejection. Without an heir the master stays and retries later.
    pub(super) fn resign(
        &mut self,
        now_ms: u64,
        stalled_ms: u64,
        heirs: &[BrokerId],
        out: &mut Vec<AgentAction>,
    ) {
        let (Some(own), Some(leader)) = (self.broker(), self.leader.clone()) else { return };
        if !self.resigns(now_ms, stalled_ms) {
            return;
        }
        self.resignation.next_ms = now_ms + self.config.disk_stall_timeout_ms;
        let is_member = |heir: &&BrokerId| **heir != own && self.members.contains(heir);
        let heirs: Vec<BrokerId> = heirs.iter().filter(is_member).copied().collect();
        let asked = heirs.iter().position(|heir| Some(*heir) == self.resignation.heir);
        let next = asked.map_or(0, |asked| asked + 1);
        let heir = heirs.get(next).or(heirs.first()).copied();
        self.resignation.heir = heir;
        out.push(AgentAction::Resign(heir));
        if let Some(named) = heir {
            self.resignation.heirs.insert(named);
            let request = Election { name: self.config.name.clone(), broker: heir, is_designated: true };
            self.last_call = CallId(self.last_call.0 + 1);
            self.resignation.call = Some(self.last_call);
            out.push(AgentAction::Call(self.last_call, leader, Request::Elect(request)));
        }
    }

    /// Processes the response to a resignation. After a failure the next member is named while the disk stalls.
    pub(super) fn resigned(&mut self, now_ms: u64, answer: Option<ControllerResponse>) {
        self.resignation.call = None;
        // Asks for the master at once, also without an answer.
        self.next_step_ms = self.next_step_ms.min(now_ms);
        let code = answer.map(|answer| answer.code);
        let is_done = code == Some(response::SUCCESS);
        if !code.is_some_and(is_rejection) {
            self.resignation.open_since_ms = Some(now_ms);
        } else if self.resignation.open_since_ms.is_none() {
            self.resignation.decided();
        }
        if !is_done {
            return;
        }
        self.resignation.heir = None;
        let Resignation { pause_ms, next_ms, .. } = &mut self.resignation;
        let first_ms = self.config.disk_stall_timeout_ms * PAUSE_FACTOR;
        let was_long_ago = now_ms > *next_ms + PAUSE_MAX_MS;
        *pause_ms = if was_long_ago { first_ms } else { (*pause_ms * 2).clamp(first_ms, PAUSE_MAX_MS) };
        *next_ms = now_ms + *pause_ms;
    }
}
