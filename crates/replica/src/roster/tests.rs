use super::*;
use crate::in_sync::SetEpoch;
use crate::testing::{check, number, offset};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::ha::{BrokerId, Epoch};

fn id(word: &str) -> BrokerId {
    BrokerId::new(number(word))
}

fn small(word: &str) -> u32 {
    u32::try_from(number(word)).expect("small")
}

fn members(word: &str) -> BTreeSet<BrokerId> {
    word.split(',').map(id).collect()
}

fn text(word: &str) -> String {
    word.to_owned()
}

fn request(words: &[&str]) -> Request {
    match words[0] {
        "next-id" => Request::NextId(text(words[1])),
        "apply-id" => Request::ApplyId {
            cluster: text("c"),
            name: text(words[1]),
            broker: id(words[2]),
            check_code: text(words[3]),
        },
        "register" => Request::Register(Registration {
            name: text(words[1]),
            broker: id(words[2]),
            address: text(words[3]),
            may_have_lost: words.get(4) == Some(&"unclean"),
            log_epoch: words.get(5).map(|word| Epoch::new(small(word))),
            log_end: words.get(4).and_then(|word| word.strip_prefix("end=")).map(offset),
        }),
        "alter" => Request::AlterSet(AlterSet {
            name: text(words[1]),
            master: id(words[2]),
            master_epoch: Epoch::new(small(words[3])),
            members: members(words[4]),
            epoch: SetEpoch(small(words[5])),
        }),
        "elect" => Request::Elect(Election {
            name: text(words[1]),
            broker: (words[2] != "none").then(|| id(words[2])),
            is_designated: words.get(3) == Some(&"designated"),
        }),
        "info" => Request::ReplicaInfo(text(words[1])),
        "state" => Request::SyncState(words[1..].iter().map(|name| text(name)).collect()),
        "clean" => Request::Clean(Clean {
            name: text(words[1]),
            ids: words.get(2).filter(|ids| **ids != "all").map(|ids| text(ids)).unwrap_or_default(),
            is_forced: words.get(3) == Some(&"forced"),
        }),
        other => panic!("no request is called {other}"),
    }
}

/// Runs a script on a controller whose proposals are committed at once, except between `hold` and `release`.
fn run(script: &str, config: LeaderConfig) {
    let mut leader = Leader::new(config, Roster::default());
    let mut proposals: VecDeque<(ProposalId, Vec<Change>)> = VecDeque::new();
    let mut is_holding = false;
    let mut requests = 0;
    check(script, |now_ms, words, out| {
        let event = match words[0] {
            "hold" => {
                is_holding = true;
                return;
            }
            "release" => {
                is_holding = false;
                None
            }
            "leads" => Some(LeaderEvent::Leads(true)),
            "resigns" => Some(LeaderEvent::Leads(false)),
            "dropped" => {
                let (proposal, _) = proposals.pop_front().expect("a proposal");
                Some(LeaderEvent::Dropped(proposal))
            }
            "timer" => Some(LeaderEvent::Timer),
            "disconnected" => Some(LeaderEvent::Disconnected(ConnectionId(number(words[1])))),
            "beat" => Some(LeaderEvent::Heartbeat(Heartbeat {
                name: text(words[1]),
                broker: id(words[2]),
                connection: ConnectionId(number(words[3])),
                timeout_ms: 10_000,
                epoch: Some(Epoch::new(small(words[4]))),
                end: offset(words[5]),
                kept: words.get(6).and_then(|word| word.strip_prefix("kept=")).map(offset),
                priority: words.get(6).and_then(|word| word.parse().ok()).unwrap_or(i32::MAX),
            })),
            _ => {
                requests += 1;
                Some(LeaderEvent::Asked(RequestId(requests), request(words)))
            }
        };
        if let Some(event) = event {
            leader.step(now_ms, event, out);
        }
        let mut seen = 0;
        loop {
            for action in &out[seen..] {
                if let LeaderAction::Propose(proposal, changes) = action {
                    proposals.push_back((*proposal, changes.clone()));
                }
            }
            seen = out.len();
            if is_holding {
                break;
            }
            let Some((proposal, changes)) = proposals.pop_front() else { break };
            leader.step(now_ms, LeaderEvent::Committed(Some(proposal), changes), out);
        }
    });
}

#[test]
fn brokers_get_ids_and_register() {
    run("roster/scripts/register.txt", LeaderConfig::default());
}

#[test]
fn the_first_who_asks_is_elected_and_later_the_best_of_the_set() {
    run("roster/scripts/elect.txt", LeaderConfig::default());
}

#[test]
fn a_set_is_altered_by_its_master_alone() {
    run("roster/scripts/alter.txt", LeaderConfig { notifies: false, ..LeaderConfig::default() });
}

