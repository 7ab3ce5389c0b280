use super::*;
use crate::archive::{Factors, Roofline};

const GIB: u64 = 1 << 30;

fn host() -> HostFile {
    let roofline = Roofline { disk_write_await_ms: 8.0, net_bytes: 1e9, ..Roofline::default() };
    let nics = [("eth0".to_owned(), Some(1_000))].into();
    let name = "b1".to_owned();
    HostFile { name, cores: 8, memory_bytes: 16 * GIB, nics, roofline: Some(roofline), ..HostFile::default() }
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

/// Which guards a minute breaks in which one thing was changed.
fn broken(change: impl Fn(&mut HostFile, &mut HostSecond, &mut LoadSecond)) -> Vec<Watch> {
    let (mut host, mut second, mut load) = (host(), calm(), sending());
    change(&mut host, &mut second, &mut load);
    let (seconds, load) = (vec![second; 60], vec![load; 60]);
    let factors = Factors { groups: 1, ..Factors::default() };
    let hosts = vec![(&host, seconds.as_slice())];
    let window = Window { factors: Some(&factors), load: &load, hosts, ..Window::default() };
    let slo = "e2e.p99<50ms,send.p99<10ms".parse().expect("a good slo");
    let guards = guards(&window, &Limits { slo, ..Limits::default() });
    guards.iter().filter(|guard| !guard.holds()).map(|guard| guard.watch).collect()
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
fn both_directions_have_the_whole_speed() {
    // Seed 004 added in and out and compared the sum with one direction.
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
    let guards = guards(&window, &Limits::default());
    let next = next_to_break(&guards).expect("some are measured");
    assert_eq!(next.watch, Watch::NetworkOut);
    assert!((next.headroom() - 0.3).abs() < 1e-9);
}
