use crate::acks::{AckConfig, AckRequirement, Mode, PendingResponse, Ticket};
use crate::epochs::EpochList;
use crate::in_sync::{CommittedSet, InSyncConfig, SetEpoch};
use crate::master::{HostId, Master, MasterAction, MasterConfig, MasterEvent, MasterStart};
use crate::slave::{Slave, SlaveAction, SlaveEvent, SlaveStart};
use crate::slave_log::{Attempt, SlaveConfig};
use crate::testing::{check, number, offset};
use crate::transfer::{LogRange, PeerId, TransferConfig};
use proptest::prelude::*;
use std::collections::BTreeSet;
use wire::ha::switch::{Handshake, HandshakeResponse, TransferHeader};
use wire::ha::{BrokerId, Epoch, EpochStart, FrameError, FrameHead, MasterFrame};
use wire::units::LogOffset;

const fn at(offset: u64) -> LogOffset {
    LogOffset::new(offset)
}

fn small(word: &str) -> u32 {
    u32::try_from(number(word)).expect("small")
}

fn id(word: &str) -> BrokerId {
    BrokerId::new(number(word))
}

/// Epochs as `1:0,4:120`.
fn entries(word: &str) -> Vec<EpochStart> {
    let entry = |text: &str| {
        let (epoch, start) = text.split_once(':').expect("epoch:start");
        EpochStart { epoch: Epoch::new(small(epoch)), start: offset(start) }
    };
    word.split(',').filter(|text| *text != "none").map(entry).collect()
}

fn epochs(word: &str) -> EpochList {
    EpochList::new(entries(word)).expect("rising")
}

/// Broker ids as `1,2`.
fn members(word: &str) -> BTreeSet<BrokerId> {
    word.split(',').map(id).collect()
}

/// Configuration with files of 1,000 bytes and frames of at most 100, in which every member must acknowledge.
fn config() -> MasterConfig {
    let transfer = TransferConfig { batch_bytes: 100, file_bytes: 1_000, ..TransferConfig::default() };
    let acks = AckConfig { mode: Mode::Controller, is_all_ack: true, ..AckConfig::default() };
    MasterConfig { transfer, acks, in_sync: InSyncConfig::default() }
}

fn master_event(words: &[&str]) -> MasterEvent {
    let peer = |word: usize| PeerId(number(words[word]));
    match words[0] {
        "connect" => MasterEvent::Connected(peer(1), HostId(1)),
        "handshake" => {
            let flags = &words[3..];
            let handshake = Handshake {
                broker_id: id(words[2]),
                is_from_last_file: flags.contains(&"last-file"),
                is_learner: flags.contains(&"learner"),
            };
            MasterEvent::Handshake(peer(1), handshake)
        }
        "report" => MasterEvent::Reported(peer(1), offset(words[2])),
        "garbage" => MasterEvent::Malformed(peer(1), FrameError::State { found: 7 }),
        "sent" => MasterEvent::Sent(peer(1)),
        "closed" => MasterEvent::Closed(peer(1)),
        "log" => MasterEvent::Log(LogRange { minimum: offset(words[1]), end: offset(words[2]) }),
        "wait" => {
            let ticket = Ticket(number(words[1]));
            MasterEvent::Wait(PendingResponse { ticket, end: offset(words[2]), need: AckRequirement::All })
        }
        "committed" => {
            let epoch = SetEpoch(small(words[2]));
            MasterEvent::SetCommitted(CommittedSet { members: members(words[1]), epoch })
        }
        "refused" => MasterEvent::SetRefused,
        "unknown" => MasterEvent::SetUnknown,
        "flushed" => MasterEvent::Flushed(offset(words[1])),
        "elected" => MasterEvent::Elected(Epoch::new(small(words[1]))),
        "timer" => MasterEvent::Timer,
        "stop" => MasterEvent::Stop,
        other => panic!("no event is called {other}"),
    }
}

fn run_master(script: &str, list: &str, log: LogRange) {
    let committed = CommittedSet { members: members("1"), epoch: SetEpoch(1) };
    let start =
        MasterStart { own: BrokerId::FIRST, committed, epochs: epochs(list), log, confirm: log.minimum };
    let mut master = Master::elected(0, config(), start);
    check(script, |now_ms, words, out| master.step(now_ms, master_event(words), out));
}

#[test]
fn a_slave_comes_into_the_set_and_leaves_it() {
    run_master("tests/scripts/switch/in_sync.txt", "1:0,3:120", LogRange { minimum: at(0), end: at(250) });
}

