use super::counts::{Counts, DiskCounts};
use super::process::ProcessCounts;
use super::*;
use crate::archive::HostSecond;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn at(at_ms: u64) -> Counts {
    Counts { now: HostSecond { at_ms, ..HostSecond::default() }, ..Counts::default() }
}

#[test]
fn shares_and_rates_are_those_of_the_time_between() {
    let before = Counts { cpu: [100, 100, 100, 0, 0], cores: vec![(0, 0), (5, 10)], ..at(1000) };
    let after = Counts {
        cpu: [200, 150, 130, 15, 5],
        cores: vec![(50, 100), (5 + 90, 10 + 100)],
        throttled_us: 500_000,
        net: (4000, 2000),
        disk: DiskCounts { done: (0, 10), sectors: (0, 400), spent_ms: (0, 35), busy_ms: 1200 },
        process: ProcessCounts { cpu_ms: 3000, switches: 700, waited_ms: 500 },
        own_ms: 0,
        tells_others: true,
        ..at(3000)
    };
    let second = before.until(&after);
    assert_eq!((second.at_ms, second.cpu_user, second.cpu_system), (3000, 0.5, 0.25));
    assert_eq!((second.cpu_iowait, second.cpu_steal, second.cpu_core_max), (0.075, 0.025, 0.9));
    assert_eq!((second.cpu_throttled, second.process_cores, second.process_switches), (0.25, 1.5, 350));
    assert_eq!((second.disk_written, second.disk_writes, second.disk_util), (102_400, 5, 0.6));
    assert_eq!((second.disk_write_await_ms, second.disk_read_await_ms), (3.5, 0.0));
    assert_eq!((second.net_in, second.net_out), (2000, 1000));
    assert_eq!(second.process_waiting, 0.25);
    // Three quarters of two cores were busy, all of it with the watched process.
    assert_eq!(second.others_cores, 0.0);
    let alone = Counts {
        process: ProcessCounts { cpu_ms: 1000, ..ProcessCounts::default() },
        own_ms: 600,
        ..after.clone()
    };
    assert!((before.until(&alone).others_cores - (1.5 - 0.5 - 0.3)).abs() < 1e-9);
    let served = Counts { interrupts: 30, ..alone };
    assert!((before.until(&served).others_cores - (1.2 - 0.5 - 0.3)).abs() < 1e-9);
    // Another server under load, and a kernel thread that is new.
    let before = Counts { beside_ms: [(7, 1_000)].into(), ..before };
    let beside = Counts { beside_ms: [(7, 1_400), (9, 200)].into(), ..served.clone() };
    assert!((before.until(&beside).others_cores - (1.2 - 0.5 - 0.3 - 0.3)).abs() < 1e-9);
    let unknown = Counts { tells_others: false, ..served };
    assert_eq!(before.until(&unknown).others_cores, 0.0, "nobody can say which programs are others");
    let restarted = after.until(&at(4000));
    assert_eq!((restarted.process_cores, restarted.net_in), (0.0, 0), "counters that went back");
}

#[test]
fn this_machine_is_seen_working() {
    let own = i32::try_from(std::process::id()).unwrap();
    let mut probe = HostProbe::new(Some(own), "", true);
    assert!(probe.sample(1000).is_none());
    let spent_ms = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    };
    let mut sum = 0_u64;
    let begin_ms = spent_ms();
    while spent_ms() - begin_ms < 60 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
    }
    // As if the processor had been there all the time, however long that really took.
    let second = probe.sample(1060).unwrap();
    assert!(second.process_cores > 0.1 && second.process_memory > 1 << 20, "{second:?}");
    assert!(second.process_threads >= 1 && second.process_files >= 3 && second.memory_available > 0);
    assert!(second.process_anonymous > 0 && second.process_anonymous <= second.process_memory);
}

