//! Findings of one cause: the cause first, then its consequences.

use super::finding::{Finding, Things};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Things that a cause and its consequence have in common.
#[derive(Clone, Copy)]
enum Common {
    /// The consumer group.
    Group,
    /// The broker set.
    Set,
    /// The address of a server.
    Address,
    /// No subject: the cause concerns the whole cluster.
    Cluster,
}

impl Common {
    fn name(self, things: &Things) -> Option<&str> {
        match self {
            Self::Group => things.group.as_deref(),
            Self::Set => things.broker.as_deref(),
            Self::Address => things.address.as_deref(),
            Self::Cluster => Some(""),
        }
    }
}

/// Consequences of findings: the cause, the thing that cause and consequence have in common, the checks of the
/// consequences. Earlier rows are deeper causes: a finding with two possible causes gets the first.
const CAUSES: &[(&str, Common, &[&str])] = &[
    ("broker-silent", Common::Address, &["broker-lost", "replica-lost", "slave-not-connected"]),
    ("replica-lost", Common::Address, &["broker-lost"]),
    ("replica-lost", Common::Set, SET_BROKEN),
    ("broker-silent", Common::Set, SET_BROKEN),
    ("broker-lost", Common::Set, SET_BROKEN),
    ("replication-address", Common::Set, SET_BROKEN),
    ("slave-not-in-sync", Common::Set, &["too-few-in-sync", "too-few-acks"]),
    ("slave-not-connected", Common::Set, &["too-few-in-sync", "too-few-acks"]),
    ("set-lost", Common::Cluster, &["no-broker"]),
    ("name-server-silent", Common::Address, &["certificate-expired"]),
    ("controller-silent", Common::Cluster, &["no-controller-leader", "unknown-to-controllers"]),
    ("no-broker", Common::Cluster, &["name-servers-disagree", "routes-disagree"]),
    ("name-servers-disagree", Common::Cluster, &["routes-disagree", "no-master"]),
    ("two-masters", Common::Set, &["write-permission-wiped", "slave-not-connected", "settings-differ"]),
    ("write-permission-wiped", Common::Cluster, &["routes-disagree"]),
    ("client-ids-equal", Common::Group, GROUP_STUCK),
    ("subscriptions-conflict", Common::Group, GROUP_STUCK),
    ("group-disabled", Common::Group, GROUP_STUCK),
    ("group-offline-with-lag", Common::Group, GROUP_STUCK),
    ("listener-hangs", Common::Group, GROUP_STUCK),
    (
        "listener-fails",
        Common::Group,
        &["group-retry-storm", "group-dead-letters", "group-not-moving", "group-lag-expires"],
    ),
    ("member-silent", Common::Group, GROUP_STUCK),
    ("queue-with-two-owners", Common::Group, GROUP_STUCK),
    ("owner-does-not-consume", Common::Group, GROUP_STUCK),
    ("owner-does-not-pull", Common::Group, GROUP_STUCK),
    ("lock-held-idle", Common::Group, GROUP_STUCK),
    ("queue-without-owner", Common::Group, GROUP_STUCK),
    ("group-retry-storm", Common::Group, &["group-not-moving", "group-lag-expires", "group-dead-letters"]),
    ("group-not-moving", Common::Group, &["group-lag-expires", "retention-held"]),
    ("group-lag-expires", Common::Group, &["retention-held"]),
    ("disk-stalled", Common::Address, DISK_SLOW),
    ("threads-stopped", Common::Address, LATE),
    ("broker-inactive", Common::Address, LATE),
    ("retention-held", Common::Address, DISK_FULL),
    ("disk-refuses", Common::Address, DISK_FULL),
    ("disk-deletes-unexpired", Common::Address, DISK_FULL),
    ("disk-deletes-early", Common::Address, DISK_FULL),
    ("sends-refused-for-space", Common::Address, DISK_FULL),
    ("disk-full-soon", Common::Address, &["refused-disk-full"]),
    ("halves-undecided", Common::Set, &["halves-given-up"]),
];

/// Consequences of a lost member of a broker set.
const SET_BROKEN: &[&str] = &[
    "set-lost",
    "no-master",
    "slave-not-connected",
    "too-few-in-sync",
    "too-few-acks",
    "master-flushes-alone",
];
/// Consequences of a fault in a consumer group.
const GROUP_STUCK: &[&str] = &[
    "listener-hangs",
    "owner-does-not-consume",
    "owner-does-not-pull",
    "queue-without-owner",
    "queue-with-two-owners",
    "lock-held-idle",
    "group-not-moving",
    "group-retry-storm",
    "group-lag-expires",
    "retention-held",
];
/// Consequences of a full disk.
const DISK_FULL: &[&str] = &[
    "disk-refuses",
    "disk-deletes-unexpired",
    "disk-deletes-early",
    "sends-refused-for-space",
    "disk-full-soon",
    "refused-disk-full",
];
/// Consequences of a disk that stands still.
const DISK_SLOW: &[&str] = &[
    "refused-disk-slow",
    "refused-cold-reads",
    "append-locked",
    "send-queue-waits",
    "dispatch-behind",
    "timer-behind",
    "delay-level-behind",
    "pop-revive-behind",
];
/// Consequences of work that a broker does not do.
const LATE: &[&str] = &["timer-behind", "delay-level-behind", "pop-revive-behind", "dispatch-behind"];