#[test]
fn a_piece_ends_where_its_epoch_does() {
    run_master(
        "tests/scripts/switch/transfer.txt",
        "2:150,5:230",
        LogRange { minimum: at(100), end: at(250) },
    );
}

#[test]
fn bad_input_ends_only_its_connection() {
    run_master("tests/scripts/switch/bad_input.txt", "1:0", LogRange { minimum: at(0), end: at(100) });
}

#[test]
fn copies_on_slaves_outside_the_set_do_not_count() {
    let acks = AckConfig { is_all_ack: false, in_sync_replicas: 2, ..config().acks };
    let log = LogRange { minimum: at(0), end: at(100) };
    let set = |word, epoch| CommittedSet { members: members(word), epoch: SetEpoch(epoch) };
    let (own, committed, epochs) = (BrokerId::FIRST, set("1", 1), epochs("1:0"));
    let start = MasterStart { own, committed, epochs, log, confirm: at(0) };
    let mut master = Master::elected(0, MasterConfig { acks, ..config() }, start);
    let mut step = |event| {
        master.step(1, event, &mut Vec::new());
        (master.reached(AckRequirement::Acks(2)), master.reached(AckRequirement::Acks(3)))
    };
    for broker in [2, 3] {
        let handshake =
            Handshake { broker_id: BrokerId::new(broker), is_from_last_file: false, is_learner: false };
        step(MasterEvent::Connected(PeerId(broker), HostId(1)));
        step(MasterEvent::Handshake(PeerId(broker), handshake));
    }
    step(MasterEvent::Reported(PeerId(2), at(40)));
    assert_eq!(step(MasterEvent::Reported(PeerId(3), at(100))), (None, None));
    assert_eq!(step(MasterEvent::SetCommitted(set("1,3", 2))), (Some(at(100)), None));
    assert_eq!(step(MasterEvent::SetCommitted(set("1,2,3", 3))), (Some(at(100)), Some(at(40))));
    assert_eq!(step(MasterEvent::SetCommitted(set("1,2", 4))), (Some(at(40)), None));
}

#[test]
fn an_heir_has_everything_that_senders_were_told_is_stored() {
    let heirs = |in_sync_replicas, reports: &[(u64, u64)], closed| {
        let acks = AckConfig { is_all_ack: false, in_sync_replicas, ..config().acks };
        let log = |end| LogRange { minimum: at(0), end: at(end) };
        let committed = CommittedSet { members: members("1,2,3"), epoch: SetEpoch(1) };
        let start = MasterStart {
            own: BrokerId::FIRST,
            committed,
            epochs: epochs("1:0"),
            log: log(30),
            confirm: at(0),
        };
        let mut master = Master::elected(0, MasterConfig { acks, ..config() }, start);
        let mut step = |event| master.step(1, event, &mut Vec::new());
        step(MasterEvent::Log(log(100)));
        for broker in [2, 3, 4] {
            let broker_id = BrokerId::new(broker);
            let handshake = Handshake { broker_id, is_from_last_file: false, is_learner: false };
            step(MasterEvent::Connected(PeerId(broker), HostId(1)));
            step(MasterEvent::Handshake(PeerId(broker), handshake));
        }
        reports.iter().for_each(|(peer, end)| step(MasterEvent::Reported(PeerId(*peer), at(*end))));
        if closed > 0 {
            step(MasterEvent::Closed(PeerId(closed)));
        }
        master.heirs().into_iter().map(|(heir, _)| heir.get()).collect::<Vec<_>>()
    };
    assert_eq!(heirs(2, &[(2, 40), (3, 90)], 0), [3], "senders were answered because of it");
    assert_eq!(heirs(2, &[(2, 90), (3, 90)], 0), [2, 3]);
    assert_eq!(heirs(2, &[(2, 40), (3, 90)], 3), [0; 0], "what it alone has would be lost");
    assert_eq!(heirs(3, &[(2, 40), (3, 90)], 0), [3, 2], "the longest log first");
    assert_eq!(heirs(1, &[(2, 99), (3, 90)], 0), [0; 0], "senders were answered by the master alone");
    assert_eq!(heirs(1, &[(2, 90), (3, 100)], 0), [3]);
    assert_eq!(heirs(3, &[(2, 20), (3, 25)], 0), [0; 0], "a former master may have answered for more");
    assert_eq!(heirs(2, &[(4, 100)], 0), [0; 0], "not a member");
}

