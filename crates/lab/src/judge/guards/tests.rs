use super::*;
use crate::archive::{Factors, Roofline};
use crate::sentences::Sentence;

const GIB: u64 = 1 << 30;

fn host() -> HostFile {
    let roofline = Roofline { disk_write_await_ms: 8.0, net_bytes: 1e9, ..Roofline::default() };
    let nics = [("eth0".to_owned(), Some(1_000))].into();
    let (name, disk) = ("b1".to_owned(), "vda".to_owned());
    let roofline = Some(roofline);
    HostFile { name, disk, cores: 8, memory_bytes: 16 * GIB, nics, roofline, ..HostFile::default() }
}

fn calm() -> HostSecond {
    HostSecond {
        cpu_user: 0.3,
        cpu_system: 0.1,
        load1: 3.0,
        memory_available: 8 * GIB,
        disk_util: 0.4,
        disk_write_await_ms: 4.0,
        net_in: 35_000_000,
        net_out: 70_000_000,
        gc_young: 1,
        gc_pause_ms: 5.0,
        ..HostSecond::default()
    }
}

fn sending() -> LoadSecond {
    LoadSecond {
        sent: 1_000,
        consumed: 1_000,
        end_to_end_p99_us: 20_000,
        p99_us: 5_000,
        ..LoadSecond::default()
    }
}

/// A second in which all latencies are `us` microseconds.
fn all_at(us: u64, count: u64) -> (u64, Sparse) {
    let mut latencies = Sparse::default();
    latencies.record_n(us, count);
    (0, latencies)
}

/// The guards of a minute of load in which `change` was applied.
fn minute(
    factors: &Factors,
    slo: &str,
    change: impl Fn(&mut HostFile, &mut HostSecond, &mut LoadSecond),
) -> Vec<Guard> {
    let (mut host, mut second, mut load) = (host(), calm(), sending());
    change(&mut host, &mut second, &mut load);
    let logs = [load.p99_us, load.end_to_end_p99_us]
        .map(|us| if us > 0 { vec![all_at(us, 1_000); 60] } else { Vec::new() });
    let (seconds, load) = (vec![second; 60], vec![load; 60]);
    let hosts = vec![(&host, seconds.as_slice())];
    let (latency, end_to_end) = (logs[0].as_slice(), logs[1].as_slice());
    let window =
        Window { factors: Some(factors), load: &load, hosts, latency, end_to_end, ..Window::default() };
    let slo = slo.parse().expect("a good slo");
    let mut file = RunFile { hosts: vec![HostFile::default(), host.clone()], ..RunFile::default() };
    file.target.kind = TargetKind::Rocketmq;
    guards(&file, &window, &Limits { slo, ..Limits::default() })
}

fn watches(guards: &[Guard], only: impl Fn(&Guard) -> bool) -> Vec<Watch> {
    guards.iter().filter(|guard| only(guard)).map(|guard| guard.watch).collect()
}

/// The guards that break in a minute of load to which `change` was applied.
fn broken(change: impl Fn(&mut HostFile, &mut HostSecond, &mut LoadSecond)) -> Vec<Watch> {
    let factors = Factors { groups: 1, ..Factors::default() };
    watches(&minute(&factors, "e2e.p99<50ms,send.p99<10ms", change), Guard::is_broken)
}

/// The guards that were not measured in a minute of load to which `change` was applied.
fn unseen(factors: &Factors, change: impl Fn(&mut HostFile, &mut HostSecond, &mut LoadSecond)) -> Vec<Watch> {
    watches(&minute(factors, "", change), |guard| guard.used.is_none())
}

#[test]
fn a_clean_minute_breaks_none() {
    assert_eq!(broken(|_, _, _| ()), []);
}

#[test]
fn each_guard_breaks_alone() {
    assert_eq!(broken(|_, second, _| second.cpu_user = 0.7), [Watch::CpuBusy]);
    assert_eq!(broken(|_, second, _| second.load1 = 8.5), [Watch::Load]);
    assert_eq!(broken(|_, second, _| second.memory_available = 2 * GIB), [Watch::Memory]);
    assert_eq!(broken(|_, second, _| second.swap_out = 1), [Watch::Swap]);
    assert_eq!(broken(|_, second, _| second.disk_util = 0.8), [Watch::DiskUtil]);
    assert_eq!(broken(|_, second, _| second.disk_write_await_ms = 17.0), [Watch::DiskWait]);
    assert_eq!(broken(|_, second, _| second.io_pressure = 12.0), [Watch::IoPressure]);
    assert_eq!(broken(|_, second, _| second.net_in = 101_000_000), [Watch::NetworkIn]);
    assert_eq!(broken(|_, second, _| second.net_out = 101_000_000), [Watch::NetworkOut]);
    assert_eq!(broken(|_, _, load| load.failed = 1), [Watch::Errors]);
    assert_eq!(broken(|_, _, load| load.refused = 1), [Watch::Refusals]);
    assert_eq!(broken(|_, _, load| load.consumed = 980), [Watch::Drift]);
    assert_eq!(broken(|_, _, load| load.p99_us = 11_000), [Watch::SendP99]);
    assert_eq!(broken(|_, _, load| load.end_to_end_p99_us = 51_000), [Watch::EndToEndP99]);
    assert_eq!(broken(|_, second, _| second.gc_full = 1), [Watch::FullCollections]);
    assert_eq!(broken(|_, second, _| second.gc_pause_ms = 60.0), [Watch::CollectorPause]);
}

