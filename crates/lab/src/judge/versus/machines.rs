//! Whether the machines of two runs performed alike in their self-tests. If not, a faster server cannot be told from a
//! faster machine, or from one that other programs used less that day.

use crate::archive::{HostFile, Roofline, RunFile};
use crate::judge::RecordedVerdict;
use crate::judge::figures::broker_host_names;
use serde::Serialize;

/// Ratio from which on two self-tests differ. A self-test takes a second or two and varies by a fifth on many machines.
const APART: f64 = 1.5;

/// The limits in which the self-tests of two runs differ, the lab's machine first. A figure that one of them lacks is
/// not compared.
pub fn apart(first: &RunFile, second: &RunFile) -> Vec<RecordedVerdict<Apart>> {
    let labs = first.hosts.first().zip(second.hosts.first());
    let (one, other) = (broker_hosts(first), broker_hosts(second));
    let mut found = Vec::new();
    for (one, other) in labs.into_iter().chain(one.into_iter().zip(other)) {
        if let (Some(before), Some(after)) = (&one.roofline, &other.roofline) {
            found.extend(TESTED.into_iter().filter_map(|(limit, of)| {
                let machines = (one.name.clone(), other.name.clone());
                let apart = Apart { limit, machines, values: (of(before), of(after)) };
                let is_known = apart.values.0 > 0.0 && apart.values.1 > 0.0;
                (is_known && apart.times() >= APART).then_some(RecordedVerdict::Verdict(apart))
            }));
        }
    }
    // The lab's machine may also run a broker.
    found.dedup();
    found
}

fn broker_hosts(file: &RunFile) -> Vec<&HostFile> {
    let names = broker_host_names(file);
    let lab = file.hosts.first().map(|host| host.name.as_str());
    let is_other = |host: &&HostFile| names.contains(&host.name.as_str()) && Some(host.name.as_str()) != lab;
    file.hosts.iter().filter(is_other).collect()
}

/// A limit in which the self-tests of two machines differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Apart {
    /// Limit in which the machines differ.
    pub limit: Tested,
    /// Names of the machines of the first and of the second run.
    pub machines: (String, String),
    /// Figures of the self-tests of both machines, per second.
    pub values: (f64, f64),
}

/// A figure of a self-test that two machines are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "fields of `Roofline`")]
pub enum Tested {
    DiskWrite,
    DiskFlushes,
    Loopback,
    RoundTrips,
    LabMessages,
    Crc,
}

type Of = fn(&Roofline) -> f64;

/// Figures of self-tests that are compared, each with its member of [`Roofline`].
const TESTED: [(Tested, Of); 6] = [
    (Tested::DiskWrite, |all| all.disk_write_bytes),
    (Tested::DiskFlushes, |all| all.disk_flushes),
    (Tested::Loopback, |all| all.net_bytes),
    (Tested::RoundTrips, |all| all.net_round_trips),
    (Tested::LabMessages, |all| all.lab_messages),
    (Tested::Crc, |all| all.cpu_crc_bytes),
];

impl Apart {
    /// Ratio of the larger figure to the smaller figure.
    pub fn times(&self) -> f64 {
        let (one, other) = self.values;
        (one / other).max(other / one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::testing;
    use crate::sentences::Sentence;

    fn said(change: impl Fn(&mut Roofline)) -> Vec<String> {
        let (first, mut second) = (testing::file(), testing::file());
        change(second.hosts[1].roofline.as_mut().expect("the fixture has one"));
        apart(&first, &second).into_iter().map(|apart| apart.sentence().en).collect()
    }

    #[test]
    fn machines_whose_self_tests_differ_are_apart() {
        let flushes = "self-tests differ 4.00 times in disk flushes: 8,000/s on b1 in A, 2,000/s on b1 in B";
        assert_eq!(said(|roofline| roofline.disk_flushes /= 4.0), [flushes]);
        assert_eq!(said(|roofline| roofline.lab_messages *= 2.0).len(), 1);
        assert!(said(|roofline| roofline.disk_flushes /= 1.3).is_empty());
        assert!(said(|roofline| roofline.disk_flushes = 0.0).is_empty(), "nobody measured it");
    }
}
