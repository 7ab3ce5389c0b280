use crate::acks::{AckConfig, AckRequirement, AckStatus, PendingResponse, Ticket};
use crate::master::{HostId, Master, MasterAction, MasterConfig, MasterEvent};
use crate::slave::{Slave, SlaveEvent};
use crate::slave_log::{Attempt, SlaveConfig};
use crate::testing::{check, number, offset};
use crate::transfer::{LogRange, PeerId, TransferConfig};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::ha::classic::Header;
use wire::ha::{FrameError, FrameHead, MasterFrame};
use wire::units::LogOffset;

const fn at(offset: u64) -> LogOffset {
    LogOffset::new(offset)
}

/// Files of 1,000 bytes and frames of at most 100.
fn config() -> MasterConfig {
    let transfer = TransferConfig { batch_bytes: 100, file_bytes: 1_000, ..TransferConfig::default() };
    let acks = AckConfig { max_gap_bytes: 500, ..AckConfig::default() };
    MasterConfig { transfer, acks, ..MasterConfig::default() }
}

fn master_event(words: &[&str]) -> MasterEvent {
    let peer = |word: usize| PeerId(number(words[word]));
    match words[0] {
        "connect" => MasterEvent::Connected(peer(1), HostId(number(words[2]).into())),
        "report" => MasterEvent::Reported(peer(1), offset(words[2])),
        "garbage" => {
            MasterEvent::Malformed(peer(1), FrameError::Negative { field: "reported offset", found: -1 })
        }
        "sent" => MasterEvent::Sent(peer(1)),
        "closed" => MasterEvent::Closed(peer(1)),
        "log" => MasterEvent::Log(LogRange { minimum: offset(words[1]), end: offset(words[2]) }),
        "wait" => MasterEvent::Wait(PendingResponse {
            ticket: Ticket(number(words[1])),
            end: offset(words[2]),
            need: match words[3] {
                "all" => AckRequirement::All,
                acks => AckRequirement::Acks(u32::try_from(number(acks)).expect("small")),
            },
        }),
        "timer" => MasterEvent::Timer,
        "stop" => MasterEvent::Stop,
        other => panic!("no event is called {other}"),
    }
}

fn run_master(script: &str, end: u64) {
    let mut master = Master::classic(config(), LogRange { minimum: at(0), end: at(end) });
    check(script, |now_ms, words, out| master.step(now_ms, master_event(words), out));
}

#[test]
fn a_slave_gets_the_log() {
    run_master("tests/scripts/classic/transfer.txt", 0);
}

#[test]
fn a_slave_starts_where_its_first_report_says() {
    run_master("tests/scripts/classic/start.txt", 2_350);
}

#[test]
fn answers_wait_for_replicas_but_not_for_each_other() {
    run_master("tests/scripts/classic/answers.txt", 100);
}

#[test]
fn a_first_report_acknowledges_only_what_slaves_were_sent() {
    run_master("tests/scripts/classic/first_report.txt", 100);
}

#[test]
fn bad_input_ends_only_its_connection() {
    run_master("tests/scripts/classic/bad_input.txt", 300);
}

#[test]
fn replicas_in_sync_are_slaves_near_the_end() {
    let mut master = Master::classic(config(), LogRange { minimum: at(0), end: at(1_000) });
    let mut step = |event| {
        master.step(0, event, &mut Vec::new());
        master.in_sync()
    };
    assert_eq!(step(MasterEvent::Connected(PeerId(1), HostId(1))), 1, "nothing is known of the slave");
    assert_eq!(step(MasterEvent::Reported(PeerId(1), at(1_000))), 2);
    assert_eq!(step(MasterEvent::Connected(PeerId(2), HostId(1))), 2, "slaves may share a host");
    assert_eq!(step(MasterEvent::Reported(PeerId(2), at(500))), 2, "a gap of 500 bytes is too much");
    assert_eq!(step(MasterEvent::Reported(PeerId(2), at(501))), 3);
    assert_eq!(step(MasterEvent::Log(LogRange { minimum: at(0), end: at(1_400) })), 2);
    assert_eq!(step(MasterEvent::Closed(PeerId(1))), 1, "the other connection is 500 bytes behind");
}

