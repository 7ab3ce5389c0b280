use super::*;
use crate::archive::{FLUSH, HostSecond, LoadSecond, Record};
use crate::judge::testing;
use crate::sentences::Sentence;

fn judge(saturated: bool, change: impl Fn(&mut Record)) -> Bottleneck {
    let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
    change(&mut record);
    bottleneck(&record.file, &record.windows(&record.cells[0], "steady"), saturated)
}

fn on_broker(change: impl Fn(&mut HostSecond)) -> Bottleneck {
    judge(true, |record| testing::each_host_second(record, "b1", |_, second| change(second)))
}

fn check(found: &Bottleneck, resource: Resource, evidence: &str) {
    assert_eq!(found.resource, resource, "{}", found.evidence.sentence().en);
    assert!(found.evidence.sentence().en.contains(evidence), "{}", found.evidence.sentence().en);
}

#[test]
fn a_busy_disk_and_a_throttled_one() {
    check(&on_broker(|second| second.disk_util = 0.9), Resource::Disk, "busy 90.0 %");
    // A cgroup's io.max holds requests back before the device sees them.
    let throttled = on_broker(|second| {
        second.disk_util = 0.05;
        second.disk_written = 20_000_000;
        second.io_pressure = 45.0;
        second.cpu_iowait = 0.5;
    });
    check(&throttled, Resource::Disk, "everything waits for it 45.0 %");
}

#[test]
fn a_disk_that_nobody_knows_is_not_called_idle() {
    let told = |disk: &str| {
        let found = judge(true, |record| disk.clone_into(&mut record.file.hosts[1].disk));
        found.ranked.iter().any(|used| used.reading.sentence().en.starts_with("disk: busy"))
    };
    assert!(told("vda") && !told(""));
}

#[test]
fn brokers_that_flush_before_they_answer_are_limited_by_flushes() {
    let writing = |flush: &str, setting: &str| {
        judge(true, |record| {
            flush.clone_into(&mut record.cells[0].cell.factors.flush);
            let settings = &mut record.file.target.brokers[0].settings;
            settings.insert(FLUSH.to_owned(), setting.to_owned());
            testing::each_host_second(record, "b1", |_, second| second.disk_writes = 7_600);
        })
    };
    for (flush, setting) in [("sync", "ASYNC_FLUSH"), ("", "SYNC_FLUSH")] {
        check(&writing(flush, setting), Resource::Disk, "7,600 writes/s of 8,000 flushes/s");
    }
    for (flush, setting) in [("async", "SYNC_FLUSH"), ("", "ASYNC_FLUSH")] {
        assert!(!writing(flush, setting).evidence.sentence().en.contains("flushes"), "{flush} {setting}");
    }
}

#[test]
fn a_disk_with_few_requests_is_full_of_them() {
    // 3,000 IOPS of a cloud's volume, which is neither busy nor full of bytes.
    let limited = |most: f64, spins: bool| {
        judge(true, |record| {
            let host = &mut record.file.hosts[1];
            (host.disk, host.disk_rotational) = ("sda".to_owned(), Some(spins));
            record.file.hosts[1].roofline.as_mut().unwrap().disk_random_writes = most;
            testing::each_host_second(record, "b1", |_, second| {
                (second.disk_reads, second.disk_writes) = (900, 2_000);
                second.disk_written = 20_000_000;
            });
        })
    };
    let used = |found: Bottleneck| {
        found
            .ranked
            .iter()
            .find(|used| used.reading.sentence().en.contains("IOPS"))
            .map(|used| used.reading.rank())
    };
    check(&limited(3_000.0, false), Resource::Disk, "2,900 IOPS of 3,000");
    assert_eq!(used(limited(0.0, false)), None, "nobody measured it");
    assert_eq!(used(limited(1_500.0, false)), Some(1.0), "writes that follow each other are quicker");
    assert_eq!(used(limited(1_500.0, true)), None, "of a disk that spins they are another thing altogether");
    let mut host = crate::archive::HostFile { disk_rotational: Some(true), ..Default::default() };
    for (disk, spins) in [("sda", Some(true)), ("vda", None), ("xvdb1", None)] {
        host.disk = disk.to_owned();
        assert_eq!(host.disk_spins(), spins, "{disk}: what a virtual one says is a default of its driver");
    }
}

#[test]
fn a_full_network_in_either_direction() {
    check(&on_broker(|second| second.net_out = 115_000_000), Resource::Network, "115 MB/s out of 125 MB/s");
    check(&on_broker(|second| second.net_in = 115_000_000), Resource::Network, "115 MB/s in of 125 MB/s");
    check(&on_broker(|second| second.net_retransmits = 1_500), Resource::Network, "sent again");
}

#[test]
fn a_shaped_network_nobody_knows_the_speed_of() {
    let shaped = judge(true, |record| {
        for host in &mut record.file.hosts {
            host.nics.clear();
            host.roofline = None;
        }
        testing::each_second(record, |_, second| {
            second.sent = 10_000;
            second.sent_bytes = 10_240_000;
        });
    });
    check(&shaped, Resource::Network, "10.2 MB/s of bodies flow almost evenly");
}

