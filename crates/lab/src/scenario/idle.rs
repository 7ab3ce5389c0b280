//! Check before a search sends anything: a guard that is broken on idle machines breaks at every rate.

use super::bench::Bench;
use super::probes::Probes;
use crate::Error;
use crate::archive::{HostSecond, RunFile, Window};
use crate::judge::guards::{Guard, Limits, Watch, guards};
use crate::judge::validity;
use crate::output::language;
use crate::runtime::epoch_ms;
use crate::sentences::Sentence;
use std::collections::BTreeMap;
use std::time::Duration;

/// Seconds that are judged together, and seconds that machines may take to become idle. The one-minute load average,
/// which includes the self-test, falls slowly.
const SECONDS: (usize, usize) = (5, 90);

/// The guards that are checked on idle machines. The others need load, or depend on single writes.
const WATCHED: [Watch; 7] = [
    Watch::CpuBusy,
    Watch::Load,
    Watch::Memory,
    Watch::DiskUtil,
    Watch::IoPressure,
    Watch::NetworkIn,
    Watch::NetworkOut,
];

/// Waits until the machines are idle.
///
/// # Errors
/// [`Error::Broken`] when the machines do not become idle, so that no rate would be safe.
pub(super) async fn wait_for_idle(bench: &Bench, limits: &Limits) -> Result<(), Error> {
    let (mut probes, mut probe) = (Probes::start(bench.cluster(), bench.watched()), bench.host_probe());
    probe.sample(epoch_ms());
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    clock.tick().await;
    let own = bench.cluster().host.name.clone();
    let mut hosts: BTreeMap<String, Vec<HostSecond>> = BTreeMap::new();
    let mut found = Vec::new();
    for look in 1..=SECONDS.1 {
        tokio::select! {
            _ = clock.tick() => {}
            () = bench.interrupted() => return Ok(()),
        }
        hosts.entry(own.clone()).or_default().extend(probe.sample(epoch_ms()));
        while let Some((name, second)) = probes.machine() {
            hosts.entry(name).or_default().extend(second);
        }
        hosts.values_mut().for_each(|seconds| drop(seconds.drain(..seconds.len().saturating_sub(SECONDS.0))));
        if look < SECONDS.0 {
            continue;
        }
        found = broken(bench.run_file(), &hosts, limits);
        if found.is_empty() {
            return Ok(());
        }
        if look == SECONDS.0 {
            bench.line(&format!("waiting for idle machines: {}", found.join("; ")));
        }
    }
    let found = found.join("; ");
    Err(Error::Broken(format!(
        "no rate can be safe, because limits are exceeded while nothing is sent: {found}; end what uses the machines"
    )))
}

/// The readings that are above their limits on machines without load.
fn broken(file: &RunFile, hosts: &BTreeMap<String, Vec<HostSecond>>, limits: &Limits) -> Vec<String> {
    let hosts = file.hosts.iter().filter_map(|host| Some((host, hosts.get(&host.name)?.as_slice())));
    let window = Window { hosts: hosts.collect(), ..Window::default() };
    let guards = guards(file, &window, limits).into_iter();
    let guards = guards.filter(|guard| WATCHED.contains(&guard.watch) && guard.is_broken());
    let sentence =
        |guard: Guard| format!("{} {}", guard.node, guard.sentence().get(language())).trim().to_owned();
    let others =
        validity::others_now(&window, file).into_iter().map(|why| why.sentence().get(language()).to_owned());
    guards.map(sentence).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::testing;

    fn idle(change: impl Fn(&mut HostSecond)) -> Vec<String> {
        let mut second = HostSecond { memory_available: 12 << 30, ..HostSecond::default() };
        change(&mut second);
        let hosts = ["lab", "b1"].map(|name| (name.to_owned(), vec![second.clone(); SECONDS.0]));
        broken(&testing::file(), &hosts.into(), &Limits::default())
    }

    #[test]
    fn what_breaks_without_load_is_told_before_anything_is_sent() {
        assert!(idle(|_| ()).is_empty());
        assert!(idle(|second| second.disk_write_await_ms = 900.0).is_empty(), "a single slow write");
        let said = idle(|second| second.disk_util = 0.97);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("b1 disk busy 97.0 %"), "{said:?}");
        assert!(idle(|second| second.load1 = 40.0)[0].contains("load"));
        let said = idle(|second| second.others_cores = 7.44);
        assert_eq!(said[0], "other programs use 93.0 % of the processors of lab, limit 10.0 %");
    }
}