#[test]
fn a_slave_that_comes_again_counts_once() {
    let mut master = Master::classic(config(), LogRange { minimum: at(0), end: at(1_000) });
    let mut reached = |event| {
        master.step(0, event, &mut Vec::new());
        master.reached(AckRequirement::Acks(3))
    };
    reached(MasterEvent::Connected(PeerId(1), HostId(1)));
    assert_eq!(reached(MasterEvent::Reported(PeerId(1), at(1_000))), None);
    // Another slave of this host, or the same one, whose first connection broke in silence.
    reached(MasterEvent::Connected(PeerId(2), HostId(1)));
    assert_eq!(reached(MasterEvent::Reported(PeerId(2), at(900))), None, "the first connection may be dead");
    assert_eq!(reached(MasterEvent::Reported(PeerId(1), at(1_000))), Some(at(900)), "it is not");
    assert_eq!(
        reached(MasterEvent::Connected(PeerId(3), HostId(1))),
        Some(at(900)),
        "nothing is known of the third"
    );
    assert_eq!(reached(MasterEvent::Connected(PeerId(4), HostId(2))), Some(at(900)));
    assert_eq!(reached(MasterEvent::Reported(PeerId(4), at(800))), Some(at(900)), "another host");
}

fn slave_event(words: &[&str]) -> SlaveEvent {
    let attempt = |word: usize| Attempt(number(words[word]));
    match words[0] {
        "master" => SlaveEvent::Master((words[1] != "none").then(|| words[1].to_owned())),
        "connected" => SlaveEvent::Connected(attempt(1)),
        "closed" => SlaveEvent::Closed(attempt(1)),
        "part" => SlaveEvent::Part(attempt(1)),
        "frame" => {
            let body_bytes = u32::try_from(number(words[3])).expect("small");
            let head = FrameHead::Classic(Header { offset: offset(words[2]), body_bytes });
            SlaveEvent::Frame(attempt(1), MasterFrame::Transfer(head))
        }
        "garbage" => {
            SlaveEvent::Malformed(attempt(1), FrameError::TooLarge { max: 4_194_292, found: 4_194_293 })
        }
        "appended" => SlaveEvent::Appended(offset(words[1])),
        "flushed" => SlaveEvent::Flushed(offset(words[1])),
        "failed" => SlaveEvent::LogFailed,
        "settled" => SlaveEvent::Settled {
            end: offset(words[1]),
            last_record: Some(offset(words[2])..offset(words[3])),
        },
        "equal" => SlaveEvent::Compared(None),
        "differs" => SlaveEvent::Compared(Some(offset(words[1]))),
        "timer" => SlaveEvent::Timer,
        "stop" => SlaveEvent::Stop,
        other => panic!("no event is called {other}"),
    }
}

fn run_slave(script: &str, config: SlaveConfig, end: u64) {
    let mut slave = Slave::classic(SlaveConfig { file_bytes: 1_000, ..config }, at(end), at(end));
    check(script, |now_ms, words, out| slave.step(now_ms, slave_event(words), out));
}

#[test]
fn a_slave_follows() {
    run_slave("tests/scripts/classic/slave.txt", SlaveConfig::default(), 0);
}

#[test]
fn a_slave_waits_for_a_frame_that_comes_slowly() {
    run_slave("tests/scripts/classic/slave_slow.txt", SlaveConfig::default(), 900);
}

#[test]
fn a_slave_with_sync_flush_reports_what_is_on_disk() {
    let config = SlaveConfig { is_sync_flush: true, ..SlaveConfig::default() };
    run_slave("tests/scripts/classic/slave_sync_flush.txt", config, 100);
}

#[test]
fn a_slave_leaves_a_master_that_sends_something_else() {
    run_slave("tests/scripts/classic/slave_bad_input.txt", SlaveConfig::default(), 900);
}

#[test]
fn a_slave_compares_its_last_record_before_it_follows() {
    run_slave("tests/scripts/classic/slave_compares.txt", SlaveConfig::default(), 900);
}

#[derive(Clone, Debug)]
enum Chance {
    Connect(u64),
    Report(u64, u64),
    Sent(u64),
    Close(u64),
    Grow(u64),
    Wait(u64, u32),
    Pass(u64),
}

fn chance() -> impl Strategy<Value = Chance> {
    prop_oneof![
        (0..4_u64).prop_map(Chance::Connect),
        (0..4_u64, 0..700_u64).prop_map(|(peer, offset)| Chance::Report(peer, offset)),
        (0..4_u64).prop_map(Chance::Sent),
        (0..4_u64).prop_map(Chance::Close),
        (1..200_u64).prop_map(Chance::Grow),
        (0..600_u64, 2..4_u32).prop_map(|(end, need)| Chance::Wait(end, need)),
        (1..4_000_u64).prop_map(Chance::Pass),
    ]
}

