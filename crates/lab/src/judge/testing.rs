//! Synthetic runs for tests: valid ones, into which a test inserts its fault.

use crate::archive::{
    BrokerFile, BrokerSecond, Cell, Factors, HostFile, HostSecond, LoadSecond, Phase, Record, RecordedCell,
    Repeat, Roofline, RunFile, Sparse,
};

/// The time at which every synthetic run begins, milliseconds since the epoch.
pub const START_MS: u64 = 1_760_000_000_000;

/// Seconds of a repeat.
pub const SECONDS: u64 = 60;

const GIB: u64 = 1 << 30;

/// A run file with the lab's machine and the broker's machine.
pub fn file() -> RunFile {
    let roofline = Roofline {
        disk_write_bytes: 1e9,
        disk_read_bytes: 1e9,
        disk_flushes: 8_000.0,
        disk_write_await_ms: 1.0,
        disk_random_writes: 20_000.0,
        net_bytes: 125e6,
        net_round_trips: 30_000.0,
        lab_messages: 300_000.0,
        cpu_crc_bytes: 2e9,
    };
    let host = |name: &str| HostFile {
        name: name.to_owned(),
        cpu_model: "Xeon".to_owned(),
        cores: 8,
        memory_bytes: 16 * GIB,
        kernel: "6.1.0".to_owned(),
        disk: "vda".to_owned(),
        filesystem: "ext4".to_owned(),
        nics: [("eth0".to_owned(), Some(1_000))].into(),
        roofline: Some(roofline.clone()),
        ..HostFile::default()
    };
    let mut file = RunFile {
        id: "made-up".to_owned(),
        scenario: "matrix".to_owned(),
        command_line: ["vostok", "lab", "matrix", "--threads", "1,10"].map(str::to_owned).to_vec(),
        lab_version: "0.1.0".to_owned(),
        started_ms: START_MS,
        ended_ms: Some(START_MS + 3_600_000),
        seed: 7,
        hosts: vec![host("lab"), host("b1")],
        clock_skew_us: 50,
        repeats: 3,
        ..RunFile::default()
    };
    file.target.name = "rocketmq-5.5.0".to_owned();
    file.target.namesrv = "10.0.0.1:9876".to_owned();
    file.target.version = "V5_5_0".to_owned();
    let settings = [("flushDiskType".to_owned(), "ASYNC_FLUSH".to_owned())].into();
    let (name, address) = ("broker-a".to_owned(), "10.0.0.1:10911".to_owned());
    file.target.brokers = vec![BrokerFile { name, address, settings, host: Some("b1".to_owned()), id: 0 }];
    file
}

/// Factors of a closed loop with 1 KiB messages.
pub fn factors(threads: u32) -> Factors {
    Factors {
        threads,
        producers: 1,
        connections: 1,
        size: 1024,
        queues: 8,
        topics: 1,
        groups: 0,
        compression: "none".to_owned(),
        payload: "random".to_owned(),
        ..Factors::default()
    }
}

/// A valid cell of three repeats at `tps` messages per second, with 2 % of noise.
pub fn cell(factors: &Factors, tps: f64) -> RecordedCell {
    let number = 1;
    let name = format!("{number:03}-w{}-s{}-q{}", factors.threads, factors.size, factors.queues);
    let phase = |repeat: u32| {
        let from_ms = START_MS + u64::from(repeat) * 1_000_000;
        Phase { repeat, name: "steady".to_owned(), from_ms, to_ms: from_ms + SECONDS * 1_000, met: None }
    };
    let phases: Vec<Phase> = (1..=3).map(phase).collect();
    let repeats = phases.iter().map(|phase| repeat(factors, tps, phase)).collect();
    let cell = Cell { number, name, factors: factors.clone(), repeats: 3, phases, ..Cell::default() };
    RecordedCell { cell, repeats }
}

/// A run of valid cells, given by factors and messages per second.
pub fn record(cells: &[(Factors, f64)]) -> Record {
    let mut made: Vec<RecordedCell> = cells.iter().map(|(factors, tps)| cell(factors, *tps)).collect();
    for (number, made) in (1_u32..).zip(&mut made) {
        made.cell.number = number;
        made.cell.name.replace_range(..3, &format!("{number:03}"));
    }
    let file = RunFile { cells: cells.iter().map(|(factors, _)| factors.clone()).collect(), ..file() };
    Record { file, cells: made }
}

