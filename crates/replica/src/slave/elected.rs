//! Agreement of a slave with an elected master: `AutoSwitchHAClient`.
//!
//! Each attempt begins with the log. An incomplete last record is removed, then the epochs are compared, then the
//! bytes that the master does not have are cut. Before that, the log may hold unconfirmed bytes, so this broker must
//! not serve it. [`SlaveAction::Consistent`] allows serving.

use super::{Slave, SlaveAction, Stage};
use crate::close::CloseReason;
use crate::epochs::EpochList;
use wire::ha::EpochStart;
use wire::ha::switch::{Handshake, HandshakeResponse, TransferHeader};
use wire::units::LogOffset;

/// Additional pause in milliseconds if the logs have no common epoch (`processReadResult`).
const NO_COMMON_EPOCH_PAUSE_MS: u64 = 2_000;

/// State of a broker that becomes slave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlaveStart {
    /// Handshake of this broker.
    pub handshake: Handshake,
    /// The epochs of its log.
    pub epochs: EpochList,
    /// End of the log.
    pub end: LogOffset,
    /// The log is on disk up to here.
    pub flushed: LogOffset,
    /// Confirm offset of the log, as far as this broker knows.
    pub confirm: LogOffset,
}

/// Epochs and confirm offsets of a slave of an elected master.
#[derive(Clone, Debug)]
pub(super) struct EpochState {
    pub(super) handshake: Handshake,
    pub(super) epochs: EpochList,
    /// The master's epochs, from its reply.
    master_epochs: EpochList,
    confirm: LogOffset,
    /// The newest confirm offset of the master.
    master_confirm: LogOffset,
}

impl EpochState {
    pub(super) fn new(start: SlaveStart) -> Self {
        Self {
            handshake: start.handshake,
            epochs: start.epochs,
            master_epochs: EpochList::default(),
            confirm: start.confirm,
            master_confirm: LogOffset::ZERO,
        }
    }

    /// Takes epoch and confirm offset of a piece. A Java master sends the next epoch with the last piece of an epoch.
    /// The piece then belongs to the preceding epoch, which the master's reply named. The epoch of a heartbeat is not
    /// noted, because this log has no byte of it.
    pub(super) fn take(&mut self, header: TransferHeader, out: &mut Vec<SlaveAction>) {
        let begins_before = |epoch: &EpochStart| epoch.start <= header.offset;
        let of_piece = Some(header.epoch).filter(begins_before);
        let entry = of_piece.or_else(|| self.master_epochs.at(header.offset).filter(begins_before));
        if header.body_bytes > 0 && entry.is_some_and(|entry| self.epochs.append(entry)) {
            out.push(SlaveAction::SaveEpochs(self.epochs.clone()));
        }
        self.master_confirm = self.master_confirm.max(header.confirm);
    }
}

impl Slave {
    /// Takes the end of the log after a cut.
    pub(super) fn cut(&mut self, now_ms: u64, end: LogOffset, out: &mut Vec<SlaveAction>) {
        let Some(of_elected) = &mut self.of_elected else { return };
        let (limit, is_compared) = match self.stage {
            Stage::Cutting(point) => (point, true),
            _ => (self.log.appended(), false),
        };
        assert!(end <= limit, "the log was to be cut to {limit} and ends at {end}");
        let has_lost = end < self.log.appended();
        self.log.cut(end);
        if has_lost || is_compared {
            let entries = of_elected.epochs.entries().len();
            of_elected.epochs.cut(end);
            if of_elected.epochs.entries().len() < entries {
                out.push(SlaveAction::SaveEpochs(of_elected.epochs.clone()));
            }
        }
        if of_elected.confirm > end {
            of_elected.confirm = end;
            out.push(SlaveAction::Confirm(end));
        }
        match self.stage {
            Stage::Preparing => self.connect(out),
            Stage::Cutting(_) => self.agree(now_ms, out),
            _ => {}
        }
    }

    /// Finds the part of this log that the master has too (`doTruncate`).
    pub(super) fn reply(&mut self, now_ms: u64, reply: HandshakeResponse, out: &mut Vec<SlaveAction>) {
        let (Some(of_elected), Stage::Greeting) = (&mut self.of_elected, self.stage) else {
            let reason = CloseReason::OutOfOrder { expected: "a transfer", found: "a handshake reply" };
            return self.close(now_ms, reason, out);
        };
        of_elected.master_epochs = EpochList::new(reply.epochs).expect("decoding checks that epochs rise");
        let end = self.log.appended();
        let point = match of_elected.epochs.consistent_point(end, &of_elected.master_epochs, reply.end) {
            // No message of this log was acknowledged, and the set has elected a master without any of it.
            Err(_) if of_elected.confirm == LogOffset::ZERO => Ok(Some(LogOffset::ZERO)),
            point => point,
        };
        match point {
            Ok(None) => self.agree(now_ms, out),
            Ok(Some(point)) => {
                self.stage = Stage::Cutting(point);
                if point < end {
                    out.push(SlaveAction::Cut(point));
                } else {
                    self.cut(now_ms, point, out);
                }
            }
            Err(_) => {
                out.push(SlaveAction::Close(self.attempt, CloseReason::NoCommonEpoch));
                self.pause(now_ms, NO_COMMON_EPOCH_PAUSE_MS);
            }
        }
    }

    fn agree(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        out.push(SlaveAction::Consistent);
        self.stage = Stage::Starting;
        if let Some(of_elected) = &mut self.of_elected {
            of_elected.master_confirm = LogOffset::ZERO;
        }
        self.start(now_ms, out);
    }

    /// Raises the confirm offset to the master's, in the part that this log has.
    pub(super) fn raise_confirm(&mut self, out: &mut Vec<SlaveAction>) {
        let Some(of_elected) = &mut self.of_elected else { return };
        let confirm = of_elected.master_confirm.min(self.log.appended());
        if confirm > of_elected.confirm {
            of_elected.confirm = confirm;
            out.push(SlaveAction::Confirm(confirm));
        }
    }
}
