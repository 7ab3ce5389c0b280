//! The decisions about a half message, encoded in its body (`TransactionProducer.MsgMeta` of RocketMQ's benchmark
//! scripts):
//!
//! ```text
//! 0   8  batch: checks of messages of other batches are answered with rollback
//! 8   8  message: start of the run in milliseconds plus the connection, shifted by 32, plus a number
//! 16  1  decision of the sender
//! 17 20  decisions on the checks, one byte each
//! ```

use serde::{Deserialize, Serialize};
use wire::header::Decision;

/// Decisions about half messages, as shares between 0 and 1 (flags of tproducer.sh). All others are committed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decisions {
    /// Batch of the messages; `None` for the milliseconds at which the load starts.
    pub batch: Option<u64>,
    /// Shares of rollback and of unknown among the sender's answers.
    pub send_shares: (f64, f64),
    /// Shares of rollback and of unknown among the answers to checks.
    pub check_shares: (f64, f64),
}

impl Decisions {
    /// The values that all messages of a connection share, in a load that started at `start_ms`.
    pub(super) fn of_connection(&self, start_ms: u64, connection: u32) -> Meta {
        Meta {
            batch: self.batch.unwrap_or(start_ms).cast_signed(),
            start: start(start_ms, connection),
            send_shares: self.send_shares,
            check_shares: self.check_shares,
        }
    }
}

/// Size of the layout in bytes.
pub(crate) const BYTES: usize = 37;

/// Number of checks for which the layout holds an answer.
const CHECKS: usize = 20;

/// An answer that was final already, so that the check should not have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// The answer that the sender gave when it ended the transaction.
    Sent(Decision),
    /// The answer to an earlier check.
    Checked(Decision),
}

impl std::fmt::Display for Earlier {
    /// Writes the end of the script's line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, decision) = match self {
            Self::Sent(decision) => ("sendResult", decision),
            Self::Checked(decision) => ("sendResult,lastCheckResult", decision),
        };
        let name = match decision {
            Decision::Commit => "COMMIT_MESSAGE",
            Decision::Rollback => "ROLLBACK_MESSAGE",
            Decision::Unknown => "UNKNOW",
        };
        write!(f, "{what}={name}")
    }
}

/// The byte of a decision in the layout.
fn byte(decision: Decision) -> u8 {
    match decision {
        Decision::Commit => 0,
        Decision::Rollback => 1,
        Decision::Unknown => 2,
    }
}

fn from_byte(byte: u8) -> Decision {
    match byte {
        0 => Decision::Commit,
        1 => Decision::Rollback,
        _ => Decision::Unknown,
    }
}

fn draw(number: u64, (rollback, unknown): (f64, f64)) -> Decision {
    let share = (number >> 11) as f64 / (1_u64 << 53) as f64;
    match share {
        share if share < rollback => Decision::Rollback,
        share if share < rollback + unknown => Decision::Unknown,
        _ => Decision::Commit,
    }
}

/// First message number of a connection. Request numbers repeat on every connection, so it includes the connection.
pub(super) fn start(run_ms: u64, connection: u32) -> u64 {
    (run_ms + u64::from(connection)) << 32
}

/// The values that all messages of a connection share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub batch: i64,
    /// The value of [`start`] for the connection.
    pub start: u64,
    /// Shares of rollback and of unknown among the sender's answers.
    pub send_shares: (f64, f64),
    /// Shares of rollback and of unknown among the answers to checks.
    pub check_shares: (f64, f64),
}

impl Meta {
    /// The sender's decision on the message with this number. It is a function of the number, so nothing is kept per
    /// message.
    pub fn sent(&self, number: u32) -> Decision {
        draw(mix(u64::from(number) ^ self.start), self.send_shares)
    }

    /// Writes the layout to the start of a body.
    pub fn write(&self, body: &mut [u8], number: u32) {
        body[..8].copy_from_slice(&self.batch.to_be_bytes());
        body[8..16].copy_from_slice(&(self.start | u64::from(number)).to_be_bytes());
        body[16] = byte(self.sent(number));
        for (check, answer) in (1..).zip(&mut body[17..BYTES]) {
            *answer = byte(draw(mix(u64::from(number) ^ self.start ^ check << 56), self.check_shares));
        }
    }

    /// Decides on check number `times` (from 1) of a body: the answer, and the earlier answer if that was final and the
    /// check should not have come. `None` for a body of another batch.
    pub fn check(&self, body: &[u8], times: usize) -> Option<(Decision, Option<Earlier>)> {
        let (batch, rest) = body.get(..BYTES)?.split_first_chunk::<8>()?;
        if i64::from_be_bytes(*batch) != self.batch {
            return None;
        }
        let answers = &rest[8..];
        let before = &answers[..times.clamp(1, CHECKS)];
        let mut known = before.iter().copied().map(from_byte).enumerate();
        let first_known = known.find(|(_, answer)| *answer != Decision::Unknown);
        let now = from_byte(answers[times.clamp(1, CHECKS)]);
        Some(match first_known {
            None => (now, None),
            Some((0, answer)) => (answer, Some(Earlier::Sent(answer))),
            Some((_, answer)) => (answer, Some(Earlier::Checked(answer))),
        })
    }
}

/// Spreads a number over all bits (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests;