/// Applies `change` to every second of load of every repeat.
pub fn each_second(record: &mut Record, change: impl Fn(usize, &mut LoadSecond)) {
    for repeat in record.cells.iter_mut().flat_map(|cell| &mut cell.repeats) {
        repeat.load.iter_mut().enumerate().for_each(|(index, second)| change(index, second));
    }
}

/// Applies `change` to every second of the named machine in every repeat.
pub fn each_host_second(record: &mut Record, name: &str, change: impl Fn(usize, &mut HostSecond)) {
    for repeat in record.cells.iter_mut().flat_map(|cell| &mut cell.repeats) {
        let seconds = repeat.hosts.get_mut(name).expect("a machine of the run");
        seconds.iter_mut().enumerate().for_each(|(index, second)| change(index, second));
    }
}

fn repeat(factors: &Factors, tps: f64, phase: &Phase) -> Repeat {
    let mut random = fastrand::Rng::with_seed(u64::from(phase.repeat) * 1_000 + tps as u64);
    let mut made = Repeat::default();
    let (mut lab, mut host, mut broker) = (Vec::new(), Vec::new(), Vec::new());
    let level = 1.0 + 0.004 * (random.f64() - 0.5);
    for index in 1..=SECONDS {
        let at_ms = phase.from_ms + index * 1_000;
        let sent = (tps * level * (1.0 + 0.04 * (random.f64() - 0.5))) as u64;
        made.load.push(load_second(factors, at_ms, sent));
        made.latency.push((at_ms, latencies(factors, sent)));
        if factors.groups > 0 {
            made.end_to_end.push((at_ms, latencies(factors, sent)));
        }
        host.push(host_second(factors, at_ms, sent));
        lab.push(HostSecond { at_ms, cpu_user: 0.1, memory_available: 12 * GIB, ..HostSecond::default() });
        broker.push(BrokerSecond { at_ms, put_tps: sent as f64, ..BrokerSecond::default() });
    }
    made.hosts = [("lab".to_owned(), lab), ("b1".to_owned(), host)].into();
    made.brokers = [("broker-a".to_owned(), broker)].into();
    made
}

fn mean_us(factors: &Factors, sent: u64) -> f64 {
    let in_flight = if factors.rate.is_some() { 8.0 } else { f64::from(factors.threads) };
    in_flight * 1e6 / sent.max(1) as f64
}

fn load_second(factors: &Factors, at_ms: u64, sent: u64) -> LoadSecond {
    let mean_us = mean_us(factors, sent);
    let consumed = sent * u64::from(factors.groups);
    LoadSecond {
        at_ms,
        sent,
        sent_bytes: sent * factors.size,
        consumed,
        consumed_bytes: consumed * factors.size,
        in_flight: u64::from(factors.threads),
        mean_us,
        p50_us: (mean_us * 0.9) as u64,
        p99_us: (mean_us * 2.0) as u64,
        p999_us: (mean_us * 3.0) as u64,
        max_us: (mean_us * 5.0) as u64,
        end_to_end_p50_us: (mean_us * 1.5) as u64,
        end_to_end_p99_us: (mean_us * 3.0) as u64,
        end_to_end_max_us: (mean_us * 6.0) as u64,
        lab_cores: 1.0,
        ..LoadSecond::default()
    }
}

fn latencies(factors: &Factors, sent: u64) -> Sparse {
    let mut latencies = Sparse::default();
    let mean = mean_us(factors, sent);
    for (share, times) in [(0.5, 0.929), (0.49, 1.05), (0.009, 2.0), (0.001, 3.0)] {
        latencies.record_n((mean * times) as u64, (sent as f64 * share) as u64);
    }
    latencies
}

fn host_second(factors: &Factors, at_ms: u64, sent: u64) -> HostSecond {
    let wire = sent * (factors.size + 200);
    HostSecond {
        at_ms,
        cpu_user: 0.2,
        cpu_system: 0.1,
        cpu_core_max: 0.5,
        load1: 2.5,
        memory_available: 10 * GIB,
        memory_cached: 6 * GIB,
        disk_written: sent * (factors.size + 100),
        disk_writes: 200,
        disk_write_await_ms: 1.5,
        disk_util: 0.3,
        net_in: wire,
        net_out: sent * 150 + wire * u64::from(factors.groups),
        process_cores: 2.4,
        process_memory: GIB,
        process_anonymous: GIB / 2,
        process_threads: 80,
        process_switches: 10_000,
        process_files: 200,
        ..HostSecond::default()
    }
}