#[test]
fn the_processor_time_of_any_process_is_read() {
    let mut child = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    assert!(process::cpu_ms(pid).is_some() && process::cpu_ms(i32::MAX).is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn quotas_of_both_versions_are_read() {
    assert_eq!(process::throttled("usage_usec 5\nthrottled_usec 70\n"), Some(70));
    assert_eq!(process::throttled("nr_periods 5\nthrottled_time 70000\n"), Some(70));
    assert_eq!(process::throttled("usage_usec 5\n"), None);
    let check = |files: &[(&str, &str)], expected| {
        let group = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(group.path().join(name), text).unwrap());
        assert_eq!(process::quota(group.path()), expected, "{files:?}");
    };
    check(&[("cpu.max", "20000 100000\n")], Some(0.2));
    check(&[("cpu.max", "max 100000\n")], None);
    check(&[("cpu.cfs_quota_us", "50000\n"), ("cpu.cfs_period_us", "100000\n")], Some(0.5));
    check(&[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")], None);
    check(&[], None);
}

#[test]
fn a_process_is_found_by_its_port() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let own = i32::try_from(std::process::id()).ok();
    assert_eq!(process_of(port, false), own);
    assert_eq!(servers_on(&[port, port], None), own.map(|own| vec![own]));
    assert_eq!(servers_on(&[port], own), Some(Vec::new()), "it is known already");
    drop(listener);
    assert_eq!(process_of(port, false), None);
}

#[test]
fn a_java_broker_of_another_user_is_found_by_what_it_was_started_with() {
    let broker =
        ["/usr/lib/jvm/bin/java", "-Xmx8g", "org.apache.rocketmq.broker.BrokerStartup", "-c", "broker.conf"];
    let shell = ["sh", "bin/runbroker.sh", "org.apache.rocketmq.broker.BrokerStartup", "-c", "broker.conf"];
    let with_proxy = ["java", "-Xmx8g", "org.apache.rocketmq.proxy.ProxyStartup", "-pm", "local"];
    let name_server = ["java", "-Xmx4g", "org.apache.rocketmq.namesrv.NamesrvStartup"];
    let found = |all: &[(i32, &[&str])]| {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        process::only_broker(all.iter().map(|(pid, started)| (*pid, words(started))))
    };
    assert_eq!(found(&[(7, &name_server), (8, &broker), (9, &[])]), Some(8));
    assert_eq!(found(&[(6, &shell), (8, &broker)]), Some(8), "the shell that started it waits for it");
    assert_eq!(found(&[(7, &name_server), (8, &with_proxy)]), Some(8));
    assert_eq!(found(&[(8, &broker), (9, &broker)]), None, "nobody knows which of them");
    assert_eq!(found(&[(7, &name_server)]), None);
}

#[test]
fn stores_that_cannot_be_entered_are_on_the_disk_of_their_path() {
    let place = tempfile::tempdir().unwrap();
    let entered = device_of(place.path());
    assert_eq!(device_of(&place.path().join("of/another/user")), entered);
}

#[test]
fn the_disk_of_a_store_that_is_not_there_is_none() {
    let place = tempfile::tempdir().unwrap();
    let none = PathBuf::new();
    assert_eq!(store_of(Some(place.path().to_owned()), None), place.path());
    assert_eq!(store_of(Some(place.path().join("missing")), None), none);
    // A path below a file cannot be resolved, like one in a directory of another user.
    std::fs::write(place.path().join("file"), "").unwrap();
    let hidden = place.path().join("file/store");
    assert_eq!(store_of(Some(hidden.clone()), None), hidden);
    let (here, own) = (std::env::current_dir().unwrap(), i32::try_from(std::process::id()).ok());
    assert_eq!(store_of(None, own), here, "no broker");
    assert_eq!(store_of(Some(none.clone()), own), none, "a broker that does not say");
    assert_eq!(store_of(Some("src".into()), own), here.join("src"), "from where it was started");
    assert_eq!(store_of(Some("src".into()), None), none);
}

#[test]
fn machines_are_described() {
    let host = host("here", std::path::Path::new("/"), None);
    assert!(host.cores > 0 && host.memory_bytes > 0 && !host.kernel.is_empty(), "{host:?}");
    assert!(!host.nics.contains_key("lo"), "loopback is no card");
}

#[test]
fn every_byte_is_counted_at_one_interface() {
    let root = tempfile::tempdir().unwrap();
    let make = |path: &str| std::fs::create_dir_all(root.path().join(path)).unwrap();
    let cards = |names: &[&str]| environment::cards_below(root.path(), names.iter().copied());
    // The bytes that container interfaces forward pass the card as well.
    ["eth0/device", "docker0", "veth1", "lo"].iter().for_each(|path| make(path));
    assert_eq!(cards(&["docker0", "eth0", "lo", "veth1"]), ["eth0"]);
    // A bond reports its own speed; a card that belongs to a bridge still counts as the card.
    ["bond0/bonding", "eth1/device", "eth1/master/bonding", "eth2/device", "eth2/master/bridge"]
        .iter()
        .for_each(|path| make(path));
    assert_eq!(cards(&["bond0", "eth1", "eth2"]), ["bond0", "eth2"]);
    ["eth3/device", "eth4/device", "eth4/master/device"].iter().for_each(|path| make(path));
    assert_eq!(cards(&["eth3", "eth4"]), ["eth3"]);
    // In a container no interface has a device.
    assert_eq!(cards(&["lo", "veth1"]), ["veth1"]);
}

#[test]
fn java_and_vostok_tables_are_read() {
    let table = |lines: &[(&str, &str)]| -> BTreeMap<String, String> {
        lines.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let java = table(&[
        ("putTps", "1234.5 1000.0 900.0"),
        ("getTransferredTps", ""),
        ("remainHowManyDataToFlush", "1.5 KiB"),
        ("dispatchBehindBytes", "77"),
        ("pageCacheLockTimeMills", "3"),
        ("sendThreadPoolQueueSize", "5"),
    ]);
    let second = broker::read(&java, 9);
    assert_eq!((second.put_tps, second.get_tps, second.put_max_ms), (1234.5, 0.0, 3.0));
    assert_eq!((second.flush_behind, second.dispatch_behind, second.send_queue), (1536, 77, 5));
    assert_eq!(broker::read(&table(&[("getTransferedTps", "77.5 70.0 60.0")]), 9).get_tps, 77.5, "4.x");
    let vostok = table(&[("appended", "5000"), ("flushed", "4000")]);
    assert_eq!(broker::read(&vostok, 9).flush_behind, 1000);
    let refusing = table(&[("refusedBehind", "5"), ("refusedDiskFull", "2"), ("refusedOther", "0")]);
    let second = broker::read(&refusing, 9);
    assert_eq!(
        (second.refused_total, second.refused_causes.as_str()),
        (7, "refusedBehind=5 refusedDiskFull=2")
    );
    assert_eq!(second.refused().collect::<Vec<_>>(), [("refusedBehind", 5), ("refusedDiskFull", 2)]);
    assert_eq!(broker::read(&table(&[("putMessageFailedTimes", "3")]), 9).refused_total, 3);
    assert_eq!(broker::size("0 B"), Some(0));
    assert_eq!(broker::size("3.0 GiB"), Some(3 << 30));
}

#[test]
fn a_second_of_a_broker_tells_what_is_new_in_it() {
    let at = |at_ms, longest: &str, log: (&str, &str)| {
        let table = [
            ("msgPutTotalTodayNow", "100"),
            ("putMessageEntireTimeMax", longest),
            ("commitLogMinOffset", log.0),
            ("commitLogMaxOffset", log.1),
        ];
        broker::Totals::of(&table.map(|(key, value)| (key.to_owned(), value.to_owned())).into(), at_ms)
    };
    let check = |after: broker::Totals, segment, expected: (f64, u64, u64)| {
        let mut second = crate::archive::BrokerSecond::default();
        after.add_to(&mut second, &at(1_000, "40", ("0", "900")), segment);
        assert_eq!((second.put_max_ms, second.rolls, second.removed), expected);
    };
    check(at(2_000, "40", ("0", "950")), 1_000, (0.0, 0, 0));
    check(at(2_000, "700", ("1000", "2100")), 1_000, (700.0, 2, 1_000));
    // A restarted broker, and one that does not report the size of its commit log files.
    check(at(2_000, "3", ("0", "10")), 1_000, (0.0, 0, 0));
    check(at(2_000, "40", ("0", "2100")), 0, (0.0, 0, 0));
}

#[test]
fn pauses_are_read_from_the_unified_log() {
    let log = "[8.1s][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(64M) 3.500ms\n\
               [8.2s][gc] GC(4) Concurrent Mark Cycle 9.000ms\n\
               [8.3s][gc] GC(4) Pause Remark 24M->4M(64M) 1.500ms\n\
               [9.1s][gc] GC(5) Pause Full (System.gc()) 24M->4M(64M) 20.000ms\n";
    let pauses = collector::read(log, false);
    assert_eq!((pauses.young, pauses.full, pauses.stopped_ms, pauses.longest_ms), (1, 1, 25.0, 20.0));
    let safepoint = "[9.1s][safepoint] Safepoint \"G1CollectFull\", Time since last: 12 ns, \
                     Reaching safepoint: 1000 ns, Cleanup: 0 ns, At safepoint: 20000000 ns, Total: 20001000 ns\n";
    let pauses = collector::read(&(log.to_owned() + safepoint), true);
    assert_eq!((pauses.full, pauses.stopped_ms), (1, 20.001), "what safepoints tell is not counted twice");
}

#[test]
fn a_process_that_is_no_jvm_is_left_alone() {
    let mut child = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    assert!(!collector::is_java(pid) && Collector::of(Some(pid), None).is_none());
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_log_is_followed_from_its_end() {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "[1s][gc] GC(0) Pause Young (Normal) 1M->1M(2M) 1.000ms").unwrap();
    let mut collector = Collector::of(None, Some(file.path())).unwrap();
    assert_eq!(collector.take().young, 0, "what was there before does not count");
    write!(file, "[2s][gc] GC(1) Pause Young (Normal) 1M->").unwrap();
    assert_eq!(collector.take().young, 0);
    writeln!(file, "1M(2M) 2.000ms").unwrap();
    let pauses = collector.take();
    assert_eq!((pauses.young, pauses.stopped_ms), (1, 2.0));
}