#[test]
fn nobody_outside_the_set_is_elected_unless_told_so() {
    run("roster/scripts/unclean.txt", LeaderConfig { may_lose: true, ..LeaderConfig::default() });
}

#[test]
fn a_member_that_may_have_lost_something_leaves() {
    run("roster/scripts/lost.txt", LeaderConfig::default());
}

#[test]
fn a_winner_that_lost_something_before_it_led_gives_way_to_the_former_members() {
    run("roster/scripts/lost_winner.txt", LeaderConfig { notifies: false, ..LeaderConfig::default() });
}

#[test]
fn brokers_are_removed() {
    run("roster/scripts/clean.txt", LeaderConfig { notifies: false, ..LeaderConfig::default() });
}

#[test]
fn decisions_about_a_set_are_made_one_after_the_other() {
    run("roster/scripts/order.txt", LeaderConfig { notifies: false, ..LeaderConfig::default() });
}

#[test]
fn the_longest_log_of_the_newest_epoch_wins() {
    // Broker, epoch, end of log, priority; offsets differ by more than 32 bits tell.
    type Beat = (u64, u32, u64, i32);
    let cases: [(&[Beat], u64); 5] = [
        (&[(1, 3, 10, 5), (2, 3, 10, 5)], 1),
        (&[(1, 3, 10, 5), (2, 3, 10, 4)], 2),
        (&[(1, 3, 10, 5), (2, 3, 11, 9)], 2),
        (&[(1, 4, 10, 5), (2, 3, 11, 5)], 1),
        (&[(1, 3, 1 << 31, 5), (2, 3, 1 << 33, 5)], 2),
    ];
    for (beats, winner) in cases {
        let beats: BTreeMap<BrokerId, Heartbeat> = beats
            .iter()
            .map(|(broker, epoch, end, priority)| {
                let heartbeat = Heartbeat {
                    name: text("a"),
                    broker: BrokerId::new(*broker),
                    connection: ConnectionId(0),
                    timeout_ms: 1,
                    epoch: Some(Epoch::new(*epoch)),
                    end: wire::units::LogOffset::new(*end),
                    kept: None,
                    priority: *priority,
                };
                (heartbeat.broker, heartbeat)
            })
            .collect();
        let brokers = beats.keys().copied().collect();
        let candidates = policy::Candidates { brokers: &brokers, former: None, designated: None };
        let elected = policy::elect(&candidates, |broker| beats.get(&broker));
        assert_eq!(elected, Some(BrokerId::new(winner)), "{beats:?}");
    }
}

#[test]
fn silent_brokers_expire_at_their_own_times() {
    let mut lives = Lives::default();
    let beat = |broker, connection, timeout_ms| Heartbeat {
        name: text("a"),
        broker: BrokerId::new(broker),
        connection: ConnectionId(connection),
        timeout_ms,
        epoch: None,
        end: wire::units::LogOffset::ZERO,
        kept: None,
        priority: 0,
    };
    lives.beat(0, beat(1, 7, 100));
    lives.beat(0, beat(2, 8, 50));
    lives.beat(20, beat(2, 9, 50));
    assert_eq!(lives.wake_at_ms(), Some(71));
    assert!(lives.expire(70).is_empty());
    assert!(lives.disconnect(ConnectionId(8)).is_empty(), "the broker has another connection now");
    assert!(lives.is_alive(70, "a", BrokerId::new(2)) && !lives.is_alive(71, "a", BrokerId::new(2)));
    assert_eq!(lives.expire(71), [(text("a"), BrokerId::new(2))]);
    assert_eq!(lives.disconnect(ConnectionId(7)), [(text("a"), BrokerId::new(1))]);
    assert_eq!(lives.wake_at_ms(), None);
    lives.beat(0, beat(3, 1, u64::MAX));
    assert!(lives.expire(u64::MAX).is_empty());
}

#[test]
fn a_set_without_a_removed_member_has_a_larger_epoch() {
    let mut roster = Roster::default();
    let members: BTreeSet<BrokerId> = [1, 2].map(BrokerId::new).into();
    for broker in members.clone() {
        let details = Broker { address: text("h"), check_code: String::new() };
        roster.apply(Change::IdApplied { cluster: text("c"), name: text("a"), broker, details });
    }
    roster.apply(Change::Elected { name: text("a"), master: Some(BrokerId::new(1)) });
    roster.apply(Change::SetAltered { name: text("a"), members });
    let before = roster.set("a").expect("it has brokers").in_sync.epoch;
    roster.apply(Change::Cleaned { name: text("a"), brokers: [BrokerId::new(2)].into() });
    let after = &roster.set("a").expect("one is left").in_sync;
    assert_eq!((after.members.clone(), after.epoch), ([BrokerId::new(1)].into(), SetEpoch(before.0 + 1)));
}