proptest! {
    /// Sends arbitrary reports of slaves. The master trusts no report beyond the sent bytes. Every response leaves
    /// once and in time. A response confirms replicas only if as many distinct slaves reported the message.
    #[test]
    fn no_report_completes_an_answer_falsely(chances in proptest::collection::vec(chance(), 1..80)) {
        let mut master = Master::classic(config(), LogRange { minimum: at(0), end: at(0) });
        let mut now_ms = 0;
        let mut end = 0;
        // The believable acknowledgements of each connection: offsets not above what was sent.
        let mut sent: BTreeMap<PeerId, u64> = BTreeMap::new();
        let mut acks: BTreeMap<PeerId, u64> = BTreeMap::new();
        let mut waiting: BTreeMap<Ticket, (u64, u32, u64)> = BTreeMap::new();
        let mut current: BTreeMap<u64, PeerId> = BTreeMap::new();
        let mut formers: BTreeMap<u64, Vec<PeerId>> = BTreeMap::new();
        for (number, chance) in (0..).zip(chances) {
            let peer = |slave: u64| current.get(&slave).copied().unwrap_or(PeerId(u64::MAX));
            let event = match chance {
                Chance::Connect(slave) => {
                    if let Some(former) = current.insert(slave, PeerId(number)) {
                        // The old connection of a slave stays, as it does when its end was not noticed.
                        prop_assert!(former != PeerId(number));
                        formers.entry(slave).or_default().push(former);
                    }
                    MasterEvent::Connected(PeerId(number), HostId(slave.into()))
                }
                Chance::Report(slave, reported) => MasterEvent::Reported(peer(slave), at(reported)),
                Chance::Sent(slave) => MasterEvent::Sent(peer(slave)),
                Chance::Close(slave) => {
                    let closed = peer(slave);
                    current.remove(&slave);
                    acks.remove(&closed);
                    MasterEvent::Closed(closed)
                }
                Chance::Grow(bytes) => {
                    end += bytes;
                    MasterEvent::Log(LogRange { minimum: at(0), end: at(end) })
                }
                Chance::Wait(position, need) => {
                    waiting.insert(Ticket(number), (position.min(end), need, now_ms + 3_000));
                    MasterEvent::Wait(PendingResponse { ticket: Ticket(number), end: at(position.min(end)), need: AckRequirement::Acks(need) })
                }
                Chance::Pass(ms) => {
                    now_ms += ms;
                    MasterEvent::Timer
                }
            };
            if let MasterEvent::Reported(peer, reported) = event {
                let limit = *sent.get(&peer).unwrap_or(&end);
                if peer != PeerId(u64::MAX) && reported.get() <= limit {
                    acks.insert(peer, reported.get());
                    let slave = current.iter().find(|(_, it)| **it == peer).expect("the current one reports").0;
                    for former in formers.remove(slave).into_iter().flatten() {
                        acks.remove(&former);
                    }
                    let start = if reported == LogOffset::ZERO { end - end % 1_000 } else { reported.get() };
                    sent.entry(peer).or_insert(start);
                }
            }
            let mut out = Vec::new();
            master.step(now_ms, event, &mut out);
            for action in out {
                match action {
                    MasterAction::Send(peer, head) => {
                        let (from, bytes) = head.piece();
                        prop_assert_eq!(sent.get(&peer), Some(&from.get()));
                        prop_assert!(from.get() + u64::from(bytes) <= end);
                        sent.insert(peer, from.get() + u64::from(bytes));
                    }
                    MasterAction::Answer(ticket, status) => {
                        let (position, need, deadline_ms) = waiting.remove(&ticket).expect("answered once");
                        let having: BTreeSet<PeerId> =
                            acks.iter().filter(|(_, ack)| **ack >= position).map(|(peer, _)| *peer).collect();
                        match status {
                            AckStatus::Ok => prop_assert!(having.len() + 1 >= need as usize, "{having:?} of {need}"),
                            AckStatus::FlushSlaveTimeout => prop_assert!(now_ms >= deadline_ms),
                            other => prop_assert!(false, "{other:?}"),
                        }
                    }
                    MasterAction::Close(peer, _) => {
                        current.retain(|_, it| *it != peer);
                        acks.remove(&peer);
                    }
                    MasterAction::Warn(..) | MasterAction::WakeAt(_) => {}
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            for peer in master.peers() {
                prop_assert!(peer.acknowledged <= peer.next, "{peer:?}");
            }
        }
        let mut out = Vec::new();
        master.step(now_ms, MasterEvent::Stop, &mut out);
        let answered = out.iter().filter(|action| matches!(action, MasterAction::Answer(..))).count();
        prop_assert_eq!(answered, waiting.len(), "nobody waits for ever");
    }
}