#[test]
fn what_was_not_measured_is_told() {
    let read = Factors { groups: 1, ..Factors::default() };
    assert_eq!(unseen(&read, |_, _, _| ()), []);
    assert_eq!(unseen(&Factors::default(), |_, _, _| ()), [Watch::Drift]);
    assert_eq!(unseen(&read, |host, _, _| host.roofline = None), [Watch::DiskWait]);
    let network = [Watch::NetworkIn, Watch::NetworkOut];
    assert_eq!(unseen(&read, |host, _, _| host.nics = [("eth0".to_owned(), None)].into()), network);
    assert_eq!(unseen(&read, |host, _, _| host.disk.clear()), [Watch::DiskUtil, Watch::DiskWait]);
    assert_eq!(unseen(&read, |host, _, _| host.tells_pressure = Some(false)), [Watch::IoPressure]);
    let blind = |_: &mut HostFile, second: &mut HostSecond, _: &mut LoadSecond| {
        (second.gc_young, second.gc_pause_ms) = (0, 0.0);
    };
    assert_eq!(unseen(&read, blind), [Watch::FullCollections, Watch::CollectorPause]);
}

#[test]
fn a_latency_that_is_asked_for_must_be_measured() {
    let nothing = |_: &mut HostFile, _: &mut HostSecond, load: &mut LoadSecond| load.end_to_end_p99_us = 0;
    let guards = minute(&Factors::default(), "e2e.p99<50ms", nothing);
    assert_eq!(watches(&guards, Guard::is_broken), [Watch::EndToEndP99]);
}

#[test]
fn a_percentile_is_that_of_all_messages() {
    // Two of sixty seconds hold a pause; a percentile over the percentiles of seconds would hide it.
    let mut latency = vec![all_at(5_000, 1_000); 58];
    latency.extend(vec![all_at(900_000, 1_000); 2]);
    let load = vec![sending(); 60];
    let window = Window { load: &load, latency: &latency, ..Window::default() };
    let limits = Limits { slo: "send.p99<10ms".parse().expect("a good slo"), ..Limits::default() };
    let found = guards(&RunFile::default(), &window, &limits);
    assert_eq!(watches(&found, Guard::is_broken), [Watch::SendP99]);
}

#[test]
fn a_rate_that_was_not_reached_is_not_safe() {
    let at = |rate| Factors { groups: 1, rate: Some(rate), ..Factors::default() };
    assert_eq!(watches(&minute(&at(1_000.0), "", |_, _, _| ()), Guard::is_broken), []);
    assert_eq!(watches(&minute(&at(1_020.0), "", |_, _, _| ()), Guard::is_broken), [Watch::Rate]);
}

#[test]
fn delayed_messages_are_no_consumers_that_fall_behind() {
    let delayed =
        Factors { groups: 1, more: [("delay".to_owned(), "3".to_owned())].into(), ..Factors::default() };
    let found = minute(&delayed, "", |_, _, load| load.consumed = 0);
    assert_eq!(watches(&found, Guard::is_broken), []);
    assert_eq!(watches(&found, |guard| guard.used.is_none()), [Watch::Drift]);
}

#[test]
fn loopback_is_not_as_slow_as_the_card() {
    // A broker and its load on one machine with 1 Gb/s: 300 MB/s over loopback do not break the guard.
    let within = |_: &mut HostFile, second: &mut HostSecond, _: &mut LoadSecond| {
        (second.net_in, second.net_out, second.net_loopback) = (300_000_000, 300_000_000, 300_000_000);
    };
    assert_eq!(broken(within), []);
    let full = |_: &mut HostFile, second: &mut HostSecond, _: &mut LoadSecond| {
        (second.net_in, second.net_out, second.net_loopback) = (900_000_000, 900_000_000, 900_000_000);
    };
    assert_eq!(broken(full), [Watch::NetworkIn, Watch::NetworkOut]);
}

#[test]
fn many_short_pauses_are_no_long_one() {
    let short = |_: &mut HostFile, second: &mut HostSecond, _: &mut LoadSecond| {
        (second.gc_pause_ms, second.gc_pause_max_ms) = (80.0, 8.0);
    };
    assert_eq!(broken(short), []);
}

#[test]
fn a_long_pause_every_two_minutes_is_not_hidden_by_the_quiet_seconds() {
    let found = |pause: f64| {
        let quiet = HostSecond { gc_young: 0, gc_pause_ms: 0.0, ..calm() };
        let mut seconds = vec![quiet; 300];
        for second in [100, 220] {
            (seconds[second].gc_young, seconds[second].gc_pause_max_ms) = (1, pause);
        }
        measured::collector(&host(), &seconds, (&Limits::default(), true))
    };
    assert_eq!(watches(&found(400.0), Guard::is_broken), [Watch::CollectorPause]);
    assert_eq!(watches(&found(40.0), Guard::is_broken), []);
}

