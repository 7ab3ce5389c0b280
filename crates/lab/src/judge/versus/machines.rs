//! Whether the machines of two runs performed alike in their self-tests. If not, a faster server cannot be told from a
//! faster machine, or from one that other programs used less that day.

use crate::archive::{HostFile, Roofline, RunFile};
use crate::judge::figures::broker_host_names;
use crate::judge::{Text, both, numbers};

/// Ratio from which on two self-tests differ. A self-test takes a second or two and varies by a fifth on many machines.
const APART: f64 = 1.5;

/// The limits in which the self-tests of two runs differ, the lab's machine first. A figure that one of them lacks is
/// not compared.
#[must_use]
pub fn apart(first: &RunFile, second: &RunFile) -> Vec<Text> {
    let labs = first.hosts.first().zip(second.hosts.first());
    let (one, other) = (broker_hosts(first), broker_hosts(second));
    let mut found = Vec::new();
    for (one, other) in labs.into_iter().chain(one.into_iter().zip(other)) {
        if let (Some(before), Some(after)) = (&one.roofline, &other.roofline) {
            found.extend(
                limits(before, after).into_iter().filter_map(|limit| limit.says(&one.name, &other.name)),
            );
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

/// A limit that both machines measured.
struct Limit {
    name: Text,
    values: (f64, f64),
    unit: fn(f64) -> String,
}

fn limits(one: &Roofline, other: &Roofline) -> [Limit; 6] {
    let limit =
        |name: Text, of: fn(&Roofline) -> f64, unit| Limit { name, values: (of(one), of(other)), unit };
    [
        limit(both!("disk writes", "磁盘写"), |all| all.disk_write_bytes, numbers::bytes),
        limit(both!("disk flushes", "磁盘 flush"), |all| all.disk_flushes, numbers::count),
        limit(both!("loopback", "本机回环"), |all| all.net_bytes, numbers::bytes),
        limit(both!("loopback round trips", "本机往返"), |all| all.net_round_trips, numbers::count),
        limit(both!("messages of the lab", "压测端消息"), |all| all.lab_messages, numbers::count),
        limit(both!("CRC32", "CRC32"), |all| all.cpu_crc_bytes, numbers::bytes),
    ]
}

impl Limit {
    fn says(self, first: &str, second: &str) -> Option<Text> {
        let (one, other) = self.values;
        let times = (one / other).max(other / one);
        (one > 0.0 && other > 0.0 && times >= APART).then(|| {
            let (times, one, other) = (numbers::short(times), (self.unit)(one), (self.unit)(other));
            let Text { en, zh } = self.name;
            both!(
                "self-tests differ {times} times in {en}: {one}/s on {first} in A, {other}/s on {second} in B",
                "双方自测相差 {times} 倍（{zh}）：A 主机 {first} 为 {one}/s，B 主机 {second} 为 {other}/s"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fixture;

    fn said(change: impl Fn(&mut Roofline)) -> Vec<String> {
        let (first, mut second) = (fixture::file(), fixture::file());
        change(second.hosts[1].roofline.as_mut().expect("the fixture has one"));
        apart(&first, &second).into_iter().map(|text| text.en).collect()
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
