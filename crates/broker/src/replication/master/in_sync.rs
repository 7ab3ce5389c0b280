//! Waits of responses for slaves, and the in-sync set that an elected master proposes to the controllers.

use std::collections::BTreeSet;

use replica::acks::{AckRequirement, AckStatus, PendingResponse, Ticket};
use replica::in_sync::SetEpoch;
use replica::master::MasterEvent;
use replica::transfer::PeerId;
use wire::ha::BrokerId;
use wire::units::LogOffset;

use super::Shell;
use super::admission::{Admission, Verdict};

impl Shell {
    /// Proposes a set to the controllers: at once, or when its new slaves have the tables.
    pub(super) fn propose(&mut self, members: BTreeSet<BrokerId>, epoch: SetEpoch) {
        let Some(proposals) = &self.proposals else { return };
        let Some(election) = self.machine.election() else { return };
        let newcomers: BTreeSet<_> = members.difference(&election.committed().members).copied().collect();
        if newcomers.is_empty() {
            // The agent is gone only when the broker stops.
            let _ = proposals.send((members, epoch));
            return;
        }
        // As published last, before this proposal.
        let proposed = self.parts.replication.replicas.elected().proposed.clone();
        self.admission = Some(Admission::new(&self.parts, (members, epoch), newcomers, &proposed));
    }

    /// Continues the waiting proposal.
    pub(super) fn admit(&mut self) {
        while let Some(mut admission) = self.admission.take() {
            match admission.look(&self.parts.replication, &self.parts.runtime, &self.machine) {
                Verdict::Wait => {
                    self.admission = Some(admission);
                    return;
                }
                Verdict::Count => {
                    admission.uncounted.clear();
                    self.publish();
                    admission.counted(&self.parts.tables, &self.parts.runtime);
                    self.admission = Some(admission);
                }
                Verdict::Propose => {
                    if let Some(proposals) = &self.proposals {
                        let _ = proposals.send(admission.proposal);
                    }
                }
                Verdict::Drop => {
                    let members = admission.proposal.0;
                    tracing::warn!(
                        ?members,
                        "a slave has the log, but not the tables of topics, groups and offsets: it is added to the in-sync set later"
                    );
                    self.step(MasterEvent::SetRefused);
                }
                Verdict::Forget => {}
            }
        }
    }

    /// Ends the connections of slaves that hold up answers about tables. They leave the in-sync set, and come back when they have the tables.
    pub(super) fn put_out(&mut self, slaves: &[BrokerId]) {
        for slave in slaves {
            if let Some(id) = self.machine.peer_of(*slave) {
                tracing::warn!(
                    broker_id = slave.get(),
                    "a slave of the in-sync set does not ask for the tables of topics, groups and offsets any more; its connection is closed"
                );
                self.remove(id);
                self.step(MasterEvent::Closed(id));
            }
        }
    }

    /// Returns an event that makes the machine wait until enough replicas have the present log. The
    /// wait stands for the waits of all responses. Responses wait for the store's watermark and not
    /// for the machine, which otherwise could not tell which slave delays them. `None` if there is
    /// such a wait already, or no response has to wait.
    pub(super) fn probe(&mut self) -> Option<MasterEvent> {
        let need = self.need()?.ok().filter(|need| *need != AckRequirement::Master)?;
        let end = self.machine.log_end();
        if self.probe.is_some() || self.machine.reached(need) >= Some(end) {
            return None;
        }
        self.last_probe += 1;
        let ticket = Ticket(self.last_probe);
        self.probe = Some(ticket);
        Some(MasterEvent::Wait(PendingResponse { ticket, end, need }))
    }

    pub(super) fn need(&self) -> Option<Result<AckRequirement, AckStatus>> {
        self.machine.need(self.parts.replication.acting.alive())
    }

    /// Publishes the replicas that responses need, and the position up to which the log is replicated.
    ///
    /// The in-sync set comes first, together with the heirs for that position. So the agent either names an heir that
    /// has the log up to the position, or has named an heir before, which then limits the position.
    pub(super) fn publish(&mut self) {
        let Some((need, reached)) = self.publish_elected() else { return };
        self.parts.replication.durability.set_lacks_replicas(need.is_err());
        let store = &self.parts.tables.store;
        // Without an heir any more, an elected master answers the responses that waited for the heir.
        let is_due = need.is_ok_and(|need| need != AckRequirement::Master)
            || self.machine.election().is_some() && need.is_ok() && store.replicated().is_some();
        if let Some(end) = reached.filter(|_| is_due) {
            store.set_replicated(Some(end));
        }
    }

    /// Publishes the in-sync set of an elected master and whether responses wait for slaves. Returns the replicas that
    /// messages need, and the position up to which the log meets the need.
    fn publish_elected(&mut self) -> Option<(Result<AckRequirement, AckStatus>, Option<LogOffset>)> {
        let mut elected = self.parts.replication.replicas.elected();
        self.machine.wait_for_heirs(&elected.named_heirs);
        let need = self.need()?;
        let durability = &self.parts.replication.durability;
        match need {
            Ok(AckRequirement::Master) => durability.ignore_slaves(),
            Ok(_) => durability.wait_for_slaves(),
            Err(_) => {}
        }
        if let Some(election) = self.machine.election() {
            let committed = election.committed();
            let uncounted = self.admission.as_ref().map(|admission| &admission.uncounted);
            let is_counted = |it: &&BrokerId| !uncounted.is_some_and(|uncounted| uncounted.contains(it));
            elected.proposed = election.proposed().iter().filter(is_counted).copied().collect();
            elected.heirs = self.machine.heirs();
            if elected.in_sync != *committed {
                tracing::info!(members = ?committed.members, epoch = committed.epoch.0, "the in-sync set");
                elected.in_sync = committed.clone();
            }
        }
        Some((need, self.machine.reached(need.unwrap_or(AckRequirement::Master))))
    }

    /// Publishes the slaves' positions: for operators, and for responses that wait for slaves.
    pub(super) fn note_progress(&self, id: PeerId) {
        if let Some(peer) = self.peers.get(&id)
            && let Some(acknowledged) = self.machine.acknowledged(id)
        {
            self.parts.replication.replicas.note_report(&peer.progress, acknowledged.get());
        }
        let config = &self.parts.runtime.config.replication;
        if config.waits_for_slaves()
            && self.need().is_none()
            && let Some(end) = self.machine.reached(AckRequirement::Acks(config.in_sync_replicas))
        {
            self.parts.tables.store.set_replicated(Some(end));
        }
    }
}
