//! Memory between two looks: brokers and proxies that were there and are gone, and groups that do not move.

use super::bundle::{Bundle, Departed};
use super::checks::refusals::COUNTS;
use super::finding::{State, Verdict};
use super::gather::masters;
use super::standstill::Standstill;
use crate::Lang;
use host::Facts;
use std::collections::BTreeMap;

/// Time for which servers are remembered.
const REMEMBERED_MS: i64 = 24 * 3_600_000;
/// Time within which members of a group send heartbeats to a master that started: two intervals of 30 s
/// (`ClientConfig.heartbeatBrokerInterval`).
const HEARTBEATS_MS: i64 = 60_000;
/// Difference of the clocks of two machines that is no finding.
const SKEW_MS: i64 = 5000;
/// Time after the last refused request for which the refusals are a finding.
const REFUSED_MS: i64 = 8000;
/// Time after the last killed process of the control group for which the kills are a finding.
const KILLED_MS: i64 = 3_600_000;
/// Looks whose counts of the control group are remembered.
const LOOKS_MAX: usize = 100;
/// Checks whose findings can pass by themselves: members that rebalance, clients that restart, brokers that register or process what
/// waited while they were stopped.
const PASSING: [&str; 7] = [
    "group-offline-with-lag",
    "queue-without-owner",
    "queue-with-two-owners",
    "name-servers-disagree",
    "routes-disagree",
    "slave-not-connected",
    "pop-revive-behind",
];
/// Time after which a finding of a check in [`PASSING`] is shown, by fronts that look again and again.
const SETTLE_MS: i64 = 4000;
/// Servers that are remembered; new servers are not noted beyond that.
const SERVERS_MAX: usize = 10_000;

