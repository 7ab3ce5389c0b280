//! Faults of a run. The seed chooses them, and the world performs them.

use crate::random::Random;
use crate::settings::{BROKERS, CONTROLLERS, Faults, Mode, NODES, NodeId, Settings};

/// Crash of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed, and the machine stays up.
    Kill,
    /// The machine loses power, and unsynced data is partly lost.
    PowerCut,
}

/// Fault of a run.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A broker or controller ends, and starts again after a number of milliseconds.
    Crash(NodeId, Crash, u64),
    /// A broker or controller ends at one of its next writes.
    CrashAtWrite(NodeId, Crash, u64),
    /// All brokers end at once, and start again after a number of milliseconds.
    CrashAll(Crash, u64),
    /// The store of a broker is copied. If there is an older copy, all brokers end at once, and the broker comes back
    /// with that copy after so many milliseconds.
    OldCopy(NodeId, u64),
    /// Two of three controllers end at once, and start again after a number of milliseconds.
    CrashMajority(NodeId, NodeId, Crash, u64),
    /// The link from the first node to the second is cut, and also the opposite link if the flag is set, for a number of
    /// milliseconds.
    Cut(NodeId, NodeId, bool, u64),
    /// All links of a node are cut.
    Isolate(NodeId, u64),
    /// Responses of the controllers to a broker are lost.
    LoseAnswers(NodeId, u64),
    /// The links from one or two brokers to the other brokers and the controllers are cut. Clients reach all nodes.
    CutOff(NodeId, Option<NodeId>, u64),
    /// A stranger connects to a broker's HA port and sends this offset as a report.
    Stranger(NodeId, u64),
    /// The link between two nodes is slow.
    SlowLink(NodeId, NodeId, u64),
    /// A replication connection is reset: the connection with this index, modulo the number of connections.
    Reset(u64),
    /// A node runs no code for a time.
    Pause(NodeId, u64),
    /// Sets a broker's time of day to its clock plus this number of milliseconds. An earlier jump
    /// no longer counts.
    Jump(NodeId, i64),
    /// Each flush of a broker's disk takes the first number of milliseconds, for the second number of
    /// milliseconds.
    SlowDisk(NodeId, u64, u64),
    /// A broker's disk is full for a number of milliseconds.
    FullDisk(NodeId, u64),
    /// A broker's disk fails a flush; then the operator starts the broker again.
    FailingDisk(NodeId),
}

fn broker(random: &mut Random) -> NodeId {
    NodeId(usize::try_from(random.below(BROKERS as u64)).expect("small"))
}

/// Chooses the next fault.
pub fn next(random: &mut Random, settings: &Settings) -> Fault {
    let chosen = broker(random);
    let short_ms = random.between(10, 300);
    let kill = Fault::Crash(chosen, Crash::Kill, short_ms);
    match (settings.faults, random.below(6)) {
        (Faults::LostAnswers, 0..=2) => Fault::LoseAnswers(chosen, random.between(50, 6_000)),
        (Faults::LostAnswers, 3) => Fault::Reset(random.number()),
        (Faults::LossyRestarts, 0..=2) => Fault::Crash(chosen, Crash::PowerCut, short_ms),
        (Faults::CutOff, 0..=2) => Fault::CutOff(chosen, None, random.between(1_000, 20_000)),
        (Faults::CutOff, 3 | 4) => {
            let second = NodeId((chosen.0 + 1) % BROKERS);
            Fault::CutOff(chosen, Some(second), random.between(1_000, 20_000))
        }
        (Faults::Restarts, 0..=2) => Fault::CrashAll(Crash::Kill, short_ms),
        (Faults::Strangers, 0..=3) => {
            let offset = random.number() >> random.below(60);
            Fault::Stranger(chosen, offset)
        }
        (Faults::SlowDisks, _) => {
            Fault::SlowDisk(chosen, random.between(15_000, 40_000), random.between(15_000, 40_000))
        }
        (Faults::OldCopies, 0..=3) => Fault::OldCopy(chosen, short_ms),
        (Faults::Resignations, 0..=2) => {
            Fault::SlowDisk(chosen, random.between(3_000, 5_000), random.between(100, 500))
        }
        (Faults::Resignations, _) => {
            let servers = BROKERS + CONTROLLERS;
            let step = 1 + usize::try_from(random.below(servers as u64 - 1)).expect("small");
            let other = NodeId((chosen.0 + step) % servers);
            Fault::SlowLink(chosen, other, random.between(2_000, 15_000))
        }
        (Faults::Controllers, 0..=4) => of_controllers(random),
        (Faults::All, _) => any(random, settings, chosen),
        _ => kill,
    }
}

fn any(random: &mut Random, settings: &Settings, broker: NodeId) -> Fault {
    let has_controllers = settings.mode == Mode::Controller;
    let long_ms = random.pick(&[200, 1_000, 3_000, 6_000, 12_000, 25_000]);
    let lasts_ms = random.between(50, long_ms);
    let crash = if random.once_in(2) { Crash::Kill } else { Crash::PowerCut };
    let others: Vec<NodeId> = (0..NODES)
        .map(NodeId)
        .filter(|node| *node != broker && (has_controllers || !node.is_controller()))
        .collect();
    let other = random.pick(&others);
    match random.below(if has_controllers { 25 } else { 22 }) {
        0..=2 => Fault::Crash(broker, crash, lasts_ms),
        3 | 4 => Fault::CrashAtWrite(broker, crash, random.between(1, 40)),
        5 => Fault::CrashAll(crash, lasts_ms),
        6..=8 => Fault::Cut(broker, other, true, lasts_ms),
        9 | 10 => Fault::Cut(broker, other, false, lasts_ms),
        11 | 12 => Fault::Isolate(broker, lasts_ms),
        13 => Fault::SlowLink(broker, other, lasts_ms),
        14 => Fault::Reset(random.number()),
        15 | 16 => Fault::Pause(broker, lasts_ms),
        17 | 18 => {
            let hour_ms = 3_600_000;
            Fault::Jump(broker, i64::try_from(random.below(2 * hour_ms)).expect("hours") - 3_600_000)
        }
        19 => Fault::SlowDisk(broker, random.between(50, 2_000), lasts_ms),
        20 => Fault::FullDisk(broker, lasts_ms),
        21 => Fault::FailingDisk(broker),
        _ => of_controllers(random),
    }
}

/// Chooses the next fault of a controller.
fn of_controllers(random: &mut Random) -> Fault {
    let chosen = NodeId(BROKERS + usize::try_from(random.below(CONTROLLERS as u64)).expect("small"));
    let other = NodeId(BROKERS + (chosen.0 + 1 - BROKERS) % CONTROLLERS);
    let crash = if random.once_in(2) { Crash::Kill } else { Crash::PowerCut };
    let long_ms = random.pick(&[300, 3_000, 12_000]);
    let lasts_ms = random.between(50, long_ms);
    match random.below(8) {
        0 | 1 => Fault::Crash(chosen, crash, lasts_ms),
        2 => Fault::CrashAtWrite(chosen, crash, random.between(1, 12)),
        3 => Fault::CrashMajority(chosen, other, crash, lasts_ms),
        4 => Fault::Isolate(chosen, lasts_ms),
        5 => Fault::Cut(chosen, other, random.once_in(2), lasts_ms),
        6 => Fault::SlowLink(chosen, other, lasts_ms),
        _ => Fault::Pause(chosen, lasts_ms),
    }
}