#[test]
fn sends_wait_for_an_heir_until_the_election_is_decided() {
    let acks = AckConfig { is_all_ack: false, in_sync_replicas: 2, ..config().acks };
    let log = |end| LogRange { minimum: at(0), end: at(end) };
    let set = |word, epoch| CommittedSet { members: members(word), epoch: SetEpoch(epoch) };
    let (own, committed, epochs) = (BrokerId::FIRST, set("1,2,3", 1), epochs("1:0"));
    let start = MasterStart { own, committed, epochs, log: log(30), confirm: at(0) };
    let mut master = Master::elected(0, MasterConfig { acks, ..config() }, start);
    for broker in [2, 3] {
        let broker_id = BrokerId::new(broker);
        let handshake = Handshake { broker_id, is_from_last_file: false, is_learner: false };
        master.step(1, MasterEvent::Connected(PeerId(broker), HostId(1)), &mut Vec::new());
        master.step(1, MasterEvent::Handshake(PeerId(broker), handshake), &mut Vec::new());
    }
    let step = |master: &mut Master, event| {
        master.step(1, event, &mut Vec::new());
        master.reached(AckRequirement::Acks(2))
    };
    let report = |peer, end| MasterEvent::Reported(PeerId(peer), at(end));
    step(&mut master, report(2, 30));
    step(&mut master, report(3, 30));
    assert_eq!(master.heirs(), [2, 3].map(|heir| (BrokerId::new(heir), at(30))));
    master.wait_for_heirs(&members("2"));
    step(&mut master, MasterEvent::Log(log(100)));
    assert_eq!(step(&mut master, report(3, 90)), Some(at(30)), "the heir lacks what the other slave has");
    assert_eq!(step(&mut master, report(2, 50)), Some(at(50)));
    master.wait_for_heirs(&BTreeSet::new());
    assert_eq!(master.reached(AckRequirement::Acks(2)), Some(at(90)));
    assert_eq!(master.heirs(), [(BrokerId::new(3), at(90))], "senders may have got their answers");
    master.wait_for_heirs(&members("2"));
    assert_eq!(step(&mut master, MasterEvent::SetCommitted(set("1,3", 2))), Some(at(90)), "never elected");
}

#[test]
fn sends_that_need_no_replica_wait_for_an_heir() {
    let acks = AckConfig { is_all_ack: false, in_sync_replicas: 1, ..config().acks };
    let log = |end| LogRange { minimum: at(0), end: at(end) };
    let set = |word, epoch| CommittedSet { members: members(word), epoch: SetEpoch(epoch) };
    let (own, committed, epochs) = (BrokerId::FIRST, set("1,2,3", 1), epochs("1:0"));
    let start = MasterStart { own, committed, epochs, log: log(30), confirm: at(0) };
    let mut master = Master::elected(0, MasterConfig { acks, ..config() }, start);
    let step = |master: &mut Master, event| master.step(1, event, &mut Vec::new());
    for broker in [2, 3] {
        let handshake =
            Handshake { broker_id: BrokerId::new(broker), is_from_last_file: false, is_learner: false };
        step(&mut master, MasterEvent::Connected(PeerId(broker), HostId(1)));
        step(&mut master, MasterEvent::Handshake(PeerId(broker), handshake));
        step(&mut master, MasterEvent::Reported(PeerId(broker), at(30)));
    }
    let needs = |master: &Master| master.need(3).map(|need| (need, master.reached(need.unwrap())));
    assert_eq!(needs(&master), Some((Ok(AckRequirement::Master), Some(at(30)))));
    master.wait_for_heirs(&members("2"));
    step(&mut master, MasterEvent::Log(log(100)));
    step(&mut master, MasterEvent::Reported(PeerId(3), at(100)));
    assert_eq!(
        needs(&master),
        Some((Ok(AckRequirement::Acks(2)), Some(at(30)))),
        "the heir lacks the message"
    );
    step(&mut master, MasterEvent::Reported(PeerId(2), at(70)));
    assert_eq!(needs(&master), Some((Ok(AckRequirement::Acks(2)), Some(at(70)))));
    step(&mut master, MasterEvent::SetCommitted(set("1,3", 2)));
    assert_eq!(
        needs(&master),
        Some((Ok(AckRequirement::Master), Some(at(100)))),
        "the heir is never elected"
    );
}

fn transfer(attempt: Attempt, header: TransferHeader) -> SlaveEvent {
    SlaveEvent::Frame(attempt, MasterFrame::Transfer(FrameHead::Switch(header)))
}

