//! Election policy: chooses the new master (`DefaultElectPolicy`).

use super::live::Heartbeat;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use wire::ha::BrokerId;

/// Candidates and rules of an election.
pub(super) struct Candidates<'a> {
    /// The brokers that may win.
    pub(super) brokers: &'a BTreeSet<BrokerId>,
    /// Previous master. It stays master if possible.
    pub(super) former: Option<BrokerId>,
    /// Broker that an operator or a resigning master chose. Either this broker wins, or the election fails.
    pub(super) designated: Option<BrokerId>,
}

/// The winner among the brokers that `live` knows a heartbeat of: the longest log of the newest epoch. Java compares offsets by
/// a difference of 32 bits, which is wrong from 2 GiB on.
pub(super) fn elect<'a>(
    candidates: &Candidates<'_>,
    live: impl Fn(BrokerId) -> Option<&'a Heartbeat>,
) -> Option<BrokerId> {
    let alive: Vec<&Heartbeat> = candidates.brokers.iter().filter_map(|broker| live(*broker)).collect();
    let is_alive = |broker: &BrokerId| alive.iter().any(|heartbeat| heartbeat.broker == *broker);
    let stays = |former: &BrokerId| {
        is_alive(former) && candidates.designated.is_none_or(|designated| designated == *former)
    };
    if let Some(former) = candidates.former.filter(stays) {
        return Some(former);
    }
    if candidates.designated.is_some() {
        return candidates.designated.filter(is_alive);
    }
    let rank = |it: &&&Heartbeat| (Reverse(it.epoch), Reverse(it.end), it.priority, it.broker);
    alive.iter().min_by_key(rank).map(|heartbeat| heartbeat.broker)
}