#[test]
fn a_store_whose_disk_is_not_known_is_called_so() {
    let said = |filesystem: &str| {
        let host = HostFile { disk: String::new(), filesystem: filesystem.to_owned(), ..host() };
        measured::device(&host, &[calm()], &Limits::default())[0].sentence().en
    };
    assert_eq!(said(""), "disk: which one the store is on is not known");
    assert_eq!(said("tmpfs"), "disk: no block device is under the store (tmpfs)");
}

#[test]
fn both_directions_have_the_whole_speed() {
    // Seed 004 compared the sum of both directions with the speed of one direction.
    let both = |_: &mut HostFile, second: &mut HostSecond, _: &mut LoadSecond| {
        second.net_in = 90_000_000;
        second.net_out = 90_000_000;
    };
    assert_eq!(broken(both), []);
}

#[test]
fn page_cache_is_not_used_memory() {
    // Seed 000 called 94 % of memory used; most of it was page cache, which is available.
    assert_eq!(broken(|_, second, _| second.memory_cached = 15 * GIB), []);
}

#[test]
fn a_quota_counts_as_the_whole_machine() {
    let quota = |host: &mut HostFile, second: &mut HostSecond, _: &mut LoadSecond| {
        host.cores_allowed = Some(0.5);
        second.process_cores = 0.45;
        second.cpu_user = 0.05;
        second.cpu_system = 0.01;
    };
    assert_eq!(broken(quota), [Watch::CpuBusy]);
}

#[test]
fn fast_disks_may_take_some_milliseconds() {
    let fast = |host: &mut HostFile, second: &mut HostSecond, _: &mut LoadSecond| {
        host.roofline.as_mut().expect("has one").disk_write_await_ms = 0.1;
        second.disk_write_await_ms = 3.0;
    };
    assert_eq!(broken(fast), []);
}

#[test]
fn the_next_guard_is_the_one_with_least_room() {
    let (host, seconds, load) = (host(), vec![calm(); 10], vec![sending(); 10]);
    let window = Window { load: &load, hosts: vec![(&host, seconds.as_slice())], ..Window::default() };
    let file = RunFile { hosts: vec![HostFile::default(), host.clone()], ..RunFile::default() };
    let guards = guards(&file, &window, &Limits::default());
    let next = next_to_break(&guards).expect("some are measured");
    assert_eq!(next.watch, Watch::NetworkOut);
    assert!(next.headroom().is_some_and(|room| (room - 0.3).abs() < 1e-9));
}

#[test]
fn a_full_machine_of_the_lab_makes_no_rate_unsafe() {
    let (host, seconds, load) = (host(), vec![calm(); 10], vec![sending(); 10]);
    let lab = HostFile { name: "laptop".to_owned(), ..host.clone() };
    let busy = HostSecond { cpu_user: 0.9, memory_available: 1, swap_out: 9, load1: 30.0, ..calm() };
    let full = vec![busy; 10];
    let hosts = vec![(&lab, full.as_slice()), (&host, seconds.as_slice())];
    let window = Window { load: &load, hosts, ..Window::default() };
    let file = RunFile { hosts: vec![lab.clone(), host.clone()], ..RunFile::default() };
    let found = guards(&file, &window, &Limits::default());
    assert_eq!(watches(&found, Guard::is_broken), []);
    assert!(found.iter().all(|guard| guard.node != "laptop"), "{found:?}");
}

#[test]
fn a_broker_whose_machine_nobody_saw_is_named() {
    let mut file = crate::judge::testing::file();
    let other = BrokerFile { name: "broker-b".to_owned(), host: None, ..file.target.brokers[0].clone() };
    file.target.brokers.push(other);
    let found: Vec<_> = unwatched(&file).collect();
    assert_eq!((found.len(), found[0].node.as_str(), found[0].used), (1, "broker-b #0", None));
    file.target.brokers[0].host = None;
    assert_eq!(unwatched(&file).count(), 0, "said once for all of them");
}

#[test]
fn what_a_guard_says_divided_by_its_limit_is_what_it_uses() {
    let factors = Factors { rate: Some(1_005.0), groups: 1, ..Factors::default() };
    let found = minute(&factors, "", |_, _, _| ());
    for watch in [Watch::CpuBusy, Watch::Load, Watch::Memory, Watch::DiskUtil, Watch::Rate, Watch::NetworkOut]
    {
        let guard = found.iter().find(|guard| guard.watch == watch).expect("it is measured");
        let text = guard.sentence().en;
        let words = text.split([' ', ',']).filter_map(|word| word.trim_end_matches("/s").parse::<f64>().ok());
        let [figure, limit] = words.collect::<Vec<_>>()[..] else { panic!("two numbers: {text}") };
        let used = guard.used.expect("it is measured");
        assert!((figure / limit - used).abs() < 0.02, "{text}: {used}");
    }
}