/// Orders findings by severity, each followed by its consequences, and sets `cause` of the consequences.
pub(super) fn arrange(findings: Vec<Finding>) -> Vec<Finding> {
    let mut parents: Vec<Option<usize>> = vec![None; findings.len()];
    for (cause, common, consequences) in CAUSES {
        let mut causes = HashMap::new();
        for (at, finding) in findings.iter().enumerate().filter(|(_, finding)| finding.code == *cause) {
            if let Some(name) = common.name(&finding.things) {
                causes.entry(name).or_insert(at);
            }
        }
        for (at, finding) in findings.iter().enumerate() {
            if parents[at].is_none() && !causes.is_empty() && consequences.contains(&finding.code) {
                let cause = common.name(&finding.things).and_then(|name| causes.get(name));
                parents[at] = cause.map(|cause| root(&parents, *cause)).filter(|root| *root != at);
            }
        }
    }
    let mut firsts = HashMap::new();
    for (at, finding) in findings.iter().enumerate() {
        let Some(same) = same_fault(finding) else { continue };
        let first = *firsts.entry((finding.code, same)).or_insert(at);
        if parents[at].is_none() {
            parents[at] = Some(root(&parents, first)).filter(|root| *root != at);
        }
    }
    in_order(findings, &parents)
}

/// The first cause of a finding: follows the causes to a finding without a cause. Invariant: a finding gets a cause
/// only while it has none, and never itself, so the causes form no circle.
fn root(parents: &[Option<usize>], mut at: usize) -> usize {
    while let Some(parent) = parents[at] {
        at = parent;
    }
    at
}

/// Group of a finding, otherwise its address. Several findings of one check with the same name (queues or members of a
/// group, faults of a server) count as one fault.
fn same_fault(finding: &Finding) -> Option<&str> {
    finding.things.group.as_deref().or(finding.things.address.as_deref())
}

fn in_order(findings: Vec<Finding>, parents: &[Option<usize>]) -> Vec<Finding> {
    let roots: Vec<usize> = (0..findings.len()).map(|at| root(parents, at)).collect();
    let mut gravest: Vec<_> = findings.iter().map(|finding| finding.severity).collect();
    for (finding, root) in findings.iter().zip(&roots) {
        gravest[*root] = gravest[*root].max(finding.severity);
    }
    let mut rows: Vec<_> = findings.into_iter().enumerate().collect();
    // The gravest cause first. The order of the table of checks holds within a severity.
    rows.sort_by_key(|(at, finding)| {
        let root = roots[*at];
        (Reverse(gravest[root]), root, *at != root, Reverse(finding.severity), *at)
    });
    let mut places = vec![0; rows.len()];
    rows.iter().enumerate().for_each(|(place, (at, _))| places[*at] = place);
    rows.into_iter()
        .map(|(at, finding)| match roots[at] == at {
            true => Finding { severity: gravest[at], cause: None, ..finding },
            false => Finding { cause: Some(places[roots[at]]), ..finding },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::checks::{self, tests::healthy};
    use super::super::finding::judge;
    use super::*;
    use crate::doctor::bundle::Bundle;
    use std::collections::BTreeSet;

    /// Findings of a fault, each as severity and code, after its cause.
    fn arranged(fault: impl FnOnce(&mut Bundle)) -> Vec<String> {
        let mut bundle = healthy();
        fault(&mut bundle);
        let findings = judge(&bundle, checks::all()).into_iter().flat_map(|it| it.findings).collect();
        let findings = arrange(findings);
        let line = |it: &Finding| match it.cause {
            None => format!("{} {}", it.severity.name(), it.code),
            Some(cause) => format!("{} < {}", it.code, findings[cause].code),
        };
        findings.iter().map(line).collect()
    }

    #[test]
    fn a_lost_member_is_the_cause_of_refused_sends() {
        let found = arranged(|bundle| {
            bundle.replica_sets[0].members[1].is_alive = false;
            bundle.brokers[0].replication.as_mut().unwrap().in_sync = 0;
            bundle.brokers[0].settings.as_mut().unwrap().insert("minInSyncReplicas".into(), "2".into());
        });
        assert_eq!(found, ["critical replica-lost", "too-few-in-sync < replica-lost"]);
    }

    #[test]
    fn queues_that_stand_still_are_one_fault() {
        let found = arranged(|bundle| {
            let now_ms = bundle.taken_at_ms;
            bundle.groups[0].progress.iter_mut().for_each(|row| {
                row.max = 15;
                row.first_ms = Some(now_ms - 60_000);
            });
            bundle.groups[0].members[1].queues[0].cached = 5;
            bundle.groups[0].members[1].queues[0].last_consume_ms = now_ms - 600_000;
        });
        assert_eq!(
            found,
            [
                "critical owner-does-not-consume",
                "group-not-moving < owner-does-not-consume",
                "group-not-moving < owner-does-not-consume",
                "lock-held-idle < owner-does-not-consume"
            ]
        );
    }

    #[test]
    fn two_brokers_with_one_fault_are_two_causes() {
        let found = arranged(|bundle| {
            bundle.brokers[1..].iter_mut().for_each(|broker| broker.error = Some("refused".into()));
        });
        assert_eq!(found, ["critical broker-silent", "critical broker-silent"]);
    }

    #[test]
    fn every_cause_and_consequence_is_a_check() {
        let known: BTreeSet<_> = checks::all().map(|check| check.code).collect();
        for (cause, _, consequences) in CAUSES {
            assert!(known.contains(cause), "{cause}");
            consequences.iter().for_each(|code| assert!(known.contains(code), "{code}"));
        }
    }
}