/// Servers that earlier looks found.
#[derive(Debug, Default)]
pub struct Memory {
    /// Servers by whether it is a proxy, name and address; each with the time of the look since which the server has
    /// been there.
    servers: BTreeMap<(bool, String, String), (i64, Departed)>,
    /// Time of the last look.
    looked_ms: i64,
    /// Counts of refused requests by address and name, each with the time of the look that found it grown.
    counts: BTreeMap<(String, &'static str), (f64, i64)>,
    /// Counts of the control group of this machine, each with the time of its look; the first is [`REFUSED_MS`] old.
    machine: Vec<(i64, Facts)>,
    /// Killed processes of the control group that are no finding, all killed processes, and the time of the look that found the last.
    killed: Option<(u64, u64, i64)>,
    /// Findings of checks in [`PASSING`] by check and subject, each with the time of the look that found it first; `None` before the
    /// first look, whose findings are all shown.
    passing: Option<BTreeMap<(&'static str, String), i64>>,
    /// Groups with lag at earlier looks.
    pub(super) groups: Standstill,
}

impl Memory {
    /// Notes the servers of a bundle, and adds lost servers to it. If a name server reports departures itself, lost
    /// brokers are left to it, because it knows whether a broker was stopped.
    pub(super) fn note(&mut self, bundle: &mut Bundle) {
        let now_ms = bundle.taken_at_ms;
        let brokers = bundle.brokers.iter().map(|it| Departed {
            cluster: it.cluster.clone(),
            name: it.name.clone(),
            id: it.id,
            address: it.address.clone(),
            ..Departed::default()
        });
        let proxies = bundle.proxies.iter().map(|it| Departed {
            name: it.client_id.clone(),
            address: it.host.clone(),
            is_proxy: true,
            ..Departed::default()
        });
        for server in brokers.chain(proxies) {
            let key = (server.is_proxy, server.name.clone(), server.address.clone());
            if self.servers.len() < SERVERS_MAX || self.servers.contains_key(&key) {
                let (since_ms, noted) = self.servers.entry(key).or_insert((now_ms, Departed::default()));
                if noted.seen_ms < self.looked_ms {
                    *since_ms = now_ms;
                }
                *noted = Departed { seen_ms: now_ms, ..server };
            }
        }
        self.looked_ms = now_ms;
        self.servers.retain(|_, (_, server)| now_ms - server.seen_ms <= REMEMBERED_MS);
        let is_told = bundle.name_servers.iter().any(|server| server.departed.is_some());
        // Without the answer of a name server nothing is known of brokers.
        let is_blind = bundle.name_servers.iter().all(|server| server.error.is_some());
        let gone = self.servers.values().map(|(_, server)| server).filter(|server| {
            let is_judged = if server.is_proxy { knows_proxies(bundle, server.seen_ms) } else { !is_told };
            server.seen_ms < now_ms && !is_blind && is_judged && !self.is_replaced(server)
        });
        let gone: Vec<Departed> = gone.cloned().collect();
        bundle.departed.get_or_insert_default().extend(gone);
        self.note_counts(bundle);
    }

    /// Takes findings out of verdicts that may pass by themselves before [`SETTLE_MS`].
    pub(super) fn settle(&mut self, verdicts: &mut [Verdict], now_ms: i64) {
        let mut now_found: BTreeMap<(&str, String), i64> = BTreeMap::new();
        for verdict in verdicts.iter_mut().filter(|verdict| PASSING.contains(&verdict.code)) {
            verdict.findings.retain(|finding| {
                let key = (verdict.code, finding.subject.of(Lang::En).to_owned());
                let since_ms = match &self.passing {
                    None => i64::MIN,
                    Some(before) => before.get(&key).copied().unwrap_or(now_ms).min(now_ms),
                };
                now_found.insert(key, since_ms);
                now_ms.saturating_sub(since_ms) >= SETTLE_MS
            });
            if verdict.state == State::Finding && verdict.findings.is_empty() {
                verdict.state = State::Pass;
            }
        }
        self.passing = Some(now_found);
    }

    /// Notes which counts of refused requests have not grown lately. The first look at a broker cannot tell when its count grew.
    fn note_counts(&mut self, bundle: &mut Bundle) {
        let now_ms = bundle.taken_at_ms;
        for broker in bundle.brokers.iter_mut().take(SERVERS_MAX) {
            for name in COUNTS {
                let Some(count) = broker.figure(name) else { continue };
                let (noted, grown_ms) =
                    self.counts.entry((broker.address.clone(), name)).or_insert((count, i64::MIN));
                // The clock of this machine may have been set back.
                *grown_ms = if count > *noted { now_ms } else { (*grown_ms).min(now_ms) };
                *noted = count;
                if now_ms.saturating_sub(*grown_ms) > REFUSED_MS {
                    broker.steady.insert(name.to_owned());
                }
            }
        }
        let is_there = |address: &String| bundle.brokers.iter().any(|broker| broker.address == *address);
        self.counts.retain(|(address, _), _| is_there(address));
    }

    /// Adds the growth of the counts of the control group within [`REFUSED_MS`], or since the look before. Killed processes count for
    /// [`KILLED_MS`]; those before the first look are left out, because their time is unknown.
    pub(super) fn note_machine(&mut self, facts: Facts, now_ms: i64) -> Facts {
        self.machine.push((now_ms, facts.counts()));
        let is_old = |looks: &[(i64, Facts)]| now_ms.saturating_sub(looks[1].0) >= REFUSED_MS;
        while self.machine.len() > LOOKS_MAX || self.machine.len() > 2 && is_old(&self.machine) {
            self.machine.remove(0);
        }
        let mut facts = match &self.machine[..] {
            // A single look cannot tell when the counts grew.
            [_] => facts,
            looks => facts.since(&looks[0].1),
        };
        if let Some(count) = facts.group_memory_kills.take() {
            let (steady, noted, killed_ms) = self.killed.get_or_insert((count, count, now_ms));
            // The clock of this machine may have been set back.
            *killed_ms = if count > *noted { now_ms } else { (*killed_ms).min(now_ms) };
            *noted = count;
            if now_ms.saturating_sub(*killed_ms) > KILLED_MS {
                *steady = count;
            }
            let grown = count.saturating_sub(*steady);
            facts.group_memory_kills_grown = facts.group_memory_kills_grown.map(|_| grown);
        }
        facts
    }

    /// Whether a server came after this server in its place: a broker under its name and id, or a proxy on its machine.
    fn is_replaced(&self, gone: &Departed) -> bool {
        self.servers.values().any(|(since_ms, server)| {
            let is_same_place = match gone.is_proxy {
                true => server.is_proxy && server.address == gone.address,
                false => !server.is_proxy && (&server.name, server.id) == (&gone.name, gone.id),
            };
            is_same_place && *since_ms > gone.seen_ms
        })
    }
}

/// Whether a master answers that knew the proxies of a look at `seen_ms`, or to which all running proxies have sent their heartbeats
/// since. A master forgets members when it starts.
fn knows_proxies(bundle: &Bundle, seen_ms: i64) -> bool {
    masters(bundle).any(|master| {
        let started_ms = master.text("bootTimestamp").and_then(|text| text.parse::<i64>().ok());
        started_ms.is_none_or(|started_ms| {
            started_ms + SKEW_MS < seen_ms || bundle.taken_at_ms.saturating_sub(started_ms) > HEARTBEATS_MS
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::checks::{self, tests::healthy};
    use super::super::finding::judge;
    use super::*;
    use crate::doctor::bundle::Proxy;

    /// Addresses of servers that are gone after a look, `seconds` after the first.
    fn look(memory: &mut Memory, seconds: i64, change: impl FnOnce(&mut Bundle)) -> Vec<String> {
        let mut bundle = healthy();
        bundle.taken_at_ms += seconds * 1000;
        bundle.departed = None;
        let proxy = |id: &str| Proxy { client_id: format!("10.0.0.1@{id}"), host: "10.0.0.1".into() };
        bundle.proxies = vec![proxy("1"), proxy("2")];
        change(&mut bundle);
        memory.note(&mut bundle);
        bundle
            .departed
            .unwrap()
            .into_iter()
            .map(|it| if it.is_proxy { it.name } else { it.address })
            .collect()
    }

    #[test]
    fn refused_requests_are_a_finding_while_their_count_grows() {
        let mut memory = Memory::default();
        let mut is_found = |seconds: i64, count: &str| {
            let mut bundle = healthy();
            bundle.taken_at_ms += seconds * 1000;
            bundle.brokers[0].runtime.as_mut().unwrap().insert("refusedDiskFull".into(), count.to_owned());
            memory.note(&mut bundle);
            let check = checks::all().filter(|check| check.code == "refused-disk-full");
            !judge(&bundle, check)[0].findings.is_empty()
        };
        assert!(!is_found(0, "7"), "refused before the first look, perhaps long ago");
        assert!(!is_found(2, "7") && is_found(4, "9") && is_found(12, "9"));
        assert!(!is_found(13, "9") && !is_found(14, "0"), "the broker started again");
        assert!(is_found(16, "1"));
    }

    #[test]
    fn a_throttled_control_group_is_a_finding_while_it_is_throttled() {
        let mut memory = Memory::default();
        let mut look = |seconds: i64, throttled: u64, kills: u64| {
            let facts = Facts {
                group_cpu_throttled: Some((throttled, 1000 + u64::try_from(seconds).unwrap() * 10)),
                group_memory_kills: Some(kills),
                ..Facts::default()
            };
            let mut bundle = healthy();
            bundle.host = Some(memory.note_machine(facts, bundle.taken_at_ms + seconds * 1000));
            let checks = checks::all().filter(|check| check.code.starts_with("control-group-"));
            let verdicts = judge(&bundle, checks);
            [0, 1].map(|at: usize| verdicts[at].state)
        };
        let (pass, found) = (State::Pass, State::Finding);
        assert_eq!(look(0, 900, 3), [State::Skip; 2], "the first look cannot tell when it was");
        assert_eq!([look(2, 900, 3), look(4, 905, 4)], [[pass, pass], [found, found]]);
        assert_eq!([look(11, 905, 4), look(13, 905, 4)], [[found, found], [found, pass]]);
    }

    #[test]
    fn a_killed_process_is_a_finding_for_an_hour() {
        let mut memory = Memory::default();
        let mut look = |seconds: i64, kills: u64| {
            let facts = Facts { group_memory_kills: Some(kills), ..Facts::default() };
            let mut bundle = healthy();
            bundle.host = Some(memory.note_machine(facts, bundle.taken_at_ms + seconds * 1000));
            let check = checks::all().filter(|check| check.code == "control-group-memory");
            let verdict = judge(&bundle, check).remove(0);
            verdict.findings.first().map(|finding| finding.figure.of(Lang::En).to_owned())
        };
        assert_eq!([look(0, 3), look(2, 3)], [None, None], "killed before the first look");
        let found = |kills| Some(format!("no limit, {kills} processes ended"));
        assert_eq!([look(4, 4), look(60, 4), look(3600, 4)], [found(1), found(1), found(1)]);
        assert_eq!([look(3601, 6), look(3606, 6), look(7200, 6)], [found(3), found(3), found(3)]);
        assert_eq!([look(7202, 6), look(7204, 6)], [None, None]);
    }

    #[test]
    fn what_may_pass_by_itself_is_shown_when_it_stays() {
        let mut memory = Memory::default();
        let mut is_found = |seconds: i64, is_offline: bool| {
            let mut bundle = healthy();
            bundle.groups[0].is_online = Some(!is_offline);
            bundle.groups[0].progress[0].max += 7;
            let mut verdicts =
                judge(&bundle, checks::all().filter(|check| check.code == "group-offline-with-lag"));
            memory.settle(&mut verdicts, bundle.taken_at_ms + seconds * 1000);
            assert_eq!(verdicts[0].state == State::Finding, !verdicts[0].findings.is_empty());
            !verdicts[0].findings.is_empty()
        };
        assert!(is_found(0, true), "the only look of a front");
        assert!(!is_found(2, false) && !is_found(4, true) && !is_found(6, true) && is_found(8, true));
        assert!(!is_found(10, false) && !is_found(12, true));
    }

    #[test]
    fn servers_that_an_earlier_look_found_are_gone() {
        let mut memory = Memory::default();
        assert!(look(&mut memory, 0, |_| ()).is_empty());
        let lose = |it: &mut Bundle| drop(it.brokers.remove(1));
        assert_eq!(look(&mut memory, 5, lose), ["10.0.0.2:10911"]);
        assert_eq!(look(&mut memory, 10, |it| drop(it.proxies.remove(0))), ["10.0.0.1@1"]);
        let restart = |it: &mut Bundle| it.proxies[0].client_id = "10.0.0.1@3".into();
        assert!(look(&mut memory, 15, restart).is_empty(), "a proxy that was started again has another id");
        let started = |it: &mut Bundle| {
            it.proxies.clear();
            for broker in &mut it.brokers {
                let now_ms = it.taken_at_ms.to_string();
                broker.runtime.as_mut().unwrap().insert("bootTimestamp".into(), now_ms);
            }
        };
        assert!(look(&mut memory, 16, started).is_empty(), "proxies send their heartbeats later");
        let young = |it: &mut Bundle| {
            let started_ms = (it.taken_at_ms - 20_000).to_string();
            it.brokers[0].runtime.as_mut().unwrap().insert("bootTimestamp".into(), started_ms);
        };
        let mut other = Memory::default();
        assert!(look(&mut other, 0, young).is_empty());
        let killed = |it: &mut Bundle| {
            it.brokers.truncate(1);
            it.taken_at_ms -= 5000;
            young(it);
            it.taken_at_ms += 5000;
            it.proxies.clear();
        };
        let lost = look(&mut other, 5, killed);
        assert!(lost.contains(&"10.0.0.1@1".to_owned()), "the master knew the proxies: {lost:?}");
        let silent = |it: &mut Bundle| {
            it.proxies.clear();
            it.brokers.iter_mut().for_each(|broker| broker.error = Some("refused".into()));
        };
        assert!(look(&mut memory, 17, silent).is_empty(), "no master tells of proxies");
        let alone = |it: &mut Bundle| {
            restart(it);
            lose(it);
        };
        assert_eq!(look(&mut memory, 20, alone), ["10.0.0.2:10911"]);
        let moved = |it: &mut Bundle| {
            restart(it);
            it.brokers[1].address = "10.0.0.9:10911".into();
        };
        assert!(look(&mut memory, 25, moved).is_empty());
        assert!(look(&mut memory, 26, restart).is_empty(), "back at the address of before");
        assert!(look(&mut memory, 27, moved).is_empty());
        let told = |it: &mut Bundle| {
            alone(it);
            it.name_servers[0].departed = Some(Vec::new());
        };
        assert!(look(&mut memory, 30, told).is_empty(), "name servers tell");
        let blind = |it: &mut Bundle| {
            restart(it);
            it.brokers.clear();
            it.name_servers.iter_mut().for_each(|it| it.error = Some("refused".into()));
        };
        assert!(look(&mut memory, 35, blind).is_empty());
        assert_eq!(look(&mut memory, 40, alone), ["10.0.0.9:10911"]);
        assert!(look(&mut memory, 60 + 24 * 3600, alone).is_empty(), "a day later");
    }
}
