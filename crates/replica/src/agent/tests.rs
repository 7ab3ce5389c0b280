use super::*;
use crate::in_sync::CommittedSet;
use crate::testing::{check, number};
use std::collections::BTreeMap;
use wire::units::LogOffset;

fn small(word: &str) -> u32 {
    u32::try_from(number(word)).expect("small")
}

fn id(word: &str) -> BrokerId {
    BrokerId::new(number(word))
}

/// A master as `2@h2` or `none`, its epoch, the members of the set as `1,2`, and the set's epoch.
fn mastership(words: &[&str]) -> Mastership {
    let master = words[0].split_once('@').map(|(broker, address)| (id(broker), Some(address.to_owned())));
    let members = words[2].split(',').map(id).collect();
    let in_sync = CommittedSet { members, epoch: SetEpoch(small(words[3])) };
    Mastership { master, epoch: Epoch::new(small(words[1])), in_sync, members: BTreeMap::new() }
}

fn answer(words: &[&str]) -> Option<ControllerResponse> {
    let code = words[0].parse().ok()?;
    let content = match words.get(1) {
        Some(&"id") => Content::NextId(id(words[2])),
        Some(&"master") => Content::Master(mastership(&words[2..])),
        Some(&"set") => Content::Set(mastership(&["none", "0", words[2], words[3]]).in_sync),
        _ => Content::None,
    };
    Some(ControllerResponse { code, remark: None, content })
}

fn event(words: &[&str]) -> AgentEvent {
    let call = |word: usize| CallId(number(words[word]));
    match words[0] {
        "start" => {
            AgentEvent::Start(words.get(1).map(|text| BrokerIdentity::from_file(text).expect("an identity")))
        }
        "leader" => AgentEvent::Leader(call(1), (words[2] != "none").then(|| words[2].to_owned())),
        "answer" => AgentEvent::Answered(call(1), answer(&words[2..])),
        "saved" => AgentEvent::Saved,
        "notified" => AgentEvent::Notified(Epoch::new(small(words[1]))),
        "propose" => AgentEvent::ProposeSet(words[1].split(',').map(id).collect(), SetEpoch(small(words[2]))),
        "stalled" => {
            let heirs = words.get(2).map(|heirs| heirs.split(',').map(id).collect());
            AgentEvent::DiskStalled(number(words[1]), heirs.unwrap_or_default())
        }
        "timer" => AgentEvent::Timer,
        other => panic!("no event is called {other}"),
    }
}

fn run(script: &str) {
    run_with(script, Epoch::ZERO);
}

fn run_with(script: &str, log_epoch: Epoch) {
    let config = AgentConfig {
        cluster: "c".to_owned(),
        name: "a".to_owned(),
        address: "h1:1".to_owned(),
        check_code: "h1:1;55".to_owned(),
        controllers: vec!["k1".to_owned(), "k2".to_owned()],
        log_epoch,
        log_end: Some(LogOffset::new(70)),
        may_have_lost: true,
        ..AgentConfig::default()
    };
    let mut agent = Agent::new(config);
    check(script, |now_ms, words, out| agent.step(now_ms, event(words), out));
}

#[test]
fn a_new_broker_gets_an_id_and_is_elected() {
    run("agent/scripts/first_start.txt");
}

#[test]
fn a_broker_that_has_an_id_takes_the_role_it_is_told() {
    run("agent/scripts/restart.txt");
}

#[test]
fn a_slave_follows_its_master_to_another_address() {
    run("agent/scripts/moved_master.txt");
}

#[test]
fn a_notice_is_believed_when_the_controllers_say_the_same() {
    run("agent/scripts/notice.txt");
}

#[test]
fn an_id_that_was_applied_for_is_not_given_up() {
    run("agent/scripts/temporary_id.txt");
}

#[test]
fn a_store_of_another_broker_is_refused() {
    run("agent/scripts/other_broker.txt");
}

#[test]
fn a_role_with_an_older_epoch_than_the_log_is_refused() {
    run_with("agent/scripts/stale_epoch.txt", Epoch::new(5));
}

#[test]
fn a_master_proposes_sets_and_learns_what_became_of_them() {
    run("agent/scripts/propose.txt");
}

#[test]
fn a_master_whose_disk_stalls_gives_its_role_to_a_member_that_has_everything() {
    run("agent/scripts/resign.txt");
}

/// Ids of the heirs of a master of `1,2,3` after the events, which are given as `@time event`.
fn heirs_after(script: &str) -> Vec<u64> {
    let config = AgentConfig { controllers: vec!["k1".to_owned()], ..AgentConfig::default() };
    let mut agent = Agent::new(AgentConfig { name: "a".to_owned(), cluster: "c".to_owned(), ..config });
    let elected = "@0 start c#a#1\n@0 leader 1 k1\n@1 answer 2 0 master 1@h1:1 3 1,2,3 7\n";
    for line in elected.lines().chain(script.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        agent.step(number(words[0].trim_start_matches('@')), event(&words[1..]), &mut Vec::new());
    }
    agent.heirs().iter().map(|heir| heir.get()).collect()
}

#[test]
fn an_heir_counts_until_the_controllers_cannot_elect_it_any_more() {
    let resigns = "@4000 stalled 3000 2,3\n";
    let after = |more: &str| heirs_after(&format!("{resigns}{more}"));
    assert_eq!(heirs_after("@4000 stalled 2999 2,3"), [0; 0]);
    assert_eq!(after(""), [2]);
    assert_eq!(after("@4001 answer 3 2012"), [0; 0], "rejected");
    assert_eq!(after("@4001 answer 3 0 master 2@h2:1 4 2 9"), [2], "elected, and not adopted yet");
    let back = "@4001 answer 3 0 master 2@h2:1 4 2 9\n@4002 answer 4 0 master 1@h1:1 5 1,2 10\n";
    assert_eq!(after(back), [2], "master again before the request is out of date");
    let lost = "@4001 answer 3 lost\n";
    assert_eq!(after(lost), [2], "the request may still be performed");
    for open in ["2007", "1", "2011"] {
        let open = format!("@4001 answer 3 {open}\n");
        assert_eq!(after(&open), [2], "the election may have happened");
        assert_eq!(after(&format!("{open}@34001 timer")), [0; 0]);
    }
    let two = format!("{lost}@8000 stalled 7000 2,3\n");
    assert_eq!(after(&two), [2, 3]);
    assert_eq!(after(&format!("{two}@8001 answer 5 2012")), [2, 3]);
    assert_eq!(after(&format!("{lost}@34000 timer")), [2]);
    assert_eq!(after(&format!("{lost}@34001 timer")), [0; 0]);
}

#[test]
fn a_broker_learns_that_the_controllers_do_not_know_it() {
    run("agent/scripts/unknown.txt");
}

#[test]
fn identity_files_are_those_of_java() {
    let java = "DefaultCluster#broker-a#2";
    let identity = BrokerIdentity::from_file(java).expect("an identity");
    assert_eq!((identity.broker, identity.check_code.as_deref()), (BrokerId::new(2), None));
    assert_eq!(identity.to_file(), java);
    let java = "DefaultCluster#broker-a#2#10.0.0.9:10911;1700000000123";
    let identity = BrokerIdentity::from_file(java).expect("an identity");
    assert_eq!(identity.check_code.as_deref(), Some("10.0.0.9:10911;1700000000123"));
    assert_eq!(identity.to_file(), java);
    for text in ["", "c#a", "c#a#x", "c#a#-1", "c#a#1#code#more"] {
        assert_eq!(BrokerIdentity::from_file(text), Err(IdentityError::Format(text.to_owned())));
    }
}
