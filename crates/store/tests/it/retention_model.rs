//! Random appends, rounds of retention, restarts and crashes: a queue's minimum never goes back, and every offset from it
//! on holds the message that was sent.

use crate::tool::{append, bodies, flush, small_config};
use proptest::prelude::*;
use std::sync::Arc;
use store::{
    Config, FakeDisk, FlushMode, FlushOutcome, FreedSpace, RetentionRound, RetentionSettings, Store,
    UnconsumedPolicy, Usage,
};
use wire::units::LogOffset;

const QUEUES: [(&str, i32); 3] = [("Busy", 0), ("Busy", 1), ("%RETRY%g", 0)];
const MINUTE_MS: i64 = 60_000;

#[derive(Clone, Debug)]
enum Op {
    /// Appends a number of messages of a size to a queue.
    Append(usize, usize, usize),
    Checkpoint,
    /// Lets a number of minutes pass, and then runs a round.
    Round(i64),
    /// A round on a disk that is so many percent full, with the first unconsumed message at this share of the log.
    FullDisk(u64, u64),
    /// A round that leaves so many files.
    Bytes(u64),
    /// Expires messages of a queue that are older than a number of minutes.
    Expire(usize, i64),
    FreeSpace,
    Reopen,
    Kill,
    PowerCut(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let one = prop_oneof![
        10 => (0usize..3, 1usize..12, 0usize..600).prop_map(|(queue, count, size)| Op::Append(queue, count, size)),
        4 => Just(Op::Checkpoint),
        3 => (0i64..90).prop_map(Op::Round),
        2 => (60u64..100, 0u64..100).prop_map(|(percent, share)| Op::FullDisk(percent, share)),
        1 => (1u64..6).prop_map(Op::Bytes),
        1 => (0usize..3, 0i64..90).prop_map(|(queue, minutes)| Op::Expire(queue, minutes)),
        1 => Just(Op::FreeSpace),
        1 => Just(Op::Reopen),
        1 => Just(Op::Kill),
        2 => any::<u64>().prop_map(Op::PowerCut),
    ];
    prop::collection::vec(one, 1..50)
}

struct Model {
    disk: FakeDisk,
    config: Config,
    store: Store,
    now_ms: i64,
    /// Bodies by offset, including deleted bodies.
    sent: [Vec<Vec<u8>>; 3],
    mins: [u64; 3],
    log_min: u64,
}

impl Model {
    fn new(flush: FlushMode, directories: usize) -> Self {
        let disk = FakeDisk::new(512);
        let commit_log_more = (1..directories).map(|number| format!("/more/{number}").into()).collect();
        let config = Config { flush, commit_log_more, ..small_config() };
        let store = Store::open(config.clone(), Arc::new(disk.clone())).unwrap();
        Self { disk, config, store, now_ms: 0, sent: Default::default(), mins: [0; 3], log_min: 0 }
    }

    fn settings() -> RetentionSettings {
        // Every hour is one to delete in.
        RetentionSettings {
            reserved_ms: 60 * MINUTE_MS,
            delete_hours: u32::MAX,
            ..RetentionSettings::default()
        }
    }

    fn round(&self, settings: &RetentionSettings, unconsumed: Option<LogOffset>) {
        let unconsumed_from = || unconsumed;
        let round =
            RetentionRound { now_ms: self.now_ms, hour: 0, asked: false, unconsumed_from: &unconsumed_from };
        let done = self.store.retain(settings, &round).unwrap();
        assert_eq!(done.min, self.store.min());
        let kept = unconsumed.filter(|_| settings.unconsumed == UnconsumedPolicy::Reject);
        assert!(kept.is_none_or(|kept| done.min <= kept.max(done.from)), "{done:?} {unconsumed:?}");
    }

    fn set_used(&self, percent: u64) {
        let (total, free) = (1 << 20, (100 - percent) * (1 << 20) / 100);
        let usage = Usage { device: 0, total, free, available: free };
        self.disk.faults(|faults| faults.usage = vec![("/".into(), usage)]);
    }