#[test]
fn processors_and_their_quota() {
    check(&on_broker(|second| second.cpu_user = 0.85), Resource::Cpu, "95.0 % of 8.00 cores busy");
    let one_core = |used: f64, others: f64| {
        on_broker(|second| {
            (second.cpu_core_max, second.process_cores, second.others_cores) = (1.0, used, others);
            second.disk_util = 0.1;
        })
    };
    check(&one_core(1.0, 0.5), Resource::Cpu, "the busiest core is 100 % busy");
    let others = one_core(0.5, 1.0);
    assert!(!others.evidence.sentence().en.contains("busiest core"), "{}", others.evidence.sentence().en);
    let quota = judge(true, |record| {
        record.file.hosts[1].cores_allowed = Some(0.5);
        testing::each_host_second(record, "b1", |_, second| {
            second.process_cores = 0.5;
            second.cpu_throttled = 0.4;
            second.cpu_user = 0.05;
        });
    });
    check(&quota, Resource::Cpu, "");
}

#[test]
fn other_programs_are_no_limit_until_the_broker_waits_for_them() {
    // Both cores of a small machine are busy with something else, and the disk is what holds the broker back.
    let beside = |second: &mut HostSecond| {
        (second.cpu_user, second.cpu_system, second.cpu_core_max) = (0.9, 0.1, 1.0);
        (second.others_cores, second.process_cores, second.process_waiting) = (7.6, 0.3, 0.2);
    };
    let disk = on_broker(|second| {
        beside(second);
        second.process_blocked = 1;
    });
    check(&disk, Resource::Disk, "waited for it in 100 % of the seconds");
    let starved = on_broker(|second| {
        beside(second);
        (second.process_cores, second.process_waiting) = (1.0, 5.0);
    });
    check(&starved, Resource::Cpu, "waited for 5.00 more, of 8.00; other programs used 7.60");
}

#[test]
fn bytes_that_stay_on_the_way_are_the_networks() {
    let stuck = |record: &mut Record| {
        testing::each_host_second(record, "lab", |_, second| second.net_unacked = 55 << 10);
    };
    check(&judge(true, stuck), Resource::Network, "of the bytes in flight were not yet confirmed");
    check(&judge(false, stuck), Resource::Client, "× 60 requests in flight");
}

#[test]
fn a_slow_client() {
    let slow = |_: usize, second: &mut LoadSecond| second.lab_cores = 7.0;
    check(
        &judge(true, |record| testing::each_second(record, slow)),
        Resource::Client,
        "87.5 % of its processors",
    );
    let late = |_: usize, second: &mut LoadSecond| second.lag_p99_us = 5_000;
    check(&judge(false, |record| testing::each_second(record, late)), Resource::Client, "5.00 ms late");
}

#[test]
fn too_few_requests_in_flight() {
    // Seed 003: 40,000 a second from 512 bytes to 6 KiB, RT 2.35 ms.
    check(&judge(false, |_| ()), Resource::Client, "× 60 requests in flight");
}

#[test]
fn a_lagging_replica() {
    let lagging = judge(true, |record| {
        let brokers = record.cells[0].repeats.iter_mut().flat_map(|repeat| repeat.brokers.values_mut());
        for (index, second) in brokers.flat_map(|seconds| seconds.iter_mut().enumerate()) {
            second.replica_behind = index as u64 * 10_000_000;
        }
    });
    check(&lagging, Resource::Replica, "falls behind by 10.0 MB/s");
}

#[test]
fn something_inside_the_server() {
    let uneven = |index: usize, second: &mut LoadSecond| {
        second.sent_bytes = if index.is_multiple_of(2) { 20 << 20 } else { 30 << 20 }
    };
    check(&judge(true, |record| testing::each_second(record, uneven)), Resource::Server, "nothing is busy");
}

#[test]
fn the_arithmetic_of_seed_002_names_the_network() {
    // 70,000 messages of 500 bytes to two slaves and one group: 105 MB/s out of 1 Gb/s.
    let found = on_broker(|second| {
        second.net_in = 35_000_000;
        second.net_out = 105_000_000;
        second.cpu_iowait = 0.4;
    });
    check(&found, Resource::Network, "105 MB/s out");
}

/// The figures and the limit of a text: the first two numbers with the same unit.
fn share_of(text: &str) -> f64 {
    let words: Vec<&str> = text.split([' ', ',', ';', '(', ')']).filter(|word| !word.is_empty()).collect();
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    numbers[0] / numbers[1]
}

#[test]
fn the_use_of_a_resource_is_the_figure_beside_it_divided_by_its_limit() {
    let readings = [
        Reading::Generator(0.357),
        Reading::SendsLate(240.0),
        Reading::Cpu(Cpu::Quota(0.2)),
        Reading::Disk(Disk::Pressure { percent: 6.8, iowait: 0.1, written: 1e6 }),
        Reading::Network(Network::SentAgain(0.009)),
        Reading::FallsBehind { growth: 20e6, sent: 80e6 },
        Reading::Network(Network::Out { bytes: 115e6, most: 125e6 }),
        Reading::Disk(Disk::Requests { done: 290.0, most: 300.0 }),
    ];
    for reading in readings {
        // Units are the same on both sides, except for milliseconds.
        let text = reading.sentence().en.replace("1.00 ms", "1000 µs").replace("/s", "");
        let (told, used) = (share_of(&text), reading.used());
        assert!((told - used).abs() < 0.02 * used + 0.005, "{text}: {told}, {used}");
    }
    for (reading, share) in [
        (Reading::Cpu(Cpu::Busy { busy: 0.997, cores: 2.0 }), "99.7 %"),
        (Reading::Cpu(Cpu::BusiestCore(0.98)), "98.0 %"),
        (Reading::Disk(Disk::Awaited(0.4)), "40.0 %"),
    ] {
        assert_eq!(crate::judge::numbers::percent(reading.used()), share);
        assert!(reading.sentence().en.contains(share), "{}", reading.sentence().en);
    }
}