fn slave_event(words: &[&str]) -> SlaveEvent {
    let attempt = |word: usize| Attempt(number(words[word]));
    match words[0] {
        "master" => SlaveEvent::Master((words[1] != "none").then(|| words[1].to_owned())),
        "cut" => SlaveEvent::Cut(offset(words[1])),
        "connected" => SlaveEvent::Connected(attempt(1)),
        "closed" => SlaveEvent::Closed(attempt(1)),
        "part" => SlaveEvent::Part(attempt(1)),
        "reply" => {
            let reply = HandshakeResponse { end: offset(words[2]), epochs: entries(words[3]) };
            SlaveEvent::Frame(attempt(1), MasterFrame::Handshake(reply))
        }
        "transfer" => {
            let header = TransferHeader {
                offset: offset(words[2]),
                body_bytes: small(words[3]),
                epoch: entries(words[4])[0],
                confirm: offset(words[5]),
            };
            transfer(attempt(1), header)
        }
        "garbage" => SlaveEvent::Malformed(attempt(1), FrameError::State { found: 7 }),
        "appended" => SlaveEvent::Appended(offset(words[1])),
        "flushed" => SlaveEvent::Flushed(offset(words[1])),
        "sync-flush" => SlaveEvent::SyncFlush(words[1] == "on"),
        "failed" => SlaveEvent::LogFailed,
        "timer" => SlaveEvent::Timer,
        "stop" => SlaveEvent::Stop,
        other => panic!("no event is called {other}"),
    }
}

fn run_slave(script: &str, is_sync_flush: bool, list: &str, end: u64) {
    let handshake = Handshake { broker_id: BrokerId::new(2), is_from_last_file: false, is_learner: false };
    let start =
        SlaveStart { handshake, epochs: epochs(list), end: at(end), flushed: at(end), confirm: at(end / 2) };
    let config = SlaveConfig { file_bytes: 1_000, is_sync_flush, ..SlaveConfig::default() };
    let mut slave = Slave::of_elected(config, start);
    check(script, |now_ms, words, out| slave.step(now_ms, slave_event(words), out));
}

#[test]
fn a_deposed_master_is_cut_before_it_serves() {
    run_slave("tests/scripts/switch/slave_cut.txt", false, "1:0,2:100", 150);
}

#[test]
fn an_empty_slave_follows() {
    run_slave("tests/scripts/switch/slave.txt", false, "none", 0);
}

#[test]
fn a_slave_with_sync_flush_reports_what_is_on_disk() {
    run_slave("tests/scripts/switch/slave_sync_flush.txt", true, "1:0", 100);
}

#[test]
fn a_slave_whose_flush_mode_changes_reports_by_the_new_one_and_takes_nothing_back() {
    run_slave("tests/scripts/switch/slave_flush_mode.txt", false, "1:0", 100);
}

#[test]
fn a_slave_leaves_a_master_that_sends_something_else() {
    run_slave("tests/scripts/switch/slave_bad_input.txt", false, "1:0", 100);
}

#[test]
fn a_log_of_which_nothing_was_confirmed_goes_where_the_master_has_none_of_it() {
    run_slave("tests/scripts/switch/slave_nothing_common.txt", false, "1:0,3:0", 1);
}

/// Offsets that a peer may send, including the limits.
fn any_offset() -> impl Strategy<Value = LogOffset> {
    let limit = i64::MAX.cast_unsigned();
    prop_oneof![0..300_u64, Just(999), Just(1_000), limit - 3..=limit].prop_map(LogOffset::new)
}

fn any_frame() -> impl Strategy<Value = SlaveEvent> {
    let attempt = (0..4_u64).prop_map(Attempt);
    let entries = proptest::collection::btree_map(0..6_u32, any_offset(), 0..4);
    let reply = (attempt.clone(), any_offset(), entries).prop_map(|(attempt, end, entries)| {
        let entry = |(epoch, start)| EpochStart { epoch: Epoch::new(epoch), start };
        let mut epochs = EpochList::default();
        entries.into_iter().map(entry).for_each(|entry| {
            epochs.append(entry);
        });
        let reply = HandshakeResponse { end, epochs: epochs.entries().to_vec() };
        SlaveEvent::Frame(attempt, MasterFrame::Handshake(reply))
    });
    let epoch =
        (0..6_u32, any_offset()).prop_map(|(epoch, start)| EpochStart { epoch: Epoch::new(epoch), start });
    let transfer = (attempt.clone(), any_offset(), 0..1_200_u32, epoch, any_offset()).prop_map(
        |(attempt, offset, body_bytes, epoch, confirm)| {
            transfer(attempt, TransferHeader { offset, body_bytes, epoch, confirm })
        },
    );
    let connection = prop_oneof![
        attempt.clone().prop_map(SlaveEvent::Connected),
        attempt.prop_map(SlaveEvent::Closed),
        Just(SlaveEvent::Timer),
        Just(SlaveEvent::Master(Some("h".to_owned()))),
    ];
    prop_oneof![2 => reply, 3 => transfer, 4 => connection]
}