    fn reopen(&mut self, disk: FakeDisk) {
        disk.faults(|faults| faults.now_ms = self.now_ms);
        self.store = Store::open(self.config.clone(), Arc::new(disk.clone())).unwrap();
        self.store.wait_healed();
        self.disk = disk;
        // A crash may lose the end of the log.
        for (index, sent) in self.sent.iter_mut().enumerate() {
            let queue = self.store.queue(QUEUES[index].0, QUEUES[index].1).unwrap();
            sent.truncate(usize::try_from(queue.max().get()).unwrap());
        }
    }

    fn check(&mut self) {
        for (index, (topic, queue_id)) in QUEUES.iter().enumerate() {
            let queue = self.store.queue(topic, *queue_id).unwrap();
            let (min, max) = (queue.min().get(), queue.max().get());
            assert!(self.mins[index] <= min && min <= max, "{queue:?} began at {}", self.mins[index]);
            self.mins[index] = min;
            let expected = &self.sent[index][usize::try_from(min).unwrap()..];
            assert_eq!(bodies(&self.store, &queue, min), expected, "{queue:?}");
        }
        let log_min = self.store.min().get();
        assert!(log_min >= self.log_min);
        self.log_min = log_min;
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Append(index, count, size) => {
                let queue = self.store.queue(QUEUES[*index].0, QUEUES[*index].1).unwrap();
                for _ in 0..*count {
                    let number = self.sent[*index].len() as u64;
                    let mut body = number.to_be_bytes().to_vec();
                    body.resize(8 + size, 7);
                    assert_eq!(append(&self.store, &queue, &body, self.now_ms), number);
                    self.sent[*index].push(body);
                }
            }
            Op::Checkpoint => self.store.checkpoint().unwrap(),
            Op::Round(minutes) => {
                // What was appended minutes ago is on the disk; recovery relies on that.
                assert_eq!(flush(&self.store), FlushOutcome::Flushed);
                self.now_ms += minutes * MINUTE_MS;
                self.disk.faults(|faults| faults.now_ms = self.now_ms);
                self.round(&Self::settings(), None);
            }
            Op::FullDisk(percent, share) => {
                self.set_used(*percent);
                let held = self.store.appended().since(self.store.min());
                let unconsumed = Some(self.store.min() + held * share / 100);
                for policy in [UnconsumedPolicy::Reject, UnconsumedPolicy::Protect] {
                    self.round(&RetentionSettings { unconsumed: policy, ..Self::settings() }, unconsumed);
                }
                self.disk.faults(|faults| faults.usage.clear());
            }
            Op::Bytes(files) => {
                let settings = RetentionSettings { log_bytes_max: files * 4096, ..Self::settings() };
                self.round(&settings, None);
            }
            Op::Expire(index, minutes) => {
                let queue = self.store.queue(QUEUES[*index].0, QUEUES[*index].1).unwrap();
                let before_ms = self.now_ms - minutes * MINUTE_MS;
                let min = self.store.expire_queue(&queue, before_ms, queue.max()).unwrap();
                assert_eq!(min, queue.min());
            }
            Op::FreeSpace => while self.store.free_space().unwrap() != FreedSpace::Nothing {},
            Op::Reopen => {
                self.store.close().unwrap();
                self.reopen(self.disk.clone());
            }
            Op::Kill => self.reopen(self.disk.killed()),
            Op::PowerCut(seed) => {
                if seed % 2 == 0 {
                    assert_eq!(flush(&self.store), FlushOutcome::Flushed);
                }
                self.reopen(self.disk.power_cut(*seed));
            }
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn minima_never_go_back_and_what_they_promise_is_there(list in ops(), is_sync: bool, directories in 1usize..4) {
        let mut model = Model::new(if is_sync { FlushMode::Sync } else { FlushMode::Async }, directories);
        for op in &list {
            model.run(op);
        }
    }
}
