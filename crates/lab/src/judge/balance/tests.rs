use super::*;
use crate::archive::Record;
use crate::judge::{judged, testing};
use crate::sentences::Sentence;

fn terms(groups: u32, change: impl Fn(&mut Record)) -> Vec<bool> {
    let factors = Factors { groups, ..testing::factors(60) };
    let mut record = testing::record(&[(factors, 30_000.0)]);
    change(&mut record);
    let judged = judged(&record);
    let figures = judged[0].figures().expect("a valid cell");
    balance(&record.file, judged[0].factors(), figures).iter().map(|term| term.off).collect()
}

#[test]
fn a_clean_run_adds_up() {
    assert_eq!(terms(0, |_| ()), [false, false, false]);
    assert_eq!(terms(2, |_| ()), [false, false, false]);
}

#[test]
fn bytes_that_are_missing_or_too_many() {
    let halved =
        |record: &mut Record| testing::each_host_second(record, "b1", |_, second| second.net_in /= 2);
    assert_eq!(terms(1, halved), [true, false, false]);
    let twice =
        |record: &mut Record| testing::each_host_second(record, "b1", |_, second| second.disk_written *= 2);
    assert_eq!(terms(1, twice), [false, false, true]);
}

#[test]
fn a_slave_takes_its_copy() {
    // Without outgoing bytes for the slave, the second copy was never made.
    let with_slave = |record: &mut Record| {
        let slave = crate::archive::BrokerFile { id: 1, host: None, ..record.file.target.brokers[0].clone() };
        record.file.target.brokers.push(slave);
    };
    assert_eq!(terms(1, with_slave), [false, true, false]);
}

#[test]
fn masters_and_slaves_that_stand_crosswise_add_up() {
    // Two masters on two machines, each with the other's slave: every machine takes and keeps all messages.
    let crosswise = |record: &mut Record| {
        let broker = |name: &str, id, host: &str| crate::archive::BrokerFile {
            name: name.to_owned(),
            id,
            host: Some(host.to_owned()),
            ..crate::archive::BrokerFile::default()
        };
        record.file.target.brokers =
            vec![broker("a", 0, "b1"), broker("a", 1, "b2"), broker("b", 0, "b2"), broker("b", 1, "b1")];
        let twin = crate::archive::HostFile { name: "b2".to_owned(), ..record.file.hosts[1].clone() };
        record.file.hosts.push(twin);
        for repeat in record.cells.iter_mut().flat_map(|cell| &mut cell.repeats) {
            let seconds = repeat.hosts["b1"].clone();
            repeat.hosts.insert("b2".to_owned(), seconds);
        }
    };
    assert_eq!(terms(1, crosswise), [false, false, false]);
    let two_masters = |record: &mut Record| {
        let other =
            crate::archive::BrokerFile { name: "b".to_owned(), ..record.file.target.brokers[0].clone() };
        record.file.target.brokers.push(other);
    };
    assert_eq!(terms(1, two_masters), [false, false, false], "on one machine");
}

#[test]
fn loopback_holds_both_directions() {
    let one_machine = |record: &mut Record| {
        record.file.hosts.remove(0);
        testing::each_host_second(record, "b1", |_, second| {
            let both = second.net_in + second.net_out;
            (second.net_in, second.net_out) = (both, both);
        });
    };
    assert_eq!(terms(1, one_machine), [false, false, false]);
}

#[test]
fn loopback_holds_both_directions_of_what_stays_on_the_machine_alone() {
    // The lab runs on the machine of a master; the broker `beside` is on another machine.
    let shared = |beside: &crate::archive::BrokerFile, loopback: u64, (more_in, more_out): (u64, u64)| {
        terms(0, |record| {
            record.file.hosts.remove(0);
            record.file.target.brokers.push(beside.clone());
            testing::each_host_second(record, "b1", |_, second| {
                let wire = second.net_in;
                let through = wire / loopback + second.net_out;
                (second.net_in, second.net_out) = (through + wire * more_in, through + wire / 2 * more_out);
                second.disk_written /= loopback;
            });
        })
    };
    let broker = |name: &str, id| crate::archive::BrokerFile {
        name: name.to_owned(),
        id,
        host: Some("b2".to_owned()),
        ..crate::archive::BrokerFile::default()
    };
    assert_eq!(shared(&broker("broker-a", 1), 1, (0, 2)), [false; 3], "its slave takes a copy");
    assert_eq!(shared(&broker("broker-b", 0), 2, (0, 1)), [false; 3], "half goes to the other master");
    assert_eq!(shared(&broker("broker-a", 1), 1, (1, 2)), [true, false, false], "nothing comes back");
}

#[test]
fn no_disk_is_held_against_what_was_written_to_one_nobody_looked_at() {
    let unseen = |record: &mut Record| {
        record.file.hosts[1].disk.clear();
        testing::each_host_second(record, "b1", |_, second| second.disk_written = 0);
    };
    assert_eq!(terms(1, unseen), [false, false]);
}

fn ceilings(rates: &[(u64, f64)]) -> Vec<BandwidthLimit> {
    let cell = |(size, tps): &(u64, f64)| (Factors { size: *size, ..testing::factors(60) }, *tps);
    let record = testing::record(&rates.iter().map(cell).collect::<Vec<_>>());
    bandwidth_limits(&record.file, &judged(&record))
}

#[test]
fn the_bandwidth_ceiling_of_seed_000_is_seen() {
    // 60 threads, 8 queues: 5K 18,528, 10K 8,299 (91.. 95 MB/s) and 1M 94 per second.
    let found = ceilings(&[(1024, 34_931.0), (5_120, 18_528.0), (10_240, 9_000.0), (1_048_576, 92.0)]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].sizes, [5_120, 10_240, 1_048_576]);
    assert!(found[0].sentence().en.contains("0.7"), "{}", found[0].sentence().en);
}

#[test]
fn a_ceiling_is_compared_with_the_machines_of_brokers_alone() {
    let cell = |size| (Factors { size, ..testing::factors(60) }, 90e6 / size as f64);
    let mut record = testing::record(&[cell(5_120), cell(10_240), cell(20_480)]);
    let said = |record: &Record| bandwidth_limits(&record.file, &judged(record))[0].sentence().en;
    assert!(said(&record).ends_with("its limits: network 125 MB/s, disk 1.00 GB/s"), "{}", said(&record));
    record.file.hosts[1].roofline.as_mut().expect("has one").disk_write_bytes = 0.0;
    assert!(said(&record).ends_with("network 125 MB/s, disk ?"), "not measured: {}", said(&record));
    record.file.hosts[1].roofline = None;
    assert!(said(&record).ends_with("network 125 MB/s, disk ?"), "not the lab's: {}", said(&record));
    record.file.hosts.truncate(1);
    record.file.target.brokers[0].host = None;
    assert!(said(&record).ends_with("no machine of a broker to compare with"), "{}", said(&record));
}

#[test]
fn bytes_that_grow_with_the_size_are_no_ceiling() {
    assert_eq!(ceilings(&[(1024, 30_000.0), (2048, 29_000.0), (4096, 25_000.0)]), []);
}