proptest! {
    /// Sends arbitrary frames of a master in any order. A slave appends only at its end, and cuts and confirms only
    /// bytes that it has.
    #[test]
    fn no_master_breaks_a_slave(frames in proptest::collection::vec((any_frame(), 0..6_000_u64), 1..60)) {
        let handshake = Handshake { broker_id: BrokerId::new(2), is_from_last_file: false, is_learner: false };
        let start = SlaveStart { handshake, epochs: epochs("1:0,2:100"), end: at(150), flushed: at(150), confirm: at(120) };
        let mut slave = Slave::of_elected(SlaveConfig { file_bytes: 1_000, ..SlaveConfig::default() }, start);
        let (mut now_ms, mut end) = (0, at(150));
        for (event, later_ms) in frames {
            now_ms += later_ms;
            let mut events = vec![event];
            while let Some(event) = events.pop() {
                let mut out = Vec::new();
                slave.step(now_ms, event, &mut out);
                for action in out {
                    match action {
                        SlaveAction::CutIncomplete => events.push(SlaveEvent::Cut(end)),
                        SlaveAction::Cut(point) => {
                            prop_assert!(point <= end);
                            end = point;
                            events.push(SlaveEvent::Cut(end));
                        }
                        SlaveAction::Append { at: from, bytes } => {
                            prop_assert!(from == end || end == at(0), "{from} behind {end}");
                            end = from + u64::from(bytes);
                            events.push(SlaveEvent::Appended(end));
                        }
                        SlaveAction::Confirm(confirm) => prop_assert!(confirm <= end),
                        SlaveAction::Report(_, reported) => prop_assert_eq!(reported, end),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Sends arbitrary reports of slaves. No report is trusted beyond the sent bytes. No position is confirmed that a
    /// member of the set has not reported.
    #[test]
    fn no_slave_breaks_a_master(chances in proptest::collection::vec((0..8_u32, 1..4_u64, any_offset()), 1..80)) {
        let committed = CommittedSet { members: members("1,2"), epoch: SetEpoch(1) };
        let start = MasterStart {
            own: BrokerId::FIRST,
            committed,
            epochs: epochs("1:0,2:100"),
            log: LogRange { minimum: at(0), end: at(150) },
            confirm: at(20),
        };
        let mut master = Master::elected(0, config(), start);
        let (mut now_ms, mut end) = (0, 150);
        for (kind, peer, offset) in chances {
            let handshake =
                Handshake { broker_id: BrokerId::new(peer), is_from_last_file: false, is_learner: peer == 3 };
            let event = match kind {
                0 => MasterEvent::Connected(PeerId(peer), HostId(1)),
                1 | 2 => MasterEvent::Handshake(PeerId(peer), handshake),
                3 | 4 => MasterEvent::Reported(PeerId(peer), offset),
                5 => MasterEvent::Sent(PeerId(peer)),
                6 => {
                    end += offset.get() % 100;
                    MasterEvent::Log(LogRange { minimum: at(0), end: at(end) })
                }
                _ => {
                    now_ms += offset.get() % 7_000;
                    MasterEvent::Timer
                }
            };
            let mut out = Vec::new();
            master.step(now_ms, event, &mut out);
            let acknowledged = |broker| {
                let of_broker = master.peers().find(|peer| peer.broker == Some(BrokerId::new(broker)));
                of_broker.and_then(|peer| peer.acknowledged)
            };
            for action in &out {
                if let MasterAction::Confirm(confirm) = action {
                    let member = acknowledged(2);
                    prop_assert!(member.is_some_and(|ack| *confirm <= ack), "{confirm} with {member:?}");
                }
            }
            for peer in master.peers() {
                prop_assert!(peer.acknowledged <= peer.next && peer.next.is_none_or(|next| next <= at(end)));
            }
        }
    }
}
